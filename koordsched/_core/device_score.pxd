# How well devices and nodes suit a request (deviceshare.md §7).

from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint64_t

from koordsched._core.device_request cimport DeviceRequest
from koordsched._core.device_table cimport GPU_RESOURCES, TYPES, DeviceTable, Positions

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

    # The score of a node for a request, all its listed devices counted; 0 to 100 for each type that is asked for.
    cdef int64_t score_node(self, DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil
    # The same, only the devices counted that are of these NUMA ids or have a topology without one.
    cdef int64_t score_within(self, DeviceTable table, DeviceRequest request, Py_ssize_t index, uint64_t mask) noexcept nogil
    # The same for the candidates of one type. amounts: of one device, by resource.
    cdef int64_t score_group(self, DeviceRequest request, const DeviceGroup* group, const int64_t* amounts) noexcept nogil
    # The score of a device, larger for a better one; at least 0.
    cdef int64_t score_device(self, const DeviceGroup* group, int at, const int64_t* amounts) noexcept nogil
    # The same for sums as DeviceTable has them: of each resource the total, then what is free.
    cdef int64_t of_sums(self, int type, const int64_t* sums, const int64_t* amounts) noexcept nogil
