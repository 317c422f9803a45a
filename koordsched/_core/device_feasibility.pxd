# Whether nodes have the devices that a pod asks for, and if not, why (deviceshare.md §5, §6): the allocator's answer, without choosing any.

from libc.stdint cimport int32_t, uint8_t

from koordsched._core.device_request cimport DeviceRequest
from koordsched._core.device_table cimport DeviceTable, Positions
from koordsched._core.rows cimport Rows

# Write the code that `check_labels` returns, or else the one that `try_allocate` returns without an adjustment, a scoring and a mask.
# aligned: rows whose devices were tried already, where only labels are checked; NULL: none are.
cdef void check_rows(
    DeviceTable table, DeviceRequest request, Rows rows, bint reserve, const uint8_t* aligned, int32_t* codes
) noexcept nogil

# Return the same for one node, by its index, as Filter asks.
cdef int32_t check_index(DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil

cdef struct Counted:
    # What decides where devices of one type are wanted, and any of those that fit will do
    int type
    int wanted             # so many have to fit
    int32_t otherwise      # the code where fewer do
    Positions candidates   # devices that may fit: the listed ones that the selector matches

# Answer whether that is so of a request and a node, as it is now; if it is, write it.
cdef bint counts_devices(DeviceTable table, DeviceRequest request, Py_ssize_t index, Counted* found) noexcept nogil
