"""How long a pod backs off, and when exactly it is let go (framework.md §3.3)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from support.builders import pod
from support.queueing import Bench

from koordsched.queue.backoff import BackoffQueue
from koordsched.queue.events import NODE_ADD
from koordsched.queue.profile import QueueSettings
from koordsched.queue.queued_pod import QueuedPodInfo


def failed(*, refusals: int = 0, errors: int = 0, at: float = 0.0, name: str = "p") -> QueuedPodInfo:
    info = QueuedPodInfo(pod(name).info(), at)
    info.unschedulable_count = refusals
    info.consecutive_errors_count = errors
    if refusals and not errors:
        info.unschedulable_plugins = {"Fit"}
    return info


@pytest.mark.parametrize(
    ("refusals", "errors", "seconds"),
    [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, 4), (4, 0, 8), (5, 0, 10), (5000, 0, 10), (7, 1, 1), (7, 3, 4), (0, 2, 2)],
)
def test_the_penalty_doubles_up_to_the_maximum_and_errors_in_a_row_count_alone(refusals: int, errors: int, seconds: float) -> None:
    assert BackoffQueue(QueueSettings()).duration(failed(refusals=refusals, errors=errors)) == seconds


def test_initial_and_maximum_come_from_the_settings() -> None:
    queue = BackoffQueue(QueueSettings(initial_backoff=3, max_backoff=7))
    assert [queue.duration(failed(refusals=n)) for n in (1, 2, 3)] == [3, 6, 7]


@pytest.mark.parametrize(
    ("failed_at", "now", "backing_off"),
    [
        (100.0, 100.0, True),
        (100.0, 101.999, True),  # expiry 101; its whole second counts
        (100.0, 102.0, False),
        (100.9, 101.95, True),  # 101.9 is cut to 101
        (100.9, 102.0, False),  # waited 1.1 s
    ],
)
def test_a_pod_backs_off_until_the_second_after_its_truncated_expiry(failed_at: float, now: float, backing_off: bool) -> None:
    assert BackoffQueue(QueueSettings()).is_backing_off(failed(refusals=1, at=failed_at), now) is backing_off


def test_a_pod_that_never_failed_does_not_back_off() -> None:
    assert not BackoffQueue(QueueSettings()).is_backing_off(failed(at=100.0), 100.0)


def test_pods_are_let_go_by_expiry_then_by_sort_key_and_refused_ones_first() -> None:
    queue = BackoffQueue(QueueSettings())
    for name, at, priority in (("late", 101.5, 9), ("low", 100.2, 1), ("high", 100.9, 5)):
        info = failed(refusals=1, at=at, name=name)
        info.sort_key = (-priority, at)
        queue.add(info)
    error = failed(errors=1, at=100.0, name="error")
    error.sort_key = (-99, 0)
    queue.add(error)
    assert queue.next_expiry() == 102.0
    assert [info.key for info in queue.pop_expired(102.0)] == ["default/high", "default/low", "default/error"]
    assert queue.next_expiry() == 103.0
    assert [info.key for info in queue.pop_expired(102.9)] == []
    assert [info.key for info in queue.pop_expired(103.0)] == ["default/late"]
    assert queue.next_expiry() is None


def test_a_pod_that_failed_with_an_error_is_not_popped_early() -> None:
    queue = BackoffQueue(QueueSettings())
    queue.add(failed(errors=1))
    assert len(queue) == 1
    assert not queue.may_pop_early
    assert queue.pop_early() is None


def test_a_pod_can_be_taken_out_of_either_heap() -> None:
    queue = BackoffQueue(QueueSettings())
    queue.add(failed(errors=1, name="e"))
    queue.add(failed(refusals=1, name="r"))
    queue.remove("default/e")
    assert [info.key for info in queue] == ["default/r"]
    queue.remove("default/r")
    assert len(queue) == 0


def test_attempts_with_a_queue_event_after_each_are_as_far_apart_as_in_kube_scheduler() -> None:
    """framework.md §13.14: 1-2, 2-3, 4-5, 8-9 and 10-11 s, while another pod keeps the active queue from being empty."""
    bench = Bench()
    bench.clock.time = 1000.4
    bench.add(pod("tried"))
    attempts = []
    for _ in range(6):
        while (info := bench.queue.pop()) is None or info.key != "default/tried":
            flush_at = bench.queue.next_flush()
            assert flush_at is not None
            bench.clock.time = flush_at
            bench.add(pod(f"other-{flush_at}").priority(-1))
            bench.queue.flush_backoff(bench.clock.now())
        attempts.append(bench.clock.now())
        bench.clock.time += 0.1
        bench.fail("Fit", info=info)
        bench.queue.move_all(NODE_ADD, None, None)
        bench.clock.time += 0.3
        bench.add(pod("filler").uid(f"uid-{len(attempts)}").priority(-1))
    apart = [later - earlier for earlier, later in pairwise(attempts)]
    assert [(low < wait <= low + 1.0) for wait, low in zip(apart, (1, 2, 4, 8, 10), strict=True)] == [True] * 5, apart
