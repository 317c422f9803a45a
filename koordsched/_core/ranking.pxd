# What each feasible row scores, and which rows are best. Totals and largest raw scores are also kept for each block of 64 rows, so that a
# change of one row costs one block, and finding the best reads one number a block.

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint64_t

from koordsched._core.scratch cimport Scratch
from koordsched._core.verdicts cimport MAX_PLUGINS, Verdicts

cdef enum:
    NORMALIZE_NONE = 0   # how a raw score becomes 0..100; as framework.interface.Normalize
    NORMALIZE_MAX = 1
    NORMALIZE_MAX_REVERSE = 2
    NORMALIZE_CUSTOM = 3

cdef class Ranking:
    cdef Scratch scratch
    cdef Verdicts verdicts           # says which rows are feasible, and how many rows there are
    cdef Py_ssize_t capacity         # rows the columns have room for
    cdef Py_ssize_t scorers
    cdef uint64_t enabled            # bit s: scorer s takes part
    cdef int64_t invalid_score       # what `rank` refused
    cdef bint all_stale              # totals of rows that are not dirty are out of date too
    cdef bint blocks_stale           # totals of rows that are not dirty were changed in place: every block's maximum is out of date
    cdef uint64_t answered           # bit s: scorer s has stored scores since the last `rank`
    cdef const int32_t[::1] modes    # [scorer] NORMALIZE_*
    cdef const int64_t[::1] weights  # [scorer]
    cdef uint64_t[::1] known         # [row] bit s: raw[s, row] is scorer s's answer; else it means nothing. See Evaluation.derivable
    cdef int64_t[:, ::1] raw         # [scorer, row]
    cdef int64_t[:, ::1] custom      # [scorer, row] normalised scores of NORMALIZE_CUSTOM scorers; one row long without any
    cdef int64_t[::1] total          # [row]; NO_SCORE where the row is not feasible
    cdef int64_t[:, ::1] block_raw   # [scorer, block of 64 rows] largest raw score of a feasible row
    cdef int64_t[::1] block_total    # [block] largest total
    cdef int32_t[::1] block_ties     # [block] rows with that total
    cdef int32_t[::1] changed        # [0:changed_count] blocks with dirty rows, each once
    cdef Py_ssize_t changed_count
    cdef int64_t[::1] changed_in     # [block] the last `rank` that listed it
    cdef int64_t ranks
    cdef int64_t[MAX_PLUGINS] largest_raw  # [scorer] largest raw score of any feasible row, as last ranked

    cdef int configure(self, const int32_t[::1] modes, const int64_t[::1] weights, Py_ssize_t capacity) except -1
    cdef int reserve(self, Py_ssize_t capacity) except -1
    cdef int enable(self, enabled) except -1
    cdef void forget(self, Py_ssize_t s) noexcept
    cdef int store(self, Py_ssize_t s, cnp.ndarray scores) except -1
    cdef int store_normalized(self, Py_ssize_t s, const int32_t[::1] rows, const int64_t[::1] scores) except -1
    cdef object raw_scores(self, Py_ssize_t s, const int32_t[::1] rows)
    cdef Py_ssize_t rank(self) noexcept
    cdef object best(self)
    cdef Py_ssize_t pick(self, int64_t best, Py_ssize_t k) except -1
    cdef object totals_among(self, const int32_t[::1] rows)
    cdef object scores(self, Py_ssize_t row)
    cdef Py_ssize_t row_bytes(self) noexcept

    cdef bint _has_custom(self) noexcept
    cdef bint _is_relative(self, Py_ssize_t s) noexcept
    cdef Py_ssize_t _split_dirty(self) noexcept
    cdef void _list_changed(self) noexcept
    cdef bint _refresh_largest(self) noexcept
    cdef bint _refresh_largest_of(self, Py_ssize_t s) noexcept
    cdef Py_ssize_t _total(self, const int32_t[::1] rows, Py_ssize_t count) noexcept
    cdef bint _add_as_is(self, Py_ssize_t s, const int32_t[::1] rows, Py_ssize_t count) noexcept
    cdef bint _add_share(self, Py_ssize_t s, const int32_t[::1] rows, Py_ssize_t count) noexcept
    cdef int64_t _find_invalid(self, Py_ssize_t s) noexcept
    cdef void _block_raw(self, Py_ssize_t s, Py_ssize_t block) noexcept
    cdef void _block_raws(self, Py_ssize_t s) noexcept
    cdef void _block_total(self, Py_ssize_t block) noexcept
    cdef void _block_totals(self) noexcept
    cdef void _block_totals_of_alive(self) noexcept
