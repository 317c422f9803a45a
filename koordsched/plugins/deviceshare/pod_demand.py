"""What a pod asks of devices: its requests and annotations, as the allocator takes them (deviceshare.md §4, §6, §12).

`DeviceDemandCompiler` makes this once for pods that ask for the same. A designated allocation is one that another component has chosen: the
scheduling-hint annotation says that there is one, the pod's present device-allocated says which.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koordsched._core.device_facts import DeviceResource, DeviceType, PartitionDemand, TypeDemand
from koordsched._core.device_hints import DeviceHints
from koordsched._core.device_request import DeviceAdjustment, DeviceRequest
from koordsched.api.koordinator.device_annotations import (
    APPLY_FOR_ALL,
    DEVICE_ALLOCATE_HINT,
    DEVICE_ALLOCATED,
    DEVICE_JOINT_ALLOCATE,
    DEVICE_LEVEL,
    GPU_PARTITION_SPEC,
    REQUESTS_AS_COUNT,
    SAME_PCIE,
    TOPOLOGY_SCOPES,
    DeviceHint,
    device_allocations,
    device_hints,
    gpu_partition_spec,
    joint_allocation,
)
from koordsched.api.koordinator.device_requests import (
    GPU,
    REQUESTED_RESOURCES,
    WHOLE,
    InvalidDeviceRequest,
    device_requests,
    gpu_demand,
)
from koordsched.api.koordinator.devices import GPU_ISOLATION_PROVIDER
from koordsched.api.koordinator.hints import OLD_SCHEDULING_HINT, SCHEDULING_HINT, scheduling_hint
from koordsched.api.koordinator.pods import request_format
from koordsched.api.koordinator.reading import LONG_TEXT, Malformed
from koordsched.api.koordinator.reservation_affinity import RESERVATION_AFFINITY, reservation_affinity
from koordsched.api.selectors.labels import SelectorError, label_selector_matcher
from koordsched.framework.status import Status, error, unresolvable
from koordsched.plugins.deviceshare.node_devices import RESOURCES, TYPES, held_devices
from koordsched.plugins.deviceshare.templates import NO_TEMPLATE

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from koordsched._core.device_facts import LabelPredicate
    from koordsched._core.device_table import DeviceTable
    from koordsched.api.koordinator.device_annotations import DeviceAllocations
    from koordsched.api.koordinator.device_requests import GpuDemand
    from koordsched.api.podinfo import PodInfo
    from koordsched.config.koordinator_args import DeviceShareArgs
    from koordsched.plugins.deviceshare.templates import SharedTemplates

MAX_KEPT = 4096  # distinct demands: pods that all differ must not fill the memory
EXTENSION = "DeviceShare"
ANNOTATIONS = (
    DEVICE_ALLOCATED,
    DEVICE_ALLOCATE_HINT,
    DEVICE_JOINT_ALLOCATE,
    GPU_PARTITION_SPEC,
    RESERVATION_AFFINITY,
    SCHEDULING_HINT,
    OLD_SCHEDULING_HINT,
)
"""The annotations that the plugin reads of a pod that requests devices; of other pods it reads DEVICE_ALLOCATED alone."""
NO_ANNOTATIONS = (None,) * len(ANNOTATIONS)


class Selectors(NamedTuple):
    """Which devices of a type may be taken, by their labels, and which groups of virtual functions; None: all, and no virtual functions."""

    devices: LabelPredicate | None = None
    vfs: LabelPredicate | None = None


ANY = Selectors()


class DeviceDemand(msgspec.Struct, frozen=True, eq=False):
    """A pod's demand. Shared by pods that ask for the same.

    hints: the source of NUMA hints that kernels ask. designated: the allocation that another component has chosen; adjustment: what makes
    the allocator take exactly that. Both are None where nothing is designated.
    """

    request: DeviceRequest
    hints: DeviceHints
    adjustment: DeviceAdjustment | None = None
    designated: DeviceAllocations | None = None


def asks_for_devices(pod: PodInfo) -> bool:
    """Answer whether the pod requests any device."""
    return not REQUESTED_RESOURCES.isdisjoint(pod.resources.requests)


def sign(pod: PodInfo) -> Hashable:
    """Return all that the plugin reads of the pod. Called for every pod, so pods without devices come first. O(1)."""
    meta = pod.pod.metadata
    annotations = meta.annotations
    if REQUESTED_RESOURCES.isdisjoint(pod.resources.requests):
        return annotations.get(DEVICE_ALLOCATED) if annotations else None
    written = tuple([annotations.get(key) for key in ANNOTATIONS]) if annotations else NO_ANNOTATIONS
    return (pod.resources, written, meta.labels.get(GPU_ISOLATION_PROVIDER))


class DeviceDemandCompiler:
    """Compiles the demands of one profile's pods, and keeps them."""

    def __init__(self, args: DeviceShareArgs, table: DeviceTable, templates: SharedTemplates | None) -> None:
        """templates: None where no resource has to be one of them."""
        self._unshareable = frozenset((model.vendor, model.model) for model in args.gpu_share_unsupported_models)
        self._templated = frozenset(args.gpu_shared_resource_templates_config.matched_resources)
        self._table = table
        self._templates = templates
        self._known_version = 0
        self._known: dict[Hashable, DeviceDemand | Status | None] = {}

    def may_need_template(self, pod: PodInfo) -> bool:
        """Answer whether what the pod asks for may have to be one of the templates."""
        return self._templates is not None and not self._templated.isdisjoint(pod.resources.requests)

    @property
    def templates_version(self) -> int:
        """Return a number that differs when the templates do."""
        return 0 if self._templates is None else self._templates.version

    def compile(self, pod: PodInfo) -> DeviceDemand | Status | None:
        """Return the pod's demand, the refusal of the pod as a whole, or None for a pod that requests no devices."""
        if self.templates_version != self._known_version:
            self._known_version = self.templates_version
            self._known.clear()
        key = sign(pod)
        if key is None:
            return None
        if key not in self._known:
            demand = self._compile(pod)
            if sum(len(pod.pod.metadata.annotations.get(name, "")) for name in ANNOTATIONS) > LONG_TEXT:
                return demand
            if len(self._known) >= MAX_KEPT:
                self._known.clear()
            self._known[key] = demand
        return self._known[key]

    def _compile(self, pod: PodInfo) -> DeviceDemand | Status | None:
        annotations = pod.pod.metadata.annotations
        try:
            requests = device_requests(pod.resources.requests, partial(request_format, pod.pod))
            allocations = device_allocations(annotations)
            return self._demand(pod, requests, allocations) if requests else None
        except (InvalidDeviceRequest, Malformed) as refused:
            return unresolvable(str(refused))

    def _demand(
        self, pod: PodInfo, requests: Mapping[str, Mapping[str, int]], allocations: DeviceAllocations | None
    ) -> DeviceDemand | Status:
        annotations, labels = pod.pod.metadata.annotations, pod.pod.metadata.labels
        try:
            hints = device_hints(annotations)
        except Malformed as malformed:
            return unresolvable(f"invalid DeviceAllocateHint annotation, err: {malformed}")
        selectors: dict[str, Selectors] = {}
        for name, hint in hints.items():
            compiled = []
            for what, selector in (("Selector", hint.selector), ("VFSelector", hint.vf_selector)):
                try:
                    compiled.append(None if selector is None else label_selector_matcher(selector).matches)
                except SelectorError as problem:
                    return unresolvable(f"invalid {what} of DeviceHint, deviceType: {name}, err: {problem}")
            selectors[name] = Selectors(*compiled)
        try:
            joint = joint_allocation(annotations)
        except Malformed as malformed:
            return unresolvable(f"invalid DeviceJointAllocate annotation, err: {malformed}")
        together = [] if joint is None else [name for name in joint.device_types if name in requests]
        gpu, partition, templates = None, None, None
        if GPU in requests:
            try:
                spec = gpu_partition_spec(annotations)
            except Malformed as malformed:
                return unresolvable(f"invalid GPUPartitionSpec annotation, err: {malformed}")
            partition = None if spec is None else PartitionDemand(spec.restricted, spec.ring_bus_bandwidth)
            gpu = gpu_demand(requests[GPU])
            templates = self._templates_of(gpu)
            if templates is not None and not templates:
                return NO_TEMPLATE
        reservation_affinity(annotations)
        designated = _designation(annotations, allocations)
        if isinstance(designated, Status):
            return designated
        types = {TYPES[name]: _of_others(requests[name], hints.get(name), selectors.get(name, ANY)) for name in requests if name != GPU}
        if gpu is not None:
            types[TYPES[GPU]] = _of_gpus(gpu, selectors.get(GPU, ANY))
        shared = gpu is not None and gpu.shared
        scope = hints[GPU].required_topology_scope if GPU in hints else ""
        request = DeviceRequest(
            types,
            shared=shared,
            joint=[TYPES[name] for name in dict.fromkeys(together) if not types[TYPES[name]].apply_for_all],
            same_pcie=joint is not None and joint.required_scope == SAME_PCIE,
            partition=partition,
            scope=TOPOLOGY_SCOPES.get(scope, 0) if scope else None,
            templates=templates,
            isolation_provider=labels.get(GPU_ISOLATION_PROVIDER, "") if shared else "",
            unshareable=self._unshareable if shared else (),
        )
        adjustment = None if designated is None else designated_adjustment(designated)
        return DeviceDemand(request, DeviceHints(self._table, request, adjustment), adjustment, designated)

    def _templates_of(self, gpu: GpuDemand) -> Mapping[str, Sequence[str]] | None:
        """Return the names of the templates that equal the request, by model key; {}: none does; None: it need not equal one."""
        if self._templates is None or not gpu.shared or self._templated.isdisjoint(gpu.amounts):
            return None
        return self._templates.matching(gpu.amounts)


def _of_gpus(gpu: GpuDemand, selectors: Selectors) -> TypeDemand:
    amounts = {RESOURCES[resource]: amount for resource, amount in gpu.amounts.items()}
    return TypeDemand(amounts, gpu.count, selector=selectors.devices, vf_selector=selectors.vfs)


def _of_others(amounts: Mapping[str, int], hint: DeviceHint | None, selectors: Selectors) -> TypeDemand:
    """Return what is asked of each RDMA interface or FPGA, and of how many (§6, "Desired count")."""
    ((resource, amount),) = amounts.items()
    count, for_all = 1, False
    if amount > WHOLE:
        count, amount = amount // WHOLE, WHOLE
    elif hint is not None and hint.allocate_strategy == APPLY_FOR_ALL:
        for_all = True
    elif hint is not None and hint.allocate_strategy == REQUESTS_AS_COUNT:
        count, amount = amount, WHOLE if hint.exclusive_policy == DEVICE_LEVEL else 1
    return TypeDemand({RESOURCES[resource]: amount}, count, for_all, selectors.devices, selectors.vfs)


def _designation(annotations: Mapping[str, str], allocations: DeviceAllocations | None) -> DeviceAllocations | Status | None:
    """Return the designated allocation, None without one. A hint that cannot be read is an error, as for the plugin SchedulingHint."""
    if not allocations:
        return None
    try:
        hint = scheduling_hint(annotations)
    except Malformed as malformed:
        return error(str(malformed))
    return allocations if hint is not None and EXTENSION in hint.extensions else None


def designated_adjustment(designated: DeviceAllocations) -> DeviceAdjustment:
    """Let a pod take what is designated, and nothing else."""
    required: dict[DeviceType, dict[int, Mapping[DeviceResource, int]]] = {}
    vfs: dict[DeviceType, dict[int, Collection[str]]] = {}
    for held in held_devices(designated):
        required.setdefault(held.type, {})[held.minor] = held.amounts
        if held.vfs:
            vfs.setdefault(held.type, {})[held.minor] = held.vfs
    return DeviceAdjustment(required=required, only_vfs=vfs, complete_required=True)
