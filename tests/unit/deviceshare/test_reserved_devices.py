"""Devices that a reservation holds are its owners', and are counted once (deviceshare.md §8, §17 lines 19, 20)."""

from __future__ import annotations

import json

import pytest
from support.builders import PodBuilder, node, pod
from support.devices import Minors, allocation, device, gpus, holding
from support.numa import topology
from support.reservations import ReservationWorld, available, linked
from support.world import Setup

from koordsched.api.kinds import DEVICE, NODE, NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED, AllocatedDevice
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import RESERVATION_IGNORED, RESTRICTED_OPTIONS
from koordsched.api.koordinator.reservations import Reservation
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import ADDED, WatchEvent
from koordsched.plugins.deviceshare.reserved import resize_text
from koordsched.plugins.deviceshare.state import DeviceState

PLUGINS = "{name: Reservation, weight: 5000}, {name: DeviceShare}"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [%s]}
"""
FLAT = "2"
"""Two GPUs that are in no NUMA node and at no switch, so that nothing but their amounts decides."""


def machine(plugins: str = PLUGINS, numa_policy: str = "", layout: str = FLAT, nics: str = "", more: str = "") -> ReservationWorld:
    """Return a world with one node, whose Device has these devices. more: of the profile."""
    world = ReservationWorld(Setup(CONFIG % plugins + more))
    made = node("n0").cpu("64").memory("512Gi")
    for resource in ("gpu", "gpu-core", "gpu-memory-ratio", "rdma"):
        made = made.allocatable(f"koordinator.sh/{resource}", "800")
    built = (made.label("node.koordinator.sh/numa-topology-policy", numa_policy) if numa_policy else made).build()
    world.informer(NODE)._objects.apply(WatchEvent(ADDED, built))
    world.cache.set_node(built)
    world.informer(DEVICE)._objects.apply(WatchEvent(ADDED, device("n0", gpus=layout, nics=nics) if nics else device("n0", gpus=layout)))
    return world


def reserving(name: str = "r", policy: str = "", **shares: int) -> Reservation:
    """Return a reservation of these percents by minor of GPU, as in `g1=25`."""
    minors = {int(key[1:]): share for key, share in shares.items()}
    written, amounts = allocation(gpu=minors), {"koordinator.sh/gpu": str(sum(minors.values()))}
    return available(name, "n0", amounts, allocatePolicy=policy, metadata={"annotations": {DEVICE_ALLOCATED: written}})


def owner(name: str, percent: int, *, required: bool = False) -> PodBuilder:
    builder = gpus(name, percent).uid(name).label("app", "x")
    return builder.annotation(RESERVATION_AFFINITY, "{}") if required else builder


def state_of(world: ReservationWorld) -> DeviceState:
    state = world.cache.shared.find(DeviceState)
    assert state is not None
    return state


def shares(world: ReservationWorld, uid: str) -> dict[int, int]:
    """Return what is counted of the GPUs for the pod: percent by minor."""
    held = state_of(world).held_by(uid)
    return {} if held is None else {one.minor: one.resources["koordinator.sh/gpu-core"] for one in held.allocations.get("gpu", ())}


def minors(world: ReservationWorld, uid: str) -> Minors:
    held = state_of(world).held_by(uid)
    return {} if held is None else {kind: [one.minor for one in devices] for kind, devices in held.allocations.items()}


def test_an_owner_takes_what_is_reserved_of_a_card_and_free_shares_of_it_besides() -> None:
    """§17 line 19: it would not get card 1 if it were not reserved."""
    world = machine()
    world.reservations.put(reserving(g1=25))
    assert world.give(owner("a", 50).info()) == ("n0", "r")
    assert shares(world, "a") == {1: 50}
    assert shares(world, "uid-r") == {}


def test_a_stranger_does_not_get_what_is_reserved() -> None:
    world = machine()
    world.reservations.put(reserving(g0=100, g1=25))
    with pytest.raises(LookupError, match="Insufficient gpu devices"):
        world.give(gpus("s", 80).uid("s").info())
    world.give(gpus("s", 75).uid("s").info())
    assert shares(world, "s") == {1: 75}


def test_half_of_a_reserved_card_is_drawn_and_comes_back() -> None:
    world = machine()
    world.reservations.put(reserving(g1=100))
    first = owner("a", 50).info()
    world.give(first)
    assert (shares(world, "a"), shares(world, "uid-r")) == ({1: 50}, {1: 50})
    world.give(owner("b", 30).info())
    assert (shares(world, "b"), shares(world, "uid-r")) == ({1: 30}, {1: 20})
    world.take_back(first)
    assert shares(world, "uid-r") == {1: 70}


def test_cards_that_are_reserved_come_first_though_the_topology_prefers_others() -> None:
    """§8: an owner gets its reservation's cards under every policy when they do."""
    for policy in ("", "Aligned", "Restricted"):
        world = machine(layout="2x2x2,80Gi")
        world.reservations.put(reserving(policy=policy, g5=100, g6=100))
        world.give(owner("a", 200).info())
        assert minors(world, "a") == {"gpu": [5, 6]}
        assert shares(world, "uid-r") == {}


def test_more_than_is_reserved_is_taken_of_free_cards() -> None:
    world = machine()
    world.reservations.put(reserving(policy="Aligned", g1=100))
    world.give(owner("a", 200).info())
    assert minors(world, "a") == {"gpu": [1, 0]}


def test_a_restricted_reservation_gives_no_more_than_it_has_left() -> None:
    """§17 line 20: three quarters of the card are free. The plugin Reservation compares cpu alone here, and passes the pod."""
    world = machine(layout="1")
    annotations = {DEVICE_ALLOCATED: allocation(gpu={0: 25}), RESTRICTED_OPTIONS: '{"resources":["cpu"]}'}
    amounts = {"cpu": "1", "koordinator.sh/gpu": "25"}
    world.reservations.put(available("r", "n0", amounts, allocatePolicy="Restricted", metadata={"annotations": annotations}))
    with pytest.raises(LookupError, match=r"Reservation\(s\) Insufficient gpu devices"):
        world.give(owner("a", 50, required=True).info())
    world.give(owner("b", 25, required=True).info())
    assert (shares(world, "b"), shares(world, "uid-r")) == ({0: 25}, {})


def test_a_resource_of_a_card_that_is_used_up_is_not_taken_of_what_is_free() -> None:
    """Half of the card is free, and of the reserved half the cores are used up."""
    world = machine(layout="1")
    annotations = {DEVICE_ALLOCATED: allocation(gpu={0: 50}), RESTRICTED_OPTIONS: '{"resources":["cpu"]}'}
    amounts = {"cpu": "1", "koordinator.sh/gpu": "50"}
    world.reservations.put(available("r", "n0", amounts, allocatePolicy="Restricted", metadata={"annotations": annotations}))

    def asking(name: str, cores: int, ratio: int) -> PodInfo:
        builder = pod(name).uid(name).label("app", "x").annotation(RESERVATION_AFFINITY, "{}")
        return builder.request("koordinator.sh/gpu-core", str(cores)).request("koordinator.sh/gpu-memory-ratio", str(ratio)).info()

    world.give(asking("a", 50, 20))
    assert shares(world, "uid-r") == {0: 0}
    with pytest.raises(LookupError, match=r"Reservation\(s\) Insufficient gpu devices"):
        world.give(asking("b", 10, 10))


def test_a_pod_that_demands_no_reservation_is_given_free_cards_where_its_restricted_one_is_in_pieces() -> None:
    """The reservation has 100 % left, but of no card all; the node has a free card."""
    world = machine(layout="3")
    world.reservations.put(reserving(policy="Restricted", g0=50, g1=50))
    with pytest.raises(LookupError, match=r"Reservation\(s\) Insufficient gpu devices"):
        world.give(owner("a", 100, required=True).info())
    assert world.give(owner("b", 100).info()) == ("n0", "")
    assert minors(world, "b") == {"gpu": [2]}
    assert shares(world, "uid-r") == {0: 50, 1: 50}


def test_an_owner_gets_no_devices_of_another_of_its_reservations() -> None:
    """reservation.md D17: one card of each is not two of one."""
    world = machine(layout="3")
    world.reservations.put(reserving("r", g0=100))
    world.reservations.put(reserving("q", g1=100))
    world.give(owner("a", 200).info())
    held = minors(world, "a")["gpu"]
    assert len({0, 1} & set(held)) == 1
    assert 2 in held
    left = next(uid for uid in ("uid-r", "uid-q") if shares(world, uid))
    assert set(shares(world, left)).isdisjoint(held)
    with pytest.raises(LookupError, match="Insufficient"):
        world.give(gpus("s", 10).uid("s").info())


def test_of_several_reservations_the_one_is_given_whose_cards_suit() -> None:
    """By amounts the older one is as good as the other, but it has no whole card."""
    world = machine(layout="3")
    world.reservations.put(reserving("a", "Restricted", g0=50, g1=50))
    world.reservations.put(reserving("b", "Restricted", g2=100))
    assert world.give(owner("p", 100).info()) == ("n0", "b")
    assert shares(world, "p") == {2: 100}
    assert shares(world, "uid-a") == {0: 50, 1: 50}
    with pytest.raises(LookupError, match="Insufficient gpu devices"):
        world.give(owner("q", 100).info())
    assert world.give(owner("r", 50).info()) == ("n0", "a")


@pytest.mark.parametrize(("strategy", "given"), [("MostAllocated", "half"), ("LeastAllocated", "whole")])
def test_of_reservations_that_suit_amounts_and_the_strategy_of_devices_decide_together(strategy: str, given: str) -> None:
    """Half a card is wanted. By amounts the reservation of half a card has 100, that of a whole one 50; by devices 100 and 50, or 0 and 50,
    of which the best counts as 100: 200 against 100, or 100 against 150."""
    more = f"""
  pluginConfig:
  - name: DeviceShare
    args: {{scoringStrategy: {{type: {strategy}, resources: [{{name: koordinator.sh/gpu-core, weight: 1}}]}}}}
"""
    world = machine(more=more)
    world.reservations.put(reserving("half", "Restricted", g0=50))
    world.reservations.put(reserving("whole", "Restricted", g1=100))
    assert world.give(owner("p", 50).info()) == ("n0", given)


def test_a_reservation_without_devices_suits_where_the_node_has_them() -> None:
    world = machine(layout="2")
    world.reservations.put(available("a", "n0", {"koordinator.sh/gpu": "100"}))
    world.reservations.put(reserving("b", g1=100))
    world.give(gpus("s", 100).uid("s").info())
    assert shares(world, "s") == {0: 100}
    assert world.give(owner("p", 100).info()) == ("n0", "b")
    assert shares(world, "p") == {1: 100}


def test_numa_nodes_are_those_of_the_cards_that_a_restricted_reservation_has() -> None:
    """The cards of NUMA node 0 are free, and would do; the reservation's are in NUMA node 1, and no others may be given."""
    plugins = PLUGINS.replace("{name: DeviceShare}", "{name: NodeNUMAResource}, {name: DeviceShare}")
    for policy in ("SingleNUMANode", "Restricted", "BestEffort"):
        world = machine(plugins, policy, layout="2x2x2,80Gi")
        world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology("n0", "1x2x16x2", memory=512 << 30)))
        world.reservations.put(reserving(policy="Restricted", g4=100, g5=100))
        world.give(owner("a", 200, required=True).cpu("8").info())
        assert minors(world, "a") == {"gpu": [4, 5]}


def ignoring(name: str, percent: int) -> PodBuilder:
    return gpus(name, percent).uid(name).label(RESERVATION_IGNORED, "true")


def test_a_pod_that_ignores_reservations_gets_what_no_pod_uses() -> None:
    """deviceshare.md §17 line 21: both cards are reserved, and three quarters of the first are an owner's."""
    world = machine()
    world.reservations.put(reserving("q", g0=100))
    world.give(owner("a", 75).info())
    world.reservations.put(reserving("r", g1=100))
    world.give(ignoring("i", 50).info())
    assert shares(world, "i") == {1: 50}
    assert (shares(world, "uid-q"), shares(world, "uid-r")) == ({0: 25}, {1: 100})
    with pytest.raises(LookupError, match="Insufficient gpu devices"):
        world.give(ignoring("j", 60).info())
    with pytest.raises(LookupError, match="Insufficient gpu devices"):
        world.give(gpus("s", 10).uid("s").info())


def test_an_owner_gets_of_its_reservation_what_a_pod_that_ignores_reservations_has_left() -> None:
    world = machine(layout="1")
    world.reservations.put(reserving(g0=100))
    world.give(ignoring("i", 40).info())
    with pytest.raises(LookupError):
        world.give(owner("a", 70).info())
    world.give(owner("b", 60).info())
    assert (shares(world, "i"), shares(world, "b")) == ({0: 40}, {0: 60})


def test_a_pod_that_ignores_reservations_is_aligned_with_reserved_devices() -> None:
    plugins = PLUGINS.replace("{name: DeviceShare}", "{name: NodeNUMAResource}, {name: DeviceShare}")
    world = machine(plugins, "SingleNUMANode", layout="2x2x2,80Gi")
    world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology("n0", "1x2x16x2", memory=512 << 30)))
    world.reservations.put(reserving(g0=100, g1=100, g2=100, g3=100, g4=100, g5=100, g6=100, g7=100))
    world.give(ignoring("i", 400).cpu("8").info())
    assert minors(world, "i") == {"gpu": [0, 1, 2, 3]}
    assert set(shares(world, "uid-r")) == {0, 1, 2, 3, 4, 5, 6, 7}


def test_virtual_functions_of_a_reservation_are_its_owners() -> None:
    world = machine(layout="2", nics="1,4")
    functions = json.loads(allocation(rdma={0: 1}))
    (nic,) = [info for info in state_of(world).devices["n0"].spec.devices if info.type == "rdma"]
    vfs = [function.bus_id for function in nic.vf_groups[0].vfs]
    functions["rdma"][0]["extension"] = {"vfs": [{"minor": -1, "busID": vfs[2]}]}
    meta = {"annotations": {DEVICE_ALLOCATED: json.dumps(functions)}}
    world.reservations.put(available("r", "n0", {"koordinator.sh/rdma": "1"}, metadata=meta))
    asking = pod("a").uid("a").request("koordinator.sh/rdma", "1")
    asking = asking.annotation("scheduling.koordinator.sh/device-allocate-hint", '{"rdma":{"vfSelector":{}}}')
    world.give(asking.uid("s").info())
    world.give(asking.label("app", "x").info())
    stranger, drawn = state_of(world).held_by("s"), state_of(world).held_by("a")
    assert stranger is not None
    assert drawn is not None
    assert [one.vfs for one in stranger.held] == [(vfs[0],)]
    assert [one.vfs for one in drawn.held] == [(vfs[2],)]
    assert minors(world, "uid-r") == {}


def test_numa_nodes_are_chosen_for_an_owner_as_if_its_reservation_held_nothing() -> None:
    """All cards are reserved: the hints of the topology manager must not find them taken when the owner's part is reserved."""
    plugins = PLUGINS.replace("{name: DeviceShare}", "{name: NodeNUMAResource}, {name: DeviceShare}")
    world = machine(plugins, "SingleNUMANode", layout="2x2x2,80Gi")
    world.informer(NODE_RESOURCE_TOPOLOGY)._objects.apply(WatchEvent(ADDED, topology("n0", "1x2x16x2", memory=512 << 30)))
    world.reservations.put(reserving(g0=100, g1=100, g2=100, g3=100, g4=100, g5=100, g6=100, g7=100))
    world.give(owner("a", 400).cpu("8").info())
    assert minors(world, "a") == {"gpu": [0, 1, 2, 3]}
    assert set(shares(world, "uid-r")) == {4, 5, 6, 7}


def test_after_a_restart_owner_and_reservation_hold_what_they_held() -> None:
    """deviceshare.md §17 line 27, whichever of both is known first; the standing check agrees, and finds what went wrong."""
    for reservation_first in (True, False):
        world = machine()
        reservation = reserving(g0=100, g1=50)
        bound = linked(holding(owner("a", 50), gpu={1: 50}), reservation, "n0")
        if reservation_first:
            world.reservations.put(reservation)
        world.cache.set_pod(bound, "n0")
        world.reservations.put(reservation)
        state = state_of(world)
        (check,) = (checked for checked in world.cache.checked if checked.name == "DeviceShare")
        assert (shares(world, "a"), shares(world, "uid-r")) == ({1: 50}, {0: 100})
        assert not list(check.differences("n0"))
        state.release("uid-r")
        assert list(check.differences("n0"))
        check.rebuild("n0")
        assert not list(check.differences("n0"))
        world.cache.remove_pod("a")
        assert shares(world, "uid-r") == {0: 100, 1: 50}
        world.reservations.remove("uid-r")
        assert shares(world, "uid-r") == {}
        assert not list(check.differences("n0"))


def test_a_reservation_whose_annotation_changes_holds_what_it_says() -> None:
    world = machine()
    world.reservations.put(reserving(g0=100))
    world.give(owner("a", 50).info())
    world.reservations.put(reserving(g0=100, g1=30))
    assert shares(world, "uid-r") == {0: 50, 1: 30}
    world.reservations.put(available("r", "n0", {"koordinator.sh/gpu": "100"}))
    assert shares(world, "uid-r") == {}
    assert shares(world, "a") == {0: 50}


def test_a_reservation_comes_to_hold_all_that_its_pod_was_given() -> None:
    """deviceshare.md §10, gate ResizePod."""
    given = {
        "gpu": [AllocatedDevice(minor, {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": 80 << 30}) for minor in (0, 1)],
        "rdma": [AllocatedDevice(0, {"koordinator.sh/rdma": 1})],
    }
    text = '{"resources":{"koordinator.sh/gpu-core":"200","koordinator.sh/gpu-memory":"160Gi","koordinator.sh/rdma":"1"}}'
    assert resize_text(given) == text
