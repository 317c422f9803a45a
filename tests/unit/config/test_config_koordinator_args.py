"""Arguments of Koordinator's plugins: v1.8.0's defaults and what is refused (frameworkext.md §2.1 and the plugins' own documents)."""

from __future__ import annotations

from typing import Any

import pytest

from koordsched.config import ConfigError, load_config_object
from koordsched.config.duration import Duration
from koordsched.config.koordinator_args import (
    KOORDINATOR_ARGS,
    CoschedulingArgs,
    DeviceShareArgs,
    ElasticQuotaArgs,
    LoadAwareSchedulingArgs,
    NodeNUMAResourceArgs,
    NodeResourcesFitPlusArgs,
    ReservationArgs,
    ScarceResourceAvoidanceArgs,
    SchedulingHintArgs,
)


def args_of(name: str, args: Any, *, enabled: bool = True) -> Any:
    """Return the arguments as the plugin gets them; None when the profile does not enable it."""
    plugins = {"multiPoint": {"enabled": [{"name": name}]}} if enabled else {}
    profile = {"schedulerName": "p", "plugins": plugins, "pluginConfig": [{"name": name, "args": args}]}
    value = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    return load_config_object(value).profiles[0].args.get(name)


def refused(name: str, args: Any) -> list[str]:
    """Return the problems, which must all be those of a plugin that cannot be built."""
    with pytest.raises(ConfigError) as error:
        args_of(name, args)
    prefix = f'initializing plugin "{name}": '
    assert all(mistake.problem.startswith(prefix) for mistake in error.value.errors)
    return [mistake.problem.removeprefix(prefix) for mistake in error.value.errors]


@pytest.mark.parametrize("name", sorted(KOORDINATOR_ARGS))
def test_every_koordinator_plugin_gets_defaulted_arguments_without_an_entry(name: str) -> None:
    value = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": name}]}}}],
    }
    assert load_config_object(value).profiles[0].args[name] == args_of(name, {})


def test_load_aware_scheduling_defaults() -> None:
    args: LoadAwareSchedulingArgs = args_of("LoadAwareScheduling", {})
    assert args.filter_expired_node_metrics is True
    assert args.node_metric_expiration_seconds == 180
    assert args.enable_schedule_when_node_metrics_expired is False
    assert args.resource_weights == {"cpu": 1, "memory": 1}
    assert args.usage_thresholds == {"cpu": 65, "memory": 95}
    assert args.prod_usage_thresholds == {}
    assert args.estimated_scaling_factors == {"cpu": 85, "memory": 70}
    assert args.estimated_seconds_after_pod_scheduled is None
    assert args.aggregated is None


def test_load_aware_weights_default_only_without_a_dominant_weight_and_factors_key_by_key() -> None:
    assert args_of("LoadAwareScheduling", {"dominantResourceWeight": 2}).resource_weights == {}
    assert args_of("LoadAwareScheduling", {"usageThresholds": {"cpu": 0}}).usage_thresholds == {"cpu": 0}
    factors = args_of("LoadAwareScheduling", {"estimatedScalingFactors": {"cpu": 90, "a.b/c": 50}}).estimated_scaling_factors
    assert factors == {"cpu": 90, "memory": 70, "a.b/c": 50}


@pytest.mark.parametrize(
    ("args", "problems"),
    [
        (
            {"nodeMetricExpirationSeconds": 0},
            ["nodeMetricExpirationSeconds: Invalid value: 0: nodeMetricExpiredSeconds should be a positive value"],
        ),
        (
            {"resourceWeights": {"cpu": 0}},
            ['resourceWeights: Invalid value: {"cpu":0}: resource Weight of cpu should be a positive value, got 0'],
        ),
        (
            {"resourceWeights": {"cpu": 101}},
            ['resourceWeights: Invalid value: {"cpu":101}: resource Weight of cpu should be less than 100, got 101'],
        ),
        (
            {"resourceWeights": {"cpu": 1, "memory": 1, "x/y": 1}},
            ['estimatedScalingFactors: Not found: "x/y"'],
        ),
        (
            {"dominantResourceWeight": -1},
            ["dominantResourceWeight: Invalid value: -1: dominantResourceWeight should not be a negative value"],
        ),
        (
            {"dominantResourceWeight": 101},
            ["dominantResourceWeight: Invalid value: 101: dominantResourceWeight should be less than 100"],
        ),
        (
            {"usageThresholds": {"cpu": 101}},
            ['usageThresholds: Invalid value: {"cpu":101}: resource Threshold of cpu should be less than 100, got 101'],
        ),
        (
            {"prodUsageThresholds": {"cpu": -1}},
            ['prodUsageThresholds: Invalid value: {"cpu":-1}: resource Threshold of cpu should be a positive value, got -1'],
        ),
        (
            {"estimatedScalingFactors": {"cpu": 0}},
            [
                'estimatedScalingFactors: Invalid value: {"cpu":0,"memory":70}: '
                "estimated resource ScalingFactor of cpu should be a positive value, got 0"
            ],
        ),
        (
            {"aggregated": {"usageThresholds": {"cpu": 200}, "usageAggregationType": "p42", "scoreAggregatedDuration": "-1s"}},
            [
                'aggregated.usageThresholds: Invalid value: {"cpu":200}: resource Threshold of cpu should be less than 100, got 200',
                'aggregated.usageAggregationType: Unsupported value: "p42": supported values: "avg", "p50", "p90", "p95", "p99"',
                'aggregated.scoreAggregatedDuration: Invalid value: "-1s": duration must be >= 0',
            ],
        ),
    ],
)
def test_load_aware_arguments_out_of_range_are_refused(args: dict[str, Any], problems: list[str]) -> None:
    assert [problem.split(", did you mean")[0] for problem in refused("LoadAwareScheduling", args)] == problems


def test_node_numa_resource_defaults_and_an_explicit_empty_policy() -> None:
    args: NodeNUMAResourceArgs = args_of("NodeNUMAResource", {})
    assert args.default_cpu_bind_policy == "FullPCPUs"
    assert (args.scoring_strategy.type, args.numa_scoring_strategy.type) == ("LeastAllocated", "LeastAllocated")
    assert [(spec.name, spec.weight) for spec in args.scoring_strategy.resources] == [("cpu", 1), ("memory", 1)]
    assert args_of("NodeNUMAResource", {"defaultCPUBindPolicy": ""}).default_cpu_bind_policy == ""


def test_node_numa_resource_refuses_other_policies_strategies_and_weights() -> None:
    args = {
        "defaultCPUBindPolicy": "ConstrainedBurst",
        "scoringStrategy": {"type": "BalancedAllocation", "resources": [{"name": "cpu", "weight": 0}]},
        "numaScoringStrategy": {"type": "Most"},
    }
    assert refused("NodeNUMAResource", args) == [
        'defaultCPUBindPolicy: Invalid value: "ConstrainedBurst": must specified CPU bind policy FullPCPUs or SpreadByPCPUs',
        "scoringStrategy.resources[0].weight: Invalid value: 0: resource weight of cpu not in valid range (0, 100]",
        'scoringStrategy.type: Invalid value: "BalancedAllocation": scoring strategy BalancedAllocation is not supported',
        'numaScoringStrategy.type: Invalid value: "Most": numa scoring strategy Most is not supported',
    ]


def test_device_share_defaults_stand_or_fall_as_whole_blocks() -> None:
    args: DeviceShareArgs = args_of("DeviceShare", {})
    devices = ["koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-memory", "koordinator.sh/rdma", "koordinator.sh/fpga"]
    assert [spec.name for spec in args.scoring_strategy.resources] == devices
    templates = args.gpu_shared_resource_templates_config
    assert (templates.config_map_namespace, templates.config_map_name) == ("koordinator-system", "gpu-shared-resource-templates")
    assert templates.matched_resources == ("huawei.com/npu-core",)
    partial = args_of("DeviceShare", {"gpuSharedResourceTemplatesConfig": {"configMapName": "x"}}).gpu_shared_resource_templates_config
    assert (partial.config_map_namespace, partial.config_map_name, partial.matched_resources) == ("", "x", ())
    assert refused("DeviceShare", {"scoringStrategy": {}}) == [
        'scoringStrategy.type: Invalid value: "": scoring strategy  is not supported'
    ]


@pytest.mark.parametrize("weight", [0, 101, -1])
def test_device_share_refuses_weights_out_of_range(weight: int) -> None:
    strategy = {"type": "MostAllocated", "resources": [{"name": "koordinator.sh/gpu-memory-ratio", "weight": weight}]}
    text = "resource weight of koordinator.sh/gpu-memory-ratio not in valid range (0, 100]"
    assert refused("DeviceShare", {"scoringStrategy": strategy}) == [
        f"scoringStrategy.resources[0].weight: Invalid value: {weight}: {text}"
    ]


def test_coscheduling_defaults_and_limits() -> None:
    """coscheduling.md §15, checklist 34: what is refused ends the start."""
    assert args_of("Coscheduling", {}) == CoschedulingArgs(controller_workers=1, default_match_policy="once-satisfied")
    assert args_of("Coscheduling", {}).default_timeout == 600
    assert refused("Coscheduling", {"defaultTimeout": "-1s", "controllerWorkers": 0}) == [
        'defaultTimeout: Invalid value: "-1s": coeSchedulingArgs DefaultTimeoutSeconds invalid',
        "controllerWorkers: Invalid value: 0: coeSchedulingArgs ControllerWorkers invalid",
    ]


def test_elastic_quota_defaults() -> None:
    args: ElasticQuotaArgs = args_of("ElasticQuota", {"defaultQuotaGroupMax": {}, "quotaGroupNamespace": ""})
    unlimited = {"cpu": "1844674407370955161", "memory": "1844674407370955161"}
    assert (args.default_quota_group_max, args.system_quota_group_max) == (unlimited, unlimited)
    assert (args.delay_evict_time, args.revoke_pod_interval, args.quota_snapshot_update_interval) == (
        Duration(120),
        Duration(1),
        Duration(120),
    )
    assert args.quota_group_namespace == "koordinator-system"
    assert (args.enable_runtime_quota, args.enable_min_quota_scale, args.disable_default_quota_preemption) == (True, True, True)
    assert (args.monitor_all_quotas, args.enable_check_parent_quota, args.enable_queue_hint, args.parity) == (False, False, False, False)


def test_elastic_quota_refuses_negative_quantities_and_times() -> None:
    args = {
        "defaultQuotaGroupMax": {"cpu": "-1", "memory": "1Gib"},
        "systemQuotaGroupMax": {"a.b/c": -2},
        "delayEvictTime": "-1s",
        "revokePodInterval": "-1ms",
    }
    negative = "elasticQuotaArgs error, {name} should be a positive value, resourceName:{resource}, got {value}"
    found = refused("ElasticQuota", args)
    assert (
        found[0]
        == f'defaultQuotaGroupMax.cpu: Invalid value: "-1": {negative.format(name="defaultQuotaGroupMax", resource="cpu", value="-1")}'
    )
    assert found[1].startswith('defaultQuotaGroupMax.memory: "1Gib" is not a quantity')
    assert found[2:] == [
        f'systemQuotaGroupMax[a.b/c]: Invalid value: "-2": {negative.format(name="systemQuotaGroupMax", resource="a.b/c", value="-2")}',
        'delayEvictTime: Invalid value: "-1s": elasticQuotaArgs error, DelayEvictTime should be a positive value',
        'revokePodInterval: Invalid value: "-1ms": elasticQuotaArgs error, RevokePodCycle should be a positive value',
    ]


def test_reservation_defaults_where_zero_means_the_default() -> None:
    given = {"gcDurationSeconds": 0, "gcIntervalSeconds": 0, "resyncIntervalSeconds": 0, "preAllocationConfig": {"enableClusterMode": True}}
    args: ReservationArgs = args_of("Reservation", given)
    assert (args.gc_duration_seconds, args.gc_interval_seconds, args.resync_interval_seconds) == (86400, 60, 60)
    assert (args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute, args.controller_workers) == (10, 100, 1)
    cluster = args.pre_allocation_config
    assert cluster.enable_cluster_mode is True
    assert cluster.cluster_label_key == "pod.koordinator.sh/is-pre-allocatable"
    assert cluster.cluster_priority_annotation_key == "pod.koordinator.sh/pre-allocatable-priority"


def test_reservation_refuses_what_is_out_of_range() -> None:
    args = {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1, "gcDurationSeconds": -1, "resyncIntervalSeconds": -2}
    assert refused("Reservation", args) == [
        "minCandidateNodesPercentage: Invalid value: 101: must be in the range [0, 100]",
        "minCandidateNodesAbsolute: Invalid value: -1: must be non-negative",
        "gcDurationSeconds: Invalid value: -1: must be non-negative",
        "resyncIntervalSeconds: Invalid value: -2: must be non-negative",
    ]


def test_the_small_plugins() -> None:
    assert args_of("SchedulingHint", {}) == SchedulingHintArgs(max_hint_nodes=100)
    assert refused("SchedulingHint", {"maxHintNodes": 0}) == ["maxHintNodes: Invalid value: 0: must be a positive value"]
    assert args_of("ScarceResourceAvoidance", {"resources": ["a"]}) == ScarceResourceAvoidanceArgs(resources=("a",))
    plus: NodeResourcesFitPlusArgs = args_of("NodeResourcesFitPlus", {"resources": {"cpu": {"type": "MostAllocated", "weight": 2}}})
    assert (plus.resources["cpu"].type, plus.resources["cpu"].weight) == ("MostAllocated", 2)
    assert refused("NodeResourcesFitPlus", {"resources": {"a.b/c": {"type": "Most", "weight": -1}}}) == [
        'resources[a.b/c].type: Unsupported value: "Most": supported values: "MostAllocated", "LeastAllocated"',
        "resources[a.b/c].weight: Invalid value: -1: must be non-negative",
    ]
    most = (2**63 - 1) // 100
    weighted = {"cpu": {"type": "MostAllocated", "weight": most}, "memory": {"type": "MostAllocated", "weight": 1}}
    assert refused("NodeResourcesFitPlus", {"resources": weighted}) == [
        f"resources: Invalid value: {most + 1}: weights must add up to at most {most}"
    ]


def test_arguments_of_a_plugin_that_is_not_enabled_are_read_but_not_checked() -> None:
    assert args_of("SchedulingHint", {"maxHintNodes": 0}, enabled=False) is None
    with pytest.raises(ConfigError, match="unknown field"):
        args_of("SchedulingHint", {"maxHintNode": 0}, enabled=False)
