# The score of a row by counts of pods on it or in its domains: the sum of count * weight + offset over several counts.

from libc.stdint cimport int32_t

from koordsched._core.counts cimport RowCounts
from koordsched._core.table cimport NodeTable

cdef class Part:
    cdef Py_ssize_t attribute
    cdef RowCounts counts            # each row's own count; None: by domain
    cdef double weight
    cdef double offset
    cdef double[::1] share           # [value id] by domain, what its rows get; [0], no domain, is 0

cdef class Shares:
    cdef NodeTable table
    cdef list parts                  # of Part, in the order in which they are added up

    cdef bint _is_usual(self)
