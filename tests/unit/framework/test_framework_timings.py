"""Which cycles are sampled, and what is observed of its extension points."""

from __future__ import annotations

from collections import defaultdict

from koordsched.framework.status import unschedulable
from koordsched.framework.timings import CycleTimings, NoObserver, Observer, Sampling
from koordsched.metrics import CounterChild

FILTER, PRE_FILTER, PRE_SCORE, SCORE = "Filter", "PreFilter", "PreScore", "Score"


class Values:
    """A histogram that remembers what it observed."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def observe(self, value: float) -> None:
        self.seen.append(value)


class Remembered:
    def __init__(self) -> None:
        self.points: defaultdict[tuple[str, str, str], Values] = defaultdict(Values)

    def extension_point(self, point: str, status: str, profile: str) -> Observer:
        return self.points[point, status, profile]

    def plugin_execution(self, plugin: str, point: str, status: str) -> Observer:
        return NoObserver()

    def plugin_evaluation(self, plugin: str, point: str, profile: str) -> CounterChild:
        return CounterChild()

    def seen(self) -> dict[tuple[str, str], list[float]]:
        return {(point, status): values.seen for (point, status, _), values in self.points.items() if values.seen}


class HandPerf:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def made() -> tuple[CycleTimings, Remembered, HandPerf]:
    metrics, perf = Remembered(), HandPerf()
    return CycleTimings(metrics, perf, "p"), metrics, perf


def test_one_of_ten_is_sampled_at_uneven_distances() -> None:
    sampling = Sampling()
    chosen = [turn for turn in range(1, 601) if sampling.next()]
    assert len(chosen) == 60
    assert chosen[:7] == [3, 20, 27, 40, 51, 60, 63]


def test_filter_lasts_from_the_start_and_score_to_the_end() -> None:
    timings, metrics, _ = made()
    timings.filtered_at, timings.scored = 12.0, True
    timings.end_cycle(10.0, 15.0)
    assert metrics.seen() == {(FILTER, "Success"): [2.0], (SCORE, "Success"): [3.0]}
    assert {profile for _, _, profile in metrics.points} == {"p"}


def test_a_cycle_without_scoring_observes_no_score() -> None:
    timings, metrics, _ = made()
    timings.filtered_at, timings.scored = 12.0, True
    timings.end_cycle(10.0, 15.0)
    timings.filtered_at = 22.0
    timings.end_cycle(20.0, 25.0)
    assert metrics.seen() == {(FILTER, "Success"): [2.0, 2.0], (SCORE, "Success"): [3.0]}


def test_what_prefilter_and_prescore_took_is_not_counted_twice() -> None:
    timings, metrics, perf = made()
    perf.now = 11.5
    timings.prepared(PRE_FILTER, None, 10.5)
    perf.now = 13.0
    timings.prepared(PRE_SCORE, None, 12.0)
    timings.filtered_at, timings.scored = 12.0, True
    timings.end_cycle(10.0, 15.0)
    assert metrics.seen() == {
        (PRE_FILTER, "Success"): [1.0],
        (PRE_SCORE, "Success"): [1.0],
        (FILTER, "Success"): [0.5],
        (SCORE, "Success"): [2.0],
    }


def test_preparations_before_the_cycle_do_not_shorten_it() -> None:
    timings, metrics, perf = made()
    perf.now = 9.0
    timings.prepared(PRE_FILTER, None, 8.0)
    timings.filtered_at = 12.0
    timings.end_cycle(10.0, 15.0)
    assert metrics.seen()[FILTER, "Success"] == [2.0]


def test_a_search_that_waits_for_extenders_is_observed_in_two_parts() -> None:
    """Also within the first second of a process."""
    timings, metrics, perf = made()
    timings.filtered_at = 0.5
    timings.interrupt(0.25)
    assert metrics.seen() == {(FILTER, "Success"): [0.25]}
    timings.scored, perf.now = True, 0.875
    timings.resume(0.75)
    assert metrics.seen() == {(FILTER, "Success"): [0.25], (SCORE, "Success"): [0.125]}
    timings.end_cycle(0.9, 0.95)
    assert metrics.seen() == {(FILTER, "Success"): [0.25], (SCORE, "Success"): [0.125]}, "the parts are not observed again"


def test_what_was_prepared_is_not_counted_in_the_parts_either() -> None:
    timings, metrics, perf = made()
    perf.now = 0.375
    timings.prepared(PRE_FILTER, None, 0.25)
    timings.filtered_at = 0.5
    timings.interrupt(0.25)
    perf.now = 0.75
    timings.prepared(PRE_SCORE, None, 0.625)
    timings.scored, perf.now = True, 1.0
    timings.resume(0.625)
    assert metrics.seen() == {
        (PRE_FILTER, "Success"): [0.125],
        (PRE_SCORE, "Success"): [0.125],
        (FILTER, "Success"): [0.125],
        (SCORE, "Success"): [0.25],
    }


def test_one_preparation_does_not_stand_for_the_other() -> None:
    timings, metrics, perf = made()
    perf.now = 0.25
    timings.prepared(PRE_FILTER, None, 0.125)
    timings.filtered_at, timings.scored = 0.5, True
    timings.end_cycle(0.125, 0.75)
    perf.now = 0.5
    timings.prepared(PRE_SCORE, None, 0.5)
    timings.filtered_at, timings.scored = 0.5, True
    timings.end_cycle(0.25, 0.75)
    assert (metrics.seen()[FILTER, "Success"], metrics.seen()[SCORE, "Success"]) == ([0.25, 0.25], [0.25, 0.25])


def test_a_refusal_by_prefilter_leaves_no_filter() -> None:
    timings, metrics, perf = made()
    perf.now = 11.0
    timings.prepared(PRE_FILTER, unschedulable("no"), 10.0)
    timings.filtered_at = 0.0
    timings.end_cycle(10.0, 15.0)
    assert metrics.seen() == {(PRE_FILTER, "Unschedulable"): [1.0]}


def test_a_failure_is_observed_at_its_point_and_the_next_cycle_is_like_any() -> None:
    timings, metrics, perf = made()
    perf.now, timings.scored = 14.0, True
    timings.fail_cycle(SCORE, 10.0)
    timings.filtered_at = 21.0
    timings.end_cycle(20.0, 25.0)
    assert metrics.seen() == {(SCORE, "Error"): [4.0], (FILTER, "Success"): [1.0]}


def test_a_dropped_cycle_leaves_no_trace() -> None:
    timings, metrics, _ = made()
    timings.filtered_at, timings.scored = 12.0, True
    timings.drop_cycle()
    timings.filtered_at = 22.0
    timings.end_cycle(20.0, 25.0)
    assert metrics.seen() == {(FILTER, "Success"): [2.0]}


def test_the_fourth_cycle_is_the_first_that_is_recorded() -> None:
    timings, _, _ = made()
    recorded = []
    for _ in range(5):
        recorded.append(timings.recording)
        timings.end_cycle(0.0, 1.0)
    assert recorded == [False, False, False, True, False]
