"""NodeAffinity: Filter by nodeSelector and required terms, Score by preferred terms; the arguments may add an affinity for all pods.

Reference: plugins/nodeaffinity/node_affinity.go of Kubernetes v1.35.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from koordsched._core.change import NodeChange
from koordsched.api.core import Node
from koordsched.framework.interface import (
    FilterNodesPlugin,
    Normalize,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScoreNodesPlugin,
)
from koordsched.framework.node_selector import NAME_FIELD, CompiledNodeSelector, Term, parse_term, required_terms, term_error
from koordsched.framework.shape import ShapeKey
from koordsched.framework.status import SKIP, Status, error, unresolvable
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from koordsched.api import core
    from koordsched.api.core import NodeSelector, NodeSelectorTerm
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.args import NodeAffinityArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Scores

REFUSED_BY_ADDED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
REFUSED_BY_POD = unresolvable("node(s) didn't match Pod's node affinity/selector")
CONFLICT = unresolvable("pod affinity terms conflict")

BY_ADDED = 1  # reason codes
BY_POD = 2

PRE_FILTER_STATE = "PreFilterNodeAffinity"  # the pod's required terms, compiled
PRE_SCORE_STATE = "PreScoreNodeAffinity"  # the preferred terms, compiled

KEPT_SELECTORS = 1024

Weighted = tuple[Term, int]


class NodeAffinityPlugin(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    name = "NodeAffinity"
    reads = NodeChange.LABELS
    normalize = Normalize.DEFAULT

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        self._columns = handle.columns
        added = args.added_affinity
        required = added.required_during_scheduling_ignored_during_execution if added else None
        self._added = CompiledNodeSelector(self._columns, required_terms({}, required)) if required else None
        self._added_preferred = weighted_terms(added)
        self._large: WeakKeyDictionary[ShapeKey, CompiledNodeSelector] = WeakKeyDictionary()
        self._compiled = lru_cache(maxsize=KEPT_SELECTORS)(self._compile)

    def sign(self, pod: PodInfo) -> Hashable:
        spec = pod.pod.spec
        if not spec.node_selector and spec.affinity is None:
            return None
        pairs = spec.node_selector
        return ((*pairs, *pairs.values()), node_affinity(pod))  # one tuple, for a pod may name thousands of labels

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        affinity = node_affinity(pod)
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        if required is None and self._added is None and not pod.pod.spec.node_selector:
            return SKIP
        state.write(PRE_FILTER_STATE, self._selector(pod))
        names = named_nodes(required) if required else None
        if names is None:
            return None
        return PreFilterResult(names) if names else CONFLICT

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        selector: CompiledNodeSelector = state.read(PRE_FILTER_STATE)
        codes = selector.refuse(nodes.rows, BY_POD)
        if self._added is None:
            return codes
        return np.where(self._added.matches_rows(nodes.rows), codes, np.int32(BY_ADDED))

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return REFUSED_BY_ADDED if code == BY_ADDED else REFUSED_BY_POD

    def _selector(self, pod: PodInfo) -> CompiledNodeSelector:
        affinity = node_affinity(pod)
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        pairs = tuple(pod.pod.spec.node_selector.items())
        key = pod.shape
        if not isinstance(key, ShapeKey):
            return self._compile(pairs, required)  # nothing keeps it, for it may name much
        if not key.is_large:
            return self._compiled(pairs, required)
        found = self._large.get(key)
        if found is None:
            found = self._large[key] = self._compile(pairs, required)
        return found

    def _compile(self, pairs: tuple[tuple[str, str], ...], required: NodeSelector | None) -> CompiledNodeSelector:
        return CompiledNodeSelector(self._columns, required_terms(dict(pairs), required))

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        affinity = node_affinity(pod)
        if problem := preferred_error(affinity):
            return error(problem)
        preferred = weighted_terms(affinity) + self._added_preferred
        if not preferred:
            return SKIP
        terms, weights = [term for term, _ in preferred], [weight for _, weight in preferred]
        state.write(PRE_SCORE_STATE, CompiledNodeSelector(self._columns, terms, weights))
        return None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        preferences: CompiledNodeSelector = state.read(PRE_SCORE_STATE)
        return preferences.weigh(nodes.rows)

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        return (EventHint(cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), self._after_node_change),)

    def _after_node_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the node matches now and did not before."""
        assert isinstance(new, Node)
        helps = self._matches(pod, new) and not (isinstance(old, Node) and self._matches(pod, old))
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _matches(self, pod: PodInfo, node: Node) -> bool:
        return (self._added is None or self._added.matches_node(node)) and self._selector(pod).matches_node(node)


# What is read of an affinity


def node_affinity(pod: PodInfo) -> core.NodeAffinity | None:
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


def preferred_error(affinity: core.NodeAffinity | None) -> str | None:
    """Say which preferred term cannot be understood, or None. Unlike a required one it makes the cycle fail, as in Kubernetes v1.35."""
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    for i, entry in enumerate(preferred):
        if entry.weight and (problem := term_error(entry.preference)):
            return f"[{i}].{problem}"
    return None


def weighted_terms(affinity: core.NodeAffinity | None) -> list[Weighted]:
    """Return the preferred terms that can count: with a weight, not empty, understood."""
    preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    parsed = [(parse_term(entry.preference), entry.weight) for entry in preferred]
    return [(term, weight) for term, weight in parsed if term is not None and weight]
