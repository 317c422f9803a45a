"""Sources of what reservations hold beside amounts: the base, which holds nothing and refuses nothing."""

from libc.stdint cimport int32_t, uint64_t


cdef class ReservedSource:

    cdef int begin(self) except -1:
        return 0

    cdef bint holds(self, uid) except -1:
        return False

    cdef bint knows(self, Py_ssize_t row, uid) except -1:
        return True

    cdef int show(self, Py_ssize_t row, uid) except -1:
        return 0

    cdef int hide(self, Py_ssize_t row, uid) except -1:
        return 0

    cdef int32_t refusal(self, Py_ssize_t row, uid, uint64_t* numa) except -1:
        return 0
