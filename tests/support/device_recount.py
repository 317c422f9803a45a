"""Counts who has which devices, from nothing but annotations and Devices on the API server, and without any code of koordsched."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from support.controlplane.rest import Rest

DEVICE_ALLOCATED = "scheduling.koordinator.sh/device-allocated"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
CORE, MEMORY, RATIO = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio"
WHOLE_GPUS, RDMA = "nvidia.com/gpu", "koordinator.sh/rdma"
SUFFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9}
DERIVED = frozenset({MEMORY, RATIO})
"""One follows from the other, rounded down: pods that name different ones may come to under 1 % too much (deviceshare.md §6.3)."""

Place = tuple[str, str, int]
"""Node, device type, minor."""


class DeviceRecount(NamedTuple):
    """Bound pods by name: their node and what the annotation lists. `totals`: what devices offer; `switches`: where they are."""

    held: dict[str, tuple[str, dict[str, list[Any]]]]
    totals: dict[Place, dict[str, Fraction]]
    switches: dict[Place, str]
    pods: dict[str, Any]

    def used(self) -> dict[Place, dict[str, Fraction]]:
        sums: dict[Place, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        for node, types in self.held.values():
            for kind, entries in types.items():
                for entry in entries:
                    for name, amount in entry.get("resources", {}).items():
                        sums[node, kind, entry.get("minor", 0)][name] += quantity(amount)
        return sums

    def given_twice(self) -> list[str]:
        """Name each device of which pods hold more than there is, and each virtual function that several hold."""
        found = []
        for place, amounts in sorted(self.used().items()):
            total = self.totals.get(place, {})
            for name, amount in amounts.items():
                slack = total.get(name, Fraction()) / 100 if name in DERIVED else Fraction()
                if amount > total.get(name, Fraction()) + slack:
                    found.append(f"{place}: {amount} {name} of {total.get(name)}")
        holders = defaultdict(list)
        for name, (node, types) in self.held.items():
            for entries in types.values():
                for entry in entries:
                    for vf in entry.get("extension", {}).get("vfs", ()):
                        holders[node, vf["busID"]].append(name)
        return found + [f"{bus} of {node}: {names}" for (node, bus), names in sorted(holders.items()) if len(names) > 1]

    def not_as_requested(self) -> list[str]:
        """Name bound pods that were not given what they ask for: so many devices, different ones, and on the same switches if joint."""
        return [f"{name}: {what}" for name, (node, types) in self.held.items() for what in self._wrong(self.pods[name], node, types)]

    def _wrong(self, pod: Mapping[str, Any], node: str, types: Mapping[str, list[Any]]) -> Iterable[str]:
        wanted = requests(pod)
        minors = {kind: [entry.get("minor", 0) for entry in entries] for kind, entries in types.items()}
        if any(len(set(each)) != len(each) for each in minors.values()):
            yield f"a device twice: {minors}"
        gpus = wanted.get(WHOLE_GPUS, 1 if {CORE, MEMORY, RATIO} & wanted.keys() else 0)
        if len(minors.get("gpu", ())) != gpus:
            yield f"{minors} instead of {gpus} GPUs"
        if bool(minors.get("rdma")) != (RDMA in wanted):
            yield f"{minors}, asked for {wanted}"
        if annotation(pod, JOINT).get("requiredScope"):
            switches = {kind: {self.switches[node, kind, minor] for minor in each} for kind, each in minors.items()}
            if switches["gpu"] != switches["rdma"]:
                yield f"on different switches: {switches}"


def recount_devices(rest: Rest) -> DeviceRecount:
    """List pods and Devices, and count."""
    pods = {pod["metadata"]["name"]: pod for pod in rest.get("/api/v1/pods")["items"]}
    totals, switches = {}, {}
    for device in rest.get(DEVICES)["items"]:
        for entry in device["spec"].get("devices", ()):
            place = (device["metadata"]["name"], entry["type"], entry["minor"])
            totals[place] = {name: quantity(amount) for name, amount in entry.get("resources", {}).items()}
            switches[place] = entry.get("topology", {}).get("pcieID", "")
    held = {name: (node, annotation(pod, DEVICE_ALLOCATED)) for name, pod in pods.items() if (node := pod["spec"].get("nodeName"))}
    return DeviceRecount(held, totals, switches, pods)


def requests(pod: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for container in pod["spec"]["containers"]:
        for name, amount in container.get("resources", {}).get("requests", {}).items():
            found[name] += int(quantity(amount)) if name not in {"cpu", "memory"} else 0
    return {name: amount for name, amount in found.items() if amount}


def annotation(body: Mapping[str, Any], key: str) -> Any:
    """Return an annotation's JSON, {} where there is none."""
    return json.loads(body["metadata"].get("annotations", {}).get(key, "{}"))


def quantity(text: object) -> Fraction:
    written = str(text)
    for suffix, factor in SUFFIXES.items():
        if written.endswith(suffix):
            return Fraction(written.removesuffix(suffix)) * factor
    return Fraction(written.removesuffix("m")) / (1000 if written.endswith("m") else 1)
