"""A scheduler from start to end: restarts, stops, the conditions of pending pods meanwhile, and what it shows of itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.described import described
from support.fakes import LATE_POINTS, FakeFilter, FakePostFilter, Late, config_with, node_manifest, pod_manifest
from support.stages import Stage, condition, metric

from koordsched._core.change import NodeChange
from koordsched.api.kinds import EVENT, NODE, POD, STORAGE_CLASS
from koordsched.clock import VirtualTimeLoop
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Patch, Ref
from koordsched.config.flags import parse_flags
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions
from koordsched.framework.status import Code, Status, unschedulable
from koordsched.scheduler import failure
from koordsched.scheduler.binding_cycle import MOST_QUEUEING
from koordsched.scheduler.context import MAX_BINDS_IN_FLIGHT
from koordsched.scheduler.cycle import PODS_A_TURN

NOT_HELPFUL = "no new claims to deallocate, preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."


def bound(world: EmbeddedCluster) -> dict[str, str]:
    return {raw["metadata"]["name"]: raw["spec"]["nodeName"] for raw in world.cluster.raws(POD) if raw["spec"].get("nodeName")}


def message(world: EmbeddedCluster, name: str = "p") -> str:
    return condition(world, name)[1]


# Restarts


async def test_a_new_scheduler_believes_what_the_old_one_did(stage: Stage) -> None:
    async with stage() as world:
        for i in range(3):
            await world.create(NODE, node_manifest(f"n{i}"))
        await world.start()
        for i in range(5):
            await world.create(POD, pod_manifest(f"p{i}", "2"))
        await world.settle()
        before = described(world.scheduler.cache)
        await world.restart()
        assert described(world.scheduler.cache) == before
        await world.create(POD, pod_manifest("last", "2"))
        await world.create(POD, pod_manifest("too-much", "2"))
        await world.settle()
        assert len(bound(world)) == 6
        assert max(info.requested("cpu") for info in world.scheduler.cache.nodes_by_name.values()) == 4000


async def test_a_scheduler_that_is_killed_while_it_binds_hands_out_nothing_twice(stage: Stage) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, delay=5.0))
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest("a", "3"))
        await world.settle()
        assert world.scheduler.cache.assumed_count == 1
        await world.restart()
        await world.create(POD, pod_manifest("b", "3"))
        await asyncio.sleep(30)
        assert len(bound(world)) == 1
        assert world.scheduler.cache.assumed_count == 0


async def test_a_nomination_still_keeps_its_room_after_a_restart(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.create(POD, pod_manifest("there", "2", nodeName="n1", priority=1000))
        high = pod_manifest("high", "4", priority=100, preemptionPolicy="Never")
        await world.create(POD, {**high, "status": {"phase": "Pending", "nominatedNodeName": "n1"}})
        await world.start()
        await world.restart()
        await world.create(POD, pod_manifest("low", "2"))
        await asyncio.sleep(60)
        assert "low" not in bound(world)
        await world.delete(Ref(POD, "default", "there"))
        await asyncio.sleep(60)
        assert bound(world) == {"high": "n1"}


async def test_pods_that_exist_at_the_start_are_tried_in_list_order(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1", "2"))
        for name in ("c", "a", "b"):
            await world.create(POD, pod_manifest(name))
        await world.start()
        await world.settle()
        assert sorted(bound(world)) == ["a", "b"]


# The end


async def test_stopping_leaves_pods_that_wait_on_permit_without_a_word(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (Status(Code.WAIT), 600.0)
    async with stage((late, LATE_POINTS)) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest())
        await world.settle()
        await world.stop()
        assert late.journal == ["reserve L", "permit L", "unreserve L"]
        assert world.cluster.raw(Ref(POD, "default", "p"))["status"].get("conditions", []) == []
        assert world.cluster.raws(EVENT) == []
        assert world.scheduler.cache.assumed_count == 0


async def test_stopping_logs_how_many_placements_it_leaves(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (Status(Code.WAIT), 600.0)
    async with stage((late, LATE_POINTS)) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        for name in ("a", "b"):
            await world.create(POD, pod_manifest(name))
        await world.settle()
        with capture_logs() as logs:
            await world.stop()
    reported = "placements that were not being written yet are left to the next scheduler"
    assert [each["pods"] for each in logs if each["event"] == reported] == [2]


async def test_stopping_does_not_wait_for_what_a_plugin_waits_for(stage: Stage) -> None:
    late = Late()
    late.gate = asyncio.Event()
    async with stage((late, LATE_POINTS), damaged=True) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest())
        await world.settle()
        began = world.clock.now()
        await world.stop()
        assert world.clock.now() - began < 1
        assert late.journal == ["reserve L", "permit L", "pre_bind L", "unreserve L"]
        assert bound(world) == {}
        assert world.cluster.raws(EVENT) == []


async def test_no_more_pods_are_placed_than_can_be_bound_soon(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        world.cluster.faults.rules.append(Fault(verb="bind", delay=5.0))
        await world.create(NODE, {**node_manifest("n1", "1000"), "status": {"allocatable": {"cpu": "2000", "pods": "2000"}}})
        most, pods = MAX_BINDS_IN_FLIGHT + 2 * MOST_QUEUEING, MAX_BINDS_IN_FLIGHT + 4 * MOST_QUEUEING
        for i in range(pods):
            await world.create(POD, pod_manifest(f"p{i}"))
        await world.start()
        await asyncio.sleep(1)
        assert MAX_BINDS_IN_FLIGHT < pods - world.scheduler.queue.sizes().active < most + 2 * PODS_A_TURN
        await asyncio.sleep(5 + 5 * pods / MAX_BINDS_IN_FLIGHT)
        assert len(bound(world)) == pods


async def test_stopping_leaves_binds_that_have_not_had_their_turn(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        world.cluster.faults.rules.append(Fault(verb="bind", delay=5.0))
        await world.create(NODE, {**node_manifest("n1", "1000"), "status": {"allocatable": {"cpu": "1000", "pods": "1000"}}})
        await world.start()
        for i in range(MAX_BINDS_IN_FLIGHT + 50):
            await world.create(POD, pod_manifest(f"p{i}"))
        await asyncio.sleep(1)
        assert world.scheduler.queue.sizes().active == 0
        assert world.scheduler.has_backlog
        began = world.clock.now()
        await world.stop()
        assert world.clock.now() - began < 5
        assert not world.scheduler.has_backlog
        assert len(bound(world)) == MAX_BINDS_IN_FLIGHT
        assert [event["reason"] for event in world.cluster.raws(EVENT)] == ["Scheduled"] * MAX_BINDS_IN_FLIGHT
        assert not [raw for raw in world.cluster.raws(POD) if raw["status"].get("conditions") and not raw["spec"].get("nodeName")]


async def test_stopping_finishes_what_is_being_bound(stage: Stage) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, delay=5.0))
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest())
        await world.settle()
        await world.stop()
        assert bound(world) == {"p": "n1"}
        assert [event["reason"] for event in world.cluster.raws(EVENT)] == ["Scheduled"]


async def test_killing_finishes_nothing(stage: Stage) -> None:
    late = Late()
    late.gate = asyncio.Event()
    async with stage((late, LATE_POINTS)) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest())
        await world.settle()
        await world.scheduler.kill()
        late.gate.set()
        await asyncio.sleep(10)
        assert bound(world) == {}
        assert "unreserve L" not in late.journal


# What it measures


async def test_the_handling_of_every_event_is_measured_by_its_name(stage: Stage) -> None:
    async with stage() as world:
        await world.start()
        await world.create(STORAGE_CLASS, {"metadata": {"name": "local"}, "provisioner": "p"})
        await world.create(POD, pod_manifest("p", schedulingGates=[{"name": "a.b/c"}]))
        await world.settle()
        await world.cluster.patch(Ref(POD, "default", "p"), Patch({"spec": {"schedulingGates": None}}))
        await world.delete(Ref(STORAGE_CLASS, "", "local"))
        await world.settle()
        for event in (
            "storage.k8s.io/StorageClassAdd",
            "storage.k8s.io/StorageClassDelete",
            "UnschedulablePodAdd",
            "UnschedulablePodUpdatePodSchedulingGatesEliminated",
        ):
            assert metric(world, f'scheduler_event_handling_duration_seconds_count{{event="{event}"}}') == 1
        assert metric(world, 'scheduler_event_handling_duration_seconds_count{event="UnschedulablePodUpdate"}') >= 1


# The conditions of pending pods


async def test_reasons_follow_the_nodes_without_an_attempt(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest("p", nodeSelector={"disk": "ssd"}))
        await world.create(POD, pod_manifest("q", nodeSelector={"disk": "ssd"}))
        await world.settle()
        old = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
        assert message(world) == f"{old} {NOT_HELPFUL.format(nodes=1)}"
        attempts = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}'
        tried = metric(world, attempts)
        await world.create(NODE, {**node_manifest("n2", disk="ssd"), "spec": {"unschedulable": True}})
        await asyncio.sleep(2)
        new = "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable."
        new = f"{new} {NOT_HELPFUL.format(nodes=2)}"
        assert [message(world), message(world, "q")] == [new, new]
        assert metric(world, attempts) == tried
        notes = [event["note"] for event in world.cluster.raws(EVENT)]
        assert notes.count(new) == 2


@pytest.mark.parametrize("of_all", [4, 300])
async def test_of_several_large_groups_every_pod_gets_its_new_reason(stage: Stage, monkeypatch: pytest.MonkeyPatch, of_all: int) -> None:
    monkeypatch.setattr(failure, "PODS_A_TURN", 3)
    monkeypatch.setattr(failure, "PODS_OF_ALL_A_TURN", of_all)
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        names = {f"{disk}{i}": disk for disk in ("ssd", "hdd") for i in range(7)}
        for name, disk in names.items():
            await world.create(POD, pod_manifest(name, nodeSelector={"disk": disk}))
        await world.settle()
        for disk in ("ssd", "hdd"):
            await world.create(NODE, {**node_manifest(f"of-{disk}", disk=disk), "spec": {"unschedulable": True}})
        await asyncio.sleep(20)
        new = "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) were unschedulable."
        assert {name: message(world, name) for name in names} == dict.fromkeys(names, f"{new} {NOT_HELPFUL.format(nodes=3)}")


async def test_of_many_groups_a_few_pods_a_turn_get_their_new_reason(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure, "PODS_OF_ALL_A_TURN", 5)
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        names = [f"p{i}" for i in range(20)]
        for name in names:
            await world.create(POD, pod_manifest(name, nodeSelector={"disk": name}))
        await world.settle()
        before = world.cluster.calls["patch status", POD]
        await world.create(NODE, {**node_manifest("n2"), "spec": {"unschedulable": True}})
        await asyncio.sleep(1.5)
        assert world.cluster.calls["patch status", POD] - before == 5
        await asyncio.sleep(20)
        assert world.cluster.calls["patch status", POD] - before == len(names)
        assert all(message(world, name).startswith("0/2 nodes are available: ") for name in names)


async def test_reasons_that_one_pods_attempt_found_are_written_to_those_of_its_shape(stage: Stage) -> None:
    judge = FakeFilter("F", n1=unschedulable("full"))  # registers no event: nothing asks it in between
    async with stage((judge, "filter")) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest("p"))
        await world.settle()
        assert message(world).startswith("0/1 nodes are available: 1 full.")
        judge.refuse["n1"] = unschedulable("busy")
        cache = world.scheduler.cache
        cache.table.mark(cache.nodes_by_name["n1"].row, NodeChange.ALL)
        await world.create(POD, pod_manifest("q"))
        await asyncio.sleep(2)
        assert message(world, "q").startswith("0/1 nodes are available: 1 busy.")
        assert message(world, "p") == message(world, "q")


async def test_reasons_are_written_at_most_once_a_second(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest("p", "4", nodeSelector={"disk": "ssd"}))
        await world.settle()
        before = world.cluster.calls["patch status", POD]
        for i in range(20):
            await world.create(NODE, {**node_manifest(f"m{i}", "4", disk="ssd"), "spec": {"unschedulable": True}})
            await asyncio.sleep(0.01)
        await asyncio.sleep(3)
        assert message(world).startswith(
            "0/21 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 20 node(s) were unsched"
        )
        assert world.cluster.calls["patch status", POD] - before == 1


async def test_a_profile_with_post_filter_reports_only_what_an_attempt_found(stage: Stage) -> None:
    class Silent(FakePostFilter):
        def may_help(self, pod: Any, diagnosis: Any) -> bool:
            return False

    savior = Silent("Q", (None, unschedulable("preemption: no")))  # what it would say only an attempt can find out
    async with stage((savior, "postFilter")) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest("p", "4", nodeSelector={"disk": "ssd"}))
        await world.settle()
        first = message(world)
        await world.create(NODE, {**node_manifest("n2", "4", disk="ssd"), "spec": {"unschedulable": True}})
        await asyncio.sleep(3)
        assert first == message(world)
        assert first.endswith("not helpful for scheduling., preemption: no")


# What it shows


async def test_the_metrics_of_a_day(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        await world.create(POD, pod_manifest("fits"))
        await world.create(POD, pod_manifest("big", "9"))
        await world.create(POD, {**pod_manifest("gated"), "spec": {**pod_manifest()["spec"], "schedulingGates": [{"name": "wait"}]}})
        await world.settle()
        assert metric(world, 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}') == 1
        assert metric(world, 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}') == 1
        assert metric(world, "scheduler_scheduling_algorithm_duration_seconds_count") == 2
        assert [
            metric(world, f'scheduler_pending_pods{{queue="{queue}"}}') for queue in ("active", "backoff", "unschedulable", "gated")
        ] == [0, 0, 1, 1]
        assert [metric(world, f'scheduler_cache_size{{type="{kind}"}}') for kind in ("nodes", "pods", "assumed_pods")] == [1, 1, 0]
        assert metric(world, 'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}') == 1
        assert metric(world, 'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"}') == 1
        await world.delete(Ref(POD, "default", "big"))
        await world.settle()
        assert metric(world, 'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"}') == 0


@pytest.mark.parametrize("early", [True, False], ids=["pop-from-backoff", "not"])
async def test_a_pod_that_backs_off_is_tried_early_only_with_the_gate(early: bool) -> None:
    flags = parse_flags([f"--feature-gates=SchedulerPopFromBackoffQ={str(early).lower()}"])
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    world = EmbeddedCluster(loop, EmbeddedOptions(config=config_with({}), flags=flags))
    await world.create(NODE, node_manifest("n1", "1"))
    await world.start()
    await world.create(POD, pod_manifest("p", "2"))
    await world.settle()
    await world.create(NODE, node_manifest("n2"))
    await world.settle()
    assert bound(world) == ({"p": "n2"} if early else {})
    await asyncio.sleep(3)
    assert bound(world) == {"p": "n2"}
    await world.stop()


@pytest.mark.parametrize("measured", [True, False])
async def test_durations_of_plugins_are_recorded_only_where_they_are_read(measured: bool) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    world = EmbeddedCluster(loop, EmbeddedOptions(config=config_with({}), flags=parse_flags([]), measured=measured))
    await world.create(NODE, node_manifest("n1"))
    await world.start()
    for number in range(4):
        await world.create(POD, pod_manifest(f"p{number}", "1"))
    await world.settle()
    assert len(bound(world)) == 4
    assert ("scheduler_plugin_execution_duration_seconds_count{" in world.scheduler.metrics.text().decode()) is measured
    await world.stop()
