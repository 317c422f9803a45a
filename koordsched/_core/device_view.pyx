"""What views of owners of credits hide of devices: pods of a node leave in one step, and come back in one step."""

from libc.stdint cimport int32_t

from koordsched._core.device_reserved cimport LeftDevices


cdef class HiddenDevices(CompiledPart):

    def __init__(self, DeviceTable table not None, Py_ssize_t index, entry not None, dict held not None):
        table.check(index)
        self.table = table
        self.index = index
        self.entry = entry
        self.uids = list(held)
        self.held = [<LeftDevices?> each for each in held.values()]

    cdef int hide_now(self) except -1:
        cdef dict rest
        for each in self.held:
            (<LeftDevices> each).count_on(self.index, -1)
        self.pods = self.entry.pods
        rest = self.pods.copy()
        for uid in self.uids:
            del rest[uid]
        self._know(rest)
        return 0

    cdef int restore_now(self) except -1:
        for each in self.held:
            (<LeftDevices> each).count_on(self.index, 1)
        self._know(self.pods)
        self.pods = None
        return 0

    cdef int _know(self, dict pods) except -1:
        """Let these pods be all that hold devices of the node."""
        self.entry.pods = pods
        self.table.node[self.index].holders = <int32_t> len(pods)
        return 0
