"""CPU topologies and what pods hold of them, for tests, and a plugin bench whose mirrors of nodes and topologies are written directly.

`topology("n1", "2x1x4x2")` is a NodeResourceTopology as koordlet writes it on a node of 2 sockets of 1 NUMA node of 4 cores of 2 threads.
"""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.pods import RESOURCE_SPEC, RESOURCE_STATUS
from koordsched.api.validation import decode
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from support.builders import PodBuilder, pod
from support.plugins import WatchingBench

if TYPE_CHECKING:
    from koordsched.api.meta import Unstructured

VERSIONS = count(1)
GIB = 2**30


def topology(
    name: str, layout: str = "2x1x4x2", *, memory: int = 0, annotations: dict[str, Any] | None = None, **fields: Any
) -> Unstructured:
    """Make a NodeResourceTopology. annotations: texts, or what is written as JSON; None leaves one out. fields: `zones` and the like."""
    manifest = topology_manifest(name, CpuLayout.parse(layout), memory) | fields
    texts = manifest["metadata"]["annotations"] | {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in (annotations or {}).items() if value is not None
    }
    left_out = {key for key, value in (annotations or {}).items() if value is None}
    texts = {key: value for key, value in texts.items() if key not in left_out}
    metadata = {"name": name, "uid": f"uid-nrt-{name}", "resourceVersion": str(next(VERSIONS)), "annotations": texts}
    return cast("Unstructured", decode(NODE_RESOURCE_TOPOLOGY, manifest | {"metadata": metadata}))


def lsr(name: str = "pod", cpus: int | str = 4) -> PodBuilder:
    """Begin a pod that binds so many CPUs."""
    return pod(name).cpu(str(cpus)).label("koordinator.sh/qosClass", "LSR")


def holding(builder: PodBuilder, cpuset: str, amounts: dict[int, dict[str, str]] | None = None, *, exclusive: str = "") -> PodBuilder:
    """Let the pod have been given this, as its annotations say."""
    nodes = [{"node": node, "resources": resources} for node, resources in (amounts or {}).items()]
    status = ({"cpuset": cpuset} if cpuset else {}) | ({"numaNodeResources": nodes} if nodes else {})
    held = builder.annotation(RESOURCE_STATUS, json.dumps(status))
    return held.annotation(RESOURCE_SPEC, json.dumps({"preferredCPUExclusivePolicy": exclusive})) if exclusive else held


class NumaBench(WatchingBench):
    """A plugin bench with NodeResourceTopologies."""

    def describe(self, nrt: Unstructured) -> None:
        """Let the topology come, or replace the one of its name."""
        self.came(NODE_RESOURCE_TOPOLOGY, nrt)

    def undescribe(self, name: str) -> None:
        """Let the topology be deleted."""
        self.went(NODE_RESOURCE_TOPOLOGY, name)
