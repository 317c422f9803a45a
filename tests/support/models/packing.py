"""A plain-Python twin of the search for a packing (`koordsched._core.packing`), without limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

Vector = tuple[int, ...]


class Node(NamedTuple):
    free: Vector
    slots: Vector  # of each class


class Kind(NamedTuple):
    """Members of one class and gang."""

    number: int  # of its class
    gang: int
    size: int


class PackingModel:
    """A search in depth, node by node. Kinds with the same gang are needed together: of them so many, whichever."""

    def __init__(
        self,
        nodes: Sequence[Node],
        units: Sequence[Vector | None],
        kinds: Sequence[Kind],
        needs: Sequence[int],
        forbidden: Mapping[int, Sequence[Vector]],
    ) -> None:
        """units: of each class, None where only slots count. needs: of each gang. forbidden: by node."""
        self._nodes = nodes
        self._units = units
        self._kinds = kinds
        self._needs = needs
        self._forbidden = forbidden
        # What all nodes from one on take of each class: a bound.
        self._rest = [[sum(node.slots[klass] for node in nodes[place:]) for klass in range(len(units))] for place in range(len(nodes) + 1)]

    def run(self) -> list[tuple[int, Vector]] | None:
        """Return how many members of each kind go to which rows; None: none was found."""
        left = [kind.size for kind in self._kinds]
        failed: set[tuple[int, Vector]] = set()  # from this node on, with so many members left
        path: list[tuple[int, Vector, Iterator[Vector]]] = []
        place = 0
        while True:
            if self._is_done(left):
                return [(at, taken) for at, taken, _ in path if any(taken)]
            known = (place, tuple(left))
            if known not in failed and self._may_fit(place, left):
                options = iter(self._options(place, left))
                at = place
            else:
                if not path:
                    return None
                at, taken, options = path.pop()
                left = [count + back for count, back in zip(left, taken, strict=True)]
            # The next combination of the node at hand, or of the last one that has another.
            while (taken_next := next(options, None)) is None:
                failed.add((at, tuple(left)))
                if not path:
                    return None
                at, taken, options = path.pop()
                left = [count + back for count, back in zip(left, taken, strict=True)]
            path.append((at, taken_next, options))
            left = [count - taken for count, taken in zip(left, taken_next, strict=True)]
            place = at + 1

    def _placed(self, left: Sequence[int]) -> list[int]:
        """Return how many members of each gang are placed."""
        placed = [0] * len(self._needs)
        for kind, count in zip(self._kinds, left, strict=True):
            placed[kind.gang] += kind.size - count
        return placed

    def _is_done(self, left: Sequence[int]) -> bool:
        return all(have >= need for have, need in zip(self._placed(left), self._needs, strict=True))

    def _may_fit(self, place: int, left: Sequence[int]) -> bool:
        """Answer whether the slots of the nodes from this one on might be enough for what is missing."""
        if place == len(self._nodes):
            return False
        rest, reach = self._rest[place], self._placed(left)
        for kind, count in zip(self._kinds, left, strict=True):
            reach[kind.gang] += min(count, rest[kind.number])
        return all(have >= need for have, need in zip(reach, self._needs, strict=True))

    # The combinations of one node

    def _options(self, place: int, left: Sequence[int]) -> list[Vector]:
        """Return the combinations that leave the node no room for one more member, those that use most of it first."""
        node = self._nodes[place]
        found: list[Vector] = []
        self._extend(place, left, (), (list(node.free), list(node.slots)), found)
        full = [taken for taken in found if not self._has_room(place, taken, left)]
        whole = [max(1, amount) for amount in node.free]

        def use(taken: Vector) -> float:
            total = 0.0
            for kind, count in zip(self._kinds, taken, strict=True):
                units = self._units[kind.number]
                if units is not None:
                    total += count * sum(unit / amount for unit, amount in zip(units, whole, strict=True))
            return total

        return sorted(full, key=use, reverse=True)

    def _extend(self, place: int, left: Sequence[int], taken: Vector, room: tuple[list[int], list[int]], found: list[Vector]) -> None:
        """Add the combinations that begin with these numbers of the first kinds, larger numbers first. room: amounts and slots."""
        k, (free, slots) = len(taken), room
        if k == len(self._kinds):
            if self._is_allowed(place, taken):
                found.append(taken)
            return
        number = self._kinds[k].number
        units = self._units[number]
        most = min(left[k], slots[number])
        for unit, amount in zip(units or (), free, strict=units is not None):
            if unit:
                most = min(most, max(0, amount) // unit)
        last = k + 1 == len(self._kinds) and not self._forbidden.get(place)
        for count in range(most, most - 1 if last else -1, -1):
            after = free if units is None else [amount - count * unit for amount, unit in zip(free, units, strict=True)]
            fewer = [each - count * (other == number) for other, each in enumerate(slots)]
            self._extend(place, left, (*taken, count), (after, fewer), found)

    def _is_allowed(self, place: int, taken: Sequence[int]) -> bool:
        forbidden = self._forbidden.get(place)
        if not forbidden:
            return True
        there = [0] * len(self._units)
        for kind, count in zip(self._kinds, taken, strict=True):
            there[kind.number] += count
        return not any(all(have >= least for have, least in zip(there, vector, strict=True)) for vector in forbidden)

    def _has_room(self, place: int, taken: Vector, left: Sequence[int]) -> bool:
        """Answer whether one more member could go there."""
        node = self._nodes[place]
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
                if self._is_allowed(place, more):
                    return True
        return False
