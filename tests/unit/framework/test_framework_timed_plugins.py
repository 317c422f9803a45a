"""In a sampled cycle each call of a plugin is observed with its point, its status and its duration, and answers as the plugin does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.builders import node, pod
from support.fakes import Fake, profile_config, registry_of
from support.plugins import PluginBench
from support.restricting import ONLY, Only
from support.world import NodeSearch

from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import Nodes
from koordsched.clock import RealClock
from koordsched.framework.cycle_state import CycleState, annotate
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import (
    BindPlugin,
    Codes,
    FilterNodesPlugin,
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
    Scores,
)
from koordsched.framework.profile import Profile
from koordsched.framework.status import SKIP, Code, PluginError, Status, error, unschedulable
from koordsched.framework.timings import CycleTimings, NoObserver, Observer
from koordsched.metrics import CounterChild

NO = unschedulable("no")
TICK = 2.0  # what each call takes


class Executions:
    """Remembers every execution as (plugin, point, status, seconds), and how often a plugin was evaluated."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, float]] = []
        self.evaluations: dict[tuple[str, str], CounterChild] = {}

    def extension_point(self, point: str, status: str, profile: str) -> Observer:
        return NoObserver()

    def plugin_execution(self, plugin: str, point: str, status: str) -> Observer:
        seen = self.seen

        class One:
            def observe(self, value: float) -> None:
                seen.append((plugin, point, status, value))

        return One()

    def plugin_evaluation(self, plugin: str, point: str, profile: str) -> CounterChild:
        return self.evaluations.setdefault((plugin, point), CounterChild())


class Clock(RealClock):
    """A clock whose readings a test sets."""

    seconds = 100.0

    def perf(self) -> float:
        return self.seconds


class Plugin:
    """Answers anything with `answer` after a tick, and remembers what it was asked."""

    name = "P"

    def __init__(self, clock: Clock, answer: Any = None) -> None:
        self.clock, self.answer = clock, answer
        self.asked: list[tuple[Any, ...]] = []

    def _do(self, *args: Any) -> Any:
        self.asked.append(args)
        self.clock.seconds += TICK
        return self.answer

    async def _do_later(self, *args: Any) -> Any:
        return self._do(*args)

    pre_filter = reserve = _do
    bind = _do_later


def timings_of() -> tuple[CycleTimings, Executions, Clock]:
    metrics, clock = Executions(), Clock()
    timings = CycleTimings(metrics, clock.perf, "p")
    return timings, metrics, clock


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (None, "Success"),
        (NO, "Unschedulable"),
        ((None, NO), "Unschedulable"),
        ((None, 7.0), "Success"),
        (7, "Success"),
    ],
)
async def test_the_status_of_an_answer_is_what_the_answer_holds(answer: Any, status: str) -> None:
    timings, metrics, clock = timings_of()
    plugin = Plugin(clock, answer)
    assert timings.timed("P", "Reserve", plugin.reserve)("state", "n1") == answer
    assert await timings.timed_async("P", "Bind", plugin.bind)("pod") == answer
    assert metrics.seen == [("P", "Reserve", status, TICK), ("P", "Bind", status, TICK)]


class EachPoint(
    Fake, PreEnqueuePlugin, PostFilterPlugin, ReservePlugin, PermitPlugin, PreBindPlugin, PreBindPatchPlugin, BindPlugin, PostBindPlugin
):
    """Takes a tick at each point. PostFilter and Permit refuse."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("P")
        self.clock = clock

    def _tick(self) -> None:
        self.clock.seconds += TICK

    def pre_enqueue(self, *args: Any) -> Status | None:
        self._tick()
        return None

    async def post_filter(self, *args: Any) -> tuple[PostFilterResult | None, Status | None]:
        self._tick()
        return None, NO

    def reserve(self, *args: Any) -> Status | None:
        self._tick()
        return None

    def unreserve(self, *args: Any) -> None:
        self._tick()

    def permit(self, *args: Any) -> tuple[Status | None, float]:
        self._tick()
        return NO, 0.0

    def pre_bind_pre_flight(self, *args: Any) -> Status | None:
        self._tick()
        return None

    async def pre_bind(self, state: CycleState, *args: Any) -> None:
        annotate(state, {"a": "1"})
        self._tick()

    async def patch(self, *args: Any) -> Status | None:
        self._tick()
        return None

    async def bind(self, *args: Any) -> Status | None:
        self._tick()
        return None

    def post_bind(self, *args: Any) -> None:
        self._tick()


async def test_in_a_sampled_cycle_each_plugin_is_observed_at_each_point() -> None:
    metrics, clock, bench = Executions(), Clock(), PluginBench()
    bench.clock = clock
    plugin = EachPoint(clock)
    made = Profile(
        profile_config(
            preEnqueue=[plugin], postFilter=[plugin], reserve=[plugin], permit=[plugin], preBind=[plugin], bind=[plugin], postBind=[plugin]
        ),
        registry_of(plugin),
        bench,
        metrics,
    )
    pod_info, state = pod("p").info(), CycleState()
    state.sampled = True
    for _ in range(3):
        made.run_pre_enqueue(pod_info, "")  # the third is the first that is sampled
    await made.run_post_filter(state, pod_info, Diagnosis.without_nodes())
    made.run_reserve(state, pod_info, "n1")
    made.run_unreserve(state, pod_info, "n1")
    made.run_permit(state, pod_info, "n1")
    work, _ = made.pre_bind_work(state, pod_info, "n1")
    await made.run_pre_bind(work, state, pod_info, "n1")
    await made.run_bind(state, pod_info, "n1")
    made.run_post_bind(state, pod_info, "n1")
    assert metrics.seen == [
        ("P", "PreEnqueue", "Success", TICK),
        ("P", "PostFilter", "Unschedulable", TICK),
        ("P", "Reserve", "Success", TICK),
        ("P", "Unreserve", "Success", TICK),
        ("P", "Permit", "Unschedulable", TICK),
        ("P", "PreBindPreFlight", "Success", TICK),
        ("P", "PreBind", "Success", TICK),
        ("P", "PreBind", "Success", TICK),
        ("P", "Bind", "Success", TICK),
        ("P", "PostBind", "Success", TICK),
    ]


class Columns(Fake, PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    """Takes a tick at each point of a shape's columns and answers Filter with `codes`."""

    def __init__(self, clock: Clock, codes: list[int] | None) -> None:
        super().__init__("P")
        self.clock, self.codes = clock, codes
        self.answer: Status | None = None  # to PreFilter and PreScore
        self.explained: list[int] = []

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write("prepared", pod.key)
        self.clock.seconds += TICK
        return self.answer

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        assert state.read("prepared") == pod.key
        self.clock.seconds += TICK
        return None if self.codes is None else np.array(self.codes, np.int32)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        self.explained.append(code)
        return NO

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        state.write(self.name, pod.key)
        self.clock.seconds += TICK
        return self.answer

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        assert state.read(self.name) == pod.key
        self.clock.seconds += TICK
        return None


def profile_of(plugin: Columns, clock: Clock, metrics: Executions) -> Profile:
    bench = PluginBench(node("n1"), node("n2"))
    bench.clock = clock
    config = profile_config(preFilter=[plugin], filter=[plugin], preScore=[plugin], score=[plugin])
    return Profile(config, registry_of(plugin), bench, metrics)


def test_calls_that_are_not_skipped_are_counted_in_each_cycle_and_observed_in_a_sampled_one() -> None:
    metrics, clock = Executions(), Clock()
    made = profile_of(plugin := Columns(clock, None), clock, metrics)
    asked = ("P", "PreFilter"), ("P", "PreScore")
    for plugin.answer, counted in ((None, [1, 1]), (SKIP, [1, 1]), (None, [2, 2])):
        pod_info = pod("p").info()
        shape = made.shapes.pre_filter(pod_info)
        made.shapes.filter(shape, pod_info)
        made.shapes.pre_score(shape, pod_info)
        assert [metrics.evaluations[each].count for each in asked] == counted
    assert metrics.seen == []


@pytest.mark.parametrize(
    ("codes", "status", "explained"),
    [(None, "Success", []), ([0, 3], "Success", []), ([4, 3], "Unschedulable", [4])],
)
def test_filter_succeeds_when_a_node_passes_and_else_has_the_status_of_the_first(
    codes: list[int] | None, status: str, explained: list[int]
) -> None:
    metrics, clock = Executions(), Clock()
    made = profile_of(plugin := Columns(clock, codes), clock, metrics)
    made.timings.recording = True
    pod_info = pod("p").info()
    shape = made.shapes.pre_filter(pod_info)
    made.shapes.filter(shape, pod_info)
    assert metrics.seen == [("P", "PreFilter", "Success", TICK), ("P", "Filter", status, TICK)]
    assert plugin.explained == explained
    if shape.feasible_count:
        made.shapes.pre_score(shape, pod_info)
        made.shapes.score(shape, pod_info)
        assert metrics.seen[2:] == [("P", "PreScore", "Success", TICK), ("P", "Score", "Success", TICK)]


@pytest.mark.parametrize("recording", [True, False])
def test_for_a_pod_that_is_restricted_to_some_nodes_each_plugin_is_observed_and_counted_by_these_nodes(recording: bool) -> None:
    metrics, clock, only = Executions(), Clock(), Only()
    bench = PluginBench(*(node(f"n{i}") for i in range(9)))
    bench.clock = clock
    plugin = Columns(clock, None)
    config = profile_config(preFilter=[plugin, only], filter=[plugin], preScore=[plugin], score=[plugin])
    made = Profile(config, registry_of(plugin, only), bench, metrics)
    search = NodeSearch(bench.cache, bench.nominator, bench.random)
    made.timings.recording = recording
    assert search.find(made, pod("p").annotation(ONLY, "n1,n3").info())[1] in {"n1", "n3"}
    points = ("PreFilter", "Filter", "PreScore", "Score")
    assert sorted(metrics.seen) == sorted(
        [("Only", "PreFilter", "Success", 0.0), *(("P", point, "Success", TICK) for point in points)] if recording else []
    )
    counted = {key: child.count for key, child in metrics.evaluations.items() if child.count}
    assert counted == {("Only", "PreFilter"): 1, ("P", "PreFilter"): 1, ("P", "Filter"): 2, ("P", "PreScore"): 1, ("P", "Score"): 2}


@pytest.mark.parametrize("recording", [True, False])
def test_pre_score_that_fails_for_a_restricted_pod_is_named_and_one_that_skips_turns_its_score_off(recording: bool) -> None:
    metrics, clock, only = Executions(), Clock(), Only()
    bench = PluginBench(*(node(f"n{i}") for i in range(9)))
    plugin = Columns(clock, None)
    config = profile_config(preFilter=[only], preScore=[plugin], score=[plugin])
    made = Profile(config, registry_of(plugin, only), bench, metrics)
    search = NodeSearch(bench.cache, bench.nominator, bench.random)
    plugin.answer = error("no idea")
    made.timings.recording = recording
    with pytest.raises(PluginError) as caught:
        search.find(made, pod("p").annotation(ONLY, "n1,n3").info())
    assert caught.value.status == Status(Code.ERROR, ('running PreScore plugin "P": no idea',), "P")
    assert caught.value.point == "PreScore"
    plugin.answer = SKIP
    search.find(made, pod("p").annotation(ONLY, "n1,n3").info())
    assert metrics.evaluations["P", "Score"].count == 0
