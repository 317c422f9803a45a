"""Profile: one scheduling profile's plugins at their extension points, and how each point is run (framework.md §2.1).

The columns of PreFilter, Filter, PreScore and Score are run by `shapes`; here is everything that happens once a pod, timed: what is run is
in `points`. A point without plugins is not run and not timed. Answers are values: None for success, a Status with its plugin otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from koordsched.framework import points
from koordsched.framework.interface import (
    BindPlugin,
    FilterNodesPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPatchPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScoreNodesPlugin,
    ScorePlugin,
)
from koordsched.framework.plan import Evaluators, Plan
from koordsched.framework.points import Points
from koordsched.framework.shapes import Shapes
from koordsched.framework.status import SKIP, Code, Status
from koordsched.framework.stopwatch import (
    BIND,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_ENQUEUE,
    PRE_FLIGHT,
    RESERVE,
    SUCCESS,
    UNRESERVE,
    FrameworkMetrics,
    Sampling,
    Stopwatch,
    unwatched,
)
from koordsched.framework.topologymanager import unite
from koordsched.log import get_logger
from koordsched.queue.profile import FEASIBLE, INFEASIBLE, NEEDS_PREEMPTION, ProbeOutcome, ProbeResult

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.config import Profile as ProfileConfig
    from koordsched.config.types import PluginRef
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

P = TypeVar("P", bound=Plugin)
PluginFactory = Callable[[Any, "Handle"], Plugin]

WAITING = Status(Code.WAIT)
REFUSING = ("preEnqueue", "preFilter", "filter", "reserve", "permit")  # points whose refusals events may cure


class Profile:
    """A scheduling profile, ready to run."""

    def __init__(
        self, config: ProfileConfig, registry: Mapping[str, PluginFactory], handle: Handle, metrics: FrameworkMetrics | None = None
    ) -> None:
        self.name = config.scheduler_name
        self.percentage_of_nodes_to_score = config.percentage_of_nodes_to_score
        refs = [ref for refs in config.points.values() for ref in refs]
        self.missing = sorted({ref.name for ref in refs if ref.name not in registry})  # known names that this version has no plugin for
        made = {name: registry[name](config.args.get(name), handle) for name in dict.fromkeys(ref.name for ref in refs) if name in registry}
        self.made: Mapping[str, Plugin] = made
        unite(made.values())
        at = _Configured(config.points, made)
        self.queue_sort: QueueSortPlugin = at.get("queueSort", QueueSortPlugin)[0]
        self.plugins = at.points()
        self.watch = unwatched() if metrics is None else Stopwatch(metrics, handle.clock.perf, self.name)
        self._perf = self.watch.perf
        self._timed = self.plugins.timed(self.watch)
        self._gate_sampling = Sampling()
        self._let_in = self.watch.point(PRE_ENQUEUE, SUCCESS)
        plan = Plan(
            Evaluators(
                pre_enqueue=self.plugins.pre_enqueue,
                pre_filter=at.get("preFilter", PreFilterPlugin),
                filter=at.filters(),
                pre_score=at.get("preScore", PreScorePlugin),
                score=at.scorers(),
            )
        )
        self.shapes = Shapes(plan, handle.cache, watch=self.watch)
        names = dict.fromkeys(ref.name for point in REFUSING for ref in config.points.get(point, ()))
        self.refusing = [made[name] for name in names if name in made]

    @property
    def post_filter(self) -> list[PostFilterPlugin]:
        return self.plugins.post_filter

    def gate(self, pod: PodInfo, first: str) -> tuple[str, str, bool] | None:
        """Run PreEnqueue: (plugin, message, whether it was an error) of the first refusal, asking the plugin `first` first."""
        plugins = self._timed.pre_enqueue if self._gate_sampling.next() else self.plugins.pre_enqueue
        started = self._perf()
        refusal = points.pre_enqueue(plugins, pod, first)
        if refusal is None:
            self._let_in.observe(self._perf() - started)
            return None
        plugin, status = refusal
        self.watch.ended(PRE_ENQUEUE, status, started)
        return plugin, status.message, status.code is Code.ERROR

    async def run_post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        """Run PostFilter, as `points.post_filter` says."""
        started = self._perf()
        result, status = await points.post_filter((self._timed if state.sampled else self.plugins).post_filter, state, pod, diagnosis)
        self.watch.ended(POST_FILTER, status, started)
        return result, status

    def probe(self, pod: PodInfo) -> tuple[ProbeOutcome, Diagnosis | None]:
        """Estimate, without an attempt, whether some node passes the pod's filters now or PostFilter may help it.

        The second part is the diagnosis where no node passes.
        """
        diagnosis = self.shapes.why_infeasible(pod)
        if diagnosis is None:
            return FEASIBLE, None
        return NEEDS_PREEMPTION if self._may_be_helped(pod, diagnosis) else INFEASIBLE, diagnosis

    def probe_without_preemption(self, pod: PodInfo) -> ProbeResult:
        """Answer whether some node passes, and else which plugins refuse the pod; PostFilter is not asked."""
        diagnosis = self.shapes.why_infeasible(pod)
        return (FEASIBLE, None) if diagnosis is None else (INFEASIBLE, diagnosis.rejectors)

    def unchanged_since_failure(self, pod: PodInfo) -> bool:
        """Answer whether the pod's shape failed and nothing changed since that could matter to it."""
        diagnosis = self.shapes.unchanged_diagnosis(pod)
        return diagnosis is not None and not self._may_be_helped(pod, diagnosis)

    def _may_be_helped(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
        try:
            for plugin in self.plugins.post_filter:  # a loop, not any(): this is asked once an event and waiting shape
                if plugin.may_help(pod, diagnosis):
                    return True
        except Exception:
            log.exception("could not tell whether PostFilter would help a waiting pod", pod=pod.key)
            return True
        return False

    def message_of(self, pod: PodInfo, diagnosis: Diagnosis) -> str | None:
        """Return the text of an attempt that would fail so, PostFilter's part included; None when only an attempt can tell."""
        if not self.plugins.post_filter:
            return diagnosis.message
        status = points.foreseen_post_filter(self.plugins.post_filter, pod, diagnosis)
        return None if status is None else f"{diagnosis.message} {status.message}"

    def run_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if not self.plugins.reserve:
            return None
        started = self._perf()
        status = points.reserve((self._timed if state.sampled else self.plugins).reserve, state, pod, node_name)
        self.watch.ended(RESERVE, status, started)
        return status

    def run_unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo Reserve of all plugins, in reverse order, whether or not each was run."""
        if not self.plugins.reserve:
            return
        started = self._perf()
        for plugin in reversed((self._timed if state.sampled else self.plugins).reserve):
            plugin.unreserve(state, pod, node_name)
        self.watch.ended(UNRESERVE, None, started)

    def run_permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, dict[str, float]]:
        """Run Permit: (refusal or error, {}) or (None, plugins to wait for with their timeouts in seconds)."""
        if not self.plugins.permit:
            return None, {}
        started = self._perf()
        status, waits = points.permit((self._timed if state.sampled else self.plugins).permit, state, pod, node_name)
        self.watch.ended(PERMIT, WAITING if waits else status, started)
        return status, waits

    def pre_bind_work(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[list[PreBindPlugin], Status | None]:
        """Ask PreBindPreFlight which PreBind plugins have something to do for this pod."""
        if not self.plugins.pre_bind:
            return [], None
        started = self._perf()
        work, status = points.pre_bind_pre_flight((self._timed if state.sampled else self.plugins).pre_bind, state, pod, node_name)
        self.watch.ended(PRE_FLIGHT, status if work or status else SKIP, started)
        return work, status

    async def run_pre_bind(self, work: list[PreBindPlugin], state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Run PreBind of what `pre_bind_work` returned, and write what it has noted."""
        started = self._perf()
        status = await points.pre_bind(work, state, pod, node_name)
        if status is None:
            patching = (self._timed if state.sampled else self.plugins).pre_bind_patch
            status = await points.pre_bind_patch(patching, state, pod)
        self.watch.ended(PRE_BIND, status, started)
        return status

    async def run_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind by the first plugin that does not skip."""
        started = self._perf()
        status = await points.bind((self._timed if state.sampled else self.plugins).bind, state, pod, node_name)
        self.watch.ended(BIND, status, started)
        return status

    def run_post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        if not self.plugins.post_bind:
            return
        started = self._perf()
        for plugin in (self._timed if state.sampled else self.plugins).post_bind:
            plugin.post_bind(state, pod, node_name)
        self.watch.ended(POST_BIND, None, started)


class _Configured:
    """The configured order of plugins, by extension point and role."""

    def __init__(self, points: Mapping[str, tuple[PluginRef, ...]], made: Mapping[str, Plugin]) -> None:
        self._points = points
        self._made = made

    def get(self, point: str, role: type[P]) -> list[P]:
        plugins = [self._made[ref.name] for ref in self._points.get(point, ()) if ref.name in self._made]
        return [plugin for plugin in plugins if isinstance(plugin, role)]

    def points(self) -> Points:
        return Points(
            pre_enqueue=self.get("preEnqueue", PreEnqueuePlugin),
            post_filter=self.get("postFilter", PostFilterPlugin),
            reserve=self.get("reserve", ReservePlugin),
            permit=self.get("permit", PermitPlugin),
            pre_bind=self.get("preBind", PreBindPlugin),
            pre_bind_patch=self.get("preBind", PreBindPatchPlugin),
            bind=self.get("bind", BindPlugin),
            post_bind=self.get("postBind", PostBindPlugin),
        )

    def filters(self) -> list[FilterNodesPlugin | FilterPlugin]:
        return [plugin for plugin in self.get("filter", Plugin) if isinstance(plugin, FilterNodesPlugin | FilterPlugin)]

    def scorers(self) -> list[tuple[ScoreNodesPlugin | ScorePlugin, int]]:
        weights = {ref.name: ref.weight for ref in self._points.get("score", ())}
        return [
            (plugin, weights[plugin.name]) for plugin in self.get("score", Plugin) if isinstance(plugin, ScoreNodesPlugin | ScorePlugin)
        ]
