"""Which changes are worth a trial for a pod that a scheduler knows: what its gang and quotas, the pod itself, and nodes could be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from koordsched._core.fit import free_amounts
from koordsched.api.kinds import RESERVATION
from koordsched.cache.columns import CORDON
from koordsched.framework.limits import LimitsPlugin
from koordsched.framework.pod_diagnosis import names_of
from koordsched.scheduler.suggestions.column_trials import HOSTNAME
from koordsched.scheduler.suggestions.group_changes import MOST_MEMBERS, MembersAdded, MinimumLowered, QuotaRaised
from koordsched.scheduler.suggestions.node_changes import NodesAdded, NodesPatched, PodsRemoved
from koordsched.scheduler.suggestions.pod_changes import (
    MEBI,
    MOST_RESERVATIONS,
    REQUIRED,
    containers,
    ownerships,
    pod_changes,
    request_in_all,
    requests_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from koordsched.api.core import Taint
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.columns import Columns
    from koordsched.framework.interface import GangNeeds
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.suggestions.changes import Change
    from koordsched.slices import Slices

Json = dict[str, Any]

AVAILABLE = "Available"
RESERVATIONS_A_STEP = 256
MOST_TEMPLATES = 8
"""Kinds of nodes of which one more is tried."""


async def possible_changes(context: SchedulerContext, pod: PodInfo, body: Json, needs: GangNeeds | None, work: Slices) -> list[Change]:
    """Return them in the order in which they are tried. body: the pod as JSON has it; needs: of its gang."""
    cache, spec = context.cache, body["spec"]
    sets = _taint_sets(cache.columns)
    own = [tuple((taint.key, taint.value, taint.effect) for taint in each if taint is not CORDON) for each in sets]
    found: list[Change] = [*_gang_changes(needs), *_quota_changes(context, pod, spec)]
    found += pod_changes(body, own, list(context.profiles), len(cache.pods))
    found += ownerships(body, await _reservations(context, work))
    if any(CORDON in each for each in sets):
        found.append(NodesPatched())
    found += [NodesPatched(label=(key, value)) for key, value in (spec.get("nodeSelector") or {}).items() if key != HOSTNAME]
    most = 1 if needs is None else max(needs.needed, 1)
    found += [NodesAdded(name, most) for name in await _templates(cache, spec, work)]
    return [*found, PodsRemoved()] if cache.pods else found


async def _reservations(context: SchedulerContext, work: Slices) -> list[Json]:
    """Return the Reservations that have a node, as JSON has what is looked at of them."""
    if not any(informer.kind is RESERVATION for informer in context.informers):
        return []
    found = list[Json]()
    for i, each in enumerate(list(context.informers.of(RESERVATION).store.values())):
        if i % RESERVATIONS_A_STEP == 0:
            await work.pause()
        if each.status.phase == AVAILABLE and len(found) < MOST_RESERVATIONS:
            owners = msgspec.json.decode(msgspec.json.encode(each.spec.owners))
            found.append({"metadata": {"name": each.metadata.name}, "spec": {"owners": owners}})
    return found


def _taint_sets(columns: Columns) -> list[tuple[Taint, ...]]:
    """Return the different sets of taints that nodes have."""
    ids = np.unique(columns.table.attributes_of(columns.taint_set_attribute, columns.table.live_rows())).tolist()
    return [tuple(columns.taints.names[taint] for taint in columns.taint_sets.names[each]) for each in ids]


async def _templates(cache: Cache, spec: Json, work: Slices) -> list[str]:
    """Return one node of each kind of nodes, the most frequent kinds first: of those that are equal in what the pod looks at, one with the
    fewest pods, which have to be left out when a new node like it is tried."""
    columns, table = cache.columns, cache.columns.table
    rows = table.live_rows()
    if not len(rows):
        return []
    kinds = np.zeros(len(rows), np.int64)
    labels = (columns.labels.get(key) for key in _keys_asked_for(spec))
    attributes = [columns.taint_set_attribute, *(label.attribute for label in labels if label is not None)]
    for values in (table.attributes_of(attribute, rows) for attribute in attributes):
        kinds = _joined(kinds, values)
    for column in _asked_columns(columns, spec):
        await work.pause()
        if table.live_rows() is not rows:
            return await _templates(cache, spec, work)  # a node came or went
        kinds = _joined(kinds, np.array([table.allocatable_of(row, column) for row in rows.tolist()]))
    free = free_amounts(table, [columns.resources["pods"]], rows)[0]
    order = np.lexsort((-free, kinds))
    _, first, counts = np.unique(kinds[order], return_index=True, return_counts=True)
    frequent = first[np.argsort(-counts, kind="stable")][:MOST_TEMPLATES]
    return names_of(rows[order[frequent]], cache.infos)


def _joined(kinds: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.int64]:
    """Return other numbers for kinds that differ in these values, too."""
    distinct, places = np.unique(values, return_inverse=True)
    joined: NDArray[np.int64] = np.unique(kinds * len(distinct) + places, return_inverse=True)[1].astype(np.int64)
    return joined


def _asked_columns(columns: Columns, spec: Json) -> list[int]:
    """Return the columns of the resources that the pod asks for."""
    named = {resource for each in containers(spec) for resource in requests_of(each)}
    known = (columns.resources.get(resource) for resource in sorted(named | {"cpu", "memory"}))
    return [column for column in known if column is not None]


def _keys_asked_for(spec: Json) -> list[str]:
    """Return the keys of labels by which the pod chooses nodes."""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    expressions = [each for term in required.get("nodeSelectorTerms") or () for each in term.get("matchExpressions") or ()]
    return sorted({*(spec.get("nodeSelector") or {}), *(str(each.get("key")) for each in expressions)} - {HOSTNAME})


def _gang_changes(needs: GangNeeds | None) -> Iterator[Change]:
    if needs is None:
        return
    yield MembersAdded(needs.gang, min(max(needs.minimum - needs.present, 1), MOST_MEMBERS))
    if needs.minimum > 1:
        yield MinimumLowered(needs.gang, needs.namespace, needs.gang if needs.of_pod_group else "", needs.minimum)


def _quota_changes(context: SchedulerContext, pod: PodInfo, spec: Json) -> Iterator[Change]:
    profile = context.profiles.get(pod.pod.spec.scheduler_name)
    limiting = [] if profile is None else [each for each in profile.made.values() if isinstance(each, LimitsPlugin)]
    for limit in (limit for plugin in limiting for limit in plugin.limits_of(pod)):
        wanted = request_in_all(spec, limit.resource)
        step = MEBI if wanted >= MEBI else 1
        levels = max(-(-(limit.used + (MOST_MEMBERS + 1) * wanted) // step), 1)
        for with_min in (False, True):
            yield QuotaRaised(
                limit.namespace, limit.quota, limit.resource, limit.most, step, levels, limit.written, limit.holders, with_min
            )
