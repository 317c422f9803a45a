# Which devices of one node a pod gets (deviceshare.md §6). Filter asks without a scoring, Reserve with one.

from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t

from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceGroup, DeviceScoring
from koordsched._core.device_table cimport GPU_RESOURCES, LARGEST_GROUP, TYPES, DeviceTable, Positions

cdef enum:
    # Codes, as device_facts.DeviceReason; what is above DETAIL_BITS is the detail
    DETAIL_BITS = 6
    PASS = 0
    NO_ISOLATION_PROVIDER = 1
    SHARE_UNSUPPORTED = 2
    NO_DEVICES = 3
    INSUFFICIENT = 4
    NO_VFS = 5
    NO_TEMPLATE = 6
    NO_PARTITION_TABLE = 7
    UNSUPPORTED_COUNT = 8
    INSUFFICIENT_PARTITIONED = 9
    NO_TOPOLOGY_TREE = 10
    MULTI_SHARED = 11
    INSUFFICIENT_SCOPED = 12
    INSUFFICIENT_GPUS = 13
    NO_PRIMARY = 14
    JOINT_VIOLATION = 15
    NO_HEALTHY_GPU = 16
    INSUFFICIENT_NUMA = 17
    NOT_INCLUDED = 18

cdef struct Taken:
    # Devices of one type, in the order in which they are given
    int count
    int16_t[LARGEST_GROUP] at
    int32_t[LARGEST_GROUP] vf      # place among the virtual functions of the type; -1: none
    Positions devices

cdef struct Outcome:
    bint[TYPES] asks               # types that are allocated here
    int32_t[TYPES] desired         # how many devices of each
    Taken[TYPES] taken
    bint from_template

# Return why not, or 0 and what would be taken. mask: NUMA ids that devices must be of; 0: any. reserve: as Reserve asks (§6: secondary
# types of well-planned nodes count). The request and the adjustment are prepared. Does not look at the node's labels, see `check_labels`.
cdef int32_t try_allocate(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    uint64_t mask, bint reserve, Outcome* out
) noexcept nogil

# Return the code that `try_allocate` returns without an adjustment, a scoring and a mask. It chooses no devices, and is the quicker for it.
cdef int32_t check_feasible(DeviceTable table, DeviceRequest request, Py_ssize_t index, bint reserve) noexcept nogil

# Return why a node's labels keep a pod out (deviceshare.md §5 steps 1 and 2), or 0.
cdef int32_t check_labels(DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil

# Write how many devices of each type the pod wants of the node, 0 for types that it does not; return why it cannot have them, or 0.
cdef int32_t read_desired(DeviceTable table, DeviceRequest request, Py_ssize_t index, bint reserve, Outcome* out) noexcept nogil

# Write what the request sees of one type of the node, `fitting` included.
cdef void read_group(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, int type, DeviceAdjustment adjustment, uint64_t mask, DeviceGroup* group
) noexcept nogil

# Return the score of a node, only devices counted that may be given (deviceshare.md §7).
cdef int64_t score_candidates(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring, uint64_t mask
) noexcept nogil

cdef result_of(DeviceTable table, DeviceRequest request, Py_ssize_t index, const Outcome* out, bint complete)
