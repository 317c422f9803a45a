# Running pods that a Reservation may take over, by row, as the filter and the score of its reserve pod see them.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t

from koordsched._core.table cimport NodeTable, Request

cdef enum:
    MAX_AMOUNTS = 30    # entries of the request: a mask has a bit for each

cdef struct Choice:
    bint fits           # the Reservation fits, with these pods or without any
    uint32_t node       # otherwise: bits of the request's entries of which the row is short,
    uint32_t inside     # and those of which a pod asks for more than the Reservation gives
    int32_t pods        # how many pods it takes over
    int32_t first       # where the only one is among the row's pods; of several, they are marked in `chosen`
    int64_t score       # how full the only one makes it

cdef class CandidateRows:
    cdef NodeTable table
    cdef dict rows                  # row -> list of the Requests of its pods, in the order in which they are tried
    cdef Py_ssize_t most            # pods that a row has had

cdef class PreAllocatable:
    cdef NodeTable table
    cdef CandidateRows candidates
    cdef Request request            # what the Reservation asks for
    cdef int64_t[::1] limit         # [entry of request]; what its owners may have of it together, may be below 0
    cdef uint8_t[::1] named         # [entry of request]; 1: owners take it from the Reservation
    cdef int64_t most               # how many owners it may have
    cdef int64_t weights            # resources that count for the score
    cdef readonly bint multiple     # it may take over several pods
    cdef readonly bint by_score     # ... those first that make it the fullest
    cdef readonly bint required     # it must take over a pod
    cdef readonly bint prefers_none  # it takes over none where it fits without
    # Of the last row looked at, where it may take over several pods:
    cdef uint8_t[::1] chosen        # [pod of the row]; 1 for a pod that it takes over
    cdef int32_t[::1] sequence      # the pods of the row in the order in which they are tried
    cdef int64_t[::1] score_of      # [pod of the row]; how full the pod alone makes it, if that decides on the order

    cdef int _reserve(self, Py_ssize_t pods) except -1
    cdef int _check(self) except -1
    cdef Choice _at(self, Py_ssize_t row)
    cdef Choice _look(self, Py_ssize_t row, list pods, bint counted) noexcept
    cdef void _take_one(self, list pods, const int64_t* free, Choice* choice) noexcept
    cdef void _take_several(self, list pods, const int64_t* free, Choice* choice) noexcept
    cdef void _order(self, list pods) noexcept
    cdef bint _amounts_of(self, Request pod, int64_t* amounts) noexcept
    cdef uint32_t _short(self, const int64_t* free, const int64_t* returned) noexcept
    cdef uint32_t _exceeded(self, const int64_t* taken, int64_t pods) noexcept
    cdef int64_t _score(self, const int64_t* amounts) noexcept
