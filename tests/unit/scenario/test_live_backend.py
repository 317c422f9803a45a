"""`koord-scheduler test --kubeconfig` from the command line to the API server and back, with a scheduler that binds nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fake_api import FakeApi, served
from support.fake_scheduler import command, make_certificate

from koordsched.cli import main

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{{name: here, cluster: {{server: '{address}'}}}}]
contexts: [{{name: here, context: {{cluster: here, user: anonymous}}}}]
users: [{{name: anonymous, user: {{}}}}]
"""
PLAIN = "config: {apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, parallelism: 4}"
NODE = "{kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: '2'}}}"
BOUND = "{kind: Pod, metadata: {name: old, namespace: team}, spec: {nodeName: n1}}"


class Bench:
    """An API server, its kubeconfig, and scenarios to play there."""

    def __init__(self, folder: Path, api: FakeApi, address: str) -> None:
        self.folder = folder
        self.api = api
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(KUBECONFIG.format(address=address))
        self.command = command(make_certificate(folder / "pair.pem"))

    def run(self, text: str, *flags: str, own: bool = True) -> int:
        (self.folder / "s.yaml").write_text(text)
        scheduler = ("--scheduler-command", self.command) if own else ()
        return main(["test", "--kubeconfig", str(self.kubeconfig), *scheduler, *flags, str(self.folder / "s.yaml")])

    def left(self) -> list[str]:
        """Return what is on the cluster, but for what is to stay."""
        return [key for key in self.api.objects if "/priorityclasses/koord-" not in key and not key.endswith("/namespaces/team")]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr("koordsched.log._quiet", False)
    monkeypatch.setattr("koordsched.scenario.live.cluster.SETTLE_SECONDS", 0.01)
    api = FakeApi()
    with served(api) as address:
        yield Bench(tmp_path, api, address)


def scenario(name: str, steps: str, more: str = PLAIN) -> str:
    return f"name: {name}\nwhy: because\ngiven: [{NODE}, {BOUND}]\nsteps: [{steps}]\n{more}\n"


def test_scenarios_are_played_with_a_scheduler_that_is_started_for_each(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    seen = "{http: [{path: /config, contains: {parallelism: 4, leaderElection: {leaderElect: false}}}], bound: 1}"
    gated = (
        "{pods: {new: {gated: true}, team/old: {node: n1}}, objects: [{kind: Pod, name: new, has: {spec: {priority: 7}}}], stays: 100ms}"
    )
    created = "{kind: Pod, metadata: {name: new}, spec: {priority: 7}}"
    steps = f"{{expect: {seen}}}, {{restart: true}}, {{create: [{created}]}}, {{expect: {gated}}}"
    flags = "args: [--feature-gates=SchedulerPopFromBackoffQ=false]"
    flagged = scenario(
        "second", "{expect: {http: [{path: /args, contains: {feature_gates: SchedulerPopFromBackoffQ=false}}]}}", f"{PLAIN}\n{flags}"
    )
    assert bench.run(f"{scenario('first', steps)}---\n{flagged}") == 0
    assert capsys.readouterr() == ("PASS first\nPASS second\n2 passed, 0 failed\n", "")
    assert bench.left() == []


def test_what_fails_is_said_and_cleared_away(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    text = scenario("fails", "{expect: {bound: 2, within: 200ms}}") + "---\n" + scenario("passes", "{expect: {bound: 1}}")
    assert bench.run(text) == 1
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "FAIL fails: steps[0].expect: within 0.2s: bound: expected 2 pods, seen 1 (team/old)",
        "PASS passes",
        "1 passed, 1 failed",
    ]
    assert [line for line in said.err.splitlines() if "pod team/old" in line and line.endswith(": bound to n1")]
    assert bench.left() == []


def test_a_scheduler_that_ends_too_early_fails_the_scenario(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    steps = "{expect: {http: [{path: /exit, status: 0}], within: 100ms}}, {wait: 200ms}, {expect: {bound: 1, within: 100ms}}"
    assert bench.run(scenario("s", steps)) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == (
        "FAIL s: steps[2].expect: within 0.1s: expected the cluster to answer, seen the scheduler ended with code 3; "
        "its last words: about to end"
    )
    assert said.err.splitlines()[-2:] == ["  the end of the scheduler's log:", "    about to end"]
    assert bench.left() == []


def test_the_scheduler_that_serves_the_cluster_needs_no_command(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    text = scenario("plain", "{expect: {bound: 1}}", "") + "---\n" + scenario("restarts", "{restart: true}", "")
    assert bench.run(text, own=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "PASS plain",
        "SKIP restarts: steps[0].restart: the scheduler that serves the cluster cannot be restarted",
        "1 passed, 0 failed, 1 skipped",
    ]


def test_long_scenarios_are_skipped_unless_they_are_asked_for(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run(scenario("long", "{wait: 61s}")) == 0
    assert capsys.readouterr().out.startswith("SKIP long: it lets 61s pass, more than 60s\n")
    assert bench.run(scenario("short", "{wait: 30ms}"), "--max-wait=20ms") == 0
    assert capsys.readouterr().out.startswith("SKIP short: it lets 0.03s pass, more than 0.02s\n")


def test_a_cluster_with_nodes_of_its_own_is_left_alone(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    for name, spec in (("cordoned", {"unschedulable": True}), ("tainted", {"taints": [{"key": "x", "effect": "NoSchedule"}]})):
        bench.api.put(f"/api/v1/nodes/{name}", {"metadata": {"name": name}, "spec": spec})
    assert bench.run(scenario("s", "")) == 0
    bench.api.put("/api/v1/nodes/real", {"metadata": {"name": "real"}, "spec": {}})
    bench.api.asked.clear()
    capsys.readouterr()
    assert bench.run(scenario("s", "")) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"{bench.kubeconfig}: scenarios cannot be played on this cluster: it has 1 nodes of its own that pods could land on (real); "
        "cordon them, or take another cluster\n"
    )
    assert bench.api.asked == []


def test_an_api_server_that_cannot_be_reached_is_one_line(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.kubeconfig.write_text(KUBECONFIG.format(address="http://127.0.0.1:1"))
    assert bench.run(scenario("s", "")) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "http://127.0.0.1:1" in err
    bench.kubeconfig.unlink()
    assert bench.run(scenario("s", "")) == 1
    assert str(bench.kubeconfig) in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["GET /api/v1/pods", "DELETE /api/v1/namespaces/team/pods/old"], ids=["playing", "clearing"])
def test_an_interrupted_run_clears_away(bench: Bench, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, moment: str) -> None:
    answer = bench.api.handle
    heard: list[str] = []

    def handle(method: str, path: str, body: dict[str, object] | None = None) -> tuple[int, dict[str, object]]:
        if f"{method} {path}" == moment and not heard:
            heard.append(path)
            os.kill(os.getpid(), number)
        return answer(method, path, body)

    monkeypatch.setattr(bench.api, "handle", handle)
    assert bench.run(scenario("s", "{expect: {bound: 1}}, {expect: {bound: 5, within: 0s}}")) == 130
    assert len(heard) == 1
    assert bench.left() == []


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--kubeconfig", "k", "--scheduler-command", "x {config}"], "--scheduler-command: expected {port} in it"),
        (["--scheduler-command", "x"], "--scheduler-command needs --kubeconfig FILE"),
        (["--max-wait", "5"], "argument --max-wait: '5': expected a duration such as 90s or 5m"),
        (["--against", "volcano"], "argument --against: invalid choice: 'volcano'"),
    ],
)
def test_a_wrong_command_line_is_malformed(flags: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["test", *flags, "s.yaml"])
    assert raised.value.code == 2
    assert said in capsys.readouterr().err
