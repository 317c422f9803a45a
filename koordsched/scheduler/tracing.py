"""The spans of pods: what a collector of OpenTelemetry is sent of their way through the queue and the two cycles (docs/tracing.md).

    scheduleOne                    an attempt: from the queue to bound or refused
      SchedulingQueue              since it came into the queue, or since its last attempt failed
      schedulingCycle              with a span per extension point, and below it one per plugin that was asked
      bindingCycle                 the same
      scheduleOne ...              other members of its group, which were placed in the same turn

Whether an attempt is traced is decided once, when its pod is popped. All that the cycles do for it is in the subclasses here, which take
the places of the plain ones where tracing is on; where it is off none of this is imported.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from koordsched import __version__
from koordsched.config.extension_points import (
    BIND,
    FILTER,
    PERMIT,
    POST_BIND,
    POST_FILTER,
    PRE_BIND,
    PRE_FILTER,
    PRE_SCORE,
    RESERVE,
    SCORE,
)
from koordsched.framework.status import Code, error
from koordsched.framework.timings import PRE_BIND_PRE_FLIGHT, PRE_BIND_RESERVATION, RESIZE_POD, UNRESERVE
from koordsched.framework.tracing import UNDER_WAY
from koordsched.scheduler.binding_cycle import BindingCycles
from koordsched.scheduler.cycle import Cycle
from koordsched.scheduler.failure import FailureHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor

    from koordsched.clock import Clock
    from koordsched.framework import status as plugin_status
    from koordsched.framework.waiting import WaitingPod
    from koordsched.queue.queued_pod import QueuedPodInfo
    from koordsched.scheduler.attempt import Attempt
    from koordsched.scheduler.failure import Failure

SCHEDULE_ONE, QUEUE, SCHEDULING_CYCLE, BINDING_CYCLE = "scheduleOne", "SchedulingQueue", "schedulingCycle", "bindingCycle"
WAIT_ON_PERMIT = "WaitOnPermit"
POINT_SPANS = {
    PRE_FILTER.label: "RunPreFilterPlugins",
    FILTER.label: "RunFilterPlugins",
    POST_FILTER.label: "RunPostFilterPlugins",
    PRE_SCORE.label: "RunPreScorePlugins",
    SCORE.label: "RunScorePlugins",
    RESERVE.label: "RunReservePluginsReserve",
    UNRESERVE: "RunReservePluginsUnreserve",
    PERMIT.label: "RunPermitPlugins",
    PRE_BIND_PRE_FLIGHT: "RunPreBindPreFlights",
    PRE_BIND.label: "RunPreBindPlugins",
    BIND.label: "RunBindPlugins",
    POST_BIND.label: "RunPostBindPlugins",
}
"""The names of kube-scheduler's functions, after which KEP-5927 names its spans."""
INSIDE = {RESIZE_POD: RESERVE.label, PRE_BIND_RESERVATION: PRE_BIND.label}
"""Points of plugins that metrics show by themselves, and in which one they are run."""
NANOSECONDS = 1_000_000_000
SAMPLED, UNSET = TraceFlags(TraceFlags.SAMPLED), Status(StatusCode.UNSET)

PLUGIN, POINT, STATUS, REASON = "scheduler.plugin", "scheduler.extension_point", "scheduler.status", "scheduler.reason"
RESULT, PROFILE, ATTEMPT = "scheduler.result", "scheduler.profile", "scheduler.attempt"
POD, NAMESPACE, UID, NODE = "k8s.pod.name", "k8s.namespace.name", "k8s.pod.uid", "k8s.node.name"

LEAST_PLUGIN_SECONDS = 100e-6
"""A plugin that took less, and had nothing to object, has no span: an attempt asks some forty, and spans cost more than most of these do
(`bench_tracing`)."""
UNREMARKABLE = frozenset({Code.SKIP})

Attributes = dict[str, "str | int"]
_Plugin = tuple[str, str, "plugin_status.Status | None", float, float]


class PodTrace:
    """The spans of one attempt, until it ends. A cycle is begun and ended; between the two it is the parent of what is reported.

    Spans are made when they end, as the SDK hands them to its processors: its own ones, made to be changed by several threads, cost several
    times as much.
    """

    def __init__(self, tracing: Tracing, info: QueuedPodInfo, trace_id: int, parent: SpanContext | None) -> None:
        self._tracing, clock = tracing, tracing.clock
        self._perf = clock.perf
        self._offset = clock.now() - clock.perf()
        metadata = info.pod_info.pod.metadata
        self.uid = info.uid
        self.awaits_binding = False
        self.ended = False
        self.trace_id = trace_id
        self.context = tracing.context(trace_id)
        self._parent = parent
        self._plugins: list[_Plugin] = []
        self._cycle: tuple[str, SpanContext, int] | None = None
        self._attributes: Attributes = {
            NAMESPACE: metadata.namespace,
            POD: metadata.name,
            UID: info.uid,
            PROFILE: info.profile,
            ATTEMPT: info.attempts,
        }
        popped = self._at(clock.perf())
        self._began = popped
        if parent is None:
            self._began = min(int(info.timestamp * NANOSECONDS), popped)
            tracing.emit(QUEUE, tracing.context(trace_id), self.context, began=self._began, ended=popped, attributes={})

    def begin(self, cycle: str) -> None:
        """Begin a cycle, which ends the one before."""
        self.end_cycle()
        self._cycle = (cycle, self._tracing.context(self.trace_id), self._at(self._perf()))

    def end_cycle(self) -> None:
        """End the cycle that it is in, if any."""
        if self._cycle is not None:
            name, context, began = self._cycle
            for plugin in self._plugins:
                self._emit_plugin(plugin, context)
            self._plugins.clear()
            self._cycle = None
            self._tracing.emit(name, context, self.context, began=began, ended=self._at(self._perf()), attributes={})

    def plugin_ended(self, plugin: str, point: str, status: plugin_status.Status | None, seconds: float) -> None:
        if seconds >= LEAST_PLUGIN_SECONDS or not (status is None or status.code in UNREMARKABLE):
            ended = self._perf()
            self._plugins.append((plugin, INSIDE.get(point, point), status, ended - seconds, ended))

    def point_ended(self, point: str, status: plugin_status.Status | None, started: float, ended: float) -> None:
        parent = self.context if self._cycle is None else self._cycle[1]
        context = self._tracing.context(self.trace_id)
        if self._plugins:
            asked = [plugin for plugin in self._plugins if plugin[1] == point]
            self._plugins = [plugin for plugin in self._plugins if plugin[1] != point]
            for plugin in asked:
                started = min(started, plugin[3])  # whether a pod is admitted is asked before PreFilter of its shape is
                self._emit_plugin(plugin, context)
        times = {"began": self._at(started), "ended": self._at(ended)}
        self._tracing.emit(POINT_SPANS.get(point, point), context, parent, **times, attributes=_described(status), status=status)

    def waited(self, started: float, status: plugin_status.Status | None) -> None:
        """Report how long the pod waited on Permit."""
        self.point_ended(WAIT_ON_PERMIT, status, started, self._perf())

    def end(self, result: str, reason: str = "", node: str = "") -> None:
        """End the attempt with its result, and say why."""
        if self.ended:
            return
        self.end_cycle()
        self.ended = True
        attributes = self._attributes
        attributes[RESULT] = result
        if node:
            attributes[NODE] = node
        if reason:
            attributes[REASON] = reason
        failed = error(reason) if result == "error" else None
        times = {"began": self._began, "ended": self._at(self._perf())}
        self._tracing.emit(SCHEDULE_ONE, self.context, self._parent, **times, attributes=attributes, status=failed)

    def _emit_plugin(self, plugin: _Plugin, parent: SpanContext) -> None:
        name, point, status, started, ended = plugin
        attributes: Attributes = {PLUGIN: name, POINT: point, **_described(status)}
        context, times = self._tracing.context(self.trace_id), {"began": self._at(started), "ended": self._at(ended)}
        self._tracing.emit(name, context, parent, **times, attributes=attributes, status=status)

    def _at(self, perf: float) -> int:
        return int((perf + self._offset) * NANOSECONDS)


def _described(status: plugin_status.Status | None) -> Attributes:
    """Say what an extension point or a plugin answered; None is success."""
    if status is None:
        return {STATUS: "Success"}
    attributes: Attributes = {STATUS: status.code.value}
    if status.reasons:
        attributes[REASON] = status.message
    if status.plugin:
        attributes[PLUGIN] = status.plugin
    return attributes


class Tracing:
    """Decides which attempts are traced, and knows those under way by the pod's uid.

    sampled: returns the id of a new trace, or 0 where it is not to be. processor: is handed each span that has ended.
    """

    def __init__(self, processor: SpanProcessor, resource: Resource, sampled: Callable[[], int], clock: Clock) -> None:
        self.sampled = sampled
        self.clock = clock
        self.under_way: dict[str, PodTrace] = {}
        self._on_end = processor.on_end
        self._resource = resource
        self._scope = InstrumentationScope("koordsched", __version__)
        self._new_span_id = RandomIdGenerator().generate_span_id

    def failure_handler(self, *args: Any) -> FailureHandler:
        """Return what handles failures and ends traces; arguments are those of the plain one, also below."""
        return TracedFailures(self, *args)

    def cycle(self, *args: Any, **kwargs: Any) -> Cycle:
        """Return the scheduling cycle that traces."""
        return TracedCycle(self, *args, **kwargs)

    def context(self, trace_id: int) -> SpanContext:
        """Return the context of a new span of a trace."""
        return SpanContext(trace_id, self._new_span_id(), is_remote=False, trace_flags=SAMPLED)

    def emit(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        *,
        began: int,
        ended: int,
        attributes: Attributes,
        status: plugin_status.Status | None = None,
    ) -> None:
        """Hand over a span, which is as long as it says, in nanoseconds since the epoch. An error is the span's, too."""
        failed = status is not None and status.code is Code.ERROR
        self._on_end(
            ReadableSpan(
                name,
                context,
                parent,
                self._resource,
                attributes,
                kind=SpanKind.INTERNAL,
                status=Status(StatusCode.ERROR, status.message) if failed and status is not None else UNSET,
                start_time=began,
                end_time=max(began, ended),
                instrumentation_scope=self._scope,
            )
        )

    def begin(self, info: QueuedPodInfo, trace_id: int, parent: SpanContext | None = None) -> PodTrace:
        """Begin the trace of an attempt, or a part of that which has the parent."""
        trace = self.under_way[info.uid] = PodTrace(self, info, trace_id, parent)
        return trace

    def end(self, uid: str, result: str, reason: str = "", node: str = "") -> None:
        """End the trace of a pod's attempt, if it has one."""
        trace = self.under_way.pop(uid, None)
        if trace is not None:
            trace.end(result, reason, node)

    def end_if_open(self, trace: PodTrace, result: str) -> None:
        """End a trace of which nothing has said what became of the pod."""
        if not trace.ended:
            self.end(trace.uid, result)


class TracedCycle(Cycle):
    """Takes pods from the queue to their nodes, and traces some of them."""

    def __init__(self, tracing: Tracing, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, make_binding=partial(TracedBindingCycles, tracing))
        self.tracing = tracing

    def schedule(self, info: QueuedPodInfo, resumed: Attempt | None = None) -> Coroutine[None, None, None] | None:
        trace_id = 0 if resumed is not None or info.profile not in self._context.profiles else self.tracing.sampled()
        if not trace_id:
            return super().schedule(info, resumed)
        trace = self.tracing.begin(info, trace_id)
        trace.begin(SCHEDULING_CYCLE)
        self._context.profiles[info.profile].timings.recording = True  # so that each plugin is timed
        token = UNDER_WAY.set(trace)
        try:
            rest = super().schedule(info)
        finally:
            UNDER_WAY.reset(token)
        if rest is not None:
            return self._rest(trace, rest)
        self._end_cycle(trace)
        return None

    async def _rest(self, trace: PodTrace, rest: Coroutine[None, None, None]) -> None:
        """Go on with what extenders, PostFilter or a group's turn take part in. The loop awaits it before the next pod."""
        token = UNDER_WAY.set(trace)
        try:
            await rest
        finally:
            UNDER_WAY.reset(token)
            self._end_cycle(trace)

    def _end_cycle(self, trace: PodTrace) -> None:
        if not trace.awaits_binding:
            self.tracing.end_if_open(trace, "skipped")  # it is being deleted, or placed already


class TracedBindingCycles(BindingCycles):
    """Binds assumed pods, and traces those whose attempts are."""

    def __init__(self, tracing: Tracing, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tracing = tracing

    def permit(self, attempt: Attempt) -> None:
        trace, first = self.tracing.under_way.get(attempt.pod.uid), UNDER_WAY.get()
        if trace is None and isinstance(first, PodTrace):  # a member of the group of the pod that was popped
            trace = self.tracing.begin(attempt.info, first.trace_id, first.context)
            trace.begin(SCHEDULING_CYCLE)
        if trace is None:
            super().permit(attempt)
            return
        token = UNDER_WAY.set(trace)
        try:
            super().permit(attempt)
        finally:
            UNDER_WAY.reset(token)
        if not trace.ended:
            trace.awaits_binding = True
            trace.end_cycle()

    async def _bind(self, attempt: Attempt) -> None:
        trace = self.tracing.under_way.get(attempt.pod.uid)
        token = UNDER_WAY.set(trace)  # also without one: the task goes on after a traced cycle
        try:
            if trace is not None:
                trace.begin(BINDING_CYCLE)
            await super()._bind(attempt)
        finally:
            UNDER_WAY.reset(token)
            if trace is not None:
                self.tracing.end_if_open(trace, "interrupted")  # the scheduler stops

    async def _wait_on_permit(self, waiting: WaitingPod) -> plugin_status.Status | None:
        started = self._context.clock.perf()
        status = await super()._wait_on_permit(waiting)
        trace = self.tracing.under_way.get(waiting.pod.uid)
        if trace is not None:
            trace.waited(started, status)
        return status

    def _bound(self, attempt: Attempt) -> None:
        super()._bound(attempt)
        self.tracing.end(attempt.pod.uid, "scheduled", node=attempt.node)


class TracedFailures(FailureHandler):
    """Handles attempts that failed, and ends their traces."""

    def __init__(self, tracing: Tracing, *args: Any) -> None:
        super().__init__(*args)
        self.tracing = tracing

    def handle(self, failure: Failure) -> None:
        super().handle(failure)
        self.tracing.end(failure.info.uid, "unschedulable" if failure.rejected else "error", failure.message)
