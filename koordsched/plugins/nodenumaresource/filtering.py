"""Which nodes could give a pod its CPUs and NUMA nodes (nodenumaresource.md §5).

The kernel answers for all nodes. One by one go only pods with a designated allocation, and on nodes with a NUMA policy those that another
plugin has hints for as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.numa_filter import filter_numa
from koordsched.api.koordinator.policies import NumaTopologyPolicy
from koordsched.framework.status import Status
from koordsched.plugins.nodenumaresource.allocator import Allocator, NodeDemand
from koordsched.plugins.nodenumaresource.reasons import NumberedRefusals, explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched._core.hints import NumaView
    from koordsched._core.numa_facts import Machine
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.framework.interface import Codes
    from koordsched.plugins.nodenumaresource.pod_demand import CompiledDemand
    from koordsched.plugins.nodenumaresource.state import NumaState

    Joint = Callable[[NodeInfo, Machine], Status | None]
    """Answers why the pod cannot be admitted to a node when the hints of all plugins are taken together."""

STRICT = frozenset({NumaTopologyPolicy.RESTRICTED, NumaTopologyPolicy.SINGLE_NUMA_NODE})


class NumaFilter:
    """The filter of one profile."""

    def __init__(self, numa: NumaState, allocator: Allocator) -> None:
        self._numa = numa
        self._allocator = allocator
        self._numbered = NumberedRefusals()

    def codes(self, compiled: CompiledDemand, nodes: Nodes, joint: Joint | None = None) -> Codes:
        """Return why each row is refused, 0 where it is not. joint: of a pod that another plugin has hints for."""
        if compiled.designated is not None:
            return self._one_by_one(compiled, nodes)
        codes = filter_numa(self._numa.table, compiled.request, nodes.rows)
        if joint is not None:
            self._take_together(codes, compiled, nodes, joint)
        return codes

    def explain(self, compiled: CompiledDemand, code: int) -> Status:
        """Return the refusal that a code stands for."""
        return self._numbered.status(code) or explain(code, self._numa.table, compiled.request)

    def _one_by_one(self, compiled: CompiledDemand, nodes: Nodes) -> Codes:
        codes = np.zeros(len(nodes.rows), np.int32)
        for i, row in enumerate(nodes.rows.tolist()):
            on_node = self._allocator.on_node(compiled, nodes.info(row).name)
            answer = self._allocator.allocate(compiled, on_node, _anywhere) if isinstance(on_node, NodeDemand) else on_node
            if isinstance(answer, Status):
                codes[i] = self._numbered.code(answer)
        return codes

    def _take_together(self, codes: Codes, compiled: CompiledDemand, nodes: Nodes, joint: Joint) -> None:
        for i in np.flatnonzero(codes == 0).tolist():
            node = nodes.info(int(nodes.rows[i]))
            machine = self._allocator.view(compiled, self._numa.node(node.name).index).machine
            refusal = joint(node, machine) if machine.policy in STRICT else None
            if refusal is not None:
                codes[i] = self._numbered.code(refusal)


def _anywhere(_view: NumaView) -> None:
    """Leave the NUMA nodes open: a designated allocation names its own."""
