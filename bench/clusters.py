"""Clusters and pods to measure with: the same for the same numbers."""

from __future__ import annotations

import gc
from itertools import count

from support.builders import NodeBuilder, PodBuilder, node, pod
from support.world import World

from koordsched.api.podinfo import PodInfo

GIB = "Gi"
SIZES = [(cpu, memory) for cpu in ("250m", "500m", "1", "2") for memory in ("512Mi", "1Gi", "2Gi", "4Gi")]
_serial = count()


def make_node(index: int) -> NodeBuilder:
    """Make a node of 32 cores in one of three zones, with a disk type, a few pools and here and there a taint."""
    made = node(f"node-{index:05d}").cpu("32").memory("128Gi").label("zone", f"z{index % 3}").label("disk", "ssd" if index % 2 else "hdd")
    made = made.label("pool", f"p{index % 20}")
    return made.taint("dedicated", "NoSchedule", f"team-{index % 7}") if index % 10 == 0 else made


def cluster(nodes: int) -> World:
    """Return a world with this many nodes and the default profile."""
    world = World()
    for index in range(nodes):
        world.cache.set_node(make_node(index).build())
    # As a long-running process does after its first list: what stays for ever need not be looked at again and again.
    gc.collect()
    gc.freeze()
    return world


def identical_pod(world: World) -> PodInfo:
    """Return one more pod of always the same shape, signed, as it comes out of the queue."""
    return world.signed(fresh(pod("web").cpu("500m").memory("512Mi")).info())


def different_pod(world: World) -> PodInfo:
    """Return a pod whose requests, tolerations and selector no other pod has."""
    index = next(_serial)
    made = pod("job").cpu(f"{100 + index}m").memory(f"{256 + index}Mi").tolerates("dedicated", f"team-{index}", operator="Equal")
    made = made.node_selector({"pool": f"p{index % 20}", "disk": "ssd"} if index % 2 else {"zone": f"z{index % 3}"})
    return world.signed(fresh(made).info())


def fresh(builder: PodBuilder) -> PodBuilder:
    return builder.uid(f"uid-{next(_serial)}")
