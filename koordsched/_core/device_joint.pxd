# Devices of several types together (deviceshare.md §6.2).

from libc.stdint cimport int32_t

from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceGroup, DeviceScoring
from koordsched._core.device_selection cimport Outcome
from koordsched._core.device_table cimport DeviceTable

# Take the types that the request wants together; return why that is not possible, or 0. groups: of all types that it wants.
cdef int32_t take_jointly(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    DeviceGroup* groups, Outcome* out
) noexcept nogil
