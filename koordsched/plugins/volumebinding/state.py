"""What the VolumeBinding plugins of all profiles of one scheduler share: two profiles must not assume one volume twice.

Stores of objects, the inventory with its assumed bindings, compiled topologies and the binding cycles that wait for claims: once a cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import CSI_DRIVER, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from koordsched.api.volumes import claim_class, claimed_by, is_bound
from koordsched.cluster.object_store import LatestStateHandler, object_key
from koordsched.framework.volumes import VolumeObjects
from koordsched.plugins.volumebinding.inventory import VolumeInventory
from koordsched.plugins.volumebinding.topology import TopologyMatcher

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Hashable, Iterable, Mapping

    from koordsched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
    from koordsched.api.meta import Object
    from koordsched.api.storage import CSIDriver
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.handle import Handle


class VolumeState:
    """The cluster's volume objects as scheduling needs them, and the claims that binding cycles wait for."""

    def __init__(self, handle: Handle) -> None:
        self.cache = handle.cache
        self.pods: Mapping[str, Pod] = handle.informer(POD).store
        self.objects = VolumeObjects(handle)
        self.drivers: Mapping[str, CSIDriver] = handle.informer(CSI_DRIVER).store
        self.inventory = VolumeInventory(handle)
        self.topologies = TopologyMatcher(handle.columns)
        self._waiting: dict[str, set[asyncio.Event]] = {}  # by claim
        handle.informer(PERSISTENT_VOLUME_CLAIM).add_handler(LatestStateHandler(self._claim_changed, self._claim_changed))
        handle.informer(PERSISTENT_VOLUME).add_handler(_VolumeHandler(self))

    def version_of(self, key: str) -> Hashable:
        """Return a value that differs when what the claim (by key) means for nodes may. O(1)."""
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
        assumed = self.inventory.assumed.node_of(key), self.inventory.assumed.volume_of(key)
        return _version(claim), _version(storage_class), _version(driver), self.inventory.version(key, name), assumed

    def wait_for(self, claims: Iterable[str], event: asyncio.Event) -> None:
        """Set the event whenever one of the claims, or a volume that is for one, changes; until `stop_waiting`."""
        for claim in claims:
            self._waiting.setdefault(claim, set()).add(event)

    def stop_waiting(self, claims: Iterable[str], event: asyncio.Event) -> None:
        for claim in claims:
            waiting = self._waiting.get(claim, set())
            waiting.discard(event)
            if not waiting:
                self._waiting.pop(claim, None)

    def _claim_changed(self, claim: PersistentVolumeClaim) -> None:
        self.changed(object_key(claim))

    def changed(self, claim: str) -> None:
        for event in self._waiting.get(claim, ()):
            event.set()


def state_of(handle: Handle) -> VolumeState:
    """Return the state that the plugins on this cache share. Called while a plugin is made."""
    return handle.cache.shared.one(VolumeState, lambda: VolumeState(handle))


def _version(obj: Object | None) -> str:
    return "" if obj is None else obj.metadata.resource_version


class _VolumeHandler:
    def __init__(self, state: VolumeState) -> None:
        self._state = state

    def on_add(self, obj: PersistentVolume, _arrival: Arrival) -> None:
        self._state.changed(claimed_by(obj))

    def on_update(self, old: PersistentVolume, new: PersistentVolume) -> None:
        self._state.changed(claimed_by(old))
        self._state.changed(claimed_by(new))

    def on_delete(self, obj: PersistentVolume, _final_state: FinalState) -> None:
        self._state.changed(claimed_by(obj))
