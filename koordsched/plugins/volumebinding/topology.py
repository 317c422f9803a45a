"""The nodes from which a volume, a class's volumes or a storage pool can be used, and which of many candidates each node can use.

Most topologies name values of one label (a host, a zone), so candidates are looked up by the value that a row has, and a thousand local
volumes cost no more than one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched.api.core import NodeSelectorTerm
from koordsched.api.meta import LabelSelectorRequirement
from koordsched.framework.node_selector import CompiledNodeSelector, Term, parse_term, required_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from koordsched.api.core import NodeSelector, PersistentVolume
    from koordsched.api.meta import LabelSelector
    from koordsched.api.storage import StorageClass
    from koordsched.cache.columns import Columns

NO_CANDIDATE = 2**31 - 1  # int32's largest

KEPT_SELECTORS = 4096


class NodeTerms(msgspec.Struct, frozen=True):
    """Alternatives of conditions on a node's labels. `label` and `values` mean the same where all terms name values of one label."""

    terms: tuple[Term, ...]
    label: str = ""
    values: tuple[str, ...] = ()


Topology = NodeTerms | None
"""The nodes that match one of the terms; None: all nodes."""

NO_NODE = NodeTerms(())


def volume_topology(volume: PersistentVolume) -> Topology:
    """Return the topology of the volume's node affinity; a term that cannot be understood matches no node."""
    affinity = volume.spec.node_affinity
    return None if affinity is None or affinity.required is None else _required(affinity.required)


@lru_cache(maxsize=65536)
def _required(selector: NodeSelector) -> Topology:
    return node_terms(required_terms({}, selector))


def class_topology(storage_class: StorageClass) -> Topology:
    """Return the topology in which the class can provision: all nodes without allowedTopologies; an empty term is left out."""
    if not storage_class.allowed_topologies:
        return None
    terms = []
    for topology in storage_class.allowed_topologies:
        expressions = [LabelSelectorRequirement(each.key, "In", each.values) for each in topology.match_label_expressions]
        terms.append(parse_term(NodeSelectorTerm(match_expressions=tuple(expressions))))
    return node_terms(term for term in terms if term is not None)


def capacity_topology(selector: LabelSelector | None) -> Topology:
    """Return the nodeTopology of a CSIStorageCapacity: no node without a selector or with a wrong one, all nodes with an empty one."""
    if selector is None:
        return NO_NODE
    pairs = [LabelSelectorRequirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
    expressions = (*pairs, *selector.match_expressions)
    if not expressions:
        return None
    term = parse_term(NodeSelectorTerm(match_expressions=expressions))
    return NO_NODE if term is None else node_terms([term])


def node_terms(terms: Iterable[Term]) -> NodeTerms:
    """Return the terms, reduced to the values of one label where they name nothing else."""
    found = tuple(terms)
    keys: set[str] = set()
    values: dict[str, None] = {}
    for term in found:
        if len(term) != 1 or term[0].is_field or term[0].operator != "In":
            return NodeTerms(found)
        keys.add(term[0].key)
        values.update(dict.fromkeys(term[0].values))
    return NodeTerms(found, keys.pop(), tuple(values)) if len(keys) == 1 else NodeTerms(found)


class TopologyMatcher:
    """Topologies compiled against a node table's columns; equal topologies share one selector."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._compiled = lru_cache(maxsize=KEPT_SELECTORS)(lambda terms: CompiledNodeSelector(columns, terms))

    def matches(self, topology: Topology, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return per row whether its node is in the topology."""
        if topology is None:
            return np.ones(len(rows), np.bool_)
        return self._compiled(topology.terms).matches_rows(rows).astype(np.bool_)


class CandidatesPerRow:
    """For each row the first few candidates, in order of preference, whose topology its node is in.

    A candidate is named by its rank, its place in that order. What this holds never changes, except for the tables that are made on demand.
    """

    def __init__(self, matcher: TopologyMatcher, topologies: Sequence[Topology], depth: int) -> None:
        """topologies: one a candidate. depth: how many candidates a row may need, because other claims take some."""
        self._matcher = matcher
        self._depth = depth
        self._everywhere: list[int] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}  # label -> value -> ranks
        self._by_terms: dict[NodeTerms, list[int]] = {}
        self._meanings = matcher.columns.meanings
        self._tables: dict[str, NDArray[np.int32]] = {}  # by label: value id -> ranks
        for rank, topology in enumerate(topologies):
            for ranks in self._lists_of(topology):
                if len(ranks) < depth:
                    ranks.append(rank)

    def _lists_of(self, topology: Topology) -> list[list[int]]:
        if topology is None:
            return [self._everywhere]
        if not topology.label:
            return [self._by_terms.setdefault(topology, [])]
        by_value = self._by_label.setdefault(topology.label, {})
        return [by_value.setdefault(value, []) for value in topology.values]

    def ranks(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return ranks (NO_CANDIDATE: none) as an array of any number of lines, a column for each row. O(rows x kinds of topologies)."""
        lines = [np.full(len(rows), rank, np.int32) for rank in self._everywhere]
        for key in self._by_label:
            lines += self._by_value(key, rows)
        for terms, ranks in self._by_terms.items():
            matches = self._matcher.matches(terms, rows)
            lines += [np.where(matches, np.int32(rank), np.int32(NO_CANDIDATE)) for rank in ranks]
        return np.stack(lines) if lines else np.full((1, len(rows)), NO_CANDIDATE, np.int32)

    def _by_value(self, key: str, rows: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        columns = self._matcher.columns
        if self._meanings != columns.meanings:
            self._meanings = columns.meanings
            self._tables.clear()
        column = columns.labels.get(key)
        if column is None:
            return []
        table = self._tables.get(key)
        if table is None or table.shape[1] < len(column.values):
            table = self._tables[key] = np.full((self._depth, len(column.values)), NO_CANDIDATE, np.int32)
            for value, ranks in self._by_label[key].items():
                known = column.values.ids.get(value, 0)
                if known:
                    table[: len(ranks), known] = ranks
        return list(table[:, columns.table.attributes_of(column.attribute, rows)])
