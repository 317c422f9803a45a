# What a filter other than that of amounts says of a row while preemption removes pods from it and puts them back (framework.md §7.4).
#
# A columnar filter with state of its own derives a kernel from RemovalFilter, and the dry run asks it at each step of the reprieve. The
# kernel may change live columns of the row between `begin` and `end`, as nothing else runs then.

from libc.stdint cimport int32_t

cdef class RemovalFilter:
    cdef readonly tuple needs   # kernels whose columns this one reads: right only where the same pods are removed for them, too
    # Prefetch what `begin` and the removal of the last of the row's pods will read: it is begun with soon, if at all.
    cdef void expect(self, Py_ssize_t row, Py_ssize_t pods) noexcept
    # Begin with a row, as it is. False: only the filter itself can say what it would answer there, and nothing but `end` is called.
    cdef bint begin(self, Py_ssize_t row) except -1
    # Answer whether removing more pods of the row than others, never mind which, can only turn a refusal into a pass. In doubt it may not:
    # then all pods are removed before the reprieve, else the least important alone, as many as it takes.
    cdef bint is_monotone(self) noexcept
    # Remove the row's i-th pod of the index of victims, and put it back.
    cdef void remove(self, Py_ssize_t i) noexcept
    cdef void put_back(self, Py_ssize_t i) noexcept
    # Bring the columns up to date with what was removed and put back. Called on all kernels before any of them is asked for its code.
    cdef void settle(self) noexcept
    # Return the filter's code for the row as it is now, 0: it passes.
    cdef int32_t code(self) noexcept
    # Return the code that `code` has just returned as the filter gives it, with what its text takes.
    cdef int32_t explained(self, int32_t code) except -1
    # Leave the row. All pods have been put back.
    cdef void end(self) noexcept
