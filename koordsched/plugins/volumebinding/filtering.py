"""What a pod's claims mean for nodes: compiled once for a shape, then evaluated on rows.

For each row: whether the bound volumes can be used from it; which available volume each delayed claim gets; and whether its class can
provision one where there is none. Claims get their volumes in the order of their sizes, and no volume goes to two of them.
Reference: FindPodVolumes in plugins/volumebinding/binder.go of Kubernetes v1.35, FindMatchingVolume in
k8s.io/component-helpers/storage/volume at v0.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched.api.quantity import units
from koordsched.api.volume_matching import can_hold, suits
from koordsched.api.volumes import NO_PROVISIONER, is_for
from koordsched.plugins.volumebinding.topology import NO_CANDIDATE, CandidatesPerRow, class_topology, volume_topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koordsched.api.core import PersistentVolume
    from koordsched.cache.nodes import Nodes
    from koordsched.plugins.volumebinding.claims import DelayedClaim, PodClaims
    from koordsched.plugins.volumebinding.inventory import SizedVolume, StoragePool, VolumeInventory
    from koordsched.plugins.volumebinding.state import VolumeState

# Reasons are bits of a code; several may hold at once. In the order in which they are reported.
NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_NOT_FOUND = 1, 2, 4, 8

REASONS = {
    NODE_CONFLICT: "node(s) didn't match PersistentVolume's node affinity",
    BIND_CONFLICT: "node(s) didn't find available persistent volumes to bind",
    NOT_ENOUGH_SPACE: "node(s) did not have enough free storage",
    VOLUME_NOT_FOUND: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}

NO_VOLUME = -1


class BindingDecision(msgspec.Struct, frozen=True):
    """What a delayed claim gets on a node: an available volume, or (None) one that is to be provisioned."""

    claim: DelayedClaim
    volume: PersistentVolume | None


class ClaimDecisions(msgspec.Struct, frozen=True):
    """Codes per row; and for each delayed claim, in the compiled order, the number of its volume and the rank of its pool per row."""

    codes: NDArray[np.int32]
    volumes: list[NDArray[np.int32]]
    pools: list[NDArray[np.int32]]


class CompiledClaims:
    """A pod's claims, ready to be evaluated on rows. Valid as long as the plugin's version for the pod is the same."""

    def __init__(self, state: VolumeState, claims: PodClaims) -> None:
        self._state = state
        self.bound = claims.bound
        numbers: dict[str, int] = {}
        ordered = sorted(claims.delayed, key=lambda claim: (not claim.selected, 0 if claim.selected else claim.request.size or 0))
        self.delayed = [_CompiledClaim(state, claim, numbers, len(ordered)) for claim in ordered]
        found = {candidate.name: candidate.volume for each in self.delayed for candidate in each.candidates}
        self.volumes: list[PersistentVolume] = [found[name] for name in numbers]

    def evaluate(self, nodes: Nodes) -> ClaimDecisions:
        """Decide for the rows. O(rows x kinds of topologies)."""
        rows = nodes.rows
        verdict = _RowCodes(rows, self._bound_codes(rows))
        self._refuse_other_than_selected(nodes, verdict)
        volumes: list[NDArray[np.int32]] = []
        for each in self.delayed:
            volumes.append(each.choose(rows, volumes))
        pools = [each.provision(verdict, number) for each, number in zip(self.delayed, volumes, strict=True)]
        return ClaimDecisions(verdict.codes, volumes, pools)

    def decisions(self, found: ClaimDecisions, index: int) -> list[BindingDecision]:
        """Return what each delayed claim gets on the index-th row that was evaluated."""
        numbers = [int(volumes[index]) for volumes in found.volumes]
        return [
            BindingDecision(each.claim, None if number == NO_VOLUME else self.volumes[number])
            for each, number in zip(self.delayed, numbers, strict=True)
        ]

    def _bound_codes(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the codes of the bound claims: the first whose volume is missing or cannot be used from the row decides."""
        codes = np.zeros(len(rows), np.int32)
        for claim in self.bound:
            volume = self._state.objects.volumes.get(claim.spec.volume_name)
            if volume is None:
                codes[codes == 0] = VOLUME_NOT_FOUND
                break
            topology = volume_topology(volume)
            if topology is not None:
                codes[(codes == 0) & ~self._state.topologies.matches(topology, rows)] = NODE_CONFLICT
        return codes

    def _refuse_other_than_selected(self, nodes: Nodes, verdict: _RowCodes) -> None:
        """Refuse the rows of other nodes than the one that a claim is being provisioned for."""
        names = nodes.columns.name_column
        for each in self.delayed:
            if each.claim.selected:
                selected = names.values.ids.get(each.claim.selected, -1)
                verdict.refuse(verdict.undecided & (nodes.table.attributes_of(names.attribute, nodes.rows) != selected), BIND_CONFLICT)


class _RowCodes:
    """The codes of the rows so far, and the rows where no delayed claim is refused yet."""

    __slots__ = ("codes", "rows", "undecided")

    def __init__(self, rows: NDArray[np.int32], codes: NDArray[np.int32]) -> None:
        self.rows = rows
        self.codes = codes
        self.undecided = np.ones(len(rows), np.bool_)

    def refuse(self, refused: NDArray[np.bool_], reason: int) -> None:
        self.codes[refused] |= reason
        self.undecided[refused] = False


class _CompiledClaim:
    """One delayed claim: the available volumes that suit it, the best first, and the pools that its class can provision from."""

    def __init__(self, state: VolumeState, claim: DelayedClaim, numbers: dict[str, int], depth: int) -> None:
        self.claim = claim
        self._topologies = state.topologies
        self.candidates = [] if claim.selected else _candidates(state.inventory, claim)
        self._numbers = np.array([numbers.setdefault(each.name, len(numbers)) for each in self.candidates], np.int32)
        self._volumes_per_row = CandidatesPerRow(state.topologies, [each.topology for each in self.candidates], depth)
        storage_class = state.objects.classes[claim.storage_class]
        self._can_provision = storage_class.provisioner not in {"", NO_PROVISIONER}
        self._class_topology = class_topology(storage_class)
        self.pools: list[StoragePool] | None = None  # None: the driver's storage is not counted
        driver = state.drivers.get(storage_class.provisioner)
        if claim.request.size is not None and driver is not None and driver.spec.storage_capacity:
            wanted = units(claim.request.size)
            self.pools = [pool for pool in state.inventory.pools(claim.storage_class) if pool.limit >= wanted]
            self._pools_per_row = CandidatesPerRow(state.topologies, [pool.topology for pool in self.pools], 1)

    def choose(self, rows: NDArray[np.int32], taken: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
        """Return per row the number of the best volume that no other claim has taken there, or NO_VOLUME."""
        if not self.candidates:
            return np.full(len(rows), NO_VOLUME, np.int32)
        ranks = self._volumes_per_row.ranks(rows)
        for others in taken:
            numbers = np.where(ranks == NO_CANDIDATE, NO_VOLUME, self._numbers[np.minimum(ranks, len(self.candidates) - 1)])
            ranks = np.where((numbers == others) & (numbers != NO_VOLUME), np.int32(NO_CANDIDATE), ranks)
        best = ranks.min(axis=0)
        chosen = self._numbers[np.minimum(best, len(self.candidates) - 1)]
        return np.where(best == NO_CANDIDATE, np.int32(NO_VOLUME), chosen)

    def provision(self, verdict: _RowCodes, number: NDArray[np.int32]) -> NDArray[np.int32]:
        """Refuse undecided rows where the claim has no volume (number) and none can be provisioned; return the pool that each row uses."""
        rows = verdict.rows
        needed = verdict.undecided & (number == NO_VOLUME)
        pool = np.full(len(rows), NO_CANDIDATE, np.int32)
        if not needed.any():
            return pool
        able = self._topologies.matches(self._class_topology, rows) if self._can_provision else np.zeros(len(rows), np.bool_)
        verdict.refuse(needed & ~able, BIND_CONFLICT)
        if self.pools is not None:
            pool = self._pools_per_row.ranks(rows).min(axis=0)
            verdict.refuse(needed & able & (pool == NO_CANDIDATE), NOT_ENOUGH_SPACE)
        return pool


def _candidates(inventory: VolumeInventory, claim: DelayedClaim) -> list[SizedVolume]:
    """Return the volumes that suit the claim, nodes aside, the best first.

    A volume that is prebound to the claim is the only one: on nodes from which it cannot be used the claim gets no other available volume.
    """
    for found in inventory.prebound_to(claim.key, claim.storage_class):
        assumed = inventory.assumed.claim_of(found.name) == claim.key
        if (assumed or is_for(found.volume, claim.object)) and can_hold(found.volume, found.size, claim.request):
            return [found]
    return [found for found in inventory.available(claim.storage_class) if suits(found.volume, found.size, claim.request)]
