"""Scores by what a row offers and the pod does not request: the more of that is scarce, the lower."""

from array import array

cimport numpy as cnp
from libc.stdint cimport int64_t

from koordsched._core.rows cimport Rows, rows_of, scores_in, zero_scores
from koordsched._core.table cimport NodeTable

cnp.import_array()

cdef enum:
    FULL = 100
    SCARCE = 32  # a running count holds the scarce resources from this bit on, all of them below it

cdef int64_t ALL = (<int64_t> 1 << SCARCE) - 1


cdef class UnrequestedResources:

    def __init__(self, ids, scarce):
        if len(ids) != len(scarce):
            raise ValueError(f"{len(ids)} ids and {len(scarce)} flags: expected as many of each")
        self.ids = array("i", ids)
        self.scarce = bytes(scarce)
        self.has_scarce = any(scarce)


def avoid_scarce(NodeTable table not None, UnrequestedResources unrequested not None, cnp.ndarray rows not None):
    cdef Py_ssize_t i
    for i in range(unrequested.ids.shape[0]):
        if unrequested.ids[i] < 0 or unrequested.ids[i] >= table.resources:
            raise IndexError(f"resource {unrequested.ids[i]} of {table.resources}")
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray scores = zero_scores(asked)
    cdef int64_t* out = scores_in(scores)
    with nogil:
        if unrequested.has_scarce:
            for i in range(unrequested.ids.shape[0]):
                _count(table.allocatable[unrequested.ids[i]], 1 + (<int64_t> unrequested.scarce[i] << SCARCE), asked, out)
        _divide(asked.count, out)
    return scores


cdef void _count(const int64_t[::1] offered, int64_t one, Rows rows, int64_t* running) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(rows.count):
        running[i] += one if offered[rows.at[i]] > 0 else 0


cdef void _divide(Py_ssize_t count, int64_t* running) noexcept nogil:
    """Turn counts into the share that is not scarce, in percent and rounded down; FULL where nothing scarce is offered."""
    cdef Py_ssize_t i
    cdef int64_t scarce
    for i in range(count):
        scarce = running[i] >> SCARCE
        running[i] = ((running[i] & ALL) - scarce) * FULL / (running[i] & ALL) if scarce else FULL
