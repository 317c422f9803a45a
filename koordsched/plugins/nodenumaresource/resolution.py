"""What a pod wants of CPUs and NUMA nodes, and what comes of it on a node with a policy of its own (nodenumaresource.md §4).

A pod binds CPUs by itself when its QoS class is LSE or LSR, its priority class is prod, and the policy it wants (or the arguments' default)
is one that binds; besides, a node's policy binds every pod that requests cpu. All of this is values: no state, no table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from koordsched._core.numa_policy import CpuBindPolicy, CpuExclusivePolicy, NumaExclusive, NumaTopologyPolicy
from koordsched.api.koordinator.pods import (
    BIND_POLICIES,
    BIND_POLICY_TEXTS,
    DEFAULT_POLICY,
    NUMA_EXCLUSIVES,
    NUMA_POLICIES,
    NUMA_TOPOLOGY_SPEC,
    RESOURCE_SPEC,
    ResourceSpec,
    numa_topology_spec,
    resource_spec,
)
from koordsched.api.koordinator.priority import PRIORITY_CLASS, PriorityClass, priority_class
from koordsched.api.koordinator.qos import QOS_CLASS, QosClass, qos_class
from koordsched.api.koordinator.reading import Malformed
from koordsched.framework.status import Status, error, unresolvable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo

FRACTIONAL_CPUS = unresolvable("the requested CPUs must be integer")
POLICY_MISMATCH = unresolvable("node(s) NUMA Topology policy not match")

MILLI = 1000
BINDING_QOS = frozenset({QosClass.LSE.value, QosClass.LSR.value})


class PodDemand(msgspec.Struct, frozen=True):
    """What a pod wants. Policies are NONE unless it binds CPUs by itself; NUMA policies are as annotated."""

    milli_cpu: int = 0
    num_cpus: int = 0  # whole CPUs, the rest cut off
    binds: bool = False
    required: CpuBindPolicy = CpuBindPolicy.NONE
    policy: CpuBindPolicy = CpuBindPolicy.NONE  # the required one, else the preferred one, else the arguments' default
    exclusive: CpuExclusivePolicy = CpuExclusivePolicy.NONE
    numa_policy: NumaTopologyPolicy = NumaTopologyPolicy.NONE
    numa_exclusive: NumaExclusive = NumaExclusive.NONE  # NONE: the pod does not say
    spec: ResourceSpec = ResourceSpec()  # as written


class EffectivePolicy(NamedTuple):
    """How CPUs are bound on a node, and whether it must be so."""

    policy: CpuBindPolicy
    required: bool


def signature(pod: PodInfo) -> Hashable:
    """Return all that `resolve` reads of the pod besides its resources; None for a pod that says nothing about CPUs or NUMA nodes."""
    meta = pod.pod.metadata
    qos = meta.labels.get(QOS_CLASS)
    annotations = meta.annotations
    if qos not in BINDING_QOS and RESOURCE_SPEC not in annotations and NUMA_TOPOLOGY_SPEC not in annotations:
        return None
    priority = meta.labels.get(PRIORITY_CLASS, pod.pod.spec.priority) if qos in BINDING_QOS else None
    return (qos, priority, annotations.get(RESOURCE_SPEC), annotations.get(NUMA_TOPOLOGY_SPEC))


def resolve(pod: PodInfo, default_policy: str) -> PodDemand | Status:
    """Return what the pod wants. default_policy: `defaultCPUBindPolicy` of the plugin's arguments, "" binds only who asks for it.

    A Status: an annotation is malformed (an error), the pod binds a fraction of a CPU, or its NUMA policy is none there is (D3).
    """
    annotations = pod.pod.metadata.annotations
    try:
        spec, numa = resource_spec(annotations), numa_topology_spec(annotations)
    except Malformed as malformed:
        return error(str(malformed))
    numa_policy = NUMA_POLICIES.get(numa.numa_topology_policy)
    if numa_policy is None:
        return POLICY_MISMATCH
    milli_cpu = pod.resources.requests.get("cpu", 0)
    demand = PodDemand(
        milli_cpu=milli_cpu,
        num_cpus=milli_cpu // MILLI,
        numa_policy=numa_policy,
        numa_exclusive=NUMA_EXCLUSIVES.get(numa.single_numa_node_exclusive, NumaExclusive.NONE),
        spec=spec,
    )
    return _with_binding(demand, default_policy) if may_bind(pod.pod) else demand


def may_bind(pod: Pod) -> bool:
    """Answer whether the pod is one of those that get CPUs of their own."""
    qos = qos_class(pod.metadata.labels)
    return qos.value in BINDING_QOS and priority_class(pod, qos) is PriorityClass.PROD


def _with_binding(demand: PodDemand, default_policy: str) -> PodDemand | Status:
    spec = demand.spec
    required = default_policy if spec.required_cpu_bind_policy == DEFAULT_POLICY else spec.required_cpu_bind_policy
    preferred = default_policy if spec.preferred_cpu_bind_policy in {"", DEFAULT_POLICY} else spec.preferred_cpu_bind_policy
    policy = BIND_POLICIES.get(required or preferred)
    if policy is None:
        return demand
    if demand.milli_cpu % MILLI:
        return FRACTIONAL_CPUS
    if not demand.milli_cpu:
        return demand
    return replace(demand, binds=True, required=policy if required else CpuBindPolicy.NONE, policy=policy, exclusive=spec.exclusive)


def binds_on(demand: PodDemand, node_policy: CpuBindPolicy) -> bool | Status:
    """Answer whether the pod gets CPUs of its own on a node with this policy."""
    if demand.binds or not demand.milli_cpu or node_policy is CpuBindPolicy.NONE:
        return demand.binds
    return FRACTIONAL_CPUS if demand.milli_cpu % MILLI else True


def effective_policy(demand: PodDemand, node_policy: CpuBindPolicy) -> EffectivePolicy:
    """Return how the pod's CPUs are bound on a node with this policy, if they are."""
    if demand.required:
        return EffectivePolicy(demand.required, required=True)
    if node_policy:
        return EffectivePolicy(node_policy, required=True)
    return EffectivePolicy(demand.policy, required=False)


def merged_policy(demand: PodDemand, node_policy: NumaTopologyPolicy) -> NumaTopologyPolicy | Status:
    """Return the NUMA policy that holds for the pod on a node with this policy."""
    if demand.numa_policy and node_policy and demand.numa_policy is not node_policy:
        return POLICY_MISMATCH
    return demand.numa_policy or node_policy


def written_back(spec: ResourceSpec, effective: EffectivePolicy) -> ResourceSpec | None:
    """Return the resource-spec of a pod whose CPUs were bound so, with what it left open filled in; None: nothing to write (§11)."""
    text = BIND_POLICY_TEXTS[effective.policy]
    required, preferred = spec.required_cpu_bind_policy, spec.preferred_cpu_bind_policy
    if effective.required and required in {"", DEFAULT_POLICY}:
        required = text
    if preferred == DEFAULT_POLICY or not (required or preferred):
        preferred = text
    filled = replace(spec, required_cpu_bind_policy=required, preferred_cpu_bind_policy=preferred)
    return None if filled == spec else filled
