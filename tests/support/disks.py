"""A plugin whose disks lie in NUMA nodes as a test says: it has hints that kernels ask for, filters where it was not aligned, and scores by
the NUMA nodes that were found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.hint_source import HintTable, NumaHintSource
from koordsched._core.numa_facts import HintAnswer
from koordsched.framework.interface import FilterNodesPlugin, ScoreNodesPlugin
from koordsched.framework.status import Status, unschedulable
from koordsched.framework.topologymanager import NumaAffinity, NumaHintProvider

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from koordsched._core.numa_facts import Hint
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Scores

DISK = "example.com/disk"


class DiskHints(FilterNodesPlugin, ScoreNodesPlugin, NumaHintProvider):
    name = "DiskHints"

    def __init__(self, _args: object, handle: Handle) -> None:
        self._cache = handle.cache
        self.reads = self._change = handle.cache.change_kinds.register(self.name)
        self.nodes: dict[str, HintAnswer] = {}
        self._source: tuple[dict[int, HintAnswer], NumaHintSource] | None = None

    def set(self, name: str, answer: HintAnswer) -> None:
        """Let the node's disks be so."""
        self.nodes[name] = answer
        node = self._cache.node(name)
        if node is not None:
            self._cache.table.mark(node.row, int(self._change))

    def sign(self, pod: PodInfo) -> Hashable:
        return self.wants(pod)

    def wants(self, pod: PodInfo) -> bool:
        return DISK in pod.resources.requests

    def hint_source(self, state: CycleState, pod: PodInfo) -> NumaHintSource | None:
        rows = {}
        for name, answer in self.nodes.items():
            node = self._cache.node(name)
            if node is not None:
                rows[node.row] = answer
        if self._source is None or self._source[0] != rows:
            self._source = rows, HintTable([DISK], rows)
        return self._source[1]

    def explain_hint(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return unschedulable(f"no disk: {code}")

    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        return {}  # only under BestEffort, in Reserve

    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        if not self.wants(pod):
            return None
        codes = np.array([self.nodes.get(nodes.info(row).name, HintAnswer()).code for row in nodes.rows.tolist()], np.int32)
        aligned = self.topology_manager.aligned(self, state, pod, nodes)
        if aligned is not None:
            codes[aligned == 1] = 0
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self.explain_hint(state, pod, code)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        masks = self.topology_manager.masks(self, state, pod, nodes)
        return None if masks is None else (masks * np.uint64(7)).astype(np.int64)
