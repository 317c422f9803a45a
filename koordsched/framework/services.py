"""Services: what a plugin may have done for it once the scheduler runs, beyond the one pod it is asked about. Implemented above."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from koordsched.api.core import Pod
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo
    from koordsched.cluster.event_series import EventText
    from koordsched.queue.nominator import Nominator


class PreemptionMetrics(Protocol):
    """Where preemption counts (framework.md §12)."""

    def attempted(self) -> None:
        """Count preemption_attempts_total."""

    def evicting(self, victims: int) -> None:
        """Observe preemption_victims."""

    def evicted(self, result: str, seconds: float) -> None:
        """Count a task that evicted pods; result is success or error."""


class Services(Protocol):
    """The scheduler's hands. Not to be used while plugins are made."""

    @property
    def nominator(self) -> Nominator:
        """The nominations, to read and to follow."""

    @property
    def preemption_metrics(self) -> PreemptionMetrics: ...

    def volume_stage_failed(self, operation: str) -> None:
        """Count scheduler_volume_scheduling_stage_error_total; operation is predicate, assume or bind."""

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Let pods that wait be tried now, backoff or not."""

    def withdraw_nomination(self, pod: PodInfo) -> None:
        """Forget for which node the pod was nominated, here and on the cluster."""

    def fits(self, pod: PodInfo, node: NodeInfo, add: Iterable[PodInfo], remove: Iterable[PodInfo]) -> bool:
        """Answer whether the pod could go to the node with these pods more and those less; yes if nobody can tell."""

    def event(self, profile: str, regarding: Pod, text: EventText, related: Pod) -> None:
        """Record an event in the name of a profile."""

    def event_on(self, regarding: Object, text: EventText) -> None:
        """Record an event about an object for which no profile is responsible."""

    def malformed_object(self, kind: str) -> None:
        """Count koord_scheduler_malformed_objects_total: an object of that kind came that cannot be read, or only in part."""

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run this in the background. It must not raise; it is cancelled when the scheduler stops."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call this after so many seconds unless the scheduler has stopped by then."""
