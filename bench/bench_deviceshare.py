"""What do devices cost at 5,000 nodes of 8 GPUs?

The kernels' share of a new kind of request: Filter and Score of all rows, of the 400 us that a new kind may take. Their share of an
identical pod: one row is asked about again, and the node that was chosen is allocated from. What the allocator answers, not the count of
fitting cards, is measured apart: required scopes, partitions, joint allocation. An attempt to preempt may take 2 ms,
and an identical pod 80 us with all plugins.

Last measured (least CPU time, 2-core EPYC with a load of four to seven): the first attempt of a request to preempt 0.6 - 1.2 ms, 0.7 - 1.0
under SingleNUMANode, since the dry run asks about devices and NUMA nodes only where a row may be the best; those that follow 0.3 - 0.5.
Identical pods 82 us.
"""

from __future__ import annotations

import gc
import random
from typing import Any

import numpy as np
import pytest
from bench_preemption import Attempts, attempt
from clusters import CHART_PROFILE, cluster, fresh
from support.builders import node, pod
from support.device_tables import GPU, LEAST, RDMA, T8, DeviceNodes, gpu_demand, gpus, nic, nic_demand, request
from support.devices import device, holding
from support.world import Setup, World

from koordsched._core.device_allocation import allocate
from koordsched._core.device_facts import PartitionDemand
from koordsched._core.device_filter import filter_devices, score_devices
from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.nodes import NUMA_TOPOLOGY_POLICY, node_policy
from koordsched.api.koordinator.policies import CpuExclusivePolicy
from koordsched.api.podinfo import PodInfo
from koordsched.api.validation.decoding import decode
from koordsched.plugins.deviceshare.check import device_state
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.plugins.nodenumaresource.node_allocations import PodAllocation
from koordsched.plugins.nodenumaresource.node_topology import read_options
from koordsched.plugins.nodenumaresource.state import numa_state

NODES = 5_000
LAYOUT = CpuLayout.parse("2x1x24x2")  # 96 CPUs
REQUESTS = {
    "half": gpus(percent=50),
    "one": gpus(),
    "four": gpus(4),
    "scope": gpus(2, scope=2),
    "partition": gpus(2, partition=PartitionDemand()),
    "joint": request({GPU: gpu_demand(2), RDMA: nic_demand()}, joint=(GPU, RDMA), same_pcie=True),
}


@pytest.fixture(scope="module")
def half_used() -> DeviceNodes:
    """Make nodes of which a half of the cards is in use."""
    found = DeviceNodes()
    chance = random.Random(1)
    for row in [found.row, *[found.add() for _ in range(NODES - 1)]]:
        found.describe((GPU, T8), (RDMA, [nic(minor, minor // 2, f"p{minor}") for minor in range(4)]), row=row)
        found.label(row=row, vendor="nvidia", model="H100")
        for minor in range(8):
            if chance.random() < 0.5:
                found.use(minor, percent=chance.choice([30, 50, 100]), row=row)
    return found


@pytest.mark.parametrize("kind", REQUESTS)
def bench_new_kind_of_request(benchmark: Any, half_used: DeviceNodes, kind: str) -> None:
    asked, rows = REQUESTS[kind], np.arange(NODES, dtype=np.int32)
    assert np.count_nonzero(filter_devices(half_used.table, asked, rows) == 0) > NODES // 10
    assert score_devices(half_used.table, asked, LEAST, rows).all()

    def kernels() -> None:
        filter_devices(half_used.table, asked, rows)
        score_devices(half_used.table, asked, LEAST, rows)

    benchmark.pedantic(kernels, rounds=200, warmup_rounds=5)


@pytest.mark.parametrize("kind", REQUESTS)
def bench_one_row_again(benchmark: Any, half_used: DeviceNodes, kind: str) -> None:
    asked = REQUESTS[kind]
    feasible = np.flatnonzero(filter_devices(half_used.table, asked, np.arange(NODES, dtype=np.int32)) == 0)
    rows = feasible[:1].astype(np.int32)

    def kernels() -> None:
        filter_devices(half_used.table, asked, rows)
        score_devices(half_used.table, asked, LEAST, rows)
        allocate(half_used.table, asked, int(rows[0]), LEAST, reserve=True)

    benchmark.pedantic(kernels, rounds=5000, warmup_rounds=50)


@pytest.mark.parametrize("percent", [50, 100])
def bench_identical_pods(benchmark: Any, percent: int) -> None:
    """Find nodes for equal pods among 5,000 free ones, with the plugins of Koordinator's chart; each is assumed, and given its GPU."""
    world = free_nodes()
    asked = pod("gpu").cpu("4").memory("32Gi").request("koordinator.sh/gpu", str(percent))

    def place(info: PodInfo) -> None:
        state, found = world.search.find(world.profile, info)
        assert isinstance(found, str), found.message
        world.cache.assume_pod(info, found)
        assert world.profile.run_reserve(state, info, found) is None

    benchmark.pedantic(place, setup=lambda: ((world.signed(fresh(asked).info()),), {}), rounds=1500, warmup_rounds=20)


def free_nodes() -> World:
    world = cluster(0, Setup(CHART_PROFILE))
    for index in range(NODES):
        name = f"node-{index}"
        world.cache.set_node(node(name).cpu("96").memory("512Gi").pods(110).allocatable("koordinator.sh/gpu", "800").build())
        device_state(world).set_device(device(name, gpus="2x2x2,80Gi"))
    gc.collect()
    gc.freeze()
    return world


def taken(pods_a_card: int) -> World:
    """Return a cluster on which all GPUs are taken, by pods of two of them (0), or by so many pods of a part of each."""
    world = free_nodes()
    for index in range(NODES):
        name = f"node-{index}"
        for first in range(0, 8, 2):
            minors = [first] * pods_a_card + [first + 1] * pods_a_card if pods_a_card else [first]
            for part, minor in enumerate(minors):
                low = fresh(pod(f"low-{index}-{minor}-{part}")).started(f"2026-01-01T00:{(index + minor) % 60:02d}:{part:02d}Z")
                if pods_a_card:
                    percent = 100 // pods_a_card
                    low = holding(low, gpu={minor: percent}).request("koordinator.sh/gpu", str(percent))
                else:
                    low = holding(low, gpu=[minor, minor + 1]).request("koordinator.sh/gpu", "200")
                world.cache.set_pod(low.on(name).info(counted_on_node=True), name)
    return world


def bench_attempt_to_preempt(benchmark: Any) -> None:
    """All GPUs are taken, by 20,000 pods of two each; a more important pod of two has to evict one of them."""
    attempts = Attempts(taken(0), pod("high").priority(10).request("koordinator.sh/gpu", "200"), "Coscheduling")
    benchmark.pedantic(attempt, setup=attempts.next, rounds=100, warmup_rounds=1)


@pytest.fixture(scope="module")
def halves() -> World:
    return taken(2)


def bench_attempt_to_preempt_where_amounts_do_not_decide(benchmark: Any, halves: World) -> None:
    """80,000 pods, two halves on each GPU, and a whole one is wanted: the victims that amounts ask for are on two GPUs, on every node."""
    attempts = Attempts(halves, pod("high").priority(10).request("koordinator.sh/gpu", "100"), "Coscheduling")
    benchmark.pedantic(attempt, setup=attempts.next, rounds=100, warmup_rounds=1)


@pytest.fixture(scope="module")
def under_policies() -> World:
    return under_single_numa_node(taken(0))


def under_single_numa_node(world: World) -> World:
    """Let all nodes have the policy, and each pod, besides its GPUs, 10 CPUs and 60 GiB of their NUMA node."""
    numa = numa_state(world)
    for index in range(NODES):
        name = f"node-{index}"
        numa.set_policy(name, node_policy(node(name).label(NUMA_TOPOLOGY_POLICY, "SingleNUMANode").build()))
        topology: Any = decode(NODE_RESOURCE_TOPOLOGY, topology_manifest(name, LAYOUT, 512 << 30))
        numa.set_options(name, read_options(topology))
        for first, info in zip(range(0, 8, 2), world.cache.nodes_by_name[name].pods.values(), strict=True):
            numa.reserve(name, PodAllocation.of(info, 0, CpuExclusivePolicy.NONE, {first // 4: {"cpu": 10_000, "memory": 60 << 30}}))
    return world


def bench_attempt_to_preempt_under_single_numa_node(benchmark: Any, under_policies: World) -> None:
    """20,000 pods of two GPUs; a more important one needs two GPUs, and so many CPUs of their NUMA node that two pods have to go."""
    asked = pod("high").priority(10).cpu("30").memory("60Gi").request("koordinator.sh/gpu", "200")
    attempts = Attempts(under_policies, asked, "Coscheduling")
    benchmark.pedantic(attempt, setup=attempts.next, rounds=100, warmup_rounds=1)


def bench_first_attempt_to_preempt_under_single_numa_node(benchmark: Any, under_policies: World) -> None:
    """The same for requests that differ."""
    attempts = iter(range(1, 1000))

    def first() -> Any:
        asked = pod("high").priority(10 + next(attempts)).cpu("30").memory("60Gi").request("koordinator.sh/gpu", "200")
        return Attempts(under_policies, asked, "Coscheduling").next()

    benchmark.pedantic(attempt, setup=first, rounds=30, warmup_rounds=1)


def bench_first_attempt_to_preempt(benchmark: Any, halves: World) -> None:
    """The same for requests that differ: nothing is known yet, and the dry run begins with all rows."""
    attempts = iter(range(1, 1000))

    def first() -> Any:
        asked = pod("high").priority(10 + next(attempts)).request("koordinator.sh/gpu", "100")
        return Attempts(halves, asked, "Coscheduling").next()

    benchmark.pedantic(attempt, setup=first, rounds=30, warmup_rounds=1)
