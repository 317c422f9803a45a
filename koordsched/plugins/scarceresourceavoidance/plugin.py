"""ScarceResourceAvoidance: Score by how few of the resources that a node offers and the pod does not request are scarce ones.

A CPU-only pod is so kept off nodes with GPUs while others have room. Nothing is normalised, no pod refused.
Reference: plugins/scarceresourceavoidance of Koordinator v1.8.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched._core.scarcity import UnrequestedResources, avoid_scarce
from koordsched.framework.interface import PreScorePlugin, ScoreNodesPlugin

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.koordinator_args import ScarceResourceAvoidanceArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Scores
    from koordsched.framework.status import Status

PRE_SCORE_STATE = "PreScoreScarceResourceAvoidance"  # the UnrequestedResources


class ScarceResourceAvoidance(PreScorePlugin, ScoreNodesPlugin):
    """A profile that enables it at score alone scores as one that enables it at preScore too: the framework runs PreScore for both."""

    name = "ScarceResourceAvoidance"
    signs = ("resources",)
    reads = NodeChange.CAPACITY

    def __init__(self, args: ScarceResourceAvoidanceArgs, handle: Handle) -> None:
        self._columns = handle.columns
        self._scarce = frozenset(args.resources)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        requested = pod.resources.requests.keys() | {"pods"}
        unrequested = {name: column for name, column in self._columns.resources.items() if name not in requested}
        flags = [name in self._scarce for name in unrequested]
        state.write(PRE_SCORE_STATE, UnrequestedResources(list(unrequested.values()), flags))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        return avoid_scarce(nodes.table, state.read(PRE_SCORE_STATE), nodes.rows)
