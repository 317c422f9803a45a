"""A scheduler on a cluster in memory, in virtual time.

The same `Scheduler` as on a real cluster runs here, on a loop that jumps to its next timer; only the clock, the random numbers and the
cluster that it is given differ. One seed, one outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from koordsched.api.kinds import POD, Kind
from koordsched.clock import VIRTUAL_EPOCH, VirtualClock, VirtualTimeLoop
from koordsched.cluster.memory import MemoryCluster, MemoryClusterOptions
from koordsched.cluster.memory.schemas import has_status_resource
from koordsched.cluster.port import NotFound, Patch, Ref
from koordsched.config.flag_table import Flags
from koordsched.config.types import SchedulerConfiguration
from koordsched.scheduler.scheduler import Dependencies, Scheduler

T = TypeVar("T")
C = TypeVar("C", bound="EmbeddedCluster")

SETTLE_SECONDS = 0.1
SETTLE_STEPS = 10


class EmbeddedOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to make an embedded cluster. `lasting`: the virtual time is long (months), so watches neither send bookmarks nor end.
    `suppressed`: reasons of events that are not recorded. `measured`: whether the metrics of plugins are recorded. `epoch`: the time at
    which it begins, in seconds since the Unix epoch."""

    config: SchedulerConfiguration
    flags: Flags
    seed: int = 0
    lasting: bool = False
    suppressed: frozenset[str] = frozenset()
    measured: bool = True
    epoch: float = VIRTUAL_EPOCH


class EmbeddedCluster:
    """A cluster in memory and one scheduler on it, which is not running until `start`. Lives on the running `VirtualTimeLoop`."""

    def __init__(self, loop: VirtualTimeLoop, options: EmbeddedOptions, cluster: MemoryCluster | None = None) -> None:
        """cluster: an existing one, of the same time, in place of a new one."""
        self.clock = VirtualClock(loop, options.epoch)
        self.cluster = cluster or self._new_cluster(options)
        self._loop = loop
        self._options = options
        self._random = Random(f"scheduler {options.seed}")
        self.scheduler = self._new_scheduler()

    def _new_cluster(self, options: EmbeddedOptions) -> MemoryCluster:
        forever = 1e12
        behaviour = MemoryClusterOptions(volume_controller=True)
        if options.lasting:
            behaviour = replace(behaviour, bookmark_interval=forever, watch_seconds=(forever, forever))
        return MemoryCluster(self.clock, random=Random(f"cluster {options.seed}"), options=behaviour)

    def scheduled_apart(self, cluster: MemoryCluster) -> EmbeddedCluster:
        """Return another cluster, such as a copy of this one, with a new scheduler of the same options, in the same virtual time."""
        return EmbeddedCluster(self._loop, self._options, cluster)

    def now(self) -> float:
        return self.clock.now()

    async def start(self) -> None:
        """Start the scheduler; return when it has seen all that exists."""
        await self.scheduler.start()

    async def stop(self) -> None:
        """Stop the scheduler gracefully."""
        await self.scheduler.stop()

    async def restart(self) -> None:
        """End the scheduler as kill -9 would, and start a new one on the same cluster."""
        await self.scheduler.kill()
        self.scheduler = self._new_scheduler()
        await self.scheduler.start()

    def notes(self) -> list[str]:
        """Name the configured plugins that this version does not have, since the outcome would be another with them."""
        missing = {name: ", ".join(sorted(profile.missing)) for name, profile in self.scheduler.profiles.items() if profile.missing}
        return [f"note: profile {name} without {plugins}: this version does not have them" for name, plugins in missing.items()]

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def settle(self) -> None:
        """Let the scheduler react to what was written, until it has nothing left to do, for at most 0.1 s of virtual time."""
        for _ in range(SETTLE_STEPS):
            await asyncio.sleep(SETTLE_SECONDS / SETTLE_STEPS)
            if self.scheduler.idle():
                return

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> None:
        """Create the object with its status, which may take a second write."""
        made = await self.cluster.create(kind, body)
        if "status" not in body:
            return
        ref = Ref(kind, made.metadata.namespace, made.metadata.name)
        if "status" not in self.cluster.raw(ref):
            await self.cluster.patch(ref, Patch({"status": body["status"]}, subresource="status"))

    async def patch(self, ref: Ref, merge: Mapping[str, Any]) -> None:
        """Apply a merge patch, the `status` of it to the status subresource where the kind has one."""
        if not has_status_resource(ref.kind):
            await self.cluster.patch(ref, Patch(merge))
            return
        rest = {key: value for key, value in merge.items() if key != "status"}
        if rest or "status" not in merge:
            await self.cluster.patch(ref, Patch(rest))
        if "status" in merge:
            await self.cluster.patch(ref, Patch({"status": merge["status"]}, subresource="status"))

    async def delete(self, ref: Ref) -> None:
        await self.cluster.delete(ref, grace_period_seconds=0 if ref.kind == POD else None)

    async def get(self, ref: Ref) -> dict[str, Any] | None:
        try:
            return self.cluster.raw(ref)
        except NotFound:
            return None

    async def list(self, kind: Kind) -> Sequence[dict[str, Any]]:
        return self.cluster.raws(kind)

    def _new_scheduler(self) -> Scheduler:
        options = self._options
        dependencies = Dependencies(self.cluster, self.clock, self._random, options.flags, options.suppressed, options.measured)
        return Scheduler(options.config, dependencies)


def run_embedded(options: EmbeddedOptions, script: Callable[[EmbeddedCluster], Awaitable[T]]) -> T:
    """Run a script on a new embedded cluster in a new virtual time, and clear both away whatever the script raises."""
    return run_made(partial(EmbeddedCluster, options=options), script)


def run_made(make: Callable[[VirtualTimeLoop], C], script: Callable[[C], Awaitable[T]]) -> T:
    """Do the same on a cluster that `make` returns."""
    loop = VirtualTimeLoop()
    outcome: list[T] = []  # not the task's result: asyncio.Runner writes its task, result and all, into a text that is never read

    async def main() -> None:
        cluster = make(loop)
        try:
            outcome.append(await script(cluster))
        finally:
            await cluster.scheduler.kill()

    run_virtual(loop, main())
    return outcome[0]


def run_virtual(loop: VirtualTimeLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop to its end; then cancel what it left behind and close the loop."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)
