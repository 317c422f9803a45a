"""What is put on the cluster: equal nodes, and pods of a few sizes that all fit.

A theme says what else pods ask for, as scheduler_perf's workloads of the same names do. With `preemption` every node is full of four
unimportant pods, and each pending one needs the room of three of them: there are as many pending pods as nodes at most. With `cpuset`
(`cpus.py`) pods want CPUs of their own, with `gpu` and `gpu-joint` (`gpus.py`) parts of GPUs or GPUs with an interface near them, with
`quota` (`quotas.py`) they belong to quotas, with `gang`, `gang-of-3` and `gang-topology` (`gangs.py`) to gangs; with `reservation` and
`reservation-strangers` (`reservations.py`) Reservations are there, for them or for others; kube-scheduler has none of these. The themes of
`koordinator.py` have plain pods, and what Koordinator's whole profile looks at.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.quota_definitions import QUOTA_NAME
from side_by_side import cpus, gangs, gpus, koordinator, quotas, reservations
from side_by_side.gangs import GANG, GANG_OF_3, TOPOLOGY
from side_by_side.gpus import GPU, JOINT
from side_by_side.koordinator import BARE, CHART, OBJECTS
from side_by_side.quotas import QUOTA

SCHEDULER_NAME = "default-scheduler"
NAMESPACE = "default"
PODS_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES_PATH = "/api/v1/nodes"
ZONES = 3
ROOM = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "400Gi", "pods": "110"}


ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
PREEMPTION, CPUSET = "preemption", "cpuset"
KOORDINATORS = (CPUSET, GPU, JOINT, QUOTA, GANG, GANG_OF_3, TOPOLOGY, reservations.OWNERS, reservations.STRANGERS)
"""That only Koordinator's plugins can do."""
THEMES = ("plain", "spread", "anti-affinity", "preferred-affinity", PREEMPTION, *KOORDINATORS, *CHART)
VICTIMS = 4  # on each node
SMALL_ROOM = {"cpu": "4", "memory": "32Gi", "pods": "110"}
VICTIM, IMPORTANT = {"cpu": "900m", "memory": "500Mi"}, {"cpu": "3000m", "memory": "500Mi"}
IMPORTANCE = 10
PRIORITY_CLASS = "important"
BOUND = "bound-"  # how the names of pods begin that have a node before the scheduler starts


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it.

    `rate`: pods that arrive a second; 0: all are there before the scheduler starts. `bound`: pods that have a node before it starts.
    """

    theme: str = "plain"

    nodes: int = 5000
    pods: int = 5000
    sizes: int = 16
    rate: float = 0.0
    bound: int = 0


class Item(msgspec.Struct, frozen=True):
    """An object to create. status: it is written after that, since a creation leaves it out."""

    name: str
    path: str
    body: dict[str, Any]
    status: bool = False


def namespaces(workload: Workload) -> list[Item]:
    """Return those that objects are in, and that there are not anyway."""
    return [_item(*koordinator.namespace())] if workload.theme in CHART else []


def prerequisites(workload: Workload) -> list[Item]:
    """Return what pods and nodes refer to, and what the scheduler is to be allowed besides."""
    if workload.theme == CPUSET:
        topologies = (cpus.topology(node_name(number)) for number in range(workload.nodes))
        return [_item(path, body) for path, body in (*cpus.rights(), _priority_class(cpus.PRIORITY_CLASS, cpus.PRIORITY), *topologies)]
    if workload.theme in {GPU, JOINT}:
        devices = (gpus.device(node_name(number)) for number in range(workload.nodes))
        return [_item(path, body) for path, body in (*gpus.rights(), *devices)]
    if workload.theme == QUOTA:
        return [_item(path, body) for path, body in (*quotas.rights(), *quotas.quotas())]
    if workload.theme in gangs.SIZES:
        network = (gangs.topology(),) if workload.theme == TOPOLOGY else ()
        return [_item(path, body) for path, body in (*gangs.rights(), *network, *gangs.pod_groups(workload.theme, workload.pods))]
    if workload.theme in {reservations.OWNERS, reservations.STRANGERS}:
        return [*(_item(path, body) for path, body in reservations.rights()), *_reservations(workload)]
    if workload.theme in CHART:
        made = list(koordinator.rights())
        if workload.theme != OBJECTS:
            return [_item(path, body) for path, body in made]
        made += [gangs.topology(), *koordinator.quotas(), *(gpus.device(node) for node in node_names(workload))]
        return [*(_item(path, body) for path, body in made), *_reservations(workload)]
    if workload.theme == PREEMPTION:
        return [_item(*_priority_class(PRIORITY_CLASS, IMPORTANCE))]
    return []


def nodes(workload: Workload) -> list[Item]:
    with_gpus = workload.theme in {GPU, JOINT, OBJECTS, BARE}
    room = gpus.ROOM if with_gpus else {PREEMPTION: SMALL_ROOM, CPUSET: cpus.ROOM}.get(workload.theme, ROOM)
    labels = gpus.LABELS if with_gpus else {}
    in_network = workload.theme in {TOPOLOGY, OBJECTS, BARE}
    domains = [gangs.labels(number) if in_network else {} for number in range(workload.nodes)]
    return [_item(NODES_PATH, _node(number, room, labels | domains[number])) for number in range(workload.nodes)]


def reports(workload: Workload) -> list[Item]:
    """Return the NodeMetrics, to be created last: they are news only for a few minutes."""
    if workload.theme not in {koordinator.KOORDINATOR, OBJECTS}:
        return []
    now = time.time()
    made = [
        koordinator.node_metric(node, number, now, [f"{BOUND}{pod}" for pod in range(number, workload.bound, workload.nodes)])
        for number, node in enumerate(node_names(workload))
    ]
    return [Item(body["metadata"]["name"], koordinator.METRICS, body, status=True) for body in made]


def bound_pods(workload: Workload) -> list[Item]:
    """Return the pods that are there from the beginning, spread evenly over the nodes."""
    if workload.theme == PREEMPTION:
        return [_item(PODS_PATH, _victim(number, node_name(number % workload.nodes))) for number in range(VICTIMS * workload.nodes)]
    made = [
        _pod(f"{BOUND}{number}", number % workload.sizes, {"nodeName": node_name(number % workload.nodes)})
        for number in range(workload.bound)
    ]
    if workload.theme in {OBJECTS, BARE}:
        for number, body in enumerate(made):
            body["metadata"]["labels"] |= {QUOTA_NAME: koordinator.leaf_of(number)}
    return [_item(PODS_PATH, body) for body in made]


def pending_pods(workload: Workload) -> list[Item]:
    return [_item(PODS_PATH, themed(workload, number)) for number in range(workload.pods)]


def themed(workload: Workload, number: int) -> dict[str, Any]:
    """Return the pending pod of this number."""
    body = _pod(f"pod-{number}", number % workload.sizes, {})
    match workload.theme:
        case "spread":
            constraint = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _labelled(body, "blue")}
            body["spec"]["topologySpreadConstraints"] = [constraint]
        case "anti-affinity":
            groups = -(-2 * workload.pods // workload.nodes)  # so many that each fills half of the nodes
            term = {"topologyKey": HOSTNAME, "labelSelector": _labelled(body, f"green-{number % groups}")}
            body["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        case "preferred-affinity":
            preferred = {"weight": 1, "podAffinityTerm": {"topologyKey": HOSTNAME, "labelSelector": _labelled(body, "red")}}
            body["spec"]["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
        case "preemption":
            body["spec"]["containers"][0]["resources"] = {"requests": IMPORTANT}
            body["spec"]["priorityClassName"] = PRIORITY_CLASS
        case "cpuset":
            body["spec"]["containers"][0]["resources"] = {"requests": cpus.REQUESTS}
            body["spec"]["priorityClassName"] = cpus.PRIORITY_CLASS
            body["metadata"]["labels"] |= cpus.LABELS
        case "gpu":
            body["spec"]["containers"][0]["resources"] = {"requests": gpus.HALF, "limits": gpus.HALF}
        case "gpu-joint":
            body["spec"]["containers"][0]["resources"] = {"requests": gpus.PAIR, "limits": gpus.PAIR}
            body["metadata"]["annotations"] = gpus.TOGETHER
        case "quota":
            body["spec"]["containers"][0]["resources"] = {"requests": quotas.REQUESTS}
            body["metadata"]["labels"] |= {QUOTA_NAME: quotas.quota_of(number)}
        case theme if theme in gangs.SIZES:
            body["spec"]["containers"][0]["resources"] = {"requests": gangs.REQUESTS[theme]}
            body["metadata"]["labels"] |= {POD_GROUP_LABEL: gangs.gang_of(theme, number)}
        case "reservation" | "reservation-strangers":
            body["spec"]["containers"][0]["resources"] = {"requests": reservations.REQUESTS}
            if workload.theme == reservations.OWNERS:
                body["metadata"]["labels"] |= reservations.labels(number)
    return body


def pending_pod(name: str, size: int) -> Item:
    """Return a plain pod."""
    return _item(PODS_PATH, _pod(name, size, {}))


def _priority_class(name: str, value: int) -> tuple[str, dict[str, Any]]:
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    return "/apis/scheduling.k8s.io/v1/priorityclasses", body


def _labelled(body: dict[str, Any], color: str) -> dict[str, Any]:
    """Give the pod a colour, and return the selector of all pods that have it."""
    body["metadata"]["labels"]["color"] = color
    return {"matchLabels": {"color": color}}


def _victim(number: int, node: str) -> dict[str, Any]:
    body = _pod(f"{BOUND}{number}", 0, {"nodeName": node, "terminationGracePeriodSeconds": 0})
    body["spec"]["containers"][0]["resources"] = {"requests": VICTIM}
    return body


def node_name(number: int) -> str:
    return f"node-{number}"


def node_names(workload: Workload) -> list[str]:
    return [node_name(number) for number in range(workload.nodes)]


def _reservations(workload: Workload) -> list[Item]:
    made = reservations.reservations(node_names(workload))
    return [Item(body["metadata"]["name"], reservations.PATH, body, status=True) for body in made]


def _item(path: str, body: dict[str, Any]) -> Item:
    return Item(body["metadata"]["name"], path, body)


def _node(number: int, room: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    name = node_name(number)
    labels = {HOSTNAME: name, ZONE: f"zone-{number % ZONES}", "kubernetes.io/os": "linux", **labels}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _pod(name: str, size: int, spec: dict[str, Any]) -> dict[str, Any]:
    requests = {"cpu": f"{100 + 10 * size}m", "memory": f"{128 + 16 * size}Mi"}
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": f"app-{size}"}},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container], **spec},
    }
