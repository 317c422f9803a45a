"""The scenarios of tests/scenarios on a real API server: with our scheduler, and those that are no deviation of ours with kube-scheduler.

One test a file, so that -k and a machine with more cores can pick. What must wait for minutes is left to the embedded cluster.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.controlplane.binaries import Binaries
from support.controlplane.plane import ControlPlane
from support.preloaded import Preloaded

from koordsched.cli import main
from koordsched.scenario.command import ScenarioOptions, plan_scenarios
from koordsched.scenario.live.limits import REAL_MAX_WAIT, BackendLimits

SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("*.yaml"), key=lambda file: -file.stat().st_size)
"""The longest first, so that no process of pytest-xdist is left alone with one."""
LIMITS = BackendLimits(max_wait=REAL_MAX_WAIT, against="kube-scheduler")
SLACK = "20s"  # for machines that have other things to do; what takes long in virtual time fails without it
KUBES_TOO = [
    file for file in SCENARIOS if any(not plan.skip for plan in plan_scenarios(ScenarioOptions(paths=(str(file),), limits=LIMITS))[0])
]
"""The files of which kube-scheduler can play a scenario: one that is only about what Koordinator adds needs no mention here."""
OURS = "{program} --config {{config}} --secure-port {{port}} --port 0 --bind-address 127.0.0.1 --authorization-always-allow-paths=/*"
KUBES = (
    "{program} --config {{config}} --secure-port {{port}} --bind-address 127.0.0.1 --authentication-kubeconfig {{kubeconfig}} "
    "--authorization-kubeconfig {{kubeconfig}} --authorization-always-allow-paths=/*"
)


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """How our scheduler is started: the line that `test --scheduler-command` takes."""
    with Preloaded(tmp_path_factory.mktemp("preloaded")) as preloaded:
        yield OURS.format(program=preloaded.command)


@pytest.fixture
def kubeconfig(plane: ControlPlane, tmp_path: Path) -> Path:
    return plane.kubeconfig().write(tmp_path / "kubeconfig")


def play(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
    """Play scenarios, and see that none fails and that one was played at least. The report of a failure has what `test` says of it."""
    code = main(["test", "--slack", SLACK, *arguments])
    said = capsys.readouterr()
    request.node.add_report_section("call", "details of failures", said.err)
    *lines, count = said.out.splitlines() or [""]
    failures = [line for line in lines if not line.startswith(("PASS ", "SKIP "))]
    assert (code, failures) == (0, [])
    assert not count.startswith("0 passed"), lines


@pytest.mark.parametrize("file", SCENARIOS, ids=lambda file: file.stem)
def test_scenarios_hold_with_our_scheduler(
    kubeconfig: Path, file: Path, ours: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    play(request, capsys, "--kubeconfig", str(kubeconfig), "--scheduler-command", ours, str(file))


@pytest.mark.parametrize("file", KUBES_TOO, ids=lambda file: file.stem)
def test_scenarios_hold_with_kube_scheduler(
    kubeconfig: Path, file: Path, binaries: Binaries, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    command = KUBES.format(program=shlex.quote(str(binaries.kube_scheduler)))
    play(request, capsys, "--kubeconfig", str(kubeconfig), "--against", "kube-scheduler", "--scheduler-command", command, str(file))
