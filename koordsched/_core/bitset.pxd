# Bit columns with weights: what the bits of a row are worth for one pod.

from libc.stdint cimport int32_t, int64_t

cdef class BitWeights:
    """What a row is worth for the bits it has, scaled from low..high to 0..100. Immutable."""
    cdef const int32_t[::1] columns  # bit columns; one may stand twice and then counts twice
    cdef const int64_t[::1] weights  # same length; >= 0, each at most high
    cdef readonly int64_t low        # a sum of weights up to this scores 0
    cdef readonly int64_t high       # a sum of weights from this on scores 100; > low, at most 2^53 / 100
    cdef Py_ssize_t largest          # largest column
