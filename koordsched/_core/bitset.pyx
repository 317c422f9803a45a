"""Answers from bit columns: whether a row has any of some bits, and what the bits it has are worth."""

import numpy as np

cimport numpy as cnp
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from koordsched._core.rows cimport Rows, codes_in, rows_of, scores_in, zero_codes, zero_scores
from koordsched._core.table cimport NodeTable

cnp.import_array()

cdef enum:
    BEST = 100

cdef int64_t EXACT = 90_071_992_547_409  # 2^53 // 100: up to it, 100 * amount is an exact double


def filter_bits(NodeTable table not None, list columns not None, cnp.ndarray rows not None):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray codes = zero_codes(asked)
    cdef int32_t* out = codes_in(codes)
    cdef Py_ssize_t column
    for column in columns:
        if column < 0 or column >= table.bit.shape[0]:
            raise IndexError(f"bit column {column} of {table.bit.shape[0]}")
        with nogil:
            _or_bit(table.bit, column, asked, out)
    return codes


cdef void _or_bit(const uint64_t[:, ::1] bit, Py_ssize_t column, Rows rows, int32_t* codes) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(rows.count):
        codes[i] |= <int32_t> (bit[column, rows.at[i] >> 6] >> (rows.at[i] & 63)) & 1


cdef class BitWeights:

    def __init__(self, columns, weights, int64_t low, int64_t high):
        if len(columns) != len(weights) or any([weight < 0 for weight in weights]):
            raise ValueError(f"{len(columns)} columns and weights {weights}: expected a weight >= 0 for each")
        if not 0 <= low < high <= EXACT or len(columns) > INT64_MAX // high:
            raise ValueError(f"expected 0 <= low < high <= 2^53 / 100 and {len(columns)} * high within int64: got low {low}, high {high}")
        self.columns = np.array(columns, np.int32)
        # A row with one bit of weight `high` scores 100 whatever its other bits add. Weights cut to `high` have sums within int64.
        self.weights = np.array([min(weight, high) for weight in weights], np.int64)
        self.low = low
        self.high = high
        self.largest = max(columns, default=-1)

    def score(self, NodeTable table not None, cnp.ndarray rows not None):
        if self.largest >= table.bit.shape[0]:
            raise IndexError(f"bit column {self.largest} of {table.bit.shape[0]}")
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray scores = zero_scores(asked)
        cdef int64_t* out = scores_in(scores)
        with nogil:
            _score(table.bit, self, asked, out)
        return scores


cdef void _score(const uint64_t[:, ::1] bit, BitWeights wanted, Rows rows, int64_t* scores) noexcept nogil:
    cdef Py_ssize_t i, j
    cdef int64_t total
    for i in range(rows.count):
        total = 0
        for j in range(wanted.columns.shape[0]):
            if (bit[wanted.columns[j], rows.at[i] >> 6] >> (rows.at[i] & 63)) & 1:
                total += wanted.weights[j]
        total = min(total, wanted.high)
        if total > wanted.low:
            # As doubles: exact below 2^53, and several times faster than idiv (see _percent in allocation.pyx).
            scores[i] = <int64_t> (<double> (BEST * (total - wanted.low)) / <double> (wanted.high - wanted.low))
