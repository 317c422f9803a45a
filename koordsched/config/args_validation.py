"""What kube-scheduler accepts as arguments of its plugins (`apis/config/validation/validation_pluginargs.go`, framework.md §1.4).

Every function takes the arguments and the feature gates and yields (path within the arguments, problem). Texts equal the reference's.
NodeResourcesFit stands apart: kube-scheduler checks it only when it builds the plugin, so `validation` prefixes its problems.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from koordsched.api.names import label_key_problems, label_value_problems
from koordsched.config.args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from koordsched.config.errors import duplicate, forbidden, invalid, not_supported, required

if TYPE_CHECKING:
    from koordsched.api.core import NodeSelectorTerm, TopologySpreadConstraint
    from koordsched.api.meta import LabelSelectorRequirement
    from koordsched.config.features import FeatureGates
    from koordsched.config.types import PluginArgs

Problems = Iterator[tuple[str, str]]

STRATEGIES = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")
SPREAD_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
MAX_PERCENTAGE = 100
MAX_WEIGHT = 100
MAX_SHAPE_SCORE = 10
MIN_BINDING_TIMEOUT_SECONDS = 1

_INTEGER = r"[-+]?[0-9]{1,63}"


def validate_resources(resources: Sequence[ResourceSpec], path: str) -> Problems:
    for index, spec in enumerate(resources):
        if not 0 < spec.weight <= MAX_WEIGHT:
            yield f"{path}[{index}].weight", invalid(spec.weight, f"resource weight of {spec.name} not in valid range (0, 100]")


def validate_shape(shape: Sequence[UtilizationShapePoint], path: str) -> Problems:
    if not shape:
        yield path, required("at least one point must be specified")
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            yield f"{path}[{index}].utilization", invalid(shape[index].utilization, "values must be sorted in increasing order")
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= MAX_PERCENTAGE:
            yield f"{path}[{index}].utilization", invalid(point.utilization, f"not in valid range [0, {MAX_PERCENTAGE}]")
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield f"{path}[{index}].score", invalid(point.score, f"not in valid range [0, {MAX_SHAPE_SCORE}]")


def validate_fit(args: NodeResourcesFitArgs, _: FeatureGates) -> Problems:
    for index, name in enumerate(args.ignored_resources):
        for problem in label_key_problems(name):
            yield f"ignoredResources[{index}]", invalid(name, problem)
    for index, group in enumerate(args.ignored_resource_groups):
        where = f"ignoredResourceGroups[{index}]"
        if "/" in group:
            yield where, invalid(group, "resource group name can't contain '/'")
        for problem in label_key_problems(group):
            yield where, invalid(group, problem)
    strategy, path = args.scoring_strategy, "scoringStrategy"
    if strategy.type not in STRATEGIES:
        yield f"{path}.type", not_supported(strategy.type, STRATEGIES)
    yield from validate_resources(strategy.resources, f"{path}.resources")
    if strategy.requested_to_capacity_ratio is not None:
        yield from validate_shape(strategy.requested_to_capacity_ratio.shape, f"{path}.shape")
    elif strategy.type == REQUESTED_TO_CAPACITY_RATIO:
        # the reference accepts this and crashes while building the plugin (framework.md §1.4)
        yield f"{path}.requestedToCapacityRatio", required(f"the type {REQUESTED_TO_CAPACITY_RATIO} needs a shape")


def validate_balanced_allocation(args: NodeResourcesBalancedAllocationArgs, _: FeatureGates) -> Problems:
    seen = set()
    for index, spec in enumerate(args.resources):
        if spec.name in seen:
            yield f"resources[{index}].name", duplicate(spec.name)
        seen.add(spec.name)
        if spec.weight != 1:
            yield f"resources[{index}].weight", invalid(spec.weight, "must be 1")


def validate_inter_pod_affinity(args: InterPodAffinityArgs, _: FeatureGates) -> Problems:
    if not 0 <= args.hard_pod_affinity_weight <= MAX_WEIGHT:
        yield "hardPodAffinityWeight", invalid(args.hard_pod_affinity_weight, "not in valid range [0, 100]")


def validate_default_preemption(args: DefaultPreemptionArgs, _: FeatureGates) -> Problems:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    if not 0 <= percentage <= MAX_PERCENTAGE:
        yield "minCandidateNodesPercentage", invalid(percentage, "not in valid range [0, 100]")
    if absolute < 0:
        yield "minCandidateNodesAbsolute", invalid(absolute, "not in valid range [0, inf)")
    if percentage == absolute == 0:
        yield "minCandidateNodesPercentage", invalid(percentage, "cannot be zero at the same time as minCandidateNodesAbsolute")
        yield "minCandidateNodesAbsolute", invalid(absolute, "cannot be zero at the same time as minCandidateNodesPercentage")


def validate_volume_binding(args: VolumeBindingArgs, gates: FeatureGates) -> Problems:
    if args.bind_timeout_seconds < 0:
        yield "bindTimeoutSeconds", invalid(args.bind_timeout_seconds, "invalid BindTimeoutSeconds, should not be a negative value")
    if gates["StorageCapacityScoring"]:
        yield from validate_shape(args.shape or (), "shape")
    elif args.shape is not None:
        given = [{"utilization": point.utilization, "score": point.score} for point in args.shape]
        yield "shape", invalid(given, "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring")


def validate_dynamic_resources(args: DynamicResourcesArgs, gates: FeatureGates) -> Problems:
    timeout = args.filter_timeout
    if timeout is not None and not gates["DRASchedulerFilterTimeout"]:
        yield "filterTimeout", forbidden("DRASchedulingFilterTimeout feature gate is disabled")
    elif timeout is not None and timeout < 0:
        yield "filterTimeout", invalid(timeout.text, "must be zero or positive")
    timeout = args.binding_timeout
    if timeout is not None and not (gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]):
        yield "bindingTimeout", forbidden("DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled")
    elif timeout is not None and timeout < MIN_BINDING_TIMEOUT_SECONDS:
        yield "bindingTimeout", invalid(timeout.text, "must be at least 1 second")


def validate_pod_topology_spread(args: PodTopologySpreadArgs, _: FeatureGates) -> Problems:
    if args.defaulting_type not in {"System", "List"}:
        yield "defaultingType", not_supported(args.defaulting_type, ("System", "List"))
    elif args.defaulting_type == "System" and args.default_constraints:
        yield "defaultingType", invalid("System", "when .defaultConstraints are not empty")
    seen = set()
    for index, constraint in enumerate(args.default_constraints):
        path = f"defaultConstraints[{index}]"
        yield from _validate_constraint(constraint, path)
        identity = (constraint.topology_key, constraint.when_unsatisfiable)
        if identity in seen:
            yield path, duplicate(f"{{{identity[0]}, {identity[1]}}}")
        seen.add(identity)


def _validate_constraint(constraint: TopologySpreadConstraint, path: str) -> Problems:
    if constraint.max_skew <= 0:
        yield f"{path}.maxSkew", invalid(constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield f"{path}.topologyKey", required("can not be empty")
    else:
        for problem in label_key_problems(constraint.topology_key):
            yield f"{path}.topologyKey", invalid(constraint.topology_key, problem)
    if not constraint.when_unsatisfiable:
        yield f"{path}.whenUnsatisfiable", required("can not be empty")
    elif constraint.when_unsatisfiable not in SPREAD_ACTIONS:
        yield f"{path}.whenUnsatisfiable", not_supported(constraint.when_unsatisfiable, SPREAD_ACTIONS)
    if constraint.label_selector is not None:
        yield f"{path}.labelSelector", forbidden("constraint must not define a selector, as they deduced for each pod")


def validate_node_affinity(args: NodeAffinityArgs, _: FeatureGates) -> Problems:
    affinity = args.added_affinity
    if affinity is None:
        return
    if affinity.required_during_scheduling_ignored_during_execution is not None:
        path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution.node_selector_terms):
            yield from _validate_term(term, f"{path}[{index}]")
    path = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        if preferred.weight:  # terms of weight 0 are skipped unread
            yield from _validate_term(preferred.preference, f"{path}[{index}].preference")


def _validate_term(term: NodeSelectorTerm, path: str) -> Problems:
    for index, requirement in enumerate(term.match_expressions):
        yield from _validate_requirement(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in enumerate(term.match_fields):
        where = f"{path}.matchFields[{index}]"
        if requirement.operator not in FIELD_OPERATORS:
            yield f"{where}.operator", not_supported(requirement.operator, FIELD_OPERATORS)
        elif len(requirement.values) != 1:
            yield f"{where}.values", invalid(requirement.values, "must have one element")


def _validate_requirement(requirement: LabelSelectorRequirement, path: str) -> Problems:
    operator, values = requirement.operator, requirement.values
    if operator not in NODE_OPERATORS:
        yield f"{path}.operator", not_supported(operator, NODE_OPERATORS)
        return
    if problems := label_key_problems(requirement.key):
        yield f"{path}.key", invalid(requirement.key, "; ".join(problems))
    if operator in {"In", "NotIn"} and not values:
        yield f"{path}.values", invalid(values, "for 'in', 'notin' operators, values set can't be empty")
    if operator in {"Exists", "DoesNotExist"} and values:
        yield f"{path}.values", invalid(values, "values set must be empty for exists and does not exist")
    if operator in {"Gt", "Lt"}:
        if len(values) != 1:
            yield f"{path}.values", invalid(values, "for 'Gt', 'Lt' operators, exactly one value is required")
        for index, value in enumerate(values):
            if not (re.fullmatch(_INTEGER, value, re.ASCII) and -(2**63) <= int(value) < 2**63):
                yield f"{path}.values[{index}]", invalid(value, "for 'Gt', 'Lt' operators, the value must be an integer")
    for index, value in enumerate(values):
        for problem in label_value_problems(value):
            yield f"{path}.values[{index}]", invalid(value, problem)


VALIDATED_ON_LOAD: dict[type[PluginArgs], Callable[[Any, FeatureGates], Problems]] = {
    DefaultPreemptionArgs: validate_default_preemption,
    InterPodAffinityArgs: validate_inter_pod_affinity,
    NodeAffinityArgs: validate_node_affinity,
    NodeResourcesBalancedAllocationArgs: validate_balanced_allocation,
    PodTopologySpreadArgs: validate_pod_topology_spread,
    VolumeBindingArgs: validate_volume_binding,
    DynamicResourcesArgs: validate_dynamic_resources,
}
"""Checked whenever pluginConfig names the plugin, enabled or not."""
