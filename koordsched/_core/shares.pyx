"""Scores for spreading: shares of several counts of pods added up by row, and their normalisation."""

import numpy as np

cimport cython
cimport numpy as cnp
from libc.math cimport copysign
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from koordsched._core.counts cimport DomainSums
from koordsched._core.rows cimport Rows, flags_in, rows_of, scores_in

cnp.import_array()

cdef enum:
    CHUNK = 512  # rows whose shares are added up at a time: they stay in the first-level cache

cdef double BELOW_HALF = 0.49999999999999994  # the largest double less than 0.5
cdef int64_t EXACT_DOUBLE = 1 << 53  # quotients of nonnegative dividends below this truncate right in double precision


@cython.final
cdef class Part:
    pass


@cython.final
cdef class Shares:

    def __init__(self, NodeTable table not None):
        self.table = table
        self.parts = []

    def add_domains(self, DomainSums sums not None, double weight, double offset):
        cdef Part part = Part.__new__(Part)
        cdef Py_ssize_t value
        if sums.table is not self.table:
            raise ValueError("sums of another table")
        part.attribute, part.weight, part.offset = sums.attribute, weight, offset
        part.share = np.empty(sums.sums.shape[0])
        for value in range(sums.sums.shape[0]):
            part.share[value] = <double> sums.sums[value] * weight + offset
        part.share[0] = 0.0
        self.parts.append(part)

    def add_rows(self, RowCounts counts not None, Py_ssize_t attribute, double weight, double offset):
        cdef Part part = Part.__new__(Part)
        if counts.table is not self.table:
            raise ValueError("counts of another table")
        if attribute < 0 or attribute >= self.table.attributes:
            raise IndexError(f"attribute {attribute} of {self.table.attributes}")
        part.attribute, part.counts, part.weight, part.offset = attribute, counts, weight, offset
        self.parts.append(part)

    def scores(self, cnp.ndarray rows not None, cnp.ndarray eligible=None):
        cdef Rows asked = rows_of(rows)
        cdef cnp.npy_intp count = asked.count
        cdef cnp.ndarray rounded = cnp.PyArray_EMPTY(1, &count, cnp.NPY_INT64, 0)
        cdef int64_t* out = scores_in(rounded)
        cdef Part part
        for part in self.parts:
            if part.counts is not None:
                part.counts.ensure()
        if self._is_usual():
            _score_usual(self.table, self.parts[0], self.parts[1], asked, out)
        else:
            _score(self.table, self.parts, asked, out)
        if eligible is not None:
            _leave_out(asked, flags_in(eligible), _check_flags(eligible), out)
        return rounded

    cdef bint _is_usual(self):
        # The system's default constraints: each node's own pods, and its zone's.
        return len(self.parts) == 2 and (<Part> self.parts[0]).counts is not None and (<Part> self.parts[1]).counts is None


def normalize_to_least(cnp.ndarray scores not None, cnp.ndarray rows not None, cnp.ndarray eligible=None):
    cdef Rows asked = rows_of(rows)
    if cnp.PyArray_NDIM(scores) != 1 or cnp.PyArray_TYPE(scores) != cnp.NPY_INT64 or not cnp.PyArray_IS_C_CONTIGUOUS(scores):
        raise TypeError(f"scores must be a contiguous int64 vector: got {scores.dtype}")
    if cnp.PyArray_DIM(scores, 0) != asked.count:
        raise ValueError(f"{cnp.PyArray_DIM(scores, 0)} scores for {asked.count} rows")
    cdef cnp.npy_intp count = asked.count
    cdef cnp.ndarray normalized = cnp.PyArray_EMPTY(1, &count, cnp.NPY_INT64, 0)
    cdef const uint8_t* flag = NULL
    cdef Py_ssize_t end = 0
    if eligible is not None:
        end = _check_flags(eligible)
        flag = flags_in(eligible)
    cdef const int64_t* score = scores_in(scores)
    cdef int64_t* out = scores_in(normalized)
    with nogil:
        _normalize_to_least(score, asked, flag, end, out)
        if flag != NULL:
            _leave_out(asked, flag, end, out)
    return normalized


cdef Py_ssize_t _check_flags(cnp.ndarray flags) except -1:
    # Return how many there are.
    if cnp.PyArray_NDIM(flags) != 1 or cnp.PyArray_TYPE(flags) != cnp.NPY_UINT8 or not cnp.PyArray_IS_C_CONTIGUOUS(flags):
        raise TypeError(f"flags must be a contiguous uint8 vector: got {flags.dtype}")
    return cnp.PyArray_DIM(flags, 0)


# Loops

cdef inline int64_t _nearest(double share) noexcept nogil:
    # As C's round() without the call: halves are rounded away from zero. With 0.5 in place of BELOW_HALF the largest number below a half
    # would become 1.
    return <int64_t> (share + copysign(BELOW_HALF, share))


cdef inline double _own(const int32_t[::1] value, const int32_t[::1] count, double weight, double offset, int32_t row) noexcept nogil:
    return <double> count[row] * weight + offset if value[row] else 0.0


cdef inline double _of_domain(const int32_t[::1] value, const double[::1] share, double offset, int32_t row) noexcept nogil:
    cdef int32_t domain = value[row]
    return share[domain] if domain < share.shape[0] else offset  # newer than the sums: no pod is counted there


cdef int _score(NodeTable table, list parts, Rows rows, int64_t* out) except -1:
    cdef double[CHUNK] share
    cdef Py_ssize_t i, begin
    cdef Rows chunk
    cdef Part part
    for begin in range(0, rows.count, CHUNK):
        chunk.at, chunk.count = rows.at + begin, min(rows.count - begin, CHUNK)
        memset(share, 0, chunk.count * sizeof(double))
        for part in parts:
            if part.counts is not None:
                _add_own(table.attribute[part.attribute], part.counts.count, part.weight, part.offset, chunk, share)
            else:
                _add_of_domain(table.attribute[part.attribute], part.share, part.offset, chunk, share)
        for i in range(chunk.count):
            out[begin + i] = _nearest(share[i])
    return 0


cdef void _add_own(
    const int32_t[::1] value, const int32_t[::1] count, double weight, double offset, Rows rows, double* share
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(rows.count):
        share[i] += _own(value, count, weight, offset, rows.at[i])


cdef void _add_of_domain(const int32_t[::1] value, const double[::1] known, double offset, Rows rows, double* share) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(rows.count):
        share[i] += _of_domain(value, known, offset, rows.at[i])


cdef int _score_usual(NodeTable table, Part own, Part domains, Rows rows, int64_t* out) except -1:
    # As _score, in a single loop that takes half the time.
    cdef const int32_t[::1] own_value = table.attribute[own.attribute], count = own.counts.count
    cdef const int32_t[::1] domain = table.attribute[domains.attribute]
    cdef const double[::1] share = domains.share
    cdef double weight = own.weight, offset = own.offset, domain_offset = domains.offset
    cdef Py_ssize_t i
    cdef int32_t row
    with nogil:
        for i in range(rows.count):
            row = rows.at[i]
            out[i] = _nearest(_own(own_value, count, weight, offset, row) + _of_domain(domain, share, domain_offset, row))
    return 0


cdef void _leave_out(Rows rows, const uint8_t* flag, Py_ssize_t end, int64_t* scores) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(rows.count):
        if rows.at[i] >= end or not flag[rows.at[i]]:
            scores[i] = 0


cdef void _normalize_to_least(const int64_t* scores, Rows rows, const uint8_t* flag, Py_ssize_t end, int64_t* out) noexcept nogil:
    # Write something for every row, with the least and the most of those that are eligible.
    cdef Py_ssize_t i
    cdef int64_t least = 0x7FFFFFFFFFFFFFFF, most = 0
    cdef double divisor
    if flag == NULL:
        for i in range(rows.count):
            least = min(least, scores[i])
            most = max(most, scores[i])
    else:
        for i in range(rows.count):
            if rows.at[i] < end and flag[rows.at[i]]:
                least = min(least, scores[i])
                most = max(most, scores[i])
    if most == 0:
        for i in range(rows.count):
            out[i] = 100
    elif 0 <= least and most < EXACT_DOUBLE // 200:
        # A double division is several times cheaper than a 64-bit one.
        divisor = <double> most
        for i in range(rows.count):
            out[i] = <int64_t> (<double> (100 * (most + least - scores[i])) / divisor)
    else:
        for i in range(rows.count):
            out[i] = 100 * (most + least - scores[i]) // most
