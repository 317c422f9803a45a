"""Coming back after a failed attempt, with the events missed meanwhile (framework.md §3.3)."""

from __future__ import annotations

from support.builders import pod
from support.queueing import Bench

from koordsched.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    EventHint,
    QueueingHint,
    Scope,
)
from koordsched.queue.queued_pod import QueuePlace


def hinted_bench() -> Bench:
    """Fit waits for nodes, P (pending) for deleted nodes; Deaf for nothing."""
    return Bench({"Fit": [EventHint(NODE_ADD)], "P": [EventHint(NODE_DELETE, yes)], "Deaf": ()})


def yes(waiting: object, old: object, new: object) -> QueueingHint:
    return QueueingHint.QUEUE


def no(waiting: object, old: object, new: object) -> QueueingHint:
    return QueueingHint.SKIP


def test_refusals_and_errors_in_a_row_are_counted_apart() -> None:
    bench = Bench()
    bench.add(pod("p"))
    info = bench.pop()
    counts = []
    for plugins in ((), (), ("Fit",), (), ("Fit",)):
        bench.fail(*plugins, info=info)
        counts.append((info.consecutive_errors_count, info.unschedulable_count))
        info = bench.queue.take("default/p") or info
    assert counts == [(1, 0), (2, 0), (0, 1), (1, 1), (0, 2)]


def test_an_error_goes_to_the_backoff_queue_and_a_refusal_waits_for_an_event() -> None:
    bench = hinted_bench()
    bench.add(pod("error"), pod("refused"))
    error, refused = bench.pop(), bench.pop()
    bench.fail(info=error)
    bench.fail("Fit", info=refused)
    assert bench.places() == {"error": "backoff", "refused": "unschedulable"}


def test_a_missed_event_that_helps_sends_the_pod_to_the_backoff_queue() -> None:
    bench = hinted_bench()
    bench.add(pod("p"))
    info = bench.pop()
    bench.queue.move_all(NODE_ADD, None, None)
    bench.fail("Fit", info=info)
    assert bench.places() == {"p": "backoff"}
    assert bench.metrics.incoming_pods["backoff", "ScheduleAttemptFailure"] == 1


def test_a_missed_event_that_only_helps_against_others_does_not_count() -> None:
    bench = hinted_bench()
    bench.add(pod("p"))
    info = bench.pop()
    bench.queue.move_all(NODE_ADD, None, None)
    bench.fail("P", info=info)
    assert bench.places() == {"p": "unschedulable"}


def test_events_before_the_pop_do_not_count() -> None:
    bench = hinted_bench()
    bench.add(pod("early"), pod("late"))
    bench.pop()
    bench.queue.move_all(NODE_ADD, None, None)
    bench.fail("Fit")
    assert bench.places() == {"late": "unschedulable"}


def test_a_missed_event_for_a_pending_plugin_skips_the_backoff() -> None:
    bench = hinted_bench()
    bench.add(pod("p"))
    info = bench.pop()
    bench.queue.move_all(NODE_ADD, None, None)
    bench.queue.move_all(NODE_DELETE, None, None)
    bench.fail("Fit", pending=["P"], info=info, in_filter=False)
    assert bench.places() == {"p": "active"}


def test_no_hint_is_called_for_missed_events_after_one_that_surely_helps_unless_a_pending_plugin_may_skip_the_backoff() -> None:
    for pending, answer, called, place in (([], no, 1, "backoff"), (["P"], no, 4, "backoff"), (["P"], yes, 2, "active")):
        bench = Bench({"Fit": [EventHint(NODE_ADD)], "P": [EventHint(NODE_ADD, answer)], "Taint": [EventHint(NODE_DELETE, yes)]})
        bench.add(pod("p"))
        info = bench.pop()
        for event in (NODE_DELETE, NODE_ADD, NODE_DELETE, NODE_DELETE):
            bench.queue.move_all(event, None, None)
        bench.fail("Fit", "Taint", pending=pending, info=info, in_filter=False)
        assert bench.places() == {"p": place}
        assert bench.metrics.hints.total() == called


def test_a_pod_that_was_done_before_it_failed_backs_off_for_its_events_are_gone() -> None:
    bench = hinted_bench()
    bench.add(pod("p"))
    info = bench.pop()
    bench.queue.done(info.uid)
    bench.fail("Deaf", info=info)
    assert bench.places() == {"p": "backoff"}


def test_a_missed_event_out_of_scope_does_not_count() -> None:
    bench = Bench({"Fit": [EventHint(ASSIGNED_POD_DELETE)]})
    bench.add(pod("a").priority(5), pod("b").priority(5), pod("c").priority(4))
    a, b, c = bench.pop(), bench.pop(), bench.pop()
    bench.queue.move_all(ASSIGNED_POD_DELETE, None, None, Scope(max_priority=4))
    bench.queue.move_all(ASSIGNED_POD_DELETE, None, None, Scope(exclude_uid=a.uid, max_priority=5))
    for info in (a, b, c):
        bench.fail("Fit", info=info, in_filter=False)
    assert bench.places() == {"a": "unschedulable", "b": "backoff", "c": "backoff"}


def test_an_activation_while_in_flight_concerns_that_pod_alone() -> None:
    bench = hinted_bench()
    a, _ = bench.add(pod("a"), pod("b"))
    flying = [bench.pop(), bench.pop()]
    bench.queue.activate([a])
    for info in flying:
        bench.fail("Deaf", info=info)
    assert bench.places() == {"a": "backoff", "b": "unschedulable"}


def test_events_are_forgotten_when_the_pod_is_back() -> None:
    bench = hinted_bench()
    bench.add(pod("p"))
    info = bench.pop()
    bench.queue.move_all(NODE_ADD, None, None)
    bench.fail("Fit", info=info)
    assert bench.queue.in_flight == []
    assert set(bench.queue.inflight_events().values()) == {0}


def test_a_pod_that_is_in_a_queue_already_is_left_there() -> None:
    bench = hinted_bench()
    (p,) = bench.add(pod("p"))
    info = bench.pop()
    bench.queue.add(p)
    assert bench.queue.add_unschedulable_if_not_present(info) is QueuePlace.ACTIVE
    assert info.unschedulable_count == 0
    assert bench.queue.in_flight == []
    bench.queue.check_invariants()


def test_the_gauge_of_rejectors_rises_at_the_refusal_and_falls_at_the_next_pop() -> None:
    bench = hinted_bench()
    bench.add(pod("p"))
    bench.fail("Fit", "Deaf", pending=["P"])
    assert bench.metrics.unschedulable == {"Fit": 1, "Deaf": 1, "P": 1}
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.metrics.unschedulable == {"Fit": 1, "Deaf": 1, "P": 1}
    bench.pop()
    assert bench.metrics.unschedulable == {"Fit": 0, "Deaf": 0, "P": 0}
