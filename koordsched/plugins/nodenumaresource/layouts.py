"""CPU layouts in short: `2x2x26x2` means 2 sockets x 2 NUMA nodes x 26 cores x 2 threads; `,linux` numbers them as Linux does.

Makes the NodeResourceTopology that koordlet would write on such a node (nodenumaresource.md §2): every CPU's place in the annotation, and a
zone a NUMA node with its share of cpu and memory. Without `linux` the threads of core c are CPUs c*T to c*T+T-1; with it thread t of core c
is CPU c + t*cores, cores counted over the whole node. Used by `simulate --cpu-topology`, and by manifests and scenarios that write
`cpuTopology: 2x2x26x2` at the top level of a NodeResourceTopology.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from koordsched.api.kinds import NODE_RESOURCE_TOPOLOGY
from koordsched.api.koordinator.topology import CPU_TOPOLOGY
from koordsched.api.quantity import QuantityError, milli_value, value
from koordsched.manifests.completion import Json, mapping

SHORT_FORM = "cpuTopology"
MILLI = 1000
MAX_CPUS = 4096
MAX_NUMA_NODES = 64
LAYOUT = r"(?P<counts>[0-9]{1,4}(?:x[0-9]{1,4}){3})(?P<linux>,linux)?"


class CpuLayout(msgspec.Struct, frozen=True):
    """How the CPUs of a node are arranged: sockets, NUMA nodes a socket, cores a NUMA node, threads a core."""

    sockets: int
    numa_nodes: int
    cores: int
    threads: int
    linux: bool = False

    @classmethod
    def parse(cls, text: str) -> CpuLayout:
        """Read `SxNxCxT` or `SxNxCxT,linux`. ValueError says what is wrong with it."""
        match = re.fullmatch(LAYOUT, text)
        if match is None:
            raise ValueError(f"{text!r}: expected SOCKETSxNUMAxCORESxTHREADS such as 2x2x26x2, and maybe ,linux after it")
        sockets, numa_nodes, cores, threads = map(int, match["counts"].split("x"))
        layout = cls(sockets, numa_nodes, cores, threads, linux=match["linux"] is not None)
        if not layout.cpus:
            raise ValueError(f"{text!r}: expected at least 1 of each")
        if layout.cpus > MAX_CPUS:
            raise ValueError(f"{text!r}: {layout.cpus} CPUs, expected at most {MAX_CPUS}")
        if layout.zones > MAX_NUMA_NODES:
            raise ValueError(f"{text!r}: {layout.zones} NUMA nodes, expected at most {MAX_NUMA_NODES}")
        return layout

    @property
    def zones(self) -> int:
        """Return the number of NUMA nodes."""
        return self.sockets * self.numa_nodes

    @property
    def cpus(self) -> int:
        return self.zones * self.cores * self.threads

    def details(self) -> Iterator[dict[str, int]]:
        """Yield the place of every CPU, in the order of their ids."""
        cores = self.zones * self.cores
        for cpu in range(self.cpus):
            core = cpu % cores if self.linux else cpu // self.threads
            numa = core // self.cores
            yield {"id": cpu, "core": core, "socket": numa // self.numa_nodes, "node": numa}


def node_topology(layout: CpuLayout, node: Json) -> Json:
    """Return a NodeResourceTopology of this layout for a node's manifest, with its memory."""
    return topology_manifest(node["metadata"]["name"], layout, _allocatable(node, "memory"))


def layout_doubt(layout: CpuLayout, nodes: Sequence[Json]) -> str:
    """Say which nodes offer another number of CPUs than the layout has, or ""."""
    others = [node for node in nodes if _allocatable(node, "cpu") != MILLI * layout.cpus]
    if not others:
        return ""
    said = f"{len(others)} of {len(nodes)} nodes offer another number of CPUs than the {layout.cpus} of --cpu-topology"
    return f"{said}, {others[0]['metadata']['name']} for example"


def _allocatable(node: Json, resource: str) -> int:
    """Return what a node's manifest has to offer, cpu in milli; 0 when that cannot be read."""
    quantity = mapping(mapping(node.get("status")).get("allocatable")).get(resource, 0)
    try:
        return milli_value(quantity) if resource == "cpu" else value(quantity)
    except QuantityError:
        return 0


def topology_manifest(name: str, layout: CpuLayout, memory: int = 0) -> Json:
    """Return the NodeResourceTopology of a node. memory: bytes of the whole node, shared out evenly; 0 leaves memory out of the zones."""
    return {
        "apiVersion": NODE_RESOURCE_TOPOLOGY.api_version,
        "kind": NODE_RESOURCE_TOPOLOGY.kind,
        "metadata": {"name": name, "annotations": {CPU_TOPOLOGY: _annotation(layout)}},
        "topologyPolicies": [],
        "zones": zones_of(layout, memory),
    }


def zones_of(layout: CpuLayout, memory: int = 0) -> list[Json]:
    """Return a zone for each NUMA node."""
    amounts = {"cpu": str(layout.cores * layout.threads)}
    if memory:
        amounts["memory"] = str(memory // layout.zones)
    resources = [{"name": name, "capacity": amount, "allocatable": amount, "available": amount} for name, amount in amounts.items()]
    return [{"name": f"node-{numa}", "type": "Node", "resources": resources} for numa in range(layout.zones)]


def complete_topology(body: Mapping[str, Any]) -> Json:
    """Add what the short form leaves out: apiVersion, the CPUs and zones of `cpuTopology`, empty lists, capacity and available.

    ValueError: `cpuTopology` is none. It is raised here because the API's validation does not know the field.
    """
    made: Json = {"apiVersion": NODE_RESOURCE_TOPOLOGY.api_version, "topologyPolicies": [], **body}
    if SHORT_FORM in made:
        try:
            layout = CpuLayout.parse(str(made.pop(SHORT_FORM)))
        except ValueError as mistake:
            raise ValueError(f"{SHORT_FORM}: {mistake}") from None
        metadata = mapping(made.get("metadata"))
        made["metadata"] = {**metadata, "annotations": {CPU_TOPOLOGY: _annotation(layout), **mapping(metadata.get("annotations"))}}
        made.setdefault("zones", zones_of(layout))
    made["zones"] = _complete_zones(made.get("zones", []))
    return made


@cache
def _annotation(layout: CpuLayout) -> str:
    return msgspec.json.encode({"detail": list(layout.details())}).decode()


def _complete_zones(zones: Any) -> Any:
    """Fill in capacity and available from allocatable; what has the wrong type is left for the API's validation to name."""
    if not isinstance(zones, list):
        return zones
    return [
        {**zone, "resources": [_complete_resource(resource) for resource in zone["resources"]]}
        if isinstance(zone, dict) and isinstance(zone.get("resources"), list)
        else zone
        for zone in zones
    ]


def _complete_resource(resource: Any) -> Any:
    if not isinstance(resource, dict) or "allocatable" not in resource:
        return resource
    return {"capacity": resource["allocatable"], "available": resource["allocatable"], **resource}
