"""What of an attempt's extension points and plugins becomes spans: timings that also report to the trace of the attempt under way.

`TracedTimings` takes the place of a profile's `CycleTimings` where tracing is on; where it is off nothing of this runs. The trace under
way is a context variable, since binding cycles run side by side. The spans themselves are made by `scheduler.tracing`.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from koordsched.config.extension_points import FILTER, PRE_FILTER, PRE_SCORE, SCORE
from koordsched.framework.timings import CycleTimings

if TYPE_CHECKING:
    from koordsched.framework.status import Status


class AttemptSpans(Protocol):
    """The spans of one attempt. Times are those of Clock.perf."""

    def plugin_ended(self, plugin: str, point: str, status: Status | None, seconds: float) -> None:
        """A plugin was asked at a point, and answered now after so long."""

    def point_ended(self, point: str, status: Status | None, started: float, ended: float) -> None:
        """An extension point was run; its plugins have ended before."""


class AttemptTracing(Protocol):
    """What traces attempts (`scheduler.tracing.Tracing`): it makes the parts of a scheduler that do."""

    def failure_handler(self, *args: Any) -> Any:
        """Return what takes the place of `scheduler.failure.FailureHandler`."""

    def cycle(self, *args: Any, **kwargs: Any) -> Any:
        """Return what takes the place of `scheduler.cycle.Cycle`."""


UNDER_WAY: ContextVar[AttemptSpans | None] = ContextVar("attempt spans under way", default=None)
"""Of the attempt that is being worked on; None: it is not traced."""


class TracedTimings(CycleTimings):
    """Times the extension points of one profile, and reports those of attempts that are traced."""

    def ended(self, point: str, status: Status | None, started: float) -> None:
        super().ended(point, status, started)
        spans = UNDER_WAY.get()
        if spans is not None:
            spans.point_ended(point, status, started, self.perf())

    def executed(self, plugin: str, point: str, status: Status | None, seconds: float) -> None:
        super().executed(plugin, point, status, seconds)
        spans = UNDER_WAY.get()
        if spans is not None:
            spans.plugin_ended(plugin, point, status, seconds)

    def end_cycle(self, started: float, ended: float) -> None:
        spans = UNDER_WAY.get()
        if spans is not None:
            self._report_search(spans, started, ended)
        super().end_cycle(started, ended)

    def interrupt(self, started: float) -> None:
        spans = UNDER_WAY.get()
        if spans is not None:
            self._report_search(spans, started, self.perf())
        super().interrupt(started)

    def _report_search(self, spans: AttemptSpans, started: float, ended: float) -> None:
        """Report Filter and Score, which are run for many pods at once, from the same readings of the clock as `end_cycle`."""
        filtered = self.filtered_at
        if filtered:
            spans.point_ended(FILTER.label, None, max(started, self._prepared.get(PRE_FILTER.label, 0.0)), filtered)
        if self.scored:
            spans.point_ended(SCORE.label, None, max(filtered, started, self._prepared.get(PRE_SCORE.label, 0.0)), ended)
