"""What claims can be given: volumes that are free or meant for a claim, and storage that classes can still provision. Kept by events.

`version(class)` counts what changed for claims of a class, so that who depends on it is asked anew, and only then.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.kinds import CSI_STORAGE_CAPACITY, PERSISTENT_VOLUME
from koordsched.api.quantity import QuantityError, value
from koordsched.api.volume_matching import AVAILABLE, volume_size
from koordsched.api.volumes import claimed_by, volume_class
from koordsched.cluster.mirror import object_key
from koordsched.log import get_logger
from koordsched.plugins.volumebinding.assumed import Assumed
from koordsched.plugins.volumebinding.places import selector_place, volume_place

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.core import PersistentVolume
    from koordsched.api.storage import CSIStorageCapacity
    from koordsched.cluster.mirror import Arrival, FinalState
    from koordsched.framework.handle import Handle
    from koordsched.plugins.volumebinding.places import Place

log = get_logger(__name__)


class Offer(msgspec.Struct, frozen=True):
    """A volume with its size in nano-bytes, ordered by size and then by name."""

    size: int
    name: str
    volume: PersistentVolume
    place: Place


class Pool(msgspec.Struct, frozen=True):
    """Storage of a class that is still there: the largest volume that it can give and all that is left (bytes), and where."""

    limit: int
    capacity: int
    place: Place


class Supply:
    """Offers and pools by class, and what of them is promised."""

    def __init__(self, handle: Handle) -> None:
        self.assumed = Assumed(self._promise_changed)
        self._free: dict[str, dict[str, Offer]] = {}  # by class: volumes that nobody has, by name
        self._meant: dict[str, dict[str, Offer]] = {}  # by claim: volumes that name it, by name
        self._places: dict[str, tuple[dict[str, dict[str, Offer]], str]] = {}  # by volume: which of the two it is in, and its key there
        self._pools: dict[str, dict[str, Pool]] = {}  # by class, then by the capacity object's key
        self._versions: Counter[str] = Counter()
        handle.informer(PERSISTENT_VOLUME).add_handler(_Volumes(self))
        handle.informer(CSI_STORAGE_CAPACITY).add_handler(_Capacities(self))

    def version(self, claim: str, storage_class: str) -> Hashable:
        """Return a value that differs when what the claim can be given may. O(volumes that name the claim)."""
        meant = self._meant.get(claim)
        named = tuple((name, offer.volume.metadata.resource_version) for name, offer in meant.items()) if meant else ()
        return self._versions[storage_class], named

    def free(self, storage_class: str) -> list[Offer]:
        """Return the volumes of the class that nobody has or is promised, the smallest first."""
        offers = self._free.get(storage_class, {})
        return sorted((offer for name, offer in offers.items() if not self.assumed.claim_of(name)), key=_by_size)

    def meant_for(self, claim: str, storage_class: str) -> list[Offer]:
        """Return the volumes of the class that name the claim, and the one that is promised to it, by name."""
        found = [offer for offer in self._meant.get(claim, {}).values() if volume_class(offer.volume) == storage_class]
        promised = self._free.get(storage_class, {}).get(self.assumed.volume_of(claim))
        return sorted([*found, *([promised] if promised else [])], key=lambda offer: offer.name)

    def pools(self, storage_class: str) -> list[Pool]:
        """Return the class's pools in the order of their objects' keys."""
        return [pool for _, pool in sorted(self._pools.get(storage_class, {}).items())]

    # Changes

    def put_volume(self, volume: PersistentVolume) -> None:
        """Take note of a volume as it is now."""
        self.drop_volume(volume.metadata.name)
        claim = claimed_by(volume)
        if volume.metadata.deletion_timestamp is not None or not (claim or volume.status.phase == AVAILABLE):
            return
        offer = _offer(volume)
        if offer is None:
            return
        index, key = (self._meant, claim) if claim else (self._free, volume_class(volume))
        index.setdefault(key, {})[offer.name] = offer
        self._places[offer.name] = (index, key)
        if index is self._free:
            self._versions[key] += 1

    def drop_volume(self, name: str) -> None:
        """Forget the volume."""
        place = self._places.pop(name, None)
        if place is None:
            return
        index, key = place
        del index[key][name]
        if not index[key]:
            del index[key]
        if index is self._free:
            self._versions[key] += 1

    def put_capacity(self, capacity: CSIStorageCapacity) -> None:
        """Take note of what is left of a class somewhere."""
        self.drop_capacity(capacity)
        pool = _pool(capacity)
        if pool is not None:
            self._pools.setdefault(capacity.storage_class_name, {})[object_key(capacity)] = pool

    def drop_capacity(self, capacity: CSIStorageCapacity) -> None:
        self._pools.get(capacity.storage_class_name, {}).pop(object_key(capacity), None)
        self._versions[capacity.storage_class_name] += 1

    def _promise_changed(self, volume: str) -> None:
        index, key = self._places.get(volume, (self._meant, ""))
        if index is self._free:
            self._versions[key] += 1


def _by_size(offer: Offer) -> tuple[int, str]:
    return offer.size, offer.name


def _offer(volume: PersistentVolume) -> Offer | None:
    """Return the volume as an offer; None when its size cannot be read."""
    try:
        size = volume_size(volume)
    except QuantityError as error:
        log.error("volume left out: its size cannot be read", volume=volume.metadata.name, err=str(error))
        return None
    return Offer(size, volume.metadata.name, volume, volume_place(volume))


def storage_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return how large a volume can be made, in bytes; None when nothing is said. QuantityError."""
    largest = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return None if largest is None else value(largest)


def _pool(capacity: CSIStorageCapacity) -> Pool | None:
    try:
        limit = storage_limit(capacity)
        left = value(capacity.capacity or 0)
    except QuantityError as error:
        log.error("storage capacity left out: it cannot be read", object=object_key(capacity), err=str(error))
        return None
    return None if limit is None else Pool(limit, left, selector_place(capacity.node_topology))


class _Volumes:
    def __init__(self, supply: Supply) -> None:
        self._supply = supply

    def on_add(self, obj: PersistentVolume, _arrival: Arrival) -> None:
        self._supply.put_volume(obj)

    def on_update(self, _old: PersistentVolume, new: PersistentVolume) -> None:
        self._supply.put_volume(new)

    def on_delete(self, obj: PersistentVolume, _final_state: FinalState) -> None:
        self._supply.drop_volume(obj.metadata.name)


class _Capacities:
    def __init__(self, supply: Supply) -> None:
        self._supply = supply

    def on_add(self, obj: CSIStorageCapacity, _arrival: Arrival) -> None:
        self._supply.put_capacity(obj)

    def on_update(self, old: CSIStorageCapacity, new: CSIStorageCapacity) -> None:
        self._supply.drop_capacity(old)
        self._supply.put_capacity(new)

    def on_delete(self, obj: CSIStorageCapacity, _final_state: FinalState) -> None:
        self._supply.drop_capacity(obj)
