"""Reading scenario files strictly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from koordsched.api.kinds import CONFIG_MAP, NODE, POD
from koordsched.cluster.port import Ref
from koordsched.scenario.format import Loaded, load_scenarios
from koordsched.scenario.model import (
    CountRule,
    Create,
    Delete,
    EventRule,
    Expect,
    HttpRule,
    InitialObjects,
    LabelRule,
    NodeRule,
    ObjectRule,
    PatchObjects,
    PodRule,
    Restart,
    Wait,
)

CONFIG = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}"
HEAD = "name: a\nwhy: because\n"


def load(tmp_path: Path, text: str) -> Loaded:
    file = tmp_path / "f.yaml"
    file.write_text(text)
    return load_scenarios([str(file)])


def mistakes(tmp_path: Path, text: str) -> list[str]:
    return [line.removeprefix(f"{tmp_path}/") for line in load(tmp_path, text).mistakes]


def actions(tmp_path: Path, steps: list[Any]) -> list[Any]:
    loaded = load(tmp_path, HEAD + "steps: " + msgspec.json.encode(steps).decode())
    assert loaded.mistakes == []
    return [step.action for step in loaded.scenarios[0].steps]


def step_mistakes(tmp_path: Path, step: Any) -> list[str]:
    prefix = "f.yaml: document 1: "
    return [line.removeprefix(prefix) for line in mistakes(tmp_path, HEAD + "steps: " + msgspec.json.encode([step]).decode())]


def test_several_documents_are_several_scenarios_in_their_order(tmp_path: Path) -> None:
    loaded = load(tmp_path, HEAD + "steps: []\n---\nname: b-2\nwhy: too\nsteps: []\nargs: [-v=4]\n")
    assert loaded.mistakes == []
    assert [(scenario.name, scenario.args) for scenario in loaded.scenarios] == [("a", ()), ("b-2", ("-v=4",))]


def test_every_verb_is_read(tmp_path: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    read = actions(
        tmp_path,
        [
            {"create": [{"kind": "Node", "metadata": {"name": "n"}, "repeat": 3}]},
            {"patch": [{"kind": "Pod", "name": "p", "namespace": "ns", "merge": {"spec": {}}}]},
            {"delete": [{"kind": "Node", "name": "n", "apiVersion": "v1"}]},
            {"wait": "1m30s"},
            {"restart": True},
            {"expect": {"bound": 1, "within": "2s", "stays": "500ms"}},
        ],
    )
    assert read[0] == Create(objects=(InitialObjects(path="steps[0].create[0]", body=node, repeat=3),))
    assert isinstance(read[1], PatchObjects)
    assert (read[1].patches[0].target, read[1].patches[0].merge) == (Ref(POD, "ns", "p"), {"spec": {}})
    assert read[2:] == [
        Delete(targets=(("steps[2].delete[0]", Ref(NODE, "", "n")),)),
        Wait(seconds=90.0),
        Restart(),
        Expect(bound=CountRule(count=1), within=2.0, stays=0.5),
    ]


def test_every_expectation_is_read(tmp_path: Path) -> None:
    (read,) = actions(
        tmp_path,
        [
            {
                "expect": {
                    "pods": {
                        "a": {"node": {"in": ["n"], "not": "m"}, "pending": "x", "gated": True},
                        "ns/b": {"gone": True, "nominated": "n"},
                    },
                    "objects": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "has": {"data": {}}}],
                    "pending": {"selector": {"x": "y"}, "count": 2},
                    "samenode": [["a", "ns/b"]],
                    "distinctnodes": [["a", "b"]],
                    "samelabel": [{"key": "zone", "pods": ["a", "b"]}],
                    "disjoint": ["a", "b"],
                    "events": [{"pod": "a", "reason": "Scheduled"}],
                    "http": [{"path": "/healthz", "contains": "ok"}],
                }
            }
        ],
    )
    assert read == Expect(
        pods={
            "default/a": PodRule(node=NodeRule(one_of=("n",), none_of=("m",)), pending="x", gated=True),
            "ns/b": PodRule(gone=True, nominated="n"),
        },
        objects=(ObjectRule(target=Ref(CONFIG_MAP, "default", "c"), has={"data": {}}),),
        pending=CountRule(count=2, selector={"x": "y"}),
        samenode=(("default/a", "ns/b"),),
        distinctnodes=(("default/a", "default/b"),),
        samelabel=(LabelRule(key="zone", pods=("default/a", "default/b")),),
        disjoint=("default/a", "default/b"),
        events=(EventRule(name="default/a", reason="Scheduled"),),
        http=(HttpRule(path="/healthz", contains="ok"),),
        within=10.0,
    )


def test_cpusets_are_sets(tmp_path: Path) -> None:
    rule = {"count": 4, "numa": [0, 1], "from": "0-7", "not": 3, "equals": "0-1,4-5", "fullCores": False}
    (read,) = actions(tmp_path, [{"expect": {"pods": {"a": {"cpuset": rule}}}}])
    found = read.pods["default/a"].by_plugin["cpuset"]
    assert (found.count, found.numa, found.within, found.without) == (4, {0, 1}, 0b11111111, 0b1000)
    assert (found.equals, found.full_cores) == (0b110011, False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", ["5: expected a map"]),
        ("nam: a\nwhy: b\nsteps: []", ["nam: unknown field; did you mean 'name'?", "name: missing"]),
        ("name: Not_Kebab\nwhy: b\nsteps: []", ["name: 'Not_Kebab': expected kebab-case (lower-case words and digits joined by -)"]),
        ("name: ''\nwhy: b\nsteps: []", ["name: '': expected kebab-case (lower-case words and digits joined by -)"]),
        ("name: a\nwhy: [b]\nsteps: {}", ['why: ["b"]: expected a text', "steps: {}: expected a list"]),
        (HEAD + "steps: []\nargs: [--no-such-flag]", None),
        (HEAD + "steps: []\nconfig: {apiVersion: v1}", None),
        (
            HEAD + "steps: []\ngiven: [{metadata: {name: a}}, {kind: Pod, metadata: {}}, {kind: Nod, metadata: {name: a}}]",
            [
                "given[0].kind: missing",
                "given[1].metadata.name: missing",
                "given[2].kind: 'Nod' needs an apiVersion; did you mean 'Node'?",
            ],
        ),
        (
            HEAD + "steps: []\ngiven: [{kind: Pod, metadata: {name: a}, spce: {}, repeat: -1}]",
            ["given[0].repeat: -1: expected a whole number of at least 0", "given[0].spce: unknown field; did you mean 'spec'?"],
        ),
        (HEAD + "steps: []\nargs: [--v=2, --config=c.yaml]", ["args: --config=c.yaml: a scenario says its configuration under config"]),
        ("name:\nwhy: b\nsteps:", ["name: null: expected a text", "steps: null: expected a list"]),
        (
            HEAD + "steps: []\ngiven: [{kind: Pod, metadata: {name: a, labels: {t: '${now*2}'}}}]",
            ['given[0].metadata.labels.t: "${now*2}": expected ${now}, ${now-90s} or ${now+2m}'],
        ),
    ],
)
def test_mistakes_of_a_document_are_all_named(tmp_path: Path, text: str, expected: list[str] | None) -> None:
    found = mistakes(tmp_path, text)
    if expected is None:
        assert found
        assert all(line.startswith(("f.yaml: document 1: args: ", "f.yaml: document 1: config")) for line in found)
    else:
        assert found == [f"f.yaml: document 1: {line}" for line in expected]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (
            5,
            [
                "steps[0]: 5: expected a map",
                "steps[0]: a step is exactly one verb of create, patch, delete, wait, restart, expect; this one has none",
            ],
        ),
        (
            {"wait": "5s", "restart": True},
            ["steps[0]: a step is exactly one verb of create, patch, delete, wait, restart, expect; this one has wait, restart"],
        ),
        ({"wait": 5}, ["steps[0].wait: 5: expected a duration such as 5s, 1m30s or 500ms"]),
        ({"wait": "-5s"}, ['steps[0].wait: "-5s": expected a duration such as 5s, 1m30s or 500ms']),
        ({"restart": "yes"}, ['steps[0].restart: "yes": expected true']),
        ({"delete": [{"kind": "Pod"}]}, ["steps[0].delete[0].name: missing"]),
        ({"delete": {}}, ["steps[0].delete: {}: expected a list"]),
        ({"patch": [{"kind": "Pod", "name": "a"}]}, ["steps[0].patch[0].merge: missing"]),
        (
            {"patch": [{"kind": "Pod", "name": "a", "merge": {"spec": ["${now-}"]}}]},
            ['steps[0].patch[0].merge.spec[0]: "${now-}": expected ${now}, ${now-90s} or ${now+2m}'],
        ),
        ({"expect": {}}, ["steps[0].expect: expects nothing"]),
        ({"expect": {"within": "5s"}}, ["steps[0].expect: expects nothing"]),
        ({"expect": {"pod": {}}}, ["steps[0].expect.pod: unknown field; did you mean 'pods'?", "steps[0].expect: expects nothing"]),
        ({"expect": {"pods": {"a": {}}}}, ["steps[0].expect.pods.a: expects nothing"]),
        (
            {"expect": {"pods": {"a": {"nod": "n"}}}},
            ["steps[0].expect.pods.a.nod: unknown field; did you mean 'node'?", "steps[0].expect.pods.a: expects nothing"],
        ),
        ({"expect": {"pods": {"a": {"node": {}}}}}, ["steps[0].expect.pods.a.node: expects nothing"]),
        ({"expect": {"pods": {"a": {"node": ""}}}}, ["steps[0].expect.pods.a.node: names no node"]),
        (
            {"expect": {"pods": {"a": {"gone": True}, "default/a": {"gone": False}}}},
            ["steps[0].expect.pods.default/a: default/a is there already, under its other name"],
        ),
        ({"expect": {"pods": {"a": {"node": {"in": []}}}}}, ["steps[0].expect.pods.a.node.in: names no node"]),
        ({"expect": {"pods": {"a": {"node": 5}}}}, ["steps[0].expect.pods.a.node: 5: expected a map"]),
        (
            {"expect": {"pods": {"a": {"pending": 5}}}},
            ["steps[0].expect.pods.a.pending: 5: expected true, false or a text that the condition's message contains"],
        ),
        ({"expect": {"pods": {"a": {"gone": "yes"}}}}, ['steps[0].expect.pods.a.gone: "yes": expected true or false']),
        (
            {"expect": {"pods": {"a": {"cpuset": {"from": "3-1", "count": True}}}}},
            [
                "steps[0].expect.pods.a.cpuset.count: true: expected a whole number of at least 0",
                "steps[0].expect.pods.a.cpuset.from: \"3-1\": '3-1' is not an ascending range of CPUs up to 4096",
            ],
        ),
        ({"expect": {"bound": -1}}, ["steps[0].expect.bound: -1: expected a whole number of at least 0"]),
        ({"expect": {"pending": {"selector": {}}}}, ["steps[0].expect.pending.count: missing"]),
        ({"expect": {"samenode": [["a"]]}}, ["steps[0].expect.samenode[0]: expected at least two pods"]),
        ({"expect": {"disjoint": ["a"]}}, ["steps[0].expect.disjoint: expected at least two pods"]),
        ({"expect": {"samelabel": [{"key": "z"}]}}, ["steps[0].expect.samelabel[0].pods: missing"]),
        ({"expect": {"objects": [{"kind": "Node", "name": "n"}]}}, ["steps[0].expect.objects[0]: expected exactly one of has and gone"]),
        ({"expect": {"events": [{"pod": "a"}]}}, ["steps[0].expect.events[0].reason: missing"]),
        (
            {"expect": {"http": [{"path": "metrics", "contains": 5}]}},
            [
                "steps[0].expect.http[0].contains: 5: expected a map (contained in the JSON body) or a text",
                "steps[0].expect.http[0].path: 'metrics': expected a path that begins with /",
            ],
        ),
    ],
)
def test_mistakes_of_a_step_are_all_named(tmp_path: Path, step: Any, expected: list[str]) -> None:
    assert step_mistakes(tmp_path, step) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ("{kind: Pod, metadata: {name: a}, resources: {cpu: 1}}", ["resources.cpu: unknown field; known: claims, limits, requests"]),
        ("{kind: Pod, metadata: {name: a}, resources: {request: {}}}", ["resources.request: unknown field; did you mean 'requests'?"]),
        (
            "{kind: Pod, metadata: {name: a}, spec: {containers: [{name: c}]}, resources: {requests: {cpu: 1}}}",
            ["resources: spec.containers is given too; say there what they request"],
        ),
        (
            "{kind: Pod, metadata: {name: a, label: {}}, spec: {nodeSelecter: {}, tolerations: [{key: a, efect: NoSchedule}]}}",
            [
                "metadata.label: unknown field; did you mean 'labels'?",
                "spec.nodeSelecter: unknown field; did you mean 'nodeSelector'?",
                "spec.tolerations[0].efect: unknown field; did you mean 'effect'?",
            ],
        ),
        (
            "{kind: Pod, metadata: {name: a}, spec: {affinity: {nodeAffinty: {}}}}",
            ["spec.affinity.nodeAffinty: unknown field; did you mean 'nodeAffinity'?"],
        ),
        ("{kind: Node, metadata: {name: a}, status: {allocatble: {}}}", ["status.allocatble: unknown field; did you mean 'allocatable'?"]),
        (
            "{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {name: a}}",
            ["apiVersion: 'policy/v1beta1' has no 'PodDisruptionBudget'; did you mean 'PodDisruptionBudget' of 'policy/v1'?"],
        ),
        ("{apiVersion: v1, kind: pod, metadata: {name: a}}", ["apiVersion: 'v1' has no 'pod'; did you mean 'Pod' of 'v1'?"]),
    ],
)
def test_what_an_api_server_would_drop_without_a_word_is_a_mistake(tmp_path: Path, manifest: str, expected: list[str]) -> None:
    found = mistakes(tmp_path, HEAD + f"steps: []\ngiven: [{manifest}]")
    assert found == [f"f.yaml: document 1: given[0].{line}" for line in expected]


@pytest.mark.parametrize(
    ("patched", "expected"),
    [
        ({"sepc": {}}, "merge.sepc: unknown field; did you mean 'spec'?"),
        ({"resources": {}}, "merge.resources: unknown field; known: apiVersion, kind, metadata, spec, status"),
        ({"spec": {"toleration": []}}, "merge.spec.toleration: unknown field; did you mean 'tolerations'?"),
    ],
)
def test_what_a_patch_would_change_nothing_by_is_a_mistake(tmp_path: Path, patched: Any, expected: str) -> None:
    step = {"patch": [{"kind": "Pod", "name": "a", "merge": patched}]}
    assert step_mistakes(tmp_path, step) == [f"steps[0].patch[0].{expected}"]


FIELDS_OF_THE_API = {
    "Pod": {
        "metadata": "generateName name namespace selfLink uid resourceVersion generation managedFields ownerReferences finalizers",
        "spec": "activeDeadlineSeconds automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks ephemeralContainers hostAliases "
        "hostIPC hostPID hostUsers hostname hostnameOverride imagePullSecrets os readinessGates restartPolicy runtimeClassName "
        "securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain workloadRef priority",
        "status": "hostIP hostIPs podIP podIPs qosClass reason message resize ephemeralContainerStatuses extendedResourceClaimStatus "
        "observedGeneration allocatedResources resources",
    },
    "Node": {
        "spec": "podCIDR podCIDRs providerID configSource externalID",
        "status": "phase addresses daemonEndpoints nodeInfo volumesInUse volumesAttached config runtimeHandlers features declaredFeatures",
    },
}
CONTAINER = (
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe readinessProbe resizePolicy restartPolicyRules securityContext "
    "startupProbe stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)


@pytest.mark.parametrize("kind", FIELDS_OF_THE_API)
def test_fields_that_only_others_read_are_no_mistakes(tmp_path: Path, kind: str) -> None:
    manifest: dict[str, Any] = {part: dict.fromkeys(names.split(), 1) for part, names in FIELDS_OF_THE_API[kind].items()}
    manifest = {"kind": kind, **manifest, "metadata": {"name": "a", **manifest.get("metadata", {}), "namespace": "b"}}
    manifest["metadata"]["name"] = "a"
    if kind == "Pod":
        manifest["spec"]["containers"] = [dict.fromkeys(CONTAINER.split(), 1)]
    text = HEAD + "steps: []\ngiven: " + msgspec.json.encode([manifest]).decode()
    assert mistakes(tmp_path, text) == []


def test_a_kind_of_another_group_may_be_called_like_a_known_one(tmp_path: Path) -> None:
    given = "{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: a}}"
    assert mistakes(tmp_path, HEAD + f"steps: []\ngiven: [{given}]") == []


def test_optional_fields_may_be_left_empty(tmp_path: Path) -> None:
    assert mistakes(tmp_path, HEAD + "steps: []\ngiven:\nargs:\nconfig:\ndiffers:") == []


def test_a_name_may_be_given_once_only(tmp_path: Path) -> None:
    text = HEAD + "steps: []\n---\n" + HEAD + "steps: []\n"
    assert mistakes(tmp_path, text) == [f"f.yaml: document 2: name: 'a' is the name of {tmp_path}/f.yaml: document 1 already"]


def test_a_cpu_layout_that_is_none_is_a_mistake(tmp_path: Path) -> None:
    topology = {"kind": "NodeResourceTopology", "metadata": {"name": "n1"}, "cpuTopology": "2x2x4"}
    (line,) = step_mistakes(tmp_path, {"create": [topology]})
    assert line.startswith("steps[0].create[0].cpuTopology: '2x2x4': expected SOCKETSxNUMAxCORESxTHREADS")


def test_scenarios_may_stand_beside_the_configuration_that_they_test(tmp_path: Path) -> None:
    loaded = load(tmp_path, f"{CONFIG}\n---\n{HEAD}steps: []")
    assert (loaded.mistakes, [scenario.name for scenario in loaded.scenarios]) == ([], ["a"])


def test_a_file_without_scenarios_or_yaml_is_a_mistake(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "# nothing\n") == ["f.yaml: holds no scenario"]
    assert mistakes(tmp_path, CONFIG) == ["f.yaml: nothing but configurations, no scenario"]
    assert mistakes(tmp_path, "a: [") == ["f.yaml: document 1: line 2: not YAML: did not find expected node content"]


def test_a_mistake_of_the_inline_configuration_has_its_path(tmp_path: Path) -> None:
    config = "config: {apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, parallelism: 0}\n"
    (line,) = mistakes(tmp_path, HEAD + "steps: []\n" + config)
    assert line.startswith("f.yaml: document 1: config.parallelism: ")


def test_devices_in_short_that_are_none_are_a_mistake(tmp_path: Path) -> None:
    device = {"kind": "Device", "metadata": {"name": "n1"}, "gpus": "2x2", "nics": "2"}
    (line,) = step_mistakes(tmp_path, {"create": [device]})
    assert line.startswith("steps[0].create[0].gpus: '2x2': expected NUMAxPCIExGPUS")
