"""What NodeAffinity reads of an affinity: the nodes it names, and the terms it prefers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.node_selector import NAME_FIELD, Term, parse_term, term_error

if TYPE_CHECKING:
    from koordsched.api.core import NodeAffinity, NodeSelector, NodeSelectorTerm
    from koordsched.api.podinfo import PodInfo

Weighted = tuple[Term, int]


def node_affinity(pod: PodInfo) -> NodeAffinity | None:
    affinity = pod.pod.spec.affinity
    return affinity.node_affinity if affinity else None


def named_nodes(required: NodeSelector) -> frozenset[str] | None:
    """Return the only nodes that can match because every term names some by metadata.name; None when a term does not.

    Empty: within each term the names contradict each other.
    """
    if not required.node_selector_terms:
        return None
    names: frozenset[str] = frozenset()
    for term in required.node_selector_terms:
        named = _named_by(term)
        if named is None:
            return None
        names |= named
    return names


def _named_by(term: NodeSelectorTerm) -> frozenset[str] | None:
    lists = [frozenset(field.values) for field in term.match_fields if field.key == NAME_FIELD and field.operator == "In"]
    return frozenset.intersection(*lists) if lists else None


def preferred_error(affinity: NodeAffinity | None) -> str | None:
    """Say which preferred term cannot be understood, or None. Unlike a required one it makes the cycle fail, as in Kubernetes v1.35."""
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    for i, entry in enumerate(preferred):
        if entry.weight and (problem := term_error(entry.preference)):
            return f"[{i}].{problem}"
    return None


def weighted_terms(affinity: NodeAffinity | None) -> list[Weighted]:
    """Return the preferred terms that can count: with a weight, not empty, understood."""
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    parsed = [(parse_term(entry.preference), entry.weight) for entry in preferred]
    return [(term, weight) for term, weight in parsed if term is not None and weight]
