"""Of several reservations of a node a pod is given one that suits it in all respects, and is refused only where none does.

What suits is found by exhaustive search: for each reservation there is a world in which the pod matches this one alone, and the others are
strangers'; and one in which it matches none. (reservation.md §8, §9; deviceshare.md §8; nodenumaresource.md §12)
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import PodBuilder, node, pod
from support.devices import allocation, device
from support.numa import holding, topology
from support.reservations import ReservationWorld, available
from support.world import Setup

from koordsched.api.kinds import DEVICE, NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.cpulist import format_cpus
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED, DEVICE_JOINT_ALLOCATE, device_allocations
from koordsched.api.koordinator.pods import RESOURCE_STATUS
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import RESERVATION_IGNORED, RESTRICTED_OPTIONS
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import ADDED, WatchEvent
from koordsched.plugins.deviceshare.state import DeviceState
from koordsched.plugins.nodenumaresource.state import NumaState

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
    """Return a world in which pods with the label app=x are owners of these reservations, by number, and of no others."""
    world = ReservationWorld(Setup(CONFIG))
    made = node("n0").cpu(str(CPUS)).memory("64Gi").pods(110).allocatable("koordinator.sh/rdma", str(100 * ZONES))
    for resource in ("gpu-core", "gpu-memory-ratio"):
        made = made.allocatable(f"koordinator.sh/{resource}", str(100 * GPUS))
    built = (made.label(POLICY, case.numa_policy) if case.numa_policy else made).build()
    world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology("n0", "1x2x4x2", memory=64 << 30)))
    world.informer(NODE)._objects.apply(WatchEvent(ADDED, built))
    world.cache.set_node(built)
    world.informer(DEVICE)._objects.apply(WatchEvent(ADDED, device("n0", gpus="2x1x2", nics="2x1x1")))
    used = pod("used").uid("used").on("n0")
    for name, amount in amounts_of(case.used).items():
        used = used.request(name, amount)
    for key, text in annotations_of(case.used).items():
        used = used.annotation(key, text)
    world.cache.set_pod(used.info(counted_on_node=True), "n0")
    for i, reserved in enumerate(case.reserved):
        metadata = {"annotations": annotations_of(reserved)}
        owner = "x" if i in owned else STRANGERS
        world.reservations.put(available(f"r{i}", "n0", amounts_of(reserved), owner, allocatePolicy=reserved.policy, metadata=metadata))
    return world


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


def given_in(world: ReservationWorld, info: PodInfo) -> str | None:
    """Return the name of the reservation that the pod is given in this world, "" for none; None: the pod is refused."""
    try:
        return world.give(info)[1]
    except LookupError as refused:
        message = str(refused)
    assert message.startswith("0/1 nodes are available"), f"refused in Reserve: {message}"
    return None


def check(world: ReservationWorld) -> None:
    """No CPU has two holders, no card is given out beyond itself, and the standing check agrees."""
    cpus, devices = world.cache.shared.find(NumaState), world.cache.shared.find(DeviceState)
    assert cpus is not None
    assert devices is not None
    taken, shares = 0, dict.fromkeys(range(GPUS), 0)
    for uid in world.cache.pods:
        held = cpus.held_by(uid)
        if held is not None:
            assert not taken & held.cpus
            taken |= held.cpus
        given_devices = devices.held_by(uid)
        for one in () if given_devices is None else given_devices.allocations.get("gpu", ()):
            shares[one.minor] += one.resources["koordinator.sh/gpu-core"]
    assert all(share <= 100 for share in shares.values()), shares
    for checked in world.cache.checked:
        if checked.name != "Reservation":  # the objects themselves are not watched here
            assert not list(checked.differences("n0"))


@settings(max_examples=60, deadline=None)
@given(cases(), requests)
def test_a_pod_is_placed_where_some_reservation_suits_or_the_node_does_without(case: Case, asked: dict[str, int]) -> None:
    world = world_of(case, set(range(len(case.reserved))))
    before = {uid: held(world, uid) for uid in world.cache.pods}
    found = given_in(world, asking("p", asked).info())
    alone = [given_in(world_of(case, {i}), asking("p", asked).info()) for i in range(len(case.reserved))]
    without = None if "required" in asked else given_in(world_of(case, set()), asking("p", asked).info())
    assert (found is None) == all(each is None for each in [*alone, without])
    if found:
        assert alone[int(found[1:])] == found
    elif found is not None:
        assert "required" not in asked
    if found is not None:
        check(world)
        for uid, parts in before.items():
            if uid != f"uid-{found}":
                assert held(world, uid) == parts
        if found and case.reserved[int(found[1:])].policy == "Restricted":
            check_restricted(world, case.reserved[int(found[1:])])


def held(world: ReservationWorld, uid: str) -> tuple[object, object]:
    cpus, devices = world.cache.shared.find(NumaState), world.cache.shared.find(DeviceState)
    assert cpus is not None
    assert devices is not None
    given_devices = devices.held_by(uid)
    return cpus.held_by(uid), None if given_devices is None else given_devices.held


def check_restricted(world: ReservationWorld, reserved: Reserved) -> None:
    """An owner has nothing beside what the reservation holds, of CPUs and of each type of which it holds any."""
    cpus, devices = world.cache.shared.find(NumaState), world.cache.shared.find(DeviceState)
    assert cpus is not None
    assert devices is not None
    of_cpus, of_devices = cpus.held_by("p"), devices.held_by("p")
    if of_cpus is not None and of_cpus.cpus and reserved.cpus:
        assert not of_cpus.cpus & ~sum(1 << cpu for cpu in reserved.cpus)
    whole = device_allocations({DEVICE_ALLOCATED: annotations_of(reserved).get(DEVICE_ALLOCATED, "{}")}) or {}
    for kind, given_devices in {} if of_devices is None else of_devices.allocations.items():
        assert not whole.get(kind) or {one.minor for one in given_devices} <= {one.minor for one in whole[kind]}


@settings(max_examples=40, deadline=None)
@given(cases(), requests)
def test_a_pod_that_ignores_reservations_gets_what_no_pod_uses(case: Case, asked: dict[str, int]) -> None:
    """As in a world without reservations; what it takes of them no other pod has while it runs."""
    asked = {key: value for key, value in asked.items() if key != "required"}
    world, empty = world_of(case, {0}), world_of(case._replace(reserved=[]), set())
    found = given_in(world, asking("p", asked).label(RESERVATION_IGNORED, "true").info())
    assert (found is None) == (given_in(empty, asking("p", asked).info()) is None)
    if found is not None:
        assert found == ""
        given_in(world, asking("q", asked).info())
        state = world.cache.shared.find(NumaState)
        assert state is not None
        first, second = state.held_by("p"), state.held_by("q")
        assert first is None or second is None or not first.cpus & second.cpus
