"""Scores by how full a row would be: from least to most full, each resource its own way, along a given shape, and by balance between
resources.

cpu and memory count with plain requests in `balanced`, and with the nonzero columns in all others.

All amounts must be >= 0. No intermediate overflows: where an int64 product would (amounts beyond 2^63 / 100; Go v1.35 wraps there), the
result is that of unbounded integers.
"""

from array import array

cimport numpy as cnp
from libc.math cimport fabs, sqrt
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from koordsched._core.rows cimport Rows, rows_of, scores_in, zero_scores
from koordsched._core.table cimport RESOURCE_CPU, RESOURCE_MEMORY, NodeTable

cnp.import_array()

cdef extern from *:
    """
    #define KOORDSCHED_EXACT INT64_C(90071992547409)
    """
    ctypedef long long int128_t "__int128"
    const int64_t EXACT "KOORDSCHED_EXACT"  # 2^53 // 100: up to it, 100 * amount is an exact double

cdef enum Strategy:
    LEAST
    MOST
    RATIO

cdef enum:
    SHIFT = 44     # see _divide
    LEFT_OUT = 32  # a running score holds the weights that were left out from this bit on, the weighted sum below it

cdef int64_t SUM = (<int64_t> 1 << LEFT_OUT) - 1


cdef class ScoredResources:

    def __init__(self, ids, amounts, weights):
        self.ids = array("i", ids)  # not numpy: made once for every pod that differs
        self.amounts = array("q", amounts)
        self.weights = array("q", weights)
        if not len(ids) == len(amounts) == len(weights):
            raise ValueError(f"{len(ids)} ids, {len(amounts)} amounts and {len(weights)} weights: expected as many of each")
        if not self.is_sane():
            raise ValueError(f"amounts {amounts} must be >= 0, weights {weights} >= 1 and their sum at most {MAX_WEIGHTS}")

    cdef bint is_sane(self) noexcept:
        cdef Py_ssize_t i
        self.weight = 0
        for i in range(self.ids.shape[0]):
            if self.amounts[i] < 0 or not 1 <= self.weights[i] <= MAX_WEIGHTS:
                return False
            self.weight += self.weights[i]
            if self.weight > MAX_WEIGHTS:
                return False
        return True

    cdef int check(self, Py_ssize_t resources) except -1:
        cdef Py_ssize_t i
        for i in range(self.ids.shape[0]):
            if self.ids[i] < 0 or self.ids[i] >= resources:
                raise IndexError(f"resource {self.ids[i]} of {resources}")
        return 0


cdef class MixedResources:

    def __init__(self, ids, amounts, weights, most):
        if not len(ids) == len(amounts) == len(weights) == len(most):
            raise ValueError(f"{len(ids)} ids, {len(amounts)} amounts, {len(weights)} weights, {len(most)} flags: expected as many of each")
        if any(value < 0 for value in (*amounts, *weights)) or sum(weights) > INT64_MAX // FULL:
            raise ValueError(f"amounts {amounts} and weights {weights} must be >= 0 and the sum of the weights at most 2^63 / 100")
        self.ids = array("i", ids)
        self.amounts = array("q", amounts)
        self.weights = array("q", weights)
        self.most = bytes(most)
        self.weight = sum(weights)


cdef class RatioShape:

    def __init__(self, points):
        if not points:
            raise ValueError("a shape needs at least one point")
        for utilization in range(FULL + 1):
            self.score[utilization] = _on_segments(points, utilization)

    def __getitem__(self, Py_ssize_t utilization):
        if utilization < 0 or utilization > FULL:
            raise IndexError(f"utilization {utilization}: expected 0..{FULL}")
        return self.score[utilization]


cdef int64_t _on_segments(list points, int64_t x) except? -1:
    cdef int64_t x0, y0, x1, y1
    x0, y0 = points[0]
    if x <= x0:
        return y0
    for x1, y1 in points:
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)  # truncates toward zero, also downhill
        x0, y0 = x1, y1
    return y0


def least_allocated(NodeTable table not None, ScoredResources scored not None, cnp.ndarray rows not None):
    return _scores(table, scored, None, LEAST, rows)


def most_allocated(NodeTable table not None, ScoredResources scored not None, cnp.ndarray rows not None):
    return _scores(table, scored, None, MOST, rows)


def requested_to_capacity_ratio(
    NodeTable table not None, ScoredResources scored not None, RatioShape shape not None, cnp.ndarray rows not None
):
    return _scores(table, scored, shape, RATIO, rows)


def mixed_allocated(NodeTable table not None, MixedResources scored not None, cnp.ndarray rows not None):
    cdef Py_ssize_t i
    for i in range(scored.ids.shape[0]):
        if scored.ids[i] < 0 or scored.ids[i] >= table.resources:
            raise IndexError(f"resource {scored.ids[i]} of {table.resources}")
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray scores = zero_scores(asked)
    cdef int64_t* out = scores_in(scores)
    with nogil:
        for i in range(scored.ids.shape[0]):
            _add_mixed(
                table.allocatable[scored.ids[i]],
                _counted(table, scored.ids[i]),
                scored.amounts[i],
                scored.weights[i],
                scored.most[i],
                asked,
                out,
            )
        _divide_mixed(scored.weight, asked.count, out)
    return scores


cdef cnp.ndarray _scores(NodeTable table, ScoredResources scored, RatioShape shape, Strategy strategy, cnp.ndarray rows):
    scored.check(table.resources)
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray scores = zero_scores(asked)
    cdef int64_t* out = scores_in(scores)
    with nogil:
        _add_all(table, scored, shape, strategy, asked, out)
        _divide(scored.weight, strategy, asked.count, out)
    return scores


cdef void _add_all(
    NodeTable table, ScoredResources scored, RatioShape shape, Strategy strategy, Rows rows, int64_t* running
) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t resource
    cdef int64_t amount, weight
    cdef const int64_t[::1] capacity, used
    # Resource by resource: running[] holds what the resources before i add up to.
    for i in range(scored.ids.shape[0]):
        resource = scored.ids[i]
        amount = scored.amounts[i]
        weight = scored.weights[i]
        capacity = table.allocatable[resource]
        used = _counted(table, resource)
        if strategy == LEAST:
            _add_least(capacity, used, amount, weight, rows, running)
        elif strategy == MOST:
            _add_most(capacity, used, amount, weight, rows, running)
        else:
            _add_ratio(capacity, used, amount, weight, shape, rows, running)


cdef inline const int64_t[::1] _counted(NodeTable table, int32_t resource) noexcept nogil:
    """Return the column of what the rows' pods count with."""
    if resource == RESOURCE_CPU:
        return table.nonzero[0]
    if resource == RESOURCE_MEMORY:
        return table.nonzero[1]
    return table.requested[resource]


# In the four loops below a row's capacity is nearly always ordinary, so the processor predicts that branch. Whether a row is overcommitted
# differs from row to row, so `_left` computes it without a branch (14 us instead of 20 for 5,000 rows;
# bench/bench_kernels.py::bench_least_allocated).


cdef void _add_least(
    const int64_t[::1] capacity, const int64_t[::1] used, int64_t amount, int64_t weight, Rows rows, int64_t* running
) noexcept nogil:
    cdef Py_ssize_t i, row
    cdef int64_t total
    for i in range(rows.count):
        row = rows.at[i]
        total = capacity[row]
        if _is_ordinary(total):
            running[i] += weight * _percent(_left(total, used[row], amount), total)
        elif total > 0:
            running[i] += weight * _wide_percent(_left(total, used[row], amount), total)
        else:
            running[i] += weight << LEFT_OUT


cdef void _add_most(
    const int64_t[::1] capacity, const int64_t[::1] used, int64_t amount, int64_t weight, Rows rows, int64_t* running
) noexcept nogil:
    cdef Py_ssize_t i, row
    cdef int64_t total
    for i in range(rows.count):
        row = rows.at[i]
        total = capacity[row]
        if _is_ordinary(total):
            running[i] += weight * _percent(total - _left(total, used[row], amount), total)
        elif total > 0:
            running[i] += weight * _wide_percent(total - _left(total, used[row], amount), total)
        else:
            running[i] += weight << LEFT_OUT


cdef void _add_ratio(
    const int64_t[::1] capacity, const int64_t[::1] used, int64_t amount, int64_t weight, RatioShape shape, Rows rows, int64_t* running
) noexcept nogil:
    cdef Py_ssize_t i, row
    cdef int64_t total, score
    for i in range(rows.count):
        row = rows.at[i]
        total = capacity[row]
        if _is_ordinary(total):
            score = shape.score[_percent(total - _left(total, used[row], amount), total)]
        elif total > 0:
            score = shape.score[_wide_percent(total - _left(total, used[row], amount), total)]
        else:
            score = 0
        # A resource that scores nothing does not count at all (requested_to_capacity_ratio.go of Kubernetes v1.35).
        running[i] += weight * score if score else weight << LEFT_OUT


cdef void _add_mixed(
    const int64_t[::1] capacity, const int64_t[::1] used, int64_t amount, int64_t weight, bint most, Rows rows, int64_t* running
) noexcept nogil:
    # A row without any of the resource scores 0 for it, and its weight counts.
    cdef Py_ssize_t i, row
    cdef int64_t total, part
    for i in range(rows.count):
        row = rows.at[i]
        total = capacity[row]
        part = _left(total, used[row], amount)
        if most:
            part = total - part
        if _is_ordinary(total):
            running[i] += weight * _percent(part, total)
        elif total > 0:
            running[i] += weight * _wide_percent(part, total)


cdef void _divide_mixed(int64_t weight, Py_ssize_t count, int64_t* running) noexcept nogil:
    """Turn weighted sums, each at most 100 * weight, into means, rounded down; FULL where no weight counts."""
    cdef Py_ssize_t i
    if weight == 0:
        for i in range(count):
            running[i] = FULL
    elif weight <= EXACT:
        for i in range(count):
            running[i] = <int64_t> (<double> running[i] / <double> weight)  # exact as in _percent
    else:
        for i in range(count):
            running[i] = running[i] / weight


cdef inline bint _is_ordinary(int64_t capacity) noexcept nogil:
    """Return whether 0 < capacity <= EXACT."""
    return <uint64_t> (capacity - 1) < <uint64_t> EXACT


cdef inline int64_t _left(int64_t capacity, int64_t used, int64_t amount) noexcept nogil:
    """Return capacity - used - amount, or 0 where that is negative; cannot overflow."""
    cdef int64_t free = capacity - used
    return (free if free > amount else amount) - amount


cdef inline int64_t _percent(int64_t part, int64_t whole) noexcept nogil:
    """Return part * 100 / whole, rounded down, for 0 <= part <= whole and an ordinary whole."""
    # For integers below 2^53 the rounded-down double quotient is the integer one: a quotient that is not whole lies further below the
    # next integer than half a unit in its last place. divsd takes about 4 cycles, a 64-bit idiv up to 40.
    return <int64_t> (<double> (part * FULL) / <double> whole)


cdef inline int64_t _wide_percent(int64_t part, int64_t whole) noexcept nogil:
    """Return the same for any whole > 0."""
    return <int64_t> (<int128_t> part * <int128_t> FULL / <int128_t> whole)


cdef void _divide(int64_t weight, Strategy strategy, Py_ssize_t count, int64_t* running) noexcept nogil:
    """Turn weighted sums into means over the weights that were not left out: rounded to nearest for RATIO, else down; 0 without any."""
    cdef Py_ssize_t i
    cdef int64_t total, left_out
    cdef int64_t known = -1
    cdef int64_t divisor = 1
    cdef int64_t twice = 2 if strategy == RATIO else 1
    cdef int64_t half = 0
    cdef int64_t reciprocal = 0
    # total / divisor as a multiplication: with reciprocal = ceil(2^44 / divisor) it is exact while total * divisor < 2^44, and total is at
    # most 2 * 100.5 * MAX_WEIGHTS, divisor at most 2 * MAX_WEIGHTS. Rows mostly leave out the same weights, so the division is rare.
    for i in range(count):
        left_out = running[i] >> LEFT_OUT
        if left_out != known:
            known = left_out
            divisor = (weight - left_out) * twice
            half = (weight - left_out) * (twice - 1)
            reciprocal = ((<int64_t> 1 << SHIFT) + divisor - 1) / divisor if divisor > 0 else 0
        total = (running[i] & SUM) * twice + half
        running[i] = (total * reciprocal) >> SHIFT


def balanced(NodeTable table not None, ScoredResources scored not None, cnp.ndarray rows not None):
    scored.check(table.resources)
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray scores = zero_scores(asked)
    cdef int64_t* out = scores_in(scores)
    with nogil:
        if scored.ids.shape[0] == 2:
            _balance_pair(table.allocatable, table.requested, scored, asked, out)
        else:
            _balance(table.allocatable, table.requested, scored, asked, out)
    return scores


cdef void _balance_pair(
    const int64_t[:, ::1] allocatable, const int64_t[:, ::1] requested, ScoredResources scored, Rows rows, int64_t* scores
) noexcept nogil:
    """As _balance, for two resources: the default, and half the time (bench/bench_kernels.py::bench_balanced)."""
    cdef Py_ssize_t i, row
    cdef int32_t one = scored.ids[0]
    cdef int32_t other = scored.ids[1]
    cdef int64_t one_amount = scored.amounts[0]
    cdef int64_t other_amount = scored.amounts[1]
    cdef double first, second
    for i in range(rows.count):
        row = rows.at[i]
        if allocatable[one, row] == 0 or allocatable[other, row] == 0:
            scores[i] = FULL
            continue
        first = _fraction(allocatable[one, row], requested[one, row], one_amount)
        second = _fraction(allocatable[other, row], requested[other, row], other_amount)
        scores[i] = <int64_t> ((1 - fabs((first - second) / 2)) * FULL)


cdef void _balance(
    const int64_t[:, ::1] allocatable, const int64_t[:, ::1] requested, ScoredResources scored, Rows rows, int64_t* scores
) noexcept nogil:
    cdef Py_ssize_t i, j, row, counted
    cdef double fraction, first, last, total, deviation
    for i in range(rows.count):
        row = rows.at[i]
        counted = 0
        first = last = total = deviation = 0
        for j in range(scored.ids.shape[0]):
            if allocatable[scored.ids[j], row] == 0:
                continue
            fraction = _fraction(allocatable[scored.ids[j], row], requested[scored.ids[j], row], scored.amounts[j])
            if counted == 0:
                first = fraction
            last = fraction
            total += fraction
            counted += 1
        # The same operations in the same order as balanced_allocation.go of Kubernetes v1.35, so that the last bit is the same.
        if counted == 2:
            deviation = fabs((first - last) / 2)
        elif counted > 2:
            deviation = _deviation(allocatable, requested, scored, row, total / <double> counted)
        scores[i] = <int64_t> ((1 - deviation) * FULL)


cdef double _deviation(
    const int64_t[:, ::1] allocatable, const int64_t[:, ::1] requested, ScoredResources scored, Py_ssize_t row, double mean
) noexcept nogil:
    """Return the population standard deviation of the row's fractions."""
    cdef Py_ssize_t j
    cdef Py_ssize_t counted = 0
    cdef double fraction
    cdef double total = 0
    for j in range(scored.ids.shape[0]):
        if allocatable[scored.ids[j], row] == 0:
            continue
        fraction = _fraction(allocatable[scored.ids[j], row], requested[scored.ids[j], row], scored.amounts[j])
        total = total + (fraction - mean) * (fraction - mean)
        counted += 1
    return sqrt(total / <double> counted)


cdef inline double _fraction(int64_t capacity, int64_t used, int64_t amount) noexcept nogil:
    """Return how full the row would be of the resource, at most 1; capacity > 0."""
    cdef double one = 1
    cdef int64_t total = used + amount if used <= INT64_MAX - amount else INT64_MAX
    cdef double fraction = <double> total / <double> capacity
    return fraction if fraction < one else one  # in this form it is minsd, not a branch that full rows would mislead
