"""The monitor of scheduling (frameworkext.md §4.3, §10 line 34): which attempts take too long, and how that is counted."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs
from support.fakes import Late, pod_manifest
from support.stages import Stage, begin, bound_to, ref

from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.status import Code, Status, error

WAIT = Status(Code.WAIT)
CRITICAL = "!!!CRITICAL TIMEOUT!!! "


def timeouts(world: EmbeddedCluster) -> int:
    """Return scheduler_scheduling_timeout of the default profile."""
    return world.scheduler.metrics.scheduling_timeout.child("default-scheduler").count


async def test_an_attempt_that_takes_45_s_is_counted_at_40_s_and_when_it_ends(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (WAIT, 60.0)
    async with stage((late, "permit preBind")) as world:
        await begin(world)
        with capture_logs() as logs:
            await asyncio.sleep(39)
            assert timeouts(world) == 0, "at 30 s it has taken no longer than 30 s"
            await asyncio.sleep(2)
            assert timeouts(world) == 1
            await asyncio.sleep(4)
            (waiting,) = world.scheduler._context.waiting_pods
            waiting.allow("L")
            await world.settle()
            assert (bound_to(world), timeouts(world)) == ("n1", 2)
            await asyncio.sleep(600)
        assert timeouts(world) == 2
        lines = [(line["event"], line["waits_on_permit"]) for line in logs if line["event"].startswith(CRITICAL)]
        uid = world.cluster.raw(ref())["metadata"]["uid"]
        text = f"{CRITICAL}scheduling pod default/p({uid}) took longer "
        assert lines == [(f"{text}(40s) than the timeout 30s", ["L"]), (f"{text}(45.1s) than the timeout 30s", [])]
        assert 'scheduler_scheduling_timeout{profile="default-scheduler"} 2' in world.scheduler.metrics.text().decode()


async def test_every_look_counts_and_so_does_the_failure_that_ends_the_attempt(stage: Stage) -> None:
    """PreBind waits, long after the queue has forgotten the pod; looks at 2, 4, 6 and 8 s see it over 1 s, then it fails."""
    late = Late()
    late.gate, late.pre_bind_answer = asyncio.Event(), error("no")
    async with stage((late, "preBind"), args=("--scheduler-monitor-period=2s", "--scheduling-timeout=1s")) as world:
        await begin(world)
        assert not world.scheduler.queue.in_flight
        await asyncio.sleep(9)
        assert timeouts(world) == 4
        late.gate.set()
        await world.settle()
        assert timeouts(world) == 5


async def test_attempts_that_end_in_time_are_not_counted_however_often_a_pod_is_tried(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("p"), pod_manifest("large", "100"))
        await asyncio.sleep(3600)
        (waiting,) = world.scheduler.queue.waiting()
        assert waiting.attempts > 5
        assert timeouts(world) == 0


async def test_without_a_period_only_ends_are_counted(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (WAIT, 100.0)
    async with stage((late, "permit"), args=("--scheduler-monitor-period=0",)) as world:
        await begin(world)
        await asyncio.sleep(99)
        assert timeouts(world) == 0
        await asyncio.sleep(2)
        assert timeouts(world) == 1
