"""Which filter refused each row and why: the codes that filters answered, and what follows from them."""

import numpy as np

cimport cython
cimport numpy as cnp
from libc.string cimport memcpy, memset

from koordsched._core.scratch cimport CLEAN, DIRTY

cnp.import_array()


cdef inline int64_t _packed(int32_t failed, int32_t code) noexcept nogil:
    return (<int64_t> failed << 32) | code


@cython.final
cdef class Verdicts:

    # Loops over rows take their columns as local memoryviews: read through self, the pointers would be loaded again for every row.

    def __init__(self, Scratch scratch not None):
        self.scratch = scratch

    cdef int reserve(self, Py_ssize_t filters, Py_ssize_t capacity) except -1:
        # A memoryview that was never assigned cannot be compared with None when initialisation checks are off: ask the capacity first.
        self.filters = filters
        if self.capacity != capacity or self.codes.shape[0] < filters:
            self.codes = np.empty((max(filters, 1), capacity), np.int32)
            self.known = np.empty(capacity, np.uint64)
            self.failed = np.empty(capacity, np.int32)
            self.capacity = capacity
        return 0

    # A round

    cdef void begin(self, const uint8_t[::1] live) noexcept:
        # Dirty rows count as not feasible until they have passed every filter again.
        cdef Py_ssize_t i, count = 0
        cdef int32_t row, was
        cdef Scratch scratch = self.scratch
        cdef int32_t[::1] dirty = scratch.dirty, alive = scratch.alive, failed = self.failed
        cdef int32_t[:, ::1] codes = self.codes
        cdef int64_t[::1] before = scratch.before
        for i in range(scratch.dirty_count):
            row = dirty[i]
            was = failed[row]
            before[i] = was if was <= 0 else _packed(was, codes[was - 1, row])
            if was == 0:
                self.feasible_count -= 1
            failed[row] = NOT_LIVE
            if live[row]:
                alive[count] = row
                count += 1
        scratch.alive_count = count

    cdef void withdraw(self, int32_t first, uint64_t forgotten) noexcept:
        # Make dirty what is feasible or refused by filter first - 1 or a later one, as begin does, without making it alive.
        cdef Py_ssize_t row, count = self.scratch.dirty_count
        cdef int32_t was
        cdef int32_t[::1] dirty = self.scratch.dirty, failed = self.failed
        cdef int32_t[:, ::1] codes = self.codes
        cdef int64_t[::1] before = self.scratch.before
        cdef uint8_t[::1] flag = self.scratch.flag
        cdef uint64_t[::1] known = self.known
        for row in range(self.extent):
            known[row] &= ~forgotten
            was = failed[row]
            if (was == 0 or was >= first) and flag[row] == CLEAN:
                before[count] = 0 if was == 0 else _packed(was, codes[was - 1, row])
                self.feasible_count -= was == 0
                failed[row] = NOT_LIVE
                flag[row] = DIRTY
                dirty[count] = <int32_t> row
                count += 1
        self.scratch.dirty_count = count

    cdef int store(self, Py_ssize_t f, cnp.ndarray codes) except -1:
        # Take filter f's answer: one code for each row of work, or None when all of them pass.
        cdef Py_ssize_t i
        cdef int32_t least = 0
        cdef const int32_t* code
        cdef int32_t[::1] work = self.scratch.work, column = self.codes[f]
        if codes is None:
            self._pass_all(f)
            return 0
        code = <const int32_t*> self.scratch.memory_of(codes, cnp.NPY_INT32)
        for i in range(self.scratch.work_count):
            least = min(least, code[i])
        if least < 0:
            raise ValueError(f"code {least}: expected 0 or a positive reason")
        if self.blank[f] and not self.scratch.fresh:
            memset(&column[0], 0, self.extent * sizeof(int32_t))
        self.blank[f] = 0
        if self.scratch.work_count == self.scratch.alive_count:
            self._store_of_alive(f, code)
        else:
            for i in range(self.scratch.work_count):
                column[work[i]] = code[i]
            self.compact(f)
        return 0

    cdef void _pass_all(self, Py_ssize_t f) noexcept:
        cdef Py_ssize_t i
        cdef int32_t[::1] work = self.scratch.work, column = self.codes[f]
        if self.scratch.fresh:
            self.blank[f] = 1
        elif not self.blank[f]:
            for i in range(self.scratch.work_count):
                column[work[i]] = 0
        if self.scratch.work_count != self.scratch.alive_count:
            self.compact(f)

    cdef void _store_of_alive(self, Py_ssize_t f, const int32_t* code) noexcept:
        # All alive rows were asked about, in the same order: the answers need not be read back by row.
        cdef Py_ssize_t i, kept = 0, count = self.scratch.work_count
        cdef int32_t row, refused = <int32_t> f + 1
        cdef int32_t[::1] work = self.scratch.work, alive = self.scratch.alive, failed = self.failed, column = self.codes[f]
        if self.scratch.fresh and count and work[count - 1] - work[0] == count - 1:  # in a fresh round rows ascend, so these have no gap
            self._store_dense(f, code)
            return
        for i in range(count):
            row = work[i]
            column[row] = code[i]
            failed[row] = 0 if code[i] == 0 else refused
            alive[kept] = row
            kept += code[i] == 0
        self.scratch.alive_count = kept

    cdef void _store_dense(self, Py_ssize_t f, const int32_t* code) noexcept:
        # The rows are all of [first:first + count[: the answers are the column.
        cdef Py_ssize_t i, kept = 0, count = self.scratch.work_count
        cdef int32_t first = self.scratch.work[0], refused = <int32_t> f + 1
        cdef int32_t[::1] alive = self.scratch.alive
        cdef int32_t* failed = &self.failed[first]
        memcpy(&self.codes[f, first], code, count * sizeof(int32_t))
        for i in range(count):
            failed[i] = 0 if code[i] == 0 else refused
        for i in range(count):
            alive[kept] = first + <int32_t> i
            kept += code[i] == 0
        self.scratch.alive_count = kept

    cdef void compact(self, Py_ssize_t f) noexcept:
        # Keep of alive, which passed the filters before f, what filter f let pass.
        cdef Py_ssize_t i, kept = 0
        cdef int32_t row
        cdef int32_t[::1] alive = self.scratch.alive, failed = self.failed, codes = self.codes[f]
        if self.blank[f]:
            return  # all rows pass
        for i in range(self.scratch.alive_count):
            row = alive[i]
            if codes[row] == 0:
                alive[kept] = row
                kept += 1
            else:
                failed[row] = <int32_t> f + 1
        self.scratch.alive_count = kept

    cdef void settle(self) noexcept:
        # What is alive is feasible.
        cdef Py_ssize_t i
        cdef Scratch scratch = self.scratch
        cdef int32_t[::1] alive = scratch.alive, failed = self.failed
        for i in range(scratch.alive_count):
            failed[alive[i]] = 0
        self.feasible_count += scratch.alive_count
        if scratch.fresh:
            self.verdict_changed = self.feasible_changed = True
            scratch.feasible_of = self
        else:
            self._settle_dirty()
        if self.feasible_changed:
            self._feasibility_changed()

    cdef void _settle_dirty(self) noexcept:
        cdef Py_ssize_t i
        cdef int64_t after
        cdef int32_t row, refused
        cdef int32_t[::1] dirty = self.scratch.dirty, failed = self.failed
        cdef int32_t[:, ::1] codes = self.codes
        cdef int64_t[::1] before = self.scratch.before
        cdef uint8_t[::1] flag = self.scratch.flag
        cdef uint64_t[::1] known = self.known
        cdef uint64_t everything = lowest_bits(self.filters)
        cdef bint verdict_changed = False, feasible_changed = False
        for i in range(self.scratch.dirty_count):
            row = dirty[i]
            flag[row] = CLEAN
            after = refused = failed[row]
            if refused == 0:
                known[row] = everything
            elif refused > 0:
                known[row] |= lowest_bits(refused)  # asked up to the one that refused; what was known of later ones still is
                after = _packed(refused, codes[refused - 1, row])
            if after != before[i]:
                verdict_changed = True
                feasible_changed |= after == 0 or before[i] == 0
        self.verdict_changed = verdict_changed
        self.feasible_changed = feasible_changed

    cdef void leave_out_unchanged(self, Py_ssize_t start) noexcept:
        # Take out of dirty[start:] the rows that are feasible as before or infeasible as before: their totals are true still. Then make
        # alive the feasible rows of what is left.
        cdef Py_ssize_t i, kept = start, alive = 0
        cdef Scratch scratch = self.scratch
        cdef int32_t[::1] dirty = scratch.dirty, failed = self.failed
        cdef int64_t[::1] before = scratch.before
        for i in range(start, scratch.dirty_count):
            if (failed[dirty[i]] == 0) != (before[i] == 0):
                dirty[kept] = dirty[i]
                kept += 1
        scratch.dirty_count = kept
        for i in range(kept):
            if failed[dirty[i]] == 0:
                scratch.alive[alive] = dirty[i]
                alive += 1
        scratch.alive_count = alive

    cdef void list_feasible(self) noexcept:
        # Make alive all feasible rows, ascending.
        cdef Scratch scratch = self.scratch
        if scratch.feasible_of is not self:
            self._list()
            scratch.alive_count = scratch.listed_count
            memcpy(&scratch.alive[0], &scratch.listed[0], scratch.listed_count * sizeof(int32_t))
            scratch.feasible_of = self

    cdef void ask_feasible(self) noexcept:
        # Make work all feasible rows, ascending, and leave alive as it is.
        cdef Scratch scratch = self.scratch
        self._list()
        scratch.work_count = scratch.listed_count
        memcpy(&scratch.work[0], &scratch.listed[0], scratch.listed_count * sizeof(int32_t))

    cdef void _list(self) noexcept:
        # Fill `listed`. A cycle needs the list several times, and mostly the list that the last cycle made is still true.
        cdef Py_ssize_t row, count = 0
        cdef int32_t[::1] listed = self.scratch.listed, failed = self.failed
        if self.scratch.listed_of is self:
            return
        for row in range(self.extent):
            if failed[row] == 0:
                listed[count] = <int32_t> row
                count += 1
        self.scratch.listed_count = count
        self.scratch.listed_of = self

    cdef void _feasibility_changed(self) noexcept:
        if self.scratch.listed_of is self:
            self.scratch.listed_of = None

    # Exceptions for one round

    cdef int overrule(self, const int32_t[::1] rows) except -1:
        cdef Py_ssize_t i, row
        self.scratch.feasible_of = None
        self._feasibility_changed()
        for i in range(rows.shape[0]):
            row = rows[i]
            if self.failed[row] == 0:
                self.failed[row] = OVERRULED
                self.feasible_count -= 1
        return 0

    cdef int reinstate(self, const int32_t[::1] rows) except -1:
        cdef Py_ssize_t i, row
        self.scratch.feasible_of = None
        self._feasibility_changed()
        for i in range(rows.shape[0]):
            row = rows[i]
            if self.failed[row] == OVERRULED:
                self.failed[row] = 0
                self.feasible_count += 1
        return 0

    # Reading

    cdef object feasible_among(self, const int32_t[::1] rows):
        cdef Py_ssize_t i, kept = 0
        answer = np.empty(rows.shape[0], np.int32)
        cdef int32_t[::1] feasible = answer
        for i in range(rows.shape[0]):
            if 0 <= rows[i] < self.extent and self.failed[rows[i]] == 0:
                feasible[kept] = rows[i]
                kept += 1
        return answer[:kept]

    cdef object feasible_rows(self):
        cdef cnp.npy_intp count = self.feasible_count
        cdef cnp.ndarray rows = cnp.PyArray_EMPTY(1, &count, cnp.NPY_INT32, 0)
        self._list()
        if count:
            memcpy(cnp.PyArray_DATA(rows), &self.scratch.listed[0], count * sizeof(int32_t))
        return rows

    cdef object verdict(self, Py_ssize_t row):
        cdef int32_t failed = self.failed[row] if 0 <= row < self.extent else NOT_LIVE
        if failed <= 0:
            return -1, 0
        return failed - 1, self.codes[failed - 1, row]

    cdef object verdicts_of(self, const int32_t[::1] rows):
        cdef Py_ssize_t i, row
        cdef int32_t refused
        filters = np.empty(rows.shape[0], np.int32)
        found = np.empty(rows.shape[0], np.int32)
        cdef int32_t[::1] filter_of = filters, code_of = found, failed = self.failed
        cdef int32_t[:, ::1] codes = self.codes
        for i in range(rows.shape[0]):
            row = rows[i]
            refused = failed[row] if 0 <= row < self.extent else NOT_LIVE
            filter_of[i] = refused - 1 if refused > 0 else -1
            code_of[i] = codes[refused - 1, row] if refused > 0 else 0
        return filters, found

    cdef object histogram(self):
        # O(rows x distinct answers), few in practice.
        cdef int64_t[HISTOGRAM_SIZE] keys
        cdef int64_t[HISTOGRAM_SIZE] counts
        cdef Py_ssize_t row, i, used = 0
        cdef int64_t key
        cdef int32_t[::1] failed = self.failed
        cdef int32_t[:, ::1] codes = self.codes
        for row in range(self.extent):
            if failed[row] <= 0:
                continue
            key = _packed(failed[row] - 1, codes[failed[row] - 1, row])
            for i in range(used):
                if keys[i] == key:
                    counts[i] += 1
                    break
            else:
                if used == HISTOGRAM_SIZE:
                    return self._wide_histogram()
                keys[used] = key
                counts[used] = 1
                used += 1
        return [(keys[i] >> 32, keys[i] & 0xFFFFFFFF, counts[i]) for i in range(used)]

    cdef object _wide_histogram(self):
        _, filters, codes = self.refusals()
        pairs, counts = np.unique(np.stack((filters, codes)), axis=1, return_counts=True)
        return list(zip(pairs[0].tolist(), pairs[1].tolist(), counts.tolist(), strict=True))

    cdef object refusals(self):
        failed = np.asarray(self.failed)[:self.extent]
        rows = np.flatnonzero(failed > 0).astype(np.int32)
        filters = failed[rows] - 1
        return rows, filters, np.asarray(self.codes)[filters, rows]

    cdef Py_ssize_t row_bytes(self) noexcept:
        return sizeof(int32_t) * (self.filters + 1) + sizeof(uint64_t) if self.capacity else 0  # codes, failed, known
