"""What an event looks like on the wire: events.k8s.io/v1 as client-go's recorder writes it (framework.md §6)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.api.core import ObjectReference
from koordsched.api.kinds import EVENT, KINDS, Kind
from koordsched.api.koordinator.reserve_pods import ReservePod
from koordsched.api.meta import Object, Unstructured
from koordsched.clock import rfc3339

if TYPE_CHECKING:
    from koordsched.cluster.event_series import EventRecord

NOTE_BYTES = 1024
NAME_LENGTH = 253
MICROSECONDS = 1_000_000  # of a second
_NANOS_LENGTH = 17  # the dot and sixteen hexadecimal digits
_CUT = " ..."
_KIND_OF_STRUCT: dict[type[Object], Kind] = {kind.struct: kind for kind in KINDS.values() if kind.struct is not Unstructured}


class EventSource(msgspec.Struct, frozen=True):
    """The reporter of events: the scheduler's name, and which process of it."""

    controller: str
    instance: str


def reference_to(obj: Object) -> ObjectReference:
    """Name the object and the version of it that an event is about: for a reserve pod its Reservation.

    An object from a list need not say of what kind it is.
    """
    if type(obj) is ReservePod:
        obj = obj.reservation
    kind = _KIND_OF_STRUCT.get(type(obj))
    metadata = obj.metadata
    return ObjectReference(
        api_version=obj.api_version or (kind.api_version if kind is not None else ""),
        kind=obj.kind or (kind.kind if kind is not None else ""),
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )


def event_name(regarding: str, nanoseconds: int) -> str:
    """Make the event's name, `<object>.<unixnano in hex>`; a very long object name is cut to what a name may hold."""
    return f"{regarding[: NAME_LENGTH - _NANOS_LENGTH].rstrip('.-')}.{nanoseconds:x}"


def event_namespace(regarding: ObjectReference) -> str:
    """Return where the event is kept: beside its object, and for a cluster-scoped one in `default`."""
    return regarding.namespace or "default"


def short_note(note: str) -> str:
    """Cut a note to what an event may hold, 1024 bytes of UTF-8, between two characters."""
    encoded = note.encode()
    if len(encoded) <= NOTE_BYTES:
        return note
    return encoded[: NOTE_BYTES - len(_CUT)].decode(errors="ignore") + _CUT


def event_body(record: EventRecord, source: EventSource) -> dict[str, Any]:
    """Write the whole event; with its series only when the cluster had it before."""
    key = record.key
    body = {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": record.name, "namespace": event_namespace(key.regarding)},
        "eventTime": micro_time(record.first),
        "type": key.type,
        "reason": key.reason,
        "action": key.action,
        "note": short_note(record.note),
        "regarding": msgspec.to_builtins(key.regarding),
        "reportingController": source.controller,
        "reportingInstance": source.instance,
    }
    if key.related is not None:
        body["related"] = msgspec.to_builtins(key.related)
    return body | series_patch(record) if record.written else body


def series_patch(record: EventRecord) -> dict[str, Any]:
    """Write the series as it is now."""
    return {"series": {"count": record.count, "lastObservedTime": micro_time(record.last)}}


def micro_time(seconds: float) -> str:
    """Write seconds since the epoch as metav1.MicroTime. Of the whole second the text is known as a rule; strftime is slow."""
    fraction, whole = math.modf(seconds)
    microseconds = round(fraction * 1e6)
    if microseconds == MICROSECONDS:  # the fraction is next to 1
        return f"{rfc3339(whole + 1)[:-1]}.000000Z"
    return f"{rfc3339(whole)[:-1]}.{microseconds:06d}Z"
