# Rows without some of their pods.

from libc.stdint cimport int64_t

from koordsched._core.table cimport NodeTable, Request

cdef class CompiledPart:
    """A part that RowView hides and restores without calling Python (`view.Part`). The base hides nothing."""
    cdef readonly bint counts_alone

    cdef int hide_now(self) except -1
    cdef int restore_now(self) except -1

cdef class RowView:
    """One row without some of its pods. What it says of the row holds until the row is touched."""
    cdef NodeTable table
    cdef readonly Py_ssize_t row
    cdef readonly frozenset uids    # of the pods
    cdef object node                # its attribute `hidden` says which pods are not shown
    cdef list requests              # Request objects that count on the row, one a pod
    cdef tuple bits                 # bit columns that only these pods have set there
    cdef list parts                 # what else hides and restores, objects with `Part`'s methods
    cdef readonly bint counts_alone  # whether nothing is hidden but amounts, ports, and what plugins count with versions
    cdef readonly bint is_hidden
    cdef int64_t stamp              # the table's `touched` of the row when this was made

    cdef int _fill(self, NodeTable table, Py_ssize_t row, node, frozenset uids, list requests, tuple bits, list parts) except -1
    cdef bint is_current(self) noexcept
    cdef int hide(self) except -1
    cdef void restore(self)
    cdef int _restore_parts(self, Py_ssize_t count) except -1
    cdef void _apply(self, int64_t sign) noexcept

cdef class TableView:
    """Several rows without some of their pods."""
    cdef readonly list rows         # RowView objects, each of another row
    cdef dict places                # by number of a row: its place among these
    cdef list hidden                # those that are, in the order in which they were
