"""The topology spread constraints of a pod, in a form that is equal for pods that are treated alike.

Which pods a constraint counts is a `PodQuery`. A pod's own labels are part of it only as far as they matter: whether the pod itself would
count, and the values of matchLabelKeys. So the pods of a StatefulSet, whose labels all differ, have equal constraints.
Reference: plugins/podtopologyspread/common.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.meta import LabelSelectorRequirement
from koordsched.api.selectors import EVERYTHING, NOTHING, SelectorError, label_selector_matcher
from koordsched.cache.pod_counts import PodQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched.api.core import NodeSelector, Pod, Toleration, TopologySpreadConstraint
    from koordsched.api.selectors import LabelSelectorMatcher

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"
HONOR = "Honor"


class SpreadConstraint(msgspec.Struct, frozen=True, cache_hash=True):
    """One constraint with its defaults filled in."""

    topology_key: str
    max_skew: int
    min_domains: int
    query: PodQuery | None  # None: counts no pod (an empty selector: it selects everything and yet counts nothing)
    counts_itself: bool  # whether the pod's own arrival adds one
    honors_affinity: bool  # only nodes that the pod's nodeSelector and required terms match are looked at
    honors_taints: bool  # only nodes whose hard taints the pod tolerates are looked at


class PodSpreadConstraints(msgspec.Struct, frozen=True, cache_hash=True):
    """All that the plugin reads of a pod. `problem` is an invalid field of the pod; there are no constraints then."""

    hard: tuple[SpreadConstraint, ...] = ()
    soft: tuple[SpreadConstraint, ...] = ()
    require_all_keys: bool = True  # a node that lacks a soft constraint's key is left out of scoring
    node_selector: tuple[tuple[str, str], ...] = ()
    required: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    honors_taints: bool = False  # whether some constraint does
    problem: str = ""


def own_constraints(pod: Pod) -> PodSpreadConstraints:
    """Return the constraints that the pod itself has."""
    hard, soft = [], []
    namespace, labels = frozenset({pod.metadata.namespace}), pod.metadata.labels
    for index, written in enumerate(pod.spec.topology_spread_constraints):
        try:
            selector = _with_label_keys(label_selector_matcher(written.label_selector), written.match_label_keys, labels)
        except SelectorError as error:
            return PodSpreadConstraints(problem=f"spec.topologySpreadConstraints[{index}].labelSelector.{error}")
        constraint = spread_constraint(written, namespace, selector, labels)
        if written.when_unsatisfiable == HARD:
            hard.append(constraint)
        elif written.when_unsatisfiable == SOFT:
            soft.append(constraint)
    return pod_constraints(pod, hard, soft)


def pod_constraints(
    pod: Pod, hard: Sequence[SpreadConstraint], soft: Sequence[SpreadConstraint], *, require_all_keys: bool = True
) -> PodSpreadConstraints:
    """Return constraints with those of the pod's node affinity and tolerations that their policies honor."""
    affinity = any(each.honors_affinity for each in (*hard, *soft))
    taints = any(each.honors_taints for each in (*hard, *soft))
    return PodSpreadConstraints(
        tuple(hard),
        tuple(soft),
        require_all_keys,
        node_selector=tuple(sorted(pod.spec.node_selector.items())) if affinity else (),
        required=required_nodes(pod) if affinity else None,
        tolerations=pod.spec.tolerations if taints else (),
        honors_taints=taints,
    )


def spread_constraint(
    written: TopologySpreadConstraint, namespaces: frozenset[str], selector: LabelSelectorMatcher, labels: Mapping[str, str]
) -> SpreadConstraint:
    """Fill in the defaults of a constraint that counts the pods of this selector. labels: the pod's own."""
    return SpreadConstraint(
        topology_key=written.topology_key,
        max_skew=written.max_skew,
        min_domains=1 if written.min_domains is None else written.min_domains,
        query=None if selector.everything else PodQuery(namespaces, selector, terminating=False),
        counts_itself=selector.matches(labels),
        honors_affinity=written.node_affinity_policy in {None, HONOR},
        honors_taints=written.node_taints_policy == HONOR,
    )


def required_nodes(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def matches_any(constraints: Iterable[SpreadConstraint], pod: Pod) -> bool:
    """Answer whether the labels and namespace of a pod are those that one of the constraints selects, terminating or not."""
    meta = pod.metadata
    return any(each.query is not None and each.query.matches(meta.namespace, meta.labels) for each in constraints)


def _with_label_keys(selector: LabelSelectorMatcher, keys: Iterable[str], labels: Mapping[str, str]) -> LabelSelectorMatcher:
    for key in keys:
        if key in labels:
            selector = EVERYTHING if selector == NOTHING else selector  # as the reference merges them: the keys alone then select
            selector = selector.with_requirement(LabelSelectorRequirement(key, "In", (labels[key],)))
    return selector
