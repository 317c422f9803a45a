"""NodeResourceTopology objects as koordlet writes them: zones, kubelet's policies, and annotations about CPUs (nodenumaresource.md §2).

What is read here are the parts, each for itself: a part that cannot be read raises Malformed and says nothing about the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import field

from koordsched.api.koordinator.cpulist import parse_cpus
from koordsched.api.koordinator.node_reservation import NODE_RESERVATION, node_reservation
from koordsched.api.koordinator.reading import Malformed, read_annotation, read_text
from koordsched.api.meta import Api, Int32

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CPU_TOPOLOGY = "node.koordinator.sh/cpu-topology"
POD_CPU_ALLOCS = "node.koordinator.sh/pod-cpu-allocs"
CPU_MANAGER_POLICY = "kubelet.koordinator.sh/cpu-manager-policy"
SYSTEM_QOS = "node.koordinator.sh/system-qos-resource"

T = TypeVar("T")

ZONE_TYPE = "Node"
_STATIC = "static"
_TRUE = "true"


class CpuDetail(Api):
    """Where one CPU is. Core ids may repeat from socket to socket."""

    id: Int32
    core: Int32 = 0
    socket: Int32 = 0
    node: Int32 = 0


class KubeletPolicy(Api):
    """Kubelet's CPU manager: its policy, options and reserved CPUs as written."""

    policy: str = ""
    options: dict[str, str] = field(default_factory=dict)
    reserved_cpus: str = field(default="", name="reservedCPUs")

    def has(self, option: str) -> bool:
        """Answer whether the static policy runs with this option on."""
        return self.policy == _STATIC and self.options.get(option) == _TRUE


class ZoneResource(Api):
    """One resource of a zone. `allocatable` is as written; whether it is a quantity is not checked."""

    name: str
    allocatable: Any = "0"


class Zone(Api):
    """One zone as written."""

    name: str = ""
    type: str = ""
    resources: tuple[ZoneResource, ...] = ()


class _CpuTopology(Api):
    detail: tuple[CpuDetail, ...] = ()


class _PodCpuAlloc(Api):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    cpuset: str = ""
    managed_by_kubelet: bool = False


class _SystemQos(Api):
    cpuset: str = ""
    cpuset_exclusive: bool = True


def cpu_details(text: str) -> tuple[CpuDetail, ...]:
    """Return the place of every CPU that a cpu-topology annotation names."""
    found = read_text(CPU_TOPOLOGY, text, _CpuTopology)
    return () if found is None else found.detail


def kubelet_policy(annotations: Mapping[str, str]) -> KubeletPolicy:
    """Return what kubelet's CPU manager does."""
    return read_annotation(annotations, CPU_MANAGER_POLICY, KubeletPolicy) or KubeletPolicy()


def kubelet_reserved_cpus(annotations: Mapping[str, str]) -> int:
    """Return the CPUs that kubelet keeps for the system."""
    return _cpus(annotations, CPU_MANAGER_POLICY, kubelet_policy(annotations).reserved_cpus)


def kubelet_bound_cpus(annotations: Mapping[str, str]) -> tuple[int, list[str]]:
    """Return the CPUs that kubelet itself has bound to pods, and a line for each pod whose CPUs cannot be read; those of others count."""
    text = annotations.get(POD_CPU_ALLOCS)
    allocs = None if text is None else read_text(POD_CPU_ALLOCS, text, tuple[_PodCpuAlloc, ...])
    found, problems = 0, []
    for i, alloc in enumerate(allocs or ()):
        if alloc.managed_by_kubelet and alloc.uid:
            try:
                found |= parse_cpus(alloc.cpuset)
            except ValueError as error:
                problems.append(str(Malformed(POD_CPU_ALLOCS, f"[{i}].cpuset: {error}", alloc.cpuset)))
    return found, problems


def node_reserved_cpus(annotations: Mapping[str, str]) -> int:
    """Return the CPUs that the node's reservation names."""
    reservation = node_reservation(annotations)
    return 0 if reservation is None else _cpus(annotations, NODE_RESERVATION, reservation.reserved_cpus)


def system_cpus(annotations: Mapping[str, str]) -> int:
    """Return the CPUs that pods of QoS class SYSTEM have for themselves."""
    system = read_annotation(annotations, SYSTEM_QOS, _SystemQos)
    return _cpus(annotations, SYSTEM_QOS, system.cpuset) if system is not None and system.cpuset_exclusive else 0


def zones(raw: Mapping[str, Any]) -> Sequence[Zone]:
    """Return the zones of an object's JSON."""
    return _listed(raw, "zones", Zone)


def topology_policies(raw: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of the policies that kubelet's topology manager follows."""
    return _listed(raw, "topologyPolicies", str)


def _listed(raw: Mapping[str, Any], key: str, item: type[T]) -> Sequence[T]:
    written = raw.get(key) or ()
    try:
        return msgspec.convert(written, list[item])  # type: ignore[valid-type]  # a type made at run time
    except msgspec.ValidationError as refused:
        raise Malformed(key, str(refused), str(written)) from None


def _cpus(annotations: Mapping[str, str], key: str, cpuset: str) -> int:
    try:
        return parse_cpus(cpuset)
    except ValueError as error:
        raise Malformed(key, str(error), annotations[key]) from None
