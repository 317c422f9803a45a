"""Credits: capacity of nodes that belongs to an owner, held by pods that stand for it (reservation.md §6, "the RP leaves the view").

A placeholder is a pod that the cache counts, so that strangers find its amounts, ports, CPUs and whatever else a pod may hold taken, and
pay nothing for that. To its owner the placeholder is not there: while pods of the owner are evaluated, `Cache.view` takes the owner's
placeholders away quietly and puts them back. So a credit is exact in every column and count that follows pods; a plugin that keeps
state of its own of what pods hold takes part by following the cache as a `PodFollower` (`simulating`), and by nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched._core.table import NodeTable


class OwnedCapacity:
    """What one owner has: the uids of its placeholders. version: another one after each change."""

    __slots__ = ("placeholders", "version")

    def __init__(self) -> None:
        self.placeholders: dict[str, None] = {}
        self.version = 0


class Credits:
    """The placeholders of every owner."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._owners: dict[Hashable, OwnedCapacity] = {}

    def __len__(self) -> int:
        """Return how many owners there are."""
        return len(self._owners)

    def of(self, owner: Hashable) -> OwnedCapacity | None:
        return self._owners.get(owner)

    def version(self, owner: Hashable) -> int:
        """Return a number that differs when the owner has other placeholders; what they hold is a matter of the node table's log."""
        owned = self._owners.get(owner)
        return 0 if owned is None else owned.version

    def grant(self, owner: Hashable, placeholder: str) -> None:
        """Let what the pod with this uid holds belong to the owner, whether or not the pod is counted already."""
        owned = self._owners.get(owner)
        if owned is None:
            owned = self._owners[owner] = OwnedCapacity()
        if placeholder not in owned.placeholders:
            owned.placeholders[placeholder] = None
            owned.version = self._table.next_stamp()

    def revoke(self, owner: Hashable, placeholder: str) -> None:
        """Let it belong to the owner no longer."""
        owned = self._owners.get(owner)
        if owned is None or placeholder not in owned.placeholders:
            return
        del owned.placeholders[placeholder]
        owned.version = self._table.next_stamp()
        if not owned.placeholders:
            del self._owners[owner]
