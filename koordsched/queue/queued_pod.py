"""QueuedPodInfo, a pending pod with what the queue knows of its earlier attempts, and UnschedulableGroup, the group in which it waits.

One QueuedPodInfo exists from the pod's first appearance until it is bound or deleted. While the pod is in flight the scheduling cycle
writes the outcome into it (the failed plugins, `rejected_in_filter`, `admission_plugin`, `last_message`); otherwise only the queue does.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from koordsched.queue.heap import PodHeap
from koordsched.queue.hints import Rejectors

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.queue.events import AdmissionKey
    from koordsched.queue.heap import SortKey
    from koordsched.queue.hints import EventSubscriptions


class QueuePlace(Enum):
    """Where a pod is. The first four are the values of the metrics' queue labels."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"
    NONE = ""


# The hot path uses these: looking a member up on its class costs half a microsecond in CPython 3.11.
ACTIVE: Final = QueuePlace.ACTIVE
BACKOFF: Final = QueuePlace.BACKOFF
UNSCHEDULABLE: Final = QueuePlace.UNSCHEDULABLE
GATED: Final = QueuePlace.GATED
IN_FLIGHT: Final = QueuePlace.IN_FLIGHT
NOWHERE: Final = QueuePlace.NONE


class QueuedPodInfo:
    """A pod on its way through the queue. Times are seconds since the epoch."""

    __slots__ = (
        "admission_plugin",
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
        "probe_pod_of",
        "profile",
        "refused_turn",
        "rejected_in_filter",
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
        self.key = pod_info.key  # namespace/name; like the uid it is the same for all states of the pod
        self.uid = pod_info.uid
        self.profile = pod_info.pod.spec.scheduler_name  # names the profile; a pod that another profile takes over is queued anew
        self.timestamp = now  # when it came into the queue, then when its last attempt failed
        self.initial_attempt_timestamp: float | None = None  # when it first was in the active queue
        self.attempts = 0
        self.unschedulable_count = 0  # attempts that ended in a refusal
        self.consecutive_errors_count = 0  # attempts that ended in an error, since the last refusal

        # The outcome of the last attempt, written by the scheduler; emptied when the pod is popped.
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        self.rejected_in_filter = False  # only PreFilter and Filter refused it, so they refuse all pods of its shape
        self.admission_plugin = ""  # the admission plugin that refused it before any node was looked at, "" for none
        self.last_message = ""  # why the last attempt failed; kept until the next one fails
        self.refused_turn: object | None = None  # what is known of the turn in which its group was refused; for the scheduler
        self.gating_plugin = ""  # the PreEnqueue plugin that refused the pod, "" for none
        self.gating_message = ""
        self.after_flush = False  # the 5-minute flush caused this attempt (metric pod_scheduled_after_flush)

        # Written by the queue.
        self.sort_key: SortKey = ()
        self.sequence = 0  # breaks ties of sort_key: order of arrival, new with every failed attempt
        self.backoff_expiry: float | None = None  # cached; None: not computed since the last failure
        self.place: QueuePlace = NOWHERE
        self.since = now  # when it came to `place`
        self.group: UnschedulableGroup | None = None  # while in UNSCHEDULABLE or GATED
        self.probe_pod_of: UnschedulableGroup | None = None  # while in ACTIVE as the probe pod of this group
        self.skippable = False  # moved with its shape: no attempt is needed if the shape has failed since and nothing changed
        self.certain = False  # moved by an event that a probe cannot overrule
        self.flushed = False  # the next pop sets after_flush
        self.popped_at = 0  # the value of Mover.activations at the last pop

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.key}, {self.place.name}, attempts={self.attempts})"

    @property
    def gated(self) -> bool:
        return bool(self.gating_plugin)

    @property
    def refused(self) -> bool:
        """Whether a plugin refused the last attempt; False: the attempt ended with an error."""
        return bool(self.unschedulable_plugins or self.pending_plugins)

    @property
    def rejectors(self) -> Rejectors:
        """The plugins that refuse the pod: its group's, which may be newer than those of its own last attempt."""
        if self.group is not None:
            return self.group.rejectors
        return Rejectors(frozenset(self.unschedulable_plugins), frozenset(self.pending_plugins))

    def set_rejectors(self, rejectors: Rejectors) -> None:
        self.unschedulable_plugins = set(rejectors.unschedulable)
        self.pending_plugins = set(rejectors.pending)


def refused_by_shape(info: QueuedPodInfo, *, nominated: bool) -> bool:
    """Answer whether what refuses this pod refuses all pods of its shape and priority, so that they wait in one shape group.

    A nominated pod does not share the outcome of its shape: only for it the room on its node counts as free.
    """
    return info.rejected_in_filter and info.pod_info.shape is not None and not nominated and not info.gated


class ShapeGroupKey(NamedTuple):
    """Identifies a shape group. Priority is part of it because a nominated pod counts only for pods of its priority or lower."""

    profile: str
    shape: Hashable
    priority: int


class RejectorGroupKey(NamedTuple):
    """Identifies a rejector group. `alike` is the shape, or the uid of a pod that has none."""

    profile: str
    alike: Hashable
    rejectors: Rejectors
    gating_plugin: str
    admission_keys: tuple[AdmissionKey, ...] = ()  # of the rejectors that are admission plugins


class AdmissionGroupKey(NamedTuple):
    """Identifies an admission group. `alike` is the shape, or the uid of a pod that has none."""

    profile: str
    admission_key: AdmissionKey
    signature: Hashable  # what the plugin reads of a pod besides the other fields
    alike: Hashable
    priority: int
    nominated: bool  # has nodes where its victims are about to leave: what it finds holds for no other pod
    rejectors: Rejectors

    @property
    def admission_keys(self) -> tuple[AdmissionKey, ...]:
        return (self.admission_key,)


UnschedulableGroupKey = ShapeGroupKey | RejectorGroupKey | AdmissionGroupKey


class UnschedulableGroup:
    """Unschedulable pods for which the queueing hints are evaluated once. Not empty while it is in `UnschedulablePods`.

    A *shape group* (`by_shape`) holds the pods of one profile, shape and priority that only PreFilter or Filter plugins refused. What
    refuses one of them refuses all, so they share their rejectors, those of the latest attempt, and move one at a time. It is *parked*
    until an event may help, then *active*: its first member is in the active queue as the *probe pod*, and the others follow one by one.

    An *admission group* holds the pods of one profile, shape and priority that an admission plugin refused, that wait under one key of that
    plugin (a gang, a quota) and that the plugin answers alike. It moves one pod at a time, too, as far as the plugin lets pods pass. Its
    first member goes to the backoff queue if it backs off, and the others wait for it.

    A *rejector group* holds pods of one shape that the same plugins refused in another way: gated pods, refusals after Filter or by an
    extender, nominated pods; and each pod without a shape. It moves as a whole and is never active.
    """

    __slots__ = (
        "activated_at",
        "admission_keys",
        "by_admission",
        "by_shape",
        "certain",
        "event_label",
        "flush",
        "gating_plugin",
        "ignore_backoff",
        "key",
        "members",
        "oldest",
        "one_by_one",
        "preemption_event",
        "probe_pod",
        "rejectors",
        "rejectors_unknown",
        "reported",
        "subscriptions",
    )

    def __init__(self, key: UnschedulableGroupKey, rejectors: Rejectors, subscriptions: EventSubscriptions) -> None:
        self.key = key
        self.by_shape = isinstance(key, ShapeGroupKey)
        self.by_admission = isinstance(key, AdmissionGroupKey)
        self.one_by_one = self.by_shape or self.by_admission
        self.admission_keys = () if isinstance(key, ShapeGroupKey) else key.admission_keys  # under which it is found by announcements
        self.gating_plugin = key.gating_plugin if isinstance(key, RejectorGroupKey) else ""
        self.rejectors = rejectors
        self.rejectors_unknown = False  # the rejectors may be out of date
        self.subscriptions = subscriptions  # of the rejectors, or of all plugins while these are unknown
        self.members: PodHeap[QueuedPodInfo] = PodHeap()
        self.oldest = float("inf")  # lower bound of the members' timestamps

        self.reported = ""  # the message that the members of an admission group have in their conditions; written by the scheduler

        # Written by `Mover`, for groups that move one by one. An active group that has members has its probe pod in the active queue
        # (an admission group: or in the backoff queue).
        self.activated_at: int | None = None  # the value of Mover.activations when it became active; None: parked
        self.event_label = ""  # of the event that made it active
        self.ignore_backoff = False
        self.certain = False  # a probe cannot overrule that event
        self.flush = False  # the 5-minute flush made it active
        self.probe_pod: QueuedPodInfo | None = None
        self.preemption_event = ""  # parked until a backoff is over, as preemption may help since this event: see PreemptionBackoff

    @property
    def active(self) -> bool:
        return self.activated_at is not None

    @property
    def profile(self) -> str:
        return self.key.profile

    @property
    def representative(self) -> QueuedPodInfo:
        """The first member."""
        head = self.members.peek()
        if head is None:
            raise LookupError(f"the group {self.key} is empty")
        return head

    def park(self) -> None:
        self.activated_at = None
        self.preemption_event = ""
