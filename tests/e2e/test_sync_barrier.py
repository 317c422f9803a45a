"""The sync barrier on a real control plane (frameworkext.md §1.4, §10 line 39): a new leader first sees all that was bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.live import PODS, Running, create_node, create_pod, nodes_of_pods, until
from support.served import command, write_config

GATES = "--feature-gates=SyncBarrier=true"
LEASE = "barred"
KEY = f"scheduling.koordinator.sh/sync-barrier-{LEASE}"
ELECTION = {
    "leaderElect": True,
    "resourceName": LEASE,
    "resourceNamespace": "default",
    "leaseDuration": "4s",
    "renewDeadline": "2500ms",
    "retryPeriod": "500ms",
}


def launch(plane: ControlPlane, folder: Path, *flags: str) -> Running:
    """Start a scheduler under the name of the folder; none of the requests goes to its secure port."""
    folder.mkdir()
    config = write_config(folder, plane.kubeconfig().write(folder / "kubeconfig"), leaderElection=ELECTION)
    served, line = command("--config", config, GATES, *flags)
    return Running(served, plane.spawn(folder.name, line), 0)


def annotation(rest: Rest) -> Any:
    return rest.get(f"{PODS}/barrier")["metadata"].get("annotations", {}).get(KEY, "")


def test_each_new_leader_marks_the_barrier_pod_and_goes_on_where_the_one_before_it_ended(plane: ControlPlane, tmp_path: Path) -> None:
    """The node has room for one pod more; the standby, which takes over from a killed leader, does not give that room out again."""
    rest, where = plane.rest(), ("--sync-barrier-pod-namespace=default", "--sync-barrier-pod-name=barrier")
    create_node(rest, "n1", "2")
    container = {"name": "main", "image": "none"}
    body = {"metadata": {"name": "barrier"}, "spec": {"schedulerName": "none", "containers": [container]}}
    rest.create(PODS, {"apiVersion": "v1", "kind": "Pod", **body})
    first = launch(plane, tmp_path / "first", *where)
    create_pod(rest, "a", "1")
    until(lambda: nodes_of_pods(rest)["a"])
    marked = annotation(rest)
    assert marked
    second = launch(plane, tmp_path / "second", *where)
    second.await_readiness()
    create_pod(rest, "b", "1")
    until(lambda: nodes_of_pods(rest)["b"])
    first.process.kill()
    create_pod(rest, "c", "1")
    until(lambda: annotation(rest) > marked)
    until(lambda: 'scheduler_pending_pods{queue="unschedulable"} 1' in second.served.get("/metrics")[1])
    assert nodes_of_pods(rest) == {"barrier": "", "a": "n1", "b": "n1", "c": ""}
    said = [line for line in second.stop().lines if line["msg"].startswith("the sync barrier is passed")]
    assert len(said) == 1


def test_without_the_barrier_pod_scheduling_begins_at_once(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "2")
    create_pod(rest, "a", "1")
    running = launch(plane, tmp_path / "only")
    running.await_readiness()
    until(lambda: nodes_of_pods(rest)["a"])
    said = [line for line in running.stop().of("warning") if "barrier" in line]
    assert said == ["there is no barrier pod: scheduling begins with what is known"], "no time is waited for"
