"""A local copy of one kind's objects, and the handlers that are told of every change to it.

No waiting: the informer feeds it with lists and watch events, and whatever it is fed, handlers see a gapless story: an object is added
once, then updated, then deleted, in the order of its versions. The store is changed before handlers are called.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast

from koordsched.api.meta import Object
from koordsched.cluster.port import DELETED, WatchEvent
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T", bound=Object)
H_contra = TypeVar("H_contra", bound=Object, contravariant=True)

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
    """Who wants to know of changes. Calls are synchronous, between two awaits of the informer: a handler must be quick."""

    def on_add(self, obj: H_contra, arrival: Arrival) -> None: ...

    def on_update(self, old: H_contra, new: H_contra) -> None: ...

    def on_delete(self, obj: H_contra, final_state: FinalState) -> None: ...


def object_key(obj: Object) -> str:
    """Return what the object is stored under: "namespace/name", or "name" when it has no namespace."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


class Mirror(Generic[T]):
    """The store and its handlers, which are called in the order in which they were added.

    A handler that raises is logged with the object's name and counted in `handler_errors`; the others still get the call.
    """

    def __init__(self, kind: str) -> None:
        self.store: dict[str, T] = {}
        self.handler_errors = 0
        self._kind = kind
        self._handlers: list[Handler[T]] = []

    def add_handler(self, handler: Handler[T]) -> None:
        """Tell the handler of everything that is known, as INITIAL, and of every change from now on."""
        self._handlers.append(handler)
        for key, obj in list(self.store.items()):
            try:
                handler.on_add(obj, Arrival.INITIAL)
            except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                self._failed(key, handler.on_add)

    def apply(self, event: WatchEvent) -> None:
        """Take over one change of a watch; one that is known already changes nothing. Bookmarks are not for here."""
        obj: T = event.object  # type: ignore[assignment]  # a cast costs a call at each event
        metadata = obj.metadata
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name  # `object_key`, without its call
        if event.type is not DELETED:
            self._put(key, obj, LATER)
        elif key in self.store:
            self._delete(key, obj, FinalState.KNOWN)

    def replace(self, objects: Iterable[Object], arrival: Arrival) -> None:
        """Take over a complete list: what it does not hold has been deleted."""
        listed = {object_key(obj): cast("T", obj) for obj in objects}
        for key in [key for key in self.store if key not in listed]:
            self._delete(key, self.store[key], FinalState.UNKNOWN)
        for key, obj in listed.items():
            self._put(key, obj, arrival)

    def _put(self, key: str, obj: T, arrival: Arrival) -> None:
        old = self.store.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            # Deleted and created again while nobody looked: two objects, so handlers are told of both ends.
            self._delete(key, old, FinalState.UNKNOWN)
            old = None
        if old is None:
            self.store[key] = obj
            for handler in self._handlers:
                try:
                    handler.on_add(obj, arrival)
                except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                    self._failed(key, handler.on_add)
        elif old.metadata.resource_version != obj.metadata.resource_version:
            self.store[key] = obj
            for handler in self._handlers:
                try:
                    handler.on_update(old, obj)
                except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                    self._failed(key, handler.on_update)

    def _delete(self, key: str, obj: T, final_state: FinalState) -> None:
        del self.store[key]
        for handler in self._handlers:
            try:
                handler.on_delete(obj, final_state)
            except Exception:  # noqa: BLE001  # one handler must not keep the others from theirs
                self._failed(key, handler.on_delete)

    def _failed(self, key: str, call: Callable[..., None]) -> None:
        """Log and count what a handler raises; called while the exception is handled."""
        self.handler_errors += 1
        name = getattr(call, "__qualname__", repr(call))
        log.exception("a handler failed on a change and may now disagree with the store", kind=self._kind, object=key, handler=name)
