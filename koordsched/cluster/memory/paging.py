"""Consistent pages of a list.

The first page fixes what the list holds; the following ones come from that snapshot, whatever is written meanwhile, as from an API
server. A continue token is valid for five minutes of the clock, and may be used more than once. A compaction makes all tokens invalid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.cluster.memory.answers import expired_continue
from koordsched.cluster.port import ListPage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.cluster.memory.store import Stored

TOKEN_SECONDS = 300.0


class _Snapshot(msgspec.Struct, frozen=True):
    items: Sequence[Stored]
    version: int
    limit: int
    expires: float


class Pages:
    """The lists that are being read page by page."""

    def __init__(self) -> None:
        self._snapshots: dict[str, _Snapshot] = {}
        self._serial = 0

    def first(self, items: Sequence[Stored], version: int, limit: int, now: float) -> ListPage:
        """Return the first `limit` items (0: all) and, when there are more, a token for the next page."""
        self._snapshots = {name: snapshot for name, snapshot in self._snapshots.items() if snapshot.expires > now}
        if not limit or len(items) <= limit:
            return ListPage([stored.object() for stored in items], str(version))
        self._serial += 1
        name = f"list-{self._serial}"
        self._snapshots[name] = _Snapshot(items, version, limit, now + TOKEN_SECONDS)
        return self._page(name, 0)

    def next(self, token: str, now: float) -> ListPage:
        """Return the page that the token stands for. Gone: the token is too old."""
        name, _, start = token.rpartition("-")
        snapshot = self._snapshots.get(name)
        if snapshot is None or snapshot.expires <= now:
            raise expired_continue()
        return self._page(name, int(start))

    def forget(self) -> None:
        """Make all tokens invalid, as a compaction does."""
        self._snapshots.clear()

    def _page(self, name: str, start: int) -> ListPage:
        snapshot = self._snapshots[name]
        end = start + snapshot.limit
        token = f"{name}-{end}" if end < len(snapshot.items) else ""
        return ListPage([stored.object() for stored in snapshot.items[start:end]], str(snapshot.version), token)
