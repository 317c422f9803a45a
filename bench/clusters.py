"""Clusters and pods to measure with: the same for the same numbers."""

from __future__ import annotations

import gc
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from support.builders import NodeBuilder, PodBuilder, node, pod
from support.world import NodeSearch, Setup, World

from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY
from koordsched.api.podinfo import PodInfo
from koordsched.api.validation.decoding import decode
from koordsched.cache.cache import Cache
from koordsched.framework.handle import Handle
from koordsched.framework.profile import Profile
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.plugins.nodenumaresource.node_topology import read_options
from koordsched.plugins.nodenumaresource.state import numa_state

GIB = "Gi"
SIZES = [(cpu, memory) for cpu in ("250m", "500m", "1", "2") for memory in ("512Mi", "1Gi", "2Gi", "4Gi")]
LAYOUT = CpuLayout.parse("2x1x8x2")
CHART_PROFILE = (
    (Path(__file__).parent.parent / "config/koord-scheduler-config.yaml")
    .read_text(encoding="utf-8")
    .replace("schedulerName: koord-scheduler", "schedulerName: default-scheduler")
)
"""What Koordinator's chart configures, for the pods that these benchmarks make."""
_serial = count()


def make_node(index: int) -> NodeBuilder:
    """Make a node of 32 cores in one of three zones, with a disk type, a few pools and here and there a taint."""
    made = node(f"node-{index:05d}").cpu("32").memory("128Gi").label("zone", f"z{index % 3}").label("disk", "ssd" if index % 2 else "hdd")
    made = made.label("pool", f"p{index % 20}")
    return made.taint("dedicated", "NoSchedule", f"team-{index % 7}") if index % 10 == 0 else made


def cluster(nodes: int, setup: Setup | None = None) -> World:
    """Return a world with this many nodes; without a setup with the default profile."""
    world = World(setup)
    for index in range(nodes):
        world.cache.set_node(make_node(index).build())
    if setup is not None:
        describe_nodes(world, nodes)
    # As a long-running process does after its first list: what stays for ever need not be looked at again and again.
    gc.collect()
    gc.freeze()
    return world


def describe_nodes(handle: Handle, nodes: int) -> None:
    """Let there be what Koordinator's node agent writes of each node."""
    numa = numa_state(handle)
    for index in range(nodes):
        name = f"node-{index:05d}"
        described: Any = decode(NODE_RESOURCE_TOPOLOGY, topology_manifest(name, LAYOUT, 128 << 30))
        numa.set_options(name, read_options(described))


class Signing(Protocol):
    """What gives pods their shapes."""

    def signed(self, pod: PodInfo, /) -> PodInfo: ...


class Searching(Signing, Protocol):
    """What pods find a node on: a world, or a whole scheduler."""

    @property
    def cache(self) -> Cache: ...
    @property
    def profile(self) -> Profile: ...
    @property
    def search(self) -> NodeSearch: ...


def identical_pod(world: Signing) -> PodInfo:
    """Return one more pod of always the same shape, signed, as it comes out of the queue."""
    return world.signed(fresh(pod("web").cpu("500m").memory("512Mi")).info())


def different_pod(world: Signing) -> PodInfo:
    """Return a pod whose requests, tolerations and selector no other pod has."""
    index = next(_serial)
    made = pod("job").cpu(f"{100 + index}m").memory(f"{256 + index}Mi").tolerates("dedicated", f"team-{index}", operator="Equal")
    made = made.node_selector({"pool": f"p{index % 20}", "disk": "ssd"} if index % 2 else {"zone": f"z{index % 3}"})
    return world.signed(fresh(made).info())


def fresh(builder: PodBuilder) -> PodBuilder:
    return builder.uid(f"uid-{next(_serial)}")
