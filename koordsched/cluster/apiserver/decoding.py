"""Bytes of the API server into the Structs of one kind.

The fast path is one typed msgspec call for an item of a list or a batch of watch lines, with nothing in between; a page of a list is
decoded in slices, so that a long one holds up nothing else. What the fast path refuses (a real API server writes nulls for empty lists) is
decoded through `api.validation`, which drops nulls. An object that still cannot be read is logged with its name, the path and the value,
and left out; the others and the order of versions are not touched by it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from sys import intern
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec.structs import force_setattr

from koordsched.api.core import Node, Pod
from koordsched.api.koordinator.device_decoding import DeviceText, device_of
from koordsched.api.koordinator.devices import Device
from koordsched.api.koordinator.reservation_decoding import ReservationText, reservation_of
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.meta import JSON_ERRORS, Api, Object, ObjectMeta, Unstructured
from koordsched.api.sharing import share
from koordsched.api.validation import InvalidObject, decode
from koordsched.cluster.apiserver.errors import ApiStatus
from koordsched.cluster.port import BOOKMARK, DELETED, ListPage, WatchEvent, WatchEventType
from koordsched.log import get_logger

if TYPE_CHECKING:
    from koordsched.api.kinds import Kind
    from koordsched.cluster.apiserver.wire import Body

T = TypeVar("T", bound=Object)
UNDECODABLE = (*JSON_ERRORS, InvalidObject)
ITEMS_A_TURN = 50
"""Items of a list that are decoded between two turns of the event loop: 1 ms of pods, 5 ms of objects without a Struct of their kind."""
_ERROR = "ERROR"
_TYPES = {event_type.value: event_type for event_type in WatchEventType}

log = get_logger(__name__)


class _TypedEvent(WatchEvent, Generic[T], frozen=True):
    """A watch event whose object is decoded straight into its Struct."""

    object: T


class _Line(msgspec.Struct):
    """A watch event of any type, its object not looked at yet."""

    type: str
    object: msgspec.Raw


class _ListMeta(Api):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class _RawPage(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Head(msgspec.Struct):
    metadata: dict[str, Any] = {}


class Batch(msgspec.Struct, frozen=True):
    """What a piece of a watch holds: events, and what ended the watch after them, if anything did."""

    events: list[WatchEvent]
    status: ApiStatus | None = None  # of an ERROR event
    lost: str = ""  # why the history is not whole any more, "" when it is


IN_PARTS: dict[type[Object], type[Object]] = {Reservation: ReservationText, Device: DeviceText}
"""Structs whose parts are texts at first, because objects have many in common."""


def _whole(obj: Object) -> Object:
    """Return a new object with the parts that equal ones have: of pods that name thousands of things, Reservations and Devices."""
    if isinstance(obj, Pod):
        return share(obj)
    if isinstance(obj, Node):
        force_setattr(obj.metadata, "name", intern(obj.metadata.name))  # which all that is on it has, too
        return obj
    if isinstance(obj, ReservationText):
        return reservation_of(obj)
    return device_of(obj) if isinstance(obj, DeviceText) else obj


class KindDecoder:
    """Decodes answers about one kind. Keeps nothing but compiled decoders; `unreadable` counts what is left out, by plural and group."""

    def __init__(self, kind: Kind, unreadable: Counter[str] | None = None) -> None:
        self._kind = kind
        self._api_version = kind.api_version  # one text for all objects
        self._unreadable: Counter[str] = Counter() if unreadable is None else unreadable
        struct: Any = IN_PARTS.get(kind.struct, kind.struct)
        self._typed = kind.struct is not Unstructured
        self._objects = msgspec.json.Decoder(struct)
        self._pages = msgspec.json.Decoder(_RawPage)
        self._events: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_TypedEvent[struct])

    def object(self, body: Body | msgspec.Raw) -> Object:
        """Decode one object; one of UNDECODABLE when it cannot be read."""
        if self._typed:
            try:
                return self._named(_whole(self._objects.decode(body)))
            except (msgspec.ValidationError, RecursionError):
                pass  # nulls, or values that are not what they must be: the slow way names which
        return self._checked(body)

    async def page(self, body: Body) -> ListPage:
        """Decode a page of a list, so many items a turn of the event loop; one of UNDECODABLE when it is none."""
        page = self._pages.decode(body)  # finds where items begin and end: a tenth to a fifth of the whole work
        items: list[Object] = []
        unreadable: list[str] = []
        raw = page.items or []
        for start in range(0, len(raw), ITEMS_A_TURN):
            if start:
                await asyncio.sleep(0)
            for item in raw[start : start + ITEMS_A_TURN]:
                try:
                    items.append(self.object(item))
                except UNDECODABLE as error:
                    unreadable.append(self._report(item, error))
        return ListPage(items, page.metadata.resource_version, page.metadata.continue_ or "", unreadable)

    def batch(self, lines: bytes) -> Batch:
        """Decode whole lines of a watch."""
        if self._typed:
            try:
                return Batch(self._shared(self._events.decode_lines(lines)))
            except JSON_ERRORS:
                pass  # a null, a bookmark, an ERROR or no JSON: look at each line
        events: list[WatchEvent] = []
        for line in lines.splitlines():
            if not line.strip():
                continue
            try:
                read = self._line(line)
            except UNDECODABLE as error:
                self._unreadable[self._kind.plural_group] += 1
                log.error("an event of a watch cannot be read and is left out", kind=self._kind.plural_group, error=str(error))
                continue
            if isinstance(read, WatchEvent):
                events.append(read)
            else:
                return Batch(events, read.status, read.lost)
        return Batch(events)

    def _shared(self, events: list[WatchEvent]) -> list[WatchEvent]:
        """Let objects have equal parts in common."""
        for event in events:
            obj = event.object
            if (shared := self._named(_whole(obj))) is not obj:
                force_setattr(event, "object", shared)
        return events

    def _line(self, text: bytes) -> WatchEvent | Batch:
        """Read one event; a Batch without events says that the watch ends here."""
        line = msgspec.json.decode(text, type=_Line)
        if line.type == _ERROR:
            return Batch([], msgspec.json.decode(line.object, type=ApiStatus))
        event_type = _TYPES.get(line.type)
        if event_type is BOOKMARK or event_type is None:
            if event_type is None:
                log.error("an event of an unknown type is left out", kind=self._kind.plural_group, type=line.type)
            return self._bookmark(line.object)
        try:
            return WatchEvent(event_type, self.object(line.object))
        except UNDECODABLE as error:
            name = self._report(line.object, error)
            if event_type is DELETED:
                return Batch([], lost=f'{self._kind.plural_group} "{name}" was deleted, but how it was last cannot be read')
            return self._bookmark(line.object)

    def _bookmark(self, body: msgspec.Raw) -> WatchEvent:
        """Return what is left of an object that cannot be read, or has nothing but a version: the version, and the name if it has one."""
        metadata = msgspec.json.decode(body, type=_Head).metadata
        version, annotations = metadata.get("resourceVersion"), metadata.get("annotations")
        if not version or not isinstance(version, str):
            raise msgspec.ValidationError("it has no metadata.resourceVersion")
        name, namespace = (found if isinstance(found := metadata.get(field), str) else "" for field in ("name", "namespace"))
        annotations = annotations if isinstance(annotations, dict) else {}
        kept = ObjectMeta(name=name, namespace=namespace, resource_version=version, annotations=annotations)
        return WatchEvent(BOOKMARK, Object(api_version=self._kind.api_version, kind=self._kind.kind, metadata=kept))

    def _checked(self, body: Body | msgspec.Raw) -> Object:
        raw = msgspec.json.decode(body)
        if isinstance(raw, dict):
            raw.setdefault("apiVersion", self._kind.api_version)
            raw.setdefault("kind", self._kind.kind)
            metadata = raw.get("metadata")
            if isinstance(metadata, dict):
                metadata.pop("managedFields", None)  # who wrote which field: half of an object, and nothing reads it
        found = decode(self._kind, raw)
        return _whole(found)

    def _named(self, obj: Object) -> Object:
        """Say what the items of a list leave out, in words that all objects share. The object is new: it may still be changed."""
        if not obj.kind or (obj.kind == self._kind.kind and obj.api_version == self._api_version):
            force_setattr(obj, "api_version", self._api_version)
            force_setattr(obj, "kind", self._kind.kind)
        return obj

    def _report(self, body: msgspec.Raw, error: Exception) -> str:
        """Log that an object cannot be read, and return its key."""
        try:
            metadata = msgspec.json.decode(body, type=_Head).metadata
        except UNDECODABLE:
            metadata = {}
        self._unreadable[self._kind.plural_group] += 1
        name = "/".join(str(part) for part in (metadata.get("namespace"), metadata.get("name")) if part)
        log.error("an object cannot be read and is left out", kind=self._kind.plural_group, object=name, error=str(error))
        return name
