# Whether a node has the devices that a pod asks for, and if not, why (deviceshare.md §5, §6): the allocator's answer, without choosing any.

from libc.stdint cimport int32_t

from koordsched._core.device_request cimport DeviceRequest
from koordsched._core.device_table cimport DeviceTable

# Return the code that `try_allocate` returns without an adjustment, a scoring and a mask.
cdef int32_t check_feasible(DeviceTable table, DeviceRequest request, Py_ssize_t index, bint reserve) noexcept nogil
