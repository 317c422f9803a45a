"""What a pod asks of a node, and what a node offers: framework.md §9, which is k8s.io/component-helpers/resource at v0.35.

Amounts are int64: cpu in milli, everything else in whole units. Quantities are summed exactly and rounded once. Only cpu, memory,
ephemeral-storage and scalar resources count; `pods` is no request. A pod's answer depends on nothing but the written requests, so it is
memoised by them: pods of one template share one PodResources, which must not be changed. QuantityError names the path of a bad quantity.
Pods that ask for the same share one too, however they write it, so comparing or hashing one looks at no amounts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from koordsched.api.names import is_scalar_resource_name
from koordsched.api.quantity import NANO_PER_MILLI, NANO_PER_UNIT, NegativeQuantityError, QuantityError, millis, nano, units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from koordsched.api.core import Container, ContainerPort, ContainerStatus, Node, Pod, Quantity, ResourceList

MANY_WRITTEN = 128  # quantities; a pod with more is worked out each time

DEFAULT_MILLI_CPU = 100  # counted at scoring for a container that says nothing about cpu
DEFAULT_MEMORY = 200 * 1024 * 1024  # the same for memory, bytes

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 (what an absent hostIP stands for, nothing binds here)

Written = tuple[tuple[str, "Quantity"], ...]  # a ResourceList as written, hashable
Exact = dict[str, int]  # resource -> nano-units


class HostPort(NamedTuple):
    """A port of the node that a pod occupies, with Kubernetes' defaults filled in."""

    protocol: str
    ip: str
    port: int


class PodResources(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """What a pod asks for: one object for all pods that ask for the same. Never change `requests`."""

    requests: dict[str, int]  # cpu in milli, others in whole units; no zeros
    nonzero_cpu: int  # milli, with defaults for silent containers: what node totals for scoring count
    nonzero_memory: int  # bytes, the same
    scoring_cpu: int  # milli, the incoming pod's own part at scoring: containers and overhead, no pod-level requests
    scoring_memory: int  # bytes, the same


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """Return the host ports of app containers and sidecars in order, each once (framework.md §10.3)."""
    found: list[ContainerPort] = []
    for container in pod.spec.containers:
        if container.ports:
            found += container.ports
    for container in pod.spec.init_containers:
        if container.ports and is_sidecar(container):
            found += container.ports
    if not found:
        return ()
    ports = (HostPort(port.protocol or "TCP", port.host_ip or ANY_ADDRESS, port.host_port) for port in found if port.host_port > 0)
    return tuple(dict.fromkeys(ports))


def is_sidecar(container: Container) -> bool:
    """Answer whether an init container goes on running beside the app containers."""
    return container.restart_policy == "Always"


def pod_resources(pod: Pod, *, counted_on_node: bool) -> PodResources:
    """Return what the pod asks for; QuantityError when a quantity cannot be read.

    counted_on_node: the pod runs, so a container in the middle of a resize counts with the largest of what was asked, granted and set.
    """
    spec = pod.spec
    status = pod.status
    if counted_on_node and (status.container_statuses or status.init_container_statuses):
        request_of = _effective_requests(pod)
        containers = tuple([request_of(container) for container in spec.containers])
    else:
        request_of = _written
        own = spec.containers
        if len(own) == 1:  # all pods pass here thrice, most have one container, and a comprehension costs as much as all the rest
            containers = (tuple(own[0].resources.requests.items()),)
        else:
            containers = tuple([tuple(container.resources.requests.items()) for container in own])
    inits: tuple[tuple[bool, Written], ...] = ()
    if spec.init_containers:
        sidecars = [(container, is_sidecar(container)) for container in spec.init_containers]
        inits = tuple([(sidecar, request_of(container) if sidecar else _written(container)) for container, sidecar in sidecars])
    overhead = tuple(spec.overhead.items()) if spec.overhead else ()
    pod_level = tuple(spec.resources.requests.items()) if spec.resources is not None else ()
    if len(containers) > 1 or inits:
        many = sum(map(len, containers)) + sum(len(written) for _, written in inits) > MANY_WRITTEN
    else:
        many = len(containers) == 1 and len(containers[0]) > MANY_WRITTEN
    if many or len(overhead) > MANY_WRITTEN or len(pod_level) > MANY_WRITTEN:
        return _resources_of.__wrapped__(containers, inits, overhead, pod_level)  # not memoised: it would outlive the pod
    return _resources_of(containers, inits, overhead, pod_level)


def node_allocatable(node: Node) -> dict[str, int]:
    """Return what the node offers, `pods` included, as a dict of the caller's own; QuantityError when a quantity cannot be read."""
    return dict(_allocatable_of(tuple(node.status.allocatable.items())))


def written_totals(pod: Pod) -> tuple[dict[str, int], dict[str, int]]:
    """Return what the spec requests and its limits, of every resource, in nano-units; overhead adds only to limits that there are.

    QuantityError when a quantity cannot be read.
    """
    spec = pod.spec
    own = spec.resources
    overhead = _exact(tuple(spec.overhead.items()), "spec.overhead")
    requests = _totals(pod, own.requests if own is not None else {}, lambda container: container.resources.requests)
    limits = _totals(pod, own.limits if own is not None else {}, lambda container: container.resources.limits)
    return _plus(requests, overhead), _plus(limits, {name: amount for name, amount in overhead.items() if limits.get(name)})


def exact_requests(pod: Pod, *, with_overhead: bool = True) -> Mapping[str, int]:
    """Return what the pod asks for, of every resource that it names, in nano-units: what `pod_resources` rounds. Not to be changed.

    QuantityError when a quantity cannot be read.
    """
    spec = pod.spec
    own = spec.containers
    if len(own) == 1 and not spec.init_containers and not spec.overhead and spec.resources is None:
        requests = own[0].resources.requests
        asked, exact = _latest.answer
        if requests == asked:
            return exact
        if len(requests) < MANY_WRITTEN:
            exact = _exact_requests_of_one(tuple(requests.items()))
            _latest.answer = requests, exact
            return exact
    containers = tuple([tuple(container.resources.requests.items()) for container in spec.containers])
    inits = tuple([(is_sidecar(container), _written(container)) for container in spec.init_containers])
    overhead = tuple(spec.overhead.items()) if with_overhead and spec.overhead else ()
    pod_level = tuple(spec.resources.requests.items()) if spec.resources is not None else ()
    written = sum(map(len, containers)) + sum(len(written) for _, written in inits) + len(overhead) + len(pod_level)
    work_out = _exact_requests_of if written <= MANY_WRITTEN else _exact_requests_of.__wrapped__
    return work_out(containers, inits, overhead, pod_level)


class _Latest:
    """What was worked out last for a pod of one container. Pods of one template come one after the other."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: tuple[ResourceList, Exact] = {}, {}


_latest = _Latest()


@lru_cache(maxsize=16384)
def _exact_requests_of_one(written: Written) -> Exact:
    return _exact_total((written,), (), (), ()).total


@lru_cache(maxsize=16384)
def _exact_requests_of(
    written_containers: tuple[Written, ...],
    written_inits: tuple[tuple[bool, Written], ...],
    written_overhead: Written,
    written_pod_level: Written,
) -> Exact:
    return _exact_total(written_containers, written_inits, written_overhead, written_pod_level).total


def _totals(pod: Pod, pod_level: ResourceList, of: Callable[[Container], ResourceList]) -> Exact:
    def read(container: Container) -> Exact:
        return _exact(tuple(of(container).items()), f"container {container.name}")

    inits = [(is_sidecar(container), read(container)) for container in pod.spec.init_containers]
    own = {name: amount for name, amount in _exact(tuple(pod_level.items()), "spec.resources").items() if _may_be_pod_level(name)}
    return _base([read(container) for container in pod.spec.containers], inits) | own


@lru_cache(maxsize=16384)
def _allocatable_of(written: Written) -> dict[str, int]:
    exact = _exact(written, "status.allocatable")
    return {name: _rounded(name, amount) for name, amount in exact.items() if name == "pods" or _counts(name)}


@lru_cache(maxsize=16384)
def _resources_of(
    written_containers: tuple[Written, ...],
    written_inits: tuple[tuple[bool, Written], ...],
    written_overhead: Written,
    written_pod_level: Written,
) -> PodResources:
    containers, inits, overhead, pod_level, total = _exact_total(written_containers, written_inits, written_overhead, written_pod_level)
    scoring = _plus(_base(*_with_defaults(containers, inits, _DEFAULTS)), overhead)
    nonzero = scoring
    if pod_level:
        missing = {name: amount for name, amount in _DEFAULTS.items() if name not in total}
        nonzero = _plus(_base(*_with_defaults(containers, inits, missing)) | pod_level, overhead)
    return _pod_resources(total, nonzero, scoring)


class _ExactRequests(NamedTuple):
    """A pod's requests, part by part and together."""

    containers: list[Exact]
    inits: list[tuple[bool, Exact]]
    overhead: Exact
    pod_level: Exact
    total: Exact


def _exact_total(
    written_containers: tuple[Written, ...],
    written_inits: tuple[tuple[bool, Written], ...],
    written_overhead: Written,
    written_pod_level: Written,
) -> _ExactRequests:
    containers = [_requested(written, f"spec.containers[{i}].resources.requests") for i, written in enumerate(written_containers)]
    inits = [
        (sidecar, _requested(written, f"spec.initContainers[{i}].resources.requests")) for i, (sidecar, written) in enumerate(written_inits)
    ]
    overhead = _requested(written_overhead, "spec.overhead")
    pod_level = {
        name: amount for name, amount in _requested(written_pod_level, "spec.resources.requests").items() if _may_be_pod_level(name)
    }
    return _ExactRequests(containers, inits, overhead, pod_level, _plus(_base(containers, inits) | pod_level, overhead))


def _pod_resources(total: Exact, nonzero: Exact, scoring: Exact) -> PodResources:
    requests = {name: _rounded(name, amount) for name, amount in total.items() if amount and _counts(name)}
    nonzero_cpu, nonzero_memory = millis(nonzero.get("cpu", 0)), units(nonzero.get("memory", 0))
    scoring_cpu, scoring_memory = millis(scoring.get("cpu", 0)), units(scoring.get("memory", 0))
    return shared_resources(requests, nonzero_cpu, nonzero_memory, scoring_cpu, scoring_memory)


def shared_resources(
    requests: dict[str, int], nonzero_cpu: int, nonzero_memory: int, scoring_cpu: int, scoring_memory: int
) -> PodResources:
    """Return the one object of these amounts."""
    names = sorted(requests)
    key: tuple[str | int, ...] = (*names, *[requests[name] for name in names], nonzero_cpu, nonzero_memory, scoring_cpu, scoring_memory)
    found = _KNOWN.get(key)
    if found is None:
        found = _KNOWN[key] = PodResources(requests, nonzero_cpu, nonzero_memory, scoring_cpu, scoring_memory)
    return found


_KNOWN: WeakValueDictionary[tuple[str | int, ...], PodResources] = WeakValueDictionary()

_DEFAULTS: Exact = {"cpu": DEFAULT_MILLI_CPU * NANO_PER_MILLI, "memory": DEFAULT_MEMORY * NANO_PER_UNIT}


def _base(containers: Iterable[Exact], inits: Iterable[tuple[bool, Exact]]) -> Exact:
    """Return what the containers need together: max over the moments of the pod's start and its steady state."""
    steady: Exact = {}
    for container in containers:
        _add(steady, container)
    sidecars: Exact = {}
    starting: Exact = {}
    for sidecar, requests in inits:
        if sidecar:
            _add(steady, requests)
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            _raise_to(starting, _plus(sidecars, requests))
    _raise_to(steady, starting)
    return steady


def _with_defaults(
    containers: Sequence[Exact], inits: Sequence[tuple[bool, Exact]], defaults: Exact
) -> tuple[list[Exact], list[tuple[bool, Exact]]]:
    """Give every container that does not mention a resource its default; an explicit 0 stays 0."""
    return [defaults | requests for requests in containers], [(sidecar, defaults | requests) for sidecar, requests in inits]


def _add(total: Exact, more: Exact) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _plus(left: Exact, right: Exact) -> Exact:
    total = dict(left)
    _add(total, right)
    return total


def _raise_to(total: Exact, other: Exact) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def _exact(written: Written, path: str) -> Exact:
    exact = {}
    for name, quantity in written:
        try:
            exact[name] = nano(quantity)
        except QuantityError as error:
            raise error.at(f"{path}[{name}]") from None
    return exact


def _requested(written: Written, path: str) -> Exact:
    """Read what is requested. The API server lets no negative amount into a pod; the template of a Reservation it does not look at."""
    exact = _exact(written, path)
    for name, quantity in written:
        if exact[name] < 0:
            raise NegativeQuantityError(quantity, f"{path}[{name}]")
    return exact


def _rounded(name: str, amount: int) -> int:
    return millis(amount) if name == "cpu" else units(amount)


def _counts(name: str) -> bool:
    return name in {"cpu", "memory", "ephemeral-storage"} or is_scalar_resource_name(name)


def _may_be_pod_level(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _written(container: Container) -> Written:
    return tuple(container.resources.requests.items())


def _effective_requests(pod: Pod) -> Callable[[Container], Written]:
    """Make the reader of a running pod's containers: one with status.resources counts with the largest amounts known of it."""
    infeasible = _resize_infeasible(pod)
    found = _statuses_by_name(pod)

    def effective(container: Container) -> Written:
        path, status = found.get(container.name, ("", None))
        if status is None or status.resources is None:
            return _written(container)
        lists = [(f"{path}.resources.requests", status.resources.requests), (f"{path}.allocatedResources", status.allocated_resources)]
        if not infeasible:
            lists.append((f"container {container.name}: resources.requests", container.resources.requests))
        return _largest(lists)

    return effective


def _statuses_by_name(pod: Pod) -> dict[str, tuple[str, ContainerStatus]]:
    """Return path and status by container name; where a name stands in both lists, the init container's."""
    status = pod.status
    found = {s.name: (f"status.containerStatuses[{i}]", s) for i, s in enumerate(status.container_statuses)}
    found.update((s.name, (f"status.initContainerStatuses[{i}]", s)) for i, s in enumerate(status.init_container_statuses))
    return found


def _largest(lists: Iterable[tuple[str, ResourceList]]) -> Written:
    """Return the largest quantity of each resource, as written."""
    largest: dict[str, tuple[int, Quantity]] = {}
    for path, resources in lists:
        for name, amount in _exact(tuple(resources.items()), path).items():
            if name not in largest or amount > largest[name][0]:
                largest[name] = (amount, resources[name])
    return tuple((name, quantity) for name, (_, quantity) in largest.items())


def _resize_infeasible(pod: Pod) -> bool:
    """Answer whether the kubelet has refused the pod's resize for good; the first PodResizePending condition says so."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False
