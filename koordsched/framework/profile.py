"""Profile: one scheduling profile's plugins at their extension points, and how each point is run (framework.md §2.1).

The columns of PreFilter, Filter, PreScore and Score are run by `shapes`; here is everything that happens once a pod. Answers are values:
None for success, a Status with its plugin otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from koordsched.framework.interface import (
    BindPlugin,
    FilterNodesPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
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
from koordsched.framework.shapes import Shapes
from koordsched.framework.status import Code, Status

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.config import Profile as ProfileConfig
    from koordsched.config.types import PluginRef
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle

P = TypeVar("P", bound=Plugin)
PluginFactory = Callable[[Any, "Handle"], Plugin]

REFUSING = ("preEnqueue", "preFilter", "filter", "reserve", "permit")  # points whose refusals events may cure


class Profile:
    """A scheduling profile, ready to run."""

    def __init__(self, config: ProfileConfig, registry: Mapping[str, PluginFactory], handle: Handle) -> None:
        self.name = config.scheduler_name
        self.percentage_of_nodes_to_score = config.percentage_of_nodes_to_score
        refs = [ref for refs in config.points.values() for ref in refs]
        self.missing = sorted({ref.name for ref in refs if ref.name not in registry})  # known names that this version has no plugin for
        made = {name: registry[name](config.args.get(name), handle) for name in dict.fromkeys(ref.name for ref in refs) if name in registry}
        at = _Points(config.points, made)
        self.pre_enqueue: list[PreEnqueuePlugin] = at.get("preEnqueue", PreEnqueuePlugin)
        self.queue_sort: QueueSortPlugin = at.get("queueSort", QueueSortPlugin)[0]
        self.post_filter: list[PostFilterPlugin] = at.get("postFilter", PostFilterPlugin)
        self.reserve: list[ReservePlugin] = at.get("reserve", ReservePlugin)
        self.permit: list[PermitPlugin] = at.get("permit", PermitPlugin)
        self.pre_bind: list[PreBindPlugin] = at.get("preBind", PreBindPlugin)
        self.bind: list[BindPlugin] = at.get("bind", BindPlugin)
        self.post_bind: list[PostBindPlugin] = at.get("postBind", PostBindPlugin)
        plan = Plan(
            Evaluators(
                pre_enqueue=self.pre_enqueue,
                pre_filter=at.get("preFilter", PreFilterPlugin),
                filter=at.filters(),
                pre_score=at.get("preScore", PreScorePlugin),
                score=at.scorers(),
            )
        )
        self.shapes = Shapes(plan, handle.cache)
        names = dict.fromkeys(ref.name for point in REFUSING for ref in config.points.get(point, ()))
        self.refusing = [made[name] for name in names if name in made]

    def gate(self, pod: PodInfo, first: str) -> tuple[str, str, bool] | None:
        """Run PreEnqueue: (plugin, message, whether it was an error) of the first refusal, asking the plugin `first` first."""
        for plugin in sorted(self.pre_enqueue, key=lambda plugin: plugin.name != first):
            status = plugin.pre_enqueue(pod)
            if status is not None:
                return plugin.name, status.message, status.code is Code.ERROR
        return None

    def run_post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        """Run PostFilter: success and UnschedulableAndUnresolvable stop; Unschedulable goes on, reasons add up; an error replaces all."""
        reasons: list[str] = []
        result: PostFilterResult | None = None
        for plugin in self.post_filter:
            found, status = plugin.post_filter(state, pod, diagnosis)
            if status is None:
                return found, None
            if not status.rejected:
                return None, status.with_plugin(plugin.name)
            reasons += status.reasons
            result = found if found is not None else result
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                break
        return result, Status(Code.UNSCHEDULABLE, tuple(reasons))

    def run_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        for plugin in self.reserve:
            status = plugin.reserve(state, pod, node_name)
            if status is not None:
                return _named(status, plugin, f'running Reserve plugin "{plugin.name}": ')
        return None

    def run_unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo Reserve of all plugins, in reverse order, whether or not each was run."""
        for plugin in reversed(self.reserve):
            plugin.unreserve(state, pod, node_name)

    def run_permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, dict[str, float]]:
        """Run Permit: (refusal or error, {}) or (None, plugins to wait for with their timeouts in seconds)."""
        waits: dict[str, float] = {}
        for plugin in self.permit:
            status, timeout = plugin.permit(state, pod, node_name)
            if status is None:
                continue
            if status.code is not Code.WAIT:
                return _named(status, plugin, f'running Permit plugin "{plugin.name}": '), {}
            waits[plugin.name] = timeout
        return None, waits

    def pre_bind_work(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[list[PreBindPlugin], Status | None]:
        """Ask PreBindPreFlight which PreBind plugins have something to do for this pod."""
        work = []
        for plugin in self.pre_bind:
            status = plugin.pre_bind_pre_flight(state, pod, node_name)
            if status is None:
                work.append(plugin)
            elif status.code is not Code.SKIP:
                return [], _named(status, plugin, f'running PreBindPreFlight "{plugin.name}": ')
        return work, None

    async def run_pre_bind(self, work: list[PreBindPlugin], state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        for plugin in work:
            status = await plugin.pre_bind(state, pod, node_name)
            if status is not None:
                return _named(status, plugin, f'running PreBind plugin "{plugin.name}": ')
        return None

    async def run_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind by the first plugin that does not skip."""
        for plugin in self.bind:
            status = await plugin.bind(state, pod, node_name)
            if status is None:
                return None
            if status.code is not Code.SKIP:
                return _named(status, plugin, f'running Bind plugin "{plugin.name}": ')
        return Status(Code.ERROR, ("no bind plugin was willing to bind the pod",))

    def run_post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        for plugin in self.post_bind:
            plugin.post_bind(state, pod, node_name)


class _Points:
    """The configured order of plugins, by extension point and role."""

    def __init__(self, points: Mapping[str, tuple[PluginRef, ...]], made: Mapping[str, Plugin]) -> None:
        self._points = points
        self._made = made

    def get(self, point: str, role: type[P]) -> list[P]:
        plugins = [self._made[ref.name] for ref in self._points.get(point, ()) if ref.name in self._made]
        return [plugin for plugin in plugins if isinstance(plugin, role)]

    def filters(self) -> list[FilterNodesPlugin | FilterPlugin]:
        return [plugin for plugin in self.get("filter", Plugin) if isinstance(plugin, FilterNodesPlugin | FilterPlugin)]

    def scorers(self) -> list[tuple[ScoreNodesPlugin | ScorePlugin, int]]:
        weights = {ref.name: ref.weight for ref in self._points.get("score", ())}
        return [
            (plugin, weights[plugin.name]) for plugin in self.get("score", Plugin) if isinstance(plugin, ScoreNodesPlugin | ScorePlugin)
        ]


def _named(status: Status, plugin: Plugin, context: str) -> Status:
    """Name the plugin in its answer; an error also says what was being run."""
    if status.rejected:
        return status.with_plugin(plugin.name)
    return Status(status.code, (context + status.message,), plugin.name)
