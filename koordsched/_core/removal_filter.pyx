"""Filters that the dry run of preemption asks besides comparing amounts: the base, which passes whatever is removed."""

from libc.stdint cimport int32_t


cdef class RemovalFilter:

    cdef bint begin(self, Py_ssize_t row) except -1:
        return True

    cdef void remove(self, Py_ssize_t i) noexcept:
        pass

    cdef void put_back(self, Py_ssize_t i) noexcept:
        pass

    cdef int32_t code(self) noexcept:
        return 0

    cdef void end(self) noexcept:
        pass
