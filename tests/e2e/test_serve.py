"""`koord-scheduler --config FILE` on a real API server: from its start to a clean stop."""

from __future__ import annotations

import signal
import ssl
import urllib.request
from collections import Counter
from pathlib import Path

from support.controlplane.credentials import SCHEDULER, by_token
from support.controlplane.plane import ControlPlane
from support.controlplane.processes import Process
from support.live import NAME, create_node, create_pod, message, nodes_of_pods, reason, until
from support.served import TIMEOUT, Ended, Served, command, ended, write_config

from koordsched.scenario.live.process import free_port


def start(plane: ControlPlane, folder: Path, *flags: str) -> tuple[Served, Process]:
    """Start a scheduler with the rights of kube-scheduler, and wait until it is ready."""
    kubeconfig = plane.kubeconfig(by_token(plane.tokens[SCHEDULER])).write(folder / "kubeconfig")
    served, line = command("--config", write_config(folder, kubeconfig), *flags)
    process = plane.spawn(NAME, line)
    process.wait_until(served.ready, TIMEOUT)
    return served, process


def stop(process: Process) -> Ended:
    code = process.stop(TIMEOUT)
    return ended(code, process.output())


def test_pods_are_bound_and_a_signal_ends_it_cleanly(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "4")
    create_pod(rest, "before", "1")
    served, process = start(plane, tmp_path)
    for i in range(3):
        create_pod(rest, f"p{i}", "1")
    create_pod(rest, "too-large", "5")
    until(lambda: list(nodes_of_pods(rest).values()).count("n1") == 4)
    until(lambda: reason(rest, "too-large") == "Unschedulable")
    assert message(rest, "too-large") == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    create_node(rest, "n2", "8")
    until(lambda: nodes_of_pods(rest)["too-large"] == "n2")
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 5.0' in served.get("/metrics")[1]
    outcome = stop(process)
    assert outcome.code == 0
    assert outcome.of("error") == []
    assert "Traceback" not in outcome.text
    events = rest.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    assert sorted(event["reason"] for event in events) == ["FailedScheduling", *["Scheduled"] * 5]
    assert {event["reportingController"] for event in events} == {"default-scheduler"}


def test_a_stop_amid_binding_leaves_nothing_half_done(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    for i in range(10):
        create_node(rest, f"n{i}", "20")
    for i in range(200):
        create_pod(rest, f"p{i}", "1")
    _, process = start(plane, tmp_path)
    until(lambda: any(nodes_of_pods(rest).values()))
    outcome = stop(process)
    assert outcome.code == 0
    assert outcome.of("error") == []
    bound = {name for name, node in nodes_of_pods(rest).items() if node}
    events = rest.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    assert sorted(event["regarding"]["name"] for event in events if event["reason"] == "Scheduled") == sorted(bound)
    _, process = start(plane, tmp_path)
    until(lambda: all(nodes_of_pods(rest).values()))
    assert max(Counter(nodes_of_pods(rest).values()).values()) <= 20
    assert stop(process).code == 0


def test_a_signal_during_the_start_ends_it_cleanly(plane: ControlPlane, tmp_path: Path) -> None:
    served, line = command("--config", write_config(tmp_path, plane.kubeconfig().write(tmp_path / "kubeconfig")))
    process = plane.spawn(NAME, line)
    process.wait_until(lambda: served.get("/livez")[0] == 200, TIMEOUT)
    assert stop(process).code == 0


def test_a_stop_while_the_api_server_is_away_does_not_wait_for_ever(plane: ControlPlane, tmp_path: Path) -> None:
    create_node(plane.rest(), "n1", "4")
    _, process = start(plane, tmp_path)
    create_pod(plane.rest(), "bound", "1")
    until(lambda: nodes_of_pods(plane.rest())["bound"])
    plane.kill_api_server()
    outcome = stop(process)
    assert outcome.code == 0
    assert set(outcome.of("error")) <= {"a clean stop took too long; the rest is given up"}
    assert "Traceback" not in outcome.text


def test_the_secure_port_shows_the_certificate_that_it_was_given(plane: ControlPlane, tmp_path: Path) -> None:
    pair, port = plane.authority.server(), free_port()
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    _, process = start(
        plane, tmp_path, f"--secure-port={port}", f"--tls-cert-file={tmp_path / 'crt'}", f"--tls-private-key-file={tmp_path / 'key'}"
    )
    trusting = ssl.create_default_context(cadata=plane.authority.certificate.decode())
    with urllib.request.urlopen(f"https://localhost:{port}/readyz?verbose", context=trusting, timeout=10) as answer:
        assert answer.read() == b"[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"
    assert stop(process).code == 0


def test_it_survives_a_restart_of_the_api_server(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "4")
    served, process = start(plane, tmp_path)
    plane.kill_api_server()
    assert served.get("/healthz") == (200, "ok")
    plane.start_api_server()
    create_pod(rest, "after", "1")
    until(lambda: nodes_of_pods(rest)["after"] == "n1")
    assert stop(process).code == 0


def test_a_new_process_goes_on_where_the_killed_one_stopped(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    create_node(rest, "n1", "4")
    for i in range(4):
        create_pod(rest, f"p{i}", "2")
    _, process = start(plane, tmp_path)
    process.kill()
    _, process = start(plane, tmp_path)
    until(lambda: sorted(nodes_of_pods(rest).values()) == ["", "", "n1", "n1"])
    until(lambda: sum(reason(rest, f"p{i}") == "Unschedulable" for i in range(4)) == 2)
    assert stop(process).code == 0


def test_sigusr2_compares_what_it_believes_with_the_cluster(plane: ControlPlane, tmp_path: Path) -> None:
    create_node(plane.rest(), "n1", "4")
    _, process = start(plane, tmp_path)
    process.signal(signal.SIGUSR2)
    until(lambda: "cache comparison: equal to the cluster" in process.output())
    assert stop(process).code == 0


def test_the_standing_check_finds_nothing_where_nothing_is_wrong(plane: ControlPlane, tmp_path: Path) -> None:
    rest = plane.rest()
    for i in range(3):
        create_node(rest, f"n{i}", "4")
    served, process = start(plane, tmp_path, "--cache-check-interval=100ms")
    for i in range(15):
        create_pod(rest, f"p{i}", "1")
    until(lambda: sum(map(bool, nodes_of_pods(rest).values())) == 12)
    for i in range(5):
        rest.delete(f"/api/v1/namespaces/default/pods/p{i}")
    until(lambda: checks(served) >= 20)
    metrics = served.get("/metrics")[1]
    assert 'koord_scheduler_cache_checks_total{result="failed"}' not in metrics
    assert "koord_scheduler_cache_drift_total{" not in metrics
    assert 'koord_scheduler_watch_age_seconds{kind="pods"}' in metrics
    outcome = stop(process)
    assert (outcome.code, outcome.of("error")) == (0, [])


def checks(served: Served) -> float:
    """Return how many turns of the standing check were done."""
    name = 'koord_scheduler_cache_checks_total{result="done"} '
    return sum(float(line.removeprefix(name)) for line in served.get("/metrics")[1].splitlines() if line.startswith(name))
