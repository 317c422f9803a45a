# Devices of a node without what some of its pods hold, for views of owners of credits (deviceshare.md §8).

from koordsched._core.device_table cimport DeviceTable
from koordsched._core.view cimport CompiledPart

cdef class HiddenDevices(CompiledPart):
    cdef DeviceTable table
    cdef Py_ssize_t index
    cdef object entry       # what the plugin knows of the node; its attribute `pods` has them, by uid
    cdef list held          # LeftDevices: what each of the pods holds
    cdef list uids          # of the same
    cdef dict pods          # all of the node's, while these are hidden

    cdef int _know(self, dict pods) except -1
