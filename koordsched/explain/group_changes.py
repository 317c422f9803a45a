"""Which changes of a pod's gang and quotas are worth a trial, as the objects of the cluster say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.kinds import ELASTIC_QUOTA, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import GANG_NAME, LIGHTWEIGHT_LABEL, LIGHTWEIGHT_MIN, MIN_AVAILABLE, POD_GROUP_LABEL
from koordsched.api.koordinator.quota_definitions import DEFAULT_QUOTA, NAMESPACES, PARENT, QUOTA_NAME
from koordsched.api.quantity import format_of
from koordsched.scheduler.suggestions.group_changes import MOST_HOLDERS, MOST_MEMBERS, MembersAdded, MinimumLowered, QuotaRaised
from koordsched.scheduler.suggestions.pod_changes import MEBI, amount_of, containers, request_in_all, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koordsched.cluster.memory import MemoryCluster
    from koordsched.scheduler.suggestions.changes import Change

Json = dict[str, Any]


def group_changes(body: Json, base: MemoryCluster, members: int) -> list[Change]:
    """Return the changes of the pod's gang and quotas. members: how many of its gang are pending."""
    return [*_gang_changes(body, base, members), *_quota_changes(body, base)]


def _gang_changes(body: Json, base: MemoryCluster, members: int) -> Iterator[Change]:
    metadata = body["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    gang = labels.get(POD_GROUP_LABEL) or labels.get(LIGHTWEIGHT_LABEL) or annotations.get(GANG_NAME)
    if not gang:
        return
    group = next(
        (raw for raw in base.raws(POD_GROUP) if raw["metadata"]["name"] == gang and raw["metadata"]["namespace"] == metadata["namespace"]),
        None,
    )
    text = labels.get(LIGHTWEIGHT_MIN) or annotations.get(MIN_AVAILABLE) or "0"
    least = int((group.get("spec") or {}).get("minMember") or 0) if group is not None else int(text) if text.isdecimal() else 0
    yield MembersAdded(gang, min(max(least - members, 1), MOST_MEMBERS))
    if least > 1:
        yield MinimumLowered(gang, metadata["namespace"], gang if group is not None else "", least)


def _quota_changes(body: Json, base: MemoryCluster) -> Iterator[Change]:
    quotas = {raw["metadata"]["name"]: raw for raw in base.raws(ELASTIC_QUOTA)}
    own = quota_of(body["metadata"], list(quotas.values()))
    pods = base.raws(POD)
    seen: set[str] = set()
    name = own
    while name in quotas and name not in seen:
        seen.add(name)
        raw = quotas[name]
        most = (raw.get("spec") or {}).get("max") or {}
        below = _below(name, quotas)
        asked = {resource for each in containers(body["spec"]) for resource in requests_of(each)}
        for resource in sorted(asked & most.keys()):
            present = amount_of(resource, most[resource])
            held = [
                (f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", request_in_all(pod["spec"], resource))
                for pod in pods
                if quota_of(pod["metadata"], list(quotas.values())) in below
            ]
            held.sort(key=lambda each: (-each[1], each[0]))
            wanted = request_in_all(body["spec"], resource)
            step = MEBI if wanted >= MEBI else 1
            levels = -(-(sum(amount for _, amount in held) + (MOST_MEMBERS + 1) * wanted) // step)
            holders = tuple(each for each in held[:MOST_HOLDERS] if each[1])
            for with_min in (False, True):
                yield QuotaRaised(
                    raw["metadata"]["namespace"], name, resource, present, step, levels, format_of(most[resource]), holders, with_min
                )
        name = (raw["metadata"].get("labels") or {}).get(PARENT, "")


def quota_of(metadata: Json, quotas: Sequence[Json]) -> str:
    """Return the name of the quota to which a pod belongs (elasticquota.md §4)."""
    named = (metadata.get("labels") or {}).get(QUOTA_NAME)
    known = {raw["metadata"]["name"]: raw for raw in quotas}
    if named:
        return named if named in known else DEFAULT_QUOTA
    namespace = metadata["namespace"]
    if namespace in known and known[namespace]["metadata"]["namespace"] == namespace:
        return str(namespace)
    listing = (name for name in sorted(known) if f'"{namespace}"' in (known[name]["metadata"].get("annotations") or {}).get(NAMESPACES, ""))
    return next(listing, DEFAULT_QUOTA)


def _below(name: str, quotas: dict[str, Json]) -> set[str]:
    """Return the names of a quota and of all those below it."""
    found, grown = {name}, True
    while grown:
        more = {each for each, raw in quotas.items() if (raw["metadata"].get("labels") or {}).get(PARENT) in found} - found
        found |= more
        grown = bool(more)
    return found
