"""NodeResourcesBalancedAllocation: Score by how equal the fractions of the resources in use would be.

Plain requests count, without defaults for containers that request nothing; a pod without requests is not scored, or all such pods would
gather on one node (kubernetes #129138). Reference: plugins/noderesources/balanced_allocation.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.allocation import Allocation, balanced
from koordsched._core.change import Change
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
PRE_SCORE_STATE = "PreScoreNodeResourcesBalancedAllocation"  # the Allocation to score


class NodeResourcesBalancedAllocation(PreScorePlugin, ScoreNodesPlugin):
    name = "NodeResourcesBalancedAllocation"
    signs = ("resources",)
    reads = Change.USAGE | Change.CAPACITY

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._columns = handle.columns
        self._resources = [spec.name for spec in args.resources]
        self._always_scored = all(name in ALWAYS_SCORED for name in self._resources)
        self._ids = [handle.columns.resource_id(name) for name in self._resources] if self._always_scored else []

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not any(self._amounts(pod)):
            return SKIP
        state.write(PRE_SCORE_STATE, self._allocation(pod))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        allocation: Allocation | None = state.read(PRE_SCORE_STATE)
        if allocation is None:  # left out at preScore by the configuration
            if not any(self._amounts(pod)):
                return np.zeros(len(nodes.rows), np.int64)
            allocation = self._allocation(pod)
        return balanced(nodes.table, allocation, nodes.rows)

    def _amounts(self, pod: PodInfo) -> tuple[int, ...]:
        requests = pod.resources.requests
        return tuple([requests.get(name, 0) for name in self._resources])

    def _allocation(self, pod: PodInfo) -> Allocation:
        if self._always_scored:
            return Allocation(self._ids, self._amounts(pod), [1] * len(self._ids))
        amounts = zip(self._resources, self._amounts(pod), strict=True)
        scored = {name: amount for name, amount in amounts if _is_scored(name, amount)}
        return Allocation([self._columns.resource_id(name) for name in scored], list(scored.values()), [1] * len(scored))


def _is_scored(resource: str, amount: int) -> bool:
    # Scalar resources that the pod does not request are left out; names that scheduling does not count never have a capacity.
    return resource in ALWAYS_SCORED or (amount > 0 and is_scalar_resource_name(resource))
