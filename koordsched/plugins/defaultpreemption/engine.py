"""The engine: one attempt to preempt, in the order of framework/preemption of Kubernetes v1.35 (framework.md §7.3 to §7.8).

It knows no plugin: what may preempt is decided before, and how many candidates are wanted is an argument.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from koordsched.api.kinds import POD, POD_DISRUPTION_BUDGET
from koordsched.framework.handle import ExtenderError, Victims
from koordsched.framework.interface import PostFilterResult
from koordsched.framework.status import PluginError, Status, error, unschedulable
from koordsched.plugins.defaultpreemption.candidates import CandidateFinder, PreemptionCandidate
from koordsched.plugins.defaultpreemption.estimate import Preemptor
from koordsched.plugins.defaultpreemption.preparation import Preparation
from koordsched.plugins.defaultpreemption.victims_index import DisruptionBudgets, VictimsIndex

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle

NO_CANDIDATE = unschedulable("no candidate node for preemption")
CLEAR_NOMINATION = PostFilterResult("")


class PreemptionEngine:
    """Preempts for one pod after the other."""

    def __init__(self, handle: Handle, plugin: str) -> None:
        """plugin: the name under which waiting pods are rejected."""
        self._handle = handle
        self._pods = handle.informer(POD).store
        self._budgets = DisruptionBudgets(handle.informer(POD_DISRUPTION_BUDGET))
        self.preparation = Preparation(handle, self._pods, plugin)

    # Without an attempt

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        """Answer whether there could be a candidate; in doubt yes. Asked at every event about every shape that waits."""
        if not self._victims.any_below(pod.priority) or diagnosis.simulation is None:
            return False
        return self.finder.may_exist(Preemptor(pod, diagnosis, diagnosis.simulation))

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        """Return what `preempt` would answer if there is no candidate, without asking filters; None when that is not known."""
        if diagnosis.simulation is None:
            return None
        return self.finder.expected_refusal(Preemptor(pod, diagnosis, diagnosis.simulation))

    # One attempt

    def missing(self, pod: PodInfo) -> Status | None:
        """Return the error that the pod is gone, or is another one by now."""
        stored = self._pods.get(pod.key)
        if stored is None or stored.metadata.uid != pod.uid:
            return error(f'pods "{pod.pod.metadata.name}" not found')
        return None

    def exclude(self, victim: PodInfo) -> None:
        """Never count on this pod's leaving from now on."""
        self._victims.exclude(victim.uid)

    async def preempt(self, pod: PodInfo, diagnosis: Diagnosis, wanted: int) -> tuple[PostFilterResult | None, Status | None]:
        """Choose a node and evict its victims; return the node as a nomination, or why there is none.

        wanted: how many candidates to show to extenders, and how many are enough where all filters have to be asked.
        """
        if diagnosis.simulation is None:
            return None, error("the diagnosis does not say how to simulate evictions")
        preemptor = Preemptor(pod, diagnosis, diagnosis.simulation)
        try:
            chosen = await self._choose(preemptor, wanted)
        except (PluginError, ExtenderError) as mistake:
            return None, error(str(mistake))
        if isinstance(chosen, Status):
            return CLEAR_NOMINATION if chosen is not NO_CANDIDATE else None, chosen
        name = self._node_name(chosen.row)
        self._withdraw_lower_nominations(pod, name, chosen)
        mistake_text = await self.preparation.evict(pod, name, chosen.victims)
        if mistake_text:
            return None, error(mistake_text)
        return PostFilterResult(name), None

    async def _choose(self, preemptor: Preemptor, wanted: int) -> PreemptionCandidate | Status:
        extenders = self._handle.extenders
        if extenders is None or not extenders.wants_preemption(preemptor.pod):
            return self.finder.best(preemptor, wanted)
        candidates = self.finder.all(preemptor, wanted)
        if not candidates:
            return self.finder.best(preemptor, wanted)
        left = await extenders.preempt(
            preemptor.pod,
            {self._node_name(found.row): Victims(tuple(found.victims), found.violations) for found in candidates},
        )
        narrowed = []
        for name, victims in left.items():
            node = self._handle.cache.node(name)
            if node is not None and victims.pods:
                narrowed.append(PreemptionCandidate(node.row, victims.pods, victims.pdb_violations))
        return min(narrowed, key=self.finder.rank) if narrowed else NO_CANDIDATE

    def _withdraw_lower_nominations(self, pod: PodInfo, name: str, candidate: PreemptionCandidate) -> None:
        """Withdraw the nominations of pods of lower priority for the node, if they do not fit any more beside the pod.

        kube-scheduler withdraws all of them (kubernetes #129948).
        """
        handle, node = self._handle, self._handle.cache.node(name)
        nominated = handle.nominator.pods_on(name)
        staying = [pod, *(other for other in nominated if other.priority >= pod.priority and other.uid != pod.uid)]
        for other in sorted(nominated, key=lambda nominated: -nominated.priority):
            if other.priority >= pod.priority or other.uid == pod.uid:
                continue
            if node is not None and handle.fits(other, node, staying, candidate.victims):
                staying.append(other)
            else:
                handle.withdraw_nomination(other)

    def _node_name(self, row: int) -> str:
        info = self._handle.cache.infos[row]
        if info is None:
            raise LookupError(f"row {row} was chosen for preemption but holds no node")
        return info.name

    # Made when a pod fails for the first time: until then no pod on a node is followed.

    @cached_property
    def _victims(self) -> VictimsIndex:
        return VictimsIndex(self._handle.cache, self._budgets)

    @cached_property
    def finder(self) -> CandidateFinder:
        return CandidateFinder(self._handle.cache, self._handle.nominator, self._victims, self._budgets)
