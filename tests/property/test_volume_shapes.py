"""After any sequence of events a scheduler that kept its columns finds the same nodes for pods with volumes as one that has just begun."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import PodBuilder, node, pod
from support.volumes import capacity, claim, csi_driver, csi_node, pod_with, storage_class, volume, with_volumes
from support.world import World

from koordsched.api.kinds import kind_of
from koordsched.cluster.port import ADDED, DELETED, WatchEvent

ZONE = "topology.kubernetes.io/zone"
NODES = ("n0", "n1", "n2")
ZONES = ("a", "b", "a__b")

DISK = {"name": "disk", "gcePersistentDisk": {"pdName": "g"}}
PODS: tuple[PodBuilder, ...] = (
    pod_with("c0"),
    pod_with("c1"),
    pod_with("once"),
    with_volumes(pod(), DISK),
    with_volumes(pod_with("c0"), DISK),
    pod(),
)

nodes = st.tuples(st.just("node"), st.sampled_from(NODES), st.sampled_from(["a", "b", ""]))
no_nodes = st.tuples(st.just("no node"), st.sampled_from(NODES))
users = st.tuples(st.just("pod"), st.integers(0, 3), st.sampled_from(NODES), st.integers(0, len(PODS) - 1))
no_users = st.tuples(st.just("no pod"), st.integers(0, 3))
limits = st.tuples(st.just("limit"), st.sampled_from(NODES), st.integers(0, 2))
volumes = st.tuples(st.just("volume"), st.sampled_from(["v0", "v1"]), st.sampled_from(ZONES), st.sampled_from(["", *NODES]), st.booleans())
claims = st.tuples(
    st.just("claim"), st.sampled_from(["c0", "c1"]), st.sampled_from(["", "v0", "v1"]), st.sampled_from(["late", "fast", "gone"])
)
classes = st.tuples(st.just("class"), st.sampled_from(["late", "fast"]))
pools = st.tuples(st.just("pool"), st.sampled_from(NODES), st.sampled_from(["1Mi", "5Gi"]))
events = st.lists(st.one_of(nodes, no_nodes, users, no_users, limits, volumes, claims, classes, pools), min_size=1, max_size=12)


class State:
    """What there is, for a world that begins with it."""

    def __init__(self) -> None:
        self.nodes: dict[str, Any] = {}
        self.objects: dict[tuple[str, str], Any] = {}
        self.pods: dict[str, tuple[PodBuilder, str]] = {}

    def put(self, world: World, obj: Any) -> None:
        self.objects[obj.kind, obj.metadata.name] = obj
        objects_of(world, obj).apply(WatchEvent(ADDED, obj))

    def drop(self, world: World, kind: str, name: str) -> None:
        obj = self.objects.pop((kind, name), None)
        if obj is not None:
            objects_of(world, obj).apply(WatchEvent(DELETED, obj))

    def fresh(self) -> World:
        world = World()
        for obj in self.objects.values():
            objects_of(world, obj).apply(WatchEvent(ADDED, obj))
        for made in self.nodes.values():
            world.cache.set_node(made)
        for builder, where in self.pods.values():
            world.cache.set_pod(builder.on(where).info(counted_on_node=True), where)
        return world


def objects_of(world: World, obj: Any) -> Any:
    kind = kind_of(obj.api_version, obj.kind)
    assert kind is not None
    return world.informer(kind)._objects


def feasible(world: World, builder: PodBuilder) -> set[str]:
    info = world.signed(builder.info())
    shape = world.profile.shapes.pre_filter(info)
    world.profile.shapes.filter(shape, info)
    if shape.feasible_count == 0:
        return set()
    found = world.cache.nodes()
    return {found.info(row).name for row in shape.evaluation.feasible_rows().tolist()}


@given(events)
@settings(max_examples=60)
def test_kept_columns_say_what_new_ones_would(sequence: list[tuple[Any, ...]]) -> None:
    world, state = World(), State()
    state.put(world, csi_driver("d", storage_capacity=True))
    state.put(world, claim("once", accessModes=["ReadWriteOncePod"], volume="v0"))
    for kind, *details in sequence:
        happen(world, state, kind, details)
        found = [feasible(world, builder) for builder in PODS]
    fresh = state.fresh()
    assert found == [feasible(fresh, builder) for builder in PODS]


def happen(world: World, state: State, kind: str, details: list[Any]) -> None:
    match kind, details:
        case "node", [name, zone]:
            made = (node(name).label(ZONE, zone) if zone else node(name)).build()
            state.nodes[name] = made
            world.cache.set_node(made)
        case "no node", [name]:
            if state.nodes.pop(name, None) is not None:
                world.cache.remove_node(name)
        case "pod", [number, where, which]:
            name = f"user-{number}"
            if name not in state.pods:
                builder = PodBuilder(PODS[which].uid(f"uid-{name}").build())
                state.pods[name] = (builder, where)
                world.cache.set_pod(builder.on(where).info(counted_on_node=True), where)
        case "no pod", [number]:
            if state.pods.pop(f"user-{number}", None) is not None:
                world.cache.remove_pod(f"uid-user-{number}")
        case _:
            change(world, state, kind, details)


def change(world: World, state: State, kind: str, details: list[Any]) -> None:
    match kind, details:
        case "limit", [name, limit]:
            state.put(world, csi_node(name, d=limit))
        case "volume", [name, zone, host, there]:
            if there:
                hosts = [host] if host else None
                csi = {"driver": "d", "volumeHandle": name}
                state.put(world, volume(name, storage_class="late", hosts=hosts, labels={ZONE: zone}, csi=csi))
            else:
                state.drop(world, "PersistentVolume", name)
        case "claim", [name, to, storage]:
            state.put(world, claim(name, volume=to, storage_class=storage))
        case "class", [name]:
            state.put(world, storage_class(name, *(["d"] if name == "fast" else [])))
        case "pool", [name, size]:
            state.put(world, capacity(name, "fast", size, {"kubernetes.io/hostname": name}))
