"""The work of kube-controller-manager and of a provisioner on volumes and claims, as far as scheduling can see it.

The controller reacts to each write at once, so that nothing waits in virtual time. A claim is bound to the volume that names it or that it
names. A claim with immediate binding is also bound to the smallest volume that suits it. A claim whose class can provision gets a new
volume; with delayed binding it gets that as soon as its node is selected. The phases are updated. Every change is a write of its own, as in
a cluster. Reference: pkg/controller/volume/persistentvolume of Kubernetes v1.35. On only with `MemoryClusterOptions.volume_controller`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.core import PersistentVolume, PersistentVolumeClaim
from koordsched.api.kinds import CSI_NODE, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, Kind
from koordsched.api.quantity import QuantityError
from koordsched.api.selectors import SelectorError
from koordsched.api.storage import StorageClass
from koordsched.api.volume_matching import AVAILABLE, claim_request, suits, volume_size
from koordsched.api.volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_reference,
    claimed_by,
    is_bound,
    is_for,
    volume_class,
)
from koordsched.cluster.memory.store import key_of
from koordsched.cluster.port import Patch, Ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.api.meta import Object
    from koordsched.cluster.memory.registry import Registry
    from koordsched.cluster.memory.store import Raw

BOUND, LOST, RELEASED = "Bound", "Lost", "Released"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"

WATCHED = frozenset({PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS})
"""Kinds whose writes the controller reacts to."""


class VolumeController:
    """Binds claims and volumes. `wrote` and `deleted` are called after each change of a watched kind."""

    def __init__(self, registry: Registry) -> None:
        self._objects = VolumeStore(registry)

    def wrote(self, written: Object) -> None:
        """React to a creation or a change."""
        if isinstance(written, PersistentVolume):
            self._objects.index(written)
            self._sync_volume(written.metadata.name)
        elif isinstance(written, PersistentVolumeClaim):
            self._sync_claim(key_of(written.metadata.namespace, written.metadata.name))
        elif isinstance(written, StorageClass):
            for claim in self._objects.claims():
                if not claim.spec.volume_name and claim_class(claim) in {"", written.metadata.name}:
                    self._sync_claim(key_of(claim.metadata.namespace, claim.metadata.name))

    def deleted(self, ref: Ref) -> None:
        """React to a deletion: a volume outlives its claim, a claim without its volume is lost."""
        if ref.kind == PERSISTENT_VOLUME:
            self._objects.unindex(ref.name)
            for claim in self._objects.claims():
                if claim.spec.volume_name == ref.name:
                    self._sync_claim(key_of(claim.metadata.namespace, claim.metadata.name))
        elif ref.kind == PERSISTENT_VOLUME_CLAIM:
            for name in sorted(self._objects.named.get(key_of(ref.namespace, ref.name), ())):
                self._sync_volume(name)

    # Volumes

    def _sync_volume(self, name: str) -> None:
        volume = self._objects.volume(name)
        if volume is None or volume.metadata.deletion_timestamp is not None:
            return
        key = claimed_by(volume)
        if not key:
            self._objects.set_phase(PERSISTENT_VOLUME, volume, AVAILABLE)
            for waiting in self._waiting_for(volume):
                self._sync_claim(waiting)
            return
        claim = self._objects.claim(key)
        if claim is not None and is_for(volume, claim):
            self._sync_claim(key)
        else:
            uid = volume.spec.claim_ref.uid if volume.spec.claim_ref is not None else ""
            self._objects.set_phase(PERSISTENT_VOLUME, volume, RELEASED if uid else AVAILABLE)

    def _waiting_for(self, volume: PersistentVolume) -> list[str]:
        """Return the claims that a free volume may suit."""
        name = volume.metadata.name
        return [
            key_of(claim.metadata.namespace, claim.metadata.name)
            for claim in self._objects.claims()
            if claim.spec.volume_name == name or (not claim.spec.volume_name and claim_class(claim) == volume_class(volume))
        ]

    # Claims

    def _sync_claim(self, key: str) -> None:
        claim = self._objects.claim(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return
        volume = self._objects.volume(claim.spec.volume_name) if claim.spec.volume_name else self._find(claim)
        if volume is not None and (not claimed_by(volume) or is_for(volume, claim)):
            self._bind(claim, volume)
        elif is_bound(claim):
            self._objects.set_phase(PERSISTENT_VOLUME_CLAIM, claim, LOST)
        elif not claim.status.phase:
            self._objects.set_phase(PERSISTENT_VOLUME_CLAIM, claim, "Pending")

    def _find(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return a volume for a claim that has none, or create one; None: there is none yet."""
        key = key_of(claim.metadata.namespace, claim.metadata.name)
        for name in sorted(self._objects.named.get(key, ())):
            volume = self._objects.volume(name)
            if volume is not None and is_for(volume, claim):
                return volume
        storage_class = self._class_of(claim)
        delayed = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        node = claim.metadata.annotations.get(SELECTED_NODE, "")
        if delayed and not node:
            return None
        found = None if delayed else self._smallest(claim)
        if found is None and storage_class is not None and storage_class.provisioner not in {"", NO_PROVISIONER}:
            return self._provision(claim, storage_class, node)
        return found

    def _smallest(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        try:
            request = claim_request(claim)
        except (QuantityError, SelectorError):
            return None
        sized: list[tuple[int, str]] = []
        for name in self._objects.free.get(claim_class(claim), ()):
            volume = self._objects.volume(name)
            size = _size(volume) if volume is not None and volume.metadata.deletion_timestamp is None else None
            if volume is not None and size is not None and suits(volume, size, request):
                sized.append((size, name))
        return self._objects.volume(min(sized)[1]) if sized else None

    def _class_of(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """Return the claim's class; one that names none (not even "") is given the default class, if there is one."""
        name = claim_class(claim)
        if not name and claim.spec.storage_class_name is None:
            name = next(
                (known.metadata.name for known in self._objects.classes() if known.metadata.annotations.get(DEFAULT_CLASS) == "true"), ""
            )
            if name:
                self._objects.patch(PERSISTENT_VOLUME_CLAIM, claim, {"spec": {"storageClassName": name}})
        return self._objects.storage_class(name)

    def _provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: str) -> PersistentVolume | None:
        """Create a volume as the class's driver does: as large as requested, accessible from the node."""
        name = f"pvc-{claim.metadata.uid}"
        spec: Raw = {
            "capacity": {"storage": claim.spec.resources.requests.get("storage", "0")},
            "accessModes": list(claim.spec.access_modes),
            "storageClassName": claim_class(claim) or storage_class.metadata.name,
            "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
            "volumeMode": claim.spec.volume_mode or "Filesystem",
            "volumeAttributesClassName": claim.spec.volume_attributes_class_name,
            "claimRef": claim_reference(claim),
            "csi": {"driver": storage_class.provisioner, "volumeHandle": name},
        }
        expressions = list(self._topology(storage_class.provisioner, node))
        if expressions:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
        annotations = {PROVISIONED_BY: storage_class.provisioner}
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec, "status": {"phase": BOUND}}
        return self._objects.create_volume(body)

    def _topology(self, driver: str, node: str) -> Iterator[Raw]:
        """Yield the conditions of a new volume's node affinity: the selected node's values of the driver's topology keys."""
        csi_node, chosen = self._objects.raw(CSI_NODE, node), self._objects.raw(NODE, node)
        labels = (chosen or {}).get("metadata", {}).get("labels") or {}
        for known in ((csi_node or {}).get("spec") or {}).get("drivers") or ():
            if known.get("name") == driver:
                for key in known.get("topologyKeys") or ():
                    if key in labels:
                        yield {"key": key, "operator": "In", "values": [labels[key]]}

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Write to each side the other's name, and that both are bound. What is written already is not written again."""
        ours: dict[str, str] = {} if claimed_by(volume) else {BOUND_BY_CONTROLLER: "yes"}
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            self._objects.patch(
                PERSISTENT_VOLUME, volume, {"metadata": {"annotations": ours}, "spec": {"claimRef": claim_reference(claim)}}
            )
            written = self._objects.volume(volume.metadata.name)
            if written is not None:
                self._objects.index(written)
        self._objects.set_phase(PERSISTENT_VOLUME, volume, BOUND)
        done = {BIND_COMPLETED: "yes"} if claim.spec.volume_name else {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
        if not is_bound(claim):
            self._objects.patch(
                PERSISTENT_VOLUME_CLAIM, claim, {"metadata": {"annotations": done}, "spec": {"volumeName": volume.metadata.name}}
            )
        self._objects.set_phase(PERSISTENT_VOLUME_CLAIM, claim, BOUND)


def _size(volume: PersistentVolume) -> int | None:
    try:
        return volume_size(volume)
    except QuantityError:
        return None


class VolumeStore:
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
        """Index a volume as it is now."""
        name, claim = volume.metadata.name, claimed_by(volume)
        self.unindex(name)
        index, key = (self.named, claim) if claim else (self.free, volume_class(volume))
        index.setdefault(key, set()).add(name)
        self._indexed[name] = (index, key)

    def unindex(self, name: str) -> None:
        place = self._indexed.pop(name, None)
        if place is not None:
            place[0][place[1]].discard(name)
