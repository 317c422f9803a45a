"""Sweeps on worker processes: what they print and keep, and that nothing of it depends on how they were done."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from pyarrow import parquet
from support.sweeping import SweepFiles, objects

from koordsched.cli import main
from koordsched.sweep import command


@pytest.fixture
def files(tmp_path: Path) -> SweepFiles:
    return SweepFiles(tmp_path)


@contextmanager
def dask(workers: int) -> Iterator[LocalCluster]:
    """Start a Dask cluster of its own, as a user has one."""
    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=None)  # type: ignore[no-untyped-call]
    with cluster:
        yield cluster


@pytest.fixture(scope="module")
def one_worker() -> Iterator[str]:
    with dask(1) as cluster:
        yield cluster.scheduler_address


def run_with(files: SweepFiles, results: str, address: str, *flags: str, **fields: Any) -> int:
    return files.run(results, "--scheduler", address, *flags, **fields)


def wait_until(done: threading.Thread, files: SweepFiles, results: str, runs: int) -> None:
    while done.is_alive() and len(list((files.folder / results / "runs").glob("*.json"))) < runs:
        time.sleep(0.01)


def test_the_numbers_are_those_of_simulate(files: SweepFiles, one_worker: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(files, "out", one_worker, "-o", "json", seeds=[3]) == 0
    swept = json.loads(capsys.readouterr().out)
    assert [(run["configuration"], run["seed"]) for run in swept["runs"]] == [("spread", 3), ("pack", 3)]
    for run in swept["runs"]:
        config = str(files.folder / f"{run['configuration']}.yaml")
        flags = ["--order", "random", "--seed", "3", "--config", config, "-o", "json"]
        assert main(["simulate", str(files.folder / "cluster.yaml"), *flags]) == 0
        summary = json.loads(capsys.readouterr().out)["summary"]
        assert run["summary"].items() <= summary.items()
        assert summary.keys() - run["summary"].keys() == {"seconds", "decisionMeanMicros"}, "real times differ from run to run"


def test_results_are_the_same_bytes_with_any_number_of_workers(
    files: SweepFiles, one_worker: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(files, "one", one_worker) == 0
    by_one = capsys.readouterr().out
    assert files.run("three", "--workers", "3") == 0
    assert capsys.readouterr().out == by_one
    assert files.tables("three") == files.tables("one")
    assert len(files.runs("one")) == 8
    seeds = parquet.read_table(files.folder / "one" / "runs.parquet").column("seed").to_pylist()
    assert seeds == [0, 1, 2, 3] * 2


def test_what_is_done_is_not_done_again(files: SweepFiles, one_worker: str) -> None:
    assert run_with(files, "out", one_worker, seeds=2) == 0
    before = files.runs("out")
    assert run_with(files, "out", one_worker, seeds=3) == 0
    assert {name: files.runs("out")[name] for name in before} == before
    assert len(files.runs("out")) == 6
    files.write("cluster.yaml", *objects(nodes=5))
    assert run_with(files, "out", one_worker, seeds=3) == 0
    assert len(files.runs("out")) == 12, "results of another input are not reused"
    nodes = parquet.read_table(files.folder / "out" / "runs.parquet").column("nodes").to_pylist()
    assert nodes == [5] * 6


def test_a_sweep_that_is_done_needs_no_workers(files: SweepFiles, one_worker: str) -> None:
    assert run_with(files, "out", one_worker) == 0
    tables = files.tables("out")
    assert run_with(files, "out", "tcp://127.0.0.1:1") == 0
    assert files.tables("out") == tables


def test_a_worker_that_dies_loses_nothing(files: SweepFiles, one_worker: str) -> None:
    files.write("cluster.yaml", *objects(nodes=20, pods=150))
    assert run_with(files, "whole", one_worker, seeds=10) == 0
    codes: list[int] = []
    with dask(2) as cluster, Client(cluster) as client:  # type: ignore[no-untyped-call]
        sweep = threading.Thread(target=lambda: codes.append(run_with(files, "killed", cluster.scheduler_address, seeds=10)))
        sweep.start()
        wait_until(sweep, files, "killed", 1)
        pids = client.run(os.getpid)
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        unfinished = len(files.runs("killed")) < 20
        sweep.join()
        assert set(client.run(os.getpid).values()).isdisjoint(pids.values())
    assert unfinished, "some runs were still to be done"
    assert codes == [0]
    assert files.tables("killed") == files.tables("whole")


def test_a_sweep_that_is_killed_half_way_goes_on_to_the_same_bytes(files: SweepFiles, one_worker: str) -> None:
    files.write("cluster.yaml", *objects(nodes=20, pods=150))
    assert run_with(files, "whole", one_worker, seeds=10) == 0
    arguments = ["sweep", files.sweep(seeds=10), "--results", str(files.folder / "killed"), "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path if path)}
    process = subprocess.Popen([sys.executable, "-m", "koordsched", *arguments], env=environment)
    waiting = threading.Thread(target=process.wait)
    waiting.start()
    wait_until(waiting, files, "killed", 3)
    process.kill()
    waiting.join()
    before = files.runs("killed")
    assert 3 <= len(before) < 20
    assert files.tables("killed") == {}
    assert run_with(files, "killed", one_worker, seeds=10) == 0
    assert {name: files.runs("killed")[name] for name in before} == before
    assert files.tables("killed") == files.tables("whole")


def test_a_run_that_fails_leaves_the_others(files: SweepFiles, one_worker: str, capsys: pytest.CaptureFixture[str]) -> None:
    files.write("broken.yaml", {"kind": "Node"})
    (files.folder / "broken.yaml").write_text("kind: [")
    inputs = {"broken": {"files": "broken.yaml"}, "whole": {"files": "cluster.yaml"}}
    assert run_with(files, "out", one_worker, inputs=inputs, seeds=2) == 1
    out, err = capsys.readouterr()
    assert "whole: means of 2 seeds" in out
    lines = err.splitlines()
    assert sum(line.startswith(f"broken, spread, seed 0: {files.folder}/broken.yaml: document 1: ") for line in lines) == 1
    assert lines[-1] == "4 of 8 runs have no result, and are not in the tables"


def test_what_the_cluster_refuses_of_an_input_is_said_once(files: SweepFiles, one_worker: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "no_name"}, "spec": {"containers": [{"name": "a", "image": "x"}]}}
    files.write("cluster.yaml", *objects(), refused)
    assert run_with(files, "out", one_worker) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{files.folder}/cluster.yaml: document 17: Pod default/no_name: ")


def test_workers_of_another_version_are_refused(
    files: SweepFiles, one_worker: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "build_digest", lambda: "of another version")
    assert run_with(files, "out", one_worker, seeds=1) == 1
    assert "the worker has another version of koordsched, or of a plugin, than this command" in capsys.readouterr().err
    assert files.runs("out") == {}


def test_a_dask_scheduler_that_is_not_there_is_named(
    files: SweepFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koordsched.sweep.workers.CONNECT_SECONDS", 0.2)
    assert run_with(files, "out", "tcp://127.0.0.1:1") == 1
    assert capsys.readouterr().err.startswith("--scheduler tcp://127.0.0.1:1: cannot connect: ")


def test_what_has_to_be_installed_is_named(files: SweepFiles, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name in {"distributed", "scipy"} else object())
    assert files.run("out") == 1
    assert capsys.readouterr().err == "koord-scheduler sweep needs distributed, scipy: pip install 'koordsched[sweep]'\n"


def test_a_folder_that_cannot_be_made_is_named(files: SweepFiles, capsys: pytest.CaptureFixture[str]) -> None:
    (files.folder / "file").write_text("")
    assert files.run("file/out") == 1
    assert capsys.readouterr().err.startswith(f"--results {files.folder}/file/out: ")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal(files: SweepFiles, one_worker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stderr", terminal)
    assert run_with(files, "out", one_worker, seeds=2) == 0
    assert "runs" in terminal.getvalue()
    assert "4/4" in terminal.getvalue()


@pytest.mark.parametrize("flags", [["--workers", "0"], ["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], ["-o", "csv"]])
def test_a_wrong_command_line_ends_with_2(files: SweepFiles, flags: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        files.run("out", *flags)
    assert ended.value.code == 2
