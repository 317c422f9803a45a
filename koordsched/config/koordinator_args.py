"""Arguments of Koordinator's plugins, kinds `<Plugin>Args` of kubescheduler.config.k8s.io/v1 with Koordinator v1.8.0's defaults.

Sources: frameworkext.md §2.1 and the Args sections of nodenumaresource.md, deviceshare.md, coscheduling.md, elasticquota.md and
reservation.md. As in `args`, a Struct's defaults are what a plugin gets without a pluginConfig entry, completion replaces the zeros
that mean "default", and `koordinator_validation` says what is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import field
from msgspec.structs import replace

from koordsched.api.core import ResourceList
from koordsched.api.meta import Int32, Int64
from koordsched.config.args import CPU_AND_MEMORY, LEAST_ALLOCATED, ResourceSpec
from koordsched.config.duration import Duration
from koordsched.config.types import Config, PluginArgs

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.config.features import FeatureGates

Percentages = dict[str, Int64]

DEFAULT_RESOURCE_WEIGHTS = {"cpu": 1, "memory": 1}
DEFAULT_USAGE_THRESHOLDS = {"cpu": 65, "memory": 95}
DEFAULT_SCALING_FACTORS = {"cpu": 85, "memory": 70}
UNLIMITED_QUOTA = str((2**63 - 1) // 5)
DAY_SECONDS = 86400


class LoadAwareSchedulingAggregatedArgs(Config):
    """Filtering and scoring by percentiles. Types: avg, p50, p90, p95, p99 or "" (off); a duration of 0 takes the longest reported."""

    usage_thresholds: Percentages = field(default_factory=dict)
    usage_aggregation_type: str = ""
    usage_aggregated_duration: Duration = Duration(0)
    score_aggregation_type: str = ""
    score_aggregated_duration: Duration = Duration(0)


class LoadAwareSchedulingArgs(PluginArgs):
    """Thresholds and scaling factors in percent; the estimated seconds None: off."""

    filter_expired_node_metrics: bool = True
    node_metric_expiration_seconds: Int64 = 180
    enable_schedule_when_node_metrics_expired: bool = False
    resource_weights: dict[str, Int64] = field(default_factory=dict)
    dominant_resource_weight: Int64 = 0
    usage_thresholds: Percentages = field(default_factory=dict)
    prod_usage_thresholds: Percentages = field(default_factory=dict)
    prod_usage_include_sys: bool = False
    score_according_prod_usage: bool = False
    estimator: str = ""
    estimated_scaling_factors: Percentages = field(default_factory=dict)
    estimated_seconds_after_pod_scheduled: Int64 | None = None
    estimated_seconds_after_initialized: Int64 | None = None
    allow_customize_estimation: bool = False
    aggregated: LoadAwareSchedulingAggregatedArgs | None = None
    supported_resources: tuple[str, ...] = ()


class NumaScoringStrategy(Config):
    """Koordinator's strategy: LeastAllocated or MostAllocated over weighted resources."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()


LEAST_FRAGMENTED = "LeastFragmented"
"""A strategy of DeviceShareArgs that only koordsched has: its resources are not read."""
LEAST_CPU_AND_MEMORY = NumaScoringStrategy(type=LEAST_ALLOCATED, resources=CPU_AND_MEMORY)


class NodeNUMAResourceArgs(PluginArgs):
    """default_cpu_bind_policy "": pods that declare no policy are not bound. numa_scoring_strategy without resources: those of
    scoring_strategy. The last two are koordsched's own (nodenumaresource.md D11, D12); honor_pod_level_policies of one profile holds for
    all, since a node's policy is the same for all of them."""

    default_cpu_bind_policy: str = field(default="FullPCPUs", name="defaultCPUBindPolicy")
    scoring_strategy: NumaScoringStrategy = LEAST_CPU_AND_MEMORY
    numa_scoring_strategy: NumaScoringStrategy = LEAST_CPU_AND_MEMORY
    honor_pod_level_policies: bool = False
    honor_distribute_evenly: bool = False


class GPUSharedResourceTemplatesConfig(Config):
    config_map_namespace: str = ""
    config_map_name: str = ""
    matched_resources: tuple[str, ...] = ()


class GPUShareUnsupportedModel(Config):
    """A GPU model that cannot be shared; node labels gpu-vendor and gpu-model."""

    vendor: str
    model: str


SCORED_DEVICES = ("koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-memory", "koordinator.sh/rdma", "koordinator.sh/fpga")
DEVICE_RESOURCES = tuple(ResourceSpec(name=name, weight=1) for name in SCORED_DEVICES)
GPU_TEMPLATES = GPUSharedResourceTemplatesConfig(
    config_map_namespace="koordinator-system",
    config_map_name="gpu-shared-resource-templates",
    matched_resources=("huawei.com/npu-core",),
)


class DeviceShareArgs(PluginArgs):
    """allocator is accepted and ignored."""

    allocator: str = ""
    scoring_strategy: NumaScoringStrategy = NumaScoringStrategy(type=LEAST_ALLOCATED, resources=DEVICE_RESOURCES)
    disable_device_numa_topology_alignment: bool = field(default=False, name="disableDeviceNUMATopologyAlignment")
    gpu_shared_resource_templates_config: GPUSharedResourceTemplatesConfig = GPU_TEMPLATES
    gpu_share_unsupported_models: tuple[GPUShareUnsupportedModel, ...] = ()


class CoschedulingArgs(PluginArgs):
    """skip_check_schedule_cycle is accepted and has no effect; default_match_policy is not checked, as in the reference."""

    default_timeout: Duration = Duration(600)
    controller_workers: Int64 = 1
    skip_check_schedule_cycle: bool = False
    enable_preemption: bool = False
    aware_network_topology: bool = False
    default_match_policy: str = "once-satisfied"


class HookPluginConf(Config):
    key: str = ""
    factory_key: str = ""
    factory_args: str = ""


def _unlimited() -> ResourceList:
    return {"cpu": UNLIMITED_QUOTA, "memory": UNLIMITED_QUOTA}


class ElasticQuotaArgs(PluginArgs):
    """The last two are koordsched's own. whole_devices: resources of which exactly what there is is shared out (elasticquota.md DEV-8).
    parity: switches the deliberate deviations of elasticquota.md §17 off that name it, and with them whole_devices.
    """

    delay_evict_time: Duration = Duration(120)
    revoke_pod_interval: Duration = Duration(1)
    default_quota_group_max: ResourceList = field(default_factory=_unlimited)
    system_quota_group_max: ResourceList = field(default_factory=_unlimited)
    quota_group_namespace: str = "koordinator-system"
    monitor_all_quotas: bool = False
    enable_check_parent_quota: bool = False
    enable_runtime_quota: bool = True
    enable_min_quota_scale: bool = True
    disable_default_quota_preemption: bool = True
    enable_queue_hint: bool = False
    quota_snapshot_update_interval: Duration = Duration(120)
    hook_plugins: tuple[HookPluginConf, ...] = ()
    whole_devices: tuple[str, ...] = ()
    parity: bool = False


class PreAllocationConfig(Config):
    enable_cluster_mode: bool = False
    cluster_label_key: str = "pod.koordinator.sh/is-pre-allocatable"
    cluster_priority_annotation_key: str = "pod.koordinator.sh/pre-allocatable-priority"
    prefer_no_pre_allocated_pods: bool = False


class ReservationArgs(PluginArgs):
    """controller_workers has no effect: one task does the work. expire_pending_reservations is koordsched's own (reservation.md D3)."""

    enable_preemption: bool = False
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100
    controller_workers: Int32 = 1
    gc_duration_seconds: Int64 = DAY_SECONDS
    gc_interval_seconds: Int64 = 60
    disable_garbage_collection: bool = False
    resync_interval_seconds: Int64 = 60
    pre_allocation_config: PreAllocationConfig = PreAllocationConfig()
    expire_pending_reservations: bool = False


class ResourcesType(Config):
    """How NodeResourcesFitPlus scores one resource."""

    type: str
    weight: Int64


class NodeResourcesFitPlusArgs(PluginArgs):
    resources: dict[str, ResourcesType] = field(default_factory=dict)


class ScarceResourceAvoidanceArgs(PluginArgs):
    resources: tuple[str, ...] = ()


class SchedulingHintArgs(PluginArgs):
    max_hint_nodes: Int32 = 100


KOORDINATOR_ARGS: dict[str, type[PluginArgs]] = {
    "LoadAwareScheduling": LoadAwareSchedulingArgs,
    "NodeNUMAResource": NodeNUMAResourceArgs,
    "DeviceShare": DeviceShareArgs,
    "Coscheduling": CoschedulingArgs,
    "ElasticQuota": ElasticQuotaArgs,
    "Reservation": ReservationArgs,
    "NodeResourcesFitPlus": NodeResourcesFitPlusArgs,
    "ScarceResourceAvoidance": ScarceResourceAvoidanceArgs,
    "SchedulingHint": SchedulingHintArgs,
}


def _complete_load_aware(args: LoadAwareSchedulingArgs, _: FeatureGates) -> LoadAwareSchedulingArgs:
    weights = args.resource_weights
    return replace(
        args,
        resource_weights=weights if weights or args.dominant_resource_weight else DEFAULT_RESOURCE_WEIGHTS,
        usage_thresholds=args.usage_thresholds or DEFAULT_USAGE_THRESHOLDS,
        estimated_scaling_factors={**DEFAULT_SCALING_FACTORS, **args.estimated_scaling_factors},
    )


def _complete_elastic_quota(args: ElasticQuotaArgs, _: FeatureGates) -> ElasticQuotaArgs:
    return replace(
        args,
        default_quota_group_max=_as_text(args.default_quota_group_max) or _unlimited(),
        system_quota_group_max=_as_text(args.system_quota_group_max) or _unlimited(),
        quota_group_namespace=args.quota_group_namespace or ElasticQuotaArgs().quota_group_namespace,
    )


def _as_text(quantities: ResourceList) -> ResourceList:
    return {name: str(quantity) for name, quantity in quantities.items()}


def _complete_reservation(args: ReservationArgs, _: FeatureGates) -> ReservationArgs:
    default, given = ReservationArgs(), args.pre_allocation_config
    return replace(
        args,
        gc_duration_seconds=args.gc_duration_seconds or default.gc_duration_seconds,
        gc_interval_seconds=args.gc_interval_seconds or default.gc_interval_seconds,
        resync_interval_seconds=args.resync_interval_seconds or default.resync_interval_seconds,
        pre_allocation_config=replace(
            given,
            cluster_label_key=given.cluster_label_key or PreAllocationConfig().cluster_label_key,
            cluster_priority_annotation_key=given.cluster_priority_annotation_key or PreAllocationConfig().cluster_priority_annotation_key,
        ),
    )


KOORDINATOR_COMPLETION: dict[type[PluginArgs], Callable[[Any, FeatureGates], PluginArgs]] = {
    LoadAwareSchedulingArgs: _complete_load_aware,
    ElasticQuotaArgs: _complete_elastic_quota,
    ReservationArgs: _complete_reservation,
}
"""As `args.IN_TREE_COMPLETION`."""
