# What score kernels need to know of a pod: amounts of the resources that are scored.

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    FULL = 100             # the best score, and the utilization of a row that is full
    MAX_WEIGHTS = 100_000  # largest sum of weights; keeps `_divide` in allocation.pyx exact

cdef class ScoredResources:
    """The resources that are scored, with what the pod adds of each. Immutable."""
    cdef const int32_t[::1] ids      # resource ids, in the order given: float sums depend on it
    cdef const int64_t[::1] amounts  # same length; what the pod adds, >= 0
    cdef const int64_t[::1] weights  # same length; >= 1
    cdef readonly int64_t weight     # their sum
    cdef bint is_sane(self) noexcept
    cdef int check(self, Py_ssize_t resources) except -1

cdef class MixedResources:
    """The resources that are scored, each by how little or by how much of it would be left, with what the pod adds. Immutable."""
    cdef const int32_t[::1] ids      # resource ids
    cdef const int64_t[::1] amounts  # same length; what the pod adds, >= 0
    cdef const int64_t[::1] weights  # same length; >= 0
    cdef const uint8_t[::1] most     # same length; 1: the fuller the better
    cdef readonly int64_t weight     # sum of the weights, at most 2^63 / 100

cdef class RatioShape:
    """A piecewise linear function of utilization, in integers."""
    cdef int64_t score[101]          # [utilization 0..100]
