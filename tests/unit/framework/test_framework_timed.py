"""Each call of a plugin is told with its point, its outcome and what it took, and answers as the plugin does."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from support.builders import pod
from support.fakes import Fake, profile_config, registry_of
from support.plugins import PluginBench

from koordsched.clock import RealClock
from koordsched.framework import timed
from koordsched.framework.cycle_state import CycleState, annotate
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import (
    BindPlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPatchPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    ReservePlugin,
)
from koordsched.framework.profile import Profile
from koordsched.framework.status import SKIP, Status, unschedulable
from koordsched.framework.stopwatch import NoObserver, Observer, Stopwatch
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
    takes_time = True

    def __init__(self, clock: Clock, answer: Any = None) -> None:
        self.clock, self.answer = clock, answer
        self.asked: list[tuple[Any, ...]] = []

    def _do(self, *args: Any) -> Any:
        self.asked.append(args)
        self.clock.seconds += TICK
        return self.answer

    async def _do_later(self, *args: Any) -> Any:
        return self._do(*args)

    pre_filter = pre_score = filter_nodes = score_nodes = pre_enqueue = reserve = unreserve = permit = pre_bind_pre_flight = post_bind = _do
    post_filter = pre_bind = patch = bind = _do_later

    def explain(self, *args: Any) -> Status:
        self.asked.append(args)
        return NO


def call(made: Any, method: str, *args: Any) -> Any:
    found = getattr(made, method)(*args)
    return asyncio.run(found) if asyncio.iscoroutine(found) else found


def watched(*, recording: bool = True) -> tuple[Stopwatch, Executions, Clock]:
    metrics, clock = Executions(), Clock()
    watch = Stopwatch(metrics, clock.perf, "p")
    watch.recording = recording
    return watch, metrics, clock


CALLS = [
    (timed.CountedPreFilter, "pre_filter", 3, "PreFilter", NO, "Unschedulable"),
    (timed.CountedPreScore, "pre_score", 3, "PreScore", NO, "Unschedulable"),
    (timed.TimedScore, "score_nodes", 3, "Score", np.array([1]), "Success"),
]


@pytest.mark.parametrize("case", CALLS, ids=[method for _, method, *_ in CALLS])
def test_a_call_is_told_with_its_point_its_outcome_and_what_it_took(case: tuple[Any, ...]) -> None:
    kind, method, count, point, answer, status = case
    watch, metrics, clock = watched()
    plugin = Plugin(clock, answer)
    args = tuple(object() for _ in range(count))
    assert call(kind(plugin, watch), method, *args) == answer
    assert plugin.asked == [args]
    assert metrics.seen == [("P", point, status, TICK)]


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
    watch, metrics, clock = watched()
    plugin = Plugin(clock, answer)
    assert watch.timed("P", "Reserve", plugin.reserve)("state", "n1") == answer
    assert await watch.timed_async("P", "Bind", plugin.bind)("pod") == answer
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


@pytest.mark.parametrize(("kind", "method"), [(timed.CountedPreFilter, "pre_filter"), (timed.CountedPreScore, "pre_score")])
def test_what_is_not_skipped_is_counted_though_it_is_not_timed(kind: Any, method: str) -> None:
    watch, metrics, clock = watched(recording=False)
    made = kind(plugin := Plugin(clock), watch)
    for plugin.answer in (None, SKIP, NO):
        call(made, method, 1, 2, 3)
    assert [each.count for each in metrics.evaluations.values()] == [2]
    assert metrics.seen == []


@pytest.mark.parametrize(
    ("codes", "status", "explained"),
    [(None, "Success", []), ([0, 3], "Success", []), ([4, 3], "Unschedulable", [("state", "pod", 4)])],
)
def test_filter_succeeds_when_a_node_passes_and_else_says_why_the_first_did_not(
    codes: list[int] | None, status: str, explained: list[Any]
) -> None:
    watch, metrics, clock = watched()
    plugin = Plugin(clock, None if codes is None else np.array(codes, np.int32))
    made = timed.TimedFilter(plugin, watch)  # type: ignore[arg-type] # it has what is asked
    assert made.filter_nodes("state", "pod", "nodes") is plugin.answer  # type: ignore[arg-type] # they are handed on
    assert plugin.asked == [("state", "pod", "nodes"), *explained]
    assert metrics.seen == [("P", "Filter", status, TICK)]
