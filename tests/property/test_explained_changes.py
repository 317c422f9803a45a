"""What `explain` states of random pending pods: with the change the pod is bound, with the next smaller one of its kind it is not.

The change is made to the manifests and the whole cluster played anew, by code that shares nothing with that of the trials.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.explained import changed, explained, node, node_of, pod, smaller

from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest

Json = dict[str, Any]
EXAMPLES = int(os.environ.get("KOORDSCHED_EXPLAINED", "20"))
"""Random clusters; each is explained, and played once for each change and each next smaller one."""
MEASURED = "2026-01-01T00:00:00Z"
LSR = {"koordinator.sh/qosClass": "LSR"}
GANG = {"pod-group.scheduling.sigs.k8s.io": "g"}
QUOTA = {"quota.scheduling.koordinator.sh/name": "team"}


def nodes_of(random: Random, gpus: int = 0) -> list[Json]:
    found = []
    for i in range(random.randint(1, 3)):
        spec: Json = {}
        if random.random() < 0.4:
            spec["taints"] = [
                {"key": key, "value": "x", "effect": "NoSchedule"} for key in random.sample(["a", "b", "c"], random.randint(1, 2))
            ]
        if random.random() < 0.2:
            spec["unschedulable"] = True
        more = {"koordinator.sh/gpu-core": gpus * 100, "koordinator.sh/gpu-memory-ratio": gpus * 100} if gpus else {}
        labels = {"zone": random.choice("xyz")}
        found.append(node(f"n{i}", random.randint(2, 8), f"{random.randint(2, 8)}Gi", labels=labels, more=more, **spec))
        if gpus:
            found.append(devices(f"n{i}", gpus))
    return found


def devices(name: str, gpus: int) -> Json:
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100", "koordinator.sh/gpu-memory": "16Gi"}
    listed = [{"type": "gpu", "id": f"{name}-{i}", "minor": i, "health": True, "resources": amounts} for i in range(gpus)]
    return {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": {"name": name}, "spec": {"devices": listed}}


def requests_of(random: Random, most: int = 12) -> Json:
    return {"cpu": f"{random.randint(1, most * 1000)}m", "memory": f"{random.randint(64, most * 1024)}Mi"}


def placed(random: Random, nodes: list[Json], labels: Json, **spec: Any) -> list[Json]:
    names = [each["metadata"]["name"] for each in nodes if each["kind"] == "Node"]
    return [
        pod(f"old{i}", requests_of(random, 2), labels=labels, nodeName=random.choice(names), **spec) for i in range(random.randint(0, 3))
    ]


def of_resources_and_nodes(random: Random) -> list[Json]:
    nodes = nodes_of(random)
    selector = {"nodeSelector": {"zone": random.choice("xyz")}} if random.random() < 0.4 else {}
    return [*nodes, *placed(random, nodes, {}), pod("web", requests_of(random), **selector)]


def of_neighbours(random: Random) -> list[Json]:
    nodes = nodes_of(random)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    kind = random.choice(["podAffinity", "podAntiAffinity"])
    spec: Json = {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    if random.random() < 0.4:
        spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": term["labelSelector"]}
        spec = {"topologySpreadConstraints": [spread]}
    labels = {"app": random.choice(["web", "other"])}
    return [*nodes, *placed(random, nodes, labels), pod("web", requests_of(random, 3), labels={"app": "web"}, **spec)]


def of_ports(random: Random) -> list[Json]:
    nodes = nodes_of(random)
    old, new = placed(random, nodes, {}), pod("web", requests_of(random, 3))
    for each in (*old, new):
        each["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": random.choice([80, 81]), "protocol": "TCP"}]
    return [*nodes, *old, new]


def of_quota(random: Random) -> list[Json]:
    nodes = [node("n0", 32, "64Gi"), *nodes_of(random)[1:]]
    amounts = {"cpu": f"{random.randint(1, 8)}", "memory": f"{random.randint(1, 8)}Gi"}
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "team", "namespace": "default"},
        "spec": {"max": dict(amounts), "min": dict(amounts)},
    }
    return [quota, *nodes, *placed(random, nodes[:1], QUOTA), pod("web", requests_of(random), labels=QUOTA)]


def of_gang(random: Random) -> list[Json]:
    nodes = nodes_of(random)
    wanted = random.randint(2, 4)
    group = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": wanted},
    }
    requests = requests_of(random, 3)
    return [
        group,
        *nodes,
        pod("web", requests, labels=GANG),
        *(pod(f"web{i}", requests, labels=GANG) for i in range(random.randint(0, wanted - 1))),
    ]


def of_devices(random: Random) -> list[Json]:
    nodes = nodes_of(random, gpus=random.randint(1, 3))
    share = random.choice([30, 70, 100, 200, 400])
    gpu = {"koordinator.sh/gpu-core": str(share), "koordinator.sh/gpu-memory-ratio": str(share)}
    return [*nodes, pod("web", {**requests_of(random, 4), **gpu})]


def of_gates(random: Random) -> list[Json]:
    gates: Json = {"schedulingGates": [{"name": "example.com/wait"}]}
    return [*nodes_of(random), pod("web", requests_of(random, 4), **gates)]


def of_cpus(random: Random) -> list[Json]:
    nodes, described = nodes_of(random), []
    for each in nodes:
        text, cpus = random.choice([("1x1x2x2", 4), ("2x1x2x2", 8), ("1x2x2x1", 4)])
        described.append(topology_manifest(each["metadata"]["name"], CpuLayout.parse(text)))
        each["status"]["allocatable"]["cpu"] = str(cpus)
    requests = {"cpu": str(random.randint(1, 12)), "memory": f"{random.randint(64, 4096)}Mi"}
    return [*described, *nodes, *placed(random, nodes, {}, priority=9500), pod("web", requests, labels=LSR, priority=9500)]


def of_reservations(random: Random) -> list[Json]:
    nodes = nodes_of(random)
    held = {"cpu": str(random.randint(1, 6)), "memory": f"{random.randint(1, 4)}Gi"}
    node_name = random.choice(nodes)["metadata"]["name"]
    reservation = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "kept", "uid": "kept", "labels": {"tier": "kept"}},
        "spec": {
            "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
            "allocateOnce": False,
            "template": {"spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": held}}]}},
        },
        "status": {"phase": "Available", "nodeName": node_name, "allocatable": held},
    }
    annotations = {}
    if random.random() < 0.3:
        annotations = {"scheduling.koordinator.sh/reservation-affinity": '{"reservationSelector": {"tier": "kept"}}'}
    labels = {"app": random.choice(["owner", "other"])}
    return [reservation, *nodes, *placed(random, nodes, {}), pod("web", requests_of(random), labels=labels, annotations=annotations)]


def of_volumes(random: Random) -> list[Json]:
    """A claim is bound to a volume that one node, or one zone, has; or to none, as nothing provisions it."""
    nodes = nodes_of(random)
    chosen = random.choice(nodes)["metadata"]["labels"]
    key = random.choice(["kubernetes.io/hostname", "zone"])
    near = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": [chosen[key]]}]}]}}
    size, bound = {"storage": "1Gi"}, random.random() < 0.8
    spec: Json = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "vol"},
        "spec": {
            "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"],
            "capacity": size,
            "hostPath": {"path": "/data"},
            "nodeAffinity": near,
            "claimRef": {"namespace": "default", "name": "data"},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}},
        "spec": {**spec, "volumeName": "vol"} if bound else spec,
        "status": {"phase": "Bound" if bound else "Pending"},
    }
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": random.choice(["WaitForFirstConsumer", "Immediate"]),
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    objects = [storage, claim, *([volume] if bound else []), *nodes, *placed(random, nodes, {})]
    return [*objects, pod("web", requests_of(random, 8), volumes=volumes)]


def of_load(random: Random) -> list[Json]:
    nodes, metrics = nodes_of(random), []
    for each in nodes:
        used = {"cpu": f"{random.randint(0, 8000)}m", "memory": f"{random.randint(0, 8192)}Mi"}
        metric = {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric",
            "metadata": {"name": each["metadata"]["name"]},
            "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
            "status": {"updateTime": MEASURED, "nodeMetric": {"nodeUsage": {"resources": used}}},
        }
        metrics.append(metric)
    return [*metrics, *nodes, *placed(random, nodes, {}), pod("web", requests_of(random, 6))]


AREAS = (
    of_resources_and_nodes,
    of_neighbours,
    of_ports,
    of_quota,
    of_gang,
    of_devices,
    of_gates,
    of_cpus,
    of_reservations,
    of_volumes,
    of_load,
)


@given(area=st.sampled_from(AREAS), seed=st.integers(0, 10_000))
@settings(max_examples=EXAMPLES)
@example(area=of_resources_and_nodes, seed=632)
@example(area=of_neighbours, seed=443)  # a spread constraint is dropped and its maxSkew raised in one trial
@example(area=of_load, seed=261)  # a new node was refused for what is used of the one that it is like
@example(area=of_neighbours, seed=596)  # a new node was given a label or an uncordoning that another one needs
def test_the_stated_change_lets_the_pod_run_and_no_smaller_one_does(area: Any, seed: int) -> None:
    objects = area(Random(seed))
    found = explained(objects)
    assert (found.state == "pending") == (node_of(objects) == "")
    for suggestion in found.changes:
        assert node_of(changed(objects, suggestion.changes)), suggestion.text
        for i, change in enumerate(suggestion.changes):
            for less in smaller(change, whole_cpus=area is of_cpus):
                parts = [*suggestion.changes[:i], less, *suggestion.changes[i + 1 :]]
                assert node_of(changed(objects, parts)) == "", (suggestion.text, less)
