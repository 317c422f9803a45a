"""The domains in which a pod's constraints count, and the pods that they count there.

`EligibleDomains` are found anew when a node's labels or existence changed (and its taints, if a policy honors them), not for each pod; all
constraints of pods that may go to the same nodes share them. `SpreadCounts` are one pod's: its constraints with the pods that each counts,
which follow pod events by themselves (`PodCounts`). `SpreadCountsCache` keeps those that were used last, and with them their counts.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec
import numpy as np
from numpy.typing import NDArray

from koordsched._core.change import NodeChange
from koordsched._core.counts import Changes, Domains, RowCounts, rows_with_all
from koordsched.cache.pod_counts import pod_counts
from koordsched.framework.node_selector import CompiledNodeSelector, required_terms
from koordsched.framework.shape import ShapeKey
from koordsched.framework.tolerations import tolerances_of
from koordsched.plugins.podtopologyspread.constraints import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from koordsched.cache.cache import Cache
    from koordsched.cache.columns import Columns
    from koordsched.plugins.podtopologyspread.constraints import PodSpreadConstraints, SpreadConstraint

KEPT_DOMAINS = 256  # combinations of keys, at most 4 bytes a row each
KEPT_COUNTS = 1024  # of pods; at most one query a constraint each: 4 bytes a row

RowFlags = NDArray[np.uint8]
"""Per row in use: 1 when it is eligible."""


class EligibleDomains:
    """The rows and domains for constraints with equal nodeSelector, required terms and, where a policy honors taints, tolerations."""

    def __init__(self, constraints: PodSpreadConstraints, columns: Columns) -> None:
        self._columns = columns
        self._table = columns.table
        self._tolerations = constraints.tolerations
        self.is_restricted = bool(constraints.node_selector) or constraints.required is not None
        terms = required_terms(dict(constraints.node_selector), constraints.required)
        self._selector = CompiledNodeSelector(columns, terms) if self.is_restricted else None
        kinds = NodeChange.LABELS | NodeChange.EXISTENCE | (NodeChange.TAINTS if constraints.honors_taints else NodeChange(0))
        self._node_changes = Changes(self._table, int(kinds))
        self._flags: dict[Hashable, RowFlags] = {}
        self._domains: dict[Hashable, Domains] = {}
        self._soft: WeakKeyDictionary[SpreadCounts, SoftConstraints] = WeakKeyDictionary()
        self._seen = -1  # the version that flags, domains and soft constraints are of

    def version(self) -> int:
        """Return a number that grows when other rows or domains may be eligible."""
        return self._node_changes.version()

    def attribute(self, key: str) -> int | None:
        """Return the column of a topology key; None while no node has ever had it."""
        column = self._columns.labels.get(key)
        return None if column is None else column.attribute

    def rows_with_all(self, keys: tuple[str, ...]) -> RowFlags:
        """Return the rows whose node has all these labels. Not to be written to."""
        self._follow_nodes()
        found = self._flags.get(keys)
        if found is None:
            attributes = [attribute for key in keys if (attribute := self.attribute(key)) is not None]
            found = self._flags[keys] = rows_with_all(self._table, attributes)
            if len(attributes) < len(keys):
                found[:] = 0  # a label that no node has
        return found

    def of(self, key: str, keys: tuple[str, ...], constraint: SpreadConstraint | None = None) -> Domains | None:
        """Return the domains of a topology key over the rows whose node has all `keys` and is eligible by the constraint's policies.

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

    def soft_constraints(self, counts: SpreadCounts) -> SoftConstraints:
        """Return where a pod's soft constraints count. Kept here, so that unused counts hold no domains of nodes as they were."""
        self._follow_nodes()
        found = self._soft.get(counts)
        if found is None:
            found = self._soft[counts] = self._find_soft_constraints(counts)
        return found

    def _follow_nodes(self) -> None:
        version = self._node_changes.version()
        if version != self._seen or len(self._flags) + len(self._domains) > KEPT_DOMAINS:
            self._seen = version
            self._flags.clear()
            self._domains.clear()
            self._soft.clear()

    def _eligible(self, keys: tuple[str, ...], *, affinity: bool, taints: bool) -> RowFlags:
        flags = self.rows_with_all(keys)
        rows = self._table.live_rows()
        rows = rows[rows < len(flags)]
        passing = np.ones(len(rows), np.uint8)
        if affinity and self._selector is not None:
            passing &= self._selector.matches_rows(rows)
        if taints:
            passing &= self._tolerated(rows)
        eligible = np.zeros(len(flags), np.uint8)
        eligible[rows] = passing
        eligible &= flags
        return eligible

    def _tolerated(self, rows: NDArray[np.int32]) -> RowFlags:
        tolerances = tolerances_of(self._columns)
        tolerance = tolerances.compile(self._tolerations)
        tolerances.refresh()
        refused = tolerance.refuse(self._table, self._columns.taint_set_attribute, rows)
        return np.equal(refused, 0).astype(np.uint8)

    def _find_soft_constraints(self, counts: SpreadCounts) -> SoftConstraints:
        keys = counts.soft_keys if counts.constraints.require_all_keys else ()
        found = []
        for constraint, row_counts in zip(counts.constraints.soft, counts.soft, strict=True):
            key, offset = constraint.topology_key, float(constraint.max_skew - 1)
            attribute, domains, counted = self.attribute(key), self.of(key, keys), self.of(key, keys, constraint)
            if attribute is None or domains is None or counted is None:
                continue  # no node has the key: the constraint scores nothing
            if key == HOSTNAME:
                found.append(SoftConstraint(attribute, row_counts, offset))  # the node's pods, whatever the policies are
            else:
                found.append(SoftConstraint(attribute, row_counts, offset, domains, counted))
        return SoftConstraints(found, self.rows_with_all(keys) if keys else None)


class SoftConstraint(msgspec.Struct, frozen=True):
    """Where one soft constraint counts its pods, until nodes change. domains: None where each node is a domain of its own."""

    attribute: int  # of the topology key
    counts: RowCounts
    offset: float
    domains: Domains | None = None  # in which the feasible nodes may be
    counted: Domains | None = None  # in which pods are counted, by the constraint's policies


class SoftConstraints(msgspec.Struct, frozen=True):
    """Those of one pod. scored: rows (by flag) that are scored; None: all."""

    each: list[SoftConstraint]
    scored: RowFlags | None


class SpreadCounts:
    """The pods that the constraints of a pod count, by row, and the domains in which they count."""

    def __init__(self, constraints: PodSpreadConstraints, domains: EligibleDomains, cache: Cache) -> None:
        self.constraints = constraints
        self.domains = domains
        self.hard = [_count(cache, constraint) for constraint in constraints.hard]
        self.soft = [_count(cache, constraint) for constraint in constraints.soft]
        self.hard_keys = tuple(constraint.topology_key for constraint in constraints.hard)
        self.soft_keys = tuple(constraint.topology_key for constraint in constraints.soft)

    def version(self, counts: Sequence[RowCounts]) -> tuple[SpreadCounts, int, int]:
        """Return what sums of these counts depend on."""
        return self, self.domains.version(), max([each.version for each in counts])


def _count(cache: Cache, constraint: SpreadConstraint) -> RowCounts:
    return RowCounts(cache.table) if constraint.query is None else pod_counts(cache).count(constraint.query)


class SpreadCountsCache:
    """The counts that were used last."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._large: WeakKeyDictionary[ShapeKey, SpreadCounts] = WeakKeyDictionary()
        self._kept: OrderedDict[Hashable, SpreadCounts] = OrderedDict()
        self._domains: WeakValueDictionary[Hashable, EligibleDomains] = WeakValueDictionary()
        cache.columns.call_when_renewed(self._forget_columns)

    def get(self, key: Hashable, constraints: Callable[[], PodSpreadConstraints]) -> SpreadCounts:
        """Return the counts of that key, made of `constraints` on first use."""
        if isinstance(key, ShapeKey) and key.is_large:
            large = self._large.get(key)
            if large is None:
                large = self._large[key] = self._new(constraints())
            return large
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._new(constraints())
            if len(self._kept) > KEPT_COUNTS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found

    def _new(self, constraints: PodSpreadConstraints) -> SpreadCounts:
        key = (constraints.node_selector, constraints.required, constraints.tolerations, constraints.honors_taints)
        domains = self._domains.get(key)
        if domains is None:
            domains = self._domains[key] = EligibleDomains(constraints, self._cache.columns)
        return SpreadCounts(constraints, domains, self._cache)

    def _forget_columns(self) -> None:
        """Forget everything that may hold ids of columns or values."""
        self._kept.clear()
        self._large.clear()
        self._domains.clear()
