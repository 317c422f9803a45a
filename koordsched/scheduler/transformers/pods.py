"""What is changed of pods (frameworkext.md §3): resources, priority, preemption policy, scheduler name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from koordsched.api.koordinator.priority import priority_or_default
from koordsched.api.koordinator.reading import Malformed
from koordsched.api.meta import JSON_ERRORS, Object
from koordsched.api.quantity import QuantityError
from koordsched.scheduler.transformers.renaming import DEVICE_RESOURCES, renamed, renamed_by, with_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Pod, ResourceList

Report = Callable[[Object, str], None]
"""Called with an object and what is wrong with it."""

DEVICE_ALLOCATED = "scheduling.koordinator.sh/device-allocated"
REPLACE_RESOURCES = "pod.koordinator.sh/replace-resources"
PREEMPTION_POLICY = "scheduling.koordinator.sh/preemption-policy"
SCHEDULER_NAME = "scheduling.koordinator.sh/scheduler-name"
ORIGINAL_SCHEDULER_NAME = "internal.scheduling.koordinator.sh/original-scheduler-name"
"""Annotation of transformed pods only: spec.schedulerName as it is on the API server."""

NEVER = "Never"
PREEMPTION_POLICIES = frozenset({NEVER, "PreemptLowerPriority"})
ALLOCATION_ERRORS = (*JSON_ERRORS, AttributeError, TypeError)


def rename_pod_resources(names: Mapping[str, str], pod: Pod) -> Pod:
    """Rename resources in requests, limits and overhead."""
    return with_amounts(pod, partial(renamed_by, names))


def rename_allocated_devices(report: Report, pod: Pod) -> Pod:
    """Rename device resources in the annotation that says which devices the pod was given."""
    annotations = pod.metadata.annotations
    text = annotations.get(DEVICE_ALLOCATED)
    if not text or "kubernetes.io/" not in text:
        return pod
    try:
        allocated: dict[str, list[dict[str, Any]]] = msgspec.json.decode(text)
        changed = False
        for devices in allocated.values():
            for device in devices or ():
                before = device.get("resources") or {}
                after = renamed_by(DEVICE_RESOURCES, before)
                if after is not before:
                    device["resources"] = after
                    changed = True
    except ALLOCATION_ERRORS as error:
        report(pod, str(Malformed(DEVICE_ALLOCATED, f"expected lists of devices by type ({error})", text)))
        return pod
    return _annotated(pod, {DEVICE_ALLOCATED: msgspec.json.encode(allocated).decode()}) if changed else pod


def replace_resources(pod: Pod) -> Pod:
    """Drop and rename resources as the pod's annotation says: "a:b,c:" makes a to b and drops c."""
    erased, names = _replacements(pod.metadata.annotations.get(REPLACE_RESOURCES, ""))
    if not erased and not names:
        return pod

    def change(amounts: ResourceList) -> ResourceList:
        kept = amounts if erased.isdisjoint(amounts) else {name: amount for name, amount in amounts.items() if name not in erased}
        return renamed(names, kept)

    return with_amounts(pod, change)


@lru_cache(maxsize=1024)
def _replacements(text: str) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """Return what is dropped, and what is renamed in the order written. Items without exactly one colon say nothing."""
    items = [item.split(":") for item in text.split(",") if item.count(":") == 1]
    pairs = [(old.strip(), new.strip()) for old, new in items]
    return frozenset(old for old, new in pairs if not new), tuple((old, new) for old, new in pairs if new)


def default_priority(report: Report, pod: Pod) -> Pod:
    """Give a pod without a priority, or with 0, the default one of its class."""
    try:
        priority = priority_or_default(pod)
    except QuantityError as error:
        report(pod, f"its priority class cannot be found out, as an amount of its containers cannot be read: {error}")
        priority = 0
    return pod if pod.spec.priority == priority else replace(pod, spec=replace(pod.spec, priority=priority))


def default_preemption_policy(pod: Pod) -> Pod:
    """Take the preemption policy from the pod's label; without one that exists, the pod never preempts."""
    label = pod.metadata.labels.get(PREEMPTION_POLICY, NEVER)
    policy = label if label in PREEMPTION_POLICIES else NEVER
    return pod if pod.spec.preemption_policy == policy else replace(pod, spec=replace(pod.spec, preemption_policy=policy))


def apply_scheduler_name(pod: Pod) -> Pod:
    """Take the scheduler's name from the pod's label, even an empty one."""
    before = pod.spec.scheduler_name
    name = pod.metadata.labels.get(SCHEDULER_NAME, before)
    if name == before:
        return pod
    return replace(_annotated(pod, {ORIGINAL_SCHEDULER_NAME: before}), spec=replace(pod.spec, scheduler_name=name))


def _annotated(pod: Pod, changes: Mapping[str, str]) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, annotations={**pod.metadata.annotations, **changes}))
