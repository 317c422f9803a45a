"""A local copy of one kind's objects, and the handlers that are called with every change to it.

No waiting: the informer feeds it with lists and watch events, and whatever it is fed, handlers see a gapless story: an object is added
once, then updated, then deleted, in the order of its versions. The store is changed before handlers are called. What it is fed is
transformed on its way in, each object once: store and handlers know the transformed ones only.

A handler that raises has missed a change. What it last took in of the object is kept, and `retry` calls it, and the handlers after it, with
the difference to what the store has by then; until that works, every new event of the object is such a retry as well.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import msgspec

from koordsched.api.meta import Object
from koordsched.cluster.port import DELETED, WatchEvent
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T", bound=Object)
H_contra = TypeVar("H_contra", bound=Object, contravariant=True)

OBJECTS_A_TURN = 50
"""Objects of a list that are taken over between two turns of the event loop: some ms, and several kinds do so in one (bench_drift.py)."""

log = get_logger(__name__)


class Arrival(Enum):
    """How an object came to be known: it was in the first list, or it came later."""

    INITIAL = "initial"
    LATER = "later"


LATER: Final = Arrival.LATER  # for where each event passes, as in the port


class FinalState(Enum):
    """Whether a deleted object is as it was when it was deleted, or as it was when last seen, because the deletion itself was missed."""

    KNOWN = "known"
    UNKNOWN = "unknown"


class Handler(Protocol[H_contra]):
    """Who wants to know of changes. Calls are synchronous, between two awaits of the informer: a handler must be quick.

    A change may come twice, as `on_add` of an object that is known too: after a handler raised, and where a comparison with the cluster
    found that a change had been lost. A repeated call must do no harm. An object that was deleted and created again is two: its end comes
    before its beginning, never as an update.
    """

    def on_add(self, obj: H_contra, arrival: Arrival) -> None: ...

    def on_update(self, old: H_contra, new: H_contra) -> None: ...

    def on_delete(self, obj: H_contra, final_state: FinalState) -> None: ...


class LatestStateHandler(Generic[T]):
    """A handler for where the latest state of an object is all that counts.

    put: called with an object that has come or changed; drop: with one that has gone.
    """

    def __init__(self, put: Callable[[T], None], drop: Callable[[T], None]) -> None:
        self._put = put
        self._drop = drop

    def on_add(self, obj: T, _arrival: Arrival) -> None:
        self._put(obj)

    def on_update(self, _old: T, new: T) -> None:
        self._put(new)

    def on_delete(self, obj: T, _final_state: FinalState) -> None:
        self._drop(obj)


class Missed(msgspec.Struct, Generic[T], eq=False):
    """What one handler has not taken in of one object."""

    before: T | None  # what it last took in; None: nothing
    failed: T  # the object of the call that raised
    failures: int = 0  # calls that raised since then


def object_key(obj: Object) -> str:
    """Return what the object is stored under: "namespace/name", or "name" when it has no namespace."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def newer(version: str, other: str) -> bool:
    """Answer whether a resource version is later than another (frameworkext.md §1.4: by length, then as text)."""
    return (len(version), version) > (len(other), other)


class ObjectStore(Generic[T]):
    """The store and its handlers, which are called in the order in which they were added.

    A handler that raises is logged with the object's name and counted in `handler_errors`; the others still get the call. `on_missed` is
    called with the object's key and the number of failures in a row.
    """

    def __init__(self, kind: str, on_missed: Callable[[str, int], None] = lambda _key, _failures: None) -> None:
        self.store: dict[str, T] = {}
        self.handler_errors = 0
        self.transform: Callable[[T], T] | None = None
        self._kind = kind
        self._handlers: list[Handler[T]] = []
        self._on_missed = on_missed
        self._missed: dict[str, dict[int, Missed[T]]] = {}  # by key, then by the handler's place
        self._ahead: dict[str, str] = {}  # by key: versions taken over by `correct`, until the watch comes as far
        self._replacing = False  # since the first part of a list, until all of it is taken over

    @property
    def missed(self) -> Mapping[str, int]:
        """Return the objects of which a handler has missed something, each with its failures in a row."""
        return {key: max(missed.failures for missed in handlers.values()) for key, handlers in self._missed.items()}

    def add_handler(self, handler: Handler[T]) -> None:
        """Call the handler with everything that is known, as INITIAL, and with every change from now on."""
        self._handlers.append(handler)
        for key, obj in list(self.store.items()):
            try:
                handler.on_add(obj, Arrival.INITIAL)
            except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                self._failed(key, handler, None, obj)

    def apply(self, event: WatchEvent) -> None:
        """Take over one change of a watch; one that is known already changes nothing. Bookmarks are not for here."""
        obj: T = event.object  # type: ignore[assignment]  # a cast costs a call at each event
        metadata = obj.metadata
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name  # `object_key`, without its call
        if self._ahead and key in self._ahead and self._is_overtaken(key, metadata.resource_version):
            return
        if self.transform is not None:
            obj = self.transform(obj)
        if event.type is not DELETED:
            self._put(key, obj, LATER)
        elif key in self.store:
            self._delete(key, obj, FinalState.KNOWN)

    def replace(self, listed: Mapping[str, T], arrival: Arrival) -> Iterator[None]:
        """Take over a complete list, by key, and yield after every so many objects: what it does not hold has been deleted.

        What came or changed is taken over before what went. So a node whose pods were replaced has too many in between, never too few.
        """
        yield from self.take_in(listed, arrival)
        yield from self.drop_others(listed)

    def take_in(self, part: Mapping[str, T], arrival: Arrival) -> Iterator[None]:
        """Take over a part of a list, and yield as `replace` does. `drop_others` is to follow once all parts are taken over."""
        self._replacing = True
        left, transform = OBJECTS_A_TURN, self.transform
        for key, obj in part.items():
            self._put(key, obj if transform is None else transform(obj), arrival)
            left -= 1
            if not left:
                left = OBJECTS_A_TURN
                yield

    def drop_others(self, listed: Mapping[str, T]) -> Iterator[None]:
        """Delete what the list does not hold, of which all parts are taken over, and yield as `replace` does."""
        left = OBJECTS_A_TURN
        for key in [key for key in self.store if key not in listed]:
            self._delete(key, self.store[key], FinalState.UNKNOWN)
            left -= 1
            if not left:
                left = OBJECTS_A_TURN
                yield
        self._ahead.clear()
        self._replacing = False

    def correct(self, key: str, obj: T | None) -> bool:
        """Take over what the cluster says of an object (None: it does not exist) that the watch did not send. Return whether that changed
        anything; nothing does while a list is being taken over, nor if the store is ahead already."""
        known = self.store.get(key)
        if self._replacing or (obj is None and known is None):
            return False
        if obj is None:
            self._delete(key, self.store[key], FinalState.UNKNOWN)
            return True
        obj = self.transformed(obj)
        if known is not None and known.metadata.uid == obj.metadata.uid:
            if newer(known.metadata.resource_version, obj.metadata.resource_version) or known == obj:
                return False
            self._ahead[key] = obj.metadata.resource_version
            self._update(key, known, obj)
        else:
            self._ahead[key] = obj.metadata.resource_version
            self._put(key, obj, LATER)
        return True

    def transformed(self, obj: T) -> T:
        """Return the object of the cluster as the store would hold it."""
        return obj if self.transform is None else self.transform(obj)

    def repeat(self, key: str) -> None:
        """Call all handlers anew with an object that they know; nothing happens if it does not exist."""
        obj = self.store.get(key)
        if obj is None or self._retry(key):
            return
        for handler in self._handlers:
            try:
                handler.on_add(obj, LATER)
            except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                self._failed(key, handler, obj, obj)

    def retry(self, key: str) -> None:
        """Call the handlers that have missed a change of an object, and those after them, with how it is now."""
        if self._retry(key) and key not in self._missed:
            log.info("all handlers have taken in an object that some had failed on", kind=self._kind, object=key)

    def _put(self, key: str, obj: T, arrival: Arrival) -> None:
        old = self.store.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            # Deleted and created again between two looks: two objects, so handlers get the end of one and the beginning of the other.
            self._delete(key, old, FinalState.UNKNOWN)
            old = None
        if old is None:
            self.store[key] = obj
            if self._missed and self._retry(key, None, obj):
                return
            for handler in self._handlers:
                try:
                    handler.on_add(obj, arrival)
                except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                    self._failed(key, handler, None, obj)
        elif old.metadata.resource_version != obj.metadata.resource_version:
            self._update(key, old, obj)

    def _update(self, key: str, old: T, obj: T) -> None:
        self.store[key] = obj
        if self._missed and self._retry(key, old, obj):
            return
        for handler in self._handlers:
            try:
                handler.on_update(old, obj)
            except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                self._failed(key, handler, old, obj)

    def _delete(self, key: str, obj: T, final_state: FinalState) -> None:
        old = self.store.pop(key)
        if self._missed and self._retry(key, old, None):
            return
        for handler in self._handlers:
            try:
                handler.on_delete(obj, final_state)
            except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                self._failed(key, handler, old, obj)

    def _retry(self, key: str, old: T | None = None, new: T | None = None) -> bool:
        """Bring every handler to the store's state of an object; False when none has missed anything.

        Those that missed nothing get the change from old to new, if there is one. Those behind a handler that has just caught up
        get again what it got: they may have looked at what it keeps.
        """
        missed = self._missed.pop(key, None)
        if missed is None:
            return False
        now = self.store.get(key)
        again: Missed[T] | None = None
        for place, handler in enumerate(self._handlers):
            late = missed.get(place)
            try:
                if late is not None:
                    _catch_up(handler, late, now)
                    again = late
                elif again is not None and now is not None:
                    _catch_up(handler, again, now)
                else:
                    _notify(handler, old, new)
            except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                if late is not None:
                    self._failed(key, handler, late.before, now or late.failed, late.failures)
                elif (failed := now or new or old) is not None:
                    self._failed(key, handler, old if again is None else now, failed)
        return True

    def _is_overtaken(self, key: str, version: str) -> bool:
        """Answer whether an event of the watch is older than what the store was corrected to; the watch has come as far if it is not."""
        if newer(self._ahead[key], version):
            return True
        del self._ahead[key]
        return False

    def _failed(self, key: str, handler: Handler[T], before: T | None, failed: T, failures: int = 0) -> None:
        """Log and count what a handler raises, and remember what it has missed; called while the exception is handled."""
        self.handler_errors += 1
        place = next(i for i, each in enumerate(self._handlers) if each is handler)
        handlers = self._missed.setdefault(key, {})
        handlers[place] = Missed(before, failed, failures + 1)
        say = log.exception if not failures else log.error  # one traceback is enough
        name = type(handler).__qualname__
        say("a handler failed on a change and is called again later", kind=self._kind, object=key, handler=name, failures=failures + 1)
        self._on_missed(key, failures + 1)


def _notify(handler: Handler[T], old: T | None, new: T | None) -> None:
    """Call a handler with a change; with none when both are None."""
    if new is None:
        if old is not None:
            handler.on_delete(old, FinalState.UNKNOWN)
    elif old is None:
        handler.on_add(new, LATER)
    else:
        handler.on_update(old, new)


def _catch_up(handler: Handler[T], missed: Missed[T], now: T | None) -> None:
    """Call a handler with the difference between what it knows and what there is. It may have got half way with what it failed on."""
    known = missed.before or missed.failed
    if now is None or known.metadata.uid != now.metadata.uid:
        handler.on_delete(known, FinalState.UNKNOWN)
        if now is not None:
            handler.on_add(now, LATER)
    else:
        _notify(handler, missed.before, now)
