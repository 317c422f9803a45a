"""What an API server's admission demands or adds that scenarios do not speak of: pure functions that make up for it.

- Priority takes a pod's number from a PriorityClass only, RuntimeClass its overhead from a RuntimeClass: so one is made for each number and
  each overhead that a scenario states.
- TaintNodesByCondition taints every new node until a controller looks at it; StorageObjectInUseProtection adds finalizers that a controller
  would take away. A scenario's objects are to carry what it says, so both are taken back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from koordsched.api.kinds import NAMESPACE, NODE, PRIORITY_CLASS, Kind, unstructured_kind
from koordsched.cluster.memory.admission import PRIORITY_CLASSES

Json = dict[str, Any]

RUNTIME_CLASS = replace(unstructured_kind("node.k8s.io/v1", "RuntimeClass"), namespaced=False)
PREEMPTS = "PreemptLowerPriority"
KOORDINATOR_CLASSES = {name: value for name, value in PRIORITY_CLASSES.items() if name.startswith("koord-")}
SYSTEM_CLASSES = {value: name for name, value in PRIORITY_CLASSES.items() if name.startswith("system-")}
"""What no class of a user's may have."""


def priority_class(name: str, value: int, policy: str = PREEMPTS) -> Json:
    """Return the manifest of a class."""
    kind = {"apiVersion": PRIORITY_CLASS.api_version, "kind": PRIORITY_CLASS.kind}
    return {**kind, "metadata": {"name": name}, "value": value, "preemptionPolicy": policy}


class Need(msgspec.Struct, frozen=True):
    """An object that must be there before a pod that is to name it in `field` of its spec."""

    kind: Kind
    manifest: Json
    field: str

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


def needs(pod: Mapping[str, Any]) -> Iterator[Need]:
    """Yield the classes from which admission takes what a pod states itself; what has the wrong type the API's validation names."""
    spec = pod.get("spec") or {}
    value, policy = spec.get("priority"), spec.get("preemptionPolicy") or PREEMPTS
    value = 0 if value is None and policy != PREEMPTS else value
    if isinstance(value, int) and not spec.get("priorityClassName"):
        yield Need(PRIORITY_CLASS, _class_for(value, policy), "priorityClassName")
    if spec.get("overhead") and not spec.get("runtimeClassName"):
        yield Need(RUNTIME_CLASS, _runtime_class(spec["overhead"]), "runtimeClassName")


def with_needs(pod: Mapping[str, Any], found: Iterable[Need]) -> Json:
    """Return the pod naming what it needs."""
    return {**pod, "spec": {**(pod.get("spec") or {}), **{need.field: need.name for need in found}}}


def _class_for(value: int, policy: str) -> Json:
    if value in SYSTEM_CLASSES:
        return priority_class(SYSTEM_CLASSES[value], value, policy)
    sign = "minus-" if value < 0 else ""
    suffix = "" if policy == PREEMPTS else f"-{policy}".lower()
    return priority_class(f"scenario-{sign}{abs(value)}{suffix}", value, policy)


def _runtime_class(overhead: Any) -> Json:
    digest = hashlib.sha256(msgspec.json.encode(overhead, order="deterministic")).hexdigest()[:10]
    kind = {"apiVersion": RUNTIME_CLASS.api_version, "kind": RUNTIME_CLASS.kind}
    return {**kind, "metadata": {"name": f"scenario-{digest}"}, "handler": "scenario", "overhead": {"podFixed": overhead}}


def corrections(kind: Kind, wanted: Mapping[str, Any], made: Mapping[str, Any]) -> Json:
    """Return the merge patch that takes back what was added to an object at its creation; {} when nothing was."""
    merge: Json = {}
    finalizers = wanted["metadata"].get("finalizers") or []
    if kind is not NAMESPACE and (made["metadata"].get("finalizers") or []) != finalizers:
        merge["metadata"] = {"finalizers": finalizers or None}
    if kind is NODE and _taints(made) != _taints(wanted):
        merge["spec"] = {"taints": (wanted.get("spec") or {}).get("taints") or None}
    return merge


def _taints(node: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(taint.get("key", ""), taint.get("effect", "")) for taint in (node.get("spec") or {}).get("taints") or ()}
