"""The texts with which quotas refuse pods (elasticquota.md §8), as the reference has them but for the order of resources (DEV-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.quota import OVER_LIMIT, OVER_MIN, QuotaPod, QuotaRequest
from koordsched.api.koordinator.quota_definitions import FIXED_USED, amount_text, annotated_amounts, runtime_text
from koordsched.framework.status import error, unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from koordsched.framework.status import Status
    from koordsched.plugins.elasticquota.manager import CountedPod, Quota

OVER_LIMIT_TEXT = (
    "Insufficient quotas, quotaName: {name}, runtime: {limit}, used: {used}, pod's request: {request}, exceedDimensions: {over}"
)
OVER_MIN_TEXT = (
    "Insufficient non-preemptible quotas, quotaName: {name}, min: {limit}, nonPreemptibleUsed: {used}, pod's request: {request}, "
    "exceedDimensions: {over}"
)
OVER_ANCESTORS_LIMIT_TEXT = (
    "Insufficient quotas, quotaNameTopo: {name}, runtime: {limit}, used: {used}, pod's request: {request}, exceedDimensions: {over}"
)
HOOK_TEXT = "CheckPod failed for hook plugin {key}, err: {text}"
NO_TREE_TEXT = "Could not find the specified ElasticQuotaManager for quota: {name}, tree: {tree}"
NO_ANCESTOR_TEXT = "Could not find the elasticQuota {name}, quotaNameTopo: {topology}"
EMPTY = "<empty>"


def over_own_limit(counted: CountedPod, refusal: int, held: Mapping[str, int] | None = None) -> Status:
    """Refuse a pod whose own quota has no room; refusal: OVER_LIMIT or OVER_MIN. held: what pods of its group take before it."""
    quota, kernel = counted.quota, counted.quota.manager.kernel
    if refusal == OVER_MIN:
        text, limit, used = OVER_MIN_TEXT, shown(quota.definition.min), _used(quota, "fixed_used")
    else:
        text, limit, used = OVER_LIMIT_TEXT, _limit(quota), _used(quota, "used")
    entry = counted.entry
    if held:
        limited = quota.definition.max
        used = {name: used.get(name, 0) + held.get(name, 0) for name in used.keys() | (held.keys() & limited.keys())}
        together = {name: held.get(name, 0) + counted.requests.get(name, 0) for name in held.keys() | counted.requests.keys()}
        entry = QuotaPod(quota.row, QuotaRequest(kernel, together), fixed=entry.fixed)
    over = kernel.exceeded(entry, quota.row, refusal)
    return unschedulable(
        text.format(name=quota.name, limit=limit, used=shown(used), request=shown(counted.limited_requests()), over=_dimensions(over))
    )


def over_ancestors_limit(counted: CountedPod, ancestor: Quota) -> Status:
    topology = []
    for quota in counted.quota.manager.path(counted.quota):
        topology.append(quota.name)
        if quota is ancestor:
            break
    over = counted.quota.manager.kernel.exceeded(counted.entry, ancestor.row, OVER_LIMIT)
    return unschedulable(
        OVER_ANCESTORS_LIMIT_TEXT.format(
            name=_dimensions(reversed(topology)),
            limit=_limit(ancestor),
            used=shown(_used(ancestor, "used")),
            request=shown(counted.limited_requests()),
            over=_dimensions(over),
        )
    )


def refused_by_hook(key: str, text: str) -> Status:
    return unschedulable(HOOK_TEXT.format(key=key, text=text))


def no_tree(quota: Quota) -> Status:
    return error(NO_TREE_TEXT.format(name=quota.name, tree=quota.manager.tree_id))


def no_ancestor(name: str, below: Iterable[str]) -> Status:
    return error(NO_ANCESTOR_TEXT.format(name=name, topology=_dimensions([name, *below])))


def shown(amounts: Mapping[str, int], text_of: Callable[[str, int], str] = amount_text) -> str:
    """Write amounts as the reference does in its messages."""
    return ",".join(sorted(f"{name}:{text_of(name, amount)}" for name, amount in amounts.items())) or EMPTY


def _used(quota: Quota, column: str) -> Mapping[str, int]:
    """Return what is used, with 0 of what was used once, as the object of the quota says: the reference goes on naming it."""
    amounts, obj = quota.amounts(column), quota.obj
    if obj is None:
        return amounts
    named: Iterable[str] = obj.status.used
    if column == "fixed_used":
        named = annotated_amounts(obj.metadata.annotations, FIXED_USED, []) or ()
    return {**dict.fromkeys(named, 0), **amounts}


def _limit(quota: Quota) -> str:
    return shown(quota.limit(), runtime_text if quota.manager.kernel.by_runtime else amount_text)


def _dimensions(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"
