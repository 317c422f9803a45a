"""Whether one node has the devices that a pod asks for, and if not, why: Filter's question, asked of all rows.

It is what the allocator answers (`device_allocation`), but found on masks: which devices fit is one comparison of eight shares, whether a
scope or a partition has enough of them one of its mask. bench/bench_deviceshare.py::bench_new_kind_of_request holds what that costs.
Joint allocations that need a search, and the reasons why there is none, are left to the allocator.
"""

from libc.stdint cimport int32_t, uint8_t

from koordsched._core.device_allocation cimport try_allocate
from koordsched._core.device_group cimport (
    DETAIL_BITS,
    INSUFFICIENT,
    INSUFFICIENT_GPUS,
    INSUFFICIENT_PARTITIONED,
    INSUFFICIENT_SCOPED,
    MULTI_SHARED,
    NO_DEVICES,
    NO_PARTITION_TABLE,
    NO_TEMPLATE,
    NO_TOPOLOGY_TREE,
    PASS,
    UNSUPPORTED_COUNT,
    Desired,
    candidates_of,
    check_labels,
    fitting_of,
    free_vf,
    read_desired,
)
from koordsched._core.device_request cimport NO_SCOPE, NO_TEMPLATE_OF, DeviceRequest
from koordsched._core.device_selection cimport NODE_LEVEL, Outcome, is_suitable
from koordsched._core.device_table cimport (
    GPU,
    HAS_ENTRY,
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
    index_of,
    position,
    size_of,
)
from koordsched._core.rows cimport Rows


cdef enum:
    UNDECIDED = -1   # a code: only the allocator knows


cdef void check_rows(
    DeviceTable table, DeviceRequest request, Rows rows, bint reserve, const uint8_t* aligned, int32_t* codes
) noexcept nogil:
    cdef Py_ssize_t i, index
    cdef bint by_labels = request.shared, one_type = _asks_one_type(request), pairs = _is_plain_pair(request)
    for i in range(rows.count):
        index = index_of(table, rows.at[i])
        codes[i] = check_labels(table, request, index) if by_labels else PASS
        if codes[i] != PASS or not table.node[index].flags & HAS_ENTRY or (aligned != NULL and aligned[i]):
            continue
        codes[i] = _check_devices(table, request, index, reserve, one_type, pairs)


cdef int32_t check_index(DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil:
    cdef int32_t code = check_labels(table, request, index)
    if code != PASS or not table.node[index].flags & HAS_ENTRY:
        return code
    return _check_devices(table, request, index, False, _asks_one_type(request), _is_plain_pair(request))


cdef bint counts_devices(DeviceTable table, DeviceRequest request, Py_ssize_t index, Counted* found) noexcept nogil:
    cdef const DeviceNode* node = &table.node[index]
    cdef int k, type = request.types[0]
    cdef bint asks_amounts = False
    for k in range(request.named_count[type]):
        asks_amounts |= request.amount[type][request.named[type][k]] > 0
    if not asks_amounts or not _asks_one_type(request) or node.cells[type].count == 0 or not node.flags & HAS_ENTRY:
        return False
    if check_labels(table, request, index) != PASS or (type == GPU and not _counts_gpus(node, request)):
        return False
    found.type = type
    found.wanted = request.count[type] if request.count[type] > 0 else 1
    found.otherwise = INSUFFICIENT | type << DETAIL_BITS
    if type == GPU and node.flags & HAS_TREE:
        found.wanted = request.count[GPU]
        found.otherwise = INSUFFICIENT_GPUS if request.scope == NO_SCOPE else INSUFFICIENT_SCOPED
    found.candidates = candidates_of(table, request, index, type)
    return True


cdef bint _counts_gpus(const DeviceNode* node, DeviceRequest request) noexcept nogil:
    """Answer whether `_check_gpus` asks for no more than that enough GPUs fit: a GPU that is not healthy has nothing free."""
    cdef bint has_tree = node.flags & HAS_TREE != 0
    if request.vf_matches[GPU] != NULL or request.scope > NODE_LEVEL or (request.scope != NO_SCOPE and not has_tree):
        return False
    if request.template_of != NULL and request.template_of[node.model] == NO_TEMPLATE_OF:
        return False
    if not request.shared:
        return not request.by_partition and not node.flags & HONORS_PARTITIONS and request.scope == NO_SCOPE
    return request.count[GPU] <= 1 or not has_tree


cdef inline int32_t _check_devices(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, bint reserve, bint one_type, bint pairs
) noexcept nogil:
    """Return the code of a node whose labels let the pod pass. one_type, pairs: what the two functions below say of the request."""
    cdef int type = request.types[0]
    if pairs and _is_pair_on_switches(table, request, index):
        return PASS
    if not one_type:
        return _check(table, request, index, reserve)
    if table.node[index].cells[type].count == 0:
        return NO_DEVICES | type << DETAIL_BITS
    return _check_type(table, request, index, type, fitting_of(table, request, index, type), request.count[type])


cdef inline bint _asks_one_type(DeviceRequest request) noexcept nogil:
    return request.type_count == 1 and not request.for_all[request.types[0]] and not request.takes_vfs


cdef bint _is_plain_pair(DeviceRequest request) noexcept nogil:
    """Answer whether `_is_pair_on_switches` may be asked: GPUs and devices of another type on the same switches, one a switch will do."""
    cdef int other = request.types[1]
    cdef int gpus = request.count[GPU], others = max(request.count[other], 1)
    return (
        request.type_count == 2 and request.joint_count == 2 and request.asks[GPU] and request.same_pcie and not request.takes_vfs
        and not request.for_all[other] and not request.by_partition and request.scope <= NODE_LEVEL and request.template_of == NULL
        and gpus > 0 and (gpus >= others if request.joint[0] == GPU else gpus == others)
    )


cdef inline bint _is_pair_on_switches(DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil:
    """Answer whether there are certainly as many switches with both types as GPUs are asked for.

    It is most of what pods for GPUs and their RDMA interfaces ask, and a third of what the general answer costs.
    """
    cdef const DeviceNode* node = &table.node[index]
    cdef const Positions* there = table.shape[index].switches
    cdef int _pcie, common = 0, other = request.types[1]
    cdef Positions gpus, others
    if node.flags & HONORS_PARTITIONS or node.cells[GPU].count == 0 or node.cells[other].count == 0:
        return False
    gpus = fitting_of(table, request, index, GPU) & table.masks[index * TYPES + GPU].healthy
    others = fitting_of(table, request, index, other)
    for _pcie in range(node.pcies):
        common += (gpus & there[GPU] != 0) & (others & there[other] != 0)
        there += TYPES
    return common >= request.count[GPU]


cdef int32_t _check(DeviceTable table, DeviceRequest request, Py_ssize_t index, bint reserve) noexcept nogil:
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
    cdef const Positions* there = shape.switches
    cdef Positions[TYPES] shared, unplaced
    cdef int[TYPES] types, need
    cdef int i, k, _pcie, count = 0, common = 0, most = TYPES * LARGEST_GROUP
    for i in range(request.joint_count):
        if desired.asks[request.joint[i]]:
            types[count] = request.joint[i]
            need[count] = desired.count[types[count]] if desired.count[types[count]] > 0 else 1
            shared[count], unplaced[count] = 0, usable[types[count]]
            # No more of GPUs and of the primary type than is asked for, so no more switches either.
            if (types[count] == GPU or i == 0) and need[count] < most:
                most = need[count]
            count += 1
    for _pcie in range(node.pcies):
        k = 0
        while k < count and usable[types[k]] & there[types[k]]:
            k += 1
        if k == count:
            common += 1
            for k in range(count):
                shared[k] |= usable[types[k]] & there[types[k]]
        for k in range(count):
            unplaced[k] &= ~there[types[k]]
        there += TYPES
    for k in range(count):
        if size_of(unplaced[k]) + (size_of(shared[k]) if common <= most else most) < need[k]:
            return False
    return True
