"""Profile: one scheduling profile's plugins at their extension points, and how each point is run (framework.md §2.1).

PreFilter, Filter, PreScore and Score are run by `shapes`, for many pods at once. Here are the points that are run for each pod, in order.
All are alike: plugins are asked in their order, an answer is None for success or else a Status that names its plugin, the point is timed,
and in a sampled cycle each plugin is. A point without plugins is neither run nor timed.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from koordsched._core.change import ChangeKindError
from koordsched.config.extension_points import (
    BIND,
    EXTENSION_POINTS,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_ENQUEUE,
    PRE_FILTER,
    RESERVE,
    ExtensionPoint,
)
from koordsched.framework.admission import Admission
from koordsched.framework.cycle_state import annotate_with_binding, noted_changes
from koordsched.framework.evaluation_plan import EvaluationPlan, Evaluators
from koordsched.framework.handle import SettingsError
from koordsched.framework.interface import (
    RESIZE_GATE,
    AdmissionPlugin,
    BindPlugin,
    BindReservationPlugin,
    CreditPlugin,
    FailureEventPlugin,
    FilterNodesPlugin,
    FilterPlugin,
    FindOneNodePlugin,
    GroupTurnPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPatchPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreferNodesPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservationFilterPlugin,
    ReservePlugin,
    ResizePodPlugin,
    RestrictNodesPlugin,
    ScoreNodesPlugin,
    ScorePlugin,
)
from koordsched.framework.plugin_metrics import MetricError
from koordsched.framework.reservation_filters import ReservationFilters, ReservationNominatorPlugin
from koordsched.framework.shapes import Shapes
from koordsched.framework.status import SKIP, SKIPS, Code, Status, internal_error
from koordsched.framework.timings import (
    PRE_BIND_PRE_FLIGHT,
    PRE_BIND_RESERVATION,
    RESIZE_POD,
    SUCCESS,
    UNRESERVE,
    CycleTimings,
    FrameworkMetrics,
    Sampling,
)
from koordsched.framework.topologymanager import share_topology_manager
from koordsched.log import get_logger
from koordsched.queue.events import ASSIGNED_POD_ADD
from koordsched.queue.hints import hints_for
from koordsched.queue.profile import FEASIBLE, INFEASIBLE, NEEDS_PREEMPTION, ProbeOutcome, ProbeResult

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.config import KubeSchedulerProfile
    from koordsched.framework.cycle_state import CycleState, MetadataChanges
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

P = TypeVar("P", bound=Plugin)
PluginFactory = Callable[[Any, "Handle"], Plugin]

WAITING = Status(Code.WAIT)


class Profile:
    """A scheduling profile, ready to run. Attributes with the name of an extension point list its plugins in running order."""

    def __init__(
        self,
        config: KubeSchedulerProfile,
        registry: Mapping[str, PluginFactory],
        handle: Handle,
        metrics: FrameworkMetrics | None = None,
        percentage_of_nodes_to_score: int = 0,
        *,
        timings: type[CycleTimings] = CycleTimings,
    ) -> None:
        """SettingsError if a plugin cannot be made because what it registers is taken.

        percentage_of_nodes_to_score: the configuration's, for a profile that names none of its own. 0: all nodes.
        timings: another class where attempts are traced.
        """
        self.name = config.scheduler_name
        own = config.percentage_of_nodes_to_score
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score if own is None else own
        names = dict.fromkeys(ref.name for refs in config.points.values() for ref in refs)
        self.missing = sorted(name for name in names if name not in registry)  # known names that this version has no plugin for
        self.made: dict[str, Plugin] = {}
        for name in names:
            if name in registry:
                try:
                    self.made[name] = registry[name](config.args.get(name), handle)
                except (MetricError, ChangeKindError) as taken:
                    raise SettingsError(f"plugin {name} cannot be made: {taken}") from None

        def at(point: ExtensionPoint) -> list[Plugin]:
            return [self.made[ref.name] for ref in config.points.get(point.name, ()) if ref.name in self.made]

        share_topology_manager(self.made.values(), at(FilterPlugin.extension_point))

        def implementing(interface: type[P]) -> list[P]:
            return [plugin for plugin in at(interface.extension_point) if isinstance(plugin, interface)]

        for plugin in self.made.values():
            if isinstance(plugin, ReservationNominatorPlugin):
                plugin.use_reservation_filters(ReservationFilters(implementing(ReservationFilterPlugin)))
        weights = {ref.name: ref.weight for ref in config.points.get("score", ())}
        self.queue_sort = implementing(QueueSortPlugin)[0]
        self.pre_enqueue = implementing(PreEnqueuePlugin)
        self.pre_filter = implementing(PreFilterPlugin)
        self.filter = [plugin for plugin in at(FilterPlugin.extension_point) if isinstance(plugin, FilterNodesPlugin | FilterPlugin)]
        self.post_filter = implementing(PostFilterPlugin)
        self.find_one_node = self._first(implementing(FindOneNodePlugin), "FindOneNode")
        self.prefer_nodes = self._first(implementing(PreferNodesPlugin), "PreferNodes")
        self.names_nodes = self.find_one_node is not None or self.prefer_nodes is not None
        self.pre_score = implementing(PreScorePlugin)
        self.score = [plugin for plugin in at(ScorePlugin.extension_point) if isinstance(plugin, ScoreNodesPlugin | ScorePlugin)]
        self.failure_events = implementing(FailureEventPlugin)
        self.reserve = implementing(ReservePlugin)
        resizing = implementing(ResizePodPlugin)
        self.resize_pod = resizing if resizing and handle.gates[RESIZE_GATE] else []
        self.permit = implementing(PermitPlugin)
        self.pre_bind = implementing(PreBindPlugin)
        self.pre_bind_patch = implementing(PreBindPatchPlugin)
        self.bind = implementing(BindPlugin)
        leaves = bool(self.bind and self.pre_bind_patch) and self.pre_bind_patch[0].leaves_to_binding
        self._annotates_by_binding = leaves and all(plugin.writes_annotations for plugin in self.bind)
        self.bind_reservation = [_Binder(plugin.name, plugin.bind_reservation) for plugin in implementing(BindReservationPlugin)]
        self._post_filter_of_reservations = [plugin for plugin in self.post_filter if plugin.post_filters_reservations]
        self._pre_bind_of_reservations = [plugin for plugin in self.pre_bind if plugin.pre_binds_reservations]
        self.post_bind = implementing(PostBindPlugin)
        self.group_turn = next((plugin for plugin in self.made.values() if isinstance(plugin, GroupTurnPlugin)), None)
        refusing = [plugin for point in EXTENSION_POINTS if point.refuses for plugin in at(point)]
        refusing += [] if self.group_turn is None else [self.group_turn]
        self.refusing = list({plugin.name: plugin for plugin in refusing}.values())

        self.timings = timings(metrics, handle.clock.perf if metrics is not None else float, self.name)
        self._perf = self.timings.perf
        self._cache = handle.cache
        self._pre_enqueue_sampling = Sampling()
        self._observe_admitted = self.timings.point(PRE_ENQUEUE.label, SUCCESS)
        plan = EvaluationPlan(
            Evaluators(
                pre_enqueue=self.pre_enqueue,
                pre_filter=self.pre_filter,
                restrict=implementing(RestrictNodesPlugin),
                filter=self.filter,
                pre_score=self.pre_score,
                score=[(plugin, weights[plugin.name]) for plugin in self.score],
                credits=next((plugin for plugin in self.made.values() if isinstance(plugin, CreditPlugin)), None),
            )
        )
        self.shapes = Shapes(plan, handle.cache, timings=self.timings)
        at_pre_filter = at(PRE_FILTER)
        admits = any(isinstance(plugin, AdmissionPlugin) for plugin in at_pre_filter)
        self.admission = Admission(at_pre_filter, self.shapes, handle.cache, self.timings) if admits else None
        self.limits_groups = self.admission is not None and self.admission.limits_groups

    @cached_property
    def helped_by_arrivals(self) -> frozenset[str]:
        """The plugins that may let a pod pass because another one was placed: those that registered this event, and those that registered
        nothing."""
        table = hints_for(self.refusing)
        return frozenset(name for name, hints in table.items() if any(hint.event.matches(ASSIGNED_POD_ADD) for hint in hints))

    def _first(self, plugins: list[P], role: str) -> P | None:
        """Return the plugin that plays a role which only one can play, and say which others do not (frameworkext.md §4)."""
        if len(plugins) > 1:
            first, *others = (plugin.name for plugin in plugins)
            log.warning("several plugins have a role of which a profile has one", profile=self.name, role=role, asked=first, ignored=others)
        return plugins[0] if plugins else None

    # PreEnqueue

    def run_pre_enqueue(self, pod: PodInfo, first: str) -> tuple[str, str, bool] | None:
        """Return (plugin, message, whether it is an error) of the first refusal. The plugin `first` is asked before the others."""
        sampled = self._pre_enqueue_sampling.next()
        started = self._perf()
        for plugin in sorted(self.pre_enqueue, key=lambda plugin: plugin.name != first) if first else self.pre_enqueue:
            pre_enqueue = self.timings.timed(plugin.name, PRE_ENQUEUE.label, plugin.pre_enqueue) if sampled else plugin.pre_enqueue
            status = pre_enqueue(pod)
            if status is not None:
                self.timings.ended(PRE_ENQUEUE.label, status, started)
                return plugin.name, status.message, status.code is Code.ERROR
        self._observe_admitted.observe(self._perf() - started)
        return None

    def passes_pre_enqueue(self, pod: PodInfo, besides: str) -> bool:
        """Answer whether all PreEnqueue plugins but the named one let the pod into the active queue."""
        return all(plugin.name == besides or plugin.pre_enqueue(pod) is None for plugin in self.pre_enqueue)

    # PostFilter, and what it is estimated to do

    async def run_post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        """Try to make the pod schedulable.

        Success and UnschedulableAndUnresolvable stop; Unschedulable goes on, reasons add up and the last result stays; an error replaces
        everything.
        """
        started = self._perf()
        reasons: list[str] = []
        result: PostFilterResult | None = None
        outcome: Status | None = Status(Code.UNSCHEDULABLE)
        for plugin in self.post_filter if pod.reservation is None else self._post_filter_of_reservations:
            post_filter = plugin.post_filter
            if state.sampled:
                post_filter = self.timings.timed_async(plugin.name, POST_FILTER.label, post_filter)
            found, status = await post_filter(state, pod, diagnosis)
            if status is None:
                result, outcome = found, None
                break
            if not status.rejected:
                result, outcome = None, status.with_plugin(plugin.name)
                break
            reasons += status.reasons
            result = found if found is not None else result
            outcome = Status(Code.UNSCHEDULABLE, tuple(reasons))
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                break
        self.timings.ended(POST_FILTER.label, outcome, started)
        return result, outcome

    def probe(self, pod: PodInfo) -> tuple[ProbeOutcome, Diagnosis | None]:
        """Estimate, without an attempt, whether some node passes the pod's filters now or PostFilter may help it.

        The second part is the diagnosis where no node passes.
        """
        diagnosis = self.shapes.why_infeasible(pod)
        if diagnosis is None:
            return FEASIBLE, None
        return NEEDS_PREEMPTION if self._may_be_helped(pod, diagnosis) else INFEASIBLE, diagnosis

    def probe_admission(self, plugin: str, pod: PodInfo) -> tuple[ProbeOutcome, Diagnosis | None]:
        """Estimate the same for a pod that this admission plugin refused: whether it still does, and PostFilter may not help."""
        diagnosis = None if self.admission is None else self.admission.still_refused(plugin, pod)
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
            plugins = self.post_filter if pod.reservation is None else self._post_filter_of_reservations
            for plugin in plugins:  # a loop, not any(): this is asked once an event and waiting shape
                if plugin.may_help(pod, diagnosis):
                    return True
        except Exception:
            log.exception("could not find out whether PostFilter would help a waiting pod", pod=pod.key)
            return True
        return False

    def message_of(self, pod: PodInfo, diagnosis: Diagnosis) -> str | None:
        """Return the text of an attempt that would fail so, PostFilter's part included; None when only an attempt can find out."""
        reasons: list[str] = []
        plugins = self.post_filter if pod.reservation is None else self._post_filter_of_reservations
        for plugin in plugins:
            status = plugin.expected_refusal(pod, diagnosis)
            if status is None:
                return None
            reasons += status.reasons
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                break
        return f"{diagnosis.message} {', '.join(reasons)}" if plugins else diagnosis.message

    def post_filter_text(self, pod: PodInfo, diagnosis: Diagnosis, attempted: Mapping[str, str]) -> str:
        """Return what PostFilter says of a pod for which only some plugins have tried to make room.

        attempted: what these answered, by name. Of the others it is what they would answer where that is known without an attempt.
        """
        reasons: list[str] = []
        for plugin in self.post_filter:
            if plugin.name in attempted:
                reasons.append(attempted[plugin.name])
            elif (status := plugin.expected_refusal(pod, diagnosis)) is not None:
                reasons += status.reasons
        return ", ".join(filter(None, reasons))

    # Reserve

    def run_reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Stop at the first answer that is not success, and count a pod that is resized as what it will hold.

        A plugin that raises has answered with an error.
        """
        if not self.reserve:
            return None
        started = self._perf()
        status = None
        try:
            for plugin in self.reserve:
                reserve = self.timings.timed(plugin.name, RESERVE.label, plugin.reserve) if state.sampled else plugin.reserve
                status = reserve(state, pod, node_name)
                if status is not None:
                    status = _named(status, plugin, f'running Reserve plugin "{plugin.name}": ')
                    break
            if status is None and self.resize_pod and pod.reservation is not None:
                status = self._run_resize_pod(state, pod, node_name)
        except Exception as error:
            log.exception("Reserve failed", pod=pod.key, node=node_name)
            status = internal_error(error)
        self.timings.ended(RESERVE.label, status, started)
        return status

    def _run_resize_pod(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Count the pod as what it will hold. One that takes over pods is counted as what these leave it, and goes on being so."""
        if self._cache.pods[pod.uid].info.resources is not pod.resources:
            return None
        amounts: dict[str, int] = {}
        for plugin in self.resize_pod:
            found = self.timings.timed(plugin.name, RESIZE_POD, plugin.resize_pod)(state, pod, node_name)
            if isinstance(found, Status):
                return _named(found, plugin, f'running ResizePod plugin "{plugin.name}": ')
            amounts |= found or {}
        if amounts:
            self._cache.resize_pod(pod.resized(amounts))
        return None

    def run_unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Undo Reserve of all plugins, in reverse order, whether or not each was run."""
        if not self.reserve:
            return
        started = self._perf()
        for plugin in reversed(self.reserve):
            unreserve = self.timings.timed(plugin.name, UNRESERVE, plugin.unreserve) if state.sampled else plugin.unreserve
            unreserve(state, pod, node_name)
        self.timings.ended(UNRESERVE, None, started)

    # Permit

    def run_permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, dict[str, float]]:
        """Return (refusal or error, {}) or (None, plugins to wait for with their timeouts in seconds); an error if a plugin raises."""
        waits: dict[str, float] = {}
        if not self.permit:
            return None, waits
        started = self._perf()
        refusal = None
        try:
            for plugin in self.permit:
                permit = self.timings.timed(plugin.name, PERMIT.label, plugin.permit) if state.sampled else plugin.permit
                status, timeout = permit(state, pod, node_name)
                if status is None:
                    continue
                if status.code is not Code.WAIT:
                    refusal, waits = _named(status, plugin, f'running Permit plugin "{plugin.name}": '), {}
                    break
                waits[plugin.name] = timeout
        except Exception as error:
            log.exception("Permit failed", pod=pod.key, node=node_name)
            refusal, waits = internal_error(error), {}
        self.timings.ended(PERMIT.label, WAITING if waits else refusal, started)
        return refusal, waits

    # PreBind

    def pre_bind_work(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[list[PreBindPlugin], Status | None]:
        """Ask PreBindPreFlight which PreBind plugins have something to do for this pod."""
        work: list[PreBindPlugin] = []
        plugins = self.pre_bind if pod.reservation is None else self._pre_bind_of_reservations
        if not plugins:
            return work, None
        started = self._perf()
        failure = None
        for plugin in plugins:
            pre_flight = plugin.pre_bind_pre_flight
            if state.sampled:
                pre_flight = self.timings.timed(plugin.name, PRE_BIND_PRE_FLIGHT, pre_flight)
            status = pre_flight(state, pod, node_name)
            if status is None:
                work.append(plugin)
            elif status.code is not SKIPS:
                failure, work = _named(status, plugin, f'running PreBindPreFlight "{plugin.name}": '), []
                break
        self.timings.ended(PRE_BIND_PRE_FLIGHT, failure if work or failure else SKIP, started)
        return work, failure

    async def run_pre_bind(
        self, work: list[PreBindPlugin], state: CycleState, pod: PodInfo, node_name: str, *, by_plugin: bool = True
    ) -> Status | None:
        """Run PreBind of the plugins that `pre_bind_work` returned, then write the annotations and labels that they have noted.

        The first answer that is not success ends it. Those of one object are written by the first PreBindPatch plugin that does not skip;
        without one they are lost, which is a warning of the configuration (frameworkext.md §1.1). by_plugin: a Bind plugin is going to
        bind the pod; what is noted of the pod alone may be left to that.
        """
        started = self._perf()
        status = None
        point, timed = (PRE_BIND.label, state.sampled) if pod.reservation is None else (PRE_BIND_RESERVATION, True)
        for plugin in work:
            pre_bind = self.timings.timed_async(plugin.name, point, plugin.pre_bind) if timed else plugin.pre_bind
            status = await pre_bind(state, pod, node_name)
            if status is not None:
                status = _named(status, plugin, f'running PreBind plugin "{plugin.name}": ')
                break
        if status is None:
            noted = noted_changes(state, pod.pod)
            if by_plugin and self._annotates_by_binding and len(noted) == 1 and noted[0].seen is pod.pod:
                noted = [] if annotate_with_binding(state, noted[0]) else noted
            for changes in noted:
                status = await self._write_metadata(state, changes)
                if status is not None:
                    break
        self.timings.ended(PRE_BIND.label, status, started)
        return status

    async def _write_metadata(self, state: CycleState, changes: MetadataChanges) -> Status | None:
        for writer in self.pre_bind_patch:
            patch = self.timings.timed_async(writer.name, PRE_BIND.label, writer.patch) if state.sampled else writer.patch
            status = await patch(changes)
            if status is None:
                return None
            if status.code is not SKIPS:
                return _named(status, writer, f'running PreBind plugin "{writer.name}": ')
        return None

    # Bind

    async def run_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind by the first plugin that does not skip."""
        started = self._perf()
        status: Status | None = Status(Code.ERROR, ("no bind plugin was willing to bind the pod",))
        for plugin in self.bind if pod.reservation is None else self.bind_reservation:
            bind = self.timings.timed_async(plugin.name, BIND.label, plugin.bind) if state.sampled else plugin.bind
            answer = await bind(state, pod, node_name)
            if answer is None or answer.code is not SKIPS:
                status = None if answer is None else _named(answer, plugin, f'running Bind plugin "{plugin.name}": ')
                break
        self.timings.ended(BIND.label, status, started)
        return status

    # PostBind

    def run_post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        if not self.post_bind:
            return
        started = self._perf()
        for plugin in self.post_bind:
            post_bind = self.timings.timed(plugin.name, POST_BIND.label, plugin.post_bind) if state.sampled else plugin.post_bind
            post_bind(state, pod, node_name)
        self.timings.ended(POST_BIND.label, None, started)


class _Binder(NamedTuple):
    """What binds reserve pods, as `run_bind` calls it."""

    name: str
    bind: Callable[[CycleState, PodInfo, str], Coroutine[Any, Any, Status | None]]


def _named(status: Status, plugin: Plugin | _Binder, context: str) -> Status:
    """Name the plugin in its answer; an error also says what was being run."""
    if status.rejected:
        return status.with_plugin(plugin.name)
    return Status(status.code, (context + status.message,), plugin.name)
