"""InterPodAffinity as framework.md §10.11 says it, in plain Python: loops over nodes and pods, and nothing kept.

Reads API objects only. `Cluster` is what there is; `filter` gives the reason of each node that is refused, `score` raw and final scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from koordsched.api.core import Pod, PodAffinity, PodAffinityTerm
from koordsched.api.meta import LabelSelector, LabelSelectorRequirement

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

Labels = Mapping[str, str]


class Cluster(NamedTuple):
    """Nodes' labels by name, pods with the name of their node (which may not be there), labels of namespaces."""

    nodes: Mapping[str, Labels]
    pods: list[tuple[Pod, str]]
    namespaces: Mapping[str, Labels]

    def existing(self) -> Iterable[tuple[Pod, Labels]]:
        return [(pod, self.nodes[node]) for pod, node in self.pods if node in self.nodes]


def filter(cluster: Cluster, pod: Pod) -> dict[str, str]:  # noqa: A001
    """Return the reason of each node that the pod may not go to."""
    refused = {name: _reason(cluster, pod, labels) for name, labels in cluster.nodes.items()}
    return {name: reason for name, reason in refused.items() if reason}


def score(cluster: Cluster, pod: Pod, hard_weight: int = 1) -> dict[str, int]:
    """Return each node's raw score."""
    pairs: dict[tuple[str, str], int] = {}

    def add(term: PodAffinityTerm, place: Labels, weight: int) -> None:
        if term.topology_key in place:
            pair = (term.topology_key, place[term.topology_key])
            pairs[pair] = pairs.get(pair, 0) + weight

    for other, place in cluster.existing():
        for term, weight in _preferred(pod):
            if _means(cluster, pod, term, other):
                add(term, place, weight)
        for term, weight in _preferred(other):
            if _means(cluster, other, term, pod):
                add(term, place, weight)
        for term in _required(_near(other)):
            if _means(cluster, other, term, pod):
                add(term, place, hard_weight)
    return {name: sum(pairs.get((key, value), 0) for key, value in labels.items()) for name, labels in cluster.nodes.items()}


def normalize(raw: Mapping[str, int]) -> dict[str, int]:
    """Scale the scores of the feasible nodes to 0..100."""
    low, high = min(raw.values(), default=0), max(raw.values(), default=0)
    return {name: int(100.0 * (float(value - low) / float(high - low))) if high > low else 0 for name, value in raw.items()}


def _reason(cluster: Cluster, pod: Pod, node: Labels) -> str:
    if not _wanted_are_there(cluster, pod, node):
        return AFFINITY
    for term in _required(_far(pod)):
        for other, place in cluster.existing():
            if _same_domain(term, node, place) and _means(cluster, pod, term, other):
                return ANTI_AFFINITY
    for other, place in cluster.existing():
        for term in _required(_far(other)):
            if _same_domain(term, node, place) and _means(cluster, other, term, pod):
                return EXISTING
    return ""


def _wanted_are_there(cluster: Cluster, pod: Pod, node: Labels) -> bool:
    terms = _required(_near(pod))
    if any(term.topology_key not in node for term in terms):
        return False
    wanted = [place for other, place in cluster.existing() if all(_means(cluster, pod, term, other) for term in terms)]
    if all(any(_same_domain(term, node, place) for place in wanted) for term in terms):
        return True
    somewhere = any(term.topology_key in place for place in wanted for term in terms)
    return not somewhere and all(_means(cluster, pod, term, pod) for term in terms)


def _same_domain(term: PodAffinityTerm, one: Labels, other: Labels) -> bool:
    key = term.topology_key
    return key in one and key in other and one[key] == other[key]


def _means(cluster: Cluster, owner: Pod, term: PodAffinityTerm, pod: Pod) -> bool:
    """Answer whether the owner's term means the pod."""
    namespace = pod.metadata.namespace
    if not term.namespaces and term.namespace_selector is None:
        if namespace != owner.metadata.namespace:
            return False
    elif namespace not in term.namespaces and not _selects(term.namespace_selector, cluster.namespaces.get(namespace, {})):
        return False
    if not _selects(term.label_selector, pod.metadata.labels):
        return False
    own = owner.metadata.labels
    return all(pod.metadata.labels.get(key) == own[key] for key in term.match_label_keys if key in own) and all(
        pod.metadata.labels.get(key) != own[key] for key in term.mismatch_label_keys if key in own
    )


def _selects(selector: LabelSelector | None, labels: Labels) -> bool:
    if selector is None:
        return False
    equal = all(labels.get(key) == value for key, value in selector.match_labels.items())
    return equal and all(_holds(expression, labels) for expression in selector.match_expressions)


def _holds(expression: LabelSelectorRequirement, labels: Labels) -> bool:
    present, value = expression.key in labels, labels.get(expression.key)
    return {
        "In": present and value in expression.values,
        "NotIn": not present or value not in expression.values,
        "Exists": present,
        "DoesNotExist": not present,
    }[expression.operator]


def _near(pod: Pod) -> PodAffinity | None:
    return pod.spec.affinity.pod_affinity if pod.spec.affinity else None


def _far(pod: Pod) -> PodAffinity | None:
    return pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None


def _required(affinity: PodAffinity | None) -> tuple[PodAffinityTerm, ...]:
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _preferred(pod: Pod) -> list[tuple[PodAffinityTerm, int]]:
    """Return the preferred terms, those of anti-affinity with negative weights."""
    near, far = _near(pod), _far(pod)
    likes = near.preferred_during_scheduling_ignored_during_execution if near else ()
    dislikes = far.preferred_during_scheduling_ignored_during_execution if far else ()
    return [
        *((weighted.pod_affinity_term, weighted.weight) for weighted in likes),
        *((weighted.pod_affinity_term, -weighted.weight) for weighted in dislikes),
    ]
