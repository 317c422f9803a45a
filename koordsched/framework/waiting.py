"""Waiting pods: pods that a Permit plugin lets wait before they are bound (framework.md §2.1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koordsched.config.duration import Duration
from koordsched.framework.status import Status, unschedulable
from koordsched.tasks import call_later

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koordsched.api.podinfo import PodInfo

MAX_WAIT_SECONDS = 15 * 60.0
JOB_PREEMPTED, JOB_REJECTED = "JobPreemptionSuccessPlugin", "JobRejectPlugin"
"""Koordinator's names, under which plugins reject waiting pods of a job. They say what becomes of nominations (frameworkext.md §4.1):
evictions make room for the job, where its pods were to go; or another one of its pods was refused."""


class WaitingPod:
    """One pod and the plugins it waits for. The first refusal, or the last approval, ends the wait."""

    def __init__(self, pod: PodInfo, node_name: str, timeouts: Mapping[str, float], since: float = 0.0) -> None:
        """timeouts: seconds by plugin. since: when the wait begins, in seconds since the epoch."""
        self.pod = pod
        self.node_name = node_name
        self.since = since
        self._outcome: asyncio.Future[Status | None] = asyncio.get_running_loop().create_future()
        self._timers = {
            name: call_later(min(seconds, MAX_WAIT_SECONDS), self._time_out, name, seconds) for name, seconds in timeouts.items()
        }

    @property
    def pending_plugins(self) -> frozenset[str]:
        """Return the plugins that have not allowed the pod yet."""
        return frozenset(self._timers)

    def allow(self, plugin: str) -> None:
        """Let this plugin no longer hold the pod; when it was the last one the pod goes on."""
        timer = self._timers.pop(plugin, None)
        if timer is None:
            return
        timer.cancel()
        if not self._timers:
            self._end(None)

    def reject(self, plugin: str, message: str) -> None:
        """Send the pod back, refused by this plugin."""
        self._end(unschedulable(message).with_plugin(plugin))

    async def outcome(self) -> Status | None:
        """Wait; None when every plugin allowed the pod."""
        return await self._outcome

    def _time_out(self, plugin: str, seconds: float) -> None:
        text = Duration(min(seconds, MAX_WAIT_SECONDS)).text
        self.reject(plugin, f"rejected due to timeout after waiting {text} at plugin {plugin}")

    def _end(self, status: Status | None) -> None:
        for timer in self._timers.values():
            timer.cancel()
        if not self._outcome.done():
            self._outcome.set_result(status)


class WaitingPods:
    """All waiting pods by uid, shared by all profiles."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def add(self, waiting: WaitingPod) -> None:
        self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
