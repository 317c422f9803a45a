"""What `validate` refuses: one valid manifest, and one change at a time that an API server would not take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koordsched.api.kinds import (
    CSI_STORAGE_CAPACITY,
    ELASTIC_QUOTA,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    Kind,
)
from koordsched.api.validation import validate

SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
ZONE_TERM = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "web"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

VALID_POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "default",
        "labels": {"app": "web"},
        "annotations": {"example.com/Note": "x"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    "spec": {
        "initContainers": [{"name": "proxy", "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "main",
                "resources": {
                    "requests": {"cpu": "500m", "example.com/gpu": 1},
                    "limits": {"cpu": 1, "memory": "1Gi", "example.com/gpu": "1"},
                },
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
            }
        ],
        "overhead": {"cpu": "10m"},
        "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2}},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"operator": "Exists"}, {"key": "a", "effect": "NoExecute", "tolerationSeconds": 5, "value": "b"}],
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [SSD]}]},
                PREFERRED: [{"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}}],
            },
            "podAffinity": {REQUIRED: [ZONE_TERM]},
            "podAntiAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": ZONE_TERM}]},
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2, "nodeTaintsPolicy": "Honor"}
        ],
        "schedulingGates": [{"name": "example.com/gate"}],
        "preemptionPolicy": "Never",
    },
    "status": {"conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
}

VALID_NODE: dict[str, Any] = {
    "metadata": {"name": "node-1"},
    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute", "value": "x"}]},
    "status": {"allocatable": {"cpu": "3920m", "pods": 110}, "capacity": {"cpu": 4, "storage.example.com/x": "1"}},
}


def changed(raw: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with the value at a path such as spec/containers/0/name; a list index of its length appends."""
    copied: dict[str, Any] = json.loads(json.dumps(raw))
    *way, last = [int(step) if step.isdecimal() else step for step in path.split("/")]
    target: Any = copied
    for step in way:
        target = target.setdefault(step, {}) if isinstance(target, dict) else target[step]
    if isinstance(target, list) and last == len(target):
        target.append(value)
    else:
        target[last] = value
    return copied


def problems(kind: Kind, raw: Any) -> list[str]:
    return [str(error) for error in validate(kind, raw)]


def test_good_manifests_pass() -> None:
    assert problems(POD, VALID_POD) == []
    assert problems(NODE, VALID_NODE) == []
    assert problems(NAMESPACE, {"metadata": {"name": "team-a", "labels": {"env": "prod"}}}) == []


C = "spec/containers/0"
NODE_AFFINITY = "spec/affinity/nodeAffinity"
TERM = f"{NODE_AFFINITY}/{REQUIRED}/nodeSelectorTerms/0"
EXPRESSION = f"{TERM}/matchExpressions/0"
AT_EXPRESSION = f"nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
SPREAD = "spec/topologySpreadConstraints/0"

BAD_PODS: list[tuple[str, Any, str]] = [
    ("metadata/name", "", "metadata.name: Required value: name or generateName is required"),
    ("metadata/name", "Web", 'metadata.name: Invalid value: "Web": must consist of lower case letters'),
    ("metadata/namespace", "a.b", 'metadata.namespace: Invalid value: "a.b": must consist of lower case letters'),
    ("metadata/labels/app", "a b", 'metadata.labels[app]: Invalid value: "a b": must be empty or at most 63'),
    ("metadata/labels/a b", "x", 'metadata.labels: Invalid value: "a b": must be [prefix/]name'),
    ("metadata/annotations/a b", "x", 'metadata.annotations: Invalid value: "a b": must be [prefix/]name'),
    ("metadata/annotations/big", "x" * 300_000, "metadata.annotations: Forbidden: may not have more than 262144 bytes"),
    ("metadata/creationTimestamp", "yesterday", 'metadata.creationTimestamp: Invalid value: "yesterday": must be a time'),
    (
        "metadata/creationTimestamp",
        "2026-13-01T00:00:00Z",
        'metadata.creationTimestamp: Invalid value: "2026-13-01T00:00:00Z": must be a time',
    ),
    ("spec/containers", [], "spec.containers: Required value: a pod has at least one container"),
    (f"{C}/name", "", "spec.containers[0].name: Required value: must be given"),
    (f"{C}/name", "a.b", 'spec.containers[0].name: Invalid value: "a.b": must consist of'),
    (f"{C}/name", "proxy", 'spec.containers[0].name: Duplicate value: "proxy": must be unique among'),
    (f"{C}/resources/requests/cpu", "4x", 'spec.containers[0].resources.requests[cpu]: Invalid value: "4x": expected a number'),
    (
        f"{C}/resources/limits/memory",
        "-1",
        'spec.containers[0].resources.limits[memory]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        f"{C}/resources/requests/cpu",
        2,
        "spec.containers[0].resources.requests[cpu]: Invalid value: 2: must be less than or equal to cpu limit",
    ),
    (f"{C}/resources/requests/gpu", 1, 'spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource'),
    (f"{C}/ports/0/hostPort", 65536, "spec.containers[0].ports[0].hostPort: Invalid value: 65536: must be between 0 and 65535"),
    (f"{C}/ports/0/hostPort", -1, "spec.containers[0].ports[0].hostPort: Invalid value: -1: must be between 0 and 65535"),
    (f"{C}/ports/0/containerPort", 70000, "spec.containers[0].ports[0].containerPort: Invalid value: 70000"),
    (
        f"{C}/ports/0/protocol",
        "HTTP",
        'spec.containers[0].ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"',
    ),
    (f"{C}/ports/1", {"hostPort": 8080}, 'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//8080"'),
    ("spec/initContainers/0/restartPolicy", "Sometimes", 'spec.initContainers[0].restartPolicy: Unsupported value: "Sometimes"'),
    ("spec/overhead/cpu", "x", 'spec.overhead[cpu]: Invalid value: "x": expected a number'),
    ("spec/resources/requests/cpu", 3, "spec.resources.requests[cpu]: Invalid value: 3: must be less than or equal to cpu limit of 2"),
    ("spec/resources/requests/example.com", 1, 'spec.resources.requests[example.com]: Unsupported value: "example.com"'),
    ("spec/nodeSelector/disk", "s s d", 'spec.nodeSelector[disk]: Invalid value: "s s d"'),
    (
        "spec/tolerations/0",
        {"operator": "Equal"},
        'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty',
    ),
    ("spec/tolerations/0/value", "x", "spec.tolerations[0].value: Invalid value: \"x\": value must be empty when `operator` is 'Exists'"),
    ("spec/tolerations/1/operator", "In", 'spec.tolerations[1].operator: Unsupported value: "In": supported values: "Equal", "Exists"'),
    ("spec/tolerations/1/effect", "NoSchedule", "spec.tolerations[1].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute'"),
    ("spec/tolerations/0/effect", "Evict", 'spec.tolerations[0].effect: Unsupported value: "Evict"'),
    ("spec/tolerations/1/key", "a b", 'spec.tolerations[1].key: Invalid value: "a b"'),
    ("spec/tolerations/1/value", "a b", 'spec.tolerations[1].value: Invalid value: "a b"'),
    (
        f"{NODE_AFFINITY}/{REQUIRED}/nodeSelectorTerms",
        [],
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: Required value: must have at",
    ),
    (
        f"{EXPRESSION}/operator",
        "Is",
        f'spec.affinity.{AT_EXPRESSION}.operator: Unsupported value: "Is"',
    ),
    (f"{EXPRESSION}/values", [], f"spec.affinity.{AT_EXPRESSION}.values: Required value"),
    (
        f"{EXPRESSION}/operator",
        "Exists",
        f"spec.affinity.{AT_EXPRESSION}.values: Forbidden",
    ),
    (f"{EXPRESSION}/key", "", f"spec.affinity.{AT_EXPRESSION}.key: Required value"),
    (
        f"{EXPRESSION}/values/0",
        "a b",
        f'spec.affinity.{AT_EXPRESSION}.values[0]: Invalid value: "a b"',
    ),
    (
        f"{EXPRESSION}",
        {"key": "n", "operator": "Gt", "values": ["1", "2"]},
        f"spec.affinity.{AT_EXPRESSION}.values: Required value: must be spec",
    ),
    (
        f"{NODE_AFFINITY}/{PREFERRED}/0/weight",
        0,
        f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight: Invalid value: 0: must be in the range 1-100",
    ),
    (
        f"{NODE_AFFINITY}/{PREFERRED}/0/preference/matchFields/0/key",
        "spec.x",
        f'spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchFields[0].key: Unsupported value: "spec.x"',
    ),
    (
        f"{NODE_AFFINITY}/{PREFERRED}/0/preference/matchFields/0/values",
        ["a", "b"],
        f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchFields[0].values: Required value: must be only one value",
    ),
    (
        f"{NODE_AFFINITY}/{PREFERRED}/0/preference/matchFields/0/operator",
        "Gt",
        f'spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchFields[0].operator: Unsupported value: "Gt"',
    ),
    (f"spec/affinity/podAffinity/{REQUIRED}/0/topologyKey", "", f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: Required value"),
    (
        f"spec/affinity/podAffinity/{REQUIRED}/0/namespaces",
        ["A"],
        f'spec.affinity.podAffinity.{REQUIRED}[0].namespaces[0]: Invalid value: "A"',
    ),
    (
        f"spec/affinity/podAffinity/{REQUIRED}/0/labelSelector/matchExpressions",
        [{"key": "a", "operator": "Gt", "values": ["1"]}],
        f'spec.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].operator: Unsupported value: "Gt"',
    ),
    (
        f"spec/affinity/podAffinity/{REQUIRED}/0",
        {"topologyKey": "zone", "matchLabelKeys": ["a"]},
        f"spec.affinity.podAffinity.{REQUIRED}[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
    ),
    (
        f"spec/affinity/podAntiAffinity/{PREFERRED}/0/weight",
        101,
        f"spec.affinity.podAntiAffinity.{PREFERRED}[0].weight: Invalid value: 101",
    ),
    (f"{SPREAD}/maxSkew", 0, "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"),
    (f"{SPREAD}/topologyKey", "", "spec.topologySpreadConstraints[0].topologyKey: Required value"),
    (f"{SPREAD}/whenUnsatisfiable", "Maybe", 'spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Maybe"'),
    (
        f"{SPREAD}/whenUnsatisfiable",
        "ScheduleAnyway",
        "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains",
    ),
    (f"{SPREAD}/minDomains", 0, "spec.topologySpreadConstraints[0].minDomains: Invalid value: 0: must be greater than zero"),
    (f"{SPREAD}/nodeAffinityPolicy", "Maybe", 'spec.topologySpreadConstraints[0].nodeAffinityPolicy: Unsupported value: "Maybe"'),
    (
        "spec/topologySpreadConstraints/1",
        {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        'spec.topologySpreadConstraints[1]: Duplicate value: "{zone, DoNotSchedule}"',
    ),
    ("spec/schedulingGates/0/name", "a b", 'spec.schedulingGates[0]: Invalid value: "a b"'),
    ("spec/schedulingGates/1", {"name": "example.com/gate"}, 'spec.schedulingGates[1]: Duplicate value: "example.com/gate"'),
    ("spec/preemptionPolicy", "Always", 'spec.preemptionPolicy: Unsupported value: "Always"'),
    ("spec/nodeName", "N", 'spec.nodeName: Invalid value: "N"'),
    ("spec/priorityClassName", "Very High", 'spec.priorityClassName: Invalid value: "Very High"'),
    ("spec/terminationGracePeriodSeconds", -1, "spec.terminationGracePeriodSeconds: Invalid value: -1"),
    ("status/startTime", "soon", 'status.startTime: Invalid value: "soon": must be a time'),
    ("status/conditions/0/lastTransitionTime", "2026-01-01", 'status.conditions[0].lastTransitionTime: Invalid value: "2026-01-01"'),
    (
        "status/containerStatuses",
        [{"allocatedResources": {"cpu": "x"}}],
        'status.containerStatuses[0].allocatedResources[cpu]: Invalid value: "x"',
    ),
    ("spec/priority", "high", 'spec.priority: Invalid value: "high": must be an integer'),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD_PODS, ids=[f"{path}={str(value)[:20]}" for path, value, _ in BAD_PODS])
def test_a_pod_with_one_mistake_gets_one_error_about_it(path: str, value: Any, message: str) -> None:
    found = problems(POD, changed(VALID_POD, path, value))
    assert len(found) == 1
    assert found[0].startswith(message)


BAD_NODES: list[tuple[str, Any, str]] = [
    ("status/allocatable/cpu", "4 cores", 'status.allocatable[cpu]: Invalid value: "4 cores": expected a number'),
    ("status/allocatable/pods", "1.5", 'status.allocatable[pods]: Invalid value: "1.5": must be an integer'),
    ("status/capacity/memory", "-1Gi", 'status.capacity[memory]: Invalid value: "-1Gi": must be greater than or equal to 0'),
    ("status/capacity/a b", "1", 'status.capacity[a b]: Invalid value: "a b": must be [prefix/]name'),
    ("spec/taints/0/effect", "Never", 'spec.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule"'),
    ("spec/taints/0/effect", "", 'spec.taints[0].effect: Required value: supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'),
    ("spec/taints/0/effect", "NoExecute", 'spec.taints[1]: Duplicate value: "a:NoExecute": taints must be unique by key and effect pair'),
    ("spec/taints/0/key", "", "spec.taints[0].key: Required value"),
    ("spec/taints/1/value", "a b", 'spec.taints[1].value: Invalid value: "a b"'),
    ("spec/taints/1/timeAdded", "x", 'spec.taints[1].timeAdded: Invalid value: "x"'),
    ("spec/taints/2", {"key": "b"}, "spec.taints[2].effect: Required value: must be given"),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD_NODES, ids=[f"{path}={value}" for path, value, _ in BAD_NODES])
def test_a_node_with_one_mistake_gets_one_error_about_it(path: str, value: Any, message: str) -> None:
    found = problems(NODE, changed(VALID_NODE, path, value))
    assert len(found) == 1
    assert found[0].startswith(message)


def test_an_extended_resource_is_whole_and_cannot_be_overcommitted() -> None:
    raw = changed(VALID_POD, "metadata/name", "gpu")
    raw["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": 1}, "limits": {"example.com/gpu": 2}}
    assert problems(POD, raw) == [
        "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: 1: must be equal to example.com/gpu limit of 2"
    ]
    raw["spec"]["containers"][0]["resources"] = {"requests": {"example.com/gpu": "1500m"}}
    assert problems(POD, raw) == ['spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "1500m": must be an integer']


def test_all_mistakes_are_reported_together() -> None:
    raw = changed(changed(VALID_POD, "metadata/name", "Web"), "spec/nodeName", "N")
    assert [error.path for error in validate(POD, raw)] == ["metadata.name", "spec.nodeName"]


def test_a_name_may_be_left_to_the_api_server() -> None:
    raw = changed(VALID_POD, "metadata", {"generateName": "web-"})
    assert problems(POD, raw) == []


def test_a_namespace_is_named_by_a_label() -> None:
    assert problems(NAMESPACE, {"metadata": {"name": "a.b"}})[0].startswith('metadata.name: Invalid value: "a.b"')


@pytest.mark.parametrize(
    ("kind", "raw", "message"),
    [
        (
            POD_DISRUPTION_BUDGET,
            {"spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}},
            "spec.selector.matchExpressions[0].values: R",
        ),
        (
            PERSISTENT_VOLUME_CLAIM,
            {"spec": {"resources": {"requests": {"storage": "big"}}}},
            'spec.resources.requests[storage]: Invalid value: "big"',
        ),
        (PERSISTENT_VOLUME, {"spec": {"capacity": {"storage": "big"}}}, 'spec.capacity[storage]: Invalid value: "big"'),
        (PERSISTENT_VOLUME, {"spec": {"nodeAffinity": {"required": {}}}}, "spec.nodeAffinity.required.nodeSelectorTerms: Required value"),
        (CSI_STORAGE_CAPACITY, {"capacity": "x"}, 'capacity: Invalid value: "x": expected a number'),
        (ELASTIC_QUOTA, {"metadata": {"name": "A"}}, 'metadata.name: Invalid value: "A"'),
    ],
)
def test_other_kinds_are_checked_as_far_as_scheduling_reads_them(kind: Kind, raw: dict[str, Any], message: str) -> None:
    found = problems(kind, {"metadata": {"name": "x"}, **raw})
    assert len(found) == 1
    assert found[0].startswith(message)
