"""Binding and deletion of one object, as values: from one raw state to the next, or to the error that the API server answers.

The rules are the pod registry's and the generic registry's of kube-apiserver v1.35; there is no kubelet, so a bound pod is never
removed by anything but a deletion without grace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.api.core import Pod, PodStatus
from koordsched.api.kinds import POD, Kind
from koordsched.clock import rfc3339
from koordsched.cluster.memory.answers import conflict, other_uid

if TYPE_CHECKING:
    from koordsched.cluster.memory.store import Raw
    from koordsched.cluster.port import Binding

MAX_STATUSES = 4096
_BINDINGS = "pods/binding"
_write = msgspec.json.Encoder().encode


def check_bindable(raw: Raw, binding: Binding) -> None:
    """Check that the pod can be bound as the binding demands. Conflict: why it cannot."""
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    name = binding.name
    if binding.uid and metadata["uid"] != binding.uid:
        raise other_uid(_BINDINGS, name, binding.uid, metadata["uid"])
    if "deletionTimestamp" in metadata:
        raise conflict(_BINDINGS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict(_BINDINGS, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict(_BINDINGS, name, f"pod {name} has non-empty .spec.schedulingGates")


class BoundStatuses:
    """The statuses of pods that are bound. Pods of equal statuses that are bound in the same second share one object."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[Raw, PodStatus | None]] = {}
        self._now = ""

    def bound(self, status: Raw, now: str) -> tuple[Raw, PodStatus | None]:
        """Return the status, scheduled and no longer nominated, and its Struct; None: it holds nulls, so the pod has to be read anew."""
        if now != self._now or len(self._known) >= MAX_STATUSES:
            self._now = now
            self._known.clear()
        shape = _write(status)
        found = self._known.get(shape)
        if found is None:
            status = {key: value for key, value in status.items() if key != "nominatedNodeName"}
            status["conditions"] = scheduled(status.get("conditions") or [], now)
            found = self._known[shape] = (status, _status(status))
        return found


def restated(pod: Pod, raw: Raw) -> Pod | None:
    """Return the Struct of a pod of which only the status and the version differ from what it was before: far cheaper than reading it anew.

    None: as `BoundStatuses.bound`.
    """
    status = _status(raw.get("status") or {})  # a patch may have taken it away
    if status is None:
        return None
    return replace(pod, metadata=replace(pod.metadata, resource_version=raw["metadata"]["resourceVersion"]), status=status)


def _status(status: Raw) -> PodStatus | None:
    try:
        return msgspec.convert(status, PodStatus)
    except msgspec.ValidationError:
        return None


def scheduled(conditions: list[dict[str, Any]], now: str) -> list[dict[str, Any]]:
    """Return the conditions with PodScheduled=True, keeping the transition time of one that was True already."""
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    for index, before in enumerate(conditions):
        if before.get("type") == "PodScheduled":
            return conditions if before.get("status") == "True" else [*conditions[:index], condition, *conditions[index + 1 :]]
    return [*conditions, condition]


def deleted(kind: Kind, raw: Raw, grace: int | None, now: float) -> Raw | None:
    """Return the object as a request to delete it leaves it, terminating; None: it is gone.

    grace: the request's period in seconds; None: the pod's own, 0 when it names none. A repeated request can only shorten the period.
    """
    metadata = raw["metadata"]
    seconds = _grace_seconds(raw, grace) if kind == POD else 0
    if seconds == 0 and not metadata.get("finalizers"):
        return None
    if "deletionTimestamp" in metadata and seconds >= metadata["deletionGracePeriodSeconds"]:
        return raw
    marks = {"deletionTimestamp": rfc3339(now + seconds), "deletionGracePeriodSeconds": seconds}
    generation = metadata["generation"] + (0 if "deletionTimestamp" in metadata else 1)
    return {**raw, "metadata": {**metadata, **marks, "generation": generation}}


def finished(raw: Raw) -> bool:
    """Answer whether a terminating object is to be removed: it has neither a finalizer nor grace left."""
    metadata = raw["metadata"]
    return "deletionTimestamp" in metadata and not metadata.get("finalizers") and not metadata["deletionGracePeriodSeconds"]


def _grace_seconds(raw: Raw, asked: int | None) -> int:
    """Return the grace of a pod's deletion in seconds: none for a pod without node or in a terminal phase, of which nothing runs."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in {"Succeeded", "Failed"}:
        return 0
    seconds = spec.get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return max(int(seconds or 0), 0)
