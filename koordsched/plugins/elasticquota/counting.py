"""How pods count in their quotas (elasticquota.md §5).

A pod that the cluster has counts in the request of its quota, and from Reserve or its binding on in what the quota uses. A pod belongs to
the quota that `PodAssociation` names; what changes there counts its pods anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.koordinator.quota_definitions import is_non_preemptible
from koordsched.api.quantity import QuantityError
from koordsched.api.resources import exact_requests
from koordsched.clock import parse_rfc3339
from koordsched.plugins.elasticquota.manager import CountedPod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.handle import Handle
    from koordsched.plugins.elasticquota.association import PodAssociation
    from koordsched.plugins.elasticquota.changes import TreeChanges
    from koordsched.plugins.elasticquota.hooks import Hooks
    from koordsched.plugins.elasticquota.manager import Quota


class PodCounting:
    """The pods that count."""

    def __init__(self, handle: Handle, association: PodAssociation, hooks: Hooks, changes: TreeChanges) -> None:
        self.pods: dict[str, CountedPod] = {}  # by uid
        self._without_quota: dict[str, Pod] = {}  # by uid: pods that belong to no quota (DisableDefaultQuota)
        self.moves = 0  # how often pods were found to belong to another quota than before
        self._association = association
        self._hooks = hooks
        self._has_hooks = bool(hooks)
        self._changes = changes
        self._cache = handle.cache
        self._clock = handle.clock
        gates = handle.gates
        self._with_overhead = not gates["ElasticQuotaIgnorePodOverhead"]
        self._ignores_terminating = gates["ElasticQuotaIgnoreTerminatingPod"]
        self._ignores_terminating_at_once = gates["ElasticQuotaImmediateIgnoreTerminatingPod"]

    # Reading

    def quota_of(self, pod: PodInfo) -> Quota | None:
        """Return the quota that a pod belongs to; None: it has none."""
        counted = self.pods.get(pod.uid)
        return self._association.quota_of(pod.pod) if counted is None else counted.quota

    def counted(self, pod: PodInfo) -> CountedPod | None:
        """Return how the pod counts; of one that does not, such as a pod that stands for a Reservation, how it would. None: in no quota."""
        counted = self.pods.get(pod.uid)
        if counted is not None:
            return counted
        quota = self._association.quota_of(pod.pod)
        if quota is None:
            return None
        requests = exact_requests(pod.pod, with_overhead=self._with_overhead)
        return CountedPod(pod.pod, pod.uid, quota, requests, quota.manager.entry(quota, requests, fixed=is_non_preemptible(pod.pod)))

    def has_leaving_pods(self, pod: PodInfo) -> bool:
        """Answer whether assigned pods of the pod's quota are being deleted."""
        quota = self.quota_of(pod)
        return quota is not None and bool(quota.leaving)

    # Events of pods

    def set_pod(self, pod: Pod) -> None:
        """Take over a pod that came or changed."""
        metadata = pod.metadata
        counted = self.pods.get(metadata.uid)
        if counted is not None and counted.pod.metadata.resource_version == metadata.resource_version != "":
            return
        if metadata.deletion_timestamp is not None and self._is_ignored(pod):
            if counted is not None:
                self._uncount(counted)
                self._changes.after_event(counted.quota.manager)
            return
        if counted is None:
            self._add(pod, self._association.quota_of(pod))
        elif counted.pod.metadata.labels == metadata.labels:
            self._update(counted, pod, counted.quota, fixed=counted.entry.fixed)  # what quotas say is followed by `associate`
        else:
            before, quota = counted.pod, self._association.quota_of(pod)
            self._update(counted, pod, quota, fixed=is_non_preemptible(pod))
            if counted.pod is pod:  # it stays in its quota, with other labels
                self._association.remove_pod(before, quota)
                self._association.add_pod(pod, quota)

    def remove_pod(self, uid: str) -> None:
        counted = self.pods.get(uid)
        if counted is not None:
            self._uncount(counted)
            self._changes.after_event(counted.quota.manager)
        else:
            self._forget_without_quota(uid)

    def recount(self, pod: Pod) -> None:
        """Count a pod anew, whatever is known of it."""
        counted = self.pods.get(pod.metadata.uid)
        if counted is not None:
            self._uncount(counted)
        self._add(pod, self._association.quota_of(pod))

    def associate(self, uids: Iterable[str]) -> None:
        """Find out anew to which quotas these pods belong, and let those of them that wait do so under their new quotas."""
        moved = set()
        for uid in uids:
            counted = self.pods.get(uid)
            pod = self._without_quota.get(uid) if counted is None else counted.pod
            if pod is None:
                continue
            quota = self._association.quota_of(pod)
            if counted is not None and pod.metadata.deletion_timestamp is not None and self._is_ignored(pod):
                self._uncount(counted)  # its time has passed since its last event
            elif counted is None:
                self._add(pod, quota)
                if uid in self.pods:
                    moved.add(uid)
            elif self._update(counted, pod, quota, fixed=is_non_preemptible(pod)):
                moved.add(uid)
        if moved:
            self.moves += 1
            self._cache.signatures.changed(lambda pod: pod.uid in moved)

    def _add(self, pod: Pod, quota: Quota | None, *, assigned: bool = False) -> None:
        """Count a pod that does not count yet. assigned: it is, though the cluster does not say that it is bound."""
        uid = pod.metadata.uid
        if self._without_quota:
            self._forget_without_quota(uid)
        if quota is None:
            self._without_quota[uid] = pod
            self._association.add_pod(pod, None)
            return
        try:
            requests = exact_requests(pod, with_overhead=self._with_overhead)
        except QuantityError:
            return  # reported where the pod is left out for it
        self._association.add_pod(pod, quota)
        manager = quota.manager
        entry = manager.entry(quota, requests, fixed=is_non_preemptible(pod))
        counted = CountedPod(pod, uid, quota, requests, entry)
        self.pods[uid] = quota.pods[uid] = counted
        manager.kernel.add(entry)
        if pod.spec.node_name:
            counted.is_bound = assigned = True
        if assigned:
            self._assign(counted)
            if self._has_hooks:
                self._hooks.pod_updated(quota, None, pod)
        if manager.kernel.waiting or not manager.is_noted:
            self._changes.after_event(manager)

    def _forget_without_quota(self, uid: str) -> None:
        pod = self._without_quota.pop(uid, None)
        if pod is not None:
            self._association.remove_pod(pod, None)

    def _update(self, counted: CountedPod, pod: Pod, quota: Quota | None, *, fixed: bool) -> bool:
        """Take over a change of a pod that counts; answer whether it belongs to another quota than before."""
        before, was_assigned, old_quota = counted.pod, counted.entry.assigned, counted.quota
        requests: Mapping[str, int] | None = None
        if quota is not None:
            try:
                requests = exact_requests(pod, with_overhead=self._with_overhead)
            except QuantityError:
                return False
        if quota is not old_quota or (requests is not counted.requests and requests != counted.requests) or counted.entry.fixed != fixed:
            self._uncount(counted)
            if quota is None or quota.manager is not old_quota.manager:
                self._changes.after_event(old_quota.manager)
            self._add(pod, quota, assigned=was_assigned)
            return quota is not old_quota
        if was_assigned and (
            before.metadata.deletion_timestamp != pod.metadata.deletion_timestamp or before.spec.priority != pod.spec.priority
        ):
            _count_victim(counted, -1)
            counted.pod = pod
            _count_victim(counted, 1)
        counted.pod = pod
        if pod.spec.node_name and not counted.is_bound:
            counted.is_bound = True
            if not was_assigned:
                self._assign(counted)
                self._changes.after_event(quota.manager)
        if self._has_hooks and counted.entry.assigned:
            self._hooks.pod_updated(quota, before if was_assigned else None, pod)
        return False

    def _assign(self, counted: CountedPod) -> None:
        quota, pod = counted.quota, counted.pod
        quota.manager.kernel.assign(counted.entry)
        if pod.metadata.deletion_timestamp is None and not counted.entry.fixed:
            priority = pod.spec.priority or 0  # as `_count_victim` counts, without its call
            quota.victims[priority] = quota.victims.get(priority, 0) + 1
        else:
            _count_victim(counted, 1)

    def _uncount(self, counted: CountedPod) -> None:
        if counted.entry.assigned:
            _count_victim(counted, -1)
            if self._has_hooks:
                self._hooks.pod_updated(counted.quota, counted.pod, None)
        counted.quota.manager.kernel.remove(counted.entry)
        self._association.remove_pod(counted.pod, counted.quota)
        del self.pods[counted.uid], counted.quota.pods[counted.uid]

    def _is_ignored(self, pod: Pod) -> bool:
        """Answer whether a pod that is being deleted counts no longer: at once, or after twice its grace period, by two gates."""
        if self._ignores_terminating_at_once:
            return True
        deleted = pod.metadata.deletion_timestamp
        if not self._ignores_terminating or deleted is None:
            return False
        return self._clock.now() > parse_rfc3339(deleted) + (pod.metadata.deletion_grace_period_seconds or 0)

    # Reserve

    def reserve(self, pod: PodInfo) -> None:
        counted = self.pods.get(pod.uid)
        if counted is None or counted.entry.assigned:
            return
        self._assign(counted)
        if self._has_hooks:
            self._hooks.pod_updated(counted.quota, None, counted.pod)
        manager = counted.quota.manager
        if not manager.is_noted:
            self._changes.note(manager)

    def unreserve(self, pod: PodInfo) -> None:
        """Give back what Reserve took, unless the pod is bound. What an undone turn of a group gives back is room for none."""
        counted = self.pods.get(pod.uid)
        if counted is None or counted.is_bound or not counted.entry.assigned:
            return
        manager = counted.quota.manager
        _count_victim(counted, -1)
        if self._has_hooks:
            self._hooks.pod_updated(counted.quota, counted.pod, None)
        if self._cache.table.in_turn:
            manager.kernel.unassign_quietly(counted.entry)
            self._changes.note(manager)
        else:
            manager.kernel.unassign(counted.entry)
            self._changes.after_event(manager)


def _count_victim(counted: CountedPod, sign: int) -> None:
    """Count an assigned pod among those that could be evicted, or among those that are leaving; sign -1: no longer."""
    quota, pod = counted.quota, counted.pod
    if pod.metadata.deletion_timestamp is not None:
        if sign > 0:
            quota.leaving[counted.uid] = counted
        else:
            quota.leaving.pop(counted.uid, None)
    elif not counted.entry.fixed:
        priority = pod.spec.priority or 0
        left = quota.victims.get(priority, 0) + sign
        if left:
            quota.victims[priority] = left
        else:
            del quota.victims[priority]
