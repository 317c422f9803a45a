"""One more node like another: which objects describe a node, and what of them is another node's, too.

Shared by `simulate --add-nodes` and `explain`, which tries new nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import CSI_NODE, DEVICE, NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.manifests.completion import HOSTNAME_LABEL, mapping

if TYPE_CHECKING:
    from koordsched.api.kinds import Kind

Json = dict[str, Any]

CORDON_TAINT = "node.kubernetes.io/unschedulable"
DESCRIBED_BY = (NODE, DEVICE, NODE_RESOURCE_TOPOLOGY, CSI_NODE)
"""Kinds of objects that have the name of a node and say what it has."""
OWN_METADATA = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "name", "ownerReferences", "managedFields"})
OWN_SPEC = frozenset({"providerID", "podCIDR", "podCIDRs", "unschedulable"})


def copied(kind: Kind, body: Json, name: str) -> Json:
    """Return a node, or an object that describes one, for another node of this name. The copy is not cordoned; the original is not changed.

    What has the wrong type is left alone, for the API's validation to name.
    """
    metadata = {key: value for key, value in body["metadata"].items() if key not in OWN_METADATA}
    made = {**body, "metadata": {**metadata, "name": name}}
    if kind is NODE:
        labels, spec = metadata.get("labels"), body.get("spec") or {}
        if isinstance(labels, dict) and HOSTNAME_LABEL in labels:
            made["metadata"]["labels"] = {**labels, HOSTNAME_LABEL: name}
        if isinstance(spec, dict):
            made["spec"] = {**{key: value for key, value in spec.items() if key not in OWN_SPEC}, "taints": without_cordon(spec)}
    return made


def without_cordon(spec: Json) -> Any:
    """Return the taints of a node that do not say that it is cordoned."""
    taints = spec.get("taints") or []
    return [taint for taint in taints if mapping(taint).get("key") != CORDON_TAINT] if isinstance(taints, list) else taints
