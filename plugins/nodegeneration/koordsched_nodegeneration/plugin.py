"""NodeGeneration: Filter by the hardware generation that a pod asks for, Score by how little newer than that a node is.

A node's generation is its label `hardware.example.com/generation`, a whole number; without a readable one it is 0. A pod states the oldest
generation that will do in the annotation `hardware.example.com/min-generation`; without it the argument `defaultMinGeneration` counts.

The plugin looks at one node at a time, the framework makes the loop. It is exact at any cluster size because of what it promises: `sign`
names all that it reads of a pod, `reads` all that it reads of a node, and as there is nothing else, `version` is not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched.api.core import Node
from koordsched.config import PluginArgs
from koordsched.framework.interface import FilterPlugin, Normalize, PreFilterPlugin, ScorePlugin
from koordsched.framework.status import SKIP, Status, unresolvable
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle

GENERATION = "hardware.example.com/generation"
MIN_GENERATION = "hardware.example.com/min-generation"
MAX_DIGITS = 3
MAX_GENERATION = 10**MAX_DIGITS - 1

# No pod's eviction makes a node newer, so preemption need not try: unresolvable rather than unschedulable.
TOO_OLD = unresolvable("node(s) had too old a hardware generation")


class NodeGenerationArgs(PluginArgs):
    """What stands under `args` in the plugin's pluginConfig entry; `default_min_generation` is written defaultMinGeneration there."""

    default_min_generation: int = 0

    def problems(self) -> Iterator[tuple[str, str]]:
        if not 0 <= self.default_min_generation <= MAX_GENERATION:
            yield "defaultMinGeneration", f"Invalid value: {self.default_min_generation}: must be from 0 to {MAX_GENERATION}"


class NodeGeneration(PreFilterPlugin, FilterPlugin, ScorePlugin):
    name = "NodeGeneration"
    Args = NodeGenerationArgs
    reads = NodeChange.LABELS  # a node that only gets another pod, or another taint, is not asked about again
    normalize = Normalize.DEFAULT_REVERSE  # the newest feasible generation gets 0, generation 0 gets 100

    def __init__(self, args: NodeGenerationArgs, handle: Handle) -> None:
        self._default = args.default_min_generation

    def sign(self, pod: PodInfo) -> Hashable:
        # Everything below, hints included, reads of the pod just this text: all pods with the same one share one answer per node.
        return pod.pod.metadata.annotations.get(MIN_GENERATION)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        wanted = self.wanted(pod)
        if wanted is None:
            return unresolvable(f"annotation {MIN_GENERATION}: {self.sign(pod)!r}: expected a whole number from 0 to {MAX_GENERATION}")
        state.write(self.name, wanted)
        return None if wanted else SKIP  # every node will do: Filter is not called

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if _generation(node.node) >= state.read(self.name) else TOO_OLD

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status:
        return _generation(node.node)

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), self._after_node_change),
            EventHint(cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD), _after_own_change),
        )

    def _after_node_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the node is new enough now and was not before."""
        assert isinstance(new, Node)
        wanted = self.wanted(pod)
        if wanted is None or _generation(new) < wanted:
            return QueueingHint.SKIP
        return QueueingHint.SKIP if isinstance(old, Node) and _generation(old) >= wanted else QueueingHint.QUEUE

    def wanted(self, pod: PodInfo) -> int | None:
        """Return the oldest generation that will do for the pod; None when its annotation cannot be read."""
        text = pod.pod.metadata.annotations.get(MIN_GENERATION)
        return self._default if text is None else number(text)


def _after_own_change(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue when it is the waiting pod itself that changed, and what it asks for with it."""
    assert old is not None
    assert new is not None
    changed = old.metadata.annotations.get(MIN_GENERATION) != new.metadata.annotations.get(MIN_GENERATION)
    return QueueingHint.QUEUE if new.metadata.uid == pod.uid and changed else QueueingHint.SKIP


def _generation(node: Node | None) -> int:
    return (number(node.metadata.labels.get(GENERATION, "")) or 0) if node is not None else 0


def number(text: str) -> int | None:
    """Read a generation; None when it is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else None
