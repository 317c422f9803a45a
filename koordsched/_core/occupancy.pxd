# Who occupies each row, and at which level.
#
# A level is a number: who has a higher one may send away who has a lower one. A guard is a budget of occupants that may be sent away
# without harm; an occupant may be under several. Both are documented where they are given meaning (plugins/defaultpreemption).

from libc.stdint cimport int32_t, int64_t, uint8_t
from cpython.object cimport PyObject

from koordsched._core.table cimport NodeTable, Request

cdef enum:
    LOG_ROWS = 1 << 16  # entries of Occupancy.log

cdef struct Occupant:
    int32_t kind      # index of its level and its request
    int32_t guards    # index of the set of guards it is under; 0: under none
    double started    # seconds; larger is younger, infinity: not started yet
    int64_t serial    # order of arrival
    uint8_t tied      # 1: it can run on no other row
    uint8_t pinned    # 1: it cannot be sent away
    uint8_t claim     # 1: not there yet, but the room is promised to it
    PyObject* item    # what the caller calls it; owned

cdef class Occupancy:
    cdef readonly NodeTable table
    cdef readonly int64_t generation    # counts changes that concern all rows
    cdef readonly int64_t log_end       # rows ever logged
    cdef Occupant** rows                # [row]: its occupants, by level descending, then oldest first, then in order of arrival
    cdef int32_t* counts                # [row]: how many
    cdef int32_t* room                  # [row]: how many there is memory for
    cdef int32_t* claims                # [row]: how many of them are claims
    cdef int32_t* claimed               # the rows with claims, in no order
    cdef int32_t* places                # [row]: where it is in `claimed`, if it has claims
    cdef Py_ssize_t claimed_count
    cdef Py_ssize_t capacity            # rows there is memory for
    cdef int32_t widest                 # the largest count that any row ever had
    cdef int64_t next_serial
    cdef int64_t[:, ::1] amounts        # [kind, resource]
    cdef int32_t[::1] levels            # [kind]
    cdef int32_t[::1] uses              # [kind]: occupants that have it
    cdef list requests                  # [kind]: the Request
    cdef list free_kinds
    cdef dict kinds                     # (level, Request) -> kind
    cdef int64_t[::1] allowed           # [guard]: occupants under it that may still be sent away
    cdef int32_t[::1] set_begin         # [set of guards]: where its guards begin in set_guards; one entry more than sets
    cdef int32_t[::1] set_guards
    cdef int32_t[::1] log               # ring of rows that changed in a way that the table does not log

    cdef void _empty(self) noexcept
    cdef void _unclaim(self, Py_ssize_t row) noexcept
    cdef int _reserve(self, Py_ssize_t row) except -1
    cdef int32_t _kind(self, int32_t level, Request request) except -1
    cdef int _insert(self, Py_ssize_t row, Occupant occupant) except -1
    cdef Py_ssize_t _find(self, Py_ssize_t row, item) except -1
    cdef void _note(self, Py_ssize_t row) noexcept
