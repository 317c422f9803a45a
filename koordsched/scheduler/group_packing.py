"""A second try for a group: its members packed by what they ask for, where placing one after the other found no room (coscheduling.md §17).

Where members differ, small ones may take what only large ones need, or the best nodes go to the wrong ones. Here it is searched for a
placement of all: node after node is filled to the brim, with the combination of classes that uses most of it first, and other combinations
are tried where the rest does not fit then. A node that is filled is never worse than one with room left, so on a small cluster a placement
is found if there is one; on a large one the search ends after so much work.

Amounts decide (`NodeSlots`). What other filters refuse when the members are placed is learnt: a node that refused some members together is
not given them together again (`framework.group_plan`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.fit import free_amounts
from koordsched._core.packing import PackingSearch
from koordsched.framework.group_plan import GroupPlan
from koordsched.framework.interface import GroupRefusal
from koordsched.framework.slots import pod_class

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.interface import GangTurn, Rows
    from koordsched.framework.slots import NodeSlots
    from koordsched.framework.status import Status

MOST_WORK = 5_000_000
"""Of one search, as `PackingSearch.work` counts it: some milliseconds on the event loop, whatever the group."""
WORK_OF_A_PLACEMENT = 20_000
"""That much of it takes as long as placing one member."""
MOST_NODES = 512
"""Nodes that are looked at, or twice as many as there are members where that is more: those with the most room for the largest members."""
MOST_COMBINATIONS = 256
"""Of one node."""
NO_PLACEMENT = "no placement of all members was found"

Vector = tuple[int, ...]


class _Class(msgspec.Struct, eq=False):
    """Pods that are equal to filters, and what one of them takes of a node: of each resource that any member asks for."""

    slots: NodeSlots
    units: Vector | None  # None: only its own slots say how many a node takes


class _Kind(msgspec.Struct, eq=False):
    """Members of one class, in the order in which they are taken."""

    number: int  # of its class
    gang: int  # the place of the gang that needs some of them; the number of gangs: all of them are needed
    keys: list[str]


class GroupPacking(GroupPlan):
    """The placement of one group's members, as far as what was learnt lets it be."""

    def __init__(self, cache: Cache, gangs: Sequence[GangTurn], pods: Mapping[str, PodInfo], slots: Mapping[Hashable, NodeSlots]) -> None:
        """pods: members by key, those that can be tried. slots: by `pod_class`, at most so many a node as there are members of it."""
        self._cache = cache
        self._pods = pods
        self._needed = [gang.needed for gang in gangs]
        ids = sorted({id for each in slots.values() if each.request is not None for id in each.request.amounts_by_id})  # noqa: A001
        self._ids = ids
        self._classes = self._sorted({of: _Class(each, _units(each, ids)) for of, each in slots.items()})
        self._numbers = {of: number for number, of in enumerate(self._classes)}
        self._kinds = self._kinds_of(gangs)
        self._order = [(key, number) for number, gang in enumerate(gangs) for key in gang.members if key in pods]
        self._forbidden: dict[int, list[Vector]] = {}  # by row: numbers of members of each class that it does not take together
        self._planned: dict[str, str] = {}
        self.cost = 0
        self._refused: set[tuple[str, int]] = set()  # nodes that refused a class since the last plan

    def nodes(self) -> Mapping[str, str] | GroupRefusal:
        rows, free, slots = self._nodes()
        search = self._search(rows, free, slots)
        found = search.run()
        self.cost = 1 + search.work // WORK_OF_A_PLACEMENT
        if found is None:
            return GroupRefusal("", "", NO_PLACEMENT, 0)
        names: dict[str, str] = {}  # of nodes, by key of the member
        keys = [iter(kind.keys) for kind in self._kinds]
        for node, taken in found:
            info = self._cache.infos[int(rows[node])]
            assert info is not None, "it has slots"
            for kind, count in enumerate(taken):
                names.update((next(keys[kind]), info.name) for _ in range(count))
        left = list(self._needed)
        self._planned = {}
        for key, gang in self._order:
            if key in names and left[gang] > 0:
                left[gang] -= 1
                self._planned[key] = names[key]
        self._refused = set()
        return self._planned

    def refused(self, member: str, _before: int, _status: Status) -> None:
        """Take note that these members do not go to the node together: those that it took before, and one like this."""
        node, of = self._planned[member], self._number(member)
        found = self._cache.node(node)
        if found is None:
            return
        there = [0] * len(self._classes)
        for key, name in self._planned.items():
            if key == member:
                break
            if name == node and (node, self._number(key)) not in self._refused:
                there[self._number(key)] += 1
        there[of] += 1
        self._refused.add((node, of))
        self._forbidden.setdefault(found.row, []).append(tuple(there))

    def _number(self, key: str) -> int:
        return self._numbers[pod_class(self._pods[key])]

    # What there is to place

    def _sorted(self, classes: Mapping[Hashable, _Class]) -> dict[Hashable, _Class]:
        """Sort the classes: first those whose slots alone are known, then by the largest part that one takes of a resource."""
        table = self._cache.table
        most = [max(1, amount) for amount in free_amounts(table, self._ids, table.live_rows()).max(axis=1, initial=0).tolist()]

        def share(item: tuple[Hashable, _Class]) -> tuple[bool, float]:
            units = item[1].units
            if units is None:
                return False, 0.0
            return True, -max((unit / whole for unit, whole in zip(units, most, strict=True)), default=0.0)

        return dict(sorted(classes.items(), key=share))

    def _kinds_of(self, gangs: Sequence[GangTurn]) -> list[_Kind]:
        """Sort the members into kinds, in the order of their classes. Gangs that need all of their members have theirs in common."""
        kinds: dict[tuple[int, int], _Kind] = {}
        for place, gang in enumerate(gangs):
            keys = [key for key in gang.members if key in self._pods]
            if gang.needed <= 0:
                continue
            to = len(gangs) if len(keys) <= gang.needed else place
            for key in keys:
                number = self._number(key)
                kinds.setdefault((number, to), _Kind(number, to, [])).keys.append(key)
        return [kinds[key] for key in sorted(kinds)]

    def _gang_needs(self) -> dict[int, int]:
        """Return how many members are needed of the kinds of each gang."""
        needs = {kind.gang: self._needed[kind.gang] for kind in self._kinds if kind.gang < len(self._needed)}
        in_common = sum(len(kind.keys) for kind in self._kinds if kind.gang == len(self._needed))
        return needs | ({len(self._needed): in_common} if in_common else {})

    def _nodes(self) -> tuple[Rows, NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows with room, those first that take the most of the largest members, what is free of them, and their slots."""
        table, classes = self._cache.table, list(self._classes.values())
        rows = np.unique(np.concatenate([each.slots.rows for each in classes])) if classes else np.zeros(0, np.int32)
        slots = np.zeros((len(classes), len(rows)), np.int64)
        for number, each in enumerate(classes):
            slots[number, np.searchsorted(rows, each.slots.rows)] = each.slots.slots
        free = free_amounts(table, self._ids, rows)
        most = max(MOST_NODES, 2 * len(self._pods))
        order = np.lexsort((*free, *-slots[::-1]))
        order = order[slots[:, order].any(axis=0)][:most]
        return rows[order], np.ascontiguousarray(free[:, order].T), np.ascontiguousarray(slots[:, order].T)

    def _search(self, rows: Rows, free: NDArray[np.int64], slots: NDArray[np.int64]) -> PackingSearch:
        """Return the search over these nodes."""
        needs = self._gang_needs()
        places = {gang: place for place, gang in enumerate(needs)}
        units = np.zeros((len(self._classes), len(self._ids)), np.int64)
        counted = np.zeros(len(self._classes), np.uint8)
        for number, each in enumerate(self._classes.values()):
            if each.units is not None:
                units[number], counted[number] = each.units, 1
        kinds = (
            np.array([kind.number for kind in self._kinds], np.int32),
            np.array([places[kind.gang] for kind in self._kinds], np.int32),
            np.array([len(kind.keys) for kind in self._kinds], np.int64),
        )
        known = {row: node for node, row in enumerate(rows.tolist())}
        forbidden = {known[row]: np.array(vectors, np.int64) for row, vectors in self._forbidden.items() if row in known}
        wanted = np.array(list(needs.values()), np.int64)
        return PackingSearch(free, slots, units, counted, kinds, wanted, forbidden, MOST_WORK, MOST_COMBINATIONS)


def _units(slots: NodeSlots, ids: Sequence[int]) -> Vector | None:
    if slots.request is None:
        return None
    amounts = slots.request.amounts_by_id
    return tuple(amounts.get(id, 0) for id in ids)  # noqa: A001
