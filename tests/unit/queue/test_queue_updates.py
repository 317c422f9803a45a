"""Updates and deletes of waiting pods (framework.md §3.4)."""

from __future__ import annotations

from collections.abc import Hashable

from support.builders import PodBuilder, pod
from support.queueing import Bench, name_of, pod_of

from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    ActionType,
    EventHint,
    EventResource,
    QueueingHint,
    cluster_event,
)
from koordsched.queue.queued_pod import QueuePlace

TOLERATION = cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_TOLERATION)
POD_UPDATE = cluster_event(EventResource.POD, ActionType.UPDATE)


def own(waiting: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    assert new is not None
    return QueueingHint.QUEUE if new.metadata.uid == waiting.uid else QueueingHint.SKIP


HINTS = {"Taint": [EventHint(TOLERATION, own)], "Fit": [EventHint(NODE_ADD)], "Any": [EventHint(POD_UPDATE)]}


class Versions:
    """Updates a pod from state to state, with a resourceVersion of its own for each."""

    def __init__(self, bench: Bench, builder: PodBuilder, shape: Hashable | None = None) -> None:
        self._bench = bench
        self._number = 1
        self.current = pod_of(builder.resource_version("1"), shape)
        bench.queue.add(self.current)

    def update(self, builder: PodBuilder, shape: Hashable | None = None) -> PodInfo:
        self._number += 1
        old, self.current = self.current, pod_of(builder.resource_version(str(self._number)), shape)
        self._bench.queue.update(old, self.current)
        self._bench.queue.check_invariants()
        return self.current


def test_an_update_with_the_same_resource_version_is_ignored() -> None:
    bench = Bench(HINTS)
    (old,) = bench.add(pod("p").resource_version("1"))
    bench.queue.update(old, pod("p").resource_version("1").priority(5).info())
    assert bench.pop().pod_info is old


def test_an_active_pod_is_replaced_in_place_and_ordered_anew() -> None:
    bench = Bench(HINTS)
    bench.add(pod("other").priority(1))
    changing = Versions(bench, pod("p"))
    new = changing.update(pod("p").priority(2))
    assert bench.metrics.incoming_pods == {("active", "UnschedulablePodAdd"): 2}
    assert bench.pop().pod_info is new


def test_a_pod_that_backs_off_is_replaced_in_place() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"))
    bench.fail()
    new = changing.update(pod("p").label("a", "b"))
    info = bench.queue.get("default/p")
    assert info is not None
    assert (info.place, info.pod_info) == (QueuePlace.BACKOFF, new)


def test_an_unschedulable_pod_is_moved_by_a_change_of_its_own_that_a_rejector_cares_for() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"))
    bench.fail("Taint")
    bench.wait_out_backoff()
    changing.update(pod("p").annotation("note", "x"))
    assert bench.places() == {"p": "unschedulable"}
    changing.update(pod("p").annotation("note", "x").tolerates("k"))
    assert bench.places() == {"p": "active"}
    assert bench.metrics.incoming_pods["active", "UnschedulablePodUpdatePodToleration"] == 1


def test_a_change_of_the_pod_itself_is_tried_without_a_probe_and_backs_off_if_need_be() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"), shape="old")
    bench.profile.passing = False
    bench.fail("Taint")
    changing.update(pod("p").tolerates("k"), shape="new")
    assert bench.places() == {"p": "backoff"}
    assert bench.profile.probed == []
    assert bench.popped() == ["p"]


def test_a_change_that_leaves_the_shape_as_it_is_needs_no_attempt() -> None:
    """Most updates are the scheduler's own write of the condition."""
    bench = Bench(HINTS)
    bench.add(pod("other"), shape="s")
    bench.fail("Any")
    changing = Versions(bench, pod("p"), shape="s")
    bench.fail("Any")
    bench.wait_out_backoff()
    bench.profile.unchanged = True
    changing.update(pod("p").annotation("note", "x"), shape="s")
    assert bench.places() == {"other": "unschedulable", "p": "active"}, "Any is always Queue"
    assert bench.popped() == []
    assert bench.places() == {"other": "unschedulable", "p": "unschedulable"}


def test_a_change_of_one_pod_asks_no_other_pod() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"))
    bench.add(pod("other"))
    bench.fail_all("Any")
    bench.wait_out_backoff()
    changing.update(pod("p").label("a", "b"))
    assert bench.places() == {"p": "active", "other": "unschedulable"}


def test_a_pod_that_changes_its_shape_leaves_its_group() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"), shape="s")
    bench.add(pod("q"), shape="s")
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    changing.update(pod("p").annotation("note", "x"), shape="t")
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"p": "active", "q": "active"}, "one probe_pod for each shape"


def test_a_pod_that_leaves_an_active_group_moves_at_once() -> None:
    bench = Bench(HINTS)
    bench.add(pod("q"), shape="s")
    changing = Versions(bench, pod("p"), shape="s")
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"q": "active", "p": "unschedulable"}
    changing.update(pod("p").annotation("note", "x"), shape="t")
    assert bench.places() == {"q": "active", "p": "active"}


def test_a_change_of_a_pod_in_flight_is_kept_for_that_pod_alone() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"))
    bench.add(pod("other"))
    p, other = bench.pop(), bench.pop()
    p.pod_info = changing.update(pod("p").label("a", "b"))
    bench.fail("Any", info=p)
    bench.fail("Any", info=other)
    assert bench.places() == {"p": "backoff", "other": "unschedulable"}


def test_an_update_of_a_pod_in_no_queue_adds_it() -> None:
    bench = Bench(HINTS)
    bench.queue.update(pod("p").resource_version("1").info(), pod("p").resource_version("2").info())
    assert bench.places() == {"p": "active"}
    assert bench.metrics.incoming_pods == {("active", "UnschedulablePodUpdate"): 1}


def test_an_update_with_another_uid_is_a_new_pod() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"))
    bench.fail("Fit")
    changing.update(pod("p").uid("reborn"))
    info = bench.pop()
    assert (info.uid, info.attempts) == ("reborn", 1)
    assert bench.metrics.unschedulable == {"Fit": 0}


def test_a_deleted_pod_is_gone_from_whichever_queue_it_is_in() -> None:
    bench = Bench(HINTS | {"Gang": ()})
    bench.profile.gates["default/gated"] = "Gang"
    pods = bench.add(pod("backoff").priority(2), pod("unschedulable").priority(1), pod("active"), pod("gated"))
    bench.fail()
    bench.fail("Fit")
    assert bench.queue.sizes() == (1, 1, 1, 1)
    for deleted in pods:
        bench.queue.delete(deleted)
        bench.queue.check_invariants()
    assert bench.queue.sizes() == (0, 0, 0, 0)
    assert set(bench.metrics.unschedulable.values()) == {0}
    assert bench.queue.pop() is None


def test_deleting_an_older_pod_of_the_same_name_leaves_the_new_one() -> None:
    bench = Bench(HINTS)
    bench.add(pod("p").uid("new"))
    bench.queue.delete(pod("p").uid("old").info())
    assert bench.popped() == ["p"]


def test_a_pod_deleted_in_flight_stays_in_flight_until_its_attempt_ends() -> None:
    bench = Bench(HINTS)
    (p,) = bench.add(pod("p"))
    bench.pop()
    bench.queue.nominate(p, "n1")
    bench.queue.delete(p)
    assert [info.key for info in bench.queue.in_flight] == ["default/p"]
    assert p.uid not in bench.queue.nominator
    bench.queue.done(p.uid)
    assert bench.queue.in_flight == []


def nomination_bench() -> Bench:
    """Return a queue where pods of priorities 1, 5 and 9 wait for a pod to be deleted."""
    bench = Bench({"Fit": [EventHint(ASSIGNED_POD_DELETE)]})
    bench.add(pod("low").priority(1), pod("same").priority(5), pod("high").priority(9))
    bench.fail_all("Fit")
    bench.wait_out_backoff()
    return bench


def moved(bench: Bench) -> list[str]:
    return sorted(name_of(info.key) for info in bench.queue.pending() if info.place is QueuePlace.ACTIVE and info.attempts)


def test_a_nominated_pod_that_is_deleted_moves_pods_of_its_priority_and_below() -> None:
    bench = nomination_bench()
    (gone,) = bench.add(pod("gone").priority(5).nominated("n1"))
    bench.queue.delete(gone)
    assert moved(bench) == ["low", "same"]
    assert len(bench.queue.nominator) == 0


def test_a_nomination_that_moves_or_goes_moves_pods_of_its_priority_and_below() -> None:
    for update in (pod("p").priority(5).nominated("n2"), pod("p").priority(5)):
        bench = nomination_bench()
        changing = Versions(bench, pod("p").priority(5).nominated("n1"))
        changing.update(pod("p").priority(5).nominated("n1").label("a", "b"))
        assert moved(bench) == []
        changing.update(update)
        assert moved(bench) == ["low", "same"]


def test_a_new_nomination_moves_no_pod() -> None:
    bench = nomination_bench()
    changing = Versions(bench, pod("p").priority(5))
    changing.update(pod("p").priority(5).nominated("n1"))
    assert moved(bench) == []
    assert bench.queue.nominator.node_of("uid-default-p") == "n1"


def test_a_pod_bound_by_another_scheduler_is_forgotten_without_an_event() -> None:
    bench = nomination_bench()
    (bound,) = bench.add(pod("bound").priority(5).nominated("n1"))
    bench.queue.forget(bound)
    assert moved(bench) == []
    assert len(bench.queue.nominator) == 0
    assert bench.queue.get("default/bound") is None


def test_an_update_that_names_no_node_keeps_a_nomination_made_in_memory() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"))
    bench.fail("Fit")
    bench.queue.nominate(changing.current, "n1")
    changing.update(pod("p").label("a", "b"))
    assert bench.queue.nominator.pods_on("n1") == [changing.current]


def test_a_nomination_withdrawn_in_memory_does_not_come_back_with_the_old_state_of_the_pod() -> None:
    bench = Bench(HINTS)
    (nominated,) = bench.add(pod("p").nominated("n1"))
    bench.fail("Fit")
    bench.queue.nominate(nominated, "")
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"p": "active"}
    assert nominated.uid not in bench.queue.nominator


def test_a_pod_that_takes_a_new_shape_is_shown_every_event_because_its_rejectors_knew_the_old_one() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"), shape="s")
    bench.fail("Taint")
    bench.wait_out_backoff()
    changing.update(pod("p").annotation("note", "x"), shape="t")
    assert bench.places() == {"p": "unschedulable"}
    bench.queue.move_all(NODE_ADD, None, None)
    assert bench.places() == {"p": "active"}


def test_a_change_of_a_pod_in_flight_is_evaluated_as_it_was_and_as_it_is() -> None:
    asked: list[tuple[Object | None, Object | None]] = []

    def remember(waiting: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        asked.append((old, new))
        return QueueingHint.SKIP

    bench = Bench({"Taint": [EventHint(TOLERATION, remember)]})
    changing = Versions(bench, pod("p"))
    before = changing.current
    info = bench.pop()
    after = changing.update(pod("p").tolerates("k"))
    info.pod_info = after
    bench.fail("Taint", info=info, in_filter=False)
    assert asked == [(before.pod, after.pod)]
    assert info.place is QueuePlace.UNSCHEDULABLE


def test_a_member_of_a_moving_group_that_changes_while_it_is_active_is_tried_whatever_its_shape_did() -> None:
    bench = Bench(HINTS)
    changing = Versions(bench, pod("p"), shape="s")
    bench.fail("Fit")
    bench.wait_out_backoff()
    bench.queue.move_all(NODE_ADD, None, None)
    info = bench.queue.get("default/p")
    assert info is not None
    assert (info.place, info.skippable) == (QueuePlace.ACTIVE, True)
    changing.update(pod("p").label("a", "b"), shape="s")
    assert (info.place, info.skippable) == (QueuePlace.ACTIVE, False)
