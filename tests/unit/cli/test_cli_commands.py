"""The command line: which command runs, what goes where, and how it ends."""

from __future__ import annotations

import gc
import io
import json
import signal
from pathlib import Path

import pytest

import koordsched
from koordsched.cli import main
from koordsched.config.flags import FLAGS
from koordsched.log import write_logs

NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '4', memory: 8Gi}}\n"
POD = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: main, resources: {requests: {cpu: '%s'}}}]}\n"
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture(autouse=True)
def _default_logs(monkeypatch: pytest.MonkeyPatch) -> object:
    """Undo what a command configures of logging."""
    monkeypatch.setattr("koordsched.log._quiet", False)
    thresholds, on_sigterm = gc.get_threshold(), signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, on_sigterm)
    write_logs(None)
    gc.set_threshold(*thresholds)


class Ran:
    """A command line that was run: its exit code and the lines of its two outputs."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> None:
        try:
            self.code: object = main([str(argument) for argument in arguments])
        except SystemExit as exit_:  # argparse's way to end
            self.code = exit_.code
        self.out, self.err = capsys.readouterr()


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    file = tmp_path / "f.yaml"
    file.write_text(NODE + POD % ("fits", "1") + POD % ("malformed", "abc") + POD % ("large", "5"))
    return file


def test_no_command_serves_and_ends_with_one_line_when_it_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "--kubeconfig=/no/such/file", "--port=0", "--secure-port=0", "--leader-elect=false", "--logging-format=json")
    assert (ran.code, ran.out) == (1, "")
    lines = [json.loads(line) for line in ran.err.splitlines()]
    assert [line["msg"] for line in lines if line["level"] == "error"] == [
        "kubeconfig /no/such/file: cannot be read: No such file or directory"
    ]


def test_the_effective_configuration_is_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    written = tmp_path / "out.yaml"
    ran = Ran(capsys, "--write-config-to", written)
    assert (ran.code, ran.err) == (0, "")
    assert "schedulerName: default-scheduler" in written.read_text()
    assert Ran(capsys, "--config", written, f"--write-config-to={tmp_path / 'again.yaml'}").code == 0
    assert (tmp_path / "again.yaml").read_text() == written.read_text()


def test_mistakes_of_flags_are_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "--no-such-flag", "--secure-port=x", "simulat")
    assert ran.code == 1
    assert len(ran.err.splitlines()) == 3
    assert "unknown flag: --no-such-flag" in ran.err


def test_mistakes_of_the_configuration_are_all_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG + "parallelism: 0\npodInitialBackoffSeconds: 0\n")
    for command in (["--config"], ["simulate", ".", "--config"], ["validate", "--config"]):
        ran = Ran(capsys, *command, tmp_path / "c.yaml")
        assert ran.code == 1
        assert [line.startswith(f"{tmp_path}/c.yaml: document 1: ") for line in ran.err.splitlines()] == [True, True]


def test_a_good_configuration_is_valid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    assert Ran(capsys, "validate", "--config", tmp_path / "c.yaml").code == 0


def test_a_configuration_is_valid_or_not_with_the_flags_that_it_is_started_with(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    args = "{shape: [{utilization: 0, score: 0}]}"
    (tmp_path / "c.yaml").write_text(f"{CONFIG}profiles: [{{pluginConfig: [{{name: VolumeBinding, args: {args}}}]}}]\n")
    line = ("validate", "--config", tmp_path / "c.yaml")
    assert Ran(capsys, *line).code == 1
    assert Ran(capsys, *line, "--feature-gates=StorageCapacityScoring=true", "--port=0").code == 0
    assert Ran(capsys, *line, "--feature-gates=Nope=true").err == "unrecognized feature gate: Nope\n"
    assert "leaseDuration" in Ran(capsys, *line, "--feature-gates=StorageCapacityScoring=true", "--leader-elect-lease-duration=1s").err


def test_validate_needs_a_file_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "validate")
    assert (ran.code, ran.out, ran.err) == (1, "", "koord-scheduler validate: --config FILE or --objects FILE... is required\n")
    assert Ran(capsys, "validate", "--help").out.startswith("koord-scheduler validate --config FILE [FLAGS]: ")


@pytest.mark.parametrize("spelling", ["version", "--version"])
def test_the_version_is_printed(capsys: pytest.CaptureFixture[str], spelling: str) -> None:
    assert Ran(capsys, spelling).out == f"koord-scheduler {koordsched.__version__}\n"


@pytest.mark.parametrize("line", ["help", "--help", "-h", "--config=x --help"])
def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str], line: str) -> None:
    ran = Ran(capsys, *line.split())
    assert ran.code == 0
    assert all(f"koord-scheduler {command}" in ran.out for command in ("simulate", "test", "validate", "version"))


def test_help_has_a_line_for_every_flag_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Ran(capsys, "--help").out.splitlines()
    named = [word for line in lines if line.startswith(("  -", "      --")) for word in line.split()[:2] if word.startswith("--")]
    assert sorted(name.removesuffix("[=raw]") for name in named) == sorted(f"--{name}" for name in FLAGS)
    assert [" ".join(line.split()) for line in lines if "--log-flush-frequency" in line] == [
        "--log-flush-frequency TIME longest time between writes (default 5s) [has no effect]"
    ]


def test_simulate_prints_json_and_reports_refused_objects_elsewhere(capsys: pytest.CaptureFixture[str], manifests: Path) -> None:
    ran = Ran(capsys, "simulate", manifests, "-o", "json")
    result = json.loads(ran.out)
    assert ran.code == 0
    assert result["placements"] == [{"pod": "default/fits", "node": "n1", "annotations": {}}]
    assert [pending["pod"] for pending in result["pending"]] == ["default/malformed", "default/large"]
    assert result["pending"][0]["reason"].startswith('rejected: spec.containers[0].resources.requests[cpu]: Invalid value: "abc": ')
    assert result["pending"][1]["reason"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert result["summary"]["allocation"]["cpu"] == 0.25
    (line,) = [line for line in ran.err.splitlines() if line.startswith(str(manifests))]
    assert line.startswith(
        f'{manifests}: document 3: Pod default/malformed: spec.containers[0].resources.requests[cpu]: Invalid value: "abc": '
    )


def test_simulate_prints_a_plain_table_to_what_is_no_terminal(capsys: pytest.CaptureFixture[str], manifests: Path) -> None:
    ran = Ran(capsys, "simulate", manifests)
    assert "Why pods are pending" in ran.out
    assert "\x1b" not in ran.out + ran.err


def test_simulate_shows_colours_and_progress_on_a_terminal_only(manifests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for no_color, expected in (("", True), ("1", False)):
        out, err = Terminal(), Terminal()
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.stderr", err)
        monkeypatch.setenv("NO_COLOR", no_color)
        assert main(["simulate", str(manifests)]) == 0
        assert ("\x1b[" in out.getvalue()) is expected
        assert "pods bound" in err.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_simulate_plays_a_trace_in_the_order_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,4000,8192,2,A\n")
    (tmp_path / "p.csv").write_text("name,cpu_milli,memory_mib,num_gpu\n" + "".join(f"p{i},100,1,0\n" for i in range(9)))
    trace = ("simulate", "--trace", "openb", "--nodes", tmp_path / "n.csv", "--pods", tmp_path / "p.csv", "-o", "json")

    def pods(*more: str) -> list[str]:
        return [placement["pod"] for placement in json.loads(Ran(capsys, *trace, *more).out)["placements"]]

    assert pods() == pods("--order", "arrival") == [f"default/p{i}" for i in range(9)]
    assert pods("--limit-pods", "2") == ["default/p0", "default/p1"]
    assert pods("--order", "random", "--seed", "1") == pods("--order", "random", "--seed", "1") != pods()


def test_simulate_reads_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((NODE + POD % ("a", "1")).encode())))
    assert json.loads(Ran(capsys, "simulate", "-", "-o", "json").out)["summary"]["bound"] == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["simulate"], "name manifest files or directories, --kubeconfig FILE, or --trace openb with --nodes FILE and --pods FILE"),
        (
            ["simulate", "--trace", "openb", "--nodes", "n.csv"],
            "--trace openb needs --nodes FILE and --pods FILE, and takes no other input",
        ),
        (["simulate", "--trace", "openb", "--nodes", "n", "--pods", "p", "--kubeconfig", "k"], "and takes no other input"),
        (
            ["simulate", "--trace", "csv", "--pods", "p.csv"],
            "--trace csv needs --pods FILE, and nodes: --nodes FILE, manifests as INPUT, or --kubeconfig FILE",
        ),
        (["simulate", "x.yaml", "--context", "c"], "--context needs --kubeconfig FILE"),
        (["simulate", "x.yaml", "--pods", "p.csv"], "name manifest files or directories, --kubeconfig FILE, or --trace"),
        (["simulate", "x.yaml", "--limit-pods", "-1"], "'-1': expected a whole number of at least 0"),
        (["simulate", "x.yaml", "--inflate", "130"], "--inflate draws the pods of --trace openb"),
        (["simulate", "x.yaml", "--order", "size"], "invalid choice: 'size'"),
        (["test"], "the following arguments are required: SCENARIO"),
    ],
)
def test_a_wrong_command_line_is_explained(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    ran = Ran(capsys, *arguments)
    assert ran.code == 2
    assert expected in ran.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "cannot be read: No such file or directory"),
        ("a: [1", "document 1: line 2: not YAML: did not find expected ',' or ']'"),
        ("a: 1\na: 2", "document 1: line 2: key 'a' is given twice in one map"),
    ],
)
def test_an_input_that_cannot_be_read_ends_simulate_with_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str | None, expected: str
) -> None:
    if text is not None:
        (tmp_path / "x.yaml").write_text(text)
    ran = Ran(capsys, "simulate", tmp_path / "x.yaml")
    assert (ran.code, ran.out, ran.err) == (1, "", f"{tmp_path / 'x.yaml'}: {expected}\n")


def test_scenarios_are_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "name: %s\nwhy: w\ngiven: [{kind: Node, metadata: {name: n1}}]\nsteps: [{create: [{kind: Pod, metadata: {name: a}}]}, %s]\n"
    passes = "{expect: {pods: {a: {node: n1}}}}"
    fails = "{expect: {pods: {a: {node: n2}}, within: 1s}}"
    (tmp_path / "s.yaml").write_text(text % ("passes", passes) + "---\n" + text % ("fails", fails))
    ran = Ran(capsys, "test", tmp_path)
    assert ran.out.splitlines() == [
        "PASS passes",
        "FAIL fails: steps[1].expect: within 1s: default/a: expected on n2, seen bound to n1",
        "1 passed, 1 failed",
    ]
    assert ran.code == 1
    assert ran.err == ""
    assert Ran(capsys, "test", tmp_path, "-k", "pass").code == 0


def test_no_scenario_of_the_name_asked_for_is_no_success(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("name: spreads\nwhy: w\nsteps: [{expect: {bound: 0}}]\n")
    ran = Ran(capsys, "test", tmp_path, "-k", "spraed")
    assert (ran.code, ran.out, ran.err) == (2, "", "-k: 'spraed': no scenario has this in its name\n")


def test_a_malformed_scenario_ends_with_two(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("name: a\nwhy: b\nstep: []\n")
    ran = Ran(capsys, "test", tmp_path / "s.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"{tmp_path}/s.yaml: document 1: step: unknown field; did you mean 'steps'?",
        f"{tmp_path}/s.yaml: document 1: steps: missing",
    ]


def test_an_interrupt_ends_quietly(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setitem(__import__("koordsched.cli", fromlist=["COMMANDS"]).COMMANDS, "version", interrupt)
    ran = Ran(capsys, "version")
    assert (ran.code, ran.out, ran.err) == (130, "", "")
