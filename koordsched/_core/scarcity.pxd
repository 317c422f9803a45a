# What a kernel needs to know of a pod to keep it off rows whose scarce resources it would leave unused.

from libc.stdint cimport int32_t, uint8_t

cdef class UnrequestedResources:
    """The resources that the pod does not request. Immutable."""
    cdef const int32_t[::1] ids     # resource ids, without that of pods
    cdef const uint8_t[::1] scarce  # same length; 1: kept for pods that request it
    cdef bint has_scarce            # whether any is
