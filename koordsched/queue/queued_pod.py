"""QueuedPodInfo: a waiting pod and what the queue remembers of its earlier attempts.

One object accompanies the pod from its first appearance until it is bound or gone. While it is in flight the scheduling cycle owns it and
writes the outcome (the failed plugins, `rejected_in_filter`, `last_message`); while it waits only the queue writes to it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.queue.unschedulable import Group

SortKey = tuple[float, ...]


class Place(Enum):
    """Where a pod is. The first four are the values of the metrics' queue labels."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"
    NONE = ""


# On the hot path members are taken from here: looking one up on its class costs half a microsecond in CPython 3.11.
ACTIVE: Final = Place.ACTIVE
BACKOFF: Final = Place.BACKOFF
UNSCHEDULABLE: Final = Place.UNSCHEDULABLE
GATED: Final = Place.GATED
IN_FLIGHT: Final = Place.IN_FLIGHT
NOWHERE: Final = Place.NONE


class Rejectors(NamedTuple):
    """The plugins that refused a pod. A Queue answer of a pending one skips the backoff."""

    unschedulable: frozenset[str]
    pending: frozenset[str]

    @property
    def all(self) -> frozenset[str]:
        return self.unschedulable | self.pending if self.pending else self.unschedulable

    def union(self, other: Rejectors) -> Rejectors:
        return Rejectors(self.unschedulable | other.unschedulable, self.pending | other.pending)


class QueuedPodInfo:
    """A pod on its way through the queue. Times are seconds since the epoch."""

    __slots__ = (
        "after_flush",
        "attempts",
        "backoff_expiry",
        "certain",
        "consecutive_errors_count",
        "flushed",
        "gating_message",
        "gating_plugin",
        "group",
        "initial_attempt_timestamp",
        "key",
        "last_message",
        "pending_plugins",
        "place",
        "pod_info",
        "popped_at",
        "profile",
        "rejected_in_filter",
        "scout_of",
        "sequence",
        "since",
        "skippable",
        "sort_key",
        "timestamp",
        "uid",
        "unschedulable_count",
        "unschedulable_plugins",
    )

    def __init__(self, pod_info: PodInfo, now: float) -> None:
        self.pod_info = pod_info
        self.key = pod_info.key  # namespace/name; with the uid it stays the same for all states of the pod
        self.uid = pod_info.uid
        self.profile = pod_info.pod.spec.scheduler_name  # names the profile; immutable in the API
        self.timestamp = now  # of coming into the queue, then of the last failed attempt
        self.initial_attempt_timestamp: float | None = None  # first time in the active queue
        self.attempts = 0
        self.unschedulable_count = 0  # attempts that ended in a refusal
        self.consecutive_errors_count = 0  # attempts that ended in an error, since the last refusal

        # The outcome of the last attempt, written by the scheduler; emptied when the pod is popped.
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        self.rejected_in_filter = False  # only PreFilter and Filter refused it, so pods of the same shape fail alike
        self.last_message = ""  # why the last attempt failed; kept until the next one fails
        self.gating_plugin = ""  # PreEnqueue plugin that keeps the pod out, "" when none does
        self.gating_message = ""
        self.after_flush = False  # this attempt was caused by the 5-minute flush (metric pod_scheduled_after_flush)

        # The queue's own.
        self.sort_key: SortKey = ()
        self.sequence = 0  # breaks ties of sort_key: order of arrival, new with every failed attempt
        self.backoff_expiry: float | None = None  # cached; None: to be computed
        self.place: Place = NOWHERE
        self.since = now  # of entering `place`
        self.group: Group | None = None  # while in UNSCHEDULABLE or GATED
        self.scout_of: Group | None = None  # while in ACTIVE on behalf of a sleeping crowd
        self.skippable = False  # woken as one of its shape: needs no attempt if the shape has failed since and nothing changed
        self.certain = False  # woken by an event that counts as helpful whatever a probe finds
        self.flushed = False  # the next pop makes this after_flush
        self.popped_at = 0  # the queue's event count at pop

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.key}, {self.place.name}, attempts={self.attempts})"

    @property
    def gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def refused(self) -> bool:
        """Whether any plugin refused the last attempt, as opposed to an error having ended it."""
        return bool(self.unschedulable_plugins or self.pending_plugins)

    @property
    def rejectors(self) -> Rejectors:
        """Who refuses the pod now: its group's, if others of its shape were tried since, else its own last attempt's."""
        if self.group is not None:
            return self.group.rejectors
        return Rejectors(frozenset(self.unschedulable_plugins), frozenset(self.pending_plugins))

    def set_rejectors(self, rejectors: Rejectors) -> None:
        self.unschedulable_plugins = set(rejectors.unschedulable)
        self.pending_plugins = set(rejectors.pending)
