"""What extenders are asked about, what a search with them is measured to take, and what of their answers is made."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from typing import Any

import pytest
from support.builders import node, pod
from support.extender import ExtenderServer
from support.fakes import node_manifest, pod_manifest
from support.stages import Stage, begin, bound_to

from koordsched.api.kinds import NODE, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import Nodes
from koordsched.clock import VirtualClock
from koordsched.config.types import ExtenderConfig
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import Codes, FilterNodesPlugin, PreFilterPlugin, PreScorePlugin, ScoreNodesPlugin, Scores
from koordsched.metrics.collectors import BucketCounts
from koordsched.scheduler.extenders.asking import HINTS
from koordsched.scheduler.extenders.extender import Extender
from koordsched.scheduler.extenders.transport import Reply

URL = "http://extender"
FILTER = {"urlPrefix": URL, "filterVerb": "filter", "nodeCacheCapable": True}


class Answering:
    """Stands in for the connections of extenders: lets all nodes pass, and remembers which it was asked about."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def __call__(self, _settings: object) -> Answering:
        return self

    async def post(self, _url: str, body: bytes) -> Reply:
        names = json.loads(body)["NodeNames"]
        self.asked.append(names)
        self.meanwhile()
        return Reply(200, json.dumps({"NodeNames": names}).encode())

    async def close(self) -> None: ...


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    made = Answering()
    monkeypatch.setattr("koordsched.scheduler.extenders.extender.Transport", made)
    return made


@pytest.mark.parametrize(("percentage", "first", "second"), [(0, 210, 209), (60, 126, 126), (100, 210, 209)])
async def test_as_many_nodes_are_asked_about_as_are_to_be_looked_at_but_those_without_room_beside_nominated_pods(
    stage: Stage, answering: Answering, percentage: int, first: int, second: int
) -> None:
    async with stage(extenders=[FILTER], percentageOfNodesToScore=percentage) as world:
        for number in range(210):
            await world.create(NODE, node_manifest(f"n{number:03}"))
        await world.start()
        await world.create(POD, pod_manifest("a"))
        await world.settle()
        assert [len(names) for names in answering.asked] == [first]
        # Kept for a pod that does not come: on a node that the next search looks at.
        kept = "n100" if percentage != 60 else "n150"
        world.scheduler.queue.nominate(pod("kept").uid("k").cpu("4").priority(10).info(), kept)
        await world.create(POD, pod_manifest("b"))
        await world.settle()
        assert [len(names) for names in answering.asked] == [first, second]
        assert kept not in answering.asked[1]
        world.scheduler.queue.nominate(pod("kept").uid("k").info(), "")


class Slow(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    """Takes a quarter of a second, half a second and so on at the points of a search."""

    name = "Slow"

    def __init__(self) -> None:
        self.now = 1e6

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.key

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        self.now += 0.25

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        self.now += 0.5
        return None

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Any:
        raise AssertionError("it refuses nothing")

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        self.now += 1.0

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        self.now += 2.0
        return None


def observed(world: EmbeddedCluster, name: str) -> dict[tuple[str, ...], float]:
    """Return the sum of a histogram's observations by its label values."""
    [found] = [each for each in world.scheduler.metrics.collectors if each.name == name]
    samples = [sample for family in found.collect() for sample in family.samples]
    return {labels: value.total for labels, value in samples if isinstance(value, BucketCounts) and any(value.counts)}


async def test_what_an_extender_takes_is_no_ones_but_the_searchs(
    stage: Stage, answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow()
    monkeypatch.setattr(VirtualClock, "perf", staticmethod(lambda: slow.now))

    def meanwhile() -> None:
        slow.now += 16.0

    answering.meanwhile = meanwhile
    async with stage((slow, "preFilter filter preScore score"), extenders=[FILTER]) as world:
        await begin(world, nodes="n1 n2")
        assert bound_to(world) != ""
        points = observed(world, "scheduler_framework_extension_point_duration_seconds")
        taken = {point: seconds for (point, status, _), seconds in points.items() if seconds and status == "Success"}
        assert taken == {"PreFilter": 0.25, "Filter": 0.5, "PreScore": 1.0, "Score": 2.0}
        assert observed(world, "scheduler_scheduling_algorithm_duration_seconds") == {(): 19.75}
        assert observed(world, "scheduler_scheduling_attempt_duration_seconds") == {("scheduled", "default-scheduler"): 19.75}


async def test_a_large_answer_is_put_together() -> None:
    names = [f"node-{number:05}" for number in range(20_000)]
    with ExtenderServer(filter=lambda _: {"NodeNames": names}) as server:
        extender = Extender(ExtenderConfig(url_prefix=server.url, filter_verb="filter", node_cache_capable=True))
        answer = await extender.filter(pod("p").build(), [node(name).build() for name in names])
        assert list(answer.remaining) == names
        await extender.close()


def test_a_pod_that_an_extender_refused_is_tried_again_when_anything_but_its_status_changes() -> None:
    [hint] = {known.hint for known in HINTS if known.hint is not None}
    waiting = pod("p").uid("u").info()
    before = pod("p").uid("u").build()
    changes = {
        "nothing": pod("p").uid("u").resource_version("9"),
        "labels": pod("p").uid("u").label("a", "b"),
        "annotations": pod("p").uid("u").annotation("a", "b"),
        "spec": pod("p").uid("u").priority(3),
        "nomination": pod("p").uid("u").nominated("n1"),
        "another": pod("q").uid("v"),
    }
    answers = {name: hint(waiting, before, change.build()).name for name, change in changes.items()}
    assert answers == {name: "SKIP" if name == "nothing" else "QUEUE" for name in changes}
    assert hint(waiting, None, before).name == hint(waiting, before, None).name == "QUEUE"
    assert hint(waiting, node("n").build(), before).name == hint(waiting, before, node("n").build()).name == "QUEUE"
