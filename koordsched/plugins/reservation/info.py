"""One reservation: what it has, and what its owners have taken (reservation.md §4)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from koordsched.api.koordinator.node_reservation import NODE_RESERVATION, NodeReservation
from koordsched.api.koordinator.operating_pods import has_current_owner
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.koordinator.reservation_links import RESTRICTED_OPTIONS, reservation_order, restricted_options
from koordsched.api.quantity import QuantityError, milli_value, value
from koordsched.api.resources import DEFAULT_MEMORY, DEFAULT_MILLI_CPU, shared_resources

if TYPE_CHECKING:
    from koordsched.api.core import ResourceList
    from koordsched.api.koordinator.reservations import Reservation
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.resources import PodResources

DEFAULT, ALIGNED, RESTRICTED = "", "Aligned", "Restricted"
AVAILABLE = "Available"
NO_SLOT = -1
KEPT_NAMES = 256  # sets of names that reservations share
KEPT_AMOUNTS = 1024  # amounts that are left of reservations, and that they have
MANY_WRITTEN = 32  # amounts of more resources are not kept
NOTHING: Mapping[str, int] = MappingProxyType({})
NO_OWNERS: Mapping[str, PodInfo] = MappingProxyType({})
"""Stand for what most reservations do not have: an empty dict of each costs 64 bytes."""


class ReservationInfo:
    """A reservation on a node. Amounts by name: cpu in milli, others in whole units.

    `pod` stands for all of it; `counted` is what the cache counts of it: that pod with what its owners have left, None while nothing is.
    """

    __slots__ = (
        "available",
        "counted",
        "has_owners",
        "node_name",
        "order",
        "owners",
        "pod",
        "problem",
        "reservation",
        "reserved",
        "slot",
        "taints",
        "taken",
        "uid",
        "used",
    )

    def __init__(self, reservation: Reservation, pod: PodInfo) -> None:
        """pod: what stands for it; a pod of the cluster where the reservation was made of that."""
        self.uid = reservation.metadata.uid
        self.node_name = reservation.status.node_name
        self.owners: Mapping[str, PodInfo] = NO_OWNERS  # by uid
        self.counted: PodInfo | None = None
        self.has_owners = False  # whether it says who may be one, so that it can be read
        self.slot = NO_SLOT
        self.read(reservation, pod)

    def read(self, reservation: Reservation, pod: PodInfo) -> None:
        """Take over a newer state of the object. pod: what stands for it."""
        meta, spec, status = reservation.metadata, reservation.spec, reservation.status
        self.reservation = reservation
        self.pod = pod
        self.available = status.phase == AVAILABLE
        self.taints = tuple([taint for taint in spec.taints if taint.effect in {"NoSchedule", "NoExecute"}]) if spec.taints else ()
        self.order = reservation_order(meta.labels)
        self.used = self.operating and has_current_owner(meta.annotations)
        self.taken = _nothing_taken_of(
            status.allocatable if self.available and not self.operating else None,
            pod.resources,
            meta.annotations.get(RESTRICTED_OPTIONS) if self.policy == RESTRICTED or self.operating else None,
        )
        self.problem = self.taken.of.problem
        self.reserved = _reserved_inside(meta.annotations)
        for owner in self.owners.values():
            self.count(owner, 1)

    # What the object says, or what is one object for many, is not kept a second time: there may be tens of thousands

    @property
    def name(self) -> str:
        return self.reservation.metadata.name

    @property
    def created(self) -> str:
        return self.reservation.metadata.creation_timestamp or ""

    @property
    def policy(self) -> str:
        return self.reservation.spec.allocate_policy

    @property
    def allocate_once(self) -> bool:
        return self.reservation.spec.allocate_once

    @property
    def unschedulable(self) -> bool:
        return self.reservation.spec.unschedulable

    @property
    def terminating(self) -> bool:
        return self.reservation.metadata.deletion_timestamp is not None

    @property
    def operating(self) -> bool:
        """Whether it is a pod of the cluster, which is `pod` then."""
        return self.pod.reservation is None

    @property
    def allocatable(self) -> dict[str, int]:
        return self.taken.of.allocatable

    @property
    def resource_names(self) -> frozenset[str]:
        """What it restricts, its ResourceNames."""
        return self.taken.of.names

    @property
    def matchable(self) -> bool:
        """Whether pods may become owners: there is capacity, and an AllocateOnce reservation has no owner yet (D2)."""
        is_free = not (self.allocate_once and self.owners) and not self.used
        return self.available and not self.problem and self.has_owners and is_free

    @property
    def held(self) -> bool:
        """Whether the cache counts what owners have left of it: not of one that waits; always of a pod, which is there in any case."""
        return self.available or self.operating

    @property
    def returned(self) -> frozenset[str]:
        """The resources that an owner's end gives back to the reservation, so that strangers do not find them free."""
        return self.resource_names if self.held else frozenset()

    @property
    def overdrawn(self) -> bool:
        """Whether owners have taken more of a resource than there is, from what is free besides (Default, Aligned)."""
        return self.taken.overdrawn

    @property
    def allocated(self) -> Mapping[str, int]:
        """What owners have taken of `resource_names`, no zeros; may be more than allocatable."""
        return self.taken.amounts

    def put_owner(self, pod: PodInfo) -> None:
        """Note an owner, or a newer state of it. What it takes is counted apart."""
        if not isinstance(self.owners, dict):
            self.owners = {}
        self.owners[pod.uid] = pod

    def drop_owner(self, uid: str) -> PodInfo:
        """Forget an owner, and return it. KeyError. What it takes is counted apart."""
        if not isinstance(self.owners, dict):
            raise KeyError(uid)
        owner: PodInfo = self.owners.pop(uid)
        if not self.owners:
            self.owners = NO_OWNERS
        return owner

    def count(self, owner: PodInfo, sign: int) -> None:
        """Add what an owner takes (1), or take it off again (-1)."""
        self.taken = _taken_after(self.taken, owner.resources, sign)

    def left(self) -> PodInfo:
        """Return the pod that stands for what is left: of each amount what its owners have not taken, at least 0 (D1), and of its ports."""
        pod = self.pod
        if not self.owners:
            return pod
        left = pod.with_pod(pod.pod)
        left.resources = self.taken.left
        if pod.ports:
            used = {port for owner in self.owners.values() for port in owner.ports}
            left.ports = tuple(port for port in pod.ports if port not in used)
        return left


class Amounts:
    """What a reservation has. Not to be changed: it is one object for the reservations of one template mostly."""

    __slots__ = ("allocatable", "names", "problem", "whole")

    def __init__(self, allocatable: dict[str, int], names: frozenset[str], problem: str, whole: PodResources) -> None:
        self.allocatable = allocatable
        self.names = names  # of what it restricts, its ResourceNames
        self.problem = problem  # why either cannot be read, "" if they can
        self.whole = whole  # what the cache counts of it when nothing is taken


class Taken:
    """What owners have taken of a reservation, and what they have left of it. Not to be changed.

    What owners of one template take of reservations of one template is added up once, for all of these.
    """

    __slots__ = ("_left", "amounts", "of", "overdrawn")

    def __init__(self, of: Amounts, amounts: Mapping[str, int]) -> None:
        self.of = of
        self.amounts = amounts  # of `of.names`, no zeros
        self.overdrawn = any(amount > of.allocatable[name] for name, amount in amounts.items())
        self._left: PodResources | None = None

    @property
    def left(self) -> PodResources:
        """What the cache counts, at least 0 of each resource."""
        if self._left is None:
            whole, taken = self.of.whole, self.amounts
            requests = {name: left for name, amount in whole.requests.items() if (left := amount - min(taken.get(name, 0), amount))}
            cpu = max(whole.nonzero_cpu - taken.get("cpu", DEFAULT_MILLI_CPU), 0)
            memory = max(whole.nonzero_memory - taken.get("memory", DEFAULT_MEMORY), 0)
            self._left = shared_resources(requests, cpu, memory, cpu, memory)
        return self._left


@lru_cache(maxsize=KEPT_AMOUNTS)
def _taken_after(before: Taken, owner: PodResources, sign: int) -> Taken:
    """Return what is taken once an owner of these resources has come (1) or gone (-1)."""
    amounts, names = dict(before.amounts), before.of.names
    for name, amount in owner.requests.items():
        if name in names:
            taken = amounts.get(name, 0) + sign * amount
            if taken:
                amounts[name] = taken
            else:
                del amounts[name]
    return _taken(before.of, tuple(amounts.items()))


@lru_cache(maxsize=KEPT_AMOUNTS)
def _taken(of: Amounts, amounts: tuple[tuple[str, int], ...]) -> Taken:
    """Return one object for equal amounts, so that what follows them is found however they came about."""
    return Taken(of, dict(amounts))


@lru_cache(maxsize=KEPT_NAMES)
def _shared(names: frozenset[str]) -> frozenset[str]:
    """Return one object for equal names."""
    return names


def same_amounts(one: PodInfo, other: PodInfo) -> bool:
    """Answer whether two pods are counted alike."""
    return one.resources is other.resources and one.ports == other.ports


def amounts_of(resources: ResourceList) -> dict[str, int]:
    """Return the amounts of all resources, `pods` included. QuantityError."""
    return {name: milli_value(quantity) if name == "cpu" else value(quantity) for name, quantity in resources.items()}


_known: dict[tuple[int, int, str | None], tuple[ResourceList | None, PodResources, Taken]] = {}
"""By the ids of what is read, which is held so that these stay theirs: Reservations of one template have the very same objects."""


def _nothing_taken_of(written: ResourceList | None, requested: PodResources, options: str | None) -> Taken:
    """Return that nothing is taken of the amounts that a status has written, None: that the pod requests.

    options: the annotation that says which of them are restricted, as far as it is read.
    """
    key = (id(written), id(requested), options)
    found = _known.get(key)
    if found is None:
        amounts, names, problem = _read_amounts(written, requested.requests, options)
        own = None if amounts is requested.requests else tuple(amounts.items())
        if written is not None and len(written) > MANY_WRITTEN:
            return _nothing_taken.__wrapped__(requested, own, names, problem)
        nothing = _nothing_taken(requested, own, names, problem)
        if len(_known) >= KEPT_AMOUNTS:
            _known.clear()
        found = _known[key] = (written, requested, nothing)
    return found[2]


def _read_amounts(
    written: ResourceList | None, requested: dict[str, int], options: str | None
) -> tuple[dict[str, int], frozenset[str], str]:
    """Return what a reservation has, the names of what it restricts, and why either cannot be read."""
    problem = ""
    try:
        amounts = requested if written is None else amounts_of(written)
    except QuantityError as error:
        problem, amounts = f"status.allocatable: {error}", {}
    if amounts == requested:
        amounts = requested
    names = frozenset(amounts)
    if options:
        try:
            names &= frozenset(restricted_options({RESTRICTED_OPTIONS: options})) or names
        except Malformed as error:
            problem = str(error)
    return amounts, _shared(names), problem


@lru_cache(maxsize=KEPT_AMOUNTS)
def _nothing_taken(whole: PodResources, own: tuple[tuple[str, int], ...] | None, names: frozenset[str], problem: str) -> Taken:
    """Return one object for equal reservations. own: the amounts of the status, None where they are those that the pod requests."""
    return Taken(Amounts(whole.requests if own is None else dict(own), names, problem, whole), NOTHING)


def _reserved_inside(annotations: dict[str, str]) -> Mapping[str, int]:
    """Return what the reservation keeps from its owners; nothing where the annotation cannot be read, or says less (reservation.md §18)."""
    if not annotations.get(NODE_RESERVATION):
        return NOTHING
    try:
        inner = read_annotation(annotations, NODE_RESERVATION, NodeReservation)
        if inner is None:
            return NOTHING
        amounts = amounts_of(inner.resources)
        if inner.reserved_cpus:
            amounts["cpu"] = 1000 * inner.cpus.bit_count()
    except (Malformed, QuantityError, ValueError):
        return NOTHING
    return NOTHING if any(amount < 0 for amount in amounts.values()) else amounts
