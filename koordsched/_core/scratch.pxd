# The row lists of a round. One Scratch serves all evaluations of a table, since rounds never overlap. Between rounds three things are true:
# no flag is set in `flag`; if `feasible_of` is not None, `alive` holds its feasible rows; if `listed_of` is not None, `listed` holds its
# feasible rows. Everything else is meaningless then.

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef enum:
    CLEAN = 0  # in Scratch.flag
    DIRTY = 1

cdef class Scratch:
    cdef int32_t[::1] dirty     # [0:dirty_count] rows to ask about again; ascending in a fresh round, else in the order of the log
    cdef int32_t[::1] alive     # [0:alive_count] dirty rows that passed so far; from first_scorer on: rows that may lack a score
    cdef int32_t[::1] work      # [0:work_count] rows that the current filter or scorer has to answer for
    cdef int64_t[::1] before    # [0:dirty_count] each dirty row's verdict, in one number, before the round; unused in a fresh one
    cdef uint8_t[::1] flag      # [row] DIRTY: it is in `dirty`. In a fresh round, where every live row is, no flag is set
    cdef object feasible_of     # the Verdicts whose feasible rows are alive[0:alive_count], ascending; None: alive holds other rows
    cdef int32_t[::1] listed    # [0:listed_count] all feasible rows of `listed_of`, ascending
    cdef object listed_of       # the Verdicts whose feasible rows are in `listed`; None: those of none
    cdef Py_ssize_t listed_count
    cdef object work_array      # the numpy array that owns `work`, so that a slice of it can be handed to a plugin
    cdef object first_row       # work_array[:1], kept, because most pods' plugins are asked about one row each
    cdef bint fresh             # this round began with nothing known
    cdef Py_ssize_t capacity    # rows that every list has room for
    cdef Py_ssize_t dirty_count
    cdef Py_ssize_t alive_count
    cdef Py_ssize_t work_count

    cdef int ensure(self, Py_ssize_t capacity) except -1
    cdef void begin_fresh(self, cnp.ndarray rows) noexcept
    cdef void begin_incremental(self) noexcept
    cdef void begin_unchanged(self, verdicts) noexcept
    cdef void _discard(self) noexcept
    cdef void ask_all(self) noexcept
    cdef void ask_unknown(self, const uint64_t[::1] known, uint64_t mask) noexcept
    cdef uint64_t unknown(self, const uint64_t[::1] known) noexcept
    cdef const void* memory_of(self, cnp.ndarray answer, int type_number) except NULL
