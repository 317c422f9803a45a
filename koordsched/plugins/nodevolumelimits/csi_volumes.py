"""Which CSI volume a disk, a persistent volume, a claim or an attachment is, and on which objects that depends.

In-tree disks have the names that their CSI drivers give them, as far as counting needs: k8s.io/csi-translation-lib at v0.35. In v1.35 the
migration of these plugins is always on, so a disk's identity does not depend on the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.core import AWSElasticBlockStore, AzureDiskVolume, CinderVolume, GCEPersistentDisk, PortworxVolume
from koordsched.api.volumes import claim_class

if TYPE_CHECKING:
    from koordsched.api.core import PersistentVolume
    from koordsched.api.storage import VolumeAttachment
    from koordsched.api.volumes import Disk
    from koordsched.framework.volumes import VolumeObjects

CSIVolume = tuple[str, str]
"""CSI driver and volume handle."""

Dependency = tuple[str, str]
"""An object that a resolution depends on: kind and key."""

CLAIM, VOLUME, CLASS, ATTACHMENT = "claim", "volume", "class", "attachment"

UNBOUND = "unbound claim "
"""Prefix of the handle of a volume that does not exist yet: no driver uses it."""

EBS, GCE, AZURE, CINDER, PORTWORX = (
    "ebs.csi.aws.com",
    "pd.csi.storage.gke.io",
    "disk.csi.azure.com",
    "cinder.csi.openstack.org",
    "pxd.portworx.com",
)

MIGRATED = {
    "kubernetes.io/aws-ebs": EBS,
    "kubernetes.io/gce-pd": GCE,
    "kubernetes.io/azure-disk": AZURE,
    "kubernetes.io/cinder": CINDER,
    "kubernetes.io/portworx-volume": PORTWORX,
}
"""CSI driver by in-tree plugin."""

ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
SEPARATOR = "__"
UNSPECIFIED = "UNSPECIFIED"


def driver_of(provisioner: str) -> str:
    """Return the CSI driver whose volumes a storage class's provisioner makes."""
    return MIGRATED.get(provisioner, provisioner)


def csi_disk(disk: Disk | None, zones: str = "") -> CSIVolume | None:
    """Return the disk under its driver's name; None when no driver attaches it. zones: the volume's label, which a GCE handle holds."""
    if isinstance(disk, AWSElasticBlockStore):
        return EBS, disk.volume_id.rpartition("/")[2]  # aws://zone/vol-1 is vol-1
    if isinstance(disk, GCEPersistentDisk):
        return GCE, f"projects/{UNSPECIFIED}/{_gce_location(zones)}/disks/{disk.pd_name}"
    if isinstance(disk, AzureDiskVolume):
        return AZURE, disk.disk_uri
    if isinstance(disk, CinderVolume):
        return CINDER, disk.volume_id
    if isinstance(disk, PortworxVolume):
        return PORTWORX, disk.volume_id
    return None


def csi_volume_of(volume: PersistentVolume) -> CSIVolume | None:
    """Return the persistent volume under its driver's name; None when no CSI driver attaches it."""
    spec, labels = volume.spec, volume.metadata.labels
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle
    disks = (spec.gce_persistent_disk, spec.aws_elastic_block_store, spec.azure_disk, spec.cinder, spec.portworx_volume)
    zones = next((labels[key] for key in ZONES if key in labels), "")
    return next((csi_disk(disk, zones) for disk in disks if disk is not None), None)


def _gce_location(zones: str) -> str:
    """A disk with replicas in several zones is called by its region: the zone's name without its last part."""
    if SEPARATOR in zones:
        return f"regions/{zones.partition(SEPARATOR)[0].rpartition('-')[0]}"
    return f"zones/{zones or UNSPECIFIED}"


class Resolved(msgspec.Struct, frozen=True):
    """A volume, or None when nothing is to be counted; and the objects on whose change it is resolved again."""

    volume: CSIVolume | None
    dependencies: tuple[Dependency, ...]


NOTHING = Resolved(None, ())


def resolve_claim(objects: VolumeObjects, key: str) -> Resolved:
    """Return the claim's volume; while it has none, the one that its class's driver is going to provision."""
    claim = objects.claims.get(key)
    dependencies: list[Dependency] = [(CLAIM, key)]
    if claim is None:
        return Resolved(None, tuple(dependencies))
    name = claim.spec.volume_name
    if name:
        dependencies.append((VOLUME, name))
        volume = objects.volumes.get(name)
        if volume is not None:
            return Resolved(csi_volume_of(volume), tuple(dependencies))
    wanted = claim_class(claim)
    if not wanted:
        return Resolved(None, tuple(dependencies))
    dependencies.append((CLASS, wanted))
    storage_class = objects.classes.get(wanted)
    driver = driver_of(storage_class.provisioner) if storage_class is not None else ""
    return Resolved((driver, UNBOUND + key) if driver else None, tuple(dependencies))


def resolve_attachment(objects: VolumeObjects, attachment: VolumeAttachment) -> Resolved:
    """Return the volume that is attached; None when it is no persistent volume that a CSI driver knows."""
    name = attachment.spec.source.persistent_volume_name
    dependencies: tuple[Dependency, ...] = ((ATTACHMENT, attachment.metadata.name),)
    if not name or not attachment.spec.attacher:
        return Resolved(None, dependencies)
    volume = objects.volumes.get(name)
    found = csi_volume_of(volume) if volume is not None else None
    return Resolved((attachment.spec.attacher, found[1]) if found else None, (*dependencies, (VOLUME, name)))
