"""Who takes part: how each is started and asked for its metrics. All get the same client limits, user and scheduler name."""

from __future__ import annotations

import ssl
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from support.controlplane.credentials import SCHEDULER, by_token
from support.controlplane.plane import ControlPlane
from support.served import Served, command, write_config

from koordsched.scenario.live.process import free_port
from side_by_side import cpus
from side_by_side.workload import CPUSET, SCHEDULER_NAME, Workload

METRICS = "/metrics"
OPEN_PATHS = "/metrics,/healthz,/readyz,/livez"
TIMEOUT_SECONDS = 10.0


class Entrant(Protocol):
    """A competitor on one control plane. `line` starts it."""

    @property
    def line(self) -> Sequence[str]: ...

    def metrics(self) -> str:
        """Return what it says of itself in Prometheus' text format, or "" when it says nothing."""


class Competitor(Protocol):
    """Makes an entrant for a control plane and what will be on it."""

    def __call__(self, plane: ControlPlane, load: Workload, /) -> Entrant: ...


class Ours(NamedTuple):
    line: Sequence[str]
    served: Served

    def metrics(self) -> str:
        return self.served.get(METRICS)[1]


class KubeScheduler(NamedTuple):
    line: Sequence[str]
    port: int
    authority: bytes

    def metrics(self) -> str:
        trust = ssl.create_default_context(cadata=self.authority.decode())
        with urllib.request.urlopen(f"https://127.0.0.1:{self.port}{METRICS}", timeout=TIMEOUT_SECONDS, context=trust) as answer:
            return str(answer.read().decode())


class Null(NamedTuple):
    line: Sequence[str]

    def metrics(self) -> str:
        return ""


def ours(plane: ControlPlane, load: Workload) -> Ours:
    """Our scheduler with its defaults, which are kube-scheduler's: one profile of in-tree plugins; and NodeNUMAResource for CPUs."""
    fields = {"profiles": [{"schedulerName": SCHEDULER_NAME, "plugins": cpus.PLUGINS}]} if load.theme == CPUSET else {}
    served, line = command("--config", write_config(plane.folder, kubeconfig_of(plane), **fields))
    return Ours(line, served)


def kube_scheduler(plane: ControlPlane, _load: Workload) -> KubeScheduler:
    port = free_port()
    line = [
        str(plane.binaries.kube_scheduler),
        f"--config={write_config(plane.folder, kubeconfig_of(plane))}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={plane.folder / 'server.crt'}",
        f"--tls-private-key-file={plane.folder / 'server.key'}",
        f"--authorization-always-allow-paths={OPEN_PATHS}",
    ]
    return KubeScheduler(line, port, plane.authority.certificate)


def null(plane: ControlPlane, load: Workload) -> Null:
    line = [sys.executable, "-m", "side_by_side.null_binder", f"--kubeconfig={kubeconfig_of(plane)}"]
    return Null([*line, *(["--cpusets"] if load.theme == CPUSET else [])])


def kubeconfig_of(plane: ControlPlane) -> Path:
    return plane.kubeconfig(by_token(plane.tokens[SCHEDULER])).write(plane.folder / "scheduler.kubeconfig")


KUBE_SCHEDULER = "kube-scheduler"
COMPETITORS: dict[str, Competitor] = {KUBE_SCHEDULER: kube_scheduler, "ours": ours, "null": null}


def able(theme: str) -> list[str]:
    """Return who can do what a theme asks for."""
    return [name for name in COMPETITORS if theme != CPUSET or name != KUBE_SCHEDULER]
