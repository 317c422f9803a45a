"""The scheduler under test as a process: its command line, its configuration, its start, its end and its last words."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.fake_scheduler import command, make_certificate

from koordsched.clock import RealClock
from koordsched.cluster.port import ClusterError
from koordsched.config.loading import Launch, empty_config
from koordsched.scenario.live.process import Command, SchedulerProcess, configuration, free_port

KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "pair.pem")


class Bench:
    """Makes schedulers, and ends those that a test forgot."""

    def __init__(self, certificate: Path) -> None:
        self._command = Command.parse(command(certificate), "/cluster/kubeconfig")
        self.made: list[SchedulerProcess] = []

    def scheduler(self, *args: str, **document: Any) -> SchedulerProcess:
        launch = Launch(config=empty_config(), document={**KIND, **document}, args=args)
        self.made.append(SchedulerProcess(self._command, launch, RealClock()))
        return self.made[-1]


@pytest.fixture
async def bench(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr("koordsched.scenario.live.process.END_WITHIN", 0.3)
    made = Bench(certificate)
    yield made
    for scheduler in made.made:
        await scheduler.stop()


async def answer(scheduler: SchedulerProcess, path: str) -> Any:
    return json.loads((await scheduler.get(path)).body)


async def until_ended(scheduler: SchedulerProcess) -> None:
    """Raise ClusterError when its end is noticed."""
    while True:
        scheduler.check()
        await asyncio.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_command_is_split_as_a_shell_does_and_filled_in() -> None:
    parsed = Command.parse("'my scheduler' --config={config} --auth {kubeconfig} --ports {port},{port} --other {else}", "/k 1")
    assert parsed.filled(Path("/tmp/c"), 81) == [
        "my scheduler",
        "--config=/tmp/c",
        "--auth",
        "/k 1",
        "--ports",
        "81,81",
        "--other",
        "{else}",
    ]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("kube-scheduler --port {port}", "expected {config} in it"),
        ("kube-scheduler {config}", "expected {port} in it"),
        ("'", "No closing"),
    ],
)
def test_a_command_without_its_own_configuration_and_port_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong.replace("{", r"\{")):
        Command.parse(text, "")


def test_a_port_is_not_given_twice_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.scenario.live.process.PORTS", range(20_000, 20_020))
    found = [free_port() for _ in range(10)]  # some may be taken by other programs
    assert len(set(found)) == len(found)


def test_a_port_is_not_given_to_two_processes_before_either_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.scenario.live.process.PORTS", range(20_020, 20_040))
    found = [free_port() for _ in range(5)]
    program = (
        "from koordsched.scenario.live import process\n"
        "process.PORTS = range(20_020, 20_040)\n"
        "print(*(process.free_port() for _ in range(5)))"
    )
    others = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert len({*found, *map(int, others)}) == 10


def test_the_configuration_is_what_was_given_on_this_cluster_without_election() -> None:
    given = {
        **KIND,
        "parallelism": 4,
        "clientConnection": {"qps": 7, "kubeconfig": "else"},
        "leaderElection": {"leaderElect": True, "x": 1},
    }
    assert configuration(Launch(config=empty_config(), document=given), "/k") == {
        **KIND,
        "parallelism": 4,
        "clientConnection": {"qps": 7, "kubeconfig": "/k"},
        "leaderElection": {"leaderElect": False, "x": 1},
    }


async def test_a_scheduler_is_ready_when_it_says_so(bench: Bench) -> None:
    scheduler = bench.scheduler("--not-ready=2", profiles=[{"schedulerName": "mine"}])
    await scheduler.start()
    assert (await answer(scheduler, "/config"))["profiles"] == [{"schedulerName": "mine"}]
    args = await answer(scheduler, "/args")
    assert (args["kubeconfig"], args["not_ready"]) == ("/cluster/kubeconfig", 2)
    assert (await scheduler.get("/readyz")).body == b"ok"
    assert (await scheduler.get("/no/such?a=%2F")).body == b"/no/such?a=%2F"


async def test_one_that_knows_only_healthz_is_ready_by_that(bench: Bench) -> None:
    scheduler = bench.scheduler("--only-healthz")
    await scheduler.start()
    assert (await scheduler.get("/readyz")).status == 404


async def test_one_that_is_killed_can_be_started_again(bench: Bench) -> None:
    scheduler = bench.scheduler("--stubborn")
    await scheduler.start()
    first = await answer(scheduler, "/pid")
    await scheduler.kill()
    assert not alive(first)
    await scheduler.start()
    assert await answer(scheduler, "/pid") != first


async def test_the_end_of_the_log_has_earlier_starts_and_the_last_words_have_not(bench: Bench) -> None:
    scheduler = bench.scheduler()
    await scheduler.start()
    for _ in range(2):
        with pytest.raises(ClusterError):
            await scheduler.get("/exit")
        await scheduler.kill()
        await scheduler.start()
    assert scheduler.log_tail() == ["about to end"] * 2
    os.kill(await answer(scheduler, "/pid"), signal.SIGKILL)
    with pytest.raises(ClusterError, match="signal 9; it said nothing"):
        await until_ended(scheduler)


async def test_one_that_is_stopped_leaves_nothing(bench: Bench) -> None:
    scheduler = bench.scheduler()
    await scheduler.start()
    pid, folder = await answer(scheduler, "/pid"), Path((await answer(scheduler, "/args"))["config"]).parent
    await scheduler.stop()
    assert not alive(pid)
    assert not folder.exists()


async def test_one_that_does_not_stop_is_killed(bench: Bench) -> None:
    scheduler = bench.scheduler("--stubborn")
    await scheduler.start()
    pid = await answer(scheduler, "/pid")
    await scheduler.stop()
    assert not alive(pid)


async def test_one_that_refuses_to_start_is_quoted(bench: Bench) -> None:
    with pytest.raises(ClusterError) as raised:
        await bench.scheduler("--refuse=no plugin X").start()
    assert raised.value.message == "the scheduler ended with code 1; its last words: reading | no plugin X"


async def test_one_that_ends_by_itself_is_noticed(bench: Bench) -> None:
    scheduler = bench.scheduler()
    await scheduler.start()
    scheduler.check()
    with pytest.raises(ClusterError, match="GET /exit"):
        await scheduler.get("/exit")
    with pytest.raises(ClusterError, match="the scheduler ended with code 3; its last words: about to end"):
        await until_noticed(scheduler)


async def until_noticed(scheduler: SchedulerProcess) -> None:
    """Look again and again: the loop hears of the end a little later."""
    for _ in range(100):
        scheduler.check()
        await asyncio.sleep(0.05)


async def test_one_that_is_never_ready_is_given_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.scenario.live.process.READY_WITHIN", 0.4)
    with pytest.raises(ClusterError, match=r"not ready after 0\.4s: .*; it said nothing"):
        await bench.scheduler("--not-ready=1000").start()


async def test_a_command_that_does_not_exist_is_named() -> None:
    missing = SchedulerProcess(Command(("/no/such/scheduler",), ""), Launch(config=empty_config(), document=KIND), RealClock())
    with pytest.raises(ClusterError, match="/no/such/scheduler cannot be run: No such file or directory"):
        await missing.start()
    await missing.stop()
