"""Totals of the feasible rows, and which rows are best: raw scores, normalisation, and the maxima of blocks of 64 rows."""

import numpy as np

cimport cython
cimport numpy as cnp
from libc.string cimport memcpy, memset

from koordsched._core.verdicts cimport lowest_bits

cnp.import_array()

cdef int NO_SCORE_BYTE = 0x80
cdef int64_t NO_SCORE = <int64_t> 0x8080808080808080  # of a row that is not feasible: below any score, and memset can write it
cdef int64_t EXACT_DOUBLE = 1 << 53  # quotients of nonnegative dividends below this truncate right in double precision


cdef inline int64_t divide(int64_t dividend, int64_t divisor) noexcept nogil:
    # A double division is several times cheaper than a 64-bit idiv.
    if 0 <= dividend < EXACT_DOUBLE:
        return <int64_t> (<double> dividend / <double> divisor)
    return dividend // divisor


cdef inline bint has_no_gap(const int32_t[::1] rows, Py_ssize_t count) noexcept nogil:
    # Whether each row is the one after the last: if no node is left out, as is usual, a column is copied in one go.
    cdef Py_ssize_t i
    cdef int32_t gaps = 0
    if count == 0 or rows[count - 1] - rows[0] != count - 1:
        return False
    for i in range(count):
        gaps |= rows[i] - rows[0] ^ <int32_t> i
    return gaps == 0


@cython.final
cdef class Ranking:

    # Loops over rows take their columns as local memoryviews: read through self, the pointers would be loaded again for every row
    # (a ranking of 5,000 rows took 264 us so, and takes 40 us).

    def __init__(self, Scratch scratch not None, Verdicts verdicts not None):
        self.scratch = scratch
        self.verdicts = verdicts

    cdef int configure(self, const int32_t[::1] modes, const int64_t[::1] weights, Py_ssize_t capacity) except -1:
        cdef Py_ssize_t s
        self.modes = modes
        self.weights = weights
        self.scorers = modes.shape[0]
        self.enabled = lowest_bits(self.scorers)
        for s in range(self.scorers):
            self.largest_raw[s] = NO_SCORE
        return self.reserve(capacity)

    cdef int reserve(self, Py_ssize_t capacity) except -1:
        cdef Py_ssize_t blocks = capacity >> 6
        # A memoryview that was never assigned cannot be compared with None when initialisation checks are off: ask the capacity first.
        if self.capacity != capacity or self.raw.shape[0] < self.scorers:
            self.raw = np.empty((max(self.scorers, 1), capacity), np.int64)
            self.known = np.empty(capacity, np.uint64)
            self.total = np.empty(capacity, np.int64)
            self.block_total = np.empty(blocks, np.int64)
            self.block_ties = np.empty(blocks, np.int32)
            self.changed = np.empty(blocks, np.int32)
            self.changed_in = np.zeros(blocks, np.int64)
            self.block_raw = np.empty((max(self.scorers, 1), blocks), np.int64)
            self.custom = np.zeros((max(self.scorers, 1), capacity if self._has_custom() else 1), np.int64)
            self.capacity = capacity
        elif self._has_custom() and self.custom.shape[1] < capacity:
            self.custom = np.zeros((self.raw.shape[0], capacity), np.int64)
        return 0

    cdef bint _has_custom(self) noexcept:
        cdef Py_ssize_t s
        for s in range(self.scorers):
            if self.modes[s] == NORMALIZE_CUSTOM:
                return True
        return False

    cdef bint _is_relative(self, Py_ssize_t s) noexcept:
        return self.modes[s] == NORMALIZE_MAX or self.modes[s] == NORMALIZE_MAX_REVERSE

    # Scores

    cdef int enable(self, enabled) except -1:
        cdef Py_ssize_t s
        if len(enabled) != self.scorers:
            raise ValueError(f"{len(enabled)} flags for {self.scorers} scorers")
        self.enabled = 0
        for s in range(self.scorers):
            self.enabled |= <uint64_t> bool(enabled[s]) << s
        self.all_stale = True
        return 0

    cdef void forget(self, Py_ssize_t s) noexcept:
        # Of a scorer that normalises by itself totals hold no raw score, and `store_normalized` corrects them.
        if self.modes[s] != NORMALIZE_CUSTOM:
            self.all_stale = True

    cdef int store(self, Py_ssize_t s, cnp.ndarray scores) except -1:
        # Take scorer s's answer: one raw score for each row of work, or None when all of them are 0.
        cdef Py_ssize_t i
        cdef int32_t[::1] work = self.scratch.work
        cdef int64_t[::1] raw = self.raw[s]
        cdef const int64_t* score
        self.answered |= <uint64_t> 1 << s
        if scores is None:
            for i in range(self.scratch.work_count):
                raw[work[i]] = 0
            return 0
        score = <const int64_t*> self.scratch.memory_of(scores, cnp.NPY_INT64)
        if has_no_gap(work, self.scratch.work_count):
            memcpy(&raw[work[0]], score, self.scratch.work_count * sizeof(int64_t))
            return 0
        for i in range(self.scratch.work_count):
            raw[work[i]] = score[i]
        return 0

    cdef int store_normalized(self, Py_ssize_t s, const int32_t[::1] rows, const int64_t[::1] scores) except -1:
        # Totals that are true are corrected by the difference: adding up all scorers again takes several times longer. What this does
        # to dirty rows does not matter, theirs are made anew.
        cdef Py_ssize_t i, row
        cdef uint64_t weight = self.weights[s]  # unsigned: a score that is out of range may be anything
        cdef int64_t[::1] custom = self.custom[s], total = self.total
        cdef bint invalid = False
        if scores.shape[0] != rows.shape[0]:
            raise ValueError(f"{scores.shape[0]} scores for {rows.shape[0]} rows")
        if self.all_stale or not self.enabled >> s & 1:
            for i in range(rows.shape[0]):
                custom[rows[i]] = scores[i]
            return 0
        for i in range(rows.shape[0]):
            row = rows[i]
            invalid |= <uint64_t> scores[i] > 100
            total[row] = <int64_t> (<uint64_t> total[row] + weight * (<uint64_t> scores[i] - <uint64_t> custom[row]))
            custom[row] = scores[i]
        self.blocks_stale = True
        self.all_stale = invalid
        return 0

    cdef object raw_scores(self, Py_ssize_t s, const int32_t[::1] rows):
        cdef cnp.npy_intp i, count = rows.shape[0]
        cdef cnp.ndarray scores = cnp.PyArray_EMPTY(1, &count, cnp.NPY_INT64, 0)
        cdef int64_t* out = <int64_t*> cnp.PyArray_DATA(scores)
        cdef int64_t[::1] raw = self.raw[s]
        if has_no_gap(rows, count):
            memcpy(out, &raw[rows[0]], count * sizeof(int64_t))
            return scores
        for i in range(count):
            out[i] = raw[rows[i]]
        return scores

    # Ranking

    cdef Py_ssize_t rank(self) noexcept:
        # Bring totals up to date. Return -1, or the scorer whose normalised score is out of 0..100.
        cdef Py_ssize_t i, bad
        cdef Scratch scratch = self.scratch
        if self.all_stale:
            self.verdicts.list_feasible()
        else:
            self._list_changed()
        if self._refresh_largest() and not self.all_stale:
            self.all_stale = True
            self.verdicts.list_feasible()
        if self.all_stale:
            memset(&self.total[0], NO_SCORE_BYTE, self.verdicts.extent * sizeof(int64_t))
            bad = self._total(scratch.alive, scratch.alive_count)
            if scratch.alive_count < self.verdicts.extent >> 3:
                self._block_totals_of_alive()
            else:
                self._block_totals()
        else:
            bad = self._total(scratch.work, self._split_dirty())
            if self.blocks_stale:
                self._block_totals()
            else:
                for i in range(self.changed_count):
                    self._block_total(self.changed[i])
        self.all_stale = bad >= 0
        self.blocks_stale = False
        self.answered = 0
        scratch.dirty_count = 0
        return bad

    cdef void _list_changed(self) noexcept:
        cdef Py_ssize_t i, block, count = 0
        cdef int32_t[::1] dirty = self.scratch.dirty, changed = self.changed
        cdef int64_t[::1] changed_in = self.changed_in
        self.ranks += 1
        for i in range(self.scratch.dirty_count):
            block = dirty[i] >> 6
            if changed_in[block] != self.ranks:
                changed_in[block] = self.ranks
                changed[count] = <int32_t> block
                count += 1
        self.changed_count = count

    cdef Py_ssize_t _split_dirty(self) noexcept:
        # Return how many dirty rows are feasible; they are in work[0:count]. The others lose their totals.
        cdef Py_ssize_t i, count = 0
        cdef int32_t row
        cdef int32_t[::1] dirty = self.scratch.dirty, work = self.scratch.work, failed = self.verdicts.failed
        for i in range(self.scratch.dirty_count):
            row = dirty[i]
            if failed[row] == 0:
                work[count] = row
                count += 1
            else:
                self.total[row] = NO_SCORE
        return count

    cdef bint _refresh_largest(self) noexcept:
        # Return whether the divisor of a normalisation changed, so that every total is out of date.
        cdef Py_ssize_t s
        cdef bint changed = False
        for s in range(self.scorers):
            if not self.enabled >> s & 1 or not self._is_relative(s):
                continue
            # Without a new score, and with the same rows feasible, the largest is what it was.
            if self.all_stale or self.answered >> s & 1 or self.verdicts.feasible_changed:
                changed |= self._refresh_largest_of(s)
        return changed

    cdef bint _refresh_largest_of(self, Py_ssize_t s) noexcept:
        cdef Py_ssize_t i, block
        cdef int64_t largest = NO_SCORE
        if self.all_stale:
            self._block_raws(s)
        else:
            for i in range(self.changed_count):
                self._block_raw(s, self.changed[i])
        for block in range(self.verdicts.extent >> 6):
            largest = max(largest, self.block_raw[s, block])
        if largest == self.largest_raw[s]:
            return False
        self.largest_raw[s] = largest
        return True

    # Totals, scorer by scorer, so that the inner loops are straight

    cdef Py_ssize_t _total(self, const int32_t[::1] rows, Py_ssize_t count) noexcept:
        # Total rows[0:count], all feasible. Return -1, or a scorer whose score is out of range.
        cdef Py_ssize_t s, i, bad = -1
        cdef int64_t[::1] total = self.total
        for i in range(count):
            total[rows[i]] = 0
        for s in range(self.scorers):
            if not self.enabled >> s & 1:
                continue
            if not (self._add_share(s, rows, count) if self._is_relative(s) else self._add_as_is(s, rows, count)):
                bad = s
                self.invalid_score = self._find_invalid(s)
        return bad

    cdef bint _add_as_is(self, Py_ssize_t s, const int32_t[::1] rows, Py_ssize_t count) noexcept:
        # Return whether every score was within 0..100.
        cdef Py_ssize_t i, row
        cdef int64_t weight = self.weights[s]
        cdef int64_t[::1] total = self.total, column = self.custom[s] if self.modes[s] == NORMALIZE_CUSTOM else self.raw[s]
        cdef bint invalid = False
        for i in range(count):
            row = rows[i]
            # A negative score is huge when unsigned: one comparison for both bounds.
            invalid |= <uint64_t> column[row] > 100
            total[row] += weight * column[row]
        return not invalid

    cdef bint _add_share(self, Py_ssize_t s, const int32_t[::1] rows, Py_ssize_t count) noexcept:
        # As _add_as_is, with scores that are shares of the largest. Without a positive one all are worst, or best when reversed.
        cdef Py_ssize_t i, row
        cdef int64_t score, weight = self.weights[s], largest = self.largest_raw[s]
        cdef int64_t[::1] total = self.total, raw = self.raw[s]
        cdef bint invalid = False, reverse = self.modes[s] == NORMALIZE_MAX_REVERSE
        if largest <= 0:
            for i in range(count):
                total[rows[i]] += 100 * weight if reverse else 0
            return True
        for i in range(count):
            row = rows[i]
            score = divide(100 * raw[row], largest)
            if reverse:
                score = 100 - score
            invalid |= <uint64_t> score > 100
            total[row] += weight * score
        return not invalid

    cdef int64_t _find_invalid(self, Py_ssize_t s) noexcept:
        cdef Py_ssize_t row
        cdef int64_t score
        for row in range(self.verdicts.extent):
            if self.verdicts.failed[row] != 0:
                continue
            score = self.custom[s, row] if self.modes[s] == NORMALIZE_CUSTOM else self.raw[s, row]
            if self._is_relative(s):
                score = divide(100 * score, self.largest_raw[s])
            if self.modes[s] == NORMALIZE_MAX_REVERSE:
                score = 100 - score
            if score < 0 or score > 100:
                return score
        return 0

    # Blocks

    cdef void _block_raw(self, Py_ssize_t s, Py_ssize_t block) noexcept:
        cdef Py_ssize_t row
        cdef int64_t largest = NO_SCORE
        cdef int32_t[::1] failed = self.verdicts.failed
        cdef int64_t[::1] raw = self.raw[s]
        for row in range(block << 6, (block + 1) << 6):
            if failed[row] == 0 and raw[row] > largest:
                largest = raw[row]
        self.block_raw[s, block] = largest

    cdef void _block_raws(self, Py_ssize_t s) noexcept:
        # _block_raw for all blocks, looking at feasible rows (alive) only.
        cdef Py_ssize_t i, block
        cdef int32_t[::1] alive = self.scratch.alive
        cdef int64_t[::1] raw = self.raw[s], largest = self.block_raw[s]
        memset(&largest[0], NO_SCORE_BYTE, (self.verdicts.extent >> 6) * sizeof(int64_t))
        for i in range(self.scratch.alive_count):
            block = alive[i] >> 6
            largest[block] = max(largest[block], raw[alive[i]])

    cdef void _block_total(self, Py_ssize_t block) noexcept:
        cdef Py_ssize_t row
        cdef int64_t best = NO_SCORE
        cdef int32_t ties = 0
        cdef int64_t[::1] total = self.total
        for row in range(block << 6, (block + 1) << 6):
            best = max(best, total[row])
        if best != NO_SCORE:
            for row in range(block << 6, (block + 1) << 6):
                ties += total[row] == best
        self.block_total[block] = best
        self.block_ties[block] = ties

    cdef void _block_totals(self) noexcept:
        cdef Py_ssize_t block
        for block in range(self.verdicts.extent >> 6):
            self._block_total(block)

    cdef void _block_totals_of_alive(self) noexcept:
        # _block_totals where alive holds the feasible rows, and these are few.
        cdef Py_ssize_t i, block, blocks = self.verdicts.extent >> 6
        cdef int32_t[::1] alive = self.scratch.alive, ties = self.block_ties
        cdef int64_t[::1] total = self.total, best = self.block_total
        memset(&best[0], NO_SCORE_BYTE, blocks * sizeof(int64_t))
        memset(&ties[0], 0, blocks * sizeof(int32_t))
        for i in range(self.scratch.alive_count):
            block = alive[i] >> 6
            if total[alive[i]] > best[block]:
                best[block] = total[alive[i]]
                ties[block] = 1
            elif total[alive[i]] == best[block]:
                ties[block] += 1

    # Choosing

    cdef object best(self):
        cdef Py_ssize_t block
        cdef int64_t best = NO_SCORE
        cdef Py_ssize_t ties = 0
        for block in range(self.verdicts.extent >> 6):
            if self.block_total[block] > best:
                best = self.block_total[block]
                ties = self.block_ties[block]
            elif self.block_total[block] == best and best != NO_SCORE:
                ties += self.block_ties[block]
        if ties == 0:
            return 0, 0
        return best, ties

    cdef Py_ssize_t pick(self, int64_t best, Py_ssize_t k) except -1:
        cdef Py_ssize_t block, row
        for block in range(self.verdicts.extent >> 6):
            if self.block_total[block] != best:
                continue
            if k >= self.block_ties[block]:
                k -= self.block_ties[block]
                continue
            for row in range(block << 6, (block + 1) << 6):
                if self.total[row] == best:
                    if k == 0:
                        return row
                    k -= 1
        raise LookupError(f"no such row with total {best}")

    cdef object totals_among(self, const int32_t[::1] rows):
        # Total feasible rows as if no other row was feasible. Scores that are shares of the largest have another one then.
        cdef Py_ssize_t s, i
        cdef int64_t score, weight, largest
        cdef bint relative, reverse
        cdef int64_t[::1] raw
        totals = np.zeros(rows.shape[0], np.int64)
        cdef int64_t[::1] total = totals
        for s in range(self.scorers):
            if not self.enabled >> s & 1 or self.modes[s] == NORMALIZE_CUSTOM:
                continue
            raw = self.raw[s]
            weight = self.weights[s]
            relative = self._is_relative(s)
            reverse = self.modes[s] == NORMALIZE_MAX_REVERSE
            largest = 0
            if relative:
                for i in range(rows.shape[0]):
                    largest = max(largest, raw[rows[i]])
            for i in range(rows.shape[0]):
                score = raw[rows[i]]
                if relative:
                    score = divide(100 * score, largest) if largest > 0 else 0
                    if reverse:
                        score = 100 - score
                total[i] += weight * score
        return totals

    cdef object scores(self, Py_ssize_t row):
        return [self.raw[s, row] for s in range(self.scorers)], self.total[row]

    cdef Py_ssize_t row_bytes(self) noexcept:
        cdef Py_ssize_t s, columns = 3  # known, total, and the blocks' shares of them
        if self.capacity == 0:
            return 0  # never configured
        for s in range(self.scorers):
            columns += 2 if self.modes[s] == NORMALIZE_CUSTOM else 1
        return columns * sizeof(int64_t)
