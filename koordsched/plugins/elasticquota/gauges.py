"""Gauges of quotas (elasticquota.md §12): read off the state when they are asked for, so those of a deleted quota are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.koordinator.quota_definitions import UNSCHEDULABLE_RESOURCE, annotated_amounts, metric_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koordsched.framework.handle import Handle
    from koordsched.plugins.elasticquota.manager import Quota
    from koordsched.plugins.elasticquota.state import QuotaState

LABELS = ("name", "resource", "tree", "is_parent", "parent", "field")
STATUS_FIELDS = {
    "request": "request",
    "child-request": "child_request",
    "guaranteed": "guaranteed",
    "allocated": "allocated",
    "non-preemptible-request": "fixed_request",
    "non-preemptible-used": "fixed_used",
    "used": "used",
    "min": "min",
    "max": "max",
    "sharedWeight": "weight",
}
"""The kernel's column of each value of the label `field`, beside `runtime` and `unschedulable-resource`."""
SPEC_FIELDS = {"min": "min", "max": "max"}


def register_gauges(handle: Handle, state: QuotaState) -> None:
    """Register the gauges."""
    handle.metrics.gauge_table("scheduler_elastic_quota_status", "elastic quota status", LABELS, lambda: status_values(state))
    handle.metrics.gauge_table("scheduler_elastic_quota_spec", "elastic quota spec", LABELS, lambda: spec_values(state))


def status_values(state: QuotaState) -> Mapping[tuple[str, ...], float]:
    """Return all values by their labels."""
    found: dict[tuple[str, ...], float] = {}
    for quota in _with_objects(state):
        for field, column in STATUS_FIELDS.items():
            _add(found, quota, field, quota.amounts(column))
        _add(found, quota, "runtime", quota.runtimes())
        if quota.definition.tree_total is not None and quota.obj is not None:
            _add(found, quota, UNSCHEDULABLE_RESOURCE.rpartition("/")[2], _unschedulable(quota))
    return found


def spec_values(state: QuotaState) -> Mapping[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for quota in _with_objects(state):
        for field, column in SPEC_FIELDS.items():
            _add(found, quota, field, quota.amounts(column))
    return found


def _with_objects(state: QuotaState) -> Iterator[Quota]:
    return (quota for quota in state.quotas.values() if quota.obj is not None)


def _unschedulable(quota: Quota) -> Mapping[str, int]:
    assert quota.obj is not None
    return annotated_amounts(quota.obj.metadata.annotations, UNSCHEDULABLE_RESOURCE, []) or {}


def _add(found: dict[tuple[str, ...], float], quota: Quota, field: str, amounts: Mapping[str, int]) -> None:
    definition = quota.definition
    is_parent = "true" if definition.is_parent else "false"
    for resource, amount in amounts.items():
        labels = (quota.name, resource, quota.manager.tree_id, is_parent, definition.parent, field)
        found[labels] = metric_value(resource, amount)
