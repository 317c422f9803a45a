"""Counts a cluster's pods on its nodes, from nothing but what the API server says and without any code of koordsched.

Knows what the tests' own nodes and pods have: requests of cpu and memory in the units below, the number of pods, node selectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from support.controlplane.rest import Rest

RESOURCES = ("cpu", "memory", "pods")
UNITS = {"m": 1, "Mi": 1 << 20, "Gi": 1 << 30}  # of cpu in milli-cores, of memory in bytes


class Recount(NamedTuple):
    """What there is. `free` is by node, then by resource, negative when more is used than there is."""

    nodes: dict[str, Any]
    pods: list[Any]
    free: dict[str, dict[str, int]]

    @property
    def bound(self) -> dict[str, str]:
        """Return the node of each bound pod, by name."""
        return {pod["metadata"]["name"]: node for pod in self.pods if (node := pod["spec"].get("nodeName"))}

    @property
    def pending(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods if not pod["spec"].get("nodeName")]

    def overcommitted(self) -> dict[str, dict[str, int]]:
        """Return the nodes that have less than nothing left."""
        return {name: free for name, free in self.free.items() if min(free.values()) < 0}

    def pending_though_it_fits(self) -> list[tuple[str, str]]:
        """Return pending pods with a node that they could go to."""
        return list(self._chances())

    def _chances(self) -> Iterator[tuple[str, str]]:
        for pod in self.pods:
            if pod["spec"].get("nodeName"):
                continue
            wanted, selector = requested(pod), pod["spec"].get("nodeSelector", {})
            for name, node in self.nodes.items():
                labels = node["metadata"].get("labels", {})
                if selector.items() <= labels.items() and all(wanted[each] <= self.free[name][each] for each in RESOURCES):
                    yield pod["metadata"]["name"], name
                    break


def recount(rest: Rest) -> Recount:
    """List nodes and pods, and count."""
    nodes = {node["metadata"]["name"]: node for node in rest.get("/api/v1/nodes")["items"]}
    pods = rest.get("/api/v1/pods")["items"]
    free = {name: {each: amount(each, node["status"]["allocatable"][each]) for each in RESOURCES} for name, node in nodes.items()}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node in free:  # not so while a node has gone and its pods have not
            for each, taken in requested(pod).items():
                free[node][each] -= taken
    return Recount(nodes, pods, free)


def requested(pod: Mapping[str, Any]) -> dict[str, int]:
    """Add up what a pod's containers request; the pod itself is one."""
    total = dict.fromkeys(RESOURCES, 0) | {"pods": 1}
    for container in pod["spec"]["containers"]:
        for each, quantity in container["resources"].get("requests", {}).items():
            if each in total:
                total[each] += amount(each, quantity)
    return total


def amount(resource: str, quantity: str) -> int:
    """Read a quantity: milli-cores of cpu, bytes of memory, else a number."""
    unit = quantity.lstrip("0123456789")
    number = int(quantity.removesuffix(unit))
    if unit:
        return number * UNITS[unit]
    return number * 1000 if resource == "cpu" else number
