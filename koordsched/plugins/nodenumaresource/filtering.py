"""Which nodes could give a pod its CPUs and NUMA nodes (nodenumaresource.md §5).

The kernel answers for all nodes, together with the hints that another plugin has for the pod. One by one go only pods with a designated
allocation, and on nodes with a NUMA policy those for which another plugin has hints that no kernel can ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.numa_filter import NumaReason, filter_numa, reason_of
from koordsched._core.numa_joint import KeptAffinities, aligned_rows, joint_affinity, joint_masks
from koordsched._core.numa_score import score_numa
from koordsched.api.koordinator.policies import NumaTopologyPolicy
from koordsched.framework.status import Status
from koordsched.framework.topologymanager import NumaAffinity
from koordsched.plugins.nodenumaresource.allocator import Allocator, NodeDemand
from koordsched.plugins.nodenumaresource.reasons import NumberedRefusals, explain

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched._core.hint_source import NumaHintSource
    from koordsched._core.numa import NumaScoring
    from koordsched._core.numa_facts import Machine
    from koordsched.cache.cache import Cache
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.framework.interface import Codes, Scores
    from koordsched.framework.topologymanager import Aligned, Masks
    from koordsched.plugins.nodenumaresource.pod_demand import CompiledDemand
    from koordsched.plugins.nodenumaresource.state import NumaState

    Check = Callable[[NodeInfo, Machine], NumaAffinity | Status]
    """Answers on which NUMA nodes the pod comes to a node when the hints of all plugins are taken together, or why on none."""

STRICT = frozenset({NumaTopologyPolicy.RESTRICTED, NumaTopologyPolicy.SINGLE_NUMA_NODE})
MERGED = frozenset({NumaReason.PASS, NumaReason.UNSATISFIED, NumaReason.UNALIGNED, NumaReason.NOT_ENOUGH_CPUS})
"""What a row's code says if it got as far as merging hints."""


class NumaFilter:
    """The columns of one profile: Filter, Score and the affinities between them."""

    def __init__(self, numa: NumaState, allocator: Allocator, scoring: NumaScoring, cache: Cache) -> None:
        self._numa = numa
        self._table = numa.table
        self._allocator = allocator
        self._scoring = scoring
        self._cache = cache
        self._kept = KeptAffinities()
        self._numbered = NumberedRefusals()

    def codes(self, compiled: CompiledDemand, nodes: Nodes, source: NumaHintSource | None = None) -> Codes:
        """Return why each row is refused, 0 where it is not. source: the hints of another plugin for the pod."""
        if compiled.designated is not None:
            return self._one_by_one(compiled, nodes)
        if source is None:
            return filter_numa(self._table, compiled.request, nodes.rows)
        return filter_numa(self._table, compiled.request, nodes.rows, source, self._scoring, self._keeping())

    def checked_codes(self, compiled: CompiledDemand, nodes: Nodes, check: Check) -> Codes:
        """Return the same for a pod that others have hints for that no kernel can ask for: each node with a strict policy is checked."""
        codes = self.codes(compiled, nodes)
        for i in np.flatnonzero(self._strict(compiled, nodes)).tolist():
            if reason_of(int(codes[i])) in MERGED:
                found = self._check_row(compiled, nodes, i, check)
                codes[i] = self._numbered.code(found) if isinstance(found, Status) else 0
        return codes

    def explain(self, compiled: CompiledDemand, code: int) -> Status:
        """Return the refusal that a code stands for, unless another plugin has to (`source_code_of`)."""
        return self._numbered.status(code) or explain(code, self._table, compiled.request)

    def scores(self, compiled: CompiledDemand, nodes: Nodes, source: NumaHintSource | None) -> Scores:
        """Return the scores of feasible rows."""
        kept = None if source is None else self._keeping()
        return score_numa(self._table, compiled.request, self._scoring, nodes.rows, source, kept)

    def aligned(self, compiled: CompiledDemand, nodes: Nodes) -> Aligned | None:
        """Return on which rows `codes` takes the hints of all plugins together; None: on none."""
        return None if compiled.designated is not None else aligned_rows(self._table, compiled.request, nodes.rows)

    def masks(self, compiled: CompiledDemand, nodes: Nodes, source: NumaHintSource) -> Masks | None:
        """Return the affinities of feasible rows; None: there is none."""
        if compiled.designated is not None:
            return None
        return joint_masks(self._table, compiled.request, self._scoring, nodes.rows, source, self._keeping())

    def checked_masks(self, compiled: CompiledDemand, nodes: Nodes, check: Check) -> Masks:
        """Return the same for a pod that others have hints for that no kernel can ask for."""
        masks = np.zeros(len(nodes.rows), np.uint64)
        for i in np.flatnonzero(self._strict(compiled, nodes)).tolist():
            found = self._check_row(compiled, nodes, i, check)
            masks[i] = found.mask or 0 if isinstance(found, NumaAffinity) else 0
        return masks

    def affinity(self, compiled: CompiledDemand, row: int, source: NumaHintSource) -> tuple[int, int]:
        """Return (code, mask) of one row with zones and a strict policy; the mask is 0 without an affinity."""
        return joint_affinity(self._table, compiled.request, self._scoring, row, source)

    def _keeping(self) -> KeptAffinities | None:
        return self._kept if self._cache.shows_all else None

    def _strict(self, compiled: CompiledDemand, nodes: Nodes) -> Aligned:
        aligned = self.aligned(compiled, nodes)
        return np.zeros(len(nodes.rows), np.uint8) if aligned is None else aligned

    def _check_row(self, compiled: CompiledDemand, nodes: Nodes, i: int, check: Check) -> NumaAffinity | Status:
        node = nodes.info(int(nodes.rows[i]))
        return check(node, self._allocator.view(compiled, self._numa.node(node.name).index).machine)

    def _one_by_one(self, compiled: CompiledDemand, nodes: Nodes) -> Codes:
        codes = np.zeros(len(nodes.rows), np.int32)
        for i, row in enumerate(nodes.rows.tolist()):
            on_node = self._allocator.on_node(compiled, nodes.info(row).name)
            answer = self._allocator.allocate(compiled, on_node, _anywhere) if isinstance(on_node, NodeDemand) else on_node
            if isinstance(answer, Status):
                codes[i] = self._numbered.code(answer)
        return codes


def _anywhere() -> None:
    """Leave the NUMA nodes open: a designated allocation names its own."""
