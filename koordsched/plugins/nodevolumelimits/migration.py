"""In-tree disks by the names that their CSI drivers give them, as far as counting needs: k8s.io/csi-translation-lib at v0.35.

In v1.35 the migration of these plugins is always on, so a disk's identity does not depend on the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import AWSElasticBlockStore, AzureDiskVolume, CinderVolume, GCEPersistentDisk, PortworxVolume

if TYPE_CHECKING:
    from koordsched.api.core import PersistentVolume
    from koordsched.api.volumes import Disk

Attached = tuple[str, str]
"""A volume as nodes attach it: CSI driver and handle."""

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


def attached_disk(disk: Disk | None, zones: str = "") -> Attached | None:
    """Return the disk as its driver calls it; None when no driver attaches it. zones: the volume's label, which a GCE handle holds."""
    if isinstance(disk, AWSElasticBlockStore):
        return EBS, disk.volume_id.rpartition("/")[2]  # aws://zone/vol-1 is vol-1
    if isinstance(disk, GCEPersistentDisk):
        return GCE, f"projects/{UNSPECIFIED}/{_gce_place(zones)}/disks/{disk.pd_name}"
    if isinstance(disk, AzureDiskVolume):
        return AZURE, disk.disk_uri
    if isinstance(disk, CinderVolume):
        return CINDER, disk.volume_id
    if isinstance(disk, PortworxVolume):
        return PORTWORX, disk.volume_id
    return None


def attached_volume(volume: PersistentVolume) -> Attached | None:
    """Return the persistent volume as its driver calls it; None when no CSI driver attaches it."""
    spec, labels = volume.spec, volume.metadata.labels
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle
    disks = (spec.gce_persistent_disk, spec.aws_elastic_block_store, spec.azure_disk, spec.cinder, spec.portworx_volume)
    zones = next((labels[key] for key in ZONES if key in labels), "")
    return next((attached_disk(disk, zones) for disk in disks if disk is not None), None)


def _gce_place(zones: str) -> str:
    """A disk with replicas in several zones is called by its region: the zone's name without its last part."""
    if SEPARATOR in zones:
        return f"regions/{zones.partition(SEPARATOR)[0].rpartition('-')[0]}"
    return f"zones/{zones or UNSPECIFIED}"
