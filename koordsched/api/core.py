"""core/v1: what scheduling reads of pods, nodes, namespaces, volumes and services.

Quantities stay as written (a string or a number) and are read by `koordsched.api.quantity`; annotations are read by their owner.
"""

from __future__ import annotations

from msgspec import field

from koordsched.api.meta import Api, Int32, Int64, LabelSelector, LabelSelectorRequirement, Object, ObjectMeta

Quantity = str | int | float
ResourceList = dict[str, Quantity]


class Taint(Api):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class Toleration(Api):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class NodeSelectorTerm(Api):
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()
    match_fields: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelector(Api):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Api):
    weight: Int32
    preference: NodeSelectorTerm


class NodeAffinity(Api):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Api):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Api):
    weight: Int32
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Api):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Api):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Api):
    max_skew: Int32
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ResourceRequirements(Api):
    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)


class ContainerPort(Api):
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class Container(Api):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None


class PodSchedulingGate(Api):
    name: str


class PersistentVolumeClaimVolumeSource(Api):
    claim_name: str
    read_only: bool = False


class GCEPersistentDisk(Api):
    pd_name: str
    read_only: bool = False


class AWSElasticBlockStore(Api):
    volume_id: str = field(name="volumeID")
    read_only: bool = False


class ISCSIVolume(Api):
    iqn: str
    read_only: bool = False


class RBDVolume(Api):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class AzureDiskVolume(Api):
    disk_uri: str = field(name="diskURI")


class CinderVolume(Api):
    volume_id: str = field(name="volumeID")


class PortworxVolume(Api):
    volume_id: str = field(name="volumeID")


class EphemeralVolume(Api):
    volume_claim_template: PersistentVolumeClaim | None = None


class CSIVolume(Api):
    driver: str
    read_only: bool = False


class Volume(Api):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    iscsi: ISCSIVolume | None = None
    rbd: RBDVolume | None = None
    azure_disk: AzureDiskVolume | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None
    ephemeral: EphemeralVolume | None = None
    csi: CSIVolume | None = None


class PodResourceClaim(Api):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Api):
    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    termination_grace_period_seconds: Int64 | None = None


class PodCondition(Api):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: Int64 | None = None


class ContainerStatus(Api):
    name: str = ""
    allocated_resources: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Api):
    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Api):
    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(Object):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Api):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class ContainerImage(Api):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeCondition(Api):
    type: str
    status: str


class NodeSpec(Api):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Api):
    capacity: ResourceList = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Object):
    pass


class ObjectReference(Api):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class VolumeNodeAffinity(Api):
    required: NodeSelector | None = None


class CSIPersistentVolume(Api):
    driver: str
    volume_handle: str


class PersistentVolumeSpec(Api):
    capacity: ResourceList = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDiskVolume | None = None
    cinder: CinderVolume | None = None
    portworx_volume: PortworxVolume | None = None


class PersistentVolumeStatus(Api):
    phase: str = ""


class PersistentVolume(Object):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(Api):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Api):
    phase: str = ""


class PersistentVolumeClaim(Object):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ServiceSpec(Api):
    selector: dict[str, str] = field(default_factory=dict)


class Service(Object):
    spec: ServiceSpec = ServiceSpec()
