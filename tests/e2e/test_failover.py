"""Two schedulers and one lease: whatever happens to the leader, the other one goes on, and never both.

How often and with which times is for the environment to say: KOORDSCHED_FAILOVER_KILLS (3), KOORDSCHED_FAILOVER_STALLS (1), and
KOORDSCHED_FAILOVER_TIMES=default for kube-scheduler's 15, 10 and 2 seconds. With -s the figures are printed.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from support.controlplane.credentials import SCHEDULER, STRANGER, Kubeconfig, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.processes import Process
from support.controlplane.rest import Rest
from support.distributions import with_plugin
from support.live import create_node, create_pod, until
from support.placements import Placements
from support.proxy import Proxy, Weather
from support.recount import recount
from support.served import TIMEOUT, command, ended, write_config
from support.slowness import Slowness

KILLS = int(os.environ.get("KOORDSCHED_FAILOVER_KILLS", "3"))
STALLS = int(os.environ.get("KOORDSCHED_FAILOVER_STALLS", "1"))


class Times(NamedTuple):
    """leaderElection's seconds, and for how long a leader is stopped."""

    lease: float
    renew: float
    retry: float
    stall: float

    @property
    def fields(self) -> dict[str, str]:
        return {"leaseDuration": f"{self.lease}s", "renewDeadline": f"{self.renew}s", "retryPeriod": f"{self.retry}s"}


DEFAULT = Times(15.0, 10.0, 2.0, 20.0)
TIMES = DEFAULT if os.environ.get("KOORDSCHED_FAILOVER_TIMES") == "default" else Times(4.0, 2.5, 1.0, 8.0)
HANDOVER_SECONDS = 3.0
NODES, PODS_A_NODE = 60, 110
BACKLOG = 1500
PAUSE_SECONDS = 0.1  # between two pods of the load
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
STATUS = re.compile(r'^leader_election_master_status\{name="kube-scheduler"\} (\d)', re.MULTILINE)


class Setup(NamedTuple):
    """How a contestant is started, beside its credentials."""

    times: Times = TIMES
    profiles: Sequence[Mapping[str, Any]] = ()
    environment: Mapping[str, str] | None = None


class Contestant:
    """One of the schedulers; it may be started again and again."""

    def __init__(self, plane: ControlPlane, folder: Path, kubeconfig: Kubeconfig, setup: Setup) -> None:
        folder.mkdir()
        self.name = folder.name
        self._plane = plane
        fields = {"leaderElection": setup.times.fields, **({"profiles": setup.profiles} if setup.profiles else {})}
        path = write_config(folder, kubeconfig.write(folder / "kubeconfig"), **fields)
        self.served, self._line = command("--config", path)
        self._environment = setup.environment
        self.process: Process = self.start()

    def start(self) -> Process:
        self.process = self._plane.spawn(self.name, self._line, self._environment)
        return self.process

    def await_readiness(self) -> None:
        self.process.wait_until(self.served.ready, TIMEOUT)

    @property
    def leads(self) -> bool:
        found = STATUS.search(self.served.get("/metrics")[1])
        return found is not None and found[1] == "1"

    def ended(self) -> tuple[int, str]:
        """Wait for its own end; return its exit code and its log."""
        code = self.process.wait(TIMEOUT)
        return code, ended(code, self.process.log.read_text()).text


class Pair(NamedTuple):
    """The one that leads, and the one that waits."""

    leader: Contestant
    standby: Contestant

    def swapped(self) -> Pair:
        return Pair(self.standby, self.leader)


def scheduler_kubeconfig(plane: ControlPlane) -> Kubeconfig:
    return plane.kubeconfig(by_token(plane.tokens[SCHEDULER]))


def pair(plane: ControlPlane, folder: Path, times: Times = TIMES, leader: Kubeconfig | None = None) -> Pair:
    """Start one that leads, then one that waits."""
    first = Contestant(plane, folder / "first", leader or scheduler_kubeconfig(plane), Setup(times))
    until(lambda: first.leads)
    second = Contestant(plane, folder / "second", scheduler_kubeconfig(plane), Setup(times))
    second.await_readiness()
    return Pair(first, second)


@contextmanager
def load(plane: ControlPlane) -> Iterator[None]:
    """Create a small pod every moment."""
    ending = threading.Event()
    rest = plane.rest()

    def create() -> None:
        number = 0
        while not ending.wait(PAUSE_SECONDS):
            number += 1
            create_pod(rest, f"load-{number}", "10m")

    thread = threading.Thread(target=create, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def bind_of_a_pod_since(placements: Placements, moment: float, timeout: float) -> float:
    """Return when the first of the pods that were created after this moment was seen bound."""

    def found() -> float:
        stories = list(placements.stories.values())
        return min((story.bound for story in stories if story.seen > moment and story.bound), default=0.0)

    return float(until(found, timeout))


def fill(rest: Rest) -> None:
    for i in range(NODES):
        create_node(rest, f"node-{i}", "64")


def check_nothing_wrong(rest: Rest, placements: Placements) -> None:
    until(lambda: all(story.nodes[-1] for story in list(placements.stories.values())))
    assert placements.strayed() == []
    assert recount(rest).overcommitted() == {}


def say(line: str) -> None:
    """Show a figure: pytest -s."""
    sys.stdout.write(f"\n{line}\n")


def figures(what: str, seconds: list[float]) -> None:
    ordered = sorted(seconds)
    shown = " ".join(f"{each:.2f}" for each in ordered)
    say(f"{what}: {len(ordered)} times, median {ordered[len(ordered) // 2]:.2f} s, longest {ordered[-1]:.2f} s ({shown})")


def test_kills_of_the_leader_under_load(plane: ControlPlane, tmp_path: Path) -> None:
    rest, random, took = plane.rest(), Random(7), list[float]()
    fill(rest)
    both = pair(plane, tmp_path)
    with Slowness() as slowness, Placements(plane.kubeconfig()) as placements, load(plane):
        for _ in range(KILLS):
            bind_of_a_pod_since(placements, time.monotonic(), TIMEOUT)
            time.sleep(random.uniform(0.0, 2 * TIMES.retry))
            both.leader.process.kill()
            killed = time.monotonic()
            took.append(bind_of_a_pod_since(placements, killed, TIMEOUT) - killed)
            both.leader.start()
            both.leader.await_readiness()
            both = both.swapped()
            assert both.leader.leads
    figures(f"kill -9, lease of {TIMES.lease:g} s, until the standby binds", took)
    with Placements(plane.kubeconfig()) as placements:
        check_nothing_wrong(rest, placements)
    assert max(took) <= (TIMES.lease + TIMES.retry) * slowness.factor
    assert rest.get(LEASE)["spec"]["leaseTransitions"] == KILLS


def test_terminations_of_the_leader_under_load(plane: ControlPlane, tmp_path: Path) -> None:
    """With the default times, of which the retry period is the one that counts here."""
    rest, took = plane.rest(), list[float]()
    fill(rest)
    both = pair(plane, tmp_path, DEFAULT)
    with Slowness() as slowness, Placements(plane.kubeconfig()) as placements, load(plane):
        for _ in range(KILLS):
            bind_of_a_pod_since(placements, time.monotonic(), TIMEOUT)
            stopped = time.monotonic()
            both.leader.process.signal(signal.SIGTERM)
            code, text = both.leader.ended()
            assert (code, "Traceback" in text) == (0, False)
            assert "released leader lease" in text
            took.append(bind_of_a_pod_since(placements, time.monotonic(), TIMEOUT) - stopped)
            both.leader.start()
            both.leader.await_readiness()
            both = both.swapped()
    figures("SIGTERM, default times, until the standby binds", took)
    with Placements(plane.kubeconfig()) as placements:
        check_nothing_wrong(rest, placements)
    assert max(took) <= HANDOVER_SECONDS * slowness.factor


def test_a_leader_that_was_stopped_for_longer_than_its_lease_binds_nothing_more(plane: ControlPlane, tmp_path: Path) -> None:
    """It is stopped in the middle of a burst, with requests at every stage of their way out; a proxy counts those that get there."""
    rest, random = plane.rest(), Random(11)
    fill(rest)
    sent = [stop_in_a_burst(plane, tmp_path / f"stall-{number}", random) for number in range(STALLS)]
    say(f"SIGSTOP for {TIMES.stall:g} s, after {sent} binds: none after it")


def stop_in_a_burst(plane: ControlPlane, folder: Path, random: Random) -> int:
    """Let a leader bind, stop it for longer than its lease, and let it go on; return how many binds it had sent."""
    folder.mkdir()
    rest, weather, pool = plane.rest(), Weather(Random(1)), folder.name
    with Proxy(plane, weather, folder) as proxy, Placements(plane.kubeconfig()) as placements:
        both = pair(plane, folder, leader=proxy.kubeconfig(by_token(plane.tokens[SCHEDULER])))
        for number in range(BACKLOG):
            create_pod(rest, f"{pool}-{number}", "10m", pool=pool)
        before = placements.bound
        for number in range(BACKLOG // PODS_A_NODE + 1):
            create_node(rest, f"{pool}-{number}", "64", pool=pool)
        while placements.bound < before + random.randrange(BACKLOG // 10, BACKLOG // 2):
            time.sleep(0.001)
        stopped = time.monotonic()
        both.leader.process.signal(signal.SIGSTOP)
        time.sleep(TIMES.lease / 4)
        sent = weather.seen["bind", "pods"]
        assert 0 < sent < BACKLOG
        until(lambda: both.standby.leads, TIMEOUT)
        until(lambda: placements.bound == before + BACKLOG)
        time.sleep(max(0.0, stopped + TIMES.stall - time.monotonic()))
        both.leader.process.signal(signal.SIGCONT)
        code, text = both.leader.ended()
        assert (code, "Leaderelection lost" in text, "Traceback" in text) == (1, True, False)
        assert weather.seen["bind", "pods"] == sent
        check_nothing_wrong(rest, placements)
        both.standby.process.stop(TIMEOUT)
    return sent


BLOCKER = """
import ctypes, os, time
from koordsched.framework.interface import FilterPlugin
from koordsched.log import get_logger

SECONDS = 30


class Blocker(FilterPlugin):
    name = "Blocker"

    def __init__(self, args, handle):
        self._way = os.environ.get("BLOCKER_WAY")

    def filter(self, state, pod, node):
        if self._way and pod.pod.metadata.name == "blocker":
            way, self._way = self._way, ""
            block(way)
        return None


def block(way):
    if way == "in Python":
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            pass
    elif way == "in C, holding the interpreter":
        ctypes.PyDLL(None).sleep(SECONDS)
    elif way == "in a log that is not read":
        _, end = os.pipe()
        os.set_blocking(end, False)
        try:
            while True:
                os.write(end, bytes(4096))
        except BlockingIOError:
            os.set_blocking(end, True)
        os.dup2(end, 2)
        get_logger("blocker").error("this waits for ever")
"""
BLOCKING_PROFILE = {"schedulerName": "default-scheduler", "plugins": {"filter": {"enabled": [{"name": "Blocker"}]}}}


@pytest.mark.parametrize("way", ["in Python", "in C, holding the interpreter", "in a log that is not read"])
def test_a_leader_whose_plugin_blocks_for_30_s_gives_way_to_the_standby(plane: ControlPlane, tmp_path: Path, way: str) -> None:
    rest = plane.rest()
    fill(rest)
    environment = with_plugin(tmp_path / "plugin", "Blocker", BLOCKER)
    kubeconfig = scheduler_kubeconfig(plane)
    leader = Contestant(plane, tmp_path / "first", kubeconfig, Setup(TIMES, [BLOCKING_PROFILE], {**environment, "BLOCKER_WAY": way}))
    until(lambda: leader.leads)
    standby = Contestant(plane, tmp_path / "second", kubeconfig, Setup(TIMES, [BLOCKING_PROFILE], environment))
    standby.await_readiness()
    with Slowness() as slowness, Placements(plane.kubeconfig()) as placements:
        for number in range(300):
            create_pod(rest, f"before-{number}", "10m")
        blocked = time.monotonic()
        create_pod(rest, "blocker", "10m")
        for number in range(300):
            create_pod(rest, f"after-{number}", "10m")
        code, text = leader.ended()
        ended_after = time.monotonic() - blocked
        until(lambda: standby.leads, TIMEOUT)
        took = time.monotonic() - blocked
        check_nothing_wrong(rest, placements)
        assert placements.bound == 601
    say(f"blocked {way}: the first ends after {ended_after:.1f} s, the standby leads after {took:.1f} s")
    assert code == 1
    backlog = 2 * slowness.factor  # what is before the blocking pod has to be bound first: 11 s were seen where a process was slower by 8.5
    assert took <= TIMES.lease + TIMES.retry + backlog
    assert standby.process.running
    if way == "in Python":
        assert "Leaderelection lost" in text
        assert "the scheduling loop does not run" in text
        assert "blocker.py" in text


def test_a_lease_that_another_process_takes_ends_the_leader(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    leader = Contestant(plane, tmp_path / "first", scheduler_kubeconfig(plane), Setup())
    until(lambda: leader.leads)
    with Slowness() as slowness:
        taken = time.monotonic()
        rest.patch(LEASE, {"spec": {"holderIdentity": "other", "leaseDurationSeconds": 1}})
        code, text = leader.ended()
        took = time.monotonic() - taken
    assert (code, "Leaderelection lost" in text) == (1, True)
    assert took <= (TIMES.renew + TIMES.retry) * slowness.factor


def test_who_may_not_touch_leases_says_so_and_waits(plane: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = plane.kubeconfig(by_token(plane.tokens[STRANGER]))
    rest = plane.rest()
    grant(rest)
    stranger = Contestant(plane, tmp_path / "stranger", kubeconfig, Setup())
    stranger.await_readiness()
    log = until(lambda: _line(stranger.process.log.read_text(), "leader election: a request failed"))
    for word in ("get", "leases.coordination.k8s.io", "kube-system", "kube-scheduler", 'User \\"stranger\\" cannot get resource'):
        assert word in log
    assert stranger.process.running
    assert not stranger.leads
    rest.delete(f"{ROLES}/reader")
    rest.delete(f"{BINDINGS}/reader")


def grant(rest: Rest) -> None:
    """Let the stranger read everything but leases."""
    groups = ["", "storage.k8s.io", "policy", "apps", "resource.k8s.io", "scheduling.k8s.io"]
    rules = [{"apiGroups": groups, "resources": ["*"], "verbs": ["list", "watch", "get"]}]
    rest.create(
        ROLES, {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}, "rules": rules}
    )
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "stranger"}]
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reader"}}
    rest.create(BINDINGS, {**binding, "roleRef": reference, "subjects": subjects})


def _line(text: str, part: str) -> str:
    return next((line for line in text.splitlines() if part in line), "")
