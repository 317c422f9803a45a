"""The engine: one attempt to preempt, in the order of framework/preemption of Kubernetes v1.35 (framework.md §7).

It knows no plugin. Who may preempt, which pods may be victims and the texts are `PreemptionRules`; the scope is one node for one pod
(`preempt`), or a node for each pod of a job (`preempt_for_job`).
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from koordsched.api.kinds import POD, POD_DISRUPTION_BUDGET
from koordsched.framework.handle import ExtenderError, Victims
from koordsched.framework.interface import PostFilterResult
from koordsched.framework.preemption.candidates import CandidateFinder, PreemptionCandidate, refusal_of
from koordsched.framework.preemption.estimate import Preemptor, resolvable_nodes
from koordsched.framework.preemption.eviction import Evictions, is_evicted, overdue_at
from koordsched.framework.preemption.job import Job, JobSearch
from koordsched.framework.preemption.limit import LimitRoom, LimitSearch
from koordsched.framework.preemption.rules import policy_allows
from koordsched.framework.preemption.victims_index import DisruptionBudgets, VictimsIndex, VictimsIndexes
from koordsched.framework.status import Code, PluginError, Status, error, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.framework.pod_diagnosis import PreemptionRecord
    from koordsched.framework.preemption.rules import PreemptionRules

Outcome = tuple[PostFilterResult | None, Status | None]
"""What a PostFilter plugin answers."""

WAITING = unresolvable("waiting for the preemption for this pod to be finished")
NO_CANDIDATE = unschedulable("no candidate node for preemption")
NO_SIMULATION = error("the diagnosis does not say how to simulate evictions")
CLEAR_NOMINATION = PostFilterResult("")


def is_refused_by_admission(diagnosis: Diagnosis) -> bool:
    """Answer whether admission refused the pod, by a plugin that does not let the others preempt for it.

    Evictions then help only by the rules of the plugin that refused; the others ask this first, at every event, because it builds no text.
    """
    return bool(diagnosis.admission_plugin) and not diagnosis.others_may_preempt


class PreemptionEngine:
    """Preempts for one pod, or one job, after the other, by the rules of one plugin. To be made with the plugin."""

    def __init__(self, handle: Handle, rules: PreemptionRules, reservations: Mapping[str, Reservation] | None = None) -> None:
        """reservations: those of the cluster, by name, for a plugin that preempts for reserve pods as well."""
        self._handle = handle
        self._reservations: Mapping[str, Reservation] = {} if reservations is None else reservations
        self._rules = rules
        self._eligible = rules.eligible
        self._pods = handle.informer(POD).store
        budgets = handle.informer(POD_DISRUPTION_BUDGET)
        self._indexes = handle.cache.shared.one(VictimsIndexes, lambda: VictimsIndexes(handle.cache, budgets))
        self.evictions = Evictions(handle, self._pods, rules)

    # What plugins answer without an attempt

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Keep a pod out of the queue while pods are evicted for it; no event need be registered for that.

        Each of thousands would otherwise be asked about at each deletion of a victim; a pod is activated when its last one leaves.
        """
        return WAITING if self.evictions.is_under_way(pod.uid) else None

    def refused_by_admission(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        """Refuse a pod that admission refused: pods of lower priority that leave complete no gang and may be of another quota.

        The reference evicts them all the same where the refusal is Unschedulable (elasticquota.md DEV-4), and so does a plugin that says
        so; the words are those of the reference where there are none.
        """
        if not is_refused_by_admission(diagnosis):
            return None
        return self.not_helpful(pod, diagnosis) if self._victims.any_below(pod.priority) else self.no_victims(pod, diagnosis)

    def no_victims(self, pod: PodInfo, diagnosis: Diagnosis) -> Status:
        """Return the refusal of a pod for which no pod may be evicted on any node."""
        reasons = Counter({self._rules.no_victims: resolvable_nodes(diagnosis)})
        return self._prefixed(policy_allows(pod) or refusal_of(diagnosis.total_nodes, reasons, self._rules))

    def not_helpful(self, pod: PodInfo, diagnosis: Diagnosis) -> Status:
        """Return the refusal of a pod that evictions cannot help on any node."""
        return self._prefixed(policy_allows(pod) or refusal_of(diagnosis.total_nodes, {}, self._rules))

    def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        """Answer whether there could be a candidate; in doubt yes. Asked at every event about every shape that waits."""
        if diagnosis.simulation is None or not self._victims.any_below(pod.priority) or self._eligible(pod) is not None:
            return False
        return self.finder.may_exist(Preemptor(pod, diagnosis, diagnosis.simulation))

    def expected_refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> Status | None:
        """Return what `preempt` would answer if there is no candidate, without asking filters; None when that is not known."""
        refusal = self._eligible(pod)
        if refusal is None and not resolvable_nodes(diagnosis):
            refusal = refusal_of(diagnosis.total_nodes, {}, self._rules)
        if refusal is None:
            if diagnosis.simulation is None:
                return None
            refusal = self.finder.expected_refusal(Preemptor(pod, diagnosis, diagnosis.simulation))
        return None if refusal is None else self._prefixed(refusal)

    # One attempt for one pod: one node

    async def preempt(self, pod: PodInfo, diagnosis: Diagnosis, wanted: int) -> Outcome:
        """Choose a node and evict its victims; return the node as a nomination, or why there is none.

        wanted: how many candidates to show to extenders, and how many are enough where all filters have to be asked.
        """
        handle, simulation, record = self._handle, diagnosis.simulation, self._record(pod, diagnosis, 1)
        handle.preemption_metrics.attempted()
        refusal = self._missing(pod) or self._eligible(pod) or self._waits_for_victims(pod, diagnosis)
        if refusal is not None or simulation is None:
            return None, self._prefixed(refusal or NO_SIMULATION)
        preemptor = Preemptor(pod, diagnosis, simulation)
        extenders = handle.extenders
        chosen: PreemptionCandidate | LimitRoom | Status
        victims: Mapping[str, Sequence[PodInfo]]
        try:
            if extenders is not None and extenders.wants_preemption(pod):
                chosen = await self._choose_with_extenders(preemptor, wanted)
            else:
                chosen = self._choose(preemptor, wanted)
        except (PluginError, ExtenderError) as mistake:
            return None, self._prefixed(error(str(mistake)))
        if isinstance(chosen, Status):
            return CLEAR_NOMINATION if chosen is not NO_CANDIDATE else None, self._prefixed(chosen)
        if isinstance(chosen, LimitRoom):
            name, victims = chosen
        else:
            name = self._node_name(chosen.row)
            victims = {name: chosen.victims}
        if record is not None:
            record.made_room({pod.key: name}, victims)
        self._withdraw_lower_nominations([pod], name, victims.get(name, ()))
        rest = self.evictions.evict([pod], victims)
        mistake_text = "" if rest is None else await rest
        return (None, self._prefixed(error(mistake_text))) if mistake_text else (PostFilterResult(name), None)

    def _choose(self, preemptor: Preemptor, wanted: int) -> PreemptionCandidate | LimitRoom | Status:
        """Return the best candidate; where no node is one because its victims release too little, victims on any nodes."""
        found = self.finder.best(preemptor, wanted)
        to_release = self._victims.to_release((preemptor.pod,)) if isinstance(found, Status) else None
        if not to_release or self._rules.in_vain:
            return found
        return LimitSearch(self._handle, self.finder, preemptor).room(to_release, wanted) or found

    async def _choose_with_extenders(self, preemptor: Preemptor, wanted: int) -> PreemptionCandidate | Status:
        extenders = self._handle.extenders
        assert extenders is not None
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

    # One attempt for a job: a node for each of its pods, or nothing

    async def preempt_for_job(self, job: Job) -> Outcome:
        """Choose a node for every pod of the job, nominate them all and evict all victims; return the trigger's node, or why there is none.

        Where no room can be made for all, the nominations that they have are withdrawn. Extenders are not asked.
        """
        handle, diagnosis = self._handle, job.diagnosis
        record = self._record(job.trigger, diagnosis, len(job.pods))
        handle.preemption_metrics.attempted()
        refusal = self._missing(job.trigger) or self._eligible(job.trigger)
        for pod in job.pods:
            refusal = refusal or self._waits_for_victims(pod, diagnosis if pod.uid == job.trigger.uid else None)
        if refusal is not None:
            return None, self._prefixed(refusal)
        nominated = {pod.uid: node for pod in job.pods if (node := handle.nominator.node_of(pod.uid))}
        for uid in nominated:  # room that is kept for the job is room for the job
            handle.nominator.remove(uid)
        try:
            room = JobSearch(handle, self.finder, job).room()
        except PluginError as mistake:
            return None, self._prefixed(error(str(mistake)))
        finally:
            for pod in job.pods:
                if pod.uid in nominated:
                    handle.nominator.set(pod, nominated[pod.uid])
        if isinstance(room, Status):
            for pod in job.pods:
                if pod.uid in nominated and pod.uid != job.trigger.uid:
                    handle.nominate(pod, "")
            return CLEAR_NOMINATION, self._prefixed(room)
        if record is not None:
            record.made_room({pod.key: room.nodes[pod.uid] for pod in job.pods}, room.victims)
        members: dict[str, list[PodInfo]] = {}
        for pod in job.pods:
            members.setdefault(room.nodes[pod.uid], []).append(pod)
        for name, there in members.items():
            self._withdraw_lower_nominations(there, name, room.victims.get(name, ()))
        others = [pod for pod in job.pods if pod.uid != job.trigger.uid]
        for pod in others:
            handle.nominate(pod, room.nodes[pod.uid])
        rest = self.evictions.evict([job.trigger, *others], room.victims) if room.victims else None
        mistake_text = "" if rest is None else await rest
        if mistake_text:
            return None, self._prefixed(error(mistake_text))
        return PostFilterResult(room.nodes[job.trigger.uid]), None

    # Who may preempt (framework.md §7.2)

    def _missing(self, pod: PodInfo) -> Status | None:
        """Return the error that the pod is gone, or is another one by now."""
        if pod.reservation is None:
            stored: Object | None = self._pods.get(pod.key)
        else:
            stored = self._reservations.get(pod.reservation.metadata.name)
        if stored is None or stored.metadata.uid != pod.uid:
            return error(f'pods "{pod.pod.metadata.name}" not found')
        return None

    def _waits_for_victims(self, pod: PodInfo, diagnosis: Diagnosis | None) -> Status | None:
        """Refuse a pod that has preempted and waits for its victims to leave; one that should have been gone long ago is not waited for."""
        name = pod.pod.status.nominated_node_name or self._handle.nominator.node_of(pod.uid)
        node = self._handle.cache.node(name)
        if node is None:
            return None
        status = None if diagnosis is None else diagnosis.status_of(node.row)
        if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None  # victims that leave could not help there
        now = self._handle.clock.now()
        awaited = []
        for victim in node.pods.values():
            if victim.priority < pod.priority and is_evicted(victim) and self._victims.may_evict(pod, victim):
                overdue = overdue_at(victim)
                if overdue > now:
                    awaited.append(overdue)
                else:
                    self._victims.exclude(victim.uid)
        if not awaited:
            return None
        self._handle.call_later(min(awaited) - now, lambda: self._handle.activate([pod]))
        return self._rules.terminating

    # Parts

    def _record(self, trigger: PodInfo, diagnosis: Diagnosis, pods: int) -> PreemptionRecord | None:
        """Begin to note the attempt where that is asked for."""
        record = diagnosis.preemption
        if record is not None:
            record.plugin, record.trigger, record.pods = self._rules.plugin, trigger.key, pods
        return record

    def _withdraw_lower_nominations(self, preemptors: Sequence[PodInfo], name: str, victims: Iterable[PodInfo]) -> None:
        """Withdraw the nominations of pods of lower priority for the node, if they do not fit any more beside those that preempt there.

        kube-scheduler withdraws all of them (kubernetes #129948).
        """
        handle = self._handle
        nominated = handle.nominator.nodes.get(name)
        if nominated is None:
            return
        uids, priority = {pod.uid for pod in preemptors}, min(pod.priority for pod in preemptors)
        rivals = [pod for pod in nominated.values() if pod.uid not in uids]
        staying = [*preemptors, *(pod for pod in rivals if pod.priority >= priority)]
        node = handle.cache.node(name)
        for other in sorted(rivals, key=lambda pod: -pod.priority):
            if other.priority >= priority:
                continue
            if node is not None and handle.fits(other, node, staying, victims):
                staying.append(other)
            else:
                handle.nominate(other, "")

    def _node_name(self, row: int) -> str:
        info = self._handle.cache.infos[row]
        if info is None:
            raise LookupError(f"row {row} was chosen for preemption but holds no node")
        return info.name

    def _prefixed(self, refusal: Status) -> Status:
        return Status(refusal.code, (f"{self._rules.prefix}{refusal.message}",))

    # Made when a pod fails for the first time: until then no pod on a node is followed.

    @cached_property
    def _victims(self) -> VictimsIndex:
        return self._indexes.of(self._rules.victims)

    @property
    def budgets(self) -> DisruptionBudgets:
        """The disruption budgets that all engines share."""
        return self._indexes.budgets

    @cached_property
    def finder(self) -> CandidateFinder:
        return CandidateFinder(self._handle.cache, self._handle.nominator, self._victims, self._indexes.budgets, self._rules)
