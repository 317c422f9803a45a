"""Whether one node has the devices that a pod asks for, and if not, why: Filter's question, asked of all rows.

It is what the allocator answers (`device_allocation`), but found on masks: which devices fit is one comparison of eight shares, whether a
scope or a partition has enough of them one of its mask. bench/bench_deviceshare.py::bench_new_kind_of_request holds what that costs.
Joint allocations that need a search, and the reasons why there is none, are left to the allocator.
"""

from libc.stdint cimport int32_t

from koordsched._core.device_allocation cimport try_allocate
from koordsched._core.device_group cimport (
    DETAIL_BITS,
    INSUFFICIENT,
    INSUFFICIENT_GPUS,
    INSUFFICIENT_PARTITIONED,
    INSUFFICIENT_SCOPED,
    MULTI_SHARED,
    NO_PARTITION_TABLE,
    NO_TEMPLATE,
    NO_TOPOLOGY_TREE,
    PASS,
    UNSUPPORTED_COUNT,
    Desired,
    fitting_of,
    free_vf,
    read_desired,
)
from koordsched._core.device_request cimport NO_SCOPE, NO_TEMPLATE_OF, DeviceRequest
from koordsched._core.device_selection cimport NODE_LEVEL, Outcome, is_suitable
from koordsched._core.device_table cimport (
    GPU,
    HAS_PARTITIONS,
    HAS_TREE,
    HONORS_PARTITIONS,
    LARGEST_GROUP,
    TYPES,
    DeviceNode,
    DeviceTable,
    Masks,
    NodeShape,
    Partition,
    Positions,
    position,
    size_of,
)


cdef enum:
    UNDECIDED = -1   # a code: only the allocator knows


cdef int32_t check_feasible(DeviceTable table, DeviceRequest request, Py_ssize_t index, bint reserve) noexcept nogil:
    cdef Positions[TYPES] fitting
    cdef Desired desired
    cdef Outcome out
    cdef int i, type
    cdef int32_t code = read_desired(table, request, index, reserve, &desired)
    if code != PASS:
        return code
    for i in range(request.type_count):
        type = request.types[i]
        if desired.asks[type]:
            fitting[type] = fitting_of(table, request, index, type)
            if request.vf_matches[type] != NULL and type != GPU:
                fitting[type] = _with_vfs(table, request, index, type, fitting[type])
    if desired.types > 1 and request.joint_count > 0:
        code = _check_jointly(table, request, index, &desired, fitting)
        if code == UNDECIDED:
            return try_allocate(table, request, index, None, None, 0, reserve, &out)
        for i in range(request.joint_count):
            desired.asks[request.joint[i]] = False
    for i in range(request.type_count):
        type = request.types[i]
        if code == PASS and desired.asks[type]:
            code = _check_type(table, request, index, type, fitting[type], desired.count[type])
    return code


cdef Positions _with_vfs(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type, Positions fitting) noexcept nogil:
    """Return those that have a free virtual function."""
    cdef int at
    for at in range(table.node[index].cells[type].count):
        if fitting >> at & 1 and free_vf(table, request, index, None, type, at) < 0:
            fitting &= ~position(at)
    return fitting


cdef int32_t _check_type(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, int type, Positions fitting, int desired
) noexcept nogil:
    """Return why devices of one type cannot be taken, apart from all others, or 0."""
    cdef int found
    if type == GPU:
        return _check_gpus(table, request, index, fitting, desired)
    found = size_of(fitting)
    return PASS if found >= desired and found > 0 else INSUFFICIENT | type << DETAIL_BITS


cdef int32_t _check_gpus(DeviceTable table, DeviceRequest request, Py_ssize_t index, Positions fitting, int desired) noexcept nogil:
    cdef const DeviceNode* node = &table.node[index]
    cdef const NodeShape* shape = &table.shape[index]
    cdef const Masks* masks = &table.masks[index * TYPES + GPU]
    cdef bint honors = request.by_partition or node.flags & HONORS_PARTITIONS, enough
    cdef int32_t code
    if request.template_of != NULL and request.template_of[node.model] == NO_TEMPLATE_OF:
        return NO_TEMPLATE
    # Where partitions are not honored, and no scope is required, cards of a partition are enough cards in any case.
    if not request.shared and (honors or request.scope != NO_SCOPE):
        code = _check_partitions(node, shape, request, fitting & masks.healthy & ~masks.busy)
        if code == PASS or honors:
            return code
    if node.flags & HAS_TREE and (not request.shared or request.count[GPU] <= 1):
        if request.scope <= NODE_LEVEL:
            enough = size_of(fitting & masks.healthy) >= request.count[GPU]
        else:
            enough = _next_scope(shape, request, fitting & masks.healthy, 0) < shape.scope_count
        if enough:
            return PASS
        return INSUFFICIENT_GPUS if request.scope == NO_SCOPE else INSUFFICIENT_SCOPED
    if request.scope != NO_SCOPE:
        return MULTI_SHARED if node.flags & HAS_TREE else NO_TOPOLOGY_TREE
    if request.vf_matches[GPU] != NULL:
        fitting = _with_vfs(table, request, index, GPU, fitting)
    return PASS if size_of(fitting) >= (desired if desired > 0 else 1) else INSUFFICIENT | <int32_t> GPU << DETAIL_BITS


cdef int32_t _check_partitions(const DeviceNode* node, const NodeShape* shape, DeviceRequest request, Positions usable) noexcept nogil:
    """Return why there is no partition, or 0. usable: GPUs that fit, and of which nothing is in use."""
    cdef int first = _first_partition(shape, request)
    if not node.flags & HAS_PARTITIONS:
        return NO_PARTITION_TABLE
    if first == shape.partition_count:
        return UNSUPPORTED_COUNT
    return PASS if _next_partition(shape, request, usable, first, first) < shape.partition_count else INSUFFICIENT_PARTITIONED


cdef inline int _first_partition(const NodeShape* shape, DeviceRequest request) noexcept nogil:
    """Return the first partition of so many GPUs as are asked for, or the number of partitions."""
    cdef int i = 0
    while i < shape.partition_count and shape.partitions[i].count != request.count[GPU]:
        i += 1
    return i


cdef inline int _next_partition(const NodeShape* shape, DeviceRequest request, Positions usable, int first, int i) noexcept nogil:
    """Return the first partition from i on that may be given, or the number of partitions. first: of those of this size."""
    cdef const Partition* partitions = shape.partitions
    while i < shape.partition_count and partitions[i].count == request.count[GPU]:
        if request.first_group and partitions[i].score != partitions[first].score:
            break
        if is_suitable(&partitions[i], request, usable, 0):
            return i
        i += 1
    return shape.partition_count


cdef inline int _next_scope(const NodeShape* shape, DeviceRequest request, Positions usable, int i) noexcept nogil:
    """Return the first scope of the required level from i on that has enough GPUs, or the number of scopes."""
    while i < shape.scope_count:
        if shape.scopes[i].level == request.scope and size_of(usable & shape.scopes[i].devices) >= request.count[GPU]:
            return i
        i += 1
    return i


# Several types


cdef int32_t _check_jointly(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, const Desired* desired, const Positions* fitting
) noexcept nogil:
    """Return why types that are wanted together cannot be taken, 0, or UNDECIDED."""
    cdef int i, type
    cdef int32_t code
    for i in range(request.joint_count):
        type = request.joint[i]
        if desired.asks[type]:
            code = _check_type(table, request, index, type, fitting[type], desired.count[type])
            if code != PASS:
                # A type that is not the first one may be found by search, or another reason is given before this one.
                return code if i == 0 or not request.same_pcie else UNDECIDED
    if not request.same_pcie or request.joint_count == 1:
        return PASS
    return PASS if _are_near(table, request, index, desired, fitting) else UNDECIDED


cdef bint _are_near(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, const Desired* desired, const Positions* fitting
) noexcept nogil:
    """Answer whether it is certain that devices of all types are on the same switches, within a partition or scope that they must be of."""
    cdef const DeviceNode* node = &table.node[index]
    cdef const NodeShape* shape = &table.shape[index]
    cdef const Masks* masks = &table.masks[index * TYPES + GPU]
    cdef Positions[TYPES] usable
    cdef int type, i, first
    for type in range(TYPES):
        usable[type] = fitting[type] if desired.asks[type] else 0
    if not desired.asks[GPU]:
        return _are_on_switches(node, shape, request, desired, usable)
    if request.vf_matches[GPU] != NULL:
        return False
    usable[GPU] &= masks.healthy
    if not request.shared and (request.by_partition or node.flags & HONORS_PARTITIONS):
        i = first = _first_partition(shape, request)
        while True:
            i = _next_partition(shape, request, fitting[GPU] & masks.healthy & ~masks.busy, first, i)
            if i == shape.partition_count:
                return False
            usable[GPU] = shape.partitions[i].devices
            if _are_on_switches(node, shape, request, desired, usable):
                return True
            i += 1
    if request.scope <= NODE_LEVEL:
        return _are_on_switches(node, shape, request, desired, usable)
    i = 0
    while True:
        i = _next_scope(shape, request, fitting[GPU] & masks.healthy, i)
        if i == shape.scope_count:
            return False
        usable[GPU] = fitting[GPU] & masks.healthy & shape.scopes[i].devices
        if _are_on_switches(node, shape, request, desired, usable):
            return True
        i += 1


cdef bint _are_on_switches(
    const DeviceNode* node, const NodeShape* shape, DeviceRequest request, const Desired* desired, const Positions* usable
) noexcept nogil:
    """Answer whether it is certain that enough of these devices are on the same switches.

    Each switch that has all types gives one device of each at least. Where that is not enough of a type, which switches are taken matters.
    """
    cdef Positions[TYPES] shared, unplaced
    cdef int[TYPES] need
    cdef int i, type, pcie, common = 0, most = TYPES * LARGEST_GROUP
    cdef bint every
    for i in range(request.joint_count):
        type = request.joint[i]
        need[type] = desired.count[type] if desired.count[type] > 0 else 1
        shared[type], unplaced[type] = 0, usable[type]
        # No more of GPUs and of the primary type than is asked for, so no more switches either.
        if desired.asks[type] and (type == GPU or i == 0) and need[type] < most:
            most = need[type]
    for pcie in range(node.pcies):
        every = True
        for i in range(request.joint_count):
            type = request.joint[i]
            if desired.asks[type]:
                unplaced[type] &= ~shape.switches[pcie * TYPES + type]
                every &= (usable[type] & shape.switches[pcie * TYPES + type]) != 0
        if every:
            common += 1
            for i in range(request.joint_count):
                type = request.joint[i]
                shared[type] |= usable[type] & shape.switches[pcie * TYPES + type]
    for i in range(request.joint_count):
        type = request.joint[i]
        if not desired.asks[type]:
            continue
        if size_of(unplaced[type]) + (size_of(shared[type]) if common <= most else most) < need[type]:
            return False
    return True
