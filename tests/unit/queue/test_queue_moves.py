"""What events do to pods that are moved as a whole (framework.md §3.5), and the flush."""

from __future__ import annotations

from support.builders import node, pod
from support.queueing import Bench, name_of

from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    QueueingHint,
    Scope,
    cluster_event,
)
from koordsched.queue.profile import QueueSettings

NODE_LABEL = cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)


def test_an_event_moves_pods_that_back_off_to_the_backoff_queue_and_others_to_the_active_one() -> None:
    bench = Bench()
    bench.add(pod("rested"), pod("tired"))
    bench.fail("Fit", in_filter=False)
    bench.wait_out_backoff()
    bench.fail("Fit", in_filter=False)
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"rested": "active", "tired": "backoff"}


def test_a_pending_plugin_skips_the_backoff() -> None:
    bench = Bench({"P": [EventHint(NODE_ADD)]})
    bench.add(pod("p"))
    bench.fail(pending=["P"], in_filter=False)
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"p": "active"}


def test_an_event_that_the_rejectors_did_not_register_moves_nothing() -> None:
    bench = Bench({"A": [EventHint(NODE_ADD)], "B": [EventHint(NODE_DELETE)]})
    bench.add(pod("a"), pod("b"))
    bench.fail("A")
    bench.fail("B")
    bench.queue.move_all(NODE_DELETE, None, None)
    assert bench.places() == {"a": "unschedulable", "b": "backoff"}


def test_an_event_that_no_plugin_registered_is_not_even_kept_for_pods_in_flight() -> None:
    bench = Bench({"A": [EventHint(NODE_ADD)]})
    bench.add(pod("p"))
    bench.pop()
    bench.queue.move_all(NODE_DELETE, None, None)
    assert bench.queue.inflight_events() == {"PodPopped": 1}
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.queue.inflight_events() == {"PodPopped": 1, "NodeAdd": 1}


def test_equal_pods_are_asked_once_and_moved_together() -> None:
    asked: list[str] = []

    def hint(waiting: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        asked.append(waiting.key)
        assert new is fitting
        return QueueingHint.QUEUE

    fitting = node("n").build()
    bench = Bench({"Permit": [EventHint(NODE_ADD, hint)]})
    bench.add(*(pod(f"p{i}") for i in range(5)), shape="s")
    bench.fail_all("Permit", in_filter=False)
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_ADD, None, fitting)
    assert asked == ["default/p0"]
    assert bench.popped() == ["p0", "p1", "p2", "p3", "p4"]
    assert bench.profile.probed == [], "a refusal outside Filter says nothing about nodes"


def test_pods_without_a_shape_are_asked_one_by_one_and_never_probed() -> None:
    asked: list[str] = []

    def hint(waiting: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        asked.append(name_of(waiting.key))
        return QueueingHint.QUEUE if waiting.key == "default/b" else QueueingHint.SKIP

    bench = Bench({"Fit": [EventHint(NODE_ADD, hint)]})
    bench.profile.passing = False
    bench.add(pod("a"), pod("b"), pod("c"))
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_ADD, None, None)
    assert sorted(asked) == ["a", "b", "c"]
    assert bench.places() == {"a": "unschedulable", "b": "active", "c": "unschedulable"}
    assert bench.profile.probed == []


def test_an_event_in_scope_of_some_moves_only_those() -> None:
    bench = Bench({"Fit": [EventHint(ASSIGNED_POD_DELETE)]})
    pods = bench.add(pod("low").priority(1), pod("same").priority(2), pod("high").priority(3), pod("self").priority(1), shape="s")
    bench.fail_all("Fit", in_filter=False)
    bench.wait_out_backoff()
    bench.queue.move_all(ASSIGNED_POD_DELETE, None, None, Scope(max_priority=2, exclude_uid=pods[3].uid))
    assert bench.places() == {"low": "active", "same": "active", "high": "unschedulable", "self": "unschedulable"}


def test_a_wildcard_event_moves_all_but_gated_pods_whatever_they_registered() -> None:
    bench = Bench({"Deaf": (), "Gang": ()})
    bench.profile.gates["default/gated"] = "Gang"
    bench.add(pod("gated"), pod("plain"))
    bench.add(pod("shaped").priority(-1), shape="s")
    bench.fail_all("Deaf")
    bench.wait_out_backoff()
    bench.queue.move_all(ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "Everything"), None, None)
    assert bench.places() == {"plain": "active", "shaped": "active", "gated": "gated"}
    assert bench.metrics.incoming_pods["active", "Everything"] == 2


def test_a_wildcard_event_with_a_scope_moves_the_pods_in_it() -> None:
    everything = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "Everything")
    bench = Bench({"Deaf": ()})
    bench.add(pod("low").priority(1), pod("high").priority(3), shape="s")
    (alone,) = bench.add(pod("alone").priority(1), shape="t")
    bench.fail_all("Deaf")
    bench.wait_out_backoff()
    bench.queue.move_all(everything, None, None, Scope(max_priority=2, exclude_uid=alone.uid))
    assert bench.places() == {"low": "active", "high": "unschedulable", "alone": "unschedulable"}


def test_activating_moves_a_pod_out_of_either_queue_backoff_or_not() -> None:
    bench = Bench()
    pods = bench.add(pod("backing-off"), pod("waiting"), pod("active"))
    bench.fail()
    bench.fail("Fit")
    assert bench.places() == {"active": "active", "backing-off": "backoff", "waiting": "unschedulable"}
    bench.queue.activate([*pods, pod("unknown").info()])
    assert bench.places() == {"active": "active", "backing-off": "active", "waiting": "active"}
    bench.queue.check_invariants()


def test_pods_that_waited_too_long_are_flushed_and_marked() -> None:
    bench = Bench({"Deaf": ()}, settings=QueueSettings(max_in_unschedulable=300))
    bench.add(pod("old"), pod("young"))
    old = bench.fail("Deaf", in_filter=False)
    bench.clock.time = 1100.0
    bench.fail("Deaf", in_filter=False)
    bench.clock.time = 1300.0
    bench.queue.flush_unschedulable(1300.0)
    assert bench.places() == {"old": "unschedulable", "young": "unschedulable"}, "300 s is not longer than 300 s"
    bench.clock.time = 1300.5
    bench.queue.flush_unschedulable(1300.5)
    assert bench.places() == {"old": "active", "young": "unschedulable"}
    assert bench.metrics.incoming_pods["active", "UnschedulableTimeout"] == 1
    assert bench.pop() is old
    assert old.after_flush
    bench.fail("Deaf", info=old, in_filter=False)
    bench.queue.activate([old.pod_info])
    assert not bench.pop().after_flush


def test_of_pods_that_wait_together_only_those_that_waited_too_long_are_flushed() -> None:
    bench = Bench({"Deaf": ()}, settings=QueueSettings(max_in_unschedulable=300))
    bench.add(pod("old"), pod("young"), shape="s")
    bench.fail("Deaf", in_filter=False)
    bench.clock.time = 1000.5
    bench.fail("Deaf", in_filter=False)
    bench.clock.time = 1300.5
    bench.queue.flush_unschedulable(1300.5)
    assert bench.places() == {"old": "active", "young": "unschedulable"}, "300 s is not longer than 300 s"


def test_a_flushed_pod_that_still_backs_off_waits_for_it() -> None:
    bench = Bench({"Deaf": ()}, settings=QueueSettings(initial_backoff=500, max_backoff=500, max_in_unschedulable=300))
    bench.add(pod("p"))
    bench.fail("Deaf")
    bench.clock.time = 1301.0
    bench.queue.flush_unschedulable(1301.0)
    assert bench.places() == {"p": "backoff"}
    assert bench.queue.next_flush() == 1501.0
