"""Shapes that fit nowhere but may make room by evicting others: tried when their backoff is over, not at every event."""

from __future__ import annotations

from support.builders import pod
from support.queueing import Bench

from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.queue.events import NODE_ADD, EventHint, QueueingHint


def yes(waiting: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    return QueueingHint.QUEUE


def preemptible(size: int = 2) -> Bench:
    """Return a queue whose pods of one shape failed at 1000 and back off until 1002."""
    bench = Bench({"Fit": [EventHint(NODE_ADD, yes)]})
    bench.add(*(pod(f"p{i}") for i in range(size)), shape="s")
    bench.fail_all("Fit")
    bench.profile.passing, bench.profile.may_preempt = False, True
    return bench


def happen(bench: Bench) -> None:
    bench.queue.move_all(NODE_ADD, None, None)
    bench.queue.check_invariants()


def pass_to(bench: Bench, time: float) -> None:
    bench.clock.time = time
    bench.queue.flush_backoff(time)
    bench.queue.check_invariants()


def test_a_shape_that_only_evictions_could_help_is_not_tried_before_its_backoff_is_over() -> None:
    """Though nothing else is to do: a pod that fits would be popped early."""
    bench = preemptible()
    for _ in range(3):
        happen(bench)
    assert bench.places() == {"p0": "unschedulable", "p1": "unschedulable"}
    assert bench.queue.pop() is None
    assert bench.queue.next_flush() == 1002.0
    pass_to(bench, 1002.0)
    assert bench.places() == {"p0": "active", "p1": "unschedulable"}
    assert bench.metrics.incoming_pods["active", "NodeAdd"] == 1, "under the event since which preemption may help"
    assert bench.queue.next_flush() is None


def test_it_is_tried_at_once_when_its_backoff_is_over_already() -> None:
    bench = preemptible()
    bench.wait_out_backoff()
    happen(bench)
    assert bench.places() == {"p0": "active", "p1": "unschedulable"}


def test_a_node_that_fits_ends_the_waiting() -> None:
    bench = preemptible()
    happen(bench)
    bench.profile.passing = True
    happen(bench)
    assert bench.popped() == ["p0", "p1"], "from the backoff queue, early, as nothing else is to do"
    pass_to(bench, 1002.0)
    assert bench.queue.pop() is None


def test_a_group_that_a_node_made_active_is_not_made_active_again_when_its_backoff_is_over() -> None:
    """Else its pods would be tried under the event of that attempt at preemption, and none be made after their next failure."""
    bench = preemptible(3)
    happen(bench)
    bench.profile.passing = True
    happen(bench)
    p0 = bench.pop()
    activations = p0.popped_at
    pass_to(bench, 1002.0)
    p1 = bench.pop()
    assert p1.popped_at == activations
    bench.profile.passing = False
    for info in (p0, p1):
        bench.fail("Fit", info=info)
    happen(bench)
    bench.fail_all("Fit")
    happen(bench)
    assert bench.queue.next_flush() is not None, "it awaits preemption again"


def test_for_a_group_that_awaits_preemption_its_effect_is_not_estimated_again() -> None:
    bench = preemptible()
    happen(bench)
    bench.profile.probed.clear()
    happen(bench)
    assert (bench.profile.probed, bench.profile.asked_for_nodes) == ([], ["default/p0"])
    assert bench.places() == {"p0": "unschedulable", "p1": "unschedulable"}
    pass_to(bench, 1002.0)
    assert bench.places() == {"p0": "active", "p1": "unschedulable"}


def test_a_failed_attempt_ends_the_waiting_of_its_shape() -> None:
    bench = preemptible(4)
    happen(bench)
    pass_to(bench, 1002.0)
    bench.fail("Fit")
    assert bench.places()["p1"] == "active", "it had followed while the first was tried"
    bench.fail("Fit")
    pass_to(bench, 1100.0)
    assert set(bench.places().values()) == {"unschedulable"}


def test_after_an_event_during_the_attempt_the_group_awaits_preemption_again() -> None:
    bench = preemptible(1)
    happen(bench)
    pass_to(bench, 1002.0)
    info = bench.pop()
    happen(bench)
    bench.fail("Fit", info=info)
    assert bench.places() == {"p0": "unschedulable"}
    assert bench.queue.next_flush() == 1005.0, "two seconds for the second failure"
    pass_to(bench, 1005.0)
    assert bench.places() == {"p0": "active"}


def test_a_pod_that_comes_first_and_backs_off_longer_is_waited_for() -> None:
    bench = preemptible()
    happen(bench)
    bench.add(pod("important").priority(0), shape="s")
    bench.clock.time = 1001.5
    bench.fail("Fit")
    assert bench.places()["important"] == "unschedulable"
    pass_to(bench, 1002.0)
    assert bench.places()["p0"] == "unschedulable", "the failure at 1001.5 was the latest of the shape"


def test_a_pod_that_awaits_preemption_and_changes_is_tried() -> None:
    bench = preemptible(1)
    happen(bench)
    info = bench.queue.get("default/p0")
    assert info is not None
    bench.queue.reshape(lambda _: "t")
    assert bench.places() == {"p0": "backoff"}


def test_groups_that_lost_their_pods_are_passed_over() -> None:
    bench = preemptible(1)
    happen(bench)
    info = bench.queue.get("default/p0")
    assert info is not None
    bench.queue.delete(info.pod_info)
    pass_to(bench, 1100.0)
    assert bench.queue.next_flush() is None


def test_a_moved_pod_that_only_evictions_could_help_by_now_waits_for_its_backoff_again() -> None:
    bench = preemptible()
    bench.profile.passing = True
    happen(bench)
    pass_to(bench, 1002.0)
    (p0,) = [info for info in bench.queue.pending() if info.key == "default/p0"]
    bench.profile.passing = False
    while (info := bench.queue.pop()) is not None:
        bench.fail("Fit", info=info)
    bench.queue.move_all(NODE_ADD, None, None)
    assert p0.place.value != "active"
    pass_to(bench, 1100.0)
    assert "active" in bench.places().values()
