"""What must hold whenever nothing is under way, counted from nothing but what the API server says and without the scheduler's arithmetic.

CPUs and devices are counted by `support.cpu_recount` and `support.device_recount`; here are nodes with what is reserved on them, what
Reservations and quotas say of themselves, and pods that wait although there is room.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from churn.cluster import NODES, PODS, Json
from side_by_side.koordinator import METRICS
from support.controlplane.rest import Rest
from support.cpu_recount import recount_cpus
from support.device_recount import quantity, recount_devices
from support.placements import Placements

from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.network_topology import TOPOLOGY_SPEC
from koordsched.api.koordinator.quota_definitions import PARENT, QUOTA_NAME
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED
from soak.objects import GANG, KIND, PLAIN, POD_GROUPS, QUOTAS, RESERVATIONS

COUNTED = ("cpu", "memory")
USAGE_THRESHOLD, ESTIMATED_PART = Fraction(65, 100), Fraction(85, 100)
"""LoadAwareScheduling refuses a node above this part of its CPUs in use, with pods that are not measured yet taken for this part of what
they ask for (the chart's arguments)."""

Amounts = dict[str, Fraction]


class Listing(NamedTuple):
    """The objects of a moment. `metrics`: by node."""

    nodes: dict[str, Json]
    pods: list[Json]
    reservations: list[Json]
    quotas: list[Json]
    groups: list[Json]
    metrics: dict[str, Json]

    @property
    def bound(self) -> list[Json]:
        return [pod for pod in self.pods if pod["spec"].get("nodeName")]


def listing(rest: Rest) -> Listing:
    def items(path: str) -> list[Json]:
        return list(rest.get(path)["items"])

    return Listing(
        {node["metadata"]["name"]: node for node in items(NODES)},
        items(PODS),
        items(RESERVATIONS),
        items(QUOTAS),
        items(POD_GROUPS),
        {metric["metadata"]["name"]: metric for metric in items(METRICS)},
    )


def violations(rest: Rest, placements: Placements) -> list[str]:
    """Return what does not hold, as sentences."""
    found, cpus, devices = listing(rest), recount_cpus(rest), recount_devices(rest)
    return [
        *(f"CPUs sold twice: {each}" for each in cpus.sold_twice()),
        *(f"CPUs not as requested: {each}" for each in cpus.not_as_requested()),
        *(f"devices given twice: {each}" for each in devices.given_twice()),
        *(f"devices not as requested: {each}" for each in devices.not_as_requested()),
        *oversold(found),
        *wrong_reservations(found),
        *wrong_quotas(found),
        *forgotten(found),
        *(f"{story.name} was on {' then '.join(node or 'no node' for node in story.nodes)}" for story in placements.strayed()),
    ]


def requested(pod: Json) -> Amounts:
    """Add up what the pod's containers ask for of what is counted, and of devices in whole."""
    total: Amounts = defaultdict(Fraction)
    for container in pod["spec"]["containers"]:
        for name, amount in container.get("resources", {}).get("requests", {}).items():
            total[name] += quantity(amount)
    return total


def owners(found: Listing) -> dict[str, list[Json]]:
    """Return the bound pods that say which Reservation they were given, by its uid."""
    linked: dict[str, list[Json]] = defaultdict(list)
    for pod in found.bound:
        link = json.loads(pod["metadata"].get("annotations", {}).get(RESERVATION_ALLOCATED) or "{}")
        if link:
            linked[link["uid"]].append(pod)
    return linked


def available(found: Listing) -> Iterator[tuple[Json, Amounts, list[Json]]]:
    """Yield the Reservations that hold room, with the amounts, and their owners."""
    linked = owners(found)
    for each in found.reservations:
        status = each.get("status", {})
        if status.get("phase") == "Available":
            yield each, _amounts(status.get("allocatable", {})), linked.get(each["metadata"]["uid"], [])


def free_room(found: Listing) -> dict[str, Amounts]:
    """Return what pods, and Reservations for owners who have not come yet, leave of each node; less than nothing where it is oversold."""
    free = {name: _amounts(node["status"]["allocatable"]) for name, node in found.nodes.items()}
    for pod in found.bound:
        if (left := free.get(pod["spec"]["nodeName"])) is not None:
            _take(left, {**requested(pod), "pods": Fraction(1)})
    for each, held, used_by in available(found):
        if (left := free.get(each["status"]["nodeName"])) is not None:
            _take(left, {name: max(amount - used, Fraction()) for name, amount, used in _compared(held, _sum(used_by))})
    return free


def oversold(found: Listing) -> Iterator[str]:
    """Name nodes on which more is in use or reserved than there is, whatever the resource."""
    for name, left in free_room(found).items():
        if lacking := {resource: str(amount) for resource, amount in left.items() if amount < 0}:
            yield f"{name} is oversold: {lacking} left"


def wrong_reservations(found: Listing) -> Iterator[str]:
    """Name Reservations that gave more than they have, or whose status is not what their owners' annotations say."""
    for each, held, used_by in available(found):
        name, status, used = each["metadata"]["name"], each["status"], _sum(used_by)
        for resource, has, given in _compared(held, used):
            if given > has:
                yield f"{name} gave {given} {resource} of {has}"
            said = quantity(status.get("allocated", {}).get(resource, 0))
            if said != given:
                yield f"{name} says that {said} {resource} are allocated, its owners have {given}"
        said_owners = sorted(owner["uid"] for owner in status.get("currentOwners", []))
        if said_owners != sorted(pod["metadata"]["uid"] for pod in used_by):
            yield f"{name} names {len(said_owners)} owners, {len(used_by)} pods have it in their annotation, and not the same"


def wrong_quotas(found: Listing) -> Iterator[str]:
    """Name quotas that use more than their max, or whose status is not what their pods come to."""
    quotas = {quota["metadata"]["name"]: quota for quota in found.quotas}
    used: dict[str, Amounts] = defaultdict(lambda: defaultdict(Fraction))
    for pod in found.bound:
        name = pod["metadata"].get("labels", {}).get(QUOTA_NAME, "")
        while name in quotas:
            _take(used[name], {resource: -amount for resource, amount in requested(pod).items()})
            name = quotas[name]["metadata"].get("labels", {}).get(PARENT, "")
    for name, quota in quotas.items():
        if name.startswith("koordinator-"):  # of the scheduler's own: what is in no other quota
            continue
        for resource in COUNTED:
            amount, said = used[name][resource], quantity(quota.get("status", {}).get("used", {}).get(resource, 0))
            most = quantity(quota["spec"]["max"][resource])
            if amount > most:
                yield f"{name} uses {amount} {resource} of at most {most}"
            if amount != said:
                yield f"{name} says that {said} {resource} are used, its pods have {amount}"


def forgotten(found: Listing) -> Iterator[str]:
    """Name plain pods, and members that a gang of which others are bound still lacks, that wait though a node has room whatever the load
    there is estimated to be."""
    free = free_room(found)
    for pod in found.pods:  # room for which others have been evicted
        nominated = pod["status"].get("nominatedNodeName")
        if nominated in free and not pod["spec"].get("nodeName"):
            _take(free[nominated], requested(pod))
    for pod in waiting_for_room(found):
        wanted = {**requested(pod), "pods": Fraction(1)}
        for name, node in found.nodes.items():
            fits = all(free[name].get(resource, Fraction()) >= amount for resource, amount in wanted.items())
            if fits and is_open(node) and busiest(found, name) + ESTIMATED_PART * wanted["cpu"] < USAGE_THRESHOLD * _cpus(node):
                yield f"{pod['metadata']['name']} is pending though {name} has room for it"
                break


def waiting_for_room(found: Listing) -> Iterator[Json]:
    """Yield the pending pods that may go to every open node."""
    begun = {pod["metadata"]["labels"][POD_GROUP_LABEL] for pod in found.bound if POD_GROUP_LABEL in pod["metadata"].get("labels", {})}
    tied = {group["metadata"]["name"] for group in found.groups if TOPOLOGY_SPEC in group["metadata"].get("annotations", {})}
    for pod in found.pods:
        labels = pod["metadata"].get("labels", {})
        kind, gang = labels.get(KIND), labels.get(POD_GROUP_LABEL)
        if not pod["spec"].get("nodeName") and (kind == PLAIN or (kind == GANG and gang in begun - tied)):
            yield pod


def busiest(found: Listing, node: str) -> Fraction:
    """Return the most CPUs that the scheduler may take to be in use on a node: what is measured, and besides the estimate of every pod."""
    measured = found.metrics.get(node, {}).get("status", {}).get("nodeMetric", {}).get("nodeUsage", {}).get("resources", {})
    pods = _sum([pod for pod in found.bound if pod["spec"]["nodeName"] == node])
    return quantity(measured.get("cpu", 0)) + ESTIMATED_PART * pods["cpu"]


def is_open(node: Json) -> bool:
    return not node["spec"].get("unschedulable") and not node["spec"].get("taints")


def _cpus(node: Json) -> Fraction:
    return quantity(node["status"]["allocatable"]["cpu"])


def _sum(pods: list[Json]) -> Amounts:
    total: Amounts = defaultdict(Fraction)
    for pod in pods:
        _take(total, {name: -amount for name, amount in requested(pod).items()})
    return total


def _compared(amounts: Amounts, others: Mapping[str, Fraction]) -> list[tuple[str, Fraction, Fraction]]:
    """Return amounts of what is counted, each with the other one."""
    return [(name, amounts.get(name, Fraction()), others.get(name, Fraction())) for name in COUNTED]


def _amounts(written: Mapping[str, Any]) -> Amounts:
    return {name: quantity(amount) for name, amount in written.items()}


def _take(left: Amounts, amounts: Mapping[str, Fraction]) -> None:
    for name, amount in amounts.items():
        left[name] = left.get(name, Fraction()) - amount
