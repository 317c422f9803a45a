"""What a request sees of the devices of one node: how many of each type it wants there, which fit, and what is free of them.

All that the allocator, Filter and Score know of a node they learn here. Devices of one node are positions, minors ascending, and a set of
them is a mask.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint64_t

from koordsched._core.device_request cimport Amounts, Buses, DeviceAdjustment, DeviceRequest, Minors, has_minor
from koordsched._core.device_score cimport DeviceGroup
from koordsched._core.device_table cimport (
    GPU,
    LARGEST_GROUP,
    MEMORY,
    RATIO,
    TYPES,
    Cells,
    DeviceColumns,
    DeviceTable,
    Masks,
    Positions,
    VirtualFunction,
    having_share,
    position,
    resources_of,
)


cdef int32_t check_labels(DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil:
    if not request.shared:
        return PASS
    if request.isolation and table.node[index].isolation != request.isolation:
        return NO_ISOLATION_PROVIDER
    if request.unshareable != NULL and request.unshareable[table.node[index].model]:
        return SHARE_UNSUPPORTED | table.node[index].model << DETAIL_BITS
    return PASS


cdef int matching(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type) noexcept nogil:
    """Return how many devices the selector matches, healthy or not."""
    cdef const Cells* cells = &table.node[index].cells[type]
    cdef int at, found = 0
    if request.matches[type] == NULL:
        return cells.count
    for at in range(cells.count):
        if table.masks[index * TYPES + type].listed >> at & 1 and request.matches[type][table.columns[type].labels[cells.start + at]]:
            found += 1
    return found


cdef Positions fitting_by_amounts(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type) noexcept nogil:
    cdef const Cells* cells = &table.node[index].cells[type]
    cdef const DeviceColumns* columns = &table.columns[type]
    cdef Positions found
    if request.share[type] >= 0:
        found = having_share(columns.share + cells.start, cells.count, request.share[type])
    else:
        found = _fitting(request, type, columns.free + cells.start, columns.capacity, cells.count)
    if request.matches[type] != NULL:
        found &= ~_others(request, type, columns.labels + cells.start, cells.count)
    return found


cdef Positions candidates_of(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type) noexcept nogil:
    cdef const Cells* cells = &table.node[index].cells[type]
    cdef Positions found = table.masks[index * TYPES + type].listed
    if request.matches[type] != NULL:
        found &= ~_others(request, type, table.columns[type].labels + cells.start, cells.count)
    return found


cdef bint fits_unused(const DeviceColumns* columns, DeviceRequest request, int type, Py_ssize_t cell) noexcept nogil:
    cdef Py_ssize_t at
    cdef int k, r
    cdef int64_t used
    for k in range(request.named_count[type]):
        r = request.named[type][k]
        at = r * columns.capacity + cell
        used = columns.used[at]
        if columns.total[at] - (used if used > 0 else 0) < request.amount[type][r]:
            return False
    return True


cdef Positions _fitting(DeviceRequest request, int type, const int64_t* free, Py_ssize_t stride, int count) noexcept nogil:
    """Return the devices of which enough is free."""
    cdef Positions found = 0
    cdef int at, k, r
    cdef bint fits
    for at in range(count):
        fits = True
        for k in range(request.named_count[type]):
            r = request.named[type][k]
            fits &= free[r * stride + at] >= request.amount[type][r]
        if fits:
            found |= position(at)
    return found


cdef Positions _others(DeviceRequest request, int type, const int32_t* labels, int count) noexcept nogil:
    """Return the devices that the request's selector does not match."""
    cdef Positions found = 0
    cdef int at
    for at in range(count):
        if not request.matches[type][labels[at]]:
            found |= position(at)
    return found


cdef Positions within_numa(const int8_t* numa, int count, uint64_t mask) noexcept nogil:
    cdef Positions found = 0
    cdef int at
    for at in range(count):
        if numa[at] >= 0 and mask >> numa[at] & 1 or numa[at] == -1:
            found |= position(at)
    return found


cdef void read_group(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, int type, DeviceAdjustment adjustment, uint64_t mask, DeviceGroup* group
) noexcept nogil:
    cdef const DeviceColumns* columns = &table.columns[type]
    cdef const Masks* masks = &table.masks[index * TYPES + type]
    cdef Py_ssize_t start = table.node[index].cells[type].start
    cdef Positions available = masks.available, busy = masks.busy
    group.type = type
    group.count = table.node[index].cells[type].count
    group.total = columns.total + start
    group.free = columns.free + start
    group.total_stride = group.free_stride = columns.capacity
    group.minor = columns.minor + start
    group.labels = columns.labels + start
    group.pcie = columns.pcie + start
    group.numa = columns.numa + start
    group.candidates = masks.listed
    group.preferred = group.required = group.included = 0
    if adjustment is not None:
        if adjustment.changes_amounts:
            _adjust(adjustment, columns.used + start, group, &available, &busy)
        group.preferred = _positions(group, &adjustment.preferred[type])
        group.required = _positions(group, &adjustment.required_minors[type])
        group.included = _positions(group, &adjustment.included[type])
        if adjustment.only[type].is_set:
            group.candidates &= _positions(group, &adjustment.only[type])
    if available == 0:
        group.candidates = 0
    if mask != 0:
        group.candidates &= within_numa(group.numa, group.count, mask)
    if request.matches[type] != NULL:
        group.candidates &= ~_others(request, type, group.labels, group.count)
    group.busy = (masks.held & ~group.candidates) | (busy & group.candidates)
    group.healthy = masks.healthy & group.candidates
    if adjustment is None:
        group.fitting = fitting_of(table, request, index, type)
    else:
        group.fitting = _fitting(request, type, group.free, group.free_stride, group.count) & available
    group.fitting &= group.candidates


cdef Positions _positions(const DeviceGroup* group, const Minors* minors) noexcept nogil:
    cdef int at
    cdef Positions found = 0
    if minors.count:
        for at in range(group.count):
            if has_minor(minors, group.minor[at]):
                found |= position(at)
    return found


cdef void _adjust(
    DeviceAdjustment adjustment, const int64_t* used, DeviceGroup* group, Positions* available, Positions* busy
) noexcept nogil:
    """Work out what is free with what is reusable, and no more than what is required; leave out devices of which nothing is required."""
    cdef int64_t* free = &adjustment.free[group.type][0]
    cdef const Amounts* reusable
    cdef const Amounts* required
    cdef int at, r
    cdef int64_t left, limit
    available[0] = busy[0] = 0
    for at in range(group.count):
        reusable = _amounts_of(adjustment.reusable, adjustment.reusable_count, group.type, group.minor[at])
        required = _amounts_of(adjustment.required, adjustment.required_count, group.type, group.minor[at])
        if adjustment.requires[group.type] and required == NULL:
            group.candidates &= ~position(at)
        for r in range(resources_of(group.type)):
            left = used[r * group.total_stride + at] - (0 if reusable == NULL else reusable.amount[r])
            left = group.total[r * group.total_stride + at] - (left if left > 0 else 0)
            if left < 0:
                left = 0
            if adjustment.requires[group.type]:
                limit = 0 if required == NULL or required.is_empty else left
                if required != NULL and required.is_named[r]:
                    limit = required.amount[r]
                elif required != NULL and adjustment.complete and group.type == GPU:
                    limit = _completed(required, r, group, at, left)
                left = limit if limit < left else left
            free[r * LARGEST_GROUP + at] = left if left > 0 else 0
            if left > 0:
                available[0] |= position(at)
            if left < group.total[r * group.total_stride + at]:
                busy[0] |= position(at)
    group.free = free
    group.free_stride = LARGEST_GROUP


cdef int64_t _completed(const Amounts* amounts, int r, const DeviceGroup* group, int at, int64_t otherwise) noexcept nogil:
    """Return memory or ratio of an allocation that names the other one alone (deviceshare.md §6.3, end)."""
    cdef int64_t memory = group.total[MEMORY * group.total_stride + at]
    if r == MEMORY and amounts.is_named[RATIO]:
        return memory_of(amounts.amount[RATIO], memory)
    if r == RATIO and amounts.is_named[MEMORY]:
        return ratio_of(amounts.amount[MEMORY], memory)
    return otherwise


cdef int64_t memory_of(int64_t ratio, int64_t total) noexcept nogil:
    # total * ratio / 100, cut off, without a product that could be too large
    return total // 100 * ratio + total % 100 * ratio // 100


cdef int64_t ratio_of(int64_t memory, int64_t total) noexcept nogil:
    return <int64_t> (<double> memory / <double> total * 100) if total else 0


cdef const Amounts* _amounts_of(const Amounts* listed, int count, int type, int64_t minor) noexcept nogil:
    cdef int i
    for i in range(count):
        if listed[i].type == type and listed[i].minor == minor:
            return &listed[i]
    return NULL


cdef const Buses* _buses_of(const Buses* listed, int count, int type, int64_t minor) noexcept nogil:
    cdef int i
    for i in range(count):
        if listed[i].type == type and listed[i].minor == minor:
            return &listed[i]
    return NULL


cdef bint _has_bus(const Buses* buses, int32_t bus) noexcept nogil:
    cdef int i
    for i in range(buses.count):
        if buses.bus[i] == bus:
            return True
    return False


cdef int32_t free_vf(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, int type, int at
) noexcept nogil:
    cdef const int32_t* start = table.shape[index].vf_start[type]
    cdef int64_t minor = table.columns[type].minor[table.node[index].cells[type].start + at]
    cdef const VirtualFunction* vf
    cdef const Buses* freed = NULL
    cdef const Buses* limits = NULL
    cdef int v
    if start == NULL:
        return -1
    if adjustment is not None:
        freed = _buses_of(adjustment.freed_vfs, adjustment.freed_count, type, minor)
        limits = _buses_of(adjustment.only_vfs, adjustment.only_vfs_count, type, minor)
    for v in range(start[at], start[at + 1]):
        vf = &table.shape[index].vfs[type][v]
        if not request.vf_matches[type][vf.labels] or (limits != NULL and not _has_bus(limits, vf.bus)):
            continue
        if vf.used == 0 or (freed != NULL and _has_bus(freed, vf.bus)):
            return v
    return -1
