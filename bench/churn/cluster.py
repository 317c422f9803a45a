"""The nodes, and what befalls them."""

from __future__ import annotations

from random import Random
from typing import Any

from support.controlplane.rest import Refused, Rest

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
ZONES = ("a", "b", "c")
ROOM = {"cpu": "8", "memory": "32Gi", "pods": "110"}
TAINTS = ({"key": "busy", "effect": "NoSchedule"}, {"key": "slow", "effect": "PreferNoSchedule"})
NOT_FOUND = 404

Json = dict[str, Any]


class Nodes:
    """The nodes of the churn. Names are never used twice."""

    def __init__(self, rest: Rest, random: Random, count: int) -> None:
        self.names: list[str] = []
        self._rest = rest
        self._random = random
        self._count = count
        self._made = 0
        for _ in range(count):
            self.add()

    def change(self) -> None:
        """Let one thing befall one node."""
        what = self._random.choice([self._cordon, self._uncordon, self._relabel, self._relabel, self._taint, self._untaint, self._resize])
        what(self._random.choice(self.names))

    def replace(self) -> None:
        """Take a node away with its pods, as a drain and a cluster autoscaler do, or bring one."""
        if len(self.names) < self._count:
            self.add()
        else:
            self.take_away(self.names.pop(self._random.randrange(len(self.names))))

    def take_away(self, name: str) -> None:
        """Delete the node with its pods."""
        self._rest.delete(f"{NODES}/{name}")
        self._rest.delete(f"{PODS}?gracePeriodSeconds=0&fieldSelector=spec.nodeName%3D{name}")

    def delete_orphans(self, listed: list[Json]) -> list[str]:
        """Delete pods on nodes that have gone, as the pod garbage collector would, and return their names."""
        orphans = [each["metadata"]["name"] for each in listed if each["spec"].get("nodeName", self.names[0]) not in self.names]
        for name in orphans:
            gently(self._rest.delete, f"{PODS}/{name}?gracePeriodSeconds=0")
        return orphans

    def add(self) -> None:
        name = f"n{self._made}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": ZONES[self._made % len(ZONES)]}
        labels |= {"disk": self._random.choice(["ssd", "hdd"])}
        status = {"capacity": ROOM, "allocatable": ROOM, "conditions": [{"type": "Ready", "status": "True"}]}
        self._rest.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status})
        self._made += 1
        self.names.append(name)

    def _cordon(self, name: str) -> None:
        self._patch(name, {"spec": {"unschedulable": True}})

    def _uncordon(self, name: str) -> None:
        self._patch(name, {"spec": {"unschedulable": None}})

    def _relabel(self, name: str) -> None:
        label = {"disk": self._random.choice(["ssd", "hdd", None])} if self._random.random() < 0.7 else {ZONE: self._random.choice(ZONES)}
        self._patch(name, {"metadata": {"labels": label}})

    def _taint(self, name: str) -> None:
        self._patch(name, {"spec": {"taints": [self._random.choice(TAINTS)]}})

    def _untaint(self, name: str) -> None:
        self._patch(name, {"spec": {"taints": None}})

    def _resize(self, name: str) -> None:
        """Give it more room, never less: pods that are there must go on fitting."""
        node = self._rest.get(f"{NODES}/{name}")
        more = str(min(12, int(node["status"]["allocatable"]["cpu"]) + 1))
        self._rest.patch(f"{NODES}/{name}/status", {"status": {"allocatable": {"cpu": more}, "capacity": {"cpu": more}}})

    def _patch(self, name: str, body: Json) -> None:
        self._rest.patch(f"{NODES}/{name}", body)


ZONE = "topology.kubernetes.io/zone"


def gently(call: Any, *args: Any) -> None:
    """Call, and take no notice when what it is about has gone meanwhile."""
    try:
        call(*args)
    except Refused as refused:
        if refused.status != NOT_FOUND:
            raise
