"""What Coscheduling does with the network topology at its extension points (coscheduling.md §4.4, §4.5).

GroupTurn           with `awareNetworkTopology` the members of a gang with a topology spec go where the plan says
PreScore, Score     pods with a `network-topology-selector` go near the pods of the same value
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from koordsched.api.kinds import POD_GROUP
from koordsched.api.koordinator.network_topology import TOPOLOGY_SELECTOR, TOPOLOGY_SPEC
from koordsched.cluster.event_series import EventText
from koordsched.framework.diagnosis import fit_error
from koordsched.framework.group_plan import GroupPlanPlugin
from koordsched.framework.interface import GangTurn, GroupRefusal, Normalize, PreScorePlugin, ScoreNodesPlugin
from koordsched.framework.status import SKIP
from koordsched.log import get_logger
from koordsched.plugins.coscheduling.reasons import NO_TOPOLOGY
from koordsched.plugins.coscheduling.topology import topology_of
from koordsched.plugins.coscheduling.topology_attraction import SelectedPods, rank_rows, selector_of
from koordsched.plugins.coscheduling.topology_plan import PlacedPods, TopologyPlan, in_order

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from koordsched.api.koordinator.gangs import PodGroup
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.group_plan import GroupPlan, SlotCount
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Scores
    from koordsched.framework.status import Status
    from koordsched.plugins.coscheduling.gangs import Gang, Gangs

log = get_logger(__name__)

RANKS_STATE = "Coscheduling/ranks"  # (rows, ranks)
UNAWARE_EVENT = "TopologyIgnored"


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
        self._groups: Mapping[str, PodGroup] = handle.informer(POD_GROUP).store
        self._reported: set[str] = set()  # gangs of which it was reported that their spec is ignored

    # The turn of a group

    def has_plan(self, first: PodInfo) -> bool:
        gang = self._gangs.of(first.uid)
        if gang is None or gang.spec is None or gang.spec.topology is None:
            return False
        if not self._aware:
            self._report_unaware(gang, first)
        return self._aware

    def turn_of_one(self, gang: Gang, pod: PodInfo) -> Sequence[GangTurn] | None:
        """Return the turn of a member that is scheduled alone, but where its gang is in the network; None: it may go anywhere."""
        spec = gang.spec
        if not self._aware or spec is None or spec.topology is None or self._topology.tree is None or pod.key not in gang.ready:
            return None
        placed = any(each.waiting or each.bound for each in self._gangs.in_group(gang.group))
        return (GangTurn(gang.id, (pod.key,), 1, spec.strict),) if placed else None

    def plan(self, first: PodInfo, members: Sequence[PodInfo], count: SlotCount) -> GroupPlan | GroupRefusal:
        gang, tree = self._gangs.of(first.uid), self._topology.tree
        if tree is None:
            text = fit_error(self._handle.cache.table.live_count, {}, NO_TOPOLOGY)
            return GroupRefusal("", first.key, text, 0, frozenset({self.name}))
        spec = None if gang is None or gang.spec is None else gang.spec.topology
        if gang is None or spec is None:
            raise LookupError(f"{first.key} is in no gang with a topology spec")
        plan = TopologyPlan(self._handle.cache, tree, spec, in_order(members), (first.key, self.name))
        refusal = plan.prepare(count, self._placed(gang, selector_of(in_order(members)[0])))
        return plan if refusal is None else refusal

    def _placed(self, gang: Gang, value: str) -> PlacedPods:
        """Return where members of the group are already, and other pods that attract members by this value of the selector."""
        existing = Counter(self._selected.rows_of(value)) if value else Counter()
        bound = []
        for each in self._gangs.in_group(gang.group):
            for key in each.waiting | each.bound:
                pod = each.members[key]
                state = self._handle.cache.pods.get(pod.metadata.uid)
                if state is None or state.node.shares_row:
                    continue
                bound.append(state.node.row)
                if not value or pod.metadata.annotations.get(TOPOLOGY_SELECTOR, "") != value:
                    existing[state.node.row] += 1
        return PlacedPods(existing, bound)

    def _report_unaware(self, gang: Gang, first: PodInfo) -> None:
        """Say, once a gang, that its members go to any nodes."""
        if gang.id in self._reported:
            return
        self._reported.add(gang.id)
        problem = f"{TOPOLOGY_SPEC}: awareNetworkTopology is false in the scheduler's configuration; the members go to any nodes"
        log.warning("the topology spec of a gang is ignored", gang=gang.id, problem=problem)
        self._handle.event_on(self._groups.get(gang.id, first.pod), EventText("Warning", UNAWARE_EVENT, "Scheduling", problem))

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
