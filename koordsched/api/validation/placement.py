"""Rules for what says where a pod may run: taints, tolerations, affinity, topology spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.names import is_dns_label, is_dns_subdomain, is_label_value
from koordsched.api.selectors.labels import OPERATORS
from koordsched.api.validation.metadata import (
    LABEL_RULE,
    SUBDOMAIN_RULE,
    VALUE_RULE,
    check_label_key,
    check_label_selector,
    check_label_values,
    check_requirement,
    check_time,
)

if TYPE_CHECKING:
    from koordsched.api.core import (
        Affinity,
        NodeSelector,
        NodeSelectorTerm,
        PodAffinity,
        PodAffinityTerm,
        Taint,
        Toleration,
        TopologySpreadConstraint,
    )
    from koordsched.api.meta import LabelSelectorRequirement
    from koordsched.api.validation.errors import Errors

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MAX_WEIGHT = 100


def check_taints(errors: Errors, path: str, taints: tuple[Taint, ...]) -> None:
    seen = set()
    for i, taint in enumerate(taints):
        at = f"{path}[{i}]"
        check_label_key(errors, f"{at}.key", taint.key)
        if not is_label_value(taint.value):
            errors.invalid(f"{at}.value", taint.value, VALUE_RULE)
        if taint.effect not in TAINT_EFFECTS:
            errors.one_of(f"{at}.effect", taint.effect, TAINT_EFFECTS)
        check_time(errors, f"{at}.timeAdded", taint.time_added)
        if (taint.key, taint.effect) in seen:
            errors.duplicate(at, f"{taint.key}:{taint.effect}", "taints must be unique by key and effect pair")
        seen.add((taint.key, taint.effect))


def check_toleration(errors: Errors, path: str, toleration: Toleration) -> None:
    operator, effect = toleration.operator, toleration.effect
    if toleration.key:
        check_label_key(errors, f"{path}.key", toleration.key)
    elif operator != "Exists":
        errors.invalid(f"{path}.operator", operator, "operator must be Exists when `key` is empty")
    if operator not in {"", "Equal", "Exists"}:
        errors.one_of(f"{path}.operator", operator, ("Equal", "Exists"))
    elif operator == "Exists" and toleration.value:
        errors.invalid(f"{path}.value", toleration.value, "value must be empty when `operator` is 'Exists'")
    elif not is_label_value(toleration.value):
        errors.invalid(f"{path}.value", toleration.value, VALUE_RULE)
    if effect and effect not in TAINT_EFFECTS:
        errors.one_of(f"{path}.effect", effect, TAINT_EFFECTS)
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        errors.invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")


def check_affinity(errors: Errors, path: str, affinity: Affinity) -> None:
    node = affinity.node_affinity
    if node is not None:
        required = node.required_during_scheduling_ignored_during_execution
        if required is not None:
            check_node_selector(errors, f"{path}.nodeAffinity.{_REQUIRED}", required)
        for i, preferred in enumerate(node.preferred_during_scheduling_ignored_during_execution):
            at = f"{path}.nodeAffinity.{_PREFERRED}[{i}]"
            _check_weight(errors, at, preferred.weight)
            _check_node_selector_term(errors, f"{at}.preference", preferred.preference)
    for name, pods in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if pods is not None:
            _check_pod_affinity(errors, f"{path}.{name}", pods)


def check_node_selector(errors: Errors, path: str, selector: NodeSelector) -> None:
    """Check required terms; unlike preferred ones they must name values that a label can have."""
    if not selector.node_selector_terms:
        errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for i, term in enumerate(selector.node_selector_terms):
        at = f"{path}.nodeSelectorTerms[{i}]"
        _check_node_selector_term(errors, at, term)
        for j, requirement in enumerate(term.match_expressions):
            check_label_values(errors, f"{at}.matchExpressions[{j}]", requirement)


def _check_node_selector_term(errors: Errors, path: str, term: NodeSelectorTerm) -> None:
    for i, requirement in enumerate(term.match_expressions):
        at = f"{path}.matchExpressions[{i}]"
        if requirement.operator not in OPERATORS:
            errors.one_of(f"{at}.operator", requirement.operator, OPERATORS)
        if requirement.operator in {"Gt", "Lt"} and len(requirement.values) != 1:
            errors.required(f"{at}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        check_requirement(errors, at, requirement)
    for i, requirement in enumerate(term.match_fields):
        _check_match_field(errors, f"{path}.matchFields[{i}]", requirement)


def _check_match_field(errors: Errors, path: str, requirement: LabelSelectorRequirement) -> None:
    if requirement.operator not in {"In", "NotIn"}:
        errors.one_of(f"{path}.operator", requirement.operator, ("In", "NotIn"))
    elif len(requirement.values) != 1:
        errors.required(f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
    if requirement.key != "metadata.name":
        errors.one_of(f"{path}.key", requirement.key, ("metadata.name",))
    for i, value in enumerate(requirement.values):
        if not is_dns_subdomain(value):
            errors.invalid(f"{path}.values[{i}]", value, SUBDOMAIN_RULE)


def _check_pod_affinity(errors: Errors, path: str, affinity: PodAffinity) -> None:
    for i, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        _check_pod_affinity_term(errors, f"{path}.{_REQUIRED}[{i}]", term)
    for i, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        at = f"{path}.{_PREFERRED}[{i}]"
        _check_weight(errors, at, weighted.weight)
        _check_pod_affinity_term(errors, f"{at}.podAffinityTerm", weighted.pod_affinity_term)


def _check_pod_affinity_term(errors: Errors, path: str, term: PodAffinityTerm) -> None:
    check_label_selector(errors, f"{path}.labelSelector", term.label_selector)
    check_label_selector(errors, f"{path}.namespaceSelector", term.namespace_selector)
    for i, namespace in enumerate(term.namespaces):
        if not is_dns_label(namespace):
            errors.invalid(f"{path}.namespaces[{i}]", namespace, LABEL_RULE)
    check_label_key(errors, f"{path}.topologyKey", term.topology_key)
    for field, keys in (("matchLabelKeys", term.match_label_keys), ("mismatchLabelKeys", term.mismatch_label_keys)):
        _check_label_keys(errors, f"{path}.{field}", keys, has_selector=term.label_selector is not None)


def _check_label_keys(errors: Errors, path: str, keys: tuple[str, ...], *, has_selector: bool) -> None:
    if keys and not has_selector:
        errors.forbidden(path, "must not be specified when labelSelector is not set")
    for i, key in enumerate(keys):
        check_label_key(errors, f"{path}[{i}]", key)


def _check_weight(errors: Errors, path: str, weight: int) -> None:
    if not 1 <= weight <= _MAX_WEIGHT:
        errors.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def check_spread_constraints(errors: Errors, path: str, constraints: tuple[TopologySpreadConstraint, ...]) -> None:
    seen = set()
    for i, constraint in enumerate(constraints):
        at = f"{path}[{i}]"
        _check_spread_constraint(errors, at, constraint)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            errors.duplicate(at, f"{{{pair[0]}, {pair[1]}}}", "constraints must be unique by topologyKey and whenUnsatisfiable")
        seen.add(pair)


def _check_spread_constraint(errors: Errors, path: str, constraint: TopologySpreadConstraint) -> None:
    if constraint.max_skew <= 0:
        errors.invalid(f"{path}.maxSkew", constraint.max_skew, "must be greater than zero")
    check_label_key(errors, f"{path}.topologyKey", constraint.topology_key)
    if constraint.when_unsatisfiable not in {"DoNotSchedule", "ScheduleAnyway"}:
        errors.one_of(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway"))
    if constraint.min_domains is not None:
        if constraint.min_domains <= 0:
            errors.invalid(f"{path}.minDomains", constraint.min_domains, "must be greater than zero")
        if constraint.when_unsatisfiable == "ScheduleAnyway":
            errors.invalid(f"{path}.minDomains", constraint.min_domains, "can only use minDomains if whenUnsatisfiable=DoNotSchedule")
    policies = (("nodeAffinityPolicy", constraint.node_affinity_policy), ("nodeTaintsPolicy", constraint.node_taints_policy))
    for field, policy in policies:
        if policy not in {None, "Honor", "Ignore"}:
            errors.one_of(f"{path}.{field}", policy or "", ("Honor", "Ignore"))
    check_label_selector(errors, f"{path}.labelSelector", constraint.label_selector)
    _check_label_keys(errors, f"{path}.matchLabelKeys", constraint.match_label_keys, has_selector=constraint.label_selector is not None)
