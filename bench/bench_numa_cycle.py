"""How long does it take to choose a node and its CPUs for pods of mixed sizes and policies, while all nodes are looked at?

5,000 nodes of 2 sockets x 2 NUMA nodes x 26 cores x 2 threads, a quarter of which have a NUMA policy of their own; pods of four sizes, with
and without CPUs of their own, of every bind and NUMA policy: 52 kinds. Measured are the algorithm and Reserve, which works out the CPUs;
the pod is assumed in between. Limit: at most 0.5 ms in the mean, the first pods of a kind included.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
from support.builders import PodBuilder, node, pod
from support.world import EMPTY_CONFIG, Setup, World

from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.nodes import NUMA_TOPOLOGY_POLICY, node_policy
from koordsched.api.koordinator.pods import NUMA_TOPOLOGY_SPEC, RESOURCE_SPEC
from koordsched.api.koordinator.qos import QOS_CLASS
from koordsched.api.podinfo import PodInfo
from koordsched.api.validation.decoding import decode
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.plugins.nodenumaresource.node_topology import read_options
from koordsched.plugins.nodenumaresource.state import numa_state

NODES = 5_000
LAYOUT = CpuLayout.parse("2x2x26x2")
MEMORY = 512 << 30
CONFIG = f"""{EMPTY_CONFIG}profiles:
- plugins: {{multiPoint: {{enabled: [{{name: NodeNUMAResource}}]}}}}
"""
POLICIES = ("", "BestEffort", "Restricted", "SingleNUMANode")
SPECS: tuple[dict[str, str], ...] = (
    {},
    {"preferredCPUBindPolicy": "SpreadByPCPUs"},
    {"requiredCPUBindPolicy": "FullPCPUs"},
)
SIZES = ((2, "4Gi"), (4, "8Gi"), (8, "32Gi"), (16, "32Gi"))


def bench_choose_and_reserve_5000_nodes(benchmark: Any) -> None:
    world = _world()
    chance = random.Random(7)
    current: dict[str, Any] = {}
    kinds = set()
    refused = 0

    def setup() -> None:
        info = _pod(chance).info()
        current["pod"] = world.signed(info)
        kinds.add(info.shape)

    def choose_and_reserve() -> None:
        nonlocal refused
        state, found = world.search.find(world.profile, current["pod"])
        if isinstance(found, Diagnosis):
            raise LookupError(found.message)
        refused += _assume(world, state, current["pod"], found)

    benchmark.pedantic(choose_and_reserve, setup=setup, rounds=3000)
    benchmark.extra_info |= {"kinds": len(kinds), "refused in Reserve": refused}


def _assume(world: World, state: CycleState, info: PodInfo, node_name: str) -> bool:
    """Assume the pod and run Reserve. Whether it refused."""
    world.cache.assume_pod(info, node_name)
    status = world.profile.run_reserve(state, info, node_name)
    if status is None:
        return False
    world.profile.run_unreserve(state, info, node_name)
    world.cache.forget_pod(info.uid)
    return True


def _world() -> World:
    world = World(Setup(CONFIG))
    numa = numa_state(world)
    for index in range(NODES):
        name = f"node-{index:05d}"
        made = node(name).cpu(str(LAYOUT.cpus)).memory(str(MEMORY))
        made = made if index % 4 else made.label(NUMA_TOPOLOGY_POLICY, POLICIES[1 + index // 4 % 3])
        world.cache.set_node(made.build())
        numa.set_policy(name, node_policy(made.build()))
        described: Any = decode(NODE_RESOURCE_TOPOLOGY, topology_manifest(name, LAYOUT, MEMORY))
        numa.set_options(name, read_options(described))
    return world


def _pod(chance: random.Random) -> PodBuilder:
    cpu, memory = chance.choice(SIZES)
    made = pod("web").uid(f"uid-{chance.getrandbits(64)}").cpu(str(cpu)).memory(memory)
    if chance.random() < 0.25:
        return made
    made = made.label(QOS_CLASS, "LSR").priority(9000)
    made = made.annotation(RESOURCE_SPEC, _json(chance.choice(SPECS)))
    policy = chance.choice(POLICIES)
    return made.annotation(NUMA_TOPOLOGY_SPEC, _json({"numaTopologyPolicy": policy})) if policy else made


def _json(value: dict[str, str]) -> str:
    return msgspec.json.encode(value).decode()
