"""events.k8s.io/v1: the Event that says what happened to a pod; a repeated one grows its series.

The scheduler writes events and reads back only those that it continues, so most fields matter to the writer and to `test` scenarios.
"""

from __future__ import annotations

from koordsched.api.core import ObjectReference
from koordsched.api.meta import Api, Int32, Object


class EventSeries(Api):
    count: Int32 = 0
    last_observed_time: str | None = None


class Event(Object):
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
