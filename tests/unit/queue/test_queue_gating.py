"""PreEnqueue keeps pods out (framework.md §2.1, §3.2, §3.5)."""

from __future__ import annotations

from structlog.testing import capture_logs
from support.builders import pod
from support.queueing import Bench

from koordsched.queue.events import (
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    ActionType,
    EventHint,
    EventResource,
    QueueingHint,
    cluster_event,
)
from koordsched.queue.hints import ALWAYS_QUEUE

GROUP_ADD = cluster_event(EventResource.CUSTOM, ActionType.ADD, "podgroups.scheduling.sigs.k8s.io")
LABELS = cluster_event(EventResource.POD, ActionType.UPDATE_POD_LABEL)
GATES_GONE = cluster_event(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)


def gang_bench() -> Bench:
    return Bench({"Gang": [EventHint(GROUP_ADD)], "Fit": ALWAYS_QUEUE, "Gates": [EventHint(GATES_GONE, own_gates)]})


def own_gates(waiting: object, old: object, new: object) -> QueueingHint:
    return QueueingHint.QUEUE


def test_a_gated_pod_is_not_poppable_and_counted_as_gated() -> None:
    bench = gang_bench()
    bench.profile.gates["default/p"] = "Gang"
    bench.add(pod("p"))
    info = bench.queue.get("default/p")
    assert info is not None
    assert (info.gating_plugin, info.gating_message, info.initial_attempt_timestamp) == ("Gang", "gated by Gang", None)
    assert bench.queue.sizes() == (0, 0, 0, 1)
    assert bench.queue.pop() is None
    assert bench.metrics.unschedulable == {"Gang": 1}
    assert bench.metrics.incoming_pods == {("unschedulable", "UnschedulablePodAdd"): 1}


def test_only_events_of_the_gating_plugin_let_a_gated_pod_in_and_no_probe_is_asked() -> None:
    bench = gang_bench()
    bench.profile.gates["default/p"] = "Gang"
    bench.profile.passing = False
    bench.add(pod("p"), shape="s")
    bench.profile.gates.clear()
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"p": "gated"}
    bench.queue.move_all(GROUP_ADD, None, None)
    assert bench.places() == {"p": "active"}
    assert bench.profile.probed == []


def test_a_plugin_that_announces_what_helps_its_gated_pods_need_not_announce_their_own_changes() -> None:
    bench = Bench({"Gang": [EventHint(GROUP_ADD, gated=False), EventHint(LABELS, gated=False)]})
    bench.profile.gates["default/p"] = "Gang"
    (old,) = bench.add(pod("p").label("gang", "g"))
    bench.profile.gates.clear()
    bench.queue.move_all(GROUP_ADD, None, None)
    assert bench.places() == {"p": "gated"}
    bench.queue.update(old, pod("p").resource_version("7").info())
    assert bench.places() == {"p": "active"}


def test_a_pod_that_stays_gated_after_an_event_stays_where_it_is() -> None:
    bench = gang_bench()
    bench.profile.gates["default/p"] = "Gang"
    bench.add(pod("p"))
    bench.queue.move_all(GROUP_ADD, None, None)
    assert bench.places() == {"p": "gated"}
    assert bench.metrics.unschedulable == {"Gang": 1}
    bench.queue.check_invariants()


def test_the_gating_plugin_is_asked_first_the_next_time_and_another_may_take_its_place() -> None:
    bench = gang_bench()
    bench.profile.gates["default/p"] = "Gang"
    bench.add(pod("p"))
    bench.profile.gates["default/p"] = "Gates"
    bench.queue.move_all(GROUP_ADD, None, None)
    assert set(bench.profile.preferred[1:]) == {"Gang"}
    info = bench.queue.get("default/p")
    assert info is not None
    assert info.gating_plugin == "Gates"
    bench.profile.gates.clear()
    bench.queue.move_all(GROUP_ADD, None, None)
    assert bench.places() == {"p": "gated"}, "Gang no longer gates it"
    bench.queue.check_invariants()


def test_a_pod_can_be_gated_on_its_way_to_either_queue() -> None:
    bench = gang_bench()
    bench.add(pod("backing-off"), pod("rested"))
    rested = bench.pop()
    bench.fail("Fit", info=rested)
    bench.wait_out_backoff()
    bench.fail("Fit")
    bench.profile.gates |= {"default/backing-off": "Gang", "default/rested": "Gang"}
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"backing-off": "gated", "rested": "gated"}
    bench.queue.check_invariants()


def test_pre_enqueue_is_not_run_again_when_the_backoff_ends() -> None:
    bench = gang_bench()
    bench.add(pod("p"))
    bench.fail("Fit")
    bench.queue.move_all(NODE_ADD, None, None)
    bench.profile.gates["default/p"] = "Gang"
    bench.clock.time = 1002.0
    bench.queue.flush_backoff(1002.0)
    assert bench.places() == {"p": "active"}


def test_the_flush_leaves_gated_pods_alone() -> None:
    bench = gang_bench()
    bench.profile.gates["default/p"] = "Gang"
    bench.add(pod("p"))
    bench.profile.gates.clear()
    bench.queue.flush_unschedulable(bench.clock.now() + 1000)
    assert bench.places() == {"p": "gated"}


def test_removing_the_last_of_two_gates_lets_the_pod_in_and_the_first_does_not() -> None:
    bench = gang_bench()
    bench.profile.gates["default/p"] = "Gates"
    (both,) = bench.add(pod("p").gate("a").gate("b").resource_version("1"))
    (one,) = [pod("p").gate("b").resource_version("2").info()]
    bench.queue.update(both, one)
    assert bench.queue.sizes().gated == 1
    bench.profile.gates.clear()
    bench.queue.update(one, pod("p").resource_version("3").info())
    assert bench.queue.sizes() == (1, 0, 0, 0)
    assert bench.metrics.incoming_pods["active", "UnschedulablePodUpdatePodSchedulingGatesEliminated"] == 1


def test_the_nomination_of_a_gated_pod_counts_only_once_it_is_let_in() -> None:
    bench = gang_bench()
    bench.profile.gates["default/p"] = "Gang"
    (p,) = bench.add(pod("p").nominated("n1"))
    assert p.uid not in bench.queue.nominator
    bench.profile.gates.clear()
    bench.queue.move_all(GROUP_ADD, None, None)
    assert bench.queue.nominator.node_of(p.uid) == "n1"


def test_activating_a_gated_pod_asks_pre_enqueue() -> None:
    bench = gang_bench()
    bench.profile.gates["default/p"] = "Gang"
    pods = bench.add(pod("p"))
    bench.queue.activate(pods)
    assert bench.places() == {"p": "gated"}
    bench.profile.gates.clear()
    bench.queue.activate(pods)
    assert bench.places() == {"p": "active"}
    assert bench.metrics.incoming_pods["active", "ForceActivate"] == 1


def test_a_pre_enqueue_that_fails_gates_the_pod_and_is_logged() -> None:
    bench = Bench()
    bench.profile.gates["default/p"] = "Gang"
    with capture_logs() as logs:
        bench.add(pod("p"))
        assert logs == [], "a refusal is no failure"
        bench.profile.gates["default/q"] = "Gang"
        bench.profile.gating_fails = True
        bench.add(pod("q"))
    assert bench.places() == {"p": "gated", "q": "gated"}
    (logged,) = logs
    assert (logged["event"], logged["log_level"]) == ("PreEnqueue failed, the pod is gated", "error")
    assert (logged["pod"], logged["plugin"], logged["error"]) == ("default/q", "Gang", "gated by Gang")


def test_an_event_that_means_every_pod_asks_no_gated_one() -> None:
    bench = gang_bench()
    bench.profile.gates["default/p"] = "Gang"
    bench.add(pod("p"), pod("q"))
    bench.fail("Fit", info=bench.pop())
    asked = len(bench.profile.preferred)
    bench.queue.move_all(UNSCHEDULABLE_TIMEOUT, None, None)
    assert bench.places() == {"q": "backoff", "p": "gated"}
    assert len(bench.profile.preferred) == asked + 1
