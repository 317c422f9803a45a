"""Which nodes could give a pod its CPUs and NUMA nodes (nodenumaresource.md §5).

The kernel answers for all nodes. One by one go only pods with a designated allocation, and on nodes with a NUMA policy those that another
plugin has hints for as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.numa_filter import filter_numa
from koordsched._core.numa_policy import NumaTopologyPolicy
from koordsched.framework.status import Status
from koordsched.plugins.nodenumaresource.reasons import Numbered, explain
from koordsched.plugins.nodenumaresource.reserving import Allocator, Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched._core.hints import NumaView
    from koordsched._core.numa_facts import Machine
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.framework.interface import Codes
    from koordsched.plugins.nodenumaresource.allocations import NumaState
    from koordsched.plugins.nodenumaresource.preparing import Prepared

    Joint = Callable[[NodeInfo, Machine], Status | None]
    """Answers why the pod cannot be admitted to a node when the hints of all plugins are taken together."""

STRICT = frozenset({NumaTopologyPolicy.RESTRICTED, NumaTopologyPolicy.SINGLE_NUMA_NODE})


class Filtering:
    """The filter of one profile."""

    def __init__(self, numa: NumaState, allocator: Allocator) -> None:
        self._numa = numa
        self._allocator = allocator
        self._numbered = Numbered()

    def codes(self, prepared: Prepared, nodes: Nodes, joint: Joint | None = None) -> Codes:
        """Return why each row is refused, 0 where it is not. joint: of a pod that another plugin has hints for."""
        if prepared.designated is not None:
            return self._one_by_one(prepared, nodes)
        codes = filter_numa(self._numa.table, prepared.request, nodes.rows)
        if joint is not None:
            self._take_together(codes, prepared, nodes, joint)
        return codes

    def explain(self, prepared: Prepared, code: int) -> Status:
        """Return the refusal that a code stands for."""
        return self._numbered.status(code) or explain(code, self._numa.table, prepared.request)

    def _one_by_one(self, prepared: Prepared, nodes: Nodes) -> Codes:
        codes = np.zeros(len(nodes.rows), np.int32)
        for i, row in enumerate(nodes.rows.tolist()):
            terms = self._allocator.terms(prepared, nodes.info(row).name)
            given = self._allocator.allocate(prepared, terms, _anywhere) if isinstance(terms, Terms) else terms
            if isinstance(given, Status):
                codes[i] = self._numbered.code(given)
        return codes

    def _take_together(self, codes: Codes, prepared: Prepared, nodes: Nodes, joint: Joint) -> None:
        for i in np.flatnonzero(codes == 0).tolist():
            node = nodes.info(int(nodes.rows[i]))
            machine = self._allocator.view(prepared, self._numa.node(node.name).index).machine
            refusal = joint(node, machine) if machine.policy in STRICT else None
            if refusal is not None:
                codes[i] = self._numbered.code(refusal)


def _anywhere(_view: NumaView) -> None:
    """Leave the NUMA nodes open: a designated allocation names its own."""
