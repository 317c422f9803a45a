"""A koord-scheduler that serves, as a process of its own: how operators run it.

`Command` says what to start; whoever starts it (a control plane, or `subprocess`) gets a `Served` to ask it things over its plain port.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from koordsched.scenario.live.process import free_port

TIMEOUT = 60.0
POLL_SECONDS = 0.05
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Ended(NamedTuple):
    """A run that is over."""

    code: int
    lines: list[dict[str, Any]]  # of the log
    text: str

    def of(self, level: str) -> list[str]:
        return [line["msg"] for line in self.lines if line.get("level") == level]


class Served(NamedTuple):
    """A scheduler on loopback, to be asked over its plain port."""

    port: int

    def get(self, path: str) -> tuple[int, str]:
        """Ask for a path; status 0 while no server listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)

    def ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def await_readiness(self, timeout: float = TIMEOUT) -> None:
        deadline = time.monotonic() + timeout
        while not self.ready():
            assert time.monotonic() < deadline, f"not ready after {timeout} s: {self.get('/readyz')}"
            time.sleep(POLL_SECONDS)


def write_config(folder: Path, kubeconfig: Path | str, **fields: Any) -> Path:
    """Write a configuration that connects with this kubeconfig; fields are the file's."""
    connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
    body = {**HEADER, "leaderElection": {"leaderElect": False}, "clientConnection": connection, **fields}
    path = folder / "scheduler.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    return path


def command(*flags: str | Path, port: int | None = None) -> tuple[Served, list[str]]:
    """Return how to start a scheduler that logs JSON and listens on loopback only, and what it then is."""
    served = Served(port or free_port())
    line = [sys.executable, "-m", "koordsched", f"--port={served.port}", "--address=127.0.0.1", "--secure-port=0", "--logging-format=json"]
    return served, [*line, *map(str, flags)]


def run(line: Sequence[str], timeout: float = TIMEOUT, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a command line to its own end; subprocess.TimeoutExpired when it does not end."""
    done = subprocess.run(
        line, check=False, timeout=timeout, capture_output=True, text=True, env=dict(environment or os.environ), stdin=subprocess.DEVNULL
    )
    return ended(done.returncode, done.stdout + done.stderr)


def ended(code: int, text: str) -> Ended:
    """Read a log of JSON lines; lines that are no JSON are kept in the text alone."""
    return Ended(code, [json.loads(line) for line in text.splitlines() if line.startswith("{")], text)
