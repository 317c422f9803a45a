# The hints of devices: from which NUMA nodes of a row a pod's devices could come (deviceshare.md §9).

from libc.stdint cimport int32_t, uint64_t

from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_selection cimport Outcome
from koordsched._core.device_table cimport DeviceTable
from koordsched._core.hint_source cimport FoundHints, NumaHintSource

cdef class DeviceHints(NumaHintSource):
    cdef DeviceTable table
    cdef DeviceRequest request
    cdef DeviceAdjustment adjustment   # None: the node as it is

    cdef bint _count_gpus(self, Py_ssize_t index, FoundHints* found) noexcept nogil
    cdef void _of_size(self, Py_ssize_t index, int size, const Outcome* best, FoundHints* found) noexcept nogil
    cdef int32_t _try(self, Py_ssize_t index, uint64_t mask, const Outcome* wanted, Outcome* out) noexcept nogil
