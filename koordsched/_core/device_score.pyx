"""Scores by how much of devices is in use, with the request (deviceshare.md §7)."""

from libc.stdint cimport int8_t, int64_t, uint32_t, uint64_t

from koordsched._core.device_facts import DeviceResource
from koordsched._core.device_request cimport DeviceRequest, is_skipped
from koordsched._core.device_table cimport (
    GPU_RESOURCES,
    HAS_FREE,
    RESOURCES,
    TYPES,
    DeviceColumns,
    DeviceNode,
    DeviceTable,
    first_resource,
    position,
    resources_of,
)

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

    cdef int64_t score_node(self, DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil:
        cdef const int64_t* sums = &table.sums[index * RESOURCES * 2]
        cdef int64_t score = 0
        cdef int type
        for type in range(TYPES):
            # A type of which nothing at all is free has no devices (§6): it scores nothing.
            if request.asks[type] and table.node[index].flags & <uint32_t> HAS_FREE << type and not is_skipped(table, request, index, type):
                score += self.of_sums(type, sums + 2 * first_resource(type), &request.amount[type][0])
        return score

    cdef int64_t score_within(self, DeviceTable table, DeviceRequest request, Py_ssize_t index, uint64_t mask) noexcept nogil:
        cdef int64_t[2 * GPU_RESOURCES] sums
        cdef const DeviceNode* node = &table.node[index]
        cdef const DeviceColumns* columns
        cdef const int64_t* total
        cdef const int64_t* free
        cdef const int8_t* numa
        cdef int64_t score = 0, inside, found
        cdef int i, k, at, type
        for i in range(request.type_count):
            type = request.types[i]
            if not node.flags & <uint32_t> HAS_FREE << type or is_skipped(table, request, index, type):
                continue
            columns = &table.columns[type]
            numa = columns.numa + node.cells[type].start
            # Devices that are not listed have no topology: none of them is inside.
            found = 0
            for k in range(self.weighted[type]):
                total = columns.total + self.weighing[type][k] * columns.capacity + node.cells[type].start
                free = columns.free + self.weighing[type][k] * columns.capacity + node.cells[type].start
                sums[2 * self.weighing[type][k]] = sums[2 * self.weighing[type][k] + 1] = 0
                for at in range(node.cells[type].count):
                    inside = -<int64_t> (numa[at] == -1 or (numa[at] >= 0 and mask >> numa[at] & 1))
                    found |= inside
                    sums[2 * self.weighing[type][k]] += total[at] & inside
                    sums[2 * self.weighing[type][k] + 1] += free[at] & inside
            if found:
                score += self.of_sums(type, sums, &request.amount[type][0])
        return score

    cdef int64_t score_group(self, DeviceRequest request, const DeviceGroup* group, const int64_t* amounts) noexcept nogil:
        cdef int64_t[2 * GPU_RESOURCES] sums
        cdef int r, p
        for r in range(resources_of(group.type)):
            sums[2 * r] = sums[2 * r + 1] = 0
            for p in range(group.count):
                if group.candidates & position(p):
                    sums[2 * r] += group.total[r * group.total_stride + p]
                    sums[2 * r + 1] += group.free[r * group.free_stride + p]
        return self.of_sums(group.type, sums, amounts)

    cdef int64_t score_device(self, const DeviceGroup* group, int at, const int64_t* amounts) noexcept nogil:
        cdef int64_t[2 * GPU_RESOURCES] sums
        cdef int r
        for r in range(resources_of(group.type)):
            sums[2 * r] = group.total[r * group.total_stride + at]
            sums[2 * r + 1] = group.free[r * group.free_stride + at]
        return self.of_sums(group.type, sums, amounts)

    cdef int64_t of_sums(self, int type, const int64_t* sums, const int64_t* amounts) noexcept nogil:
        cdef int64_t sum = 0, weights = 0, weight, requested, total, free
        cdef int i, r
        for i in range(self.weighted[type]):
            r = self.weighing[type][i]
            weight = self.weight[type][r]
            total, free = sums[2 * r], sums[2 * r + 1]
            if total == 0:
                continue
            requested = total - free + amounts[r] if free <= total else total
            weights += weight
            if self.most:
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
