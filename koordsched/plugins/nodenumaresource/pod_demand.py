"""What a pod asks of CPUs and NUMA nodes, and what that comes to on a node with a policy of its own (nodenumaresource.md §4, §14).

A pod binds CPUs by itself when its QoS class is LSE or LSR, its priority class is prod, and the policy it wants (or the arguments' default)
is one that binds; besides, a node's policy binds every pod that requests cpu. A designated allocation is one that another component has
chosen: the scheduling-hint annotation says that there is one, the pod's present resource-status says which.

`DemandCompiler` makes all this once for pods that ask for the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from koordsched._core.numa import NumaRequest
from koordsched._core.numa_facts import NumaPolicies
from koordsched.api.koordinator.hints import OLD_SCHEDULING_HINT, SCHEDULING_HINT, scheduling_hint
from koordsched.api.koordinator.pods import (
    BIND_POLICIES,
    BIND_POLICY_TEXTS,
    DEFAULT_POLICY,
    NUMA_EXCLUSIVES,
    NUMA_POLICIES,
    NUMA_TOPOLOGY_SPEC,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
    PodResourceSpec,
    numa_topology_spec,
    resource_spec,
    resource_status,
)
from koordsched.api.koordinator.policies import CpuBindPolicy, CpuExclusivePolicy, NumaExclusive, NumaTopologyPolicy
from koordsched.api.koordinator.priority import PRIORITY_CLASS, KoordinatorPriorityClass, priority_class
from koordsched.api.koordinator.qos import QOS_CLASS, QosClass, qos_class
from koordsched.api.koordinator.reading import Malformed
from koordsched.framework.status import Status, error, unresolvable
from koordsched.plugins.nodenumaresource.reasons import FRACTIONAL_CPUS, POLICY_MISMATCH

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.pods import PodNumaStatus
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.columns import Columns

MAX_KEPT = 4096  # distinct demands: pods that all differ must not fill the memory
MAX_RESOURCES = 48  # that one NumaRequest can name
NO_SIGNATURE = (None, None)

EXTENSION = "NodeNUMAResource"


MILLI = 1000
BINDING_QOS = frozenset({QosClass.LSE.value, QosClass.LSR.value})


class PodDemand(msgspec.Struct, frozen=True):
    """What a pod asks for. Policies are NONE unless it binds CPUs by itself; NUMA policies are as annotated."""

    milli_cpu: int = 0
    num_cpus: int = 0  # whole CPUs, the rest cut off
    binds: bool = False
    required: CpuBindPolicy = CpuBindPolicy.NONE
    policy: CpuBindPolicy = CpuBindPolicy.NONE  # the required one, else the preferred one, else the arguments' default
    exclusive: CpuExclusivePolicy = CpuExclusivePolicy.NONE
    numa_policy: NumaTopologyPolicy = NumaTopologyPolicy.NONE
    numa_exclusive: NumaExclusive = NumaExclusive.NONE  # NONE: the pod names none
    spec: PodResourceSpec = PodResourceSpec()  # as written


class EffectivePolicy(NamedTuple):
    """How CPUs are bound on a node, and whether it must be so."""

    policy: CpuBindPolicy
    required: bool


def signature(pod: PodInfo) -> Hashable:
    """Return all that `resolve` reads of the pod besides its resources; None for a pod that asks for nothing about CPUs or NUMA nodes."""
    meta = pod.pod.metadata
    qos = meta.labels.get(QOS_CLASS)
    annotations = meta.annotations
    if qos not in BINDING_QOS and RESOURCE_SPEC not in annotations and NUMA_TOPOLOGY_SPEC not in annotations:
        return None
    priority = meta.labels.get(PRIORITY_CLASS, pod.pod.spec.priority) if qos in BINDING_QOS else None
    return (qos, priority, annotations.get(RESOURCE_SPEC), annotations.get(NUMA_TOPOLOGY_SPEC))


def resolve(pod: PodInfo, default_policy: str) -> PodDemand | Status:
    """Return what the pod asks for. default_policy: `defaultCPUBindPolicy` of the plugin's arguments, "" binds only pods that ask for it.

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
    return qos.value in BINDING_QOS and priority_class(pod, qos) is KoordinatorPriorityClass.PROD


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
    if demand.binds or not demand.milli_cpu or node_policy == CpuBindPolicy.NONE:
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


def written_back(spec: PodResourceSpec, effective: EffectivePolicy) -> PodResourceSpec | None:
    """Return the resource-spec of a pod whose CPUs were bound so, with what it left open filled in; None: nothing to write (§11)."""
    text = BIND_POLICY_TEXTS[effective.policy]
    required, preferred = spec.required_cpu_bind_policy, spec.preferred_cpu_bind_policy
    if effective.required and required in {"", DEFAULT_POLICY}:
        required = text
    if preferred == DEFAULT_POLICY or not (required or preferred):
        preferred = text
    filled = replace(spec, required_cpu_bind_policy=required, preferred_cpu_bind_policy=preferred)
    return None if filled == spec else filled


def designation(annotations: Mapping[str, str]) -> PodNumaStatus | Status | None:
    """Return the designated allocation, None without one. An unreadable hint is an error, an unreadable allocation is unresolvable."""
    try:
        hint = scheduling_hint(annotations)
    except Malformed as malformed:
        return error(str(malformed))
    if hint is None or EXTENSION not in hint.extensions:
        return None
    try:
        status = resource_status(annotations)
    except Malformed as malformed:
        return unresolvable(str(malformed))
    return status if status is not None and (status.cpus or status.amounts) else None


def designation_signature(annotations: Mapping[str, str]) -> Hashable:
    """Return all that `designation` reads; None for a pod without hints."""
    if SCHEDULING_HINT not in annotations and OLD_SCHEDULING_HINT not in annotations:
        return None
    return (annotations.get(SCHEDULING_HINT), annotations.get(OLD_SCHEDULING_HINT), annotations.get(RESOURCE_STATUS))


class CompiledDemand(msgspec.Struct, frozen=True):
    """A pod's demand, with its request as the kernels take it. Shared by pods that ask for the same."""

    demand: PodDemand
    request: NumaRequest
    amounts_only: bool  # it asks for no policy and no CPUs of its own, so that only nodes with a policy of their own matter
    designated: PodNumaStatus | None = None


def sign(pod: PodInfo) -> Hashable:
    """Return all that the plugin reads of the pod. Called for every pod; few of them ask for anything about CPUs."""
    meta = pod.pod.metadata
    if not meta.annotations and QOS_CLASS not in meta.labels:
        return pod.resources
    signatures = (signature(pod), designation_signature(meta.annotations))
    return pod.resources if signatures == NO_SIGNATURE else (pod.resources, *signatures)


class DemandCompiler:
    """Compiles the demands of one profile's pods, and keeps them."""

    def __init__(self, default_bind_policy: str, columns: Columns) -> None:
        self._default_bind_policy = default_bind_policy
        self._columns = columns
        self._known: dict[Hashable, CompiledDemand | Status | None] = {}
        columns.call_when_renewed(self._known.clear)

    def compile(self, pod: PodInfo) -> CompiledDemand | Status | None:
        """Return the pod's demand, the refusal of the pod as a whole, or None for a pod that requests nothing."""
        if len(pod.resources.requests) > MAX_RESOURCES:
            return self._compile(pod)  # a refusal, which is not kept: it would keep all the names
        key = sign(pod)
        if key not in self._known:
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            self._known[key] = self._compile(pod)
        return self._known[key]

    def _compile(self, pod: PodInfo) -> CompiledDemand | Status | None:
        demand = resolve(pod, self._default_bind_policy)
        if isinstance(demand, Status):
            return demand
        requests = pod.resources.requests
        if not requests:
            return None
        if len(requests) > MAX_RESOURCES:
            return unresolvable(
                f"the pod requests {len(requests)} resources, of which at most {MAX_RESOURCES} can be taken from NUMA nodes"
            )
        designated = designation(pod.pod.metadata.annotations)
        if isinstance(designated, Status):
            return designated
        policies = NumaPolicies(demand.policy, demand.required, demand.numa_policy, demand.numa_exclusive)
        known = self._columns.resources  # what no node offers is in no NUMA node either
        amounts = {known[name]: amount for name, amount in requests.items() if amount > 0 and name in known}
        amounts_only = not demand.binds and not demand.numa_policy and designated is None
        return CompiledDemand(demand, NumaRequest(amounts, self._columns.resource_names, policies), amounts_only, designated)
