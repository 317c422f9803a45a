"""NodeResourcesBalancedAllocation: Score by how equal the fractions of the resources in use would be.

Plain requests count, without defaults for containers that request nothing; a pod without requests is not scored, or all such pods would
gather on one node (kubernetes #129138). Reference: plugins/noderesources/balanced_allocation.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.allocation import ScoredResources, balanced
from koordsched._core.change import NodeChange
from koordsched.api.names import is_scalar_resource_name
from koordsched.framework.interface import PreScorePlugin, ScoreNodesPlugin
from koordsched.framework.status import SKIP, Status

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.args import NodeResourcesBalancedAllocationArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Scores

ALWAYS_SCORED = ("cpu", "memory", "ephemeral-storage")
PRE_SCORE_STATE = "PreScoreNodeResourcesBalancedAllocation"  # the ScoredResources


class NodeResourcesBalancedAllocation(PreScorePlugin, ScoreNodesPlugin):
    name = "NodeResourcesBalancedAllocation"
    signs = ("resources",)
    reads = NodeChange.USAGE | NodeChange.CAPACITY

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._columns = handle.columns
        self._resources = [spec.name for spec in args.resources]
        self._always_scored = all(name in ALWAYS_SCORED for name in self._resources)
        self._ids = [handle.columns.resource_id(name) for name in self._resources] if self._always_scored else []

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        requests = pod.resources.requests
        amounts = [requests.get(name, 0) for name in self._resources]
        if not any(amounts):
            return SKIP
        if self._always_scored:
            scored = ScoredResources(self._ids, amounts, [1] * len(self._ids))
        else:
            counted = {name: amount for name, amount in zip(self._resources, amounts, strict=True) if _is_scored(name, amount)}
            scored = ScoredResources([self._columns.resource_id(name) for name in counted], list(counted.values()), [1] * len(counted))
        state.write(PRE_SCORE_STATE, scored)
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return balanced(nodes.table, state.read(PRE_SCORE_STATE), nodes.rows)


def _is_scored(resource: str, amount: int) -> bool:
    # Scalar resources that the pod does not request are left out; names that scheduling does not count never have a capacity.
    return resource in ALWAYS_SCORED or (amount > 0 and is_scalar_resource_name(resource))
