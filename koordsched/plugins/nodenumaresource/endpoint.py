"""What `/apis/v1/plugins/NodeNUMAResource/nodes/<node>` answers: a node's topology and what pods hold of it (nodenumaresource.md §15).

Sets of CPUs are CPU lists, amounts of NUMA nodes are amplified, all lists are sorted, so that the answers of two schedulers with
equal state are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koordsched.api.koordinator.cpulist import cpu_ids, format_cpus
from koordsched.api.koordinator.nodes import amplify
from koordsched.api.koordinator.pods import EXCLUSIVE_POLICY_TEXTS, NUMA_POLICIES, amount_text
from koordsched.api.koordinator.policies import CpuExclusivePolicy, NumaTopologyPolicy
from koordsched.api.quantity import QuantityFormat
from koordsched.framework.routes import Answer, refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched._core.cpuset import CpuPlace, CpuTopology
    from koordsched.api.koordinator.pods import Amounts
    from koordsched.api.koordinator.topology import KubeletPolicy
    from koordsched.plugins.nodenumaresource.node_allocations import NodeAllocations, PodAllocation

SERVER_ERROR = 500
INVALID_TOPOLOGY = "invalid topology, please check the NodeResourceTopology object"
SOCKET_SHIFT = 16  # core ids are unique in their socket only; Koordinator shows socket << 16 | core
MILLI = 1000

POLICY_TEXTS: dict[NumaTopologyPolicy, str] = {policy: text for text, policy in NUMA_POLICIES.items()}


def describe(node: NodeAllocations, policy: NumaTopologyPolicy) -> Answer:
    """Answer for a node; `policy` is the NUMA policy that holds there."""
    topology, options = node.topology, node.options
    if topology is None or options is None or node.cpus is None:
        return refusal(SERVER_ERROR, INVALID_TOPOLOGY)
    allocated = _allocated(node)
    body: dict[str, Any] = {
        "name": node.name,
        "cpuTopology": {
            "numCPUs": topology.num_cpus,
            "numCores": topology.num_cores,
            "numNodes": topology.num_nodes,
            "numSockets": topology.num_sockets,
            "cpuDetails": {str(place.id): _cpu(place) for place in topology.details},
        },
        "reservedCPUs": format_cpus(node.reserved),
        "maxRefCount": node.max_ref_count,
        "policy": _kubelet(options.kubelet),
        "numaTopologyPolicy": POLICY_TEXTS[policy],
        "numaNodeResources": _zones(node, node.zones),
        "remainingNUMANodeResources": _zones(node, _remaining(node, allocated)),
        "allocatedNUMANodeResources": _zones(node, allocated),
        "availableCPUs": format_cpus(node.cpus.free(node.reserved)),
        "allocatedCPUs": _bound(node, topology),
        "allocatedPods": [_pod(node, found) for found in sorted(node.pods.values(), key=lambda pod: (pod.namespace, pod.name, pod.uid))],
    }
    if node.ratios:
        body["amplificationRatios"] = dict(sorted(node.ratios.items()))
    return Answer(body)


def _cpu(place: CpuPlace, ref_count: int = 0, exclusive: CpuExclusivePolicy = CpuExclusivePolicy.NONE) -> dict[str, Any]:
    return {
        "cpuID": place.id,
        "coreID": place.socket << SOCKET_SHIFT | place.core,
        "nodeID": place.node,
        "socketID": place.socket,
        "refCount": ref_count,
        "exclusivePolicy": EXCLUSIVE_POLICY_TEXTS[exclusive],
    }


def _bound(node: NodeAllocations, topology: CpuTopology) -> dict[str, Any]:
    """Return the holders by CPU; CPUs without one are left out."""
    cpus = node.cpus
    if cpus is None:
        return {}
    places = {place.id: place for place in topology.details}
    return {str(cpu): _cpu(places[cpu], cpus.ref_count(cpu), CpuExclusivePolicy(cpus.exclusive_of(cpu))) for cpu in cpu_ids(cpus.bound)}


def _kubelet(policy: KubeletPolicy) -> dict[str, Any]:
    body: dict[str, Any] = {"policy": policy.policy} if policy.policy else {}
    if policy.options:
        body["options"] = dict(sorted(policy.options.items()))
    if policy.reserved_cpus:
        body["reservedCPUs"] = policy.reserved_cpus
    return body


def _allocated(node: NodeAllocations) -> Amounts:
    """Return what pods hold of the zones, the cpu of bound CPUs amplified as the zones' is."""
    topology, cpus = node.topology, node.cpus
    shown = {zone: dict(node.allocated[zone]) for zone in node.zones if zone in node.allocated}
    if topology is not None and cpus is not None:
        for zone, amounts in shown.items():
            bound = MILLI * (cpus.bound & topology.cpus_of_node(zone)).bit_count()
            if bound and node.zone_ratio > 1:
                amounts["cpu"] = amounts.get("cpu", 0) - bound + amplify(bound, node.zone_ratio)
    return shown


def _remaining(node: NodeAllocations, allocated: Amounts) -> Amounts:
    nothing: dict[str, int] = {}
    return {
        zone: {resource: max(0, amount - allocated.get(zone, nothing).get(resource, 0)) for resource, amount in amounts.items()}
        for zone, amounts in node.zones.items()
    }


def _zones(node: NodeAllocations, amounts: Amounts) -> list[dict[str, Any]]:
    return [{"node": zone, "resources": _texts(node, zone, amounts[zone])} for zone in sorted(amounts)]


def _texts(node: NodeAllocations, zone: int, amounts: Mapping[str, int]) -> dict[str, str]:
    zones = {} if node.options is None else node.options.zones
    formats = zones[zone].formats if zone in zones else {}
    found: Iterable[tuple[str, int]] = sorted(amounts.items())
    return {resource: amount_text(resource, amount, formats.get(resource, QuantityFormat.DECIMAL_SI)) for resource, amount in found}


def _pod(node: NodeAllocations, allocation: PodAllocation) -> dict[str, Any]:
    body: dict[str, Any] = {"uid": allocation.uid, "namespace": allocation.namespace, "name": allocation.name}
    body["cpuset"] = format_cpus(allocation.cpus)
    if allocation.exclusive:
        body["cpuExclusivePolicy"] = EXCLUSIVE_POLICY_TEXTS[allocation.exclusive]
    if allocation.amounts:
        body["numaNodeResources"] = _zones(node, allocation.amounts)
    return body
