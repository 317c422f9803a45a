"""A plain model of how Koordinator v1.8.0 plans a gang of equal members in the network (coscheduling.md §7.2), with D5 and D16 as decided.

A tree is a nest of dicts: {spine: {block: {node: slots}}}. The layers are Layer1, Layer2, ... from the root down; nodes are the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Tree = Mapping[str, Any]
Path = tuple[str, ...]


class Plan:
    """levels: 0 is the root. multiples: by level."""

    def __init__(self, tree: Tree, depth: int, wanted: int, existing: Mapping[str, int], multiples: Mapping[int, int]) -> None:
        self.wanted = wanted
        self.multiples = multiples
        self.leaf = depth + 1
        self.children: dict[Path, list[Path]] = {}
        self.slots: dict[Path, int] = {}
        self.existing: dict[Path, int] = {}
        self.scores: dict[Path, int] = {}
        self._add((), tree, existing)

    def _add(self, path: Path, below: Any, existing: Mapping[str, int]) -> None:
        if len(path) == self.leaf:
            self.children[path] = []
            slots, found = min(below, self.wanted), existing.get(path[-1], 0)
        else:
            self.children[path] = [(*path, name) for name in below]
            for name, part in below.items():
                self._add((*path, name), part, existing)
            slots = sum(self.slots[child] for child in self.children[path])
            found = sum(self.existing[child] for child in self.children[path])
        self.slots[path] = self._rounded(path, slots)
        self.existing[path] = found

    def _rounded(self, path: Path, slots: int) -> int:
        return slots - slots % self.multiples.get(len(path), 1)

    def chain(self, values: Mapping[Path, int], path: Path) -> tuple[int, ...]:
        """Return the value of the domain and of those that it is in, from below."""
        return tuple(values[path[:end]] for end in range(len(path), -1, -1))

    def at(self, level: int) -> list[Path]:
        return [path for path in self.children if len(path) == level]

    def candidates(self, level: int) -> list[Path]:
        """Return the domains of the deepest level that take all, below those of the level that do, the best first."""
        found: list[Path] = []
        here = self.at(level)
        while here:
            here = [path for path in here if self.slots[path] >= self.wanted]
            found = here or found
            here = [child for path in here for child in self.children[path]]
        return sorted(
            found,
            key=lambda path: (tuple(-n for n in self.chain(self.existing, path)), self.chain(self.slots, path), path[-1:], path),
        )

    def fill(self, path: Path, limit: int) -> Iterator[tuple[str, int]]:
        """Yield nodes with their members, in the order in which they are filled."""
        amount = self._rounded(path, min(self.slots[path], limit))
        if len(path) == self.leaf:
            if amount:
                yield path[-1], amount
            return
        for child in sorted(self.children[path], key=lambda child: (-self.existing[child], -self.slots[child], child)):
            for node, members in self.fill(child, amount):
                yield node, members
                amount -= members

    def find(self, level: int) -> list[tuple[str, int]] | None:
        """Return the members of each node in order; None: nothing takes all."""
        for candidate in self.candidates(level):
            found = list(self.fill(candidate, self.wanted))
            if sum(members for _, members in found) == self.wanted:
                return found
        return None


def domains_used(nodes: Sequence[str], paths: Mapping[str, Path], level: int) -> int:
    """Return in how many domains of a level these nodes are. paths: of nodes, without the nodes themselves."""
    return len({paths[node][:level] for node in nodes})
