"""Which changes of nodes are worth a trial, as the objects of the cluster say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import NODE, POD
from koordsched.manifests.completion import HOSTNAME_LABEL
from koordsched.manifests.node_copies import without_cordon
from koordsched.scheduler.suggestions.node_changes import NodesAdded, NodesPatched, PodsRemoved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.cluster.memory import MemoryCluster
    from koordsched.scheduler.suggestions.changes import Change

Json = dict[str, Any]

MOST_TEMPLATES = 8
"""Kinds of nodes of which one more is tried."""


def node_changes(body: Json, base: MemoryCluster, most: int) -> list[Change]:
    """Return all changes of nodes that are worth a trial. most: how many new nodes."""
    nodes = base.raws(NODE)
    found: list[Change] = []
    cordoned = [node["metadata"]["name"] for node in nodes if (node.get("spec") or {}).get("unschedulable")]
    if cordoned:
        found.append(NodesPatched(tuple(cordoned)))
    for key, wanted in ((body["spec"].get("nodeSelector")) or {}).items():
        without = [node["metadata"]["name"] for node in nodes if (node["metadata"].get("labels") or {}).get(key) != wanted]
        if without and key != HOSTNAME_LABEL:
            found.append(NodesPatched(tuple(without), (key, wanted)))
    found += (NodesAdded(template, most) for template in _templates(base))
    pods = [(f"{raw['metadata']['namespace']}/{raw['metadata']['name']}", raw["spec"]["nodeName"]) for raw in base.raws(POD)]
    if pods:
        found.append(PodsRemoved(tuple(pods)))
    return found


def _templates(base: MemoryCluster) -> Sequence[str]:
    """Return one node of each kind of nodes: of those with equal labels, taints and amounts."""
    kinds: dict[str, str] = {}
    for node in base.raws(NODE):
        labels = {key: value for key, value in (node["metadata"].get("labels") or {}).items() if key != HOSTNAME_LABEL}
        spec, status = node.get("spec") or {}, node.get("status") or {}
        said = repr((sorted(labels.items()), without_cordon(spec), status.get("allocatable")))
        kinds.setdefault(said, node["metadata"]["name"])
    return list(kinds.values())[:MOST_TEMPLATES]
