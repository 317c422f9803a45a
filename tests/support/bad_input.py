"""Objects as users get them wrong: every annotation and label that the scheduler reads, and every field of Koordinator's objects.

`KEYS` says for each annotation and label on which object it stands, and a value that is right. `mistakes` draws what is wrong with one of
them, or with a field of a custom resource: no JSON, JSON of another type, numbers far out of range, endless nesting, keys twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

from koordsched.api.kinds import (
    CLUSTER_NETWORK_TOPOLOGY,
    DEVICE,
    ELASTIC_QUOTA,
    ELASTIC_QUOTA_PROFILE,
    NODE,
    NODE_METRIC,
    NODE_RESOURCE_TOPOLOGY,
    POD,
    POD_GROUP,
    RESERVATION,
    SCHEDULE_EXPLANATION,
    Kind,
)
from koordsched.api.koordinator import device_annotations as devices
from koordsched.api.koordinator import gang_membership as gangs
from koordsched.api.koordinator import quota_definitions as quotas
from koordsched.plugins.deviceshare.layouts import device_manifest
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest

Json = dict[str, Any]
LABEL, ANNOTATION = "labels", "annotations"
SCHEDULING, ON_NODE = "scheduling.koordinator.sh/", "node.koordinator.sh/"

TEXT, NAME, FLAG, NUMBER, JSON, LIST = "text", "name", "flag", "number", "object", "list"
"""What a value is: any text, one of some words, "true" or not, a whole number, a JSON object, a JSON list."""


class Key(msgspec.Struct, frozen=True):
    """A label or an annotation. of: what its value is; beside: what a pod with it has besides. silent: why no word is said of a value
    that cannot be meant; "": a word has to be said. needs: the kind whose object has to be right for the key to be read at all, where
    that is once the pod or the Reservation is on a node."""

    kind: Kind
    place: str
    key: str
    right: str
    of: str
    silent: str = ""
    labels: Json = {}
    annotations: Json = {}
    requests: Json = {}
    node: str = ""  # to which the pod is bound already
    needs: Kind | None = None


TOPOLOGY = topology_manifest("n1", CpuLayout.parse("2x1x16x2"), 256 << 30)
CPUS: str = TOPOLOGY["metadata"]["annotations"][f"{ON_NODE}cpu-topology"]
OWN_GANG = "GANG"
"""Stands for the name of a gang that no other pod is in."""
BOUND: Json = {"node": "n1"}
GPU: Json = {"requests": {"nvidia.com/gpu": "1"}}
LSR: Json = {"labels": {"koordinator.sh/qosClass": "LSR"}}
GANG: Json = {"annotations": {gangs.GANG_NAME: OWN_GANG, gangs.MIN_AVAILABLE: "1"}}

WORD = "another text is as good as none: the value means something only where it is this one"
FREE = "any text is right"
OWN = "written by the scheduler for others, and never read"

KEYS: tuple[Key, ...] = (
    # pods: what they are
    Key(POD, LABEL, "koordinator.sh/qosClass", "LSR", NAME),
    Key(POD, LABEL, "koordinator.sh/priority-class", "koord-prod", NAME),
    Key(POD, LABEL, "koordinator.sh/priority", "9100", NUMBER),
    Key(POD, LABEL, f"{SCHEDULING}scheduler-name", "koord-scheduler", NAME, "any name is right: another scheduler's"),
    Key(POD, LABEL, f"{SCHEDULING}preemption-policy", "Never", NAME),
    Key(POD, LABEL, f"{SCHEDULING}disable-preemptible", "true", FLAG),
    Key(
        POD, ANNOTATION, "pod.koordinator.sh/replace-resources", "a/b:c/d", TEXT, "items that are no pair are ignored (frameworkext.md §3)"
    ),
    Key(POD, ANNOTATION, "internal.scheduling.koordinator.sh/original-scheduler-name", "x", TEXT, OWN),
    Key(POD, ANNOTATION, f"{SCHEDULING}reserve-pod", "true", FLAG, "of reserve pods inside the scheduler alone"),
    Key(POD, ANNOTATION, f"{SCHEDULING}reservation-name", "r", TEXT, "of reserve pods inside the scheduler alone"),
    Key(POD, ANNOTATION, f"{SCHEDULING}reservation-node", "n1", TEXT, "of reserve pods inside the scheduler alone"),
    Key(POD, ANNOTATION, f"{SCHEDULING}is-pre-allocation", "true", FLAG, "of reserve pods inside the scheduler alone"),
    # pods: hints
    Key(POD, ANNOTATION, "internal.scheduling.koordinator.sh/scheduling-hint", '{"nodeNames":["n1"]}', JSON),
    Key(POD, ANNOTATION, f"{SCHEDULING}scheduling-hint", '{"preferredNodeNames":["n1"]}', JSON),
    # pods: load; said of a pod once it counts on a node
    Key(POD, ANNOTATION, f"{SCHEDULING}load-estimated-scaling-factors", '{"cpu":50}', JSON, needs=NODE),
    Key(POD, ANNOTATION, f"{SCHEDULING}load-estimated-seconds-after-pod-scheduled", "30", NUMBER, needs=NODE),
    Key(POD, ANNOTATION, f"{SCHEDULING}load-estimated-seconds-after-initialized", "30", NUMBER, needs=NODE),
    # pods: CPUs and NUMA nodes
    Key(POD, ANNOTATION, f"{SCHEDULING}resource-spec", '{"preferredCPUBindPolicy":"FullPCPUs"}', JSON, **LSR),
    Key(POD, ANNOTATION, f"{SCHEDULING}numa-topology-spec", '{"numaTopologyPolicy":"BestEffort"}', JSON, **LSR),
    Key(POD, ANNOTATION, f"{SCHEDULING}resource-status", '{"cpuset":"0-1"}', JSON, **LSR, **BOUND),
    # pods: devices
    Key(POD, ANNOTATION, devices.DEVICE_ALLOCATE_HINT, '{"gpu":{"allocateStrategy":"ApplyForAll"}}', JSON, **GPU),
    Key(POD, ANNOTATION, devices.DEVICE_JOINT_ALLOCATE, '{"deviceTypes":["gpu"]}', JSON, **GPU),
    Key(POD, ANNOTATION, devices.GPU_PARTITION_SPEC, '{"allocatePolicy":"BestEffort"}', JSON, **GPU),
    Key(
        POD,
        ANNOTATION,
        devices.DEVICE_ALLOCATED,
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}]}',
        JSON,
        **GPU,
        **BOUND,
    ),
    Key(POD, LABEL, "koordinator.sh/gpu-isolation-provider", "HAMi-core", NAME, WORD, **GPU),
    Key(POD, ANNOTATION, f"{SCHEDULING}bind-timestamp", "1", TEXT, OWN),
    Key(POD, ANNOTATION, f"{SCHEDULING}gpu-minors", "0", TEXT, OWN),
    # pods: gangs
    Key(POD, LABEL, gangs.POD_GROUP_LABEL, "g", TEXT, "any name is right: the PodGroup may come"),
    Key(POD, LABEL, gangs.LIGHTWEIGHT_LABEL, "light", TEXT, FREE, labels={gangs.LIGHTWEIGHT_MIN: "1"}),
    Key(POD, LABEL, gangs.LIGHTWEIGHT_MIN, "1", NUMBER, labels={gangs.LIGHTWEIGHT_LABEL: "lighter"}),
    Key(POD, ANNOTATION, gangs.GANG_NAME, "named", TEXT, FREE, annotations={gangs.MIN_AVAILABLE: "1"}),
    Key(POD, ANNOTATION, gangs.MIN_AVAILABLE, "1", NUMBER, annotations={gangs.GANG_NAME: "least"}),
    Key(POD, ANNOTATION, gangs.TOTAL_NUMBER, "1", NUMBER, **GANG),
    Key(POD, ANNOTATION, gangs.WAITING_TIME, "30s", TEXT, **GANG),
    Key(POD, ANNOTATION, gangs.MODE, "Strict", NAME, **GANG),
    Key(POD, ANNOTATION, gangs.MATCH_POLICY, "once-satisfied", NAME, **GANG),
    Key(POD, ANNOTATION, gangs.MATCH_POLICY_ALIAS, "once-satisfied", NAME, **GANG),
    Key(POD, ANNOTATION, gangs.GROUPS, f'["default/{OWN_GANG}"]', LIST, **GANG),
    Key(POD, ANNOTATION, gangs.RANK, "0", NUMBER, **GANG),
    Key(POD, ANNOTATION, f"gang.{SCHEDULING}network-topology-spec", '{"gatherStrategy":[]}', JSON, **GANG),
    Key(POD, ANNOTATION, f"{SCHEDULING}network-topology-selector", "blue", TEXT, FREE),
    Key(POD, ANNOTATION, f"{SCHEDULING}bind-gang-group-id", "x", TEXT, OWN),
    Key(POD, LABEL, f"{SCHEDULING}bind-gang-member-count", "1", TEXT, OWN),
    Key(POD, ANNOTATION, f"internal.{SCHEDULING}bind-gang-group-id", "x", TEXT, OWN),
    Key(POD, ANNOTATION, f"internal.{SCHEDULING}bind-gang-member-count", "1", TEXT, OWN),
    # pods: quotas
    Key(POD, LABEL, quotas.QUOTA_NAME, "q", TEXT, "a name without a quota means the default quota"),
    Key(POD, LABEL, quotas.PREEMPTIBLE, "false", FLAG),
    # pods: reservations
    Key(POD, ANNOTATION, f"{SCHEDULING}reservation-affinity", "{}", JSON, labels={"app": "r"}),
    Key(
        POD,
        ANNOTATION,
        f"{SCHEDULING}exact-match-reservation",
        '{"resourceNames":["memory"]}',
        JSON,
        labels={"app": "r"},
        needs=RESERVATION,
    ),
    Key(POD, ANNOTATION, f"{SCHEDULING}reservation-allocated", '{"name":"r","uid":"u"}', JSON, **BOUND),
    Key(POD, LABEL, f"{SCHEDULING}reservation-ignored", "true", FLAG),
    Key(POD, LABEL, f"{SCHEDULING}operating-mode", "Reservation", NAME),
    Key(
        POD,
        ANNOTATION,
        f"{SCHEDULING}reservation-owners",
        '[{"labelSelector":{"matchLabels":{"app":"r"}}}]',
        LIST,
        labels={f"{SCHEDULING}operating-mode": "Reservation"},
        **BOUND,
    ),
    Key(
        POD,
        ANNOTATION,
        f"{SCHEDULING}reservation-current-owner",
        '{"namespace":"default","name":"x","uid":"u"}',
        JSON,
        labels={f"{SCHEDULING}operating-mode": "Reservation"},
        **BOUND,
    ),
    Key(POD, LABEL, "pod.koordinator.sh/is-pre-allocatable", "true", FLAG, WORD, **BOUND),
    Key(
        POD,
        ANNOTATION,
        "pod.koordinator.sh/pre-allocatable-priority",
        "3",
        NUMBER,
        "no number is 0 (reservation.md §1)",
        labels={"pod.koordinator.sh/is-pre-allocatable": "true"},
        **BOUND,
    ),
    # nodes
    Key(NODE, LABEL, f"{ON_NODE}cpu-bind-policy", "SpreadByPCPUs", NAME),
    Key(NODE, LABEL, f"{ON_NODE}numa-allocate-strategy", "MostAllocated", NAME),
    Key(NODE, LABEL, f"{ON_NODE}numa-topology-policy", "BestEffort", NAME),
    Key(NODE, ANNOTATION, f"{ON_NODE}resource-amplification-ratio", '{"cpu":1.5}', JSON),
    Key(NODE, ANNOTATION, f"{ON_NODE}raw-allocatable", '{"cpu":"64"}', JSON),
    Key(NODE, ANNOTATION, f"{ON_NODE}reservation", '{"resources":{"cpu":"1"}}', JSON),
    Key(NODE, ANNOTATION, f"{SCHEDULING}usage-thresholds", '{"usageThresholds":{"cpu":90}}', JSON),
    Key(NODE, LABEL, f"{ON_NODE}gpu-partition-policy", "Prefer", NAME),
    Key(NODE, LABEL, f"{ON_NODE}gpu-model", "H800", TEXT, FREE),
    Key(NODE, LABEL, f"{ON_NODE}gpu-vendor", "nvidia", TEXT, FREE),
    # what koordlet writes
    Key(NODE_RESOURCE_TOPOLOGY, ANNOTATION, f"{ON_NODE}cpu-topology", CPUS, JSON),
    Key(NODE_RESOURCE_TOPOLOGY, ANNOTATION, f"{ON_NODE}pod-cpu-allocs", '[{"uid":"u","cpuset":"0","managedByKubelet":true}]', LIST),
    Key(NODE_RESOURCE_TOPOLOGY, ANNOTATION, "kubelet.koordinator.sh/cpu-manager-policy", '{"policy":"none"}', JSON),
    Key(NODE_RESOURCE_TOPOLOGY, ANNOTATION, f"{ON_NODE}system-qos-resource", '{"cpuset":"1"}', JSON),
    Key(NODE_RESOURCE_TOPOLOGY, ANNOTATION, f"{ON_NODE}reservation", '{"reservedCPUs":"0"}', JSON),
    Key(NODE_RESOURCE_TOPOLOGY, ANNOTATION, f"{ON_NODE}resource-amplification-ratio", '{"cpu":1.0}', JSON),
    Key(DEVICE, ANNOTATION, devices.GPU_PARTITIONS, '{"1":[{"minors":[0]}]}', JSON),
    Key(DEVICE, LABEL, f"{ON_NODE}gpu-partition-policy", "Prefer", NAME),
    Key(DEVICE, LABEL, f"{ON_NODE}secondary-device-well-planned", "true", FLAG),
    # gangs and quotas
    Key(POD_GROUP, ANNOTATION, gangs.TOTAL_NUMBER, "1", NUMBER),
    Key(POD_GROUP, ANNOTATION, gangs.MODE, "Strict", NAME),
    Key(POD_GROUP, ANNOTATION, gangs.MATCH_POLICY, "once-satisfied", NAME),
    Key(POD_GROUP, ANNOTATION, gangs.GROUPS, '["default/g"]', LIST),
    Key(POD_GROUP, ANNOTATION, f"gang.{SCHEDULING}network-topology-spec", '{"gatherStrategy":[]}', JSON),
    Key(ELASTIC_QUOTA, LABEL, quotas.IS_PARENT, "false", FLAG),
    Key(ELASTIC_QUOTA, LABEL, quotas.PARENT, quotas.ROOT_QUOTA, TEXT, "any name is right: the parent may come"),
    Key(ELASTIC_QUOTA, LABEL, quotas.ALLOW_LENT, "true", FLAG),
    Key(ELASTIC_QUOTA, LABEL, quotas.TREE_ID, "", TEXT, "without the gate MultiQuotaTree no tree is read"),
    Key(ELASTIC_QUOTA, LABEL, quotas.IS_ROOT, "false", FLAG),
    Key(ELASTIC_QUOTA, LABEL, quotas.IGNORE_DEFAULT_TREE, "false", FLAG),
    Key(ELASTIC_QUOTA, ANNOTATION, quotas.SHARED_WEIGHT, '{"cpu":"1"}', JSON),
    Key(ELASTIC_QUOTA, ANNOTATION, quotas.NAMESPACES, '["quota"]', LIST),
    Key(ELASTIC_QUOTA, ANNOTATION, quotas.TOTAL_RESOURCE, '{"cpu":"1"}', JSON, "read of the roots of trees alone"),
    Key(ELASTIC_QUOTA, ANNOTATION, quotas.UNSCHEDULABLE_RESOURCE, '{"cpu":"1"}', JSON, "written by Koordinator's manager for its metric"),
    *(
        Key(ELASTIC_QUOTA, ANNOTATION, key, "{}", JSON, OWN)
        for key in (
            quotas.RUNTIME,
            quotas.REQUEST,
            quotas.CHILD_REQUEST,
            quotas.FIXED_REQUEST,
            quotas.FIXED_USED,
            quotas.GUARANTEED,
            quotas.ALLOCATED,
        )
    ),
    # reservations
    Key(RESERVATION, LABEL, f"{SCHEDULING}reservation-order", "5", NUMBER),
    Key(RESERVATION, LABEL, f"{SCHEDULING}pre-allocation-required", "false", FLAG),
    Key(RESERVATION, LABEL, "koordinator.sh/priority", "9100", NUMBER),
    Key(RESERVATION, ANNOTATION, f"{SCHEDULING}reservation-restricted-options", '{"resources":["cpu"]}', JSON),
    Key(RESERVATION, ANNOTATION, f"{SCHEDULING}reservation-resize-allocatable", "{}", JSON, OWN),
)

ROOM = {
    "cpu": "64",
    "memory": "256Gi",
    "pods": "500",
    "nvidia.com/gpu": "8",
    "koordinator.sh/gpu-core": "800",
    "koordinator.sh/gpu-memory-ratio": "800",
    "koordinator.sh/gpu-memory": "640Gi",
    "koordinator.sh/rdma": "400",
}


def world(updated: str) -> dict[Kind, Json]:
    """Return one object of each kind, all of them right. updated: the time of the NodeMetric."""
    usage = {"resources": {"cpu": "2", "memory": "4Gi"}}
    device, partitions = device_manifest("n1", gpus="2x2x2", nics="2x2x1,2"), {"1": [{"minors": [minor]} for minor in range(8)]}
    layers: tuple[tuple[str, str, list[str]], ...] = (
        ("Spine", "ClusterTopologyLayer", ["spine"]),
        ("Block", "Spine", ["block"]),
        ("NodeTopologyLayer", "Block", []),
    )
    return {
        NODE: {
            "metadata": {"name": "n1", "labels": {"spine": "s1", "block": "b1"}, "annotations": {}},
            "status": {"allocatable": ROOM, "capacity": ROOM},
        },
        NODE_RESOURCE_TOPOLOGY: TOPOLOGY,
        DEVICE: device | {"metadata": {"name": "n1", "annotations": {devices.GPU_PARTITIONS: json.dumps(partitions)}}},
        NODE_METRIC: {
            "metadata": {"name": "n1"},
            "spec": {"metricCollectPolicy": {"aggregateDurationSeconds": 300, "reportIntervalSeconds": 60}},
            "status": {
                "updateTime": updated,
                "nodeMetric": {
                    "nodeUsage": usage,
                    "systemUsage": usage,
                    "aggregatedNodeUsages": [{"duration": "5m0s", "usage": {"p90": usage}}],
                },
                "podsMetric": [{"namespace": "default", "name": "p0", "priority": "koord-prod", "qos": "LS", "podUsage": usage}],
            },
        },
        POD_GROUP: {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": 1, "scheduleTimeoutSeconds": 30}},
        ELASTIC_QUOTA: {
            "metadata": {"name": "q", "namespace": "default"},
            "spec": {"min": {"cpu": "20", "memory": "40Gi"}, "max": {"cpu": "60", "memory": "200Gi"}},
        },
        ELASTIC_QUOTA_PROFILE: {
            "metadata": {"name": "tree", "namespace": "default"},
            "spec": {"quotaName": "root", "nodeSelector": {"matchLabels": {"no": "node"}}, "resourceRatio": "0.9"},
        },
        RESERVATION: {
            "metadata": {"name": "r"},
            "spec": {
                "owners": [{"labelSelector": {"matchLabels": {"app": "r"}}}],
                "allocateOnce": False,
                "allocatePolicy": "Restricted",
                "ttl": "24h",
                "preAllocationPolicy": {"mode": "Default"},
                "template": {
                    "metadata": {"labels": {"of": "r"}, "annotations": {}},
                    "spec": {
                        "schedulerName": "koord-scheduler",
                        "nodeSelector": {"block": "b1"},
                        "containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": "4", "memory": "4Gi"}}}],
                    },
                },
            },
        },
        CLUSTER_NETWORK_TOPOLOGY: {
            "metadata": {"name": "default"},
            "spec": {
                "networkTopologySpec": [
                    {"topologyLayer": layer, "parentTopologyLayer": above, **({"labelKey": labels} if labels else {})}
                    for layer, above, labels in layers
                ]
            },
        },
        SCHEDULE_EXPLANATION: {
            "metadata": {"name": "why", "namespace": "default"},
            "spec": {"questionObjectKey": "default/p0", "ttl": "1h"},
        },
    }


FIELDS = tuple(kind for kind in world("2026-01-01T00:00:00Z") if kind is not NODE)
"""Kinds whose fields are got wrong, too. An API server checks those of Nodes itself."""


class Mistake(msgspec.Struct, frozen=True):
    """One thing that is wrong: a key's value, or a field of a custom resource. at: the path of the field.

    unreadable: the value is surely no value of the key, so that a word has to be said. early: it is there when the scheduler starts.
    """

    kind: Kind
    value: Any
    key: Key | None = None
    at: tuple[str | int, ...] = ()
    unreadable: bool = False
    early: bool = False

    def __repr__(self) -> str:
        place = self.at if self.key is None else f"{self.key.place}[{self.key.key}]"
        value = repr(self.value)
        return (
            f"{self.kind.kind} {place}: {value if len(value) < LONGEST_SHOWN else value[:LONGEST_SHOWN] + '...'}{' (early)' * self.early}"
        )


DEEP = 4000
LONGEST_SHOWN = 300
NO_JSON = st.sampled_from(
    [
        "{",
        "[1",
        "nul",
        "\x00",
        '{"a":1',
        '{"a":"\\ud800"}{',
        "{'a':1}",
        "﻿{}",
        "[" * DEEP,
        '{"a":' * DEEP,
        "\ud7ff",
        "yes: no",
        '{"a":01}',
        "{}{}",
    ]
)
NO_NUMBER = st.sampled_from(["x", "1.5", "0x1g", "99999999999999999999", "1e3", "٣x", "--1"])
NO_NAME = st.sampled_from(["Sometimes", "strict-ish", "x", "None.", "0"])
OTHER_TYPES: dict[str, st.SearchStrategy[str]] = {
    JSON: st.sampled_from(['"text"', "1", "true", "[]", "-0.5", "[" * DEEP + "]" * DEEP]),
    LIST: st.sampled_from(['"text"', "1", "true", '{"a":1}', "[1]", "[[]]"]),
}
ODD: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    7,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    -(2**63),
    1.5,
    1e308,
    "",
    "-1",
    "1e99",
    "1e-30",
    "9223372036854775807",
    "99Ei",
    "1500m",
    "0x10",
    "NaN",
    "inf",
    "x" * 300,
    "\x00",
    "٣",
    "0-1,5",
    "0-99999999",
    "1-0",
    "5m",
    "-5m",
    "24h",
    "1970-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "true",
    "Available",
    "n1",
    [],
    {},
    [[]],
    [None],
    {"a": {}},
    {"cpu": "-1"},
    {"cpu": "1e99"},
    {"cpu": None},
    {"": "1"},
    ["", "x"],
]
odd = st.sampled_from(ODD).map(lambda value: json.loads(json.dumps(value)))  # each its own, as they are put into objects


def paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of everything in a JSON value."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in below:
        yield (*at, step)
        yield from paths(inner, (*at, step))


def replaced(value: Any, at: tuple[str | int, ...], by: Any) -> Any:
    """Return a copy of a JSON value with something else at one place."""
    if not at:
        return by
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = replaced(copy[at[0]], at[1:], by)
    return copy


@st.composite
def altered(draw: st.DrawFn, right: str) -> str:
    """Return the JSON text with something else in one place, a key twice, or cut off."""
    value = json.loads(right)
    places = list(paths(value))
    match draw(st.sampled_from(["place", "place", "place", "twice", "case", "cut"])):
        case "place" if places:
            return json.dumps(replaced(value, draw(st.sampled_from(places)), draw(odd)))
        case "twice" if isinstance(value, dict) and value:
            first = next(iter(value))
            return right[:-1] + f",{json.dumps(first)}:{json.dumps(draw(odd))}}}"
        case "case":
            return right.swapcase()
        case _:
            return right[: draw(st.integers(0, len(right)))]


@st.composite
def of_key(draw: st.DrawFn) -> Mistake:
    key = draw(st.sampled_from(KEYS))
    early = draw(st.booleans())
    if key.of in {JSON, LIST}:
        if draw(st.booleans()):
            return Mistake(key.kind, draw(NO_JSON | OTHER_TYPES[key.of]), key, unreadable=True, early=early)
        return Mistake(key.kind, draw(altered(key.right)), key, early=early)
    sure = {NUMBER: NO_NUMBER, NAME: NO_NAME}.get(key.of)
    if sure is not None and draw(st.booleans()):
        return Mistake(key.kind, draw(sure), key, unreadable=True, early=early)
    anything = odd.map(lambda value: value if isinstance(value, str) else json.dumps(value))
    return Mistake(key.kind, draw(anything), key, early=early)


RIGHT = world("2026-01-01T00:00:00Z")
PLACES = {kind: [path for path in paths(RIGHT[kind]) if path[0] in {"spec", "status", "zones", "topologyPolicies"}] for kind in FIELDS}


@st.composite
def of_field(draw: st.DrawFn) -> Mistake:
    kind = draw(st.sampled_from(FIELDS))
    return Mistake(kind, draw(odd), at=draw(st.sampled_from(PLACES[kind])), early=draw(st.booleans()))


mistakes = of_key() | of_field()
