"""The scheduler as plugins see it (`framework.handle.Handle`): its state, and what it does for them once it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.framework.plugin_metrics import PluginMetrics
from koordsched.log import get_logger
from koordsched.scheduler.origins import PodStatusUpdate
from koordsched.tasks import Tasks, call_later

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable

    from koordsched.api.core import Pod
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.columns import Columns
    from koordsched.cache.nodes import NodeInfo
    from koordsched.cluster.event_series import EventText
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.object_store import Handler
    from koordsched.config.flag_table import Flags
    from koordsched.framework.handle import PreemptionExtenders
    from koordsched.framework.simulation import NodeSimulation
    from koordsched.framework.transformers import Transformer
    from koordsched.queue.events import AdmissionKey, ClusterEvent
    from koordsched.queue.nominator import Nominator
    from koordsched.queue.scheduling_queue import SchedulingQueue
    from koordsched.scheduler.context import SchedulerContext
    from koordsched.scheduler.metrics import PreemptionCollectors

log = get_logger(__name__)

SCHEDULING_GATED = "SchedulingGated"


class PluginHandle:
    """The handle of one scheduler, the same for all plugins of all profiles."""

    def __init__(self, context: SchedulerContext, flags: Flags, extenders: PreemptionExtenders | None) -> None:
        self.cluster = context.cluster
        self.clock = context.clock
        self.random = context.random
        self.cache = context.cache
        self.waiting_pods = context.waiting_pods
        self.flags = flags
        self.gates = flags.gates
        self.metrics = PluginMetrics(context.metrics.collectors)
        self.extenders = extenders
        self._context = context
        self._tasks = Tasks(context.random)
        self._timers: set[asyncio.TimerHandle] = set()

    @property
    def columns(self) -> Columns:
        return self.cache.columns

    def informer(self, kind: Kind, field_selector: str = "") -> Informer[Any]:
        return self._context.informers.of(kind, field_selector)

    def follow_reserve_pods(self, handler: Handler[Pod]) -> None:
        self._context.reserve_pod_handlers.append(handler)

    def add_transformer(self, transformer: Transformer) -> None:
        self._context.informers.add_transformer(transformer)

    # Once the scheduler runs

    @property
    def _queue(self) -> SchedulingQueue:
        try:
            return self._context.queue
        except AttributeError:
            raise LookupError("a plugin asked for the queue before the scheduler was made") from None

    @property
    def nominator(self) -> Nominator:
        return self._queue.nominator

    def has_backlog(self) -> bool:
        return self._context.has_backlog

    @property
    def preemption_metrics(self) -> PreemptionCollectors:
        return self._context.metrics.framework.preemption

    def volume_stage_failed(self, operation: str) -> None:
        self._context.metrics.framework.volume_stage_errors.increment(operation)

    def malformed_object(self, kind: str) -> None:
        self._context.metrics.framework.malformed_objects.increment(kind)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self._queue.activate(pods)

    def announce(self, event: ClusterEvent, key: AdmissionKey | None = None, *, regarding: Object | None = None) -> None:
        if key is None:
            self._queue.move_all(event, regarding, None)
        else:
            self._queue.announce(event, key)

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        self._queue.nominate(pod, node_name)
        self._context.status_writer.update(pod.pod, PodStatusUpdate(nominated=node_name))

    def report_gated(self, pod: PodInfo, message: str) -> None:
        self._context.status_writer.update(pod.pod, PodStatusUpdate(SCHEDULING_GATED, message))

    def simulation(self, pod: PodInfo) -> NodeSimulation:
        return self._context.profiles[pod.pod.spec.scheduler_name].shapes.simulation_for(pod)

    def fits(self, pod: PodInfo, node: NodeInfo, add: Iterable[PodInfo], remove: Iterable[PodInfo]) -> bool:
        if pod.pod.spec.scheduler_name not in self._context.profiles:
            return True
        try:
            return self.simulation(pod).simulate_on_node(pod, node, add=add, remove=remove) is None
        except Exception:
            log.exception("could not find out whether a nominated pod still fits", pod=pod.key, node=node.name)
            return True

    def event(self, profile: str, regarding: Pod, text: EventText, related: Pod) -> None:
        self._context.events(profile).event(regarding, text, related=related)

    def event_on(self, regarding: Object, text: EventText) -> None:
        self._context.events(next(iter(self._context.profiles))).event(regarding, text)

    @property
    def running(self) -> int:
        """Return how many tasks have not ended."""
        return len(self._tasks)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.once(getattr(work, "__qualname__", "a plugin's task"), work)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        def due() -> None:
            self._timers.discard(timer)
            call()

        timer = call_later(seconds, due)
        self._timers.add(timer)

    async def end(self) -> None:
        """Cancel all tasks and timers."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        await self._tasks.end()
