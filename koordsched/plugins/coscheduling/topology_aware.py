"""What Coscheduling does with the network topology at its extension points (coscheduling.md §4.4, §4.5).

GroupTurn           with `awareNetworkTopology` the members of a gang with a topology spec go where the plan says
PreScore, Score     pods with a `network-topology-selector` go near the pods of the same value
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from koordsched.api.koordinator.network_topology import TOPOLOGY_SELECTOR, TOPOLOGY_SPEC
from koordsched.framework.diagnosis import fit_error
from koordsched.framework.group_plan import GroupPlanPlugin
from koordsched.framework.interface import GangTurn, GroupRefusal, Normalize, PreScorePlugin, ScoreNodesPlugin
from koordsched.framework.status import SKIP
from koordsched.plugins.coscheduling.problems import TOPOLOGY_IGNORED
from koordsched.plugins.coscheduling.reasons import NO_TOPOLOGY
from koordsched.plugins.coscheduling.topology import OBJECT, topology_of
from koordsched.plugins.coscheduling.topology_attraction import SelectedPods, rank_rows, selector_of
from koordsched.plugins.coscheduling.topology_plan import Gathering, PlacedPods, TopologyPlan, gather_level, in_order
from koordsched.plugins.coscheduling.topology_regions import regions_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from koordsched.api.koordinator.network_topology import TopologySpec
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import PodState
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.group_plan import GroupPlan, SlotCount
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Scores
    from koordsched.framework.preemption.regions import Region
    from koordsched.framework.status import Status
    from koordsched.plugins.coscheduling.gangs import Gang, Gangs

UNAWARE = f"{TOPOLOGY_SPEC}: awareNetworkTopology is false in the scheduler's configuration; the members go to any nodes"
MOST_UNFINISHED = 16
"""So many gangs are looked at that are half bound and need room near their members."""
RANKS_STATE = "Coscheduling/ranks"  # (rows, ranks)


class TopologyAware(GroupPlanPlugin, PreScorePlugin, ScoreNodesPlugin):
    """The part of Coscheduling that knows the network."""

    reads = ScoreNodesPlugin.reads & 0
    normalize = Normalize.DEFAULT_REVERSE
    depends_on_feasible = True

    def __init__(self, handle: Handle, gangs: Gangs, *, aware: bool) -> None:
        """aware: whether gangs are placed by the topology."""
        self._handle = handle
        self._gangs = gangs
        self._aware = aware
        self._topology = topology_of(handle)
        self._selected = handle.cache.shared.one(SelectedPods, lambda: SelectedPods(handle.cache))

    # The turn of a group

    def has_plan(self, first: PodInfo) -> bool:
        gang = self._gangs.of(first.uid)
        if gang is None or gang.spec is None or gang.spec.topology is None:
            return False
        text = "" if self._aware else UNAWARE
        self._gangs.problems.report(gang.id, "unaware", text, gang.members, TOPOLOGY_IGNORED)
        return self._aware

    def turn_of_one(self, gang: Gang, pod: PodInfo) -> Sequence[GangTurn] | None:
        """Return the turn of a member that is scheduled alone, but where its gang is in the network; None: it may go anywhere."""
        spec = gang.spec
        if not self._aware or spec is None or spec.topology is None or self._topology.tree is None or pod.key not in gang.ready:
            return None
        placed = any(each.waiting or each.bound for each in self._gangs.in_group(gang.group))
        return (GangTurn(gang.id, (pod.key,), 1, spec.strict),) if placed else None

    def plan(self, first: PodInfo, members: Sequence[PodInfo], count: SlotCount) -> GroupPlan | GroupRefusal:
        gang, ordered = self._gangs.of(first.uid), in_order(members)
        spec = None if gang is None or gang.spec is None else gang.spec.topology
        if gang is None or spec is None:
            raise LookupError(f"{first.key} is in no gang with a topology spec")
        gathering = self._gathering(gang, spec, ordered)
        problem = self._topology.problem
        layers = f"{TOPOLOGY_SPEC}: the layers of ClusterNetworkTopology {OBJECT} make no tree: {problem}" if problem else ""
        if problem and gathering is not None:
            layers += "; those that it had before count"
        self._gangs.problems.report(gang.id, "layers", layers, gang.members)
        if gathering is None:
            text = fit_error(self._handle.cache.table.live_count, {}, f"{NO_TOPOLOGY}: {problem}" if problem else NO_TOPOLOGY)
            return GroupRefusal("", first.key, text, 0, frozenset({self.name}))
        nominator = self._handle.nominator
        nominated = {pod.key: node for pod in ordered if (node := nominator.node_of(pod.uid))}
        plan = TopologyPlan(self._handle.cache, gathering, ordered, (first.key, self.name), nominated)
        refusal = plan.prepare(count)
        return plan if refusal is None else refusal

    def plan_version(self, first: PodInfo) -> object:
        gang, topology = self._gangs.of(first.uid), self._topology
        if gang is None:
            return None
        spared = [(each.id, each.pending_count) for each in self._unfinished_beside(gang)]
        return gang.spec, topology.version, topology.problem, self._selected.version, spared

    def regions_for(self, first: PodInfo, members: Sequence[PodInfo]) -> Sequence[Region] | None:
        """Return the domains of which one has to take all these members of the group of the popped pod; None: they go to any nodes."""
        gang = self._gangs.of(first.uid)
        spec = None if gang is None or gang.spec is None else gang.spec.topology
        if not self._aware or gang is None or spec is None:
            return None
        gathering = self._gathering(gang, spec, in_order(members))
        return () if gathering is None else regions_of(gathering, len(members))

    def layer_to_gather_in(self, spec: TopologySpec) -> str:
        """Return the layer in one domain of which all members have to be, "" for none: of several the one nearest to the nodes."""
        tree = self._topology.tree
        levels = {} if tree is None else tree.levels
        return max(spec.must_gather, key=lambda layer: levels.get(layer, -1), default="") if self._aware else ""

    def _gathering(self, gang: Gang, spec: TopologySpec, ordered: Sequence[PodInfo]) -> Gathering | None:
        tree = self._topology.tree
        if tree is None:
            return None
        gathering = Gathering(tree, spec, self._placed(gang, selector_of(ordered[0])))
        for each in self._unfinished_beside(gang):
            if each.spec is not None and each.spec.topology is not None:
                bound = [state.node.row for key in each.bound if (state := self._state_of(each, key)) is not None]
                gathering.spare(bound, gather_level(tree, each.spec.topology), each.pending_count)
        return gathering

    def _unfinished_beside(self, gang: Gang) -> Iterator[Gang]:
        """Return gangs of other groups that need room near their bound members."""
        return islice((each for each in self._gangs.unfinished.values() if each.group is not gang.group), MOST_UNFINISHED)

    def _state_of(self, gang: Gang, key: str) -> PodState | None:
        """Return what the cache knows of a member that has a node; None if it has none in the table."""
        state = self._handle.cache.pods.get(gang.members[key].metadata.uid)
        return None if state is None or state.node.shares_row else state

    def _placed(self, gang: Gang, value: str) -> PlacedPods:
        """Return where members of the group are already, and other pods that attract members by this value of the selector."""
        existing = Counter(self._selected.rows_of(value)) if value else Counter()
        bound = []
        for each in self._gangs.in_group(gang.group):
            for key in each.waiting | each.bound:
                pod, state = each.members[key], self._state_of(each, key)
                if state is None:
                    continue
                bound.append(state.node.row)
                if not value or pod.metadata.annotations.get(TOPOLOGY_SELECTOR, "") != value:
                    existing[state.node.row] += 1
        return PlacedPods(existing, bound)

    # PreScore, Score

    def has_score_version(self, pod: PodInfo) -> bool:
        return selector_of(pod) != ""

    def score_version(self, pod: PodInfo) -> Hashable:
        return self._topology.version, self._selected.version_of(selector_of(pod))

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        value, tree = selector_of(pod), self._topology.tree
        if not value or tree is None:
            return SKIP
        rows = np.sort(nodes.rows)
        state.write(RANKS_STATE, (rows, rank_rows(tree, rows, self._selected.rows_of(value))))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        rows, ranks = state.read(RANKS_STATE)
        scores: Scores = ranks[np.searchsorted(rows, nodes.rows)]
        return scores
