"""Filters that the dry run of preemption asks besides comparing amounts: the base, which passes whatever is removed."""

from libc.stdint cimport int32_t


cdef class RemovalFilter:

    def __cinit__(self):
        self.needs = ()

    cdef void expect(self, Py_ssize_t row, Py_ssize_t pods) noexcept:
        pass

    cdef bint begin(self, Py_ssize_t row) except -1:
        return True

    cdef bint is_monotone(self) noexcept:
        return False

    cdef void remove(self, Py_ssize_t i) noexcept:
        pass

    cdef void put_back(self, Py_ssize_t i) noexcept:
        pass

    cdef void settle(self) noexcept:
        pass

    cdef int32_t code(self) noexcept:
        return 0

    cdef int32_t explained(self, int32_t code) except -1:
        return code

    cdef void end(self) noexcept:
        pass
