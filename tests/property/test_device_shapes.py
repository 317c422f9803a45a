"""After any sequence of events kept columns say of every node what those of a scheduler that has just begun say: verdict, words and scores.

Pods are also placed by the plugin itself, so that what it gives out is what the one that begins anew reads from the annotations; and no
device is ever given twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import NodeBuilder, PodBuilder, node, pod
from support.device_recount import CORE, DERIVED, DEVICE_ALLOCATED, JOINT, MEMORY, RATIO, RDMA, WHOLE_GPUS, quantity
from support.placing import PlacingCluster
from support.world import EMPTY_CONFIG, Setup, World

from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator.devices import Device
from koordsched.api.validation import decode
from koordsched.cluster.port import ADDED, DELETED, WatchEvent
from koordsched.plugins.deviceshare.layouts import device_manifest
from koordsched.plugins.deviceshare.plugin import DeviceShare

CONFIG = f"{EMPTY_CONFIG}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: DeviceShare}}]}}}}}}]\n"
NODES = ("n0", "n1", "n2")
HINT = "scheduling.koordinator.sh/device-allocate-hint"
VENDOR, MODEL = "node.koordinator.sh/gpu-vendor", "node.koordinator.sh/gpu-model"
ISOLATION, POLICY = "koordinator.sh/gpu-isolation-provider", "node.koordinator.sh/gpu-partition-policy"
PARTITIONS = "scheduling.koordinator.sh/gpu-partitions"

ROOMY = node().cpu("64").memory("256Gi")
for name, amount in {WHOLE_GPUS: "99", CORE: "9900", MEMORY: "990Gi", RATIO: "9900", RDMA: "9900"}.items():
    ROOMY = ROOMY.allocatable(name, amount)
KINDS: tuple[NodeBuilder, ...] = (
    ROOMY,
    ROOMY.label(ISOLATION, "HAMi-core"),
    ROOMY.label(MODEL, "H20").label(POLICY, "Honor"),
    ROOMY.label(VENDOR, "nvidia").label(MODEL, "H800"),
)
TABLE = '{"2":[{"minors":[0,1],"allocationScore":2},{"minors":[2,3],"allocationScore":1}]}'
DEVICES: tuple[dict[str, Any], ...] = (
    {"gpus": "2x1x2", "nics": "2x1x1,2"},
    {"gpus": "4"},
    {"gpus": "1x2x2", "nics": "1x2x1,1", "annotations": {PARTITIONS: TABLE}, "labels": {POLICY: "Honor"}},
    {"gpus": "1x2x2", "annotations": {PARTITIONS: "{"}},
    {"nics": "3"},
    {"gpus": "2x1x2", "unhealthy": {1, 2}},
)
VF = {HINT: '{"rdma":{"vfSelector":{}}}'}
PODS: tuple[PodBuilder, ...] = (
    pod(),
    pod().request(WHOLE_GPUS, "1"),
    pod().request(WHOLE_GPUS, "2"),
    pod().request(CORE, "50").request(RATIO, "50"),
    pod().request(RATIO, "30").label(ISOLATION, "HAMi-core"),
    pod().request(MEMORY, "20Gi"),
    pod().request(RDMA, "1").annotation(HINT, VF[HINT]),
    pod().request(WHOLE_GPUS, "2").request(RDMA, "100").annotation(JOINT, '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'),
    pod().request(WHOLE_GPUS, "2").annotation(HINT, '{"gpu":{"requiredTopologyScope":"PCIe"}}'),
    pod().request(WHOLE_GPUS, "2").annotation("scheduling.koordinator.sh/gpu-partition-spec", "{}"),
    pod().request(CORE, "50"),
    pod().request(RDMA, "10").annotation(HINT, '{"rdma":{"allocateStrategy":"ApplyForAll"}}'),
)

named, sorts = st.sampled_from(NODES), st.integers(0, len(PODS) - 1)
events = st.lists(
    st.one_of(
        st.tuples(st.just("node"), named, st.integers(0, len(KINDS) - 1)),
        st.tuples(st.just("no node"), named),
        st.tuples(st.just("device"), named, st.integers(0, len(DEVICES) - 1)),
        st.tuples(st.just("device"), named, st.integers(0, len(DEVICES) - 1)),
        st.tuples(st.just("no device"), named),
        st.tuples(st.just("place"), st.integers(0, 7), sorts),
        st.tuples(st.just("place"), st.integers(0, 7), sorts),
        st.tuples(st.just("place"), st.integers(0, 7), sorts),
        st.tuples(st.just("gone"), st.integers(0, 7)),
        st.tuples(st.just("undone turn"), st.lists(sorts, max_size=4)),
    ),
    min_size=1,
    max_size=16,
)


def device(name: str, which: int, version: str) -> Device:
    fields = dict(DEVICES[which])
    unhealthy = fields.pop("unhealthy", ())
    metadata = {key: fields.pop(key) for key in ("labels", "annotations") if key in fields}
    manifest = device_manifest(name, **fields)
    for entry in manifest["spec"]["devices"]:
        entry["health"] = entry["minor"] not in unhealthy
    manifest["metadata"].update(metadata, uid=f"uid-device-{name}", resourceVersion=version)
    return cast("Device", decode(DEVICE, manifest))


class Cluster(PlacingCluster):
    setup, kinds, sorts = Setup(CONFIG), KINDS, PODS

    def __init__(self) -> None:
        super().__init__()
        self.devices: dict[str, Any] = {}

    def play_own(self, kind: str, details: list[Any]) -> None:
        match kind, details:
            case "device", [name, which]:
                self.devices[name] = device(name, which, self.next())
                self.world.informer(DEVICE)._objects.apply(WatchEvent(ADDED, self.devices[name]))
            case "no device", [name] if name in self.devices and not any(where == name for _, where in self.pods.values()):
                # One that pods hold something of stays behind, unhealthy, which one that begins anew cannot know.
                self.world.informer(DEVICE)._objects.apply(WatchEvent(DELETED, self.devices.pop(name)))
                self.play("no node", [name])

    def describe(self, world: World) -> None:
        for each in self.devices.values():
            world.informer(DEVICE)._objects.apply(WatchEvent(ADDED, each))

    def facts(self, world: World) -> object:
        return shown(world)

    def given_twice(self) -> Iterator[str]:
        """Yield each device of which the annotations give more than there is, and each virtual function that they give twice."""
        used: dict[tuple[str, str, int, str], Fraction] = {}
        buses = set()
        for builder, where in self.pods.values():
            allocated = json.loads(builder.build().metadata.annotations.get(DEVICE_ALLOCATED, "{}"))
            for kind, entries in allocated.items():
                for entry in entries:
                    for name, amount in entry["resources"].items():
                        place = (where, kind, entry.get("minor", 0), name)
                        used[place] = used.get(place, Fraction()) + quantity(amount)
                    for vf in entry.get("extension", {}).get("vfs", ()):
                        if (where, vf["busID"]) in buses:
                            yield f"{vf['busID']} of {where}"
                        buses.add((where, vf["busID"]))
        for place, amount in used.items():
            total = Fraction(80 << 30) if place[3] == MEMORY else Fraction(100)
            if amount > total * (Fraction(101, 100) if place[3] in DERIVED else 1):
                yield f"{place}: {amount}"


def shown(world: World) -> Mapping[str, Any]:
    """Return what REST says of every node."""
    plugin = world.profile.made["DeviceShare"]
    assert isinstance(plugin, DeviceShare)
    route = next(route for route in plugin.routes() if "name" in route.path.lower().rsplit("/", 1)[-1])
    return {name: json.loads(json.dumps(route.answer({"name": name}).body)) for name in NODES}


@given(events)
@settings(max_examples=60)
def test_kept_columns_say_of_every_node_what_new_ones_would(sequence: list[tuple[Any, ...]]) -> None:
    cluster = Cluster()
    for kind, *details in sequence:
        cluster.play(kind, details)
        found = cluster.said(cluster.world)
        assert list(cluster.given_twice()) == []
    begun = cluster.begun_anew()
    assert found == cluster.said(begun)
    assert shown(cluster.world) == shown(begun)


@given(events, named)
@settings(max_examples=30)
def test_a_simulation_without_a_nodes_pods_is_as_if_they_were(sequence: list[tuple[Any, ...]], name: str) -> None:
    cluster = Cluster()
    for kind, *details in sequence:
        cluster.play(kind, details)
    cluster.check_simulation(name)
