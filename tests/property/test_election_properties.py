"""Whatever the network and the machines do, no two candidates may act at the same time, and when all is well again one does."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.virtual_loop import run_virtual

from koordsched.api.kinds import LEASE
from koordsched.cluster.election import ElectionConfig, Elector, LeaderTerm, Timing
from koordsched.cluster.memory import Fault, Faults, MemoryCluster, Moment
from koordsched.cluster.port import ClusterError, OutcomeUnknown, Ref, ServerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.clock import VirtualClock

LEASE_REF = Ref(LEASE, "kube-system", "s")
TIMINGS = [Timing(15.0, 10.0, 2.0), Timing(15.0, 14.0, 10.0), Timing(3.0, 2.0, 0.5)]
TROUBLE_SECONDS, PEACE_SECONDS = 150, 60
STEP_SECONDS = 0.25


class StoppedNowAndThen:
    """The cluster as a process sees it that is stopped at times: what it sends or hears then waits for it to go on."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.going = asyncio.Event()
        self.going.set()

    async def get(self, ref: Ref) -> Object:
        return await self._held(self._cluster.get(ref))

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> Object:
        return await self._held(self._cluster.create(kind, body))

    async def update(self, ref: Ref, body: Mapping[str, Any]) -> Object:
        return await self._held(self._cluster.update(ref, body))

    async def _held(self, request: Any) -> Object:
        try:
            await self.going.wait()
        except BaseException:
            request.close()
            raise
        try:
            answer: Object = await request
        finally:
            await self.going.wait()
        return answer


class Machine:
    """A candidate that begins anew when it has lost; its wall clock is wrong."""

    def __init__(self, cluster: MemoryCluster, clock: VirtualClock, name: str, timing: Timing) -> None:
        self.world = StoppedNowAndThen(cluster)
        self.term = LeaderTerm(clock, timing)
        self.losses = 0
        world: Any = self.world  # which has of a cluster what an elector asks for
        self._make: Callable[[], Elector] = lambda: Elector(
            world, ElectionConfig(f"{name}-{self.losses}", LEASE_REF, timing), self.term, clock, Random(name)
        )

    async def run(self) -> None:
        while True:
            elector = self._make()
            await elector.acquire()
            await elector.hold()
            self.term.end()
            self.losses += 1


def faults(random: Random) -> Faults:
    lost = Fault(probability=0.2, error=lambda: OutcomeUnknown("reset"), moment=Moment.AFTER)
    failed = Fault(probability=0.2, error=lambda: random.choice([ServerError, ClusterError])("no"))
    late = Fault(probability=0.1, delay=random.choice([0.5, 3.0, 12.0]))
    late_and_lost = Fault(probability=0.05, delay=8.0, error=lambda: OutcomeUnknown("reset"), moment=Moment.AFTER)
    return Faults(rules=[lost, failed, late, late_and_lost])


@given(st.integers(0, 2**32), st.sampled_from(TIMINGS))
@settings(max_examples=10, deadline=None)
def test_never_two_act_and_in_the_end_one_does(seed: int, timing: Timing) -> None:
    async def play(clock: VirtualClock) -> None:
        random = Random(seed)
        cluster = MemoryCluster(clock, random=Random(seed), faults=faults(random))
        machines = [Machine(cluster, clock, name, timing) for name in "abc"]
        tasks = [asyncio.create_task(machine.run()) for machine in machines]
        reigns = 0
        for step in range(round((TROUBLE_SECONDS + PEACE_SECONDS) / STEP_SECONDS)):
            await asyncio.sleep(STEP_SECONDS)
            acting = [machine for machine in machines if machine.term.running]
            assert len(acting) <= 1
            reigns += len(acting)
            if step * STEP_SECONDS > TROUBLE_SECONDS:
                cluster.faults.rules.clear()
            for machine in machines:
                if step * STEP_SECONDS > TROUBLE_SECONDS or random.random() < 0.1:
                    machine.world.going.set()
                elif random.random() < 0.01:
                    machine.world.going.clear()
        assert reigns > 0
        assert sum(machine.term.running for machine in machines) == 1
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run_virtual(play)
