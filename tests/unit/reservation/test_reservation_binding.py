"""A Reservation is given its node, and says why it has none: the writes of the origin of reserve pods (reservation.md §5, §10)."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from koordsched.api.kinds import RESERVATION
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.koordinator.reserve_pods import reserve_pod
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.memory import Fault, MemoryCluster
from koordsched.cluster.memory.faults import Moment
from koordsched.cluster.port import Conflict, Forbidden, OutcomeUnknown, Patch, PatchType, Ref
from koordsched.plugins.reservation.reserve_pods import NOT_ACTIVE, NOTHING_REQUESTED, TRIES, ReservationBinder
from koordsched.scheduler.origins import RESERVATIONS, PodStatusUpdate, origin_of

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock
    from koordsched.framework.status import Status

R = Ref(RESERVATION, "", "r")
RESIZE = "scheduling.koordinator.sh/reservation-resize-allocatable"


class Bench:
    """A cluster with a Reservation of cpu 2 and memory 4Gi, its pod, and what gives it a node."""

    def __init__(self, clock: VirtualClock) -> None:
        self.cluster = MemoryCluster(clock, random=Random(1))
        self.store: dict[str, Reservation] = {}
        handle: Any = SimpleNamespace(
            cluster=self.cluster, clock=clock, random=Random(1), informer=lambda _kind: SimpleNamespace(store=self.store)
        )
        self.binder = ReservationBinder(handle)
        self.clock = clock

    async def create(self, resources: dict[str, Any] | None = None, annotations: dict[str, str] | None = None) -> PodInfo:
        resources = {"requests": {"cpu": "2", "memory": "4Gi"}} if resources is None else resources
        template = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
        metadata = {"name": "r", "annotations": annotations or {}}
        made = await self.cluster.create(
            RESERVATION, {"metadata": metadata, "spec": {"template": template, "owners": [{"object": {"name": "p"}}]}}
        )
        self.store["r"] = cast("Reservation", made)
        return PodInfo.of_reservation(self.store["r"])

    async def patch(self, body: dict[str, Any], subresource: str = "") -> None:
        await self.cluster.patch(R, Patch(body, PatchType.MERGE, subresource))

    async def bind(self, pod: PodInfo, node: str = "n1") -> Status | None:
        return await self.binder.bind(pod, node)

    async def report(self, pod: PodInfo, message: str) -> None:
        await RESERVATIONS.report(self.cluster, pod.pod, PodStatusUpdate("Unschedulable", message), self.clock.now())

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.cluster.raw(R).get("status", {}))

    @property
    def patches(self) -> int:
        return self.cluster.calls["patch status", RESERVATION]


async def test_it_is_available_on_the_node_with_what_it_holds_there(clock: VirtualClock) -> None:
    bench = Bench(clock)
    assert await bench.bind(await bench.create()) is None
    now = "2026-01-01T00:00:00Z"
    times = {"lastProbeTime": now, "lastTransitionTime": now}
    assert bench.status == {
        "phase": "Available",
        "nodeName": "n1",
        "allocatable": {"cpu": "2", "memory": "4Gi"},
        "conditions": [
            {"type": "Scheduled", "status": "True", "reason": "Scheduled", **times},
            {"type": "Ready", "status": "True", "reason": "Available", **times},
        ],
    }
    assert (bench.patches, bench.cluster.calls["get", RESERVATION]) == (1, 0)


async def test_amounts_of_the_annotation_replace_those_of_the_template(clock: VirtualClock) -> None:
    bench = Bench(clock)
    assert await bench.bind(await bench.create(annotations={RESIZE: '{"resources": {"cpu": "3", "a.b/c": "1"}}'})) is None
    assert bench.status["allocatable"] == {"cpu": "3", "memory": "4Gi", "a.b/c": "1"}


@pytest.mark.parametrize("text", ["{", '{"resources": {"cpu": "much"}}'])
async def test_an_annotation_of_amounts_that_cannot_be_read_is_an_error(clock: VirtualClock, text: str) -> None:
    bench = Bench(clock)
    status = await bench.bind(await bench.create(annotations={RESIZE: text}))
    assert status is not None
    assert not status.rejected
    assert "nodeName" not in bench.status


async def test_its_condition_says_that_limits_alone_reserve_nothing(clock: VirtualClock) -> None:
    bench = Bench(clock)
    assert await bench.bind(await bench.create({"limits": {"cpu": "1"}})) is None
    assert bench.status["conditions"][0]["message"] == NOTHING_REQUESTED


async def test_what_another_writer_changed_meanwhile_is_read_and_kept(clock: VirtualClock) -> None:
    bench = Bench(clock)
    pod = await bench.create()
    await bench.patch({"metadata": {"annotations": {RESIZE: '{"resources": {"cpu": "5"}}'}}})
    assert await bench.bind(pod) is None
    assert bench.status["allocatable"]["cpu"] == "5"
    assert bench.patches == 2


async def test_an_answer_that_was_lost_is_found_out(clock: VirtualClock) -> None:
    bench = Bench(clock)
    pod = await bench.create()
    bench.cluster.faults.rules.append(Fault(verb="patch status", times=1, moment=Moment.AFTER, error=lambda: OutcomeUnknown("lost")))
    assert await bench.bind(pod) is None
    assert bench.status["nodeName"] == "n1"
    assert bench.patches == 1


async def test_it_is_asked_until_it_is_known_what_became_of_the_patch(clock: VirtualClock) -> None:
    """All later requests fail for a minute: the binding must not be undone while the Reservation may have its node."""
    bench = Bench(clock)
    pod = await bench.create()
    bench.cluster.faults.rules.append(Fault(verb="patch status", moment=Moment.AFTER, error=lambda: OutcomeUnknown("lost")))
    bench.cluster.faults.rules.append(Fault(verb="get", times=30, error=lambda: OutcomeUnknown("lost")))
    bind = asyncio.ensure_future(bench.bind(pod))
    await asyncio.sleep(30)
    assert not bind.done()
    await asyncio.sleep(600)
    assert bind.done()
    assert bind.result() is None


async def test_a_refusal_for_good_is_an_error_at_once(clock: VirtualClock) -> None:
    bench = Bench(clock)
    pod = await bench.create()
    bench.cluster.faults.rules.append(Fault(verb="patch status", error=lambda: Forbidden("no rights")))
    status = await bench.bind(pod)
    assert status is not None
    assert status.message == "no rights"
    assert bench.patches == 1


async def test_conflicts_without_end_are_given_up(clock: VirtualClock) -> None:
    bench = Bench(clock)
    pod = await bench.create()
    bench.cluster.faults.rules.append(Fault(verb="patch status", error=lambda: Conflict("another was faster")))
    status = await bench.bind(pod)
    assert status is not None
    assert status.message == "another was faster"
    assert bench.patches == TRIES


async def test_one_that_has_failed_is_given_no_node(clock: VirtualClock) -> None:
    bench = Bench(clock)
    pod = await bench.create()
    await bench.patch({"status": {"phase": "Failed"}}, "status")
    status = await bench.bind(pod)
    assert status is not None
    assert status.message == NOT_ACTIVE
    assert bench.status == {"phase": "Failed"}


async def test_one_that_is_gone_or_another_one_by_now_is_given_no_node(clock: VirtualClock) -> None:
    bench = Bench(clock)
    pod = await bench.create()
    await bench.cluster.delete(R)
    gone = await bench.bind(pod)
    await bench.create()
    another = await bench.bind(pod)
    assert gone is not None
    assert another is not None
    assert "not found" in gone.message
    assert another.message == 'reservation "r" is another one by now'
    assert "nodeName" not in bench.status


# Why it has no node


async def test_why_it_has_no_node_is_a_condition_whose_transition_time_stays(clock: VirtualClock) -> None:
    bench = Bench(clock)
    pod = await bench.create()
    await bench.report(pod, "0/1 nodes are available: 1 full.")
    await asyncio.sleep(60)
    await bench.report(pod, "0/2 nodes are available: 2 full.")  # of the version before: the Reservation is read again
    (condition,) = bench.status["conditions"]
    assert condition == {
        "type": "Scheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 full.",
        "lastProbeTime": "2026-01-01T00:01:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assert origin_of(pod.pod) is RESERVATIONS
    made = reserve_pod(cast("Reservation", await bench.cluster.get(R)))
    assert RESERVATIONS.reported(made) == PodStatusUpdate("Unschedulable", "0/2 nodes are available: 2 full.", "")


async def test_nothing_is_said_of_one_that_has_its_node_by_now(clock: VirtualClock) -> None:
    bench = Bench(clock)
    pod = await bench.create()
    assert await bench.bind(pod) is None
    await bench.report(pod, "late")
    assert [condition["status"] for condition in bench.status["conditions"]] == ["True", "True"]


async def test_a_nomination_is_not_written(clock: VirtualClock) -> None:
    bench = Bench(clock)
    pod = await bench.create()
    await RESERVATIONS.report(bench.cluster, pod.pod, PodStatusUpdate(nominated="n1"), clock.now())
    assert bench.patches == 0
