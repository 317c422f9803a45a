"""Which running pods a Reservation takes over on which rows, so that it fits there (reservation.md §13)."""

import numpy as np

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint32_t

from koordsched._core.reservations cimport Shortages
from koordsched._core.rows cimport Rows, codes_in, rows_of, scores_in, zero_codes, zero_scores
from koordsched._core.table cimport NodeTable, Request, RESOURCE_PODS

cnp.import_array()

cdef extern from *:
    """
    typedef __int128 koordsched_wide;
    """
    ctypedef long long wide "koordsched_wide"

cdef int64_t UNBOUNDED = 0x7fffffffffffffff
cdef int64_t FULL = 100


@cython.final
cdef class CandidateRows:

    def __init__(self, NodeTable table not None):
        self.table = table
        self.rows = {}
        self.most = 0

    def set_row(self, row, requests):
        pods = [<Request?> request for request in requests]
        if pods:
            self.table.check_row(row)
            self.rows[row] = pods
            self.most = max(self.most, len(pods))
        else:
            self.rows.pop(row, None)


@cython.final
cdef class PreAllocatable:

    def __init__(self, CandidateRows candidates not None, Request request not None, limits, *, most, int64_t weights, bint multiple,
                 bint by_score, bint required, bint prefers_none):
        cdef Py_ssize_t j
        count = request.ids.shape[0]
        if count > MAX_AMOUNTS:
            raise ValueError(f"a request of {count} resources: a mask holds {MAX_AMOUNTS}")
        self.candidates = candidates
        self.table = candidates.table
        self.request = request
        self.limit = np.full(count, UNBOUNDED, np.int64)
        self.named = np.zeros(count, np.uint8)
        for j in range(count):
            if request.ids[j] == RESOURCE_PODS:
                self.named[j] = 1
            elif request.names[j] in limits:
                self.named[j], self.limit[j] = 1, limits[request.names[j]]
        self.most = UNBOUNDED if most is None else most
        self.weights = weights
        self.multiple = multiple
        self.by_score = by_score
        self.required = required
        self.prefers_none = prefers_none
        self._reserve(8)

    cdef int _reserve(self, Py_ssize_t pods) except -1:
        self.chosen = np.zeros(pods, np.uint8)
        self.sequence = np.zeros(pods, np.int32)
        self.score_of = np.zeros(pods, np.int64)
        return 0

    def filter(self, cnp.ndarray rows not None, Shortages shortages not None):
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray codes = zero_codes(asked)
        cdef int32_t* out = codes_in(codes)
        cdef Py_ssize_t i
        cdef Choice choice
        self._check()
        for i in range(asked.count):
            choice = self._at(asked.at[i])
            if not choice.fits:
                out[i] = shortages.code(choice.node, choice.inside, 0)
        return codes

    def scores(self, cnp.ndarray rows not None):
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray found = zero_scores(asked)
        cdef int64_t* out = scores_in(found)
        cdef Py_ssize_t i
        cdef Choice choice
        self._check()
        for i in range(asked.count):
            choice = self._at(asked.at[i])
            if self.multiple:
                out[i] = FULL // (1 + choice.pods)
            elif choice.pods:
                out[i] = choice.score
        return found

    def choose(self, row):
        cdef Choice choice
        cdef Py_ssize_t i
        self._check()
        self.table.check_row(row)
        pods = self.candidates.rows.get(row)
        if pods is None and self.required:
            return None, 0, 0
        choice = self._look(row, [] if pods is None else <list> pods, True)
        if not choice.fits:
            return None, choice.node, choice.inside
        if not choice.pods:
            return [], 0, 0
        if not self.multiple:
            return [choice.first], 0, 0
        return [self.sequence[i] for i in range(len(pods)) if self.chosen[self.sequence[i]]], 0, 0

    cdef int _check(self) except -1:
        if self.request.largest >= self.table.resources:
            raise IndexError(f"resource {self.request.largest} of {self.table.resources}")
        if self.candidates.most > self.chosen.shape[0]:
            self._reserve(2 * self.candidates.most)
        return 0

    cdef Choice _at(self, Py_ssize_t row):
        """Decide for a row that counts neither the reserve pod nor its own pods; without pods it is another filter's matter what fits."""
        cdef Choice choice
        pods = self.candidates.rows.get(row)
        if pods is not None:
            return self._look(row, <list> pods, False)
        choice.fits, choice.node, choice.inside, choice.pods, choice.first, choice.score = not self.required, 0, 0, 0, -1, -1
        return choice

    cdef Choice _look(self, Py_ssize_t row, list pods, bint counted) noexcept:
        """Decide for a row. counted: the row counts the reserve pod and its own pods; otherwise neither."""
        cdef int64_t free[MAX_AMOUNTS]
        cdef int64_t amounts[MAX_AMOUNTS]
        cdef Py_ssize_t j, k, count = self.request.ids.shape[0]
        cdef Choice choice
        cdef uint32_t node
        for j in range(count):
            k = self.request.ids[j]
            free[j] = self.table.allocatable[k, row] - self.table.requested[k, row]
            if counted:
                free[j] += self.request.amounts[j]
        if not counted:
            for pod in pods:
                self._amounts_of(<Request> pod, amounts)
                for j in range(count):
                    free[j] -= amounts[j]
        choice.fits, choice.node, choice.inside, choice.pods, choice.first, choice.score = False, 0, 0, 0, -1, -1
        for j in range(count):
            amounts[j] = 0
        node = self._short(free, amounts)
        if self.prefers_none and not self.required and not node:
            choice.fits = True
            return choice
        if self.multiple:
            self._take_several(pods, free, &choice)
        else:
            self._take_one(pods, free, &choice)
        if choice.fits or self.required:
            return choice
        choice.inside = 0
        if not choice.node:
            choice.node, choice.fits = node, not node
        return choice

    cdef void _take_one(self, list pods, const int64_t* free, Choice* choice) noexcept:
        """Choose the pod that makes the Reservation the fullest, the first of equal ones."""
        cdef int64_t amounts[MAX_AMOUNTS]
        cdef Py_ssize_t i
        cdef uint32_t node, inside
        cdef int64_t score
        for i in range(len(pods)):
            if not self._amounts_of(<Request> pods[i], amounts):
                continue
            node, inside = self._short(free, amounts), self._exceeded(amounts, 1)
            if node or inside:
                choice.node |= node
                choice.inside |= inside
                continue
            score = self._score(amounts)
            if score > choice.score:
                choice.fits, choice.pods, choice.first, choice.score = True, 1, <int32_t> i, score

    cdef void _take_several(self, list pods, const int64_t* free, Choice* choice) noexcept:
        """Add pods as long as the Reservation does not fit, leaving out those that are more than it holds; by score the fullest come first.

        As in the reference, a pod is added whether or not it helps, and what the row is short of is what it was at the last one tried.
        """
        cdef int64_t amounts[MAX_AMOUNTS]
        cdef int64_t taken[MAX_AMOUNTS]
        cdef int64_t trial[MAX_AMOUNTS]
        cdef Py_ssize_t i, j, place, count = self.request.ids.shape[0]
        cdef uint32_t inside
        for j in range(count):
            taken[j] = 0
        self._order(pods)
        for place in range(len(pods)):
            i = self.sequence[place]
            if not self._amounts_of(<Request> pods[i], amounts):
                continue
            for j in range(count):
                trial[j] = taken[j] + amounts[j]
            choice.node = self._short(free, trial)
            inside = self._exceeded(trial, choice.pods + 1)
            if inside:
                choice.inside |= inside
                continue
            for j in range(count):
                taken[j] = trial[j]
            self.chosen[i] = 1
            choice.pods += 1
            if not choice.node:
                choice.fits = True
                return
        choice.pods = 0

    cdef void _order(self, list pods) noexcept:
        """Choose none of the pods yet, and write in which order they are tried."""
        cdef int64_t amounts[MAX_AMOUNTS]
        cdef Py_ssize_t i, place
        cdef int64_t score
        for i in range(len(pods)):
            self.chosen[i] = 0
            place = i
            if self.by_score:
                self._amounts_of(<Request> pods[i], amounts)
                score = self.score_of[i] = self._score(amounts)
                while place and self.score_of[self.sequence[place - 1]] < score:
                    self.sequence[place] = self.sequence[place - 1]
                    place -= 1
            self.sequence[place] = <int32_t> i

    cdef bint _amounts_of(self, Request pod, int64_t* amounts) noexcept:
        """Write what the pod has of each entry of the request; answer whether it has any that owners take from the Reservation."""
        cdef Py_ssize_t i, j, count = pod.ids.shape[0]
        cdef int32_t k
        cdef bint shares = False
        for j in range(self.request.ids.shape[0]):
            amounts[j] = 0
            k = self.request.ids[j]
            for i in range(count):
                if pod.ids[i] == k and i < pod.counted:
                    amounts[j] = pod.amounts[i]
                    break
            if amounts[j] and self.named[j] and k != RESOURCE_PODS:
                shares = True
        return shares

    cdef uint32_t _short(self, const int64_t* free, const int64_t* returned) noexcept:
        """Return of what the row is short for the Reservation, once pods that have this draw on it: what it gives them is counted once."""
        cdef Py_ssize_t j
        cdef uint32_t short = 0
        for j in range(self.request.ids.shape[0]):
            if self.request.amounts[j] > free[j] + (returned[j] if self.named[j] else 0):
                short |= <uint32_t> 1 << j
        return short

    cdef uint32_t _exceeded(self, const int64_t* taken, int64_t pods) noexcept:
        """Return of what so many pods, which have this together, want more than owners may have."""
        cdef Py_ssize_t j
        cdef uint32_t exceeded = 0
        for j in range(self.request.ids.shape[0]):
            if self.request.ids[j] == RESOURCE_PODS:
                if pods > self.most:
                    exceeded |= <uint32_t> 1 << j
            elif self.named[j] and taken[j] > self.limit[j]:
                exceeded |= <uint32_t> 1 << j
        return exceeded

    cdef int64_t _score(self, const int64_t* amounts) noexcept:
        """Return how full a pod makes the Reservation, 0 to 100, over all resources that it holds (MostAllocated)."""
        # 100 times an amount may be more than int64 holds: memory beyond 83 TiB.
        cdef Py_ssize_t j
        cdef int64_t total = 0, whole
        if not self.weights:
            return 0
        for j in range(self.request.ids.shape[0]):
            whole = self.request.amounts[j]
            if self.request.ids[j] != RESOURCE_PODS and amounts[j] <= whole:
                total += <int64_t> (<wide> FULL * amounts[j] / whole)
        return total // self.weights
