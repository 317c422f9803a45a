"""The devices of every node, and what pods hold of them, kept up to date with Devices, Nodes and pods (deviceshare.md §13).

The annotations of pods are the only store: a restart reads them again and comes to the same. What a pod holds is released as it was
recorded, whatever its annotation says by then, and lives as long as the cache counts the pod. `DeviceState.table` shows each change at
once, and the node's row is marked as changed; what the cache only simulates (`Cache.simulating`) is shown too, but marks nothing and is
undone exactly.
One state serves the plugins of all profiles.

The devices of a Device that is deleted stay, unhealthy, until its Node goes too: pods run on them. On a node without Device a device is
known as long as a pod holds something of it. Every event about a Device, a Node or a pod is taken in here before the queue moves pods.

A reservation holds of what its annotation says what the pods that draw on it have left (§8), so that nothing is counted twice.

`check.DeviceCheck` compares all this with the objects, and mends what differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from koordsched._core.device_facts import NodeAccelerators
from koordsched._core.device_removals import DeviceHoldings
from koordsched._core.device_reserved import LeftDevices
from koordsched._core.device_table import DeviceTable
from koordsched._core.device_view import hidden_devices
from koordsched.api.kinds import DEVICE, NODE
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED, GPU_PARTITIONS, has_null_devices
from koordsched.api.koordinator.reading import Malformed
from koordsched.cache.plugin_state import RemovedPods
from koordsched.cluster.event_series import EventText
from koordsched.cluster.object_store import Arrival
from koordsched.framework.object_problems import ProblemReporter
from koordsched.framework.pod_holdings import PodHoldings
from koordsched.framework.transformers import Transformer
from koordsched.log import get_logger
from koordsched.plugins.deviceshare.allocated import PodDevices, allocated_devices, allocations_without, with_allocations
from koordsched.plugins.deviceshare.node_devices import (
    KnownDevices,
    has_several_scores,
    held_minors,
    node_accelerators,
)
from koordsched.plugins.deviceshare.reserved import is_restricted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched._core.device_facts import HeldDevice
    from koordsched._core.pod_index import PodIndex
    from koordsched._core.view import Part
    from koordsched.api.core import Node
    from koordsched.api.koordinator.devices import Device
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.plugin_state import PodsByRow
    from koordsched.cluster.object_store import FinalState
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

INVALID_DEVICE_EVENT = "InvalidDevice"
UNLABELLED = NodeAccelerators()


class DeviceEntry:
    """What is known of a node."""

    __slots__ = ("_device", "_ids", "accelerators", "deleted", "index", "name", "pods")

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index  # in the table
        self._device: Device | None = None
        self.deleted = False  # whether it has been deleted, so that none of its devices is healthy
        self._ids: Mapping[tuple[str, int], str] | None = None
        self.accelerators = UNLABELLED
        self.pods: dict[str, PodDevices] = {}  # by uid

    @property
    def device(self) -> Device | None:
        """Return the last one."""
        return self._device

    @device.setter
    def device(self, device: Device | None) -> None:
        self._device = device
        self._ids = None

    @property
    def ids(self) -> Mapping[tuple[str, int], str]:
        """Return the ids of its devices, by type and minor; of two, the last. Worked out for nodes that are asked about."""
        if self._ids is None:
            infos = () if self._device is None else self._device.spec.devices
            self._ids = {(info.type, info.minor): info.id for info in infos if info.minor is not None}
        return self._ids

    @property
    def unknown(self) -> bool:
        """Return whether nothing is known."""
        return self.device is None and not self.pods and self.accelerators == UNLABELLED

    def held(self) -> Iterator[HeldDevice]:
        """Yield all that pods hold."""
        for pod in self.pods.values():
            yield from pod.held


class DeviceState(PodHoldings[PodDevices]):
    """The devices of all nodes."""

    annotation = DEVICE_ALLOCATED

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle.cache)
        self._handle = handle
        self._names = handle.columns.name_column.values  # held for every node of which something is known
        self.table = DeviceTable(handle.cache.table, handle.columns.name_column.attribute)
        self.change = handle.cache.change_kinds.register("DeviceShare")  # with which the row is marked
        self._change = int(self.change)
        self.nodes: Mapping[str, Node] = handle.informer(NODE).store
        self.devices: Mapping[str, Device] = handle.informer(DEVICE).store
        self._entries: dict[str, DeviceEntry] = {}
        self._holdings: dict[PodIndex, DeviceHoldings] = {}
        self.known = KnownDevices()
        handle.add_transformer(Transformer(name="DeviceShare", kind=DEVICE, transform=self.known.share))
        self._problems = ProblemReporter(handle, INVALID_DEVICE_EVENT, "an object about devices is not right")
        handle.informer(NODE).add_handler(_Nodes(self, self._problems))
        handle.informer(DEVICE).add_handler(_Devices(self))
        handle.cache.follow(self)

    # Reading

    @property
    def entries(self) -> Mapping[str, DeviceEntry]:
        """Return the nodes of which something is known."""
        return self._entries

    def held_by(self, uid: str) -> PodDevices | None:
        name = self._where.get(uid)
        return None if name is None else self._entries[name].pods.get(uid)

    def holding(self, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return on which rows pods hold devices."""
        return self.table.holding(rows).view(np.bool_)

    def holdings(self, pods: PodIndex) -> DeviceHoldings:
        """Return what the pods of an index of victims hold, compiled. Indexes are there as long as the cache."""
        found = self._holdings.get(pods)
        if found is None:
            found = self._holdings[pods] = DeviceHoldings(self.table, pods, self._held_on)
        return found

    def _held_on(self, row: int, pods: Sequence[PodInfo]) -> Sequence[Sequence[HeldDevice]] | None:
        """Return what each of these pods of a row holds; None where more happens when one leaves than that this is free.

        A node without Device forgets its devices then, and what a pod has drawn of a reservation is the reservation's again.
        """
        info = self._cache.infos[row]
        entry = None if info is None else self._entries.get(info.name)
        if entry is None or not entry.pods:
            return [()] * len(pods)
        drawn_from = self._cache.credits.drawn_from
        if entry.device is None or (self.given and any(drawn_from(uid) is not None for uid in entry.pods)):
            return None
        return [() if (held := entry.pods.get(pod.uid)) is None else held.held for pod in pods]

    def device_ids(self, node_name: str) -> Mapping[tuple[str, int], str] | None:
        """Return the ids of a node's devices by type and minor; None when it has no Device."""
        entry = self._entries.get(node_name)
        return None if entry is None or entry.device is None or entry.deleted else entry.ids

    # Deciding

    def written(self, devices: PodDevices) -> None:
        """Keep the annotation that is about to be written for a pod's devices, to recognise it when the watch shows it."""
        entry = self._entries.get(self._where.get(devices.uid, ""))
        if entry is not None and entry.pods[devices.uid].held == devices.held:
            entry.pods[devices.uid] = devices

    def _hold(self, node_name: str, devices: PodDevices) -> None:
        before = self.held_by(devices.uid)
        if before is not None:
            name = self._where[devices.uid]
            if name == node_name and before.held == devices.held:
                self._entries[name].pods[devices.uid] = devices
                return
            self._take(name, devices.uid)
            self._forget_unknown(name)
        if not self._is_nothing(devices):
            self._put(node_name, devices)

    def _is_nothing(self, devices: PodDevices) -> bool:
        return not devices.allocations

    def left_of(self, whole: PodDevices) -> PodDevices:
        taken = [held for uid in self._cache.credits.drawers(whole.uid) if (pod := self.held_by(uid)) is not None for held in pod.held]
        return with_allocations(whole, allocations_without(whole.allocations, taken)) if taken else whole

    def compile_left(self, uid: str) -> LeftDevices:
        left, held, pod = self.left(uid), self.held_by(uid), self._cache.pods.get(uid)
        restricted = pod is not None and is_restricted(pod.info)
        if left is None:
            return LeftDevices(self.table, (), restricted=restricted)
        return LeftDevices(self.table, left.held, restricted=restricted, counted=held is None or held.held == left.held)

    # Pods

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        before, after = old.reservation, new.reservation
        self.compiled_left.pop(new.uid, None)  # its policy may be another one
        if before is not None and after is not None and before.spec.allocate_policy != after.spec.allocate_policy:
            entry = self._entries.get(self._name(row, new))
            if entry is not None:
                self._mark(entry)
        text = new.pod.metadata.annotations.get(DEVICE_ALLOCATED)
        known = self.held_by(new.uid) if not new.lends else self.given.get(new.uid)
        if text is None:
            self._forget_given(new.uid)
            if old.pod.spec.node_name:
                self.release(new.uid)  # one that is bound holds what it says; what is reserved stays until it is bound
        elif known is None or known.text != text:
            if old.pod.spec.node_name and old.pod.metadata.annotations.get(DEVICE_ALLOCATED) == text:
                return  # it could not be read, which was reported then
            self._read(new, row)

    def without(self, pods: PodsByRow) -> Iterable[tuple[int, Part]]:
        hidden = hidden_devices(self.table, pods, self._cache.infos, self._entries, self.compiled_left, self._compiled)
        return [(row, RemovedPods(self, pods[row], row) if part is None else part) for row, part in hidden]

    def _compiled(self, devices: PodDevices) -> LeftDevices:
        """Return what a pod holds, as kernels read it: of a reservation that is what it has left."""
        found: LeftDevices | None = self.compiled(devices.uid)
        return LeftDevices(self.table, devices.held, restricted=False) if found is None else found

    def _read(self, pod: PodInfo, row: int) -> None:
        """Account what the pod's annotation says. One that cannot be read leaves what is recorded."""
        text = pod.pod.metadata.annotations[DEVICE_ALLOCATED]
        try:
            found = allocated_devices(pod)
        except Malformed as malformed:
            self._report_pod(pod, f"what it was allocated cannot be read: {malformed}")
            return
        if has_null_devices(text):
            self._report_pod(pod, f"{DEVICE_ALLOCATED}: a device is null and is left out")
        if pod.lends:
            self._set_given(pod.uid, found)
            found = self.left_of(found)
        self.reserve(self._name(row, pod), found)
        if pod.lends:
            self.compiled(pod.uid)  # now, since the first of its owners may have a thousand such

    def _report_pod(self, pod: PodInfo, problem: str) -> None:
        log.warning("what a pod has of devices cannot be meant", pod=pod.key, problem=problem)
        self._handle.event_on(pod.pod, EventText("Warning", INVALID_DEVICE_EVENT, "Scheduling", problem))

    # Nodes and Devices

    def set_node(self, node: Node) -> None:
        """Take over a Node that came or changed."""
        accelerators = node_accelerators(node)
        entry = self._entries.get(node.metadata.name)
        if accelerators == (UNLABELLED if entry is None else entry.accelerators):
            return
        entry = entry or self._entry(node.metadata.name)
        entry.accelerators = accelerators
        self.table.set_accelerators(entry.index, accelerators)
        self._mark(entry)
        self._drop_unknown(entry)

    def remove_node(self, name: str) -> None:
        """Forget the Node, and the Device that it had if that is gone too."""
        entry = self._entries.get(name)
        if entry is not None:
            entry.accelerators = UNLABELLED
            if entry.deleted:
                self._keep_device(entry, None)
            self._write(entry)
            self._drop_unknown(entry)

    def set_device(self, device: Device) -> None:
        """Take over a Device that came or changed. koordlet writes what it wrote before every few seconds, which changes nothing."""
        entry = self._entry(device.metadata.name)
        before, deleted = entry.device, entry.deleted
        self._keep_device(entry, device)
        if before is None or deleted or not _says_the_same(before, device):
            self._write_device(entry)
            self._mark(entry)

    def remove_device(self, name: str) -> None:
        """Let none of the devices be healthy any more; without a Node they are forgotten."""
        entry = self._entries.get(name)
        if entry is None or entry.device is None:
            return
        entry.deleted = True
        self._problems.set_problems(DEVICE.kind, name, {})
        if name in self.nodes:
            self._write_device(entry)
        else:
            self._keep_device(entry, None)
            self._write(entry)
        self._mark(entry)
        self._drop_unknown(entry)

    def _write_device(self, entry: DeviceEntry) -> None:
        device = entry.device
        assert device is not None
        devices, problems = self.known.describe(device, held_minors(entry.held()), gone=entry.deleted)
        self.table.set_devices(entry.index, devices)
        if not entry.deleted:
            self._problems.set_problems(DEVICE.kind, entry.name, {problem: problem for problem in problems})

    def _keep_device(self, entry: DeviceEntry, device: Device | None) -> None:
        entry.device, entry.deleted = device, False

    # Entries

    def _entry(self, name: str) -> DeviceEntry:
        found = self._entries.get(name)
        if found is None:
            found = self._entries[name] = DeviceEntry(name, self._names.hold(name))
            self.table.clear_node(found.index)
        return found

    def _forget_unknown(self, name: str) -> None:
        entry = self._entries.get(name)
        if entry is not None:
            self._drop_unknown(entry)

    def _drop_unknown(self, entry: DeviceEntry) -> None:
        if entry.unknown and not self._cache.simulating and self._entries.pop(entry.name, None) is not None:
            self.table.clear_node(entry.index)
            self._names.release(entry.index)

    def _put(self, name: str, devices: PodDevices) -> None:
        entry = self._entry(name)
        entry.pods[devices.uid] = self._count(entry, devices)
        self._where[devices.uid] = name
        self.table.set_holders(entry.index, len(entry.pods))
        self._mark(entry)

    def _count(self, entry: DeviceEntry, devices: PodDevices) -> PodDevices:
        """Count what a pod holds in the table, and return it; with empty `held` if it cannot be counted."""
        try:
            self.table.add(entry.index, devices.held)
        except ValueError as problem:
            uncounted = _uncounted(entry, devices, problem)
            self.compiled_left.clear()
            self._write(entry)  # some of it has been counted
            return uncounted
        return devices

    def _take(self, name: str, uid: str) -> PodDevices:
        entry = self._entries[name]
        devices = entry.pods.pop(uid)
        del self._where[uid]
        self.table.remove(entry.index, devices.held)
        self.table.set_holders(entry.index, len(entry.pods))
        self._mark(entry)
        return devices

    def _mark(self, entry: DeviceEntry) -> None:
        if not self._cache.simulating:
            info = self._cache.nodes_by_name.get(entry.name)
            if info is not None and not info.shares_row:
                self._cache.table.mark(info.row, self._change)

    def _write(self, entry: DeviceEntry) -> None:
        """Write all of the node into the table anew."""
        pods = entry.pods
        while True:
            self.table.clear_node(entry.index)
            self.table.set_accelerators(entry.index, entry.accelerators)
            if entry.device is not None:
                self._write_device(entry)
            for devices in pods.values():
                try:
                    self.table.add(entry.index, devices.held)
                except ValueError as problem:
                    pods[devices.uid] = _uncounted(entry, devices, problem)
                    self.compiled_left.clear()
                    break
            else:
                self.table.set_holders(entry.index, len(pods))
                return

    # Mending

    def rebuild(self, name: str, expected: Mapping[str, PodDevices]) -> None:
        """Forget all that is kept of a node, and derive it again from its objects and what its pods hold."""
        entry = self._entry(name)
        for uid in [uid for uid, node in self._where.items() if node == name]:
            del self._where[uid]
        entry.pods = {}
        for uid, devices in expected.items():
            self.release(uid)
            entry.pods[uid] = devices
            self._where[uid] = name
        self._entries[name] = entry
        node, device = self.nodes.get(name), self.devices.get(name)
        entry.accelerators = UNLABELLED if node is None else node_accelerators(node)
        if device is not None or node is None:
            self._keep_device(entry, device)
        else:
            entry.deleted = entry.device is not None
        self._write(entry)
        self._mark(entry)
        for uid in self.given:
            self.share(uid)
        self._drop_unknown(entry)


def _uncounted(entry: DeviceEntry, devices: PodDevices, problem: ValueError) -> PodDevices:
    """Return what a pod holds when nothing of it is counted: annotations name more different devices than a node can have."""
    log.error("what a pod holds of devices cannot be counted", pod=devices.key, node=entry.name, problem=str(problem))
    return replace(devices, held=())


def _says_the_same(device: Device, other: Device) -> bool:
    ours, theirs = device.metadata, other.metadata
    return device.spec == other.spec and ours.labels == theirs.labels and ours.annotations == theirs.annotations


class _Nodes:
    def __init__(self, state: DeviceState, problems: ProblemReporter) -> None:
        self._state = state
        self._problems = problems

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        self._state.set_node(node)
        self._problems.node_added(DEVICE.kind, node.metadata.name)

    def on_update(self, old: Node, new: Node) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._state.set_node(new)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        self._state.remove_node(node.metadata.name)


class _Devices:
    def __init__(self, state: DeviceState) -> None:
        self._state = state

    def on_add(self, device: Device, _arrival: Arrival) -> None:
        self._state.set_device(device)
        if GPU_PARTITIONS in device.metadata.annotations and has_several_scores(self._state.known.describe(device, {}).devices):
            log.info("partitions with the lowest allocationScore come first, as in the reference", device=device.metadata.name)

    def on_update(self, _old: Device, new: Device) -> None:
        self._state.set_device(new)

    def on_delete(self, device: Device, _final_state: FinalState) -> None:
        self._state.remove_device(device.metadata.name)
