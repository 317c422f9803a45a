"""All facts of a cache as plain values: equal caches are described equally."""

from __future__ import annotations

from typing import Any

from koordsched.api.resources import HostPort
from koordsched.cache.cache import Cache
from koordsched.cache.columns import BASE_RESOURCES, CORDON
from koordsched.cache.nodes import NodeInfo


def described(cache: Cache) -> dict[str, dict[str, Any]]:
    """Return all facts by node name, read back from the columns."""
    return {name: _described(cache, info) for name, info in sorted(cache.nodes_by_name.items())}


def ports_on_row(cache: Cache, row: int) -> set[HostPort]:
    """Return the host ports that the columns hold of a row."""
    return {port for used in cache.columns.host_ports.lists() if cache.table.has_bit(used.bit, row) for port in used.ports}


def _described(cache: Cache, info: NodeInfo) -> dict[str, Any]:
    columns, table, row = cache.columns, cache.table, info.row
    named = columns.resources.keys() | {name for pod in info.pods.values() for name in pod.resources.requests}
    resources = {name: (info.allocatable(name), info.requested(name)) for name in sorted(named)}
    labels = {key: column.values.names[table.attribute_of(column.attribute, row)] for key, column in columns.labels.items()}
    taints = [columns.taints.names[i] for i in columns.taint_sets.names[table.attribute_of(columns.taint_set_attribute, row)]]
    ports = {port for pod in info.pods.values() for port in pod.ports} if info.shares_row else ports_on_row(cache, row)
    return {
        "live": table.is_live(row),
        "resources": {name: pair for name, pair in resources.items() if name in BASE_RESOURCES or any(pair)},
        "labels": {key: value for key, value in labels.items() if table.attribute_of(columns.labels[key].attribute, row)},
        "taints": [(taint.key, taint.value, taint.effect) for taint in taints if taint != CORDON],
        "cordoned": CORDON in taints,
        "images": sorted(name for name, image in columns.images.items() if table.has_bit(image.bit, row)),
        "ports": sorted(ports),
        "pods": sorted(info.pods),
    }
