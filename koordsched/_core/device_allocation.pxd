# Which devices of one node a pod gets (deviceshare.md §6). Hints ask without a scoring, Reserve with one.

from libc.stdint cimport int32_t, int64_t, uint64_t

from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceScoring
from koordsched._core.device_selection cimport Outcome
from koordsched._core.device_table cimport DeviceTable

# Return why not, or 0 and what would be taken. mask: NUMA ids that devices must be of; 0: any. reserve: as Reserve asks (§6: secondary
# types of well-planned nodes count). The request and the adjustment are prepared. Does not look at the node's labels, see `check_labels`.
cdef int32_t try_allocate(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    uint64_t mask, bint reserve, Outcome* out
) noexcept nogil

# Return the score of a node, only devices counted that may be given (deviceshare.md §7).
cdef int64_t score_candidates(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring, uint64_t mask
) noexcept nogil

cdef result_of(DeviceTable table, DeviceRequest request, Py_ssize_t index, const Outcome* out, bint complete)
