"""Which events are one event that happens again: the series of events.k8s.io/v1 (framework.md §6, client-go's tools/events).

No waiting and no I/O. An occurrence whose key was seen within six minutes joins that event's series; the first repeat is due for writing at
once, later ones every 30 minutes and when the series has ended. At most `MAX_EVENTS` keys are remembered, the most recent ones: an event
that is pushed out counts as ended. An event of which no write has begun when the same happens to a newer version of its object is
overtaken: what is written then is the newer one, so that a slow API server never has more waiting for it than one event an object and kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from koordsched.api.core import ObjectReference

SERIES_SECONDS = 360.0
REFRESH_SECONDS = 1800.0
MAX_EVENTS = 10_000
_FIRST_REPEAT = 2


class EventText(msgspec.Struct, frozen=True):
    """The text of an event: its type (Normal or Warning), reason and action in one CamelCase word each, and a sentence for people."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str


class EventKey(msgspec.Struct, frozen=True):
    """What makes two occurrences the same event; the note is not part of it, the version of the object is."""

    type: str
    reason: str
    action: str
    regarding: ObjectReference
    related: ObjectReference | None


def _kind_of(key: EventKey) -> tuple[str, ...]:
    """Return the key without versions."""
    return (key.type, key.reason, key.action, *_identity(key.regarding), *(() if key.related is None else _identity(key.related)))


def _identity(about: ObjectReference) -> tuple[str, str, str, str]:
    return (about.kind, about.namespace, about.name, about.uid)


class EventRecord(msgspec.Struct, eq=False):
    """One event, and how much of its series the cluster knows. Times are seconds since the epoch."""

    key: EventKey
    name: str
    note: str
    first: float  # eventTime
    last: float  # series.lastObservedTime
    count: int = 1
    due: int = 0  # the count the cluster ought to know by now
    written: int = 0  # the count the cluster knows; 0: the event is not there yet
    written_at: float = 0.0
    queued: bool = False  # the recorder's mark: it waits for a writer, or has one


class EventCorrelator:
    """The events of the last minutes. Methods that return records return those that have become due for writing."""

    def __init__(self) -> None:
        self._records: dict[EventKey, EventRecord] = {}  # in the order of their last occurrence
        self._unwritten: dict[tuple[str, ...], EventRecord] = {}  # new ones of which no write has begun

    def __len__(self) -> int:
        return len(self._records)

    def occurred(self, key: EventKey, name: str, note: str, now: float) -> list[EventRecord]:
        """Count one occurrence: a new event under that name, or one more of a series."""
        record = self._records.pop(key, None)
        ended: list[EventRecord] = []
        if record is not None and now - record.last > SERIES_SECONDS:
            ended = _owed([record])
            record = None
        if record is None and (overtaken := self._unwritten.get(_kind_of(key))) is not None:
            self._records.pop(overtaken.key, None)
            overtaken.key, overtaken.name, overtaken.note = key, name, note
            overtaken.first = overtaken.last = now
            overtaken.count = overtaken.due = 1
            self._records[key] = overtaken
            return ended
        if record is None:
            record = self._unwritten[_kind_of(key)] = EventRecord(key, name, note, first=now, last=now)
        else:
            record.count += 1
            record.last = now
        self._records[key] = record
        if len(self._records) > MAX_EVENTS:
            ended += _owed([self._records.pop(next(iter(self._records)))])
        refresh = record.written > 0 and now - record.written_at >= REFRESH_SECONDS
        return [*ended, *_owed([record])] if record.count <= _FIRST_REPEAT or refresh else ended

    def sweep(self, now: float) -> list[EventRecord]:
        """Forget the events that have ended; of these, the records of which the cluster does not know the whole count are due."""
        ended: list[EventRecord] = []
        for record in self._records.values():
            if now - record.last <= SERIES_SECONDS:
                break
            ended.append(record)
        for record in ended:
            del self._records[record.key]
        return _owed(ended)

    def finish(self) -> list[EventRecord]:
        """End all events: whatever the cluster does not know yet is due."""
        records, self._records = list(self._records.values()), {}
        return _owed(records)

    def begin(self, record: EventRecord) -> None:
        """Take note that the event is about to be written: what happens from now on is another one."""
        self._unwritten.pop(_kind_of(record.key), None)

    def forget(self, record: EventRecord) -> None:
        """Drop an event that could not be written, so that its next occurrence is a new event."""
        self.begin(record)
        if self._records.get(record.key) is record:
            del self._records[record.key]


def _owed(records: list[EventRecord]) -> list[EventRecord]:
    """Make due, and return, the records of which the cluster does not know the whole count."""
    owed = [record for record in records if record.written < record.count]
    for record in owed:
        record.due = record.count
    return owed
