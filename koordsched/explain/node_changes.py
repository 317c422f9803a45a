"""Changes of nodes: uncordoned, labelled, one more like another, pods taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.port import Patch, Ref
from koordsched.manifests.completion import HOSTNAME_LABEL
from koordsched.manifests.node_copies import DESCRIBED_BY, copied, without_cordon

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koordsched.cluster.memory import MemoryCluster
    from koordsched.explain.trials import Change, Draft

Json = dict[str, Any]

MOST_TEMPLATES = 8
"""Kinds of nodes of which one more is tried."""


def node_changes(body: Json, base: MemoryCluster, most: int) -> list[Change]:
    """Return all changes of nodes that are worth a trial. most: how many new nodes."""
    nodes = base.raws(NODE)
    found: list[Change] = []
    cordoned = [node["metadata"]["name"] for node in nodes if (node.get("spec") or {}).get("unschedulable")]
    if cordoned:
        found.append(NodesPatched("uncordon", tuple(cordoned), "uncordon node {0}", _uncordoned))
    for key, wanted in ((body["spec"].get("nodeSelector")) or {}).items():
        without = [node["metadata"]["name"] for node in nodes if (node["metadata"].get("labels") or {}).get(key) != wanted]
        if without and key != HOSTNAME_LABEL:
            found.append(NodesPatched("nodeLabel", tuple(without), f"label node {{0}} with {key}={wanted}", _labelled(key, wanted)))
    found += (NodesAdded(template, most) for template in _templates(base))
    pods = [(f"{raw['metadata']['namespace']}/{raw['metadata']['name']}", raw["spec"]["nodeName"]) for raw in base.raws(POD)]
    if pods:
        found.append(PodsRemoved(tuple(pods)))
    return found


class NodesPatched(msgspec.Struct, frozen=True):
    """A change of one node. nodes: those of which it is made, which are several only until it is known which one would do."""

    kind: str
    nodes: tuple[str, ...]
    what: str
    patch: Callable[[MemoryCluster, str], Json]
    levels: int = 1

    async def apply(self, draft: Draft, _level: int) -> None:
        for node in self.nodes:
            await draft.cluster.patch(Ref(NODE, "", node), Patch(self.patch(draft.cluster, node)))

    def text(self, _level: int) -> str:
        return self.what.format(self.nodes[0])

    def fields(self, _level: int) -> Json:
        return {"node": self.nodes[0]}

    def on(self, node: str) -> NodesPatched | None:
        """Return the same change of this node alone, where it is one of several."""
        return msgspec.structs.replace(self, nodes=(node,)) if node in self.nodes and len(self.nodes) > 1 else None


class NodesAdded(msgspec.Struct, frozen=True):
    """Nodes that are like an existing one as it is without other changes, with its devices and zones, without its pods, not cordoned."""

    template: str
    levels: int
    kind: str = "addNodes"

    async def apply(self, draft: Draft, level: int) -> None:
        for i in range(level):
            name = f"{self.template}-added-{i + 1}"
            for kind in DESCRIBED_BY:
                found = draft.unchanged(Ref(kind, "", self.template))
                if found is not None:
                    await draft.embedded.create(kind, copied(kind, found, name))

    def text(self, level: int) -> str:
        return f"add {level} node{'s' if level > 1 else ''} like {self.template}"

    def fields(self, level: int) -> Json:
        return {"template": self.template, "nodes": level}


class PodsRemoved(msgspec.Struct, frozen=True):
    """Pods taken away from their nodes. pods: their keys and nodes, which are of one node once it is known which one would do."""

    pods: tuple[tuple[str, str], ...]
    kind: str = "removePods"
    levels: int = 1

    async def apply(self, draft: Draft, _level: int) -> None:
        for key, _node in self.pods:
            namespace, _, name = key.partition("/")
            ref = Ref(POD, namespace, name)
            if draft.cluster.raw(ref)["metadata"].get("finalizers"):
                await draft.cluster.patch(ref, Patch({"metadata": {"finalizers": None}}))
            await draft.cluster.delete(ref, grace_period_seconds=0)

    def text(self, _level: int) -> str:
        names = [key for key, _ in self.pods]
        return f"move {', '.join(names)} away from node {self.pods[0][1]}"

    def fields(self, _level: int) -> Json:
        return {"node": self.pods[0][1], "pods": [key for key, _ in self.pods]}

    def on(self, node: str) -> PodsRemoved | None:
        """Return the same change of this node alone, where there are pods of others, too."""
        there = tuple(each for each in self.pods if each[1] == node)
        return PodsRemoved(there) if there and len(there) < len(self.pods) else None


def _uncordoned(cluster: MemoryCluster, node: str) -> Json:
    return {"spec": {"unschedulable": None, "taints": without_cordon(cluster.raw(Ref(NODE, "", node))["spec"]) or None}}


def _labelled(key: str, value: str) -> Callable[[MemoryCluster, str], Json]:
    return lambda _cluster, _node: {"metadata": {"labels": {key: value}}}


def _templates(base: MemoryCluster) -> Sequence[str]:
    """Return one node of each kind of nodes: of those with equal labels, taints and amounts."""
    kinds: dict[str, str] = {}
    for node in base.raws(NODE):
        labels = {key: value for key, value in (node["metadata"].get("labels") or {}).items() if key != HOSTNAME_LABEL}
        spec, status = node.get("spec") or {}, node.get("status") or {}
        said = repr((sorted(labels.items()), without_cordon(spec), status.get("allocatable")))
        kinds.setdefault(said, node["metadata"]["name"])
    return list(kinds.values())[:MOST_TEMPLATES]
