"""The way of a pod with small plugins in it: what is undone, what is said, and what is asked of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from support.fakes import LATE_POINTS, FakeFilter, FakePostFilter, Late, node_manifest, pod_manifest
from support.stages import Stage, begin, bound_to, condition, ref

from koordsched.api.kinds import EVENT, NODE, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.memory import Fault, Moment
from koordsched.cluster.port import ClusterError, Conflict, NotFound, OutcomeUnknown, ServerError
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.cycle_state import CycleState, annotate
from koordsched.framework.interface import PostFilterResult
from koordsched.framework.status import SKIP, Code, Status, error, unschedulable
from koordsched.queue.events import ASSIGNED_POD_DELETE, EventHint

WAIT = Status(Code.WAIT)
NO_VICTIMS = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
UNLIMITED = 1000  # seconds in which everything that is going to happen has happened


def writes(world: EmbeddedCluster) -> dict[tuple[str, str], int]:
    """Return how often each verb was asked for, by plural; reads left out."""
    reads = {"list", "watch", "get"}
    return {(verb, kind.plural): count for (verb, kind), count in world.cluster.calls.items() if verb not in reads and count}


def check_books(world: EmbeddedCluster) -> None:
    """Hold that the cache counts what the cluster shows and the queue has lost no pod."""
    cache, scheduler = world.scheduler.cache, world.scheduler
    shown = {raw["metadata"]["uid"]: raw["spec"]["nodeName"] for raw in world.cluster.raws(POD) if raw["spec"].get("nodeName")}
    assert {uid: state.node.name for uid, state in cache.pods.items()} == shown
    assert cache.assumed_count == 0
    assert scheduler.queue.in_flight == []
    assert not scheduler.cycle.binding.tasks
    scheduler.queue.check_invariants()


# A plain pod


async def test_a_plain_pod_costs_one_binding_and_one_event(stage: Stage) -> None:
    async with stage() as world:
        await begin(world)
        await asyncio.sleep(1)
        assert bound_to(world) == "n1"
        # what the test itself created is subtracted
        assert writes(world) == {("create", "nodes"): 1, ("create", "pods"): 1, ("bind", "pods"): 1, ("create", "events"): 1}
        (event,) = world.cluster.raws(EVENT)
        assert (event["type"], event["reason"], event["action"]) == ("Normal", "Scheduled", "Binding")
        assert event["note"] == "Successfully assigned default/p to n1"
        assert event["reportingController"] == "default-scheduler"
        check_books(world)


async def test_pods_of_other_schedulers_are_counted_but_never_touched(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("other", schedulerName="another"), pod_manifest("there", "3", schedulerName="x", nodeName="n1"))
        await asyncio.sleep(UNLIMITED)
        assert (bound_to(world, "other"), condition(world, "other")) == ("", ("", ""))
        await world.create(POD, pod_manifest("p", "2"))
        await world.settle()
        assert condition(world) == ("Unschedulable", f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS}")
        check_books(world)


async def test_a_pod_without_any_node_waits_for_the_first_one(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, nodes="")
        assert condition(world) == ("Unschedulable", "no nodes available to schedule pods")
        await asyncio.sleep(100)
        await world.create(NODE, node_manifest("n1"))
        await asyncio.sleep(11)
        assert bound_to(world) == "n1"


async def test_one_node_of_two_is_taken_by_chance_but_the_same_for_a_seed(stage: Stage) -> None:
    async def choice(seed: int) -> str:
        async with stage(seed=seed) as world:
            await begin(world, nodes="n1 n2")
            return bound_to(world)

    chosen = [await choice(seed) for seed in range(12)]
    assert set(chosen) == {"n1", "n2"}
    assert [await choice(seed) for seed in range(3)] == chosen[:3]


# Reserve


async def test_a_refused_reserve_is_undone_by_all_and_reported_as_one_node(stage: Stage) -> None:
    first, second = Late("L1"), Late("L2")
    second.journal = first.journal
    second.reserve_answer = unschedulable("no slot", "no luck")
    async with stage((first, "reserve"), (second, "reserve")) as world:
        await begin(world, nodes="n1 n2")
        assert first.journal[:4] == ["reserve L1", "reserve L2", "unreserve L2", "unreserve L1"]
        assert condition(world) == ("Unschedulable", "0/1 nodes are available: 1 no luck, 1 no slot.")
        check_books(world)
        second.reserve_answer = None
        await asyncio.sleep(UNLIMITED)
        assert bound_to(world)
        check_books(world)


async def test_an_error_in_reserve_is_a_scheduler_error_and_is_retried_after_a_backoff(stage: Stage) -> None:
    late = Late()
    late.reserve_answer = error("boom")
    async with stage((late, "reserve")) as world:
        await begin(world)
        assert condition(world) == ("SchedulerError", 'running Reserve plugin "L": boom')
        late.reserve_answer = None
        await asyncio.sleep(3)
        assert bound_to(world) == "n1"
        check_books(world)


class Raising(Late):
    """Has a bug at one point, until it is mended."""

    point = ""

    def reserve(self, *args: Any) -> Status | None:
        self._maybe("reserve")
        return super().reserve(*args)

    def permit(self, *args: Any) -> tuple[Status | None, float]:
        self._maybe("permit")
        return super().permit(*args)

    def _maybe(self, point: str) -> None:
        if self.point == point:
            raise KeyError("oops")


@pytest.mark.parametrize("point", ["reserve", "permit"])
async def test_a_plugin_that_raises_costs_the_pod_an_attempt_and_is_undone(stage: Stage, point: str) -> None:
    late = Raising()
    late.point = point
    async with stage((late, LATE_POINTS)) as world:
        await begin(world)
        assert condition(world) == ("SchedulerError", "internal error, see the scheduler's log: KeyError('oops')")
        assert late.journal[-1] == "unreserve L"
        check_books(world)
        late.point = ""
        await world.create(POD, pod_manifest("next"))
        await asyncio.sleep(3)
        assert (bound_to(world), bound_to(world, "next")) == ("n1", "n1")
        check_books(world)


# Permit


async def test_a_pod_that_waits_on_permit_is_bound_when_it_is_allowed(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (WAIT, 60.0)
    async with stage((late, LATE_POINTS)) as world:
        await begin(world)
        assert (bound_to(world), world.cluster.raw(ref())["status"]["nominatedNodeName"]) == ("", "n1")
        await asyncio.sleep(30)
        (waiting,) = world.scheduler._context.waiting_pods
        waiting.allow("L")
        await world.settle()
        assert bound_to(world) == "n1"
        assert late.journal == ["reserve L", "permit L", "pre_bind L", "post_bind L"]
        assert b'scheduler_permit_wait_duration_seconds_count{result="scheduled"} 1' in world.scheduler.metrics.text()
        assert "nominatedNodeName" not in world.cluster.raw(ref())["status"]
        check_books(world)


async def test_a_permit_that_times_out_sends_the_pod_back(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (WAIT, 10.0)
    async with stage((late, LATE_POINTS)) as world:
        await begin(world)
        await asyncio.sleep(10.05)
        text = "rejected due to timeout after waiting 10s at plugin L"
        assert condition(world) == ("Unschedulable", f"0/1 nodes are available: 1 {text}.")
        assert "nominatedNodeName" not in world.cluster.raw(ref())["status"]
        assert late.journal[:3] == ["reserve L", "permit L", "unreserve L"]
        late.permit_answer = (None, 0.0)
        await asyncio.sleep(UNLIMITED)
        assert bound_to(world) == "n1"
        check_books(world)


async def test_a_refused_permit_is_undone_at_once(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (unschedulable("not yet"), 0.0)
    async with stage((late, LATE_POINTS)) as world:
        await begin(world)
        assert condition(world) == ("Unschedulable", "0/1 nodes are available: 1 not yet.")
        assert late.journal[:3] == ["reserve L", "permit L", "unreserve L"]
        check_books(world)


class Reluctant(Late):
    """Refuses twice at Permit, and is asked again when a pod on a node is deleted."""

    def permit(self, *args: Any) -> tuple[Status | None, float]:
        answer, _ = super().permit(*args)
        return (unschedulable("not yet") if self.journal.count("permit L") < 3 else answer), 0.0


async def test_a_refused_pod_is_not_helped_by_the_room_that_it_gives_back_itself(stage: Stage) -> None:
    late = Reluctant()
    late.events = [EventHint(ASSIGNED_POD_DELETE)]
    async with stage((late, LATE_POINTS)) as world:
        await begin(world)
        await asyncio.sleep(100)  # less than the age at which it is flushed
        assert late.journal.count("permit L") == 1
        await world.create(POD, pod_manifest("there", nodeName="n1"))
        await world.delete(ref("there"))
        await world.settle()
        assert late.journal.count("permit L") == 2, "another pod's deletion helps"
        check_books(world)


async def test_a_pod_that_is_deleted_while_it_waits_makes_room_at_once(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (WAIT, 60.0)
    async with stage((late, LATE_POINTS)) as world:
        await begin(world)
        assert world.scheduler.cache.assumed_count == 1
        await world.delete(ref())
        await world.settle()
        assert late.journal == ["reserve L", "permit L", "unreserve L"]
        assert len(world.scheduler._context.waiting_pods) == 0
        check_books(world)


async def test_a_pod_that_begins_to_terminate_while_it_waits_is_given_up(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (WAIT, 60.0)
    held = pod_manifest()
    held["metadata"]["finalizers"] = ["example.com/held"]
    async with stage((late, LATE_POINTS)) as world:
        await begin(world, held)
        await world.delete(ref())
        await asyncio.sleep(30)
        assert late.journal == ["reserve L", "permit L", "unreserve L"]
        assert bound_to(world) == ""
        notes = [event["note"] for event in world.cluster.raws(EVENT)]
        assert "skip schedule deleting pod: default/p" in notes
        check_books(world)


# PreBind, Bind


async def test_a_pod_that_begins_to_terminate_while_it_is_bound_makes_room_for_others_at_once(stage: Stage) -> None:
    late = Late()
    late.gate = asyncio.Event()
    held = pod_manifest("p", "3")
    held["metadata"]["finalizers"] = ["example.com/held"]
    async with stage((late, "preBind")) as world:
        await begin(world, held, pod_manifest("waiting", "3"))
        assert condition(world, "waiting")[0] == "Unschedulable"
        await asyncio.sleep(100)  # its backoff is over
        await world.delete(ref())
        await world.settle()
        # assumed on n1, though the other one's binding has not ended
        assert [state.info.key for state in world.scheduler.cache.pods.values()] == ["default/waiting"]
        late.gate.set()
        await world.settle()
        assert bound_to(world, "waiting") == "n1"


async def test_a_failure_of_a_pod_that_is_gone_is_not_reported_for_its_namesake(stage: Stage) -> None:
    late = Late()
    late.gate = asyncio.Event()
    late.pre_bind_answer = error("boom")
    async with stage((late, "preBind")) as world:
        await begin(world)
        await world.delete(ref())
        await world.create(POD, pod_manifest("p", "100"))
        await world.settle()
        own = condition(world)
        assert own[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        late.gate.set()
        await asyncio.sleep(5)
        assert condition(world) == own
        uid = world.cluster.raw(ref())["metadata"]["uid"]
        assert [info.uid for info in world.scheduler.queue.pending()] == [uid]
        assert {(event["regarding"]["uid"], event["note"]) for event in world.cluster.raws(EVENT)} == {(uid, own[1])}
        check_books(world)


async def test_an_error_in_pre_bind_names_the_plugin(stage: Stage) -> None:
    late = Late()
    late.pre_bind_answer = error("volume gone")
    async with stage((late, LATE_POINTS)) as world:
        await begin(world)
        assert condition(world) == ("SchedulerError", 'running PreBind plugin "L": volume gone')
        assert late.journal[:4] == ["reserve L", "permit L", "pre_bind L", "unreserve L"]
        late.pre_bind_answer = None
        await asyncio.sleep(3)
        assert bound_to(world) == "n1"
        check_books(world)


async def test_a_plugin_with_a_bug_in_pre_bind_costs_the_pod_one_attempt(stage: Stage) -> None:
    class Buggy(Late):
        async def pre_bind(self, *_args: object) -> Status | None:
            if len(self.journal) < 3:
                raise KeyError("oops")
            return None

    late = Buggy()
    async with stage((late, LATE_POINTS)) as world:
        await begin(world)
        assert condition(world) == ("SchedulerError", "internal error, see the scheduler's log: KeyError('oops')")
        await asyncio.sleep(3)
        assert bound_to(world) == "n1"
        check_books(world)


async def test_a_pod_without_pre_bind_work_is_not_nominated_first(stage: Stage) -> None:
    late = Late()
    late.pre_flight_answer = SKIP
    async with stage((late, LATE_POINTS)) as world:
        await begin(world)
        assert bound_to(world) == "n1"
        assert ("patch status", "pods") not in writes(world)
        assert "pre_bind L" not in late.journal


class Noting(Late):
    """Notes an annotation in PreBind, which takes no time."""

    takes_time = False

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        annotate(state, {"allocated": node_name})
        return await super().pre_bind(state, pod, node_name)


async def test_a_pod_with_annotations_to_write_costs_one_binding_and_is_not_nominated_first(stage: Stage) -> None:
    async with stage((Noting(), LATE_POINTS)) as world:
        await begin(world)
        await asyncio.sleep(1)
        assert bound_to(world) == "n1"
        assert world.cluster.raw(ref())["metadata"]["annotations"] == {"allocated": "n1"}
        made = {("create", "nodes"): 1, ("create", "pods"): 1}
        assert writes(world) == made | {("bind", "pods"): 1, ("create", "events"): 1}
        check_books(world)


class Labelling(Late):
    """Notes a label, which no binding writes."""

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        annotate(state, {}, {"allocated": node_name})
        return await super().pre_bind(state, pod, node_name)


async def test_a_patch_that_is_refused_undoes_the_placement(stage: Stage) -> None:
    late = Labelling()
    async with stage((late, LATE_POINTS)) as world:
        world.cluster.faults.rules.append(Fault(verb="patch", times=4, error=lambda: ServerError("etcd is away")))
        await begin(world)
        await asyncio.sleep(0.5)
        assert condition(world) == ("SchedulerError", 'running PreBind plugin "DefaultPreBind": etcd is away')
        assert late.journal == ["reserve L", "permit L", "pre_bind L", "unreserve L"]
        await asyncio.sleep(3)
        assert bound_to(world) == "n1"
        check_books(world)


async def test_the_next_pod_is_scheduled_while_this_one_is_being_bound(stage: Stage) -> None:
    late = Late()
    late.gate = asyncio.Event()
    async with stage((late, LATE_POINTS)) as world:
        await begin(world, pod_manifest("a", "3"), pod_manifest("b", "3"), nodes="n1 n2")
        assert world.scheduler.cache.assumed_count == 2
        late.gate.set()
        await world.settle()
        assert {bound_to(world, "a"), bound_to(world, "b")} == {"n1", "n2"}
        check_books(world)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda: Conflict("taken"), "taken"),
        (lambda: NotFound("gone"), "gone"),
    ],
    ids=["conflict", "not-found"],
)
async def test_a_bind_that_failed_is_tried_again_after_a_backoff(stage: Stage, fault: Callable[[], ClusterError], message: str) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, error=fault))
        await begin(world)
        assert condition(world) == ("SchedulerError", f'running Bind plugin "DefaultBinder": {message}')
        check_books(world)
        await asyncio.sleep(3)
        assert (bound_to(world), world.cluster.calls["bind", POD]) == ("n1", 2)
        check_books(world)


@pytest.mark.parametrize("fault", [lambda: ServerError("etcd"), lambda: OutcomeUnknown("cut")], ids=["server-error", "unknown"])
async def test_a_bind_that_did_not_arrive_is_sent_again_while_the_pod_stays_assumed(
    stage: Stage, fault: Callable[[], ClusterError]
) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, error=fault))
        await begin(world)
        await asyncio.sleep(1)
        assert (bound_to(world), world.cluster.calls["bind", POD], condition(world)) == ("n1", 2, ("", ""))
        check_books(world)


@pytest.mark.parametrize("lost", [lambda: OutcomeUnknown("cut"), lambda: Conflict("it is bound")], ids=["unknown", "conflict"])
async def test_a_bind_whose_answer_got_lost_is_recognised_as_done(stage: Stage, lost: Callable[[], ClusterError]) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, moment=Moment.AFTER, error=lost))
        await begin(world)
        await asyncio.sleep(30)
        assert (bound_to(world), world.cluster.calls["bind", POD], condition(world)) == ("n1", 1, ("", ""))
        check_books(world)


async def test_a_pod_that_was_deleted_while_it_was_being_bound_is_left_alone(stage: Stage) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, delay=1.0))
        await begin(world)
        await world.delete(ref())
        await asyncio.sleep(60)
        assert world.cluster.calls["bind", POD] == 1
        assert ("patch status", "pods") not in writes(world)
        check_books(world)
        assert world.scheduler.idle()


async def test_a_pod_that_ends_while_it_is_being_bound_takes_no_room(stage: Stage) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, delay=1.0))
        await begin(world)
        await world.patch(ref(), {"status": {"phase": "Failed"}})
        await asyncio.sleep(60)
        assert not world.scheduler.cache.pods
        assert world.scheduler.idle()


async def test_a_pod_that_another_scheduler_bound_meanwhile_is_counted_there(stage: Stage) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, delay=1.0))
        await begin(world, nodes="n1 n2")
        (assumed,) = world.scheduler.cache.pods.values()
        other = {"n1": "n2", "n2": "n1"}[assumed.node.name]
        await world.patch(ref(), {"spec": {"nodeName": other}})
        await asyncio.sleep(60)
        assert bound_to(world) == other
        assert world.scheduler.cache.repairs == 0
        check_books(world)


async def test_a_created_again_pod_is_scheduled_as_a_new_one(stage: Stage) -> None:
    async with stage() as world:
        world.cluster.faults.rules.append(Fault(verb="bind", times=1, delay=1.0))
        await begin(world)
        await world.delete(ref())
        await world.create(POD, pod_manifest())
        await asyncio.sleep(60)
        assert bound_to(world) == "n1"
        check_books(world)


# PostFilter


async def test_post_filter_speaks_after_the_filters_and_may_nominate(stage: Stage) -> None:
    judge, savior = FakeFilter("F"), FakePostFilter("Q", (None, unschedulable("preemption: no")))
    judge.refuse_all = unschedulable("full")
    async with stage((judge, "filter"), (savior, "postFilter")) as world:
        await begin(world)
        assert savior.asked == ["0/1 nodes are available: 1 full."]
        assert condition(world) == ("Unschedulable", f"0/1 nodes are available: 1 full. {NO_VICTIMS}, preemption: no")
        savior.answer = (PostFilterResult("n1"), None)
        await world.create(POD, pod_manifest("second"))
        await world.settle()
        assert condition(world, "second") == ("Unschedulable", "0/1 nodes are available: 1 full.")
        assert world.cluster.raw(ref("second"))["status"]["nominatedNodeName"] == "n1"


async def test_an_error_of_a_filter_is_a_scheduler_error_without_post_filter(stage: Stage) -> None:
    judge, savior = FakeFilter("F", n1=error("boom")), FakePostFilter("Q", (None, None))
    async with stage((judge, "filter"), (savior, "postFilter")) as world:
        await begin(world)
        assert condition(world) == ("SchedulerError", 'running "F" filter plugin: boom')
        assert savior.asked == []
        judge.refuse.clear()
        await asyncio.sleep(3)
        assert bound_to(world) == "n1"
        check_books(world)


# PodsToActivate


async def test_pods_to_activate_are_tried_when_this_one_is_placed(stage: Stage) -> None:
    late, judge = Late(), FakeFilter("F")
    judge.refuse_all = unschedulable("full")
    async with stage((late, LATE_POINTS), (judge, "filter")) as world:
        await begin(world, pod_manifest("sleeper"), pod_manifest("other"))
        await asyncio.sleep(60)
        info = world.scheduler.queue.get("default/sleeper")
        assert info is not None
        assert info.attempts == 1
        late.activate = [info.pod_info]
        judge.refuse_all = None
        world.scheduler.cache.table.mark(world.scheduler.cache.nodes_by_name["n1"].row, 1)  # no event: no other pod is moved
        await world.create(POD, pod_manifest("activator"))
        await world.settle()
        assert (bound_to(world, "activator"), bound_to(world, "sleeper"), info.attempts) == ("n1", "n1", 2)
        assert bound_to(world, "other") == ""
