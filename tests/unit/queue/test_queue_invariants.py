"""The invariants are able to fail, and show the history of the pod that broke them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.builders import pod
from support.queueing import Bench

from koordsched.queue.events import ALL_PODS, NODE_ADD, ObservedEvent
from koordsched.queue.queued_pod import QueuePlace


def full_bench() -> Bench:
    """Return a queue with a probe pod, the rest of its group, a pod that backs off and one in flight."""
    bench = Bench()
    bench.add(*(pod(f"p{i}") for i in range(3)), shape="s")
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_ADD, None, None)
    bench.add(pod("error").priority(1), pod("flying").priority(1))
    bench.fail()
    bench.pop()
    bench.queue.check_invariants()
    return bench


def lose_a_pod(bench: Bench) -> None:
    bench.queue._queues.active.remove("default/p0")


def put_a_pod_in_two_queues(bench: Bench) -> None:
    info = bench.queue.get("default/p1")
    assert info is not None
    bench.queue._queues.active.add(info.sort_key, info)


def misplace_a_pod(bench: Bench) -> None:
    info = bench.queue.get("default/p1")
    assert info is not None
    info.place = QueuePlace.BACKOFF


def forget_the_probe_pod(bench: Bench) -> None:
    (group,) = bench.queue._queues.unschedulable.groups
    group.probe_pod = None


def age_a_backoff(bench: Bench) -> None:
    info = bench.queue.get("default/error")
    assert info is not None
    info.timestamp += 10


def miscount_gated(bench: Bench) -> None:
    bench.queue._queues.unschedulable.gated += 1


def list_a_nomination_twice(bench: Bench) -> None:
    nominator = bench.queue.nominator
    p = pod("p0").info()
    nominator.set(p, "n1")
    nominator._nodes["n2"] = {p.uid: p}


def keep_events_without_a_pod_in_flight(bench: Bench) -> None:
    bench.queue._inflight.record(ObservedEvent(NODE_ADD, None, None), ALL_PODS)
    bench.queue._inflight.pods.clear()


def requeue_a_flying_pod(bench: Bench) -> None:
    (info,) = bench.queue.in_flight
    bench.queue._queues.enter_active(info, "test")


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lose_a_pod, "lost"),
        (put_a_pod_in_two_queues, "in 2 queues"),
        (misplace_a_pod, "has another place"),
        (forget_the_probe_pod, "has no probe pod"),
        (age_a_backoff, "out of date"),
        (miscount_gated, "gated pods is wrong"),
        (list_a_nomination_twice, "listed twice"),
        (keep_events_without_a_pod_in_flight, "^queue: events are kept though no pod is in flight"),
        (requeue_a_flying_pod, "in flight is in a queue"),
    ],
)
def test_a_broken_invariant_is_noticed(break_it: Callable[[Bench], None], message: str) -> None:
    bench = full_bench()
    break_it(bench)
    with pytest.raises(AssertionError, match=message):
        bench.queue.check_invariants()


def test_the_error_shows_the_history_of_the_pod() -> None:
    bench = full_bench()
    misplace_a_pod(bench)
    with pytest.raises(AssertionError, match=r"default/p1 -> UNSCHEDULABLE \(ScheduleAttemptFailure\)"):
        bench.queue.check_invariants()
