"""What quotas say in labels and annotations (elasticquota.md §1), and how amounts of them are written.

Every reader adds a line to `problems` for what it cannot read; what then counts instead takes nothing from other quotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.core import Quantity
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.quantity import NANO_PER_MILLI, NANO_PER_UNIT, QuantityError, QuantityFormat, nano, quantity_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.quotas import ElasticQuota

ROOT_QUOTA = "koordinator-root-quota"
SYSTEM_QUOTA = "koordinator-system-quota"
DEFAULT_QUOTA = "koordinator-default-quota"
ALWAYS_THERE = frozenset({ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA})

PREFIX = "quota.scheduling.koordinator.sh/"
# Labels of quotas
IS_PARENT = PREFIX + "is-parent"
PARENT = PREFIX + "parent"
ALLOW_LENT = PREFIX + "allow-lent-resource"
TREE_ID = PREFIX + "tree-id"
IS_ROOT = PREFIX + "is-root"
IGNORE_DEFAULT_TREE = PREFIX + "ignore-default-tree"
# Labels of pods
QUOTA_NAME = PREFIX + "name"
PREEMPTIBLE = PREFIX + "preemptible"
# Annotations that users and Koordinator's manager write
SHARED_WEIGHT = PREFIX + "shared-weight"
NAMESPACES = PREFIX + "namespaces"
TOTAL_RESOURCE = PREFIX + "total-resource"
UNSCHEDULABLE_RESOURCE = PREFIX + "unschedulable-resource"
# Annotations that the scheduler writes
RUNTIME = PREFIX + "runtime"
REQUEST = PREFIX + "request"
CHILD_REQUEST = PREFIX + "child-request"
FIXED_REQUEST = PREFIX + "non-preemptible-request"
FIXED_USED = PREFIX + "non-preemptible-used"
GUARANTEED = PREFIX + "guaranteed"
ALLOCATED = PREFIX + "allocated"

TRUE, FALSE = "true", "false"
_KIBI = 1024

Amounts = dict[str, int]
"""By resource, in nano-units: exact, as sums of quantities are."""


class QuotaDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """What a quota's object says, mistakes replaced. weight: the shared weight, else max. lends: whether min is lent while unused."""

    parent: str
    tree_id: str
    max: Amounts
    min: Amounts
    weight: Amounts
    is_parent: bool = False
    lends: bool = True
    namespaces: tuple[str, ...] = ()
    tree_total: Amounts | None = None  # of a tree's root: what the tree has; None: it is no root, or does not say
    ignores_default_tree: bool = False

    @classmethod
    def read(cls, quota: ElasticQuota, problems: list[str]) -> QuotaDefinition:
        """Read a quota; a line for each mistake is added to the problems.

        An amount that is no quantity, or negative, counts as 0. A weight that cannot be read, is absent or all 0 is max; namespaces that
        cannot be read are none, and so is a total.
        """
        labels, annotations = quota.metadata.labels, quota.metadata.annotations
        most = _amounts(quota.spec.max, "spec.max", problems)
        least = _amounts(quota.spec.min, "spec.min", problems)
        problems += [
            f"spec.min[{name}]: {quota.spec.min[name]} is more than spec.max has: {quota.spec.max[name]}"
            for name in sorted(least.keys() & most.keys())
            if least[name] > most[name]
        ]
        total = None
        if labels.get(IS_ROOT) == TRUE and labels.get(TREE_ID):
            total = annotated_amounts(annotations, TOTAL_RESOURCE, problems)
        return cls(
            parent=parent_name(quota),
            tree_id=labels.get(TREE_ID, ""),
            max=most,
            min=least,
            weight=_weight(annotations, most, problems),
            is_parent=labels.get(IS_PARENT) == TRUE,
            lends=labels.get(ALLOW_LENT) != FALSE,
            namespaces=_strings(annotations, NAMESPACES, problems),
            tree_total=total,
            ignores_default_tree=labels.get(IGNORE_DEFAULT_TREE) == TRUE,
        )


def parent_name(quota: ElasticQuota) -> str:
    """Return the name of the parent; "" for the root."""
    return "" if quota.metadata.name == ROOT_QUOTA else quota.metadata.labels.get(PARENT) or ROOT_QUOTA


def is_non_preemptible(pod: Pod) -> bool:
    return pod.metadata.labels.get(PREEMPTIBLE) == FALSE


def annotated_amounts(annotations: Mapping[str, str], key: str, problems: list[str]) -> Amounts | None:
    """Return the resource list that an annotation holds, in nano-units; None when it is absent or cannot be read."""
    if not annotations.get(key):
        return None
    try:
        written = read_annotation(annotations, key, dict[str, Quantity | None])
    except Malformed as error:
        problems.append(str(error))
        return None
    return _amounts({name: quantity or 0 for name, quantity in (written or {}).items()}, key, problems)


def list_text(amounts: Mapping[str, int], text_of: Callable[[str, int], str]) -> str:
    """Write amounts as the JSON of annotations: sorted keys, canonical quantities."""
    return msgspec.json.encode({name: text_of(name, amounts[name]) for name in sorted(amounts)}).decode()


def amount_text(resource: str, nanos: int) -> str:
    """Write an amount in nano-units that pods ask for or use: bytes as BinarySI where they are whole KiB, all else as DecimalSI."""
    in_bytes = resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-") or resource.endswith("memory")
    units, rest = divmod(nanos, NANO_PER_UNIT)
    binary = in_bytes and not rest and units % _KIBI == 0
    return quantity_text(nanos, QuantityFormat.BINARY_SI if binary else QuantityFormat.DECIMAL_SI)


def runtime_text(resource: str, nanos: int) -> str:
    """Write a runtime, in nano-units: memory as BinarySI, everything else as DecimalSI."""
    return quantity_text(nanos, QuantityFormat.BINARY_SI if resource == "memory" else QuantityFormat.DECIMAL_SI)


def metric_value(resource: str, nanos: int) -> float:
    """Return an amount in nano-units as gauges show it: cpu in milli-cores, everything else in whole units."""
    return nanos / (NANO_PER_MILLI if resource == "cpu" else NANO_PER_UNIT)


def _weight(annotations: Mapping[str, str], most: Amounts, problems: list[str]) -> Amounts:
    written = annotated_amounts(annotations, SHARED_WEIGHT, problems)
    return written if written and any(written.values()) else most


def amount_of(quantity: Quantity | None) -> int | None:
    """Return an amount in nano-units; None: it is no quantity."""
    try:
        return nano(quantity)
    except (QuantityError, TypeError):  # TypeError: a list or an object
        return None


def readable_amounts(written: Mapping[str, Quantity]) -> Amounts:
    """Return those amounts of a resource list that are quantities."""
    return {name: amount for name, quantity in written.items() if (amount := amount_of(quantity)) is not None}


def _amounts(written: Mapping[str, Quantity], path: str, problems: list[str]) -> Amounts:
    found = {}
    for name, quantity in written.items():
        amount = amount_of(quantity)
        if amount is None:
            problems.append(f"{path}[{name}]: {QuantityError(quantity).problem}, so it counts as 0")
        elif amount < 0:
            problems.append(f"{path}[{name}]: less than nothing, so it counts as 0: {quantity}")
        found[name] = max(amount or 0, 0)
    return found


def _strings(annotations: Mapping[str, str], key: str, problems: list[str]) -> tuple[str, ...]:
    if not annotations.get(key):
        return ()
    try:
        return tuple(read_annotation(annotations, key, list[str]) or ())
    except Malformed as error:
        problems.append(str(error))
        return ()
