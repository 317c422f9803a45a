"""What vendors' device plugins read to find the devices that a pod was given (deviceshare.md §11, feature gate DevicePluginAdaption).

kubelet calls a device plugin without the pod's name. By these annotations the device plugins of some vendors find the pod that is meant,
and hand out the devices that the scheduler chose. Where a vendor's cannot distinguish two pods, a lock on the Node (`node_locks`) lets one
pod at a time be bound there. A Reservation takes no lock: nothing runs for it, so no device plugin would ever release it.

Annotations of an earlier attempt that this one does not write are removed (*Here:* the reference leaves them, so that a pod may carry the
annotations of two vendors).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from koordsched.api.kinds import DEVICE
from koordsched.api.koordinator.device_requests import GPU, GPU_CORE, GPU_MEMORY
from koordsched.api.koordinator.devices import GPU_ISOLATION_PROVIDER, GPU_MODEL, GPU_VENDOR
from koordsched.config.duration import NANO
from koordsched.framework.cycle_state import Annotations, annotate
from koordsched.framework.status import Status, error
from koordsched.plugins.deviceshare.node_locks import LockRefused, node_locks
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Pod
    from koordsched.api.koordinator.device_annotations import AllocatedDevice, DeviceAllocations
    from koordsched.api.koordinator.devices import Device
    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle

GATE = "DevicePluginAdaption"

BIND_TIMESTAMP = "scheduling.koordinator.sh/bind-timestamp"
GPU_MINORS = "scheduling.koordinator.sh/gpu-minors"
HAMI_CORE = "HAMi-core"
HAMI_NODE = "hami.io/vgpu-node"
"""A label of pods: the node where HAMi's own components look after their GPUs."""

HUAWEI_TIME = "predicate-time"
HUAWEI_NPUS = "huawei.com/npu-core"
HUAWEI_310P = "huawei.com/Ascend310P"
MODEL_300I_DUO = "Ascend-310P3-300I-DUO"

CAMBRICON_ASSIGNED = "CAMBRICON_DSMLU_ASSIGHED"  # spelt so by Cambricon's device plugin
CAMBRICON_PROFILE = "CAMBRICON_DSMLU_PROFILE"
CAMBRICON_LOCK = "cambricon.com/dsmlu.lock"
CAMBRICON_MEMORY_UNIT = 256 << 20  # bytes

METAX_DEVICES = "metax-tech.com/gpu-devices-allocated"
METAX_LOCK = "hami.io/mutex.lock"
METAX_MEMORY_UNIT = 1 << 20  # bytes

WRITTEN = (
    BIND_TIMESTAMP,
    GPU_MINORS,
    HUAWEI_TIME,
    HUAWEI_NPUS,
    HUAWEI_310P,
    CAMBRICON_ASSIGNED,
    CAMBRICON_PROFILE,
    METAX_DEVICES,
)
"""The annotations of pods that adaptation writes."""


class AdaptationError(Exception):
    """A vendor's device plugin cannot hand out what the pod was given; the text says why."""


class VendorFormat(NamedTuple):
    """What a vendor's device plugin reads. `annotations` gets the GPUs that were given, their model and nanoseconds since the epoch."""

    annotations: Callable[[Sequence[AllocatedDevice], str, str], dict[str, str]]
    lock: str = ""  # annotation of the Node; "": the device plugin needs no lock


def _huawei(given: Sequence[AllocatedDevice], model: str, now: str) -> dict[str, str]:
    if model == MODEL_300I_DUO:
        return {HUAWEI_TIME: now, HUAWEI_310P: _minors(given, "Ascend310P-")}
    template = given[0].template
    return {HUAWEI_TIME: now, HUAWEI_NPUS: f"{given[0].minor}-{template}" if template else _minors(given)}


def _cambricon(given: Sequence[AllocatedDevice], _model: str, _now: str) -> dict[str, str]:
    if len(given) > 1:
        raise AdaptationError("multiple gpu share is not supported on device side")
    core, units = _core_and_memory(given[0], CAMBRICON_MEMORY_UNIT)
    return {CAMBRICON_ASSIGNED: "false", CAMBRICON_PROFILE: f"{given[0].minor}_{core}_{units}"}


def _metax(given: Sequence[AllocatedDevice], _model: str, _now: str) -> dict[str, str]:
    described = []
    for device in given:
        core, mebibytes = _core_and_memory(device, METAX_MEMORY_UNIT)
        described.append({"uuid": device.id, "compute": core, "vRam": mebibytes})
    return {METAX_DEVICES: msgspec.json.encode([described]).decode()}


def _core_and_memory(device: AllocatedDevice, unit: int) -> tuple[int, int]:
    """Return the percentage of the cores, and the memory in whole units. unit: in bytes. AdaptationError: one of them is missing."""
    core, memory = device.resources.get(GPU_CORE), device.resources.get(GPU_MEMORY, 0)
    if core is None:
        raise AdaptationError("gpu core resource is required")
    if memory < unit:
        raise AdaptationError(f"gpu memory must not be less than {unit} bytes")
    return core, memory // unit


def _minors(given: Sequence[AllocatedDevice], prefix: str = "") -> str:
    return ",".join(f"{prefix}{device.minor}" for device in given)


FORMATS = {
    "huawei": VendorFormat(_huawei),
    "cambricon": VendorFormat(_cambricon, CAMBRICON_LOCK),
    "metax": VendorFormat(_metax, METAX_LOCK),
}
"""By the Device's label gpu-vendor. Device plugins of other vendors get the annotations that all pods get."""


class DevicePluginAdapter:
    """Adapts allocations for the device plugins of all vendors."""

    def __init__(self, handle: Handle) -> None:
        self._clock = handle.clock
        self._devices: Mapping[str, Device] = handle.informer(DEVICE).store
        self._locks = node_locks(handle)

    async def adapt(self, state: CycleState, pod: PodInfo, node_name: str, allocated: DeviceAllocations) -> Status | None:
        """Note what is to be written to the pod, and lock the Node for it where the vendor needs that; from `pre_bind`."""
        given, now = allocated.get(GPU, ()), str(int(self._clock.now() * NANO))
        annotations = {BIND_TIMESTAMP: now}
        labels: dict[str, str] = {}
        if given:
            device = self._devices.get(node_name)
            if device is None:
                return error(f'device.scheduling.koordinator.sh "{node_name}" not found')
            annotations[GPU_MINORS] = _minors(given)
            if pod.pod.metadata.labels.get(GPU_ISOLATION_PROVIDER) == HAMI_CORE:
                labels[HAMI_NODE] = node_name
            vendor = device.metadata.labels.get(GPU_VENDOR, "")
            try:
                annotations |= await self._for_vendor(vendor, device, given, pod, now)
            except (AdaptationError, LockRefused) as refused:
                return error(f"failed to adapt for GPU device plugin of vendor {shown(vendor)}: {refused}")
        earlier, earlier_labels = written_before(pod.pod)
        annotate(state, earlier | annotations, earlier_labels | labels)
        return None

    async def _for_vendor(self, vendor: str, device: Device, given: Sequence[AllocatedDevice], pod: PodInfo, now: str) -> dict[str, str]:
        """Return the annotations for a vendor's device plugin, once the Node is locked for the pod if it has to be."""
        written = FORMATS.get(vendor)
        if written is None:
            return {}
        annotations = written.annotations(given, device.metadata.labels.get(GPU_MODEL, ""), now)
        if written.lock and pod.reservation is None:
            try:
                await self._locks.lock(device.metadata.name, written.lock, pod)
            except LockRefused as refused:
                raise LockRefused(f"failed to lock node: {refused}") from None
        return annotations


def written_before(pod: Pod) -> tuple[Annotations, Annotations]:
    """Return the annotations and labels that remove from a pod what an earlier attempt has written for device plugins."""
    metadata = pod.metadata
    annotations: Annotations = dict.fromkeys(key for key in WRITTEN if key in metadata.annotations)
    return annotations, {HAMI_NODE: None} if HAMI_NODE in metadata.labels else {}
