"""Pods that an admission plugin refused: where they wait, what moves them, and what costs them nothing."""

from __future__ import annotations

import pytest
from support.builders import PodBuilder, pod
from support.known import known
from support.queueing import Bench, FakeQueueAdmission, name_of

from koordsched.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    ActionType,
    AdmissionKey,
    EventHint,
    EventResource,
    QueueingHint,
    cluster_event,
)

QUOTA = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "quotas.example.com")
A, B = AdmissionKey("quota", "a"), AdmissionKey("quota", "b")


def queue_of(**hints: list[EventHint]) -> tuple[Bench, FakeQueueAdmission]:
    admission = FakeQueueAdmission("quota", "gang")
    return Bench({"quota": [], "gang": [], "Fit": [EventHint(NODE_ADD)], **hints}, admission=admission), admission


def of_quota(name: str, quota: str = "a") -> PodBuilder:
    return pod(name).label("quota", quota)


def refused(*names: str, quota: str = "a") -> tuple[Bench, FakeQueueAdmission]:
    """Return a queue in which these pods of one shape wait for their quota and no longer back off."""
    bench, admission = queue_of()
    bench.add(*(of_quota(name, quota) for name in names), shape="s")
    bench.refuse_all("quota")
    bench.wait_out_backoff()
    bench.metrics.incoming_pods.clear()
    return bench, admission


def announce(bench: Bench, key: AdmissionKey) -> None:
    bench.queue.announce(QUOTA, key)
    bench.queue.check_invariants()


def attempt(bench: Bench, admission: FakeQueueAdmission) -> list[str]:
    """Try whatever can be popped, each admitted pod taking its part of the room; return the names of those that were tried."""
    tried = []
    while (info := bench.queue.pop()) is not None:
        tried.append(name_of(info.key))
        key = ("quota", admission.key("quota", info.pod_info))
        if admission.room[key] > 0:
            admission.room[key] -= 1
            bench.queue.done(info.uid)
        else:
            bench.refuse("quota", info)
        bench.queue.check_invariants()
    return tried


def test_what_is_announced_under_another_key_or_by_another_plugin_is_not_asked_about() -> None:
    bench, admission = refused("p0", "p1")
    admission.room["quota", "a"] = 5
    announce(bench, B)
    announce(bench, AdmissionKey("gang", "a"))
    bench.queue.move_all(NODE_ADD, None, None)
    assert admission.probed == []
    assert set(bench.places().values()) == {"unschedulable"}


def test_a_group_that_is_still_refused_is_asked_about_once_and_stays() -> None:
    bench, admission = refused("p0", "p1", "p2")
    announce(bench, A)
    assert admission.probed == ["default/p0"]
    assert set(bench.places().values()) == {"unschedulable"}
    assert bench.metrics.probes_skipped == 1


def test_pods_move_one_by_one_as_far_as_the_plugin_lets_them_pass() -> None:
    bench, admission = refused("p0", "p1", "p2", "p3")
    admission.room["quota", "a"] = 2
    announce(bench, A)
    assert bench.places() == {"p0": "active", "p1": "unschedulable", "p2": "unschedulable", "p3": "unschedulable"}
    assert attempt(bench, admission) == ["p0", "p1"], "p2 was moved when p1 was popped, and returned without an attempt"
    assert bench.metrics.incoming_pods == {
        ("active", QUOTA.label): 3,
        ("unschedulable", "UnchangedSinceFailure"): 1,
    }
    assert bench.metrics.unschedulable["quota"] == 2
    announce(bench, A)
    assert attempt(bench, admission) == []
    admission.room["quota", "a"] = 5
    announce(bench, A)
    assert attempt(bench, admission) == ["p3", "p2"] or bench.places() == {}


def test_pods_of_other_kinds_shapes_and_quotas_wait_in_groups_of_their_own() -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p0"), of_quota("p1").label("kind", "x"), of_quota("p2", "b"), shape="s")
    bench.add(of_quota("p3"), shape="t")
    bench.refuse_all("quota")
    bench.wait_out_backoff()
    announce(bench, A)
    assert admission.probed == ["default/p0", "default/p1", "default/p3"]


def test_a_pod_that_backs_off_goes_to_the_backoff_queue_and_the_others_follow_it() -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p0"), of_quota("p1"), shape="s")
    bench.refuse_all("quota")
    admission.room["quota", "a"] = 2
    announce(bench, A)
    assert bench.places() == {"p0": "backoff", "p1": "unschedulable"}
    assert attempt(bench, admission) == ["p0", "p1"], "with no other pod active, the first to end its backoff is popped early"


def test_what_is_announced_reaches_every_group_under_the_key_also_beside_one_that_is_moving_already() -> None:
    bench, admission = refused("p0", "p1")
    admission.room["quota", "a"] = 5
    announce(bench, A)
    bench.add(of_quota("p2").label("kind", "x").priority(9), shape="s")
    bench.refuse("quota")
    bench.wait_out_backoff()
    assert bench.places() == {"p0": "active", "p1": "unschedulable", "p2": "unschedulable"}
    admission.probed.clear()
    announce(bench, A)
    assert admission.probed == ["default/p2"]
    assert bench.places() == {"p0": "active", "p1": "unschedulable", "p2": "active"}


def test_a_pod_that_backs_off_and_is_gated_meanwhile_keeps_no_other_back() -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p0"), of_quota("p1"), of_quota("p2"), shape="s")
    bench.refuse_all("quota")
    admission.room["quota", "a"] = 3
    bench.profile.gates["default/p0"] = "gang"
    announce(bench, A)
    assert bench.places() == {"p0": "gated", "p1": "backoff", "p2": "unschedulable"}


def test_a_pending_refusal_skips_the_backoff() -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p0"), of_quota("p1"), shape="s")
    bench.refuse_all("quota", pending=True)
    admission.room["quota", "a"] = 2
    announce(bench, A)
    assert bench.places() == {"p0": "active", "p1": "unschedulable"}


def test_what_is_announced_during_an_attempt_counts_for_it() -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p"), shape="s")
    info = bench.pop()
    admission.room["quota", "a"] = 1
    announce(bench, A)
    bench.refuse("quota", info)
    assert bench.places() == {"p": "backoff"}


@pytest.mark.parametrize(("pending", "place"), [(True, "active"), (False, "backoff")])
def test_what_is_announced_during_an_attempt_moves_the_pod_as_its_refusal_says_and_under_the_attempt(pending: bool, place: str) -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p"), shape="s")
    info = bench.pop()
    admission.room["quota", "a"] = 1
    announce(bench, A)
    bench.metrics.incoming_pods.clear()
    bench.refuse("quota", info, pending=pending)
    assert bench.places() == {"p": place}
    assert bench.metrics.incoming_pods == {(place, "ScheduleAttemptFailure"): 1}


def test_what_is_announced_under_another_key_during_an_attempt_does_not_make_a_pending_pod_skip_its_backoff() -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p"), shape="s")
    info = bench.pop()
    admission.room["quota", "a"] = 1  # this is not announced
    announce(bench, B)
    bench.refuse("quota", info, pending=True)
    assert bench.places() == {"p": "backoff"}


def test_a_moved_pod_whose_plugin_names_no_key_any_more_is_tried() -> None:
    bench, admission = refused("p0", "p1")
    admission.room["quota", "a"] = 2
    announce(bench, A)
    admission.room.clear()
    admission.key = lambda *_: None  # type: ignore[method-assign]
    assert bench.popped() == ["p0", "p1"]
    assert bench.metrics.retries_skipped == 0


def test_what_is_announced_during_an_attempt_but_was_taken_since_does_not_move_the_pod() -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p"), shape="s")
    info = bench.pop()
    announce(bench, A)
    bench.refuse("quota", info)
    assert bench.places() == {"p": "unschedulable"}
    assert admission.probed == ["default/p"]


def test_an_announcement_under_another_key_during_an_attempt_is_no_help() -> None:
    bench, _ = queue_of()
    bench.add(of_quota("p"), shape="s")
    info = bench.pop()
    announce(bench, B)
    bench.refuse("quota", info)
    assert bench.places() == {"p": "unschedulable"}


def test_a_pod_that_its_plugin_refused_at_permit_is_tried_again_whatever_admission_says() -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p0"), of_quota("p1", "b"), shape="s")
    for info in [bench.pop(), bench.pop()]:
        bench.fail("quota", info=info, in_filter=False)
    bench.wait_out_backoff()
    announce(bench, A)
    assert bench.places() == {"p0": "active", "p1": "unschedulable"}
    assert admission.probed == []


def test_a_pod_that_its_plugin_gates_asks_pre_enqueue_again_and_one_that_another_gates_does_not() -> None:
    bench, _ = queue_of(Other=[])
    bench.profile.gates = {"default/p0": "quota", "default/p1": "Other"}
    bench.add(of_quota("p0"), of_quota("p1"), shape="s")
    bench.profile.gates = {}
    announce(bench, B)
    assert bench.places() == {"p0": "gated", "p1": "gated"}
    announce(bench, A)
    assert bench.places() == {"p0": "active", "p1": "gated"}


def test_a_pod_that_another_one_takes_along_when_it_is_let_in_does_not_end_what_is_announced() -> None:
    bench, _ = queue_of()
    bench.profile.gates = {f"default/p{i}": "quota" for i in range(3)}
    pods = [bench.add(of_quota(f"p{i}"), shape=f"s{i}")[0] for i in range(3)]
    bench.profile.gates = {}
    bench.profile.on_pre_enqueue = lambda info: bench.queue.activate([pods[1]]) if info.key == "default/p0" else None
    announce(bench, A)
    assert bench.places() == {"p0": "active", "p1": "active", "p2": "active"}


def test_a_pod_that_comes_to_another_quota_waits_under_that() -> None:
    bench, admission = refused("p0", "p1")
    admission.room["quota", "b"] = 1
    old = known(bench.queue.get("default/p0")).pod_info
    new = of_quota("p0", "b").resource_version("7").info()
    new.shape = "s"
    bench.queue.update(old, new)
    assert bench.places() == {"p0": "active", "p1": "unschedulable"}
    assert bench.metrics.incoming_pods == {("active", "Regrouped"): 1}
    bench.queue.check_invariants()


def test_a_pod_that_changed_in_nothing_that_admission_reads_stays_without_a_question() -> None:
    bench, admission = refused("p0", "p1")
    old = known(bench.queue.get("default/p0")).pod_info
    new = of_quota("p0").label("other", "x").resource_version("7").info()
    new.shape = "s"
    bench.queue.update(old, new)
    assert (admission.probed, bench.places()) == ([], {"p0": "unschedulable", "p1": "unschedulable"})
    bench.queue.check_invariants()


def test_a_pod_without_a_shape_that_changed_is_tried_when_admission_lets_it_pass_now() -> None:
    bench, admission = queue_of()
    old = bench.add(of_quota("p0"), shape=None)[0]
    bench.refuse_all("quota")
    bench.wait_out_backoff()
    admission.room["quota", "a"] = 1  # as if the pod asked for less
    new = of_quota("p0").resource_version("7").info()
    new.shape = None
    bench.queue.update(old, new)
    assert bench.places() == {"p0": "active"}
    bench.queue.check_invariants()


def test_a_pod_that_is_of_no_quota_any_more_is_tried() -> None:
    bench, admission = refused("p0")
    admission.room["quota", None] = 1
    new = pod("p0").resource_version("7").info()
    new.shape = "s"
    bench.queue.update(known(bench.queue.get("default/p0")).pod_info, new)
    assert bench.places() == {"p0": "active"}


def test_keys_that_change_without_the_pods_regroup_them() -> None:
    bench, admission = refused("p0", "p1")
    quotas = {"default/p0": "b"}
    label = admission.key
    admission.key = lambda plugin, pod: quotas.get(pod.key) or label(plugin, pod)  # type: ignore[method-assign]
    bench.queue.reshape(lambda info: info.pod_info.shape)
    bench.queue.check_invariants()
    assert admission.probed == ["default/p0"]
    admission.room["quota", "b"] = 1
    announce(bench, B)
    assert bench.places() == {"p0": "active", "p1": "unschedulable"}


def test_preemption_is_tried_when_the_backoff_is_over_and_by_one_pod_at_a_time() -> None:
    bench, admission = queue_of()
    bench.add(of_quota("p0"), of_quota("p1"), of_quota("p2"), shape="s")
    bench.refuse_all("quota")
    admission.may_preempt = True
    announce(bench, A)
    assert set(bench.places().values()) == {"unschedulable"}
    bench.wait_out_backoff()
    bench.queue.flush_backoff(bench.clock.now())
    assert bench.places() == {"p0": "active", "p1": "unschedulable", "p2": "unschedulable"}
    bench.refuse("quota")
    assert bench.queue.pop() is None, "p1 followed p0 and was returned, as the group had failed meanwhile"
    assert set(bench.places().values()) == {"unschedulable"}


def test_a_nominated_pod_that_fails_leaves_the_others_moving() -> None:
    bench, admission = refused("p0", "p1")
    admission.may_preempt = True
    announce(bench, A)
    first = bench.pop()
    bench.queue.nominate(first.pod_info, "n1")
    bench.refuse("quota", first)
    assert name_of(bench.pop().key) == "p1"


def test_the_flush_tries_one_pod_of_a_group_whatever_its_plugin_says() -> None:
    bench, _ = refused("p0", "p1", "p2")
    bench.clock.time += 300
    bench.queue.flush_unschedulable(bench.clock.now())
    assert bench.places() == {"p0": "active", "p1": "unschedulable", "p2": "unschedulable"}
    bench.refuse("quota")
    bench.refuse("quota")
    assert bench.queue.pop() is None
    bench.queue.check_invariants()


@pytest.mark.parametrize("helps", [True, False])
def test_an_event_that_the_plugin_registered_is_probed_by_admission(helps: bool) -> None:
    bench, admission = queue_of(quota=[EventHint(ASSIGNED_POD_DELETE, lambda *_: QueueingHint.QUEUE)])
    bench.add(of_quota("p0"), of_quota("p1"), shape="s")
    bench.refuse_all("quota")
    bench.wait_out_backoff()
    admission.room["quota", "a"] = helps
    bench.queue.move_all(ASSIGNED_POD_DELETE, None, None)
    assert bench.places() == {"p0": "active" if helps else "unschedulable", "p1": "unschedulable"}
    assert admission.probed == ["default/p0"]
    assert bench.profile.probed == []


def test_a_pod_without_a_key_waits_as_any_other_for_the_events_of_its_plugin() -> None:
    bench, _ = queue_of(quota=[EventHint(NODE_ADD)])
    bench.add(pod("p0"), shape="s")
    bench.refuse("quota")
    bench.wait_out_backoff()
    announce(bench, A)
    assert bench.places() == {"p0": "unschedulable"}
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"p0": "active"}
