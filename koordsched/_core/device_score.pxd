# How well devices and nodes suit a request (deviceshare.md §7).

from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint64_t

from koordsched._core.device_request cimport DeviceRequest
from koordsched._core.device_table cimport GPU_RESOURCES, TYPES, DeviceTable, Positions
from koordsched._core.rows cimport Rows

cdef struct DeviceGroup:
    # The devices of one type of one node, as one request sees them: see device_allocation
    int type
    int count
    const int64_t* total         # resource r of a position is at r * total_stride + position
    const int64_t* free
    Py_ssize_t total_stride
    Py_ssize_t free_stride
    const int32_t* minor         # [position]
    const int32_t* labels
    const int16_t* pcie
    const int8_t* numa
    Positions candidates         # may be given: something of the type is free, and NUMA nodes, selector and requirements leave them
    Positions busy               # U of §6.3: in use, candidates or not
    Positions healthy            # T of §6.3: candidates with a total
    Positions fitting            # candidates with what each device has to have
    Positions preferred          # of a reservation
    Positions required           # §6.1 takes no others
    Positions included            # all of these have to be taken

cdef class DeviceScoring:
    cdef int64_t weight[TYPES][GPU_RESOURCES]
    cdef int[TYPES] weighted                  # resources that have a weight
    cdef int weighing[TYPES][GPU_RESOURCES]   # ... and which they are
    cdef readonly bint most
    cdef bint picks_device   # shares of one GPU take the best device of the node, wherever it is, unless a scope is required

    # The scores of nodes for a request without selectors; 0 where there is no entry. masks: by row the NUMA ids of which devices count,
    # and those with a topology without one; 0, or NULL for all rows: all listed devices count.
    cdef void score_rows(
        self, DeviceTable table, DeviceRequest request, Rows rows, const uint64_t* masks, int64_t* scores
    ) noexcept nogil
    # The same for the candidates of one type. amounts: of one device, by resource.
    cdef int64_t score_group(self, DeviceRequest request, const DeviceGroup* group, const int64_t* amounts) noexcept nogil
    # The score of a device, larger for a better one; at least 0.
    cdef int64_t score_device(self, const DeviceGroup* group, int at, const int64_t* amounts) noexcept nogil
