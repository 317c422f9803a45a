"""Timings: how long one profile's extension points and plugins take, and how often plugins are asked (framework.md §12).

Extension points are timed in every cycle. Plugins are timed in one cycle of ten, as in the reference: chosen by counting, at uneven
distances, so that pods that come in turns do not hide from it. Asking a plugin about many nodes is one execution and as many evaluations.
`FrameworkMetrics` keeps the numbers; it is a protocol, so that the framework stays below the metrics in the layers.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from koordsched.config.extension_points import FILTER, PRE_FILTER, PRE_SCORE, SCORE
from koordsched.framework.status import Status
from koordsched.metrics import CounterChild

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import Codes, FilterNodesPlugin

P = ParamSpec("P")
R = TypeVar("R")

# What metrics show apart from the extension point that it belongs to.
NORMALIZE = "ScoreExtensionNormalize"
UNRESERVE = "Unreserve"
RESIZE_POD = "ResizePod"
PRE_BIND_PRE_FLIGHT = "PreBindPreFlight"
PRE_BIND_RESERVATION = "PreBindReservation"  # of plugins for reserve pods, in every cycle (frameworkext.md §8)

SUCCESS = "Success"
ERROR = "Error"

GAPS = (3, 17, 7, 13, 11, 9)  # cycles from one that is sampled to the next: ten on average


class Observer(Protocol):
    """A histogram with its labels."""

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
    """Keep nothing."""

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


class CycleTimings:
    """Times the extension points of one profile. `perf` is Clock.perf. Without metrics no cycle is sampled.

    A scheduling cycle costs it little: Filter and Score are observed from three readings of the clock, of which the cycle takes two anyway.
    """

    def __init__(self, metrics: FrameworkMetrics | None, perf: Callable[[], float], profile: str) -> None:
        self.perf = perf
        self.recording = False  # whether plugins are timed now: in the cycle to come, and when the queue asks before it
        self.filtered_at = 0.0  # when Filter ended in this cycle; 0 if it was not run
        self.scored = False  # whether Score was run in this cycle
        self._prepared: dict[str, float] = {}  # when PreFilter or PreScore ended, if they were run for this cycle
        self._metrics = metrics or NoMetrics()
        self._profile = profile
        self._gaps = cycle(GAPS)
        self._to_go = -1 if metrics is None else next(self._gaps)  # counted down to 0
        self._points: dict[tuple[str, str], Observer] = {}
        self._observe_filter = self.point(FILTER.label, SUCCESS).observe
        self._observe_score = self.point(SCORE.label, SUCCESS).observe

    # Scheduling cycles

    def end_cycle(self, started: float, ended: float) -> None:
        """Observe a search for a node that ended well, if only by finding none, and decide whether the next one is sampled."""
        filtered = self.filtered_at
        if self._prepared:
            if filtered:
                self._observe_filter(filtered - max(started, self._prepared.get(PRE_FILTER.label, 0.0)))
                if self.scored:
                    self._observe_score(ended - max(filtered, self._prepared.get(PRE_SCORE.label, 0.0)))
            self._prepared.clear()
        elif filtered:
            self._observe_filter(filtered - started)
            if self.scored:
                self._observe_score(ended - filtered)
        self.scored = self.recording = False
        self._to_go -= 1
        if not self._to_go:
            self.recording = True
            self._to_go = next(self._gaps)

    def interrupt(self, started: float) -> None:
        """Observe Filter of a search that began then and now waits for extenders: what happens meanwhile is not its own."""
        if self.filtered_at:
            self._observe_filter(self.filtered_at - max(started, self._prepared.get(PRE_FILTER.label, 0.0)))
        self.drop_cycle()

    def resume(self, resumed: float) -> None:
        """Observe Score of an interrupted search that went on then and has come to its end."""
        if self.scored:
            self._observe_score(self.perf() - max(resumed, self._prepared.get(PRE_SCORE.label, 0.0)))
        self.filtered_at = 0.0
        self.end_cycle(resumed, resumed)

    def fail_cycle(self, point: str, started: float) -> None:
        """Observe a search that ended because a plugin failed at this point."""
        self.point(point, ERROR).observe(self.perf() - started)
        self.drop_cycle()

    def drop_cycle(self) -> None:
        """Forget a search that broke off at an unknown point."""
        self._prepared.clear()
        self.scored = self.recording = False

    # Extension points

    def point(self, point: str, status: str) -> Observer:
        """Return the durations of an extension point that end like this."""
        found = self._points.get((point, status))
        if found is None:
            found = self._points[point, status] = self._metrics.extension_point(point, status, self._profile)
        return found

    def ended(self, point: str, status: Status | None, started: float) -> None:
        """Observe an extension point that began then and ends now with this status."""
        end = (point, SUCCESS if status is None else status.code._value_)  # not `value`, which is a function in CPython 3.11
        observer = self._points.get(end) or self.point(*end)
        observer.observe(self.perf() - started)

    def prepared(self, point: str, status: Status | None, started: float) -> None:
        """Observe PreFilter or PreScore, which began then and ends now."""
        self.ended(point, status, started)
        self._prepared[point] = self.perf()

    # Plugins

    def executed(self, plugin: str, point: str, status: Status | None, seconds: float) -> None:
        """Observe a plugin that took so long to answer with this status."""
        self._metrics.plugin_execution(plugin, point, SUCCESS if status is None else status.code.value).observe(seconds)

    def evaluations(self, plugin: str, point: str) -> CounterChild:
        """Return the number of questions to a plugin, to be counted up."""
        return self._metrics.plugin_evaluation(plugin, point, self._profile)

    def timed(self, plugin: str, point: str, call: Callable[P, R]) -> Callable[P, R]:
        """Return a plugin's method so that its calls are observed."""

        def timed_call(*args: P.args, **kwargs: P.kwargs) -> R:
            started = self.perf()
            answer = call(*args, **kwargs)
            self.executed(plugin, point, _status_of(answer), self.perf() - started)
            return answer

        return timed_call

    def timed_filter(self, plugin: FilterNodesPlugin, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        """Ask a filter and observe it. The status of a question about many nodes is success if one passed, or why the first did not."""
        started = self.perf()
        codes = plugin.filter_nodes(state, pod, nodes)
        seconds = self.perf() - started
        status = plugin.explain(state, pod, int(codes[0])) if codes is not None and codes.all() else None
        self.executed(plugin.name, FILTER.label, status, seconds)
        return codes

    def timed_async(self, plugin: str, point: str, call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return a plugin's method so that its calls are observed until the answer is there."""

        async def timed_call(*args: P.args, **kwargs: P.kwargs) -> R:
            started = self.perf()
            answer = await call(*args, **kwargs)
            self.executed(plugin, point, _status_of(answer), self.perf() - started)
            return answer

        return timed_call


def discarded_timings() -> CycleTimings:
    """Return timings that are not kept."""
    return CycleTimings(None, float, "")  # float() is 0.0, and no frame of ours


def _status_of(answer: object) -> Status | None:
    """Return the status in a plugin's answer; None is success."""
    if isinstance(answer, tuple):
        return next((part for part in answer if isinstance(part, Status)), None)
    return answer if isinstance(answer, Status) else None
