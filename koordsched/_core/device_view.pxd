# Devices of a node without what some of its pods hold, for views of owners of credits (deviceshare.md §8).

cimport cython

from koordsched._core.device_table cimport DeviceTable
from koordsched._core.view cimport CompiledPart


@cython.no_gc  # there are as many as rows of views, and nothing that they refer to refers to views
cdef class HiddenDevices(CompiledPart):
    cdef DeviceTable table
    cdef Py_ssize_t index
    cdef object entry       # what the plugin knows of the node; its attribute `pods` has them, by uid
    cdef dict held          # by uid: LeftDevices, what each of the pods holds
    cdef dict pods          # all of the node's, while these are hidden

    cdef int _know(self, dict pods) except -1
