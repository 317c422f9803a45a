"""Changes of what a pod shares with others: members of its gang, limits of its quota."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.kinds import ELASTIC_QUOTA, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import GANG_NAME, LIGHTWEIGHT_LABEL, LIGHTWEIGHT_MIN, MIN_AVAILABLE, POD_GROUP_LABEL
from koordsched.api.koordinator.pods import amount_text
from koordsched.api.koordinator.quota_definitions import DEFAULT_QUOTA, NAMESPACES, PARENT, QUOTA_NAME
from koordsched.api.quantity import format_of
from koordsched.cluster.port import Patch, Ref
from koordsched.explain.pod_changes import MEBI, amount_of, containers, request_in_all, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koordsched.cluster.memory import MemoryCluster
    from koordsched.explain.trials import Change, Draft

Json = dict[str, Any]

MOST_HOLDERS = 3
MOST_MEMBERS = 64


def group_changes(body: Json, base: MemoryCluster, members: int) -> list[Change]:
    """Return the changes of the pod's gang and quotas. members: how many of its gang are pending."""
    return [*_gang_changes(body, base, members), *_quota_changes(body, base)]


class MembersAdded(msgspec.Struct, frozen=True):
    """More pods like this one in its gang."""

    gang: str
    levels: int
    kind: str = "addMembers"

    async def apply(self, draft: Draft, level: int) -> None:
        body = draft.pods[draft.pod]
        for i in range(level):
            name = f"{body['metadata']['name']}-added-{i + 1}"
            metadata = {**body["metadata"], "name": name}
            draft.pods[f"{metadata['namespace']}/{name}"] = {**msgspec.to_builtins(body), "metadata": metadata}

    def text(self, level: int) -> str:
        return f"create {level} more member{'s' if level > 1 else ''} of gang {self.gang}"

    def fields(self, level: int) -> Json:
        return {"gang": self.gang, "members": level}


class MinimumLowered(msgspec.Struct, frozen=True):
    """A gang that needs fewer members. pod_group: the name of its PodGroup; else the members' own label or annotation says the number."""

    gang: str
    namespace: str
    pod_group: str
    present: int
    kind: str = "gangMinimum"

    @property
    def levels(self) -> int:
        return self.present - 1

    async def apply(self, draft: Draft, level: int) -> None:
        least = self.present - level
        if self.pod_group:
            await draft.cluster.patch(Ref(POD_GROUP, self.namespace, self.pod_group), Patch({"spec": {"minMember": least}}))
        for body in draft.pods.values():
            for section, key in (("labels", LIGHTWEIGHT_MIN), ("annotations", MIN_AVAILABLE)):
                if key in (body["metadata"].get(section) or {}):
                    body["metadata"][section][key] = str(least)

    def text(self, level: int) -> str:
        return f"lower the minimum of gang {self.gang} from {self.present} to {self.present - level} members"

    def fields(self, level: int) -> Json:
        return {"gang": self.gang, "from": self.present, "to": self.present - level}


class QuotaRaised(msgspec.Struct, frozen=True):
    """More of a resource in a quota's max. step: what one level adds. holders: pods that use most of it."""

    namespace: str
    quota: str
    resource: str
    present: int
    step: int
    levels: int
    written: Any
    holders: tuple[tuple[str, int], ...]
    with_min: bool = False
    kind: str = "quota"

    async def apply(self, draft: Draft, level: int) -> None:
        ref = Ref(ELASTIC_QUOTA, self.namespace, self.quota)
        text = self._shown(self._to(level))
        spec: Json = {"max": {self.resource: text}}
        if self.with_min:
            least = (draft.cluster.raw(ref)["spec"].get("min") or {}).get(self.resource, 0)
            spec["min"] = {self.resource: self._shown(amount_of(self.resource, least) + level * self.step)}
        await draft.cluster.patch(ref, Patch({"spec": spec}))

    def _to(self, level: int) -> int:
        return self.present + level * self.step

    def text(self, level: int) -> str:
        holders = ", ".join(f"{pod} {self._shown(amount)}" for pod, amount in self.holders)
        what = "max and min" if self.with_min else "max"
        added = self._shown(level * self.step)
        text = f"raise {what} of quota {self.quota} by {added} of {self.resource}, max to {self._shown(self._to(level))}"
        return f"{text} (held by {holders})" if holders else text

    def fields(self, level: int) -> Json:
        return {
            "quota": self.quota,
            "resource": self.resource,
            "from": self._shown(self.present),
            "to": self._shown(self._to(level)),
            "min": self.with_min,
            "holders": [{"pod": pod, "holds": self._shown(amount)} for pod, amount in self.holders],
        }

    def _shown(self, amount: int) -> str:
        return amount_text(self.resource, amount, self.written)


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
