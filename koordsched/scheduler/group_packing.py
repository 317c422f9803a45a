"""A second try for a group: its members packed by what they ask for, where placing one after the other found no room (coscheduling.md §17).

Where members differ, small ones may take what only large ones need, or the best nodes go to the wrong ones. Here it is searched for a
placement of all: node after node is filled to the brim, with the combination of classes that uses most of it first, and other combinations
are tried where the rest does not fit then. A node that is filled is never worse than one with room left, so on a small cluster a placement
is found if there is one; on a large one the search ends after so many steps.

Amounts decide (`NodeSlots`). What other filters refuse when the members are placed is learnt: a node that refused some members together is
not given them together again (`framework.group_plan`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.fit import free_amounts
from koordsched.framework.group_plan import GroupPlan
from koordsched.framework.interface import GroupRefusal
from koordsched.framework.slots import pod_class

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.framework.interface import GangTurn
    from koordsched.framework.slots import NodeSlots
    from koordsched.framework.status import Status

MOST_STEPS = 20_000
"""Combinations that are tried on nodes: what they take on the event loop is some tenths of a second."""
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


class _Node(msgspec.Struct, eq=False):
    row: int
    free: list[int]
    slots: Vector  # of each class


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
        self._refused: set[tuple[str, int]] = set()  # nodes that refused a class since the last plan

    def nodes(self) -> Mapping[str, str] | GroupRefusal:
        units = [each.units for each in self._classes.values()]
        found = _Search(self._nodes(), units, self._kinds, self._gang_needs(), self._forbidden).run()
        if found is None:
            return GroupRefusal("", "", NO_PLACEMENT, 0)
        names = {row: info.name for row, _ in found if (info := self._cache.infos[row]) is not None}
        rows: dict[str, str] = {}
        keys = [iter(kind.keys) for kind in self._kinds]
        for row, taken in found:
            for kind, count in enumerate(taken):
                rows.update((next(keys[kind]), names[row]) for _ in range(count))
        left = list(self._needed)
        self._planned = {}
        for key, gang in self._order:
            if key in rows and left[gang] > 0:
                left[gang] -= 1
                self._planned[key] = rows[key]
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

    def _nodes(self) -> list[_Node]:
        """Return the nodes with room, those first that take the most of the largest members."""
        table, classes = self._cache.table, list(self._classes.values())
        rows = np.unique(np.concatenate([each.slots.rows for each in classes])) if classes else np.zeros(0, np.int32)
        slots = np.zeros((len(classes), len(rows)), np.int64)
        for number, each in enumerate(classes):
            slots[number, np.searchsorted(rows, each.slots.rows)] = each.slots.slots
        free = free_amounts(table, self._ids, rows)
        most = max(MOST_NODES, 2 * len(self._pods))
        order = [place for place in np.lexsort((*free, *-slots[::-1])).tolist() if slots[:, place].any()][:most]
        return [_Node(int(rows[place]), free[:, place].tolist(), tuple(slots[:, place].tolist())) for place in order]


def _units(slots: NodeSlots, ids: Sequence[int]) -> Vector | None:
    if slots.request is None:
        return None
    amounts = slots.request.amounts_by_id
    return tuple(amounts.get(id, 0) for id in ids)  # noqa: A001


class _Search:
    """A search in depth, node by node. Kinds with the same gang are needed together: of them so many, whichever."""

    def __init__(
        self,
        nodes: Sequence[_Node],
        units: Sequence[Vector | None],
        kinds: Sequence[_Kind],
        needs: Mapping[int, int],
        forbidden: Mapping[int, list[Vector]],
    ) -> None:
        self._nodes = nodes
        self._units = units
        self._kinds = kinds
        self._gangs = list(needs)
        self._needs = [needs[gang] for gang in self._gangs]
        self._gang_of = [self._gangs.index(kind.gang) for kind in kinds]
        self._forbidden = forbidden
        self._steps = 0
        # What all nodes from one on take of each class: a bound.
        slots = np.array([node.slots for node in nodes], np.int64).reshape(len(nodes), len(units))
        self._rest = [*np.cumsum(slots[::-1], axis=0)[::-1].tolist(), [0] * len(units)]

    def run(self) -> list[tuple[int, Vector]] | None:
        """Return how many members of each kind go to which rows; None: none was found."""
        left = [len(kind.keys) for kind in self._kinds]
        failed: set[tuple[int, Vector]] = set()  # from this node on, with so many members left
        path: list[tuple[int, Vector, Iterator[Vector]]] = []
        place = 0
        while True:
            if self._is_done(left):
                return [(self._nodes[at].row, taken) for at, taken, _ in path if any(taken)]
            known = (place, tuple(left))
            if known not in failed and self._may_fit(place, left):
                options = iter(self._options(self._nodes[place], left))
                at = place
            else:
                if not path:
                    return None
                at, taken, options = path.pop()
                left = [count + back for count, back in zip(left, taken, strict=True)]
            # The next combination of the node at hand, or of the last one that has another.
            while (taken_next := next(options, None)) is None or self._steps > MOST_STEPS:
                failed.add((at, tuple(left)))
                if not path or self._steps > MOST_STEPS:
                    return None
                at, taken, options = path.pop()
                left = [count + back for count, back in zip(left, taken, strict=True)]
            self._steps += 1
            path.append((at, taken_next, options))
            left = [count - taken for count, taken in zip(left, taken_next, strict=True)]
            place = at + 1

    def _placed(self, left: Sequence[int]) -> list[int]:
        """Return how many members of each gang are placed."""
        placed = [0] * len(self._gangs)
        for gang, kind, count in zip(self._gang_of, self._kinds, left, strict=True):
            placed[gang] += len(kind.keys) - count
        return placed

    def _is_done(self, left: Sequence[int]) -> bool:
        return all(have >= need for have, need in zip(self._placed(left), self._needs, strict=True))

    def _may_fit(self, place: int, left: Sequence[int]) -> bool:
        """Answer whether the slots of the nodes from this one on might be enough for what is missing."""
        if place == len(self._nodes):
            return False
        rest, reach = self._rest[place], self._placed(left)
        for gang, kind, count in zip(self._gang_of, self._kinds, left, strict=True):
            reach[gang] += min(count, rest[kind.number])
        return all(have >= need for have, need in zip(reach, self._needs, strict=True))

    # The combinations of one node

    def _options(self, node: _Node, left: Sequence[int]) -> list[Vector]:
        """Return the combinations that leave the node no room for one more member, those that use most of it first."""
        found: list[Vector] = []
        self._extend(node, left, (), (list(node.free), list(node.slots)), found)
        full = [taken for taken in found if not self._has_room(node, taken, left)]
        whole = [max(1, amount) for amount in node.free]

        def use(taken: Vector) -> float:
            total = 0.0
            for kind, count in zip(self._kinds, taken, strict=True):
                units = self._units[kind.number]
                if units is not None:
                    total += count * sum(unit / amount for unit, amount in zip(units, whole, strict=True))
            return total

        return sorted(full, key=use, reverse=True)

    def _extend(self, node: _Node, left: Sequence[int], taken: Vector, room: tuple[list[int], list[int]], found: list[Vector]) -> None:
        """Add the combinations that begin with these numbers of the first kinds, larger numbers first. room: amounts and slots."""
        k, (free, slots) = len(taken), room
        if k == len(self._kinds):
            if len(found) < MOST_COMBINATIONS and self._is_allowed(node, taken):
                found.append(taken)
            return
        number = self._kinds[k].number
        units = self._units[number]
        most = min(left[k], slots[number])
        for unit, amount in zip(units or (), free, strict=units is not None):
            if unit:
                most = min(most, max(0, amount) // unit)
        last = k + 1 == len(self._kinds) and not self._forbidden.get(node.row)
        for count in range(most, most - 1 if last else -1, -1):
            if len(found) >= MOST_COMBINATIONS:
                return
            self._steps += 1
            after = free if units is None else [amount - count * unit for amount, unit in zip(free, units, strict=True)]
            fewer = [each - count * (other == number) for other, each in enumerate(slots)]
            self._extend(node, left, (*taken, count), (after, fewer), found)

    def _is_allowed(self, node: _Node, taken: Sequence[int]) -> bool:
        forbidden = self._forbidden.get(node.row)
        if not forbidden:
            return True
        there = [0] * len(self._units)
        for kind, count in zip(self._kinds, taken, strict=True):
            there[kind.number] += count
        return not any(all(have >= least for have, least in zip(there, vector, strict=True)) for vector in forbidden)

    def _has_room(self, node: _Node, taken: Vector, left: Sequence[int]) -> bool:
        """Answer whether one more member could go there."""
        free, slots = list(node.free), list(node.slots)
        for kind, count in zip(self._kinds, taken, strict=True):
            slots[kind.number] -= count
            for i, unit in enumerate(self._units[kind.number] or ()):
                free[i] -= count * unit
        for k, kind in enumerate(self._kinds):
            if taken[k] >= left[k] or slots[kind.number] <= 0:
                continue
            units = self._units[kind.number] or ()
            if all(unit <= amount or not unit for unit, amount in zip(units, free, strict=False)):
                more = [*taken]
                more[k] += 1
                if self._is_allowed(node, more):
                    return True
        return False
