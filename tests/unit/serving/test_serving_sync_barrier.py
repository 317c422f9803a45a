"""The sync barrier of a new leader (frameworkext.md §1.4, §10 line 39)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.fakes import pod_manifest

from koordsched.api.kinds import POD
from koordsched.clock import RealClock
from koordsched.cluster.memory import Fault, MemoryCluster
from koordsched.cluster.port import Patch, Ref, ServerError
from koordsched.config.flags import parse_flags
from koordsched.serve.sync_barrier import ANNOTATION, SyncBarrier

GATE = "--feature-gates=SyncBarrier=true"
BARRIER = Ref(POD, "default", "barrier")


class Watching:
    """A scheduler whose watch is some looks behind."""

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self.asked: list[str] = []

    def has_seen_pods_until(self, version: str) -> bool:
        self.asked.append(version)
        return len(self.asked) > self.behind


def barrier(*arguments: str) -> SyncBarrier:
    found = SyncBarrier.of(
        parse_flags([GATE, "--sync-barrier-pod-namespace=default", "--sync-barrier-pod-name=barrier", *arguments]), "koord-scheduler"
    )
    assert found is not None
    return found


async def cluster(**more: Any) -> MemoryCluster:
    made = MemoryCluster(RealClock(), random=Random(1))
    await made.create(POD, {**pod_manifest("barrier"), **more})
    return made


async def test_it_waits_until_the_watch_has_come_as_far_as_the_annotation(logged: Any) -> None:
    there, watching = await cluster(), Watching(behind=2)
    await barrier().wait(there, RealClock(), watching)
    raw = there.raw(BARRIER)
    assert list(raw["metadata"]["annotations"]) == [f"{ANNOTATION}koord-scheduler"]
    assert watching.asked == [raw["metadata"]["resourceVersion"]] * 3
    assert logged.of("info") == ["the sync barrier is passed: all that was bound before is known"]


async def test_without_the_pod_scheduling_begins_at_once(logged: Any) -> None:
    watching = Watching(behind=100)
    await barrier().wait(MemoryCluster(RealClock(), random=Random(1)), RealClock(), watching)
    assert watching.asked == []
    assert logged.of("warning") == ["there is no barrier pod: scheduling begins with what is known"]


async def test_a_pod_that_has_ended_is_none_as_no_watch_shows_it(logged: Any) -> None:
    there, watching = await cluster(), Watching(behind=100)
    await there.patch(BARRIER, Patch({"status": {"phase": "Succeeded"}}, subresource="status"))
    await barrier().wait(there, RealClock(), watching)
    assert watching.asked == []
    assert len(logged.of("warning")) == 1


async def test_errors_of_the_api_server_are_tried_again_until_the_time_is_over(logged: Any) -> None:
    there = await cluster()
    there.faults.rules.append(Fault(verb="patch", kind=POD, times=2, error=lambda: ServerError("down")))
    watching = Watching(behind=0)
    await barrier().wait(there, RealClock(), watching)
    assert len(watching.asked) == 1
    there.faults.rules.append(Fault(verb="patch", kind=POD, times=100, error=lambda: ServerError("down")))
    await barrier("--sync-hard-timeout=250ms").wait(there, RealClock(), watching)
    assert len(watching.asked) == 1
    assert logged.of("warning") == ["the sync barrier was not passed in time: scheduling begins with what is known"]


async def test_a_watch_that_never_comes_as_far_costs_the_hard_timeout(logged: Any) -> None:
    await barrier("--sync-hard-timeout=250ms").wait(await cluster(), RealClock(), Watching(behind=100))
    assert logged.of("warning") == ["the sync barrier was not passed in time: scheduling begins with what is known"]


@pytest.mark.parametrize("arguments", [[], [GATE, "--sync-barrier-pod-name="], ["--feature-gates=SyncBarrier=false"]])
def test_there_is_none_without_the_gate_or_a_name(arguments: list[str]) -> None:
    assert SyncBarrier.of(parse_flags(arguments), "koord-scheduler") is None


def test_the_pod_is_the_one_in_kube_system_unless_said_otherwise() -> None:
    found = SyncBarrier.of(parse_flags([GATE]), "koord-scheduler")
    assert found == SyncBarrier(Ref(POD, "kube-system", "koord-scheduler-sync-barrier"), "koord-scheduler", 60.0)
