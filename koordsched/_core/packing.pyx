"""A search for a packing: how many members of each kind go to each node (coscheduling.md §17)."""

cimport cython

import numpy as np

from libc.stdint cimport int64_t

# What is counted as work, in amounts that are looked at, so that the time is in proportion (bench_gangs.bench_packing_that_fails).
cdef int64_t STEP_WORK = 128  # of a combination that is tried, or begun
cdef int64_t COUNT_WORK = 16  # of a kind, of a combination that is compared with others


@cython.final
cdef class PackingSearch:

    def __init__(
        self, free, slots, units, counted, kinds, needs, dict forbidden not None, int64_t most_work, Py_ssize_t most_combinations
    ):
        class_of, gang_of, sizes = kinds
        self.nodes, self.resources = free.shape
        self.classes, self.kinds = len(units), len(sizes)
        if slots.shape != (self.nodes, self.classes) or units.shape != (self.classes, self.resources) or len(counted) != self.classes:
            raise ValueError("free, slots, units and counted do not go together")
        if not len(class_of) == len(gang_of) == self.kinds:
            raise ValueError("each kind has a class, a gang and a size")
        if self.kinds and not (0 <= class_of.min() and class_of.max() < self.classes and 0 <= gang_of.min() and gang_of.max() < len(needs)):
            raise IndexError("a kind is of a class or gang that there is not")
        for vectors in forbidden.values():
            if vectors.shape[1] != self.classes:
                raise ValueError("what a node does not take is a number for each class")
        self.free, self.slots, self.units, self.counted = free, slots, units, counted
        self.class_of, self.gang_of, self.sizes, self.needs = class_of, gang_of, sizes, needs
        self.forbidden, self.most_work, self.most_combinations = forbidden, most_work, most_combinations
        self.work = 0
        self.step_work = STEP_WORK + self.resources + self.classes
        self.combination_work = self.kinds * (COUNT_WORK + 2 * self.resources)
        rest = np.zeros((self.nodes + 1, self.classes), np.int64)
        rest[: self.nodes] = np.cumsum(slots[::-1], axis=0)[::-1]
        self.rest = rest
        self.left = sizes.copy()
        self.reach = np.zeros(len(needs), np.int64)
        self.taken = np.zeros(self.kinds, np.int64)
        self.room = np.zeros((self.kinds + 1, self.resources), np.int64)
        self.open = np.zeros((self.kinds + 1, self.classes), np.int64)
        self.built = np.zeros((most_combinations, self.kinds), np.int64)
        self.there = np.zeros(self.classes, np.int64)

    def run(self):
        cdef set failed = set()  # (node, members left): from this node on there is no place for them
        cdef list path = []      # (node, its combination, iterator of those that come after it)
        cdef Py_ssize_t at, node = 0
        while not self._is_enough(self.nodes):
            key = (node, bytes(self.left))
            if key not in failed and self._is_enough(node):
                options, at = iter(self._options(node)), node
            elif not path:
                return None
            else:
                at, taken, options = path.pop()
                self._add(taken, 1)
            # The next combination of the node at hand, or of the last one that has another.
            taken = next(options, None)
            while taken is None or self.work > self.most_work:
                failed.add((at, bytes(self.left)))
                if not path or self.work > self.most_work:
                    return None
                at, taken, options = path.pop()
                self._add(taken, 1)
                taken = next(options, None)
            self.work += self.step_work + self.kinds
            path.append((at, taken, options))
            self._add(taken, -1)
            node = at + 1
        return [(at, taken) for at, taken, _ in path if any(taken)]

    cdef _add(self, tuple taken, int64_t sign):
        cdef Py_ssize_t k
        for k in range(self.kinds):
            self.left[k] += sign * <int64_t> taken[k]

    cdef bint _is_enough(self, Py_ssize_t node):
        # Return whether each gang has the members it needs, those counted that the slots of the nodes from this one on might take: a bound.
        # Behind the last node that is no bound: whether all is done.
        cdef Py_ssize_t k, g
        self.reach[:] = 0
        for k in range(self.kinds):
            self.reach[self.gang_of[k]] += self.sizes[k] - self.left[k] + min(self.left[k], self.rest[node, self.class_of[k]])
        for g in range(self.needs.shape[0]):
            if self.reach[g] < self.needs[g]:
                return False
        return True

    # The combinations of one node

    cdef list _options(self, Py_ssize_t node):
        # Return the combinations that leave the node no room for one more member, those that use most of it first.
        cdef Py_ssize_t i, k
        vectors = self.forbidden.get(node)
        self.is_limited = vectors is not None and len(vectors) > 0
        if self.is_limited:
            self.vectors = vectors
        self.count = 0
        self._empty(node)
        self._extend(0)
        found = []
        for i in range(self.count):
            if self.work > self.most_work:
                return []
            self.work += self.combination_work
            if not self._has_room(node, self.built[i]):
                found.append((-self._use(node, self.built[i]), i))
        found.sort()
        return [tuple([self.built[i, k] for k in range(self.kinds)]) for _, i in found]

    cdef _empty(self, Py_ssize_t node):
        # Set what is free of the node before any member is taken.
        cdef Py_ssize_t r, c
        for r in range(self.resources):
            self.room[0, r] = self.free[node, r]
        for c in range(self.classes):
            self.open[0, c] = self.slots[node, c]

    cdef _extend(self, Py_ssize_t k):
        # Build the combinations that begin with `taken[:k]`, larger numbers first.
        cdef Py_ssize_t r, c, number
        cdef int64_t most, count
        if k == self.kinds:
            if self.count < self.most_combinations and self._is_allowed(self.taken):
                self.built[self.count, :] = self.taken
                self.count += 1
            return
        number = self.class_of[k]
        most = min(self.left[k], self.open[k, number])
        if self.counted[number]:
            for r in range(self.resources):
                if self.units[number, r]:
                    most = min(most, max(<int64_t> 0, self.room[k, r]) // self.units[number, r])
        count = most
        while count >= 0:
            if self.count >= self.most_combinations or self.work > self.most_work:
                return
            self.work += self.step_work
            for r in range(self.resources):
                self.room[k + 1, r] = self.room[k, r] - (count * self.units[number, r] if self.counted[number] else 0)
            for c in range(self.classes):
                self.open[k + 1, c] = self.open[k, c]
            self.open[k + 1, number] -= count
            self.taken[k] = count
            self._extend(k + 1)
            if k + 1 == self.kinds and not self.is_limited:
                return  # fewer of the last kind leave room for one more
            count -= 1

    cdef bint _is_allowed(self, const int64_t[::1] taken):
        cdef Py_ssize_t i, k, c
        if not self.is_limited:
            return True
        self.there[:] = 0
        for k in range(self.kinds):
            self.there[self.class_of[k]] += taken[k]
        for i in range(self.vectors.shape[0]):
            for c in range(self.classes):
                if self.there[c] < self.vectors[i, c]:
                    break
            else:
                return False
        return True

    cdef bint _has_room(self, Py_ssize_t node, int64_t[::1] taken):
        # Return whether one more member could go there beside these.
        cdef Py_ssize_t k, r, number
        cdef bint fits
        self._empty(node)
        for k in range(self.kinds):
            number = self.class_of[k]
            self.open[0, number] -= taken[k]
            if self.counted[number]:
                for r in range(self.resources):
                    self.room[0, r] -= taken[k] * self.units[number, r]
        for k in range(self.kinds):
            number = self.class_of[k]
            if taken[k] >= self.left[k] or self.open[0, number] <= 0:
                continue
            fits = True
            if self.counted[number]:
                for r in range(self.resources):
                    fits = fits and (not self.units[number, r] or self.units[number, r] <= self.room[0, r])
            if not fits:
                continue
            taken[k] += 1
            fits = self._is_allowed(taken)
            taken[k] -= 1
            if fits:
                return True
        return False

    cdef double _use(self, Py_ssize_t node, const int64_t[::1] taken):
        # Return what part of the node's resources the combination takes, summed over them.
        cdef Py_ssize_t k, r, number
        cdef double total = 0.0, share
        for k in range(self.kinds):
            number = self.class_of[k]
            if not self.counted[number]:
                continue
            share = 0.0
            for r in range(self.resources):
                share += <double> self.units[number, r] / <double> max(<int64_t> 1, self.free[node, r])
            total += taken[k] * share
        return total
