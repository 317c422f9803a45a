"""Whether domains hold any of some counted pods, and counts of single rows, for topology keys of which each value is one row's own."""

import numpy as np

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from koordsched._core.counts cimport RowCounts
from koordsched._core.rows cimport Rows, codes_in, rows_of, scores_in
from koordsched._core.table cimport NodeTable

cnp.import_array()


def is_unique(NodeTable table not None, Py_ssize_t attribute):
    cdef const int32_t[::1] value = _column(table, attribute)
    cdef Py_ssize_t row, extent = table.extent()
    cdef uint8_t[::1] seen = np.zeros(_largest(value, extent) + 1, np.uint8)
    for row in range(extent):
        if value[row] and seen[value[row]]:
            return False
        seen[value[row]] = 1
    return True


def occupied(NodeTable table not None, Py_ssize_t attribute, list counters not None):
    cdef const int32_t[::1] value = _column(table, attribute)
    cdef Py_ssize_t extent = table.extent()
    cdef cnp.ndarray flags = np.zeros(_largest(value, extent) + 1, np.uint8)
    cdef uint8_t* flag = <uint8_t*> cnp.PyArray_DATA(flags)
    cdef RowCounts counts
    for counts in counters:
        if counts.total == 0 and counts.table is table:
            continue
        _check_table(counts, table)
        with nogil:
            _mark(value, counts.count, extent, flag)
    flag[0] = 0
    return flags.tobytes()


def any_with(RowCounts counts not None, Py_ssize_t attribute):
    cdef NodeTable table = counts.table
    cdef const int32_t[::1] value = _column(table, attribute)
    cdef Py_ssize_t row, extent = table.extent()
    if counts.total == 0:
        return False
    counts.ensure()
    for row in range(extent):
        if counts.count[row] and value[row]:
            return True
    return False


def refuse_where(NodeTable table not None, Py_ssize_t attribute, bytes flags not None, cnp.ndarray rows not None,
                 cnp.ndarray codes not None, int32_t code):
    cdef const int32_t[::1] value = _column(table, attribute)
    cdef Rows asked = rows_of(rows)
    cdef int32_t* out = _codes_of(codes, asked)
    cdef const uint8_t* flag = <const uint8_t*> PyBytes_AS_STRING(flags)
    cdef Py_ssize_t i, known = PyBytes_GET_SIZE(flags)
    with nogil:
        for i in range(asked.count):
            if out[i] == 0 and value[asked.at[i]] < known and flag[value[asked.at[i]]]:
                out[i] = code


def refuse_unless(NodeTable table not None, Py_ssize_t attribute, flags, cnp.ndarray rows not None, cnp.ndarray codes not None,
                  int32_t code):
    cdef const int32_t[::1] value = _column(table, attribute)
    cdef Rows asked = rows_of(rows)
    cdef int32_t* out = _codes_of(codes, asked)
    cdef const uint8_t* flag = NULL
    cdef Py_ssize_t i, known = 0
    if flags is not None:
        flag = <const uint8_t*> PyBytes_AS_STRING(flags)
        known = PyBytes_GET_SIZE(flags)
    with nogil:
        for i in range(asked.count):
            if out[i] == 0 and (value[asked.at[i]] == 0 or (flag != NULL and not _is_set(flag, known, value[asked.at[i]]))):
                out[i] = code


def refuse_own(RowCounts counts not None, Py_ssize_t attribute, cnp.ndarray rows not None, cnp.ndarray codes not None, int32_t code,
               *, bint holding):
    cdef const int32_t[::1] value = _column(counts.table, attribute)
    cdef Rows asked = rows_of(rows)
    cdef int32_t* out = _codes_of(codes, asked)
    counts.ensure()
    cdef const int32_t[::1] count = counts.count
    cdef Py_ssize_t i
    with nogil:
        for i in range(asked.count):
            if out[i] == 0 and (value[asked.at[i]] != 0 and count[asked.at[i]] > 0) == holding:
                out[i] = code


def add_own(RowCounts counts not None, Py_ssize_t attribute, cnp.ndarray rows not None, cnp.ndarray scores not None, int64_t weight):
    cdef const int32_t[::1] value = _column(counts.table, attribute)
    cdef Rows asked = rows_of(rows)
    if cnp.PyArray_TYPE(scores) != cnp.NPY_INT64 or cnp.PyArray_DIM(scores, 0) != asked.count:
        raise ValueError(f"expected {asked.count} int64 scores: got {cnp.PyArray_DIM(scores, 0)} of {scores.dtype}")
    cdef int64_t* out = scores_in(scores)
    counts.ensure()
    cdef const int32_t[::1] count = counts.count
    cdef Py_ssize_t i
    with nogil:
        for i in range(asked.count):
            if value[asked.at[i]] != 0:
                out[i] += weight * count[asked.at[i]]


cdef const int32_t[::1] _column(NodeTable table, Py_ssize_t attribute):
    if attribute < 0 or attribute >= table.attributes:
        raise IndexError(f"attribute {attribute} of {table.attributes}")
    return table.attribute[attribute]


cdef int _check_table(RowCounts counts, NodeTable table) except -1:
    if counts.table is not table:
        raise ValueError("counts of another table")
    counts.ensure()
    return 0


cdef int32_t* _codes_of(cnp.ndarray codes, Rows asked) except NULL:
    if cnp.PyArray_TYPE(codes) != cnp.NPY_INT32 or cnp.PyArray_DIM(codes, 0) != asked.count:
        raise ValueError(f"expected {asked.count} int32 codes: got {cnp.PyArray_DIM(codes, 0)} of {codes.dtype}")
    return codes_in(codes)


cdef int32_t _largest(const int32_t[::1] value, Py_ssize_t extent) noexcept nogil:
    cdef Py_ssize_t row
    cdef int32_t largest = 0
    for row in range(extent):
        largest = max(largest, value[row])
    return largest


cdef void _mark(const int32_t[::1] value, const int32_t[::1] count, Py_ssize_t extent, uint8_t* flag) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(extent):
        if count[row] > 0:
            flag[value[row]] = 1


cdef inline bint _is_set(const uint8_t* flag, Py_ssize_t known, int32_t value) noexcept nogil:
    return value < known and flag[value] != 0
