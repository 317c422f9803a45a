"""What an operator gets wrong about serving is said in one line and ends it with code 1, or is waited for and said: never a traceback."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from support.controlplane.authority import Authority
from support.controlplane.credentials import STRANGER, Kubeconfig, by_token
from support.controlplane.plane import ControlPlane
from support.served import POLL_SECONDS, TIMEOUT, Ended, command, ended, run, write_config

from koordsched.scenario.live.process import free_port

CLOSED = "https://127.0.0.1:1"


def mistake(outcome: Ended) -> str:
    """Return the one line that says why the process has ended."""
    assert outcome.code == 1
    assert "Traceback" not in outcome.text
    (line,) = outcome.of("error")
    return line


def kubeconfig(folder: Path, server: str = CLOSED, authority: bytes | None = None) -> Path:
    return Kubeconfig(server, authority or Authority().certificate, by_token("t")).write(folder / "kubeconfig")


def test_a_configuration_that_cannot_be_read(tmp_path: Path) -> None:
    outcome = run(command("--config", tmp_path / "none.yaml")[1])
    assert (outcome.code, outcome.text) == (1, f"{tmp_path}/none.yaml: document 1: (root): cannot be read: No such file or directory\n")


def test_a_configuration_with_mistakes(tmp_path: Path) -> None:
    file = write_config(tmp_path, "", parallelism=0, podMaxBackoffSeconds="x")
    outcome = run(command("--config", file)[1])
    assert outcome.code == 1
    assert [line.split(": ")[:3] for line in outcome.text.splitlines()] == [
        [str(file), "document 1", "podMaxBackoffSeconds"],
        [str(file), "document 1", "parallelism"],
    ]


def test_flags_with_mistakes() -> None:
    outcome = run(command("--no-such-flag", "--bind-address=x", "positional")[1])
    assert outcome.code == 1
    assert len(outcome.text.splitlines()) == 3


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    outcome = run(command("--config", write_config(tmp_path, tmp_path / "none"))[1])
    assert mistake(outcome) == f"kubeconfig {tmp_path}/none: cannot be read: No such file or directory"


@pytest.mark.parametrize("text", ["", "a: [1", "kind: Config\n", "clusters: 3\n", '{"current-context": "x"}', "\x00\xff"])
def test_a_kubeconfig_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    said = mistake(run(command("--config", write_config(tmp_path, tmp_path / "kubeconfig"))[1]))
    assert said.startswith(f"kubeconfig {tmp_path}/kubeconfig: ")


def test_no_kubeconfig_outside_a_cluster(tmp_path: Path) -> None:
    said = mistake(run(command("--config", write_config(tmp_path, ""))[1], environment={"PATH": "/usr/bin", **pythonpath()}))
    assert "kubeconfig" in said


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        outcome = run(command("--config", write_config(tmp_path, kubeconfig(tmp_path)), port=port)[1])
    assert mistake(outcome) == f"cannot listen on http://127.0.0.1:{port}: Address already in use"


def test_a_certificate_that_cannot_be_read(tmp_path: Path) -> None:
    files = ["--secure-port", str(free_port()), "--tls-cert-file=/no/crt", "--tls-private-key-file=/no/key"]
    outcome = run(command("--config", write_config(tmp_path, kubeconfig(tmp_path)), *files)[1])
    assert mistake(outcome) == "--tls-cert-file /no/crt cannot be read: No such file or directory"


def test_an_api_server_that_cannot_be_reached_is_waited_for(tmp_path: Path) -> None:
    outcome, readyz = waits(kubeconfig(tmp_path), f"{CLOSED} cannot be reached", tmp_path / "log")
    assert set(outcome.of("warning")) >= {"waiting for the API server"}
    assert readyz[0] == 500
    assert f"[-]api-server failed: {CLOSED} cannot be reached" in readyz[1]


def test_rights_that_are_missing_are_waited_for(plane: ControlPlane, tmp_path: Path) -> None:
    stranger = plane.kubeconfig(by_token(plane.tokens[STRANGER])).write(tmp_path / "kubeconfig")
    _, readyz = waits(stranger, r"nodes is forbidden: User \"stranger\" cannot list resource \"nodes\"", tmp_path / "log")
    assert readyz[0] == 500
    assert "[-]sched-handler-sync failed: handlers are not fully synchronized" in readyz[1]


def test_an_api_server_of_another_authority(plane: ControlPlane, tmp_path: Path) -> None:
    stranger = kubeconfig(tmp_path, plane.url, Authority().certificate)
    said = mistake(run(command("--config", write_config(tmp_path, stranger))[1]))
    assert plane.url in said
    assert "is not trusted" in said


def test_a_token_that_the_api_server_does_not_know(plane: ControlPlane, tmp_path: Path) -> None:
    expired = kubeconfig(tmp_path, plane.url, plane.authority.certificate)
    said = mistake(run(command("--config", write_config(tmp_path, expired))[1]))
    assert said.startswith(f"{plane.url} does not accept the credentials")


def waits(file: Path, reason: str, log: Path) -> tuple[Ended, tuple[int, str]]:
    """Start a scheduler that will not get ready, stop it when it has logged this, and return its end and what /readyz said before."""
    served, line = command("--config", write_config(log.parent, file))
    with log.open("w") as output:
        process = subprocess.Popen(line, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + TIMEOUT
        while reason not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(POLL_SECONDS)
        readyz = served.get("/readyz")
        assert served.get("/healthz") == (200, "ok")
        process.terminate()
        process.wait(TIMEOUT)
    finally:
        process.kill()
    outcome = ended(process.returncode, log.read_text())
    assert outcome.code == 0
    assert outcome.of("error") == []
    assert "Traceback" not in outcome.text
    return outcome, readyz


def pythonpath() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(filter(None, sys.path))}
