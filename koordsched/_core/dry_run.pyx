"""The dry run of preemption on all rows at once: the victims of each row, and how the rows compare.

Amounts decide, and of the preemptor's other filters those that say what they would answer while pods are removed (`RemovalFilter`). These
take ten times as long as amounts, so a row is asked about only when its answer is needed: until then it has a rank that no victims of it
go below, and most rows cannot be the best by that (bench_deviceshare.py, "first attempt").
"""

import numpy as np

cimport cython
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from libc.string cimport memset

from koordsched._core.prefetch cimport ROWS_AHEAD, prefetch

cdef int64_t WEIGHT = <int64_t> 1 << 31  # added to each priority, so that the sum grows with every victim; no enum: those are C ints
cdef int32_t LEAST = -2147483648  # of priorities
cdef int64_t MOST_SLOTS = 1 << 20
cdef int MOST_PROMISING = 8  # rows that are asked about in the order of what they promise; finding each takes a look at all rows
cdef int64_t VIOLATION = <int64_t> 1 << 46  # added for each victim that violates a budget: more than thousands of victims cost


@cython.final
cdef class DryRun:

    def __init__(
        self, PodIndex index not None, PodIndex nominated not None, int32_t priority, Request request not None, int32_t group=0, release=(),
        others=(),
    ):
        cdef Py_ssize_t j
        if request.ids.shape[0] > MOST_IDS:
            raise ValueError(f"a request of {request.ids.shape[0]} resources: a reason code holds {MOST_IDS}")
        self.index = index
        self.log = LogReader(index.table)
        self.nominated = nominated
        if len(release) > MOST_IDS:
            raise ValueError(f"amounts of {len(release)} resources are to be released: {MOST_IDS} can be")
        self.priority = priority
        self.group = group
        self.request = request
        self.others = tuple(others)
        self.width = request.ids.shape[0]
        self.wide = self.width + len(release)
        self.largest = request.largest
        for j in range(self.width):
            self.ids[j] = request.ids[j]
            self.needed[j] = request.amounts[j]
            self.release[j] = 0
        for j, (resource, amount) in enumerate(release, self.width):
            if resource < 0:
                raise IndexError(f"resource {resource}")
            self.ids[j] = resource
            self.needed[j] = 0
            self.release[j] = amount
            self.largest = max(self.largest, self.ids[j])
        self.index_generation = -1
        self.violating = self.victim = np.zeros(0, np.uint8)
        self.left = np.zeros(0, np.int64)

    def __dealloc__(self):
        PyMem_Free(self.rank)

    def refresh(self):
        """Bring all rows up to date: O(rows that changed), or all of them after a change that concerns all."""
        cdef PodIndex index = self.index, nominated = self.nominated
        cdef NodeTable table = index.table
        cdef Py_ssize_t row, i
        cdef int32_t[::1] changed
        cdef UndoneTurn undone
        self._prepare()
        found = None
        if self.index_generation == index.generation and self.nominated_generation == nominated.generation:
            found = table.changes_since(self.log.position) if self.log.reaches() else None
        if (
            found is None
            or self.capacity != table.capacity
            or index.log_end - self.index_position > LOG_ROWS
            or nominated.log_end - self.nominated_position > LOG_ROWS
        ):
            self._start_over()
            for row in range(table.extent()):
                self._expect(row + ROWS_AHEAD)
                self._row(row, False)
        else:
            undone = self.log.undone
            if undone is not None:
                for i in range(undone.rows.shape[0]):
                    self._row(undone.rows[i], True)
            changed = found[0]
            for i in range(changed.shape[0]):
                self._row(changed[i], True)
            for i in range(self.index_position, index.log_end):
                self._row(index.log[i & (LOG_ROWS - 1)], True)
            for i in range(self.nominated_position, nominated.log_end):
                self._row(nominated.log[i & (LOG_ROWS - 1)], True)
        self.log.done()
        self.index_position = index.log_end
        self.index_generation = index.generation
        self.nominated_position = nominated.log_end
        self.nominated_generation = nominated.generation

    cdef int _prepare(self) except -1:
        cdef PodIndex index = self.index, nominated = self.nominated
        if self.violating.shape[0] < index.widest:
            self.violating = np.zeros(2 * index.widest, np.uint8)
            self.victim = np.zeros(2 * index.widest, np.uint8)
        if self.left.shape[0] != index.allowed.shape[0]:
            self.left = np.zeros(index.allowed.shape[0], np.int64)
        if self.largest >= index.amounts.shape[1]:
            index._widen(0, self.largest + 1)
        if self.largest >= nominated.amounts.shape[1]:
            nominated._widen(0, self.largest + 1)
        self.amounts = &index.amounts[0, 0]
        self.stride = index.amounts.shape[1]
        self.priorities = &index.priorities[0]
        self.nominated_amounts = &nominated.amounts[0, 0]
        self.nominated_stride = nominated.amounts.shape[1]
        self.nominated_priorities = &nominated.priorities[0]
        return 0

    def _start_over(self):
        cdef Py_ssize_t capacity = self.index.table.capacity, kind, j
        for j in range(self.width):
            self.most[j] = 0
            for kind in range(self.index.uses.shape[0]):
                if self.index.uses[kind]:
                    self.most[j] = max(self.most[j], self.amounts[kind * self.stride + self.ids[j]])
        self.capacity = capacity
        self.code = np.full(capacity, ABSENT, np.int32)
        self.refusal = np.zeros(capacity if self.others else 1, np.int32)
        self.refused_by = np.zeros(self.refusal.shape[0], np.int32)
        PyMem_Free(self.rank)
        self.rank = NULL  # or it would be freed twice if the next line fails
        self.rank = <Rank*> PyMem_Calloc(capacity, sizeof(Rank))
        if self.rank == NULL:
            raise MemoryError

    cdef void _expect(self, Py_ssize_t row) noexcept:
        # Prefetch what is read of the row, of its pods only the ends: half of the time (bench_deviceshare.py, "first attempt").
        cdef PodIndex index = self.index
        cdef Py_ssize_t count
        if row >= index.capacity or not index.counts[row]:
            return
        count = index.counts[row]
        prefetch(index.pods[row])
        prefetch(&index.pods[row][count - 1])

    # One row

    cdef int _row(self, Py_ssize_t row, bint ask) except -1:
        """Evict pods of lower priority from the row until the preemptor fits, then reprieve as many as possible.

        The least important go first. Where more room never harms, as is the rule, those before them would be the first to be put back, so
        they need not be evicted at all; else, and where disruption budgets order the reprieve, all are.

        ask: False leaves a row whose amounts suffice UNASKED if there are other filters.
        """
        cdef LowerPods lower
        cdef Py_ssize_t i
        cdef int32_t least
        if not 0 <= row < self.capacity:
            raise IndexError(f"row {row} of {self.capacity}")
        if not self.index.table.live[row]:
            self.code[row] = ABSENT
            return 0
        lower = self._lower_pods(row)
        self._begin_row(row)
        ask = ask or not self.others
        least = 0 if ask else self._fewest_victims()
        if not self._evict_until_enough(&lower, ask and self._has_budgets(lower)):
            self.code[row] = NO_VICTIM
            return 0
        self.code[row] = self._shortage()
        for i in range(self.width, self.wide):
            if self.free[i] < 0:
                self.code[row] = OVER_LIMIT
        if self.code[row] == FITS and not ask:
            self.code[row] = UNASKED
            self._bound(row, &lower, least)
            return 0
        if self.code[row] != FITS or (self.others and not self._others_pass(row, &lower)):
            return 0
        self._find_violating(lower)
        for i in range(lower.evicted, lower.end):
            if self.violating[i]:
                self._reprieve(lower.pods, i)
        for i in range(lower.evicted, lower.end):
            if not self.violating[i]:
                self._reprieve(lower.pods, i)
        if self.others:
            for i in range(lower.evicted, lower.end):
                if self.victim[i]:
                    self._put_back(i)
            self._end_others()
        self._sum_up(row, lower)
        return 0

    cdef int32_t _fewest_victims(self) noexcept:
        # Return how many pods have to be evicted at least, whichever they are, for free[] to become enough.
        cdef int64_t least = 1
        cdef Py_ssize_t j
        for j in range(self.width):
            if self.needed[j] > self.free[j] and self.most[j] > 0:
                least = max(least, (self.needed[j] - self.free[j] + self.most[j] - 1) // self.most[j])
        return <int32_t> min(least, 1 << 30)

    cdef void _bound(self, Py_ssize_t row, const LowerPods* lower, int32_t least) noexcept:
        """Write a rank that no set of victims goes below. The least important pods are evicted until amounts suffice.

        Without the last one of these they do not, so any victims include it or a more important pod.
        """
        cdef const IndexedPod* pods = lower.pods
        cdef Rank* rank = &self.rank[row]
        memset(rank, 0, sizeof(Rank))
        rank.highest = self.priorities[pods[lower.evicted].kind]
        rank.total = rank.highest + WEIGHT + (least - 1) * (self.priorities[pods[lower.end - 1].kind] + WEIGHT)
        rank.count = least
        rank.age = -pods[lower.evicted].started

    cdef bint _evict_until_enough(self, LowerPods* lower, bint all_of_them) noexcept:
        """Evict the least important pods until amounts fit, or all of them; return whether there is any."""
        cdef bint any_evicted = False
        while lower.evicted > lower.begin and (all_of_them or not any_evicted or not self._fits()):
            lower.evicted -= 1
            if self._removable(&lower.pods[lower.evicted]):
                self._shift(&lower.pods[lower.evicted], 1)
                any_evicted = True
        return any_evicted

    cdef bint _others_pass(self, Py_ssize_t row, LowerPods* lower) except -1:
        """Evict more until the other filters pass the row, too; if they do not once all are gone, note why and put them back."""
        cdef Py_ssize_t i, removed = lower.end, step = 1, place = 0
        cdef int32_t code
        if not self._begin_others(row):
            self.code[row] = UNKNOWN
            return False
        if not self._are_monotone():
            self._evict_down_to(lower, lower.begin)
        while True:
            # Invariant: of the possible victims, amounts count without pods[evicted:end], the others without pods[removed:end].
            for i in range(lower.evicted, removed):
                if self._removable(&lower.pods[i]):
                    self._remove(i)
            removed = lower.evicted
            code = self._code_of_others(&place)
            if not code:
                return True
            if lower.evicted == lower.begin:
                break
            self._evict_down_to(lower, max(lower.begin, lower.evicted - step))
            step *= 2  # that the filters are asked a few times only where a node has many pods
        self.refusal[row] = (<RemovalFilter> self.others[place]).explained(code)
        self.refused_by[row] = <int32_t> place
        self.code[row] = REFUSED
        for i in range(lower.begin, lower.end):
            if self._removable(&lower.pods[i]):
                self._put_back(i)
        self._end_others()
        return False

    cdef void _evict_down_to(self, LowerPods* lower, Py_ssize_t first) noexcept:
        while lower.evicted > first:
            lower.evicted -= 1
            if self._removable(&lower.pods[lower.evicted]):
                self._shift(&lower.pods[lower.evicted], 1)

    cdef bint _are_monotone(self) noexcept:
        for other in self.others:
            if not (<RemovalFilter> other).is_monotone():
                return False
        return True

    cdef bint _begin_others(self, Py_ssize_t row) except -1:
        cdef bint known = True
        for other in self.others:
            known = (<RemovalFilter> other).begin(row) and known
        if not known:
            self._end_others()
        return known

    cdef void _remove(self, Py_ssize_t i) noexcept:
        for other in self.others:
            (<RemovalFilter> other).remove(i)

    cdef void _put_back(self, Py_ssize_t i) noexcept:
        for other in self.others:
            (<RemovalFilter> other).put_back(i)

    cdef void _end_others(self) noexcept:
        for other in self.others:
            (<RemovalFilter> other).end()

    cdef int32_t _code_of_others(self, Py_ssize_t* place) noexcept:
        # Return the code of the first that refuses, and its place; 0: all pass.
        cdef int32_t code
        for other in self.others:
            (<RemovalFilter> other).settle()
        place[0] = 0
        for other in self.others:
            code = (<RemovalFilter> other).code()
            if code:
                return code
            place[0] += 1
        return 0

    cdef LowerPods _evict_all(self, Py_ssize_t row) noexcept:
        # Set free[] to what is free beside nominated pods when all possible victims of the row are gone.
        cdef LowerPods lower = self._lower_pods(row)
        self._begin_row(row)
        self._evict_down_to(&lower, lower.begin)
        return lower

    cdef LowerPods _lower_pods(self, Py_ssize_t row) noexcept:
        cdef PodIndex index = self.index
        cdef LowerPods lower
        cdef Py_ssize_t high, middle
        memset(&lower, 0, sizeof(LowerPods))
        if row < index.capacity:
            lower.pods = index.pods[row]
            lower.end = lower.evicted = high = index.counts[row]
            if high and self.priorities[lower.pods[0].kind] < self.priority:
                return lower  # as a rule
            # Invariant: pods before `begin` are not of a lower priority, those from `high` on are.
            while lower.begin < high:
                middle = (lower.begin + high) // 2
                if self.priorities[lower.pods[middle].kind] >= self.priority:
                    lower.begin = middle + 1
                else:
                    high = middle
        return lower

    cdef void _begin_row(self, Py_ssize_t row) noexcept:
        # What is free beside nominated pods as long as no pod is removed.
        self._begin_alone(row)
        if row < self.nominated.capacity and self.nominated.counts[row]:
            self._reserve_for_nominated(row)

    cdef void _begin_alone(self, Py_ssize_t row) noexcept:
        # What is free as long as no pod is removed, without nominated pods.
        cdef Py_ssize_t j
        cdef int32_t resource
        cdef NodeTable table = self.index.table
        for j in range(self.width):
            resource = self.ids[j]
            self.free[j] = table.allocatable[resource, row] - table.requested[resource, row] if resource < table.resources else 0
        for j in range(self.width, self.wide):
            self.free[j] = -self.release[j]

    cdef bint _removable(self, IndexedPod* pod) noexcept:
        return pod.group == self.group and not pod.excluded

    cdef void _reserve_for_nominated(self, Py_ssize_t row) noexcept:
        # Pods nominated for the row count as if they ran there, unless their priority is lower than the preemptor's.
        cdef IndexedPod* pods = self.nominated.pods[row]
        cdef const int64_t* amounts
        cdef Py_ssize_t i, j
        for i in range(self.nominated.counts[row]):
            if self.nominated_priorities[pods[i].kind] < self.priority:
                return
            amounts = self.nominated_amounts + pods[i].kind * self.nominated_stride
            for j in range(self.width):
                self.free[j] -= amounts[self.ids[j]]

    cdef void _shift(self, IndexedPod* pod, int sign) noexcept:
        cdef Py_ssize_t j
        cdef const int64_t* amounts = self.amounts + pod.kind * self.stride
        for j in range(self.wide):
            self.free[j] += sign * amounts[self.ids[j]]

    cdef bint _fits(self) noexcept:
        cdef Py_ssize_t j
        for j in range(self.wide):
            if self.needed[j] > self.free[j]:
                return False
        return True

    cdef int32_t _shortage(self) noexcept:
        # Return the code of filter_fit, without UNRESOLVABLE: rows whose capacity is below the request are never asked about.
        cdef Py_ssize_t j
        cdef int32_t code = 0
        for j in range(self.width):
            if self.needed[j] > self.free[j]:
                code |= 1 << j
        return code

    cdef bint _has_budgets(self, LowerPods lower) noexcept:
        # Return whether disruption budgets cover some of them.
        cdef Py_ssize_t i
        if self.index.allowed.shape[0]:
            for i in range(lower.begin, lower.end):
                if lower.pods[i].budgets:
                    return True
        return False

    cdef void _find_violating(self, LowerPods lower) noexcept:
        # Set violating[begin:end]: with all of them evicted, the most important first, which evictions exceed a disruption budget.
        cdef PodIndex index = self.index
        cdef IndexedPod* pods = lower.pods
        cdef Py_ssize_t i, k
        cdef int32_t budget
        for i in range(lower.begin, lower.end):
            self.violating[i] = 0
        if not self._has_budgets(lower):
            return
        self.left[:] = index.allowed
        for i in range(lower.begin, lower.end):
            if not self._removable(&pods[i]):
                continue
            for k in range(index.set_begin[pods[i].budgets], index.set_begin[pods[i].budgets + 1]):
                budget = index.set_members[k]
                self.left[budget] -= 1
                if self.left[budget] < 0:
                    self.violating[i] = 1

    cdef void _reprieve(self, IndexedPod* pods, Py_ssize_t i) noexcept:
        # Put the pod back if the preemptor still fits then; else it is a victim.
        cdef Py_ssize_t place
        self.victim[i] = 0
        if not self._removable(&pods[i]):
            return
        self._shift(&pods[i], -1)
        if self._fits():
            if not self.others:
                return
            self._put_back(i)
            if not self._code_of_others(&place):
                return
            self._remove(i)
        self._shift(&pods[i], 1)
        self.victim[i] = 1

    cdef void _sum_up(self, Py_ssize_t row, LowerPods lower) noexcept:
        cdef IndexedPod* pods = lower.pods
        cdef Py_ssize_t i
        cdef int32_t priority
        cdef Rank rank
        memset(&rank, 0, sizeof(Rank))
        for i in range(lower.evicted, lower.end):
            if not self.victim[i]:
                continue
            priority = self.priorities[pods[i].kind]
            if rank.count == 0:
                rank.highest = priority
                rank.age = -pods[i].started
            rank.count += 1
            rank.violations += self.violating[i]
            rank.of_daemon_sets += pods[i].of_daemon_set
            rank.total += priority + WEIGHT
        self.rank[row] = rank
        self.last = lower

    # Reading; `refresh` comes first

    @property
    def limited(self):
        """Whether something has to be released."""
        return self.wide > self.width

    cdef int _ask(self, const int32_t[::1] rows) except -1:
        # Ask the other filters about those of the rows that they have not been asked about.
        cdef Py_ssize_t i, row
        self._prepare()
        for i in range(rows.shape[0]):
            if i + ROWS_AHEAD < rows.shape[0]:
                self._expect_others(rows[i + ROWS_AHEAD])
            row = rows[i]
            if 0 <= row < self.capacity and self.code[row] == UNASKED:
                self._row(row, True)
        return 0

    cdef void _expect_others(self, Py_ssize_t row) noexcept:
        if not 0 <= row < min(self.capacity, self.index.capacity) or self.code[row] != UNASKED:
            return
        self._expect(row)
        for other in self.others:
            (<RemovalFilter> other).expect(row, self.index.counts[row])

    def codes(self, const int32_t[::1] rows):
        """Return FITS, NO_VICTIM, ABSENT, OVER_LIMIT, REFUSED, UNKNOWN or the code of filter_fit for each row."""
        self._ask(rows)
        return self.codes_so_far(rows)

    def codes_so_far(self, const int32_t[::1] rows):
        """Return the same, UNASKED where the other filters have not been asked."""
        cdef Py_ssize_t i
        answer = np.empty(rows.shape[0], np.int32)
        cdef int32_t[::1] view = answer
        for i in range(rows.shape[0]):
            if rows[i] < 0 or rows[i] >= self.capacity:
                raise IndexError(f"row {rows[i]} of {self.capacity}")
            view[i] = self.code[rows[i]]
        return answer

    def refusals(self, const int32_t[::1] rows):
        """Return for each row which of the other filters refuses it, and its code; where the row's code is REFUSED."""
        cdef Py_ssize_t i
        places, answer = np.empty(rows.shape[0], np.int32), np.empty(rows.shape[0], np.int32)
        cdef int32_t[::1] place = places, code = answer
        for i in range(rows.shape[0]):
            if rows[i] < 0 or rows[i] >= self.refusal.shape[0]:
                raise IndexError(f"row {rows[i]} of {self.refusal.shape[0]}")
            place[i] = self.refused_by[rows[i]]
            code[i] = self.refusal[rows[i]]
        return places, answer

    def best(self, const int32_t[::1] rows, const int32_t[::1] order):
        """Return the best of the rows that fit, or -1. order: [row], the smaller one wins where all else is equal.

        Other filters are asked only about rows that could be better than the best one known by then, first about those that promise most.
        """
        cdef Py_ssize_t i, row, best = -1, known = min(self.capacity, order.shape[0])
        cdef int _promising
        for i in range(rows.shape[0]):
            if rows[i] < 0 or rows[i] >= known:
                raise IndexError(f"row {rows[i]} of {known}")
        self._prepare()
        for _promising in range(MOST_PROMISING):
            best = self._least(rows, order)
            if best < 0 or self.code[best] == FITS:
                return best
            self._row(best, True)
            if self.code[best] == FITS:
                break
            best = -1
        for i in range(rows.shape[0]):
            row = rows[i]
            if self.code[row] == UNASKED and (best < 0 or self._precedes(row, best, order)):
                self._row(row, True)
            if self.code[row] == FITS and (best < 0 or self._precedes(row, best, order)):
                best = row
        return best

    cdef Py_ssize_t _least(self, const int32_t[::1] rows, const int32_t[::1] order) noexcept:
        # Return the row of the least rank among those that fit or may, -1: there is none. What is known of the latter is a bound.
        cdef Py_ssize_t i, row, best = -1
        for i in range(rows.shape[0]):
            row = rows[i]
            if (self.code[row] == FITS or self.code[row] == UNASKED) and (best < 0 or self._precedes(row, best, order)):
                best = row
        return best

    cdef bint _precedes(self, Py_ssize_t row, Py_ssize_t other, const int32_t[::1] order) noexcept:
        cdef const Rank* rank = &self.rank[row]
        cdef const Rank* known = &self.rank[other]
        return _is_less(rank, known) or (order[row] < order[other] and not _is_less(known, rank))

    def victims(self, Py_ssize_t row):
        """Return (victims, the most important first; how many violate a disruption budget) of a row that fits."""
        cdef Py_ssize_t i
        self.index.table.check_row(row)
        self._prepare()
        self._row(row, True)
        if self.code[row] != FITS:
            raise LookupError(f"row {row} does not fit")
        pods = [<object> self.last.pods[i].pod for i in range(self.last.evicted, self.last.end) if self.victim[i]]
        return pods, self.rank[row].violations

    def ranks(self, const int32_t[::1] rows):
        """Return what `best` compares of each row but for the order, column by column; of rows that do not fit the least there is."""
        cdef Py_ssize_t i, row, count = rows.shape[0]
        violations, highest, total = np.zeros(count, np.int32), np.full(count, LEAST, np.int32), np.zeros(count, np.int64)
        victims, of_daemon_sets, age = np.zeros(count, np.int32), np.zeros(count, np.int32), np.full(count, -np.inf)
        cdef int32_t[::1] violation = violations, high = highest, victim = victims, agents = of_daemon_sets
        cdef int64_t[::1] sums = total
        cdef double[::1] ages = age
        self._ask(rows)
        for i in range(count):
            row = rows[i]
            self.index.table.check_row(row)
            if row < self.capacity and self.code[row] == FITS:
                violation[i] = self.rank[row].violations
                high[i] = self.rank[row].highest
                sums[i] = self.rank[row].total
                victim[i] = self.rank[row].count
                agents[i] = self.rank[row].of_daemon_sets
                ages[i] = self.rank[row].age
        return violations, highest, total, victims, of_daemon_sets, age

    def slots(self, const int32_t[::1] rows):
        """Return how many such requests each row would have room for without its possible victims."""
        cdef Py_ssize_t i, j, row
        cdef int64_t fewest
        answer = np.zeros(rows.shape[0], np.int64)
        cdef int64_t[::1] slots = answer
        self._prepare()
        for i in range(rows.shape[0]):
            row = rows[i]
            self.index.table.check_row(row)
            if not self.index.table.live[row]:
                continue
            self._evict_all(row)
            fewest = MOST_SLOTS
            for j in range(self.width):
                if self.free[j] <= 0:
                    fewest = 0
                elif self.needed[j] > 0:
                    fewest = min(fewest, self.free[j] // self.needed[j])
            slots[i] = fewest
        return answer

    def codes_beside(self, const int32_t[::1] rows, const int32_t[::1] placed):
        """Return filter_fit's code of one more such request on each row, beside placed[i] of them and without its possible victims."""
        cdef Py_ssize_t i, j
        if placed.shape[0] != rows.shape[0]:
            raise ValueError(f"{placed.shape[0]} numbers for {rows.shape[0]} rows")
        answer = np.empty(rows.shape[0], np.int32)
        cdef int32_t[::1] view = answer
        self._prepare()
        for i in range(rows.shape[0]):
            self.index.table.check_row(rows[i])
            self._evict_all(rows[i])
            for j in range(self.width):
                self.free[j] -= placed[i] * self.needed[j]
            view[i] = self._shortage()
        return answer

    def costs(
        self, const int32_t[::1] rows, const int64_t[:, ::1] held, const int64_t[::1] unit, Py_ssize_t most, bint none_allowed=False
    ):
        """Return for each row and each k up to `most` what room for k times `unit` costs beside what is held, -1: there is none."""
        cdef Py_ssize_t i, j, k, p, row
        cdef int64_t[2 * MOST_IDS] most_free
        cdef LowerPods lower
        if held.shape[0] != rows.shape[0] or held.shape[1] != self.width or unit.shape[0] != self.width:
            raise ValueError(f"amounts of {held.shape[1]} and {unit.shape[0]} resources, of {held.shape[0]} rows")
        answer = np.full((rows.shape[0], most + 1), -1, np.int64)
        cdef int64_t[:, ::1] cost = answer
        self._prepare()
        for i in range(rows.shape[0]):
            row = rows[i]
            self.index.table.check_row(row)
            if not self.index.table.live[row]:
                continue
            lower = self._evict_all(row)
            self._find_violating(lower)
            if none_allowed:
                for p in range(lower.begin, lower.end):
                    self.violating[p] = lower.pods[p].budgets != 0
            for j in range(self.width):
                most_free[j] = self.free[j]
            for k in range(most + 1):
                for j in range(self.width):
                    self.free[j] = most_free[j] - held[i, j] - k * unit[j]
                    if self.free[j] < 0 and (held[i, j] or k * unit[j]):
                        break
                else:
                    cost[i, k] = self._cost(lower, &held[i, 0], &unit[0], k)
                    continue
                break
        return answer

    cdef int64_t _cost(self, LowerPods lower, const int64_t* held, const int64_t* unit, int64_t k) noexcept:
        # Put back what fits beside what is held, those that violate a budget first; add up what is left. free[]: without all of them.
        cdef IndexedPod* pods = lower.pods
        cdef Py_ssize_t p, j
        cdef int turn
        cdef bint fits
        cdef int64_t cost = 0
        cdef const int64_t* amounts
        for turn in range(2):
            for p in range(lower.begin, lower.end):
                if not self._removable(&pods[p]) or self.violating[p] == turn:
                    continue
                amounts = self.amounts + pods[p].kind * self.stride
                fits = True
                for j in range(self.width):
                    if amounts[self.ids[j]] > self.free[j] and (held[j] or k * unit[j]):
                        fits = False
                        break
                if fits:
                    for j in range(self.width):
                        self.free[j] -= amounts[self.ids[j]]
                else:
                    cost += self.priorities[pods[p].kind] + WEIGHT + (VIOLATION if self.violating[p] else 0)
        return cost

    def victims_beside(self, Py_ssize_t row, const int64_t[::1] held, const uint8_t[::1] violating):
        """Return which of the row's possible victims cannot be put back beside what is held there: indices, ascending.

        violating: of each of them, the most important first; those are put back before the others.
        """
        cdef Py_ssize_t i, j, p
        cdef int turn
        cdef bint fits
        cdef LowerPods lower
        cdef const int64_t* amounts
        if held.shape[0] != self.width:
            raise ValueError(f"amounts of {held.shape[0]} resources: {self.width} count")
        self.index.table.check_row(row)
        self._prepare()
        lower = self._evict_all(row)
        i = 0
        for p in range(lower.begin, lower.end):
            i += self._removable(&lower.pods[p])
        if violating.shape[0] != i:
            raise ValueError(f"{violating.shape[0]} answers about {i} pods")
        for j in range(self.width):
            self.free[j] -= held[j]
        victims = []
        for turn in range(2):
            i = -1
            for p in range(lower.begin, lower.end):
                if not self._removable(&lower.pods[p]):
                    continue
                i += 1
                if violating[i] == turn:
                    continue
                amounts = self.amounts + lower.pods[p].kind * self.stride
                fits = True
                for j in range(self.width):
                    if held[j] and amounts[self.ids[j]] > self.free[j]:
                        fits = False
                        break
                if fits:
                    for j in range(self.width):
                        self.free[j] -= amounts[self.ids[j]]
                else:
                    victims.append(i)
        return sorted(victims)

    def lower_bounds(self, const int32_t[::1] rows):
        """Return per row (1 if some victim must violate a budget, the least priority of the most important victim), for any set of victims.

        Both hold whatever other filters demand: without violations the preemptor fits only if it does once all pods that do not violate a
        budget are gone; and if it does not fit once all pods of a priority and below are gone, some victim has a higher one.
        """
        cdef Py_ssize_t i, k, row
        cdef LowerPods lower
        violations = np.zeros(rows.shape[0], np.int32)
        priorities = np.zeros(rows.shape[0], np.int32)
        cdef int32_t[::1] violation = violations, priority = priorities
        self._prepare()
        for i in range(rows.shape[0]):
            row = rows[i]
            self._row(row, True)
            if self.code[row] != FITS:
                continue
            # Nominated pods are left out: with them the bounds would be tighter, and without them they hold as well.
            lower = self._lower_pods(row)
            self._find_violating(lower)
            self._begin_alone(row)
            self._evict_down_to(&lower, lower.begin)
            # Put the pods back, the highest priority first: the first priority of which not all pods fit again is the bound.
            k = lower.begin
            while k < lower.end:
                priority[i] = self.priorities[lower.pods[k].kind]
                while k < lower.end and self.priorities[lower.pods[k].kind] == priority[i]:
                    if self._removable(&lower.pods[k]):
                        self._shift(&lower.pods[k], -1)
                    k += 1
                if not self._fits():
                    break
            self._begin_alone(row)
            lower.evicted = lower.end
            self._evict_down_to(&lower, lower.begin)
            for k in range(lower.begin, lower.end):
                if self.violating[k] and self._removable(&lower.pods[k]):
                    self._shift(&lower.pods[k], -1)
            violation[i] = not self._fits()
        return violations, priorities


def cheapest(const int64_t[:, ::1] costs, Py_ssize_t wanted):
    """Return how many each row is to have room for, so that these are `wanted` for the least sum of costs; None: none do.

    costs: [row, k] for k, -1 where it has no room for that many; more may cost less. O(rows x wanted x most of a row).
    """
    cdef Py_ssize_t rows = costs.shape[0], most = costs.shape[1] - 1, i, j, k
    cdef int64_t cost, found
    best_array = np.full(wanted + 1, -1, np.int64)
    chosen_array = np.zeros((rows, wanted + 1), np.int32)
    taken_array = np.zeros(rows, np.int32)
    cdef int64_t[::1] best = best_array
    cdef int32_t[:, ::1] chosen = chosen_array
    cdef int32_t[::1] taken = taken_array
    best[0] = 0
    with nogil:
        for i in range(rows):
            for j in range(wanted, 0, -1):  # descending: best[] of fewer is still that of the rows before
                for k in range(1, min(most, j) + 1):
                    cost = costs[i, k]
                    if cost < 0:
                        break
                    found = best[j - k]
                    if found >= 0 and (best[j] < 0 or found + cost < best[j]):
                        best[j] = found + cost
                        chosen[i, j] = <int32_t> k
    if best[wanted] < 0:
        return None
    j = wanted
    for i in range(rows - 1, -1, -1):
        taken[i] = chosen[i, j]
        j -= taken[i]
    return taken_array


def least_sums(const int64_t[:, ::1] costs, Py_ssize_t wanted):
    """Return the least cost of each number of pods up to `wanted` on all items, and how many each item has of them.

    costs: [item, k]; -1 where it cannot have k. sums[j]: -1 where j cannot be reached. taken[i, j]: of the item i where the items up to it
    have j. O(items x wanted x k).
    """
    cdef Py_ssize_t items = costs.shape[0], most = costs.shape[1] - 1, i, j, k
    cdef int64_t cost, found
    sums_array = np.full(wanted + 1, -1, np.int64)
    taken_array = np.zeros((items, wanted + 1), np.int32)
    cdef int64_t[::1] sums = sums_array
    cdef int32_t[:, ::1] taken = taken_array
    sums[0] = 0
    with nogil:
        for i in range(items):
            for j in range(wanted, 0, -1):  # descending: sums[] of fewer is still that of the items before
                for k in range(1, min(most, j) + 1):
                    cost, found = costs[i, k], sums[j - k]
                    if cost >= 0 and found >= 0 and (sums[j] < 0 or found + cost < sums[j]):
                        sums[j] = found + cost
                        taken[i, j] = <int32_t> k
    return sums_array, taken_array


cdef bint _is_less(const Rank* a, const Rank* b) noexcept nogil:
    if a.violations != b.violations:
        return a.violations < b.violations
    if a.highest != b.highest:
        return a.highest < b.highest
    if a.total != b.total:
        return a.total < b.total
    if a.count != b.count:
        return a.count < b.count
    if a.of_daemon_sets != b.of_daemon_sets:
        return a.of_daemon_sets < b.of_daemon_sets
    return a.age < b.age
