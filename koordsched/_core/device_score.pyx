"""Scores by how much of devices is in use, with the request (deviceshare.md §7)."""

from libc.stdint cimport int8_t, int64_t, uint32_t, uint64_t

from koordsched._core.device_facts import DeviceResource
from koordsched._core.device_request cimport DeviceRequest, is_skipped
from koordsched._core.device_table cimport (
    GPU_RESOURCES,
    HAS_ENTRY,
    HAS_FREE,
    LARGEST_GROUP,
    RESOURCES,
    TYPES,
    Cells,
    DeviceColumns,
    DeviceTable,
    first_resource,
    index_of,
    position,
    resources_of,
)
from koordsched._core.rows cimport Rows

cdef int64_t MAX_SCORE = 100


cdef class DeviceScoring:

    def __init__(self, weights not None, *, bint most):
        cdef int type, r
        for resource, weight in weights.items():
            if not 0 <= weight <= 1 << 20:
                raise ValueError(f"weight {weight} of {DeviceResource(resource).name}: must be 0 to 2^20")
            for type in range(TYPES):
                if 0 <= resource - first_resource(type) < resources_of(type):
                    self.weight[type][<int> resource - first_resource(type)] = weight
        for type in range(TYPES):
            for r in range(resources_of(type)):
                if self.weight[type][r]:
                    self.weighing[type][self.weighted[type]] = r
                    self.weighted[type] += 1
        self.most = most

    cdef void score_rows(
        self, DeviceTable table, DeviceRequest request, Rows rows, const uint64_t* masks, int64_t* scores
    ) noexcept nogil:
        cdef Py_ssize_t i, index
        for i in range(rows.count):
            index = index_of(table, rows.at[i])
            if table.node[index].flags & HAS_ENTRY:
                if masks != NULL and masks[i]:
                    scores[i] = _score_within(self, table, request, index, masks[i])
                else:
                    scores[i] = _score_node(self, table, request, index)

    cdef int64_t score_group(self, DeviceRequest request, const DeviceGroup* group, const int64_t* amounts) noexcept nogil:
        cdef int64_t[2 * GPU_RESOURCES] sums
        cdef int r, p
        for r in range(resources_of(group.type)):
            sums[2 * r] = sums[2 * r + 1] = 0
            for p in range(group.count):
                if group.candidates & position(p):
                    sums[2 * r] += group.total[r * group.total_stride + p]
                    sums[2 * r + 1] += group.free[r * group.free_stride + p]
        return _of_sums(self, group.type, sums, amounts)

    cdef int64_t score_device(self, const DeviceGroup* group, int at, const int64_t* amounts) noexcept nogil:
        cdef int64_t[2 * GPU_RESOURCES] sums
        cdef int r
        for r in range(resources_of(group.type)):
            sums[2 * r] = group.total[r * group.total_stride + at]
            sums[2 * r + 1] = group.free[r * group.free_stride + at]
        return _of_sums(self, group.type, sums, amounts)


cdef inline int64_t _score_node(DeviceScoring scoring, DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil:
    """Return the score of a node, all its listed devices counted; 0 to 100 for each type that is asked for."""
    cdef const int64_t* sums = &table.sums[index * RESOURCES * 2]
    cdef int64_t score = 0
    cdef int i, type
    for i in range(request.type_count):
        type = request.types[i]
        # A type of which nothing at all is free has no devices (§6): it scores nothing.
        if table.node[index].flags & <uint32_t> HAS_FREE << type and not is_skipped(table, request, index, type):
            score += _of_sums(scoring, type, sums + 2 * first_resource(type), &request.amount[type][0])
    return score


cdef int64_t _score_within(DeviceScoring scoring, DeviceTable table, DeviceRequest request, Py_ssize_t index, uint64_t mask) noexcept nogil:
    """Return the same, only the devices counted that are of these NUMA ids or have a topology without one."""
    cdef int64_t[2 * GPU_RESOURCES] sums
    cdef int64_t[LARGEST_GROUP] inside   # -1: the device counts
    cdef const DeviceColumns* columns
    cdef const Cells* cells
    cdef const int64_t* total
    cdef const int64_t* free
    cdef int64_t score = 0, some
    cdef int8_t numa
    cdef int i, k, r, at, type
    for i in range(request.type_count):
        type = request.types[i]
        if not table.node[index].flags & <uint32_t> HAS_FREE << type or is_skipped(table, request, index, type):
            continue
        columns, cells = &table.columns[type], &table.node[index].cells[type]
        some = 0
        for at in range(cells.count):
            numa = columns.numa[cells.start + at]  # devices that are not listed have no topology
            inside[at] = -<int64_t> (numa == -1 or (numa >= 0 and mask >> numa & 1))
            some |= inside[at]
        if not some:
            continue
        for k in range(scoring.weighted[type]):
            r = scoring.weighing[type][k]
            total, free = columns.total + r * columns.capacity + cells.start, columns.free + r * columns.capacity + cells.start
            sums[2 * r] = sums[2 * r + 1] = 0
            for at in range(cells.count):
                sums[2 * r] += total[at] & inside[at]
                sums[2 * r + 1] += free[at] & inside[at]
        score += _of_sums(scoring, type, sums, &request.amount[type][0])
    return score


cdef inline int64_t _of_sums(DeviceScoring scoring, int type, const int64_t* sums, const int64_t* amounts) noexcept nogil:
    """Return the score for sums as DeviceTable has them: of each resource the total, then what is free. amounts: of one device."""
    cdef int64_t sum = 0, weights = 0, weight, requested, total, free
    cdef int i, r
    for i in range(scoring.weighted[type]):
        r = scoring.weighing[type][i]
        weight = scoring.weight[type][r]
        total, free = sums[2 * r], sums[2 * r + 1]
        if total == 0:
            continue
        requested = total - free + amounts[r] if free <= total else total
        weights += weight
        if scoring.most:
            sum += weight * (_percent(requested, total) if requested < total else MAX_SCORE)
        elif requested <= total:
            sum += weight * _percent(total - requested, total)
    if weights == 0:
        return 0
    return sum // weights if weights > 2 else sum >> (weights - 1)  # mostly 1 or 2: no division


cdef inline int64_t _percent(int64_t part, int64_t whole) noexcept nogil:
    """Return 100 * part // whole, 0 <= part <= whole < 2^56. Quicker than a division of integers (bench_deviceshare.py)."""
    cdef int64_t found = <int64_t> (<double> (MAX_SCORE * part) / <double> whole)
    # Off by rounding alone, so by one at most.
    if found * whole > MAX_SCORE * part:
        return found - 1
    return found + 1 if (found + 1) * whole <= MAX_SCORE * part else found
