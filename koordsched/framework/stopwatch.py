"""Stopwatch: how long one profile's extension points and plugins take, and how often plugins are asked (framework.md §12).

Extension points are timed in every cycle. Plugins are timed in one cycle of ten, as in the reference: chosen by counting, at uneven
distances, so that pods that come in turns do not hide from it. Asking a plugin about many nodes is one execution and as many evaluations.
Who keeps the numbers is told apart by `FrameworkMetrics`, so that the framework stays below it in the layers.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from koordsched.framework.status import Status
from koordsched.metrics import CounterChild

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

P = ParamSpec("P")
R = TypeVar("R")

PRE_ENQUEUE = "PreEnqueue"
PRE_FILTER = "PreFilter"
FILTER = "Filter"
POST_FILTER = "PostFilter"
PRE_SCORE = "PreScore"
SCORE = "Score"
NORMALIZE = "ScoreExtensionNormalize"
RESERVE = "Reserve"
UNRESERVE = "Unreserve"
PERMIT = "Permit"
PRE_FLIGHT = "PreBindPreFlight"
PRE_BIND = "PreBind"
BIND = "Bind"
POST_BIND = "PostBind"

SUCCESS = "Success"
ERROR = "Error"

GAPS = (3, 17, 7, 13, 11, 9)  # cycles from one that is sampled to the next: ten on average


class Observer(Protocol):
    @property
    def observe(self) -> Callable[[float], None]:
        """Count a value. May be kept."""


class FrameworkMetrics(Protocol):
    """Where the framework counts; what is returned may be kept."""

    def extension_point(self, point: str, status: str, profile: str) -> Observer:
        """Return framework_extension_point_duration_seconds."""

    def plugin_execution(self, plugin: str, point: str, status: str) -> Observer:
        """Return plugin_execution_duration_seconds."""

    def plugin_evaluation(self, plugin: str, point: str, profile: str) -> CounterChild:
        """Return plugin_evaluation_total."""


class NoObserver:
    """Drops values."""

    def observe(self, value: float) -> None:
        pass


class NoMetrics:
    """Count nothing."""

    def extension_point(self, point: str, status: str, profile: str) -> Observer:
        return NoObserver()

    def plugin_execution(self, plugin: str, point: str, status: str) -> Observer:
        return NoObserver()

    def plugin_evaluation(self, plugin: str, point: str, profile: str) -> CounterChild:
        return CounterChild()


class Sampling:
    """Chooses one of ten."""

    def __init__(self) -> None:
        self._gaps = cycle(GAPS)
        self._to_go = next(self._gaps)

    def next(self) -> bool:
        """Answer whether the next one is chosen."""
        self._to_go -= 1
        if self._to_go:
            return False
        self._to_go = next(self._gaps)
        return True


class Stopwatch:
    """Times the extension points of one profile. `perf` is Clock.perf.

    A scheduling cycle costs it little: Filter and Score are told from three readings of which the cycle takes two anyway.
    """

    def __init__(self, metrics: FrameworkMetrics, perf: Callable[[], float], profile: str) -> None:
        self.perf = perf
        self.recording = False  # whether plugins are timed now: in the cycle to come, and when the queue asks before it
        self.filtered_at = 0.0  # when Filter ended in this cycle; 0 if it was not run
        self.ranked = False  # whether Score was run in this cycle
        self._prepared: dict[str, float] = {}  # when PreFilter or PreScore ended, if they were run for this cycle
        self._metrics = metrics
        self._profile = profile
        self._gaps = cycle(GAPS)
        self._to_go = next(self._gaps)
        self._points: dict[tuple[str, str], Observer] = {}
        self._keep_filtered = self.point(FILTER, SUCCESS).observe
        self._keep_scored = self.point(SCORE, SUCCESS).observe

    def end_cycle(self, started: float, ended: float) -> None:
        """Observe a search for a node that ended well, if only by finding none, and decide whether the next one is sampled."""
        filtered = self.filtered_at
        if self._prepared:
            self._end_prepared_cycle(started, ended)
        elif filtered:
            self._keep_filtered(filtered - started)
            if self.ranked:
                self._keep_scored(ended - filtered)
        self.ranked = self.recording = False
        self._to_go -= 1
        if not self._to_go:
            self._sample_next()

    def interrupt(self, started: float) -> None:
        """Observe Filter of a search that began then and now waits for somebody outside: what others do meanwhile is not its own."""
        if self.filtered_at:
            self._keep_filtered(self.filtered_at - max(started, self._prepared.get(PRE_FILTER, 0.0)))
        self.drop_cycle()

    def resume(self, resumed: float) -> None:
        """Observe Score of an interrupted search that went on then and has come to its end."""
        if self.ranked:
            self._keep_scored(self.perf() - max(resumed, self._prepared.get(PRE_SCORE, 0.0)))
        self.filtered_at = 0.0
        self.end_cycle(resumed, resumed)

    def fail_cycle(self, point: str, started: float) -> None:
        """Observe a search that ended because a plugin failed at this point."""
        self.point(point, ERROR).observe(self.perf() - started)
        self.drop_cycle()

    def drop_cycle(self) -> None:
        """Forget a search of which nobody knows at which point it broke."""
        self._prepared.clear()
        self.ranked = self.recording = False

    def prepared(self, point: str, status: Status | None, started: float) -> None:
        """Observe PreFilter or PreScore, which began then and ends now."""
        self.ended(point, status, started)
        self._prepared[point] = self.perf()

    def _end_prepared_cycle(self, started: float, ended: float) -> None:
        filtered = self.filtered_at
        if filtered:
            self._keep_filtered(filtered - max(started, self._prepared.get(PRE_FILTER, 0.0)))
            if self.ranked:
                self._keep_scored(ended - max(filtered, self._prepared.get(PRE_SCORE, 0.0)))
        self._prepared.clear()

    def _sample_next(self) -> None:
        self.recording = True
        self._to_go = next(self._gaps)

    def point(self, point: str, status: str) -> Observer:
        """Return the durations of an extension point that end like this."""
        found = self._points.get((point, status))
        if found is None:
            found = self._points[point, status] = self._metrics.extension_point(point, status, self._profile)
        return found

    def ended(self, point: str, status: Status | None, started: float) -> None:
        """Observe an extension point that began then and ends now with this status."""
        end = (point, SUCCESS if status is None else status.code._value_)  # not `value`, which is a function in CPython 3.11
        histogram = self._points.get(end) or self.point(*end)
        histogram.observe(self.perf() - started)

    def executed(self, plugin: str, point: str, status: Status | None, started: float) -> None:
        """Observe a plugin that has just answered with this status."""
        self.took(plugin, point, status, self.perf() - started)

    def took(self, plugin: str, point: str, status: Status | None, seconds: float) -> None:
        """Observe a plugin that took so long to answer with this status."""
        self._metrics.plugin_execution(plugin, point, SUCCESS if status is None else status.code.value).observe(seconds)

    def timed(self, plugin: str, point: str, call: Callable[P, R]) -> Callable[P, R]:
        """Return a plugin's method that is observed."""

        def timed_call(*args: P.args, **kwargs: P.kwargs) -> R:
            started = self.perf()
            answer = call(*args, **kwargs)
            self.executed(plugin, point, _status_of(answer), started)
            return answer

        return timed_call

    def timed_async(self, plugin: str, point: str, call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return a plugin's method that is observed until its answer is there."""

        async def timed_call(*args: P.args, **kwargs: P.kwargs) -> R:
            started = self.perf()
            answer = await call(*args, **kwargs)
            self.executed(plugin, point, _status_of(answer), started)
            return answer

        return timed_call

    def evaluations(self, plugin: str, point: str) -> CounterChild:
        """Return the number of questions to a plugin, to be counted up."""
        return self._metrics.plugin_evaluation(plugin, point, self._profile)


class Unwatched(Stopwatch):
    """A stopwatch that nobody reads, so that plugins are never timed."""

    def __init__(self) -> None:
        super().__init__(NoMetrics(), float, "")  # float() is 0.0, and no frame of ours

    def end_cycle(self, started: float, ended: float) -> None:
        self._prepared.clear()
        self.ranked = False

    def ended(self, point: str, status: Status | None, started: float) -> None:
        pass


def unwatched() -> Stopwatch:
    """Return a stopwatch that nobody reads."""
    return Unwatched()


def _status_of(answer: object) -> Status | None:
    """Return the status in a plugin's answer; None is success."""
    if isinstance(answer, tuple):
        return next((part for part in answer if isinstance(part, Status)), None)
    return answer if isinstance(answer, Status) else None
