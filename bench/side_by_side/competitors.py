"""Who takes part: how each is started and asked for its metrics. All get the same client limits and scheduler name, and all but
koord-scheduler, which reads much besides what a theme needs, the same user."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from support.controlplane.credentials import ADMIN, SCHEDULER, Identity, by_token
from support.controlplane.plane import ControlPlane
from support.differential.koordinator.koord_scheduler import VARIABLE, executable
from support.served import Served, command, write_config

from koordsched.scenario.live.process import free_port
from side_by_side import cpus, gangs, gpus, koordinator, quotas, reservations, traced
from side_by_side.gpus import GPU, JOINT
from side_by_side.quotas import QUOTA
from side_by_side.workload import CPUSET, KOORDINATORS, SCHEDULER_NAME, Workload

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
    """kube-scheduler, or one that is built on it."""

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
    """Our scheduler with its defaults, which are kube-scheduler's: one profile of in-tree plugins; and the plugin that a theme is about."""
    config = write_config(plane.folder, kubeconfig_of(plane), **profiles_for(load.theme))
    served, line = command("--config", config, *flags_for(load.theme))
    return Ours(line, served)


def ours_traced(plane: ControlPlane, load: Workload) -> Ours:
    """Our scheduler as above, with traces of some attempts."""
    plain = ours(plane, load)
    return plain._replace(line=["env", *traced.environment(), *plain.line])


def kube_scheduler(plane: ControlPlane, _load: Workload) -> KubeScheduler:
    return _built_on_kube_scheduler(plane, plane.binaries.kube_scheduler, write_config(plane.folder, kubeconfig_of(plane)))


def koord_scheduler(plane: ControlPlane, load: Workload) -> KubeScheduler:
    """Koordinator's scheduler, configured as ours, with its plugin Reservation besides: its other plugins need that."""
    config = write_config(plane.folder, kubeconfig_of(plane, ADMIN), **profiles_for(load.theme, "Reservation"))
    return _built_on_kube_scheduler(plane, executable(os.environ), config, "--port=0", *flags_for(load.theme))


def profiles_for(theme: str, *needed: str) -> dict[str, Any]:
    """Return what a configuration says besides its connection: the plugin that a theme is about, and what it needs, beside the defaults."""
    if theme in koordinator.CHART:
        return {"profiles": [{**koordinator.profile(), "schedulerName": SCHEDULER_NAME}]}
    if theme == QUOTA:
        return {"profiles": [{"schedulerName": SCHEDULER_NAME, **quotas.PROFILE}]}
    if theme in gangs.SIZES:
        return {"profiles": [{"schedulerName": SCHEDULER_NAME, **gangs.profile(theme, *needed)}]}
    reserved = dict.fromkeys((reservations.OWNERS, reservations.STRANGERS), reservations.PLUGIN)
    plugin = {CPUSET: cpus.PLUGIN, GPU: gpus.PLUGIN, JOINT: gpus.PLUGIN, **reserved}.get(theme)
    enabled = [] if plugin is None else [{"name": name} for name in dict.fromkeys((plugin, *needed))]
    return {"profiles": [{"schedulerName": SCHEDULER_NAME, "plugins": {"multiPoint": {"enabled": enabled}}}]} if enabled else {}


def flags_for(theme: str) -> tuple[str, ...]:
    return koordinator.FLAGS if theme in koordinator.CHART else gangs.flags(theme)


def _built_on_kube_scheduler(plane: ControlPlane, program: Path, config: Path, *flags: str) -> KubeScheduler:
    port = free_port()
    line = [
        str(program),
        f"--config={config}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={plane.folder / 'server.crt'}",
        f"--tls-private-key-file={plane.folder / 'server.key'}",
        f"--authorization-always-allow-paths={OPEN_PATHS}",
        *flags,
    ]
    return KubeScheduler(line, port, plane.authority.certificate)


def null(plane: ControlPlane, load: Workload) -> Null:
    return Null([sys.executable, "-m", "side_by_side.null_binder", f"--kubeconfig={kubeconfig_of(plane)}", f"--theme={load.theme}"])


def kubeconfig_of(plane: ControlPlane, identity: Identity = SCHEDULER) -> Path:
    return plane.kubeconfig(by_token(plane.tokens[identity])).write(plane.folder / "scheduler.kubeconfig")


KUBE_SCHEDULER, KOORD_SCHEDULER = "kube-scheduler", "koord-scheduler"
OURS_TRACED = "ours-traced"
COMPETITORS: dict[str, Competitor] = {
    KUBE_SCHEDULER: kube_scheduler,
    KOORD_SCHEDULER: koord_scheduler,
    "ours": ours,
    OURS_TRACED: ours_traced,
    "null": null,
}


def able(theme: str) -> list[str]:
    """Return who can do what a theme asks for."""
    return [name for name in COMPETITORS if theme not in KOORDINATORS or name != KUBE_SCHEDULER]


def usual(theme: str, environ: Mapping[str, str]) -> list[str]:
    """Return who takes part unless others are named: koord-scheduler where a theme is about its plugins, and only if it is there."""
    asked = theme in {*KOORDINATORS, *koordinator.CHART} and VARIABLE in environ
    return [name for name in able(theme) if name != OURS_TRACED and (asked or name != KOORD_SCHEDULER)]
