"""Small parts of the scheduler whose exact behaviour larger tests do not look at."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.builders import node, pod
from support.drift import check_all
from support.fakes import Late, node_manifest, pod_manifest
from support.known import known
from support.stages import Stage, begin, condition, metric, ref

from koordsched.api.kinds import NODE, POD
from koordsched.api.podinfo import PodInfo
from koordsched.clock import VirtualClock
from koordsched.cluster.memory import Fault, MemoryCluster
from koordsched.cluster.port import Ref, ServerError
from koordsched.config.types import ExtenderConfig
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.status import Code, Status
from koordsched.metrics import MetricRules
from koordsched.scheduler.debugger.comparison import Comparison
from koordsched.scheduler.debugger.debugger import _log_comparison
from koordsched.scheduler.debugger.standing_check import mend
from koordsched.scheduler.extenders.extender import Extender
from koordsched.scheduler.extenders.transport import Reply
from koordsched.scheduler.metrics import Metrics
from koordsched.scheduler.origins import PodStatusUpdate
from koordsched.scheduler.status_writer import StatusWriter
from koordsched.slices import Slices

N1 = Ref(NODE, "", "n1")


# The status writer


async def test_a_nomination_is_written_with_the_words_that_are_not_written_yet(clock: VirtualClock) -> None:
    cluster = MemoryCluster(clock, random=Random(1))
    writer = StatusWriter(cluster, clock, Random(1))
    made = await cluster.create(POD, {**pod_manifest(), "status": {"phase": "Pending"}})
    writer.update(made, PodStatusUpdate("Unschedulable", "full"))  # type: ignore[arg-type] # a pod
    writer.nominate(PodInfo(made), "n1")  # type: ignore[arg-type] # a pod
    await writer.flush()
    status = cluster.raw(ref())["status"]
    assert status["nominatedNodeName"] == "n1"
    assert [(each["reason"], each["message"]) for each in status["conditions"]] == [("Unschedulable", "full")]
    assert cluster.calls["patch status", POD] == 1


async def test_a_nomination_alone_is_written_without_a_condition(clock: VirtualClock) -> None:
    cluster = MemoryCluster(clock, random=Random(1))
    writer = StatusWriter(cluster, clock, Random(1))
    made = await cluster.create(POD, {**pod_manifest(), "status": {"phase": "Pending"}})
    writer.nominate(PodInfo(made), "n1")  # type: ignore[arg-type] # a pod
    await writer.flush()
    assert cluster.raw(ref())["status"] == {"phase": "Pending", "nominatedNodeName": "n1"}


# Metrics


def test_a_disabled_metric_is_not_shown() -> None:
    name = "scheduler_preemption_attempts_total"
    assert name in Metrics().text().decode()
    assert name not in Metrics(MetricRules(frozenset({name}))).text().decode()


async def test_searches_with_and_without_a_node_are_counted_with_their_seconds(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("p"), pod_manifest("big", "9"))
        metrics = world.scheduler.metrics
        assert metrics.decisions == 2
        assert 0.0 < metrics.decision_seconds_sum < 30.0
        assert metric(world, "scheduler_scheduling_algorithm_duration_seconds_count") == 2


# The debugger


async def test_a_bound_pod_that_the_cache_knows_in_an_older_version_is_found(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await begin(world, pod_manifest("p"))
        (state,) = world.scheduler.cache.pods.values()
        latest = state.info.pod.metadata.resource_version
        state.info.pod = replace(state.info.pod, metadata=replace(state.info.pod.metadata, resource_version="1"))
        state.node.pods[state.info.uid].pod = state.info.pod
        found = await world.scheduler.debugger.compare_with_watch()
        facts = [(wrong.node, wrong.column, wrong.cached, wrong.actual) for wrong in found.wrong_nodes]
        assert facts == [("n1", "version of pod default/p", "1", latest)]


async def test_pending_pods_of_which_the_queue_has_older_versions_are_listed_by_name(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await begin(world, *(pod_manifest(name, "9") for name in ("c", "a", "b")))
        for name in ("c", "a", "b"):
            info = known(world.scheduler.queue.get(f"default/{name}"))
            old = info.pod_info.pod
            info.pod_info.pod = replace(old, metadata=replace(old.metadata, resource_version="1"))
        found = await world.scheduler.debugger.compare_with_watch()
        assert [(stale.object.partition(" ")[0], stale.watched) for stale in found.stale] == [
            ("default/a", "1"),
            ("default/b", "1"),
            ("default/c", "1"),
        ]


async def test_a_pod_that_ended_unseen_is_taken_out_although_it_still_exists(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("p"))
        world.cluster.faults.rules.append(Fault(verb="watch", kind=POD, error=lambda: ServerError("down")))
        world.cluster.cut_watches(lambda: ServerError("cut"))
        await asyncio.sleep(0.01)
        await world.patch(ref(), {"status": {"phase": "Succeeded"}})
        await check_all(world)
        assert "default/p" not in world.scheduler.pods
        assert world.scheduler.cache.pods == {}
        assert metric(world, 'koord_scheduler_cache_drift_total{kind="watch"}') == 1


# Nominations


async def test_only_pods_of_the_same_or_a_lower_priority_hear_of_a_nomination_that_ends(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1", "4"))
        nominated = pod_manifest("nominated", "9", priority=100, preemptionPolicy="Never")
        await world.create(POD, {**nominated, "status": {"phase": "Pending", "nominatedNodeName": "n1"}})
        await world.start()
        moved: list[tuple[Any, ...]] = []
        move_all = world.scheduler.queue.move_all

        def noting(*args: Any) -> None:
            moved.append(args)
            move_all(*args)

        world.scheduler._context.queue.move_all = noting  # type: ignore[method-assign, assignment] # to see what is said
        await world.settle()
        await world.delete(N1)
        await world.settle()
    (event, old, new, scope) = next(args for args in moved if args[0].label == "AssignedPodDelete")
    assert (event.label, old.metadata.name, old.status.nominated_node_name, new) == ("AssignedPodDelete", "nominated", "n1", None)
    assert scope.max_priority == 100


# Extenders


@pytest.mark.parametrize(
    ("prefix", "url"), [("http://e/", "http://e/filter"), ("http://e/X//", "http://e/X/filter"), ("http://e", "http://e/filter")]
)
async def test_an_extenders_address_is_its_prefix_a_slash_and_the_verb(prefix: str, url: str) -> None:
    class Noting:
        def __init__(self) -> None:
            self.asked: list[str] = []

        async def post(self, url: str, _body: bytes) -> Reply:
            self.asked.append(url)
            return Reply(200, b'{"NodeNames": ["n1"]}')

    transport: Any = Noting()
    extender = Extender(ExtenderConfig(url_prefix=prefix, filter_verb="filter", node_cache_capable=True), transport=transport)
    answer = await extender.filter(pod("p").build(), [node("n1").build()])
    assert (answer.remaining, transport.asked[-1]) == (("n1",), url)


# Comparisons


@pytest.mark.parametrize(("count", "more"), [(99, []), (100, []), (101, ["and 1 more"]), (150, ["and 50 more"])])
def test_a_log_line_of_a_comparison_lists_a_hundred_findings_and_counts_the_rest(count: int, more: list[str]) -> None:
    names = [f"n{i:03}" for i in range(count)]
    with capture_logs() as logs:
        _log_comparison(Comparison(missed_nodes=tuple(names), nodes=count))
    (reported,) = logs
    assert (reported["event"], reported["log_level"]) == ("cache comparison: different from the cluster", "warning")
    assert list(reported["missed_nodes"]) == names[:100] + more


async def test_a_pod_that_exists_and_waits_is_left_in_the_queue_when_its_namesakes_uid_is_mended(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("big", "9"))
        uid = known(world.scheduler.queue.get("default/big")).uid
        scheduler = world.scheduler
        counted: list[str] = []
        found = Comparison(redundant_pods=("default/big (stranger)", f"default/big ({uid})"))
        await mend(scheduler._sources(), found, counted.append, Slices(scheduler.clock.perf))
        assert known(scheduler.queue.get("default/big")).uid == uid
        assert counted == []


# Handlers


async def test_a_pod_that_begins_to_terminate_while_it_waits_on_permit_is_reported_as_removed(stage: Stage) -> None:
    class Looking(Late):
        def __init__(self) -> None:
            super().__init__()
            self.counted: list[bool] = []

        def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
            self.counted.append(world.scheduler.cache.is_assumed(pod.uid))

    late = Looking()
    late.permit_answer = (Status(Code.WAIT), 60.0)
    held = pod_manifest()
    held["metadata"]["finalizers"] = ["example.com/held"]
    async with stage((late, "reserve permit")) as world:
        await begin(world, held)
        await world.delete(ref())
        await world.settle()
        assert condition(world) == ("Unschedulable", "0/1 nodes are available: 1 removed.")
        assert len(world.scheduler._context.waiting_pods) == 0
        assert world.scheduler.cache.pods == {}
        assert late.counted == [True], "plugins give back what they reserved before others hear of the room"
        await asyncio.sleep(20)  # a backoff
        assert world.scheduler.queue.get("default/p") is None, "no event would move a pod that is parked"
