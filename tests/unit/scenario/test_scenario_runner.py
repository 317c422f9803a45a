"""Running scenarios on a ScenarioCluster: order, polling, failures, namespaces. The cluster here is a dict with a clock of its own."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from koordsched.api.kinds import Kind
from koordsched.cluster.port import AlreadyExists, ClusterError, Invalid, NotFound, Ref
from koordsched.config.loading import Launch
from koordsched.scenario.cluster import HttpAnswer, Script
from koordsched.scenario.command import ScenarioOptions, run_tests

START = 1767225600.0  # 2026-01-01T00:00:00Z

Json = dict[str, Any]


class FakeCluster:
    """Keeps objects, notes what is asked of it, and lets things happen at times: `then(5.0, change)`."""

    def __init__(self) -> None:
        self.time = START
        self.notes: list[str] = []
        self.broken = False
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.due: list[tuple[float, Callable[[FakeCluster], None]]] = []

    def then(self, seconds: float, change: Callable[[FakeCluster], None]) -> None:
        self.due.append((START + seconds, change))

    def bind(self, name: str, node: str) -> None:
        self.objects["Pod", "default", name]["spec"]["nodeName"] = node

    def now(self) -> float:
        return self.time

    async def start(self) -> None:
        self.notes.append("start")
        if self.broken:
            raise ClusterError("the lease is held by another process")

    async def restart(self) -> None:
        self.notes.append("restart")

    async def settle(self) -> None:
        await self.sleep(0.0)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        for moment, change in [item for item in self.due if item[0] <= self.time + 1e-9]:
            self.due.remove((moment, change))
            change(self)

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> None:
        metadata = body["metadata"]
        key = (kind.kind, metadata.get("namespace", ""), metadata["name"])
        if metadata["name"] == "refused":
            raise Invalid("spec.x: Invalid value: 5: must be a text")
        if key in self.objects:
            raise AlreadyExists(f"{key} already exists")
        self.notes.append(f"create {'/'.join(key)}")
        self.objects[key] = dict(body)

    async def patch(self, ref: Ref, merge: Mapping[str, Any]) -> None:
        self.notes.append(f"patch {ref.kind.kind} {ref.name} {dict(merge)}")
        if (ref.kind.kind, ref.namespace, ref.name) not in self.objects:
            raise NotFound(f"{ref.name} not found")

    async def delete(self, ref: Ref) -> None:
        if self.objects.pop((ref.kind.kind, ref.namespace, ref.name), None) is None:
            raise NotFound(f"{ref.name} not found")

    async def get(self, ref: Ref) -> Json | None:
        return self.objects.get((ref.kind.kind, ref.namespace, ref.name))

    async def list(self, kind: Kind) -> Sequence[Json]:
        return [body for (name, _, _), body in self.objects.items() if name == kind.kind]

    async def http(self, path: str) -> HttpAnswer:
        raise ClusterError(f"no answer from {path}")


class FakeBackend:
    """Plays every script on a cluster that `prepare` had its hands on."""

    def __init__(self, prepare: Callable[[FakeCluster], None]) -> None:
        self._prepare = prepare
        self.clusters: list[FakeCluster] = []
        self.args: list[tuple[str, ...]] = []

    def run(self, launch: Launch, script: Script) -> None:
        assert launch.config.profiles
        cluster = FakeCluster()
        self._prepare(cluster)
        self.clusters.append(cluster)
        self.args.append(launch.args)
        asyncio.run(_run(script, cluster))

    def notes(self) -> tuple[str, ...]:
        return ()


async def _run(script: Script, cluster: FakeCluster) -> None:
    await script(cluster)


def untouched(_cluster: FakeCluster) -> None:
    """Prepare nothing."""


class Played:
    """What came of a file."""

    def __init__(self, tmp_path: Path, text: str, prepare: Callable[[FakeCluster], None] = untouched, only: str = "") -> None:
        (tmp_path / "f.yaml").write_text(text)
        out, err = io.StringIO(), io.StringIO()
        self.backend = FakeBackend(prepare)
        self.code = run_tests(ScenarioOptions(paths=(str(tmp_path / "f.yaml"),), only=only), self.backend, out, err)
        self.out = out.getvalue().splitlines()
        self.err = err.getvalue().replace(f"{tmp_path}/", "").splitlines()

    @property
    def cluster(self) -> FakeCluster:
        return self.backend.clusters[0]


def scenario(steps: str, given: str = "[]", name: str = "s") -> str:
    return f"name: {name}\nwhy: because\ngiven: {given}\nsteps: {steps}\n"


POD_A = "{kind: Pod, metadata: {name: a}}"


def test_given_objects_are_there_before_the_scheduler_starts_and_steps_come_in_order(tmp_path: Path) -> None:
    given = "[{kind: Node, metadata: {name: 'n{i}'}, repeat: 2}]"
    patch = "{kind: Pod, name: a, merge: {spec: '${now+1s}'}}"
    steps = f"[{{create: [{POD_A}]}}, {{restart: true}}, {{patch: [{patch}]}}, {{delete: [{{kind: Pod, name: a}}]}}]"
    played = Played(tmp_path, scenario(steps, given))
    assert played.err == []
    assert played.cluster.notes == [
        "create Node//n0",
        "create Node//n1",
        "start",
        "create Pod/default/a",
        "restart",
        "patch Pod a {'spec': '2026-01-01T00:00:01Z'}",
    ]
    assert played.out == ["PASS s", "1 passed, 0 failed"]
    assert played.code == 0


def test_an_expectation_is_polled_until_it_holds(tmp_path: Path) -> None:
    text = scenario("[{expect: {pods: {a: {node: n1}}}}]", f"[{POD_A}]")
    played = Played(tmp_path, text, lambda cluster: cluster.then(7.95, lambda later: later.bind("a", "n1")))
    assert played.out == ["PASS s", "1 passed, 0 failed"]
    assert played.cluster.time == pytest.approx(START + 8.0)


def test_an_expectation_that_does_not_come_true_within_its_time_fails_with_what_was_seen(tmp_path: Path) -> None:
    text = scenario("[{expect: {pods: {a: {node: n1}}, within: 2s}}]", f"[{POD_A}]")
    played = Played(tmp_path, text, lambda cluster: cluster.then(2.5, lambda later: later.bind("a", "n1")))
    assert played.out == [
        "FAIL s: steps[0].expect: within 2s: default/a: expected on n1, seen not bound and not tried",
        "0 passed, 1 failed",
    ]
    assert played.code == 1
    assert played.cluster.time == pytest.approx(START + 2.0)


def test_all_that_differs_is_said(tmp_path: Path) -> None:
    played = Played(tmp_path, scenario("[{expect: {bound: 1, pending: 0, within: 0s}}]", f"[{POD_A}]"))
    assert (
        played.out[0] == "FAIL s: steps[0].expect: within 0s: bound: expected 1 pods, seen 0; pending: expected 0 pods, seen 1 (default/a)"
    )


def test_what_must_stay_and_does_not_fails(tmp_path: Path) -> None:
    text = scenario("[{expect: {pods: {a: {gated: true}}, stays: 3s}}]", f"[{POD_A}]")
    played = Played(tmp_path, text, lambda cluster: cluster.then(2.0, lambda later: later.bind("a", "n1")))
    assert played.out[0] == (
        "FAIL s: steps[0].expect: held, but not for 3s: default/a: expected held back before scheduling, seen bound to n1"
    )
    assert Played(tmp_path, text).out[0] == "PASS s"


def test_waiting_lets_time_pass(tmp_path: Path) -> None:
    assert Played(tmp_path, scenario("[{wait: 90s}]")).cluster.time == START + 90


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            "[{create: [{kind: Pod, metadata: {name: refused}}]}]",
            "steps[0].create[0]: expected Pod default/refused to be created, seen spec.x: Invalid value: 5: must be a text",
        ),
        ("[{patch: [{kind: Pod, name: b, merge: {}}]}]", "steps[0].patch[0]: expected Pod default/b to be patched, seen b not found"),
        ("[{delete: [{kind: Node, name: n}]}]", "steps[0].delete[0]: expected Node n to be deleted, seen n not found"),
        (
            "[{expect: {http: [{path: /healthz}], within: 1s}}]",
            "steps[0].expect: within 1s: GET /healthz: expected status 200, seen 0 no answer from /healthz",
        ),
    ],
)
def test_a_step_that_cannot_be_done_fails_the_scenario(tmp_path: Path, steps: str, expected: str) -> None:
    assert Played(tmp_path, scenario(steps)).out[0] == f"FAIL s: {expected}"


def test_a_scheduler_that_does_not_start_fails_the_scenario(tmp_path: Path) -> None:
    def broken(cluster: FakeCluster) -> None:
        cluster.broken = True

    expected = "FAIL s: start: expected the scheduler to run, seen the lease is held by another process"
    assert Played(tmp_path, scenario("[]"), broken).out[0] == expected


def test_namespaces_are_made_on_demand_once(tmp_path: Path) -> None:
    given = "[{kind: Pod, metadata: {name: a, namespace: team}}, {kind: Pod, metadata: {name: b, namespace: team}}]"
    assert Played(tmp_path, scenario("[]", given)).cluster.notes == [
        "create Namespace//team",
        "create Pod/team/a",
        "create Pod/team/b",
        "start",
    ]


def test_a_namespace_that_exists_already_takes_what_its_manifest_says(tmp_path: Path) -> None:
    given = "[{kind: Pod, metadata: {name: a, namespace: team}}, {kind: Namespace, metadata: {name: team, labels: {x: y1}}}]"
    notes = Played(tmp_path, scenario("[]", given)).cluster.notes
    assert notes[:2] == ["create Namespace//team", "create Pod/team/a"]
    assert notes[2].startswith("patch Namespace team {")


def test_a_namespace_that_another_client_made_serves_too(tmp_path: Path) -> None:
    given = "[{kind: Pod, metadata: {name: a, namespace: team}}]"
    there = {("Namespace", "", "team"): {"metadata": {"name": "team"}}}
    assert Played(tmp_path, scenario("[]", given), lambda cluster: cluster.objects.update(there)).cluster.notes == [
        "create Pod/team/a",
        "start",
    ]


def test_a_scenarios_flags_decide_what_the_common_configuration_may_say(tmp_path: Path) -> None:
    shape = "{shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}"
    (tmp_path / "c.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{schedulerName: koord-scheduler, pluginConfig: [{{name: VolumeBinding, args: {shape}}}]}}]\n"
    )

    def run(args: str) -> tuple[int, str]:
        (tmp_path / "f.yaml").write_text(scenario("[]") + args)
        err = io.StringIO()
        options = ScenarioOptions(paths=(str(tmp_path / "f.yaml"),), config=str(tmp_path / "c.yaml"))
        return run_tests(options, FakeBackend(untouched), io.StringIO(), err), err.getvalue()

    assert run("args: [--feature-gates=StorageCapacityScoring=true]\n") == (0, "")
    code, said = run("")
    assert code == 2
    assert said.startswith(f"{tmp_path}/c.yaml: document 1: profiles[0].pluginConfig[0].args.shape: ")


def test_a_wrong_common_configuration_is_named_even_if_no_scenario_needs_it(tmp_path: Path) -> None:
    own = "config: {apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}\n"
    (tmp_path / "f.yaml").write_text(scenario("[]") + own)
    (tmp_path / "c.yaml").write_text("kind: Pod\n")
    options = ScenarioOptions(paths=(str(tmp_path / "f.yaml"),), config=str(tmp_path / "c.yaml"))
    assert run_tests(options, FakeBackend(untouched), io.StringIO(), io.StringIO()) == 2


def test_pods_get_the_first_profiles_scheduler_and_nodes_are_completed(tmp_path: Path) -> None:
    given = "[{kind: Pod, metadata: {name: a}}, {kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '1'}}}]"
    objects = Played(tmp_path, scenario("[]", given)).cluster.objects
    assert objects["Pod", "default", "a"]["spec"]["schedulerName"] == "koord-scheduler"
    assert objects["Node", "", "n"]["status"]["capacity"] == {"cpu": "1", "pods": "110"}


def test_args_reach_the_stage(tmp_path: Path) -> None:
    played = Played(tmp_path, scenario("[]") + "args: [--pod-max-in-unschedulable-pods-duration=60s]\n")
    assert played.backend.args == [("--pod-max-in-unschedulable-pods-duration=60s",)]


def test_only_scenarios_with_the_text_in_their_name_run(tmp_path: Path) -> None:
    text = scenario("[]", name="pack-nodes") + "---\n" + scenario("[]", name="spread-nodes")
    assert Played(tmp_path, text, only="spread").out == ["PASS spread-nodes", "1 passed, 0 failed"]


def test_a_malformed_file_runs_nothing(tmp_path: Path) -> None:
    played = Played(tmp_path, scenario("[{wait: 5}]") + "---\n" + scenario("[]", name="b"))
    assert played.code == 2
    assert played.out == []
    assert played.err == ["f.yaml: document 1: steps[0].wait: 5: expected a duration such as 5s, 1m30s or 500ms"]
    assert played.backend.clusters == []


def test_a_missing_file_or_configuration_is_malformed(tmp_path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    backend = FakeBackend(untouched)
    assert run_tests(ScenarioOptions(paths=(str(tmp_path / "none.yaml"),)), backend, out, err) == 2
    assert run_tests(ScenarioOptions(paths=(), config=str(tmp_path / "none.yaml")), backend, out, err) == 2
    assert [line.startswith(f"{tmp_path}/none.yaml: ") for line in err.getvalue().splitlines()] == [True, True]
