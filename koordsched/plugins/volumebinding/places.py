"""Places: sets of nodes that a volume, a class or a pool of storage can be reached from, and which of many candidates each node gets.

A place is what a node's labels must be like, or None for everywhere. Most name values of one label (a host, a
zone), so candidates are looked up by the value that a row has, and a thousand local volumes cost no more than one.
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

NO_RANK = 2**31 - 1  # int32's largest

KEPT_SELECTORS = 4096


class Reach(msgspec.Struct, frozen=True):
    """Alternatives of conditions on a node's labels. `label` and `values` say the same where it is all about the values of one label."""

    terms: tuple[Term, ...]
    label: str = ""
    values: tuple[str, ...] = ()


Place = Reach | None

NOWHERE = Reach(())


def volume_place(volume: PersistentVolume) -> Place:
    """Return where the volume can be reached; a term that cannot be understood reaches no node."""
    affinity = volume.spec.node_affinity
    return None if affinity is None or affinity.required is None else _required(affinity.required)


@lru_cache(maxsize=65536)
def _required(selector: NodeSelector) -> Place:
    return reach(required_terms({}, selector))


def reach(terms: Iterable[Term]) -> Reach:
    """Return the nodes that match one of the terms."""
    found = tuple(terms)
    keys: set[str] = set()
    values: dict[str, None] = {}
    for term in found:
        if len(term) != 1 or term[0].is_field or term[0].operator != "In":
            return Reach(found)
        keys.add(term[0].key)
        values.update(dict.fromkeys(term[0].values))
    return Reach(found, keys.pop(), tuple(values)) if len(keys) == 1 else Reach(found)


def class_place(storage_class: StorageClass) -> Place:
    """Return where the class can make volumes: everywhere when it says nothing; an empty term is left out."""
    if not storage_class.allowed_topologies:
        return None
    terms = []
    for topology in storage_class.allowed_topologies:
        expressions = [LabelSelectorRequirement(each.key, "In", each.values) for each in topology.match_label_expressions]
        terms.append(parse_term(NodeSelectorTerm(match_expressions=tuple(expressions))))
    return reach(term for term in terms if term is not None)


def selector_place(selector: LabelSelector | None) -> Place:
    """Return where a pool of storage is: nowhere without a selector or with a wrong one, everywhere with an empty one."""
    if selector is None:
        return NOWHERE
    pairs = [LabelSelectorRequirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
    expressions = (*pairs, *selector.match_expressions)
    if not expressions:
        return None
    term = parse_term(NodeSelectorTerm(match_expressions=expressions))
    return NOWHERE if term is None else reach([term])


class Selectors:
    """Places compiled against a node table's columns; equal places share one selector."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._compiled = lru_cache(maxsize=KEPT_SELECTORS)(self._compile)

    def reaches(self, place: Place, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return per row whether it is in the place."""
        if place is None:
            return np.ones(len(rows), np.bool_)
        return self._compiled(place.terms).matches_rows(rows).astype(np.bool_)

    def _compile(self, terms: tuple[Term, ...]) -> CompiledNodeSelector:
        return CompiledNodeSelector(self.columns, terms)


class Ranks:
    """Candidates in order of preference, and for each row the first few that it can reach. Immutable but for what it looks up once."""

    def __init__(self, selectors: Selectors, places: Sequence[Place], depth: int) -> None:
        """depth: how many candidates a row may need, because others take some."""
        self._selectors = selectors
        self._depth = depth
        self._everywhere: list[int] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}  # label -> value -> ranks
        self._others: dict[Reach, list[int]] = {}
        self._tables: dict[str, NDArray[np.int32]] = {}  # by label: value id -> ranks
        for rank, place in enumerate(places):
            self._put(rank, place)

    def at(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return ranks (NO_RANK: none) as an array of any number of lines, a column for each row. O(rows x kinds of places)."""
        lines = [np.full(len(rows), rank, np.int32) for rank in self._everywhere]
        for key in self._by_label:
            lines += self._by_value(key, rows)
        for place, ranks in self._others.items():
            reached = self._selectors.reaches(place, rows)
            lines += [np.where(reached, np.int32(rank), np.int32(NO_RANK)) for rank in ranks]
        return np.stack(lines) if lines else np.full((1, len(rows)), NO_RANK, np.int32)

    def _put(self, rank: int, place: Place) -> None:
        if place is None:
            self._add(self._everywhere, rank)
            return
        if not place.label:
            self._add(self._others.setdefault(place, []), rank)
            return
        by_value = self._by_label.setdefault(place.label, {})
        for value in place.values:
            self._add(by_value.setdefault(value, []), rank)

    def _add(self, ranks: list[int], rank: int) -> None:
        if len(ranks) < self._depth:
            ranks.append(rank)

    def _by_value(self, key: str, rows: NDArray[np.int32]) -> list[NDArray[np.int32]]:
        columns = self._selectors.columns
        column = columns.labels.get(key)
        if column is None:
            return []
        table = self._tables.get(key)
        if table is None or table.shape[1] < len(column.values):
            table = self._tables[key] = np.full((self._depth, len(column.values)), NO_RANK, np.int32)
            for value, ranks in self._by_label[key].items():
                known = column.values.ids.get(value, 0)
                if known:
                    table[: len(ranks), known] = ranks
        return list(table[:, columns.table.attributes_of(column.attribute, rows)])
