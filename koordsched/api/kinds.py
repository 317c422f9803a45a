"""The kinds of objects that koordsched lists, watches, writes or lets a scenario look at.

A `Kind` says where objects are served and which Struct decodes them. `KINDS` is the whole table. Koordinator's CRs are `Unstructured`
here: the plugin that reads one decodes its spec itself. A kind that is not in the table is handled as an unstructured, namespaced CR by
`unstructured_kind`. Scopes and plurals of the CRs are those of Koordinator v1.8.0's config/crd/bases.
"""

from __future__ import annotations

import msgspec

from koordsched.api import apps, coordination, core, events, policy, scheduling, storage
from koordsched.api.meta import Object, Unstructured


class Kind(msgspec.Struct, frozen=True):
    """A kind of object: its names, its scope and the Struct that holds what is read of it. `group` is "" for core kinds."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    struct: type[Object]

    @property
    def api_version(self) -> str:
        """Return what an object's apiVersion says: "v1" or "group/version"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def plural_group(self) -> str:
        """Return the name RBAC and CRDs use: "pods" or "plural.group"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _cr(group: str, kind: str, plural: str, *, namespaced: bool, version: str = "v1alpha1") -> Kind:
    return Kind(group, version, kind, plural, namespaced, Unstructured)


POD = Kind("", "v1", "Pod", "pods", True, core.Pod)
NODE = Kind("", "v1", "Node", "nodes", False, core.Node)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", False, core.Namespace)
SERVICE = Kind("", "v1", "Service", "services", True, core.Service)
REPLICATION_CONTROLLER = Kind("", "v1", "ReplicationController", "replicationcontrollers", True, apps.ReplicationController)
PERSISTENT_VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, core.PersistentVolume)
PERSISTENT_VOLUME_CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, core.PersistentVolumeClaim)
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps", True, Unstructured)

REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", True, apps.ReplicaSet)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", True, apps.StatefulSet)

STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, storage.StorageClass)
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False, storage.CSINode)
CSI_DRIVER = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False, storage.CSIDriver)
CSI_STORAGE_CAPACITY = Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True, storage.CSIStorageCapacity)
VOLUME_ATTACHMENT = Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, storage.VolumeAttachment)

POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, policy.PodDisruptionBudget)
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, scheduling.PriorityClass)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, coordination.Lease)
EVENT = Kind("events.k8s.io", "v1", "Event", "events", True, events.Event)

RESERVATION = _cr("scheduling.koordinator.sh", "Reservation", "reservations", namespaced=False)
DEVICE = _cr("scheduling.koordinator.sh", "Device", "devices", namespaced=False)
POD_MIGRATION_JOB = _cr("scheduling.koordinator.sh", "PodMigrationJob", "podmigrationjobs", namespaced=False)
CLUSTER_NETWORK_TOPOLOGY = _cr("scheduling.koordinator.sh", "ClusterNetworkTopology", "clusternetworktopologies", namespaced=False)
SCHEDULE_EXPLANATION = _cr("scheduling.koordinator.sh", "ScheduleExplanation", "scheduleexplanations", namespaced=True)
NODE_METRIC = _cr("slo.koordinator.sh", "NodeMetric", "nodemetrics", namespaced=False)
NODE_SLO = _cr("slo.koordinator.sh", "NodeSLO", "nodeslos", namespaced=False)
ELASTIC_QUOTA_PROFILE = _cr("quota.koordinator.sh", "ElasticQuotaProfile", "elasticquotaprofiles", namespaced=True)
CLUSTER_COLOCATION_PROFILE = _cr("config.koordinator.sh", "ClusterColocationProfile", "clustercolocationprofiles", namespaced=False)
RECOMMENDATION = _cr("analysis.koordinator.sh", "Recommendation", "recommendations", namespaced=True)
POD_GROUP = _cr("scheduling.sigs.k8s.io", "PodGroup", "podgroups", namespaced=True)
ELASTIC_QUOTA = _cr("scheduling.sigs.k8s.io", "ElasticQuota", "elasticquotas", namespaced=True)
NODE_RESOURCE_TOPOLOGY = _cr("topology.node.k8s.io", "NodeResourceTopology", "noderesourcetopologies", namespaced=False)

KINDS: dict[tuple[str, str], Kind] = {
    (kind.api_version, kind.kind): kind
    for kind in (
        POD,
        NODE,
        NAMESPACE,
        SERVICE,
        REPLICATION_CONTROLLER,
        PERSISTENT_VOLUME,
        PERSISTENT_VOLUME_CLAIM,
        CONFIG_MAP,
        REPLICA_SET,
        STATEFUL_SET,
        STORAGE_CLASS,
        CSI_NODE,
        CSI_DRIVER,
        CSI_STORAGE_CAPACITY,
        VOLUME_ATTACHMENT,
        POD_DISRUPTION_BUDGET,
        PRIORITY_CLASS,
        LEASE,
        EVENT,
        RESERVATION,
        DEVICE,
        POD_MIGRATION_JOB,
        CLUSTER_NETWORK_TOPOLOGY,
        SCHEDULE_EXPLANATION,
        NODE_METRIC,
        NODE_SLO,
        ELASTIC_QUOTA_PROFILE,
        CLUSTER_COLOCATION_PROFILE,
        RECOMMENDATION,
        POD_GROUP,
        ELASTIC_QUOTA,
        NODE_RESOURCE_TOPOLOGY,
    )
}
"""Every known kind by what its objects say: (apiVersion, kind)."""


def kind_of(api_version: str, kind: str) -> Kind | None:
    """Return the known kind that an object names by its apiVersion and kind, or None."""
    return KINDS.get((api_version, kind))


def unstructured_kind(api_version: str, kind: str) -> Kind:
    """Make a Kind for a CR that is not in the table: namespaced, with the plural that English (and most CRDs) would give it."""
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, kind, _plural(kind.lower()), True, Unstructured)


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in {"a", "e", "i", "o", "u", ""}:
        return word[:-1] + "ies"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word + "s"
