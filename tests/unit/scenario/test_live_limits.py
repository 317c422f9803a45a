"""Which scenarios are skipped on a cluster, and with which reason."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from koordsched.config.loading import Launch
from koordsched.scenario.cluster import Script
from koordsched.scenario.command import ScenarioOptions, plan_scenarios, run_tests
from koordsched.scenario.live.limits import REAL_MAX_WAIT, BackendLimits

PLAIN = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
SERVED = BackendLimits(served=True)
AGAINST = BackendLimits(against="kube-scheduler")


class CountingBackend:
    """Plays nothing, and counts what it was asked to play."""

    def __init__(self) -> None:
        self.played = 0

    def run(self, launch: Launch, script: Script) -> None:
        self.played += 1

    def notes(self) -> tuple[str, ...]:
        return ()


def run(tmp_path: Path, steps: str, limits: BackendLimits, more: str = "", config: str | None = None) -> str:
    """Return the line about the scenario; SKIP must mean that it was not played."""
    (tmp_path / "f.yaml").write_text(f"name: s\nwhy: because\nsteps: {steps}\n{more}")
    if config is not None:
        (tmp_path / "c.yaml").write_text(config)
    options = ScenarioOptions(
        paths=(str(tmp_path / "f.yaml"),), config=str(tmp_path / "c.yaml") if config is not None else None, limits=limits
    )
    out, err, backend = io.StringIO(), io.StringIO(), CountingBackend()
    assert run_tests(options, backend, out, err) == 0
    line, count = out.getvalue().splitlines()
    skipped = line.startswith("SKIP")
    assert (backend.played, count) == ((0, "0 passed, 0 failed, 1 skipped") if skipped else (1, "1 passed, 0 failed"))
    assert err.getvalue() == ""
    return line


def test_what_lets_more_time_pass_than_allowed_is_skipped(tmp_path: Path) -> None:
    steps = "[{wait: 30s}, {expect: {bound: 0, stays: 20s, within: 5m}}, {wait: 11s}]"
    assert run(tmp_path, steps, BackendLimits(max_wait=60)) == "SKIP s: it lets 61s pass, more than 60s"
    assert run(tmp_path, steps, BackendLimits(max_wait=61)) == "PASS s"
    assert run(tmp_path, steps, BackendLimits()) == "PASS s"


@pytest.mark.parametrize(
    ("steps", "more", "reason"),
    [
        ("[{restart: true}]", "", "steps[0].restart: the scheduler that serves the cluster cannot be restarted"),
        (
            "[{wait: 1s}, {expect: {http: [{path: /readyz}]}}]",
            "",
            "steps[1].expect: the port of the scheduler that serves the cluster is not known",
        ),
        ("[]", "args: [--v=2, --v=3]", "the scheduler that serves the cluster cannot be given --v=2 --v=3"),
        ("[]", f"config: {PLAIN}", "its configuration is not that of the scheduler that serves the cluster"),
    ],
)
def test_what_needs_a_scheduler_of_its_own_is_skipped_without_one(tmp_path: Path, steps: str, more: str, reason: str) -> None:
    assert run(tmp_path, steps, SERVED, more) == f"SKIP s: {reason}"
    assert run(tmp_path, steps, BackendLimits(), more) == "PASS s"


def test_a_scenario_with_the_configuration_that_is_served_is_played(tmp_path: Path) -> None:
    assert run(tmp_path, "[]", SERVED, f"config: {PLAIN}", config=PLAIN) == "PASS s"
    assert run(tmp_path, "[]", SERVED) == "PASS s"


def test_a_scenario_says_itself_on_which_scheduler_it_does_not_hold(tmp_path: Path) -> None:
    more = f"config: {PLAIN}\ndiffers: {{kube-scheduler: it looks at some nodes only}}"
    assert run(tmp_path, "[]", AGAINST, more) == "SKIP s: kube-scheduler differs: it looks at some nodes only"
    assert run(tmp_path, "[]", BackendLimits(against="koordinator"), more) == "PASS s"
    assert run(tmp_path, "[]", BackendLimits(), more) == "PASS s"


def test_plugins_that_kube_scheduler_lacks_need_not_be_declared(tmp_path: Path) -> None:
    profile = "{plugins: {preFilter: {enabled: [{name: ElasticQuota}]}, filter: {enabled: [{name: LoadAwareScheduling}]}}}"
    more = f"config: {PLAIN[:-1]}, profiles: [{profile}]}}"
    assert run(tmp_path, "[]", AGAINST, more) == "SKIP s: kube-scheduler has no ElasticQuota, LoadAwareScheduling"
    assert run(tmp_path, "[]", AGAINST, f"config: {PLAIN}") == "PASS s"
    assert run(tmp_path, "[]", BackendLimits(against="koordinator"), more) == "PASS s"


@pytest.mark.parametrize(
    ("step", "named"),
    [
        ("create: [{kind: Pod, metadata: {name: p, labels: {koordinator.sh/qosClass: LS, app: a}}}]", "koordinator.sh/qosClass"),
        ("create: [{kind: Reservation, metadata: {name: r}, spec: {owners: [], template: {}}}]", "scheduling.koordinator.sh/v1alpha1"),
        ("create: [{kind: PodGroup, metadata: {name: g}, spec: {minMember: 2}}]", "scheduling.sigs.k8s.io/v1alpha1"),
        (
            "patch: [{kind: Node, name: n, merge: {metadata: {annotations: {node.koordinator.sh/reservation: '{}'}}}}]",
            "node.koordinator.sh/reservation",
        ),
    ],
)
def test_what_koordinator_alone_reads_need_not_be_declared(tmp_path: Path, step: str, named: str) -> None:
    more = f"config: {PLAIN}\n"
    assert run(tmp_path, f"[{{{step}}}]", AGAINST, more) == f"SKIP s: kube-scheduler does not know {named}"
    assert run(tmp_path, f"[{{{step}}}]", BackendLimits(against="koordinator"), more) == "PASS s"
    given = "given: [{kind: Node, metadata: {name: n, labels: {a: koordinator}}}]"
    assert run(tmp_path, "[]", AGAINST, f"{more}{given}") == "PASS s"


def test_an_unknown_scheduler_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("name: s\nwhy: because\nsteps: []\ndiffers: {kube-schedular: x}\n")
    err = io.StringIO()
    assert run_tests(ScenarioOptions(paths=(str(tmp_path / "f.yaml"),)), CountingBackend(), io.StringIO(), err) == 2
    assert "differs.kube-schedular: unknown field; did you mean 'kube-scheduler'?" in err.getvalue()


def test_the_projects_scenarios_that_run_on_a_real_cluster_wait_for_seconds_only() -> None:
    """CI waits for each of them, for many twice. A pod that is tried again shows it 2 s after its first attempt."""

    def skipped(seconds: float) -> set[str]:
        options = ScenarioOptions(paths=(str(Path(__file__).parents[2] / "scenarios"),), limits=BackendLimits(max_wait=seconds))
        return {plan.scenario.name for plan in plan_scenarios(options)[0] if plan.skip}

    assert len(skipped(REAL_MAX_WAIT)) < 10
    assert skipped(12.0) == skipped(REAL_MAX_WAIT)
