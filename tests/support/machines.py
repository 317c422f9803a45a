"""CPU topologies in short, as nodenumaresource.md §17 writes them."""

from __future__ import annotations

from koordsched._core.cpuset import CpuPlace, CpuTopology
from koordsched.plugins.nodenumaresource.layouts import CpuLayout


def places(layout: str) -> list[CpuPlace]:
    """Return where the CPUs of a layout such as `2x2x8x2` or `2x2x8x2,linux` sit: sockets, NUMA nodes, cores, threads."""
    return [CpuPlace(**place) for place in CpuLayout.parse(layout).details()]


def machine(layout: str) -> CpuTopology:
    """Return the topology of a layout."""
    return CpuTopology(places(layout))
