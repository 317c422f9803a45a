"""DefaultPreemption: PostFilter makes room for a pod by evicting pods of lower priority; PreEnqueue keeps it out while that is under way.

Split by role: `eligibility` (may it preempt), `outlook` and `candidates` (where, and by evicting whom), `victims` (exactly, on one node),
`choice` (which is best), `eviction`. `occupants` and `budgets` are what it keeps between attempts. minCandidateNodesPercentage and
minCandidateNodesAbsolute limit only how many candidates extenders are shown: all nodes are looked at.
Reference: plugins/defaultpreemption and framework/preemption of Kubernetes v1.35.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from koordsched.api.kinds import POD, POD_DISRUPTION_BUDGET
from koordsched.framework.handle import ExtenderError, Victims
from koordsched.framework.interface import PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from koordsched.framework.status import PluginError, Status, error, unresolvable, unschedulable
from koordsched.plugins.defaultpreemption.budgets import Budgets
from koordsched.plugins.defaultpreemption.candidates import Attempt, Candidates
from koordsched.plugins.defaultpreemption.choice import Candidate
from koordsched.plugins.defaultpreemption.eligibility import NEVER, POLICY_NEVER, TERMINATING, leaving, may_wait_for, overdue_at
from koordsched.plugins.defaultpreemption.eviction import PLUGIN, Eviction
from koordsched.plugins.defaultpreemption.occupants import Occupants

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.config.args import DefaultPreemptionArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.queue.events import EventHint

WAITING = unresolvable("waiting for the preemption for this pod to be finished")
NO_CANDIDATE = unschedulable("no candidate node for preemption")
CLEAR = PostFilterResult("")


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin):
    name = PLUGIN
    signs = ("pod.spec.preemption_policy",)  # of the pod's priority the queue's groups take care

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._pods = handle.informer(POD).store
        self._budgets = Budgets(handle.informer(POD_DISRUPTION_BUDGET))
        self._eviction = Eviction(handle, self._pods)

    def events_to_register(self) -> Sequence[EventHint]:
        # A pod that is held hears of nothing, or each of thousands would be asked about at the deletion of each of their victims:
        # whoever `Eviction` holds it activates in the end.
        return ()

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return WAITING if self._eviction.holds(pod.uid) else None

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        self._handle.preemption_metrics.attempted()
        result, status = await self._preempt(pod, diagnosis)
        if status is None:
            return result, None
        return result, Status(status.code, (f"preemption: {status.message}",))

    # What the queue asks

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        if not self._occupants.any_below(pod.priority):
            return False  # before everything else: this is asked at every event for every shape that waits
        if pod.pod.spec.preemption_policy == NEVER or diagnosis.simulation is None:
            return False
        return self._candidates.may_exist(Attempt(pod, diagnosis, diagnosis.simulation))

    def foreseen(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        if pod.pod.spec.preemption_policy == NEVER:
            status: Status | None = POLICY_NEVER
        elif diagnosis.simulation is None:
            return None
        else:
            status = self._candidates.foreseen_refusal(Attempt(pod, diagnosis, diagnosis.simulation))
        return None if status is None else Status(status.code, (f"preemption: {status.message}",))

    # One attempt

    async def _preempt(self, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        stored = self._pods.get(pod.key)
        if stored is None or stored.metadata.uid != pod.uid:
            return None, error(f'pods "{pod.pod.metadata.name}" not found')
        refusal = self._not_eligible(pod, diagnosis)
        if refusal is not None:
            return None, refusal
        if diagnosis.simulation is None:
            return None, error("preemption was not told how to ask the filters")
        attempt = Attempt(pod, diagnosis, diagnosis.simulation)
        try:
            found = await self._choose(attempt)
        except (PluginError, ExtenderError) as mistake:
            return None, error(str(mistake))
        if isinstance(found, Status):
            return CLEAR if found is not NO_CANDIDATE else None, found
        return await self._carry_out(pod, found)

    def _not_eligible(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        """Refuse a pod that may not preempt, or that has done so and waits for its victims to leave."""
        if pod.pod.spec.preemption_policy == NEVER:
            return POLICY_NEVER
        name = pod.pod.status.nominated_node_name or self._handle.nominator.node_of(pod.uid)
        node = self._handle.cache.node(name) if name else None
        if node is None or not may_wait_for(diagnosis.status_of(node.row)):
            return None
        now = self._handle.clock.now()
        waited_for = []
        for victim in leaving(pod, node):
            if overdue_at(victim) > now:
                waited_for.append(victim)
            else:
                self._occupants.pin(victim.uid)
        if not waited_for:
            return None
        soonest = min(overdue_at(victim) for victim in waited_for)
        self._handle.call_later(soonest - now, lambda: self._handle.activate([pod]))
        return TERMINATING

    async def _choose(self, attempt: Attempt) -> Candidate | Status:
        extenders, wanted = self._handle.extenders, self._wanted(attempt.diagnosis)
        if extenders is None or not extenders.wants_preemption(attempt.pod):
            return self._candidates.best(attempt, wanted)
        candidates = self._candidates.all(attempt, wanted)
        if not candidates:
            return self._candidates.best(attempt, wanted)
        nodes = {self._node_name(candidate.row): candidate for candidate in candidates}
        left = await extenders.preempt(
            attempt.pod, {name: Victims(tuple(candidate.victims), candidate.violations) for name, candidate in nodes.items()}
        )
        chosen = []
        for name, victims in left.items():
            node = self._handle.cache.node(name)
            if node is not None and victims.pods:
                chosen.append(Candidate(node.row, victims.pods, victims.pdb_violations))
        return min(chosen, key=self._candidates.worth) if chosen else NO_CANDIDATE

    def _wanted(self, diagnosis: Diagnosis) -> int:
        """Return how many candidates to show to extenders, and how many are enough where all filters have to be asked."""
        share = diagnosis.total_nodes * self._args.min_candidate_nodes_percentage // 100
        return max(share, self._args.min_candidate_nodes_absolute)

    async def _carry_out(self, pod: PodInfo, candidate: Candidate) -> tuple[PostFilterResult | None, Status | None]:
        name = self._node_name(candidate.row)
        self._make_way(pod, name, candidate)
        mistake = await self._eviction.carry_out(pod, name, candidate.victims)
        if mistake:
            return None, error(mistake)
        return PostFilterResult(name), None

    def _make_way(self, pod: PodInfo, name: str, candidate: Candidate) -> None:
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

    @cached_property
    def _occupants(self) -> Occupants:
        # Made when a pod fails for the first time: until then nobody need be followed.
        return Occupants(self._handle.cache, self._handle.nominator, self._budgets)

    @cached_property
    def _candidates(self) -> Candidates:
        return Candidates(self._handle.cache, self._handle.nominator, self._occupants, self._budgets)
