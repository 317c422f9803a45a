"""The volumes, claims and classes of the embedded cluster, as its volume controller finds and writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.core import PersistentVolume, PersistentVolumeClaim
from koordsched.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, Kind
from koordsched.api.storage import StorageClass
from koordsched.api.volumes import claimed_by, volume_class
from koordsched.cluster.port import Patch, Ref

if TYPE_CHECKING:
    from koordsched.api.meta import Object
    from koordsched.cluster.memory.registry import Registry
    from koordsched.cluster.memory.store import Raw


class VolumeObjects:
    """Lookups by key, and volumes by the claim that they name or else by their class."""

    def __init__(self, registry: Registry) -> None:
        self.named: dict[str, set[str]] = {}  # by claim: volumes that name it
        self.free: dict[str, set[str]] = {}  # by class: volumes that name no claim
        self._registry = registry
        self._indexed: dict[str, tuple[dict[str, set[str]], str]] = {}  # by volume: where it is in the two above

    def set_phase(self, kind: Kind, obj: PersistentVolume | PersistentVolumeClaim, phase: str) -> None:
        if obj.status.phase != phase:
            ref = Ref(kind, obj.metadata.namespace, obj.metadata.name)
            self._registry.patch(ref, Patch({"status": {"phase": phase}}, subresource="status"))

    def patch(self, kind: Kind, obj: Object, body: dict[str, Any]) -> None:
        self._registry.patch(Ref(kind, obj.metadata.namespace, obj.metadata.name), Patch(body))

    def create_volume(self, body: Raw) -> PersistentVolume | None:
        made = self._registry.create(PERSISTENT_VOLUME, body).object()
        if not isinstance(made, PersistentVolume):
            return None
        self.index(made)
        return made

    def raw(self, kind: Kind, name: str) -> Raw | None:
        stored = self._registry.kind(kind).objects.get(name)
        return None if stored is None else stored.raw

    def volume(self, name: str) -> PersistentVolume | None:
        stored = self._registry.kind(PERSISTENT_VOLUME).objects.get(name)
        found = stored.object() if stored is not None else None
        return found if isinstance(found, PersistentVolume) else None

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        stored = self._registry.kind(PERSISTENT_VOLUME_CLAIM).objects.get(key)
        found = stored.object() if stored is not None else None
        return found if isinstance(found, PersistentVolumeClaim) else None

    def storage_class(self, name: str) -> StorageClass | None:
        stored = self._registry.kind(STORAGE_CLASS).objects.get(name)
        found = stored.object() if stored is not None else None
        return found if isinstance(found, StorageClass) else None

    def claims(self) -> list[PersistentVolumeClaim]:
        found = [stored.object() for stored in self._registry.kind(PERSISTENT_VOLUME_CLAIM).objects.values()]
        return [claim for claim in found if isinstance(claim, PersistentVolumeClaim)]

    def classes(self) -> list[StorageClass]:
        found = [stored.object() for stored in self._registry.kind(STORAGE_CLASS).objects.values()]
        return [known for known in found if isinstance(known, StorageClass)]

    # Index

    def index(self, volume: PersistentVolume) -> None:
        """Take note of a volume as it is now."""
        name, claim = volume.metadata.name, claimed_by(volume)
        self.unindex(name)
        index, key = (self.named, claim) if claim else (self.free, volume_class(volume))
        index.setdefault(key, set()).add(name)
        self._indexed[name] = (index, key)

    def unindex(self, name: str) -> None:
        place = self._indexed.pop(name, None)
        if place is not None:
            place[0][place[1]].discard(name)
