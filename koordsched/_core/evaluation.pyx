"""What one pod shape knows of every row, kept up to date by asking only about rows that changed."""

from array import array

cimport cython
cimport numpy as cnp
from libc.string cimport memcpy, memset

from koordsched._core.change import KINDS, NodeChange
from koordsched._core.scratch cimport CLEAN, DIRTY
from koordsched._core.table cimport LOG_SIZE, UndoneTurn
from koordsched._core.verdicts cimport MAX_PLUGINS, lowest_bits

cdef extern from *:
    int lowest_bit "__builtin_ctz"(unsigned int) noexcept nogil

cnp.import_array()

cdef uint32_t CHANGE_EXISTENCE = int(NodeChange.EXISTENCE)
if KINDS != CHANGE_KINDS:
    raise ImportError(f"an Evaluation has room for {CHANGE_KINDS} kinds of change, NodeChange has {KINDS}")


cdef uint32_t _readers(const uint32_t[::1] reads, uint64_t* readers) noexcept:
    """Write for each kind of change the plugins that read it, as a mask, and return all kinds that are read."""
    cdef Py_ssize_t i
    cdef uint32_t kinds, known = 0
    memset(readers, 0, CHANGE_KINDS * sizeof(uint64_t))
    for i in range(reads.shape[0]):
        kinds = reads[i]
        known |= kinds
        while kinds:
            readers[lowest_bit(kinds)] |= <uint64_t> 1 << i
            kinds &= kinds - 1
    return known


cdef enum:
    NO_FILTER = -1  # of `late`


cdef object _vector(str typecode, values):
    return values if isinstance(values, array) else array(typecode, values)


@cython.final
cdef class Evaluation:

    def __init__(self, NodeTable table not None, Scratch scratch not None):
        self.table = table
        self.log = LogReader(table)
        self.scratch = scratch
        self.verdicts = Verdicts(scratch)
        self.ranking = Ranking(scratch, self.verdicts)
        self.other = []

    def configure(self, filter_reads, scorer_reads, modes, weights):
        """Forget everything and answer for these filters and scorers from now on. Arrays are kept and must not change."""
        cdef Py_ssize_t capacity = self.table.capacity
        self.filter_reads = _vector("I", filter_reads)
        self.scorer_reads = _vector("I", scorer_reads)
        if self.filter_reads.shape[0] > MAX_PLUGINS or self.scorer_reads.shape[0] > MAX_PLUGINS:
            raise ValueError(
                f"{self.filter_reads.shape[0]} filters and {self.scorer_reads.shape[0]} scorers: at most {MAX_PLUGINS} of each"
            )
        self.reads = _readers(self.filter_reads, self.code_readers) | _readers(self.scorer_reads, self.score_readers)
        self.settled = False
        self.forgotten = 0
        self.scratch.ensure(capacity)
        self.verdicts.reserve(self.filter_reads.shape[0], capacity)
        self.ranking.configure(_vector("i", modes), _vector("q", weights), capacity)

    # Which rows

    cdef void _begin(self):
        # Begin a round: the rows that changed since the last one in a way that a plugin reads are dirty.
        cdef int64_t i, place
        cdef UndoneTurn undone
        if not self.settled or self.table.capacity != self.verdicts.capacity or not self.log.reaches():
            self._start_over()
            return
        if not self.ranked:
            self.ranking.all_stale = True  # rows that were dirty in the last round have no totals yet
        self.scratch.begin_incremental()
        self._write_known()
        self._extend()
        undone = self.log.undone
        if undone is not None:
            for i in range(undone.rows.shape[0]):
                self._dirty(undone.rows[i], undone.changes[i])
        for i in range(self.log.position, self.table.log_end):
            place = i & (LOG_SIZE - 1)
            self._dirty(self.table.log_row[place], self.table.log_change[place])
        if self.other:
            for row in self.other:
                self._dirty(row, self.reads & ~CHANGE_EXISTENCE)
            self.other = []
        self.log.done()
        self.settled = False
        self.verdicts.begin(self.table.live)
        self.late = NO_FILTER
        if self.forgotten:
            self._forget_answers()

    def is_current(self):
        """Answer whether nothing has changed since the last round, so that none is needed."""
        if not self.settled or self.forgotten or self.other or not self.log.is_current():
            return False
        self.scratch.begin_unchanged(self.verdicts)
        self.verdicts.verdict_changed = self.verdicts.feasible_changed = False
        if not self.ranked:
            self.ranking.all_stale = True  # which rows were dirty in the last round is gone
        return True

    def behind(self):
        """Return how many rows may have to be asked about before the columns are up to date, at most."""
        cdef int64_t entries = self.table.log_end - self.log.position + len(self.other)
        if not self.settled or self.forgotten or self.table.capacity != self.verdicts.capacity or not 0 <= entries <= LOG_SIZE:
            return self.table.live_count
        if self.log.tentative and self.log.rewinds != self.table.rewinds:
            return self.table.live_count  # what was undone since is for the next round to find out: the log's reader says it once
        return min(entries, self.table.live_count)

    def show_other(self, list rows not None):
        """Ask again about these rows in the next round: their contents are other ones without a change in the table's log."""
        for row in rows:
            self.table.check_row(row)
        self.other = self.other + rows

    cdef void _start_over(self):
        # Begin a round in which everything is unknown.
        cdef Py_ssize_t capacity = self.table.capacity
        self.scratch.ensure(capacity)
        self.verdicts.reserve(self.verdicts.filters, capacity)
        self.ranking.reserve(capacity)
        self.scratch.begin_fresh(self.table.live_rows())
        self.verdicts.extent = 0
        self.verdicts.feasible_count = 0
        self.derivable = True
        self.scored = 0
        self.forgotten = 0
        self.other = []
        self.overdue = 0
        self.late = NO_FILTER
        self._extend()
        self.log.done()
        self.ranking.all_stale = True
        self.settled = False

    cdef void _extend(self) noexcept:
        # Nothing is known of rows that the table has begun to use since the last round.
        cdef Py_ssize_t begin = self.verdicts.extent
        cdef Py_ssize_t count = self.table.extent() - begin
        if count == 0:
            return
        self.verdicts.extent = begin + count
        if not self.derivable:
            memset(&self.verdicts.known[begin], 0, count * sizeof(uint64_t))
            memset(&self.ranking.known[begin], 0, count * sizeof(uint64_t))
        memset(&self.verdicts.failed[begin], 0xFF, count * sizeof(int32_t))  # NOT_LIVE
        self.ranking.all_stale = True

    cdef void _write_known(self) noexcept:
        # What a fresh round found out is written down only when there is a next round: half of the shapes of a busy cluster have none.
        cdef Py_ssize_t row
        cdef int32_t refused
        cdef int32_t[::1] failed = self.verdicts.failed
        cdef uint64_t[::1] codes = self.verdicts.known, scores = self.ranking.known
        cdef uint64_t everything = lowest_bits(self.verdicts.filters)
        if not self.derivable:
            return
        for row in range(self.verdicts.extent):
            refused = failed[row]
            codes[row] = everything if refused == 0 else (lowest_bits(refused) if refused > 0 else 0)
            scores[row] = self.scored if refused == 0 else 0
        self.derivable = False

    cdef void _forget_answers(self) noexcept:
        # Rows on which no filter before the first forgotten one is asked wait in dirty[waiting:]: they join those alive when the first
        # forgotten filter's turn comes, since all earlier ones let them pass. A row that an earlier filter refuses stays refused.
        self.late = 0
        while not self.forgotten >> self.late & 1:
            self.late += 1
        self.waiting = self.scratch.dirty_count
        self.verdicts.withdraw(<int32_t> self.late + 1, self.forgotten)
        self.forgotten = 0

    cdef void _dirty(self, Py_ssize_t row, uint32_t change) noexcept:
        cdef Py_ssize_t i
        cdef uint64_t codes = 0, scores = 0
        cdef Scratch scratch = self.scratch
        if change & CHANGE_EXISTENCE:
            codes = scores = ~<uint64_t> 0  # another node: no answer holds, not even of a plugin that reads nothing of nodes
            change = 0
        elif not change & self.reads:
            return
        if scratch.flag[row] == CLEAN:
            scratch.flag[row] = DIRTY
            scratch.dirty[scratch.dirty_count] = <int32_t> row
            scratch.dirty_count += 1
        while change:
            i = lowest_bit(change)
            codes |= self.code_readers[i]
            scores |= self.score_readers[i]
            change &= change - 1
        self.verdicts.known[row] &= ~codes
        self.ranking.known[row] &= ~scores

    def work_rows(self):
        """Return the rows that the current filter or scorer has to answer for. Valid until its answer is stored."""
        return self.scratch.first_row if self.scratch.work_count == 1 else self.scratch.work_array[:self.scratch.work_count]

    # Filters

    def first_filter(self):
        """Begin a round unless nothing has changed since the last one.

        Return the first filter that has to answer for some row (see `work_rows`), or -1: all verdicts are up to date.
        """
        if self.is_current():
            return -1
        self._begin()
        return self._next_filter(0)

    cdef Py_ssize_t _next_filter(self, Py_ssize_t f):
        # Return the first filter from f on that has to answer for some row; -1 ends the filters' part of the round.
        while f < self.verdicts.filters:
            if f == self.late:
                self._join()
            if self.scratch.fresh:
                self.scratch.ask_all()
            else:
                self.scratch.ask_unknown(self.verdicts.known, <uint64_t> 1 << f)
            if self.scratch.work_count:
                self.current = f
                return f
            self.verdicts.compact(f)
            f += 1
        self._settle()
        return -1

    cdef void _join(self) noexcept:
        # Make those alive that only wait for this filter.
        cdef Py_ssize_t count = self.scratch.dirty_count - self.waiting
        if count:
            memcpy(&self.scratch.alive[self.scratch.alive_count], &self.scratch.dirty[self.waiting], count * sizeof(int32_t))
        self.scratch.alive_count += count

    def store_codes(self, cnp.ndarray codes):
        """Take the current filter's answer: one code for each of `work_rows`, or None when all of them pass.

        Return the next filter that has to answer, or -1, as `first_filter` does.
        """
        self.verdicts.store(self.current, codes)
        return self._next_filter(self.current + 1)

    cdef void _settle(self):
        # What is alive is feasible.
        self.verdicts.settle()
        if not self.scratch.fresh and self.late != NO_FILTER:
            self.verdicts.leave_out_unchanged(self.waiting)
        if self.scratch.fresh:
            self.unscored = True
        self.settled = True
        self.ranked = self.scratch.dirty_count == 0 and self.ranked
        if self.scratch.dirty_count > self.verdicts.extent >> 3:
            self.ranking.all_stale = True

    @property
    def feasible_count(self):
        return self.verdicts.feasible_count

    @property
    def feasible_changed(self):
        return self.verdicts.feasible_changed

    @property
    def verdict_changed(self):
        return self.verdicts.verdict_changed

    def overrule(self, const int32_t[::1] rows not None):
        """Leave these feasible rows out until `reinstate`; `rank` must follow."""
        self._write_known()  # of a row that is left out it could not be derived
        self.verdicts.overrule(rows)
        self.ranking.all_stale = True

    def reinstate(self, const int32_t[::1] rows not None):
        """Undo `overrule`."""
        self.verdicts.reinstate(rows)
        self.ranking.all_stale = True

    def is_feasible(self, Py_ssize_t row):
        return 0 <= row < self.verdicts.extent and self.verdicts.failed[row] == 0

    def feasible_among(self, const int32_t[::1] rows not None):
        """Return those of the rows that are feasible, in the same order."""
        return self.verdicts.feasible_among(rows)

    def feasible_rows(self):
        """Return the feasible rows, ascending."""
        return self.verdicts.feasible_rows()

    def verdict(self, Py_ssize_t row):
        """Return (filter, code) of the first filter that refused the row; (-1, 0) when it is feasible or no node."""
        return self.verdicts.verdict(row)

    def verdicts_of(self, const int32_t[::1] rows not None):
        """Return (filters, codes) of these rows, each as `verdict` has it."""
        return self.verdicts.verdicts_of(rows)

    def histogram(self):
        """Return [(filter, code, rows)] over refused rows, in order of first appearance."""
        return self.verdicts.histogram()

    def refusals(self):
        """Return (rows, filters, codes) of all refused rows, ascending by row."""
        return self.verdicts.refusals()

    # Scorers

    def enable_scorers(self, enabled):
        """Say of each scorer whether it takes part from now on."""
        self.ranking.enable(enabled)

    def is_enabled(self, Py_ssize_t s):
        return self.ranking.enabled >> s & 1 == 1

    def forget_filter(self, Py_ssize_t f):
        """Ask filter f about every row that no earlier filter refuses in the next round."""
        if f < 0 or f >= self.verdicts.filters:
            raise IndexError(f"filter {f} of {self.verdicts.filters}")
        self.forgotten |= <uint64_t> 1 << f

    def forget_scorer(self, Py_ssize_t s):
        """Ask scorer s about every feasible row in the next round."""
        if s < 0 or s >= self.ranking.scorers:
            raise IndexError(f"scorer {s} of {self.ranking.scorers}")
        self.ranking.forget(s)
        self.overdue |= <uint64_t> 1 << s

    def first_scorer(self):
        """Return the first scorer that has to answer for some feasible row (see `work_rows`), or -1."""
        # The round's filters have left in alive the dirty rows that are feasible; when all totals are stale, any feasible row may lack
        # a score.
        if self.ranking.all_stale:
            self.verdicts.list_feasible()
        if not self.unscored:
            self._write_known()
            self.missing = self.scratch.unknown(self.ranking.known)
        return self._next_scorer(0)

    cdef Py_ssize_t _next_scorer(self, Py_ssize_t s):
        cdef uint64_t mask
        while s < self.ranking.scorers:
            mask = <uint64_t> 1 << s
            if not self.ranking.enabled & mask:
                self.scratch.work_count = 0
            elif self.overdue & mask:
                self.verdicts.ask_feasible()
            elif self.unscored:
                self.scratch.ask_all()
            elif self.missing & mask:
                self.scratch.ask_unknown(self.ranking.known, mask)
            else:
                self.scratch.work_count = 0
            if self.scratch.work_count:
                self.current = s
                return s
            s += 1
        return -1

    def store_scores(self, cnp.ndarray scores):
        """Take the current scorer's answer: one raw score for each of `work_rows`, or None when all of them are 0.

        Return the next scorer that has to answer, or -1.
        """
        self.ranking.store(self.current, scores)
        return self._next_scorer(self.current + 1)

    def raw_scores(self, Py_ssize_t s, const int32_t[::1] rows):
        """Return scorer s's raw scores of these rows."""
        return self.ranking.raw_scores(s, rows)

    def store_normalized(self, Py_ssize_t s, const int32_t[::1] rows, const int64_t[::1] scores):
        """Take the normalised scores of a NORMALIZE_CUSTOM scorer for all feasible rows."""
        self.ranking.store_normalized(s, rows, scores)

    # Ranking

    def rank(self):
        """Bring totals up to date. Return -1, or the scorer whose normalised score is out of 0..100 (it is in `invalid_score`)."""
        cdef Py_ssize_t i
        cdef int32_t[::1] alive = self.scratch.alive
        cdef uint64_t[::1] known = self.ranking.known
        cdef uint64_t enabled = self.ranking.enabled
        if self.derivable:
            self.scored = enabled  # by every feasible row
        else:
            for i in range(self.scratch.alive_count):  # since first_scorer: all feasible rows that may have lacked a score
                known[alive[i]] |= enabled
            if self.overdue:
                self._write_overdue()
        self.overdue = 0
        self.ranked = True
        self.unscored = False
        return self.ranking.rank()

    cdef void _write_overdue(self) noexcept:
        # Every feasible row has answers now; what was known of other rows is not true any more. Rows that are not live become so with
        # nothing known.
        cdef Py_ssize_t row
        cdef int32_t[::1] failed = self.verdicts.failed
        cdef uint64_t[::1] known = self.ranking.known
        cdef uint64_t unasked = self.overdue & ~self.ranking.enabled
        if not unasked and self.verdicts.feasible_count == self.table.live_count:
            return
        for row in range(self.verdicts.extent):
            known[row] &= ~(unasked if failed[row] == 0 else self.overdue)

    @property
    def invalid_score(self):
        return self.ranking.invalid_score

    def best(self):
        """Return (largest total, number of rows that have it); (0, 0) when no row is feasible."""
        return self.ranking.best()

    def pick(self, int64_t best, Py_ssize_t k):
        """Return the k-th row (from 0, in row order) whose total is `best`."""
        return self.ranking.pick(best, k)

    def totals_among(self, const int32_t[::1] rows not None):
        """Return the totals of these feasible, ranked rows as if no others were feasible, without scorers that normalise by themselves."""
        cdef Py_ssize_t i, row
        for i in range(rows.shape[0]):
            row = rows[i]
            if row < 0 or row >= self.verdicts.extent or self.verdicts.failed[row] != 0:
                raise ValueError(f"row {row} is not feasible")
        return self.ranking.totals_among(rows)

    def scores(self, Py_ssize_t row):
        """Return (raw score of each scorer, total) of a feasible, ranked row."""
        return self.ranking.scores(row)

    def nbytes(self):
        # Columns are longer, but a page of them that is never written takes no memory.
        return (self.verdicts.row_bytes() + self.ranking.row_bytes()) * self.table.extent()
