"""The kinds of objects that koordsched lists, watches, writes or lets a scenario look at.

A `Kind` says where objects are served and which Struct decodes them. `KINDS` is the whole table. What is `Unstructured` here is decoded
by the plugin that reads it: parts of a NodeResourceTopology count although others cannot be read. A kind that is not in the table is
handled as an unstructured, namespaced CR by `unstructured_kind`. Scopes and plurals of the CRs are those of Koordinator v1.8.0's
config/crd/bases.
"""

from __future__ import annotations

import msgspec

from koordsched.api import core, groups, storage
from koordsched.api.koordinator import devices, explanations, gangs, measurements, quotas, reservations
from koordsched.api.meta import Object, Unstructured

BUILT_IN = "k8s.io"
"""What groups of Kubernetes end in behind their first word; those of its projects, such as scheduling.sigs.k8s.io, have more words."""


class Kind(msgspec.Struct, frozen=True, cache_hash=True):
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

    @property
    def is_custom(self) -> bool:
        """Whether a CustomResourceDefinition defines it, judged by its group: "apps" and "storage.k8s.io" are built in."""
        first, _, rest = self.group.partition(".")
        return bool(first and rest) and rest != BUILT_IN


def _namespaced(api_version: str, kind: str, plural: str, struct: type[Object]) -> Kind:
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, kind, plural, namespaced=True, struct=struct)


def _cluster_wide(api_version: str, kind: str, plural: str, struct: type[Object]) -> Kind:
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, kind, plural, namespaced=False, struct=struct)


POD = _namespaced("v1", "Pod", "pods", core.Pod)
NODE = _cluster_wide("v1", "Node", "nodes", core.Node)
NAMESPACE = _cluster_wide("v1", "Namespace", "namespaces", core.Namespace)
SERVICE = _namespaced("v1", "Service", "services", core.Service)
REPLICATION_CONTROLLER = _namespaced("v1", "ReplicationController", "replicationcontrollers", groups.ReplicationController)
PERSISTENT_VOLUME = _cluster_wide("v1", "PersistentVolume", "persistentvolumes", core.PersistentVolume)
PERSISTENT_VOLUME_CLAIM = _namespaced("v1", "PersistentVolumeClaim", "persistentvolumeclaims", core.PersistentVolumeClaim)
CONFIG_MAP = _namespaced("v1", "ConfigMap", "configmaps", Unstructured)

REPLICA_SET = _namespaced("apps/v1", "ReplicaSet", "replicasets", groups.ReplicaSet)
STATEFUL_SET = _namespaced("apps/v1", "StatefulSet", "statefulsets", groups.StatefulSet)

STORAGE_CLASS = _cluster_wide("storage.k8s.io/v1", "StorageClass", "storageclasses", storage.StorageClass)
CSI_NODE = _cluster_wide("storage.k8s.io/v1", "CSINode", "csinodes", storage.CSINode)
CSI_DRIVER = _cluster_wide("storage.k8s.io/v1", "CSIDriver", "csidrivers", storage.CSIDriver)
CSI_STORAGE_CAPACITY = _namespaced("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", storage.CSIStorageCapacity)
VOLUME_ATTACHMENT = _cluster_wide("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", storage.VolumeAttachment)

POD_DISRUPTION_BUDGET = _namespaced("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", groups.PodDisruptionBudget)
PRIORITY_CLASS = _cluster_wide("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", groups.PriorityClass)
LEASE = _namespaced("coordination.k8s.io/v1", "Lease", "leases", groups.Lease)
EVENT = _namespaced("events.k8s.io/v1", "Event", "events", groups.Event)

RESERVATION = _cluster_wide("scheduling.koordinator.sh/v1alpha1", "Reservation", "reservations", reservations.Reservation)
DEVICE = _cluster_wide("scheduling.koordinator.sh/v1alpha1", "Device", "devices", devices.Device)
POD_MIGRATION_JOB = _cluster_wide("scheduling.koordinator.sh/v1alpha1", "PodMigrationJob", "podmigrationjobs", reservations.PodMigrationJob)
CLUSTER_NETWORK_TOPOLOGY = _cluster_wide(
    "scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology", "clusternetworktopologies", gangs.ClusterNetworkTopology
)
SCHEDULE_EXPLANATION = _namespaced(
    "scheduling.koordinator.sh/v1alpha1", "ScheduleExplanation", "scheduleexplanations", explanations.ScheduleExplanation
)
NODE_METRIC = _cluster_wide("slo.koordinator.sh/v1alpha1", "NodeMetric", "nodemetrics", measurements.NodeMetric)
NODE_SLO = _cluster_wide("slo.koordinator.sh/v1alpha1", "NodeSLO", "nodeslos", measurements.NodeSLO)
ELASTIC_QUOTA_PROFILE = _namespaced(
    "quota.koordinator.sh/v1alpha1", "ElasticQuotaProfile", "elasticquotaprofiles", quotas.ElasticQuotaProfile
)
CLUSTER_COLOCATION_PROFILE = _cluster_wide(
    "config.koordinator.sh/v1alpha1", "ClusterColocationProfile", "clustercolocationprofiles", Unstructured
)
RECOMMENDATION = _namespaced("analysis.koordinator.sh/v1alpha1", "Recommendation", "recommendations", measurements.Recommendation)
POD_GROUP = _namespaced("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "podgroups", gangs.PodGroup)
ELASTIC_QUOTA = _namespaced("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota", "elasticquotas", quotas.ElasticQuota)
NODE_RESOURCE_TOPOLOGY = _cluster_wide("topology.node.k8s.io/v1alpha1", "NodeResourceTopology", "noderesourcetopologies", Unstructured)

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


def bring(kind: Kind) -> None:
    """Add a kind that a plugin brings to the table. ValueError when another one has its apiVersion and kind, or its path."""
    key = (kind.api_version, kind.kind)
    for other in KINDS.values():
        same_path = (other.group, other.version, other.plural) == (kind.group, kind.version, kind.plural)
        if other != kind and (same_path or (other.api_version, other.kind) == key):
            raise ValueError(f"{kind.kind!r} ({kind.plural}) of {kind.api_version!r} is known already, as {other.kind!r} ({other.plural})")
    KINDS[key] = kind


def kind_of(api_version: str, kind: str) -> Kind | None:
    """Return the known kind that an object names by its apiVersion and kind, or None."""
    return KINDS.get((api_version, kind))


def meant_by(api_version: str, kind: str) -> Kind | None:
    """Return the known kind that an unknown apiVersion and kind must be a mistake for; None: they may well be some other API's.

    Groups with a domain may have kinds that are called like known ones, as Knative has a Service; and events are in the core's group too.
    """
    group = api_version.rpartition("/")[0]
    for known in KINDS.values():
        if known is not EVENT and known.kind.lower() == kind.lower() and (group == known.group or "." not in group):
            return known
    return None


def unstructured_kind(api_version: str, kind: str) -> Kind:
    """Make a Kind for a CR that is not in the table: namespaced, with the plural that English (and most CRDs) would give it."""
    return _namespaced(api_version, kind, _plural(kind.lower()), Unstructured)


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in {"a", "e", "i", "o", "u", ""}:
        return word[:-1] + "ies"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word + "s"
