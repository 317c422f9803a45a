"""One watch of the embedded cluster: the changes since a version, in batches, until the watch's time is over.

A watch reads history from its own position whenever its consumer asks for more, so a slow consumer gets one large batch and delays
no other. As with an API server objects enter and leave a field selector, there are bookmarks, a watch ends after some minutes, and one that
is too far behind ends with 410.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.meta import Object, ObjectMeta
from koordsched.cluster.memory.answers import too_old
from koordsched.cluster.port import ADDED, BOOKMARK, DELETED, MODIFIED, WatchEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from koordsched.api.kinds import Kind
    from koordsched.api.selectors import FieldSelector
    from koordsched.cluster.memory.store import HistoryEntry, KindStore


class WatchRequest(msgspec.Struct, frozen=True):
    """From where, for which objects (selector None: all) and for how long, in seconds of the loop's time."""

    version: int
    selector: FieldSelector | None
    lifetime: float
    bookmark_interval: float


async def watch_changes(
    store: KindStore, request: WatchRequest, current_version: Callable[[], int]
) -> AsyncGenerator[Sequence[WatchEvent], None]:
    """Yield what happened after request.version. Gone: history does not reach back that far, or the consumer fell behind it."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + request.lifetime
    bookmark_at = loop.time() + request.bookmark_interval
    cuts = store.cuts
    position = store.position(request.version)
    if position is None:
        raise too_old(request.version, store.forgotten)
    while True:
        if store.cuts != cuts:
            if store.cut_error is not None:
                raise store.cut_error()
            return
        changes = store.since(position)
        if changes is None:
            raise too_old(request.version, store.forgotten)
        if changes:
            position += len(changes)
            selector = request.selector
            events = [event for change in changes if (event := _event(change, selector)) is not None]
            if events:
                yield events
            continue
        now = loop.time()
        if now >= ends:
            yield [bookmark(store.kind, current_version())]
            return
        if now >= bookmark_at:
            bookmark_at = now + request.bookmark_interval
            yield [bookmark(store.kind, current_version())]
            continue
        await store.changed(min(bookmark_at, ends) - now)


def bookmark(kind: Kind, version: int) -> WatchEvent:
    """Return the event which states that everything up to the version has been sent."""
    metadata = ObjectMeta(resource_version=str(version))
    return WatchEvent(BOOKMARK, Object(api_version=kind.api_version, kind=kind.kind, metadata=metadata))


def _event(change: HistoryEntry, selector: FieldSelector | None) -> WatchEvent | None:
    """Return the event that a watch with the selector gets for the change; None: neither state matches."""
    old, new = change.old, change.new
    if selector is not None:
        old = old if old is not None and old.selected(selector) else None
        new = new if new is not None and new.selected(selector) else None
    if new is not None:
        return WatchEvent(ADDED if old is None else MODIFIED, new.decoded or new.object())
    if old is None:
        return None
    last = change.last or old.at(change.version)  # an object that left the selector is reported in its last state that matched
    return WatchEvent(DELETED, last.object())
