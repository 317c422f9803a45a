"""Moving the pods of one shape that Filter refused (docs/decisions/0003-moving-by-shape.md)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from support.builders import pod
from support.queueing import Bench, name_of

from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.queue.events import (
    NODE_ADD,
    NODE_DELETE,
    ActionType,
    EventHint,
    EventResource,
    QueueingHint,
    Scope,
    cluster_event,
)
from koordsched.queue.hints import Rejectors

NODE_LABEL = cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)


def yes(waiting: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    return QueueingHint.QUEUE


HINTS = {"Fit": [EventHint(NODE_ADD, yes)], "Taint": [EventHint(NODE_LABEL, yes)], "Always": [EventHint(NODE_DELETE)]}


def failed_group(size: int = 3, *, plugins: Sequence[str] = ("Fit",), bench: Bench | None = None) -> Bench:
    """Return a queue where p0, p1... of one shape were refused in Filter and no longer back off."""
    bench = bench or Bench(HINTS)
    bench.add(*(pod(f"p{i}") for i in range(size)), shape="s")
    bench.fail_all(*plugins)
    bench.wait_out_backoff()
    bench.metrics.incoming_pods.clear()
    return bench


def help_the_shape(bench: Bench) -> None:
    bench.queue.move_all(NODE_ADD, None, None)
    bench.queue.check_invariants()


def active(bench: Bench) -> list[str]:
    return [name for name, place in bench.places().items() if place == "active"]


def test_no_pod_moves_when_the_probe_finds_no_node() -> None:
    bench = failed_group()
    bench.profile.passing = False
    help_the_shape(bench)
    assert active(bench) == []
    assert bench.profile.probed == ["default/p0"]
    assert bench.metrics.probes_skipped == 1


def test_one_probe_pod_is_moved_when_the_probe_finds_a_node() -> None:
    bench = failed_group()
    help_the_shape(bench)
    assert bench.places() == {"p0": "active", "p1": "unschedulable", "p2": "unschedulable"}
    assert bench.metrics.incoming_pods == {("active", "NodeAdd"): 1}


def test_each_popped_probe_pod_is_followed_by_the_next_and_all_come_in_order() -> None:
    bench = failed_group()
    help_the_shape(bench)
    order = []
    while (info := bench.queue.pop()) is not None:
        order.append((name_of(info.key), active(bench)))
        bench.queue.done(info.uid)
        bench.queue.check_invariants()
    assert order == [("p0", ["p1"]), ("p1", ["p2"]), ("p2", [])]


def test_groups_and_single_pods_are_merged_as_if_all_had_been_moved_at_once() -> None:
    bench = Bench(HINTS)
    for i in range(3):
        for name, priority, shape in (("s", 2, "s"), ("t", 2, "t"), ("u", 3, "u"), ("single", 2, None)):
            bench.add(pod(f"{name}{i}").priority(priority), shape=shape)
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    help_the_shape(bench)
    assert bench.popped() == ["u0", "u1", "u2", "s0", "t0", "single0", "s1", "t1", "single1", "s2", "t2", "single2"]


def test_members_that_back_off_go_to_the_backoff_queue_and_the_first_that_does_not_is_the_probe_pod() -> None:
    bench = Bench(HINTS)
    bench.add(*(pod(f"p{i}") for i in range(4)), shape="s")
    infos = [bench.pop() for _ in range(4)]
    for info in infos[2:]:
        bench.fail("Fit", info=info)
    bench.wait_out_backoff()
    for info in infos[:2]:
        bench.fail("Fit", info=info)
    bench.clock.time += 0.5
    help_the_shape(bench)
    assert bench.places() == {"p2": "active", "p3": "unschedulable", "p0": "unschedulable", "p1": "unschedulable"}
    assert [name_of(bench.pop().key) for _ in range(2)] == ["p2", "p3"]
    assert bench.places() == {"p0": "backoff", "p1": "backoff"}


def test_when_a_probe_pod_fails_the_rest_stays_parked_and_the_next_one_returns_without_an_attempt() -> None:
    bench = failed_group(5)
    help_the_shape(bench)
    bench.fail("Fit")
    bench.profile.unchanged = True
    assert bench.queue.pop() is None
    assert active(bench) == []
    assert bench.metrics.retries_skipped == 1
    assert bench.metrics.incoming_pods["unschedulable", "UnchangedSinceFailure"] == 1
    attempts = {name_of(info.key): info.attempts for info in bench.queue.pending()}
    assert attempts == {"p0": 2, "p1": 1, "p2": 1, "p3": 1, "p4": 1}
    bench.queue.check_invariants()


def test_a_pod_that_returns_after_an_attempt_of_its_shape_leaves_that_attempts_plugins_as_those_that_refuse_the_group() -> None:
    bench = failed_group(5)
    help_the_shape(bench)
    bench.fail("Fit")
    bench.profile.unchanged, bench.profile.passing = True, False
    bench.profile.rejectors = Rejectors(frozenset({"Taint"}), frozenset())
    assert bench.queue.pop() is None
    bench.profile.unchanged, bench.profile.passing = False, True
    bench.queue.move_all(NODE_LABEL, None, None)
    assert active(bench) == []
    help_the_shape(bench)
    assert len(active(bench)) == 1


def test_a_parked_group_moves_again_at_the_next_event() -> None:
    bench = failed_group()
    help_the_shape(bench)
    bench.fail("Fit")
    bench.profile.unchanged = True
    bench.queue.pop()
    bench.profile.unchanged = False
    help_the_shape(bench)
    assert bench.popped() == ["p1", "p2", "p0"]


def test_a_new_event_while_a_group_is_active_calls_no_hint() -> None:
    bench = failed_group()
    help_the_shape(bench)
    help_the_shape(bench)
    assert bench.profile.probed == ["default/p0"]
    assert active(bench) == ["p0"]


def test_a_probe_pod_of_an_earlier_activation_that_was_not_popped_yet_stays_the_probe_pod() -> None:
    bench = failed_group()
    help_the_shape(bench)
    bench.fail("Fit")
    assert active(bench) == ["p1"]
    help_the_shape(bench)
    assert active(bench) == ["p1"]
    assert bench.popped() == ["p1", "p2", "p0"]


def test_a_pod_that_fails_later_joins_the_parked_group_and_is_tried_in_its_turn() -> None:
    bench = failed_group(2)
    bench.add(pod("later"), shape="s")
    bench.fail("Fit")
    bench.wait_out_backoff()
    help_the_shape(bench)
    assert bench.popped() == ["p0", "p1", "later"]


def test_a_fresh_pod_of_the_shape_that_fails_parks_the_group() -> None:
    bench = failed_group(3)
    help_the_shape(bench)
    bench.add(pod("fresh").priority(0), pod("first").priority(9), shape="s")
    assert name_of(bench.fail("Fit").key) == "first"
    assert name_of(bench.pop().key) == "p0", "another priority is another group"
    assert active(bench) == ["fresh", "p1"] or active(bench) == ["p1", "fresh"]


def test_a_group_activated_after_an_attempt_began_is_not_parked_by_its_failure() -> None:
    bench = Bench({"Fit": [EventHint(NODE_ADD, yes)], "Deaf": ()})
    bench.add(pod("slow"), shape="s")
    slow = bench.pop()
    bench = failed_group(3, bench=bench)
    help_the_shape(bench)
    bench.fail("Deaf", info=slow)
    assert bench.popped() == ["p0", "p1", "p2", "slow"], "what slow saw is older than the event that moved the others"
    bench.queue.check_invariants()


def test_higher_priorities_of_a_shape_are_moved_and_tried_first_and_their_failure_says_nothing_of_lower_ones() -> None:
    bench = Bench(HINTS)
    for i in range(2):
        bench.add(pod(f"low{i}").priority(1), pod(f"high{i}").priority(2), shape="s")
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    help_the_shape(bench)
    assert active(bench) == ["high0", "low0"]
    assert sorted(bench.profile.probed) == ["default/high0", "default/low0"]


def test_only_the_priorities_in_scope_are_moved() -> None:
    bench = Bench(HINTS)
    bench.add(pod("low").priority(1), pod("high").priority(2), shape="s")
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_ADD, None, None, Scope(max_priority=1))
    assert bench.places() == {"low": "active", "high": "unschedulable"}


def test_a_pod_alone_is_not_moved_by_what_it_caused_itself_but_a_group_is() -> None:
    bench = failed_group(1)
    bench.queue.move_all(NODE_ADD, None, None, Scope(exclude_uid="uid-default-p0"))
    assert active(bench) == []
    bench.add(pod("p1"), shape="s")
    bench.fail("Fit")
    bench.queue.move_all(NODE_ADD, None, None, Scope(exclude_uid="uid-default-p0"))
    assert active(bench) == ["p0"]


def test_a_registration_without_a_hint_function_asks_no_probe() -> None:
    bench = failed_group(plugins=["Fit", "Always"])
    bench.profile.passing = False
    bench.queue.move_all(NODE_DELETE, None, None)
    assert active(bench) == ["p0"]
    assert bench.profile.probed == []


@pytest.mark.parametrize("answer", QueueingHint)
def test_a_selective_hint_is_asked_before_the_probe(answer: QueueingHint) -> None:
    def only(waiting: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        return answer

    bench = failed_group(bench=Bench({"Fit": [EventHint(NODE_ADD, only, selective=True)]}))
    help_the_shape(bench)
    helps = answer is QueueingHint.QUEUE
    assert bench.profile.probed == ["default/p0"] * helps
    assert active(bench) == ["p0"] * helps


def test_a_pending_plugin_moves_a_group_that_backs_off_even_if_it_is_active() -> None:
    bench = Bench({"Fit": [EventHint(NODE_ADD, yes)], "Later": [EventHint(NODE_DELETE, yes)]})
    bench.add(*(pod(f"p{i}") for i in range(3)), shape="s")
    for info in [bench.pop() for _ in range(3)]:
        bench.fail("Fit", pending=["Later"], info=info)
    bench.queue.move_all(NODE_DELETE, None, None)
    assert bench.places() == {"p0": "active", "p1": "unschedulable", "p2": "unschedulable"}
    assert bench.popped() == ["p0", "p1", "p2"]


def test_when_the_probe_pod_is_deleted_the_next_takes_its_place() -> None:
    bench = failed_group()
    help_the_shape(bench)
    bench.queue.delete(pod("p0").info())
    bench.queue.check_invariants()
    assert bench.popped() == ["p1", "p2"]


def test_when_the_probe_pod_is_gated_the_next_takes_its_place() -> None:
    bench = failed_group(bench=Bench(HINTS | {"Gang": ()}))
    bench.profile.gates["default/p0"] = "Gang"
    help_the_shape(bench)
    assert bench.places() == {"p0": "gated", "p1": "active", "p2": "unschedulable"}


def test_all_members_take_over_the_rejectors_of_the_latest_real_attempt() -> None:
    """Otherwise p1 and p2 would miss the event that helps against the new obstacle."""
    bench = failed_group()
    help_the_shape(bench)
    bench.fail("Taint")
    assert bench.metrics.unschedulable == {"Fit": 1, "Taint": 2}, "p1 is active and carries its own until it is popped"
    bench.profile.unchanged = True
    assert bench.queue.pop() is None
    assert bench.metrics.unschedulable == {"Fit": 0, "Taint": 3}
    bench.profile.unchanged = False
    bench.queue.move_all(NODE_LABEL, None, None)
    assert bench.popped() == ["p1", "p2", "p0"]
    assert bench.metrics.unschedulable == {"Fit": 0, "Taint": 0}


def test_after_a_fruitless_probe_every_plugin_is_listened_to_because_another_one_may_refuse_now() -> None:
    bench = failed_group()
    bench.profile.passing = False
    bench.queue.move_all(NODE_LABEL, None, None)
    assert bench.profile.probed == [], "Fit does not care for labels"
    help_the_shape(bench)
    bench.profile.passing = True
    bench.queue.move_all(NODE_LABEL, None, None)
    assert active(bench) == ["p0"]


def test_after_a_fruitless_probe_others_without_a_hint_function_are_probed_too() -> None:
    bench = failed_group()
    bench.profile.passing = False
    help_the_shape(bench)
    bench.queue.move_all(NODE_DELETE, None, None)
    assert active(bench) == []
    assert bench.metrics.probes_skipped == 2


def test_a_real_attempt_narrows_the_subscriptions_again() -> None:
    bench = failed_group(1)
    bench.profile.passing = False
    help_the_shape(bench)
    bench.queue.activate([pod("p0").info()])
    bench.fail("Fit")
    bench.queue.move_all(NODE_LABEL, None, None)
    assert bench.metrics.probes_skipped == 1


def test_after_a_fruitless_probe_the_shape_listens_to_those_who_refuse_it_now() -> None:
    now_taint = Rejectors(frozenset({"Taint"}), frozenset())
    bench = failed_group(bench=Bench(HINTS, rejectors=now_taint))
    bench.profile.passing = False
    help_the_shape(bench)
    info = bench.queue.get("default/p2")
    assert info is not None
    assert info.rejectors == now_taint
    assert bench.metrics.unschedulable == {"Fit": 0, "Taint": 3}
    bench.profile.passing = True
    help_the_shape(bench)
    assert active(bench) == [], "Fit no longer refuses"
    bench.queue.move_all(NODE_LABEL, None, None)
    assert active(bench) == ["p0"]


def test_a_profile_that_names_no_rejector_leaves_every_plugin_listened_to() -> None:
    bench = failed_group(bench=Bench(HINTS, rejectors=Rejectors(frozenset(), frozenset())))
    bench.profile.passing = False
    help_the_shape(bench)
    bench.profile.passing = True
    bench.queue.move_all(NODE_LABEL, None, None)
    assert active(bench) == ["p0"]


def test_a_missed_event_that_a_probe_finds_fruitless_leaves_the_pod_waiting() -> None:
    bench = Bench(HINTS)
    bench.add(pod("p"), shape="s")
    info = bench.pop()
    bench.queue.move_all(NODE_ADD, None, None)
    bench.profile.passing = False
    bench.fail("Fit", info=info)
    assert bench.places() == {"p": "unschedulable"}
    bench.profile.passing = True
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_LABEL, None, None)
    assert bench.places() == {"p": "active"}, "which plugins refuse it after the missed event is not known"


def test_a_pod_never_tried_is_tried_though_its_shape_failed_and_nothing_changed() -> None:
    bench = failed_group()
    bench.profile.unchanged = True
    bench.add(pod("fresh"), shape="s")
    assert bench.popped() == ["fresh"]


def test_a_pod_that_failed_with_an_error_is_tried_again_though_its_shape_failed() -> None:
    bench = failed_group()
    bench.profile.unchanged = True
    bench.add(pod("error"), shape="s")
    bench.fail()
    bench.wait_out_backoff()
    bench.queue.flush_backoff(bench.clock.now())
    assert bench.popped() == ["error"]


def test_an_activated_pod_is_tried_though_nothing_changed() -> None:
    bench = failed_group()
    bench.profile.unchanged = True
    bench.queue.activate([pod("p1").info()])
    assert bench.popped() == ["p1"]


def test_a_pod_popped_from_backoff_is_sent_back_when_nothing_changed() -> None:
    bench = failed_group()
    help_the_shape(bench)
    p0 = bench.pop()
    bench.queue.move_all(NODE_ADD, None, None)
    bench.fail("Fit", info=p0)
    assert bench.places() == {"p1": "active", "p0": "backoff", "p2": "unschedulable"}
    bench.fail("Fit")
    bench.profile.unchanged = True
    assert bench.queue.pop() is None
    assert set(bench.places().values()) == {"unschedulable"}


def test_one_pop_sends_back_a_bounded_number_of_pods_so_that_others_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.queue.scheduling_queue._MAX_UNTRIED", 2)
    bench = Bench(HINTS)
    bench.add(*(pod(f"p{i}") for i in range(4)), shape="s")
    for info in [bench.pop() for _ in range(4)]:
        bench.fail("Fit", info=info)
    help_the_shape(bench)
    assert set(bench.places().values()) == {"backoff"}
    bench.add(pod("p4"), shape="s")
    bench.fail("Fit")
    bench.profile.unchanged = True
    assert bench.queue.pop() is None
    assert sorted(bench.places().values()) == ["backoff", "backoff", "unschedulable", "unschedulable", "unschedulable"]
    assert bench.queue.pop() is None
    assert set(bench.places().values()) == {"unschedulable"}


def test_a_nominated_pod_is_moved_without_a_probe_and_apart_from_its_shape() -> None:
    """The room it waits for counts against the others of its shape, not against itself."""
    bench = failed_group()
    nominated = pod("p1").info()
    nominated.shape = "s"
    bench.queue.nominate(nominated, "n1")
    bench.queue.check_invariants()
    bench.profile.passing = False
    bench.profile.unchanged = True
    help_the_shape(bench)
    assert bench.places() == {"p0": "unschedulable", "p1": "active", "p2": "unschedulable"}
    assert bench.popped() == ["p1"]


def test_hints_are_asked_once_for_all_nominated_pods_of_a_shape_and_all_of_them_move() -> None:
    bench = failed_group()
    for info in bench.queue.pending():
        bench.queue.nominate(info.pod_info, "n1")
    bench.metrics.hints.clear()
    help_the_shape(bench)
    assert bench.metrics.hints == {("Fit", "NodeAdd", "Queue"): 1}
    assert active(bench) == ["p0", "p1", "p2"]


def test_an_event_for_low_priorities_reaches_only_those_of_the_nominated_pods_of_a_shape() -> None:
    bench = Bench(HINTS)
    bench.add(*(pod(f"p{priority}").priority(priority) for priority in (9, 5, 1)), shape="s")
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    for info in bench.queue.pending():
        bench.queue.nominate(info.pod_info, "n1")
    bench.queue.move_all(NODE_ADD, None, None, Scope(max_priority=5))
    bench.queue.check_invariants()
    assert active(bench) == ["p5", "p1"]


def test_a_pod_that_loses_its_nomination_shares_the_fate_of_its_shape_again() -> None:
    bench = failed_group()
    p1 = bench.queue.get("default/p1")
    assert p1 is not None
    bench.queue.nominate(p1.pod_info, "n1")
    bench.queue.nominate(p1.pod_info, "")
    bench.queue.check_invariants()
    help_the_shape(bench)
    assert bench.popped() == ["p0", "p1", "p2"]


def test_a_member_of_an_active_group_that_is_nominated_moves_at_once() -> None:
    bench = failed_group(2)
    help_the_shape(bench)
    p1 = bench.queue.get("default/p1")
    assert p1 is not None
    bench.queue.nominate(p1.pod_info, "n1")
    assert active(bench) == ["p0", "p1"]


def test_the_flush_moves_a_group_one_probe_pod_at_a_time_and_makes_a_real_attempt() -> None:
    bench = failed_group()
    bench.clock.time += 1000
    bench.profile.passing = False
    bench.profile.unchanged = True
    bench.queue.flush_unschedulable(bench.clock.now())
    assert active(bench) == ["p0"]
    info = bench.pop()
    assert info.after_flush
    bench.fail("Fit", info=info)
    assert name_of(bench.pop().key) == "p1", "it was on its way already"
    assert bench.queue.pop() is None
    assert bench.profile.probed == []


def test_the_flush_moves_a_group_for_its_oldest_pod() -> None:
    bench = failed_group(1)
    bench.clock.time += 200
    bench.add(pod("late"), shape="s")
    bench.fail_all("Fit")
    bench.clock.time += 99
    bench.queue.flush_unschedulable(bench.clock.now())
    assert active(bench) == ["p0"], "it has waited for more than 300 s, the other one has not"


def test_the_flush_leaves_a_group_parked_whose_oldest_pod_has_gone() -> None:
    bench = failed_group(1)
    bench.clock.time += 200
    bench.add(pod("late"), shape="s")
    bench.fail_all("Fit")
    p0 = bench.queue.get("default/p0")
    assert p0 is not None
    bench.queue.delete(p0.pod_info)
    bench.clock.time += 99
    bench.queue.flush_unschedulable(bench.clock.now())
    assert active(bench) == []


def test_the_flush_passes_over_a_group_that_is_active() -> None:
    bench = failed_group()
    help_the_shape(bench)
    bench.clock.time += 1000
    bench.queue.flush_unschedulable(bench.clock.now())
    assert active(bench) == ["p0"]
    assert not bench.pop().after_flush


def test_a_probe_pod_returned_untried_parks_the_group_and_leaves_the_events_of_all_plugins_considered() -> None:
    """Its shape failed at another priority, so the rejectors of this group may be older than that."""
    bench = failed_group()
    help_the_shape(bench)
    bench.profile.unchanged = True
    assert bench.queue.pop() is None
    bench.queue.check_invariants()
    assert set(bench.places().values()) == {"unschedulable"}
    bench.profile.unchanged = False
    bench.queue.move_all(NODE_LABEL, None, None)
    assert active(bench) == ["p0"]


def test_a_pod_that_comes_to_sort_before_a_waiting_probe_pod_is_moved_ahead_of_it() -> None:
    bench = Bench(HINTS)
    (old,) = bench.add(pod("old").resource_version("1"), shape="t")
    bench.fail("Taint")
    bench.clock.time += 1
    failed_group(bench=bench)
    help_the_shape(bench)
    bench.fail("Fit")
    assert active(bench) == ["p1"]
    changed = pod("old").annotation("note", "x").resource_version("2").info()
    changed.shape = "s"
    bench.queue.update(old, changed)
    help_the_shape(bench)
    assert bench.popped() == ["old", "p1", "p2", "p0"]


def test_a_pending_plugin_lifts_the_backoff_of_a_group_that_is_active_already() -> None:
    bench = Bench({"Fit": [EventHint(NODE_ADD, yes)], "Later": [EventHint(NODE_DELETE, yes)]})
    bench.add(*(pod(f"p{i}") for i in range(3)), shape="s")
    infos = [bench.pop() for _ in range(3)]
    bench.fail("Fit", pending=["Later"], info=infos[0])
    bench.wait_out_backoff()
    for info in infos[1:]:
        bench.fail("Fit", pending=["Later"], info=info)
    help_the_shape(bench)
    bench.queue.move_all(NODE_DELETE, None, None)
    assert name_of(bench.pop().key) == "p0"
    assert bench.places() == {"p1": "active", "p2": "unschedulable"}


@pytest.mark.parametrize("size", [1, 3])
def test_a_moved_pod_whose_room_others_have_taken_returns_without_an_attempt(size: int) -> None:
    bench = failed_group(size)
    help_the_shape(bench)
    bench.profile.passing = False
    assert bench.queue.pop() is None
    bench.queue.check_invariants()
    assert set(bench.places().values()) == {"unschedulable"}
    assert bench.metrics.retries_skipped == 1
    bench.profile.passing = True
    bench.queue.move_all(NODE_LABEL, None, None)
    assert active(bench) == ["p0"], "which plugins refuse it now is not known: the events of all are considered"


def test_a_pod_moved_by_an_event_that_counts_as_helpful_is_tried_whatever_a_probe_finds() -> None:
    bench = failed_group(2, plugins=("Always",))
    bench.queue.move_all(NODE_DELETE, None, None)
    bench.profile.passing = False
    assert bench.popped() == ["p0", "p1"]


def test_a_moved_pod_that_is_nominated_meanwhile_is_tried_whatever_a_probe_finds() -> None:
    bench = failed_group(2)
    help_the_shape(bench)
    bench.profile.passing = False
    first = next(info for info in bench.queue.pending() if name_of(info.key) == "p0")
    bench.queue.nominate(first.pod_info, "n1")
    assert name_of(bench.pop().key) == "p0"


def fill_up_what_the_group_was_moved_for(bench: Bench) -> None:
    """Let the pod that was moved return without an attempt, so that it is not known which plugins refuse the group."""
    bench.profile.passing, bench.profile.rejectors = True, None
    help_the_shape(bench)
    bench.profile.passing = False
    assert bench.queue.pop() is None
    bench.profile.probed.clear()


def test_where_it_is_not_known_which_plugins_refuse_a_group_events_without_a_hint_are_probed_too() -> None:
    bench = failed_group()
    fill_up_what_the_group_was_moved_for(bench)
    bench.queue.move_all(NODE_DELETE, None, None)
    assert bench.profile.probed == ["default/p0"]
    assert active(bench) == []


def test_once_a_probe_finds_the_same_plugins_again_only_their_events_count() -> None:
    bench = failed_group()
    bench.profile.passing, bench.profile.rejectors = False, Rejectors(frozenset({"Fit"}), frozenset())
    known = bench.profile.rejectors
    help_the_shape(bench)
    for _ in range(2):
        fill_up_what_the_group_was_moved_for(bench)
        bench.profile.rejectors = known
        for _ in range(3):
            bench.queue.move_all(NODE_LABEL, None, None)
        assert bench.profile.probed == ["default/p0"]
