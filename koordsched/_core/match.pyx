"""Which rows match terms of conditions on attribute values.

A condition is a verdict per value id of one column, so any operator on strings costs a gather here. Columns get new values while verdicts
are kept: a row with a value that is newer than the verdicts makes the call return None, and the caller compiles again.
"""

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t

from koordsched._core.rows cimport Rows, codes_in, flags_in, rows_of, scores_in, zero_codes, zero_flags, zero_scores
from koordsched._core.table cimport NodeTable

cnp.import_array()

cdef enum:
    UNKNOWN = -1  # of `_holds`: a value without a verdict


cdef class Terms:

    def __init__(self, terms, weights=None):
        conditions = [condition for term in terms for condition in term]
        weights = [1] * len(terms) if weights is None else weights
        if len(weights) != len(terms):
            raise ValueError(f"{len(weights)} weights for {len(terms)} terms: expected one each")
        lengths = [len(verdicts) for _, verdicts in conditions]
        self.count = len(terms)
        self.term = np.cumsum([0] + [len(term) for term in terms], dtype=np.int32)
        self.weight = np.array(weights, np.int64)
        self.attribute = np.array([attribute for attribute, _ in conditions], np.int32)
        self.base = np.cumsum([0] + lengths, dtype=np.int32)
        self.known = np.array(lengths, np.int32)
        self.verdict = np.frombuffer(b"".join([verdicts for _, verdicts in conditions]), np.uint8)
        self.largest = max([attribute for attribute, _ in conditions], default=-1)

    cdef int check(self, Py_ssize_t attributes) except -1:
        if self.largest >= attributes:
            raise IndexError(f"attribute {self.largest} of {attributes}")
        return 0

    def matches(self, NodeTable table not None, cnp.ndarray rows not None):
        self.check(table.attributes)
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray flags = zero_flags(asked)
        cdef uint8_t* out = flags_in(flags)
        cdef bint complete
        with nogil:
            complete = _match(table.attribute, self, asked, out)
        return flags if complete else None

    def refuse(self, NodeTable table not None, cnp.ndarray rows not None, int32_t code):
        self.check(table.attributes)
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray codes = zero_codes(asked)
        cdef int32_t* out = codes_in(codes)
        cdef bint complete
        with nogil:
            complete = _refuse(table.attribute, self, asked, code, out)
        return codes if complete else None

    def weigh(self, NodeTable table not None, cnp.ndarray rows not None):
        self.check(table.attributes)
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray scores = zero_scores(asked)
        cdef int64_t* out = scores_in(scores)
        cdef bint complete
        with nogil:
            complete = _weigh(table.attribute, self, asked, out)
        return scores if complete else None


def filter_equal(NodeTable table not None, Py_ssize_t attribute, int32_t value, cnp.ndarray rows not None):
    if attribute < 0 or attribute >= table.attributes:
        raise IndexError(f"attribute {attribute} of {table.attributes}")
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray codes = zero_codes(asked)
    cdef int32_t* out = codes_in(codes)
    with nogil:
        _refuse_others(table.attribute, attribute, value, asked, out)
    return codes


cdef inline int _holds(const int32_t[:, ::1] attribute, Terms terms, Py_ssize_t t, Py_ssize_t row) noexcept nogil:
    """Return whether all conditions of term t hold for the row, or UNKNOWN. Conditions after a failed one are not looked at."""
    cdef Py_ssize_t c
    cdef int32_t value
    for c in range(terms.term[t], terms.term[t + 1]):
        value = attribute[terms.attribute[c], row] if terms.attribute[c] >= 0 else 0
        if value >= terms.known[c]:
            return UNKNOWN
        if not terms.verdict[terms.base[c] + value]:
            return 0
    return 1


cdef inline int _any_holds(const int32_t[:, ::1] attribute, Terms terms, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t t
    cdef int held
    for t in range(terms.count):
        held = _holds(attribute, terms, t, row)
        if held != 0:
            return held
    return 0


cdef bint _match(const int32_t[:, ::1] attribute, Terms terms, Rows rows, uint8_t* flags) noexcept nogil:
    """Fill flags; False when a value has no verdict."""
    cdef Py_ssize_t i
    cdef int held
    for i in range(rows.count):
        held = _any_holds(attribute, terms, rows.at[i])
        if held == UNKNOWN:
            return False
        flags[i] = held
    return True


cdef bint _refuse(const int32_t[:, ::1] attribute, Terms terms, Rows rows, int32_t code, int32_t* codes) noexcept nogil:
    """Fill codes, which are 0; False when a value has no verdict."""
    cdef Py_ssize_t i
    cdef int held
    if terms.count == 1:
        return _refuse_by_one(attribute, terms, rows, code, codes)
    for i in range(rows.count):
        held = _any_holds(attribute, terms, rows.at[i])
        if held == UNKNOWN:
            return False
        codes[i] = 0 if held else code
    return True


cdef bint _refuse_by_one(const int32_t[:, ::1] attribute, Terms terms, Rows rows, int32_t code, int32_t* codes) noexcept nogil:
    """Do the same for a single term, condition by condition: without a branch that the processor has to guess for every row."""
    cdef Py_ssize_t i, c
    cdef const int32_t* column
    cdef int32_t value, known, base
    for c in range(terms.term[0], terms.term[1]):
        column = &attribute[terms.attribute[c], 0] if terms.attribute[c] >= 0 else NULL
        known = terms.known[c]
        base = terms.base[c]
        for i in range(rows.count):
            value = column[rows.at[i]] if column != NULL else 0
            if value < known:
                codes[i] = code if not terms.verdict[base + value] else codes[i]
            elif codes[i] == 0:  # else an earlier condition failed, and this one is not looked at
                return False
    return True


cdef bint _weigh(const int32_t[:, ::1] attribute, Terms terms, Rows rows, int64_t* scores) noexcept nogil:
    """Fill scores; False when a value has no verdict."""
    cdef Py_ssize_t i, t
    cdef int held
    for i in range(rows.count):
        for t in range(terms.count):
            held = _holds(attribute, terms, t, rows.at[i])
            if held == UNKNOWN:
                return False
            if held:
                scores[i] += terms.weight[t]
    return True


cdef void _refuse_others(
    const int32_t[:, ::1] attribute, Py_ssize_t column, int32_t value, Rows rows, int32_t* codes
) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(rows.count):
        codes[i] = attribute[column, rows.at[i]] != value
