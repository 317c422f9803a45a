"""From which NUMA nodes of a row a pod's devices could come, for the topology manager (deviceshare.md §9).

Every set of the NUMA nodes that devices lie in is tried by the allocator that Filter and Reserve ask, so that what is hinted at can be
allocated. A set that gives the same GPUs as all NUMA nodes together scores more than CPUs and memory ever do.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from koordsched._core.device_allocation cimport try_allocate
from koordsched._core.device_facts import DEVICE_TYPE_NAMES
from koordsched._core.device_feasibility cimport Counted, counts_devices
from koordsched._core.device_group cimport INSUFFICIENT_NUMA, PASS, read_desired
from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_selection cimport Outcome
from koordsched._core.device_table cimport (
    GPU,
    HAS_ENTRY,
    HONORS_PARTITIONS,
    NO_TOPOLOGY,
    TYPES,
    Cells,
    DeviceColumns,
    DeviceNode,
    DeviceTable,
    Masks,
    Positions,
    index_of,
    position,
)
from koordsched._core.hint_source cimport MAX_HINTS, FoundHints
from koordsched._core.numa_facts import HintAnswer
from koordsched._core.numa_zones cimport Masks as Sets
from koordsched._core.numa_zones cimport begin_masks, bits, next_mask

cdef extern from *:
    """
    #define KOORDSCHED_LOWEST(mask) __builtin_ctzll(mask)
    """
    int lowest "KOORDSCHED_LOWEST"(uint64_t mask) nogil

cdef int64_t SAME_GPUS = 500
cdef int FULLY_LISTED = 8  # NUMA nodes up to which every set is tried; of more, single ones and all together


cdef class DeviceHints(NumaHintSource):

    def __init__(self, DeviceTable table not None, DeviceRequest request not None, DeviceAdjustment adjustment=None):
        self.names = DEVICE_TYPE_NAMES
        self.consistent = True
        self.table = table
        self.request = request
        self.adjustment = adjustment

    def answer(self, Py_ssize_t row, *, bint narrowest=False):
        cdef FoundHints found
        cdef int i
        self.table.nodes.check_row(row)
        self.begin()
        with nogil:
            self.find(row, narrowest, &found)
        if found.code != PASS or not found.named:
            return HintAnswer(code=found.code)
        hints = [(found.mask[i], found.score[i]) for i in range(found.count)]
        return HintAnswer(frozenset([name for i, name in enumerate(self.names) if found.named >> i & 1]), hints)

    cdef int begin(self) except -1:
        self.request.prepare(self.table)
        if self.adjustment is not None:
            self.adjustment.prepare(self.table)
        return 0

    cdef void find(self, Py_ssize_t row, bint narrowest, FoundHints* found) noexcept nogil:
        cdef Py_ssize_t index = index_of(self.table, row)
        cdef Outcome best
        cdef uint64_t ids = self.table.node[index].numa_ids
        cdef int type, size
        cdef int count = bits(ids)
        found.code = PASS
        found.named = 0
        found.count = 0
        if not self.table.node[index].flags & HAS_ENTRY or not ids:
            return
        if narrowest and self.request.plain and self.adjustment is None and self._count_gpus(index, found):
            return
        found.code = read_desired(self.table, self.request, index, False, &best.desired)
        if found.code == PASS:
            found.code = self._try(index, ids, &best, &best)
        if found.code != PASS:
            return
        for type in range(TYPES):
            found.named |= (<unsigned int> best.desired.asks[type]) << type
        for size in range(1, count):
            if count <= FULLY_LISTED or size == 1:
                self._of_size(index, size, &best, found)
            if narrowest and found.count:
                return
        found.mask[found.count] = ids
        found.score[found.count] = SAME_GPUS
        found.count += 1

    cdef bint is_monotone(self, Py_ssize_t row) noexcept nogil:
        """Answer whether any GPUs that fit will do; where some are in use that are not there, others count by where one looks."""
        cdef Py_ssize_t index = index_of(self.table, row)
        cdef const DeviceNode* node = &self.table.node[index]
        cdef const Masks* masks = &self.table.masks[index * TYPES + GPU]
        cdef Counted counted
        if not node.flags & HAS_ENTRY or not node.numa_ids:
            return True
        return (
            self.request.plain and self.adjustment is None and masks.held & ~masks.healthy == 0
            and counts_devices(self.table, self.request, index, &counted)
        )

    cdef bint _count_gpus(self, Py_ssize_t index, FoundHints* found) noexcept nogil:
        """Write the single NUMA nodes by counting GPUs that fit; False, and nothing is written, where that takes the allocator.

        Halves the time of Filter (bench/bench_numa_joint.py). What is taken of one NUMA node is what is taken of all if that lies
        in it: the allocator takes the best of what there is, so leaving out others does not change which is best.
        """
        cdef const DeviceNode* node = &self.table.node[index]
        cdef const DeviceColumns* columns = &self.table.columns[GPU]
        cdef const Cells* cells = &node.cells[GPU]
        cdef const Masks* masks = &self.table.masks[index * TYPES + GPU]
        cdef int wanted = self.request.count[GPU]
        cdef uint64_t[64] within     # [NUMA id] positions of GPUs there
        cdef uint64_t anywhere = 0   # positions of GPUs whose NUMA node is not known
        cdef uint64_t listed, fitting, there, ids
        cdef int at, k, r, numa
        cdef bint fits
        cdef Outcome best
        if cells.count == 0 or cells.count > 64 or (node.flags & HONORS_PARTITIONS and not self.request.shared):
            return False
        if masks.held & ~masks.healthy:
            return False  # devices in use that are not there count by where one looks
        ids = node.numa_ids
        while ids:
            within[lowest(ids)] = 0
            ids &= ids - 1
        fitting = 0
        for at in range(cells.count):
            numa = columns.numa[cells.start + at]
            if numa >= 0:
                within[numa] |= (<uint64_t> 1) << at
            elif numa == -1:
                anywhere |= (<uint64_t> 1) << at
            fits = numa != NO_TOPOLOGY
            for k in range(self.request.named_count[GPU]):
                r = self.request.named[GPU][k]
                fits &= columns.free[r * columns.capacity + cells.start + at] >= self.request.amount[GPU][r]
            fitting |= (<uint64_t> fits) << at
        listed = <uint64_t> masks.listed
        fitting &= listed & <uint64_t> masks.available
        there = 0
        ids = node.numa_ids
        while ids:
            there |= within[lowest(ids)] & listed
            ids &= ids - 1
        if there and bits(there) < wanted:
            return False  # all NUMA nodes together have too few
        ids = node.numa_ids
        while ids:
            numa = lowest(ids)
            ids &= ids - 1
            there = within[numa]
            if bits(there & listed) and bits(there & listed) < wanted:
                continue
            if bits(fitting & (there | anywhere)) >= wanted:
                found.mask[found.count] = (<uint64_t> 1) << numa
                found.score[found.count] = there | anywhere
                found.count += 1
        if found.count == 0:
            return False
        if found.count > 1:
            if try_allocate(self.table, self.request, index, None, None, node.numa_ids, False, &best) != PASS:
                found.count = 0
                return False
            listed = <uint64_t> best.taken[GPU].devices
        for at in range(found.count):
            found.score[at] = SAME_GPUS if found.count == 1 or not listed & ~<uint64_t> found.score[at] else 0
        found.named = 1 << GPU
        return True

    cdef void _of_size(self, Py_ssize_t index, int size, const Outcome* best, FoundHints* found) noexcept nogil:
        """Add the sets of a size that devices can be allocated from."""
        cdef Sets sets
        cdef Outcome outcome
        cdef uint64_t mask
        begin_masks(&sets, self.table.node[index].numa_ids, size)
        while found.count < MAX_HINTS - 1 and next_mask(&sets, &mask):
            if self._try(index, mask, best, &outcome) == PASS:
                found.mask[found.count] = mask
                found.score[found.count] = SAME_GPUS if outcome.taken[GPU].devices == best.taken[GPU].devices else 0
                found.count += 1

    cdef int32_t _try(self, Py_ssize_t index, uint64_t mask, const Outcome* wanted, Outcome* out) noexcept nogil:
        """Try to allocate within these NUMA nodes. wanted: what types are asked for, and how many devices of each."""
        cdef const Cells* cells
        cdef Positions listed
        cdef int type, at, numa, within
        for type in range(TYPES):
            if not wanted.desired.asks[type]:
                continue
            cells = &self.table.node[index].cells[type]
            listed = self.table.masks[index * TYPES + type].listed
            within = 0
            for at in range(cells.count):
                numa = self.table.columns[type].numa[cells.start + at]
                if numa >= 0 and mask >> numa & 1 and listed & position(at):
                    within += 1
            if 0 < within < wanted.desired.count[type]:
                return INSUFFICIENT_NUMA
        return try_allocate(self.table, self.request, index, self.adjustment, None, mask, False, out)

    cdef int32_t refusal(self, Py_ssize_t row, uint64_t mask) noexcept nogil:
        cdef Outcome outcome
        cdef Py_ssize_t index = index_of(self.table, row)
        if not self.table.node[index].flags & HAS_ENTRY:
            return PASS
        return try_allocate(self.table, self.request, index, self.adjustment, None, mask, False, &outcome)
