# Which filter refused each row and why. Between rounds (after `settle`) every row of [0:extent[ satisfies exactly one of
#   failed[row] == 0   all filters answered 0: the row is feasible
#   failed[row] == f+1 filter f answered codes[f, row] > 0, all earlier filters 0; later filters may not have been asked
#   failed[row] == NOT_LIVE, or OVERRULED for a feasible row that this round has to leave out.

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from koordsched._core.scratch cimport Scratch

cdef enum:
    MAX_PLUGINS = 64     # filters, and scorers: one bit each in Verdicts.known and Ranking.known
    NOT_LIVE = -1        # in failed
    OVERRULED = -2       # in failed
    HISTOGRAM_SIZE = 64  # distinct answers that `histogram` counts without falling back to a sort

cdef inline uint64_t lowest_bits(int64_t count) noexcept nogil:
    return ~<uint64_t> 0 if count >= 64 else (<uint64_t> 1 << count) - 1

cdef class Verdicts:
    cdef Scratch scratch
    cdef Py_ssize_t capacity        # rows the columns have room for
    cdef Py_ssize_t extent          # rows that the columns know, [0:extent[: all that the table used when the last round began
    cdef Py_ssize_t filters
    cdef Py_ssize_t feasible_count
    cdef bint feasible_changed      # the last settle changed which rows are feasible
    cdef bint verdict_changed       # the last settle changed some row's first refusal, or feasible_changed
    cdef int32_t[::1] failed        # [row]
    cdef int32_t[:, ::1] codes      # [filter, row]
    cdef uint64_t[::1] known        # [row] bit f: codes[f, row] is filter f's answer; else it means nothing. See Evaluation.derivable
    cdef uint8_t[MAX_PLUGINS] blank  # [filter] 1: it never refused a row, and its codes are 0 without having been written

    cdef int reserve(self, Py_ssize_t filters, Py_ssize_t capacity) except -1
    cdef void begin(self, const uint8_t[::1] live) noexcept
    cdef void withdraw(self, int32_t first, uint64_t forgotten) noexcept
    cdef int store(self, Py_ssize_t f, cnp.ndarray codes) except -1
    cdef void compact(self, Py_ssize_t f) noexcept
    cdef void settle(self) noexcept
    cdef void leave_out_unchanged(self, Py_ssize_t start) noexcept
    cdef void list_feasible(self) noexcept
    cdef void ask_feasible(self) noexcept
    cdef int overrule(self, const int32_t[::1] rows) except -1
    cdef int reinstate(self, const int32_t[::1] rows) except -1
    cdef object feasible_among(self, const int32_t[::1] rows)
    cdef object feasible_rows(self)
    cdef object verdict(self, Py_ssize_t row)
    cdef object verdicts_of(self, const int32_t[::1] rows)
    cdef object histogram(self)
    cdef object refusals(self)
    cdef Py_ssize_t row_bytes(self) noexcept

    cdef void _list(self) noexcept
    cdef void _feasibility_changed(self) noexcept
    cdef void _pass_all(self, Py_ssize_t f) noexcept
    cdef void _store_dense(self, Py_ssize_t f, const int32_t* code) noexcept
    cdef void _store_of_alive(self, Py_ssize_t f, const int32_t* code) noexcept
    cdef void _settle_dirty(self) noexcept
    cdef object _wide_histogram(self)
