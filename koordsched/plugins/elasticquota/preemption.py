"""Which pods of a quota may be evicted for which, and what they have to release (elasticquota.md §10).

Victims are preemptible pods of lower priority in the preemptor's own quota. The engine finds them; where the quota itself is full they have
to release together what it lacks, on whatever nodes they run, and no pod is evicted that would not make room (DEV-4). Pods that are being
deleted already count as gone: what they will release need not be released once more. With `parity: true` victims are chosen on one node,
also where they do not release enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.quota import OVER_MIN
from koordsched.api.koordinator.quota_definitions import DEFAULT_QUOTA, is_non_preemptible
from koordsched.api.quantity import millis, units
from koordsched.framework.preemption.rules import TERMINATING, PreemptionRules, VictimRule, policy_allows
from koordsched.framework.status import unresolvable
from koordsched.plugins.elasticquota.changes import PLUGIN

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.status import Status
    from koordsched.plugins.elasticquota.manager import CountedPod, Quota
    from koordsched.plugins.elasticquota.state import QuotaState

NO_VICTIMS_IN_QUOTA = unresolvable("No victims found in the quota of the preemptor pod")


class QuotaVictims(VictimRule):
    """Preemptible pods of lower priority in the preemptor's quota."""

    key = PLUGIN
    grouped = True

    def __init__(self, state: QuotaState) -> None:
        self._state = state
        self._counting = state.counting
        self._spares_default = state.args.disable_default_quota_preemption
        self._parity = state.args.parity

    def group(self, victim: PodInfo) -> Hashable | None:
        if is_non_preemptible(victim.pod) or victim.pod.metadata.deletion_timestamp is not None:
            return None
        return self.group_for(victim)

    def group_for(self, preemptor: PodInfo) -> Hashable | None:
        quota = self._counting.quota_of(preemptor)
        if quota is None or (self._spares_default and quota.name == DEFAULT_QUOTA):
            return None
        return quota.name

    def version(self) -> Hashable:
        return self._counting.moves

    def may_evict_some(self, pod: PodInfo) -> bool:
        """Answer whether a pod of lower priority in the pod's quota may be a victim. O(distinct priorities)."""
        quota = self._counting.quota_of(pod)
        if quota is None or (self._spares_default and quota.name == DEFAULT_QUOTA):
            return False
        for priority in quota.victims:  # noqa: SIM110  # any() costs twice as much, and this is asked at every event
            if priority < pod.priority:
                return True
        return False

    def members(self, preemptor: PodInfo) -> Iterable[str]:
        quota = self._counting.quota_of(preemptor)
        return () if quota is None else quota.pods

    def to_release(self, preemptors: Sequence[PodInfo]) -> Mapping[str, int]:
        """Return what victims have to release for these pods of one quota, by resource: cpu in milli, everything else in units.

        That is what the quota, and each ancestor where these are checked, lacks. What pods that are being deleted use counts as free.
        """
        needed: dict[str, int] = {}
        for counted in [self._counting.counted(pod) for pod in preemptors]:
            for name, amount in () if counted is None else counted.limited_requests().items():
                needed[name] = needed.get(name, 0) + amount
        quota = self._counting.quota_of(preemptors[0]) if preemptors else None
        if quota is None:
            return {}
        lacking: dict[str, int] = {}
        leaving = {} if self._parity else quota.leaving_amounts()
        for above in self._limiting(quota):
            used = above.amounts("used")
            for name, limit in above.limit().items():
                if name not in needed and (above is not quota or self._parity):
                    continue
                short = used.get(name, 0) + needed.get(name, 0) - limit - leaving.get(name, 0)
                lacking[name] = max(lacking.get(name, 0), short)
        return {name: millis(amount) if name == "cpu" else units(amount) for name, amount in lacking.items() if amount > 0}

    def _limiting(self, quota: Quota) -> Iterable[Quota]:
        """Return the quotas whose limits a pod of this one has to keep."""
        if self._parity or not self._state.args.enable_check_parent_quota:
            return (quota,)
        return [above for above in quota.manager.path(quota) if above is not quota.manager.root]

    def evictions_help(self, counted: CountedPod) -> bool:
        """Answer whether evictions can help a pod that its quota refuses. They cannot where the pod is non-preemptible and exceeds min."""
        return not (counted.entry.fixed and counted.quota.manager.up_to_date().exceeded(counted.entry, counted.quota.row, OVER_MIN))


def quota_rules(victims: QuotaVictims, state: QuotaState, is_evicting: Callable[[str], bool]) -> PreemptionRules:
    """Return the rules of the plugin's engine. is_evicting: whether pods are being evicted for the pod of a uid."""

    def eligible(pod: PodInfo) -> Status | None:
        refusal = policy_allows(pod)
        if refusal is not None:
            return refusal
        quota = state.counting.quota_of(pod)
        waits = quota is not None and (is_evicting(pod.uid) or (quota.leaving and not victims.to_release((pod,)) and _is_full(state, pod)))
        return TERMINATING if waits else None

    return PreemptionRules(plugin=PLUGIN, victims=victims, eligible=eligible, no_victims=NO_VICTIMS_IN_QUOTA, in_vain=state.args.parity)


def _is_full(state: QuotaState, pod: PodInfo) -> bool:
    counted = state.counting.counted(pod)
    return counted is not None and bool(counted.quota.manager.up_to_date().admit(counted.entry))
