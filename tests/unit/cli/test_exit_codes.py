"""Every exit code of docs/commands.md is what the command ends with, and no row is without a case."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from koordsched.cli import COMMANDS, kubectl_plugin, main
from koordsched.log import write_logs

TABLE = Path(__file__).parents[3] / "docs" / "commands.md"
GOOD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '4', memory: 8Gi}}\n"
POD = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: main, image: none}]}\n"
SCENARIO = "name: a\nwhy: w\nsteps: [{expect: {bound: %d, within: 1s}}]\n"
FILES = {
    "config.yaml": GOOD,
    "wrong.yaml": GOOD + "parallelism: -1\n",
    "objects.yaml": NODE + POD,
    "sweep.yaml": "configurations: {shipped: }\ninputs: {a: {files: objects.yaml}}\nseeds: 1\n",
    "broken.yaml": "a: [1",
    "passes.yaml": SCENARIO % 0,
    "fails.yaml": SCENARIO % 1,
    "malformed.yaml": "name: a\n",
}
CASES: dict[tuple[str, int], list[str]] = {
    ("serving", 0): ["--write-config-to=written.yaml"],
    ("serving", 1): ["--no-such-flag"],
    ("simulate", 0): ["simulate", "objects.yaml"],
    ("simulate", 1): ["simulate", "missing.yaml"],
    ("simulate", 2): ["simulate"],
    ("sweep", 0): ["sweep", "sweep.yaml", "--results", "results", "--workers", "1"],
    ("sweep", 1): ["sweep", "missing.yaml", "--results", "results"],
    ("sweep", 2): ["sweep", "sweep.yaml"],
    ("explain", 0): ["explain", "web", "objects.yaml", "--no-changes"],
    ("explain", 1): ["explain", "other", "objects.yaml"],
    ("explain", 2): ["explain", "web"],
    ("test", 0): ["test", "passes.yaml"],
    ("test", 1): ["test", "fails.yaml"],
    ("test", 2): ["test", "malformed.yaml"],
    ("validate --config", 0): ["validate", "--config", "config.yaml"],
    ("validate --config", 1): ["validate", "--config", "wrong.yaml"],
    ("validate --objects", 0): ["validate", "--objects", "objects.yaml"],
    ("validate --objects", 1): ["validate", "--objects", "broken.yaml"],
    ("validate --objects", 2): ["validate", "--objects"],
    ("completion", 0): ["completion", "fish"],
    ("completion", 2): ["completion", "tcsh"],
    ("version", 0): ["version"],
    ("help", 0): ["help"],
}


def rows() -> list[tuple[str, int]]:
    text = TABLE.read_text(encoding="utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    return [(name.strip("`"), int(code)) for name, code in re.findall(r"^\| ([^|]+) \| (\d+) \|", text, flags=re.MULTILINE)]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("koordsched.log._quiet", False)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    on_sigterm = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, on_sigterm)
    write_logs(None)


def code_of(arguments: list[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as end:  # argparse's way to end
        return end.code


@pytest.mark.parametrize(("command", "code"), CASES)
def test_a_command_ends_with_the_code_of_the_table(command: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(CASES[command, code]) == code
    written = capsys.readouterr()
    assert bool(written.err) or code == 0 or bool(written.out)


def test_the_table_has_each_case_once_and_each_command() -> None:
    assert sorted(rows()) == sorted([*CASES, ("kubectl koordsched", 2), ("any", 130)])
    named = {name.partition(" ")[0] for name, _ in rows()}
    assert {name for name in COMMANDS if not name.startswith("-")} <= named


def test_an_interrupted_command_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(COMMANDS, "version", interrupt)
    assert main(["version"]) == 130


@pytest.mark.parametrize("arguments", [[], ["explian"], ["--config=config.yaml"]])
def test_the_plugin_of_kubectl_serves_nothing(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl-koordsched", *arguments])
    assert kubectl_plugin() == 2
    said = capsys.readouterr().err
    assert "kubectl koordsched explain POD" in said
    assert ("did you mean koord-scheduler explain?" in said) is (arguments == ["explian"])


def test_the_plugin_of_kubectl_has_a_help_of_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl-koordsched", "--help"])
    assert kubectl_plugin() == 0
    assert capsys.readouterr().out.startswith("kubectl koordsched: what Koordinator's scheduler would do in the cluster")


@pytest.mark.parametrize(
    ("arguments", "environment", "read"),
    [
        (["explain", "web"], {"KUBECONFIG": "k.conf"}, "k.conf"),
        (["simulate"], {"HOME": "/no/home"}, "/no/home/.kube/config"),
        (["simulate", "--kubeconfig", "mine"], {"KUBECONFIG": "k.conf"}, "mine"),
    ],
)
def test_the_plugin_of_kubectl_reads_the_cluster_that_kubectl_reads(
    arguments: list[str], environment: dict[str, str], read: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.argv", ["kubectl-koordsched", *arguments])
    assert kubectl_plugin() == 1
    assert capsys.readouterr().err == f"{read}: cannot be read: No such file or directory\n"
