"""Which waiting pods an event moves, and where to (framework.md §3.5; why so: docs/decisions/0003-waking-by-shape.md).

Groups that are no shape groups are asked once and moved at once, as kube-scheduler does. A shape group is probed, and if some node passes
it is asked once, and wakes: its first member goes to the active queue as the scout, and each time a scout is popped the next one follows.
It falls asleep when one of the shape fails again. So the pops come in the same order as if all had been moved at once, and what cannot
fit is tried once. A group that only evictions could help waits for its backoff first (`hopes`).

Invariant: an awake group that has members has its scout in the active queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from koordsched.queue.events import EVERYBODY, SCHEDULE_ATTEMPT_FAILURE, UNCHANGED_SINCE_FAILURE, UNSCHEDULABLE_TIMEOUT, Scope
from koordsched.queue.hints import (
    AFTER_BACKOFF,
    IMMEDIATELY,
    NOT_HELPFUL,
    SKIP,
    SURELY_HELPFUL,
    Change,
    Opinion,
    Oracle,
    Registration,
    Verdict,
)
from koordsched.queue.hopes import Hopes
from koordsched.queue.profile import EVICTION, FITS, NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.queue.inflight import Missed
    from koordsched.queue.profile import Probe, QueueMetrics
    from koordsched.queue.queued_pod import QueuedPodInfo, Rejectors
    from koordsched.queue.sub_queues import SubQueues
    from koordsched.queue.unschedulable import Group

UNTRIED: Final[Probe] = (FITS, None)  # no probe was made, and none may say no


class Waker:
    """Moves pods that an event may help out of the unschedulable pods."""

    def __init__(self, queues: SubQueues, oracle: Oracle, metrics: QueueMetrics) -> None:
        self._queues = queues
        self._oracle = oracle
        self._metrics = metrics
        self.hopes = Hopes()
        self.now_number = 0  # counts awakenings, to tell attempts that began before one from those that began after it

    def move_all(self, change: Change, scope: Scope) -> None:
        """Put the event to every group that may care. O(1) for a group whose plugins did not register it."""
        waiting = self._queues.unschedulable
        if change.event.is_wildcard:
            for group in waiting.groups:
                head = group.members.peek()
                if head is not None and not group.gating_plugin and _reaches(scope, group, head):
                    self._move(group, SURELY_HELPFUL, change.event.label, scope)
            return
        for group, registrations in waiting.interested(change.event):
            if group.woken_at is not None and not group.rejectors.pending:
                continue  # its scout is yet to be tried, on the state that the event has led to
            head = group.members.peek()
            if head is None or not (scope is EVERYBODY or _reaches(scope, group, head)):
                continue  # None: moved together with another group since the list was made
            prospect = FITS
            if group.by_shape and (registrations[0].hint is not None or not _surely_helps(registrations, group)):
                # Before the hints: where no node passes they need not be asked, and mostly none does. Who hopes for evictions will be tried
                # for them; what these could do costs more to foresee than all else, and on a full cluster each deletion asks.
                hopes = group.hope and not group.rejectors.pending
                prospect, rejectors = self._look(head) if hopes else self._probe(head)
                if prospect is NONE:
                    if rejectors is not group.rejectors or group.distrusted:  # else, as mostly, the event changed nothing
                        self._now_refused_by(group, rejectors)
                    continue
            opinion = self._oracle.ask(registrations, group.rejectors, head.pod_info, change)
            if opinion is NOT_HELPFUL:
                continue
            if prospect is EVICTION and self._must_wait(head, opinion):
                self._hope(group, change.event.label)
            else:
                self._move(group, opinion, change.event.label, scope)

    def ask_own(self, info: QueuedPodInfo, change: Change) -> Opinion:
        """Put one event to one pod alone."""
        if change.event.is_wildcard:
            return SURELY_HELPFUL
        registrations = self._registrations(info, change)
        return self._oracle.ask(registrations, info.rejectors, info.pod_info, change)

    def update(self, info: QueuedPodInfo, pod: PodInfo) -> None:
        """Give an unschedulable or gated pod its new state."""
        old = info.pod_info
        alike = old.shape == pod.shape and old.priority == pod.priority and not info.gated
        if alike and info.group is not None and info.group.by_shape == self._fails_alike(info):
            self._queues.replace(info, pod)
            info.skippable = info.group.by_shape
        else:
            info.pod_info = pod
            info.skippable = False
            self.regroup(info)

    def regroup(self, info: QueuedPodInfo) -> None:
        """Find the group anew for a waiting pod. One whose group is awake or hopes was due anyway, so it moves on now instead."""
        group = info.group
        if group is not None and group.awake:
            verdict = IMMEDIATELY if group.ignore_backoff else AFTER_BACKOFF
            self.requeue(info, verdict, group.wake_label)
        elif group is not None and group.hope:
            self.requeue(info, AFTER_BACKOFF, group.hope)
        else:
            self._queues.regroup(info)

    def requeue(self, info: QueuedPodInfo, verdict: Verdict, event: str) -> None:
        """Move a pod that an event helps to where the verdict, which is not SKIP, sends it."""
        if verdict is AFTER_BACKOFF and self._queues.is_backing_off(info):
            self._queues.enter_backoff(info, event)
        else:
            self._queues.enter_active(info, event)

    def come_back(self, info: QueuedPodInfo, missed: Sequence[Missed] | None) -> None:
        """Requeue a pod whose attempt failed. missed: the events since it was popped; None: they are not known."""
        if missed is None or not info.refused:
            self.requeue(info, AFTER_BACKOFF, SCHEDULE_ATTEMPT_FAILURE)
            return
        opinion = self._replay(info, missed)
        if opinion.verdict is SKIP:
            self._settle(info)
            return
        prospect, rejectors = UNTRIED if opinion.certain else self._probe(info)
        if prospect is NONE:
            self._now_refused_by(self._settle(info), rejectors)
        elif prospect is EVICTION and self._must_wait(info, opinion):
            self._now_refused_by(self._settle(info), rejectors)
            if info.group is not None and not info.group.awake:
                self._hope(info.group, SCHEDULE_ATTEMPT_FAILURE)
        else:
            info.skippable, info.certain = self._fails_alike(info), opinion.certain
            self.requeue(info, opinion.verdict, SCHEDULE_ATTEMPT_FAILURE)

    def turn_back(self, info: QueuedPodInfo) -> bool:
        """Return a popped pod to its shape group if an attempt could only repeat what is known; False: it is to be tried.

        That is so when nothing changed since the last attempt of its shape, or when others took the room that a probe had found. Not before
        the pod has failed once itself: until then it has no condition that tells its owner why it waits.
        """
        if not info.skippable or info.unschedulable_count == 0 or not self._fails_alike(info):
            return False
        group = self._queues.unschedulable.shape_group(info)
        hopes, profile = False, self._queues.profile(info)
        if group is None or not profile.unchanged_since_failure(info.pod_info):
            if info.certain:
                return False
            prospect, rejectors = self._probe(info)
            hopes = prospect is EVICTION and self._queues.is_backing_off(info)
            if prospect is not NONE and not hopes:
                return False
        else:
            _, rejectors = profile.probe(info.pod_info)
        self._send_back(info, group, rejectors)
        if hopes and info.group is not None:
            self._hope(info.group, UNCHANGED_SINCE_FAILURE)
        return True

    def _send_back(self, info: QueuedPodInfo, group: Group | None, rejectors: Rejectors | None) -> None:
        tried_since_waking = group is not None and not group.awake
        if group is not None:
            group.fall_asleep()
            self._queues.take_over(info, group.rejectors)
        group = self._queues.place_unschedulable(info, UNCHANGED_SINCE_FAILURE)
        if not tried_since_waking:
            self._now_refused_by(group, rejectors)
        self._metrics.retry_skipped(info.profile)

    def release_scout(self, info: QueuedPodInfo) -> None:
        """Let the next of an awake group follow when its scout has left the active queue."""
        group = info.scout_of
        info.scout_of = None
        if group is not None and group.scout is info:
            group.scout = None
            if group.awake:
                self._advance(group)

    def try_hopeful(self, now: float) -> None:
        """Wake the groups that hope and whose backoff is over at `now`."""
        for group, label in self.hopes.pop_due(now):
            if self._queues.is_backing_off(group.representative):  # another one than when it began to hope
                self._hope(group, label)
            else:
                self._wake(group, AFTER_BACKOFF, label)

    def flush(self, now: float, max_age: float) -> None:
        """Wake the ungated pods that have waited longer than max_age seconds, whatever the hints and probes say."""
        for group in self._queues.unschedulable.groups:
            if group.gating_plugin or group.awake or now - group.oldest <= max_age:
                continue
            group.oldest = min(info.timestamp for info in group.members)
            if now - group.oldest <= max_age:
                continue
            if group.by_shape:
                self._wake(group, AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label, flush=True)
                continue
            for info in group.members.in_order():
                if info.group is group and now - info.timestamp > max_age:
                    info.flushed = True
                    self.requeue(info, AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label)

    def _move(self, group: Group, opinion: Opinion, label: str, scope: Scope) -> None:
        if group.by_shape:
            self._wake(group, opinion.verdict, label, certain=opinion.certain)
            return
        for info in group.members.in_order():
            if info.group is group and scope.covers(info.pod_info):
                self.requeue(info, opinion.verdict, label)

    def _registrations(self, info: QueuedPodInfo, change: Change) -> Sequence[Registration]:
        return self._queues.books[info.profile].interests(info.rejectors.all, info.gating_plugin).matching(change.event)

    def _replay(self, info: QueuedPodInfo, missed: Sequence[Missed]) -> Opinion:
        """Return what the events that the pod missed mean for it; the strongest counts, and what a probe cannot overrule is certain."""
        verdict, certain = SKIP, not self._fails_alike(info)
        for event in missed:
            if not event.scope.covers(info.pod_info):
                continue
            opinion = self.ask_own(info, event.change)
            if opinion.verdict is SKIP:
                continue
            verdict = max(verdict, opinion.verdict)
            certain = certain or opinion.certain or bool(event.scope.only_uid)
            if certain and (verdict is IMMEDIATELY or not info.pending_plugins):
                break
        return Opinion(verdict, certain)

    def _settle(self, info: QueuedPodInfo) -> Group:
        """Let a pod that just failed wait, and with it the others of its shape; return with whom."""
        own = info.rejectors
        group = self._queues.place_unschedulable(info, SCHEDULE_ATTEMPT_FAILURE)
        if not group.by_shape:
            return group
        began_before_waking = group.woken_at is not None and info.popped_at < group.woken_at
        if not began_before_waking:
            group.fall_asleep()
        self._queues.adopt(info, own, group.rejectors.union(own) if began_before_waking else own)
        return group

    def _now_refused_by(self, group: Group, rejectors: Rejectors | None) -> None:
        """Keep a shape group listening to the right events after a change that helped against one plugin but not against all."""
        if not group.by_shape or (rejectors is group.rejectors and not group.distrusted):
            return
        if rejectors is None or not rejectors.all:
            self._queues.unschedulable.distrust_rejectors(group)
        else:
            self._queues.set_rejectors(group, rejectors)

    def _fails_alike(self, info: QueuedPodInfo) -> bool:
        """Answer whether what was found for this pod holds for its whole shape."""
        return info.rejected_in_filter and info.pod_info.shape is not None and not info.gated and info.uid not in self._queues.nominator

    def _probe(self, info: QueuedPodInfo) -> Probe:
        found = self._queues.profile(info).probe(info.pod_info)
        if found[0] is NONE:
            self._metrics.probe_skipped(info.profile)
        return found

    def _look(self, info: QueuedPodInfo) -> Probe:
        return self._queues.profile(info).look(info.pod_info)

    def _must_wait(self, info: QueuedPodInfo, opinion: Opinion) -> bool:
        return opinion.verdict is AFTER_BACKOFF and self._queues.is_backing_off(info)

    def _hope(self, group: Group, label: str) -> None:
        """Let a sleeping group be tried when its first pod's backoff is over."""
        if not group.hope:
            self.hopes.add(group, self._queues.backoff.expiry(group.representative), label)
            self._queues.on_backoff()

    def _wake(self, group: Group, verdict: Verdict, label: str, *, certain: bool = False, flush: bool = False) -> None:
        self.now_number += 1
        group.woken_at = self.now_number
        group.hope = ""
        group.wake_label = label
        group.ignore_backoff = verdict is IMMEDIATELY
        group.certain = certain
        group.flush = flush
        scout = group.scout  # of an earlier awakening, not yet popped
        if scout is None or _order(group.representative) < _order(scout):
            self._advance(group)

    def _advance(self, group: Group) -> None:
        """Move the next scout of an awake group to the active queue, and those before it that still back off to the backoff queue."""
        if group.scout is not None:
            group.scout.scout_of = None
            group.scout = None
        while group.members:
            info = group.representative
            info.skippable = not group.flush
            info.certain = group.certain
            info.flushed = group.flush
            if not group.ignore_backoff and self._queues.is_backing_off(info):
                self._queues.enter_backoff(info, group.wake_label)
            elif self._queues.enter_active(info, group.wake_label):
                info.scout_of = group
                group.scout = info
                return


def _reaches(scope: Scope, group: Group, head: QueuedPodInfo) -> bool:
    """Answer whether the scope covers anybody in a shape group; other groups are checked pod by pod."""
    if scope is EVERYBODY or not group.by_shape or scope.covers(head.pod_info):
        return True
    return scope.max_priority is None and not scope.only_uid and len(group.members) > 1


def _order(info: QueuedPodInfo) -> tuple[tuple[float, ...], int]:
    return (info.sort_key, info.sequence)


def _surely_helps(registrations: Sequence[Registration], group: Group) -> bool:
    """Answer whether a plugin that refuses the group takes any such event for helpful; registrations without a hint come first."""
    for registration in registrations:
        if registration.hint is not None:
            return False
        if registration.plugin in group.rejectors.all:
            return True
    return False
