"""What the VolumeBinding plugins of all profiles of one scheduler share: two profiles must not promise one volume twice.

Promises, the index of free volumes, and who waits for which claim are kept here, once for each cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import CSI_DRIVER, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from koordsched.api.volumes import claimed_by
from koordsched.cluster.mirror import object_key
from koordsched.framework.volumes import VolumeObjects
from koordsched.plugins.volumebinding.places import Selectors
from koordsched.plugins.volumebinding.plan import World
from koordsched.plugins.volumebinding.supply import Supply

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
    from koordsched.cluster.mirror import Arrival, FinalState
    from koordsched.framework.handle import Handle


class Shared:
    """The world that plans are made of, the pods of the cluster, and the waiting list."""

    def __init__(self, handle: Handle) -> None:
        self.world = World(VolumeObjects(handle), handle.informer(CSI_DRIVER).store, Supply(handle), Selectors(handle.columns))
        self.pods: Mapping[str, Pod] = handle.informer(POD).store
        self.cache = handle.cache
        self._waiting: dict[str, set[asyncio.Event]] = {}  # by claim
        handle.informer(PERSISTENT_VOLUME_CLAIM).add_handler(_Claims(self))
        handle.informer(PERSISTENT_VOLUME).add_handler(_Volumes(self))

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

    def changed(self, claim: str) -> None:
        for event in self._waiting.get(claim, ()):
            event.set()


def shared_by(handle: Handle) -> Shared:
    """Return what the plugins on this cache share. To be called while the plugin is made."""
    return handle.cache.shared.one(Shared, lambda: Shared(handle))


class _Claims:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def on_add(self, obj: PersistentVolumeClaim, _arrival: Arrival) -> None:
        self._shared.changed(object_key(obj))

    def on_update(self, _old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        self._shared.changed(object_key(new))

    def on_delete(self, obj: PersistentVolumeClaim, _final_state: FinalState) -> None:
        self._shared.changed(object_key(obj))


class _Volumes:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def on_add(self, obj: PersistentVolume, _arrival: Arrival) -> None:
        self._shared.changed(claimed_by(obj))

    def on_update(self, old: PersistentVolume, new: PersistentVolume) -> None:
        self._shared.changed(claimed_by(old))
        self._shared.changed(claimed_by(new))

    def on_delete(self, obj: PersistentVolume, _final_state: FinalState) -> None:
        self._shared.changed(claimed_by(obj))
