"""Which pods a Reservation takes over is what a plain model chooses, and whatever happens then, no node is sold twice (reservation.md §13).

The model goes by the specification, node by node: what all pods request, less what those that are taken over use of what the Reservation
gives.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import node, pod
from support.reservations import ReservationWorld, available
from support.world import Setup

from koordsched.api.core import ResourceList
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_text
from koordsched.api.koordinator.reservations import Reservation, ReservationStatus
from koordsched.api.podinfo import PodInfo
from koordsched.framework.cycle_state import CycleState
from koordsched.plugins.reservation.info import same_amounts

GIB = 1 << 30
NODES = ("n0", "n1")
ROOM = {"cpu": 10_000, "memory": 20 * GIB}
REQUIRED = "scheduling.koordinator.sh/pre-allocation-required"
CLUSTER_LABEL = "pod.koordinator.sh/is-pre-allocatable"
PRIORITY = "pod.koordinator.sh/pre-allocatable-priority"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {{enabled: [{{name: Reservation, weight: 5000}}]}}
  pluginConfig:
  - name: Reservation
    args: {{preAllocationConfig: {{enableClusterMode: true, preferNoPreAllocatedPods: {prefers}}}}}
"""


class Kind(msgspec.Struct, frozen=True):
    """What a Reservation that takes over pods may be."""

    amounts: dict[str, str]
    cluster: bool = False
    multiple: bool = False
    required: bool = False
    once: bool = False
    options: str = ""
    inner: str = ""

    def make(self, name: str) -> Reservation:
        labels = {REQUIRED: "true"} if self.required else {}
        annotations = {}
        if self.options:
            annotations["scheduling.koordinator.sh/reservation-restricted-options"] = f'{{"resources":["{self.options}"]}}'
        if self.inner:
            annotations["node.koordinator.sh/reservation"] = f'{{"resources":{{"cpu":"{self.inner}"}}}}'
        whole = available(
            name,
            "",
            self.amounts,
            allocateOnce=self.once,
            preAllocation=True,
            preAllocationPolicy={"mode": "Cluster" if self.cluster else "Default", "enableMultiple": self.multiple},
            metadata={"labels": labels, "annotations": annotations},
        )
        return replace(whole, status=ReservationStatus())


KINDS = (
    *(
        Kind(amounts, cluster=cluster, multiple=multiple, required=required)
        for amounts in ({"cpu": "3"}, {"cpu": "2", "memory": "4Gi"}, {"cpu": "6"})
        for cluster in (False, True)
        for multiple in (False, True)
        for required in (False, True)
    ),
    Kind({"cpu": "4"}, inner="1", required=True),
    Kind({"cpu": "4", "memory": "8Gi"}, options="cpu"),
    Kind({"cpu": "5"}, multiple=True, once=True),
)


class Running(msgspec.Struct, frozen=True):
    """A pod that runs."""

    node: str
    cpu: int
    memory: int
    owner: bool
    labelled: bool
    priority: int

    def make(self, number: int) -> PodInfo:
        built = pod(f"p{number}").on(self.node)
        built = built.cpu(str(self.cpu)) if self.cpu else built
        built = built.memory(f"{self.memory}Gi") if self.memory else built
        built = built.label("app", "x") if self.owner else built
        built = built.label(CLUSTER_LABEL, "true") if self.labelled else built
        return built.annotation(PRIORITY, str(self.priority)).info(counted_on_node=True)


running = st.builds(
    Running,
    node=st.sampled_from(NODES),
    cpu=st.integers(0, 4),
    memory=st.sampled_from((0, 1, 4, 6)),
    owner=st.booleans(),
    labelled=st.booleans(),
    priority=st.integers(0, 2),
)


# The model


def candidates(kind: Kind, pods: list[PodInfo], on: str) -> list[PodInfo]:
    """Return the pods of a node that may be taken over, in their order."""
    found = [each for each in pods if each.pod.spec.node_name == on]
    if not kind.cluster:
        found = [each for each in found if each.pod.metadata.labels.get("app") == "x"]
        return sorted(found, key=lambda each: each.pod.metadata.name)
    found = [each for each in found if each.pod.metadata.labels.get(CLUSTER_LABEL) == "true"]
    return sorted(found, key=lambda each: (-int(each.pod.metadata.annotations[PRIORITY]), each.uid))


def asked(kind: Kind) -> dict[str, int]:
    return {name: int(text) * 1000 if name == "cpu" else int(text.removesuffix("Gi")) * GIB for name, text in kind.amounts.items()}


def choose(kind: Kind, pods: list[PodInfo], on: str, *, prefers: bool) -> tuple[list[str] | None, list[str]]:
    """Return the uids of the pods that are taken over (None: it does not fit), and the reasons."""
    whole = asked(kind)
    names = [name for name in whole if not kind.options or name == kind.options]
    limits = {name: whole[name] - (int(kind.inner) * 1000 if kind.inner and name == "cpu" else 0) for name in names}
    used = dict.fromkeys(whole, 0)
    for each in pods:
        if each.pod.spec.node_name == on:
            for name in whole:
                used[name] += each.resources.requests.get(name, 0)

    def amounts(each: PodInfo) -> dict[str, int]:
        return {name: each.resources.requests.get(name, 0) for name in whole}

    def score(each: PodInfo) -> int:
        return sum(100 * amount // whole[name] for name, amount in amounts(each).items() if amount <= whole[name]) // len(whole)

    def short(taken: dict[str, int]) -> set[str]:
        return {name for name, ask in whole.items() if ask > ROOM[name] - used[name] + (taken[name] if name in names else 0)}

    none = dict.fromkeys(whole, 0)
    if prefers and not kind.required and not short(none):
        return [], []
    tried = [each for each in candidates(kind, pods, on) if any(amounts(each)[name] for name in names)]
    of_node: set[str] = set()
    of_reservation: set[str] = set()
    if kind.multiple:
        if not kind.cluster:
            tried.sort(key=lambda each: -score(each))
        taken, chosen = none, list[str]()
        for each in tried:
            trial = {name: taken[name] + amount for name, amount in amounts(each).items()}
            of_node = short(trial)
            exceeded = {f"Reservation(s) Insufficient {name}" for name in names if trial[name] > limits[name]}
            if kind.once and chosen:
                exceeded.add("Reservation(s) Too many pods")
            if exceeded:
                of_reservation |= exceeded
                continue
            taken, chosen = trial, [*chosen, each.uid]
            if not of_node:
                return chosen, []
    else:
        fitting = []
        for each in tried:
            exceeded = {f"Reservation(s) Insufficient {name}" for name in names if amounts(each)[name] > limits[name]}
            lacking = short(amounts(each))
            if not exceeded and not lacking:
                fitting.append(each)
            of_node |= lacking
            of_reservation |= exceeded
        if fitting:
            return [max(fitting, key=score).uid], []
    nodes = sorted(f"Insufficient {name} by node" for name in of_node)
    if kind.required:
        return None, [*nodes, *sorted(of_reservation, key=lambda text: ("Too many" not in text, text))]
    nodes = nodes or sorted(f"Insufficient {name} by node" for name in short(none))
    return (None, nodes) if nodes else ([], [])


# Held against it


def world_of(pods: list[PodInfo], *, prefers: bool) -> ReservationWorld:
    world = ReservationWorld(Setup(CONFIG.format(prefers=str(prefers).lower())))
    for name in NODES:
        world.cache.set_node(node(name).cpu("10").memory("20Gi").build())
    for each in pods:
        world.cache.set_pod(each, each.pod.spec.node_name)
    return world


def uncrowded(pods: list[Running]) -> list[PodInfo]:
    """Return the pods that fit on their nodes in this order."""
    used = {name: [0, 0] for name in NODES}
    made = []
    for number, each in enumerate(pods):
        at = used[each.node]
        if at[0] + each.cpu <= 10 and at[1] + each.memory <= 20:
            at[0] += each.cpu
            at[1] += each.memory
            made.append(each.make(number))
    return made


@settings(max_examples=150)
@given(st.lists(running, max_size=8), st.sampled_from(KINDS), st.booleans())
def test_a_reservation_takes_over_what_the_model_says(pods: list[Running], kind: Kind, prefers: bool) -> None:
    made = uncrowded(pods)
    world = world_of(made, prefers=prefers)
    reserve = PodInfo.of_reservation(kind.make("r"))
    signed = world.signed(reserve)
    plugin: Any = next(each for each in world.profile.reserve if each.name == "Reservation")
    owner = plugin.owner_of(signed)
    assert owner is not None
    allocator = owner.allocator
    state = CycleState()
    assert (plugin.pre_filter(state, signed, world.cache.nodes()) is None) == (not kind.required)
    for name in NODES:
        found = world.cache.node(name)
        assert found is not None
        expected, reasons = choose(kind, made, name, prefers=prefers)
        row = found.row
        with world.cache.view(str(owner)):
            code = int(allocator.table().filter(np.array([row], np.int32), allocator.shortages)[0])
            score = int(allocator.table().scores(np.array([row], np.int32))[0])
        mine = candidates(kind, made, name)
        if not mine and not kind.required:
            assert code == 0  # NodeResourcesFit decides there
            continue
        assert (code == 0) == (expected is not None), reasons
        if expected is None:
            assert list(allocator.explain(code).reasons) == (reasons or ["node(s) no pod(s) to meet the pre-allocation requirements"])
            continue
        if kind.multiple:
            assert score == 100 // (1 + len(expected))
        world.cache.assume_pod(reserve, name)
        chosen = allocator.choose(row)
        world.cache.forget_pod(reserve.uid)
        assert [each.uid for each in chosen] == sorted(expected, key=[each.uid for each in chosen].index)
        assert {each.uid for each in chosen} == set(expected)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("run"), running),
        st.tuples(st.just("go"), st.integers(0, 9)),
        st.tuples(st.just("reserve"), st.sampled_from(KINDS)),
        st.tuples(st.just("available"), st.integers(0, 5)),
        st.tuples(st.just("undo"), st.integers(0, 5)),
        st.tuples(st.just("link"), st.integers(0, 5)),
        st.tuples(st.just("end"), st.integers(0, 5)),
        st.tuples(st.just("relabel"), st.integers(0, 9)),
    ),
    max_size=24,
)


class History:
    """A world to which things happen, and what the cluster would show of it."""

    def __init__(self) -> None:
        self.world = world_of([], prefers=False)
        self.pods: dict[str, PodInfo] = {}
        self.assumed: dict[str, tuple[PodInfo, str]] = {}  # reserve pods by name, with the node
        self.there: dict[str, Reservation] = {}
        self.serial = 0

    def run(self, each: Running) -> None:
        self.serial += 1
        made = each.make(self.serial)
        self.world.cache.set_pod(made, each.node)
        if self.overcommitted():  # a scheduler would not have placed it
            self.world.cache.remove_pod(made.uid)
        else:
            self.pods[made.uid] = made

    def go(self, which: int) -> None:
        if self.pods:
            uid = list(self.pods)[which % len(self.pods)]
            del self.pods[uid]
            self.world.cache.remove_pod(uid)

    def relabel(self, which: int) -> None:
        if self.pods:
            uid = list(self.pods)[which % len(self.pods)]
            old = self.pods[uid]
            labels = {} if old.pod.metadata.labels.get("app") else {"app": "x"}
            new = old.with_pod(replace(old.pod, metadata=replace(old.pod.metadata, labels=labels)))
            self.pods[uid] = new
            self.world.cache.set_pod(new, new.pod.spec.node_name)

    def reserve(self, kind: Kind) -> None:
        self.serial += 1
        name = f"r{self.serial}"
        reserve = PodInfo.of_reservation(kind.make(name))
        try:
            on, _ = self.world.give(reserve)
        except LookupError:
            return
        self.assumed[name] = (reserve, on)

    def _assumed(self, which: int) -> str | None:
        return list(self.assumed)[which % len(self.assumed)] if self.assumed else None

    def available(self, which: int) -> None:
        name = self._assumed(which)
        if name is not None:
            reserve, on = self.assumed.pop(name)
            assert reserve.reservation is not None
            requests: ResourceList = {}
            for container in reserve.pod.spec.containers:
                requests = {**requests, **container.resources.requests}
            status = ReservationStatus(phase="Available", node_name=on, allocatable=requests)
            self.there[name] = replace(reserve.reservation, status=status)
            self.world.reservations.put(self.there[name])

    def undo(self, which: int) -> None:
        name = self._assumed(which)
        if name is not None:
            reserve, _ = self.assumed.pop(name)
            self.world.reservations.end_adoption(reserve.uid)
            self.world.cache.forget_pod(reserve.uid)

    def link(self, which: int) -> None:
        """The watch shows the annotations of the pods that a Reservation has taken over."""
        names = [*self.assumed, *self.there]
        if not names:
            return
        name = names[which % len(names)]
        for uid, old in list(self.pods.items()):
            info = self.world.reservations.reservation_of(uid)
            if info is not None and info.name == name:
                annotations = {**old.pod.metadata.annotations, RESERVATION_ALLOCATED: allocated_text(info.name, info.uid)}
                new = old.with_pod(replace(old.pod, metadata=replace(old.pod.metadata, annotations=annotations)))
                self.pods[uid] = new
                self.world.cache.set_pod(new, new.pod.spec.node_name)

    def end(self, which: int) -> None:
        if self.there:
            name = list(self.there)[which % len(self.there)]
            self.world.reservations.remove(self.there.pop(name).metadata.uid)

    def overcommitted(self) -> bool:
        for name in NODES:
            found = self.world.cache.node(name)
            assert found is not None
            if any(found.requested(resource) > room for resource, room in ROOM.items()):
                return True
        return False

    def check(self) -> None:
        assert not self.overcommitted()
        owners: set[str] = set()
        for info in [*self.world.reservations.by_uid.values(), *self.world.reservations._adopting.values()]:
            assert not owners & info.owners.keys()
            owners |= info.owners.keys()
            assert all(info.allocated.get(name, 0) <= amount for name, amount in info.allocatable.items())
            assert not info.allocate_once or len(info.owners) <= 1
            assert same_amounts(self.world.cache.pods[info.uid].info, info.left())
            for uid in info.owners:
                assert self.world.cache.credits.drawn_from(uid) == info.uid
                assert self.world.cache.pods[uid].node.name == info.node_name


@settings(max_examples=120)
@given(steps)
def test_no_node_is_sold_twice_whatever_happens(events: list[tuple[str, Any]]) -> None:
    history = History()
    for name, what in events:
        getattr(history, name)(what)
        history.check()
    # What is known of candidates is what one finds that begins now.
    fresh = world_of(list(history.pods.values()), prefers=False)
    for reservation in history.there.values():
        fresh.reservations.put(reservation)
    adopted = {uid for info in history.world.reservations._adopting.values() for uid in info.owners}
    for kind in (Kind({"cpu": "1"}), Kind({"cpu": "1"}, cluster=True)):
        found = []
        for world in (history.world, fresh):
            plugin: Any = next(each for each in world.profile.reserve if each.name == "Reservation")
            owner = plugin.owner_of(PodInfo.of_reservation(kind.make("other")))
            unlinked = {uid for uid, each in history.pods.items() if RESERVATION_ALLOCATED not in each.pod.metadata.annotations}
            candidates = owner.allocator.candidates.candidates
            found.append({uid for uid in history.pods if uid in candidates and uid not in adopted and uid in unlinked})
        owned = {uid for info in history.world.reservations.by_uid.values() for uid in info.owners}
        assert found[0] == found[1] - owned
