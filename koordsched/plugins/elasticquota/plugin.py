"""ElasticQuota: pods are admitted as far as their quota has room (elasticquota.md §8).

Whether it has is a matter of the pod and its quota alone, so it is asked before any node, and pods that wait for room wait under their
quota: room in one quota moves none of another. What a pod uses counts from Reserve on.

Reference: plugins/elasticquota of Koordinator v1.8.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.koordinator.quota_definitions import is_non_preemptible
from koordsched.framework.controllers import Controller, ControllersPlugin
from koordsched.framework.interface import UNSIGNABLE, AdmissionPlugin, PostFilterPlugin, ReservePlugin
from koordsched.framework.limits import LimitsPlugin
from koordsched.framework.preemption.engine import PreemptionEngine
from koordsched.framework.routes import Route, RoutesPlugin
from koordsched.framework.status import SKIP, Status
from koordsched.plugins.elasticquota.changes import PLUGIN
from koordsched.plugins.elasticquota.check import QuotaCheck
from koordsched.plugins.elasticquota.endpoint import QuotaEndpoint
from koordsched.plugins.elasticquota.gauges import register_gauges
from koordsched.plugins.elasticquota.group_admission import first_over_limit
from koordsched.plugins.elasticquota.limit_trials import QuotaLimits
from koordsched.plugins.elasticquota.metrics import QuotaLatencies
from koordsched.plugins.elasticquota.objects_controller import BuiltInQuotas, QuotaStatusWriter
from koordsched.plugins.elasticquota.preemption import QuotaVictims, quota_rules
from koordsched.plugins.elasticquota.reasons import no_ancestor, no_tree, over_ancestors_limit, over_own_limit, refused_by_hook
from koordsched.plugins.elasticquota.revoke import OverUseRevoke
from koordsched.plugins.elasticquota.state import QuotaState

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from contextlib import AbstractContextManager

    from koordsched.api.podinfo import PodInfo
    from koordsched.config.koordinator_args import ElasticQuotaArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import PostFilterResult
    from koordsched.framework.limits import Limit, RaisedLimit
    from koordsched.plugins.elasticquota.manager import CountedPod

NO_ROW = -1
TENTH, LEAST_TRIES = 10, 100
"""A preemption tries a tenth of all nodes, and at least so many where there are as many."""


class ElasticQuotaPlugin(AdmissionPlugin, PostFilterPlugin, ReservePlugin, ControllersPlugin, RoutesPlugin, LimitsPlugin):
    name = PLUGIN

    def __init__(self, args: ElasticQuotaArgs, handle: Handle) -> None:
        self._handle = handle
        self._state = state = quota_state(handle, args)
        self._counting = state.counting
        self._pods = state.counting.pods
        self._checks_parents = args.enable_check_parent_quota
        self._hooks = state.hooks
        self._is_plain = not args.enable_check_parent_quota and not args.hook_plugins  # its own limit decides alone
        self.others_may_preempt = args.parity
        self._limits = QuotaLimits(state, with_overhead=not handle.gates["ElasticQuotaIgnorePodOverhead"])
        self._victims = QuotaVictims(state)
        self.engine = PreemptionEngine(handle, quota_rules(self._victims, state, self._is_evicting))

    def sign(self, pod: PodInfo) -> Hashable:
        return None  # the plugin says nothing of nodes

    def has_version(self, pod: PodInfo) -> bool:
        return False

    # PreFilter

    def admit(self, pod: PodInfo) -> Status | None:
        counted = self._pods.get(pod.uid) or self._counting.counted(pod)
        if counted is None:
            return SKIP
        manager = counted.quota.manager
        if manager.is_dropped:
            return no_tree(counted.quota)
        kernel = manager.up_to_date() if manager.moved else manager.kernel
        refusal = kernel.admit(counted.entry)
        if refusal:
            return over_own_limit(counted, refusal)
        if self._is_plain:
            return None
        if self._hooks:
            refused = self._hooks.refusal(counted.quota, pod)
            if refused is not None:
                manager.kernel.wait(counted.quota.row)
                return refused_by_hook(*refused)
        return self._admit_to_ancestors(counted) if self._checks_parents else None

    def admit_together(self, pods: Sequence[PodInfo]) -> tuple[int, Status] | None:
        """Refuse a group in one check a quota, where nothing but the quotas' own limits decides; else its pods are asked about singly."""
        if not self._is_plain:
            return None
        counted = [self._pods.get(pod.uid) for pod in pods]  # pods of Reservations take nothing of a quota
        managers = {each.quota.manager for each in counted if each is not None}
        if any(manager.is_dropped or manager.kernel.guarantees for manager in managers):
            return None  # a tree that is gone refuses each; guarantees follow what is used
        for manager in managers:
            manager.up_to_date()
        return first_over_limit(counted)

    def _admit_to_ancestors(self, counted: CountedPod) -> Status | None:
        manager = counted.quota.manager
        row = manager.kernel.full_ancestor(counted.entry)
        if row != NO_ROW:
            return over_ancestors_limit(counted, manager.quota_of(row))
        path = manager.path(counted.quota)
        if path[-1] is not manager.root:
            return no_ancestor(path[-1].definition.parent, [quota.name for quota in reversed(path)])
        return None

    def admission_key(self, pod: PodInfo) -> Hashable | None:
        quota = self._counting.quota_of(pod)
        return None if quota is None else quota.name

    def sign_admission(self, pod: PodInfo) -> Hashable:
        """Return what is read of the pod besides its quota: requests are exact here, and rounded in its shape."""
        counted = self._pods.get(pod.uid)
        if self._hooks or counted is None:
            return UNSIGNABLE
        return is_non_preemptible(pod.pod), frozenset(counted.requests.items())

    # Changes that are tried

    def limits_of(self, pod: PodInfo) -> Sequence[Limit]:
        return self._limits.limits_of(pod)

    def counted_as(self, pod: PodInfo, raised: Sequence[RaisedLimit] = (), gone: Sequence[PodInfo] = ()) -> AbstractContextManager[None]:
        return self._limits.counted_as(pod, raised, gone)

    # PostFilter

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        refusal = self._why_no_preemption(pod, diagnosis)
        if refusal is not None:
            self._handle.preemption_metrics.attempted()
            return None, refusal
        return await self.engine.preempt(pod, diagnosis, max(diagnosis.total_nodes // TENTH, LEAST_TRIES))

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        if self._why_no_preemption(pod, diagnosis) is not None:
            return False
        return bool(diagnosis.admission_plugin) or self.engine.may_help(pod, diagnosis)

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        refusal = self._why_no_preemption(pod, diagnosis)
        if refusal is not None:
            return refusal
        return None if diagnosis.admission_plugin else self.engine.expected_refusal(pod, diagnosis)

    def _why_no_preemption(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        """Return why evictions in its quota do not help the pod; None: they may.

        There is no pod that may be evicted, or it is another plugin, a hook or min that refuses the pod.
        """
        if not self._victims.may_evict_some(pod):
            return self.engine.no_victims(pod, diagnosis)
        if diagnosis.admission_plugin:
            counted = self._counting.counted(pod)
            is_helped = diagnosis.admission_plugin == self.name and counted is not None and self._victims.evictions_help(counted)
            if not is_helped or not (self._victims.to_release((pod,)) or self._counting.has_leaving_pods(pod)):
                return self.engine.not_helpful(pod, diagnosis)
        return None

    def _is_evicting(self, uid: str) -> bool:
        return self.engine.evictions.is_under_way(uid)

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self._counting.reserve(pod)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._counting.unreserve(pod)

    # What is shown and written

    def controllers(self) -> Sequence[Controller]:
        built_in, status = BuiltInQuotas(self._handle, self._state), QuotaStatusWriter(self._handle, self._state)
        controllers = [Controller("built-in quotas", built_in.run), Controller("quota status", status.run)]
        args = self._state.args
        if args.monitor_all_quotas and args.enable_runtime_quota:
            revoke = OverUseRevoke(self._handle, self._state, self.engine.budgets.violations)
            controllers.append(Controller("over-use revoke", revoke.run))
        return controllers

    def routes(self) -> Sequence[Route]:
        endpoint = QuotaEndpoint(self._state)
        return (
            Route("quotas", endpoint.all),
            Route("quotas/:name", endpoint.one),
            Route("quotas/:name/explain", endpoint.explain),
        )


def quota_state(handle: Handle, args: ElasticQuotaArgs) -> QuotaState:
    """Return the state that all profiles share, under the arguments of the first one. To be called while the plugin is made."""

    def make() -> QuotaState:
        latencies = QuotaLatencies(handle)
        state = QuotaState(handle, args, latencies)
        register_gauges(handle, state)
        handle.cache.checked.append(QuotaCheck(handle, state))
        return state

    return handle.cache.shared.one(QuotaState, make)
