"""Pods and nodes for tests: a fluent description that ends in `build()`.

`pod("web").cpu("2").memory("4Gi").build()` is an API Struct as it would come off the wire. A builder is immutable: each call returns
a new one, so a test may keep a common beginning and vary it. Nothing is filled in that the API server would not fill in, but for a uid
made of the name, since the cache refuses pods without one.
"""

from __future__ import annotations

from typing import Self

from msgspec.structs import replace

from koordsched.api.core import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    Node,
    NodeAffinity,
    NodeCondition,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Pod,
    PodCondition,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    Quantity,
    ResourceList,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from koordsched.api.meta import LabelSelectorRequirement, ObjectMeta, OwnerReference
from koordsched.api.podinfo import PodInfo


def pod(name: str = "pod", namespace: str = "default") -> PodBuilder:
    """Begin a pending pod with one container, `main`, that asks for nothing."""
    meta = ObjectMeta(name=name, namespace=namespace, uid=f"uid-{namespace}-{name}")
    spec = PodSpec(scheduler_name="default-scheduler", containers=(Container(name="main"),))
    return PodBuilder(Pod(api_version="v1", kind="Pod", metadata=meta, spec=spec, status=PodStatus(phase="Pending")))


def node(name: str = "node") -> NodeBuilder:
    """Begin a node that takes 110 pods and has nothing else to give."""
    meta = ObjectMeta(name=name, uid=f"uid-{name}", labels={"kubernetes.io/hostname": name})
    return NodeBuilder(Node(api_version="v1", kind="Node", metadata=meta, status=NodeStatus(allocatable={"pods": "110"})))


def requirement(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    """Make one expression of a node selector term."""
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


class PodBuilder:
    def __init__(self, made: Pod) -> None:
        self._made = made

    def build(self) -> Pod:
        return self._made

    def info(self, *, counted_on_node: bool = False) -> PodInfo:
        """Return the pod as the scheduler's own code passes it around."""
        return PodInfo(self._made, counted_on_node=counted_on_node)

    def cpu(self, quantity: Quantity) -> Self:
        return self.request("cpu", quantity)

    def memory(self, quantity: Quantity) -> Self:
        return self.request("memory", quantity)

    def request(self, resource: str, quantity: Quantity) -> Self:
        """Let the first container request this much."""
        first, *others = self._made.spec.containers
        requests = {**first.resources.requests, resource: quantity}
        first = replace(first, resources=replace(first.resources, requests=requests))
        return self._spec(containers=(first, *others))

    def container(self, requests: ResourceList) -> Self:
        """Add an app container."""
        containers = self._made.spec.containers
        added = Container(name=f"extra-{len(containers)}", resources=ResourceRequirements(requests=requests))
        return self._spec(containers=(*containers, added))

    def init_container(self, requests: ResourceList) -> Self:
        return self._init(requests, None)

    def sidecar(self, requests: ResourceList) -> Self:
        """Add an init container with restartPolicy Always."""
        return self._init(requests, "Always")

    def pod_level(self, requests: ResourceList) -> Self:
        """Set spec.resources.requests."""
        return self._spec(resources=ResourceRequirements(requests=requests))

    def overhead(self, resources: ResourceList) -> Self:
        return self._spec(overhead=resources)

    def image(self, name: str) -> Self:
        """Let the first container run this image."""
        first, *others = self._made.spec.containers
        return self._spec(containers=(replace(first, image=name), *others))

    def host_port(self, port: int, protocol: str = "", host_ip: str = "") -> Self:
        """Let the first container take a port of the node."""
        first, *others = self._made.spec.containers
        taken = ContainerPort(container_port=port, host_port=port, protocol=protocol, host_ip=host_ip)
        return self._spec(containers=(replace(first, ports=(*first.ports, taken)), *others))

    def node_selector(self, labels: dict[str, str]) -> Self:
        return self._spec(node_selector={**self._made.spec.node_selector, **labels})

    def requires(self, *expressions: LabelSelectorRequirement) -> Self:
        """Add a required node affinity term; several terms are alternatives."""
        affinity = self._node_affinity()
        required = affinity.required_during_scheduling_ignored_during_execution or NodeSelector()
        terms = (*required.node_selector_terms, NodeSelectorTerm(match_expressions=expressions))
        return self._affinity(replace(affinity, required_during_scheduling_ignored_during_execution=NodeSelector(terms)))

    def requires_name(self, name: str) -> Self:
        """Require the node of this name, as the DaemonSet controller does."""
        terms = (NodeSelectorTerm(match_fields=(requirement("metadata.name", "In", name),)),)
        return self._affinity(replace(self._node_affinity(), required_during_scheduling_ignored_during_execution=NodeSelector(terms)))

    def prefers(self, weight: int, *expressions: LabelSelectorRequirement) -> Self:
        """Add a preferred node affinity term."""
        affinity = self._node_affinity()
        term = PreferredSchedulingTerm(weight=weight, preference=NodeSelectorTerm(match_expressions=expressions))
        terms = (*affinity.preferred_during_scheduling_ignored_during_execution, term)
        return self._affinity(replace(affinity, preferred_during_scheduling_ignored_during_execution=terms))

    def tolerates(self, key: str = "", value: str = "", effect: str = "", operator: str = "") -> Self:
        added = Toleration(key=key, operator=operator, value=value, effect=effect)
        return self._spec(tolerations=(*self._made.spec.tolerations, added))

    def gate(self, name: str) -> Self:
        return self._spec(scheduling_gates=(*self._made.spec.scheduling_gates, PodSchedulingGate(name)))

    def priority(self, value: int) -> Self:
        return self._spec(priority=value)

    def scheduler(self, name: str) -> Self:
        return self._spec(scheduler_name=name)

    def on(self, node_name: str) -> Self:
        """Bind the pod: it runs there."""
        return self._spec(node_name=node_name)._status(phase="Running")

    def phase(self, phase: str) -> Self:
        return self._status(phase=phase)

    def nominated(self, node_name: str) -> Self:
        return self._status(nominated_node_name=node_name)

    def started(self, timestamp: str) -> Self:
        """Let the pod run since then."""
        return self._status(start_time=timestamp)

    def condition(self, condition: PodCondition) -> Self:
        return self._status(conditions=(*self._made.status.conditions, condition))

    def preemption_policy(self, policy: str) -> Self:
        return self._spec(preemption_policy=policy)

    def uid(self, uid: str) -> Self:
        return self._meta(uid=uid)

    def resource_version(self, version: str) -> Self:
        return self._meta(resource_version=version)

    def label(self, key: str, value: str) -> Self:
        return self._meta(labels={**self._made.metadata.labels, key: value})

    def annotation(self, key: str, value: str) -> Self:
        return self._meta(annotations={**self._made.metadata.annotations, key: value})

    def deleted_at(self, timestamp: str) -> Self:
        """Let the pod be terminating since then."""
        return self._meta(deletion_timestamp=timestamp)

    def spread(self, *constraints: TopologySpreadConstraint) -> Self:
        return self._spec(topology_spread_constraints=(*self._made.spec.topology_spread_constraints, *constraints))

    def owned_by(self, api_version: str, kind: str, name: str) -> Self:
        """Give the pod a controller."""
        owner = OwnerReference(api_version=api_version, kind=kind, name=name, controller=True)
        return self._meta(owner_references=(*self._made.metadata.owner_references, owner))

    def _init(self, requests: ResourceList, restart_policy: str | None) -> Self:
        present = self._made.spec.init_containers
        resources = ResourceRequirements(requests=requests)
        added = Container(name=f"init-{len(present)}", resources=resources, restart_policy=restart_policy)
        return self._spec(init_containers=(*present, added))

    def _node_affinity(self) -> NodeAffinity:
        affinity = self._made.spec.affinity
        return (affinity.node_affinity if affinity else None) or NodeAffinity()

    def _affinity(self, node_affinity: NodeAffinity) -> Self:
        return self._spec(affinity=replace(self._made.spec.affinity or Affinity(), node_affinity=node_affinity))

    def _meta(self, **fields: object) -> Self:
        return type(self)(replace(self._made, metadata=replace(self._made.metadata, **fields)))

    def _spec(self, **fields: object) -> Self:
        return type(self)(replace(self._made, spec=replace(self._made.spec, **fields)))

    def _status(self, **fields: object) -> Self:
        return type(self)(replace(self._made, status=replace(self._made.status, **fields)))


class NodeBuilder:
    def __init__(self, made: Node) -> None:
        self._made = made

    def build(self) -> Node:
        return self._made

    def cpu(self, quantity: Quantity) -> Self:
        return self.allocatable("cpu", quantity)

    def memory(self, quantity: Quantity) -> Self:
        return self.allocatable("memory", quantity)

    def pods(self, count: int) -> Self:
        return self.allocatable("pods", str(count))

    def allocatable(self, resource: str, quantity: Quantity) -> Self:
        """Set allocatable and capacity alike."""
        given = {**self._made.status.allocatable, resource: quantity}
        return self._status(allocatable=given, capacity=given)

    def image(self, size_bytes: int, *names: str) -> Self:
        return self._status(images=(*self._made.status.images, ContainerImage(names=names, size_bytes=size_bytes)))

    def taint(self, key: str, effect: str, value: str = "") -> Self:
        taints = (*self._made.spec.taints, Taint(key=key, effect=effect, value=value))
        return self._spec(replace(self._made.spec, taints=taints))

    def cordoned(self) -> Self:
        return self._spec(replace(self._made.spec, unschedulable=True))

    def label(self, key: str, value: str) -> Self:
        return self._meta(labels={**self._made.metadata.labels, key: value})

    def annotation(self, key: str, value: str) -> Self:
        return self._meta(annotations={**self._made.metadata.annotations, key: value})

    def zone(self, zone: str, region: str = "") -> Self:
        labelled = self.label("topology.kubernetes.io/zone", zone)
        return labelled.label("topology.kubernetes.io/region", region) if region else labelled

    def resource_version(self, version: str) -> Self:
        return self._meta(resource_version=version)

    def uid(self, uid: str) -> Self:
        return self._meta(uid=uid)

    def condition(self, type_: str, status: str) -> Self:
        return self._status(conditions=(*self._made.status.conditions, NodeCondition(type=type_, status=status)))

    def _meta(self, **fields: object) -> Self:
        return type(self)(replace(self._made, metadata=replace(self._made.metadata, **fields)))

    def _spec(self, spec: NodeSpec) -> Self:
        return type(self)(replace(self._made, spec=spec))

    def _status(self, **fields: object) -> Self:
        return type(self)(replace(self._made, status=replace(self._made.status, **fields)))
