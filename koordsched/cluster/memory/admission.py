"""What an API server fills in when a pod is created, as far as scheduling can see it.

Scheduler name, requests from limits, priority and preemption policy from the PriorityClass, phase and conditions. Unlike the real
admission a spec.priority that was given is kept, so that a manifest taken from a cluster means the same without that cluster's classes.
Unlike a real cluster a pod created with a node runs (there is no kubelet to start it), and a pod that names no grace period has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.koordinator.priority import CLASS_VALUES
from koordsched.cluster.memory.answers import no_priority_class
from koordsched.cluster.memory.lifecycle import scheduled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koordsched.cluster.memory.store import Raw

PRIORITY_CLASSES = {
    "system-node-critical": 2_000_001_000,
    "system-cluster-critical": 2_000_000_000,
    **{priority.value: value for priority, value in CLASS_VALUES.items()},
}
"""The classes that always exist: Kubernetes' own and Koordinator's (scenarios.md)."""

_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def admit_pod(pod: Raw, priority_class: Callable[[str], Raw | None], now: str) -> None:
    """Fill in a new pod, in place. `priority_class` finds a class by name, "" the global default. Forbidden: no such class."""
    spec = _own(pod, "spec")
    spec.setdefault("schedulerName", "default-scheduler")
    for container in (*_dicts(spec.get("containers")), *_dicts(spec.get("initContainers"))):
        _requests_from_limits(container)
    if "resources" in spec:
        _pod_requests_from_limits(spec)
    _resolve_priority(pod["metadata"]["name"], spec, priority_class)
    _begin_status(_own(pod, "status"), spec, now)


def global_default(classes: Iterable[Raw]) -> Raw | None:
    """Return the class of pods that name none: of several the one of the lowest value, as the API server has it."""
    return min((each for each in classes if each.get("globalDefault")), key=lambda each: each.get("value", 0), default=None)


def _own(parent: Raw, key: str) -> Raw:
    """Return parent[key] as an object, making it when absent; a value of another type is left for validation to name."""
    value = parent.get(key)
    if value is None:
        value = parent[key] = {}
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[Raw]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _requests_from_limits(holder: Raw) -> None:
    resources = holder.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if isinstance(resources, dict) and isinstance(limits, dict) and limits:
        requests = resources.get("requests")
        if requests is None or isinstance(requests, dict):
            resources["requests"] = {**limits, **(requests or {})}


def _pod_requests_from_limits(spec: Raw) -> None:
    """Make each pod-level limit the pod-level request too, unless some container requests that resource itself."""
    resources = spec.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(resources, dict) or not isinstance(limits, dict):
        return
    holders = [*_dicts(spec.get("containers")), *_dicts(spec.get("initContainers"))]
    named = {name for holder in holders for name in _own(_own(holder, "resources"), "requests")}
    requests = resources.get("requests")
    if requests is None or isinstance(requests, dict):
        resources["requests"] = {**{name: value for name, value in limits.items() if name not in named}, **(requests or {})}


def _resolve_priority(pod: str, spec: Raw, priority_class: Callable[[str], Raw | None]) -> None:
    name = spec.get("priorityClassName") or ""
    if not isinstance(name, str):
        return  # validation names it
    found = priority_class(name)
    if found is None and name and spec.get("priority") is None:
        raise no_priority_class(pod, name)
    found = found or {}
    if not name and "metadata" in found:
        spec["priorityClassName"] = found["metadata"]["name"]
    if spec.get("priority") is None:
        spec["priority"] = found.get("value", 0)
    if spec.get("preemptionPolicy") is None:
        spec["preemptionPolicy"] = found.get("preemptionPolicy") or "PreemptLowerPriority"


def _begin_status(status: Raw, spec: Raw, now: str) -> None:
    runs = bool(spec.get("nodeName"))
    status.setdefault("phase", "Running" if runs else "Pending")
    given = status.get("conditions") or []
    conditions = _dicts(given)
    if not isinstance(given, list) or len(conditions) < len(given):
        return  # validation names it
    if runs:
        status.setdefault("startTime", now)
        status["conditions"] = scheduled(conditions, now)
    elif spec.get("schedulingGates") and all(condition.get("type") != "PodScheduled" for condition in conditions):
        status["conditions"] = [*conditions, dict(_GATED)]
