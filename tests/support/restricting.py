"""Small plugins that restrict single pods, choose for them or prefer nodes for them, as annotations of the pods say."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from koordsched._core.change import NodeChange
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import Nodes
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import FindOneNodePlugin, PreferNodesPlugin, PreFilterResult, RestrictNodesPlugin, Rows
from koordsched.framework.status import SKIP, Status, error, unschedulable
from koordsched.queue.events import EventHint

ONLY, CORNER, ONE, FIRST = "test/only", "test/corner", "test/one", "test/first"  # names, a zone, a name, names


class _Quiet:
    """No event helps a pod that these refuse."""

    def events_to_register(self) -> Sequence[EventHint]:
        return ()


def _names(pod: PodInfo, key: str) -> list[str]:
    return pod.pod.metadata.annotations[key].split(",")


class Only(_Quiet, RestrictNodesPlugin):
    """Restricts by names. `!` cannot be made sense of, `?` fails, and `-` is refused."""

    name = "Only"
    reads = NodeChange.EXISTENCE

    def __init__(self) -> None:
        self.asked = 0

    def restriction_key(self, pod: PodInfo) -> Hashable | Status | None:
        text = pod.pod.metadata.annotations.get(ONLY)
        return error("unreadable") if text == "!" else text

    def restrict(self, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        self.asked += 1
        text = pod.pod.metadata.annotations[ONLY]
        if text == "?":
            return error("failed")
        return unschedulable("nowhere today") if text == "-" else PreFilterResult(frozenset(_names(pod, ONLY)))


class Corner(_Quiet, RestrictNodesPlugin):
    """Restricts to the nodes of a zone, by rows; `shift` gives every pod the next zone instead."""

    name = "Corner"
    reads = NodeChange.LABELS | NodeChange.EXISTENCE
    zones = ("a", "b")

    def __init__(self) -> None:
        self.shift = 0
        self.asked = 0

    def restriction_key(self, pod: PodInfo) -> Hashable | None:
        return pod.pod.metadata.annotations.get(CORNER)

    def restriction_version(self, pod: PodInfo) -> Hashable:
        return pod.pod.metadata.annotations[CORNER], self.shift

    def restrict(self, pod: PodInfo, nodes: Nodes) -> Rows:
        self.asked += 1
        zone = self.zones[(self.zones.index(pod.pod.metadata.annotations[CORNER]) + self.shift) % len(self.zones)]
        inside = [row for row in nodes.rows.tolist() if _zone(nodes, row) == zone]
        return np.array(inside, np.int32)


def _zone(nodes: Nodes, row: int) -> str:
    node = nodes.info(row).node
    return "" if node is None else node.metadata.labels.get("zone", "")


class One(_Quiet, FindOneNodePlugin):
    """Decides for the node of the annotation; `-` is refused, and `?` fails."""

    name = "One"

    def __init__(self) -> None:
        self.offered: list[list[str]] = []

    def find_one_node(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> str | Status:
        self.offered.append([nodes.info(row).name for row in nodes.rows.tolist()])
        name = pod.pod.metadata.annotations.get(ONE)
        if name is None:
            return SKIP
        return unschedulable("no plan") if name == "-" else error("lost the plan") if name == "?" else name


class First(_Quiet, PreferNodesPlugin):
    """Prefers the nodes of the annotation; `-` is refused."""

    name = "First"

    def prefer_nodes(self, state: CycleState, pod: PodInfo) -> Sequence[str] | Status:
        if FIRST not in pod.pod.metadata.annotations:
            return SKIP
        names = _names(pod, FIRST)
        return unschedulable("no preference") if names == ["-"] else names
