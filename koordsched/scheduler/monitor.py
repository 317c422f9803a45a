"""The monitor of scheduling: says which pods have been under way for too long (frameworkext.md §4.3).

A pod is under way from its pop until it is bound, or until its attempt has failed; waiting on Permit or for volumes is part of it. Nothing
is recorded for it: the queue knows when the pod was popped, and queue and binding cycles know which pods are under way. So a pod that is
bound in time costs a comparison.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from koordsched.config.duration import Duration
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koordsched.clock import Clock
    from koordsched.config.flag_table import Flags
    from koordsched.framework.waiting import WaitingPods
    from koordsched.queue.queued_pod import QueuedPodInfo

log = get_logger(__name__)


class SchedulingMonitor:
    """Counts and logs attempts that take longer than `--scheduling-timeout`, at each look and once more when they end."""

    def __init__(self, clock: Clock, flags: Flags, waiting_pods: WaitingPods, count: Callable[[str], None]) -> None:
        """count: called with the name of the profile."""
        self.timeout = float(flags.scheduling_timeout)
        self._period = float(flags.scheduler_monitor_period)
        self._clock = clock
        self._waiting_pods = waiting_pods
        self._count = count

    async def run(self, under_way: Callable[[], Iterable[QueuedPodInfo]]) -> None:
        """Look every period, until cancelled; not where no attempt can be too long yet: a trace of months is simulated in minutes.

        A period that is not positive: never.
        """
        if self._period <= 0:
            return
        while True:
            since = min([info.since for info in under_way()], default=self._clock.now())
            ticks = math.ceil((since + self.timeout - self._clock.now()) / self._period)
            await asyncio.sleep(max(1, ticks) * self._period)
            self.look(under_way())

    def look(self, under_way: Iterable[QueuedPodInfo]) -> None:
        """Report the attempts that take too long."""
        now = self._clock.now()
        for info in under_way:
            if now - info.since > self.timeout:
                self._report(info, now)

    def ended(self, info: QueuedPodInfo, now: float) -> None:
        """Report an attempt that has ended, if it took too long."""
        if now - info.since > self.timeout:
            self._report(info, now)

    def _report(self, info: QueuedPodInfo, now: float) -> None:
        waiting = self._waiting_pods.get(info.uid)
        took, allowed = Duration(round(now - info.since, 3)).text, Duration(self.timeout).text
        log.warning(
            f"!!!CRITICAL TIMEOUT!!! scheduling pod {info.key}({info.uid}) took longer ({took}) than the timeout {allowed}",
            waits_on_permit=[] if waiting is None else sorted(waiting.pending_plugins),
        )
        self._count(info.profile)
