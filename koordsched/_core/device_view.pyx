"""What views of owners of credits hide of devices: pods of a node leave in one step, and come back in one step."""

cimport cython
from libc.stdint cimport int32_t

from koordsched._core.device_reserved cimport LeftDevices


@cython.no_gc
cdef class HiddenDevices(CompiledPart):

    def __init__(self, DeviceTable table not None, Py_ssize_t index, entry not None, dict held not None):
        table.check(index)
        self.table = table
        self.index = index
        self.entry = entry
        self.held = held

    cdef int hide_now(self) except -1:
        cdef dict rest
        for left in self.held.values():
            (<LeftDevices?> left).count_on(self.index, -1)
        self.pods = self.entry.pods
        rest = self.pods.copy()
        for uid in self.held:
            del rest[uid]
        self._know(rest)
        return 0

    cdef int restore_now(self) except -1:
        for left in self.held.values():
            (<LeftDevices?> left).count_on(self.index, 1)
        self._know(self.pods)
        self.pods = None
        return 0

    cdef int _know(self, dict pods) except -1:
        """Let these pods be all that hold devices of the node."""
        self.entry.pods = pods
        self.table.node[self.index].holders = <int32_t> len(pods)
        return 0


def hidden_devices(
    DeviceTable table not None, dict pods not None, list infos not None, dict entries not None, dict known not None, compiled
):
    cdef dict held, holding
    cdef LeftDevices left
    found = []
    for row, of_row in pods.items():
        entry = entries.get(infos[row].name)
        if entry is None:
            continue
        holding, held = entry.pods, None
        for pod in of_row:
            uid = pod.uid
            devices = holding.get(uid)
            if devices is None:
                continue
            left = known.get(uid)
            if left is None:
                left = compiled(devices)
            if held is None:
                held = {}
            held[uid] = left
        if held is not None:
            found.append((row, _hidden(table, entry, held)))
    return found


cdef HiddenDevices _hidden(DeviceTable table, entry, dict held):
    """Return what hides these devices, None where `count_on` is not enough for some."""
    cdef Py_ssize_t index = entry.index
    for left in held.values():
        if not (<LeftDevices> left).is_known_on(index):
            return None
    return HiddenDevices(table, index, entry, held)
