"""The devices of every node, and what pods hold of them, kept up to date with Devices, Nodes and pods (deviceshare.md §13).

The annotations of pods are the only store: a restart reads them again and comes to the same. What a pod holds is released as it was
recorded, whatever its annotation says by then, and lives as long as the cache counts the pod. `DeviceState.table` shows each change at
once, and the node's row is marked as changed; what the cache only simulates (`Cache.simulating`) is shown too, but marks nothing and is
undone exactly.
One state serves the plugins of all profiles.

The devices of a Device that is deleted stay, unhealthy, until its Node goes too: pods run on them. On a node without Device a device is
known as long as a pod holds something of it. Every event about a Device, a Node or a pod is taken in here before the queue moves pods.

A reservation holds of what its annotation says what the pods that draw on it have left (§8), so that nothing is counted twice.

`DeviceCheck` compares all this with the objects, and mends what differs.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from koordsched._core.device_facts import DEVICE_RESOURCE_NAMES, DEVICE_TYPE_NAMES, NodeAccelerators
from koordsched._core.device_removals import DeviceHoldings
from koordsched._core.device_table import DeviceTable
from koordsched.api.kinds import DEVICE, NODE
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED, AllocatedDevice, device_allocations, has_null_devices
from koordsched.api.koordinator.reading import Malformed
from koordsched.cache.plugin_state import PodFollower, RemovedPods, StateDifference
from koordsched.cluster.event_series import EventText
from koordsched.cluster.object_store import Arrival
from koordsched.framework.object_problems import ProblemReporter
from koordsched.log import get_logger
from koordsched.plugins.deviceshare.node_devices import describe_device, has_several_scores, held_devices, held_minors, node_accelerators

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched._core.device_facts import HeldDevice
    from koordsched._core.pod_index import PodIndex
    from koordsched.api.core import Node
    from koordsched.api.koordinator.device_annotations import DeviceAllocations
    from koordsched.api.koordinator.devices import Device
    from koordsched.api.podinfo import PodInfo
    from koordsched.cluster.object_store import FinalState
    from koordsched.framework.handle import Handle

log = get_logger(__name__)

INVALID_DEVICE_EVENT = "InvalidDevice"
UNLABELLED = NodeAccelerators()
MIN_INDEXES = 64


class PodDevices(msgspec.Struct, frozen=True):
    """What a pod holds. `held` is what the table counts of it; `text` is the annotation that says so, "" before there is one."""

    uid: str
    key: str  # namespace/name
    allocations: DeviceAllocations
    held: tuple[HeldDevice, ...]
    text: str = ""


class DeviceEntry:
    """What is known of a node."""

    __slots__ = ("accelerators", "deleted", "device", "ids", "index", "name", "pods")

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index  # in the table
        self.device: Device | None = None  # the last one
        self.deleted = False  # whether it has been deleted, so that none of its devices is healthy
        self.ids: Mapping[tuple[str, int], str] = {}  # of its devices, by type and minor
        self.accelerators = UNLABELLED
        self.pods: dict[str, PodDevices] = {}  # by uid

    @property
    def unknown(self) -> bool:
        """Return whether nothing is known."""
        return self.device is None and not self.pods and self.accelerators == UNLABELLED

    def held(self) -> Iterator[HeldDevice]:
        """Yield all that pods hold."""
        for pod in self.pods.values():
            yield from pod.held


class DeviceState(PodFollower):
    """The devices of all nodes."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._cache = handle.cache
        self._names = handle.columns.name_column.values  # held for every node of which something is known
        self.table = DeviceTable(handle.cache.table, handle.columns.name_column.attribute)
        self.change = handle.cache.change_kinds.register("DeviceShare")  # with which the row is marked
        self._change = int(self.change)
        self.nodes: Mapping[str, Node] = handle.informer(NODE).store
        self.devices: Mapping[str, Device] = handle.informer(DEVICE).store
        self._entries: dict[str, DeviceEntry] = {}
        self._where: dict[str, str] = {}  # by uid: the node where the pod's devices are
        self._aside: dict[str, PodDevices] = {}  # by uid: of pods that a simulation has removed
        self._placeholders: dict[str, PodDevices] = {}  # by uid: all that their reservations hold; what owners took of it they hold
        self._lent: dict[str, tuple[str, PodDevices]] = {}  # by uid: of pods that are being taken over, with their node
        self._holders = np.zeros(MIN_INDEXES, np.int32)  # by index: how many pods hold devices there
        self._holdings: dict[PodIndex, DeviceHoldings] = {}
        self._problems = ProblemReporter(handle, INVALID_DEVICE_EVENT, "an object about devices is not right")
        handle.informer(NODE).add_handler(_Nodes(self, self._problems))
        handle.informer(DEVICE).add_handler(_Devices(self))
        handle.cache.follow(self)
        handle.cache.credits.call_when_drawn(lambda _pod, placeholder: self.share(placeholder))
        handle.cache.checked.append(DeviceCheck(self, handle))

    # Reading

    @property
    def entries(self) -> Mapping[str, DeviceEntry]:
        """Return the nodes of which something is known."""
        return self._entries

    def pod(self, uid: str) -> PodDevices | None:
        """Return what the pod holds."""
        name = self._where.get(uid)
        return None if name is None else self._entries[name].pods.get(uid)

    def location(self, uid: str) -> str:
        """Return the node where the pod's devices are, "" for none."""
        return self._where.get(uid, "")

    def holding(self, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return on which rows pods hold devices."""
        indexes = self._cache.table.attributes_of(self.table.index_attribute, rows)
        return self._holders[np.where(indexes < len(self._holders), indexes, 0)] > 0

    def holdings(self, pods: PodIndex) -> DeviceHoldings:
        """Return what the pods of an index of victims hold, compiled. Indexes are there as long as the cache."""
        found = self._holdings.get(pods)
        if found is None:
            found = self._holdings[pods] = DeviceHoldings(self.table, pods, self._held_by)
        return found

    def _held_by(self, row: int, pods: Sequence[PodInfo]) -> Sequence[Sequence[HeldDevice]] | None:
        """Return what each of these pods of a row holds; None where more happens when one leaves than that this is free.

        A node without Device forgets its devices then, and what a pod has drawn of a reservation is the reservation's again.
        """
        info = self._cache.infos[row]
        entry = None if info is None else self._entries.get(info.name)
        if entry is None or not entry.pods:
            return [()] * len(pods)
        drawn_from = self._cache.credits.drawn_from
        if entry.device is None or (self._placeholders and any(drawn_from(uid) is not None for uid in entry.pods)):
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

    def reserve(self, node_name: str, devices: PodDevices) -> None:
        """Let the pod hold this on the node, instead of what it held."""
        self._hold(node_name, devices)
        self._share_of(devices.uid)

    def _hold(self, node_name: str, devices: PodDevices) -> None:
        before = self.pod(devices.uid)
        if before is not None:
            entry = self._entries[self._where[devices.uid]]
            if entry.name == node_name and before.held == devices.held:
                entry.pods[devices.uid] = devices
                return
            self._take(entry, devices.uid)
        if devices.allocations:
            self._put(self._entry(node_name), devices)

    def release(self, uid: str) -> None:
        """Let the pod hold nothing; a pod that holds nothing is left alone."""
        name = self._where.get(uid)
        if name is not None:
            entry = self._entries[name]
            self._take(entry, uid)
            self._share_of(uid)
            self._drop_unknown(entry)

    # Reservations

    def reserved_on(self, placeholders: Iterable[str]) -> dict[int, list[str]]:
        """Return which of these reservations have devices, by row."""
        found: dict[int, list[str]] = {}
        for uid in placeholders:
            if uid in self._placeholders:
                row = self._cache.row_of(uid)
                if row is not None:
                    found.setdefault(row, []).append(uid)
        return found

    def left(self, placeholder: str) -> PodDevices | None:
        """Return what a reservation has left, None for one that has no devices."""
        whole = self._placeholders.get(placeholder)
        return None if whole is None else self.left_of(whole)

    def left_of(self, whole: PodDevices) -> PodDevices:
        """Return what the pods that draw on a reservation have left of all that it holds. O(devices of both)."""
        taken = [held for uid in self._cache.credits.drawers(whole.uid) if (pod := self.pod(uid)) is not None for held in pod.held]
        return _with(whole, allocations_without(whole.allocations, taken)) if taken else whole

    def lend(self, uid: str) -> PodDevices | None:
        """Let a reservation, or a pod that one takes over, hold nothing until `share`, so that others can be given of it; what it has."""
        name = self._where.get(uid)
        if name is not None:
            taken = self._take(self._entries[name], uid)
            if uid not in self._placeholders:
                self._lent[uid] = (name, taken)
        lent = self._lent.get(uid)
        return self.left(uid) if lent is None else lent[1]

    def lend_all(self, uid: str) -> None:
        """Let what a reservation was given be all that it holds, and its pods hold part of it: after `share` of these and of itself."""
        whole = self.pod(uid)
        if whole is not None:
            self._placeholders[uid] = whole
            self.lend(uid)

    def share(self, uid: str) -> None:
        """Let a reservation hold what it has left, and a pod what it lent."""
        lent = self._lent.pop(uid, None)
        if lent is not None:
            self._put(self._entry(lent[0]), lent[1])
            return
        left, counted = self.left(uid), self._cache.pods.get(uid)
        if left is None or counted is None or (counted.node.hidden is not None and uid in counted.node.hidden):
            return
        if left.allocations:
            self._hold(counted.node.name, left)
        elif uid in self._where:
            self._take(self._entries[self._where[uid]], uid)

    @contextmanager
    def without_reservations(self, name: str) -> Iterator[None]:
        """Let the reservations of a node hold nothing, for a pod that ignores them."""
        entry = self._entries.get(name)
        lent = [] if entry is None else [uid for uid in entry.pods if uid in self._placeholders]
        for uid in lent:
            self.lend(uid)
        try:
            yield
        finally:
            for uid in lent:
                self.share(uid)

    @contextmanager
    def shown(self, placeholders: Iterable[str]) -> Iterator[None]:
        """Let these reservations, which a view hides, hold what they have left."""
        cache, holding = self._cache, []
        simulating, cache.simulating = cache.simulating, True
        try:
            for uid in placeholders:
                left = self.left(uid)
                if left is not None and left.allocations:
                    entry = self._entry(cache.pods[uid].node.name)
                    self._put(entry, left)
                    holding.append((entry, uid))
            yield
        finally:
            for entry, uid in reversed(holding):
                self._take(entry, uid)
            cache.simulating = simulating

    def _share_of(self, uid: str) -> None:
        placeholder = self._cache.credits.drawn_from(uid)
        if placeholder is not None:
            self.share(placeholder)

    # Pods

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if self._cache.simulating:
            aside = self._aside.pop(pod.uid, None)
            if aside is not None:
                self._put(self._entry(self._name(row, pod)), aside)
                self._share_of(pod.uid)
        elif pod.pod.spec.node_name and DEVICE_ALLOCATED in pod.pod.metadata.annotations:
            self._read(pod, row)  # an assumed pod may still have the annotation of an earlier attempt

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if pod.lends and not self._cache.simulating:
            self._placeholders.pop(pod.uid, None)
        name = self._where.get(pod.uid)
        if name is None:
            return
        entry = self._entries[name]
        taken = self._take(entry, pod.uid)
        self._share_of(pod.uid)
        if self._cache.simulating:
            self._aside[pod.uid] = taken
        else:
            self._drop_unknown(entry)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        """Devices are kept by the names of nodes."""

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        before, after = old.reservation, new.reservation
        if before is not None and after is not None and before.spec.allocate_policy != after.spec.allocate_policy:
            entry = self._entries.get(self._name(row, new))
            if entry is not None:
                self._mark(entry)
        text = new.pod.metadata.annotations.get(DEVICE_ALLOCATED)
        known = self.pod(new.uid) if not new.lends else self._placeholders.get(new.uid)
        if text is None:
            self._placeholders.pop(new.uid, None)
            if old.pod.spec.node_name:
                self.release(new.uid)  # one that is bound holds what it says; what is reserved stays until it is bound
        elif known is None or known.text != text:
            if old.pod.spec.node_name and old.pod.metadata.annotations.get(DEVICE_ALLOCATED) == text:
                return  # it could not be read, which was reported then
            self._read(new, row)

    def without(self, pods: Sequence[PodInfo], row: int) -> RemovedPods | None:
        holding = [pod for pod in pods if pod.uid in self._where]
        return RemovedPods(self, holding, row) if holding else None

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
            self._placeholders[pod.uid] = found
            found = self.left_of(found)
        self.reserve(self._name(row, pod), found)

    def _report_pod(self, pod: PodInfo, problem: str) -> None:
        log.warning("what a pod has of devices cannot be meant", pod=pod.key, problem=problem)
        self._handle.event_on(pod.pod, EventText("Warning", INVALID_DEVICE_EVENT, "Scheduling", problem))

    def _name(self, row: int, pod: PodInfo) -> str:
        info = self._cache.infos[row]
        return pod.pod.spec.node_name if info is None else info.name  # nodes without a Node object share one row, which has no name

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
        devices, problems = describe_device(device, held_minors(entry.held()), gone=entry.deleted)
        self.table.set_devices(entry.index, devices)
        if not entry.deleted:
            self._problems.set_problems(DEVICE.kind, entry.name, {problem: problem for problem in problems})

    def _keep_device(self, entry: DeviceEntry, device: Device | None) -> None:
        entry.device, entry.deleted = device, False
        infos = () if device is None else device.spec.devices
        entry.ids = {(info.type, info.minor): info.id for info in infos if info.minor is not None}  # of two, the last

    # Entries

    def _entry(self, name: str) -> DeviceEntry:
        found = self._entries.get(name)
        if found is None:
            found = self._entries[name] = DeviceEntry(name, self._names.hold(name))
            self.table.clear_node(found.index)
        return found

    def _drop_unknown(self, entry: DeviceEntry) -> None:
        if entry.unknown and not self._cache.simulating and self._entries.pop(entry.name, None) is not None:
            self.table.clear_node(entry.index)
            self._names.release(entry.index)

    def _put(self, entry: DeviceEntry, devices: PodDevices) -> None:
        entry.pods[devices.uid] = self._count(entry, devices)
        self._where[devices.uid] = entry.name
        self._set_holders(entry)
        self._mark(entry)

    def _count(self, entry: DeviceEntry, devices: PodDevices) -> PodDevices:
        """Count what a pod holds in the table, and return it; with empty `held` if it cannot be counted."""
        try:
            self.table.add(entry.index, devices.held)
        except ValueError as problem:
            uncounted = _uncounted(entry, devices, problem)
            self._write(entry)  # some of it has been counted
            return uncounted
        return devices

    def _take(self, entry: DeviceEntry, uid: str) -> PodDevices:
        devices = entry.pods.pop(uid)
        del self._where[uid]
        self.table.remove(entry.index, devices.held)
        self._set_holders(entry)
        self._mark(entry)
        return devices

    def _set_holders(self, entry: DeviceEntry) -> None:
        if entry.index >= len(self._holders):
            self._holders = np.concatenate((self._holders, np.zeros(max(entry.index, MIN_INDEXES), np.int32)))
        self._holders[entry.index] = len(entry.pods)

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
                    break
            else:
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
        self._set_holders(entry)
        self._entries[name] = entry
        node, device = self.nodes.get(name), self.devices.get(name)
        entry.accelerators = UNLABELLED if node is None else node_accelerators(node)
        if device is not None or node is None:
            self._keep_device(entry, device)
        else:
            entry.deleted = entry.device is not None
        self._write(entry)
        self._mark(entry)
        for uid in self._placeholders:
            self.share(uid)
        self._drop_unknown(entry)


def allocated_devices(pod: PodInfo) -> PodDevices:
    """Return what a bound pod's annotation says that it holds. Malformed."""
    annotations = pod.pod.metadata.annotations
    allocations = device_allocations(annotations) or {}
    return PodDevices(pod.uid, pod.key, allocations, held_devices(allocations), annotations.get(DEVICE_ALLOCATED, ""))


def allocations_without(allocations: DeviceAllocations, taken: Sequence[HeldDevice]) -> DeviceAllocations:
    """Return what is left of allocations: of each device what is not taken of it, 0 of a resource that is used up.

    Devices of which nothing is left are left out.
    """
    amounts: dict[tuple[str, int], dict[str, int]] = {}
    vfs: dict[tuple[str, int], set[str]] = {}
    for held in taken:
        key = (DEVICE_TYPE_NAMES[held.type], held.minor)
        of_device = amounts.setdefault(key, {})
        for resource, amount in held.amounts.items():
            name = DEVICE_RESOURCE_NAMES[resource]
            of_device[name] = of_device.get(name, 0) + amount
        vfs.setdefault(key, set()).update(held.vfs)
    left: dict[str, list[AllocatedDevice]] = {}
    for device_type, devices in allocations.items():
        for device in devices:
            rest = device
            used = amounts.get((device_type, device.minor))
            if used is not None:
                resources = {name: max(amount - used.get(name, 0), 0) for name, amount in device.resources.items()}
                functions = tuple(vf for vf in device.vfs if vf.bus_id not in vfs[device_type, device.minor])
                if not any(resources.values()) and not functions:
                    continue
                rest = replace(device, resources=resources, vfs=functions)
            left.setdefault(device_type, []).append(rest)
    return left


def _with(devices: PodDevices, allocations: DeviceAllocations) -> PodDevices:
    return replace(devices, allocations=allocations, held=held_devices(allocations))


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
        devices, _ = describe_device(device, {})
        if has_several_scores(devices):
            log.info("partitions with the lowest allocationScore come first, as in the reference", device=device.metadata.name)

    def on_update(self, _old: Device, new: Device) -> None:
        self._state.set_device(new)

    def on_delete(self, device: Device, _final_state: FinalState) -> None:
        self._state.remove_device(device.metadata.name)


class DeviceCheck:
    """A `CheckedState`: the check of one `DeviceState`."""

    name = "DeviceShare"

    def __init__(self, state: DeviceState, handle: Handle) -> None:
        self._state = state
        self._cache = handle.cache

    def names(self) -> Iterable[str]:
        return self._state.entries.keys()

    def differences(self, node: str) -> Iterable[StateDifference]:
        """Compare pods' devices, the Device, the Node's labels and the columns. A deleted Device is known here only."""
        state = self._state
        entry, expected = state.entries.get(node), self._expected(node)
        described, device = state.nodes.get(node), state.devices.get(node)
        accelerators = UNLABELLED if described is None else node_accelerators(described)
        if entry is None:
            if expected or device is not None or accelerators != UNLABELLED:
                yield StateDifference("known", False, True)
            return
        for uid in entry.pods.keys() | expected.keys():
            held, given = entry.pods.get(uid), expected.get(uid)
            if held is None or given is None or (held.held != given.held and not _cannot_be_counted(held, given)):
                yield StateDifference(f"devices of {_pod_text(held or given)}", _text(held), _text(given))
            if state.location(uid) != node:
                yield StateDifference(f"node of {_pod_text(held or given)}", state.location(uid), node)
        kept = None if entry.deleted else entry.device
        if kept is not device and kept != device:
            yield StateDifference("Device", _version(kept), _version(device))
        if entry.accelerators != accelerators:
            yield StateDifference("labels", str(entry.accelerators), str(accelerators))
        yield from self._column_differences(entry)

    def _column_differences(self, entry: DeviceEntry) -> Iterator[StateDifference]:
        """Compare the columns with what follows from the facts that are kept."""
        table = self._state.table
        anew = DeviceTable(table.nodes, table.index_attribute)
        anew.clear_node(1)
        anew.set_accelerators(1, entry.accelerators)
        if entry.device is not None:
            anew.set_devices(1, describe_device(entry.device, held_minors(entry.held()), gone=entry.deleted).devices)
        for devices in entry.pods.values():
            anew.add(1, devices.held)
        ours = {(cell.type, cell.minor): cell for cell in table.summary(entry.index)}
        theirs = {(cell.type, cell.minor): cell for cell in anew.summary(1)}
        for key in sorted(ours.keys() | theirs.keys()):
            if ours.get(key) != theirs.get(key):
                yield StateDifference(f"columns of {key[0].name.lower()} {key[1]}", str(ours.get(key)), str(theirs.get(key)))

    def rebuild(self, node: str) -> None:
        self._state.rebuild(node, self._expected(node))

    def _expected(self, node: str) -> dict[str, PodDevices]:
        """Return what the pods on a node hold, by uid."""
        entry, info = self._state.entries.get(node), self._cache.nodes_by_name.get(node)
        found: dict[str, PodDevices] = {}
        for uid, pod in () if info is None else info.pods.items():
            kept = None if entry is None else entry.pods.get(uid)
            if pod.pod.spec.node_name and DEVICE_ALLOCATED in pod.pod.metadata.annotations:
                with suppress(Malformed):  # then what was recorded before holds
                    kept = allocated_devices(pod)
                    if pod.lends:
                        kept = self._state.left_of(kept)
            if kept is not None and kept.allocations:
                found[uid] = kept
        return found


def _cannot_be_counted(held: PodDevices, given: PodDevices) -> bool:
    return not held.held and held.text == given.text


def _pod_text(devices: PodDevices | None) -> str:
    return "" if devices is None else f"{devices.key} ({devices.uid})"


def _text(devices: PodDevices | None) -> str:
    if devices is None:
        return ""
    return "; ".join(f"{held.type.name.lower()} {held.minor}: {held.amounts}" for held in devices.held)


def _version(device: Device | None) -> str:
    return "" if device is None else f"resourceVersion {device.metadata.resource_version}"


def device_state(handle: Handle) -> DeviceState:
    """Return the state that all plugins on this cache share. To be called while the plugin is made."""
    return handle.cache.shared.one(DeviceState, lambda: DeviceState(handle))
