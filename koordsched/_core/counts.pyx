"""How many of something each row has, and sums of that over the rows that share a value of a column."""

import numpy as np

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from koordsched._core.rows cimport Rows, codes_in, flags_in, rows_of, scores_in
from koordsched._core.table cimport LOG_SIZE, NO_TURN, LogReader, NodeTable, UndoneTurn

cnp.import_array()

cdef int64_t NO_VERSION = -1
cdef int64_t NO_DOMAIN = 0x7FFFFFFF  # `least` when no domain is present


@cython.final
cdef class RowCounts:

    def __init__(self, NodeTable table not None):
        self.table = table
        self.count = np.zeros(0, np.int32)  # made by `ensure`: what counts nothing takes no room

    def add(self, Py_ssize_t row, int32_t amount):
        self.reach(row)
        self.count[row] += amount
        self.total += amount
        self.move(self.version)

    def add_quietly(self, Py_ssize_t row, int32_t amount):
        self.reach(row)
        self.count[row] += amount
        self.total += amount

    def add_all(self, dict amounts, int32_t times=1):
        cdef Py_ssize_t row
        cdef int32_t amount
        for row, amount in amounts.items():
            self.reach(row)
            self.count[row] += times * amount
            self.total += times * amount
        self.move(NO_VERSION)

    def add_rows(self, const int32_t[::1] amounts not None):
        cdef Py_ssize_t row
        if amounts.shape[0] > self.table.capacity:
            raise IndexError(f"{amounts.shape[0]} amounts for {self.table.capacity} rows")
        self.ensure()
        for row in range(amounts.shape[0]):
            self.count[row] += amounts[row]
            self.total += amounts[row]
        self.move(NO_VERSION)

    def of(self, Py_ssize_t row):
        self.reach(row)
        return self.count[row]

    def array(self):
        self.ensure()
        return np.array(self.count)

    cdef int move(self, int64_t before) except -1:
        # Give what is counted now a version of its own; once the turn is rewound it is again what it was `before`.
        if self.table.turn_start != NO_TURN and self.turn != self.table.turns:
            self.turn = self.table.turns
            self.version_before = before
            self.table.call_on_rewind(self._restore_version)
        self.version = self.table.take_stamp()
        return 0

    def _restore_version(self):
        self.version = self.table.take_stamp() if self.version_before == NO_VERSION else self.version_before

    cdef int reach(self, Py_ssize_t row) except -1:
        if row < 0 or row >= self.table.capacity:
            raise IndexError(f"row {row} of {self.table.capacity}")
        if row >= self.count.shape[0]:
            self.ensure()
        return 0

    cdef int ensure(self) except -1:
        # The table has grown since: rows that are new to us have none.
        if self.count.shape[0] < self.table.capacity:
            longer = np.zeros(self.table.capacity, np.int32)
            longer[:self.count.shape[0]] = self.count
            self.count = longer
        return 0


@cython.final
cdef class Changes:

    def __init__(self, NodeTable table not None, uint32_t kinds):
        self.table = table
        self.kinds = kinds
        self.log = LogReader(table)

    def version(self):
        cdef int64_t i
        cdef bint seen = not self.log.reaches()  # what is no longer in the log may have been anything
        cdef UndoneTurn undone = self.log.undone
        if not seen:
            if undone is not None:
                for i in range(undone.changes.shape[0]):
                    seen |= undone.changes[i] & self.kinds != 0
            for i in range(self.log.position, self.table.log_end):
                seen |= self.table.log_change[i & (LOG_SIZE - 1)] & self.kinds != 0
        self.log.done()
        self.counted += seen
        return self.counted


@cython.final
cdef class Domains:

    def __init__(self, NodeTable table not None, Py_ssize_t attribute, cnp.ndarray eligible=None):
        _check_attribute(table, attribute)
        cdef Py_ssize_t row, extent = table.extent()
        cdef int32_t[::1] value = table.attribute[attribute]
        cdef uint8_t* flag = NULL
        cdef int32_t largest = 0
        if eligible is not None:
            flag = _flags_of(eligible)
            extent = min(extent, cnp.PyArray_DIM(eligible, 0))
        self.table = table
        self.attribute = attribute
        self.domain = np.zeros(extent, np.int32)
        for row in range(extent):
            if flag == NULL or flag[row]:
                self.domain[row] = value[row]
                largest = max(largest, value[row])
        self.values = largest + 1
        self.is_present = np.zeros(self.values, np.uint8)
        for row in range(extent):
            self.is_present[self.domain[row]] = 1
        self.is_present[0] = 0
        self.present = np.count_nonzero(self.is_present)
        self.leaves_out = _leaves_out(self.domain, table.live)

    def sum(self, RowCounts counts not None, int64_t weight=1):
        cdef DomainSums made = DomainSums.__new__(DomainSums)
        if counts.table is not self.table:
            raise ValueError("counts of another table")
        counts.ensure()
        made.table = self.table
        made.attribute = self.attribute
        made.sums = np.zeros(self.values, np.int64)
        made.is_present = self.is_present
        made.shared = True
        with nogil:
            _sum_domains(self.domain, counts.count, weight, made.sums)
        return made

    def among(self, cnp.ndarray rows not None):
        cdef Rows asked = rows_of(rows)
        cdef Py_ssize_t found
        cdef uint8_t[::1] seen = np.zeros(self.values, np.uint8)
        with nogil:
            found = _mark_domains(self.domain, asked, self.present, self.leaves_out, seen)
        return found, seen[0] == 1


@cython.final
cdef class DomainSums:

    def __init__(self, NodeTable table not None, Py_ssize_t attribute):
        _check_attribute(table, attribute)
        self.table = table
        self.attribute = attribute
        self.sums = np.zeros(1, np.int64)
        self.is_present = np.zeros(1, np.uint8)

    cdef int ensure(self) except -1:
        # Value ids are dense, so that the largest one in the column is about the number of values that ever were.
        cdef Py_ssize_t row, extent = self.table.extent()
        cdef int32_t largest = 0
        cdef int32_t[::1] value = self.table.attribute[self.attribute]
        for row in range(extent):
            largest = max(largest, value[row])
        if largest >= self.sums.shape[0]:
            sums, present = np.zeros(largest + 1, np.int64), np.zeros(largest + 1, np.uint8)
            sums[:self.sums.shape[0]] = self.sums
            present[:self.is_present.shape[0]] = self.is_present
            self.sums, self.is_present = sums, present
        return 0

    def add(self, RowCounts counts not None, cnp.ndarray eligible=None, int64_t weight=1):
        cdef Py_ssize_t extent = self.table.extent()
        cdef uint8_t* flag = NULL
        if counts.table is not self.table:
            raise ValueError("counts of another table")
        counts.ensure()
        if self.shared:
            self.is_present = np.array(self.is_present)
            self.shared = False
        self.ensure()
        if eligible is not None:
            flag = _flags_of(eligible)
            extent = min(extent, cnp.PyArray_DIM(eligible, 0))
        with nogil:
            _sum(self.table.attribute[self.attribute], counts.count, flag, extent, weight, self.sums, self.is_present)

    @property
    def present(self):
        cdef Py_ssize_t value, count = 0
        for value in range(1, self.sums.shape[0]):
            count += self.is_present[value]
        return count

    @property
    def least(self):
        cdef Py_ssize_t value
        cdef int64_t least = NO_DOMAIN
        for value in range(1, self.sums.shape[0]):
            if self.is_present[value]:
                least = min(least, self.sums[value])
        return least

    @property
    def total(self):
        cdef Py_ssize_t value
        cdef int64_t total = 0
        for value in range(1, self.sums.shape[0]):
            total += self.sums[value]
        return total

    def of(self, Py_ssize_t value):
        return self.sums[value] if 0 < value < self.sums.shape[0] else 0

    def refuse_above(self, cnp.ndarray rows not None, cnp.ndarray codes not None, int64_t limit, int32_t above, int32_t missing=0):
        cdef Rows asked = rows_of(rows)
        cdef int32_t* out = _codes_of(codes, asked)
        with nogil:
            _refuse(self.table.attribute[self.attribute], self.sums, asked, limit, above, missing, out)

    def add_to(self, cnp.ndarray rows not None, cnp.ndarray scores not None, int64_t weight=1):
        cdef Rows asked = rows_of(rows)
        _check(scores, asked, cnp.NPY_INT64)
        cdef int64_t* out = scores_in(scores)
        with nogil:
            _add_sums(self.table.attribute[self.attribute], self.sums, asked, weight, out)


def rows_with_all(NodeTable table not None, attributes):
    cdef Py_ssize_t row, extent = table.extent()
    cdef cnp.ndarray flags = np.ones(extent, np.uint8)
    cdef uint8_t* flag = flags_in(flags)
    cdef int32_t[::1] value
    for attribute in attributes:
        _check_attribute(table, attribute)
        value = table.attribute[attribute]
        for row in range(extent):
            flag[row] &= value[row] != 0
    return flags


def count_eligible(cnp.ndarray rows not None, cnp.ndarray eligible not None):
    cdef Rows asked = rows_of(rows)
    cdef const uint8_t* flag = _flags_of(eligible)
    cdef Py_ssize_t i, end = cnp.PyArray_DIM(eligible, 0), count = 0
    with nogil:
        for i in range(asked.count):
            count += asked.at[i] < end and flag[asked.at[i]] != 0
    return count


def normalize_to_range(cnp.ndarray scores not None):
    cdef cnp.npy_intp count = cnp.PyArray_DIM(scores, 0)
    if cnp.PyArray_NDIM(scores) != 1 or cnp.PyArray_TYPE(scores) != cnp.NPY_INT64 or not cnp.PyArray_IS_C_CONTIGUOUS(scores):
        raise TypeError(f"scores must be a contiguous int64 vector: got {scores.dtype}")
    cdef cnp.ndarray normalized = cnp.PyArray_ZEROS(1, &count, cnp.NPY_INT64, 0)
    cdef const int64_t* score = scores_in(scores)
    cdef int64_t* out = scores_in(normalized)
    with nogil:
        _normalize_to_range(score, count, out)
    return normalized


# What comes in

cdef int _check_attribute(NodeTable table, Py_ssize_t attribute) except -1:
    if attribute < 0 or attribute >= table.attributes:
        raise IndexError(f"attribute {attribute} of {table.attributes}")
    return 0


cdef int _check(cnp.ndarray values, Rows asked, int type_number) except -1:
    if cnp.PyArray_NDIM(values) != 1 or cnp.PyArray_TYPE(values) != type_number or not cnp.PyArray_IS_C_CONTIGUOUS(values):
        raise TypeError(f"expected a contiguous vector: got {values.dtype} of shape {(<object> values).shape}")
    if cnp.PyArray_DIM(values, 0) != asked.count:
        raise ValueError(f"{cnp.PyArray_DIM(values, 0)} values for {asked.count} rows")
    return 0


cdef int32_t* _codes_of(cnp.ndarray codes, Rows asked) except NULL:
    _check(codes, asked, cnp.NPY_INT32)
    return codes_in(codes)


cdef uint8_t* _flags_of(cnp.ndarray flags) except NULL:
    if cnp.PyArray_NDIM(flags) != 1 or cnp.PyArray_TYPE(flags) != cnp.NPY_UINT8 or not cnp.PyArray_IS_C_CONTIGUOUS(flags):
        raise TypeError(f"flags must be a contiguous uint8 vector: got {flags.dtype}")
    return flags_in(flags)


# Loops

cdef bint _leaves_out(const int32_t[::1] domain, const uint8_t[::1] live) noexcept nogil:
    cdef Py_ssize_t row
    for row in range(live.shape[0]):
        if live[row] and (row >= domain.shape[0] or domain[row] == 0):
            return True
    return False


cdef Py_ssize_t _mark_domains(
    const int32_t[::1] domain, Rows rows, Py_ssize_t present, bint leaves_out, uint8_t[::1] seen
) noexcept nogil:
    # Return how many domains the rows are in. Once all there are have been seen, the other rows need no look: that is soon as a rule.
    cdef Py_ssize_t i, at, found = 0, end = domain.shape[0]
    for i in range(rows.count):
        at = domain[rows.at[i]] if rows.at[i] < end else 0
        found += at != 0 and not seen[at]
        seen[at] = 1
        if found == present and (seen[0] or not leaves_out):
            break
    return found


cdef void _sum_domains(const int32_t[::1] domain, const int32_t[::1] count, int64_t weight, int64_t[::1] sums) noexcept nogil:
    # Domain 0 collects what is left out, so that there is no branch; it is emptied at the end.
    cdef Py_ssize_t row
    for row in range(domain.shape[0]):
        sums[domain[row]] += weight * count[row]
    sums[0] = 0


cdef void _sum(
    const int32_t[::1] value,
    const int32_t[::1] count,
    const uint8_t* eligible,
    Py_ssize_t extent,
    int64_t weight,
    int64_t[::1] sums,
    uint8_t[::1] present,
) noexcept nogil:
    # Domain 0 collects the rows without a key, so that there is no branch; it is emptied at the end.
    cdef Py_ssize_t row
    if eligible == NULL:
        for row in range(extent):
            sums[value[row]] += weight * count[row]
            present[value[row]] = 1
    else:
        for row in range(extent):
            if eligible[row]:
                sums[value[row]] += weight * count[row]
                present[value[row]] = 1
    sums[0] = 0
    present[0] = 0


cdef inline int64_t _sum_of(const int64_t[::1] sums, int32_t value) noexcept nogil:
    # A value that appeared after the sums were made has none.
    return sums[value] if value < sums.shape[0] else 0


cdef void _refuse(
    const int32_t[::1] value,
    const int64_t[::1] sums,
    Rows rows,
    int64_t limit,
    int32_t above,
    int32_t missing,
    int32_t* codes,
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t domain
    for i in range(rows.count):
        if codes[i]:
            continue
        domain = value[rows.at[i]]
        if domain == 0:
            codes[i] = missing
        elif _sum_of(sums, domain) > limit:
            codes[i] = above


cdef void _add_sums(const int32_t[::1] value, const int64_t[::1] sums, Rows rows, int64_t weight, int64_t* scores) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(rows.count):
        scores[i] += weight * _sum_of(sums, value[rows.at[i]])


cdef void _normalize_to_range(const int64_t* scores, Py_ssize_t count, int64_t* out) noexcept nogil:
    cdef Py_ssize_t i
    cdef int64_t least, most
    if count == 0:
        return
    least = most = scores[0]
    for i in range(count):
        least = min(least, scores[i])
        most = max(most, scores[i])
    if least == most:
        return
    for i in range(count):
        out[i] = <int64_t> (100.0 * (<double> (scores[i] - least) / <double> (most - least)))


cdef class HiddenPods(CompiledPart):

    def __init__(self, dict queries not None, counts, pods, Py_ssize_t row):
        self.counts_alone = True
        self.queries = queries
        self.counts = counts
        self.pods = pods
        self.row = row

    cdef int hide_now(self) except -1:
        return self.add(-1) if self.queries else 0

    cdef int restore_now(self) except -1:
        return self.add(1) if self.queries else 0

    cdef int add(self, int times) except -1:
        if self.classes is None:
            self.classes = self.counts.classes_of(self.pods)
        for of_class, pod, count in self.classes:
            self.counts.add_of_class(of_class, pod, self.row, times * count)
        return 0
