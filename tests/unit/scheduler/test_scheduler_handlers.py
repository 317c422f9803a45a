"""What the scheduler makes of the cluster's changes: who is asked about them with which objects, and what it says of malformed ones."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs
from support.builders import node, pod
from support.fakes import Late, node_manifest, pod_manifest
from support.stages import Stage, begin, bound_to, metric, nodes_of_pods, ref

from koordsched.api.kinds import EVENT, NODE, POD
from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.object_store import Arrival
from koordsched.cluster.port import Ref
from koordsched.framework.status import unschedulable
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
