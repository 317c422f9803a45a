"""`PYTHONPATH=bench:tests python -m serving_load`: the command line."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from side_by_side.__main__ import compile_packages, say
from side_by_side.competitors import METRICS, kubeconfig_of
from side_by_side.figures import Figures, figures
from side_by_side.race import REST_SECONDS, SCHEDULER, Race, Waiting, race
from side_by_side.workload import Workload
from support.controlplane.binaries import find_or_build
from support.controlplane.credentials import ADMIN
from support.controlplane.plane import ControlPlane
from support.served import Served, command, write_config

from koordsched.apiclient.client import Client
from koordsched.scenario.live.process import free_port
from serving_load.client import ESTABLISHED, Outcome
from serving_load.probed import Lags

SHOWN = ("whole_pods_s", "steady_pods_s", "scheduler_cpu_ms_pod", "api_server_cpu_ms_pod", "peak_rss_mib", "strangers_cores")

LOGGED = 3000  # characters
POLL_SECONDS = 0.01
LOCK = "koord-scheduler"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
ELECTION = {
    "leaderElect": True,
    "resourceName": LOCK,
    "resourceNamespace": "kube-system",
    "leaseDuration": "600s",
    "renewDeadline": "10s",
    "retryPeriod": "200ms",
}
LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": LOCK},
    "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000000Z"},
}


class Result(msgspec.Struct):
    """One run. `load` is None without any."""

    figures: Figures
    lags: Lags
    load: Outcome | None = None


class Entrant(NamedTuple):
    """Ours, which is asked for its metrics some time after the last pod: its memory is watched until then."""

    line: Sequence[str]
    served: Served
    after: float
    log: Path
    client: subprocess.Popen[bytes] | None

    def under_load(self) -> None:
        """Wait until the load's client, if there is one, has all its connections."""
        if self.client is not None:
            assert self.client.stdout is not None
            assert self.client.stdout.readline() == ESTABLISHED

    def metrics(self) -> str:
        time.sleep(self.after)
        _, trace, rest = self.log.read_text(encoding="utf-8").partition("Traceback")
        if trace:
            say(f"the scheduler's log has a traceback:{rest[:LOGGED]}")
        return self.served.get(METRICS)[1]


class LeaseRace(Race):
    """The scheduler stands by, filled, served and under its load, until it gets the lease: that is when measuring begins."""

    async def _fill(self, client: Client) -> None:
        await super()._fill(client)
        await client.request("POST", LEASES, LEASE)

    async def _runs_before(self, _client: Client, _waiting: Waiting) -> bool:
        entrant = self._entrant
        assert isinstance(entrant, Entrant)
        await asyncio.to_thread(entrant.served.await_readiness)
        await asyncio.to_thread(entrant.under_load)
        await asyncio.sleep(REST_SECONDS)
        return True

    async def _begin(self, client: Client) -> float:
        await client.request("PATCH", f"{LEASES}/{LOCK}", {"spec": {"holderIdentity": ""}})
        while not (await client.request("GET", f"{LEASES}/{LOCK}"))["spec"]["holderIdentity"]:  # noqa: ASYNC110  # another process does
            await asyncio.sleep(POLL_SECONDS)
        return time.monotonic()


class Bench:
    """One run of our scheduler: `entrant` makes it for a control plane, beside the load."""

    def __init__(self, folder: Path, rate: float, parsed: argparse.Namespace) -> None:
        self._without: str = parsed.without
        self._lags = folder / "lags.json"
        self._rate = rate
        self._after: float = parsed.after if rate else 0.0
        self._client: subprocess.Popen[bytes] | None = None

    def entrant(self, plane: ControlPlane, _load: Workload) -> Entrant:
        kubeconfig, port = kubeconfig_of(plane), free_port()
        served, (python, _, _, *flags) = command("--config", write_config(plane.folder, kubeconfig, leaderElection=ELECTION))
        secure = [f"--secure-port={port}", "--bind-address=127.0.0.1"]
        reviews = [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]
        if self._rate:
            arguments = [
                f"--plain={served.port}",
                f"--secure={port}",
                f"--token={plane.tokens[ADMIN]}",
                f"--rate={self._rate}",
                f"--without={self._without}",
            ]
            self._client = subprocess.Popen([python, "-m", "serving_load.client", *arguments], stdout=subprocess.PIPE)
        line = [python, "-m", "serving_load.probed", str(self._lags), *flags, *secure, *reviews]
        return Entrant(line, served, self._after, plane.folder / f"{SCHEDULER}.log", self._client)

    def result(self, found: Figures) -> Result:
        lags = msgspec.json.decode(self._lags.read_bytes(), type=Lags)
        return Result(found, lags, self._outcome())

    def _outcome(self) -> Outcome | None:
        if self._client is None:
            return None
        self._client.terminate()
        text, _ = self._client.communicate(timeout=30)
        return msgspec.json.decode(text, type=Outcome)


def one_run(parsed: argparse.Namespace, rate: float) -> Result:
    load = Workload(nodes=parsed.nodes, pods=parsed.pods)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), rate, parsed)
        found = figures(race(find_or_build(os.environ, say), bench.entrant, load, say, LeaseRace), load)
        return bench.result(found)


def shown(result: Result) -> dict[str, object]:
    """Return what a run comes to, in short."""
    found: dict[str, object] = {name: round(getattr(result.figures, name), 2) for name in SHOWN}
    found["lag_ms"] = msgspec.to_builtins(result.lags)
    if (load := result.load) is not None:
        found["answers"] = {
            name: f"{counts}, median {load.median_ms[name]} ms, at most {load.max_ms[name]} ms" for name, counts in load.answers.items()
        }
        found["failures"] = load.failures
        found["resident_mib"] = load.resident_mib
        found["requests_s"] = round(sum(sum(counts.values()) for counts in load.answers.values()) / load.seconds)
        found["load_cores"] = round(load.cpu_seconds / load.seconds, 2)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="serving_load", description="What the ports cost scheduling, on a real etcd and kube-apiserver.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second to every endpoint (default 50)")
    parser.add_argument("--after", type=float, default=30.0, help="seconds for which the load goes on after the last pod (default 30)")
    parser.add_argument("--without", default="", metavar="TEXT", help="leave out endpoints whose path has this")
    parser.add_argument("--only-with", action="store_true", help="no run without the load")
    parser.add_argument("--repeat", type=int, default=1, help="pairs of runs, without and with the load")
    parsed = parser.parse_args()
    compile_packages()
    for _ in range(parsed.repeat):
        for rate in (parsed.rate,) if parsed.only_with else (0.0, parsed.rate):
            found = shown(one_run(parsed, rate))
            say(f"{'with' if rate else 'without'} load:")
            sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found, order="sorted")) + b"\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
