"""Node selectors: terms of conditions on a node's labels and name, for one node and, compiled, for all of them.

Terms are alternatives; the conditions of a term must hold together. A term that is empty or cannot be understood never matches
(framework.md §10.2). A compiled selector keeps a verdict per value of each label it looks at, so asking about a node is a gather; verdicts
are added when values appear, and pods may share it. Callers: NodeAffinity, PodTopologySpread, the volume plugins.
Reference: k8s.io/component-helpers/scheduling/corev1/nodeaffinity at v0.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched._core.match import Terms
from koordsched.api.selectors import requirement_error, requirement_matches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koordsched.api.core import Node, NodeSelector, NodeSelectorTerm
    from koordsched.api.meta import LabelSelectorRequirement
    from koordsched.cache.columns import Columns, LabelColumn

NAME_FIELD = "metadata.name"

NO_COLUMN = -1  # of Terms: no row has a value


class Condition(msgspec.Struct, frozen=True):
    """What a label, or a field, must be like."""

    key: str
    operator: str
    values: tuple[str, ...]
    is_field: bool = False

    def holds(self, value: str | None) -> bool:
        """Answer for a value; None: the node has none. A missing field reads as ""."""
        return requirement_matches(self.operator, self.values, "" if value is None and self.is_field else value)

    def holds_for(self, node: Node) -> bool:
        if self.is_field:
            return self.holds(node.metadata.name if self.key == NAME_FIELD else None)
        return self.holds(node.metadata.labels.get(self.key))


Term = tuple[Condition, ...]


def term_error(term: NodeSelectorTerm) -> str | None:
    """Say why the term cannot be understood, with the path of the part, or None."""
    for i, expression in enumerate(term.match_expressions):
        if problem := requirement_error(expression):
            return f"matchExpressions[{i}].{problem}"
    for i, expression in enumerate(term.match_fields):
        if problem := _field_error(expression):
            return f"matchFields[{i}].{problem}"
    return None


def _field_error(requirement: LabelSelectorRequirement) -> str | None:
    if requirement.operator not in {"In", "NotIn"}:
        return f'operator: "{requirement.operator}" is not one of In, NotIn'
    return None if len(requirement.values) == 1 else "values: must have one element"


def parse_term(term: NodeSelectorTerm) -> Term | None:
    """Return the term's conditions; None when it never matches, being empty or not understood."""
    if not (term.match_expressions or term.match_fields) or term_error(term) is not None:
        return None
    labels = [Condition(expression.key, expression.operator, expression.values) for expression in term.match_expressions]
    fields = [Condition(expression.key, expression.operator, expression.values, is_field=True) for expression in term.match_fields]
    return (*labels, *fields)


def required_terms(node_selector: Mapping[str, str], required: NodeSelector | None) -> list[Term]:
    """Return the terms of which a node must match one: the plain map's pairs and, with a selector, one of its terms."""
    lists: dict[str, tuple[str]] = {}  # one for all labels that must have the same value: a pod may name thousands
    pairs = tuple([Condition(key, "In", lists.setdefault(value, (value,))) for key, value in node_selector.items()])
    if required is None:
        return [pairs]
    parsed = [parse_term(term) for term in required.node_selector_terms]
    return [(*pairs, *term) for term in parsed if term is not None]


class CompiledNodeSelector:
    """Terms against the columns of a node table; with weights also their sum per row."""

    def __init__(self, columns: Columns, terms: Sequence[Term], weights: Sequence[int] | None = None) -> None:
        self._columns = columns
        self._terms = terms
        self._weights = weights
        self._verdicts: dict[Condition, _Verdicts] = {}  # on what some node has; a pod may name thousands of other things
        self._compiled: Terms | None = None
        self._meanings = -1  # of the columns when columns and verdicts were looked up

    def matches_node(self, node: Node) -> bool:
        """Answer whether the node matches any term."""
        return any(all(condition.holds_for(node) for condition in term) for term in self._terms)

    def matches_rows(self, rows: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return per row 1 when it matches any term."""
        while (flags := self._current().matches(self._columns.table, rows)) is None:
            self._compiled = None
        return flags

    def refuse(self, rows: NDArray[np.int32], code: int) -> NDArray[np.int32]:
        """Return per row 0 when it matches any term, else the code."""
        while (codes := self._current().refuse(self._columns.table, rows, code)) is None:
            self._compiled = None
        return codes

    def weigh(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return per row the sum of the weights of the terms that it matches."""
        while (scores := self._current().weigh(self._columns.table, rows)) is None:
            self._compiled = None
        return scores

    def _current(self) -> Terms:
        """Return the compiled terms, made anew when a value or a column appeared since, or ids may stand for other values."""
        if self._meanings != self._columns.meanings:
            self._meanings = self._columns.meanings
            looked_up = ((condition, self._column(condition)) for term in self._terms for condition in term)
            self._verdicts = {condition: _Verdicts(condition, column) for condition, column in looked_up if column is not None}
            self._compiled = None
        if self._compiled is None:
            self._compiled = Terms([[self._as_condition(condition) for condition in term] for term in self._terms], self._weights)
        return self._compiled

    def _column(self, condition: Condition) -> LabelColumn | None:
        """Return the column that the condition is about; only labels that some node has have one."""
        if not condition.is_field:
            return self._columns.labels.get(condition.key)
        return self._columns.name_column if condition.key == NAME_FIELD else None

    def _as_condition(self, condition: Condition) -> tuple[int, bytes]:
        """Return the condition in the form that Terms takes."""
        verdicts = self._verdicts.get(condition)
        return (NO_COLUMN, bytes([condition.holds(None)])) if verdicts is None else verdicts.up_to_date()


class _Verdicts:
    """What one condition says of each value id of its column, as far as values were known when it was last asked."""

    __slots__ = ("_column", "_condition", "_known")

    def __init__(self, condition: Condition, column: LabelColumn) -> None:
        self._condition = condition
        self._column = column
        self._known = bytearray([condition.holds(None)])  # id 0: absent

    def up_to_date(self) -> tuple[int, bytes]:
        """Return the column and the verdicts on all values that it has by now."""
        self._extend(self._column.values.names, self._column.values.ids)
        return self._column.attribute, bytes(self._known)

    def _extend(self, names: Sequence[str], ids: Mapping[str, int]) -> None:
        start = len(self._known)
        operator = self._condition.operator
        if operator in {"Gt", "Lt"}:
            self._known.extend(self._condition.holds(name) for name in names[start:])
            return
        # All values but the listed ones are alike, and labels like the host name have as many values as there are nodes.
        usual = operator in {"NotIn", "Exists"}
        self._known.extend(bytes([usual]) * (len(names) - start))
        for name in self._condition.values:
            found = ids.get(name, 0)
            if found >= start:
                self._known[found] = not usual
