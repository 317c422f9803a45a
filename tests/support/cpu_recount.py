"""Counts whose CPUs are whose, from nothing but annotations and topologies on the API server, and without any code of koordsched."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from support.controlplane.rest import Rest

RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"
CPU_TOPOLOGY = "node.koordinator.sh/cpu-topology"
QOS_CLASS = "koordinator.sh/qosClass"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha1/noderesourcetopologies"
BINDING = frozenset({"LSR", "LSE"})


class Place(NamedTuple):
    core: tuple[int, int]  # socket, core
    numa: int


class CpuRecount(NamedTuple):
    """Bound pods by name: their node and CPUs. `places`: where the CPUs of each node are."""

    held: dict[str, tuple[str, frozenset[int]]]
    places: dict[str, dict[int, Place]]
    pods: dict[str, Any]

    def sold_twice(self) -> list[str]:
        """Name each CPU that more than one pod holds."""
        holders = defaultdict(list)
        for name, (node, cpus) in self.held.items():
            for cpu in cpus:
                holders[node, cpu].append(name)
        return [f"CPU {cpu} of {node}: {', '.join(names)}" for (node, cpu), names in sorted(holders.items()) if len(names) > 1]

    def not_as_requested(self) -> list[str]:
        """Name bound pods that were not given what they ask for: so many CPUs, that exist, in whole cores or one of each if required."""
        return [f"{name}: {what}" for name, (node, cpus) in self.held.items() for what in self._wrong(self.pods[name], node, cpus)]

    def _wrong(self, pod: Mapping[str, Any], node: str, cpus: frozenset[int]) -> Iterable[str]:
        places, wanted = self.places[node], wanted_cpus(pod)
        if len(cpus) != wanted:
            yield f"{len(cpus)} CPUs instead of {wanted}"
        if not cpus <= places.keys():
            yield f"CPUs that {node} does not have: {sorted(cpus - places.keys())}"
            return
        cores = {places[cpu].core for cpu in cpus}
        policy = annotation(pod, RESOURCE_SPEC).get("requiredCPUBindPolicy", "")
        if policy == "FullPCPUs" and any(place.core in cores and cpu not in cpus for cpu, place in places.items()):
            yield "cores that are not whole"
        if policy == "SpreadByPCPUs" and len(cores) != len(cpus):
            yield "several CPUs of one core"


def recount_cpus(rest: Rest) -> CpuRecount:
    """List pods and topologies, and count."""
    pods = {pod["metadata"]["name"]: pod for pod in rest.get("/api/v1/pods")["items"]}
    places = {
        topology["metadata"]["name"]: {
            cpu["id"]: Place((cpu["socket"], cpu["core"]), cpu["node"]) for cpu in annotation(topology, CPU_TOPOLOGY)["detail"]
        }
        for topology in rest.get(TOPOLOGIES)["items"]
    }
    held = {
        name: (node, cpu_ids(annotation(pod, RESOURCE_STATUS).get("cpuset", "")))
        for name, pod in pods.items()
        if (node := pod["spec"].get("nodeName"))
    }
    return CpuRecount(held, places, pods)


def wanted_cpus(pod: Mapping[str, Any]) -> int:
    """Return how many CPUs of its own the pod is to have."""
    if pod["metadata"].get("labels", {}).get(QOS_CLASS) not in BINDING:
        return 0
    return sum(int(container["resources"]["requests"]["cpu"]) for container in pod["spec"]["containers"])


def annotation(body: Mapping[str, Any], key: str) -> Any:
    """Return an annotation's JSON, {} where there is none."""
    return json.loads(body["metadata"].get("annotations", {}).get(key, "{}"))


def cpu_ids(text: str) -> frozenset[int]:
    """Read a CPU list such as 0-3,8."""
    ends = [part.partition("-") for part in text.split(",") if part]
    return frozenset(cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1))
