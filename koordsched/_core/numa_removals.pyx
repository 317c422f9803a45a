"""What Filter says of a node's zones while preemption removes pods from it and puts them back.

What is taken of the zones is changed and changed back, so that Filter's own code answers, together with the hints of another plugin, whose
kernel has its columns follow. CPUs of their own are sets, not amounts: rows with pods that have some are left to the filter itself.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t
from libc.string cimport memset

from koordsched._core.numa cimport MAX_AMOUNT_BITS, NUMA_BEST_EFFORT, NUMA_NONE, NUMA_SINGLE, index_of
from koordsched._core.numa_filter cimport code_of_row, unaligned_code
from koordsched._core.numa_zones cimport PASS, UNALIGNED, Zones, agree, read_items
from koordsched._core.pod_index cimport PodIndex
from koordsched._core.prefetch cimport prefetch


cdef class NumaHoldings(CompiledHoldings):

    def __init__(self, NumaTable table not None, PodIndex pods not None, held_by not None):
        CompiledHoldings.__init__(self, pods, held_by)
        self.table = table

    def __dealloc__(self):
        cdef Py_ssize_t row
        for row in range(self.capacity):
            self.forget(row)
        PyMem_Free(self.rows)

    cdef const RowZones* of(self, Py_ssize_t row) except NULL:
        self.bring(row)
        return &self.rows[row]

    cdef int lengthen(self, Py_ssize_t capacity) except -1:
        cdef RowZones* rows = <RowZones*> PyMem_Realloc(self.rows, capacity * sizeof(RowZones))
        if rows == NULL:
            raise MemoryError
        memset(rows + self.capacity, 0, (capacity - self.capacity) * sizeof(RowZones))
        self.rows = rows
        self.capacity = capacity
        return 0

    cdef void forget(self, Py_ssize_t row) noexcept:
        PyMem_Free(self.rows[row].first)
        PyMem_Free(self.rows[row].held)
        memset(&self.rows[row], 0, sizeof(RowZones))

    cdef int compile(self, Py_ssize_t row, list pods) except -1:
        cdef RowZones* found = &self.rows[row]
        cdef Py_ssize_t i, index = index_of(self.table, row)
        cdef int32_t written = 0, zone
        held = self.held_by(row, pods)
        if held is None:
            return 0
        found.first = <int32_t*> PyMem_Calloc(len(pods) + 1, sizeof(int32_t))
        found.held = <HeldInZone*> PyMem_Calloc(sum([len(amounts) for amounts in held]) + 1, sizeof(HeldInZone))
        if found.first == NULL or found.held == NULL:
            raise MemoryError
        for i, amounts in enumerate(held):
            for numa, resource, amount in amounts:
                zone = self._place(index, numa)
                if zone < 0:
                    continue
                found.held[written].slot = self.table.slot_of[resource]
                found.held[written].zone = zone
                if self.table.allocated[found.held[written].slot, index * self.table.width + zone] >> MAX_AMOUNT_BITS:
                    return 0  # more is held than is counted
                found.held[written].amount = amount
                written += 1
            found.first[i + 1] = written
        found.count = written
        found.is_known = True
        return 0

    cdef int32_t _place(self, Py_ssize_t index, int zone) noexcept:
        # Return the place of the zone among those of the node, -1: it has no such.
        cdef int32_t place
        for place in range(self.table.zone_count[index]):
            if self.table.zone_id[index * self.table.width + place] == zone:
                return place
        return -1


cdef class NumaRemovals(RemovalFilter):

    def __init__(
        self, NumaHoldings holdings not None, NumaRequest request not None, NumaScoring scoring=None, NumaHintSource source=None,
        tuple needs not None=(),
    ):
        if source is not None and scoring is None:
            raise TypeError("which zones are tried depends on the scoring: there is none")
        self.holdings = holdings
        self.request = request
        self.scoring = scoring
        self.source = source
        self.needs = needs

    def __eq__(self, other):
        cdef NumaRemovals that
        if not isinstance(other, NumaRemovals):
            return NotImplemented
        that = <NumaRemovals> other
        return (
            self.holdings is that.holdings and self.request is that.request and self.scoring is that.scoring and self.source is that.source
            and self.needs == that.needs
        )

    def __hash__(self):
        return hash((NumaRemovals, id(self.holdings), id(self.request), id(self.source)))

    cdef void expect(self, Py_ssize_t row, Py_ssize_t pods) noexcept:
        cdef NumaTable table = self.holdings.table
        cdef const RowZones* held
        cdef Py_ssize_t cell = index_of(table, row) * table.width
        cdef int i
        if row < self.holdings.capacity and self.holdings.rows[row].first != NULL:
            held = &self.holdings.rows[row]
            prefetch(&held.first[pods])
            prefetch(&held.held[max(held.count - 1, 0)])
            prefetch(&held.held[max(held.count - 4, 0)])
            for i in range(self.items.count):
                if self.items.slot[i] >= 0:
                    prefetch(&table.allocated[self.items.slot[i], cell])
                    prefetch(&table.total[self.items.slot[i], cell])

    cdef bint begin(self, Py_ssize_t row) except -1:
        cdef NumaTable table = self.holdings.table
        cdef Zones zones
        self.row = row
        self.index = index_of(table, row)
        self.zones = NULL
        read_items(&self.items, table, self.request, self.scoring)
        if self.source is not None:
            self.source.begin()
        if agree(table, self.request, self.index, &zones) != PASS:
            return True  # for a reason that no pod there has a part in
        if zones.bind or zones.ratio > 1 or table.checked_ratio[self.index] > 1:
            return False
        if zones.numa_policy == NUMA_NONE:
            return True
        self.policy = zones.numa_policy
        self.zones = self.holdings.of(row)
        return self.zones.is_known

    cdef bint is_monotone(self) noexcept:
        if self.zones == NULL or self.source is None or self.policy == NUMA_BEST_EFFORT:
            return True  # amounts alone decide, and the more of them the better
        # Under Restricted the narrowest sets of the source count: one that becomes free hides wider ones, from which alone all may come.
        return self.policy == NUMA_SINGLE and self.source.is_monotone(self.row)

    cdef void remove(self, Py_ssize_t i) noexcept:
        self._move(i, -1)

    cdef void put_back(self, Py_ssize_t i) noexcept:
        self._move(i, 1)

    cdef void _move(self, Py_ssize_t i, int sign) noexcept:
        cdef NumaTable table = self.holdings.table
        cdef const HeldInZone* held
        cdef Py_ssize_t k
        if self.zones == NULL:
            return
        for k in range(self.zones.first[i], self.zones.first[i + 1]):
            held = &self.zones.held[k]
            table.allocated[held.slot, self.index * table.width + held.zone] += sign * held.amount

    cdef int32_t code(self) noexcept:
        cdef Zones zones
        return code_of_row(self.holdings.table, self.request, &self.items, self.source, None, self.row, &zones)

    cdef int32_t explained(self, int32_t code) except -1:
        if code != UNALIGNED:
            return code
        return unaligned_code(self.holdings.table, self.request, &self.items, self.source, self.row)
