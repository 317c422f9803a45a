# Reservations of node rows: what is left of each, for the filter and the score of their owners. A reservation has a slot.

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from koordsched._core.table cimport NodeTable, Request


cdef class Shortages:
    cdef dict _codes    # (node bits, reservation bits, tag) -> code, from 1 on
    cdef list _known    # [code]

    cdef int32_t code(self, uint32_t node, uint32_t reservation, int64_t tag) except -1


@cython.final
cdef class Matched:
    cdef const int32_t[::1] _rows        # ascending
    cdef const int32_t[::1] _slots
    cdef list _uids                      # of the placeholders


@cython.final
cdef class Capacity:
    """What a reservation has and restricts: compiled once for all that have the same."""
    cdef const int32_t[::1] ids          # resources of which it has something
    cdef const int64_t[::1] amounts      # of these
    cdef const int32_t[::1] named        # resources that it reserves (its ResourceNames)
    cdef int32_t largest                 # of all these ids
    cdef int64_t weights                 # resources of which something is allocatable, those that no row has included
    cdef bint limits                     # owners get what it has, and nothing else


cdef class ReservationTable:
    cdef NodeTable table
    cdef public bint skips_fit           # where a pod matches one reservation of a row, only that is asked, not the row
    cdef readonly Py_ssize_t capacity    # slots
    cdef readonly Py_ssize_t resources   # columns of the arrays below; by resource ids of the node table
    cdef int64_t[:, ::1] inside          # [slot, resource]; what is reserved inside, for no owner; without slots until one has that
    cdef uint8_t[:, ::1] named           # [slot, resource]; 1: it reserves the resource (its ResourceNames)
    cdef int64_t[::1] owners_left        # [slot]; owners that it may still have, int64's maximum where their number is not limited
    cdef int64_t[::1] order              # [slot]; its order label, 0: none
    cdef int64_t[:, ::1] allocatable     # [slot, resource]
    cdef int64_t[:, ::1] allocated       # [slot, resource]; what owners have taken, may be more than allocatable
    cdef int64_t[::1] weights            # [slot]; resources of which something is allocatable, those that no row has included
    cdef uint8_t[::1] restricted         # [slot]; 1: owners get what it has, and nothing else
    cdef list _free

    cdef int64_t _left(self, Py_ssize_t slot, Py_ssize_t k) noexcept nogil
    cdef int64_t _inside(self, Py_ssize_t slot, Py_ssize_t k) noexcept nogil
    cdef int64_t _available(self, Py_ssize_t slot, Py_ssize_t k) noexcept nogil
    cdef int64_t _limit(self, Py_ssize_t slot, Py_ssize_t k) noexcept nogil
    cdef int _check_request(self, Request request) except -1
    cdef int _check_width(self, Request request) except -1
    cdef void _short(self, Request request, Py_ssize_t row, const int32_t[::1] matched, Py_ssize_t slot, uint32_t* node,
                     uint32_t* inside) noexcept
    cdef bint _matters(self, Matched matched, Py_ssize_t begin, Py_ssize_t end, list sources) except -1
    cdef int64_t _unsuited(
        self, Request request, int32_t row, Matched matched, Py_ssize_t begin, Py_ssize_t end, list sources, bint required
    ) except -2
    cdef Py_ssize_t _first(self, const int32_t* rows, Py_ssize_t count, Py_ssize_t row, Py_ssize_t near) noexcept nogil
    cdef bint _touches(self, Py_ssize_t slot, const int32_t[::1] ids) noexcept nogil
    cdef int64_t _score(self, Py_ssize_t slot, const int32_t[::1] ids, const int64_t[::1] amounts) noexcept nogil
