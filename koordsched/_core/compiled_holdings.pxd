# What the pods of an index hold of one plugin's columns, compiled row by row when it is asked for, and anew once the row has changed.

from libc.stdint cimport int64_t, uint8_t

from koordsched._core.pod_index cimport LOG_ROWS, PodIndex
from koordsched._core.table cimport LogReader, UndoneTurn

cdef class CompiledHoldings:
    cdef PodIndex pods
    cdef object held_by               # (row, pods) -> what each of them holds; None: removing one would not just make that free
    cdef uint8_t[::1] is_compiled     # [row]
    cdef LogReader log                # up to which places in both logs what is compiled is true
    cdef int64_t pods_position, pods_generation

    # Compile the row if that has not been done since it changed.
    cdef int bring(self, Py_ssize_t row) except -1
    cdef int _forget_changed(self) except -1
    cdef void _forget_row(self, Py_ssize_t row) noexcept
    # Of those that derive from this: the pods of a row, in the order of the index, and its memory, which may have nothing to free.
    cdef int compile(self, Py_ssize_t row, list pods) except -1
    cdef void forget(self, Py_ssize_t row) noexcept
    # Make room for so many rows.
    cdef int lengthen(self, Py_ssize_t capacity) except -1
