# What one pod shape knows of every row: the answer of each filter, the score of each scorer, and which rows are best.
#
# A round is: first_filter (which finds out which rows are dirty), store_codes for each filter that has something unknown about a dirty row,
# then first_scorer and store_scores likewise, rank, best, pick. The Verdicts are true once there is no next filter, the Ranking after rank.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from koordsched._core.ranking cimport Ranking
from koordsched._core.scratch cimport Scratch
from koordsched._core.table cimport LogReader, NodeTable
from koordsched._core.verdicts cimport Verdicts

cdef enum:
    CHANGE_KINDS = 32  # koordsched._core.change.KINDS

cdef class Evaluation:
    cdef NodeTable table
    cdef Scratch scratch
    cdef Verdicts verdicts
    cdef Ranking ranking
    cdef LogReader log                      # up to which place in the table's log the columns are true
    cdef const uint32_t[::1] filter_reads   # [filter] change bits after which its answer is no longer known
    cdef const uint32_t[::1] scorer_reads   # [scorer]
    cdef uint32_t reads                     # all bits of filter_reads and scorer_reads
    cdef uint64_t[CHANGE_KINDS] code_readers   # [kind of change] the filters whose answers it makes unknown
    cdef uint64_t[CHANGE_KINDS] score_readers  # [kind of change] the scorers
    cdef uint64_t forgotten                 # bit f: filter f is to be asked again in the next round, whatever is known
    cdef list other                         # rows to be asked about in the next round, whatever the log says
    cdef Py_ssize_t late                    # the first filter that was forgotten when the round began, or -1
    cdef Py_ssize_t waiting                 # Scratch.dirty[waiting:] are rows that no filter before `late` has to be asked about
    cdef bint derivable                     # what is known is not written yet: it follows from Verdicts.failed and scored
    cdef uint64_t scored                    # while derivable: the scorers that every feasible row has answers of
    cdef bint unscored                      # no feasible row has a score since the fresh round: Ranking.known need not be asked
    cdef uint64_t overdue                   # bit s: scorer s has to be asked again about every feasible row before the next `rank`
    cdef uint64_t missing                   # since first_scorer: the scorers that some row of Scratch.alive lacks an answer of
    cdef bint ranked                        # `rank` has run since rows were last dirty
    cdef bint settled                       # false while a round is unfinished: the columns mean nothing
    cdef Py_ssize_t current                 # the filter or scorer that has to answer

    cdef void _begin(self)
    cdef void _start_over(self)
    cdef Py_ssize_t _next_filter(self, Py_ssize_t f)
    cdef void _settle(self)
    cdef Py_ssize_t _next_scorer(self, Py_ssize_t s)
    cdef void _extend(self) noexcept
    cdef void _write_known(self) noexcept
    cdef void _forget_answers(self) noexcept
    cdef void _join(self) noexcept
    cdef void _write_overdue(self) noexcept
    cdef void _dirty(self, Py_ssize_t row, uint32_t change) noexcept
