"""SchedulingHint: an annotation names the nodes that a pod may go to, and nodes that come first for it (frameworkext.md §6).

A queueing layer writes it. Other than a nominated node a hint holds no room. What else the annotation has, `extensions`, is read by the
plugins that it names. Reference: plugins/schedulinghint of Koordinator v1.8.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched.api.koordinator.hints import scheduling_hint
from koordsched.api.koordinator.reading import Malformed
from koordsched.framework.interface import PreferNodesPlugin, PreFilterResult, RestrictNodesPlugin
from koordsched.framework.status import SKIP, Status, error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.koordinator_args import SchedulingHintArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle


class SchedulingHint(RestrictNodesPlugin, PreferNodesPlugin):
    """It registers no events: every event may help a pod whose nodes refused it."""

    name = "SchedulingHint"
    reads = NodeChange.EXISTENCE  # by which names become rows

    def __init__(self, args: SchedulingHintArgs, _handle: Handle) -> None:
        self._most = args.max_hint_nodes

    def restriction_key(self, pod: PodInfo) -> frozenset[str] | Status | None:
        """Return the names of the required nodes. A hint that cannot be read is an error, even if it only prefers nodes."""
        annotations = pod.pod.metadata.annotations
        if not annotations:
            return None
        try:
            hint = scheduling_hint(annotations)
        except Malformed as malformed:
            return error(str(malformed))
        return frozenset(hint.node_names) if hint is not None and hint.node_names else None

    def restrict(self, pod: PodInfo, nodes: Nodes) -> PreFilterResult:
        key = self.restriction_key(pod)
        return PreFilterResult(key if isinstance(key, frozenset) else None)

    def prefer_nodes(self, state: CycleState, pod: PodInfo) -> Sequence[str] | Status:
        """Return the first so many names; those of no node count too."""
        annotations = pod.pod.metadata.annotations
        hint = scheduling_hint(annotations) if annotations else None
        return hint.preferred_node_names[: self._most] if hint is not None and hint.preferred_node_names else SKIP
