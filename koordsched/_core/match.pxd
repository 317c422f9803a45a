# Which rows have attribute values that are wanted: alternatives (terms) of conditions that must hold together.

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef class Terms:
    """Terms over attribute columns, compiled. Term t holds conditions term[t]..term[t + 1] - 1; condition c looks at one column."""
    cdef readonly Py_ssize_t count       # terms
    cdef const int32_t[::1] term         # [count + 1]; ascending from 0 to the number of conditions
    cdef const int64_t[::1] weight       # [count]; what a term adds in `weigh`
    cdef const int32_t[::1] attribute    # [condition]; attribute column, -1: absent on every row (value id 0)
    cdef const int32_t[::1] base         # [condition]; where its verdicts begin in `verdict`
    cdef const int32_t[::1] known        # [condition]; how many value ids have a verdict
    cdef const uint8_t[::1] verdict      # [base + value id]; 1: the condition holds
    cdef int32_t largest                 # largest attribute
    cdef int check(self, Py_ssize_t attributes) except -1
