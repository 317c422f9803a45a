"""What scheduling reads of a pod's volumes and of the claims behind them (framework.md §10.7 to §10.9).

Every pod of a real cluster has volumes that no plugin looks at (tokens, config maps, empty directories), with names that differ from pod
to pod. They are left out here, so that such pods still share a shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.core import (
    AWSElasticBlockStore,
    AzureDiskVolume,
    CinderVolume,
    GCEPersistentDisk,
    ISCSIVolume,
    PortworxVolume,
    RBDVolume,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.api.core import PersistentVolume, PersistentVolumeClaim, Pod, Volume

Disk = GCEPersistentDisk | AWSElasticBlockStore | ISCSIVolume | RBDVolume | AzureDiskVolume | CinderVolume | PortworxVolume
"""A disk that a pod names itself, without a claim."""

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
"""Annotations of claims and volumes."""

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class ClaimUse(msgspec.Struct, frozen=True):
    """A claim that a pod uses. `pod` and `owner` (its uid) say which pod a generic ephemeral volume's claim must belong to, else ""."""

    key: str  # namespace/name
    name: str
    pod: str = ""
    owner: str = ""

    @property
    def is_ephemeral(self) -> bool:
        return bool(self.pod)


class PodVolumes(msgspec.Struct, frozen=True, cache_hash=True):
    """The volumes of a pod that scheduling looks at. `drivers` are those of inline CSI volumes."""

    namespace: str
    claims: tuple[ClaimUse, ...] = ()
    disks: tuple[Disk, ...] = ()
    drivers: tuple[str, ...] = ()

    def uses_claim(self, key: str) -> bool:
        return any(claim.key == key for claim in self.claims)


def pod_volumes(pod: Pod) -> PodVolumes | None:
    """Return what scheduling looks at, each claim once; None when there is nothing."""
    if not pod.spec.volumes:
        return None
    claims = {use.key: use for volume in pod.spec.volumes if (use := _claim(pod, volume)) is not None}
    disks = tuple(disk for volume in pod.spec.volumes for disk in _disks(volume))
    drivers = tuple(sorted({volume.csi.driver for volume in pod.spec.volumes if volume.csi is not None}))
    if not (claims or disks or drivers):
        return None
    return PodVolumes(pod.metadata.namespace, tuple(claims.values()), disks, drivers)


def _claim(pod: Pod, volume: Volume) -> ClaimUse | None:
    metadata = pod.metadata
    if volume.persistent_volume_claim is not None:
        name = volume.persistent_volume_claim.claim_name
        return ClaimUse(f"{metadata.namespace}/{name}", name)
    if volume.ephemeral is not None:
        name = f"{metadata.name}-{volume.name}"
        return ClaimUse(f"{metadata.namespace}/{name}", name, metadata.name, metadata.uid)
    return None


def _disks(volume: Volume) -> Iterator[Disk]:
    candidates: tuple[Disk | None, ...] = (
        volume.gce_persistent_disk,
        volume.aws_elastic_block_store,
        volume.iscsi,
        volume.rbd,
        volume.azure_disk,
        volume.cinder,
        volume.portworx_volume,
    )
    return (disk for disk in candidates if disk is not None)


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the name of the claim's storage class, "" for none. The beta annotation wins."""
    return claim.metadata.annotations.get(BETA_STORAGE_CLASS) or claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """Return the name of the volume's storage class, "" for none. The beta annotation wins."""
    return volume.metadata.annotations.get(BETA_STORAGE_CLASS) or volume.spec.storage_class_name


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Answer whether the claim is bound for good: prebound ones are not before the controller has said so."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def claimed_by(volume: PersistentVolume) -> str:
    """Return the key of the claim that the volume is for, "" when it is for none."""
    ref = volume.spec.claim_ref
    return "" if ref is None else f"{ref.namespace}/{ref.name}"


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Answer whether the volume names this claim; without a uid it means whatever claim has the name."""
    ref = volume.spec.claim_ref
    if ref is None or ref.name != claim.metadata.name or ref.namespace != claim.metadata.namespace:
        return False
    return ref.uid in {"", claim.metadata.uid}


def belongs_to(claim: PersistentVolumeClaim, use: ClaimUse) -> bool:
    """Answer whether an ephemeral volume's claim was made for the pod. An owner without uid (from a dump) goes by its name."""
    return any(
        owner.controller and owner.kind == "Pod" and owner.name == use.pod and owner.uid in {"", use.owner}
        for owner in claim.metadata.owner_references
    )


def claim_reference(claim: PersistentVolumeClaim) -> dict[str, str]:
    """Return what a volume's claimRef says of a claim that it is for."""
    metadata = claim.metadata
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
    }
