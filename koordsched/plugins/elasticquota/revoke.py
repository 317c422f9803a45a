"""The over-use revoke: pods of quotas that use more than their runtime for long are evicted (elasticquota.md §11).

Runtimes fall when the owner of what was lent needs it back. The least important pods go first. Disruption budgets are obeyed, and pods that
they protect are taken last; non-preemptible pods never; pods that are being deleted count as gone (DEV-5). Nothing is polled: a tree is
looked at after events that changed it, at most once per `revokePodInterval`, and when an over-use that lasts becomes too old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import POD
from koordsched.api.koordinator.quota_definitions import runtime_text
from koordsched.cluster.event_series import EventText
from koordsched.cluster.port import ClusterError, NotFound, Ref
from koordsched.framework.controllers import WorkQueue
from koordsched.framework.preemption.victims_index import start_time_of
from koordsched.log import get_logger
from koordsched.plugins.elasticquota.reasons import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koordsched.api.core import Pod
    from koordsched.framework.handle import Handle
    from koordsched.plugins.elasticquota.manager import CountedPod, Quota, QuotaManager
    from koordsched.plugins.elasticquota.state import QuotaState

log = get_logger(__name__)

REVOKED_EVENT = "QuotaOverUsed"
MOMENT = 0.001
"""Seconds: an over-use has to last longer than the delay, so a quota is looked at again this much after it."""


class OverUseRevoke:
    """Finds quotas that have been over-used for longer than `delayEvictTime`, and evicts some of their pods."""

    def __init__(self, handle: Handle, state: QuotaState, violations: Callable[[Sequence[Pod]], Sequence[bool]]) -> None:
        """violations: answers which of these pods, evicted in this order, violate a disruption budget."""
        self._handle = handle
        self._clock = handle.clock
        self._state = state
        self._violations = violations
        self._delay = float(state.args.delay_evict_time)
        self._trees: WorkQueue[str] = WorkQueue("over-use of quotas", float(state.args.revoke_pod_interval))
        self._since: dict[str, dict[str, float]] = {}  # by tree and quota: when its over-use began
        state.changes.follow(self._tree_changed)

    async def run(self) -> None:
        for tree_id in self._state.managers:
            self._trees.add(tree_id)
        await self._trees.run(self._check)

    def _tree_changed(self, manager: QuotaManager) -> None:
        self._trees.add(manager.tree_id)

    async def _check(self, tree_id: str) -> float | None:
        """Revoke what is over-used for too long in a tree; return in how many seconds the next over-use becomes too old."""
        manager = self._state.managers.get(tree_id)
        if manager is None:
            self._since.pop(tree_id, None)
            return None
        manager.is_noted = False
        now = self._clock.now()
        over_used = [quota for quota in map(manager.quota_of, manager.up_to_date().over_used()) if _is_over_used(quota)]
        before = self._since.get(tree_id, {})
        since = self._since[tree_id] = {quota.name: before.get(quota.name, now) for quota in over_used}
        for quota in over_used:
            if now - since[quota.name] > self._delay:
                since[quota.name] = now
                await self._revoke(quota)
        return max(0.0, min(since.values()) + self._delay - now) + MOMENT if since else None

    async def _revoke(self, quota: Quota) -> None:
        used, runtime = shown(quota.amounts("used")), shown(quota.runtimes(), runtime_text)
        for counted in self.choose(quota):
            pod = counted.pod
            try:
                await self._handle.cluster.evict(Ref(POD, pod.metadata.namespace, pod.metadata.name), uid=pod.metadata.uid)
            except NotFound:
                continue
            except ClusterError as refused:
                log.warning("a pod of an over-used quota could not be evicted", pod=counted.key, quota=quota.name, err=refused.message)
                continue
            text = f"Revoked: quota {quota.name} uses more than its runtime: used: {used}, runtime: {runtime}"
            log.info("a pod of an over-used quota was evicted", pod=counted.key, quota=quota.name, used=used, runtime=runtime)
            self._handle.event_on(pod, EventText("Warning", REVOKED_EVENT, "Revoking", text))

    def choose(self, quota: Quota) -> list[CountedPod]:
        """Return the pods to evict, the least important first."""
        used = dict(quota.amounts("used"))
        _subtract(used, quota.leaving_amounts())
        candidates = [
            counted for counted in quota.pods.values() if counted.is_bound and not counted.entry.fixed and counted.uid not in quota.leaving
        ]
        # The least important first: of lower priority, then of later start; those that a budget protects last.
        candidates.sort(key=lambda counted: (counted.priority, -start_time_of(counted.pod), counted.key))
        protected = dict(zip(candidates, self._violations([counted.pod for counted in candidates]), strict=True))
        candidates.sort(key=protected.__getitem__)
        runtime, taken = quota.runtimes(), []
        for counted in candidates:
            if not _exceeds(used, runtime):
                break
            taken.append(counted)
            _subtract(used, counted.limited_requests())
        if _exceeds(used, runtime):
            return taken
        revoked = []
        for counted in reversed(taken):
            requests = counted.limited_requests()
            with_it = {name: used.get(name, 0) + requests.get(name, 0) for name in used | requests}
            if _exceeds(with_it, runtime):
                revoked.append(counted)
            else:
                used = with_it
        return revoked[::-1]


def _is_over_used(quota: Quota) -> bool:
    """Answer whether the quota uses more than its runtime, not counting pods that are being deleted."""
    used = quota.amounts("used")
    _subtract(used, quota.leaving_amounts())
    return _exceeds(used, quota.runtimes())


def _exceeds(used: Mapping[str, int], runtime: Mapping[str, int]) -> bool:
    return any(used.get(name, 0) > amount for name, amount in runtime.items())


def _subtract(used: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        used[name] = used.get(name, 0) - amount
