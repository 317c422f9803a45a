"""Pods in flight and the events kept for them (framework.md §3.3)."""

from __future__ import annotations

from support.builders import pod

from koordsched.queue.events import ALL_PODS, NODE_ADD, NODE_DELETE, ClusterEvent, ObservedEvent
from koordsched.queue.inflight import InFlight
from koordsched.queue.queued_pod import QueuedPodInfo


def start(inflight: InFlight, name: str) -> str:
    info = QueuedPodInfo(pod(name).info(), 0.0)
    inflight.start(info)
    return info.uid


def record(inflight: InFlight, event: ClusterEvent) -> None:
    inflight.record(ObservedEvent(event, None, None), ALL_PODS)


def missed(inflight: InFlight, uid: str) -> list[str]:
    events = inflight.missed(uid)
    assert events is not None
    return [event.observed.event.label for event in events]


def test_a_pod_misses_what_happens_after_it_was_popped_in_order() -> None:
    inflight = InFlight()
    a = start(inflight, "a")
    record(inflight, NODE_ADD)
    b = start(inflight, "b")
    record(inflight, NODE_DELETE)
    assert missed(inflight, a) == ["NodeAdd", "NodeDelete"]
    assert missed(inflight, b) == ["NodeDelete"]


def test_nothing_is_kept_while_no_pod_is_in_flight() -> None:
    inflight = InFlight()
    record(inflight, NODE_ADD)
    assert inflight.events == 0
    assert missed(inflight, start(inflight, "a")) == []


def test_events_are_forgotten_once_no_pod_in_flight_precedes_them() -> None:
    inflight = InFlight()
    a = start(inflight, "a")
    record(inflight, NODE_ADD)
    b = start(inflight, "b")
    record(inflight, NODE_DELETE)
    assert inflight.events_by_label() == {"PodPopped": 2, "NodeAdd": 1, "NodeDelete": 1}
    inflight.finish(a)
    assert inflight.events_by_label() == {"PodPopped": 1, "NodeDelete": 1}
    assert missed(inflight, b) == ["NodeDelete"]
    inflight.finish(b)
    assert inflight.events == 0
    assert inflight.events_by_label() == {"PodPopped": 0}


def test_events_stay_while_the_oldest_pod_is_in_flight() -> None:
    inflight = InFlight()
    a, b = start(inflight, "a"), start(inflight, "b")
    record(inflight, NODE_ADD)
    inflight.finish(b)
    assert missed(inflight, a) == ["NodeAdd"]


def test_of_a_pod_that_is_not_in_flight_nothing_is_known() -> None:
    inflight = InFlight()
    inflight.finish("unknown")
    assert inflight.missed("unknown") is None
    assert list(inflight) == []


def test_the_gauge_counts_pops_and_events() -> None:
    inflight = InFlight()
    start(inflight, "a")
    record(inflight, NODE_ADD)
    record(inflight, NODE_ADD)
    assert inflight.events_by_label() == {"PodPopped": 1, "NodeAdd": 2}
