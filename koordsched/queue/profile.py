"""What the queue needs of a scheduling profile, of the configuration and of the metrics: functions and numbers, no plugin.

The scheduler makes one `QueueProfile` per profile. So the queue does not import the framework, and is tested with plain functions.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.queue.events import EventHint
    from koordsched.queue.heap import SortKey
    from koordsched.queue.hints import Rejectors
    from koordsched.queue.queued_pod import QueuedPodInfo

PreEnqueueRefusal = tuple[str, str, bool]
"""A PreEnqueue refusal: plugin, message, and whether it was an error instead of a refusal."""


class ProbeOutcome(IntEnum):
    """An estimate of what an attempt of a pod would find."""

    INFEASIBLE = 0  # no node passes its filters, and preemption cannot help
    FEASIBLE = 1  # some node passes its filters
    NEEDS_PREEMPTION = 2  # no node passes its filters, but preemption may help


INFEASIBLE: Final = ProbeOutcome.INFEASIBLE
FEASIBLE: Final = ProbeOutcome.FEASIBLE
NEEDS_PREEMPTION: Final = ProbeOutcome.NEEDS_PREEMPTION


Findings = dict["Hashable", Any]
"""What was found out while one event was looked at: what holds for all groups that wait for the same is found out once."""

ProbeResult = tuple[ProbeOutcome, "Rejectors | None"]
"""The outcome of a probe, and the plugins that refuse the shape now. None: not known; then the events of all plugins are considered for
the shape until its next attempt, which gives the same result more slowly."""


class QueueAdmission(Protocol):
    """What a profile's admission plugins say to the queue (`framework.interface.AdmissionPlugin`)."""

    @property
    def plugins(self) -> frozenset[str]:
        """The names of all of them."""

    def key(self, plugin: str, pod: PodInfo) -> Hashable | None:
        """Return the key (gang, quota) under which the plugin lets the pod wait, None for none."""

    def signature(self, plugin: str, pod: PodInfo) -> Hashable:
        """Return what is equal for all pods that the plugin answers alike, if their keys, shapes and priorities are equal too."""

    def probe(self, plugin: str, pod: PodInfo) -> ProbeOutcome:
        """Estimate what an attempt would find: INFEASIBLE if the plugin refuses the pod and preemption cannot help, FEASIBLE if the plugin
        lets the pod pass, whatever filters say. In doubt it must not answer INFEASIBLE."""


class QueueProfile(msgspec.Struct, frozen=True):
    """What one profile does for the queue. The functions that probe are called only for pods of which `refused_by_shape` is true."""

    sort_key: Callable[[QueuedPodInfo], SortKey]
    """Smaller comes first. Called when the pod enters the queue, changes, or returns from an attempt."""

    pre_enqueue: Callable[[PodInfo, str], PreEnqueueRefusal | None]
    """Return the first refusal, of the named plugin ("" for none), then in profile order; None: the pod may enter."""

    hints: Mapping[str, Sequence[EventHint]]
    """Plugin name -> events that may help a pod it refused, with the defaults of `hints_for` applied."""

    probe: Callable[[PodInfo], ProbeResult]
    """Estimate what an attempt of a pod of this shape and priority would find. Must be incremental. In doubt it must not answer INFEASIBLE,
    which leaves pods unschedulable that could be bound."""

    probe_without_preemption: Callable[[PodInfo], ProbeResult]
    """As `probe`, but INFEASIBLE wherever no node passes. Cheaper, for groups that wait for an attempt at preemption anyway."""

    unchanged_since_failure: Callable[[PodInfo], bool]
    """Answer whether the pod's shape failed in PreFilter or Filter and nothing that could matter to it changed since, nominations
    included. In doubt, False."""

    admission: QueueAdmission | None = None
    """None: the profile has no admission plugins."""

    group_plugin: str = ""
    """The plugin that says which pods are placed all together or not at all; "" for none."""

    group_still_refused: Callable[[PodInfo, Findings], bool] = lambda _pod, _known: False
    """Answer whether it is certain that the group of this pod, which that plugin refused, would be refused again. Must be incremental.

    The second argument is what was found out about other groups in the same moment, and is added to."""


class QueueSettings(msgspec.Struct, frozen=True):
    """podInitialBackoffSeconds, podMaxBackoffSeconds, --pod-max-in-unschedulable-pods-duration, all in seconds; and a feature gate."""

    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    max_in_unschedulable: float = 300.0
    pop_from_backoff: bool = True  # gate SchedulerPopFromBackoffQ: refused pods that back off are popped when no pod is active


class QueueMetrics(Protocol):
    """The metrics that the queue writes (framework.md §12). Gauges are read from `SchedulingQueue`."""

    def incoming(self, queue: str, event: str) -> None:
        """Count queue_incoming_pods_total."""

    def hint_duration(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Observe queueing_hint_execution_duration_seconds; hint is QueueSkip, Queue or Error."""

    def unschedulable_pods(self, plugin: str, profile: str, delta: int) -> None:
        """Move the gauge unschedulable_pods."""

    def probe_skipped(self, profile: str) -> None:
        """Count a probe that found no node for a shape, so that none of its pods moved, or a moved one returned without an attempt."""

    def retry_skipped(self, profile: str) -> None:
        """Count a moved pod that returned without an attempt because its shape would have failed again."""
