"""Each call of a plugin is told with its point, its outcome and what it took, and answers as the plugin does."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from koordsched.framework import timed
from koordsched.framework.status import SKIP, Status, unschedulable
from koordsched.framework.stopwatch import Histogram, Stopwatch, Untold

NO = unschedulable("no")
TICK = 2.0  # what each call takes


class Executions:
    """Remembers every execution as (plugin, point, status, seconds), and how often a plugin was evaluated."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, float]] = []
        self.evaluations: dict[tuple[str, str], Count] = {}

    def extension_point(self, point: str, status: str, profile: str) -> Histogram:
        return Untold()

    def plugin_execution(self, plugin: str, point: str, status: str) -> Histogram:
        seen = self.seen

        class One:
            def observe(self, value: float) -> None:
                seen.append((plugin, point, status, value))

        return One()

    def plugin_evaluation(self, plugin: str, point: str, profile: str) -> Count:
        return self.evaluations.setdefault((plugin, point), Count())


class Count:
    count = 0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Plugin:
    """Answers anything with `answer` after a tick, and remembers what it was asked."""

    name = "P"
    takes_time = True

    def __init__(self, clock: Clock, answer: Any = None) -> None:
        self.clock, self.answer = clock, answer
        self.asked: list[tuple[Any, ...]] = []

    def _do(self, *args: Any) -> Any:
        self.asked.append(args)
        self.clock.now += TICK
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
    watch = Stopwatch(metrics, clock, "p")
    watch.recording = recording
    return watch, metrics, clock


CALLS = [
    (timed.CountedPreFilter, "pre_filter", 3, "PreFilter", NO, "Unschedulable"),
    (timed.CountedPreScore, "pre_score", 3, "PreScore", NO, "Unschedulable"),
    (timed.TimedScore, "score_nodes", 3, "Score", np.array([1]), "Success"),
    (timed.TimedPreEnqueue, "pre_enqueue", 1, "PreEnqueue", NO, "Unschedulable"),
    (timed.TimedPostFilter, "post_filter", 3, "PostFilter", (None, NO), "Unschedulable"),
    (timed.TimedReserve, "reserve", 3, "Reserve", NO, "Unschedulable"),
    (timed.TimedReserve, "unreserve", 3, "Unreserve", None, "Success"),
    (timed.TimedPermit, "permit", 3, "Permit", (NO, 7.0), "Unschedulable"),
    (timed.TimedPreBind, "pre_bind_pre_flight", 3, "PreBindPreFlight", NO, "Unschedulable"),
    (timed.TimedPreBind, "pre_bind", 3, "PreBind", NO, "Unschedulable"),
    (timed.TimedPreBindPatch, "patch", 2, "PreBind", NO, "Unschedulable"),
    (timed.TimedBind, "bind", 3, "Bind", NO, "Unschedulable"),
    (timed.TimedPostBind, "post_bind", 3, "PostBind", None, "Success"),
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


def test_what_takes_time_does_so_when_it_is_timed() -> None:
    watch, _, clock = watched()
    assert timed.TimedPreBind(Plugin(clock), watch).takes_time  # type: ignore[arg-type] # it has what is asked
