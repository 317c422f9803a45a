"""The failure path (frameworkext.md §4.1): nominations of pods that are rejected for their job, and events that plugins add."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.fakes import FakeFilter, Late, node_manifest, pod_manifest
from support.stages import Stage, begin, bound_to, ref

from koordsched.api.kinds import EVENT, NODE, POD
from koordsched.cluster.event_series import EventText
from koordsched.framework.interface import FailureEventPlugin
from koordsched.framework.status import Code, Status, unschedulable

if TYPE_CHECKING:
    from koordsched.api.core import Pod

WAIT = Status(Code.WAIT)
ADDED = "FailedScheduling-Reservation"
FAILURE = "JobPreemptionFailurePlugin"


@pytest.mark.parametrize(
    ("plugin", "before", "nominated"),
    [
        ("JobPreemptionSuccessPlugin", "", "n1"),
        ("JobRejectPlugin", "", ""),
        ("JobRejectPlugin", "n1", "n1"),
        (FAILURE, "n1", ""),
        ("L", "n1", ""),
        ("", "n1", ""),
    ],
)
async def test_who_rejects_a_waiting_pod_decides_about_its_nomination(stage: Stage, plugin: str, before: str, nominated: str) -> None:
    """What was written while it waited, that it would go to n1, stays only where evictions have made room there for its job."""
    late = Late()
    late.permit_answer = (WAIT, 60.0)
    async with stage((late, "permit")) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.create(POD, pod_manifest() | ({"status": {"nominatedNodeName": before}} if before else {}))
        await world.start()
        await world.settle()
        (waiting,) = world.scheduler._context.waiting_pods
        late.permit_answer = (unschedulable("again"), 0.0)
        waiting.reject(plugin, "another one was refused")
        await world.settle()
        assert bound_to(world) == ""
        assert world.cluster.raw(ref())["status"].get("nominatedNodeName", "") == nominated
        assert world.scheduler.queue.nominator.node_of(world.cluster.raw(ref())["metadata"]["uid"]) == nominated


class Adding(FakeFilter, FailureEventPlugin):
    """Adds an event, of a reason that there is, where the message has a word."""

    def failure_event(self, pod: Pod, message: str) -> EventText | None:
        note = "0/1 reservations are available: " + "x" * 2000
        return EventText("Warning", ADDED, "Scheduling", note) if "cpu" in message else None


async def test_a_plugin_may_add_an_event_of_at_most_1024_bytes_where_a_pod_failed(stage: Stage) -> None:
    async with stage((Adding(), "filter postFilter")) as world:
        await begin(world, pod_manifest("large", "100"), pod_manifest("small"), pod_manifest("no", nodeSelector={"no": "node"}))
        await world.settle()
        events = {(event["reason"], event["regarding"]["name"]): event["note"] for event in world.cluster.raws(EVENT)}
        assert ("FailedScheduling", "large") in events
        assert ("FailedScheduling", "no") in events
        (added,) = [key for key in events if key[0] == ADDED]
        assert added[1] == "large"
        assert len(events[added]) == 1024
        assert events[added].endswith("xxx ...")
