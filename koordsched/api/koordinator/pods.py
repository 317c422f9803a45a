"""Annotations of pods about CPUs and NUMA nodes: resource-spec, numa-topology-spec and resource-status (nodenumaresource.md §1).

Policies stay texts here where the author's text is written back, and are numbers where they are only obeyed. Amounts are milli for cpu and
whole units otherwise. Every reader raises Malformed.
"""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from koordsched.api.core import Quantity
from koordsched.api.koordinator.cpulist import format_cpus, parse_cpus
from koordsched.api.koordinator.policies import CpuBindPolicy, CpuExclusivePolicy, NumaExclusive, NumaTopologyPolicy
from koordsched.api.koordinator.reading import Malformed, read_annotation, read_text
from koordsched.api.meta import Api, Int32
from koordsched.api.quantity import (
    NANO_PER_MILLI,
    NANO_PER_UNIT,
    QuantityError,
    QuantityFormat,
    format_of,
    milli_value,
    nano,
    quantity_text,
    value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from koordsched.api.core import Pod, ResourceList

RESOURCE_SPEC = "scheduling.koordinator.sh/resource-spec"
NUMA_TOPOLOGY_SPEC = "scheduling.koordinator.sh/numa-topology-spec"
RESOURCE_STATUS = "scheduling.koordinator.sh/resource-status"

DEFAULT_POLICY = "Default"
"""A CPU bind policy that stands for the one of the plugin's arguments."""

BIND_POLICIES = {"FullPCPUs": CpuBindPolicy.FULL_PCPUS, "SpreadByPCPUs": CpuBindPolicy.SPREAD_BY_PCPUS}
"""CPU bind policies that bind; every other text does not."""
BIND_POLICY_TEXTS = {policy: text for text, policy in BIND_POLICIES.items()} | {CpuBindPolicy.NONE: ""}
EXCLUSIVE_POLICIES = {"PCPULevel": CpuExclusivePolicy.PCPU_LEVEL, "NUMANodeLevel": CpuExclusivePolicy.NUMA_NODE_LEVEL}
EXCLUSIVE_POLICY_TEXTS = {policy: text for text, policy in EXCLUSIVE_POLICIES.items()} | {CpuExclusivePolicy.NONE: ""}
NUMA_POLICIES = {
    "": NumaTopologyPolicy.NONE,
    "BestEffort": NumaTopologyPolicy.BEST_EFFORT,
    "Restricted": NumaTopologyPolicy.RESTRICTED,
    "SingleNUMANode": NumaTopologyPolicy.SINGLE_NUMA_NODE,
}
NUMA_EXCLUSIVES = {"Preferred": NumaExclusive.PREFERRED, "Required": NumaExclusive.REQUIRED}

Amounts = dict[int, dict[str, int]]
"""By NUMA id and resource."""

_WrittenAmounts = tuple[tuple[str, int, QuantityFormat], ...]
_WrittenNode = tuple[int, _WrittenAmounts]


class PodResourceSpec(Api):
    """How a pod wants its CPUs: policies as written, "" where nothing is."""

    required_cpu_bind_policy: str = field(default="", name="requiredCPUBindPolicy")
    preferred_cpu_bind_policy: str = field(default="", name="preferredCPUBindPolicy")
    preferred_cpu_exclusive_policy: str = field(default="", name="preferredCPUExclusivePolicy")

    @property
    def exclusive(self) -> CpuExclusivePolicy:
        """Return the exclusive policy; a text that is none excludes no pod."""
        return EXCLUSIVE_POLICIES.get(self.preferred_cpu_exclusive_policy, CpuExclusivePolicy.NONE)


class NumaTopologySpec(Api):
    """From which NUMA nodes a pod wants its resources: policies as written."""

    numa_topology_policy: str = field(default="", name="numaTopologyPolicy")
    single_numa_node_exclusive: str = field(default="", name="singleNUMANodeExclusive")


class PodNumaStatus(msgspec.Struct, frozen=True):
    """What a pod was given: its CPUs as a set (an int), and amounts by NUMA node. Both empty: it was looked at and given nothing exact."""

    cpus: int
    amounts: Amounts


class _NumaNode(Api):
    node: Int32 = 0
    resources: dict[str, Quantity] = field(default_factory=dict)


class _ResourceStatus(Api):
    cpuset: str = ""
    numa_node_resources: tuple[_NumaNode, ...] = field(default=(), name="numaNodeResources")


_NO_SPEC = PodResourceSpec()
_NO_NUMA_SPEC = NumaTopologySpec()


def resource_spec(annotations: Mapping[str, str]) -> PodResourceSpec:
    """Return how the pod wants its CPUs; nothing when it does not say."""
    return read_annotation(annotations, RESOURCE_SPEC, PodResourceSpec) or _NO_SPEC


def numa_topology_spec(annotations: Mapping[str, str]) -> NumaTopologySpec:
    """Return from which NUMA nodes the pod wants its resources; nothing when it does not say."""
    return read_annotation(annotations, NUMA_TOPOLOGY_SPEC, NumaTopologySpec) or _NO_NUMA_SPEC


def resource_status(annotations: Mapping[str, str]) -> PodNumaStatus | None:
    """Return what the pod was given; None when nothing is written there."""
    text = annotations.get(RESOURCE_STATUS)
    status = None if text is None else read_text(RESOURCE_STATUS, text, _ResourceStatus)
    if text is None or status is None:
        return None
    try:
        return PodNumaStatus(parse_cpus(status.cpuset), _amounts(status.numa_node_resources))
    except ValueError as error:
        raise Malformed(RESOURCE_STATUS, str(error), text) from None


def _amounts(nodes: tuple[_NumaNode, ...]) -> Amounts:
    """Add up what stands there for each NUMA node; zeros are left out."""
    found: Amounts = {}
    for i, node in enumerate(nodes):
        for resource, quantity in node.resources.items():
            path = f"numaNodeResources[{i}].resources[{resource}]"
            amount = _amount(resource, quantity, path)
            if amount:
                at = found.setdefault(node.node, {})
                at[resource] = at.get(resource, 0) + amount
    return found


def _amount(resource: str, quantity: Quantity, path: str) -> int:
    try:
        amount = milli_value(quantity) if resource == "cpu" else value(quantity)
    except QuantityError as error:
        raise error.at(path) from None
    if amount < 0:
        raise ValueError(f"{path}: {quantity!r} is less than 0")
    return amount


def resource_spec_text(spec: PodResourceSpec) -> str:
    """Write a resource-spec."""
    return msgspec.json.encode(spec).decode()


def resource_status_text(cpus: int, amounts: Mapping[int, Mapping[str, int]], formats: Callable[[int, str], QuantityFormat]) -> str:
    """Write a resource-status, by NUMA id. formats: how the amount of a NUMA node and resource is to be written."""
    nodes = tuple([(node, tuple([(name, amount, formats(node, name)) for name, amount in amounts[node].items()])) for node in amounts])
    return _status_text(cpus, nodes)


@lru_cache(maxsize=1024)
def _status_text(cpus: int, nodes: tuple[_WrittenNode, ...]) -> str:
    """Kept, because equal pods are given equal amounts."""
    body: dict[str, object] = {"cpuset": format_cpus(cpus)} if cpus else {}
    if nodes:
        body["numaNodeResources"] = [_node_body(node, amounts) for node, amounts in sorted(nodes, key=itemgetter(0))]
    return msgspec.json.encode(body).decode()


def _node_body(node: int, amounts: _WrittenAmounts) -> dict[str, object]:
    resources = {name: amount_text(name, amount, written) for name, amount, written in sorted(amounts, key=itemgetter(0))}
    return {"node": node, "resources": resources} if resources else {"node": node}


def amount_text(resource: str, amount: int, written: QuantityFormat) -> str:
    """Write an amount as a quantity."""
    return quantity_text(amount * (NANO_PER_MILLI if resource == "cpu" else NANO_PER_UNIT), written)


def request_format(pod: Pod, resource: str) -> QuantityFormat:
    """Return the format of what the pod requests in all: that of the first quantity in its sum that is not zero."""
    for requests in _requests(pod):
        quantity = requests.get(resource)
        if quantity is not None and nano(quantity):
            return format_of(quantity)
    return QuantityFormat.DECIMAL_SI


def _requests(pod: Pod) -> Iterator[ResourceList]:
    """Yield what is summed, pod-level requests first since they replace the containers'."""
    spec = pod.spec
    if spec.resources is not None:
        yield spec.resources.requests
    for container in (*spec.containers, *spec.init_containers):
        yield container.resources.requests
    yield spec.overhead
