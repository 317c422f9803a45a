"""How long each extension point, plugin and event takes, to the second: only plugins pass the time that is measured here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.fakes import node_manifest, pod_manifest
from support.stages import Stage

from koordsched.api.core import Pod
from koordsched.api.kinds import NODE, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import Nodes
from koordsched.clock import VirtualClock
from koordsched.cluster.port import Ref
from koordsched.framework.cycle_state import CycleState, MetadataChanges, annotate
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import (
    BindPlugin,
    FilterNodesPlugin,
    Normalize,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPatchPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScoreNodesPlugin,
)
from koordsched.framework.status import SKIP, Status, error, unschedulable
from koordsched.metrics.collectors import BucketCounts

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from koordsched.embedded.cluster import EmbeddedCluster
    from koordsched.framework.interface import Codes, Scores
    from koordsched.queue.events import EventHint

UNIT = 2.0**-12
SECONDS = {
    point: UNIT * 2**number
    for number, point in enumerate(
        (
            "PreEnqueue",
            "PreFilter",
            "Filter",
            "PreScore",
            "Score",
            "ScoreExtensionNormalize",
            "Reserve",
            "Permit",
            "PreBindPreFlight",
            "PreBind",
            "patch",
            "Bind",
            "PostBind",
            "Unreserve",
            "PostFilter",
        )
    )
}
"""What the plugin takes at each point: each as long as all before it and one unit more, so that a sum says which points are in it."""
POINTS = "preEnqueue preFilter filter postFilter preScore score reserve permit preBind bind postBind"
PROFILE = {
    "schedulerName": "default-scheduler",
    "plugins": {
        "multiPoint": {"enabled": [{"name": "Slow"}]},
        "bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "Slow"}, {"name": "DefaultBinder"}]},
    },
}


class HandClock:
    """A reading that moves only when a plugin moves it."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0  # far from 0, so that a sum of two readings is no duration

    def __call__(self) -> float:
        return self.seconds


class Slow(
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterNodesPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScoreNodesPlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    PreBindPatchPlugin,
    BindPlugin,
    PostBindPlugin,
):
    """Takes its time at every extension point, and answers as `fails` says."""

    name = "Slow"
    normalize = Normalize.CUSTOM
    takes_time = False

    def __init__(self, perf: HandClock) -> None:
        self.perf = perf
        self.fails: dict[str, Status] = {}  # by extension point
        self.given: dict[str, tuple[object, ...]] = {}  # what it was asked with last, by extension point

    def _take(self, point: str, *given: object) -> Status | None:
        self.perf.seconds += SECONDS[point]
        self.given[point] = given
        return self.fails.get(point)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.key  # each pod is asked about anew

    def events_to_register(self) -> list[EventHint]:
        return []  # nothing moves a pod that was refused here

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return self._take("PreEnqueue", pod)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return self._take("PreFilter", state, pod, nodes)

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        refusal = self._take("Filter", state, pod, nodes)
        return None if refusal is None else np.ones(len(nodes), np.int32)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self.fails["Filter"]

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        return None, self._take("PostFilter", state, pod, diagnosis)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return self._take("PreScore", state, pod, nodes)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        self._take("Score", state, pod, nodes)
        return None

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        self._take("ScoreExtensionNormalize", state, pod, nodes)
        return scores

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._take("Reserve", state, pod, node_name)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._take("Unreserve", state, pod, node_name)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        return self._take("Permit", state, pod, node_name), 0.0

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._take("PreBindPreFlight", state, pod, node_name)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        annotate(state, {"example.com/slow": "yes"})
        return self._take("PreBind", state, pod, node_name)

    async def patch(self, changes: MetadataChanges) -> Status | None:
        return self._take("patch", changes.seen)

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self._take("Bind", state, pod, node_name) or SKIP

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._take("PostBind", state, pod, node_name)


@pytest.fixture
def perf(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    made = HandClock()
    monkeypatch.setattr(VirtualClock, "perf", staticmethod(made))
    return made


def sums(world: EmbeddedCluster, name: str, *labels: str) -> dict[tuple[str, ...], tuple[float, float]]:
    """Return count and sum of what a histogram observed since the last reset, by these labels' values."""
    shown: dict[tuple[str, ...], tuple[float, float]] = {}
    for family in (family for each in world.scheduler.metrics.collectors if each.name == name for family in each.collect()):
        for values, counts in family.samples:
            assert isinstance(counts, BucketCounts)
            named = dict(zip(family.labels, values, strict=True))
            if sum(counts.counts):
                shown[tuple(named[label] for label in labels)] = (sum(counts.counts), counts.total)
    return shown


def points(world: EmbeddedCluster) -> Mapping[tuple[str, ...], tuple[float, float]]:
    return sums(world, "scheduler_framework_extension_point_duration_seconds", "extension_point", "status")


def executions(world: EmbeddedCluster) -> Mapping[tuple[str, ...], tuple[float, float]]:
    found = sums(world, "scheduler_plugin_execution_duration_seconds", "plugin", "extension_point", "status")
    return {(point, status): value for (plugin, point, status), value in found.items() if plugin == "Slow"}


async def schedule(world: EmbeddedCluster, pod: str, **spec: object) -> None:
    """Count from zero, create the pod and let the scheduler do what it can."""
    world.scheduler.metrics.reset()
    await world.create(POD, pod_manifest(pod, "100m", **spec))
    await world.settle()


async def begin(world: EmbeddedCluster, nodes: str = "n1 n2") -> None:
    for name in nodes.split():
        await world.create(NODE, node_manifest(name))
    await world.start()


POINT_SECONDS = SECONDS | {
    "Score": SECONDS["Score"] + SECONDS["ScoreExtensionNormalize"],
    "PreBind": SECONDS["PreBind"] + SECONDS["patch"],
}
SEARCH = ["PreFilter", "Filter", "PreScore", "Score"]
WAY = [*SEARCH, "Reserve", "Permit", "PreBindPreFlight", "PreBind", "Bind"]
ASKED = SECONDS | {"PreBind": POINT_SECONDS["PreBind"]}  # of one plugin: its normalizing is measured apart


def ended(*names: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Return what extension points show that succeeded once."""
    return {(name, "Success"): (1, POINT_SECONDS[name]) for name in names}


def asked(*names: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Return what the plugin shows after it was asked at these points in a sampled cycle: to bind it leaves to another."""
    shown: dict[tuple[str, str], tuple[float, float]] = {}
    for name in names:
        shown[name, "Skip" if name == "Bind" else "Success"] = (2 if name == "PreBind" else 1, ASKED[name])
        if name == "Score":
            shown["ScoreExtensionNormalize", "Success"] = (1, SECONDS["ScoreExtensionNormalize"])
    return shown


def attempts(world: EmbeddedCluster) -> Mapping[tuple[str, ...], tuple[float, float]]:
    return sums(world, "scheduler_scheduling_attempt_duration_seconds", "result", "profile")


async def test_a_bound_pod_took_what_its_plugins_took_and_one_cycle_in_ten_says_which(stage: Stage, perf: HandClock) -> None:
    async with stage((Slow(perf), POINTS), profiles=[PROFILE]) as world:
        await begin(world)
        sampled_cycles, sampled_gates = [], []
        for turn in range(1, 22):
            await schedule(world, f"p{turn}")
            assert points(world) == ended("PreEnqueue", *WAY, "PostBind")
            shown = dict(executions(world))
            if shown.pop(("PreEnqueue", "Success"), None):
                sampled_gates.append(turn)
            if shown:
                assert shown == asked(*WAY, "PostBind")
                sampled_cycles.append(turn)
            algorithm = sum(POINT_SECONDS[name] for name in SEARCH)
            assert sums(world, "scheduler_scheduling_algorithm_duration_seconds") == {(): (1, algorithm)}
            assert attempts(world) == {("scheduled", "default-scheduler"): (1, sum(POINT_SECONDS[name] for name in WAY))}
    assert (sampled_cycles, sampled_gates) == ([4, 21], [3, 20])


@pytest.mark.parametrize(
    ("point", "answer", "status"),
    [
        *((point, unschedulable("no"), "Unschedulable") for point in ("Reserve", "Permit", "PreBindPreFlight")),
        *((point, error("boom"), "Error") for point in (*WAY[4:], "patch")),
    ],
)
async def test_a_failed_attempt_took_what_its_plugins_took_until_it_was_undone(
    stage: Stage, perf: HandClock, point: str, answer: Status, status: str
) -> None:
    slow = Slow(perf)
    at = "PreBind" if point == "patch" else point
    before = WAY[: WAY.index(at)]
    last = POINT_SECONDS["PreBind"] if point == "patch" else SECONDS[point]
    async with stage((slow, POINTS), profiles=[PROFILE]) as world:
        await begin(world)
        for turn in range(1, 6):
            slow.fails = {} if turn < 3 else {point: answer}
            await schedule(world, f"p{turn}")
            if turn < 3:
                continue
            gate = {("PreEnqueue", "Success"): (1, UNIT) if status == "Unschedulable" else (2, 2 * UNIT)}  # once more before the backoff
            assert points(world) == gate | ended(*before, "Unreserve") | {(at, status): (1, last)}
            shown = {key: value for key, value in executions(world).items() if key[0] != "PreEnqueue"}
            expected = asked(*before, "Unreserve") | {(at, status): (1, SECONDS[point])}
            if point == "patch":
                expected["PreBind", "Success"] = (1, SECONDS["PreBind"])
            assert shown == (expected if turn == 4 else {})
            whole = sum(POINT_SECONDS[name] for name in before) + last + SECONDS["Unreserve"]
            result = "error" if status == "Error" else "unschedulable"
            assert attempts(world) == {(result, "default-scheduler"): (1, whole)}
            await world.delete(Ref(POD, "default", f"p{turn}"))
            await world.settle()


@pytest.mark.parametrize(
    ("answer", "status"), [(unschedulable("no victims"), "Unschedulable"), (error("boom"), "Error"), (None, "Success")]
)
async def test_a_pod_without_a_node_took_its_search_and_what_could_be_done_for_it(
    stage: Stage, perf: HandClock, answer: Status | None, status: str
) -> None:
    slow = Slow(perf)
    slow.fails = {"Filter": unschedulable("full")} | ({} if answer is None else {"PostFilter": answer})
    async with stage((slow, POINTS), profiles=[PROFILE]) as world:
        await begin(world)
        for turn in range(1, 6):
            await schedule(world, f"p{turn}")
            post_filter = {("PostFilter", status): (1, SECONDS["PostFilter"])}
            assert points(world) == ended("PreEnqueue", "PreFilter", "Filter") | post_filter
            shown = {key: value for key, value in executions(world).items() if key[0] != "PreEnqueue"}
            refused = {("Filter", "Unschedulable"): (1, SECONDS["Filter"])}
            assert shown == (asked("PreFilter") | refused | post_filter if turn == 4 else {})
            whole = SECONDS["PreFilter"] + SECONDS["Filter"] + SECONDS["PostFilter"]
            assert sums(world, "scheduler_scheduling_algorithm_duration_seconds") == {(): (1, whole)}
            assert attempts(world) == {("unschedulable", "default-scheduler"): (1, whole)}
            await world.delete(Ref(POD, "default", f"p{turn}"))
            await world.settle()


@pytest.mark.parametrize("point", ["PreFilter", "PreScore"])
async def test_a_search_that_fails_took_its_time_until_then_as_an_error_of_its_point(stage: Stage, perf: HandClock, point: str) -> None:
    slow = Slow(perf)
    async with stage((slow, POINTS), profiles=[PROFILE]) as world:
        await begin(world)
        for turn in range(1, 6):
            slow.fails = {} if turn < 4 else {point: error("boom")}
            await schedule(world, f"p{turn}")
            if turn < 4:
                continue
            before = SEARCH[: SEARCH.index(point)]
            whole = sum(SECONDS[name] for name in before) + SECONDS[point]
            found = dict(points(world))
            del found["PreEnqueue", "Success"]
            assert found == ended(*(name for name in before if name == "PreFilter")) | {(point, "Error"): (1, whole)}
            shown = {key: value for key, value in executions(world).items() if key[0] != "PreEnqueue"}
            assert shown == (asked(*before) | {(point, "Error"): (1, SECONDS[point])} if turn == 4 else {})
            assert attempts(world) == {("error", "default-scheduler"): (1, whole)}
            assert sums(world, "scheduler_scheduling_algorithm_duration_seconds") == {}
            await world.delete(Ref(POD, "default", f"p{turn}"))
            await world.settle()


async def test_each_point_is_asked_with_the_pod_its_state_and_the_nodes_and_counted(stage: Stage, perf: HandClock) -> None:
    slow = Slow(perf)
    async with stage((slow, POINTS), profiles=[PROFILE]) as world:
        await begin(world, "n1 n2 n3")
        await schedule(world, "p")
        [evaluated] = [each for each in world.scheduler.metrics.collectors if each.name == "scheduler_plugin_evaluation_total"]
        [family] = evaluated.collect()
        counts = {point: value for (plugin, point, _), value in family.samples if plugin == "Slow" and value}
        assert counts == {"PreFilter": 1, "Filter": 3, "PreScore": 1, "Score": 3}
        slow.fails = {"Filter": unschedulable("full"), "PostFilter": unschedulable("no victims")}
        await schedule(world, "q")
        assert slow.given.keys() == SECONDS.keys() - {"Unreserve"}
        for point, given in slow.given.items():
            found = {type(each) for each in given}
            nodes = [each for each in given if isinstance(each, Nodes)]
            assert (Pod if point == "patch" else PodInfo) in found
            assert (CycleState in found) is (point not in {"PreEnqueue", "patch"})
            assert (len(nodes[0]) == 3 if nodes else None) is (True if point in {*SEARCH, "ScoreExtensionNormalize"} else None)
            if point in WAY[4:] or point == "PostBind":
                assert given[2] in {"n1", "n2", "n3"}
        diagnosis = slow.given["PostFilter"][2]
        assert isinstance(diagnosis, Diagnosis)
        assert diagnosis.message == "0/3 nodes are available: 3 full."


async def test_a_gate_that_stays_closed_took_its_time_and_is_no_attempt(stage: Stage, perf: HandClock) -> None:
    slow = Slow(perf)
    slow.fails = {"PreEnqueue": unschedulable("closed")}
    async with stage((slow, POINTS), profiles=[PROFILE]) as world:
        await begin(world)
        for turn in range(1, 4):
            await schedule(world, f"p{turn}")
            closed = {("PreEnqueue", "Unschedulable"): (1, SECONDS["PreEnqueue"])}
            assert points(world) == closed
            assert executions(world) == (closed if turn == 3 else {})
            assert attempts(world) == {}
