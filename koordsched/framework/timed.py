"""Plugins that tell a stopwatch how long they take: stand-ins that a profile runs in place of the plugins themselves.

PreFilter and PreScore, which run once for many pods, are always run by stand-ins, since they also count. At the other points only a sampled
cycle runs stand-ins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from koordsched.framework.interface import (
    BindPlugin,
    Codes,
    FilterNodesPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPatchPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ReservePlugin,
    ScoreNodesPlugin,
    Scores,
)
from koordsched.framework.status import SKIPS, Status
from koordsched.framework.stopwatch import (
    BIND,
    FILTER,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_ENQUEUE,
    PRE_FILTER,
    PRE_FLIGHT,
    PRE_SCORE,
    RESERVE,
    SCORE,
    UNRESERVE,
    Stopwatch,
)

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.annotations import Annotations
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis

P = TypeVar("P", bound=Plugin)


class Timed(Plugin, Generic[P]):
    """Stands in for a plugin."""

    def __init__(self, plugin: P, watch: Stopwatch) -> None:
        self.name = plugin.name
        self._plugin = plugin
        self._watch = watch
        self._perf = watch.perf

    def _executed(self, point: str, status: Status | None, started: float) -> None:
        self._watch.executed(self.name, point, status, started)


class CountedPreFilter(Timed[PreFilterPlugin], PreFilterPlugin):
    """Counts what it does not skip."""

    def __init__(self, plugin: PreFilterPlugin, watch: Stopwatch) -> None:
        super().__init__(plugin, watch)
        self._evaluations = watch.evaluations(plugin.name, PRE_FILTER)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        started = self._perf() if self._watch.recording else 0.0
        outcome = self._plugin.pre_filter(state, pod, nodes)
        if not isinstance(outcome, Status) or outcome.code is not SKIPS:
            self._evaluations.count += 1
        if self._watch.recording:
            self._executed(PRE_FILTER, outcome if isinstance(outcome, Status) else None, started)
        return outcome


class CountedPreScore(Timed[PreScorePlugin], PreScorePlugin):
    """Counts what it does not skip."""

    def __init__(self, plugin: PreScorePlugin, watch: Stopwatch) -> None:
        super().__init__(plugin, watch)
        self._evaluations = watch.evaluations(plugin.name, PRE_SCORE)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        started = self._perf() if self._watch.recording else 0.0
        status = self._plugin.pre_score(state, pod, nodes)
        if status is None or status.code is not SKIPS:
            self._evaluations.count += 1
        if self._watch.recording:
            self._executed(PRE_SCORE, status, started)
        return status


class TimedFilter(Timed[FilterNodesPlugin], FilterNodesPlugin):
    """The status of one question about many nodes is success if a node passed, or why the first one did not."""

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        started = self._perf()
        codes = self._plugin.filter_nodes(state, pod, nodes)
        seconds = self._perf() - started
        status = self.explain(state, pod, int(codes[0])) if codes is not None and codes.all() else None
        self._watch.took(self.name, FILTER, status, seconds)
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return self._plugin.explain(state, pod, code)


class TimedScore(Timed[ScoreNodesPlugin], ScoreNodesPlugin):
    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        started = self._perf()
        scores = self._plugin.score_nodes(state, pod, nodes)
        self._executed(SCORE, None, started)
        return scores


class TimedPreEnqueue(Timed[PreEnqueuePlugin], PreEnqueuePlugin):
    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        started = self._perf()
        status = self._plugin.pre_enqueue(pod)
        self._executed(PRE_ENQUEUE, status, started)
        return status


class TimedPostFilter(Timed[PostFilterPlugin], PostFilterPlugin):
    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        started = self._perf()
        result, status = await self._plugin.post_filter(state, pod, diagnosis)
        self._executed(POST_FILTER, status, started)
        return result, status


class TimedReserve(Timed[ReservePlugin], ReservePlugin):
    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        started = self._perf()
        status = self._plugin.reserve(state, pod, node_name)
        self._executed(RESERVE, status, started)
        return status

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        started = self._perf()
        self._plugin.unreserve(state, pod, node_name)
        self._executed(UNRESERVE, None, started)


class TimedPermit(Timed[PermitPlugin], PermitPlugin):
    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        started = self._perf()
        status, timeout = self._plugin.permit(state, pod, node_name)
        self._executed(PERMIT, status, started)
        return status, timeout


class TimedPreBind(Timed[PreBindPlugin], PreBindPlugin):
    def __init__(self, plugin: PreBindPlugin, watch: Stopwatch) -> None:
        super().__init__(plugin, watch)
        self.takes_time = plugin.takes_time

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        started = self._perf()
        status = self._plugin.pre_bind_pre_flight(state, pod, node_name)
        self._executed(PRE_FLIGHT, status, started)
        return status

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        started = self._perf()
        status = await self._plugin.pre_bind(state, pod, node_name)
        self._executed(PRE_BIND, status, started)
        return status


class TimedPreBindPatch(Timed[PreBindPatchPlugin], PreBindPatchPlugin):
    async def patch(self, pod: PodInfo, annotations: Annotations) -> Status | None:
        started = self._perf()
        status = await self._plugin.patch(pod, annotations)
        self._executed(PRE_BIND, status, started)
        return status


class TimedBind(Timed[BindPlugin], BindPlugin):
    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        started = self._perf()
        status = await self._plugin.bind(state, pod, node_name)
        self._executed(BIND, status, started)
        return status


class TimedPostBind(Timed[PostBindPlugin], PostBindPlugin):
    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        started = self._perf()
        self._plugin.post_bind(state, pod, node_name)
        self._executed(POST_BIND, None, started)
