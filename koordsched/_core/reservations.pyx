"""Whether pods fit with the reservations that they match, and how full these would be (reservation.md §8, §9)."""

import numpy as np

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from koordsched._core.reserved_source cimport ReservedSource
from koordsched._core.rows cimport Rows, codes_in, rows_of, scores_in, zero_codes, zero_scores
from koordsched._core.table cimport NodeTable, Request, RESOURCE_PODS

cnp.import_array()

cdef extern from *:
    """
    typedef __int128 koordsched_wide;
    """
    ctypedef long long wide "koordsched_wide"

cdef int MAX_BITS = 30  # ids of a request that a mask has bits for
cdef int64_t NO_ORDER = 0
cdef int64_t UNBOUNDED = 0x7fffffffffffffff

cdef enum:
    PLACE_SHIFT = 32  # above the code of a source: its place
    UNKNOWN = -1      # an answer: only the plugins themselves know

SOURCE_SHIFT = PLACE_SHIFT
UNDECIDED = UNKNOWN


@cython.final
cdef class Matched:

    def __init__(self, rows, slots, uids=None):
        self._uids = [""] * len(rows) if uids is None else list(uids)
        if not len(rows) == len(slots) == len(self._uids):
            raise ValueError(f"{len(rows)} rows, {len(slots)} slots and {len(self._uids)} uids")
        self._rows = rows
        self._slots = slots

    def __len__(self):
        return self._rows.shape[0]

    @property
    def rows(self):
        return np.asarray(self._rows)

    def slots_of(self, int32_t row):
        cdef Py_ssize_t i
        return [self._slots[i] for i in range(self._rows.shape[0]) if self._rows[i] == row]

    def uids_of(self, int32_t row):
        cdef Py_ssize_t begin = self._rows.shape[0], end, low = 0, middle
        while low < begin:
            middle = (low + begin) >> 1
            if self._rows[middle] < row:
                low = middle + 1
            else:
                begin = middle
        end = begin
        while end < self._rows.shape[0] and self._rows[end] == row:
            end += 1
        return self._uids[begin:end]


@cython.final
cdef class Shortages:

    def __init__(self):
        self._codes = {}
        self._known = [(0, 0, 0)]

    def of(self, Py_ssize_t code):
        if not 0 < code < len(self._known):
            raise IndexError(f"code {code} of {len(self._known)}")
        return self._known[code]

    cdef int32_t code(self, uint32_t node, uint32_t reservation, int64_t tag) except -1:
        key = (node, reservation, tag)
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = len(self._known)
            self._known.append(key)
        return found


@cython.final
cdef class Capacity:

    def __init__(self, allocatable, named, int64_t weights, *, bint limits):
        self.ids = np.fromiter(allocatable.keys(), np.int32, len(allocatable))
        self.amounts = np.fromiter(allocatable.values(), np.int64, len(allocatable))
        self.named = np.fromiter(named, np.int32, len(named))
        self.largest = max([*allocatable, *named], default=0)
        self.weights = weights
        self.limits = limits
        if min([*allocatable, *named], default=0) < 0:
            raise IndexError(f"resources {sorted([*allocatable, *named])}")


cdef class ReservationTable:

    def __init__(self, NodeTable table not None):
        self.table = table
        self.skips_fit = False
        self.capacity = 0
        self.resources = 0
        self._free = []
        self.inside = np.zeros((0, 0), np.int64)
        self._resize(64, table.resources)

    def _resize(self, Py_ssize_t capacity, Py_ssize_t resources):
        old, kept = self.capacity, self.resources
        for name in ("named", "allocatable", "allocated", *(["inside"] if self.inside.shape[0] else [])):
            grown = np.zeros((capacity, resources), np.uint8 if name == "named" else np.int64)
            if old:
                grown[:old, :kept] = self._column(name)
            self._set_column(name, grown)
        for name in ("owners_left", "order", "weights", "restricted"):
            line = np.zeros(capacity, np.uint8 if name == "restricted" else np.int64)
            if old:
                line[:old] = self._column(name)
            self._set_column(name, line)
        self._free += range(capacity - 1, old - 1, -1)
        self.capacity = capacity
        self.resources = resources

    def _column(self, name):
        return np.asarray({
            "inside": self.inside, "named": self.named, "allocatable": self.allocatable, "allocated": self.allocated,
            "owners_left": self.owners_left, "order": self.order, "weights": self.weights, "restricted": self.restricted,
        }[name])

    def _set_column(self, name, values):
        if name == "inside":
            self.inside = values
        elif name == "named":
            self.named = values
        elif name == "allocatable":
            self.allocatable = values
        elif name == "allocated":
            self.allocated = values
        elif name == "owners_left":
            self.owners_left = values
        elif name == "order":
            self.order = values
        elif name == "restricted":
            self.restricted = values
        else:
            self.weights = values

    def acquire(self):
        if not self._free:
            self._resize(self.capacity + max(64, self.capacity // 16), self.resources)  # by little: there may be many resources
        return self._free.pop()

    def release(self, Py_ssize_t slot):
        self._check(slot)
        self._clear(slot)
        self._free.append(slot)

    def _check(self, Py_ssize_t slot):
        if not 0 <= slot < self.capacity:
            raise IndexError(f"slot {slot} of {self.capacity}")

    def _clear(self, Py_ssize_t slot):
        cdef Py_ssize_t k
        for k in range(self.resources):
            self.named[slot, k] = 0
            self.allocatable[slot, k] = 0
            self.allocated[slot, k] = 0
        if self.inside.shape[0]:
            self.inside[slot] = 0
        self.owners_left[slot] = UNBOUNDED
        self.order[slot] = NO_ORDER
        self.weights[slot] = 0
        self.restricted[slot] = 0

    def write(self, Py_ssize_t slot, Capacity capacity not None, allocated, reserved, owners_left, int64_t order):
        self._check(slot)
        if self.table.resources > self.resources:
            self._resize(self.capacity, self.table.resources)
        if capacity.largest >= self.resources:
            raise IndexError(f"resource {capacity.largest} of {self.resources}")
        self._clear(slot)
        cdef Py_ssize_t j, k
        if reserved and not self.inside.shape[0]:
            self.inside = np.zeros((self.capacity, self.resources), np.int64)
        for j in range(capacity.ids.shape[0]):
            k = capacity.ids[j]
            self.allocatable[slot, k] = capacity.amounts[j]
            if allocated:
                self.allocated[slot, k] = allocated.get(k, 0)
            if reserved:
                self.inside[slot, k] = reserved.get(k, 0)
        for j in range(capacity.named.shape[0]):
            self.named[slot, capacity.named[j]] = 1
        self.owners_left[slot] = UNBOUNDED if owners_left is None else owners_left
        self.order[slot] = order
        self.weights[slot] = capacity.weights
        self.restricted[slot] = capacity.limits

    def count(self, Py_ssize_t slot, Request owner not None, int64_t sign):
        self._check(slot)
        self._check_width(owner)
        cdef Py_ssize_t j, k
        for j in range(owner.ids.shape[0]):
            k = owner.ids[j]
            if k != RESOURCE_PODS and self.named[slot, k]:
                self.allocated[slot, k] += sign * owner.amounts[j]
        if self.owners_left[slot] != UNBOUNDED:
            self.owners_left[slot] -= sign

    # Owners within their view

    def filter(self, Request request not None, cnp.ndarray rows not None, Matched matched not None, Shortages shortages not None,
               int64_t tag, *, bint required):
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray codes = zero_codes(asked)
        cdef int32_t* out = codes_in(codes)
        cdef Py_ssize_t i, p, begin, end, near = 0, count = matched._rows.shape[0]
        cdef const int32_t* pair_rows = &matched._rows[0] if count else NULL
        cdef uint32_t node, inside, nodes, insides, last_node = 0, last_inside = 0
        cdef int32_t last_code = 0
        cdef Py_ssize_t row
        cdef bint fits
        self._check_request(request)
        for i in range(asked.count):
            row = asked.at[i]
            begin = self._first(pair_rows, count, row, near)
            end = begin
            while end < count and pair_rows[end] == row:
                end += 1
            near = end
            if begin == end:
                if required:
                    out[i] = shortages.code(0, 0, tag)
                continue
            fits, nodes, insides = False, 0, 0
            for p in range(begin, end):
                if not required and not self._touches(matched._slots[p], request.ids):
                    continue
                self._short(request, row, matched._slots[begin:end], matched._slots[p], &node, &inside)
                if self.skips_fit and end - begin == 1:
                    node = 0
                if not node and not inside:
                    fits = True
                    break
                nodes |= node
                insides |= inside
            if fits:
                continue
            if not required and not nodes:
                self._short(request, row, matched._slots[begin:end], -1, &nodes, &insides)
                insides = 0
                if not nodes:
                    continue
            elif not required:
                insides = 0
            if nodes != last_node or insides != last_inside or not last_code:
                last_node, last_inside = nodes, insides
                last_code = shortages.code(nodes, insides, tag)
            out[i] = last_code
        return codes

    def fits_hidden(self, Py_ssize_t slot, Request request not None, int32_t row, Matched matched not None):
        self._check(max(slot, 0))
        self.table.check_row(row)
        self._check_request(request)
        cdef uint32_t node, inside
        cdef Py_ssize_t count = matched._rows.shape[0], begin, end
        cdef const int32_t* pair_rows = &matched._rows[0] if count else NULL
        begin = self._first(pair_rows, count, row, 0)
        end = begin
        while end < count and pair_rows[end] == row:
            end += 1
        self._short(request, row, matched._slots[begin:end], slot, &node, &inside)
        return node, inside

    def unsuited(self, Request request not None, cnp.ndarray rows not None, cnp.ndarray codes not None, Matched matched not None,
                 sources not None, *, bint required):
        cdef Rows asked = rows_of(rows), refused = rows_of(codes)
        cdef cnp.ndarray answers = zero_scores(asked)
        cdef int64_t* out = scores_in(answers)
        cdef Py_ssize_t i, begin, end, near = 0, count = matched._rows.shape[0]
        cdef const int32_t* pair_rows = &matched._rows[0] if count else NULL
        cdef list of = [<ReservedSource?> source for source in sources]
        if refused.count != asked.count:
            raise ValueError(f"{refused.count} codes for {asked.count} rows")
        self._check_request(request)
        for source in of:
            (<ReservedSource> source).begin()
        for i in range(asked.count):
            if refused.at[i]:
                continue
            begin = self._first(pair_rows, count, asked.at[i], near)
            end = begin
            while end < count and pair_rows[end] == asked.at[i]:
                end += 1
            near = end
            if self._matters(matched, begin, end, of):
                out[i] = self._unsuited(request, asked.at[i], matched, begin, end, of, required)
        return answers

    cdef bint _matters(self, Matched matched, Py_ssize_t begin, Py_ssize_t end, list sources) except -1:
        """Answer whether the sources have to be asked which of these reservations suit."""
        cdef Py_ssize_t p
        if begin == end or (end - begin == 1 and not self.restricted[matched._slots[begin]]):
            return False
        for source in sources:
            for p in range(begin, end):
                if (<ReservedSource> source).holds(matched._uids[p]):
                    return True
        return False

    cdef int64_t _unsuited(
        self, Request request, int32_t row, Matched matched, Py_ssize_t begin, Py_ssize_t end, list sources, bint required
    ) except -2:
        """Return why none of these reservations suits, nor the row without them where the pod may do without; 0: one does; UNDECIDED.

        All of them but the one that is asked about hold what they have left.
        """
        cdef const int32_t[::1] slots = matched._slots[begin:end]
        cdef uint32_t node, inside
        cdef int64_t refusal = 0
        cdef Py_ssize_t p, hidden = begin
        cdef bint asked = False
        for p in range(begin, end):
            if not _know(sources, row, matched._uids[p]):
                return UNKNOWN
        for p in range(begin + 1, end):
            _show(sources, row, matched._uids[p])
        try:
            for p in range(begin, end):
                if not required and not self._touches(matched._slots[p], request.ids):
                    continue
                self._short(request, row, slots, matched._slots[p], &node, &inside)
                if inside or (node and not (self.skips_fit and end - begin == 1)):
                    continue
                if p != hidden:
                    _show(sources, row, matched._uids[hidden])
                    hidden = p
                    _hide(sources, row, matched._uids[hidden])
                asked = True
                refusal = _ask(sources, row, matched._uids[p])
                if not refusal:
                    return 0
            if required:
                return refusal
            if asked:
                self._short(request, row, slots, -1, &node, &inside)
                if node or inside:
                    return refusal
            _show(sources, row, matched._uids[hidden])
            hidden = -1
            return _ask(sources, row, None)
        finally:
            for p in range(begin, end):
                if p != hidden:
                    _hide(sources, row, matched._uids[p])

    def scores(self, Request request not None, cnp.ndarray rows not None, Matched matched not None, *, bint required):
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray found = zero_scores(asked)
        cdef int64_t* out = scores_in(found)
        cdef Py_ssize_t i, p, begin, end, near = 0, count = matched._rows.shape[0]
        cdef const int32_t* pair_rows = &matched._rows[0] if count else NULL
        cdef uint32_t node, inside
        cdef int64_t order, best_order, score, best
        cdef int32_t slot
        self._check_request(request)
        for i in range(asked.count):
            begin = self._first(pair_rows, count, asked.at[i], near)
            end = begin
            while end < count and pair_rows[end] == asked.at[i]:
                end += 1
            near = end
            if begin == end:
                continue
            if required and end - begin == 1:
                out[i] = self._score(matched._slots[begin], request.ids, request.amounts)
                continue
            best, best_order = -1, NO_ORDER
            for p in range(begin, end):
                slot = matched._slots[p]
                if not required and not self._touches(slot, request.ids):
                    continue
                self._short(request, asked.at[i], matched._slots[begin:end], slot, &node, &inside)
                if self.skips_fit and end - begin == 1:
                    node = 0
                if node or inside:
                    continue
                order = self.order[slot]
                score = self._score(slot, request.ids, request.amounts)
                if order != NO_ORDER:
                    if best_order == NO_ORDER or order < best_order:
                        best, best_order = score, order
                elif best_order == NO_ORDER and score > best:
                    best = score
            if best > 0:
                out[i] = best
        return found

    def first_by_order(self, cnp.ndarray rows not None, Matched matched not None):
        cdef Rows asked = rows_of(rows)
        cdef Py_ssize_t i, p = 0, count = matched._rows.shape[0]
        cdef const int32_t* pair_rows = &matched._rows[0] if count else NULL
        cdef int64_t order, best_order = NO_ORDER
        cdef int32_t found = -1
        for i in range(asked.count):
            p = self._first(pair_rows, count, asked.at[i], p)
            while p < count and pair_rows[p] == asked.at[i]:
                order = self.order[matched._slots[p]]
                if order != NO_ORDER and (best_order == NO_ORDER or order < best_order):
                    best_order, found = order, asked.at[i]
                p += 1
        return found

    # One reservation

    def fits(self, Py_ssize_t slot, Request request not None, Py_ssize_t row, *, bint counted):
        self._check(slot)
        self.table.check_row(row)
        self._check_request(request)
        cdef uint32_t node = 0, inside = 0
        cdef Py_ssize_t j, k
        cdef int64_t amount, free
        for j in range(request.ids.shape[0]):
            k, amount = request.ids[j], request.amounts[j]
            free = self.table.allocatable[k, row] - self.table.requested[k, row] + (amount if counted else 0)
            if k == RESOURCE_PODS:
                free += 1  # the placeholder's own slot
                if self.owners_left[slot] < 1:
                    inside |= 1 << j
            else:
                free += self._available(slot, k)
                if amount > self._limit(slot, k):
                    inside |= 1 << j
            if amount > free:
                node |= 1 << j
        return node, inside

    def touches(self, Py_ssize_t slot, Request request not None):
        self._check(slot)
        self._check_request(request)
        return self._touches(slot, request.ids)

    def score(self, Py_ssize_t slot, Request request not None):
        self._check(slot)
        self._check_request(request)
        return self._score(slot, request.ids, request.amounts)

    cdef int64_t _left(self, Py_ssize_t slot, Py_ssize_t k) noexcept nogil:
        """Return what its placeholder holds on the row: counted in `requested` there."""
        cdef int64_t whole = self.allocatable[slot, k], taken = self.allocated[slot, k]
        return whole - taken if taken < whole else 0

    cdef int64_t _inside(self, Py_ssize_t slot, Py_ssize_t k) noexcept nogil:
        """Return what is reserved inside, for no owner."""
        return self.inside[slot, k] if self.inside.shape[0] else 0

    cdef int64_t _available(self, Py_ssize_t slot, Py_ssize_t k) noexcept nogil:
        """Return what an owner may take of it."""
        return max(self._left(slot, k) - self._inside(slot, k), 0)

    cdef int64_t _limit(self, Py_ssize_t slot, Py_ssize_t k) noexcept nogil:
        """Return how much an owner gets at most, be it of the row; may be below 0."""
        if not self.restricted[slot] or not self.named[slot, k]:
            return UNBOUNDED
        return self.allocatable[slot, k] - self._inside(slot, k) - max(self.allocated[slot, k], 0)

    cdef int _check_request(self, Request request) except -1:
        if request.ids.shape[0] > MAX_BITS:
            raise ValueError(f"a request of {request.ids.shape[0]} resources: a mask holds {MAX_BITS}")
        return self._check_width(request)

    cdef int _check_width(self, Request request) except -1:
        if request.largest >= self.table.resources:
            raise IndexError(f"resource {request.largest} of {self.table.resources}")
        if request.largest >= self.resources:
            self._resize(self.capacity, self.table.resources)
        return 0

    cdef void _short(self, Request request, Py_ssize_t row, const int32_t[::1] matched, Py_ssize_t slot, uint32_t* node,
                     uint32_t* inside) noexcept:
        """Find out of what the row and the reservation are short for the pod; slot -1: with no reservation at all.

        The placeholders of `matched`, which are all on the row, are hidden, so what they hold is taken off here.
        """
        cdef Py_ssize_t j, k, m
        cdef int64_t amount, free
        node[0], inside[0] = 0, 0
        for j in range(request.ids.shape[0]):
            k, amount = request.ids[j], request.amounts[j]
            free = self.table.allocatable[k, row] - self.table.requested[k, row]
            if k == RESOURCE_PODS:
                if slot >= 0 and self.owners_left[slot] < 1:
                    inside[0] |= 1 << j
            else:
                for m in range(matched.shape[0]):
                    free -= self._left(matched[m], k)
                if slot >= 0:
                    free += self._available(slot, k)
                    if amount > self._limit(slot, k):
                        inside[0] |= 1 << j
            if amount > free:
                node[0] |= 1 << j

    cdef Py_ssize_t _first(self, const int32_t* rows, Py_ssize_t count, Py_ssize_t row, Py_ssize_t near) noexcept nogil:
        """Return the place of the first pair of the row, or of a later row. near: where it is if rows are asked about in their order."""
        cdef Py_ssize_t low = 0, high = count, middle
        if (near == 0 or rows[near - 1] < row) and (near == count or rows[near] >= row):
            return near
        while low < high:
            middle = (low + high) >> 1
            if rows[middle] < row:
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint _touches(self, Py_ssize_t slot, const int32_t[::1] ids) noexcept nogil:
        cdef Py_ssize_t j
        for j in range(ids.shape[0]):
            if ids[j] != RESOURCE_PODS and self.named[slot, ids[j]]:
                return True
        return False

    cdef int64_t _score(self, Py_ssize_t slot, const int32_t[::1] ids, const int64_t[::1] amounts) noexcept nogil:
        # 100 times an amount may be more than int64 holds: memory beyond 83 TiB.
        cdef Py_ssize_t j, k
        cdef int64_t total = 0, whole, asked
        cdef wide used
        if not self.weights[slot]:
            return 0
        for k in range(self.resources):
            whole = self.allocatable[slot, k]
            if not whole or k == RESOURCE_PODS:
                continue
            asked = 0
            for j in range(ids.shape[0]):
                if ids[j] == k:
                    asked = amounts[j]
                    break
            used = <wide> asked + self.allocated[slot, k]
            if used <= whole:
                total += <int64_t> (100 * used / whole)
        return total // self.weights[slot]


def refusal_of(Py_ssize_t row, uid, sources not None):
    cdef list of = [<ReservedSource?> source for source in sources]
    for source in of:
        (<ReservedSource> source).begin()
    if not _know(of, row, uid):
        return UNKNOWN
    _hide(of, row, uid)
    try:
        return _ask(of, row, uid)
    finally:
        _show(of, row, uid)


# What is asked of all sources, in their order


cdef bint _know(list sources, Py_ssize_t row, uid) except -1:
    for source in sources:
        if not (<ReservedSource> source).knows(row, uid):
            return False
    return True


cdef int _show(list sources, Py_ssize_t row, uid) except -1:
    for source in sources:
        (<ReservedSource> source).show(row, uid)
    return 0


cdef int _hide(list sources, Py_ssize_t row, uid) except -1:
    for source in sources:
        (<ReservedSource> source).hide(row, uid)
    return 0


cdef int64_t _ask(list sources, Py_ssize_t row, uid) except -2:
    """Return the first refusal, with the place of its source above SOURCE_SHIFT; 0: there is none."""
    cdef Py_ssize_t place
    cdef int32_t code
    cdef uint64_t numa = 0
    for place in range(len(sources)):
        code = (<ReservedSource> sources[place]).refusal(row, uid, &numa)
        if code:
            return <int64_t> place << PLACE_SHIFT | code
    return 0
