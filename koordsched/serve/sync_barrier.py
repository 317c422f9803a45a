"""The sync barrier: a new leader schedules once it has seen what the one before it has bound (frameworkext.md §1.4, gate SyncBarrier).

It writes an annotation to a pod that exists for this, and waits until its watch of pods has come as far as that write. What was bound
before has an earlier resource version, so it is in the store by then, and whatever is in the store is counted on its node, unless a handler
has failed on it. Nothing here can keep a cluster from being scheduled: without the pod, or when the time is over, scheduling begins.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from koordsched.api.kinds import POD
from koordsched.cluster.event_body import micro_time
from koordsched.cluster.port import ClusterError, NotFound, Patch, Ref
from koordsched.log import get_logger

if TYPE_CHECKING:
    from koordsched.api.core import Pod
    from koordsched.clock import Clock
    from koordsched.cluster.port import Cluster
    from koordsched.config import Flags

log = get_logger(__name__)

GATE = "SyncBarrier"
ANNOTATION = "scheduling.koordinator.sh/sync-barrier-"
POLL_SECONDS = 0.1
ENDED = ("Succeeded", "Failed")
"""Phases of pods that the scheduler does not watch: it would not see that one of these was written."""


class PodsSeen(Protocol):
    """A scheduler, as far as it follows pods."""

    def has_seen_pods_until(self, version: str) -> bool:
        """Answer whether every change of pods up to this resource version has been taken in."""


class SyncBarrier(NamedTuple):
    """The barrier of one process. pod: the barrier pod; lease: the name of the Lease that this process has won."""

    pod: Ref
    lease: str
    seconds: float

    @classmethod
    def of(cls, flags: Flags, lease: str) -> SyncBarrier | None:
        """Return the barrier that the flags ask for, None for none."""
        name = flags.sync_barrier_pod_name
        if not flags.gates[GATE] or not name:
            return None
        return cls(Ref(POD, flags.sync_barrier_pod_namespace, name), lease, float(flags.sync_hard_timeout))

    async def wait(self, cluster: Cluster, clock: Clock, scheduler: PodsSeen) -> None:
        """Return when the scheduler has seen all that was bound before this was called, or when there is no use in waiting."""
        where = f"{self.pod.namespace}/{self.pod.name}"
        try:
            async with asyncio.timeout(self.seconds):
                pod = await self._write(cluster, clock)
                version = pod.metadata.resource_version
                if pod.status.phase in ENDED:
                    raise NotFound("the barrier pod has ended")
                while not scheduler.has_seen_pods_until(version):  # noqa: ASYNC110  # looked at every 100 ms, as in the reference
                    await asyncio.sleep(POLL_SECONDS)
        except NotFound as error:
            log.warning("there is no barrier pod: scheduling begins with what is known", pod=where, err=error.message)
        except TimeoutError:
            log.warning("the sync barrier was not passed in time: scheduling begins with what is known", pod=where, seconds=self.seconds)
        else:
            log.info("the sync barrier is passed: all that was bound before is known", pod=where, version=version)

    async def _write(self, cluster: Cluster, clock: Clock) -> Pod:
        """Annotate the barrier pod, however many tries it takes, and return it as it is then. NotFound."""
        while True:
            change = Patch({"metadata": {"annotations": {ANNOTATION + self.lease: micro_time(clock.now())}}})
            try:
                return cast("Pod", await cluster.patch(self.pod, change))
            except NotFound:
                raise
            except ClusterError as error:
                log.info("the barrier pod could not be written; it is tried again", err=error.message, status=error.status)
            await asyncio.sleep(POLL_SECONDS)
