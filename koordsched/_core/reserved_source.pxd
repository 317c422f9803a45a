# What a plugin that allocates more than amounts (CPUs, devices) has to say of reservations: what `ReservationTable.unsuited` asks.
#
# A ReservationFilterPlugin (framework.interface) with kernels of its own derives from ReservedSource. What is asked about stands on a row
# whose reservations that the pod matches are hidden by a view. A reservation is named by the uid of its placeholder.

from libc.stdint cimport int32_t, uint64_t

cdef class ReservedSource:
    # Get ready. Called once before the rows of one call are asked about.
    cdef int begin(self) except -1
    # Answer whether the reservation was given something of what the plugin allocates.
    cdef bint holds(self, uid) except -1
    # Answer whether `show`, `hide` and `refusal` can be called for this reservation of the row.
    cdef bint knows(self, Py_ssize_t row, uid) except -1
    # Let the reservation hold what it has left, and hold nothing again.
    cdef int show(self, Py_ssize_t row, uid) except -1
    cdef int hide(self, Py_ssize_t row, uid) except -1
    # Return why Reserve would fail if the pod was given this reservation, which holds nothing, 0 if it would not. None: it is given none.
    # numa: the NUMA nodes (ids) that the sources before this one have aligned the pod to, 0: none, or any; written by one that aligns.
    cdef int32_t refusal(self, Py_ssize_t row, uid, uint64_t* numa) except -1
