# What one request sees of the devices of one node, and why a node cannot have it (deviceshare.md §5, §6, §8).

from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest, is_skipped
from koordsched._core.device_score cimport DeviceGroup
from koordsched._core.device_table cimport HAS_VFS, TYPES, Cells, DeviceColumns, DeviceNode, DeviceTable, Masks, Positions, having_share8

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

cdef struct Desired:
    int types                # that are allocated here
    bint[TYPES] asks         # which they are
    int32_t[TYPES] count     # how many devices of each; 0 of the others

# Return why a node's labels keep a pod out (deviceshare.md §5 steps 1 and 2), or 0.
cdef int32_t check_labels(DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil

# Return the devices of a type that may fit: the listed ones that the selector matches.
cdef Positions candidates_of(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type) noexcept nogil

# Answer whether enough of a device is free, by what is used of it.
cdef bint fits_unused(const DeviceColumns* columns, DeviceRequest request, int type, Py_ssize_t cell) noexcept nogil

# Write what the request sees of one type of the node. mask: NUMA ids that devices must be of; 0: any.
cdef void read_group(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, int type, DeviceAdjustment adjustment, uint64_t mask, DeviceGroup* group
) noexcept nogil

# Return which devices are of these NUMA ids, or have a topology without one.
cdef Positions within_numa(const int8_t* numa, int count, uint64_t mask) noexcept nogil

# Return the place of the free virtual function with the smallest bus id, -1 when the device has none that suits.
cdef int32_t free_vf(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, int type, int at
) noexcept nogil

# Memory that a ratio of the total is, and the ratio that an amount of memory is (§6.3, end).
cdef int64_t memory_of(int64_t ratio, int64_t total) noexcept nogil
cdef int64_t ratio_of(int64_t memory, int64_t total) noexcept nogil

# How many devices the selector matches, healthy or not.
cdef int matching(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type) noexcept nogil

# Which devices the amounts and the selector of the request leave, available or not.
cdef Positions fitting_by_amounts(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type) noexcept nogil

# The rest is in here so that Filter's loop has no call for it (bench_deviceshare.py::bench_new_kind_of_request).

cdef inline int32_t read_desired(DeviceTable table, DeviceRequest request, Py_ssize_t index, bint reserve, Desired* out) noexcept nogil:
    """Write how many devices of each type the pod wants of the node; return why it cannot have them, or 0.

    reserve: as Reserve asks, which has secondary types of well-planned nodes, too (§6).
    """
    cdef const DeviceNode* node = &table.node[index]
    cdef int i, type
    out.types = 0
    for type in range(TYPES):
        out.asks[type] = False
        out.count[type] = 0
    for i in range(request.type_count):
        type = request.types[i]
        if not reserve and is_skipped(table, request, index, type):
            continue
        out.asks[type] = True
        out.types += 1
        out.count[type] = matching(table, request, index, type) if request.for_all[type] else request.count[type]
        if node.cells[type].count == 0 or (request.for_all[type] and out.count[type] == 0):
            return NO_DEVICES | type << DETAIL_BITS
    if request.takes_vfs:
        for i in range(request.type_count):
            type = request.types[i]
            if out.asks[type] and request.vf_matches[type] != NULL and not node.flags & <unsigned int> HAS_VFS << type:
                return NO_VFS | type << DETAIL_BITS
    return PASS

cdef inline Positions fitting_of(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type) noexcept nogil:
    """Return `fitting` of the group, without an adjustment and a mask."""
    cdef const Masks* masks = &table.masks[index * TYPES + type]
    cdef const Cells* cells = &table.node[index].cells[type]
    cdef Positions found
    if cells.count <= 8 and request.share[type] >= 0 and request.matches[type] == NULL:
        found = having_share8(table.columns[type].share + cells.start, request.share[type])
    else:
        found = fitting_by_amounts(table, request, index, type)
    return found & masks.listed & masks.available
