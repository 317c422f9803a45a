"""Leader election in virtual time: who leads, from when, until when."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from support.virtual_loop import settle

from koordsched.api.kinds import LEASE
from koordsched.cluster.election import ElectionConfig, Elector, LeaderTerm, Timing
from koordsched.cluster.election.record import MAX_TRANSITIONS
from koordsched.cluster.memory import Fault, Moment
from koordsched.cluster.port import ClusterError, Conflict, Forbidden, NotFound, NotLeading, OutcomeUnknown, Patch, Ref, ServerError
from koordsched.log import Style, write_logs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from koordsched.clock import VirtualClock
    from koordsched.cluster.memory import MemoryCluster

LEASE_REF = Ref(LEASE, "kube-system", "kube-scheduler")
TIMING = Timing(lease_duration=15.0, renew_deadline=10.0, retry_period=2.0)
TERM = 12.0  # 10 + min(2, (15 - 10) / 2)


class SkewedClock:
    """A machine whose wall clock is wrong and jumps; its uptime began some other day."""

    def __init__(self, clock: VirtualClock, skew: float) -> None:
        self._clock, self.skew = clock, skew

    def now(self) -> float:
        return self._clock.now() + self.skew

    def perf(self) -> float:
        return self._clock.perf()

    def uptime(self) -> float:
        return self._clock.uptime() + 1000.0 + abs(self.skew)


class Guard:
    """Remembers its calls, in seconds of the candidate's uptime."""

    def __init__(self) -> None:
        self.armed: float | None = None

    def arm(self, uptime: float) -> None:
        self.armed = uptime

    def disarm(self) -> None:
        self.armed = None


class Contender:
    """One process's part: it acquires, then holds, and remembers when that happened and why it ended."""

    def __init__(self, cluster: Any, clock: VirtualClock, name: str, *, skew: float = 0.0, timing: Timing = TIMING) -> None:
        self.name, self._clock = name, clock
        self.machine = SkewedClock(clock, skew)
        self.guard = Guard()
        self.term = LeaderTerm(self.machine, timing, self.guard)
        self.elector = Elector(cluster, ElectionConfig(name, LEASE_REF, timing), self.term, self.machine, Random(name))
        self.won_at = self.lost_at = -1.0
        self.why = ""
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        await self.elector.acquire()
        self.won_at = self._clock.uptime()
        self.why = await self.elector.hold()
        self.lost_at = self._clock.uptime()

    def start(self) -> None:
        self.task = asyncio.create_task(self.run())

    async def die(self) -> None:
        """End as a process does that is killed."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})

    async def resign(self) -> None:
        await self.die()
        await self.elector.release()


@asynccontextmanager
async def contending(*contenders: Contender) -> AsyncIterator[None]:
    """Start them one after the other."""
    for contender in contenders:
        contender.start()
        await settle()
    try:
        yield
    finally:
        for contender in contenders:
            await contender.die()


def spec(cluster: MemoryCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.raw(LEASE_REF)["spec"]
    return found


async def write(cluster: MemoryCluster, **fields: Any) -> None:
    await cluster.patch(LEASE_REF, Patch({"spec": fields}))


@pytest.fixture
def said() -> Iterator[Any]:
    """What is logged during the test, as JSON lines."""
    import io  # noqa: PLC0415
    import json  # noqa: PLC0415

    stream = io.StringIO()
    write_logs(Style("json", lambda: 0.0, stream))
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    write_logs(None)


async def test_the_first_makes_the_lease_and_the_second_waits(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a, b = Contender(cluster, clock, "a"), Contender(cluster, clock, "b")
    async with contending(a, b):
        assert spec(cluster) == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": 0,
        }
        await asyncio.sleep(601)
        assert (a.won_at, b.won_at) == (0.0, -1.0)
        assert a.term.running
        assert not b.term.running
        assert spec(cluster)["acquireTime"] == "2026-01-01T00:00:00.000000Z"
        assert spec(cluster)["renewTime"] == "2026-01-01T00:10:00.000000Z"


async def test_a_renewal_is_one_request_every_retry_period(cluster: MemoryCluster, clock: VirtualClock) -> None:
    async with contending(Contender(cluster, clock, "a")):
        await asyncio.sleep(100.5)
        assert dict(cluster.calls) == {("get", LEASE): 1, ("create", LEASE): 1, ("update", LEASE): 50}


async def test_the_lease_of_a_dead_leader_is_taken_when_it_has_run_out(cluster: MemoryCluster, clock: VirtualClock) -> None:
    for seed in range(10):
        a, b = Contender(cluster, clock, f"a{seed}"), Contender(cluster, clock, f"b{seed}")
        async with contending(a, b):
            await asyncio.sleep(61.9)
            died = clock.uptime()
            renewed = a.term.renewed - a.machine.uptime() + died
            await a.die()
            await asyncio.sleep(60)
            assert renewed + 15.0 <= b.won_at < died + 15.0 + 2.0
        await b.elector.release()


async def test_wrong_and_jumping_clocks_take_no_lease(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a, b = Contender(cluster, clock, "a", skew=-86400.0), Contender(cluster, clock, "b", skew=86400.0)
    async with contending(a, b):
        for hours in (1, -5, 100, 0):
            b.machine.skew = hours * 3600.0
            await asyncio.sleep(100)
        assert b.won_at == -1.0
        assert a.term.running
        await a.die()
        died = clock.uptime()
        await asyncio.sleep(60)
        assert died + 13.0 <= b.won_at <= died + 17.0


async def test_a_lease_that_says_it_lasts_longer_is_waited_for(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a = Contender(cluster, clock, "a", timing=Timing(60.0, 40.0, 5.0))
    b = Contender(cluster, clock, "b")
    async with contending(a, b):
        await a.die()
        await asyncio.sleep(59.9)
        assert b.won_at == -1.0
        await asyncio.sleep(2.1)
        assert b.term.running


async def test_a_released_lease_is_taken_at_the_next_look(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a, b = Contender(cluster, clock, "a"), Contender(cluster, clock, "b")
    async with contending(a, b):
        await asyncio.sleep(31)
        await a.resign()
        assert (spec(cluster)["holderIdentity"], spec(cluster)["leaseDurationSeconds"]) == ("", 1)
        assert not a.term.running
        released = clock.uptime()
        await asyncio.sleep(2.0)
        assert released <= b.won_at <= released + 2.0
        assert (spec(cluster)["holderIdentity"], spec(cluster)["leaseTransitions"]) == ("b", 1)


async def test_who_waits_has_nothing_to_release(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a, b = Contender(cluster, clock, "a"), Contender(cluster, clock, "b")
    async with contending(a, b):
        await asyncio.sleep(31)
        await b.resign()
        assert spec(cluster)["holderIdentity"] == "a"


async def test_a_release_comes_through_although_a_renewal_was_under_way(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await settle()
        cluster.faults.rules.append(Fault(verb="update", times=1, error=lambda: OutcomeUnknown("reset"), moment=Moment.AFTER))
        await asyncio.sleep(2.0)
        await a.resign()
        assert spec(cluster)["holderIdentity"] == ""


async def test_a_lease_that_was_perhaps_taken_is_released(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a = Contender(cluster, clock, "a")
    cluster.faults.rules.append(Fault(verb="create", error=lambda: OutcomeUnknown("reset"), moment=Moment.AFTER))
    async with contending(a):
        assert spec(cluster)["holderIdentity"] == "a"
        assert a.won_at == -1.0
        await a.resign()
        assert spec(cluster)["holderIdentity"] == ""


async def test_lost_renewals_end_the_term_before_another_process_leads(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a, b = Contender(cluster, clock, "a"), Contender(cluster, clock, "b")
    async with contending(a, b):
        await asyncio.sleep(61)
        renewed = 60.0
        cluster.faults.rules.append(Fault(verb="update", times=6, error=lambda: ServerError("etcd is gone")))
        await asyncio.sleep(60)
        assert (a.lost_at, a.why) == (renewed + TERM, "it could not be renewed for 12 s")
        assert b.won_at >= renewed + 15.0
        assert not a.term.running
        with pytest.raises(NotLeading):
            a.term.check()
        b.term.check()


async def test_an_outage_shorter_than_the_term_is_survived(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await asyncio.sleep(61)
        cluster.faults.rules.append(Fault(times=4, error=lambda: ServerError("etcd is gone")))
        await asyncio.sleep(60)
        assert a.term.running
        assert spec(cluster)["leaseTransitions"] == 0


async def test_a_server_that_does_not_answer_ends_the_term_in_time(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await asyncio.sleep(61)
        cluster.faults.rules.append(Fault(delay=3600.0))
        await asyncio.sleep(60)
        assert a.lost_at == 60.0 + TERM


async def test_the_term_counts_from_the_beginning_of_a_slow_renewal(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a = Contender(cluster, clock, "a")
    async with contending(a):
        cluster.faults.rules.append(Fault(verb="update", nth=(1,), delay=5.0))
        await asyncio.sleep(8)  # the renewal of second 2 is answered at 7
        assert a.term.left == pytest.approx(2.0 + TERM - 8.0)
        # Between the end of the term and that of the lease the process is ended by force.
        assert a.guard.armed == pytest.approx(1000.0 + 2.0 + (TERM + 15.0) / 2)


async def test_a_lease_that_another_client_wrote_ends_the_term_at_once(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await asyncio.sleep(61)
        await write(cluster, holderIdentity="intruder")
        await asyncio.sleep(10)
        assert (a.lost_at, a.why) == (62.0, "intruder holds it")
        assert spec(cluster)["holderIdentity"] == "intruder"


@pytest.mark.parametrize("holder", ["", None])
async def test_a_lease_without_holder_is_taken_at_once_by_whoever_looks_first(
    cluster: MemoryCluster, clock: VirtualClock, holder: str | None
) -> None:
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await asyncio.sleep(61)
        await write(cluster, holderIdentity=holder)
        await asyncio.sleep(10)
        assert a.term.running
        assert (spec(cluster)["holderIdentity"], spec(cluster)["leaseTransitions"]) == ("a", 1)


async def test_a_lease_that_was_deleted_is_made_anew(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await asyncio.sleep(61)
        await cluster.delete(LEASE_REF)
        await asyncio.sleep(10)
        assert a.term.running
        assert (spec(cluster)["holderIdentity"], spec(cluster)["leaseTransitions"]) == ("a", 0)


@pytest.mark.parametrize(
    ("fields", "wait"),
    [
        ({}, 0.0),
        ({"holderIdentity": None, "leaseTransitions": 3, "renewTime": "yesterday"}, 0.0),
        ({"holderIdentity": "ghost"}, 15.0),
        ({"holderIdentity": "ghost", "leaseDurationSeconds": 0, "renewTime": "2999-01-01T00:00:00.000000Z"}, 15.0),
        ({"holderIdentity": "ghost", "leaseDurationSeconds": -5, "leaseTransitions": -7, "acquireTime": "x"}, 15.0),
        ({"holderIdentity": "ghost", "leaseDurationSeconds": 40, "leaseTransitions": MAX_TRANSITIONS}, 40.0),
    ],
)
async def test_malformed_fields_of_a_lease_only_delay(
    cluster: MemoryCluster, clock: VirtualClock, fields: dict[str, Any], wait: float
) -> None:
    await cluster.create(LEASE, {"metadata": {"namespace": "kube-system", "name": "kube-scheduler", "labels": {"a": "b"}}, "spec": fields})
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await asyncio.sleep(60)
        assert a.won_at == pytest.approx(wait)
        transitions = min(max(fields.get("leaseTransitions", 0), 0) + 1, MAX_TRANSITIONS)
        assert (spec(cluster)["holderIdentity"], spec(cluster)["leaseTransitions"]) == ("a", transitions)
        assert cluster.raw(LEASE_REF)["metadata"]["labels"] == {"a": "b"}


async def test_of_two_who_take_a_free_lease_at_once_one_waits(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await cluster.create(LEASE, {"metadata": {"namespace": "kube-system", "name": "kube-scheduler"}})
    cluster.faults.rules.append(Fault(verb="update", times=2, delay=0.1))  # both have read it by then
    a, b = Contender(cluster, clock, "a"), Contender(cluster, clock, "b")
    async with contending(a, b):
        await asyncio.sleep(600)
        assert sorted([a.won_at, b.won_at]) == [-1.0, pytest.approx(0.1)]
        assert sorted([a.term.running, b.term.running]) == [False, True]


async def test_a_conflict_in_a_renewal_is_settled_by_looking(cluster: MemoryCluster, clock: VirtualClock) -> None:
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await asyncio.sleep(61)
        await cluster.patch(LEASE_REF, Patch({"metadata": {"annotations": {"seen": "by kubectl"}}}))
        await asyncio.sleep(1.5)
        assert a.term.left == pytest.approx(TERM - 0.5)
        assert cluster.raw(LEASE_REF)["metadata"]["annotations"] == {"seen": "by kubectl"}


@pytest.mark.parametrize("error", [Forbidden, ServerError, Conflict, NotFound])
async def test_a_refused_candidate_goes_on_trying(cluster: MemoryCluster, clock: VirtualClock, error: type[ClusterError]) -> None:
    cluster.faults.rules.append(Fault(times=20, error=lambda: error("refused")))
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await asyncio.sleep(60)
        assert a.term.running


async def test_what_is_forbidden_is_said_once_a_minute(cluster: MemoryCluster, clock: VirtualClock, said: Any) -> None:
    text = 'leases.coordination.k8s.io "kube-scheduler" is forbidden: User "x" cannot get resource "leases"'
    cluster.faults.rules.append(Fault(verb="get", error=lambda: Forbidden(text)))
    async with contending(Contender(cluster, clock, "a")):
        await asyncio.sleep(150)
    warnings = [line for line in said() if line["level"] == "warning"]
    assert len(warnings) == 3
    assert {
        "msg": "leader election: a request failed; it is tried again",
        "verb": "get",
        "resource": "leases.coordination.k8s.io",
        "namespace": "kube-system",
        "name": "kube-scheduler",
        "err": text,
    }.items() <= warnings[0].items()


async def test_who_was_stopped_for_longer_than_the_term_does_not_go_on(cluster: MemoryCluster, clock: VirtualClock) -> None:
    """Its thread was stopped: it runs again long after its timer, and the lease was not taken meanwhile."""
    a = Contender(cluster, clock, "a")
    async with contending(a):
        await asyncio.sleep(61)
        stopped = Contender(cluster, clock, "a")
        stopped.term.extend(stopped.machine.uptime() - TERM)
        assert not stopped.term.running
        assert await stopped.elector.hold() == "it could not be renewed for 12 s"


def test_a_term_ends_before_the_lease_whatever_the_durations() -> None:
    for lease, renew, retry in ((15.0, 10.0, 2.0), (15.0, 14.0, 10.0), (3.0, 2.0, 0.5), (0.3, 0.2, 0.1)):
        timing = Timing(lease, renew, retry)
        assert renew < timing.term < timing.last_moment < lease <= timing.lease_seconds
    assert Timing(15.0, 10.0, 2.0).term == TERM
    assert Timing(15.0, 14.0, 10.0).term == 14.5
    assert Timing(1.5, 1.0, 0.1).lease_seconds == 2
