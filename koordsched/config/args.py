"""Arguments of kube-scheduler's in-tree plugins (framework.md §1.4): the kinds `<Plugin>Args` with the reference's defaults.

A Struct's defaults are what the plugin gets without a pluginConfig entry. Where Kubernetes replaces a zero by a default after reading,
`complete_args` does; what is allowed is in `args_validation`. IN_TREE_ARGS maps a plugin's name to its class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from koordsched.api.core import NodeAffinity, TopologySpreadConstraint
from koordsched.api.meta import Int32, Int64
from koordsched.config.duration import Duration
from koordsched.config.types import Config, PluginArgs

if TYPE_CHECKING:
    from collections.abc import Callable

    from koordsched.config.features import FeatureGates

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO = "RequestedToCapacityRatio"


class ResourceSpec(Config):
    name: str
    weight: Int64 = 0


CPU_AND_MEMORY = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))


class UtilizationShapePoint(Config):
    """A point of a scoring function: utilization 0..100 gets score 0..10."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(Config):
    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Config):
    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(PluginArgs):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type=LEAST_ALLOCATED, resources=CPU_AND_MEMORY)


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    resources: tuple[ResourceSpec, ...] = CPU_AND_MEMORY


class InterPodAffinityArgs(PluginArgs):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(PluginArgs):
    added_affinity: NodeAffinity | None = None


class PodTopologySpreadArgs(PluginArgs):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class DefaultPreemptionArgs(PluginArgs):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class VolumeBindingArgs(PluginArgs):
    """shape None: not given, which is the only choice without the gate StorageCapacityScoring."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


class DynamicResourcesArgs(PluginArgs):
    """None: not given, which is the only choice while the gate of a field is off. filter_timeout 0: no timeout."""

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None


IN_TREE_ARGS: dict[str, type[PluginArgs]] = {
    "NodeResourcesFit": NodeResourcesFitArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "DefaultPreemption": DefaultPreemptionArgs,
    "VolumeBinding": VolumeBindingArgs,
    "DynamicResources": DynamicResourcesArgs,
}

STORAGE_SHAPE = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))
FILTER_TIMEOUT = Duration(10)
BINDING_TIMEOUT = Duration(600)


def _weighted(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """Return the resources with weight 1 where none was given, cpu and memory where there are no resources."""
    return tuple(spec if spec.weight else replace(spec, weight=1) for spec in resources) or CPU_AND_MEMORY


def _complete_fit(args: NodeResourcesFitArgs, _: FeatureGates) -> NodeResourcesFitArgs:
    strategy = args.scoring_strategy
    return replace(args, scoring_strategy=replace(strategy, resources=_weighted(strategy.resources)))


def _complete_balanced(args: NodeResourcesBalancedAllocationArgs, _: FeatureGates) -> NodeResourcesBalancedAllocationArgs:
    return replace(args, resources=_weighted(args.resources))


def _complete_spread(args: PodTopologySpreadArgs, _: FeatureGates) -> PodTopologySpreadArgs:
    return args if args.defaulting_type else replace(args, defaulting_type="System")


def _complete_volume_binding(args: VolumeBindingArgs, gates: FeatureGates) -> VolumeBindingArgs:
    return replace(args, shape=STORAGE_SHAPE) if not args.shape and gates["StorageCapacityScoring"] else args


def _complete_dynamic_resources(args: DynamicResourcesArgs, gates: FeatureGates) -> DynamicResourcesArgs:
    if args.filter_timeout is None and gates["DRASchedulerFilterTimeout"]:
        args = replace(args, filter_timeout=FILTER_TIMEOUT)
    if args.binding_timeout is None and gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]:
        args = replace(args, binding_timeout=BINDING_TIMEOUT)
    return args


IN_TREE_COMPLETION: dict[type[PluginArgs], Callable[[Any, FeatureGates], PluginArgs]] = {
    NodeResourcesFitArgs: _complete_fit,
    NodeResourcesBalancedAllocationArgs: _complete_balanced,
    PodTopologySpreadArgs: _complete_spread,
    VolumeBindingArgs: _complete_volume_binding,
    DynamicResourcesArgs: _complete_dynamic_resources,
}
"""How a zero becomes its default after reading, for the classes whose field defaults do not say it all."""
