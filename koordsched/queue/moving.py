"""Which unschedulable pods an event moves, and where to (framework.md §3.5; the reasons: docs/decisions/0003-moving-by-shape.md).

Unschedulable pods wait in groups (`queued_pod.UnschedulableGroup`). `Mover.move_all` moves a group unless, checked in this order,
1. none of the plugins that refused it registered the event (`hints.EventRegistry`); of a gated group: its gating plugin did not,
2. it is active already, without a pending plugin; or the event's `Scope` covers none of its pods,
3. a probe finds that its pods still fit on no node, or in an admission group that the plugin still refuses them (groups that move one by
   one only, and not if a rejector registered the event without a hint), or that the gang of a pod that stands for it cannot be placed yet,
4. the queueing hints of all plugins that registered the event answer Skip (`HintEvaluator`).
A wildcard event skips 1, 3 and 4 and moves no gated pods.
If preemption may help, but no node fits, a shape group moves when the backoff of its first pod is over (`backoff.PreemptionBackoff`).

What an admission plugin announces concerns the groups that wait under its key, and nothing else is looked at (`Mover.announce`).

A rejector group moves as a whole, as in kube-scheduler. A shape group or an admission group becomes active: its first member goes to the
active queue as the probe pod, and whenever the probe pod is popped the next member follows. When an attempt of a member fails the group is
parked again. So the pods are popped in the order in which they would be if all had moved at once, and what fits on no node is tried once. A
moved pod is returned without an attempt if nothing changed since its shape failed, or if admission refuses it again (`return_untried`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from koordsched.log import get_logger
from koordsched.queue.backoff import PreemptionBackoff
from koordsched.queue.events import (
    ALL_PODS,
    REGROUPED,
    SCHEDULE_ATTEMPT_FAILURE,
    UNCHANGED_SINCE_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    QueueingHint,
    Scope,
)
from koordsched.queue.profile import FEASIBLE, INFEASIBLE, NEEDS_PREEMPTION
from koordsched.queue.queued_pod import AdmissionGroupKey, refused_by_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.clock import Clock
    from koordsched.queue.events import AdmissionKey, ClusterEvent, HintFn, ObservedEvent
    from koordsched.queue.hints import Registration, Rejectors
    from koordsched.queue.inflight import InFlightEvent
    from koordsched.queue.profile import Findings, ProbeResult, QueueMetrics
    from koordsched.queue.queued_pod import QueuedPodInfo, UnschedulableGroup
    from koordsched.queue.sub_queues import SubQueues

log = get_logger(__name__)


class QueueingStrategy(IntEnum):
    """Where an event moves a pod; of several events the larger one counts. The names are kube-scheduler's."""

    SKIP = 0  # nowhere
    AFTER_BACKOFF = 1  # to the backoff queue, or to the active queue if the pod does not back off
    IMMEDIATELY = 2  # to the active queue: the hint of a pending plugin answered Queue


SKIP: Final = QueueingStrategy.SKIP
AFTER_BACKOFF: Final = QueueingStrategy.AFTER_BACKOFF
IMMEDIATELY: Final = QueueingStrategy.IMMEDIATELY
_HINT_SKIP: Final = QueueingHint.SKIP
_HINT_QUEUE: Final = QueueingHint.QUEUE


class HintResult(NamedTuple):
    """What the queueing hints say of an event for a pod."""

    strategy: QueueingStrategy
    certain: bool  # a probe cannot overrule it; False: only hint functions answered Queue


NO_HELP = HintResult(SKIP, certain=True)
MAY_HELP = HintResult(AFTER_BACKOFF, certain=False)
HELPS = HintResult(AFTER_BACKOFF, certain=True)

NO_PROBE: Final[ProbeResult] = (FEASIBLE, None)  # stands for the result of a probe that is not made


class HintEvaluator:
    """Calls hint functions and measures them. One that raises counts as Queue, so that a plugin's bug leaves no pod unschedulable."""

    def __init__(self, clock: Clock, metrics: QueueMetrics) -> None:
        self._perf = clock.perf
        self._metrics = metrics

    def evaluate(self, registrations: Sequence[Registration], rejectors: Rejectors, pod: PodInfo, observed: ObservedEvent) -> HintResult:
        """Return what the registrations that match an event say of it for a pod that these plugins refused.

        A registration without a hint function is certain only if its plugin is known to refuse the pod.
        """
        best = NO_HELP
        for plugin, hint, _ in registrations:
            pending = plugin in rejectors.pending
            if best is not NO_HELP and not pending:
                continue  # only a pending plugin can still raise the strategy
            if hint is not None and self._call(plugin, hint, pod, observed) is _HINT_SKIP:
                continue
            certain = hint is None and (pending or plugin in rejectors.unschedulable)
            if pending:
                return HintResult(IMMEDIATELY, certain or (best is HELPS))
            best = HELPS if certain else MAY_HELP
            if not rejectors.pending:
                break
        return best

    def _call(self, plugin: str, hint: HintFn, pod: PodInfo, observed: ObservedEvent) -> QueueingHint:
        started = self._perf()
        try:
            answer = hint(pod, observed.old, observed.new)
            label = "QueueSkip" if answer is _HINT_SKIP else "Queue"
        except Exception:  # a plugin may raise anything
            log.exception("queueing hint failed, the pod is retried", plugin=plugin, cluster_event=observed.event.label, pod=pod.key)
            answer, label = _HINT_QUEUE, "Error"
        self._metrics.hint_duration(plugin, observed.event.label, label, self._perf() - started)
        return answer


class Mover:
    """Moves unschedulable pods that an event may help."""

    def __init__(self, queues: SubQueues, evaluator: HintEvaluator, metrics: QueueMetrics) -> None:
        self._queues = queues
        self._evaluator = evaluator
        self._metrics = metrics
        self.preemption_backoff = PreemptionBackoff()
        self.activations = 0  # how often a group became active; compared with QueuedPodInfo.popped_at

    # An event happened.

    def move_all(self, observed: ObservedEvent, scope: Scope) -> None:
        """Move the pods in scope that the event may help. A group whose rejectors did not register the event costs nothing."""
        unschedulable, event = self._queues.unschedulable, observed.event
        if event.is_wildcard:
            for group in unschedulable.groups:
                head = group.members.peek()
                if head is not None and not group.gating_plugin and _covers_any(scope, group, head):
                    self._move(group, HELPS, event.label, scope)
            return
        known: Findings = {}
        for group, registrations in unschedulable.subscribed(event):
            if group.activated_at is not None and not group.rejectors.pending:
                continue  # the attempt of its probe pod is going to see the state that the event led to
            head = group.members.peek()
            if head is None or not (scope is ALL_PODS or _covers_any(scope, group, head)):
                continue  # None: moved together with another group since the list was made
            if not group.one_by_one and self.gang_still_refused(group, head, known):
                continue
            result: HintResult | None = None
            if registrations[0].selective and all(registration.selective for registration in registrations):
                result = self._evaluator.evaluate(registrations, group.rejectors, head.pod_info, observed)
                if result is NO_HELP:
                    continue
            outcome = FEASIBLE
            if group.one_by_one and (registrations[0].hint is not None or not _registered_without_hint(registrations, group)):
                # Before the hints: after most events no node passes, and then the hints need not be called. What preemption could do costs
                # more to estimate than all else, so it is left out where an attempt at preemption is due anyway.
                preemption_due = group.by_shape and group.preemption_event and not group.rejectors.pending
                outcome, rejectors = (
                    self._queues.profiles[head.profile].probe_without_preemption(head.pod_info) if preemption_due else self._probe(head)
                )
                if outcome is INFEASIBLE:
                    if rejectors is not group.rejectors or group.rejectors_unknown:  # mostly they are the same
                        self._update_rejectors(group, rejectors)
                    continue
            if result is None:
                result = self._evaluator.evaluate(registrations, group.rejectors, head.pod_info, observed)
            if result is NO_HELP:
                continue
            if outcome is NEEDS_PREEMPTION and self._must_back_off(head, result):
                self._await_preemption(group, event.label)
            else:
                self._move(group, result, event.label, scope)

    def announce(self, event: ClusterEvent, key: AdmissionKey) -> None:
        """Move the pods that wait under this key, of groups that move one by one only as far as the plugin lets pods pass.

        Gated pods and those refused at Reserve or Permit are tried again, all of them.
        """
        for group in self._queues.unschedulable.waiting_under(key):
            head = group.members.peek()
            if head is None:
                continue  # moved together with another group since the list was made
            result = _announced(group.rejectors, key)
            if not group.by_admission:
                self._move(group, result, event.label, ALL_PODS)
                continue
            if group.active and (group.ignore_backoff or result.strategy is AFTER_BACKOFF):
                continue  # the attempt of its probe pod is going to see what was announced
            outcome, _ = self._probe(head)
            if outcome is NEEDS_PREEMPTION and self._must_back_off(head, result):
                self._await_preemption(group, event.label)
            elif outcome is not INFEASIBLE:
                self._activate(group, result.strategy, event.label)

    def evaluate_for(self, info: QueuedPodInfo, observed: ObservedEvent, *, own: bool = False) -> HintResult:
        """Return what the hints of the pod's rejectors say of an event, for this pod alone.

        own: the pod itself changed; then those count that are not for gated pods, too (`EventHint.gated`), as nothing is announced of it.
        """
        if observed.event.is_wildcard:
            return HELPS
        subscriptions = self._queues.registries[info.profile].subscriptions(info.rejectors.all, "" if own else info.gating_plugin)
        return self._evaluator.evaluate(subscriptions.matching(observed.event), info.rejectors, info.pod_info, observed)

    def requeue(self, info: QueuedPodInfo, strategy: QueueingStrategy, event: str) -> None:
        """Move a pod according to the strategy, which is not SKIP. event: its label."""
        if strategy is AFTER_BACKOFF and self._queues.is_backing_off(info):
            self._queues.enter_backoff(info, event)
        else:
            self._queues.enter_active(info, event)

    # A pod changed.

    def update(self, info: QueuedPodInfo, pod: PodInfo) -> None:
        """Give an unschedulable or gated pod its new state."""
        old = info.pod_info
        same_shape = old.shape == pod.shape and old.priority == pod.priority and not info.gated
        if same_shape and info.group is not None and info.group.by_shape == self._refused_by_shape(info):
            self._queues.exchange(info, pod)
            # without a shape it is not known what of the pod changed, and admission may read it
            known = pod.shape is not None and self._queues.group_key(info) == info.group.key
            if known or not (info.admission_plugin or info.group.admission_keys):
                self._queues.replace(info, pod)
                info.skippable = info.group.one_by_one
                return
        self._queues.exchange(info, pod)
        info.skippable = False
        self.regroup(info)

    def regroup(self, info: QueuedPodInfo) -> None:
        """Move an unschedulable pod to the group that is now its own; to a queue at once, if its present group is moving or going to."""
        group = info.group
        if group is not None and group.active:
            self.requeue(info, IMMEDIATELY if group.ignore_backoff else AFTER_BACKOFF, group.event_label)
        elif group is not None and group.preemption_event:
            self.requeue(info, AFTER_BACKOFF, group.preemption_event)
        else:
            self._queues.regroup(info)
            if info.admission_plugin and not info.gated and self._probe(info)[0] is not INFEASIBLE:
                self.requeue(info, AFTER_BACKOFF, REGROUPED.label)  # under its new key, or as it is now, it may be admitted

    # An attempt failed.

    def requeue_failed(self, info: QueuedPodInfo, events: Sequence[InFlightEvent] | None) -> None:
        """Return a pod whose attempt failed to the queue. events: those since it was popped; None: they are not known."""
        if events is None or not info.refused:
            self.requeue(info, AFTER_BACKOFF, SCHEDULE_ATTEMPT_FAILURE)
            return
        result = self._evaluate_missed(info, events)
        if result.strategy is SKIP:
            if info.admission_plugin and events and self._probe(info)[0] is FEASIBLE:
                self.requeue(info, AFTER_BACKOFF, REGROUPED.label)  # its quota or gang may be another one by now
            else:
                self._park(info)
            return
        outcome, rejectors = NO_PROBE if result.certain else self._probe(info)
        if outcome is INFEASIBLE:
            self._update_rejectors(self._park(info), rejectors)
        elif outcome is NEEDS_PREEMPTION and self._must_back_off(info, result):
            group = self._park(info)
            self._update_rejectors(group, rejectors)
            if not group.active:
                self._await_preemption(group, SCHEDULE_ATTEMPT_FAILURE)
        else:
            info.skippable, info.certain = self._waits_one_by_one(info), result.certain
            self.requeue(info, result.strategy, SCHEDULE_ATTEMPT_FAILURE)

    def _evaluate_missed(self, info: QueuedPodInfo, events: Sequence[InFlightEvent]) -> HintResult:
        """Return the largest strategy of the events for the pod, and whether a probe can overrule it."""
        strategy, certain = SKIP, not self._waits_one_by_one(info)
        for event in events:
            announced = event.scope.admission
            if announced is not None:
                concerned = announced in self._queues.unschedulable.admission_keys(info)
                result = _announced(info.rejectors, announced) if concerned else NO_HELP
            elif event.scope.covers(info.pod_info):
                result = self.evaluate_for(info, event.observed)
            else:
                continue
            if result.strategy is SKIP:
                continue
            strategy = max(strategy, result.strategy)
            certain = certain or result.certain or bool(event.scope.only_uid)
            if certain and (strategy is IMMEDIATELY or not info.pending_plugins):
                break
        return HintResult(strategy, certain)

    def _park(self, info: QueuedPodInfo) -> UnschedulableGroup:
        """Move a pod that just failed to its group, and return that. One that moves one by one is parked, with the pod's rejectors."""
        own = info.rejectors
        group = self._queues.enter_unschedulable(info, SCHEDULE_ATTEMPT_FAILURE)
        if not group.one_by_one:
            return group
        activated_during_attempt = group.activated_at is not None and info.popped_at < group.activated_at
        if not activated_during_attempt:
            group.park()
        if group.by_admission:
            return group
        self._queues.adopt(info, own, group.rejectors.union(own) if activated_during_attempt else own)
        return group

    def _update_rejectors(self, group: UnschedulableGroup, rejectors: Rejectors | None) -> None:
        """Give a shape group the rejectors that a probe found, so that from now on the events of these plugins are considered for it."""
        if not group.by_shape or (rejectors is group.rejectors and not group.rejectors_unknown):
            return
        if rejectors is None or not rejectors.all:
            self._queues.unschedulable.mark_rejectors_unknown(group)
        else:
            self._queues.set_rejectors(group, rejectors)

    # A moved pod was popped, or left the active queue in another way.

    def return_untried(self, info: QueuedPodInfo) -> bool:
        """Return a popped pod to its shape group if an attempt would only repeat a known failure; False: it is to be tried.

        That is so if nothing changed since the last attempt of its shape, or if other pods took the room that a probe had found. A pod that
        never failed itself is always tried: it has no condition yet that gives its owner the reason.
        """
        if not info.skippable or info.unschedulable_count == 0:
            return False
        if info.admission_plugin:
            return self._return_refused(info)
        if not self._refused_by_shape(info):
            return False
        group = self._queues.unschedulable.shape_group(info)
        profile = self._queues.profiles[info.profile]
        await_preemption = False
        if group is not None and profile.unchanged_since_failure(info.pod_info):
            _, rejectors = profile.probe(info.pod_info)
        else:
            if info.certain:
                return False
            outcome, rejectors = self._probe(info)
            await_preemption = outcome is NEEDS_PREEMPTION and self._queues.is_backing_off(info)
            if outcome is not INFEASIBLE and not await_preemption:
                return False
        tried_since_activation = group is not None and not group.active
        if group is not None:
            group.park()
            self._queues.replace_rejectors(info, group.rejectors)
        group = self._queues.enter_unschedulable(info, UNCHANGED_SINCE_FAILURE)
        if not tried_since_activation:
            self._update_rejectors(group, rejectors)
        self._metrics.retry_skipped(info.profile)
        if await_preemption:
            self._await_preemption(group, UNCHANGED_SINCE_FAILURE)
        return True

    def _return_refused(self, info: QueuedPodInfo) -> bool:
        """Return a popped pod to its admission group if its plugin still refuses it, as other pods took what there was; else False."""
        if not self._waits_one_by_one(info):
            return False
        outcome, _ = self._probe(info)
        group = self._queues.unschedulable.group_of_key(self._queues.group_key(info))
        if outcome is FEASIBLE or (outcome is NEEDS_PREEMPTION and (group is None or group.active)):
            return False
        if group is not None:
            group.park()
        self._queues.enter_unschedulable(info, UNCHANGED_SINCE_FAILURE)
        self._metrics.retry_skipped(info.profile)
        return True

    def release_probe_pod(self, info: QueuedPodInfo) -> None:
        """Let the next member of an active group follow when its probe pod has left the active queue."""
        group = info.probe_pod_of
        info.probe_pod_of = None
        if group is not None and group.probe_pod is info:
            group.probe_pod = None
            if group.active:
                self._move_next(group)

    # Time passed.

    def flush_preemption(self, now: float) -> None:
        """Move the groups that wait for an attempt at preemption and whose backoff is over at `now`."""
        for group, label in self.preemption_backoff.pop_due(now):
            if self._queues.is_backing_off(group.representative):  # it was another pod when the group began to wait
                self._await_preemption(group, label)
            else:
                self._activate(group, AFTER_BACKOFF, label)

    def flush(self, now: float, max_age: float) -> None:
        """Move the ungated pods that have been unschedulable for more than max_age seconds, whatever hints and probes say."""
        for group in self._queues.unschedulable.groups:
            if group.gating_plugin or group.active or now - group.oldest <= max_age:
                continue
            group.oldest = min(info.timestamp for info in group.members)
            if now - group.oldest <= max_age:
                continue
            if group.one_by_one:
                self._activate(group, AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label, flush=True)
                continue
            for info in group.members.in_order():
                if info.group is group and now - info.timestamp > max_age:
                    info.flushed = True
                    self.requeue(info, AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label)

    # Moving a group.

    def _move(self, group: UnschedulableGroup, result: HintResult, label: str, scope: Scope) -> None:
        if group.one_by_one:
            self._activate(group, result.strategy, label, certain=result.certain)
            return
        for info in group.members.in_order():
            if info.group is group and scope.covers(info.pod_info):
                self.requeue(info, result.strategy, label)

    def _activate(
        self, group: UnschedulableGroup, strategy: QueueingStrategy, label: str, *, certain: bool = False, flush: bool = False
    ) -> None:
        """Begin to move a group one pod at a time. One that is active already goes on under the new event."""
        self.activations += 1
        group.activated_at = self.activations
        group.preemption_event = ""
        group.event_label = label
        group.ignore_backoff = strategy is IMMEDIATELY
        group.certain = certain
        group.flush = flush
        waiting = group.probe_pod  # of the earlier activation, not yet popped
        head = group.representative
        if waiting is None or (head.sort_key, head.sequence) < (waiting.sort_key, waiting.sequence):
            self._move_next(group)

    def _move_next(self, group: UnschedulableGroup) -> None:
        """Move the next probe pod of an active group to the active queue, and members before it that back off to the backoff queue.

        Of an admission group the first member alone is looked at: 100,000 pods may wait under one key, and what is announced may help one.
        """
        if group.probe_pod is not None:
            group.probe_pod.probe_pod_of = None
            group.probe_pod = None
        while group.members:
            info = group.representative
            info.skippable = not group.flush
            info.certain = group.certain
            info.flushed = group.flush
            if not group.ignore_backoff and self._queues.is_backing_off(info):
                if self._queues.enter_backoff(info, group.event_label) and group.by_admission:
                    info.probe_pod_of = group
                    group.probe_pod = info
                    return
            elif self._queues.enter_active(info, group.event_label):
                info.probe_pod_of = group
                group.probe_pod = info
                return

    def _must_back_off(self, info: QueuedPodInfo, result: HintResult) -> bool:
        return result.strategy is AFTER_BACKOFF and self._queues.is_backing_off(info)

    def _await_preemption(self, group: UnschedulableGroup, label: str) -> None:
        """Keep a group parked until the backoff of its first pod is over, when an attempt at preemption is made."""
        if not group.preemption_event:
            self.preemption_backoff.add(group, self._queues.backoff.expiry(group.representative), label)
            self._queues.on_backoff()

    def _probe(self, info: QueuedPodInfo) -> ProbeResult:
        """Probe the pod's shape or, for a pod that admission refused, its admission plugin."""
        profile = self._queues.profiles[info.profile]
        if info.admission_plugin and profile.admission is not None:
            found: ProbeResult = (profile.admission.probe(info.admission_plugin, info.pod_info), info.rejectors)
        else:
            found = profile.probe(info.pod_info)
        if found[0] is INFEASIBLE:
            self._metrics.probe_skipped(info.profile)
        return found

    def gang_still_refused(self, group: UnschedulableGroup, head: QueuedPodInfo, known: Findings) -> bool:
        """Answer whether the pod stands for a gang that is certain to be refused again. known: as of `QueueProfile.group_still_refused`."""
        profile = self._queues.profiles[head.profile]
        if not profile.group_plugin or group.gating_plugin or profile.group_plugin not in group.rejectors.unschedulable:
            return False
        if not profile.group_still_refused(head.pod_info, known):
            return False
        self._metrics.probe_skipped(head.profile)
        return True

    def _refused_by_shape(self, info: QueuedPodInfo) -> bool:
        return refused_by_shape(info, nominated=info.uid in self._queues.nominator)

    def _waits_one_by_one(self, info: QueuedPodInfo) -> bool:
        """Answer whether the pod waits, or would, in a group that moves one by one."""
        return self._refused_by_shape(info) or (info.admission_plugin != "" and isinstance(self._queues.group_key(info), AdmissionGroupKey))


def _announced(rejectors: Rejectors, key: AdmissionKey) -> HintResult:
    """Return what an announcement says for pods that its plugin refused."""
    return HintResult(IMMEDIATELY if key.plugin in rejectors.pending else AFTER_BACKOFF, certain=False)


def _covers_any(scope: Scope, group: UnschedulableGroup, head: QueuedPodInfo) -> bool:
    """Answer whether the scope covers any pod of a group that moves one by one; of a rejector group each pod is checked later."""
    if scope is ALL_PODS or not group.one_by_one or scope.covers(head.pod_info):
        return True
    return scope.max_priority is None and not scope.only_uid and len(group.members) > 1


def _registered_without_hint(registrations: Sequence[Registration], group: UnschedulableGroup) -> bool:
    """Answer whether a plugin that refuses the group registered the event without a hint; such registrations come first."""
    for registration in registrations:
        if registration.hint is not None:
            return False
        if registration.plugin in group.rejectors.all:
            return True
    return False
