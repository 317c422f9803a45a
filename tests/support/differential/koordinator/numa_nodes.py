"""Random nodes of NUMA nodes and CPUs: their NodeResourceTopologies, and pods that hold some of their CPUs (nodenumaresource.md §1, §2)."""

from __future__ import annotations

import json
from random import Random
from typing import NamedTuple

from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from support.differential.choosing import Json, by_chance, merged, some
from support.differential.koordinator.numa_pods import EXCLUSIVE_POLICIES, RESOURCE_SPEC, RESOURCE_STATUS, asking
from support.differential.koordinator.vocabulary import GIB

LAYOUTS = ("1x2x4x2", "1x2x4x2", "2x1x4x2", "2x1x4x2,linux", "1x1x4x2", "2x1x4x1", "2x1x8x2")
"""At most two NUMA nodes: the reference puts choices of more of them into a wrong order (nodenumaresource.md §16, D8 and D9)."""
NUMA_POLICIES = ("BestEffort", "Restricted", "SingleNUMANode", "SingleNUMANode")
BIND_POLICY = "node.koordinator.sh/cpu-bind-policy"
NUMA_POLICY = "node.koordinator.sh/numa-topology-policy"
ALLOCATE_STRATEGY = "node.koordinator.sh/numa-allocate-strategy"
AMPLIFICATION = "node.koordinator.sh/resource-amplification-ratio"
CPU_MANAGER = "kubelet.koordinator.sh/cpu-manager-policy"
RESERVATION = "node.koordinator.sh/reservation"
SYSTEM_QOS = "node.koordinator.sh/system-qos-resource"
POD_CPUS = "node.koordinator.sh/pod-cpu-allocs"
MEMORY = 64 * GIB


class Machine(NamedTuple):
    """A node with its NodeResourceTopology; None where no koordlet reports one."""

    node: Json
    topology: Json | None
    layout: CpuLayout


def machine(random: Random, name: str) -> Machine:
    """Make a node of 8 to 32 CPUs in one or two NUMA nodes."""
    layout = CpuLayout.parse(random.choice(LAYOUTS))
    ratio = random.choice([1.5, 2, 1.25]) if random.random() < 0.15 else 1
    amounts = {"cpu": str(int(layout.cpus * ratio)), "memory": str(MEMORY), "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": status}
    parts: list[Json] = [body, by_chance(random, ((0.25, bind_policy), (0.5, numa_policy), (0.3, strategy)))]
    if ratio != 1:
        parts.append({"metadata": {"annotations": {AMPLIFICATION: json.dumps({"cpu": ratio})}}})
    return Machine(merged(parts), topology(random, name, layout) if random.random() < 0.92 else None, layout)


def bind_policy(random: Random) -> Json:
    return {"metadata": {"labels": {BIND_POLICY: random.choice(["FullPCPUsOnly", "FullPCPUsOnly", "SpreadByPCPUs", "None"])}}}


def numa_policy(random: Random) -> Json:
    return {"metadata": {"labels": {NUMA_POLICY: random.choice(NUMA_POLICIES)}}}


def strategy(random: Random) -> Json:
    return {"metadata": {"labels": {ALLOCATE_STRATEGY: random.choice(["MostAllocated", "LeastAllocated"])}}}


def topology(random: Random, name: str, layout: CpuLayout) -> Json:
    """Return what koordlet reports: maybe with CPUs that are set aside, CPUs of the kubelet, or a policy of the kubelet's."""
    found = topology_manifest(name, layout, MEMORY)
    if random.random() < 0.2:
        found["topologyPolicies"] = [random.choice(["BestEffort", "Restricted", "SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel"])]
    if random.random() < 0.15:
        found["topologyPolicies"] = [random.choice(["None", "RestrictedPodLevel"]), *found["topologyPolicies"]]
    texts: Json = {}
    if random.random() < 0.25:
        options = {"full-pcpus-only": random.choice(["true", "true", "false"])} if random.random() < 0.5 else {}
        texts[CPU_MANAGER] = {"policy": random.choice(["static", "static", "none"]), "options": options}
        if random.random() < 0.5:
            texts[CPU_MANAGER]["reservedCPUs"] = cpu_list(random, layout, 2)
    if random.random() < 0.2:
        texts[RESERVATION] = {"reservedCPUs": cpu_list(random, layout, 3)}
    if random.random() < 0.15:
        texts[SYSTEM_QOS] = {"cpuset": cpu_list(random, layout, 2), **random.choice([{}, {"cpusetExclusive": False}])}
    if random.random() < 0.15:
        pod = {"namespace": "default", "name": "of-the-kubelet", "uid": "uid-of-the-kubelet"}
        texts[POD_CPUS] = [{**pod, "cpuset": cpu_list(random, layout, 4), "managedByKubelet": True}]
    annotations = {key: json.dumps(value) for key, value in texts.items()}
    return merged([found, {"metadata": {"annotations": annotations}}])


def cpu_list(random: Random, layout: CpuLayout, most: int) -> str:
    return ",".join(str(cpu) for cpu in sorted(some(random, range(layout.cpus), most)))


def holding_pods(random: Random, machines: list[Machine]) -> list[Json]:
    """Return pods that run on these nodes, each with CPUs, or with amounts of NUMA nodes, that no other one has."""
    made: list[Json] = []
    for each in machines:
        free = [detail["id"] for detail in each.layout.details()]
        for _ in range(random.choice([0, 1, 1, 2]) if each.topology else 0):
            count = min(random.choice([1, 2, 2, 4]), len(free))
            first = random.randrange(len(free) - count + 1)
            cpus = [free.pop(first) for _ in range(count)]
            made.append(holding_pod(random, f"r{len(made)}", each, cpus))
    return made


def holding_pod(random: Random, name: str, on: Machine, cpus: list[int]) -> Json:
    numa = {detail["id"]: detail["node"] for detail in on.layout.details()}
    status: Json = {"cpuset": ",".join(map(str, cpus))}
    if random.random() < 0.4:
        by_node = {node: sum(numa[cpu] == node for cpu in cpus) for node in sorted({numa[cpu] for cpu in cpus})}
        status["numaNodeResources"] = [{"node": node, "resources": {"cpu": str(count)}} for node, count in by_node.items()]
    annotations = {RESOURCE_STATUS: json.dumps(status)}
    if random.random() < 0.3:
        annotations[RESOURCE_SPEC] = json.dumps({"preferredCPUExclusivePolicy": random.choice(EXCLUSIVE_POLICIES)})
    body = asking(name, {"cpu": str(len(cpus)), "memory": "2Gi"})
    where: Json = {"spec": {"nodeName": on.node["metadata"]["name"]}, "status": {"phase": "Running"}}
    return merged([body, {"metadata": {"labels": {"koordinator.sh/qosClass": "LSR"}, "annotations": annotations}}, where])
