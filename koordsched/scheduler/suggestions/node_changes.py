"""Changes of nodes: uncordoned, labelled, one more like another, pods taken away."""

from __future__ import annotations

from typing import Any

import msgspec

Json = dict[str, Any]


class NodesPatched(msgspec.Struct, frozen=True):
    """A node uncordoned (`label` None), or labelled. nodes: those of which it is made: several, or none for all that are concerned, until
    it is known which one would do."""

    nodes: tuple[str, ...] = ()
    label: tuple[str, str] | None = None
    levels: int = 1

    @property
    def kind(self) -> str:
        return "uncordon" if self.label is None else "nodeLabel"

    def text(self, _level: int) -> str:
        return f"uncordon node {self.nodes[0]}" if self.label is None else f"label node {self.nodes[0]} with {'='.join(self.label)}"

    def fields(self, _level: int) -> Json:
        if self.label is None:
            return {"node": self.nodes[0]}
        return {"node": self.nodes[0], "label": self.label[0], "value": self.label[1]}

    def on(self, node: str) -> NodesPatched | None:
        """Return the same change of this node alone, where it is one of several."""
        return msgspec.structs.replace(self, nodes=(node,)) if not self.nodes or (node in self.nodes and len(self.nodes) > 1) else None


class NodesAdded(msgspec.Struct, frozen=True):
    """Nodes that are like an existing one as it is without other changes, with its devices and zones, without its pods, not cordoned."""

    template: str
    levels: int
    kind: str = "addNodes"

    def name(self, i: int) -> str:
        """Return the name of the i-th new node, from 0."""
        return f"{self.template}-added-{i + 1}"

    def text(self, level: int) -> str:
        return f"add {level} node{'s' if level > 1 else ''} like {self.template}"

    def fields(self, level: int) -> Json:
        return {"template": self.template, "nodes": level}


class PodsRemoved(msgspec.Struct, frozen=True):
    """Pods taken away from their nodes. pods: their keys and nodes, which are of one node once it is known which one would do; none for all
    pods."""

    pods: tuple[tuple[str, str], ...] = ()
    kind: str = "removePods"
    levels: int = 1

    def text(self, _level: int) -> str:
        names = [key for key, _ in self.pods]
        return f"move {', '.join(names)} away from node {self.pods[0][1]}"

    def fields(self, _level: int) -> Json:
        return {"node": self.pods[0][1], "pods": [key for key, _ in self.pods]}

    def on(self, node: str) -> PodsRemoved | None:
        """Return the same change of this node alone, where there are pods of others, too."""
        there = tuple(each for each in self.pods if each[1] == node)
        return PodsRemoved(there) if there and len(there) < len(self.pods) else None


def narrowed(change: object, node: str) -> NodesPatched | PodsRemoved | None:
    """Return the change made to this node alone, where it is one of several nodes."""
    return change.on(node) if isinstance(change, NodesPatched | PodsRemoved) else None
