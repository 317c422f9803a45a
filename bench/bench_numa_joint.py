"""What Filter and Score cost where CPUs and GPUs have to come from the same NUMA node.

Question: with 1,000 nodes of 2 NUMA nodes x 52 CPUs and 8 GPUs, all under SingleNUMANode and in mixed use, do the kernels of both plugins
take well below 1 ms for a pod of a new kind (all rows) and a few us for one that is equal to those before (a row that changed)? The issue
allows 2 ms and 100 us for all of a cycle. Fixed seed. Last measured (min, 2-core Xeon 2.5 GHz, other work on both cores):

    1,000 rows, Filter and Score of both plugins   0.46 ms, of which Filter with the hints of both 0.26, Score of devices 0.13
    one row                                        3 us
    a whole search, of a new kind                  0.7 ms with the default plugins
    a whole search, of an identical pod            40 us on a 2-core EPYC with a load of six; being assumed 8, and Reserve, which takes
                                                   the CPUs and GPUs, 49: the sum is what bench_identical_pods shows (93 - 97 us,
                                                   where that before took 116 - 121)
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
from support.builders import PodBuilder, node, pod
from support.world import EMPTY_CONFIG, Setup, World

from koordsched._core.device_facts import DeviceFacts, DeviceResource, DeviceType, HeldDevice, NodeDevices, TypeDemand
from koordsched._core.device_filter import filter_devices, score_devices
from koordsched._core.device_hints import DeviceHints
from koordsched._core.device_request import DeviceRequest
from koordsched._core.device_score import DeviceScoring
from koordsched._core.device_table import DeviceTable
from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_facts import CpuCounts, NumaNode, NumaPolicies, NumaStatus, NumaUsage, TopologyState, ZoneUsage
from koordsched._core.numa_filter import filter_numa
from koordsched._core.numa_joint import KeptAffinities, aligned_rows, joint_masks
from koordsched._core.numa_score import score_numa
from koordsched._core.table import NodeTable, Request
from koordsched.api.kinds import DEVICE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.nodes import NUMA_TOPOLOGY_POLICY, node_policy
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, NumaTopologyPolicy
from koordsched.api.podinfo import PodInfo
from koordsched.api.validation.decoding import decode
from koordsched.plugins.deviceshare.check import device_state
from koordsched.plugins.deviceshare.layouts import device_manifest
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.plugins.nodenumaresource.node_topology import read_options
from koordsched.plugins.nodenumaresource.state import numa_state

NODES = 1_000
GPU_RESOURCES = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
NAMES = ("pods", "cpu", "memory")
CPU, MEMORY = 1, 2
GIB = 1 << 30
ZONES, CPUS, ZONE_MEMORY, GPUS = 2, 52, 256 * GIB, 8  # of a node; of a zone; of a zone; of a node
CORE, RATIO, GPU = DeviceResource.GPU_CORE, DeviceResource.GPU_MEMORY_RATIO, DeviceType.GPU
AMOUNTS = {CPU: 8_000, MEMORY: 32 * GIB}
PODS = {
    "half a GPU": DeviceRequest({GPU: TypeDemand({CORE: 50, RATIO: 50})}, shared=True),
    "one GPU": DeviceRequest({GPU: TypeDemand({CORE: 100, RATIO: 100})}),
    "two GPUs": DeviceRequest({GPU: TypeDemand({CORE: 100, RATIO: 100}, count=2)}),
    "eight GPUs": DeviceRequest({GPU: TypeDemand({CORE: 100, RATIO: 100}, count=8)}),
}
POLICIES = NumaPolicies(CpuBindPolicy.FULL_PCPUS, CpuBindPolicy.FULL_PCPUS, NumaTopologyPolicy.SINGLE_NUMA_NODE)
SCORING = NumaScoring({CPU: 1, MEMORY: 1}, AllocateStrategy.LEAST, AllocateStrategy.LEAST)
DEVICE_SCORING = DeviceScoring({RATIO: 1, DeviceResource.GPU_MEMORY: 1}, most=False)


class Cluster(NamedTuple):
    nodes: NodeTable
    numa: NumaTable
    devices: DeviceTable
    kept: KeptAffinities


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    chance = random.Random(1)
    nodes = NodeTable(NODES)
    nodes.ensure_resources(3)
    attribute = nodes.new_attribute()
    numa, devices = NumaTable(nodes, attribute), DeviceTable(nodes, attribute)
    zones = {zone: {CPU: 1000 * CPUS, MEMORY: ZONE_MEMORY} for zone in range(ZONES)}
    totals = {CORE: 100, RATIO: 100, DeviceResource.GPU_MEMORY: 80 * GIB}
    gpus = [DeviceFacts(minor, True, totals, 2 * minor // GPUS, f"pci{minor // 2}") for minor in range(GPUS)]
    for index in range(1, NODES + 1):
        taken = [2 * chance.randint(0, CPUS // 2) for _ in range(ZONES)]
        row = nodes.acquire_row()
        nodes.set_allocatable(row, {0: 110, CPU: 1000 * CPUS * ZONES, MEMORY: ZONE_MEMORY * ZONES})
        nodes.set_attribute(attribute, row, index, 0)
        nodes.add(row, Request([0, CPU, MEMORY], [4, 1000 * sum(taken) + 1, sum(taken) * GIB + 1], 0, 0))
        nodes.set_live(row, True)
        numa.set_node(index, NumaNode(TopologyState.VALID, 2, zones))
        numa.set_usage(index, _usage(taken))
        devices.clear_node(index)
        devices.set_devices(index, NodeDevices({GPU: gpus}))
        for minor in range(GPUS):
            share = chance.choice([0, 0, 0, 50, 100])
            if share:
                devices.add(
                    index, [HeldDevice(GPU, minor, {CORE: share, RATIO: share, DeviceResource.GPU_MEMORY: share * GIB * 80 // 100})]
                )
    return Cluster(nodes, numa, devices, KeptAffinities())


def _usage(taken: list[int]) -> NumaUsage:
    parts = [CpuCounts(used, CPUS - used, CPUS - used, (CPUS - used) // 2) for used in taken]
    whole = CpuCounts(*(sum(counts) for counts in zip(*parts, strict=True)))
    status = [NumaStatus.SINGLE if used else NumaStatus.IDLE for used in taken]
    return NumaUsage(whole, {n: ZoneUsage({CPU: 1000 * taken[n], MEMORY: taken[n] * GIB}, parts[n], status[n]) for n in range(ZONES)})


def _decide(cluster: Cluster, request: NumaRequest, hints: DeviceHints, wanted: DeviceRequest, rows: Any) -> int:
    """Do what both plugins do: Filter and Score of each."""
    codes = filter_numa(cluster.numa, request, rows, hints, SCORING, cluster.kept)
    passing = rows[codes == 0]
    filter_devices(cluster.devices, wanted, passing, aligned=aligned_rows(cluster.numa, request, passing))
    score_numa(cluster.numa, request, SCORING, passing, hints, cluster.kept)
    masks = joint_masks(cluster.numa, request, SCORING, passing, hints, cluster.kept)
    score_devices(cluster.devices, wanted, DEVICE_SCORING, passing, masks)
    return len(passing)


@pytest.mark.parametrize("kind", PODS)
@pytest.mark.parametrize("count", [NODES, 1])
def bench_joint_filter_and_score(benchmark: Any, cluster: Cluster, kind: str, count: int) -> None:
    request, wanted = NumaRequest(AMOUNTS, NAMES, POLICIES), PODS[kind]
    hints, rows = DeviceHints(cluster.devices, wanted), cluster.nodes.live_rows()[:count]
    feasible = benchmark(_decide, cluster, request, hints, wanted, rows)
    benchmark.extra_info["feasible rows"] = feasible
    assert feasible <= count


@pytest.mark.parametrize("kind", PODS)
def bench_joint_filter_alone(benchmark: Any, cluster: Cluster, kind: str) -> None:
    request, rows = NumaRequest(AMOUNTS, NAMES, POLICIES), cluster.nodes.live_rows()
    hints = DeviceHints(cluster.devices, PODS[kind])
    codes = benchmark(lambda: filter_numa(cluster.numa, request, rows, hints, SCORING, cluster.kept))
    assert len(codes) == NODES


# Whole cycles


CONFIG = f"""{EMPTY_CONFIG}profiles:
- plugins: {{multiPoint: {{enabled: [{{name: NodeNUMAResource}}, {{name: DeviceShare}}]}}}}
"""
LAYOUT = CpuLayout.parse("2x1x26x2")


@pytest.fixture(scope="module")
def world() -> World:
    """Make 1,000 empty nodes of 8 GPUs under SingleNUMANode."""
    world = World(Setup(CONFIG))
    for index in range(NODES):
        name = f"node-{index:04d}"
        made = node(name).cpu("104").memory("512Gi").label(NUMA_TOPOLOGY_POLICY, "SingleNUMANode")
        for resource in GPU_RESOURCES:
            made = made.allocatable(resource, "800")
        world.cache.set_node(made.build())
        numa_state(world).set_policy(name, node_policy(made.build()))
        described: Any = decode(NODE_RESOURCE_TOPOLOGY, topology_manifest(name, LAYOUT, 512 << 30))
        numa_state(world).set_options(name, read_options(described))
        device: Any = decode(DEVICE, device_manifest(name, gpus="2x2x2,80Gi"))
        device_state(world).set_device(device)
    return world


def gpu_pod(ratio: int, milli_cpu: int) -> PodInfo:
    made = pod("gpu").cpu(f"{milli_cpu}m").memory("32Gi")
    for resource in GPU_RESOURCES:
        made = made.request(resource, str(ratio))
    return made.info()


@pytest.mark.parametrize("ratio", [50, 100, 200])
def bench_new_kinds(benchmark: Any, world: World, ratio: int) -> None:
    """Find a node for a pod that is like none before: all rows."""
    sizes = iter(range(4000, 100_000))
    benchmark.pedantic(world.find, setup=lambda: ((world.signed(gpu_pod(ratio, next(sizes))),), {}), rounds=60, warmup_rounds=5)


@pytest.mark.parametrize("ratio", [50, 100])
def bench_identical_pods(benchmark: Any, world: World, ratio: int) -> None:
    """Find nodes for equal pods, and reserve, each as the last one left the cluster."""
    uids = iter(range(1 << 20))

    def setup() -> tuple[tuple[PodInfo], dict[str, Any]]:
        made = gpu_pod(ratio, 4000)
        return (world.signed(PodBuilder(made.pod).uid(f"uid-{ratio}-{next(uids)}").info()),), {}

    def place(info: PodInfo) -> None:
        state, found = world.search.find(world.profile, info)
        assert isinstance(found, str), found.message
        world.cache.assume_pod(info, found)
        assert world.profile.run_reserve(state, info, found) is None

    benchmark.pedantic(place, setup=setup, rounds=1500, warmup_rounds=20)
