"""Spread: one demand in one cluster, with its counts, which follow the pods by themselves (`PodCounts`).

`Spreads` keeps those that were used last, and with them their counts.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from koordsched._core.counts import RowCounts
from koordsched.framework.shape import ShapeKey
from koordsched.plugins.podtopologyspread.places import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from koordsched.cache.cache import Cache
    from koordsched.plugins.podtopologyspread.constraints import Constraint, Demand

KEPT_SPREADS = 1024  # at most one query a constraint each: 4 bytes a row


class Spread:
    """What hard and soft constraints of a demand count, and where."""

    def __init__(self, demand: Demand, places: Places, cache: Cache) -> None:
        self.demand = demand
        self.places = places
        self._cache = cache
        self.hard_counts = [self._count(constraint) for constraint in demand.hard]
        self.soft_counts = [self._count(constraint) for constraint in demand.soft]
        self.hard_keys = tuple(constraint.topology_key for constraint in demand.hard)
        self.soft_keys = tuple(constraint.topology_key for constraint in demand.soft)

    def _count(self, constraint: Constraint) -> RowCounts:
        return RowCounts(self._cache.table) if constraint.query is None else self._cache.counts.count(constraint.query)

    def version(self, counts: Sequence[RowCounts]) -> tuple[Spread, int]:
        """Return what sums of these counts depend on. All parts only grow, so that their sum says it."""
        return self, self.places.version() + sum([each.version for each in counts])


class Spreads:
    """The spreads that were used last."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._large: WeakKeyDictionary[ShapeKey, Spread] = WeakKeyDictionary()
        self._kept: OrderedDict[Hashable, Spread] = OrderedDict()
        cache.columns.call_when_renewed(self._renew)
        self._places: WeakValueDictionary[Hashable, Places] = WeakValueDictionary()

    def get(self, key: Hashable, demand: Callable[[], Demand]) -> Spread:
        """Return the spread of that key, made of `demand` on first use."""
        if isinstance(key, ShapeKey) and key.is_large:
            large = self._large.get(key)
            if large is None:
                large = self._large[key] = self._new(demand())
            return large
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = self._new(demand())
            if len(self._kept) > KEPT_SPREADS:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found

    def _renew(self) -> None:
        """Forget everything that may hold ids of columns or values."""
        self._kept.clear()
        self._large.clear()
        self._places.clear()

    def _new(self, demand: Demand) -> Spread:
        key = (demand.node_selector, demand.required, demand.tolerations, demand.honors_taints)
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = Places(demand, self._cache.columns)
        return Spread(demand, places, self._cache)
