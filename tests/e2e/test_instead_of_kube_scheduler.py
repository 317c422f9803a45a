"""koord-scheduler takes kube-scheduler's place and gives it back: both take part in one election, so one schedules at a time."""

from __future__ import annotations

from pathlib import Path

import yaml
from support.controlplane.accounts import service_account
from support.controlplane.credentials import SCHEDULER, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.processes import Process
from support.controlplane.rest import Refused, Rest
from support.live import create_node, create_pod, nodes_of_pods, until
from support.served import TIMEOUT, Served, command, ended, write_config

from koordsched.scenario.live.process import free_port

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "instead-of-kube-scheduler"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


def holder(rest: Rest) -> str:
    try:
        return str(rest.get(LEASE)["spec"].get("holderIdentity", ""))
    except Refused:
        return ""  # there is none yet


def start_kube_scheduler(plane: ControlPlane, folder: Path) -> Process:
    kubeconfig = plane.kubeconfig(by_token(plane.tokens[SCHEDULER])).write(folder / "kube-scheduler.kubeconfig")
    flags = [f"--{name}kubeconfig={kubeconfig}" for name in ("", "authentication-", "authorization-")]
    return plane.spawn("kube-scheduler", [str(plane.binaries.kube_scheduler), *flags, f"--secure-port={free_port()}", "-v=2"])


def start_ours(plane: ControlPlane, token: str, folder: Path) -> tuple[Served, Process]:
    kubeconfig = plane.kubeconfig(by_token(token)).write(folder / "kubeconfig")
    given = yaml.safe_load((EXAMPLE / "koord-scheduler-config.yaml").read_text(encoding="utf-8"))
    served, line = command("--config", write_config(folder, kubeconfig, **given))
    return served, plane.spawn("koord-scheduler-instead", line)


def test_each_schedules_while_the_other_is_stopped(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "8")
    with service_account(rest, ROOT / "config" / "rbac.yaml", EXAMPLE / "rbac.yaml") as token:
        theirs = start_kube_scheduler(plane, tmp_path)
        first = until(lambda: holder(rest))
        served, ours = start_ours(plane, token, tmp_path)
        ours.wait_until(served.ready, TIMEOUT)
        create_pod(rest, "by-theirs", "1")
        until(lambda: nodes_of_pods(rest)["by-theirs"] == "n1")
        assert holder(rest) == first

        theirs.stop(TIMEOUT)
        create_pod(rest, "by-ours", "1")
        until(lambda: nodes_of_pods(rest)["by-ours"] == "n1")
        assert holder(rest) not in {"", first}

        start_kube_scheduler(plane, tmp_path)
        outcome = ended(ours.stop(TIMEOUT), ours.output())
        create_pod(rest, "by-theirs-again", "1")
        until(lambda: nodes_of_pods(rest)["by-theirs-again"] == "n1")
    assert outcome.code == 0
    assert outcome.of("error") == []
    assert "forbidden: User" not in outcome.text
