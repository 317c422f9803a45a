"""The status writer: one request per change, the newest word wins, and what is known is not said again."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs
from support.fakes import pod_manifest
from support.virtual_loop import running

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.memory import Fault, MemoryCluster
from koordsched.cluster.port import (
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    OutcomeUnknown,
    Ref,
    ServerError,
    TooManyRequests,
    Unauthorized,
)
from koordsched.scheduler.origins import PodStatusUpdate
from koordsched.scheduler.status_writer import REFUSED_SECONDS, StatusWriter

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock

FULL = PodStatusUpdate("Unschedulable", "0/1 nodes are available: 1 full.")


class Bench:
    """A cluster with pods and a writer."""

    def __init__(self, clock: VirtualClock) -> None:
        self.cluster = MemoryCluster(clock, random=Random(1))
        self.writer = StatusWriter(self.cluster, clock, Random(1))

    async def pod(self, name: str = "p", **status: Any) -> Pod:
        made = await self.cluster.create(POD, {**pod_manifest(name), "status": {"phase": "Pending", **status}})
        assert isinstance(made, Pod)
        return made

    def status(self, name: str = "p") -> dict[str, Any]:
        return dict(self.cluster.raw(Ref(POD, "default", name))["status"])

    @property
    def patches(self) -> int:
        return self.cluster.calls["patch status", POD]

    def fail(self, **fault: Any) -> None:
        self.cluster.faults.rules.append(Fault(verb="patch status", **fault))


async def test_a_condition_says_reason_message_time_and_generation(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        assert not bench.writer.idle
        await asyncio.sleep(5)
    (condition,) = bench.status()["conditions"]
    assert {key: value for key, value in condition.items() if key != "lastProbeTime"} == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 full.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    assert bench.writer.idle


async def test_the_same_is_said_once_and_a_change_once_more(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    async with running(bench.writer.run()):
        for _ in range(20):
            bench.writer.update(made, FULL)
            await asyncio.sleep(1)
        assert bench.patches == 1
        bench.writer.update(made, PodStatusUpdate("Unschedulable", "another reason"))
        await asyncio.sleep(1)
    assert (bench.patches, bench.status()["conditions"][0]["message"]) == (2, "another reason")


async def test_what_the_cluster_says_already_is_not_written(clock: VirtualClock) -> None:
    bench = Bench(clock)
    condition = {"type": "PodScheduled", "status": "False", "reason": FULL.reason, "message": FULL.message}
    made = await bench.pod(conditions=[condition], nominatedNodeName="n1")
    bench.writer.update(made, FULL)
    bench.writer.update(made, PodStatusUpdate(FULL.reason, FULL.message, "n1"))
    assert bench.writer.idle
    bench.writer.update(made, PodStatusUpdate(FULL.reason, FULL.message, ""))
    assert not bench.writer.idle


async def test_the_transition_time_stays_while_the_status_stays_false(clock: VirtualClock) -> None:
    bench = Bench(clock)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Old", "lastTransitionTime": "2025-05-05T05:05:05Z"}
    made = await bench.pod(conditions=[condition])
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(1)
    (written,) = bench.status()["conditions"]
    assert (written["reason"], written["lastTransitionTime"]) == ("Unschedulable", "2025-05-05T05:05:05Z")


async def test_words_that_were_not_written_yet_are_replaced(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    for i in range(10):
        bench.writer.update(made, PodStatusUpdate("Unschedulable", f"reason {i}"))
    async with running(bench.writer.run()):
        await asyncio.sleep(1)
    assert (bench.patches, bench.status()["conditions"][0]["message"]) == (1, "reason 9")


async def test_what_is_said_during_a_request_follows_it(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(times=1, delay=5.0)
    made = await bench.pod()
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(1)
        bench.writer.update(made, PodStatusUpdate("Unschedulable", "second"))
        bench.writer.update(made, PodStatusUpdate("Unschedulable", "third"))
        await asyncio.sleep(1)
        assert bench.patches == 1
        await asyncio.sleep(10)
    assert (bench.patches, bench.status()["conditions"][0]["message"]) == (2, "third")


async def test_a_slow_pod_does_not_hold_up_the_others(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(times=1, delay=60.0)
    pods = [await bench.pod(f"p{i}") for i in range(20)]
    async with running(bench.writer.run()):
        for made in pods:
            bench.writer.update(made, FULL)
        await asyncio.sleep(1)
        assert ["conditions" in bench.status(f"p{i}") for i in range(20)] == [False] + [True] * 19
        await asyncio.sleep(60)
    assert "conditions" in bench.status("p0")


@pytest.mark.parametrize("error", [ServerError, OutcomeUnknown])
async def test_a_server_error_is_tried_again_within_seconds(clock: VirtualClock, error: type[ServerError]) -> None:
    bench = Bench(clock)
    bench.fail(times=3, error=lambda: error("etcd"))
    made = await bench.pod()
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(10)
    assert (bench.patches, bench.writer.failed, bench.status()["conditions"][0]["reason"]) == (4, 0, "Unschedulable")


@pytest.mark.parametrize("error", [ServerError, OutcomeUnknown, TooManyRequests, Forbidden, Unauthorized])
async def test_what_may_pass_is_waited_for_however_long_it_takes(clock: VirtualClock, error: type[ClusterError]) -> None:
    bench = Bench(clock)
    bench.fail(times=12, error=lambda: error("not now"))
    made = await bench.pod()
    with capture_logs() as logs:
        async with running(bench.writer.run()):
            bench.writer.update(made, FULL)
            await asyncio.sleep(60)
            assert "conditions" not in bench.status()
            await asyncio.sleep(300)
    assert (bench.patches, bench.writer.failed, bench.writer.idle) == (13, 0, True)
    assert bench.status()["conditions"][0]["reason"] == "Unschedulable"
    assert [(entry["pod"], entry["err"]) for entry in logs] == [("default/p", "not now")]


async def test_pods_that_wait_for_another_try_do_not_hold_up_the_others(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(times=50, error=lambda: ServerError("not now"))
    pods = [await bench.pod(f"p{i}") for i in range(20)]
    async with running(bench.writer.run()):
        for made in pods:
            bench.writer.update(made, FULL)
        await asyncio.sleep(0.1)
        assert bench.patches == 20
        await asyncio.sleep(10)
    assert all("conditions" in bench.status(f"p{i}") for i in range(20))


async def test_a_newer_word_takes_the_place_of_one_that_waits_for_another_try(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(times=1, error=lambda: ServerError("not now"))
    made = await bench.pod()
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(0.1)
        bench.writer.update(made, PodStatusUpdate("Unschedulable", "newer"))
        await asyncio.sleep(10)
    assert (bench.patches, bench.status()["conditions"][0]["message"]) == (2, "newer")


async def test_a_pod_that_is_forgotten_is_not_tried_again(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(error=lambda: ServerError("not now"))
    made = await bench.pod()
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(0.1)
        bench.writer.forget(made.metadata.uid)
        await asyncio.sleep(100)
    assert (bench.patches, bench.writer.idle) == (1, True)


async def test_forgetting_a_pod_stops_the_timer_of_its_next_try(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(error=lambda: ServerError("not now"), times=1)
    made = await bench.pod()
    failed: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failed.append(context))
    try:
        async with running(bench.writer.run()):
            bench.writer.update(made, FULL)
            await asyncio.sleep(0.1)
            bench.writer.forget(made.metadata.uid)
            bench.writer.update(made, PodStatusUpdate("Unschedulable", "another life"))
            await asyncio.sleep(100)
    finally:
        loop.set_exception_handler(None)
    assert failed == []
    assert (bench.patches, bench.status()["conditions"][0]["message"]) == (2, "another life")


async def test_that_a_pod_refuses_a_word_which_was_bound_meanwhile_is_no_failure(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()

    def bound() -> ClusterError:
        bench.writer.forget(made.metadata.uid)
        return Invalid("nominatedNodeName: may not be set on pods that are already bound")

    bench.fail(times=1, error=bound)
    with capture_logs() as logs:
        async with running(bench.writer.run()):
            bench.writer.update(made, FULL)
            await asyncio.sleep(10)
    assert (bench.writer.failed, bench.writer.idle, logs) == (0, True, [])


async def test_a_word_that_is_refused_is_counted_and_may_be_said_again(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(times=1, error=lambda: Invalid("no"))
    made = await bench.pod()
    async with running(bench.writer.run()):
        with capture_logs() as logs:
            bench.writer.update(made, FULL)
            await asyncio.sleep(10)
        assert logs == [{"event": "status not written", "log_level": "error", "pod": "default/p", "err": "no", "status": 422}]
        assert (bench.patches, bench.writer.failed, "conditions" in bench.status()) == (1, 1, False)
        bench.writer.update(made, FULL)
        await asyncio.sleep(10)
    assert "conditions" in bench.status()


async def test_a_word_that_is_refused_is_tried_again_rarely_for_as_long_as_the_pod_is_pending(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(times=3, error=lambda: Invalid("no"))
    made, gone = await bench.pod(), await bench.pod("gone")
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(1)
        bench.writer.update(gone, FULL)
        await asyncio.sleep(REFUSED_SECONDS - 2)
        assert (bench.patches, bench.writer.failed) == (2, 2)
        bench.writer.forget(gone.metadata.uid)
        await asyncio.sleep(2)
        assert (bench.patches, bench.writer.failed, bench.writer.idle) == (3, 3, True)
        await asyncio.sleep(REFUSED_SECONDS)
        assert (bench.patches, bench.writer.failed) == (4, 3)
        await asyncio.sleep(3 * REFUSED_SECONDS)
    assert bench.patches == 4
    assert bench.status()["conditions"][0]["message"] == FULL.message
    assert "conditions" not in bench.status("gone")


async def test_a_word_that_was_refused_does_not_come_back_over_a_newer_one(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(times=1, error=lambda: Invalid("no"))
    made = await bench.pod()
    newer = PodStatusUpdate("Unschedulable", "0/2 nodes are available: 2 full.")
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(1)
        bench.writer.update(made, newer)
        await asyncio.sleep(2 * REFUSED_SECONDS)
    assert (bench.patches, bench.status()["conditions"][0]["message"]) == (2, newer.message)


async def test_a_flush_tries_four_times_even_what_waits_for_a_later_try(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bench.fail(error=lambda: ServerError("not now"))
    made = await bench.pod()
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(20)
    before = bench.patches
    await bench.writer.flush()
    assert (bench.patches - before, bench.writer.failed, bench.writer.idle) == (4, 1, True)


async def test_a_pod_that_is_gone_is_no_failure(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    await bench.cluster.delete(Ref(POD, "default", "p"))
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(10)
    assert (bench.patches, bench.writer.failed, bench.writer.idle) == (1, 0, True)


async def test_a_forgotten_pod_is_not_written(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    bench.writer.update(made, FULL)
    bench.writer.forget(made.metadata.uid)
    async with running(bench.writer.run()):
        await asyncio.sleep(10)
    assert bench.patches == 0


async def test_a_created_again_pod_does_not_get_its_predecessors_condition(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    await bench.cluster.delete(Ref(POD, "default", "p"))
    await bench.pod()
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(10)
    assert "conditions" not in bench.status()
    assert bench.writer.failed == 1


async def test_a_conflict_with_other_writers_is_tried_again(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    bench.fail(times=2, error=lambda: Conflict("the object has been modified"))
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(10)
    assert bench.status()["conditions"][0]["message"] == FULL.message
    assert bench.writer.failed == 0


async def test_conflicts_in_a_row_are_given_up_after_the_fifth_try(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    bench.fail(error=lambda: Conflict("the object has been modified"))
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(60)
        assert (bench.patches, bench.writer.failed, bench.writer.idle) == (5, 1, True)
        await asyncio.sleep(REFUSED_SECONDS - 50)
        assert bench.patches == 10, "then once more, rarely"


async def test_nominating_keeps_the_word_that_waits(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    bench.writer.update(made, FULL)
    bench.writer.nominate(PodInfo(made), "n1")
    async with running(bench.writer.run()):
        await asyncio.sleep(1)
    assert (bench.patches, bench.status()["nominatedNodeName"], bench.status()["conditions"][0]["reason"]) == (1, "n1", "Unschedulable")


async def test_a_nomination_alone_leaves_conditions_alone_and_can_be_cleared(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made = await bench.pod()
    async with running(bench.writer.run()):
        bench.writer.nominate(PodInfo(made), "n1")
        await asyncio.sleep(1)
        assert (bench.status()["nominatedNodeName"], "conditions" in bench.status()) == ("n1", False)
        bench.writer.update(made, PodStatusUpdate(nominated=""))
        await asyncio.sleep(1)
    assert "nominatedNodeName" not in bench.status()


async def test_flush_writes_what_is_wanted_without_run(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made, other = await bench.pod(), await bench.pod("other")
    bench.writer.update(made, FULL)
    bench.writer.update(other, FULL)
    await bench.writer.flush()
    assert (bench.patches, bench.writer.idle) == (2, True)


async def test_what_is_abandoned_is_counted_and_never_written(clock: VirtualClock) -> None:
    bench = Bench(clock)
    made, other = await bench.pod(), await bench.pod("other")
    bench.fail(error=lambda: ServerError("no"), times=1)
    async with running(bench.writer.run()):
        bench.writer.update(made, FULL)
        await asyncio.sleep(0.1)  # it failed, and waits to be tried again
    bench.writer.update(other, FULL)
    assert bench.writer.abandon() == 2
    await bench.writer.flush()
    assert (bench.patches, bench.writer.idle) == (1, True)


async def test_a_write_that_is_refused_2000_times_is_tried_on_and_carried_out_in_the_end(clock: VirtualClock) -> None:
    """2 ** 1024 is no float: the exponent of the delay has a limit, the number of tries has none."""
    bench = Bench(clock)
    made = await bench.pod()
    bench.fail(error=lambda: ServerError("etcd has no space left"), times=2000)
    async with running(bench.writer.run()) as (task,):
        bench.writer.update(made, FULL)
        await asyncio.sleep(1900 * 30)
        assert 1500 < bench.patches < 1950  # 8 growing delays, then 30 to 36 s each
        await asyncio.sleep(500 * 36)
        assert not task.done()
        assert bench.patches == 2001
        assert bench.status()["conditions"][0]["reason"] == "Unschedulable"
        assert bench.writer.idle


async def test_a_pod_whose_status_cannot_be_encoded_is_given_up_and_no_other(clock: VirtualClock) -> None:
    bench = Bench(clock)
    bad, good = await bench.pod("bad"), await bench.pod("good")
    bench.fail(error=lambda: UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), times=1)
    with capture_logs() as logs:
        async with running(bench.writer.run()) as (task,):
            bench.writer.update(bad, FULL)
            bench.writer.update(good, FULL)
            await asyncio.sleep(5)
            assert not task.done()
            assert bench.writer.idle
            assert bench.writer.failed == 1
            assert bench.status("good")["conditions"][0]["reason"] == "Unschedulable"
            bench.writer.update(bad, FULL)  # its next attempt says it again
            await asyncio.sleep(5)
    assert bench.status("bad")["conditions"][0]["reason"] == "Unschedulable"
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert (line["event"], line["pod"]) == ("status not written", "default/bad")
    assert line["err"].startswith("UnicodeEncodeError(")


async def test_what_was_written_is_known_part_by_part(clock: VirtualClock) -> None:
    """The pod as the queue has it is older than both writes."""
    bench = Bench(clock)
    made = await bench.pod()
    async with running(bench.writer.run()):

        async def patches_after(update: PodStatusUpdate) -> int:
            bench.writer.update(made, update)
            await asyncio.sleep(1)
            return bench.patches

        assert await patches_after(FULL) == 1
        assert await patches_after(PodStatusUpdate(nominated="n1")) == 2
        assert await patches_after(FULL) == 2
        assert await patches_after(PodStatusUpdate("Unschedulable", "another")) == 3
        assert await patches_after(PodStatusUpdate(nominated="n1")) == 3
        assert await patches_after(PodStatusUpdate("Unschedulable", "another", "")) == 4
        assert await patches_after(PodStatusUpdate(nominated="")) == 4
        bench.writer.forget(made.metadata.uid)
        assert await patches_after(FULL) == 5
