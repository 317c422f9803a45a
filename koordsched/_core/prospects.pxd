# What a newcomer of a higher level could gain by sending occupants away; levels and guards: occupancy.pxd.

from libc.stdint cimport int32_t, int64_t, uint8_t
from cpython.object cimport PyObject

from koordsched._core.occupancy cimport LOG_ROWS, Occupancy, Occupant
from koordsched._core.table cimport NodeTable, Request

cdef enum:
    FITS = 0          # Prospects.code: the newcomer fits once everybody of a lower level is gone; > 0: the code of filter_fit even then
    NOBODY = -1       # nobody on the row may be sent away
    ABSENT = -2       # the row holds no node, or is not known yet
    MOST_IDS = 30     # resource ids of a request: as many as a reason code of filter_fit has bits for

cdef class Prospects:
    cdef readonly Occupancy occupancy
    cdef readonly int32_t level         # of the newcomer
    cdef readonly Request request       # what it needs
    cdef readonly Py_ssize_t promising  # rows whose code is FITS
    cdef int64_t table_position, log_position, generation, existence
    cdef Py_ssize_t capacity
    cdef int32_t[::1] code              # [row]; what follows means something where it is FITS
    cdef int32_t[::1] harmed            # [row]: victims that exceed a guard
    cdef int32_t[::1] top               # [row]: highest level of a victim
    cdef int64_t[::1] total             # [row]: sum over victims of level + 2^31
    cdef int32_t[::1] count             # [row]: victims
    cdef int32_t[::1] tied              # [row]: victims that can run on no other row
    cdef double[::1] started            # [row]: when the oldest victim of the highest level started
    # Of the row at hand: is each occupant beyond its guards, is it a victim; what is free; what is left of each guard.
    cdef uint8_t[::1] beyond, victim
    cdef int64_t[::1] left
    cdef int64_t[MOST_IDS] free
    # The request, Occupancy.amounts and .levels as plain memory: half of the time (bench_preemption.py, "first attempt"). By _prepare.
    cdef Py_ssize_t width
    cdef int32_t[MOST_IDS] ids
    cdef int64_t[MOST_IDS] needed
    cdef const int64_t* amounts
    cdef Py_ssize_t stride
    cdef const int32_t* levels

    cdef int _prepare(self) except -1
    cdef int _row(self, Py_ssize_t row, PyObject* own) except -1
    cdef int32_t _shortage(self, Py_ssize_t row) noexcept
    cdef bint _fits(self) noexcept
    cdef bint _removable(self, Occupant* occupant) noexcept
    cdef void _shift(self, Occupant* occupant, int sign) noexcept
    cdef void _guard(self, Occupant* occupants, Py_ssize_t begin, Py_ssize_t end) noexcept
    cdef void _spare(self, Occupant* occupants, Py_ssize_t i) noexcept
    cdef void _all_gone(self, Py_ssize_t row, Occupant* occupants, Py_ssize_t begin, Py_ssize_t end) noexcept
    cdef void _sum_up(self, Py_ssize_t row, Occupant* occupants, Py_ssize_t begin, Py_ssize_t end) noexcept
    cdef bint _better(self, Py_ssize_t a, Py_ssize_t b, const int32_t[::1] place) noexcept
