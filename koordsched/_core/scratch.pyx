"""The row lists of a round: which rows are dirty, which passed so far, and which the current plugin has to answer for."""

import numpy as np

cimport cython
cimport numpy as cnp
from libc.string cimport memcpy

cnp.import_array()


@cython.final
cdef class Scratch:

    def __init__(self):
        self.ensure(64)

    cdef int ensure(self, Py_ssize_t capacity) except -1:
        if self.capacity >= capacity:
            return 0
        self.dirty = np.empty(capacity, np.int32)
        self.before = np.empty(capacity, np.int64)
        self.alive = np.empty(capacity, np.int32)
        self.work_array = np.empty(capacity, np.int32)
        self.work = self.work_array
        self.first_row = self.work_array[:1]
        self.listed = np.empty(capacity, np.int32)
        self.flag = np.zeros(capacity, np.uint8)
        self.capacity = capacity
        self.feasible_of = self.listed_of = None
        self.dirty_count = self.alive_count = self.work_count = 0
        return 0

    # Beginning a round

    cdef void begin_fresh(self, cnp.ndarray rows) noexcept:
        cdef Py_ssize_t count = rows.shape[0]
        self._discard()
        if count:
            memcpy(&self.dirty[0], cnp.PyArray_DATA(rows), count * sizeof(int32_t))
            memcpy(&self.alive[0], cnp.PyArray_DATA(rows), count * sizeof(int32_t))
        self.dirty_count = self.alive_count = count
        self.feasible_of = None
        self.fresh = True

    cdef void begin_incremental(self) noexcept:
        self._discard()
        self.feasible_of = None
        self.fresh = False

    cdef void begin_unchanged(self, verdicts) noexcept:
        # Nothing is dirty, so nothing is alive: what the lists hold may be of another evaluation's round.
        self._discard()
        if self.feasible_of is not verdicts:
            self.feasible_of = None
            self.alive_count = 0

    cdef void _discard(self) noexcept:
        # Clear the flags of a round that a plugin left unfinished by raising.
        cdef Py_ssize_t i
        if not self.fresh:
            for i in range(self.dirty_count):
                self.flag[self.dirty[i]] = CLEAN
        self.dirty_count = 0

    # Asking

    cdef void ask_all(self) noexcept:
        memcpy(&self.work[0], &self.alive[0], self.alive_count * sizeof(int32_t))
        self.work_count = self.alive_count

    cdef void ask_unknown(self, const uint64_t[::1] known, uint64_t mask) noexcept:
        cdef Py_ssize_t i, count = 0
        cdef int32_t[::1] alive = self.alive, work = self.work
        for i in range(self.alive_count):
            work[count] = alive[i]
            count += not known[alive[i]] & mask
        self.work_count = count

    cdef uint64_t unknown(self, const uint64_t[::1] known) noexcept:
        # Return the bits that some row of alive lacks.
        cdef Py_ssize_t i
        cdef uint64_t everywhere = ~(<uint64_t> 0)
        cdef int32_t[::1] alive = self.alive
        for i in range(self.alive_count):
            everywhere &= known[alive[i]]
        return ~everywhere

    cdef const void* memory_of(self, cnp.ndarray answer, int type_number) except NULL:
        if cnp.PyArray_NDIM(answer) != 1 or cnp.PyArray_TYPE(answer) != type_number or not cnp.PyArray_IS_C_CONTIGUOUS(answer):
            raise TypeError(f"an answer must be a contiguous vector of int32 codes or int64 scores: got {answer.dtype}")
        if cnp.PyArray_DIM(answer, 0) != self.work_count:
            raise ValueError(f"{cnp.PyArray_DIM(answer, 0)} answers for {self.work_count} rows")
        return cnp.PyArray_DATA(answer)
