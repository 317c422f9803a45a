"""What plugins may have done for them (`framework.services`): the queue, the recorders, tasks in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.log import get_logger
from koordsched.scheduler.status_writer import Said
from koordsched.tasks import Tasks, call_later

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo
    from koordsched.cluster.event_series import EventText
    from koordsched.framework.profile import Profile
    from koordsched.queue.nominator import Nominator
    from koordsched.scheduler.framework_metrics import PreemptionMeasures
    from koordsched.scheduler.parts import Parts

log = get_logger(__name__)


class SchedulerServices:
    """The services of one scheduler."""

    def __init__(self, parts: Parts, profiles: Mapping[str, Profile]) -> None:
        self._parts = parts
        self._profiles = profiles
        self._tasks = Tasks(parts.random)
        self._timers: set[asyncio.TimerHandle] = set()

    @property
    def nominator(self) -> Nominator:
        return self._parts.queue.nominator

    @property
    def preemption_metrics(self) -> PreemptionMeasures:
        return self._parts.metrics.framework.preemption

    def volume_stage_failed(self, operation: str) -> None:
        self._parts.metrics.framework.volume_stage_errors.add(operation)

    @property
    def running(self) -> int:
        """Return how many tasks have not ended."""
        return len(self._tasks)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self._parts.queue.activate(pods)

    def withdraw_nomination(self, pod: PodInfo) -> None:
        self._parts.queue.nominate(pod, "")
        self._parts.status_writer.say(pod.pod, Said(nominated=""))

    def fits(self, pod: PodInfo, node: NodeInfo, add: Iterable[PodInfo], remove: Iterable[PodInfo]) -> bool:
        profile = self._profiles.get(pod.pod.spec.scheduler_name)
        if profile is None:
            return True
        try:
            supposing = profile.shapes.suppose(profile.shapes.find(pod))
            return supposing.refusal(pod, node, add=add, remove=remove) is None
        except Exception:
            log.exception("could not tell whether a nominated pod still fits", pod=pod.key, node=node.name)
            return True

    def event(self, profile: str, regarding: Pod, text: EventText, related: Pod) -> None:
        self._parts.events(profile).event(regarding, text, related=related)

    def event_on(self, regarding: Object, text: EventText) -> None:
        self._parts.events(next(iter(self._profiles))).event(regarding, text)

    def malformed_object(self, kind: str) -> None:
        self._parts.metrics.framework.malformed_objects.add(kind)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.once(getattr(work, "__qualname__", "a plugin's task"), work)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        def due() -> None:
            self._timers.discard(timer)
            call()

        timer = call_later(seconds, due)
        self._timers.add(timer)

    async def end(self) -> None:
        """Cancel all that is under way."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        await self._tasks.end()
