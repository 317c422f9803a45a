"""What the scheduler makes of the cluster's changes: who is asked about them with which objects, and what it says of malformed ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.builders import node, pod
from support.fakes import Late, node_manifest, pod_manifest
from support.stages import Stage, begin, bound_to, condition, metric, nodes_of_pods, ref

from koordsched.api.core import Pod
from koordsched.api.kinds import EVENT, NODE, POD
from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import CacheError
from koordsched.cluster.object_store import Arrival
from koordsched.cluster.port import Ref
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.status import Code, Status, unschedulable
from koordsched.queue.events import ActionType, ClusterEvent, EventHint, EventResource, QueueingHint, cluster_event
from koordsched.scheduler.handlers import NodeHandler, PodHandler

N1 = Ref(NODE, "", "n1")
ANY_NODE = cluster_event(EventResource.NODE, ActionType.ALL)
ANY_POD = cluster_event(EventResource.ASSIGNED_POD, ActionType.ALL)


class Asked(Late):
    """Refuses at Reserve, and remembers the changes that it was asked about: old and new by their label v, else their name."""

    def __init__(self, *events: ClusterEvent) -> None:
        super().__init__("Asked")
        self.changes: list[tuple[str, str]] = []
        self.reserve_answer = unschedulable("no")
        self.events = [EventHint(event, self._hint) for event in events]

    def _hint(self, waiting: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        self.changes.append((_shown(old), _shown(new)))
        return QueueingHint.SKIP


def _shown(changed: Object | None) -> str:
    return "" if changed is None else changed.metadata.labels.get("v", changed.metadata.name)


async def test_hints_see_a_node_as_it_was_and_as_it_is(stage: Stage) -> None:
    asked = Asked(ANY_NODE)
    async with stage((asked, "reserve")) as world:
        await begin(world, nodes="n1")
        await world.create(NODE, node_manifest("n2"))
        await world.patch(N1, {"metadata": {"labels": {"v": "2"}}})
        await world.patch(N1, {"metadata": {"labels": {"v": "3"}}})
        await world.delete(N1)
        await world.settle()
    assert asked.changes == [("", "n2"), ("n1", "2"), ("2", "3"), ("3", "")]


async def test_hints_see_a_bound_pod_as_it_was_and_as_it_is(stage: Stage) -> None:
    asked = Asked(ANY_POD)
    async with stage((asked, "reserve")) as world:
        await begin(world)
        await world.create(POD, pod_manifest("there", nodeName="n1"))
        await world.patch(ref("there"), {"metadata": {"labels": {"v": "2"}}})
        await world.delete(ref("there"))
        await world.settle()
    assert asked.changes == [("", "there"), ("there", "2"), ("2", "")]


async def test_a_pod_whose_resources_cannot_be_read_is_reported_and_left_alone(stage: Stage) -> None:
    path = "spec.containers[0].resources.requests[cpu]"
    async with stage() as world:
        await begin(world)
        handler = PodHandler(world.scheduler._context)
        odd = pod("odd").cpu("1x").scheduler("default-scheduler")
        with capture_logs() as logs:
            handler.on_add(odd.build(), Arrival.LATER)
        await asyncio.sleep(10)
        (reported,) = [each for each in logs if each["event"] == "pod left out: its resources cannot be read"]
        assert (reported["pod"], reported["path"], reported["log_level"]) == ("default/odd", path, "error")
        (event,) = [each for each in world.cluster.raws(EVENT) if each["regarding"]["name"] == "odd"]
        assert (event["type"], event["reason"], event["action"]) == ("Warning", "FailedScheduling", "Scheduling")
        assert event["note"] == f"{path}: {reported['err']}"
        assert list(world.scheduler.queue.pending()) == []
        handler.on_add(odd.scheduler("other").on("n1").build(), Arrival.LATER)
        await asyncio.sleep(10)
        assert len(world.cluster.raws(EVENT)) == 2, "the other one is that p was scheduled: events of other pods are for their schedulers"
        assert [state.info.key for state in world.scheduler.cache.pods.values()] == ["default/p"]


async def test_a_node_whose_size_cannot_be_read_any_more_takes_no_pods_until_it_can(stage: Stage) -> None:
    async with stage() as world:
        await begin(world)
        handler, known = NodeHandler(world.scheduler._context), world.scheduler.cache.node("n1")
        before = known.node if known is not None else None
        assert before is not None
        with capture_logs() as logs:
            handler.on_update(before, node("n1").cpu("many").build())
        (reported,) = [each for each in logs if each["event"] == "node left out: its resources cannot be read"]
        assert (reported["node"], reported["path"], reported["log_level"]) == ("n1", "status.allocatable[cpu]", "error")
        await world.create(POD, pod_manifest("later"))
        await world.settle()
        assert bound_to(world, "later") == ""
        handler.on_add(before, Arrival.LATER)
        await asyncio.sleep(12)
        assert bound_to(world, "later") == "n1"


async def test_an_object_that_a_transformer_cannot_read_has_one_event_and_one_log_line_for_each_state_of_it(stage: Stage) -> None:
    reservation = "node.koordinator.sh/reservation"

    def events() -> list[tuple[str, str, str, str]]:
        found = [each for each in world.cluster.raws(EVENT) if each["regarding"]["kind"] == "Node"]
        return [(each["type"], each["reason"], each["action"], each["regarding"]["name"]) for each in found]

    async with stage() as world:
        with capture_logs() as logs:
            await begin(world)
            await world.patch(N1, {"metadata": {"annotations": {reservation: "{"}}})
            await world.patch(N1, {"metadata": {"labels": {"any": "thing"}}})
            await asyncio.sleep(10)
        said = [each for each in logs if each["event"] == "an object says something that cannot be read"]
        assert [(each["kind"], each["object"], each["log_level"]) for each in said] == [("Node", "n1", "warning")]
        assert said[0]["problem"].startswith(f"nothing is taken off its allocatable: {reservation}: ")
        assert events() == [("Warning", "InvalidAnnotation", "Scheduling", "n1")]
        assert [each["note"] for each in world.cluster.raws(EVENT) if each["regarding"]["kind"] == "Node"] == [said[0]["problem"]]
        await world.patch(N1, {"metadata": {"annotations": {reservation: "[]"}}})
        await asyncio.sleep(10)
        assert events() == [("Warning", "InvalidAnnotation", "Scheduling", "n1")] * 2


async def test_each_kind_of_change_is_measured(stage: Stage) -> None:
    kinds = ("NodeAdd", "NodeDelete", "AssignedPodAdd", "AssignedPodDelete", "UnschedulablePodAdd", "UnschedulablePodDelete")
    async with stage() as world:
        await begin(world, pod_manifest("p"), pod_manifest("big", "100"))
        await world.delete(ref("big"))
        await world.delete(ref("p"))
        await world.delete(N1)
        await world.settle()
        counts = [metric(world, f'scheduler_event_handling_duration_seconds_count{{event="{event}"}}') for event in kinds]
        assert counts == [1, 1, 1, 1, 2, 1]


async def test_a_pod_that_others_bind_while_it_waits_is_counted_where_it_is(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("big", "100"))
        (waiting,) = world.scheduler.queue.pending()
        assert waiting.key == "default/big"
        await world.patch(ref("big"), {"spec": {"nodeName": "n1"}})
        await world.settle()
        assert nodes_of_pods(world) == {"big": "n1"}
        assert list(world.scheduler.queue.pending()) == []
        (counted,) = world.scheduler.cache.pods.values()
        assert (counted.info.key, counted.node.name, counted.assumed) == ("default/big", "n1", False)


# Pods that pass from one scheduler to another (frameworkext.md §3 item 6, §4 item 11)

SCHEDULER_LABEL = "scheduling.koordinator.sh/scheduler-name"


async def test_a_pod_that_waits_on_permit_and_is_handed_away_gives_its_room_back_at_once(stage: Stage) -> None:
    late = Late("Late")
    late.permit_answer = (Status(Code.WAIT), 600.0)
    async with stage((late, "permit reserve")) as world:
        await begin(world)
        assert world.scheduler.cache.is_assumed(world.scheduler.pods["default/p"].metadata.uid)
        await world.patch(ref("p"), {"metadata": {"labels": {SCHEDULER_LABEL: "other"}}})
        await world.settle()
        assert late.journal == ["reserve Late", "permit Late", "unreserve Late"]
        assert not world.scheduler.cache.pods
        assert world.scheduler.queue.pending() == world.scheduler.queue.in_flight == []
        assert nodes_of_pods(world) == {"p": ""}


class Meanwhile(Late):
    """Changes the watched pod while it is reserved, as a watch does that is faster than the binding."""

    def __init__(self, change: Callable[[dict[str, Pod], Pod], None]) -> None:
        super().__init__("Meanwhile")
        self.world: Any = None
        self._change = change

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if "reserve Meanwhile" not in self.journal:
            self._change(self.world.scheduler._pods.store, pod.pod)
        return super().reserve(state, pod, node_name)


def _hand_away(store: dict[str, Pod], pod: Pod) -> None:
    store["default/p"] = replace(pod, spec=replace(pod.spec, scheduler_name="other"))


def _hand_to_second(store: dict[str, Pod], pod: Pod) -> None:
    store["default/p"] = replace(pod, spec=replace(pod.spec, scheduler_name="second"))


def _terminate(store: dict[str, Pod], pod: Pod) -> None:
    store["default/p"] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))


def _delete(store: dict[str, Pod], _pod: Pod) -> None:
    del store["default/p"]


@pytest.mark.parametrize("change", [_hand_away, _delete])
async def test_a_pod_that_is_another_schedulers_or_gone_when_it_is_to_be_bound_is_let_be(
    stage: Stage, change: Callable[[dict[str, Pod], Pod], None]
) -> None:
    meanwhile = Meanwhile(change)
    async with stage((meanwhile, "reserve preBind"), damaged=True) as world:
        meanwhile.world = world
        await begin(world)
        await asyncio.sleep(10)
        assert meanwhile.journal == ["reserve Meanwhile", "unreserve Meanwhile"], "nothing was written"
        assert not world.scheduler.cache.pods
        assert world.scheduler.queue.pending() == world.scheduler.queue.in_flight == []
        assert world.cluster.calls["bind", POD] == 0
        assert world.cluster.raws(EVENT) == []


async def test_a_pod_that_is_being_deleted_when_it_is_to_be_bound_goes_back(stage: Stage) -> None:
    meanwhile = Meanwhile(_terminate)
    async with stage((meanwhile, "reserve preBind"), damaged=True) as world:
        meanwhile.world = world
        await begin(world)
        assert meanwhile.journal == ["reserve Meanwhile", "unreserve Meanwhile"]
        assert condition(world) == ("SchedulerError", "pod is being deleted")


async def test_without_the_gate_the_bind_alone_decides(stage: Stage) -> None:
    meanwhile = Meanwhile(_hand_away)
    async with stage((meanwhile, "reserve preBind")) as world:
        meanwhile.world = world
        world.scheduler.cycle.binding._checked = False
        await begin(world)
        assert nodes_of_pods(world) == {"p": "n1"}


async def test_a_pod_that_another_profile_gets_while_it_is_tried_is_queued_as_its_pod(stage: Stage) -> None:
    meanwhile = Meanwhile(_hand_to_second)
    own = {"multiPoint": {"enabled": [{"name": "Meanwhile"}]}}
    profiles = [{"schedulerName": "default-scheduler", "plugins": own}, {"schedulerName": "second"}]
    async with stage((meanwhile, "reserve preBind"), damaged=True, profiles=profiles) as world:
        meanwhile.world = world
        await begin(world)
        assert meanwhile.journal == ["reserve Meanwhile", "unreserve Meanwhile"]
        assert nodes_of_pods(world) == {"p": "n1"}


async def test_what_becomes_of_the_pods_of_other_schedulers_changes_nothing(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("other", "9", schedulerName="another-scheduler"), pod_manifest("big", "9"))
        before = [(info.key, info.attempts, info.place) for info in world.scheduler.queue.waiting()]
        written = world.cluster.calls["patch status", POD]
        await world.patch(ref("other"), {"metadata": {"labels": {"v": "2"}}})
        await world.settle()
        assert [(info.key, info.attempts, info.place) for info in world.scheduler.queue.waiting()] == before
        assert world.cluster.calls["patch status", POD] == written
        assert {raw["regarding"]["name"] for raw in world.cluster.raws(EVENT)} == {"big"}


async def test_a_pod_that_cannot_be_assumed_says_why_and_is_tried_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as world:
        assume = world.scheduler.cache.assume_pod
        answers = ["pod p is counted on n7"]

        def refuse_once(made: PodInfo, name: str) -> None:
            if answers:
                raise CacheError(answers.pop())
            assume(made, name)

        monkeypatch.setattr(world.scheduler.cache, "assume_pod", refuse_once)
        await begin(world)
        assert condition(world) == ("SchedulerError", "pod p is counted on n7")
        assert metric(world, 'scheduler_schedule_attempts_total{profile="default-scheduler",result="error"}') == 1
        assert world.scheduler.cache.pods == {}
        await asyncio.sleep(5)
        assert bound_to(world) == "n1"
