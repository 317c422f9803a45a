"""What a newcomer of a higher level could gain on each row by sending occupants away."""

import numpy as np

cimport cython
from cpython.object cimport PyObject

cdef int64_t WEIGHT = <int64_t> 1 << 31  # added to each level, so that the sum grows with every victim; no enum: those are C ints


@cython.final
cdef class Prospects:

    def __init__(self, Occupancy occupancy not None, int32_t level, Request request not None):
        cdef Py_ssize_t j
        if request.ids.shape[0] > MOST_IDS:
            raise ValueError(f"a request of {request.ids.shape[0]} resources: a reason code holds {MOST_IDS}")
        self.occupancy = occupancy
        self.level = level
        self.request = request
        self.width = request.ids.shape[0]
        for j in range(self.width):
            self.ids[j] = request.ids[j]
            self.needed[j] = request.amounts[j]
        self.generation = -1
        self.beyond = self.victim = np.zeros(0, np.uint8)
        self.left = np.zeros(0, np.int64)

    def refresh(self):
        """Bring all rows up to date: O(rows that changed), or all of them after a change that concerns all."""
        cdef Occupancy occupancy = self.occupancy
        cdef NodeTable table = occupancy.table
        cdef Py_ssize_t row, i
        cdef int32_t[::1] changed
        self._prepare()
        found = table.changes_since(self.table_position) if self.generation == occupancy.generation else None
        if found is None or self.capacity != table.capacity or occupancy.log_end - self.log_position > LOG_ROWS:
            self._start_over()
            for row in range(table.extent()):
                self._row(row, NULL)
        else:
            changed = found[0]
            for i in range(changed.shape[0]):
                self._row(changed[i], NULL)
            for i in range(self.log_position, occupancy.log_end):
                self._row(occupancy.log[i & (LOG_ROWS - 1)], NULL)
        self.table_position = table.log_end
        self.log_position = occupancy.log_end
        self.generation = occupancy.generation

    cdef int _prepare(self) except -1:
        cdef Occupancy occupancy = self.occupancy
        if self.beyond.shape[0] < occupancy.widest:
            self.beyond = np.zeros(2 * occupancy.widest, np.uint8)
            self.victim = np.zeros(2 * occupancy.widest, np.uint8)
        if self.left.shape[0] != occupancy.allowed.shape[0]:
            self.left = np.zeros(occupancy.allowed.shape[0], np.int64)
        if self.request.largest >= occupancy.amounts.shape[1]:
            occupancy._widen(0, self.request.largest + 1)
        self.amounts = &occupancy.amounts[0, 0]
        self.stride = occupancy.amounts.shape[1]
        self.levels = &occupancy.levels[0]
        return 0

    def _start_over(self):
        cdef Py_ssize_t capacity = self.occupancy.table.capacity
        self.capacity = capacity
        self.code = np.full(capacity, ABSENT, np.int32)
        self.harmed = np.zeros(capacity, np.int32)
        self.top = np.zeros(capacity, np.int32)
        self.total = np.zeros(capacity, np.int64)
        self.count = np.zeros(capacity, np.int32)
        self.tied = np.zeros(capacity, np.int32)
        self.started = np.zeros(capacity, np.float64)
        self.promising = 0

    # One row

    cdef int _row(self, Py_ssize_t row, PyObject* own) except -1:
        """Foresee a row. own: a claim that is the newcomer's itself, so that it stands in nobody's way."""
        cdef Occupancy occupancy = self.occupancy
        cdef NodeTable table = occupancy.table
        cdef Py_ssize_t begin = 0, end = 0, i, j, removable = 0
        cdef Occupant* occupants = NULL
        cdef int32_t resource
        self.promising -= self.code[row] == FITS
        if not table.live[row]:
            self.code[row] = ABSENT
            return 0
        if row < occupancy.capacity:
            occupants = occupancy.rows[row]
            end = occupancy.counts[row]
            while begin < end and self.levels[occupants[begin].kind] >= self.level:
                begin += 1
        for j in range(self.width):
            resource = self.ids[j]
            self.free[j] = table.allocatable[resource, row] - table.requested[resource, row] if resource < table.resources else 0
        if end and occupancy.claims[row]:
            for i in range(begin):
                if occupants[i].claim and occupants[i].item != own:
                    self._shift(&occupants[i], -1)
        for i in range(begin, end):
            if self._removable(&occupants[i]):
                self._shift(&occupants[i], 1)
                removable += 1
        if removable == 0:
            self.code[row] = NOBODY
            return 0
        self.code[row] = self._shortage(row)
        if self.code[row] != FITS:
            return 0
        self.promising += 1
        self._guard(occupants, begin, end)
        for i in range(begin, end):
            if self.beyond[i]:
                self._spare(occupants, i)
        for i in range(begin, end):
            if not self.beyond[i]:
                self._spare(occupants, i)
        self._sum_up(row, occupants, begin, end)
        return 0

    cdef bint _removable(self, Occupant* occupant) noexcept:
        return not occupant.claim and not occupant.pinned

    cdef void _shift(self, Occupant* occupant, int sign) noexcept:
        cdef Py_ssize_t j
        cdef const int64_t* amounts = self.amounts + occupant.kind * self.stride
        for j in range(self.width):
            self.free[j] += sign * amounts[self.ids[j]]

    cdef bint _fits(self) noexcept:
        cdef Py_ssize_t j
        for j in range(self.width):
            if self.needed[j] > self.free[j]:
                return False
        return True

    cdef int32_t _shortage(self, Py_ssize_t row) noexcept:
        # As filter_fit does; that an amount is beyond the row's capacity is no matter here, since such a row is never asked about.
        cdef Py_ssize_t j
        cdef int32_t code = 0
        for j in range(self.width):
            if self.needed[j] > self.free[j]:
                code |= 1 << j
        return code

    cdef void _guard(self, Occupant* occupants, Py_ssize_t begin, Py_ssize_t end) noexcept:
        # Sets beyond[begin:end]: walking from the most important one, which of those who go exceed a guard.
        cdef Occupancy occupancy = self.occupancy
        cdef Py_ssize_t i, k
        cdef int32_t guard
        cdef bint guarded = False
        for i in range(begin, end):
            self.beyond[i] = 0
            guarded |= occupants[i].guards != 0
        if not guarded:
            return
        self.left[:] = occupancy.allowed
        for i in range(begin, end):
            if not self._removable(&occupants[i]):
                continue
            for k in range(occupancy.set_begin[occupants[i].guards], occupancy.set_begin[occupants[i].guards + 1]):
                guard = occupancy.set_guards[k]
                self.left[guard] -= 1
                if self.left[guard] < 0:
                    self.beyond[i] = 1

    cdef void _spare(self, Occupant* occupants, Py_ssize_t i) noexcept:
        # Put one back if the newcomer still fits then; else it is a victim.
        self.victim[i] = 0
        if not self._removable(&occupants[i]):
            return
        self._shift(&occupants[i], -1)
        if not self._fits():
            self._shift(&occupants[i], 1)
            self.victim[i] = 1

    cdef void _sum_up(self, Py_ssize_t row, Occupant* occupants, Py_ssize_t begin, Py_ssize_t end) noexcept:
        cdef Py_ssize_t i
        cdef int32_t count = 0, harmed = 0, tied = 0, level
        cdef int64_t total = 0
        for i in range(begin, end):
            if not self.victim[i]:
                continue
            level = self.levels[occupants[i].kind]
            if count == 0:
                self.top[row] = level
                self.started[row] = occupants[i].started
            count += 1
            harmed += self.beyond[i]
            tied += occupants[i].tied
            total += level + WEIGHT
        self.count[row] = count
        self.harmed[row] = harmed
        self.tied[row] = tied
        self.total[row] = total

    # Reading; `refresh` comes first

    def reconsider(self, Py_ssize_t row, own):
        """Foresee one row anew for the newcomer to whom this claim belongs. It counts until `restore`."""
        self.occupancy.table.check_row(row)
        self._prepare()
        self._row(row, <PyObject*> own)

    def restore(self, Py_ssize_t row):
        """Undo `reconsider`."""
        self._prepare()
        self._row(row, NULL)

    def codes(self, const int32_t[::1] rows):
        """Return FITS, NOBODY, ABSENT or the code of filter_fit for each row."""
        cdef Py_ssize_t i
        answer = np.empty(rows.shape[0], np.int32)
        cdef int32_t[::1] view = answer
        for i in range(rows.shape[0]):
            if rows[i] < 0 or rows[i] >= self.capacity:
                raise IndexError(f"row {rows[i]} of {self.capacity}")
            view[i] = self.code[rows[i]]
        return answer

    def best(self, const int32_t[::1] rows, const int32_t[::1] place):
        """Return the best of the rows that fit, or -1. place: [row], the smaller one wins where all else is equal."""
        cdef Py_ssize_t i, best = -1
        for i in range(rows.shape[0]):
            if rows[i] < 0 or rows[i] >= self.capacity or rows[i] >= place.shape[0]:
                raise IndexError(f"row {rows[i]} of {min(self.capacity, place.shape[0])}")
            if self.code[rows[i]] == FITS and (best < 0 or self._better(rows[i], best, place)):
                best = rows[i]
        return best

    cdef bint _better(self, Py_ssize_t a, Py_ssize_t b, const int32_t[::1] place) noexcept:
        if self.harmed[a] != self.harmed[b]:
            return self.harmed[a] < self.harmed[b]
        if self.top[a] != self.top[b]:
            return self.top[a] < self.top[b]
        if self.total[a] != self.total[b]:
            return self.total[a] < self.total[b]
        if self.count[a] != self.count[b]:
            return self.count[a] < self.count[b]
        if self.tied[a] != self.tied[b]:
            return self.tied[a] < self.tied[b]
        if self.started[a] != self.started[b]:
            return self.started[a] > self.started[b]
        return place[a] < place[b]

    def worth(self, Py_ssize_t row):
        """Return (harmed, top, total, count, tied, -started) of a row that fits: what `best` minimises."""
        return (self.harmed[row], self.top[row], self.total[row], self.count[row], self.tied[row], -self.started[row])

    def victims(self, Py_ssize_t row, own=None):
        """Return (victims, the most important first; how many exceed a guard) of a row that fits. own: as for `reconsider`."""
        cdef Py_ssize_t i
        cdef Occupancy occupancy = self.occupancy
        self.occupancy.table.check_row(row)
        self._prepare()
        self._row(row, <PyObject*> own)
        if self.code[row] != FITS:
            raise LookupError(f"row {row} does not fit")
        found = [
            <object> occupancy.rows[row][i].item
            for i in range(occupancy.counts[row])
            if occupancy.levels[occupancy.rows[row][i].kind] < self.level and self.victim[i]
        ]
        return found, self.harmed[row]

    def floors(self, const int32_t[::1] rows):
        """Return for each row (does even a choice without harm suffice, the lowest level that must go): bounds for who is more choosy.

        (harm, level): harm 0 if the newcomer could fit by sending away only who is within its guards, else 1; level: the lowest one such
        that it fits when everybody up to it goes. Both are bounds for every set of victims that makes room, whatever else it must fulfil.
        """
        cdef Py_ssize_t i, k, begin, end, row
        cdef Occupancy occupancy = self.occupancy
        cdef Occupant* occupants
        harms = np.zeros(rows.shape[0], np.int32)
        levels = np.zeros(rows.shape[0], np.int32)
        cdef int32_t[::1] harm = harms, floor = levels
        self._prepare()
        for i in range(rows.shape[0]):
            row = rows[i]
            self._row(row, NULL)
            if self.code[row] != FITS:
                continue
            occupants = occupancy.rows[row]
            end = occupancy.counts[row]
            begin = 0
            while self.levels[occupants[begin].kind] >= self.level:
                begin += 1
            self._all_gone(row, occupants, begin, end)
            # Put back from the top, level by level: the first level that cannot come back as a whole is the floor.
            k = begin
            while k < end:
                floor[i] = self.levels[occupants[k].kind]
                while k < end and self.levels[occupants[k].kind] == floor[i]:
                    if self._removable(&occupants[k]):
                        self._shift(&occupants[k], -1)
                    k += 1
                if not self._fits():
                    break
            self._all_gone(row, occupants, begin, end)
            for k in range(begin, end):
                if self.beyond[k] and self._removable(&occupants[k]):
                    self._shift(&occupants[k], -1)
            harm[i] = not self._fits()
        return harms, levels

    cdef void _all_gone(self, Py_ssize_t row, Occupant* occupants, Py_ssize_t begin, Py_ssize_t end) noexcept:
        cdef Py_ssize_t i, j
        cdef NodeTable table = self.occupancy.table
        for j in range(self.width):
            self.free[j] = table.allocatable[self.ids[j], row] - table.requested[self.ids[j], row]
        for i in range(begin, end):
            if self._removable(&occupants[i]):
                self._shift(&occupants[i], 1)
