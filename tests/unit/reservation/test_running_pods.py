"""Running pods that Reservations may take over: what is kept of them, and what the standing check finds and mends (reservation.md §13)."""

from __future__ import annotations

from msgspec.structs import replace
from support.builders import PodBuilder, node, pod
from support.reservations import WITH_RESERVATIONS, ReservationWorld, available
from support.world import Setup

from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservations import ReservationStatus
from koordsched.api.podinfo import PodInfo
from koordsched.plugins.reservation.candidates import RunningPods
from koordsched.plugins.reservation.preallocation import PreAllocations


def running(name: str, cpu: str = "2", on: str = "a") -> PodBuilder:
    return pod(name).uid(f"uid-{name}").cpu(cpu).label("app", "x").on(on)


def reserve_pod(name: str, cpu: str = "4", **labels: str) -> PodInfo:
    policy = {"enableMultiple": True}
    made = available(name, "", {"cpu": cpu}, preAllocation=True, preAllocationPolicy=policy, metadata={"labels": labels})
    return PodInfo.of_reservation(replace(made, status=ReservationStatus()))


CLUSTER_MODE = Setup("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Reservation, weight: 5000}]}
  pluginConfig: [{name: Reservation, args: {preAllocationConfig: {enableClusterMode: true}}}]
""")
PRE_ALLOCATABLE = "pod.koordinator.sh/is-pre-allocatable"


def world_with(*pods: PodBuilder, setup: Setup = WITH_RESERVATIONS) -> tuple[ReservationWorld, RunningPods]:
    """Return two nodes of ten CPUs with these pods, of which Reservations look for those with app=x."""
    world = ReservationWorld(setup)
    for name in ("a", "b"):
        world.cache.set_node(node(name).cpu("10").build())
    for each in pods:
        info = each.info(counted_on_node=True)
        world.cache.set_pod(info, info.pod.spec.node_name)
    found = world.cache.shared.find(PreAllocations)
    assert found is not None
    return world, found._running


def candidates(kept: RunningPods) -> list[str]:
    return sorted({uid for each in kept._sets.values() for uid in each.candidates})


def test_reservations_of_one_kind_and_of_others_look_at_the_same_candidates() -> None:
    world, kept = world_with(running("p"), running("q"))
    first, other = world.signed(reserve_pod("r1")), world.signed(reserve_pod("r2", "5"))
    assert first.shape != other.shape
    assert (len(kept._sets), len(world.cache.credits)) == (1, 1)
    assert candidates(kept) == ["uid-p", "uid-q"]


def test_what_a_candidate_asks_of_reservations_decides_which_may_take_it_over() -> None:
    choosy = running("choosy").annotation(RESERVATION_AFFINITY, '{"reservationSelector":{"team":"t"}}')
    world, _ = world_with(running("p"), choosy)
    required = {"scheduling.koordinator.sh/pre-allocation-required": "true"}
    plain, mine = reserve_pod("r1", "8", **required), reserve_pod("r2", "9", team="t", **required)
    for reserve, taken in ((plain, ["uid-p"]), (mine, ["uid-choosy", "uid-p"])):
        world.give(reserve)
        assert sorted(uid for uid in ("uid-p", "uid-choosy") if world.cache.credits.drawn_from(uid) == reserve.uid) == taken
        world.reservations.end_adoption(reserve.uid)
        world.cache.forget_pod(reserve.uid)


def test_the_check_agrees_after_what_happens_to_pods() -> None:
    world, kept = world_with(running("p"), running("q", on="b"), pod("other").cpu("1").on("a"))
    waiting = world.signed(reserve_pod("r"))
    assert waiting.shape is not None
    world.cache.set_pod(running("p").label("app", "y").info(counted_on_node=True), "a")
    world.cache.remove_pod("uid-q")
    world.cache.set_pod(running("new").info(counted_on_node=True), "a")
    assert [list(kept.differences(name)) for name in ("a", "b", "none")] == [[], [], []]
    assert candidates(kept) == ["uid-new"]


def test_where_the_mode_cluster_is_enabled_its_candidates_are_known_before_a_reservation_asks_and_after_it_went() -> None:
    """The first Reservation would have to look at all pods otherwise."""
    marked = [running(name).label(PRE_ALLOCATABLE, "true") for name in ("p", "q")]
    world, kept = world_with(*marked, running("other"), setup=CLUSTER_MODE)
    assert candidates(kept) == ["uid-p", "uid-q"]
    world.cache.remove_pod("uid-q")
    made = available("r", "", {"cpu": "4"}, preAllocation=True, preAllocationPolicy={"mode": "Cluster"})
    waiting = world.signed(PodInfo.of_reservation(replace(made, status=ReservationStatus())))
    assert waiting.shape is not None
    (candidate_set,) = kept._sets.values()
    assert candidate_set.users == 1
    assert list(kept.differences("a")) == []
    kept.leave(candidate_set)
    assert (list(kept._sets.values()), candidates(kept)) == ([candidate_set], ["uid-p"])
    assert world_with(*marked)[1]._sets == {}, "where it is not enabled nothing is kept"


def test_the_check_finds_what_went_wrong_and_mends_it() -> None:
    world, kept = world_with(running("p"), running("q"))
    waiting = world.signed(reserve_pod("r"))
    assert waiting.shape is not None
    (candidate_set,) = kept._sets.values()
    candidate_set.remove("uid-p")
    kept._class_of.pop("uid-q")
    gone = running("gone").info(counted_on_node=True)
    world.cache.set_pod(gone, "a")
    before = candidate_set.candidates["uid-gone"]
    world.cache.remove_pod("uid-gone")
    candidate_set.put(before)
    columns = [difference.column for difference in kept.differences("a")]
    assert columns[0] == "labels of running pod default/q"
    assert columns[1].startswith("candidates by ")
    kept.rebuild("a")
    assert list(kept.differences("a")) == []
    assert candidates(kept) == ["uid-p", "uid-q"]
    assert world.give(reserve_pod("r2", "9"))[0] in {"a", "b"}
