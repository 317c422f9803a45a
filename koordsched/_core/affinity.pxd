# Flags of domains and counts of single rows. A domain is all rows with the same value id of an attribute column, 0 being none; flags are a
# bytes object with one byte a value id, 1 where the domain holds any of what is counted. Nothing is kept here.

from libc.stdint cimport int32_t, uint8_t

cdef int32_t _largest(const int32_t[::1] value, Py_ssize_t extent) noexcept nogil
cdef void _mark(const int32_t[::1] value, const int32_t[::1] count, Py_ssize_t extent, uint8_t* flag) noexcept nogil
