"""Rules for pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.names import is_dns_label, is_dns_subdomain, is_qualified_name
from koordsched.api.validation.metadata import KEY_RULE, LABEL_RULE, SUBDOMAIN_RULE, check_labels, check_time
from koordsched.api.validation.placement import check_affinity, check_spread_constraints, check_toleration
from koordsched.api.validation.quantities import check_container_list, check_container_resources, check_pod_resources

if TYPE_CHECKING:
    from koordsched.api.core import Container, ContainerPort, Pod, PodSchedulingGate, PodSpec, PodStatus
    from koordsched.api.validation.errors import Errors

MAX_PORT = 65535
PROTOCOLS = ("SCTP", "TCP", "UDP")


def check_pod(errors: Errors, pod: Pod) -> None:
    spec = pod.spec
    _check_containers(errors, spec)
    check_container_list(errors, "spec.overhead", spec.overhead)
    if spec.resources is not None:
        check_pod_resources(errors, "spec.resources", spec.resources)
    check_labels(errors, "spec.nodeSelector", spec.node_selector)
    for i, toleration in enumerate(spec.tolerations):
        check_toleration(errors, f"spec.tolerations[{i}]", toleration)
    if spec.affinity is not None:
        check_affinity(errors, "spec.affinity", spec.affinity)
    check_spread_constraints(errors, "spec.topologySpreadConstraints", spec.topology_spread_constraints)
    _check_gates(errors, spec.scheduling_gates)
    _check_words(errors, spec)
    check_status(errors, pod.status)


def _check_containers(errors: Errors, spec: PodSpec) -> None:
    if not spec.containers:
        errors.required("spec.containers", "a pod has at least one container")
    names: set[str] = set()
    for field, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for i, container in enumerate(containers):
            path = f"spec.{field}[{i}]"
            _check_container_name(errors, path, container.name, names)
            check_container_resources(errors, f"{path}.resources", container.resources)
            for j, port in enumerate(container.ports):
                _check_port(errors, f"{path}.ports[{j}]", port)
    _check_unique_host_ports(errors, spec.containers)
    for i, container in enumerate(spec.init_containers):
        if container.restart_policy not in {None, "Always", "OnFailure", "Never"}:
            errors.one_of(f"spec.initContainers[{i}].restartPolicy", container.restart_policy or "", ("Always", "OnFailure", "Never"))


def _check_container_name(errors: Errors, path: str, name: str, names: set[str]) -> None:
    if not name:
        errors.required(f"{path}.name")
    elif not is_dns_label(name):
        errors.invalid(f"{path}.name", name, LABEL_RULE)
    elif name in names:
        errors.duplicate(f"{path}.name", name, "must be unique among the pod's containers")
    names.add(name)


def _check_port(errors: Errors, path: str, port: ContainerPort) -> None:
    for field, number in (("containerPort", port.container_port), ("hostPort", port.host_port)):
        if not 0 <= number <= MAX_PORT:
            errors.invalid(f"{path}.{field}", number, f"must be between 0 and {MAX_PORT}")
    if port.protocol and port.protocol not in PROTOCOLS:
        errors.one_of(f"{path}.protocol", port.protocol, PROTOCOLS)


def _check_unique_host_ports(errors: Errors, containers: tuple[Container, ...]) -> None:
    seen = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.ports):
            key = (port.protocol or "TCP", port.host_ip, port.host_port)
            if port.host_port and key in seen:
                errors.duplicate(f"spec.containers[{i}].ports[{j}].hostPort", "/".join(map(str, key)), "a host port can be used once")
            seen.add(key)


def _check_gates(errors: Errors, gates: tuple[PodSchedulingGate, ...]) -> None:
    seen = set()
    for i, gate in enumerate(gates):
        path = f"spec.schedulingGates[{i}]"
        if not is_qualified_name(gate.name):
            errors.invalid(path, gate.name, KEY_RULE)
        if gate.name in seen:
            errors.duplicate(path, gate.name)
        seen.add(gate.name)


def _check_words(errors: Errors, spec: PodSpec) -> None:
    """Check the names and enumerations of the spec itself."""
    for field, name in (("nodeName", spec.node_name), ("priorityClassName", spec.priority_class_name)):
        if name and not is_dns_subdomain(name):
            errors.invalid(f"spec.{field}", name, SUBDOMAIN_RULE)
    if spec.preemption_policy not in {None, "PreemptLowerPriority", "Never"}:
        errors.one_of("spec.preemptionPolicy", spec.preemption_policy or "", ("PreemptLowerPriority", "Never"))
    if spec.termination_grace_period_seconds is not None and spec.termination_grace_period_seconds < 0:
        errors.invalid("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, "must be greater than or equal to 0")


def check_status(errors: Errors, status: PodStatus) -> None:
    check_time(errors, "status.startTime", status.start_time)
    for i, condition in enumerate(status.conditions):
        path = f"status.conditions[{i}]"
        check_time(errors, f"{path}.lastTransitionTime", condition.last_transition_time)
        check_time(errors, f"{path}.lastProbeTime", condition.last_probe_time)
    for field, statuses in (("containerStatuses", status.container_statuses), ("initContainerStatuses", status.init_container_statuses)):
        for i, container in enumerate(statuses):
            path = f"status.{field}[{i}]"
            check_container_list(errors, f"{path}.allocatedResources", container.allocated_resources)
            if container.resources is not None:
                check_container_resources(errors, f"{path}.resources", container.resources)
