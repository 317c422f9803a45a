"""Nodes on which strangers and reservations hold random CPUs and devices, and pods that may ask for any of it, for property tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from koordsched.api.kinds import DEVICE, NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.cpulist import format_cpus
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED, DEVICE_JOINT_ALLOCATE
from koordsched.api.koordinator.pods import RESOURCE_STATUS
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import RESTRICTED_OPTIONS
from koordsched.cluster.port import ADDED, WatchEvent
from support.builders import PodBuilder, node, pod
from support.devices import allocation, device
from support.numa import holding, topology
from support.reservations import ReservationWorld, available
from support.world import Setup

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: NodeResourcesFit}, {name: Reservation, weight: 5000}, {name: NodeNUMAResource}, {name: DeviceShare}]
"""
POLICY = "node.koordinator.sh/numa-topology-policy"
CPUS, GPUS = 16, 4
ZONES = 2
"""CPUs 0-7 and GPUs 0 and 1 with NIC 0 are in NUMA node 0, the others with NIC 1 in NUMA node 1."""
STRANGERS = "y"


class Reserved(NamedTuple):
    """What a reservation holds, and what it says of amounts. limits: its resources, of which owners get no more, where it is Restricted."""

    policy: str
    shares: dict[int, int]  # percent by minor of GPU
    nics: list[int]
    cpus: list[int]
    limits: str


class Case(NamedTuple):
    numa_policy: str
    used: Reserved  # by strangers' pods
    reserved: list[Reserved]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw what strangers use and what reservations hold, of each unit one of them."""
    count = draw(st.integers(1, 3))
    takers = st.integers(0, count + 1)  # 0: strangers; count + 1: free
    policies = [draw(st.sampled_from(["", "Aligned", "Restricted", "Restricted"])) for _ in range(count)]
    policies = policies if len({not policy for policy in policies}) == 1 else ["Restricted"] * count  # Default beside no other
    limits = [draw(st.sampled_from(["", "cpu", "koordinator.sh/gpu-core"])) for _ in range(count)]
    made = [Reserved(policy, {}, [], [], limit) for policy, limit in zip(["", *policies, ""], ["", *limits, ""], strict=True)]
    for minor in range(GPUS):
        for _ in range(draw(st.integers(1, 2))):
            taker = made[draw(takers)]
            taker.shares[minor] = min(taker.shares.get(minor, 0) + 50, 100)
    for nic in range(ZONES):
        made[draw(takers)].nics.append(nic)
    for first in range(0, CPUS, 2):
        made[draw(takers)].cpus.extend([first, first + 1])
    return Case(draw(st.sampled_from(["", "", "SingleNUMANode", "Restricted", "BestEffort"])), made[0], made[1:-1])


def annotations_of(reserved: Reserved) -> dict[str, str]:
    found = {}
    if reserved.shares or reserved.nics:
        minors = {"gpu": reserved.shares} if reserved.shares else {}
        found[DEVICE_ALLOCATED] = allocation(**minors, **({"rdma": reserved.nics} if reserved.nics else {}))
    if reserved.cpus:
        cpuset = format_cpus(sum(1 << cpu for cpu in reserved.cpus))
        found[RESOURCE_STATUS] = holding(pod("r"), cpuset).build().metadata.annotations[RESOURCE_STATUS]
    if reserved.limits:
        found[RESTRICTED_OPTIONS] = f'{{"resources":["{reserved.limits}"]}}'
    return found


def amounts_of(reserved: Reserved) -> dict[str, str]:
    share = sum(reserved.shares.values())
    amounts = {"cpu": str(len(reserved.cpus)), "koordinator.sh/rdma": str(100 * len(reserved.nics))}
    amounts |= {"koordinator.sh/gpu-core": str(share), "koordinator.sh/gpu-memory-ratio": str(share)}
    return {name: amount for name, amount in amounts.items() if amount != "0"} or {"memory": "1Mi"}


def world_of(case: Case, owned: set[int]) -> ReservationWorld:
    """Return a world of one node in which pods with the label app=x are owners of these reservations, by number, and of no others."""
    return world_of_nodes([case], owned)


def world_of_nodes(cases: Sequence[Case], owned: set[int], config: str = CONFIG) -> ReservationWorld:
    """Return the same with a node for each case."""
    world = ReservationWorld(Setup(config))
    for number, case in enumerate(cases):
        _add_node(world, number, case, owned)
    return world


def _add_node(world: ReservationWorld, number: int, case: Case, owned: set[int]) -> None:
    name, prefix = f"n{number}", f"{number}-" if number else ""
    made = node(name).cpu(str(CPUS)).memory("64Gi").pods(110).allocatable("koordinator.sh/rdma", str(100 * ZONES))
    for resource in ("gpu-core", "gpu-memory-ratio"):
        made = made.allocatable(f"koordinator.sh/{resource}", str(100 * GPUS))
    built = (made.label(POLICY, case.numa_policy) if case.numa_policy else made).build()
    world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology(name, "1x2x4x2", memory=64 << 30)))
    world.informer(NODE)._objects.apply(WatchEvent(ADDED, built))
    world.cache.set_node(built)
    world.informer(DEVICE)._objects.apply(WatchEvent(ADDED, device(name, gpus="2x1x2", nics="2x1x1")))
    used = pod(f"{prefix}used").uid(f"{prefix}used").on(name)
    for resource, amount in amounts_of(case.used).items():
        used = used.request(resource, amount)
    for key, text in annotations_of(case.used).items():
        used = used.annotation(key, text)
    world.cache.set_pod(used.info(counted_on_node=True), name)
    for i, reserved in enumerate(case.reserved):
        metadata = {"annotations": annotations_of(reserved)}
        owner = "x" if i in owned else STRANGERS
        made_of = available(f"{prefix}r{i}", name, amounts_of(reserved), owner, allocatePolicy=reserved.policy, metadata=metadata)
        world.reservations.put(made_of)


requests = st.fixed_dictionaries(
    {"cpus": st.sampled_from([0, 2, 2, 4, 6]), "gpu": st.sampled_from([0, 50, 50, 100, 200, 200, 300]), "binds": st.booleans()},
    optional={"joint": st.just(True), "required": st.just(True), "whole": st.just(True)},
)


def asking(name: str, asked: dict[str, int]) -> PodBuilder:
    builder = pod(name).uid(name).label("app", "x")
    if asked["cpus"]:
        builder = builder.cpu(str(asked["cpus"]))
        builder = builder.label("koordinator.sh/qosClass", "LSR") if asked["binds"] else builder
        if asked["binds"] and "whole" in asked:
            builder = builder.annotation("scheduling.koordinator.sh/resource-spec", '{"requiredCPUBindPolicy":"FullPCPUs"}')
    if asked["gpu"]:
        builder = builder.request("koordinator.sh/gpu-core", str(asked["gpu"])).request(
            "koordinator.sh/gpu-memory-ratio", str(asked["gpu"])
        )
        if "joint" in asked and asked["gpu"] >= 100:
            joint = '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'
            builder = builder.request("koordinator.sh/rdma", "1").annotation(DEVICE_JOINT_ALLOCATE, joint)
    return builder.annotation(RESERVATION_AFFINITY, "{}") if "required" in asked else builder
