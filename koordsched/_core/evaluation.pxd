# What one pod shape knows of every row: the answer of each filter, the score of each scorer, and which rows are best.
#
# A round is: catch_up (which rows are dirty), then next_filter/store_codes for each filter that has something unknown about a dirty row,
# settle, then next_scorer/store_scores likewise, rank, best, pick. After settle every row satisfies exactly one of
#   failed[row] == 0   all filters answered 0: the row is feasible
#   failed[row] == f+1 filter f answered codes[f, row] > 0, all earlier filters 0; later filters may not have been asked
#   failed[row] == NOT_LIVE, or OVERRULED for a feasible row that this round is told to leave out.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from koordsched._core.table cimport NodeTable

cdef enum:
    MAX_PLUGINS = 64     # filters, and scorers: one bit each in known_codes and known_scores
    NOT_LIVE = -1        # in failed
    OVERRULED = -2       # in failed
    CLEAN = 0            # in Scratch.flag
    DIRTY = 1
    NORMALIZE_NONE = 0   # how a raw score becomes 0..100; as framework.interface.Normalize
    NORMALIZE_MAX = 1
    NORMALIZE_MAX_REVERSE = 2
    NORMALIZE_CUSTOM = 3
    HISTOGRAM_SIZE = 64  # distinct answers that `histogram` counts without falling back to a sort

cdef class Scratch:
    """Row lists of the round that is going on; shared by all evaluations of a table, since rounds never overlap."""
    cdef int32_t[::1] dirty     # [0:dirty_count] rows to ask about again
    cdef int32_t[::1] alive     # [0:alive_count] dirty rows that passed every filter so far; in rank: rows to total
    cdef int32_t[::1] work      # [0:work_count] rows that the current filter or scorer has to answer
    cdef int64_t[::1] before    # [0:dirty_count] what `_verdict` said of the dirty row before the round
    cdef uint8_t[::1] flag      # [row] CLEAN or DIRTY; all CLEAN between rounds
    cdef object all_feasible_of  # the evaluation of which alive holds all feasible rows, or None
    cdef object work_array      # the numpy array that owns `work`, so that a slice of it can be handed to a plugin
    cdef Py_ssize_t capacity    # rows that every list has room for
    cdef Py_ssize_t dirty_count
    cdef Py_ssize_t alive_count
    cdef Py_ssize_t work_count
    cdef int ensure(self, Py_ssize_t capacity) except -1

cdef class Evaluation:
    cdef NodeTable table
    cdef Scratch scratch
    cdef readonly Py_ssize_t capacity       # rows the columns below have room for
    cdef readonly Py_ssize_t extent         # rows that the columns know, [0:extent[: all that the table used when the last round began
    cdef readonly Py_ssize_t filters
    cdef readonly Py_ssize_t scorers
    cdef readonly int64_t position          # log position up to which the columns are true
    cdef readonly Py_ssize_t feasible_count
    cdef readonly bint feasible_changed     # the last settle changed which rows are feasible
    cdef readonly bint verdict_changed      # the last settle changed some row's first refusal, or feasible_changed
    cdef readonly int64_t invalid_score     # what `rank` refused
    cdef int32_t reads                      # all bits of filter_reads and scorer_reads
    cdef const int32_t[::1] filter_reads          # [filter] change bits after which its answer is no longer known
    cdef const int32_t[::1] scorer_reads          # [scorer]
    cdef const int32_t[::1] modes                 # [scorer] NORMALIZE_*
    cdef uint8_t[::1] enabled               # [scorer] 0: it takes no part
    cdef const int64_t[::1] weights               # [scorer]
    cdef uint64_t[::1] known_codes          # [row] bit f: codes[f, row] is filter f's answer; else it means nothing
    cdef uint64_t[::1] known_scores         # [row] bit s: raw[s, row] is scorer s's answer
    cdef int32_t[:, ::1] codes              # [filter, row]
    cdef uint8_t[MAX_PLUGINS] blank         # [filter] 1: it never refused a row, and its codes are 0 without having been written
    cdef int32_t[::1] failed                # [row]
    cdef int64_t[:, ::1] raw                # [scorer, row]
    cdef int64_t[:, ::1] custom             # [scorer, row] normalised scores of NORMALIZE_CUSTOM scorers; one row long without any
    cdef int64_t[::1] total                 # [row]; NO_SCORE where the row is not feasible
    cdef int64_t[:, ::1] block_raw          # [scorer, block of 64 rows] largest raw score of a feasible row
    cdef int64_t[::1] block_total           # [block] largest total
    cdef int32_t[::1] block_ties            # [block] rows with that total
    cdef int64_t[::1] largest_raw           # [scorer] largest raw score of any feasible row, as last ranked
    cdef bint rank_everything               # totals of rows that are not dirty are out of date too
    cdef bint fresh                         # this round began with nothing known: every live row is dirty, and no flag is set
    cdef bint derivable                     # known_codes and known_scores are not written yet: they follow from failed and scored
    cdef uint64_t scored                    # while derivable: the scorers that every feasible row has answers of
    cdef bint unscored                      # no feasible row has a score since the fresh round: known_scores need not be asked
    cdef bint ranked                        # `rank` has run since rows were last dirty
    cdef bint settled                       # false while a round is unfinished: the columns mean nothing
    cdef Py_ssize_t current                 # the filter or scorer that next_* returned last

    cdef int _allocate(self) except -1
    cdef void _dirty(self, Py_ssize_t row, int32_t change) noexcept
    cdef void _clear_flags(self) noexcept
    cdef void _mark(self, Py_ssize_t row) noexcept
    cdef int64_t _verdict(self, Py_ssize_t row) noexcept
    cdef void _extend(self) noexcept
    cdef void _derive_known(self) noexcept
    cdef void _begin(self) noexcept
    cdef void _compact(self, Py_ssize_t f) noexcept
    cdef void _gather_unscored(self) noexcept
    cdef bint _refresh_largest(self) noexcept
    cdef void _block_raw(self, Py_ssize_t s, Py_ssize_t block) noexcept
    cdef Py_ssize_t _gather_unknown(self, Py_ssize_t f) noexcept
    cdef bint _has_custom(self) noexcept
    cdef Py_ssize_t _split_dirty(self) noexcept
    cdef Py_ssize_t _total(self, int32_t[::1] rows, Py_ssize_t count) noexcept
    cdef void _pass_all(self) noexcept
    cdef int _store_codes(self, const int32_t* code) except -1
    cdef int64_t _find_invalid(self, Py_ssize_t s) noexcept
    cdef void _block_raws(self, Py_ssize_t s) noexcept
    cdef void _block_totals(self) noexcept
    cdef void _block_total(self, Py_ssize_t block) noexcept
