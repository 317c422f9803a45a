"""The root quota of a tree that an ElasticQuotaProfile makes of nodes: Koordinator's profile controller (elasticquota.md §14).

`profile_writes` says what is to be written for one profile. Who calls it does so when the profile changes and every 10 seconds, and reports
a write that fails in an event on the profile.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.koordinator.quota_definitions import IS_ROOT, PREFIX, TOTAL_RESOURCE, TREE_ID, TRUE, UNSCHEDULABLE_RESOURCE
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.quantity import (
    MAX_INT64,
    NANO_PER_MILLI,
    NANO_PER_UNIT,
    QuantityError,
    QuantityFormat,
    format_of,
    millis,
    nano,
    quantity_text,
    units,
)
from koordsched.api.selectors import label_selector_matcher
from koordsched.quotas.rules import QuotaRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from koordsched.api.core import Node, ResourceList
    from koordsched.api.koordinator.quotas import ElasticQuota, ElasticQuotaProfile

Json = dict[str, Any]

PROFILE = PREFIX + "profile"
RESOURCE_KEYS = PREFIX + "resource-keys"
DEFAULT_KEYS = ("cpu", "memory")
MAX_OF_ROOT = str(MAX_INT64 // 2000)
"""What a tree's root may use of each resource: as good as unlimited."""

_FNV_OFFSET, _FNV_PRIME, _64_BITS = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_RATIO = re.compile(r"[+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)


class ProfileWrites(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be written; None where nothing is.

    profile_labels: to merge into those of the profile, first of all. create: the quota as a whole. patch: what a merge patch changes of it.
    """

    profile_labels: Mapping[str, str] | None
    create: Json | None = None
    patch: Json | None = None


def profile_writes(profile: ElasticQuotaProfile, nodes: Iterable[Node], quota: ElasticQuota | None) -> ProfileWrites:
    """Work out the root quota of a profile. quota: as it is, None where there is none. SelectorError: the node selector is wrong."""
    labels, annotations, spec = _root_quota(profile, nodes)
    profile_labels = None if profile.metadata.labels.get(TREE_ID) else {TREE_ID: labels[TREE_ID]}
    if quota is None:
        metadata = {
            "name": profile.spec.quota_name,
            "namespace": profile.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
        }
        head = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
        return ProfileWrites(profile_labels=profile_labels, create={**head, "metadata": metadata, "spec": spec})
    patch: Json = {}
    changed = {
        "labels": _changed(quota.metadata.labels, labels),
        "annotations": _changed(quota.metadata.annotations, annotations),
    }
    if any(changed.values()):
        patch["metadata"] = {field: texts for field, texts in changed.items() if texts}
    amounts = {"min": _replaced(quota.spec.min, spec["min"]), "max": _replaced(quota.spec.max, spec["max"])}
    if any(amounts.values()):
        patch["spec"] = {field: entries for field, entries in amounts.items() if entries}
    return ProfileWrites(profile_labels=profile_labels, patch=patch or None)


def profile_refusals(profile: ElasticQuotaProfile) -> Iterator[QuotaRefusal]:
    """Yield what the controller cannot use of a profile; what it then takes stands in the detail."""
    if not profile.spec.quota_name:
        yield QuotaRefusal("spec.quotaName", "", "a profile has to name its quota")
    ratio = profile.spec.resource_ratio
    if ratio is not None and _ratio(ratio) is None:
        yield QuotaRefusal("spec.resourceRatio", ratio, 'expected a number above 0 and at most 1, such as "0.9"', "1 counts")
    try:
        _keys(profile)
    except Malformed as malformed:
        counted = ", ".join(DEFAULT_KEYS)
        yield QuotaRefusal(f"metadata.annotations[{RESOURCE_KEYS}]", malformed.value, malformed.problem, f"{counted} count")


def tree_of(profile: ElasticQuotaProfile) -> str:
    """Return the tree that the profile's label names, or that is made of its namespace and name."""
    return profile.metadata.labels.get(TREE_ID) or _fnv_1a(f"{profile.metadata.namespace}/{profile.metadata.name}")


def _root_quota(profile: ElasticQuotaProfile, nodes: Iterable[Node]) -> tuple[dict[str, str], dict[str, str], Json]:
    """Return labels, annotations and spec of the quota as the profile wants them."""
    selects = label_selector_matcher(profile.spec.node_selector).matches
    total, unschedulable = _Total(), _Total()
    for node in nodes:
        if selects(node.metadata.labels):
            total.add(node.status.allocatable)
            if node.spec.unschedulable or not _is_ready(node):
                unschedulable.add(node.status.allocatable)
    ratio = profile.spec.resource_ratio
    share = None if ratio is None else _ratio(ratio) or 1.0
    amounts, lacking = total.texts(share), unschedulable.texts(share)
    try:
        keys = _keys(profile)
    except Malformed:
        keys = DEFAULT_KEYS
    labels = {PROFILE: profile.metadata.name, **profile.spec.quota_labels, TREE_ID: tree_of(profile), IS_ROOT: TRUE}
    annotations = {TOTAL_RESOURCE: _json(amounts), UNSCHEDULABLE_RESOURCE: _json(lacking)}
    return labels, annotations, {"min": {key: amounts.get(key, "0") for key in keys}, "max": dict.fromkeys(keys, MAX_OF_ROOT)}


class _Total:
    """A sum of resource lists, exact; the first amount of a resource that is not 0 says how it is written."""

    def __init__(self) -> None:
        self._nanos: dict[str, int] = {}
        self._formats: dict[str, QuantityFormat] = {}

    def add(self, amounts: ResourceList) -> None:
        for name, quantity in amounts.items():
            try:
                more = nano(quantity)
            except (QuantityError, TypeError):  # an API server takes no such Node
                continue
            if not self._nanos.get(name):
                self._formats[name] = format_of(quantity)
            self._nanos[name] = self._nanos.get(name, 0) + more

    def texts(self, share: float | None) -> dict[str, str]:
        """Return the amounts, or a share of each, cut off to milli-CPUs and to whole units of all else."""
        if share is None:
            return {name: quantity_text(nanos, self._formats[name]) for name, nanos in self._nanos.items()}
        made = {}
        for name, nanos in self._nanos.items():
            part = int(float(millis(nanos)) * share) * NANO_PER_MILLI if name == "cpu" else int(float(units(nanos)) * share) * NANO_PER_UNIT
            made[name] = quantity_text(part, QuantityFormat.BINARY_SI if name == "memory" else QuantityFormat.DECIMAL_SI)
        return made


def _keys(profile: ElasticQuotaProfile) -> Sequence[str]:
    """Return the resources that the quota limits. Malformed: the annotation is no list of texts."""
    annotations = profile.metadata.annotations
    if RESOURCE_KEYS not in annotations:
        return DEFAULT_KEYS
    return tuple(read_annotation(annotations, RESOURCE_KEYS, list[str]) or ())


def _ratio(text: str) -> float | None:
    ratio = float(text) if _RATIO.fullmatch(text) else 0.0
    return ratio if 0.0 < ratio <= 1.0 else None


def _is_ready(node: Node) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in after.items() if before.get(key) != text}


def _replaced(before: ResourceList, after: Mapping[str, str]) -> Json:
    """Return the merge patch that makes a resource list what it must be; equal amounts stay as they are written."""
    changed: Json = {name: None for name in before if name not in after}
    for name, text in after.items():
        if name not in before or _differs(before[name], text):
            changed[name] = text
    return changed


def _differs(written: object, text: str) -> bool:
    try:
        return not isinstance(written, (str, int, float)) or nano(written) != nano(text)
    except QuantityError:
        return True


def _json(amounts: Mapping[str, str]) -> str:
    return msgspec.json.encode({name: amounts[name] for name in sorted(amounts)}).decode()


def _fnv_1a(text: str) -> str:
    """Return the 64-bit FNV-1a hash of a text, in decimal."""
    hashed = _FNV_OFFSET
    for byte in text.encode():
        hashed = (hashed ^ byte) * _FNV_PRIME & _64_BITS
    return str(hashed)
