"""The objects of one kind, and the history that watches read.

A `Stored` is one state of one object and never changes; a write makes a new one that shares the unchanged parts. A `HistoryEntry` records
one write. History is a list from whose beginning entries are dropped. A watch keeps a position in it, so that any number of watches cost
nothing between writes, and one list slice each after some.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.validation import decode
from koordsched.tasks import call_later

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.api.selectors import FieldSelector
    from koordsched.cluster.port import ClusterError

Raw = dict[str, Any]
"""An object as JSON values. What is stored is never changed in place."""


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class Stored(msgspec.Struct, eq=False, gc=False):
    """One state of one object; `version` is its resource version. The Struct is made once, when first asked for.

    Neither this nor `HistoryEntry` can be part of a cycle, so the garbage collector need not walk over a history of thousands.
    """

    kind: Kind
    raw: Raw
    version: int
    decoded: Object | None = None
    asked: FieldSelector | None = None  # the selector of the last `selected`, and its answer: mostly all watches of a kind have the same
    answered: bool = False

    def object(self) -> Object:
        if self.decoded is None:
            self.decoded = decode(self.kind, self.raw)
        return self.decoded

    def selected(self, selector: FieldSelector) -> bool:
        """Answer whether the selector matches this state. The answer is kept, as a state is asked twice: as a new and as an old one."""
        if self.asked is not selector:
            self.asked, self.answered = selector, selector.matches(self.raw)
        return self.answered

    def at(self, version: int) -> Stored:
        """Return the same state under a later version, as the API server reports an object that no longer matches a watch's selector."""
        metadata = {**self.raw["metadata"], "resourceVersion": str(version)}
        return Stored(self.kind, {**self.raw, "metadata": metadata}, version)


class HistoryEntry(msgspec.Struct, eq=False, gc=False):
    """One write: `old` is None for a creation, `new` for a deletion. `last` is the deleted object at the deletion's version."""

    version: int
    old: Stored | None
    new: Stored | None
    last: Stored | None = None


class KindStore:
    """All objects of a kind by key, and the last `history` changes (up to twice as many are kept between two clean-ups)."""

    def __init__(self, kind: Kind, history: int) -> None:
        self.kind = kind
        self.objects: dict[str, Stored] = {}
        self.requests: Counter[str] = Counter()  # by verb
        self.forgotten = 0  # the version up to which changes are no longer known
        self.cuts = 0  # how often all watches were cut
        self.cut_error: Callable[[], ClusterError] | None = None  # what the last cut ended them with
        self._limit = history
        self._changes: list[HistoryEntry] = []
        self._base = 0  # position of the first kept change
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def end(self) -> int:
        """Return the position after the last change."""
        return self._base + len(self._changes)

    def record(self, change: HistoryEntry) -> None:
        """Append the change and notify the watches. Versions only grow."""
        self._changes.append(change)
        if len(self._changes) >= 2 * self._limit:
            self._forget(len(self._changes) - self._limit)
        if self._waiters:
            self.notify()

    def position(self, version: int) -> int | None:
        """Return where the changes after version begin, or None when some of them are no longer known."""
        if version < self.forgotten:
            return None
        return self._base + bisect_right(self._changes, version, key=attrgetter("version"))

    def since(self, position: int) -> Sequence[HistoryEntry] | None:
        """Return the changes from position on, or None when some of them are no longer known."""
        if position < self._base:
            return None
        return self._changes[position - self._base :]

    def compact(self, version: int) -> None:
        """Forget all changes; `version` is the cluster's present one."""
        self._forget(len(self._changes))
        self.forgotten = max(self.forgotten, version)

    def cut(self, error: Callable[[], ClusterError] | None) -> None:
        """End all watches that run now, with an error or, when None, as if their time were over."""
        self.cuts += 1
        self.cut_error = error
        self.notify()

    async def changed(self, seconds: float) -> None:
        """Wait until something was recorded or cut, at most so many seconds of the loop's time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = call_later(seconds, _resolve, waiter)
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)

    def notify(self) -> None:
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            _resolve(waiter)

    def _forget(self, count: int) -> None:
        if count:
            self.forgotten = self._changes[count - 1].version
            del self._changes[:count]
            self._base += count


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
