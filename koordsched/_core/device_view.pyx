"""What views of owners of credits hide of devices: pods of a node leave in one step, and come back in one step."""

from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.stdint cimport int64_t

from koordsched._core.device_table cimport (
    IS_LISTED,
    DeviceColumns,
    cut_amount,
    first_resource,
    resources_of,
)


cdef class HiddenDevices(CompiledPart):

    def __init__(self, DeviceTable table not None, Py_ssize_t index, dict entries not None, str name not None, entry_without, holders,
                 held):
        table.check(index)
        self.table = table
        self.index = index
        self.entries = entries
        self.name = name
        self.entry = entries[name]
        self.entry_without = entry_without
        self.holders, self.holders_without = holders
        self.vfs = [(device.type, device.minor, device.vfs) for device in held if device.vfs]
        self.held = <HeldAmounts*> PyMem_Calloc(len(held) + 1, sizeof(HeldAmounts))
        if self.held == NULL:
            raise MemoryError
        for device in held:
            self._add(device)

    def __dealloc__(self):
        PyMem_Free(self.held)

    def _add(self, device):
        cdef int type = device.type, r
        cdef int64_t minor = device.minor
        cdef Py_ssize_t i = 0
        while i < self.count and (self.held[i].type != type or self.held[i].minor != minor):
            i += 1
        if i == self.count:
            self.held[i].type = type
            self.held[i].minor = minor
            self.count += 1
        self.held[i].pods += 1
        for resource, amount in device.amounts.items():
            r = resource - first_resource(type)
            if 0 <= r < resources_of(type):
                self.held[i].amount[r] += cut_amount(amount)

    cdef int hide_now(self) except -1:
        self._count(-1)
        self.table.node[self.index].holders = self.holders_without
        self.entries[self.name] = self.entry_without
        return 0

    cdef int restore_now(self) except -1:
        self._count(1)
        self.table.node[self.index].holders = self.holders
        self.entries[self.name] = self.entry
        return 0

    cdef int _count(self, int sign) except -1:
        cdef Py_ssize_t i, cell
        cdef DeviceColumns* columns
        cdef HeldAmounts* device
        for i in range(self.count):
            device = &self.held[i]
            columns = &self.table.columns[device.type]
            # Found again each time: a simulation may have moved the node's cells to where there was room.
            cell = self.table.find(self.index, device.type, device.minor)
            if cell < 0:
                raise ValueError(f"device {device.minor} of type {device.type} on {self.name}: it is not listed any more")
            self.table.use(device.type, cell, device.amount, sign)
            columns.holds[cell] += sign * device.pods
            self.table.settle(self.index, device.type, cell)
        for type, minor, vfs in self.vfs:
            self.table.hold_vfs(self.index, type, minor, vfs, sign)
        return 0


def are_listed(DeviceTable table not None, Py_ssize_t index, held):
    cdef Py_ssize_t cell
    cdef int type
    table.check(index)
    for device in held:
        type = device.type
        cell = table.find(index, type, device.minor)
        if cell < 0 or not table.columns[type].state[cell] & IS_LISTED:
            return False
    return True
