"""Domains of a network in layers, and where a group's members go in them (coscheduling.md §7.2)."""

cimport cython

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from koordsched._core.table cimport NodeTable, Request


@cython.final
cdef class TopologyTree:

    def __init__(self, Py_ssize_t depth, parent, level, rank, row_domain, row_rank):
        if not len(parent) == len(level) == len(rank) or not len(row_domain) == len(row_rank):
            raise ValueError("arrays of domains, and arrays of rows, must be of one length each")
        if not len(level) or level[0] != 0:
            raise ValueError("domain 0 must be the root")
        self.depth, self.domains, self.rows = depth, len(parent), len(row_domain)
        self.parent, self.level, self.rank = parent, level, rank
        self.row_domain, self.row_rank = row_domain, row_rank
        self._check()
        self._arrange()

    cdef _check(self):
        cdef Py_ssize_t i
        cdef int32_t above
        for i in range(1, self.domains):
            if self.level[i] == FREE:
                continue
            above = self.parent[i]
            if above < 0 or above >= self.domains or self.level[above] != self.level[i] - 1 or self.level[i] > self.depth:
                raise ValueError(f"domain {i} of level {self.level[i]} has no parent on the level above")
        for i in range(self.rows):
            above = self.row_domain[i]
            if above != NO_DOMAIN and (above < 0 or above >= self.domains or self.level[above] != self.depth):
                raise ValueError(f"row {i} is in domain {above}, which is none of level {self.depth}")

    cdef _arrange(self):
        # Counting sorts: domains by level, domains by parent, rows by domain.
        cdef Py_ssize_t i, place
        cdef int32_t above
        self.level_end = np.zeros(self.depth + 2, np.int32)
        self.begin = np.zeros(self.domains, np.int32)
        self.end = np.zeros(self.domains, np.int32)
        cdef int32_t count = 0
        for i in range(self.domains):
            if self.level[i] != FREE:
                self.level_end[self.level[i] + 1] += 1
                count += 1
        self.order = np.zeros(count, np.int32)
        for i in range(self.depth + 1):
            self.level_end[i + 1] += self.level_end[i]
        for i in range(self.domains):
            if self.level[i] != FREE:
                place = self.level_end[self.level[i]]
                self.order[place] = <int32_t> i
                self.level_end[self.level[i]] += 1
        self.children = np.zeros(max(count - 1, 0), np.int32)
        self.members = np.zeros(self.rows, np.int32)
        for i in range(1, self.domains):
            if self.level[i] != FREE:
                self.end[self.parent[i]] += 1
        for i in range(self.rows):
            if self.row_domain[i] != NO_DOMAIN:
                self.end[self.row_domain[i]] += 1
        cdef int32_t of_domains = 0, of_rows = 0
        for i in range(self.domains):
            if self.level[i] == self.depth:
                self.begin[i] = of_rows
                of_rows += self.end[i]
            elif self.level[i] != FREE:
                self.begin[i] = of_domains
                of_domains += self.end[i]
            self.end[i] = self.begin[i]
        for i in range(1, self.domains):
            if self.level[i] != FREE:
                above = self.parent[i]
                self.children[self.end[above]] = <int32_t> i
                self.end[above] += 1
        for i in range(self.rows):
            above = self.row_domain[i]
            if above != NO_DOMAIN:
                self.members[self.end[above]] = <int32_t> i
                self.end[above] += 1

    def sums(self, const int64_t[::1] amounts):
        if amounts.shape[0] < self.rows:
            raise ValueError(f"{amounts.shape[0]} amounts for {self.rows} rows")
        cdef Py_ssize_t i
        cdef int32_t domain
        answer = np.zeros(self.domains, np.int64)
        cdef int64_t[::1] total = answer
        for i in range(self.rows):
            if self.row_domain[i] != NO_DOMAIN:
                total[self.row_domain[i]] += amounts[i]
        for i in range(self.order.shape[0] - 1, 0, -1):
            domain = self.order[i]
            total[self.parent[domain]] += total[domain]
        return answer


@cython.final
cdef class MemberPlacement:

    def __init__(self, TopologyTree tree not None, NodeTable table not None, requests, wanted, class_order, multiple):
        cdef Py_ssize_t i
        self.tree, self.table = tree, table
        self.requests = [None if request is None else <Request?> request for request in requests]
        self.classes = len(self.requests)
        if not self.classes or not self.classes == len(wanted) == len(class_order) or sorted(class_order) != list(range(self.classes)):
            raise ValueError("each class needs a request, a number of members and a place in the order")
        if len(multiple) != tree.depth + 2 or min(multiple) < 1:
            raise ValueError(f"{tree.depth + 2} levels need as many multiples of at least 1")
        for request in self.requests:
            if request is not None and (<Request> request).largest >= table.resources:
                raise IndexError(f"resource {(<Request> request).largest} of {table.resources}")
        self.wanted = np.array(wanted, np.int64)
        self.class_order = np.array(class_order, np.int32)
        self.multiple = np.array(multiple, np.int64)
        self.demand = 0
        for i in range(self.classes):
            self.demand += self.wanted[i]
        self.left = np.zeros(self.classes, np.int64)
        self.taken = np.zeros(table.resources, np.int64)
        self.most = np.zeros((self.classes, tree.rows), np.int32)
        self.row_slots = np.zeros(tree.rows, np.int64)
        self.row_existing = np.zeros(tree.rows, np.int64)
        self.slots = np.zeros(tree.domains, np.int64)
        self.existing = np.zeros(tree.domains, np.int64)
        self.children = np.array(tree.children)
        self.members = np.array(tree.members)
        self.open_domain = np.zeros(tree.domains, np.uint8)
        self.open_row = np.zeros(tree.rows, np.uint8)

    # What is known of rows

    def set_most(self, Py_ssize_t klass, const int32_t[::1] rows, const int32_t[::1] most):
        cdef Py_ssize_t i
        self._check_class(klass)
        if rows.shape[0] != most.shape[0]:
            raise ValueError(f"{most.shape[0]} numbers for {rows.shape[0]} rows")
        for i in range(rows.shape[0]):
            if 0 <= rows[i] < self.tree.rows:
                self.most[klass, rows[i]] = most[i]

    def lower(self, Py_ssize_t klass, Py_ssize_t row, int32_t most):
        self._check_class(klass)
        if row < 0 or row >= self.tree.rows:
            raise IndexError(f"row {row} of {self.tree.rows}")
        self.most[klass, row] = min(self.most[klass, row], most)

    def set_existing(self, const int32_t[::1] rows, const int64_t[::1] counts):
        self.row_existing = self._by_row(rows, counts)
        self.existing = self.tree.sums(self.row_existing)

    cdef _by_row(self, const int32_t[::1] rows, const int64_t[::1] values):
        cdef Py_ssize_t i
        if rows.shape[0] != values.shape[0]:
            raise ValueError(f"{values.shape[0]} values for {rows.shape[0]} rows")
        answer = np.zeros(self.tree.rows, np.int64)
        cdef int64_t[::1] by_row = answer
        for i in range(rows.shape[0]):
            if 0 <= rows[i] < self.tree.rows:
                by_row[rows[i]] += values[i]
        return answer

    cdef _check_class(self, Py_ssize_t klass):
        if klass < 0 or klass >= self.classes:
            raise IndexError(f"class {klass} of {self.classes}")

    # Slots

    def roll_up(self):
        cdef TopologyTree tree = self.tree
        cdef Py_ssize_t i
        cdef int32_t domain
        cdef int64_t slots, of_rows = self.multiple[tree.depth + 1]
        self.slots[:] = 0
        for i in range(tree.rows):
            domain = tree.row_domain[i]
            if domain == NO_DOMAIN:
                self.row_slots[i] = 0
                continue
            if self.classes == 1:
                slots = min(<int64_t> self.most[0, i], self.wanted[0])
            else:
                self.left[:] = self.wanted
                slots = self._fill_with_all(i, self.demand, False)
            slots -= slots % of_rows
            self.row_slots[i] = slots
            self.slots[domain] += slots
        for i in range(tree.order.shape[0] - 1, -1, -1):
            domain = tree.order[i]
            self.slots[domain] -= self.slots[domain] % self.multiple[tree.level[domain]]
            if i:
                self.slots[tree.parent[domain]] += self.slots[domain]

    cdef int64_t _fill_with_all(self, Py_ssize_t row, int64_t limit, bint record) except -1:
        # Fill a row with members of all classes that are left, those first that few rows take. Return how many that are.
        cdef NodeTable table = self.table
        cdef Py_ssize_t i, j, klass, resource
        cdef int64_t fits, free, placed = 0
        cdef Request request
        for i in range(self.classes):
            klass = self.class_order[i]
            fits = min(min(<int64_t> self.most[klass, row], self.left[klass]), limit - placed)
            if fits <= 0:
                continue
            request = self.requests[klass]
            if request is not None:
                for j in range(request.ids.shape[0]):
                    resource = request.ids[j]
                    # Unsigned: a sum that has wrapped wraps here as it does in Go instead of being undefined.
                    free = <int64_t> (<uint64_t> table.allocatable[resource, row] - <uint64_t> table.requested[resource, row])
                    free -= self.taken[resource]
                    if free < request.amounts[j]:
                        fits = 0
                        break
                    fits = min(fits, free // request.amounts[j])
                if fits <= 0:
                    continue
                for j in range(request.ids.shape[0]):
                    self.taken[request.ids[j]] += fits * request.amounts[j]
            placed += fits
            if record:
                self.left[klass] -= fits
                self.placed.append((row, klass, fits))
        for i in range(self.classes):
            request = self.requests[i]
            if request is not None:
                for j in range(request.ids.shape[0]):
                    self.taken[request.ids[j]] = 0
        return placed

    def slots_of_level(self, Py_ssize_t level):
        self._check_level(level)
        cdef TopologyTree tree = self.tree
        if level == tree.depth + 1:
            rows = np.flatnonzero(np.asarray(tree.row_domain) != NO_DOMAIN).astype(np.int32)
            return rows, np.asarray(self.row_slots)[rows]
        found = np.asarray(tree.order[tree.level_end[level - 1] if level else 0:tree.level_end[level]])
        return found.copy(), np.asarray(self.slots)[found]

    def slots_of_rows(self):
        return np.asarray(self.row_slots).copy()

    cdef _check_level(self, Py_ssize_t level):
        if level < 0 or level > self.tree.depth + 1:
            raise IndexError(f"level {level} of {self.tree.depth + 2}")

    # Placement

    def find(self, Py_ssize_t level, const uint8_t[::1] allowed=None):
        self._check_level(level)
        cdef Py_ssize_t known = self.tree.rows if level == self.tree.depth + 1 else self.tree.domains
        if allowed is not None and allowed.shape[0] != known:
            raise ValueError(f"{allowed.shape[0]} flags for {known} domains or rows")
        self._open(level, allowed)
        cdef Py_ssize_t at, best, first = level
        cdef int64_t placed
        for at in range(level, self.tree.depth + 2):
            if self.demand % self.multiple[at]:
                first = at + 1  # no domain of this layer takes all members, but one inside of it may
        for at in range(self.tree.depth + 1, first - 1, -1):
            while (best := self._best(at)) >= 0:
                self.placed, self.is_broken = [], False
                self.left[:] = self.wanted
                if at > self.tree.depth:
                    placed = self._fill_row(best, self.demand)
                    self.open_row[best] = 0
                else:
                    placed = self._fill_domain(best, self.demand)
                    self.open_domain[best] = 0
                if placed == self.demand and not self.is_broken:
                    return self.placed
        return None

    cdef void _open(self, Py_ssize_t level, const uint8_t[::1] allowed) noexcept:
        # Find the domains that may hold all members: those of the level with so many slots, and what is in them.
        cdef TopologyTree tree = self.tree
        cdef Py_ssize_t i
        cdef int32_t domain
        cdef bint is_open
        self.open_domain[:] = 0
        for i in range(tree.order.shape[0]):
            domain = tree.order[i]
            if tree.level[domain] < level or self.slots[domain] < self.demand:
                continue
            if tree.level[domain] == level:
                is_open = allowed is None or allowed[domain] != 0
            else:
                is_open = self.open_domain[tree.parent[domain]] != 0
            self.open_domain[domain] = is_open
        for i in range(tree.rows):
            if tree.row_domain[i] == NO_DOMAIN or self.row_slots[i] < self.demand:
                self.open_row[i] = 0
            elif level == tree.depth + 1:
                self.open_row[i] = allowed is None or allowed[i] != 0
            else:
                self.open_row[i] = self.open_domain[tree.row_domain[i]]

    cdef Py_ssize_t _best(self, Py_ssize_t level) noexcept:
        # Return the open domain of the level, or row, that comes first; -1: none is open.
        cdef TopologyTree tree = self.tree
        cdef Py_ssize_t i, best = -1
        if level > tree.depth:
            for i in range(tree.rows):
                if self.open_row[i] and (best < 0 or self._is_better(i, best, True)):
                    best = i
            return best
        for i in range(tree.level_end[level - 1] if level else 0, tree.level_end[level]):
            if self.open_domain[tree.order[i]] and (best < 0 or self._is_better(tree.order[i], best, False)):
                best = tree.order[i]
        return best

    cdef bint _is_better(self, Py_ssize_t a, Py_ssize_t b, bint rows) noexcept:
        # Compare two candidates of one level: more existing pods, then fewer slots, each their own and then those of what they are in,
        # then the name.
        cdef TopologyTree tree = self.tree
        cdef Py_ssize_t above_a, above_b
        if rows:
            if self.row_existing[a] != self.row_existing[b]:
                return self.row_existing[a] > self.row_existing[b]
            above_a, above_b = tree.row_domain[a], tree.row_domain[b]
        else:
            above_a, above_b = a, b
        cdef Py_ssize_t x = above_a, y = above_b
        while x != y:  # both are on one level: the last common domain is the root
            if self.existing[x] != self.existing[y]:
                return self.existing[x] > self.existing[y]
            x, y = tree.parent[x], tree.parent[y]
        if rows and self.row_slots[a] != self.row_slots[b]:
            return self.row_slots[a] < self.row_slots[b]
        x, y = above_a, above_b
        while x != y:
            if self.slots[x] != self.slots[y]:
                return self.slots[x] < self.slots[y]
            x, y = tree.parent[x], tree.parent[y]
        if rows:
            return tree.row_rank[a] < tree.row_rank[b]
        return tree.rank[a] < tree.rank[b]

    cdef int64_t _fill_domain(self, Py_ssize_t domain, int64_t limit) except -1:
        # Give a domain so many members at most, the largest of what it contains first. Return how many it got.
        cdef TopologyTree tree = self.tree
        cdef int64_t multiple = self.multiple[tree.level[domain]]
        cdef int64_t amount = min(self.slots[domain], limit)
        cdef bint rows = tree.level[domain] == tree.depth
        cdef int32_t[::1] items = self.members if rows else self.children
        cdef Py_ssize_t begin = tree.begin[domain], size
        amount -= amount % multiple
        cdef int64_t left = amount
        if not amount:
            return 0
        size = self._make_heap(items, begin, tree.end[domain], rows)
        while left and size:
            item = self._pop(items, begin, size, rows)
            size -= 1
            left -= self._fill_row(item, left) if rows else self._fill_domain(item, left)
        self.is_broken |= (amount - left) % multiple != 0
        return amount - left

    cdef int64_t _fill_row(self, Py_ssize_t row, int64_t limit) except -1:
        cdef int64_t multiple = self.multiple[self.tree.depth + 1]
        cdef int64_t amount = min(self.row_slots[row], limit), placed
        amount -= amount % multiple
        if not amount:
            return 0
        if self.classes == 1:
            self.left[0] -= amount
            self.placed.append((row, 0, amount))
            return amount
        placed = self._fill_with_all(row, amount, True)
        self.is_broken |= placed % multiple != 0
        return placed

    # A segment as a heap, of which only what comes first is needed

    cdef bint _comes_first(self, int32_t a, int32_t b, bint rows) noexcept:
        # Compare two rows or domains of one domain: more existing pods, more slots, the name.
        if rows:
            if self.row_existing[a] != self.row_existing[b]:
                return self.row_existing[a] > self.row_existing[b]
            if self.row_slots[a] != self.row_slots[b]:
                return self.row_slots[a] > self.row_slots[b]
            return self.tree.row_rank[a] < self.tree.row_rank[b]
        if self.existing[a] != self.existing[b]:
            return self.existing[a] > self.existing[b]
        if self.slots[a] != self.slots[b]:
            return self.slots[a] > self.slots[b]
        return self.tree.rank[a] < self.tree.rank[b]

    cdef Py_ssize_t _make_heap(self, int32_t[::1] items, Py_ssize_t begin, Py_ssize_t end, bint rows) noexcept:
        # Order the items that have slots as a heap at the beginning of the segment. Return how many these are.
        cdef Py_ssize_t i, size = 0
        for i in range(begin, end):
            if (self.row_slots[items[i]] if rows else self.slots[items[i]]) > 0:
                items[begin + size], items[i] = items[i], items[begin + size]
                size += 1
        for i in range(size // 2 - 1, -1, -1):
            self._sift(items, begin, size, i, rows)
        return size

    cdef int32_t _pop(self, int32_t[::1] items, Py_ssize_t begin, Py_ssize_t size, bint rows) noexcept:
        # Take what comes first to the end of the heap, which ends before it from now on.
        items[begin], items[begin + size - 1] = items[begin + size - 1], items[begin]
        self._sift(items, begin, size - 1, 0, rows)
        return items[begin + size - 1]

    cdef void _sift(self, int32_t[::1] items, Py_ssize_t begin, Py_ssize_t size, Py_ssize_t i, bint rows) noexcept:
        cdef Py_ssize_t child
        while (child := 2 * i + 1) < size:
            if child + 1 < size and self._comes_first(items[begin + child + 1], items[begin + child], rows):
                child += 1
            if not self._comes_first(items[begin + child], items[begin + i], rows):
                return
            items[begin + child], items[begin + i] = items[begin + i], items[begin + child]
            i = child
