"""Whether taints are tolerated: decided once for each taint set, gathered over rows.

A cluster has few taint sets, many rows and many pods with the same few lists of tolerations. So a `Tolerance` keeps its verdicts and
decides only about sets that appeared since it was last asked.
"""

from array import array

import numpy as np

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t

from koordsched._core.rows cimport Rows, codes_in, rows_of, scores_in, zero_codes, zero_scores
from koordsched._core.table cimport NodeTable

cnp.import_array()

ROOM = 8  # taint sets that a new Tolerance has room for besides those that exist


cdef class TaintSets:

    def __init__(self):
        self.key = np.zeros(8, np.int32)
        self.value = np.zeros(8, np.int32)
        self.effect = np.zeros(8, np.int32)
        self.kind = np.zeros(8, np.int32)
        self.begin = np.zeros(9, np.int32)
        self.member = np.zeros(8, np.int32)

    def add_taint(self, int32_t key, int32_t value, int32_t effect, Effect kind):
        if self.taints == self.key.shape[0]:
            self.key = _longer(self.key, self.taints + 1)
            self.value = _longer(self.value, self.taints + 1)
            self.effect = _longer(self.effect, self.taints + 1)
            self.kind = _longer(self.kind, self.taints + 1)
        self.key[self.taints] = key
        self.value[self.taints] = value
        self.effect[self.taints] = effect
        self.kind[self.taints] = kind
        self.taints += 1

    def add_set(self, taints):
        cdef Py_ssize_t end = self.begin[self.sets]
        cdef int32_t taint
        if self.sets + 1 == self.begin.shape[0]:
            self.begin = _longer(self.begin, self.sets + 2)
        if end + len(taints) > self.member.shape[0]:
            self.member = _longer(self.member, end + len(taints))
        for taint in taints:
            if taint < 0 or taint >= self.taints:
                raise IndexError(f"taint {taint} of {self.taints}")
            self.member[end] = taint
            end += 1
        self.sets += 1
        self.begin[self.sets] = <int32_t> end


cdef class Tolerance:

    def __init__(self, TaintSets taint_sets not None, tolerations):
        self.taint_sets = taint_sets
        # array, not numpy: a pod has few tolerations, and one of these is made for every list that differs.
        self.key = array("i", [key for key, _, _, _ in tolerations])
        self.operator = array("i", [operator for _, operator, _, _ in tolerations])
        self.value = array("i", [value for _, _, value, _ in tolerations])
        self.effect = array("i", [effect for _, _, _, effect in tolerations])
        none = bytes(sizeof(int32_t) * (taint_sets.sets + ROOM))
        self.refusing = array("i", none)
        self.repelling = array("i", none)
        self.cordoned = array("i", none)

    def refused_by(self, Py_ssize_t taint_set):
        self.extend()
        if taint_set < 0 or taint_set >= self.decided:
            raise IndexError(f"taint set {taint_set} of {self.decided}")
        return self.refusing[taint_set]

    def refuse(self, NodeTable table not None, Py_ssize_t attribute, cnp.ndarray rows not None):
        self.extend()
        return _gathered_codes(table, attribute, rows, self.refusing, self.decided)

    def refuse_cordoned(self, NodeTable table not None, Py_ssize_t attribute, cnp.ndarray rows not None):
        self.extend()
        return _gathered_codes(table, attribute, rows, self.cordoned, self.decided)

    def count_repelling(self, NodeTable table not None, Py_ssize_t attribute, cnp.ndarray rows not None):
        self.extend()
        _check_attribute(table, attribute)
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray scores = zero_scores(asked)
        cdef int64_t* out = scores_in(scores)
        cdef Py_ssize_t unknown
        with nogil:
            unknown = _gather_scores(table.attribute, attribute, asked, self.repelling, self.decided, out)
        if unknown >= 0:
            raise IndexError(f"taint set {unknown} of {self.decided}")
        return scores

    cdef void extend(self):
        cdef Py_ssize_t sets = self.taint_sets.sets
        if self.decided == sets:
            return
        if sets > self.refusing.shape[0]:
            self.refusing = _longer(self.refusing, sets)
            self.repelling = _longer(self.repelling, sets)
            self.cordoned = _longer(self.cordoned, sets)
        with nogil:
            while self.decided < sets:
                self.decide(self.decided)
                self.decided += 1

    cdef void decide(self, Py_ssize_t taint_set) noexcept nogil:
        """Fill the verdicts of one set, whose entries are still 0."""
        cdef Py_ssize_t i
        cdef int32_t taint
        for i in range(self.taint_sets.begin[taint_set], self.taint_sets.begin[taint_set + 1]):
            taint = self.taint_sets.member[i]
            if self.taint_sets.kind[taint] == NOTHING or self.tolerates(taint):
                continue
            if self.taint_sets.kind[taint] == REPELS:
                self.repelling[taint_set] += 1
            elif self.taint_sets.kind[taint] == CORDONS:
                self.cordoned[taint_set] = 1
            elif self.refusing[taint_set] == 0:
                self.refusing[taint_set] = taint + 1

    cdef bint tolerates(self, Py_ssize_t taint) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.key.shape[0]):
            if self.effect[i] != 0 and self.effect[i] != self.taint_sets.effect[taint]:
                continue
            if self.key[i] != 0 and self.key[i] != self.taint_sets.key[taint]:
                continue
            if self.operator[i] == EXISTS or (self.operator[i] == EQUAL and self.value[i] == self.taint_sets.value[taint]):
                return True
        return False


cdef cnp.ndarray _gathered_codes(NodeTable table, Py_ssize_t attribute, cnp.ndarray rows, const int32_t[::1] verdict, Py_ssize_t decided):
    _check_attribute(table, attribute)
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray codes = zero_codes(asked)
    cdef int32_t* out = codes_in(codes)
    cdef Py_ssize_t unknown
    with nogil:
        unknown = _gather_codes(table.attribute, attribute, asked, verdict, decided, out)
    if unknown >= 0:
        raise IndexError(f"taint set {unknown} of {decided}")
    return codes


cdef int _check_attribute(NodeTable table, Py_ssize_t attribute) except -1:
    if attribute < 0 or attribute >= table.attributes:
        raise IndexError(f"attribute {attribute} of {table.attributes}")
    return 0


cdef Py_ssize_t _gather_codes(
    const int32_t[:, ::1] attribute, Py_ssize_t column, Rows rows, const int32_t[::1] verdict, Py_ssize_t decided, int32_t* codes
) noexcept nogil:
    """Return -1, or the first set without a verdict."""
    cdef Py_ssize_t i
    cdef int32_t taint_set
    for i in range(rows.count):
        taint_set = attribute[column, rows.at[i]]
        if taint_set >= decided:
            return taint_set
        codes[i] = verdict[taint_set]
    return -1


cdef Py_ssize_t _gather_scores(
    const int32_t[:, ::1] attribute, Py_ssize_t column, Rows rows, const int32_t[::1] verdict, Py_ssize_t decided, int64_t* scores
) noexcept nogil:
    """Return -1, or the first set without a verdict."""
    cdef Py_ssize_t i
    cdef int32_t taint_set
    for i in range(rows.count):
        taint_set = attribute[column, rows.at[i]]
        if taint_set >= decided:
            return taint_set
        scores[i] = verdict[taint_set]
    return -1


def _longer(vector, Py_ssize_t length):
    """Return a copy with room for at least `length` entries, 0 in the new ones."""
    old = np.asarray(vector)
    new = np.zeros(max(length, 2 * old.shape[0]), np.int32)
    new[:old.shape[0]] = old
    return new
