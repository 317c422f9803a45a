# Who occupies each row, at which level, and what a newcomer of a higher level could gain by sending occupants away.
#
# A level is a number: who has a higher one may send away who has a lower one. A guard is a budget of occupants that may be sent away
# without harm; an occupant may be under several. Both are documented where they are given meaning (plugins/defaultpreemption).

from libc.stdint cimport int32_t, int64_t, uint8_t
from cpython.object cimport PyObject

from koordsched._core.table cimport NodeTable, Request

cdef enum:
    FITS = 0          # Prospects.code: the newcomer fits once everybody of a lower level is gone; > 0: the code of filter_fit even then
    NOBODY = -1       # nobody on the row may be sent away
    ABSENT = -2       # the row holds no node, or is not known yet
    MOST_IDS = 30     # resource ids of a request: as many as a reason code of filter_fit has bits for

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
    cdef int _reserve(self, Py_ssize_t row) except -1
    cdef int32_t _kind(self, int32_t level, Request request) except -1
    cdef int _insert(self, Py_ssize_t row, Occupant occupant) except -1
    cdef Py_ssize_t _find(self, Py_ssize_t row, item) except -1
    cdef void _note(self, Py_ssize_t row) noexcept

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
