# Devices of a node without what some of its pods hold, for views of owners of credits (deviceshare.md §8).

from libc.stdint cimport int32_t, int64_t

from koordsched._core.device_table cimport GPU_RESOURCES, DeviceTable
from koordsched._core.view cimport CompiledPart

cdef struct HeldAmounts:
    # What the pods together hold of one device
    int32_t type
    int64_t minor
    int32_t pods                      # how many of them hold something of it
    int64_t[GPU_RESOURCES] amount     # by the resource's place among those of the type

cdef class HiddenDevices(CompiledPart):
    cdef DeviceTable table
    cdef Py_ssize_t index
    cdef dict entries                 # by name of a node
    cdef str name
    cdef object entry                 # what `entries` has of the node
    cdef object entry_without         # the same without the pods
    cdef int32_t holders              # pods that hold devices of the node
    cdef int32_t holders_without
    cdef list vfs                     # (type, minor, bus ids) of virtual functions that the pods hold
    cdef HeldAmounts* held
    cdef Py_ssize_t count             # of devices in held

    cdef int _count(self, int sign) except -1
