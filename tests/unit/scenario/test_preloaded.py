"""Schedulers that are forked from a process which has imported them are processes like any other (support/preloaded.py)."""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.preloaded import Preloaded
from support.served import POLL_SECONDS, TIMEOUT, Served, command, write_config

KUBECONFIG = """
clusters: [{name: nowhere, cluster: {server: 'http://127.0.0.1:1'}}]
contexts: [{name: nowhere, context: {cluster: nowhere}}]
current-context: nowhere
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with Preloaded(tmp_path_factory.mktemp("preloaded")) as preloaded:
        yield shlex.split(preloaded.command)


def start(program: list[str], folder: Path) -> tuple[subprocess.Popen[bytes], Served]:
    """Start a scheduler that looks for its API server in vain, and wait until its port is open."""
    (folder / "kubeconfig").write_text(KUBECONFIG)
    served, line = command("--config", write_config(folder, folder / "kubeconfig"))
    process = subprocess.Popen([*program, *line[3:]], stderr=subprocess.DEVNULL)
    await_status(served, 200)
    return process, served


def await_status(served: Served, status: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while served.get("/livez")[0] != status:
        assert time.monotonic() < deadline
        time.sleep(POLL_SECONDS)


def test_output_and_exit_code_are_those_of_the_scheduler(program: list[str]) -> None:
    good = subprocess.run([*program, "version"], check=False, capture_output=True, text=True)
    bad = subprocess.run([*program, "--bogus"], check=False, capture_output=True, text=True)
    assert (good.returncode, good.stdout.split()[0], good.stderr) == (0, "koord-scheduler", "")
    assert (bad.returncode, bad.stdout, bad.stderr) == (1, "", "unknown flag: --bogus\n")


def test_it_ends_cleanly_when_it_is_asked_to(program: list[str], tmp_path: Path) -> None:
    process, served = start(program, tmp_path)
    process.send_signal(signal.SIGTERM)
    assert process.wait(TIMEOUT) == 0
    assert served.get("/livez")[0] == 0


def test_it_is_gone_when_what_stands_for_it_is_killed(program: list[str], tmp_path: Path) -> None:
    process, served = start(program, tmp_path)
    process.kill()
    process.wait(TIMEOUT)
    await_status(served, 0)
