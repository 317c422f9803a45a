"""Event series: which occurrences are one event, and when the cluster hears of them."""

from __future__ import annotations

import pytest

from koordsched.api.core import ObjectReference
from koordsched.cluster.event_series import MAX_EVENTS, EventCorrelator, EventKey, EventRecord


def key(name: str = "p", version: str = "1", reason: str = "FailedScheduling") -> EventKey:
    regarding = ObjectReference(kind="Pod", name=name, resource_version=version)
    return EventKey("Warning", reason, "Scheduling", regarding, None)


class Writer:
    """Reports to the cluster whatever is due, at once, and keeps what it reported: (name, count)."""

    def __init__(self) -> None:
        self.series = EventCorrelator()
        self.reported: list[tuple[str, int]] = []

    def occurs(self, at: float, which: EventKey | None = None) -> None:
        self.report(self.series.occurred(which or key(), f"e{at:g}", "note", at), at)

    def report(self, due: list[EventRecord], at: float) -> None:
        for record in due:
            self.series.begin(record)
            self.reported.append((record.name, record.count))
            record.written, record.written_at = record.count, at


def test_a_first_occurrence_and_its_first_repeat_are_reported_at_once() -> None:
    writer = Writer()
    writer.occurs(0)
    writer.occurs(10)
    assert writer.reported == [("e0", 1), ("e0", 2)]


def test_an_event_of_which_no_write_has_begun_is_overtaken_by_one_of_a_newer_version() -> None:
    series = EventCorrelator()
    (record,) = series.occurred(key(version="1"), "e0", "first", 0)
    assert series.occurred(key(version="1"), "e1", "first", 1) == [record]
    assert series.occurred(key(version="2"), "e2", "second", 2) == [], "it is queued already"
    assert (record.name, record.note, record.key.regarding.resource_version) == ("e2", "second", "2")
    assert (record.first, record.count, record.due) == (2, 1, 1)
    assert len(series) == 1
    series.begin(record)
    (other,) = series.occurred(key(version="3"), "e3", "third", 3)
    assert other is not record
    assert record.note == "second"


def test_other_objects_and_other_reasons_do_not_overtake() -> None:
    series = EventCorrelator()
    records = [series.occurred(which, "e", "note", 0)[0] for which in (key(), key(name="q"), key(reason="Scheduled"))]
    assert len({id(record) for record in records}) == len(series) == 3


def test_further_repeats_wait() -> None:
    writer = Writer()
    for at in range(0, 1200, 100):
        writer.occurs(at)
    assert writer.reported == [("e0", 1), ("e0", 2)]


def test_a_long_series_is_reported_every_half_hour() -> None:
    writer = Writer()
    for at in range(0, 3701, 100):
        writer.occurs(at)
    # Written at 0 and 100; then by the first occurrence 1800 s after a write: 1900 (the 20th) and 3700 (the 38th).
    assert writer.reported == [("e0", 1), ("e0", 2), ("e0", 20), ("e0", 38)]


def test_six_minutes_without_a_repeat_end_a_series() -> None:
    writer = Writer()
    for at in (0, 10, 20, 380):
        writer.occurs(at)
    assert writer.reported == [("e0", 1), ("e0", 2)]  # 380 is 360 s after 20: still the series
    writer.occurs(741)
    assert writer.reported[2:] == [("e0", 4), ("e741", 1)]


def test_a_sweep_reports_the_final_count() -> None:
    writer = Writer()
    for at in (0, 10, 20):
        writer.occurs(at)
    writer.report(writer.series.sweep(380), 380)
    assert len(writer.reported) == 2
    writer.report(writer.series.sweep(381), 381)
    assert writer.reported[2:] == [("e0", 3)]
    assert len(writer.series) == 0


def test_a_single_event_is_forgotten_without_a_word() -> None:
    writer = Writer()
    writer.occurs(0)
    assert writer.series.sweep(361) == []
    assert len(writer.series) == 0


def test_finishing_reports_what_the_cluster_does_not_know() -> None:
    writer = Writer()
    for at in (0, 10, 20):
        writer.occurs(at)
    writer.occurs(20, key("q"))
    writer.report(writer.series.finish(), 30)
    assert writer.reported == [("e0", 1), ("e0", 2), ("e20", 1), ("e0", 3)]


@pytest.mark.parametrize("other", [key(version="2"), key("q"), key(reason="Preempted")])
def test_another_object_version_or_reason_is_another_event(other: EventKey) -> None:
    writer = Writer()
    writer.occurs(0)
    writer.occurs(1, other)
    assert writer.reported == [("e0", 1), ("e1", 1)]


def test_memory_is_bounded_and_the_oldest_event_ends_first() -> None:
    writer = Writer()
    for at in (0, 0.1, 0.2):
        writer.occurs(at)
    for number in range(MAX_EVENTS):
        writer.occurs(1, key(f"q{number}"))
    assert len(writer.series) == MAX_EVENTS
    assert writer.reported[2 : 2 + 1] == [("e1", 1)]
    assert ("e0", 3) in writer.reported


def test_a_forgotten_event_begins_anew() -> None:
    series = EventCorrelator()
    (record,) = series.occurred(key(), "first", "note", 0)
    series.forget(record)
    (again,) = series.occurred(key(), "second", "note", 1)
    assert (again.name, again.count) == ("second", 1)
