"""Columns over what nodes use, and the two kernels that read them: which rows a pod may go to, and how well it would suit them.

What changes a node's facts (a metric, a pod that comes or goes, a capacity, thresholds) costs O(resources) for its own index, a metric
O(pods of the node). Filter compares a pod's estimate with the room that is left, which `settle` has worked out: the usage in percent
that the reference computes of every pod and node grows with the estimate, so the largest one that passes is found once.
"""

from array import array

import numpy as np

cimport numpy as cnp
from libc.math cimport INFINITY
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t

from koordsched._core.load_facts import NodeLoad
from koordsched._core.rows cimport Rows, codes_in, rows_of, scores_in, zero_codes, zero_scores
from koordsched._core.table cimport NodeTable

cnp.import_array()

cdef int64_t UNLIMITED = INT64_MAX
cdef int64_t MAX_AMOUNT = (<int64_t> 1) << 53  # exact in double precision, and so are sums of as many pods as a node can have
cdef int64_t MAX_THRESHOLD = (<int64_t> 1) << 62  # percent; no use is more
cdef int64_t MAX_SCORE = 100
cdef int64_t MAX_SHARED = (<int64_t> 1) << 42
cdef double BELOW_ONE_UNIT = 2.0 ** -44
cdef int64_t MAX_TOTAL = 1 << 20  # of weights: 100 times of it is an int32
cdef Py_ssize_t MAX_WIDTH = 64
cdef enum:
    BLOCK = 256  # rows that are worked on at a time

EXPIRED_CODE = 1
LARGEST_AMOUNT = MAX_AMOUNT


cdef class PodEstimate:

    def __init__(self, values not None, *, bint is_prod, bint is_daemon):
        if any([not 0 <= value <= MAX_AMOUNT for value in values]):
            raise ValueError(f"amounts {values}: must be 0 to 2^53")
        self.values = tuple(values)
        self.amounts = array("q", values)
        self.is_prod = is_prod
        self.is_daemon = is_daemon
        self.is_nothing = not any(values)
        self.hashed = hash((self.values, is_prod, is_daemon))

    def __eq__(self, other):
        if not isinstance(other, PodEstimate):
            return NotImplemented
        cdef PodEstimate that = other
        return self is that or (self.values == that.values and self.is_prod == that.is_prod and self.is_daemon == that.is_daemon)

    def __hash__(self):
        return self.hashed


cdef class PodLoad:

    def __init__(self, PodEstimate estimate not None, str key not None, double timestamp, double deadline=-INFINITY):
        self.estimate = estimate
        self.key = key
        self.timestamp = timestamp
        self.deadline = deadline


cdef class LoadTable:

    def __init__(
        self, NodeTable nodes not None, Py_ssize_t index_attribute, Py_ssize_t width, *, bint filters_expired, bint passes_expired
    ):
        if index_attribute < 0 or index_attribute >= nodes.attributes:
            raise IndexError(f"attribute {index_attribute} of {nodes.attributes}")
        if not 1 <= width <= MAX_WIDTH:
            raise ValueError(f"{width} resources: must be 1 to {MAX_WIDTH}")
        self.nodes = nodes
        self.index_attribute = index_attribute
        self.width = width
        self.filters_expired = filters_expired
        self.passes_expired = passes_expired
        self.capacity = 64
        self.amount = np.zeros((COLUMNS * width, self.capacity), np.int64)
        self.derived = np.zeros((DERIVED * width, self.capacity), np.float64)
        self.flag = np.zeros(self.capacity, np.uint8)
        self.verdict = np.zeros(self.capacity, np.uint8)
        self.prod_verdict = np.zeros(self.capacity, np.uint8)
        self.settle(0)

    # What changes with the node

    def clear_node(self, Py_ssize_t index):
        cdef Py_ssize_t column
        if index < 1:
            raise IndexError(f"index {index}: must be at least 1")
        if index >= self.capacity:
            self._lengthen(index + 1)
        for column in range(COLUMNS * self.width):
            self.amount[column, index] = 0
        self.flag[index] = 0
        self.settle(index)

    def set_node(self, Py_ssize_t index, capacity not None, thresholds not None, prod_thresholds not None, *, bint aggregated):
        self.check(index)
        cdef Py_ssize_t r
        cdef uint8_t flag = self.flag[index] & ~(IS_AGGREGATED | HAS_THRESHOLDS | HAS_PROD_THRESHOLDS)
        for r in range(self.width):
            self.amount[CAPACITY * self.width + r, index] = _cut(capacity[r])
            self.amount[MOST * self.width + r, index] = _most(_cut(capacity[r]), thresholds[r])
            self.amount[PROD_MOST * self.width + r, index] = _most(_cut(capacity[r]), prod_thresholds[r])
        flag |= IS_AGGREGATED if aggregated else 0
        flag |= HAS_THRESHOLDS if any(thresholds) else 0
        flag |= HAS_PROD_THRESHOLDS if any(prod_thresholds) else 0
        self.flag[index] = flag
        self.settle(index)

    # What changes with the metric

    def set_metric(
        self, Py_ssize_t index, filter_usage, score_usage, prod_usage not None, *, bint measured, bint expired,
        pods not None, usages not None, double update_time, double settled_before
    ):
        self.check(index)
        cdef Py_ssize_t r, column
        cdef uint8_t flag = self.flag[index] & (IS_AGGREGATED | HAS_THRESHOLDS | HAS_PROD_THRESHOLDS)
        cdef PodLoad pod
        cdef int64_t[64] usage
        flag |= HAS_METRIC | (IS_MEASURED if measured else 0) | (IS_EXPIRED if expired else 0)
        flag |= FILTER_BY_ESTIMATES if filter_usage is None else 0
        flag |= SCORE_BY_ESTIMATES if score_usage is None else 0
        self.flag[index] = flag
        for r in range(self.width):
            self.amount[FILTER_USAGE * self.width + r, index] = 0 if filter_usage is None else filter_usage[r]
            self.amount[SCORE_USAGE * self.width + r, index] = 0 if score_usage is None else score_usage[r]
            self.amount[PROD_USAGE * self.width + r, index] = prod_usage[r]
            for column in (DELTA, PROD_DELTA, ESTIMATED):
                self.amount[column * self.width + r, index] = 0
        for pod in pods:
            found = usages.get(pod.key)
            if found is None:
                self.count(index, pod, NULL, False, False, True, 1)
                continue
            amounts, as_prod = found
            for r in range(self.width):
                usage[r] = amounts[r]
            due = settled_before < pod.timestamp or pod.deadline > update_time
            self.count(index, pod, &usage[0], True, as_prod, due, 1)
        self.settle(index)

    def clear_metric(self, Py_ssize_t index):
        self.check(index)
        cdef Py_ssize_t row
        self.flag[index] &= IS_AGGREGATED | HAS_THRESHOLDS | HAS_PROD_THRESHOLDS
        for row in range(FILTER_USAGE * self.width, (ESTIMATED + 1) * self.width):
            self.amount[row, index] = 0
        self.settle(index)

    def set_expired(self, Py_ssize_t index, bint expired):
        self.check(index)
        cdef bint before = self.flag[index] & IS_EXPIRED != 0
        self.flag[index] = (self.flag[index] & ~IS_EXPIRED) | (IS_EXPIRED if expired else 0)
        self.settle(index)
        return before != expired

    # What changes with a pod

    def add_pod(self, Py_ssize_t index, PodLoad pod not None, usage=None, bint as_prod=False, *, double update_time, double settled_before):
        self._change(index, pod, usage, as_prod, update_time, settled_before, 1)

    def remove_pod(
        self, Py_ssize_t index, PodLoad pod not None, usage=None, bint as_prod=False, *, double update_time, double settled_before
    ):
        self._change(index, pod, usage, as_prod, update_time, settled_before, -1)

    cdef int _change(
        self, Py_ssize_t index, PodLoad pod, usage, bint as_prod, double update_time, double settled_before, int64_t sign
    ) except -1:
        self.check(index)
        cdef int64_t[64] amounts
        cdef Py_ssize_t r
        if not self.flag[index] & HAS_METRIC:
            return 0
        if usage is None:
            self.count(index, pod, NULL, False, False, True, sign)
        else:
            for r in range(self.width):
                amounts[r] = usage[r]
            due = settled_before < pod.timestamp or pod.deadline > update_time
            self.count(index, pod, &amounts[0], True, as_prod, due, sign)
        self.settle(index)
        return 0

    cdef void count(
        self, Py_ssize_t index, PodLoad pod, const int64_t* usage, bint reported, bint as_prod, bint due, int64_t sign
    ) noexcept:
        # Add (sign 1) or subtract (sign -1) what the pod means to the sums (frameworkext.md §5.2).
        # reported: usage holds what the metric says of it, as of a prod pod or another. due: its estimate counts although it is reported.
        cdef Py_ssize_t r, width = self.width
        cdef int64_t estimate, used, more
        cdef PodEstimate of = pod.estimate
        cdef bint measured_as_prod = of.is_prod and reported and as_prod
        for r in range(width):
            used = usage[r] if reported else 0
            if measured_as_prod:
                self.amount[PROD_USAGE * width + r, index] += sign * used
            if of.is_nothing:
                continue
            estimate = of.amounts[r]
            more = estimate - used if estimate > used else 0
            self.amount[ESTIMATED * width + r, index] += sign * estimate
            if due:
                self.amount[DELTA * width + r, index] += sign * more
            if of.is_prod and not measured_as_prod:
                self.amount[PROD_DELTA * width + r, index] += sign * estimate
            elif of.is_prod and due:
                self.amount[PROD_DELTA * width + r, index] += sign * more

    cdef void settle(self, Py_ssize_t index) noexcept:
        # Work out what the kernels read.
        cdef Py_ssize_t r, width = self.width
        cdef uint8_t flag = self.flag[index]
        cdef uint8_t compares = PASSES
        cdef bint counts = flag & (IS_MEASURED | IS_EXPIRED) == IS_MEASURED
        cdef int64_t use, prod, capacity
        if flag & HAS_METRIC and flag & IS_EXPIRED and self.filters_expired:
            compares = PASSES if self.passes_expired else REFUSES
        elif flag & IS_MEASURED:
            compares = COMPARES
        self.verdict[index] = compares if flag & HAS_THRESHOLDS else PASSES
        self.prod_verdict[index] = compares if flag & HAS_PROD_THRESHOLDS else self.verdict[index]
        for r in range(width):
            use = self.amount[FILTER_USAGE * width + r, index] + self.amount[DELTA * width + r, index]
            if flag & FILTER_BY_ESTIMATES:
                use = self.amount[ESTIMATED * width + r, index]
            prod = self.amount[PROD_USAGE * width + r, index] + self.amount[PROD_DELTA * width + r, index]
            self.derived[ROOM * width + r, index] = _room(self.verdict[index], self.amount[MOST * width + r, index], use)
            self.derived[PROD_ROOM * width + r, index] = (
                _room(self.prod_verdict[index], self.amount[PROD_MOST * width + r, index], prod)
                if flag & HAS_PROD_THRESHOLDS else self.derived[ROOM * width + r, index]
            )
            use = self.amount[SCORE_USAGE * width + r, index] + self.amount[DELTA * width + r, index]
            if flag & SCORE_BY_ESTIMATES:
                use = self.amount[ESTIMATED * width + r, index]
            capacity = self.amount[CAPACITY * width + r, index]
            self.derived[SPARE * width + r, index] = <double> (capacity - use) if counts else -INFINITY
            self.derived[PROD_SPARE * width + r, index] = <double> (capacity - prod) if counts else -INFINITY
            self.derived[SHARE * width + r, index] = _share(capacity)
            self.large |= capacity > MAX_SHARED

    # To look at

    def load_of(self, Py_ssize_t index):
        self.check(index)
        flag = self.flag[index]
        return NodeLoad(
            *[tuple([self.amount[column * self.width + r, index] for r in range(self.width)]) for column in range(COLUMNS)],
            *[tuple([self.derived[column * self.width + r, index] for r in range(self.width)]) for column in range(DERIVED)],
            bool(flag & HAS_METRIC), bool(flag & IS_MEASURED), bool(flag & IS_EXPIRED), bool(flag & IS_AGGREGATED),
            bool(flag & HAS_THRESHOLDS), bool(flag & HAS_PROD_THRESHOLDS),
            bool(flag & FILTER_BY_ESTIMATES), bool(flag & SCORE_BY_ESTIMATES),
            self.verdict[index], self.prod_verdict[index],
        )

    def damage(self, Py_ssize_t index, Py_ssize_t column, Py_ssize_t resource, int64_t by):
        self.check(index)
        self.amount[column * self.width + resource, index] += by

    @property
    def nbytes(self):
        return np.asarray(self.amount).nbytes + np.asarray(self.derived).nbytes + 3 * self.capacity

    cdef int check(self, Py_ssize_t index) except -1:
        if index < 1 or index >= self.capacity:
            raise IndexError(f"index {index}: no node of it was ever set")
        return 0

    def _lengthen(self, Py_ssize_t count):
        """Make room for indexes below count."""
        capacity = max(count, self.capacity + self.capacity // 2)
        amount = np.zeros((COLUMNS * self.width, capacity), np.int64)
        amount[:, :self.capacity] = self.amount
        self.amount = amount
        derived = np.zeros((DERIVED * self.width, capacity), np.float64)
        derived[:, :self.capacity] = self.derived
        self.derived = derived
        self.flag = _longer(self.flag, capacity)
        self.verdict = _longer(self.verdict, capacity)
        self.prod_verdict = _longer(self.prod_verdict, capacity)
        self.capacity = capacity


def _longer(old, Py_ssize_t capacity):
    made = np.zeros(capacity, np.uint8)
    made[:len(old)] = old
    return made


cdef int64_t _cut(object amount) except? -1:
    return max(0, min(amount, MAX_AMOUNT))


cdef int64_t _most(int64_t capacity, object threshold) except? -2:
    """Return the largest estimated use that the threshold lets pass, -1 when even 0 exceeds it."""
    if threshold == 0 or capacity == 0:
        return UNLIMITED
    return _largest_passing(capacity, max(-1, min(threshold, MAX_THRESHOLD)))


cdef inline double _room(int verdict, int64_t most, int64_t use) noexcept nogil:
    if verdict == REFUSES:
        return -INFINITY
    return <double> (most - use) if verdict == COMPARES and most != UNLIMITED else INFINITY


cdef inline double _share(int64_t capacity) noexcept nogil:
    return 100.0 / <double> capacity if capacity else 0.0


cdef int64_t _largest_passing(int64_t capacity, int64_t threshold) noexcept nogil:
    # Invariant: low passes (or is -1), high does not. Use never exceeds 2^62, where every threshold that matters is exceeded.
    cdef double limit = <double> threshold + 0.5  # for the guess alone: from 2^52 on it is a whole number
    cdef int64_t low = -1, high = (<int64_t> 1) << 62
    cdef int64_t guess = <int64_t> (limit / 100 * <double> capacity) if limit / 100 * <double> capacity < 4e18 else high
    cdef int64_t step = 1
    if threshold < 0:
        return -1
    if not _exceeds(high, capacity, threshold):
        return UNLIMITED
    # The guess is off by rounding alone: look at ever wider distances from it before halving what is left.
    if _exceeds(guess, capacity, threshold):
        high = guess
        while high - step > 0 and _exceeds(high - step, capacity, threshold):
            high -= step
            step *= 2
        low = max(-1, high - step)
        if low >= 0 and _exceeds(low, capacity, threshold):
            low = -1
    else:
        low = guess
        while low + step < high and not _exceeds(low + step, capacity, threshold):
            low += step
            step *= 2
        high = min(high, low + step)
    while high - low > 1:
        guess = low + (high - low) // 2
        if _exceeds(guess, capacity, threshold):
            high = guess
        else:
            low = guess
    return low


cdef inline bint _exceeds(int64_t estimated, int64_t capacity, int64_t threshold) noexcept nogil:
    # The reference's expression as it stands, down to the rounding of each step, rounded half away from zero.
    cdef double percent = <double> estimated / <double> capacity * 100
    cdef int64_t whole
    if percent >= <double> MAX_THRESHOLD:
        return True
    whole = <int64_t> percent
    return whole + (percent - <double> whole >= 0.5) > threshold


# Filter


def filter_load(LoadTable table not None, PodEstimate estimate not None, cnp.ndarray rows not None):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray codes = zero_codes(asked)
    cdef int32_t* out = codes_in(codes)
    if estimate.is_daemon:
        return codes
    if estimate.amounts.shape[0] != table.width:
        raise ValueError(f"an estimate of {estimate.amounts.shape[0]} resources for a table of {table.width}")
    with nogil:
        _filter(table, &estimate.amounts[0], estimate.is_prod, asked, out)
    return codes


cdef struct Block:
    # Up to BLOCK rows that are worked on together, so that the loops over them are vectorised.
    Py_ssize_t count
    int32_t[BLOCK] index
    bint ascends         # by one from each to the next, as it mostly does where all rows are asked about
    double[BLOCK] copy   # of a column, for those whose indexes do not ascend


cdef inline void _read_block(LoadTable table, Rows rows, Py_ssize_t i, Block* block) noexcept nogil:
    """Read the rows from the i-th on."""
    # Pointers, since the compiler reads a memoryview's fields again for each row (bench_loadaware.py::bench_share_of_a_new_shape).
    cdef const int32_t* indexes = &table.nodes.attribute[table.index_attribute, 0]
    cdef const int32_t* at = rows.at + i
    cdef int32_t* index = block.index
    cdef int32_t capacity = <int32_t> table.capacity
    cdef Py_ssize_t k
    block.count = min(BLOCK, rows.count - i)
    if _ascends(at, block.count):
        indexes += at[0]
        for k in range(block.count):
            index[k] = indexes[k] if indexes[k] < capacity else 0
    else:
        for k in range(block.count):
            index[k] = indexes[at[k]] if indexes[at[k]] < capacity else 0
    block.ascends = _ascends(index, block.count)


cdef inline bint _ascends(const int32_t* numbers, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t k
    cdef int32_t jumps = 0
    for k in range(count - 1):
        jumps |= numbers[k + 1] - numbers[k] - 1
    return jumps == 0


cdef inline const double* _values(const double* column, Block* block) noexcept nogil:
    """Return a column's values for the rows of a block, which are valid until the next call if they had to be copied."""
    cdef Py_ssize_t k
    if block.ascends:
        return column + block.index[0]
    for k in range(block.count):
        block.copy[k] = column[block.index[k]]
    return block.copy


cdef void _filter(LoadTable table, const int64_t* estimate, bint is_prod, Rows rows, int32_t* codes) noexcept nogil:
    cdef const double* room = &table.derived[(PROD_ROOM if is_prod else ROOM) * table.width, 0]
    cdef Py_ssize_t i = 0, k, r, width = table.width, capacity = table.capacity
    cdef Block block
    while i < rows.count:
        _read_block(table, rows, i, &block)
        if _any_above(room, estimate, width, capacity, &block):
            for k in range(block.count):
                for r in range(width):
                    if <double> estimate[r] > room[r * capacity + block.index[k]]:
                        codes[i + k] = _refusal(table, is_prod, block.index[k], r)
                        break
        i += block.count


cdef inline bint _any_above(
    const double* room, const int64_t* estimate, Py_ssize_t width, Py_ssize_t capacity, Block* block
) noexcept nogil:
    cdef Py_ssize_t r, k
    cdef const double* values
    cdef double value
    cdef int64_t above = 0
    for r in range(width):
        values = _values(room + r * capacity, block)
        value = <double> estimate[r]
        for k in range(block.count):
            above += value > values[k]
    return above != 0


cdef int32_t _refusal(LoadTable table, bint is_prod, Py_ssize_t index, Py_ssize_t r) noexcept nogil:
    cdef bint by_prod = is_prod and table.flag[index] & HAS_PROD_THRESHOLDS
    if (table.prod_verdict[index] if is_prod else table.verdict[index]) == REFUSES:
        return 1
    return <int32_t> (2 + 2 * r + (not by_prod and table.flag[index] & IS_AGGREGATED != 0))


def refusal_of(int32_t code):
    """Return the place of the resource in the vector and whether the threshold is one of aggregated use."""
    if code < 2:
        raise ValueError(f"code {code}: names no resource")
    return (code - 2) // 2, bool(code & 1)


# Score


cdef class LoadScoring:

    def __init__(self, weights not None, int64_t dominant, *, bint by_prod_usage):
        if any([weight < 0 for weight in weights]) or dominant < 0:
            raise ValueError(f"weights {weights} and {dominant}: must not be negative")
        self.weights = array("q", weights)
        self.dominant = dominant
        self.total = sum(weights) + dominant
        self.inverse = 1 / <double> self.total if self.total else 0.0
        self.prod = by_prod_usage


def score_load(LoadTable table not None, PodEstimate estimate not None, LoadScoring scoring not None, cnp.ndarray rows not None):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray scores = zero_scores(asked)
    cdef int64_t* out = scores_in(scores)
    if estimate.amounts.shape[0] != table.width or scoring.weights.shape[0] != table.width:
        raise ValueError(f"{estimate.amounts.shape[0]} estimates and {scoring.weights.shape[0]} weights for a table of {table.width}")
    if scoring.total > 0:
        with nogil:
            _score(table, &estimate.amounts[0], scoring, estimate.is_prod, asked, out)
    return scores


cdef void _score(
    LoadTable table, const int64_t* estimate, LoadScoring scoring, bint is_prod, Rows rows, int64_t* scores
) noexcept nogil:
    cdef const double* spare = &table.derived[(PROD_SPARE if is_prod and scoring.prod else SPARE) * table.width, 0]
    cdef const double* share = &table.derived[SHARE * table.width, 0]
    cdef const int64_t* available = &table.amount[CAPACITY * table.width, 0]
    cdef Py_ssize_t i = 0, k, at, width = table.width, capacity = table.capacity
    cdef bint exactly = scoring.total > MAX_TOTAL or table.large
    cdef Block block
    while i < rows.count:
        _read_block(table, rows, i, &block)
        if not exactly:
            _score_block(spare, share, estimate, scoring, width, capacity, &block, scores + i)
        if exactly:
            for k in range(block.count):
                at = block.index[k]
                scores[i + k] = _score_one(spare + at, available + at, estimate, scoring, width, capacity)
        i += block.count


cdef inline void _score_block(
    const double* spare, const double* share, const int64_t* estimate, LoadScoring scoring, Py_ssize_t width, Py_ssize_t capacity,
    Block* block, int64_t* scores
) noexcept nogil:
    cdef Py_ssize_t k, r, count = block.count
    cdef double[BLOCK] free
    cdef int32_t[BLOCK] sums
    cdef int32_t[BLOCK] least
    cdef const double* values
    cdef double wanted
    cdef int32_t score, weight, dominant = <int32_t> scoring.dominant
    for k in range(count):
        sums[k] = 0
        least[k] = <int32_t> MAX_SCORE
    for r in range(width):
        wanted = <double> estimate[r]
        weight = <int32_t> scoring.weights[r]
        values = _values(spare + r * capacity, block)
        for k in range(count):
            free[k] = values[k] - wanted
        values = _values(share + r * capacity, block)
        for k in range(count):
            # free * 100 / capacity, cut off: a product is faster than a quotient, and too small by less than what is added. Up to
            # MAX_SHARED that is less than the distance to the next whole number, 1 / capacity, of a value that is none.
            score = <int32_t> ((free[k] if free[k] > 0 else 0) * values[k] + BELOW_ONE_UNIT)
            sums[k] += weight * score
            least[k] = score if score < least[k] else least[k]
    for k in range(count):  # cut off in the same way: 1 / total is more than what is added
        scores[k] = <int32_t> (<double> (sums[k] + dominant * least[k]) * scoring.inverse + BELOW_ONE_UNIT)


cdef int64_t _score_one(
    const double* spare, const int64_t* available, const int64_t* estimate, LoadScoring scoring, Py_ssize_t width, Py_ssize_t capacity
) noexcept nogil:
    cdef int64_t sum = 0, least = MAX_SCORE, score
    cdef double free
    cdef Py_ssize_t r
    for r in range(width):
        free = spare[r * capacity] - <double> estimate[r]
        score = <int64_t> free * MAX_SCORE // available[r * capacity] if free > 0 else 0
        sum += scoring.weights[r] * score
        least = min(least, score)
    return (sum + scoring.dominant * least) // scoring.total


# Reading


def plain_amount(quantity, bint milli):
    cdef int64_t found = 0
    cdef Py_UCS4 character = 0
    cdef Py_ssize_t i, length
    cdef str text
    if type(quantity) is int:
        if not 0 <= quantity <= MAX_AMOUNT // 1000:
            return -1
        return quantity * 1000 if milli else quantity
    if type(quantity) is not str:
        return -1
    text = quantity
    length = len(text)
    if not 1 <= length <= 15:  # so that what has a suffix of 2^10 stays below 2^63
        return -1
    for i in range(length):
        character = text[i]
        if not 48 <= <int> character <= 57:  # 0 to 9
            break
        found = 10 * found + (<int> character - 48)
    else:
        i = length
    if i == 0:
        return -1
    if i == length:
        found *= 1000 if milli else 1
    elif i == length - 1 and character == u'm' and milli:
        pass
    elif i == length - 2 and character == u'K' and text[i + 1] == u'i' and not milli:
        found *= 1024
    else:
        return -1
    return found if found <= MAX_AMOUNT else -1


def plain_amounts(resources not None, tuple names not None):
    cdef Py_ssize_t i
    cdef list found = [0] * len(names)
    for i in range(len(names)):
        name = names[i]
        quantity = resources.get(name)
        if quantity is not None:
            amount = plain_amount(quantity, name == "cpu")
            if amount < 0:
                return None
            found[i] = amount
    return tuple(found)


def reported_amounts(pods not None, wanted not None, tuple names not None, str prod not None, read_other not None):
    cdef Py_ssize_t i
    cdef dict found = {}
    cdef str key
    for i in range(len(pods)):
        pod = pods[i]
        key = f"{pod.namespace}/{pod.name}"
        if key not in wanted:
            continue
        resources = pod.pod_usage.resources
        if resources:
            amounts = plain_amounts(resources, names)
            found[key] = (read_other(pod, i) if amounts is None else amounts, pod.priority == prod)
    return found


def last_reported(pods not None, str namespace not None, str name not None):
    cdef Py_ssize_t i
    for i in range(len(pods) - 1, -1, -1):
        pod = pods[i]
        if pod.name == name and pod.namespace == namespace and pod.pod_usage.resources:
            return pod
    return None
