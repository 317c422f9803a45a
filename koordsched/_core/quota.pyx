"""A tree of quotas as arrays: requests and use are summed up its paths, runtimes are poured down it (elasticquota.md §5 and §6).

All sums are exact, so they do not depend on the order of events. A pod touches its quota and the ancestors of that; runtimes follow when
they are asked for, and only children of quotas where something changed get new ones.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, qsort

import numpy as np

cnp.import_array()

cdef extern from *:
    """
    #define KOORDSCHED_TIMES(a, b) ((koordsched_nano) (a) * (koordsched_nano) (b))
    #define KOORDSCHED_JOINED(high, low) ((koordsched_nano) (((unsigned __int128) (uint64_t) (high) << 64) | (uint64_t) (low)))
    #define KOORDSCHED_HIGH(a) ((int64_t) ((a) >> 64))
    #define KOORDSCHED_LOW(a) ((uint64_t) (a))
    #define KOORDSCHED_INT64(a) ((int64_t) (uint64_t) (unsigned __int128) (a))
    #define KOORDSCHED_SUM(a, b) ((int64_t) ((uint64_t) (a) + (uint64_t) (b)))
    """
    nano_t times "KOORDSCHED_TIMES" (int64_t a, int64_t b) noexcept nogil
    nano_t joined "KOORDSCHED_JOINED" (int64_t high, uint64_t low) noexcept nogil
    int64_t high_of "KOORDSCHED_HIGH" (nano_t a) noexcept nogil
    uint64_t low_of "KOORDSCHED_LOW" (nano_t a) noexcept nogil
    int64_t wrapped "KOORDSCHED_INT64" (nano_t a) noexcept nogil
    int64_t wrapped_sum "KOORDSCHED_SUM" (int64_t a, int64_t b) noexcept nogil

cdef enum:
    SCALED_MIN = COLUMNS  # for readers a column like the others: MIN, or the share of it that there is

cdef enum:
    ROOT = 0
    CPU = 0
    NONE = -1
    BY_LIMIT = 1
    BY_MIN = 2
    FIRST_ROWS = 16
    FIRST_RESOURCES = 4

cdef int64_t UNKNOWN = -INT64_MAX - 1
cdef int64_t NANO_PER_MILLI = 1000000
cdef int64_t NANO_PER_UNIT = 1000000000
cdef double TOO_LARGE = 9.2233720368547758e18

COLUMN_NUMBERS = {
    "max": MAX,
    "min": MIN,
    "weight": WEIGHT,
    "self_request": SELF_REQUEST,
    "self_used": SELF_USED,
    "self_fixed_request": SELF_FIXED_REQUEST,
    "self_fixed_used": SELF_FIXED_USED,
    "child_request": CHILD_REQUEST,
    "request": REQUEST,
    "limited": LIMITED,
    "used": USED,
    "fixed_request": FIXED_REQUEST,
    "fixed_used": FIXED_USED,
    "allocated": ALLOCATED,
    "guaranteed": GUARANTEED,
    "scaled_min": SCALED_MIN,
}

ADMITTED, OVER_LIMIT, OVER_MIN = 0, BY_LIMIT, BY_MIN


cdef nano_t from_python(object amount) except *:
    return joined(amount >> 64, amount & 0xFFFFFFFFFFFFFFFF)


cdef object to_python(nano_t amount):
    return (<object> high_of(amount) << 64) | low_of(amount)


cdef inline int64_t scale_of(Py_ssize_t k) noexcept nogil:
    return NANO_PER_MILLI if k == CPU else NANO_PER_UNIT


cdef nano_t rounded(nano_t amount, Py_ssize_t k) noexcept nogil:
    """Return whole numbers, rounded away from zero."""
    cdef nano_t scale = scale_of(k)
    if amount < 0:
        return -((scale - 1 - amount) // scale)
    return (amount + scale - 1) // scale


cdef int64_t whole(nano_t amount, Py_ssize_t k) noexcept nogil:
    """Return whole numbers as the calculation has them: at most what int64 holds."""
    cdef nano_t found = rounded(amount, k)
    if found > INT64_MAX:
        return INT64_MAX
    if found < -INT64_MAX:
        return -INT64_MAX
    return wrapped(found)


cdef int64_t truncated(double amount) noexcept nogil:
    if amount >= TOO_LARGE:
        return INT64_MAX
    if amount <= -TOO_LARGE:
        return -INT64_MAX
    return <int64_t> amount


cdef inline int64_t saturated_sum(int64_t a, int64_t b) noexcept nogil:
    if b > 0 and a > INT64_MAX - b:
        return INT64_MAX
    if b < 0 and a < -INT64_MAX - b:
        return -INT64_MAX
    return a + b


cdef int larger_remainder(const void* one, const void* other) noexcept nogil:
    """Order shares by remainder, the largest first, then by rank."""
    cdef const Share* a = <const Share*> one
    cdef const Share* b = <const Share*> other
    if a.remainder != b.remainder:
        return -1 if a.remainder > b.remainder else 1
    return -1 if a.rank < b.rank else 1 if a.rank > b.rank else 0


@cython.final
cdef class QuotaRequest:

    def __cinit__(self, QuotaTree tree not None, dict amounts not None):
        cdef Py_ssize_t i = 0
        known = sorted([(tree.resources[name], amount) for name, amount in amounts.items() if amount and name in tree.resources])
        self.resource = <int32_t*> malloc(max(1, len(known)) * sizeof(int32_t))
        self.amount = <nano_t*> malloc(max(1, len(known)) * sizeof(nano_t))
        if self.resource is NULL or self.amount is NULL:
            raise MemoryError
        for k, amount in known:
            self.resource[i] = k
            self.amount[i] = from_python(amount)
            i += 1
        self.count = i

    def __dealloc__(self):
        free(self.resource)
        free(self.amount)


@cython.final
@cython.no_gc  # a request refers to nothing
cdef class QuotaPod:

    def __init__(self, Py_ssize_t row, QuotaRequest request not None, *, bint fixed):
        self.row = row
        self.request = request
        self.fixed = fixed


@cython.final
cdef class QuotaTree:

    def __init__(
        self,
        *,
        bint scales_min=True,
        bint guarantees=False,
        bint by_runtime=True,
        bint checks_parents=False,
        bint built_ins_compete=False,
        frozenset whole_devices=frozenset(),
    ):
        self.scales_min = scales_min
        self.guarantees = guarantees
        self.by_runtime = by_runtime
        self.checks_parents = checks_parents
        self.built_ins_compete = built_ins_compete
        self.whole_devices = whole_devices
        self.resources = {"cpu": CPU}
        self.known = 1
        self.free_rows = []
        self.arrays = {}
        self.make_room(FIRST_ROWS, FIRST_RESOURCES)
        self.top = 1
        self.rows = 1
        self.flag[ROOT] = IS_ROW
        self.unordered = self.unsummed = True

    # Memory

    cdef nano_t* cell(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil:
        """Return the exact amounts of a row and resource, by column. What a pod touches of a row lies in few cache lines so."""
        return self.exact + (row * self.width + k) * COLUMNS

    cdef int check(self, Py_ssize_t row) except -1:
        if not 0 <= row < self.capacity or not self.flag[row] & IS_ROW:
            raise IndexError(f"quota row {row} is not in use")
        return 0

    cdef int make_room(self, Py_ssize_t capacity, Py_ssize_t width) except -1:
        arrays = {
            "exact": np.zeros((capacity, width, COLUMNS, 2), np.int64),
            "shown": np.zeros((capacity, width, COLUMNS, 2), np.int64),
            "weight": np.zeros((width, capacity), np.int64),
            "wanted": np.zeros((width, capacity), np.int64),
            "least": np.zeros((width, capacity), np.int64),
            "scaled": np.full((width, capacity), UNKNOWN, np.int64),
            "runtime": np.zeros((width, capacity), np.int64),
            "has": np.zeros((width, capacity), np.uint8),
            "changed": np.zeros((width, capacity), np.uint8),
            "total": np.zeros((width, 2), np.int64),
            "has_total": np.zeros(width, np.uint8),
            "indivisible": np.zeros(width, np.uint8),
            "any_max": np.zeros(width, np.uint8),
            "parent": np.full(capacity, NONE, np.int32),
            "flag": np.zeros(capacity, np.uint8),
            "dirty": np.zeros(capacity, np.uint8),
            "version": np.zeros(capacity, np.uint64),
            "order": np.zeros(capacity, np.int32),
            "first": np.zeros(capacity + 1, np.int32),
            "child": np.zeros(capacity, np.int32),
            "hungry": np.zeros(capacity, np.int32),
            "poured": np.zeros(capacity, np.int64),
            "rank": np.zeros(capacity, np.int32),
            "shares": np.zeros((capacity, sizeof(Share)), np.uint8),
        }
        for name, before in self.arrays.items():
            arrays[name][tuple([slice(0, length) for length in before.shape])] = before
        self.arrays = arrays
        self.exact = <nano_t*> cnp.PyArray_DATA(arrays["exact"])
        self.weight = <int64_t*> cnp.PyArray_DATA(arrays["weight"])
        self.wanted = <int64_t*> cnp.PyArray_DATA(arrays["wanted"])
        self.least = <int64_t*> cnp.PyArray_DATA(arrays["least"])
        self.scaled = <int64_t*> cnp.PyArray_DATA(arrays["scaled"])
        self.runtime = <int64_t*> cnp.PyArray_DATA(arrays["runtime"])
        self.changed = <uint8_t*> cnp.PyArray_DATA(arrays["changed"])
        self.any_max = <uint8_t*> cnp.PyArray_DATA(arrays["any_max"])
        self.has = <uint8_t*> cnp.PyArray_DATA(arrays["has"])
        self.total = <nano_t*> cnp.PyArray_DATA(arrays["total"])
        self.has_total = <uint8_t*> cnp.PyArray_DATA(arrays["has_total"])
        self.parent = <int32_t*> cnp.PyArray_DATA(arrays["parent"])
        self.flag = <uint8_t*> cnp.PyArray_DATA(arrays["flag"])
        self.dirty = <uint8_t*> cnp.PyArray_DATA(arrays["dirty"])
        self.version = <uint64_t*> cnp.PyArray_DATA(arrays["version"])
        self.order = <int32_t*> cnp.PyArray_DATA(arrays["order"])
        self.first = <int32_t*> cnp.PyArray_DATA(arrays["first"])
        self.child = <int32_t*> cnp.PyArray_DATA(arrays["child"])
        self.hungry = <int32_t*> cnp.PyArray_DATA(arrays["hungry"])
        self.poured = <int64_t*> cnp.PyArray_DATA(arrays["poured"])
        self.indivisible = <uint8_t*> cnp.PyArray_DATA(arrays["indivisible"])
        self.rank = <int32_t*> cnp.PyArray_DATA(arrays["rank"])
        self.shares = <Share*> cnp.PyArray_DATA(arrays["shares"])
        self.capacity = capacity
        self.width = width
        return 0

    def add_resource(self, str name not None):
        if name not in self.resources:
            if len(self.resources) == self.width:
                self.make_room(self.capacity, 2 * self.width)
            self.indivisible[len(self.resources)] = name in self.whole_devices
            self.resources[name] = len(self.resources)
            self.known = len(self.resources)

    # Quotas

    def add_quota(self):
        cdef Py_ssize_t row
        if self.free_rows:
            row = self.free_rows.pop()
        else:
            if self.top == self.capacity:
                self.make_room(2 * self.capacity, self.width)
            row = self.top
            self.top += 1
        self.flag[row] = IS_ROW | LENDS | GREW
        self.arrays["shown"][row, CPU, MAX] = -1  # unlike any number: the row has changed
        self.any_grown = True
        self.unordered = self.unsummed = True
        return row

    def remove_quota(self, Py_ssize_t row):
        cdef Py_ssize_t k, c, other, at
        self.check(row)
        if row == ROOT:
            raise IndexError("the root quota stays")
        for k in range(self.known):
            for c in range(COLUMNS):
                self.cell(row, k)[c] = 0
            at = k * self.capacity + row
            self.weight[at] = self.runtime[at] = self.wanted[at] = self.least[at] = 0
            self.scaled[at] = UNKNOWN
            self.has[at] = self.changed[at] = 0
        if self.flag[row] & WAITS:
            self.waiting -= 1
        self.flag[row] = 0
        self.parent[row] = NONE
        self.dirty[row] = 0
        for other in range(self.top):
            if self.parent[other] == row:
                self.parent[other] = NONE
        self.free_rows.append(row)
        self.unordered = self.unsummed = True

    def set_quota(
        self,
        Py_ssize_t row,
        *,
        dict most not None,
        dict least not None,
        dict weight not None,
        bint lends,
        bint built_in=False,
    ):
        cdef Py_ssize_t k, at
        cdef nano_t amount
        cdef uint8_t before, has
        self.check(row)
        for name in (*most, *least, *weight):  # a weight counts as soon as another quota's max or min names the resource
            self.add_resource(name)
        self.flag[row] = (self.flag[row] & (WAITS | GREW | IS_ROW)) | (LENDS if lends else 0) | (IS_BUILT_IN if built_in else 0)
        for name, k in self.resources.items():
            at = k * self.capacity + row
            before = self.has[at]
            has = (HAS_MAX if name in most else 0) | (HAS_MIN if name in least else 0)
            if before & ~has & (HAS_MAX | HAS_MIN):
                self.grew(row)  # what is not limited any more
            self.has[at] = (before & HAS_RUNTIME) | has
            amount = from_python(most.get(name, 0))
            if before & has & HAS_MAX and amount > self.cell(row, k)[MAX] and not self.by_runtime:
                self.grew(row)
            self.cell(row, k)[MAX] = amount
            amount = from_python(least.get(name, 0))
            if before & has & HAS_MIN and amount > self.cell(row, k)[MIN]:
                self.grew(row)
            self.cell(row, k)[MIN] = amount
            self.least[at] = whole(self.cell(row, k)[MIN], k)
            amount = from_python(weight.get(name, 0))
            self.cell(row, k)[WEIGHT] = amount
            self.weight[at] = wrapped(rounded(amount, k)) if self.built_ins_compete else whole(amount, k)
        self.unordered = self.unsummed = True

    def link(self, dict parents not None):
        cdef Py_ssize_t row, parent, used = 0
        for row, parent in parents.items():
            self.check(row)
            if parent != NONE:
                self.check(parent)
            if row == ROOT or self.parent[row] == parent:
                continue
            self.parent[row] = parent
            if self.checks_parents:
                self.grew(row)  # other ancestors limit it
        self.put_in_order()
        for row in range(self.top):
            used += self.flag[row] & IS_ROW
        self.unsummed = True
        if self.rows != used:
            self.unordered = True
            raise ValueError(f"{used - self.rows} quotas are their own ancestors")

    def set_ranks(self, list rows not None):
        cdef Py_ssize_t row, rank
        for rank, row in enumerate(rows):
            self.check(row)
            self.rank[row] = rank
        self.unsummed = True

    def set_total(self, dict amounts not None):
        cdef Py_ssize_t k
        cdef nano_t amount
        for name, k in self.resources.items():
            amount = from_python(amounts.get(name, 0))
            if self.total[k] != amount or self.has_total[k] != (name in amounts):
                self.total[k] = amount
                self.has_total[k] = name in amounts
                self.mark(ROOT, k)

    cdef void mark(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil:
        """Note that the row's children may get other runtimes of a resource."""
        self.changed[k * self.capacity + row] = self.dirty[row] = self.any_dirty = True

    cdef void put_in_order(self) noexcept nogil:
        """List rows with parents before children, and the children of each. Rows of a circle have no place: nothing is poured to them."""
        cdef Py_ssize_t row, i, count = 0, begin
        cdef int32_t parent
        for row in range(self.top + 1):
            self.first[row] = 0
        for row in range(self.top):
            if self.flag[row] & IS_ROW and self.parent[row] != NONE:
                self.first[self.parent[row]] += 1
        begin = 0
        for row in range(self.top + 1):
            i = self.first[row]
            self.first[row] = begin
            begin += i
        for row in range(self.top):
            self.hungry[row] = self.first[row]
        for row in range(self.top):
            if self.flag[row] & IS_ROW and self.parent[row] != NONE:
                parent = self.parent[row]
                self.child[self.hungry[parent]] = row
                self.hungry[parent] += 1
        for row in range(self.top):
            if self.flag[row] & IS_ROW and self.parent[row] == NONE:
                self.order[count] = row
                count += 1
        i = 0
        while i < count:
            row = self.order[i]
            for begin in range(self.first[row], self.first[row + 1]):
                self.order[count] = self.child[begin]
                count += 1
            i += 1
        self.rows = count
        self.unordered = False

    # Pods: sums up the path

    cdef int add_delta(self, QuotaPod pod, int sign, bint used) except -1:
        cdef QuotaRequest request = pod.request
        cdef Py_ssize_t i, k, row = pod.row
        cdef nano_t delta
        self.check(row)
        for i in range(request.count):
            k = request.resource[i]
            if not self.has[k * self.capacity + row] & HAS_MAX:
                continue
            delta = request.amount[i] if sign > 0 else -request.amount[i]
            if used:
                self.cell(row, k)[SELF_USED] += delta
                if pod.fixed:
                    self.cell(row, k)[SELF_FIXED_USED] += delta
                if not self.unsummed:
                    self.use_more(row, k, delta, pod.fixed)
            else:
                self.cell(row, k)[SELF_REQUEST] += delta
                if pod.fixed:
                    self.cell(row, k)[SELF_FIXED_REQUEST] += delta
                if not self.unsummed:
                    self.request_more(row, k, delta)
                    if pod.fixed:
                        self.cell(row, k)[FIXED_REQUEST] += delta
                        while self.parent[row] != NONE:
                            row = self.parent[row]
                            self.cell(row, k)[FIXED_REQUEST] += delta
                        row = pod.row
        return 0

    def add(self, QuotaPod pod not None):
        if not pod.counted:
            self.add_delta(pod, 1, False)
            pod.counted = True

    def assign(self, QuotaPod pod not None):
        if pod.counted and not pod.assigned:
            self.add_delta(pod, 1, True)
            pod.assigned = True

    def unassign(self, QuotaPod pod not None):
        if pod.assigned:
            self.add_delta(pod, -1, True)
            pod.assigned = False

    def unassign_quietly(self, QuotaPod pod not None):
        self.quiet = True
        try:
            self.unassign(pod)
        finally:
            self.quiet = False

    def remove(self, QuotaPod pod not None):
        self.unassign(pod)
        if pod.counted:
            self.add_delta(pod, -1, False)
            pod.counted = False

    cdef void request_more(self, Py_ssize_t row, Py_ssize_t k, nano_t delta) noexcept nogil:
        cdef nano_t before
        self.cell(row, k)[CHILD_REQUEST] += delta
        while True:
            before = self.cell(row, k)[LIMITED]
            self.limit_request(row, k)
            delta = self.cell(row, k)[LIMITED] - before
            if delta == 0:
                return
            if self.parent[row] == NONE:
                if row != ROOT:
                    self.mark(row, k)  # an orphan's own runtime follows from its request
                return
            row = self.parent[row]
            self.mark(row, k)
            self.cell(row, k)[CHILD_REQUEST] += delta

    cdef void limit_request(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil:
        """Write REQUEST and LIMITED, which follow from CHILD_REQUEST."""
        cdef nano_t request = self.cell(row, k)[CHILD_REQUEST]
        cdef uint8_t has = self.has[k * self.capacity + row]
        if row != ROOT and not self.flag[row] & LENDS and has & HAS_MIN and self.cell(row, k)[MIN] > request:
            request = self.cell(row, k)[MIN]
        self.cell(row, k)[REQUEST] = request
        if has & HAS_MAX and self.cell(row, k)[MAX] < request:
            request = self.cell(row, k)[MAX]
        self.cell(row, k)[LIMITED] = request
        self.wanted[k * self.capacity + row] = UNKNOWN

    cdef void use_more(self, Py_ssize_t row, Py_ssize_t k, nano_t delta, bint fixed) noexcept nogil:
        cdef nano_t allocated = delta, before
        if self.flag[row] & IS_BUILT_IN:
            self.mark(ROOT, k)  # what the root's children share is another amount
        while True:
            self.cell(row, k)[USED] += delta
            if fixed:
                self.cell(row, k)[FIXED_USED] += delta
            if delta < 0:
                self.grew(row)
            if self.guarantees and allocated != 0:
                before = self.cell(row, k)[GUARANTEED]
                self.cell(row, k)[ALLOCATED] += allocated
                self.guarantee(row, k)
                allocated = self.cell(row, k)[GUARANTEED] - before
                if allocated != 0 and self.parent[row] != NONE:
                    self.mark(self.parent[row], k)
            if self.parent[row] == NONE:
                return
            row = self.parent[row]

    cdef void guarantee(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil:
        cdef nano_t allocated = self.cell(row, k)[ALLOCATED]
        self.cell(row, k)[GUARANTEED] = allocated if allocated > self.cell(row, k)[MIN] else self.cell(row, k)[MIN]

    cdef void sum_up(self, Py_ssize_t row) noexcept nogil:
        """Make the sums of a row anew, from those of its children."""
        cdef Py_ssize_t k, i, child
        cdef nano_t request, used, fixed_request, fixed_used, allocated, least
        for k in range(self.known):
            least = 0
            fixed_request = self.cell(row, k)[SELF_FIXED_REQUEST]
            fixed_used = self.cell(row, k)[SELF_FIXED_USED]
            used = self.cell(row, k)[SELF_USED]
            allocated = used
            request = self.cell(row, k)[SELF_REQUEST]
            for i in range(self.first[row], self.first[row + 1]):
                child = self.child[i]
                request += self.cell(child, k)[LIMITED]
                used += self.cell(child, k)[USED]
                fixed_request += self.cell(child, k)[FIXED_REQUEST]
                fixed_used += self.cell(child, k)[FIXED_USED]
                allocated += self.cell(child, k)[GUARANTEED]
                least += self.cell(child, k)[MIN]
            if used < self.cell(row, k)[USED] or fixed_used < self.cell(row, k)[FIXED_USED]:
                self.grew(row)
            self.cell(row, k)[CHILD_REQUEST] = request
            self.limit_request(row, k)
            self.cell(row, k)[USED] = used
            self.cell(row, k)[FIXED_REQUEST] = fixed_request
            self.cell(row, k)[FIXED_USED] = fixed_used
            self.cell(row, k)[CHILD_MIN] = least
            if self.guarantees:
                self.cell(row, k)[ALLOCATED] = allocated
                self.guarantee(row, k)

    # Runtimes: down from the root

    cdef void bring_up_to_date(self) noexcept nogil:
        cdef Py_ssize_t i, k, row
        if self.unordered:
            self.put_in_order()
        if self.unsummed:
            for i in range(self.rows - 1, -1, -1):
                row = self.order[i]
                self.sum_up(row)
                for k in range(self.known):
                    self.mark(row, k)
            for k in range(self.known):
                self.any_max[k] = self.any_has_max(k)
            self.unsummed = False
        if not self.by_runtime:
            self.any_dirty = False
        if not self.any_dirty:
            return
        for i in range(self.rows):
            row = self.order[i]
            if self.dirty[row]:
                self.dirty[row] = False
                self.fill(row)
        self.any_dirty = False

    cdef void fill(self, Py_ssize_t row) noexcept nogil:
        """Give the children of a row their runtimes; an orphan gets its own, too."""
        cdef Py_ssize_t k, at
        self.version[row] += 1
        self.fills += 1
        for k in range(self.known):
            at = k * self.capacity + row
            if not self.changed[at]:
                continue
            self.changed[at] = False
            if row != ROOT and self.parent[row] == NONE:
                self.scaled[at] = UNKNOWN
                self.poured[row] = min(self.asks(row, k), self.least[at])
                self.set_runtime(row, k, self.has[at] & HAS_MAX)
            if self.first[row] != self.first[row + 1]:
                self.fill_resource(row, k)

    cdef int64_t asks(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil:
        """Return LIMITED in whole numbers."""
        cdef Py_ssize_t at = k * self.capacity + row
        if self.wanted[at] == UNKNOWN:
            self.wanted[at] = whole(self.cell(row, k)[LIMITED], k)
        return self.wanted[at]

    cdef void fill_resource(self, Py_ssize_t row, Py_ssize_t k) noexcept nogil:
        """Share a resource among the children of a row."""
        cdef const int32_t* child = self.child + self.first[row]
        cdef Py_ssize_t i, c, count = self.first[row + 1] - self.first[row], base = k * self.capacity, hungry = 0
        cdef nano_t total, sum_of_min = self.cell(row, k)[CHILD_MIN]
        cdef bint known, has_total, scales
        cdef int64_t amount, least, request, left, weights = 0
        if row == ROOT:
            known = self.any_max[k]
            has_total = self.has_total[k]
            total = self.total[k]
            for i in range(count):
                c = child[i]
                if self.flag[c] & IS_BUILT_IN:
                    total -= self.cell(c, k)[USED]
                    has_total = has_total or self.cell(c, k)[USED] != 0
            amount = whole(total, k)
        else:
            known = self.has[base + row] & HAS_MAX
            has_total = self.has[base + row] & HAS_RUNTIME
            amount = self.runtime[base + row] if has_total else 0
            total = times(amount, scale_of(k))
        scales = self.scales_min and has_total and total < sum_of_min
        left = amount
        for i in range(count):
            c = child[i]
            least = self.least[base + c]
            self.scaled[base + c] = UNKNOWN
            if scales:
                least = truncated(<double> amount * <double> least / <double> whole(sum_of_min, k)) if total > 0 else 0
                self.scaled[base + c] = least
            if not known or (self.flag[c] & IS_BUILT_IN and not self.built_ins_compete):
                self.poured[c] = 0
                continue
            if self.guarantees and whole(self.cell(c, k)[GUARANTEED], k) > least:
                least = whole(self.cell(c, k)[GUARANTEED], k)
            request = self.asks(c, k)
            if request > least:
                self.poured[c] = least
                self.hungry[hungry] = c
                hungry += 1
                weights = wrapped_sum(weights, self.weight[base + c])
            else:
                self.poured[c] = request if self.flag[c] & LENDS else least
            left = wrapped_sum(left, -self.poured[c])
        self.pour(k, left, weights, hungry)
        for i in range(count):
            self.set_runtime(child[i], k, known and not self.flag[child[i]] & IS_BUILT_IN)

    cdef void pour(self, Py_ssize_t k, int64_t left, int64_t weights, Py_ssize_t hungry) noexcept nogil:
        """Share what is left among the hungry by their weights, until none is left or none is hungry.

        Each share is rounded by itself, so all of them together may be a little more or less than what is left (elasticquota.md §6); of
        whole devices exactly what is left is handed out (DEV-8).
        """
        cdef Py_ssize_t i, c, still, base = k * self.capacity
        cdef int64_t surplus, remaining, request
        while left > 0 and hungry > 0:
            if self.indivisible[k]:
                if not self.pour_whole_devices(k, left, hungry):
                    return
            elif weights > 0:
                for i in range(hungry):
                    c = self.hungry[i]
                    self.poured[c] = saturated_sum(
                        self.poured[c], truncated(<double> self.weight[base + c] * <double> left / <double> weights + 0.5)
                    )
            else:
                return
            surplus = remaining = 0
            still = 0
            for i in range(hungry):
                c = self.hungry[i]
                request = self.wanted[base + c]
                if self.poured[c] < request:
                    self.hungry[still] = c
                    still += 1
                    remaining = wrapped_sum(remaining, self.weight[base + c])
                else:
                    surplus = wrapped_sum(surplus, wrapped_sum(self.poured[c], -request))
                    self.poured[c] = request
            left = surplus
            weights = remaining
            hungry = still

    cdef bint pour_whole_devices(self, Py_ssize_t k, int64_t left, Py_ssize_t hungry) noexcept nogil:
        """Hand out all that is left: each its share rounded down, then one more to those with the largest remainders, ties by rank.

        False: none has a weight.
        """
        cdef Py_ssize_t i, c, base = k * self.capacity
        cdef nano_t weights = 0, product, share, rest = left
        for i in range(hungry):
            weights += self.weight[base + self.hungry[i]]
        if weights <= 0:
            return False
        for i in range(hungry):
            c = self.hungry[i]
            product = times(self.weight[base + c], left)
            share = product // weights
            self.poured[c] += wrapped(share)
            self.shares[i].remainder = product - share * weights
            self.shares[i].rank = self.rank[c]
            self.shares[i].row = <int32_t> c
            rest -= share
        qsort(self.shares, hungry, sizeof(Share), larger_remainder)
        for i in range(wrapped(rest)):
            self.poured[self.shares[i].row] += 1
        return True

    cdef bint any_has_max(self, Py_ssize_t k) noexcept nogil:
        cdef Py_ssize_t row
        for row in range(1, self.top):
            if self.has[k * self.capacity + row] & HAS_MAX and not self.flag[row] & IS_BUILT_IN:
                return True
        return False

    cdef void set_runtime(self, Py_ssize_t row, Py_ssize_t k, bint limits) noexcept nogil:
        """Take over what was poured for a row."""
        cdef Py_ssize_t at = k * self.capacity + row
        cdef int64_t before = self.runtime[at], now = self.poured[row]
        cdef bint limited = self.has[at] & HAS_RUNTIME != 0
        if before == now and limited == limits:
            return
        self.runtime[at] = now
        self.has[at] = (self.has[at] & ~HAS_RUNTIME) | (HAS_RUNTIME if limits else 0)
        if limited and (now > before or not limits):
            self.grew(row)
        if self.first[row] != self.first[row + 1]:
            self.mark(row, k)

    # Room

    cdef void grew(self, Py_ssize_t row) noexcept nogil:
        if self.quiet:
            return
        self.flag[row] |= GREW
        self.any_grown = True

    cdef bint is_over(self, Py_ssize_t row, Py_ssize_t k, nano_t added, int which) noexcept nogil:
        """Answer whether the row is over its limit of a resource (BY_MIN: its non-preemptible pods over its min) with so much more."""
        cdef Py_ssize_t at = k * self.capacity + row
        if which == BY_MIN:
            return self.has[at] & HAS_MIN and self.cell(row, k)[FIXED_USED] + added > self.cell(row, k)[MIN]
        if self.by_runtime:
            return self.has[at] & HAS_RUNTIME and self.cell(row, k)[USED] + added > times(self.runtime[at], scale_of(k))
        return self.has[at] & HAS_MAX and self.cell(row, k)[USED] + added > self.cell(row, k)[MAX]

    cdef nano_t asked(self, QuotaPod pod, Py_ssize_t k, Py_ssize_t* place) noexcept nogil:
        """Return what the pod asks for of a resource that its quota's max names. place: of the request, in the order of resources."""
        while place[0] < pod.request.count and pod.request.resource[place[0]] < k:
            place[0] += 1
        if place[0] == pod.request.count or pod.request.resource[place[0]] != k:
            return 0
        return pod.request.amount[place[0]] if self.has[k * self.capacity + pod.row] & HAS_MAX else 0

    cdef Py_ssize_t next_exceeded(self, QuotaPod pod, Py_ssize_t row, int which, Py_ssize_t k) noexcept nogil:
        """Return the first resource from k on of which the row has not enough for the pod; -1: there is none.

        A pod's own quota must not be over its limit in any resource, an ancestor only not in those that the pod asks for.
        """
        cdef Py_ssize_t place = 0
        cdef nano_t amount
        while k < self.known:
            amount = self.asked(pod, k, &place)
            if (amount != 0 or row == pod.row) and self.is_over(row, k, amount, which):
                return k
            k += 1
        return NONE

    cdef void refused(self, Py_ssize_t row) noexcept nogil:
        """Note that a pod waits for room. Growth from before the first one that waits concerns none."""
        cdef Py_ssize_t other
        if self.flag[row] & WAITS:
            return
        if not self.waiting:
            for other in range(self.top):
                self.flag[other] &= ~GREW
            self.any_grown = False
        self.flag[row] |= WAITS
        self.waiting += 1

    def admit(self, QuotaPod pod not None):
        cdef int refusal = 0
        self.check(pod.row)
        if self.any_dirty or self.unsummed or self.unordered:
            self.bring_up_to_date()
        if self.next_exceeded(pod, pod.row, BY_LIMIT, 0) != NONE:
            refusal = BY_LIMIT
        elif pod.fixed and self.next_exceeded(pod, pod.row, BY_MIN, 0) != NONE:
            refusal = BY_MIN
        if refusal:
            self.refused(pod.row)
        return refusal

    def full_ancestor(self, QuotaPod pod not None):
        cdef Py_ssize_t row
        self.check(pod.row)
        if self.any_dirty or self.unsummed or self.unordered:
            self.bring_up_to_date()
        row = self.parent[pod.row]
        while row > ROOT:
            if self.next_exceeded(pod, row, BY_LIMIT, 0) != NONE:
                self.refused(pod.row)
                return row
            row = self.parent[row]
        return NONE

    def exceeded(self, QuotaPod pod not None, Py_ssize_t row, int refusal):
        cdef Py_ssize_t k = 0
        self.check(row)
        self.refresh()
        names = list(self.resources)
        found = []
        while True:
            k = self.next_exceeded(pod, row, refusal, k)
            if k == NONE:
                return sorted(found)
            found.append(names[k])
            k += 1

    def wait(self, Py_ssize_t row):
        self.check(row)
        self.refused(row)

    def take_grown(self):
        cdef Py_ssize_t i, row
        if not self.waiting:
            return ()
        if self.any_dirty or self.unsummed or self.unordered:
            self.bring_up_to_date()
        if not self.any_grown:
            return ()
        found = []
        for i in range(self.rows):
            row = self.order[i]
            if self.checks_parents and self.parent[row] > ROOT and self.flag[self.parent[row]] & GREW:
                self.flag[row] |= GREW
            if self.flag[row] & GREW and self.flag[row] & WAITS:
                found.append(row)
        for row in range(self.top):
            self.flag[row] &= ~GREW
        for row in found:
            self.flag[row] &= ~WAITS
        self.waiting -= len(found)
        self.any_grown = False
        return found

    def over_used(self):
        cdef Py_ssize_t row, k
        self.refresh()
        found = []
        for row in range(1, self.top):
            for k in range(self.known):
                if self.is_over(row, k, 0, BY_LIMIT):
                    found.append(row)
                    break
        return found

    # Reading

    def refresh(self):
        if self.any_dirty or self.unsummed or self.unordered:
            with nogil:
                self.bring_up_to_date()

    def refresh_all(self):
        self.unsummed = True
        self.refresh()

    def amounts(self, str column not None, Py_ssize_t row):
        cdef Py_ssize_t k
        cdef int which = COLUMN_NUMBERS[column]
        cdef nano_t amount
        cdef int64_t scaled
        self.check(row)
        self.refresh()
        found = {}
        for name, k in self.resources.items():
            if which == SCALED_MIN:
                scaled = self.scaled[k * self.capacity + row]
                amount = self.cell(row, k)[MIN] if scaled == UNKNOWN else times(scaled, scale_of(k))
            else:
                amount = self.cell(row, k)[which]
            shown = amount != 0
            if which == MAX:
                shown = self.has[k * self.capacity + row] & HAS_MAX
            elif which == MIN:
                shown = self.has[k * self.capacity + row] & HAS_MIN
            if shown:
                found[name] = to_python(amount)
        return found

    def runtimes(self, Py_ssize_t row):
        cdef Py_ssize_t k, at
        self.check(row)
        self.refresh()
        found = {}
        for name, k in self.resources.items():
            at = k * self.capacity + row
            if self.has[at] & HAS_RUNTIME:
                found[name] = <object> self.runtime[at] * scale_of(k)
        return found

    def take_changed(self):
        cdef Py_ssize_t row, k, c, at
        cdef cnp.ndarray shown = self.arrays["shown"]
        cdef nano_t* before = <nano_t*> cnp.PyArray_DATA(shown)
        cdef bint differs
        self.refresh()
        found = []
        for row in range(self.top):
            if not self.flag[row] & IS_ROW:
                continue
            differs = False
            for k in range(self.known):
                at = (row * self.width + k) * COLUMNS
                for c in range(CHILD_REQUEST, GUARANTEED + 1):
                    if before[at + c] != self.exact[at + c]:
                        before[at + c] = self.exact[at + c]
                        differs = True
                # MAX, which is not watched, has room for the runtime, and MIN for whether there is one.
                if before[at + MAX] != self.runtime[k * self.capacity + row]:
                    before[at + MAX] = self.runtime[k * self.capacity + row]
                    differs = True
                if before[at + MIN] != (self.has[k * self.capacity + row] & HAS_RUNTIME):
                    before[at + MIN] = self.has[k * self.capacity + row] & HAS_RUNTIME
                    differs = True
            if differs:
                found.append(row)
        return found

    def parent_of(self, Py_ssize_t row):
        self.check(row)
        return self.parent[row]

    def version_of(self, Py_ssize_t row):
        self.check(row)
        self.refresh()
        return self.version[row]
