# Free amounts of a node's GPUs, one cell after the other (`DeviceTable.columns`), answer requests for GPUs by amounts alone; the allocator
# answers all others. Codes are those of device_allocation.

from libc.stdint cimport int32_t, uint8_t

from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_table cimport DeviceTable
from koordsched._core.rows cimport Rows

# aligned: rows whose devices were tried already, where only labels are checked; NULL: none are
cdef void try_rows(
    DeviceTable table, DeviceRequest request, Rows rows, DeviceAdjustment adjustment, bint reserve, const uint8_t* aligned, int32_t* codes
) noexcept nogil
cdef void count_gpus(DeviceTable table, DeviceRequest request, Rows rows, int32_t* codes) noexcept nogil  # of a plain request
