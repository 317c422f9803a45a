"""ColumnTrials: changes of one pending pod, tried on the columns of a scheduler that runs (docs/explain.md "What a trial is").

A trial makes the pod as the changes have it, asks the plugins that admit pods, and then all filters about all nodes: the real plugins on
the real cache, for the price of a new shape's columns. What nodes are like is changed by what amounts to the same: a cordon is tolerated, a
label is not asked for, pods are taken away in a simulation (`Cache.simulate`), a new node is an existing one without its pods. Nothing is
assumed, kept or written, and nothing awaits within a trial, so that it is about one state of the cluster.

Where that would not be exact a trial says nothing (None), and the change is not stated: a label that pods are spread over, a gang whose
members differ, new nodes for a pod with volumes. Extenders are not asked.
"""

from __future__ import annotations

from contextlib import ExitStack
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from koordsched._core.fit import fit_slots, free_amounts
from koordsched.api.core import Pod
from koordsched.api.kinds import NODE_METRIC, POD
from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError
from koordsched.framework.limits import LimitsPlugin, RaisedLimit
from koordsched.framework.status import PluginError
from koordsched.scheduler.nominated_nodes import NominatedNodes
from koordsched.scheduler.suggestions.changes import NOWHERE, TrialOutcome
from koordsched.scheduler.suggestions.group_changes import MembersAdded, MinimumLowered, QuotaRaised
from koordsched.scheduler.suggestions.node_changes import NodesAdded, NodesPatched, PodsRemoved, narrowed
from koordsched.scheduler.suggestions.pod_changes import (
    PERCENTAGES,
    REQUIRED,
    WHOLE_CPUS,
    PodEdit,
    RequestChange,
    SpreadChange,
    containers,
    request_in_all,
    requests_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.interface import GangNeeds
    from koordsched.framework.profile import Profile
    from koordsched.framework.row_refusals import Rows
    from koordsched.framework.row_verdicts import FilterVerdicts
    from koordsched.framework.shapes import Shape, Shapes
    from koordsched.framework.simulation import NodeSimulation
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.suggestions.changes import Change, Sized

Json = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
CORDON = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
QOS = "koordinator.sh/qosClass"
RESOURCE_SPEC, NUMA_SPEC = "scheduling.koordinator.sh/resource-spec", "scheduling.koordinator.sh/numa-topology-spec"
MOST_EMPTIED = 8
"""Nodes of which it is tried to take all pods away, 0.4 ms each with ten pods, within one slice of work."""
SPARE_PLACES = 32


class ChangedState(msgspec.Struct):
    """The changes of one trial, sorted by what they are made to. nodes: the only ones in question, none for all."""

    body: Json
    nodes: frozenset[str] = frozenset()
    template: str = ""
    removed: Sequence[tuple[str, str]] | None = None
    limits: list[RaisedLimit] = []
    added_members: int = 0
    added_nodes: int = 0
    minimum_less: int = 0


class ColumnTrials:
    """Tries changes of a pod. Made and used on the scheduler's loop; `count` is how many trials there were."""

    def __init__(self, context: SchedulerContext, apart: dict[str, Shapes], pod: PodInfo, body: Json) -> None:
        """apart: by profile, columns for such questions, made when first needed. body: the pod as JSON has it, its uid included."""
        self.count = 0
        self.body = body
        self._context = context
        self._cache = context.cache
        self._apart = apart
        self._pod = pod
        self._nominated = NominatedNodes(context.cache, context.queue.nominator)
        self._encoded = msgspec.json.encode(body)
        profile = context.profiles.get(pod.pod.spec.scheduler_name)
        self.needs = None if profile is None or profile.group_turn is None else profile.group_turn.needs_of(pod)
        self.differ = self.needs is not None and self._members_differ(self.needs)

    def _members_differ(self, needs: GangNeeds) -> bool:
        """Answer whether the gang's pending members are not all alike."""
        members = [self._context.queue.get(key) for key in needs.pending if key != self._pod.key]
        return any(each is None or each.pod_info.shape != self._pod.shape or self._pod.shape is None for each in members)

    def estimate(self, changes: Sequence[Sized]) -> TrialOutcome | None:
        """Return what becomes of the pod with these changes, as of now; None: that does not show here."""
        self.count += 1
        changed = self._changed(changes)
        if changed is None or (self.needs is not None and (self.differ or not self.needs.alone)):
            return None
        pod = self._made(changed)
        if pod is None:
            return NOWHERE
        profile = self._context.profiles.get(pod.pod.spec.scheduler_name)
        if profile is None or not self._may_be_tried(profile, pod, changed):
            return NOWHERE
        is_admitted = self._is_admitted(profile, pod, changed)
        if not is_admitted and changed.removed is None:
            return NOWHERE
        try:
            return self._place(profile, pod, changed, is_admitted=is_admitted)
        except PluginError:
            return NOWHERE

    def changed_pod(self, changes: Sequence[Sized]) -> PodInfo | None:
        """Return the pod with these changes, None if it cannot be."""
        changed = self._changed(changes)
        return None if changed is None else self._made(changed)

    def _made(self, changed: ChangedState) -> PodInfo | None:
        try:
            return PodInfo(self._context.informers.of(POD).transformed(msgspec.convert(changed.body, Pod)))
        except (msgspec.ValidationError, QuantityError):
            return None

    # What is changed

    def _changed(self, changes: Sequence[Sized]) -> ChangedState | None:
        changed = ChangedState(msgspec.json.decode(self._encoded), limits=[])
        for change, level in changes:
            match change:
                case RequestChange() | PodEdit() | SpreadChange():
                    change.edit(changed.body, level)
                case QuotaRaised():
                    added = level * change.step
                    changed.limits.append(RaisedLimit(change.quota, change.resource, added, with_min=change.with_min))
                case MembersAdded():
                    changed.added_members = level
                case MinimumLowered():
                    changed.minimum_less = level
                case NodesAdded():
                    changed.template, changed.added_nodes = change.template, level
                case PodsRemoved():
                    changed.removed = change.pods
                case NodesPatched() if self._patch(changed, change):
                    pass
                case _:
                    return None
        return changed if not changed.template or self._is_like(changed) else None

    def _is_like(self, changed: ChangedState) -> bool:
        """Answer whether an existing node is like a new one to the pod, and let the pod go to it though it is cordoned."""
        node, spec = self._cache.node(changed.template), changed.body["spec"]
        if node is None or node.node is None or changed.nodes or changed.removed is not None or _is_bound_to_names(spec):
            return False
        if node.node.spec.unschedulable or any(taint.key == CORDON["key"] for taint in node.node.spec.taints):
            if _counts_taints(spec):
                return False
            spec.setdefault("tolerations", []).append(CORDON)
        return True

    def _patch(self, changed: ChangedState, change: NodesPatched) -> bool:
        """Have the pod go where it could if the nodes were changed; False where that is not the same."""
        spec, nodes = changed.body["spec"], frozenset(change.nodes)
        if changed.nodes and nodes:
            nodes &= changed.nodes
            if not nodes:
                return False
        changed.nodes = nodes or changed.nodes
        if change.label is None:
            if _counts_taints(spec):
                return False
            spec.setdefault("tolerations", []).append(CORDON)
            return True
        key = change.label[0]
        if key in _topology_keys(spec) or spec.get("topologySpreadConstraints"):
            return False
        (spec.get("nodeSelector") or {}).pop(key, None)
        return True

    # Admission

    def _may_be_tried(self, profile: Profile, pod: PodInfo, changed: ChangedState) -> bool:
        """Answer whether nothing holds the pod back, and its gang is complete."""
        group = "" if profile.group_turn is None else profile.group_turn.name
        if any(plugin.name != group and plugin.pre_enqueue(pod) is not None for plugin in profile.pre_enqueue):
            return False
        needs = self.needs
        return needs is None or needs.present + changed.added_members >= needs.minimum - changed.minimum_less

    def _is_admitted(self, profile: Profile, pod: PodInfo, changed: ChangedState, gone: Sequence[PodInfo] = ()) -> bool:
        """Answer whether there is room for all of the pod's gang in its quota. gone: pods that are taken away."""
        if profile.admission is None:
            return True
        group = "" if profile.group_turn is None else profile.group_turn.name
        together = self._together(pod, changed)
        limiting = [plugin for plugin in profile.made.values() if isinstance(plugin, LimitsPlugin)]
        with ExitStack() as stack:
            for each in together:
                for plugin in limiting:
                    first = each is together[0]
                    stack.enter_context(plugin.counted_as(each, changed.limits if first else (), gone if first else ()))
            if any(not profile.admission.admits(each, besides=group) for each in together):
                return False
            return len(together) == 1 or profile.admission.refusal_together(together) is None

    def _wanted(self, changed: ChangedState) -> int:
        """Return how many pods like this one have to be placed with it, it included."""
        return 1 if self.needs is None else max(self.needs.needed - changed.minimum_less, 1)

    def _together(self, pod: PodInfo, changed: ChangedState) -> list[PodInfo]:
        """Return the pods that are placed together: members of the gang that are alike stand for each other."""
        found, pending = [pod], () if self.needs is None else self.needs.pending
        others = [info.pod_info.uid for key in pending if key != pod.key and (info := self._context.queue.get(key)) is not None]
        for i in range(self._wanted(changed) - 1):
            other = pod.with_pod(pod.pod)
            other.uid = others[i] if i < len(others) else f"{pod.uid}-{i}"
            found.append(other)
        return found

    # Nodes

    def _place(self, profile: Profile, pod: PodInfo, changed: ChangedState, *, is_admitted: bool) -> TrialOutcome | None:
        shapes = self._apart.get(profile.name)
        if shapes is None:
            shapes = self._apart[profile.name] = profile.shapes.apart()
        owner = shapes.owner(pod)
        with shapes.view(pod):
            shape = shapes.pre_filter(pod)
            try:
                if changed.removed is not None or changed.template:
                    if self._wanted(changed) > 1:
                        return None
                    verdicts: FilterVerdicts = shape.evaluation
                    if shape.pre_filtered.refusal is None:
                        verdicts = self._feasible(profile, shapes, shape, pod)[1]
                    simulation = shapes.simulation(shape, verdicts)
                    if changed.template:
                        return self._on_new(simulation, shape, pod, changed)
                    return self._without_pods(simulation, pod, changed, None if is_admitted else profile)
                if shape.pre_filtered.refusal is not None:
                    return NOWHERE
                rows, verdicts = self._feasible(profile, shapes, shape, pod)
                if changed.nodes:
                    found = (self._cache.node(name) for name in changed.nodes)
                    rows = np.intersect1d(rows, np.array([node.row for node in found if node is not None], np.int32))
                wanted = self._wanted(changed)
                if wanted > 1:
                    return self._several(shapes.simulation(shape, verdicts), pod, rows, wanted)
                return TrialOutcome(self._name(rows[0]), len(rows)) if len(rows) else NOWHERE
            finally:
                shapes.put_back(shape)
                del owner  # what it was held for

    def _feasible(self, profile: Profile, shapes: Shapes, shape: Shape, pod: PodInfo) -> tuple[Rows, FilterVerdicts]:
        """Return the rows that pass all filters, with the pods that are nominated there."""
        verdicts: FilterVerdicts = shape.evaluation
        if shape.restriction is not None:
            verdicts = shapes.filter_restricted(shape, pod, shape.restriction)
        else:
            shapes.filter(shape, pod)
        rows = verdicts.feasible_rows()
        refused = self._nominated.refusals(profile, shape, pod, verdicts)
        return (np.setdiff1d(rows, refused.rows, assume_unique=True) if len(refused) else rows), verdicts

    def _several(self, simulation: NodeSimulation, pod: PodInfo, rows: Rows, wanted: int) -> TrialOutcome | None:
        """Place pods like this one beside each other. None: they matter to each other on several nodes, or too many nodes take too few."""
        table = self._cache.table
        if not simulation.local:
            return None
        fit = simulation.fit_filter(pod)
        slots = np.full(len(rows), wanted, np.int32) if fit is None else fit_slots(table, fit.request, rows, wanted)
        if int(slots.sum()) < wanted:
            return NOWHERE
        if fit is not None and fit.alone:
            return TrialOutcome(self._name(rows[0]), len(rows))
        if _takes_particular_ones(self.body):  # which CPUs or devices several of them get on one node does not show here
            return TrialOutcome(self._name(rows[0]), len(rows)) if len(rows) >= wanted else None
        others = [pod.with_pod(pod.pod) for _ in range(wanted)]
        for i, other in enumerate(others):
            other.uid = f"{pod.uid}-{i}"
        placed, asked = 0, 0
        for place in np.argsort(-slots, kind="stable").tolist():
            node = self._cache.infos[int(rows[place])]
            there = 1  # the first one passes
            while placed + there < wanted and there < slots[place] and node is not None:
                asked += 1
                if simulation.simulate_on_node(pod, node, add=others[:there]) is not None:
                    break
                there += 1
            placed += there
            if placed >= wanted:
                return TrialOutcome(self._name(rows[0]), len(rows))
            if asked > wanted + SPARE_PLACES:
                return None
        return NOWHERE

    def _on_new(self, simulation: NodeSimulation, shape: Shape, pod: PodInfo, changed: ChangedState) -> TrialOutcome | None:
        """Try a new node: one that is there, without the pods that run on it."""
        node = self._cache.node(changed.template)
        if node is None:
            return NOWHERE
        gone = [each for each in node.pods.values() if not each.lends]
        if simulation.simulate_on_node(pod, node, remove=gone) is not None:
            # What is reserved there stays, and so does what is measured there, of which a new node has nothing: there may be more room.
            return NOWHERE if len(gone) == len(node.pods) and not self._is_measured(node) else None
        if self._depends_on_zone(changed.body, node) and not self._passes_as_it_is(shape, pod, node):
            return None
        return TrialOutcome(f"{node.name}-added-1", changed.added_nodes)

    def _is_measured(self, node: NodeInfo) -> bool:
        return any(informer.kind is NODE_METRIC and node.name in informer.store for informer in self._context.informers)

    def _without_pods(
        self, simulation: NodeSimulation, pod: PodInfo, changed: ChangedState, refusing: Profile | None
    ) -> TrialOutcome | None:
        """Try nodes without the pods that are taken away, those first that lose the fewest. None: none of so many would do.

        refusing: the profile that does not admit the pod unless pods go.
        """
        named: dict[str, set[str]] = {}
        for key, name in changed.removed or ():
            named.setdefault(name, set()).add(key)
        if named or changed.nodes:
            names = named.keys() & changed.nodes if named and changed.nodes else named or changed.nodes
            nodes = [node for name in sorted(names) if (node := self._cache.node(name)) is not None and (named or node.counted)]
            nodes.sort(key=lambda node: len(node.counted))
        else:
            nodes = self._emptiest(simulation.possible_rows(pod))
        for node in nodes[:MOST_EMPTIED]:
            keys = named.get(node.name)
            gone = [each for each in node.pods.values() if not each.lends and (keys is None or each.key in keys)]
            if refusing is not None and not self._is_admitted(refusing, pod, changed, gone):
                continue
            if simulation.simulate_on_node(pod, node, remove=gone) is None:
                return TrialOutcome(node.name, 1)
        return NOWHERE if len(nodes) <= MOST_EMPTIED else None

    def _emptiest(self, rows: Rows) -> list[NodeInfo]:
        """Return nodes with the fewest pods, but some: one more than are tried, if there are so many."""
        infos = self._cache.infos
        counted = [(len(node.counted), row) for row in rows.tolist() if (node := infos[row]) is not None and node.counted]
        return [node for _, row in nsmallest(MOST_EMPTIED + 1, counted) if (node := infos[row]) is not None]

    def _depends_on_zone(self, body: Json, node: NodeInfo) -> bool:
        """Answer whether pods that stay on a node matter beyond it: a new node would be in the same domains."""
        if any(key != HOSTNAME for key in _topology_keys(body["spec"])):
            return True
        for each in node.pods.values():
            anti = each.pod.spec.affinity and each.pod.spec.affinity.pod_anti_affinity
            if anti and any(term.topology_key != HOSTNAME for term in anti.required_during_scheduling_ignored_during_execution):
                return True
        return False

    def _passes_as_it_is(self, shape: Shape, pod: PodInfo, node: NodeInfo) -> bool:
        """Answer whether the filters that look beyond a node let it pass with its pods on it."""
        if shape.pre_filtered.refusal is not None:
            return False
        versioned, nodes = {plugin.name for plugin in shape.versioned}, self._cache.select(np.array([node.row], np.int32))
        answers = (plugin.filter_nodes(shape.state, pod, nodes) for plugin in shape.filters if plugin.name in versioned)
        return all(codes is None or not codes[0] for codes in answers)

    def _name(self, row: Any) -> str:
        node = self._cache.infos[int(row)]
        return "" if node is None else node.name

    def narrowed(self, change: Change, node: str) -> Change | None:
        """Return the change made to this node alone; None: it is that already, or not one of nodes."""
        if isinstance(change, PodsRemoved) and not change.pods:
            found = self._cache.node(node)
            return None if found is None else PodsRemoved(tuple((each.key, node) for each in found.pods.values() if not each.lends))
        return narrowed(change, node)

    # What is likely

    def likely_level(self, change: Change, others: Sequence[Sized]) -> int:
        """Return the level of a request, or of a quota, that arithmetic gives; 0: none."""
        if isinstance(change, QuotaRaised):
            return self._likely_raise(change, others)
        if not isinstance(change, RequestChange) or len(change.resources) != 1 or self.needs is not None:
            return 0
        free = self._most_free(change, others)
        if free is None or free >= change.present:
            return 0
        low, high = 0, change.levels  # amounts descend
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if change.amounts[middle] > free else (low, middle)
        return low + 1 if low < change.levels else 0

    def _most_free(self, change: RequestChange, others: Sequence[Sized]) -> int | None:
        """Return the most that is free of the resource on a node that takes the pod without it."""
        column = self._cache.columns.resources.get(change.resources[0])
        changed = self._changed((*others, (change, change.levels)))
        if column is None or changed is None or changed.removed is not None or changed.template or changed.nodes:
            return None
        pod = PodInfo(self._context.informers.of(POD).transformed(msgspec.convert(changed.body, Pod)))
        profile = self._context.profiles.get(pod.pod.spec.scheduler_name)
        shapes = None if profile is None else self._apart.get(profile.name)
        if profile is None or shapes is None:
            return None
        owner = shapes.owner(pod)
        with shapes.view(pod):
            shape = shapes.pre_filter(pod)
            rows = self._feasible(profile, shapes, shape, pod)[0] if shape.pre_filtered.refusal is None else ()
            found = int(free_amounts(self._cache.table, [column], rows)[0].max()) if len(rows) else None  # type: ignore[arg-type]
            shapes.put_back(shape)
        del owner  # what it was held for
        return found

    def _likely_raise(self, change: QuotaRaised, others: Sequence[Sized]) -> int:
        """Return by how many steps the pods that go together are more than the quota has left."""
        changed = self._changed(others)
        profile = self._context.profiles.get(self._pod.pod.spec.scheduler_name)
        if changed is None or profile is None:
            return 0
        limits = [limit for plugin in profile.made.values() if isinstance(plugin, LimitsPlugin) for limit in plugin.limits_of(self._pod)]
        used = next((each.used for each in limits if (each.quota, each.resource) == (change.quota, change.resource)), None)
        if used is None:
            return 0
        wanted = self._wanted(changed) * request_in_all(changed.body["spec"], change.resource)
        return max(-(-(used + wanted - change.present) // change.step), 0)


def _topology_keys(spec: Json) -> set[str]:
    """Return the keys of the labels by which the pod is kept near to or apart from others."""
    affinity = spec.get("affinity") or {}
    terms = [term for kind in ("podAffinity", "podAntiAffinity") for term in (affinity.get(kind) or {}).get(REQUIRED) or ()]
    return {each.get("topologyKey", "") for each in (*terms, *(spec.get("topologySpreadConstraints") or ()))}


def _counts_taints(spec: Json) -> bool:
    """Answer whether a node counts among the domains of spreading only as long as the pod tolerates its taints."""
    return any(each.get("nodeTaintsPolicy") == "Honor" for each in spec.get("topologySpreadConstraints") or ())


def _is_bound_to_names(spec: Json) -> bool:
    """Answer whether it matters to the pod how a node is called, or what volumes are near it: a copy of a node differs in that."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    terms = required.get("nodeSelectorTerms") or ()
    by_name = any(
        term.get("matchFields") or any(each.get("key") == HOSTNAME for each in term.get("matchExpressions") or ()) for term in terms
    )
    return by_name or HOSTNAME in (spec.get("nodeSelector") or {}) or bool(spec.get("volumes"))


def _takes_particular_ones(body: Json) -> bool:
    """Answer whether the pod gets CPUs or devices of its own, or NUMA nodes."""
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    asked = {resource for each in containers(body["spec"]) for resource in requests_of(each)}
    is_bound = (metadata.get("labels") or {}).get(QOS) in WHOLE_CPUS or RESOURCE_SPEC in annotations or NUMA_SPEC in annotations
    return is_bound or not asked.isdisjoint(PERCENTAGES) or any("/" in resource for resource in asked)
