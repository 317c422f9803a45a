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

from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

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
from koordsched.framework.status import Code
from koordsched.framework.timings import PRE_BIND_PRE_FLIGHT, PRE_BIND_RESERVATION, RESIZE_POD, UNRESERVE
from koordsched.framework.tracing import UNDER_WAY
from koordsched.scheduler.binding_cycle import BindingCycles
from koordsched.scheduler.cycle import Cycle
from koordsched.scheduler.failure import FailureHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

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

PLUGIN, POINT, STATUS, REASON = "scheduler.plugin", "scheduler.extension_point", "scheduler.status", "scheduler.reason"
RESULT, PROFILE, ATTEMPT = "scheduler.result", "scheduler.profile", "scheduler.attempt"
POD, NAMESPACE, UID, NODE = "k8s.pod.name", "k8s.namespace.name", "k8s.pod.uid", "k8s.node.name"

_Plugin = tuple[str, str, "plugin_status.Status | None", float, float]


class PodTrace:
    """The spans of one attempt, until it ends. `phase` is the span of the cycle that it is in, None before, between and after."""

    def __init__(self, tracing: Tracing, info: QueuedPodInfo, parent: Context | None) -> None:
        self._tracer, clock = tracing.tracer, tracing.clock
        self._perf = clock.perf
        self._offset = clock.now() - clock.perf()
        metadata = info.pod_info.pod.metadata
        self.uid = info.uid
        self.awaits_binding = False
        self.ended = False
        self._plugins: list[_Plugin] = []
        attributes = {
            NAMESPACE: metadata.namespace,
            POD: metadata.name,
            UID: info.uid,
            PROFILE: info.profile,
            ATTEMPT: info.attempts,
        }
        queued = self._nanoseconds(info.timestamp) if parent is None else self._at(clock.perf())
        self.span = self._tracer.start_span(SCHEDULE_ONE, parent, SpanKind.INTERNAL, attributes, start_time=queued)
        self.context = set_span_in_context(self.span)
        self.phase: Span | None = None
        if parent is None:
            self._add(QUEUE, self.context, queued, self._at(clock.perf()))

    def begin(self, cycle: str) -> None:
        """Begin a cycle, which ends the one before."""
        self.end_phase()
        self.phase = self._tracer.start_span(cycle, self.context, SpanKind.INTERNAL, start_time=self._at(self._perf()))

    def end_phase(self) -> None:
        """End the cycle that it is in, if any."""
        if self.phase is not None:
            for plugin in self._plugins:
                self._add_plugin(plugin, set_span_in_context(self.phase))
            self._plugins.clear()
            self.phase.end(self._at(self._perf()))
            self.phase = None

    def plugin_ended(self, plugin: str, point: str, status: plugin_status.Status | None, seconds: float) -> None:
        ended = self._perf()
        self._plugins.append((plugin, INSIDE.get(point, point), status, ended - seconds, ended))

    def point_ended(self, point: str, status: plugin_status.Status | None, started: float, ended: float) -> None:
        context = self.context if self.phase is None else set_span_in_context(self.phase)
        asked = [plugin for plugin in self._plugins if plugin[1] == point]
        if asked:
            started = min(started, asked[0][3])  # whether a pod is admitted is asked before PreFilter of its shape is
        span = self._tracer.start_span(POINT_SPANS.get(point, point), context, SpanKind.INTERNAL, start_time=self._at(started))
        _describe(span, status)
        if asked:
            self._plugins = [plugin for plugin in self._plugins if plugin[1] != point]
            within = set_span_in_context(span)
            for plugin in asked:
                self._add_plugin(plugin, within)
        span.end(self._at(ended))

    def waited(self, started: float, status: plugin_status.Status | None) -> None:
        """Report how long the pod waited on Permit."""
        self.point_ended(WAIT_ON_PERMIT, status, started, self._perf())

    def end(self, result: str, reason: str = "", node: str = "") -> None:
        """End the attempt with its result, and say why."""
        if self.ended:
            return
        self.end_phase()
        self.ended = True
        self.span.set_attribute(RESULT, result)
        if node:
            self.span.set_attribute(NODE, node)
        if reason:
            self.span.set_attribute(REASON, reason)
        if result == "error":
            self.span.set_status(Status(StatusCode.ERROR, reason))
        self.span.end(self._at(self._perf()))

    def _add_plugin(self, plugin: _Plugin, context: Context) -> None:
        name, point, status, started, ended = plugin
        span = self._tracer.start_span(name, context, SpanKind.INTERNAL, {PLUGIN: name, POINT: point}, start_time=self._at(started))
        _describe(span, status)
        span.end(self._at(ended))

    def _add(self, name: str, context: Context, started: int, ended: int) -> None:
        self._tracer.start_span(name, context, SpanKind.INTERNAL, start_time=started).end(max(started, ended))

    def _at(self, perf: float) -> int:
        return self._nanoseconds(perf + self._offset)

    def _nanoseconds(self, seconds: float) -> int:
        return int(seconds * NANOSECONDS)


def _describe(span: Span, status: plugin_status.Status | None) -> None:
    """Say what an extension point or a plugin answered; None is success."""
    if status is None:
        span.set_attribute(STATUS, "Success")
        return
    span.set_attribute(STATUS, status.code.value)
    if status.reasons:
        span.set_attribute(REASON, status.message)
    if status.plugin:
        span.set_attribute(PLUGIN, status.plugin)
    if status.code is Code.ERROR:
        span.set_status(Status(StatusCode.ERROR, status.message))


class Tracing:
    """Decides which attempts are traced, and knows those under way by the pod's uid.

    sampled: answers for the trace that begins now. tracer: makes the spans of traces that are sampled.
    """

    def __init__(self, tracer: Tracer, sampled: Callable[[], bool], clock: Clock) -> None:
        self.tracer = tracer
        self.sampled = sampled
        self.clock = clock
        self.under_way: dict[str, PodTrace] = {}

    def failure_handler(self, *args: Any) -> FailureHandler:
        """Return what handles failures and ends traces; arguments are those of the plain one, also below."""
        return TracedFailures(self, *args)

    def cycle(self, *args: Any, **kwargs: Any) -> Cycle:
        """Return the scheduling cycle that traces."""
        return TracedCycle(self, *args, **kwargs)

    def begin(self, info: QueuedPodInfo, parent: Context | None = None) -> PodTrace:
        """Begin the trace of an attempt, or a part of that which has the parent."""
        trace = self.under_way[info.uid] = PodTrace(self, info, parent)
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
        if resumed is not None or info.profile not in self._context.profiles or not self.tracing.sampled():
            return super().schedule(info, resumed)
        trace = self.tracing.begin(info)
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
            trace = self.tracing.begin(attempt.info, first.context)
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
            trace.end_phase()

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
