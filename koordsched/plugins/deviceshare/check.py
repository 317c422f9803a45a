"""The state that all plugins on a cache share, and its standing comparison with the objects that it follows from."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from koordsched._core.device_table import DeviceTable
from koordsched.api.koordinator.device_annotations import DEVICE_ALLOCATED
from koordsched.api.koordinator.reading import Malformed
from koordsched.cache.plugin_state import StateDifference
from koordsched.plugins.deviceshare.allocated import allocated_devices
from koordsched.plugins.deviceshare.node_devices import describe_device, held_minors, node_accelerators
from koordsched.plugins.deviceshare.state import UNLABELLED, DeviceState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koordsched.api.koordinator.devices import Device
    from koordsched.framework.handle import Handle
    from koordsched.plugins.deviceshare.allocated import PodDevices
    from koordsched.plugins.deviceshare.state import DeviceEntry


class DeviceCheck:
    """A `CheckedState`: compares one `DeviceState`, and mends what differs."""

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

    def make() -> DeviceState:
        state = DeviceState(handle)
        handle.cache.checked.append(DeviceCheck(state, handle))
        return state

    return handle.cache.shared.one(DeviceState, make)
