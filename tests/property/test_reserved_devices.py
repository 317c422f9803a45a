"""Through any history of reservations, their owners and strangers no device is given out beyond what there is (deviceshare.md §8).

Reservations get their devices as pods do, in a cycle. A reservation and its owners together hold at least what it was given, a scheduler
that starts again counts what the one before it counted, and the standing check agrees throughout.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.builders import PodBuilder, node
from support.devices import allocation, device, gpus, holding
from support.reservations import ReservationWorld, available, hides_more_than_counts, linked
from support.world import Setup

from koordsched.api.kinds import DEVICE, NODE
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED, device_allocations
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY
from koordsched.api.koordinator.reservation_links import RESERVATION_IGNORED
from koordsched.api.koordinator.reservations import Reservation, ReservationStatus
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import ADDED, WatchEvent
from koordsched.plugins.deviceshare.state import DeviceState

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Reservation, weight: 5000}, {name: DeviceShare}]}
"""
LAYOUTS = ("3", "1x2x2,80Gi")
WHOLE = 100
Shares = dict[int, int]
"""Percent by minor of GPU."""

names, serials = st.sampled_from(["r0", "r1", "r2"]), st.integers(0, 4)
percents = st.sampled_from([20, 30, 50, 80, 100, 200])
policies = st.sampled_from(["", "Aligned", "Restricted"])
kinds = st.sampled_from(["owner", "owner", "owner", "required", "stranger", "ignoring"])
events = st.lists(
    st.one_of(
        st.tuples(st.just("reserve"), names, percents, policies),
        st.tuples(st.just("give"), serials, percents, kinds),
        st.tuples(st.just("give"), serials, percents, kinds),
        st.tuples(st.just("bind"), serials),
        st.tuples(st.just("undo"), serials),
        st.tuples(st.just("gone"), serials),
        st.tuples(st.just("end"), names),
        st.tuples(st.just("restart")),
    ),
    max_size=14,
)


def asking(serial: int, percent: int, kind: str) -> PodBuilder:
    builder = gpus(f"p{serial}", percent).uid(f"p{serial}")
    if kind != "stranger":
        builder = builder.label("app", "x")
    if kind == "required":
        builder = builder.annotation(RESERVATION_AFFINITY, "{}")
    return builder.label(RESERVATION_IGNORED, "true") if kind == "ignoring" else builder


class History:
    """A world of one node, and what the API server would hold of it."""

    def __init__(self, layout: str) -> None:
        self.layout = layout
        self.reservations: dict[str, Reservation] = {}  # Available, by name
        self.given: dict[str, tuple[PodBuilder, PodInfo]] = {}  # by uid: assumed
        self.bound: dict[str, PodInfo] = {}  # by uid
        self.world = self._start()

    def _start(self) -> ReservationWorld:
        world = ReservationWorld(Setup(CONFIG))
        made = node("n0").cpu("64").memory("512Gi").allocatable("koordinator.sh/gpu", "400").build()
        world.informer(NODE)._objects.apply(WatchEvent(ADDED, made))
        world.cache.set_node(made)
        world.informer(DEVICE)._objects.apply(WatchEvent(ADDED, device("n0", gpus=self.layout)))
        for info in self.bound.values():
            world.cache.set_pod(info, "n0")
        for reservation in self.reservations.values():
            world.reservations.put(reservation)
        return world

    def shares(self, uid: str) -> Shares:
        """Return what is counted for the pod."""
        held = self._state().held_by(uid)
        return {} if held is None else {one.minor: one.resources["koordinator.sh/gpu-core"] for one in held.allocations["gpu"]}

    def _state(self) -> DeviceState:
        state = self.world.cache.shared.find(DeviceState)
        assert state is not None
        return state

    def play(self, what: str, *details: Any) -> None:
        world = self.world
        match what, details:
            case "reserve", (name, percent, policy) if name not in self.reservations:
                made = available(name, "n0", {"koordinator.sh/gpu": str(percent)}, allocatePolicy=policy)
                pending = replace(made, status=ReservationStatus())
                try:
                    world.give(PodInfo.of_reservation(pending))
                except LookupError:
                    return
                annotations = {DEVICE_ALLOCATED: allocation(gpu=self.shares(made.metadata.uid))}
                made = self.reservations[name] = replace(made, metadata=replace(made.metadata, annotations=annotations))
                world.reservations.put(made)
            case "give", (serial, percent, kind) if f"p{serial}" not in self.given and f"p{serial}" not in self.bound:
                builder = asking(serial, percent, kind)
                info = builder.info()
                before = {name: self.shares(f"uid-{name}") for name in self.reservations}
                try:
                    _, of = world.give(info)
                except LookupError:
                    return
                self.given[info.uid] = (builder, info)
                self._check_origin(info.uid, kind, of, before)
            case "bind", (serial,) if f"p{serial}" in self.given:
                builder, info = self.given.pop(f"p{serial}")
                builder = holding(builder, gpu=self.shares(info.uid))
                drawn = world.reservations.reservation_of(info.uid)
                shown = builder.on("n0").info(counted_on_node=True) if drawn is None else linked(builder, drawn.reservation, "n0")
                self.bound[info.uid] = shown
                world.cache.set_pod(shown, "n0")
            case "undo", (serial,) if f"p{serial}" in self.given:
                world.take_back(self.given.pop(f"p{serial}")[1])
            case "gone", (serial,) if self.bound.pop(f"p{serial}", None):
                world.cache.remove_pod(f"p{serial}")
            case "end", (name,) if self.reservations.pop(name, None):
                world.reservations.remove(f"uid-{name}")
                self.bound = {uid: info for uid, info in self.bound.items() if name not in str(info.pod.metadata.annotations)}
                for uid in [uid for uid in world.cache.pods if uid.startswith("p")]:
                    if uid not in self.bound and uid not in self.given:
                        world.cache.remove_pod(uid)  # a name that comes again has the same uid here
            case "restart", ():
                for uid in list(self.given):
                    self.play("bind", int(uid[1:]))
                counted = {uid: self.shares(uid) for uid in world.cache.pods}
                self.world = self._start()
                assert {uid: self.shares(uid) for uid in self.world.cache.pods} == counted

    def _check_origin(self, uid: str, kind: str, of: str, before: dict[str, Shares]) -> None:
        """What a pod holds is free, or was held by the reservation that it was given."""
        if kind in {"stranger", "ignoring"}:
            assert not of
        for name, shares in before.items():
            if name != of:
                assert self.shares(f"uid-{name}") == shares
        if kind == "required":
            assert of
            if self.reservations[of].spec.allocate_policy == "Restricted":
                assert all(share <= before[of].get(minor, 0) for minor, share in self.shares(uid).items())

    def check(self) -> None:
        used: Shares = {}
        reserved: Shares = {}
        shared: set[int] = set()  # of which pods that ignore reservations use something, reserved or not
        for uid, pod in self.world.cache.pods.items():
            of_kind = used if pod.info.reservation is None else reserved
            for minor, share in self.shares(uid).items():
                of_kind[minor] = of_kind.get(minor, 0) + share
            if RESERVATION_IGNORED in pod.info.pod.metadata.labels:
                shared |= self.shares(uid).keys()
        assert all(share <= WHOLE for share in used.values()), used
        assert all(share + used.get(minor, 0) <= WHOLE for minor, share in reserved.items() if minor not in shared), (used, reserved)
        for name, reservation in self.reservations.items():
            whole = available_shares(reservation)
            for uid in self.world.cache.credits.drawers(f"uid-{name}"):
                whole = {minor: share - self.shares(uid).get(minor, 0) for minor, share in whole.items()}
            assert self.shares(f"uid-{name}") == {minor: share for minor, share in whole.items() if share > 0}
        for pod in self.world.cache.pods.values():
            hides_more_than_counts(self.world.cache, pod.info)
        (check,) = [checked for checked in self.world.cache.checked if checked.name == "DeviceShare"]
        assert not list(check.differences("n0"))


def available_shares(reservation: Reservation) -> Shares:
    found = device_allocations(reservation.metadata.annotations) or {}
    return {one.minor: one.resources["koordinator.sh/gpu-core"] for one in found["gpu"]}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(LAYOUTS), events)
def test_no_device_is_given_out_beyond_what_there_is(layout: str, history: list[tuple[Any, ...]]) -> None:
    made = History(layout)
    for event in history:
        made.play(*event)
        made.check()
