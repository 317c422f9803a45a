"""GET /apis/v1/plugins/NodeNUMAResource/nodes/<node>: nodenumaresource.md §15 and §17 line 32."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from support.builders import node
from support.numa import NumaBench, holding, lsr, topology

from koordsched.config.koordinator_args import NodeNUMAResourceArgs
from koordsched.plugins.nodenumaresource.plugin import NodeNUMAResource


@pytest.fixture
def bench() -> NumaBench:
    return NumaBench()


@pytest.fixture
def plugin(bench: NumaBench) -> NodeNUMAResource:
    return NodeNUMAResource(NodeNUMAResourceArgs(), bench)


def get(plugin: NodeNUMAResource, name: str) -> tuple[int, Any]:
    (route,) = plugin.routes()
    assert route.path == "nodes/:nodeName"
    answer = route.answer({"nodeName": name})
    return answer.status, msgspec.json.decode(msgspec.json.encode(answer.body))


def test_an_unknown_node_and_one_without_topology_are_errors_that_say_so(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    bench.set(node("n1"))
    assert get(plugin, "n2") == (500, {"message": 'node "n2" not found'})
    assert get(plugin, "n1") == (500, {"message": "invalid topology, please check the NodeResourceTopology object"})


def test_amounts_are_amplified_and_bound_cpus_count_amplified(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    """§17 line 32: 4 CPUs bound on NUMA 0, ratio 1.5, zones of 8 CPUs."""
    bench.set(node("n1").annotation("node.koordinator.sh/resource-amplification-ratio", '{"cpu":1.5}'))
    bench.describe(topology("n1", "2x1x4x2"))
    bench.put(holding(lsr("p"), "0-3", {0: {"cpu": "4"}}), "n1")
    status, body = get(plugin, "n1")
    assert status == 200
    assert [of["resources"]["cpu"] for of in body["numaNodeResources"]] == ["12", "12"]
    assert body["allocatedNUMANodeResources"] == [{"node": 0, "resources": {"cpu": "6"}}]
    assert [of["resources"]["cpu"] for of in body["remainingNUMANodeResources"]] == ["6", "12"]
    assert body["amplificationRatios"] == {"cpu": 1.5}
    assert body["policy"] == {}  # kubelet says nothing


def test_every_field_of_a_small_node(bench: NumaBench, plugin: NodeNUMAResource) -> None:
    kubelet = {"policy": "static", "options": {"full-pcpus-only": "true"}, "reservedCPUs": "1"}
    bench.set(node("n1").label("node.koordinator.sh/numa-topology-policy", "Restricted"))
    offered = [{"name": "cpu", "allocatable": "2"}, {"name": "memory", "allocatable": "2Gi"}]
    zones = [{"name": f"node-{numa}", "type": "Node", "resources": offered} for numa in (1, 0)]
    annotations = {"kubelet.koordinator.sh/cpu-manager-policy": kubelet}
    bench.describe(topology("n1", "2x1x1x2", zones=zones, annotations=annotations, topologyPolicies=["BestEffort"]))
    bench.put(holding(lsr("z"), "2", {1: {"cpu": "1", "memory": "1Gi"}}, exclusive="PCPULevel"), "n1")
    bench.put(holding(lsr("a"), "0"), "n1")

    def cpu(number: int, refs: int = 0, exclusive: str = "") -> dict[str, Any]:
        core = number // 2
        places = {"cpuID": number, "coreID": core << 16 | core, "nodeID": core, "socketID": core}
        return places | {"refCount": refs, "exclusivePolicy": exclusive}

    def zone(number: int, cpus: str, memory: str) -> dict[str, Any]:
        return {"node": number, "resources": {"cpu": cpus, "memory": memory}}

    assert get(plugin, "n1") == (
        200,
        {
            "name": "n1",
            "cpuTopology": {
                "numCPUs": 4,
                "numCores": 2,
                "numNodes": 2,
                "numSockets": 2,
                "cpuDetails": {str(number): cpu(number) for number in range(4)},
            },
            "reservedCPUs": "1",
            "maxRefCount": 1,
            "policy": kubelet,
            "numaTopologyPolicy": "Restricted",
            "numaNodeResources": [zone(0, "1", "2Gi"), zone(1, "2", "2Gi")],
            "remainingNUMANodeResources": [zone(0, "1", "2Gi"), zone(1, "1", "1Gi")],
            "allocatedNUMANodeResources": [zone(1, "1", "1Gi")],
            "availableCPUs": "3",
            "allocatedCPUs": {"0": cpu(0, 1), "2": cpu(2, 1, "PCPULevel")},
            "allocatedPods": [
                {"uid": "uid-default-a", "namespace": "default", "name": "a", "cpuset": "0"},
                {
                    "uid": "uid-default-z",
                    "namespace": "default",
                    "name": "z",
                    "cpuset": "2",
                    "cpuExclusivePolicy": "PCPULevel",
                    "numaNodeResources": [zone(1, "1", "1Gi")],
                },
            ],
        },
    )
