"""Whatever is in a file, `simulate` and `test` say what is wrong with it and go on: no traceback, and good objects are not stopped.

About 1,200 manifests: valid ones in which some values are malformed, keys removed or added, played on a world together with a node and
a pod that must find each other; and files whose text is damaged. The examples are the same in every run.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from support.ways import ways

from koordsched.config.flags import parse_flags
from koordsched.config.loading import default_config
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.manifests.documents import InputError
from koordsched.scenario.format import load_scenarios
from koordsched.simulate.manifests import load_manifests
from koordsched.simulate.simulation import Simulation, SimulationOutcome
from koordsched.simulate.workload import Workload

BATCH = 8
CONFIG = default_config()
FLAGS = parse_flags([])
UNSHRUNK = settings(deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
"""The first bad example as it is: shrinking one that runs a whole world takes minutes."""

Json = dict[str, Any]

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "fuzzed",
        "namespace": "default",
        "labels": {"app": "web"},
        "annotations": {"scheduling.koordinator.sh/resource-spec": "{}"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}],
    },
    "spec": {
        "schedulerName": "koord-scheduler",
        "priority": 10,
        "priorityClassName": "koord-prod",
        "preemptionPolicy": "PreemptLowerPriority",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "other", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "overhead": {"cpu": "10m"},
        "hostNetwork": False,
        "terminationGracePeriodSeconds": 30,
        "containers": [
            {
                "name": "main",
                "image": "web:1",
                "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0", "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "10m", "memory": "1Mi", "example.com/x": "1"}, "limits": {"example.com/x": "1"}},
            }
        ],
        "initContainers": [{"name": "init", "restartPolicy": "Always", "resources": {"requests": {"cpu": "5m"}}}],
        "resources": {"requests": {"cpu": "20m"}},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}],
                        }
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"matchExpressions": [{"key": "cpus", "operator": "Gt", "values": ["4"]}]}}
                ],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": ["default"]}
                ]
            },
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}
        ],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "d", "emptyDir": {}}],
    },
    "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "x"}]},
}
GATED: Json = {**POD, "spec": {**POD["spec"], "schedulingGates": [{"name": "example.com/gate"}]}}
NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "fuzzed", "labels": {"zone": "a", "disk": "ssd", "rack": "r1"}},
    "spec": {"unschedulable": False, "taints": [{"key": "other", "value": "x", "effect": "PreferNoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/x": "4"},
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/x": "4"},
        "images": [{"names": ["web:1"], "sizeBytes": 300000000}],
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
OTHERS: list[Json] = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "fuzzed"}, "value": 5, "globalDefault": False},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fuzzed", "labels": {"team": "a"}}},
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "fuzzed", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "fuzzed", "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"},
    },
    {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "fuzzed", "annotations": {"node.koordinator.sh/cpu-topology": '{"detail": []}'}},
        "zones": [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "allocatable": "4"}]}],
    },
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}}}],
    },
]
WITNESSES: list[Json] = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "witness"},
        "spec": {"taints": [{"key": "witness", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "1000", "memory": "1000Gi"}},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "witness", "namespace": "witnesses"},
        "spec": {
            "tolerations": [{"key": "witness"}],
            "nodeSelector": {"kubernetes.io/hostname": "witness"},
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
        },
    },
]

MALFORMED: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 2**31, 2**63, -(2**63), 2**70, 1e300, "", " ", "abc", "1Gi1", "1e999", "-5", "9" * 400, "x" * 5000),
    *("\u0000", "é☃𝄞", "%s{0}", "a/b/c", "..", "NaN", "0x10", "1_000", "2026-13-45T99:00:00Z"),
    *([], {}, [None], [[]], [{}], {"a": None}, {"": ""}, {"a": {"b": [1, {"c": "d"}]}}, ["abc", 5, None]),
]


def dumped(value: Any) -> str:
    return str(yaml.dump(value, Dumper=yaml.CSafeDumper))


def mutated(random: Random, name: str) -> Any:
    """Return one of the manifests, named so, with one to three things wrong in it."""
    body = copy.deepcopy(random.choice([POD, POD, POD, NODE, GATED, *OTHERS]))
    if "metadata" in body:
        body["metadata"]["name"] = name
    for _ in range(random.choice([1, 1, 2, 3])):
        places = ways(body)
        if not places:
            break
        *parents, last = random.choice(places)
        inner = body
        for step in parents:
            inner = inner[step]
        change = random.choice(["replace", "replace", "replace", "remove", "wrap", "add"])
        if change == "replace":
            inner[last] = copy.deepcopy(random.choice(MALFORMED))
        elif change == "remove":
            del inner[last]
        elif change == "wrap":
            inner[last] = [inner[last]]
        elif isinstance(inner, dict):
            inner[random.choice(["odd", "name", "spec", "", "kind"])] = copy.deepcopy(random.choice(MALFORMED))
    return body


def play(workload: Workload) -> SimulationOutcome:
    async def script(world: EmbeddedCluster) -> SimulationOutcome:
        return await Simulation(workload, world, lambda _done, _total: None).run()

    return run_embedded(EmbeddedOptions(config=CONFIG, flags=FLAGS), script)


def load(text: bytes, file: Path) -> Workload:
    file.write_bytes(text)
    return load_manifests([str(file)], ["koord-scheduler"])


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "f.yaml"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Keep the logs of hundreds of schedulers out of a failure's output."""
    with capture_logs():
        yield


@settings(UNSHRUNK, max_examples=150)
@given(random=st.randoms(use_true_random=True), as_json=st.booleans())
def test_malformed_objects_are_named_and_stops_no_other_object(file: Path, random: Random, as_json: bool) -> None:
    documents = [*(mutated(random, f"fuzzed-{index}") for index in range(BATCH)), *WITNESSES]
    dump = "\n---\n".join(msgspec.json.encode(body).decode() if as_json else dumped(body) for body in documents)
    outcome = play(load(dump.encode(), file))
    for rejection in outcome.rejected:
        pattern = rf"{re.escape(str(file))}: document [1-{BATCH}]: (items\[0\]: )?([A-Z]\w+( \S.*?)?: )?\S.*: .+"
        assert re.match(pattern, rejection.line), rejection
        assert "\n" not in rejection.line
    result = outcome.result
    assert [placed.node for placed in result.placements if placed.pod == "witnesses/witness"] == ["witness"]
    assert result.summary.pods == result.summary.bound + result.summary.pending == len(result.placements) + len(result.pending)
    assert all(pending.reason for pending in result.pending)
    msgspec.json.decode(result.json())


TEXT = "\n---\n".join(dumped(body) for body in (POD, NODE)).encode()
SPLICES = [
    b"",
    b"\n---\n",
    b"{",
    b"[",
    b"'",
    b'"',
    b"&a ",
    b"*a",
    b"!!binary ",
    b"!x ",
    b"\xff",
    b"\x00",
    b"\t",
    b"? ",
    b"- ",
    b": ",
    b"|\n",
    b"<<: 5\n",
    b"%YAML 9\n",
]


@settings(UNSHRUNK, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, len(TEXT)), st.integers(0, 40), st.sampled_from(SPLICES)), min_size=1, max_size=4))
def test_a_damaged_file_is_read_or_named_with_its_document(file: Path, cuts: list[tuple[int, int, bytes]]) -> None:
    text = TEXT
    for start, length, splice in cuts:
        text = text[:start] + splice + text[start + length :]
    said = [problem] if (problem := _problem(text, file)) else [rejection.line for rejection in load(text, file).rejected]
    for line in said:
        assert re.match(rf"{re.escape(str(file))}: (document \d+|byte \d+): ", line), line
        assert "\n" not in line


def _problem(text: bytes, file: Path) -> str:
    """Return why the file cannot be read, "" when it can."""
    try:
        load(text, file)
    except InputError as mistake:
        return str(mistake)
    return ""


SCENARIO: Json = {
    "name": "fuzzed",
    "why": "because",
    "args": ["--v=2"],
    "config": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 4},
    "given": [
        {"kind": "Node", "metadata": {"name": "n-{i}"}, "repeat": 2},
        {"kind": "Pod", "metadata": {"name": "p"}, "resources": {"requests": {"cpu": "1"}}},
    ],
    "steps": [
        {"create": [{"kind": "Pod", "metadata": {"name": "a", "annotations": {"t": "${now-5s}"}}}]},
        {"patch": [{"kind": "Pod", "name": "a", "merge": {"metadata": {"labels": {"a": "b"}}}}]},
        {"delete": [{"kind": "Pod", "name": "a", "namespace": "default"}]},
        {"wait": "5s"},
        {"restart": True},
        {
            "expect": {
                "pods": {"a": {"node": {"in": ["n-0"], "not": "n-1"}, "pending": "x", "cpuset": {"count": 4, "numa": [0], "from": "0-7"}}},
                "objects": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "has": {"spec": {}}}],
                "bound": {"selector": {"a": "b"}, "count": 1},
                "samenode": [["a", "b"]],
                "samelabel": [{"key": "zone", "pods": ["a", "b"]}],
                "disjoint": ["a", "b"],
                "events": [{"pod": "a", "reason": "Scheduled", "contains": "x"}],
                "http": [{"path": "/metrics", "status": 200, "contains": {"a": [1]}}],
                "stays": "3s",
                "within": "1m",
            }
        },
    ],
}


@settings(UNSHRUNK, max_examples=300)
@given(st.data())
def test_a_malformed_scenario_is_named_with_its_path(file: Path, data: st.DataObject) -> None:
    body = copy.deepcopy(SCENARIO)
    *parents, last = data.draw(st.sampled_from(ways(body)))
    inner: Any = body
    for step in parents:
        inner = inner[step]
    inner[last] = data.draw(st.sampled_from(MALFORMED))
    file.write_text(dumped(body))
    for mistake in load_scenarios([str(file)]).mistakes:
        assert re.match(rf"{re.escape(str(file))}: document 1: \S.*: .+", mistake), mistake
        assert "\n" not in mistake
