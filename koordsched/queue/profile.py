"""What the queue asks of a scheduling profile, of the configuration and of the metrics: functions and numbers, no plugin.

The framework builds a `QueueProfile` per profile, so that the queue stays below it in the layers and can be tested with plain functions.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.queue.events import EventHint
    from koordsched.queue.queued_pod import QueuedPodInfo, Rejectors, SortKey

Gate = tuple[str, str, bool]
"""A PreEnqueue refusal: plugin, message, and whether it was an error instead of a refusal."""


class Prospect(IntEnum):
    """What an attempt of a pod could come to, as far as can be told without making it."""

    NONE = 0  # it would be refused again
    FITS = 1  # some node passes its filters
    EVICTION = 2  # no node does, but evicting others may make room


NONE: Final = Prospect.NONE
FITS: Final = Prospect.FITS
EVICTION: Final = Prospect.EVICTION


Probe = tuple[Prospect, "Rejectors | None"]
"""What a probe found, and which plugins refuse the shape now. None: nobody knows, so every registered event of any plugin is put to the
shape until the next attempt, which is as right and only slower."""


class QueueProfile(msgspec.Struct, frozen=True):
    """What one profile does for the queue. `probe`, `look` and `unchanged_since_failure` are only asked about pods that have a
    shape, were refused by PreFilter or Filter plugins alone, are not nominated and not gated."""

    sort_key: Callable[[QueuedPodInfo], SortKey]
    """Smaller comes first. Read when the pod enters the queue, changes, or comes back from an attempt."""

    pre_enqueue: Callable[[PodInfo, str], Gate | None]
    """Return the first refusal, asking the named plugin first ("" for none) and then in profile order; None: the pod may enter."""

    hints: Mapping[str, Sequence[EventHint]]
    """Plugin name -> events that may help a pod it refused, with the defaults of `hints_for` applied."""

    probe: Callable[[PodInfo], Probe]
    """Tell the prospect of a pod of this shape and priority, and who refuses it where no node passes. Must be incremental and may hope when
    in doubt; a wrong NONE leaves pods waiting."""

    look: Callable[[PodInfo], Probe]
    """As `probe`, but without what evictions could do: NONE where no node passes. For who will be tried for their sake anyway."""

    unchanged_since_failure: Callable[[PodInfo], bool]
    """Answer whether the pod's shape failed in PreFilter or Filter and nothing changed since that could matter to it, nominations
    included. In doubt, no."""


class QueueSettings(msgspec.Struct, frozen=True):
    """podInitialBackoffSeconds, podMaxBackoffSeconds, --pod-max-in-unschedulable-pods-duration, all in seconds; and a feature gate."""

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_in_unschedulable: float = 300.0
    pop_from_backoff: bool = True  # gate SchedulerPopFromBackoffQ: pods that back off are tried when nothing else is to do


class QueueMetrics(Protocol):
    """Where the queue counts (framework.md §12). Gauges are read from `SchedulingQueue` instead."""

    def incoming(self, queue: str, event: str) -> None:
        """Count queue_incoming_pods_total."""

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Observe queueing_hint_execution_duration_seconds; hint is QueueSkip, Queue or Error."""

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        """Move the gauge unschedulable_pods."""

    def probe_skipped(self, profile: str) -> None:
        """Count a probe that found no node for a shape, so that an event moved none of its pods, or a moved one went back."""

    def retry_skipped(self, profile: str) -> None:
        """Count a woken pod that was sent back without an attempt because its shape would have failed again."""


class NoMetrics:
    """Count nothing."""

    def incoming(self, queue: str, event: str) -> None:
        pass

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        pass

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        pass

    def probe_skipped(self, profile: str) -> None:
        pass

    def retry_skipped(self, profile: str) -> None:
        pass
