"""A serving process and its lease: waiting, winning, losing, giving up. The elector has an API server of its own, in its own thread."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from random import Random
from typing import TYPE_CHECKING, Any, TextIO, cast

import msgspec
import pytest
from support.elected import LEASE_REF, Leases
from support.fakes import Controlled, config_with, factory, node_manifest, pod_manifest
from support.serving import FakeServer, Served, serving, signal_self, until

import koordsched.plugins
from koordsched.api.kinds import EVENT, LEASE, NODE, POD
from koordsched.clock import RealClock
from koordsched.cluster.apiserver import ConnectionSettings
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Binding, Patch, Ref, ServerError
from koordsched.log import Style, get_logger, write_logs
from koordsched.server.heartbeat import BEAT_SECONDS, RENEW_SECONDS, STALL_SECONDS, Heartbeat
from koordsched.server.leadership import Campaign, Leadership

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from koordsched.clock import Clock

TIMES = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "100ms"}
TERM = 2.1
STALL = 1.5  # long enough to be said, too short to cost the lease


class ElectedServer(FakeServer):
    """An API server that gives the elector's thread a part of its own, and sends on decisions of the leader only, as the adapter does."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = Leases()

    async def connect(self, settings: ConnectionSettings, clock: Clock, random: Random) -> Any:
        if threading.current_thread() is threading.main_thread():
            return await super().connect(settings, clock, random)
        self.leases.settings = settings
        return self.leases

    async def bind(self, binding: Binding) -> None:
        assert self.settings is not None
        assert self.settings.may_decide is not None
        self.settings.may_decide()
        await super().bind(binding)


async def server_with_work() -> ElectedServer:
    server = ElectedServer()
    await server.create(NODE, node_manifest("n1", cpu="1000"))
    await server.create(POD, pod_manifest("a"))
    return server


def elected(server: ElectedServer, codes: list[int] | None = None, **config: Any) -> AbstractAsyncContextManager[Served]:
    """Run a process that takes part in the election; what would end it at once is written into `codes`."""
    ending = [] if codes is None else codes
    return serving(server, config=config_with({}, leaderElection=TIMES, **config), exit_at_once=ending.append)


async def test_a_leader_holds_the_lease_schedules_and_gives_it_back(logged: Any) -> None:
    server = await server_with_work()
    async with elected(server) as served:
        await until(lambda: server.nodes_of_pods()["a"])
        holder = server.leases.spec["holderIdentity"]
        assert 'leader_election_master_status{name="kube-scheduler"} 1.0' in (await served.get("/metrics"))[1]
        assert "kube_pod_resource_request{" in (await served.get("/metrics/resources"))[1]
        assert await served.get("/healthz?verbose") == (200, "[+]leaderElection ok\nhealthz check passed\n")
        assert "[+]leaderElection ok\n" in (await served.get("/readyz?verbose"))[1]
        assert await served.get("/livez?verbose") == (200, "[+]ping ok\n[+]scheduling-loop ok\nlivez check passed\n")
        version = server.leases.resource_version
        await until(lambda: server.leases.resource_version != version)  # events about one state of the Lease would be one series
        signal_self(signal.SIGTERM)
        assert await served.code() == 0
    assert server.leases.spec["holderIdentity"] == ""
    assert server.leases.closed
    events = server.leases.raws(EVENT)
    assert [(event["reason"], event["note"], event["regarding"]["kind"]) for event in events] == [
        ("LeaderElection", f"{holder} became leader", "Lease"),
        ("LeaderElection", f"{holder} stopped leading", "Lease"),
    ]
    assert {"attempting to acquire leader lease", "successfully acquired lease", "released leader lease"} <= set(logged.of("info"))
    assert logged.of("error") == []


async def test_the_elector_has_a_connection_of_its_own_with_short_limits() -> None:
    server = ElectedServer()
    async with elected(server) as served:
        await served.ready()
        await until(lambda: server.leases.spec)
    settings = server.leases.settings
    assert settings is not None
    assert (settings.request_timeout, settings.connect_timeout, settings.may_decide) == (1.0, 1.0, None)
    assert ("create", LEASE) not in server.calls


async def test_a_standby_is_warm_and_silent_and_leads_as_soon_as_it_may() -> None:
    server = await server_with_work()
    await server.create(POD, {**pod_manifest("too-large"), "spec": {**pod_manifest()["spec"], "nodeSelector": {"no": "such"}}})
    await server.leases.hold("other")
    async with elected(server) as served:
        await served.ready()
        await until(lambda: server.leases.calls["get", LEASE] >= 5)
        assert 'leader_election_master_status{name="kube-scheduler"} 0.0' in (await served.get("/metrics"))[1]
        assert 'scheduler_pending_pods{queue="active"} 2.0' in (await served.get("/metrics"))[1]
        assert await served.get("/metrics/resources") == (200, "")
        assert (await served.get("/configz"))[0] == 200
        assert await served.get("/healthz") == (200, "ok")
        assert {verb for verb, _ in server.calls} == {"list", "watch", "create"}  # it was the test that created
        assert server.raws(EVENT) == []
        await server.leases.patch(LEASE_REF, Patch({"spec": {"holderIdentity": ""}}))
        await until(lambda: server.nodes_of_pods()["a"])
        await until(lambda: len(server.raws(EVENT)) == 2)
        await until(lambda: served.answers_with("/metrics", 200, 'leader_election_master_status{name="kube-scheduler"} 1.0'))


async def test_a_standby_that_stops_leaves_the_lease_alone() -> None:
    server = await server_with_work()
    await server.leases.hold("other")
    async with elected(server) as served:
        await until(lambda: server.leases.calls["get", LEASE])
        signal_self(signal.SIGTERM)
        assert await served.code() == 0
    assert server.leases.spec["holderIdentity"] == "other"
    assert server.nodes_of_pods() == {"a": ""}


async def test_caches_may_be_left_cold_until_it_leads() -> None:
    server = await server_with_work()
    await server.leases.hold("other")
    async with elected(server, delayCacheUntilActive=True) as served:
        await until(lambda: server.leases.calls["get", LEASE])
        assert (await served.get("/readyz"))[0] == 500
        assert server.calls["list", POD] == 0
        await server.leases.patch(LEASE_REF, Patch({"spec": {"holderIdentity": None}}))
        await until(lambda: server.nodes_of_pods()["a"])
        await served.ready()


async def test_a_new_leader_passes_the_sync_barrier_before_it_schedules() -> None:
    """frameworkext.md §1.4: the annotation ends with the name of the lease, and was written before the first bind."""
    server = await server_with_work()
    await server.create(POD, pod_manifest("barrier", nodeName="n1"))
    barrier = ("--feature-gates=SyncBarrier=true", "--sync-barrier-pod-namespace=default", "--sync-barrier-pod-name=barrier")
    server.faults.rules.append(Fault(verb="patch", kind=POD, delay=0.5))
    async with serving(server, *barrier, config=config_with({}, leaderElection=TIMES)):
        await until(lambda: server.leases.spec)
        assert server.nodes_of_pods()["a"] == ""
        await until(lambda: server.nodes_of_pods()["a"])
        written = server.raw(Ref(POD, "default", "barrier"))["metadata"]["annotations"]
        assert list(written) == ["scheduling.koordinator.sh/sync-barrier-kube-scheduler"]


async def test_nothing_is_elected_before_the_caches_are_full() -> None:
    server = await server_with_work()
    server.answers.clear()
    async with elected(server) as served:
        await until(lambda: served.answers_with("/livez", 200))
        server.answers.set()
        server.faults.rules.append(Fault(verb="list", kind=NODE, delay=0.3))
        await until(lambda: served.answers_with("/readyz", 500, "sched-handler-sync"))
        assert server.leases.spec == {}
        await until(lambda: server.leases.spec)
        assert (await served.get("/readyz"))[0] == 200


async def test_who_loses_the_lease_to_another_ends_with_code_1(logged: Any) -> None:
    server, codes = await server_with_work(), list[int]()
    async with elected(server, codes) as served:
        await until(lambda: server.nodes_of_pods()["a"])
        await server.leases.patch(LEASE_REF, Patch({"spec": {"holderIdentity": "other"}}))
        assert await served.code() == 1
    assert codes == [1]
    (error,) = [line for line in logged.all() if line["level"] == "error"]
    assert (error["msg"], error["why"]) == ("Leaderelection lost", "other holds it")
    assert server.leases.spec["holderIdentity"] == "other"


async def test_controllers_of_plugins_run_while_it_leads_only(monkeypatch: pytest.MonkeyPatch) -> None:
    server, codes, plugin = await server_with_work(), list[int](), Controlled()
    monkeypatch.setitem(koordsched.plugins.REGISTRY, plugin.name, factory(plugin))
    await server.leases.hold("other")
    async with serving(server, config=config_with({"C": "filter"}, leaderElection=TIMES), exit_at_once=codes.append) as served:
        await served.ready()
        await until(lambda: server.leases.calls["get", LEASE] >= 3)
        assert plugin.ticks == []
        await server.leases.patch(LEASE_REF, Patch({"spec": {"holderIdentity": ""}}))
        await until(lambda: plugin.ticks == ["tick"])
        await server.leases.patch(LEASE_REF, Patch({"spec": {"holderIdentity": "other"}}))
        assert await served.code() == 1
    assert plugin.ticks[-1] == "end"
    assert codes == [1]


async def test_who_cannot_renew_binds_nothing_after_its_term_and_ends(logged: Any) -> None:
    server, codes, sent = await server_with_work(), list[int](), list[float]()
    bind = server.bind

    async def timed_bind(binding: Binding) -> None:
        await bind(binding)
        sent.append(time.monotonic())

    server.bind = timed_bind  # type: ignore[method-assign]
    async with elected(server, codes) as served:
        await until(lambda: server.nodes_of_pods()["a"])
        server.leases.faults.rules.append(Fault(verb="update", error=lambda: ServerError("etcd is gone")))
        before = time.monotonic()
        number = 0
        while not served.run.done():
            number += 1
            await server.create(POD, pod_manifest(f"p{number}"))
            await asyncio.sleep(0.02)
        assert served.run.result() == 1
    assert codes == [1]
    assert len(sent) > 20
    assert sent[-1] - before <= TERM
    assert [line["why"] for line in logged.all() if line["level"] == "error"] == [f"it could not be renewed for {TERM:g} s"]


async def test_a_busy_event_loop_does_not_keep_the_lease_from_being_renewed() -> None:
    server, codes = await server_with_work(), list[int]()
    async with elected(server, codes):
        await until(lambda: server.nodes_of_pods()["a"])
        renewals = server.leases.calls["update", LEASE]
        for _ in range(5):
            time.sleep(STALL_SECONDS / 2)  # noqa: ASYNC251  # this is the loop's work
            await asyncio.sleep(BEAT_SECONDS)
        assert server.leases.calls["update", LEASE] - renewals > 5
    assert codes == []


async def test_a_stall_that_is_shorter_than_the_term_costs_no_lease(logged: Any) -> None:
    server, codes = await server_with_work(), list[int]()
    async with elected(server, codes) as served:
        await until(lambda: server.nodes_of_pods()["a"])
        time.sleep(STALL)  # noqa: ASYNC251  # the last renewal was a moment ago, so the lease lasts
        renewals = server.leases.calls["update", LEASE]
        await server.create(POD, pod_manifest("b"))
        await until(lambda: server.nodes_of_pods()["b"])
        await until(lambda: server.leases.calls["update", LEASE] > renewals + 3)
        await until(lambda: "the scheduling loop runs again" in logged.of("warning"))
        text = (await served.get("/metrics"))[1]
        assert 'koord_scheduler_loop_lag_seconds_bucket{le="+Inf"}' in text
        assert float(lag_sum(text)) >= STALL - BEAT_SECONDS
    assert codes == []
    (line,) = [line for line in logged.all() if line["msg"].startswith("the scheduling loop does not run")]
    assert "time.sleep(STALL)" in line["exception"]
    assert line["seconds"] >= STALL_SECONDS


def lag_sum(text: str) -> str:
    return next(line.split()[1] for line in text.splitlines() if line.startswith("koord_scheduler_loop_lag_seconds_sum"))


async def test_a_loop_that_does_not_run_gives_up_the_lease_and_ends_the_process(logged: Any) -> None:
    server, codes = await server_with_work(), list[int]()
    async with elected(server, codes) as served:
        await until(lambda: server.nodes_of_pods()["a"])
        began = time.monotonic()
        last = server.leases.resource_version
        renewed = began
        while not codes and time.monotonic() - began < TERM + 2.0:
            time.sleep(0.01)  # noqa: ASYNC251  # the loop does not run
            if server.leases.resource_version != last:
                last, renewed = server.leases.resource_version, time.monotonic()
        ended = time.monotonic()
        assert codes == [1]  # at once, from the elector's thread
        assert renewed - began < RENEW_SECONDS + 0.2
        assert ended - renewed > TERM - 0.2
        assert await served.code() == 1
    (error,) = [line for line in logged.all() if line["level"] == "error"]
    assert (error["msg"], error["why"]) == (
        "Leaderelection lost",
        f"the scheduling loop does not run, so it was not renewed for {TERM:g} s",
    )


class FullPipe:
    """What a log is written to that is not read: writing waits, for as long as the test likes."""

    def __init__(self) -> None:
        self.drained = threading.Event()

    def write(self, text: str) -> int:
        self.drained.wait(10.0)
        return len(text)

    def flush(self) -> None:
        pass


async def test_a_log_that_is_not_read_does_not_keep_a_process_without_lease_alive() -> None:
    server, codes, pipe = await server_with_work(), list[int](), FullPipe()
    async with elected(server, codes) as served:
        await until(lambda: server.nodes_of_pods()["a"])
        write_logs(Style("json", RealClock().now, cast("TextIO", pipe)))
        began = time.monotonic()
        threading.Thread(target=drain_when, args=(pipe, codes), daemon=True).start()
        get_logger("test").info("this waits, and with it the loop")
        assert codes == [1]
        assert time.monotonic() - began < TERM + 2.0
        assert await served.code() == 1
    write_logs(None)


def drain_when(pipe: FullPipe, codes: list[int]) -> None:
    """Let the test go on when the process would have ended."""
    for _ in range(800):
        time.sleep(0.01)
        if codes:
            break
    pipe.drained.set()


async def test_a_candidate_whose_loop_does_not_run_takes_no_lease() -> None:
    leases, clock = Leases(), JumpingClock()
    heartbeat = Heartbeat(clock)
    heartbeat.filled()
    clock.ahead = 2 * RENEW_SECONDS

    async def connect(_settings: ConnectionSettings, _clock: Clock, _random: Random) -> Any:
        return leases

    leadership = Leadership(config_with({}, leaderElection=TIMES), Campaign(connect, clock, Random(1), lambda: None, heartbeat))
    winning = asyncio.create_task(leadership.win(ConnectionSettings()))
    await asyncio.sleep(0.5)
    assert leases.spec == {}
    heartbeat.filled()  # it runs again
    await asyncio.wait_for(winning, 5.0)
    assert leases.spec["holderIdentity"]
    await leadership.resign()


async def test_binds_in_flight_end_before_the_lease_is_given_up() -> None:
    server = await server_with_work()
    server.faults.rules.append(Fault(verb="bind", delay=0.3))
    holders = []
    bind = server.bind

    async def watched_bind(binding: Binding) -> None:
        await bind(binding)
        holders.append(server.leases.spec["holderIdentity"])

    server.bind = watched_bind  # type: ignore[method-assign]
    async with elected(server) as served:
        await until(lambda: server.calls["bind", POD])
        signal_self(signal.SIGTERM)
        assert await served.code() == 0
    assert server.nodes_of_pods() == {"a": "n1"}
    assert holders != [""]
    assert server.leases.spec["holderIdentity"] == ""


async def test_conditions_that_cannot_be_written_do_not_hold_up_a_successor(logged: Any) -> None:
    server = await server_with_work()
    server.faults.rules.append(Fault(verb="patch status", error=lambda: ServerError("no")))
    await server.create(POD, {**pod_manifest("b"), "spec": {**pod_manifest()["spec"], "nodeSelector": {"no": "such"}}})
    async with elected(server) as served:
        await until(lambda: server.calls["patch status", POD])
        signal_self(signal.SIGTERM)
        assert await served.code() == 0
    (line,) = [line for line in logged.all() if line["msg"] == "conditions are left to the next leader"]
    assert line["pods"] == 1
    assert server.leases.spec["holderIdentity"] == ""


async def test_a_mistake_in_the_electors_thread_ends_the_process(logged: Any) -> None:
    server = await server_with_work()
    server.leases.faults.rules.append(Fault(verb="get", error=lambda: RuntimeError("a bug")))  # type: ignore[arg-type, return-value]
    async with elected(server) as served:
        assert await served.code() == 1
    assert logged.of("error") == ["a task that must run has ended, and so does the process"]


class JumpingClock(RealClock):
    """A clock that a test sets forward."""

    ahead = 0.0

    def uptime(self) -> float:
        return super().uptime() + self.ahead


class LivelyHeartbeat(Heartbeat):
    """Of a loop that runs."""

    @property
    def late(self) -> bool:
        return False


async def test_a_leader_that_hangs_is_unhealthy_long_after_its_lease_has_run_out() -> None:
    leases, clock, hangs = Leases(), JumpingClock(), threading.Event()

    class Hanging(msgspec.Struct):
        """What makes the elector's thread hang at its first renewal."""

        def __call__(self) -> ServerError:
            hangs.wait(10.0)
            return ServerError("too late")

    async def connect(_settings: ConnectionSettings, _clock: Clock, _random: Random) -> Any:
        return leases

    leases.faults.rules.append(Fault(verb="update", error=Hanging()))
    leadership = Leadership(
        config_with({}, leaderElection=TIMES), Campaign(connect, clock, Random(1), lambda: None, LivelyHeartbeat(clock))
    )
    assert leadership.health() == ""
    await leadership.win(ConnectionSettings())
    clock.ahead = 3.0 + 19.0
    assert leadership.health() == ""
    clock.ahead = 3.0 + 21.0
    assert leadership.health() == "failed election to renew leadership on lease kube-scheduler"
    hangs.set()
    assert await leadership.lost() is None
    assert leadership.health() == ""
