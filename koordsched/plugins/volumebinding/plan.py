"""What a pod's claims mean for nodes: compiled once for a shape, then asked about rows.

For each row: whether the bound volumes can be reached; which free volume each waiting claim would get; and whether the class can make one
where there is none. Claims get their volumes in the order of their sizes, and no volume goes to two of them.
Reference: FindPodVolumes in plugins/volumebinding/binder.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched.api.quantity import units
from koordsched.api.volumes import NO_PROVISIONER, claim_class, is_bound
from koordsched.plugins.volumebinding.matching import candidates
from koordsched.plugins.volumebinding.places import NO_RANK, Place, Ranks, class_place, volume_place

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched.api.core import PersistentVolume
    from koordsched.api.meta import Object
    from koordsched.api.storage import CSIDriver
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.volumes import VolumeObjects
    from koordsched.plugins.volumebinding.claims import Delayed, PodClaims
    from koordsched.plugins.volumebinding.places import Selectors
    from koordsched.plugins.volumebinding.supply import Offer, Pool, Supply

# Reasons are bits of a code; several may hold at once. In the order in which they are told.
NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_NOT_FOUND = 1, 2, 4, 8

REASONS = {
    NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    VOLUME_NOT_FOUND: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}

NO_VOLUME = -1


class World(msgspec.Struct, frozen=True):
    """What plans are made of."""

    objects: VolumeObjects
    drivers: Mapping[str, CSIDriver]
    supply: Supply
    selectors: Selectors

    def version_of(self, key: str) -> Hashable:
        """Return a value that differs when a plan with the claim may. O(1)."""
        claim = self.objects.claims.get(key)
        if claim is None:
            return None
        if is_bound(claim):
            return _version(claim), _version(self.objects.volumes.get(claim.spec.volume_name))
        name = claim_class(claim)
        storage_class = self.objects.classes.get(name)
        if storage_class is None:
            return _version(claim), None
        driver = self.drivers.get(storage_class.provisioner)
        promised = self.supply.assumed.node_of(key), self.supply.assumed.volume_of(key)
        return _version(claim), _version(storage_class), _version(driver), self.supply.version(key, name), promised


def _version(obj: Object | None) -> str:
    return "" if obj is None else obj.metadata.resource_version


class Choice(msgspec.Struct, frozen=True):
    """What a waiting claim gets on a node: a volume that is there, or (None) one that is to be made."""

    delayed: Delayed
    volume: PersistentVolume | None


class Outcome(msgspec.Struct, frozen=True):
    """Codes per row; and for each waiting claim, in the plan's order, the number of its volume and the rank of its pool per row."""

    codes: NDArray[np.int32]
    volumes: list[NDArray[np.int32]]
    pools: list[NDArray[np.int32]]


class _Verdict:
    """What is known of the rows so far: codes, and where the waiting claims are not refused yet."""

    __slots__ = ("codes", "rows", "undecided")

    def __init__(self, rows: NDArray[np.int32], codes: NDArray[np.int32]) -> None:
        self.rows = rows
        self.codes = codes
        self.undecided = np.ones(len(rows), np.bool_)

    def refuse(self, refused: NDArray[np.bool_], reason: int) -> None:
        self.codes[refused] |= reason
        self.undecided[refused] = False


class _Waiting:
    """One waiting claim: what it could be given, and what its class could make."""

    def __init__(self, world: World, delayed: Delayed, numbers: dict[str, int], depth: int) -> None:
        self.delayed = delayed
        self._selectors = world.selectors
        offers = [] if delayed.selected else candidates(world.supply, delayed)
        self.offers: list[Offer] = offers
        self._numbers = np.array([numbers.setdefault(offer.name, len(numbers)) for offer in offers], np.int32)
        self._ranks = Ranks(world.selectors, [offer.place for offer in offers], depth)
        storage_class = world.objects.classes[delayed.storage_class]
        self.can_provision = storage_class.provisioner not in {"", NO_PROVISIONER}
        self.place: Place = class_place(storage_class)
        self.pools = _pools(world, delayed, storage_class.provisioner)
        self._pool_ranks = None if self.pools is None else Ranks(world.selectors, [pool.place for pool in self.pools], 1)

    def choose(self, rows: NDArray[np.int32], taken: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
        """Return per row the number of the best volume that no other claim has taken there, or NO_VOLUME."""
        ranks = self._ranks.at(rows)
        if not self.offers:
            return np.full(len(rows), NO_VOLUME, np.int32)
        for others in taken:
            numbers = np.where(ranks == NO_RANK, NO_VOLUME, self._numbers[np.minimum(ranks, len(self.offers) - 1)])
            ranks = np.where((numbers == others) & (numbers != NO_VOLUME), np.int32(NO_RANK), ranks)
        best = ranks.min(axis=0)
        chosen: NDArray[np.int32] = np.where(best == NO_RANK, np.int32(NO_VOLUME), self._numbers[np.minimum(best, len(self.offers) - 1)])
        return chosen

    def provision(self, verdict: _Verdict, number: NDArray[np.int32]) -> NDArray[np.int32]:
        """Refuse undecided rows where the claim has no volume (number) and none can be made; return the pool that each row would use."""
        rows = verdict.rows
        needed = verdict.undecided & (number == NO_VOLUME)
        pool = np.full(len(rows), NO_RANK, np.int32)
        if not needed.any():
            return pool
        able = self._selectors.reaches(self.place, rows) if self.can_provision else np.zeros(len(rows), np.bool_)
        verdict.refuse(needed & ~able, BIND_CONFLICT)
        if self._pool_ranks is not None:
            pool = self._pool_ranks.at(rows).min(axis=0)
            verdict.refuse(needed & able & (pool == NO_RANK), NOT_ENOUGH_SPACE)
        return pool


def _pools(world: World, delayed: Delayed, provisioner: str) -> list[Pool] | None:
    driver = world.drivers.get(provisioner)
    if delayed.request.size is None or driver is None or not driver.spec.storage_capacity:
        return None
    wanted = units(delayed.request.size)
    return [pool for pool in world.supply.pools(delayed.storage_class) if pool.limit >= wanted]


class Plan:
    """A pod's claims, ready to be asked about rows. True as long as the plugin's version is."""

    def __init__(self, world: World, claims: PodClaims) -> None:
        self._world = world
        self.bound = claims.bound
        numbers: dict[str, int] = {}
        ordered = sorted(claims.delayed, key=lambda delayed: (not delayed.selected, 0 if delayed.selected else delayed.request.size or 0))
        self.waiting = [_Waiting(world, delayed, numbers, len(ordered)) for delayed in ordered]
        found = {offer.name: offer.volume for waiting in self.waiting for offer in waiting.offers}
        self.volumes: list[PersistentVolume] = [found[name] for name in numbers]

    def ask(self, nodes: Nodes) -> Outcome:
        """Answer for the rows. O(rows x kinds of places)."""
        verdict = _Verdict(nodes.rows, self._reach_bound(nodes.rows))
        self._keep_selected(nodes, verdict)
        volumes: list[NDArray[np.int32]] = []
        for waiting in self.waiting:
            volumes.append(waiting.choose(nodes.rows, volumes))
        pools = [waiting.provision(verdict, number) for waiting, number in zip(self.waiting, volumes, strict=True)]
        return Outcome(verdict.codes, volumes, pools)

    def choices(self, outcome: Outcome, index: int) -> list[Choice]:
        """Return what each waiting claim gets on the index-th row that was asked about."""
        numbers = [int(volumes[index]) for volumes in outcome.volumes]
        return [
            Choice(waiting.delayed, None if number == NO_VOLUME else self.volumes[number])
            for waiting, number in zip(self.waiting, numbers, strict=True)
        ]

    def _reach_bound(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """The first bound claim whose volume is missing or out of reach decides."""
        codes = np.zeros(len(rows), np.int32)
        for claim in self.bound:
            volume = self._world.objects.volumes.get(claim.spec.volume_name)
            if volume is None:
                codes[codes == 0] = VOLUME_NOT_FOUND
                break
            place = volume_place(volume)
            if place is not None:
                codes[(codes == 0) & ~self._world.selectors.reaches(place, rows)] = NODE_CONFLICT
        return codes

    def _keep_selected(self, nodes: Nodes, verdict: _Verdict) -> None:
        """A claim that is being provisioned for a node cannot be used on another."""
        names = nodes.columns.name_column
        for waiting in self.waiting:
            if waiting.delayed.selected:
                there = names.values.ids.get(waiting.delayed.selected, -1)
                verdict.refuse(verdict.undecided & (nodes.table.attributes_of(names.attribute, nodes.rows) != there), BIND_CONFLICT)
