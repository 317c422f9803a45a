"""What one pod shape knows of every row, kept up to date by asking only about rows that changed."""

from array import array

import numpy as np

cimport numpy as cnp
from libc.string cimport memcpy, memset

from koordsched._core.change import Change
from koordsched._core.table cimport LOG_SIZE, NodeTable

cnp.import_array()

cdef int CHANGE_EXISTENCE = int(Change.EXISTENCE)
cdef int CHANGE_ALL = int(Change.ALL)
cdef int NO_SCORE_BYTE = 0x80
cdef int64_t NO_SCORE = <int64_t> 0x8080808080808080  # of a row that is not feasible: below any score, and memset can write it
cdef int64_t EXACT_DOUBLE = 1 << 53  # quotients of nonnegative dividends below this truncate right in double precision


cdef inline int64_t divide(int64_t dividend, int64_t divisor) noexcept nogil:
    # A double division is several times cheaper than a 64-bit idiv (bench_evaluation.py, "rank").
    if 0 <= dividend < EXACT_DOUBLE:
        return <int64_t> (<double> dividend / <double> divisor)
    return dividend // divisor


cdef inline uint64_t _lowest_bits(int64_t count) noexcept nogil:
    return ~<uint64_t> 0 if count >= 64 else (<uint64_t> 1 << count) - 1


cdef object _vector(str typecode, values):
    return values if isinstance(values, array) else array(typecode, values)


cdef int _check_answer(cnp.ndarray answer, int type_number, Py_ssize_t count) except -1:
    if cnp.PyArray_NDIM(answer) != 1 or cnp.PyArray_TYPE(answer) != type_number or not cnp.PyArray_IS_C_CONTIGUOUS(answer):
        raise TypeError(f"an answer must be a contiguous vector of int32 codes or int64 scores: got {answer.dtype}")
    if cnp.PyArray_DIM(answer, 0) != count:
        raise ValueError(f"{cnp.PyArray_DIM(answer, 0)} answers for {count} rows")
    return 0


cdef class Scratch:

    def __init__(self):
        self.ensure(64)

    cdef int ensure(self, Py_ssize_t capacity) except -1:
        # Rounds never overlap, so between them nothing in here has to survive.
        if self.capacity >= capacity:
            return 0
        self.dirty = np.empty(capacity, np.int32)
        self.before = np.empty(capacity, np.int64)
        self.alive = np.empty(capacity, np.int32)
        self.work_array = np.empty(capacity, np.int32)
        self.work = self.work_array
        self.flag = np.zeros(capacity, np.uint8)
        self.capacity = capacity
        self.dirty_count = self.alive_count = self.work_count = 0
        return 0


cdef class Evaluation:

    def __init__(self, NodeTable table not None, Scratch scratch not None):
        self.table = table
        self.scratch = scratch

    # Loops over all rows take their columns as local memoryviews: read through self, the pointers would be loaded again for every row
    # (bench_evaluation.py: a ranking of 5,000 rows 264 -> 40 us).

    def configure(self, filter_reads, scorer_reads, modes, weights):
        """Forget everything and answer for these filters and scorers from now on. Arrays are kept and must not change."""
        self.filter_reads = _vector("i", filter_reads)
        self.scorer_reads = _vector("i", scorer_reads)
        self.modes = _vector("i", modes)
        self.weights = _vector("q", weights)
        self.filters = self.filter_reads.shape[0]
        self.scorers = self.scorer_reads.shape[0]
        if self.filters > MAX_PLUGINS or self.scorers > MAX_PLUGINS:
            raise ValueError(f"{self.filters} filters and {self.scorers} scorers: at most {MAX_PLUGINS} of each")
        cdef Py_ssize_t i
        self.reads = 0
        for i in range(self.filters):
            self.reads |= self.filter_reads[i]
        for i in range(self.scorers):
            self.reads |= self.scorer_reads[i]
        self.settled = False
        self.fresh = False
        self._allocate()
        self.enabled = array("B", b"\1" * max(self.scorers, 1))
        self.largest_raw = array("q", [NO_SCORE] * max(self.scorers, 1))

    cdef int _allocate(self) except -1:
        cdef Py_ssize_t capacity = self.table.capacity
        cdef Py_ssize_t blocks = capacity >> 6
        self.scratch.ensure(capacity)
        # A memoryview that was never assigned cannot be compared with None when initialisation checks are off: ask the capacity first.
        if self.capacity != capacity or self.codes.shape[0] < self.filters or self.raw.shape[0] < self.scorers:
            self.codes = np.empty((max(self.filters, 1), capacity), np.int32)
            self.raw = np.empty((max(self.scorers, 1), capacity), np.int64)
            self.known_codes = np.empty(capacity, np.uint64)
            self.known_scores = np.empty(capacity, np.uint64)
            self.failed = np.empty(capacity, np.int32)
            self.total = np.empty(capacity, np.int64)
            self.block_total = np.empty(blocks, np.int64)
            self.block_ties = np.empty(blocks, np.int32)
            self.block_raw = np.empty((max(self.scorers, 1), blocks), np.int64)
            self.custom = np.zeros((max(self.scorers, 1), capacity if self._has_custom() else 1), np.int64)
            self.capacity = capacity
        elif self._has_custom() and self.custom.shape[1] < capacity:
            self.custom = np.zeros((self.raw.shape[0], capacity), np.int64)
        return 0

    cdef bint _has_custom(self) noexcept:
        cdef Py_ssize_t i
        for i in range(self.scorers):
            if self.modes[i] == NORMALIZE_CUSTOM:
                return True
        return False

    # Which rows

    def catch_up(self):
        """Begin a round. Return the number of dirty rows: those that changed since the last round in a way that somebody reads."""
        self.scratch.all_feasible_of = None
        if not self.ranked:
            self.rank_everything = True  # rows that were dirty in the last round have no totals yet
        cdef int64_t i, place
        if not self.settled or self.table.capacity != self.capacity or self.table.log_end - self.position > LOG_SIZE:
            self.start_over()
            return self.scratch.dirty_count
        self._clear_flags()
        self._derive_known()
        self._extend()
        for i in range(self.position, self.table.log_end):
            place = i & (LOG_SIZE - 1)
            self._dirty(self.table.log_row[place], self.table.log_change[place])
        self.position = self.table.log_end
        self._begin()
        return self.scratch.dirty_count

    cdef void _extend(self) noexcept:
        # Nothing is known of rows that the table has begun to use since the last round.
        cdef Py_ssize_t begin = self.extent
        self.extent = self.table.extent()
        cdef Py_ssize_t count = self.extent - begin
        if count == 0:
            return
        if not self.derivable:
            memset(&self.known_codes[begin], 0, count * sizeof(uint64_t))
            memset(&self.known_scores[begin], 0, count * sizeof(uint64_t))
        memset(&self.failed[begin], 0xFF, count * sizeof(int32_t))  # NOT_LIVE
        self.rank_everything = True

    cdef void _derive_known(self) noexcept:
        # What a fresh round found out is written down only when there is a next round: half of the shapes of a busy cluster have none.
        cdef Py_ssize_t row
        cdef int32_t refused
        cdef int32_t[::1] failed = self.failed
        cdef uint64_t[::1] codes = self.known_codes, scores = self.known_scores
        cdef uint64_t everything = _lowest_bits(self.filters)
        if not self.derivable:
            return
        for row in range(self.extent):
            refused = failed[row]
            codes[row] = everything if refused == 0 else (_lowest_bits(refused) if refused > 0 else 0)
            scores[row] = self.scored if refused == 0 else 0
        self.derivable = False

    def is_current(self):
        """Answer whether nothing has changed since the last round, so that none is needed."""
        if not self.settled or self.position != self.table.log_end:
            return False
        if not self.ranked:
            self.rank_everything = True  # the row lists of that round may be another evaluation's by now
        return True

    def start_over(self):
        """Begin a round in which everything is unknown."""
        cdef Py_ssize_t count
        cdef cnp.ndarray rows
        cdef Scratch scratch = self.scratch
        if self.table.capacity != self.capacity:
            self._allocate()
        self._clear_flags()
        self.extent = 0
        self.derivable = True
        self.scored = 0
        self._extend()
        rows = self.table.live_rows()
        count = rows.shape[0]
        if count:
            memcpy(&scratch.dirty[0], cnp.PyArray_DATA(rows), count * sizeof(int32_t))
            memcpy(&scratch.alive[0], cnp.PyArray_DATA(rows), count * sizeof(int32_t))
        scratch.dirty_count = count
        scratch.alive_count = count
        self.feasible_count = 0
        self.position = self.table.log_end
        self.rank_everything = True
        self.fresh = True
        self.settled = False

    def forget_scorer(self, Py_ssize_t s):
        """Ask scorer s about every feasible row in the next round."""
        cdef Py_ssize_t row
        self.scored &= ~(<uint64_t> 1 << s)
        if self.derivable:
            self.rank_everything = True
            return
        for row in range(self.extent):
            self.known_scores[row] &= ~(<uint64_t> 1 << s)
        self.rank_everything = True

    cdef void _clear_flags(self) noexcept:
        # A plugin that raised may have left another evaluation's round unfinished.
        cdef Py_ssize_t i
        for i in range(self.scratch.dirty_count):
            self.scratch.flag[self.scratch.dirty[i]] = CLEAN
        self.scratch.dirty_count = 0

    cdef void _dirty(self, Py_ssize_t row, int32_t change) noexcept:
        cdef Py_ssize_t i
        if change & CHANGE_EXISTENCE:
            change = CHANGE_ALL
        elif not change & self.reads:
            return
        self._mark(row)
        for i in range(self.filters):
            if self.filter_reads[i] & change:
                self.known_codes[row] &= ~(<uint64_t> 1 << i)
        for i in range(self.scorers):
            if self.scorer_reads[i] & change:
                self.known_scores[row] &= ~(<uint64_t> 1 << i)

    cdef void _mark(self, Py_ssize_t row) noexcept:
        cdef Scratch scratch = self.scratch
        if scratch.flag[row] == CLEAN:
            scratch.flag[row] = DIRTY
            scratch.before[scratch.dirty_count] = self._verdict(row)
            scratch.dirty[scratch.dirty_count] = <int32_t> row
            scratch.dirty_count += 1

    cdef int64_t _verdict(self, Py_ssize_t row) noexcept:
        # failed and the code in one number; feasible is 0.
        cdef int64_t failed = self.failed[row]
        return failed if failed <= 0 else (failed << 32) | self.codes[failed - 1, row]

    cdef void _begin(self) noexcept:
        # Dirty rows count as not feasible until they have passed every filter again.
        cdef Py_ssize_t i, count = 0
        cdef int32_t row
        cdef Scratch scratch = self.scratch
        cdef int32_t[::1] dirty = scratch.dirty, alive = scratch.alive, failed = self.failed
        cdef uint8_t[::1] live = self.table.live
        self.settled = False
        for i in range(scratch.dirty_count):
            row = dirty[i]
            if failed[row] == 0:
                self.feasible_count -= 1
            failed[row] = NOT_LIVE
            if live[row]:
                alive[count] = row
                count += 1
        scratch.alive_count = count

    # Filters

    def next_filter(self, Py_ssize_t f):
        """Return the first filter from f on that has to answer for some row (see `work_rows`), or -1."""
        while f < self.filters:
            if self._gather_unknown(f):
                self.current = f
                return f
            self._compact(f)
            f += 1
        return -1

    cdef Py_ssize_t _gather_unknown(self, Py_ssize_t f) noexcept:
        cdef Py_ssize_t i, count = 0
        cdef Scratch scratch = self.scratch
        cdef int32_t[::1] alive = scratch.alive, work = scratch.work
        cdef uint64_t[::1] known = self.known_codes
        cdef uint64_t mask = <uint64_t> 1 << f
        if self.fresh:
            memcpy(&work[0], &alive[0], scratch.alive_count * sizeof(int32_t))
            scratch.work_count = scratch.alive_count
            return scratch.work_count
        for i in range(scratch.alive_count):
            work[count] = alive[i]
            count += not known[alive[i]] & mask
        scratch.work_count = count
        return count

    def work_rows(self):
        """Return the rows that the current filter or scorer has to answer for. Valid until its answer is stored."""
        return self.scratch.work_array[:self.scratch.work_count]

    def store_codes(self, cnp.ndarray codes):
        """Take the current filter's answer: one code for each of `work_rows`, or None when all of them pass."""
        if codes is None:
            self._pass_all()
        else:
            _check_answer(codes, cnp.NPY_INT32, self.scratch.work_count)
            self._store_codes(<const int32_t*> cnp.PyArray_DATA(codes))

    cdef void _pass_all(self) noexcept:
        cdef Py_ssize_t i
        cdef int32_t[::1] work = self.scratch.work, column = self.codes[self.current]
        if self.fresh:
            self.blank[self.current] = 1
        elif not self.blank[self.current]:
            for i in range(self.scratch.work_count):
                column[work[i]] = 0
        if self.scratch.work_count != self.scratch.alive_count:
            self._compact(self.current)

    cdef int _store_codes(self, const int32_t* code) except -1:
        cdef Py_ssize_t i, kept = 0, count = self.scratch.work_count
        cdef int32_t row, least = 0, refused = <int32_t> self.current + 1
        cdef int32_t* some
        cdef Scratch scratch = self.scratch
        cdef int32_t[::1] work = scratch.work, alive = scratch.alive, failed = self.failed, column = self.codes[self.current]
        for i in range(scratch.work_count):
            least = min(least, code[i])
        if least < 0:
            raise ValueError(f"code {least}: expected 0 or a positive reason")
        if self.blank[self.current] and not self.fresh:
            memset(&column[0], 0, self.extent * sizeof(int32_t))
        self.blank[self.current] = 0
        if scratch.work_count != scratch.alive_count:
            for i in range(scratch.work_count):
                column[work[i]] = code[i]
            self._compact(self.current)
            return 0
        # Everybody alive was asked, in the same order: the answers need not be read back by row.
        if self.fresh and count and work[count - 1] - work[0] == count - 1:  # in a fresh round rows ascend, so these have no gap
            row = work[0]
            memcpy(&column[row], code, count * sizeof(int32_t))
            some = &failed[row]
            for i in range(count):
                some[i] = 0 if code[i] == 0 else refused
            for i in range(count):
                alive[kept] = row + <int32_t> i
                kept += code[i] == 0
            scratch.alive_count = kept
            return 0
        for i in range(count):
            row = work[i]
            column[row] = code[i]
            failed[row] = 0 if code[i] == 0 else refused
            alive[kept] = row
            kept += code[i] == 0
        scratch.alive_count = kept
        return 0

    cdef void _compact(self, Py_ssize_t f) noexcept:
        # alive[0:kept] passed filters 0..f.
        cdef Py_ssize_t i, kept = 0
        cdef int32_t row
        cdef Scratch scratch = self.scratch
        cdef int32_t[::1] alive = scratch.alive, failed = self.failed, codes = self.codes[f]
        if self.blank[f]:
            return  # everybody passes
        for i in range(scratch.alive_count):
            row = alive[i]
            if codes[row] == 0:
                alive[kept] = row
                kept += 1
            else:
                failed[row] = <int32_t> f + 1
        scratch.alive_count = kept

    def settle(self):
        """End the filters' part of the round: what is alive is feasible."""
        cdef Py_ssize_t i
        cdef int64_t after
        cdef int32_t row
        cdef Scratch scratch = self.scratch
        cdef int32_t[::1] dirty = scratch.dirty, alive = scratch.alive, failed = self.failed
        cdef int64_t[::1] before = scratch.before
        cdef uint8_t[::1] flag = scratch.flag
        cdef uint64_t[::1] known = self.known_codes
        cdef uint64_t everything = _lowest_bits(self.filters)
        cdef bint verdict_changed = False, feasible_changed = False
        for i in range(scratch.alive_count):
            failed[alive[i]] = 0
        self.feasible_count += scratch.alive_count
        if self.fresh:
            verdict_changed = feasible_changed = True
        else:
            for i in range(scratch.dirty_count):
                row = dirty[i]
                flag[row] = CLEAN
                after = failed[row]
                if after == 0:
                    known[row] = everything
                elif after > 0:
                    known[row] |= _lowest_bits(after)  # asked up to the one that refused; what was known of later ones still is
                    after = self._verdict(row)
                if after != before[i]:
                    verdict_changed = True
                    feasible_changed |= after == 0 or before[i] == 0
        if self.fresh:
            scratch.all_feasible_of = self
            self.unscored = True
        self.fresh = False
        self.verdict_changed = verdict_changed
        self.feasible_changed = feasible_changed
        self.settled = True
        self.ranked = scratch.dirty_count == 0 and self.ranked
        if scratch.dirty_count > self.extent >> 3:
            self.rank_everything = True

    # Scorers

    def enable_scorers(self, enabled):
        """Say of each scorer whether it takes part from now on."""
        if len(enabled) != self.scorers:
            raise ValueError(f"{len(enabled)} flags for {self.scorers} scorers")
        cdef Py_ssize_t i
        for i in range(self.scorers):
            self.enabled[i] = bool(enabled[i])
        self.rank_everything = True

    def is_enabled(self, Py_ssize_t s):
        return self.enabled[s] == 1

    def next_scorer(self, Py_ssize_t s):
        """Return the first scorer from s on that has to answer for some feasible row (see `work_rows`), or -1."""
        cdef Py_ssize_t i, count
        cdef Scratch scratch = self.scratch
        cdef int32_t[::1] alive = scratch.alive, work = scratch.work
        cdef uint64_t[::1] known = self.known_scores
        cdef uint64_t mask
        if s == 0:
            self._gather_unscored()
            if not self.unscored:
                self._derive_known()
        while s < self.scorers:
            count = 0
            mask = <uint64_t> 1 << s
            if self.unscored and self.enabled[s]:
                count = scratch.alive_count
                memcpy(&work[0], &alive[0], count * sizeof(int32_t))
            elif self.enabled[s]:
                for i in range(scratch.alive_count):
                    work[count] = alive[i]
                    count += not known[alive[i]] & mask
            scratch.work_count = count
            if count:
                self.current = s
                return s
            s += 1
        return -1

    cdef void _gather_unscored(self) noexcept:
        # After settle, alive holds the dirty rows that are feasible; with rank_everything all feasible rows may lack a score.
        cdef Py_ssize_t row, count = 0
        cdef int32_t[::1] alive = self.scratch.alive, failed = self.failed
        if not self.rank_everything or self.scratch.all_feasible_of is self:
            return
        for row in range(self.extent):
            if failed[row] == 0:
                alive[count] = <int32_t> row
                count += 1
        self.scratch.alive_count = count
        self.scratch.all_feasible_of = self

    def store_scores(self, cnp.ndarray scores):
        """Take the current scorer's answer: one raw score for each of `work_rows`, or None when all of them are 0."""
        cdef Py_ssize_t i
        cdef int32_t[::1] work = self.scratch.work
        cdef int64_t[::1] raw = self.raw[self.current]
        cdef const int64_t* score
        if scores is None:
            for i in range(self.scratch.work_count):
                raw[work[i]] = 0
            return
        _check_answer(scores, cnp.NPY_INT64, self.scratch.work_count)
        score = <const int64_t*> cnp.PyArray_DATA(scores)
        for i in range(self.scratch.work_count):
            raw[work[i]] = score[i]

    def raw_scores(self, Py_ssize_t s, const int32_t[::1] rows):
        """Return scorer s's raw scores of these rows."""
        cdef Py_ssize_t i
        scores = np.empty(rows.shape[0], np.int64)
        cdef int64_t[::1] view = scores
        for i in range(rows.shape[0]):
            view[i] = self.raw[s, rows[i]]
        return scores

    def store_normalized(self, Py_ssize_t s, const int32_t[::1] rows, const int64_t[::1] scores):
        """Take the normalised scores of a NORMALIZE_CUSTOM scorer for all feasible rows."""
        cdef Py_ssize_t i
        if scores.shape[0] != rows.shape[0]:
            raise ValueError(f"{scores.shape[0]} scores for {rows.shape[0]} rows")
        for i in range(rows.shape[0]):
            self.custom[s, rows[i]] = scores[i]
        self.rank_everything = True

    # Ranking

    def rank(self):
        """Bring totals up to date. Return -1, or the scorer whose normalised score is out of 0..100 (it is in `invalid_score`)."""
        cdef Py_ssize_t i, block, last = -1, bad
        cdef Scratch scratch = self.scratch
        cdef uint64_t enabled = 0
        for i in range(self.scorers):
            enabled |= <uint64_t> self.enabled[i] << i
        if self.derivable:
            self.scored = enabled  # by every feasible row
        else:
            for i in range(scratch.alive_count):  # since next_scorer: all feasible rows that may have lacked a score
                self.known_scores[scratch.alive[i]] |= enabled
        if self.rank_everything:
            self._gather_unscored()  # again: a custom normalisation may have come after next_scorer
        if self._refresh_largest() and not self.rank_everything:
            self.rank_everything = True
            self._gather_unscored()
        if self.rank_everything:
            memset(&self.total[0], NO_SCORE_BYTE, self.extent * sizeof(int64_t))
            bad = self._total(scratch.alive, scratch.alive_count)
            self._block_totals()
        else:
            bad = self._total(scratch.work, self._split_dirty())
            for i in range(scratch.dirty_count):
                block = scratch.dirty[i] >> 6
                if block != last:
                    self._block_total(block)
                    last = block
        self.rank_everything = bad >= 0
        self.ranked = True
        self.unscored = False
        scratch.dirty_count = 0
        return bad

    cdef Py_ssize_t _split_dirty(self) noexcept:
        # Return how many dirty rows are feasible; they are in work[0:count]. The others lose their totals.
        cdef Py_ssize_t i, count = 0
        cdef int32_t row
        cdef int32_t[::1] dirty = self.scratch.dirty, work = self.scratch.work
        for i in range(self.scratch.dirty_count):
            row = dirty[i]
            if self.failed[row] == 0:
                work[count] = row
                count += 1
            else:
                self.total[row] = NO_SCORE
        return count

    cdef bint _refresh_largest(self) noexcept:
        # Return whether the divisor of a normalisation changed, so that every total is out of date.
        cdef Py_ssize_t s, i, block, last
        cdef int64_t largest
        cdef bint changed = False
        for s in range(self.scorers):
            if not self.enabled[s] or (self.modes[s] != NORMALIZE_MAX and self.modes[s] != NORMALIZE_MAX_REVERSE):
                continue
            if self.rank_everything:
                self._block_raws(s)
            else:
                last = -1
                for i in range(self.scratch.dirty_count):
                    block = self.scratch.dirty[i] >> 6
                    if block != last:
                        self._block_raw(s, block)
                        last = block
            largest = NO_SCORE
            for block in range(self.extent >> 6):
                largest = max(largest, self.block_raw[s, block])
            if largest != self.largest_raw[s]:
                self.largest_raw[s] = largest
                changed = True
        return changed

    cdef void _block_raw(self, Py_ssize_t s, Py_ssize_t block) noexcept:
        cdef Py_ssize_t row
        cdef int64_t largest = NO_SCORE
        cdef int32_t[::1] failed = self.failed
        cdef int64_t[::1] raw = self.raw[s]
        for row in range(block << 6, (block + 1) << 6):
            if failed[row] == 0 and raw[row] > largest:
                largest = raw[row]
        self.block_raw[s, block] = largest

    cdef Py_ssize_t _total(self, int32_t[::1] rows, Py_ssize_t count) noexcept:
        # Total rows[0:count], all feasible. Return -1, or a scorer whose score is out of range. Scorer by scorer: inner loops are straight.
        cdef Py_ssize_t s, i, row, bad = -1
        cdef int64_t score, weight, largest
        cdef int64_t[::1] total = self.total, column
        cdef bint invalid
        for i in range(count):
            total[rows[i]] = 0
        for s in range(self.scorers):
            if not self.enabled[s]:
                continue
            weight = self.weights[s]
            largest = self.largest_raw[s]
            column = self.custom[s] if self.modes[s] == NORMALIZE_CUSTOM else self.raw[s]
            invalid = False
            if self.modes[s] == NORMALIZE_NONE or self.modes[s] == NORMALIZE_CUSTOM:
                for i in range(count):
                    row = rows[i]
                    # A negative score is huge when unsigned: one comparison for both bounds.
                    invalid |= <uint64_t> column[row] > 100
                    total[row] += weight * column[row]
            elif largest <= 0:
                for i in range(count):
                    total[rows[i]] += 0 if self.modes[s] == NORMALIZE_MAX else 100 * weight
            else:
                for i in range(count):
                    row = rows[i]
                    score = divide(100 * column[row], largest)
                    if self.modes[s] == NORMALIZE_MAX_REVERSE:
                        score = 100 - score
                    invalid |= <uint64_t> score > 100
                    total[row] += weight * score
            if invalid:
                bad = s
                self.invalid_score = self._find_invalid(s)
        return bad

    cdef int64_t _find_invalid(self, Py_ssize_t s) noexcept:
        cdef Py_ssize_t row
        cdef int64_t score
        for row in range(self.extent):
            if self.failed[row] != 0:
                continue
            score = self.custom[s, row] if self.modes[s] == NORMALIZE_CUSTOM else self.raw[s, row]
            if self.modes[s] == NORMALIZE_MAX or self.modes[s] == NORMALIZE_MAX_REVERSE:
                score = divide(100 * score, self.largest_raw[s])
                if self.modes[s] == NORMALIZE_MAX_REVERSE:
                    score = 100 - score
            if score < 0 or score > 100:
                return score
        return 0

    cdef void _block_raws(self, Py_ssize_t s) noexcept:
        # _block_raw for all blocks, looking at feasible rows (alive) only.
        cdef Py_ssize_t i, block
        cdef int32_t[::1] alive = self.scratch.alive
        cdef int64_t[::1] raw = self.raw[s], largest = self.block_raw[s]
        memset(&largest[0], NO_SCORE_BYTE, (self.extent >> 6) * sizeof(int64_t))
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
        # _block_total for all blocks, looking at feasible rows (alive) only.
        cdef Py_ssize_t i, block
        cdef int32_t[::1] alive = self.scratch.alive, ties = self.block_ties
        cdef int64_t[::1] total = self.total, best = self.block_total
        memset(&best[0], NO_SCORE_BYTE, (self.extent >> 6) * sizeof(int64_t))
        memset(&ties[0], 0, (self.extent >> 6) * sizeof(int32_t))
        for i in range(self.scratch.alive_count):
            block = alive[i] >> 6
            if total[alive[i]] > best[block]:
                best[block] = total[alive[i]]
                ties[block] = 1
            elif total[alive[i]] == best[block]:
                ties[block] += 1

    def best(self):
        """Return (largest total, number of rows that have it); (0, 0) when no row is feasible."""
        cdef Py_ssize_t block
        cdef int64_t best = NO_SCORE
        cdef Py_ssize_t ties = 0
        for block in range(self.extent >> 6):
            if self.block_total[block] > best:
                best = self.block_total[block]
                ties = self.block_ties[block]
            elif self.block_total[block] == best and best != NO_SCORE:
                ties += self.block_ties[block]
        if ties == 0:
            return 0, 0
        return best, ties

    def pick(self, int64_t best, Py_ssize_t k):
        """Return the k-th row (from 0, in row order) whose total is `best`."""
        cdef Py_ssize_t block, row
        for block in range(self.extent >> 6):
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

    # Exceptions for one round

    def overrule(self, rows):
        """Leave these feasible rows out until `reinstate`; `rank` must follow."""
        self._derive_known()
        self.scratch.all_feasible_of = None
        cdef Py_ssize_t row
        for row in rows:
            if self.failed[row] == 0:
                self.failed[row] = OVERRULED
                self.feasible_count -= 1
        self.rank_everything = True

    def reinstate(self, rows):
        """Undo `overrule`."""
        self.scratch.all_feasible_of = None
        cdef Py_ssize_t row
        for row in rows:
            if self.failed[row] == OVERRULED:
                self.failed[row] = 0
                self.feasible_count += 1
        self.rank_everything = True

    # Reading

    def is_feasible(self, Py_ssize_t row):
        return 0 <= row < self.extent and self.failed[row] == 0

    def feasible_rows(self):
        """Return the feasible rows, ascending."""
        rows = np.empty(self.feasible_count, np.int32)
        cdef int32_t[::1] view = rows, failed = self.failed
        cdef Py_ssize_t row, count = 0
        if self.scratch.all_feasible_of is self and self.scratch.alive_count == self.feasible_count:
            if self.feasible_count:
                memcpy(&view[0], &self.scratch.alive[0], self.feasible_count * sizeof(int32_t))
            return rows
        for row in range(self.extent):
            if failed[row] == 0:
                view[count] = <int32_t> row
                count += 1
        return rows

    def verdict(self, Py_ssize_t row):
        """Return (filter, code) of the first filter that refused the row; (-1, 0) when it is feasible or no node."""
        cdef int32_t failed = self.failed[row] if 0 <= row < self.extent else NOT_LIVE
        if failed <= 0:
            return -1, 0
        return failed - 1, self.codes[failed - 1, row]

    def histogram(self):
        """Return [(filter, code, rows)] over refused rows, in order of first appearance. O(rows x distinct answers), few in practice."""
        cdef int64_t[HISTOGRAM_SIZE] keys
        cdef int64_t[HISTOGRAM_SIZE] counts
        cdef Py_ssize_t row, i, used = 0
        cdef int64_t key
        for row in range(self.extent):
            if self.failed[row] <= 0:
                continue
            key = (<int64_t> (self.failed[row] - 1) << 32) | self.codes[self.failed[row] - 1, row]
            for i in range(used):
                if keys[i] == key:
                    counts[i] += 1
                    break
            else:
                if used == HISTOGRAM_SIZE:
                    return self._wide_histogram()
                keys[used] = key
                counts[used] = 1
                used += 1
        return [(keys[i] >> 32, keys[i] & 0xFFFFFFFF, counts[i]) for i in range(used)]

    def _wide_histogram(self):
        _, filters, codes = self.refusals()
        pairs, counts = np.unique(np.stack((filters, codes)), axis=1, return_counts=True)
        return list(zip(pairs[0].tolist(), pairs[1].tolist(), counts.tolist(), strict=True))

    def refusals(self):
        """Return (rows, filters, codes) of all refused rows, ascending by row."""
        failed = np.asarray(self.failed)[:self.extent]
        rows = np.flatnonzero(failed > 0).astype(np.int32)
        filters = failed[rows] - 1
        return rows, filters, np.asarray(self.codes)[filters, rows]

    def scores(self, Py_ssize_t row):
        """Return (raw score of each scorer, total) of a feasible, ranked row."""
        return [self.raw[s, row] for s in range(self.scorers)], self.total[row]

    def nbytes(self):
        if self.capacity == 0:
            return 0  # never configured
        cdef Py_ssize_t per_row = 4 * self.codes.shape[0] + 8 * self.raw.shape[0] + 28
        return per_row * self.capacity + 8 * self.custom.shape[0] * self.custom.shape[1]
