"""Admission by a gang that must be complete, by a quota that must have room, and by both, in a whole scheduler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from support.admission import GangAdmission, QuotaAdmission
from support.fakes import FakeFilter, Late, node_manifest, pod_manifest
from support.known import known
from support.stages import Stage, begin, bound_to, condition, metric, nodes_of_pods, ref

from koordsched._core.change import NodeChange
from koordsched.api.kinds import NODE, POD
from koordsched.framework.status import Code, Status, unschedulable
from koordsched.queue.events import ActionType, EventHint, EventResource, cluster_event
from koordsched.queue.queued_pod import QueuePlace

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle

NO_VICTIMS = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
NO_HELP = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


def labelled(name: str, cpu: str = "1", **labels: str) -> dict[str, Any]:
    """Return a pod with these labels; `gang_size` is the label gang-size."""
    manifest = pod_manifest(name, cpu)
    manifest["metadata"]["labels"] = {key.replace("_", "-"): value for key, value in labels.items()}
    return manifest


async def test_a_gang_is_refused_until_it_is_complete_and_then_no_other_gang_is_asked(stage: Stage) -> None:
    gangs = GangAdmission()
    async with stage((gangs, "preFilter")) as world:
        await begin(world, labelled("a0", gang="a", gang_size="2"), labelled("b0", gang="b", gang_size="2"))
        assert condition(world, "a0") == ("Unschedulable", f"0/1 nodes are available: gang a has 1 of 2 members. {NO_HELP}")
        assert metric(world, 'scheduler_unschedulable_pods{plugin="GangAdmission",profile="default-scheduler"}') == 2
        await asyncio.sleep(20)
        asked = gangs.asked
        await world.create(NODE, node_manifest("n2"))
        await world.settle()
        assert gangs.asked == asked, "no node helps"
        await world.create(POD, labelled("a1", gang="a", gang_size="2"))
        await asyncio.sleep(1)
        assert bound_to(world, "a0")
        assert bound_to(world, "a1")
        assert bound_to(world, "b0") == ""
        # once when it was announced, and once each as a0 and a1 were popped and tried (a0, as it was moved, twice)
        assert gangs.asked - asked == 4
        assert metric(world, 'scheduler_unschedulable_pods{plugin="GangAdmission",profile="default-scheduler"}') == 1


async def test_a_quota_lets_as_many_pods_pass_as_it_has_room_for(stage: Stage) -> None:
    quotas = QuotaAdmission(x=2, y=1)
    async with stage((quotas, "preFilter reserve")) as world:
        pods = [labelled(f"x{i}", quota="x") for i in range(5)]
        await begin(world, *pods, labelled("y0", quota="y"), nodes="n1 n2")
        assert [name for name, node in nodes_of_pods(world).items() if node] == ["x0", "x1", "y0"]
        assert condition(world, "x4")[1].startswith("0/2 nodes are available: quota x is exhausted: 2000m of 2000m used.")
        await asyncio.sleep(30)
        attempts = world.scheduler.metrics.decisions
        await world.delete(ref("y0"))
        await world.settle()
        await world.delete(ref("x0"))
        await asyncio.sleep(1)
        assert bound_to(world, "x2")
        assert quotas.used == {"x": 2000, "y": 0}
        assert world.scheduler.metrics.decisions == attempts + 1, "x3 followed x2, and was returned without an attempt"
        quotas.set_limit("x", 4)
        await asyncio.sleep(1)
        assert all(nodes_of_pods(world).values())
        assert world.scheduler.metrics.decisions == attempts + 3
        world.scheduler.queue.check_invariants()


async def test_a_pod_that_is_refused_after_reserve_gives_back_what_it_took_and_the_next_one_moves(stage: Stage) -> None:
    quotas, late = QuotaAdmission(x=1), Late("Late")
    late.permit_answer = (Status(Code.WAIT), 20.0)
    async with stage((quotas, "preFilter reserve"), (late, "permit")) as world:
        await begin(world, labelled("p0", quota="x"), labelled("p1", quota="x"))
        assert quotas.used["x"] == 1000
        assert "quota x is exhausted" in condition(world, "p1")[1]
        late.permit_answer = (None, 0.0)
        await asyncio.sleep(25)  # p0 is rejected due to its timeout, and has to back off
        assert (bound_to(world, "p0"), bound_to(world, "p1")) == ("", "n1")
        assert quotas.used["x"] == 1000


async def test_conditions_follow_the_reasons_of_pods_that_are_not_tried(stage: Stage) -> None:
    quotas = QuotaAdmission(x=1)
    async with stage((quotas, "preFilter reserve")) as world:
        await begin(world, labelled("big", "2", quota="x"), labelled("huge", "3", quota="x"))
        await asyncio.sleep(15)
        attempts = world.scheduler.metrics.decisions
        quotas.used["x"] = 1
        quotas.set_limit("x", 1)  # what is used is another amount, and still there is no room
        await asyncio.sleep(15)
        for name in ("big", "huge"):
            assert condition(world, name)[1] == f"0/1 nodes are available: quota x is exhausted: 1m of 1000m used. {NO_VICTIMS}"
        assert world.scheduler.metrics.decisions == attempts


async def test_a_pod_of_a_gang_and_a_quota_waits_for_one_after_the_other(stage: Stage) -> None:
    gangs, quotas = GangAdmission(), QuotaAdmission(x=1)
    async with stage((quotas, "preFilter reserve"), (gangs, "preFilter")) as world:
        await begin(world, *(labelled(f"p{i}", gang="g", gang_size="3", quota="x") for i in range(2)))
        assert "of 3 members" in condition(world, "p0")[1]
        await world.create(POD, labelled("p2", gang="g", gang_size="3", quota="x"))
        await asyncio.sleep(15)
        assert sorted(map(bool, nodes_of_pods(world).values())) == [False, False, True]
        waiting = [name for name, node in nodes_of_pods(world).items() if not node]
        assert all("quota x is exhausted" in condition(world, name)[1] for name in waiting)
        quotas.set_limit("x", 3)
        await asyncio.sleep(15)
        assert all(nodes_of_pods(world).values())


async def test_a_refused_pod_that_no_node_would_take_either_learns_that_once_it_is_admitted(stage: Stage) -> None:
    quotas = QuotaAdmission(x=0)
    async with stage((quotas, "preFilter reserve")) as world:
        await begin(world, labelled("p", "9", quota="x"))
        assert "quota x is exhausted" in condition(world)[1]
        quotas.set_limit("x", 20)
        await asyncio.sleep(15)
        assert "Insufficient cpu" in condition(world)[1]
        await world.create(NODE, node_manifest("n2", "16"))
        await asyncio.sleep(15)
        assert bound_to(world) == "n2"


async def test_no_pod_is_evicted_for_one_that_its_quota_refuses(stage: Stage) -> None:
    quotas = QuotaAdmission(x=1, y=9)
    async with stage((quotas, "preFilter reserve")) as world:
        low = [labelled(f"low{i}", "2", quota="y") for i in range(2)]
        high = {**labelled("high", "3", quota="x"), "spec": {**pod_manifest("high", "3")["spec"], "priority": 100}}
        await begin(world, *low, high)
        await asyncio.sleep(200)
        reason = f"0/1 nodes are available: quota x is exhausted: 0m of 1000m used. {NO_VICTIMS}"  # it came first
        assert condition(world, "high") == ("Unschedulable", reason)
        assert bound_to(world, "low0") == bound_to(world, "low1") == "n1"
        assert metric(world, "scheduler_preemption_victims_count") == 0
        quotas.set_limit("x", 3)
        await asyncio.sleep(60)
        assert bound_to(world, "high") == "n1", "once it is admitted, it may preempt"


READINGS = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "readings.example.com")


class ReadingFilter(FakeFilter):
    """A filter on state beside the node table: it registers a kind of change and an event of its own for that."""

    def __init__(self) -> None:
        super().__init__("Reading")
        self.events = [EventHint(READINGS)]
        self.handle: Handle
        self.hot = {"n1"}

    def begin(self, handle: Handle) -> None:
        self.handle = handle
        self.change = handle.cache.change_kinds.register("Reading")
        self.reads = self.change | NodeChange.EXISTENCE

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        return unschedulable("hot") if node.name in self.hot else None

    def cool(self, name: str) -> None:
        self.hot.discard(name)
        self.handle.cache.table.mark(known(self.handle.cache.node(name)).row, int(self.change))
        self.handle.announce(READINGS)


async def test_state_beside_the_table_announces_an_event_of_its_own_which_concerns_no_other_pod(stage: Stage) -> None:
    reading = ReadingFilter()
    async with stage((reading, "filter")) as world:
        await begin(world, pod_manifest("p"), pod_manifest("big", "9"))
        assert condition(world, "p")[1].startswith("0/1 nodes are available: 1 hot.")
        assert condition(world, "big")[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        await asyncio.sleep(20)
        big = known(world.scheduler.queue.get("default/big"))
        reading.asked.clear()
        reading.cool("n1")
        await asyncio.sleep(1)
        assert bound_to(world, "p") == "n1"
        assert reading.asked == ["n1"]
        assert (big.attempts, big.place) == (1, QueuePlace.UNSCHEDULABLE)
