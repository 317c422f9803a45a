# Rows and what devices are asked for: columns of codes and scores. Codes are those of device_group.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceScoring
from koordsched._core.device_table cimport DeviceTable
from koordsched._core.rows cimport Rows

# aligned: rows whose devices were tried already, where only labels are checked; NULL: none are
cdef void try_rows(
    DeviceTable table, DeviceRequest request, Rows rows, DeviceAdjustment adjustment, bint reserve, const uint8_t* aligned, int32_t* codes
) noexcept nogil

# masks: by row the NUMA ids of which devices count, 0: all do; NULL: all do everywhere
cdef void score_rows(
    DeviceTable table, DeviceRequest request, DeviceScoring scoring, Rows rows, const uint64_t* masks, int64_t* scores
) noexcept nogil
