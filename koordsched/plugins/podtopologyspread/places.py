"""Places: which rows the constraints of a demand look at, and in which domains these are.

Found out anew when a node's labels or existence changed (and its taints, if a policy looks at them), not for each pod. Demands that may go
to the same nodes share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from koordsched._core.change import Change
from koordsched._core.counts import Changes, Domains, rows_with_all
from koordsched.framework.node_selector import CompiledNodeSelector, required_terms
from koordsched.framework.tolerations import tolerances_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.cache.columns import Columns
    from koordsched.plugins.podtopologyspread.constraints import Constraint, Demand
    from koordsched.plugins.podtopologyspread.scoring import Grounds
    from koordsched.plugins.podtopologyspread.spread import Spread

KEPT_DOMAINS = 256  # combinations of keys, at most 4 bytes a row each

Flags = NDArray[np.uint8]
"""Per row in use: 1 when it takes part."""


class Places:
    """The rows and domains of demands with equal nodeSelector, required terms and, where a policy looks at them, tolerations."""

    def __init__(self, demand: Demand, columns: Columns) -> None:
        self._columns = columns
        self._table = columns.table
        self._tolerations = demand.tolerations
        self.is_restricted = bool(demand.node_selector) or demand.required is not None
        terms = required_terms(dict(demand.node_selector), demand.required)
        self._selector = CompiledNodeSelector(columns, terms) if self.is_restricted else None
        kinds = Change.LABELS | Change.EXISTENCE | (Change.TAINTS if demand.honors_taints else Change(0))
        self._node_changes = Changes(self._table, int(kinds))
        self._flags: dict[Hashable, Flags] = {}
        self._domains: dict[Hashable, Domains] = {}
        self._grounds: WeakKeyDictionary[Spread, Grounds] = WeakKeyDictionary()  # kept here: of idle spreads no old domains may stay
        self._seen = -1  # node changes that flags, domains and grounds know of

    def version(self) -> int:
        """Return a number that grows when other rows or domains may take part."""
        return self._node_changes.version()

    def attribute(self, key: str) -> int | None:
        """Return the column of a topology key; None while no node has ever had it."""
        column = self._columns.labels.get(key)
        return None if column is None else column.attribute

    def rows_with_all(self, keys: tuple[str, ...]) -> Flags:
        """Return the rows whose node has all these labels. Not to be written to."""
        self._follow_nodes()
        found = self._flags.get(keys)
        if found is None:
            found = self._flags[keys] = self._rows_with_all(keys)
        return found

    def domains(self, key: str, keys: tuple[str, ...], constraint: Constraint | None = None) -> Domains | None:
        """Return the domains of a topology key over the rows whose node has all `keys`, and that the constraint's policies take in.

        None when no node has the key.
        """
        self._follow_nodes()
        affinity = constraint is not None and constraint.honors_affinity and self._selector is not None
        taints = constraint is not None and constraint.honors_taints
        which = (key, keys, affinity, taints)
        found = self._domains.get(which)
        attribute = self.attribute(key)
        if found is None and attribute is not None:
            flags = self._eligible(keys, affinity=affinity, taints=taints) if affinity or taints else self.rows_with_all(keys)
            found = self._domains[which] = Domains(self._table, attribute, flags)
        return found

    def grounds(self) -> WeakKeyDictionary[Spread, Grounds]:
        """Return what `scoring` has put in here since nodes changed."""
        self._follow_nodes()
        return self._grounds

    def _follow_nodes(self) -> None:
        version = self._node_changes.version()
        if version != self._seen or len(self._flags) + len(self._domains) > KEPT_DOMAINS:
            self._seen = version
            self._flags.clear()
            self._domains.clear()
            self._grounds.clear()

    def _rows_with_all(self, keys: tuple[str, ...]) -> Flags:
        attributes = [attribute for key in keys if (attribute := self.attribute(key)) is not None]
        flags = rows_with_all(self._table, attributes)
        if len(attributes) < len(keys):
            flags[:] = 0  # a label that no node has
        return flags

    def _eligible(self, keys: tuple[str, ...], *, affinity: bool, taints: bool) -> Flags:
        flags = self.rows_with_all(keys)
        rows = self._table.live_rows()
        rows = rows[rows < len(flags)]
        passing = np.ones(len(rows), np.uint8)
        if affinity and self._selector is not None:
            passing &= self._selector.matches_rows(rows)
        if taints:
            passing &= self._tolerated(rows)
        allowed = np.zeros(len(flags), np.uint8)
        allowed[rows] = passing
        allowed &= flags
        return allowed

    def _tolerated(self, rows: NDArray[np.int32]) -> Flags:
        tolerances = tolerances_of(self._columns)
        tolerance = tolerances.compile(self._tolerations)
        tolerances.refresh()
        refused = tolerance.refuse(self._table, self._columns.taint_set_attribute, rows)
        return np.equal(refused, 0).astype(np.uint8)
