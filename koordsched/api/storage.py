"""storage.k8s.io/v1: classes, drivers, per-node drivers, attachments and capacity (framework.md §10.7 to §10.9).

A field that the API server defaults has that default here too, so that a manifest which never met an API server reads alike.
"""

from __future__ import annotations

from msgspec import field

from koordsched.api.core import Quantity
from koordsched.api.meta import Api, Int32, LabelSelector, Object


class TopologySelectorLabelRequirement(Api):
    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Api):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Object):
    provisioner: str = ""
    reclaim_policy: str = "Delete"
    volume_binding_mode: str | None = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Api):
    count: Int32 | None = None


class CSINodeDriver(Api):
    name: str
    node_id: str = field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Api):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object):
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Api):
    attach_required: bool = True
    storage_capacity: bool = False


class CSIDriver(Object):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object):
    """What a driver can still provision of a class in a topology segment. Quantities stay as written."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(Api):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Api):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Api):
    attached: bool = False


class VolumeAttachment(Object):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
