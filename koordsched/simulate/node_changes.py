"""What if the cluster had more nodes, or one fewer: changes of a workload before it is simulated."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.groups import PodDisruptionBudget
from koordsched.api.kinds import NODE, POD, POD_DISRUPTION_BUDGET
from koordsched.api.selectors import SelectorError, label_selector_matcher
from koordsched.manifests.completion import mapping
from koordsched.manifests.documents import InputError
from koordsched.manifests.node_copies import DESCRIBED_BY, copied
from koordsched.manifests.objects import Manifest
from koordsched.plugins import tooling
from koordsched.simulate.workload import PodArrival

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koordsched.simulate.workload import Workload

ADD_NODES, DRAIN = "--add-nodes", "--drain"
OF_STATIC_POD = "kubernetes.io/config.mirror"
"""The annotation of pods that stand for a static pod of a kubelet: they are where their kubelet is."""
KEPT_METADATA = ("name", "namespace", "labels", "annotations", "ownerReferences")
"""What of a pod's metadata that of the pod in its place has, too, but for annotations that the scheduler wrote."""
NAMED = 3
"""Nodes that an error names at most."""


class AddedNodes(msgspec.Struct, frozen=True):
    """So many nodes that are like the one of this name."""

    template: str
    number: int

    @classmethod
    def parse(cls, text: str) -> AddedNodes:
        """Read TEMPLATE=N. ValueError."""
        template, _, number = text.rpartition("=")
        if not template or not number.isdecimal() or not int(number):
            raise ValueError(f"{text!r}: expected NODE=N, the name of a node of the input and how many more like it, at least 1")
        return cls(template, int(number))


def add_nodes(workload: Workload, added: AddedNodes) -> None:
    """Add copies of a node, with its devices, CPUs and volume drivers, without its pods: NODE-added-1 and so on. InputError."""
    nodes = _nodes(workload)
    if added.template not in nodes:
        raise InputError(_unknown(ADD_NODES, added.template, list(nodes)))
    objects = [manifest for manifest in workload.existing if manifest.kind in DESCRIBED_BY and manifest.key == added.template]
    free = (name for i in count(1) if (name := f"{added.template}-added-{i}") not in nodes)
    for _, name in zip(range(added.number), free, strict=False):
        workload.existing += [Manifest(f"{each.origin}: {ADD_NODES}", each.kind, copied(each.kind, each.body, name)) for each in objects]


def drain(workload: Workload, names: Sequence[str]) -> None:
    """Cordon these nodes and submit their pods anew, before all others, as the controllers do that made them. InputError.

    As with `kubectl drain --ignore-daemonsets` the pods of DaemonSets and mirror pods stay. Pods that were being deleted are gone. What a
    real drain would refuse or wait for is noted: pods that no controller makes again, and PodDisruptionBudgets.
    """
    nodes, drained = _nodes(workload), set(names)
    for name in names:
        if name not in nodes:
            raise InputError(_unknown(DRAIN, name, list(nodes)))
    existing, evicted = [], []
    for manifest in workload.existing:
        if manifest.kind is NODE and manifest.key in drained:
            existing.append(_cordoned(manifest))
        elif manifest.kind is POD and _node_of(manifest) in drained and not _stays(manifest):
            evicted.append(manifest)
        else:
            existing.append(manifest)
    evicted = [manifest for manifest in evicted if "deletionTimestamp" not in manifest.body["metadata"]]
    workload.existing = existing
    workload.arrivals[:0] = [PodArrival(_anew(manifest)) for manifest in evicted]
    workload.notes += _hindrances(workload, evicted)


def _cordoned(node: Manifest) -> Manifest:
    spec = node.body.get("spec") or {}
    return _with_body(node, {**node.body, "spec": {**spec, "unschedulable": True} if isinstance(spec, dict) else spec})


def _nodes(workload: Workload) -> dict[str, Manifest]:
    return {manifest.key: manifest for manifest in workload.existing if manifest.kind is NODE}


def _unknown(flag: str, name: str, nodes: Sequence[str]) -> str:
    some = ", ".join(nodes[:NAMED]) + (f" and {len(nodes) - NAMED} more" if len(nodes) > NAMED else "")
    return f"{flag}: the input has no node {name}; it has {some or 'none'}"


def _node_of(manifest: Manifest) -> str | None:
    name = mapping(manifest.body.get("spec")).get("nodeName")
    return name if isinstance(name, str) else None


def _controller(manifest: Manifest) -> str | None:
    """Return the kind of the controller that would make the pod again; None: there is none."""
    owners = manifest.body["metadata"].get("ownerReferences")
    kinds = (
        [owner.get("kind") for owner in owners if isinstance(owner, dict) and owner.get("controller")] if isinstance(owners, list) else []
    )
    return str(kinds[0]) if kinds else None


def _stays(manifest: Manifest) -> bool:
    return _controller(manifest) == "DaemonSet" or OF_STATIC_POD in mapping(manifest.body["metadata"].get("annotations"))


def _anew(manifest: Manifest) -> Manifest:
    """Return the pod as its controller makes it again, under its old name."""
    metadata, spec = manifest.body["metadata"], mapping(manifest.body.get("spec"))
    written = {name for each in tooling() for name in each.pod_annotations}
    kept = {key: metadata[key] for key in KEPT_METADATA if key in metadata}
    if isinstance(metadata.get("annotations"), dict):
        kept["annotations"] = {name: text for name, text in metadata["annotations"].items() if name not in written}
    body = {
        **manifest.body,
        "metadata": kept,
        "spec": {key: value for key, value in spec.items() if key != "nodeName"},
        "status": {"phase": "Pending"},
    }
    return _with_body(manifest, body)


def _with_body(manifest: Manifest, body: dict[str, Any]) -> Manifest:
    return Manifest(manifest.origin, manifest.kind, body)


def _hindrances(workload: Workload, evicted: Sequence[Manifest]) -> Iterator[str]:
    """Say what would keep a real drain from evicting these pods."""
    bare = [manifest.key for manifest in evicted if _controller(manifest) is None]
    if bare:
        yield f"note: {DRAIN}: {len(bare)} of the pods have no controller that makes them again, {bare[0]} for example"
    for manifest in workload.existing:
        if manifest.kind is not POD_DISRUPTION_BUDGET or mapping(manifest.body.get("status")).get("disruptionsAllowed") is None:
            continue
        try:
            budget = msgspec.convert(manifest.body, PodDisruptionBudget)
            matches = label_selector_matcher(budget.spec.selector).matches
        except (msgspec.ValidationError, SelectorError):
            continue  # the cluster refuses it, which is said
        namespace, allowed = budget.metadata.namespace, budget.status.disruptions_allowed
        pods = [pod.body["metadata"] for pod in evicted]
        covered = sum(pod["namespace"] == namespace and matches(mapping(pod.get("labels"))) for pod in pods)
        if covered > allowed:
            yield f"note: {DRAIN}: PodDisruptionBudget {manifest.key} allows {max(allowed, 0)} of {covered} evictions; a drain would wait"
