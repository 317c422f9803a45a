"""The volume inventory: volumes that are free or prebound to a claim, storage that classes can still provision, and assumed bindings.

Events keep it. `version(class)` counts what changed for claims of a class, so that only plugins' answers that depend on it are computed
again.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import CSI_STORAGE_CAPACITY, PERSISTENT_VOLUME
from koordsched.api.quantity import QuantityError, value
from koordsched.api.volume_matching import AVAILABLE, volume_size
from koordsched.api.volumes import claimed_by, volume_class
from koordsched.cluster.object_store import LatestStateHandler, object_key
from koordsched.log import get_logger
from koordsched.plugins.volumebinding.topology import capacity_topology, volume_topology

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from koordsched.api.core import PersistentVolume
    from koordsched.api.storage import CSIStorageCapacity
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.handle import Handle
    from koordsched.plugins.volumebinding.topology import Topology

log = get_logger(__name__)


class SizedVolume(msgspec.Struct, frozen=True):
    """A volume with its size in nano-bytes, ordered by size and then by name."""

    size: int
    name: str
    volume: PersistentVolume
    topology: Topology


class StoragePool(msgspec.Struct, frozen=True):
    """Storage of a class that is left: the largest volume that can be provisioned and all that is left (bytes), and for which nodes."""

    limit: int
    capacity: int
    topology: Topology


class AssumedBinding(msgspec.Struct, eq=False):
    """A claim that a volume is assumed for, or a node that a claim is assumed to be provisioned for, and the uids of the pods behind it."""

    target: str
    pods: set[str] = msgspec.field(default_factory=set)


class AssumedBindings:
    """Volumes assumed to be bound to claims, and nodes that claims are assumed to be provisioned for, until the cluster shows them.

    A volume is assumed for one claim; a claim has one volume or one node. Several pods may use one claim, so an assumption stays until each
    pod behind it has released it: when the cluster shows the binding, or when the pod did not get its node. Nothing in here survives a
    crash, and need not: no pod is bound before its claims are.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        """changed: called with the name of each volume that was assumed or became free again."""
        self._changed = changed
        self._volumes: dict[str, AssumedBinding] = {}  # by volume: the claim's key
        self._claims: dict[str, str] = {}  # by claim: its volume
        self._nodes: dict[str, AssumedBinding] = {}  # by claim: the node

    def assume_volume(self, volume: str, claim: str, pod: str) -> None:
        """Assume the volume for the claim. ValueError when another claim has it, or the claim another volume."""
        assumed = self._volumes.get(volume)
        if (assumed is not None and assumed.target != claim) or self._claims.get(claim, volume) != volume:
            raise ValueError(f"volume {volume} cannot be promised to claim {claim}: one of them is promised already")
        if assumed is None:
            assumed = self._volumes[volume] = AssumedBinding(claim)
            self._claims[claim] = volume
            self._changed(volume)
        assumed.pods.add(pod)

    def assume_node(self, claim: str, node: str, pod: str) -> None:
        """Assume that the claim is provisioned for the node. ValueError when it is to be provisioned for another."""
        assumed = self._nodes.setdefault(claim, AssumedBinding(node))
        if assumed.target != node:
            raise ValueError(f"claim {claim} cannot be provisioned for {node}: it is to be for {assumed.target}")
        assumed.pods.add(pod)

    def release_volume(self, volume: str, pod: str) -> None:
        assumed = self._volumes.get(volume)
        if assumed is None:
            return
        assumed.pods.discard(pod)
        if not assumed.pods:
            del self._volumes[volume]
            del self._claims[assumed.target]
            self._changed(volume)

    def release_node(self, claim: str, pod: str) -> None:
        assumed = self._nodes.get(claim)
        if assumed is None:
            return
        assumed.pods.discard(pod)
        if not assumed.pods:
            del self._nodes[claim]

    def claim_of(self, volume: str) -> str:
        """Return the key of the claim that the volume is assumed for, or ""."""
        assumed = self._volumes.get(volume)
        return "" if assumed is None else assumed.target

    def volume_of(self, claim: str) -> str:
        return self._claims.get(claim, "")

    def node_of(self, claim: str) -> str:
        """Return the node that the claim is assumed to be provisioned for, or ""."""
        assumed = self._nodes.get(claim)
        return "" if assumed is None else assumed.target


class VolumeInventory:
    """Volumes and storage pools by class, and the assumed bindings."""

    def __init__(self, handle: Handle) -> None:
        self.assumed = AssumedBindings(self._assumption_changed)
        self._available: dict[str, dict[str, SizedVolume]] = {}  # by class: volumes without a claim, by name
        self._prebound: dict[str, dict[str, SizedVolume]] = {}  # by claim: volumes that name it, by name
        self._indexes: dict[str, tuple[dict[str, dict[str, SizedVolume]], str]] = {}  # by volume: which of the two it is in, its key there
        self._pools: dict[str, dict[str, StoragePool]] = {}  # by class, then by the capacity object's key
        self._versions: Counter[str] = Counter()  # stamps of the node table
        self._table = handle.cache.table
        handle.informer(PERSISTENT_VOLUME).add_handler(LatestStateHandler(self.put_volume, self.drop_volume))
        handle.informer(CSI_STORAGE_CAPACITY).add_handler(_CapacityHandler(self))

    def version(self, claim: str, storage_class: str) -> Hashable:
        """Return a value that differs when what the claim can be bound to may. O(volumes that name the claim)."""
        prebound = self._prebound.get(claim)
        named = tuple((name, found.volume.metadata.resource_version) for name, found in prebound.items()) if prebound else ()
        return self._versions[storage_class], named

    def available(self, storage_class: str) -> list[SizedVolume]:
        """Return the volumes of the class that are neither bound nor assumed, the smallest first."""
        volumes = self._available.get(storage_class, {})
        free = (found for name, found in volumes.items() if not self.assumed.claim_of(name))
        return sorted(free, key=lambda each: (each.size, each.name))

    def prebound_to(self, claim: str, storage_class: str) -> list[SizedVolume]:
        """Return the volumes of the class that name the claim, and the one that is assumed for it, by name."""
        found = [each for each in self._prebound.get(claim, {}).values() if volume_class(each.volume) == storage_class]
        assumed = self._available.get(storage_class, {}).get(self.assumed.volume_of(claim))
        return sorted([*found, *([assumed] if assumed else [])], key=lambda each: each.name)

    def pools(self, storage_class: str) -> list[StoragePool]:
        """Return the class's pools in the order of their objects' keys."""
        return [pool for _, pool in sorted(self._pools.get(storage_class, {}).items())]

    # Changes

    def put_volume(self, volume: PersistentVolume) -> None:
        """Index the volume as it is now; a volume whose size cannot be read is left out."""
        self.drop_volume(volume)
        claim = claimed_by(volume)
        if volume.metadata.deletion_timestamp is not None or not (claim or volume.status.phase == AVAILABLE):
            return
        try:
            size = volume_size(volume)
        except QuantityError as error:
            log.error("volume left out: its size cannot be read", volume=volume.metadata.name, err=str(error))
            return
        found = SizedVolume(size, volume.metadata.name, volume, volume_topology(volume))
        index, key = (self._prebound, claim) if claim else (self._available, volume_class(volume))
        index.setdefault(key, {})[found.name] = found
        self._indexes[found.name] = (index, key)
        if index is self._available:
            self._changed(key)

    def drop_volume(self, volume: PersistentVolume) -> None:
        name = volume.metadata.name
        index, key = self._indexes.pop(name, (None, ""))
        if index is None:
            return
        del index[key][name]
        if not index[key]:
            del index[key]
        if index is self._available:
            self._changed(key)

    def put_capacity(self, capacity: CSIStorageCapacity) -> None:
        """Index what is left of a class in a topology; amounts that cannot be read are left out."""
        self.drop_capacity(capacity)
        try:
            limit = storage_limit(capacity)
            left = value(capacity.capacity or 0)
        except QuantityError as error:
            log.error("storage capacity left out: it cannot be read", object=object_key(capacity), err=str(error))
            return
        if limit is not None:
            pool = StoragePool(limit, left, capacity_topology(capacity.node_topology))
            self._pools.setdefault(capacity.storage_class_name, {})[object_key(capacity)] = pool

    def drop_capacity(self, capacity: CSIStorageCapacity) -> None:
        self._pools.get(capacity.storage_class_name, {}).pop(object_key(capacity), None)
        self._changed(capacity.storage_class_name)

    def _changed(self, storage_class: str) -> None:
        self._table.call_on_rewind(partial(self._versions.__setitem__, storage_class, self._versions[storage_class]))
        self._versions[storage_class] = self._table.next_stamp()

    def _assumption_changed(self, volume: str) -> None:
        index, key = self._indexes.get(volume, (self._prebound, ""))
        if index is self._available:
            self._changed(key)


def storage_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return how large a volume can be, in bytes; None when the object names no amount. QuantityError."""
    largest = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return None if largest is None else value(largest)


class _CapacityHandler:
    def __init__(self, inventory: VolumeInventory) -> None:
        self._inventory = inventory

    def on_add(self, obj: CSIStorageCapacity, _arrival: Arrival) -> None:
        self._inventory.put_capacity(obj)

    def on_update(self, old: CSIStorageCapacity, new: CSIStorageCapacity) -> None:
        self._inventory.drop_capacity(old)
        self._inventory.put_capacity(new)

    def on_delete(self, obj: CSIStorageCapacity, _final_state: FinalState) -> None:
        self._inventory.drop_capacity(obj)
