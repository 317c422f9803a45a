from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from koordsched._core.scratch import Scratch
from koordsched._core.table import NodeTable

class Evaluation:
    """What one pod shape knows of every row of a table: each filter's answer, each scorer's raw score, totals, and which rows are best.

    One round: as long as `first_filter`, and after it `store_codes`, names a filter, ask that about `work_rows`; then the same with
    `first_scorer` and `store_scores`; `rank`; `best` and `pick`. Only rows that changed since the last round are asked about
    (O(changed rows)), with the same result as asking about all of them.
    """

    def __init__(self, table: NodeTable, scratch: Scratch) -> None: ...
    def configure(self, filter_reads: Sequence[int], scorer_reads: Sequence[int], modes: Sequence[int], weights: Sequence[int]) -> None:
        """Forget everything and answer for these filters and scorers (change bits they read, Normalize modes, weights) from now on.

        An array of C ints (reads: unsigned; weights: long long) is kept and must not change. ValueError for more than 64 of either.
        """

    @property
    def feasible_count(self) -> int: ...
    @property
    def feasible_changed(self) -> bool: ...
    @property
    def verdict_changed(self) -> bool:
        """Whether the last round changed why some row is refused, or which rows are feasible."""

    @property
    def invalid_score(self) -> int: ...
    def is_current(self) -> bool:
        """Answer whether nothing has changed since the last round, so that none is needed."""

    def behind(self) -> int:
        """Return how many rows may have to be asked about before the columns are up to date, at most."""

    def show_other(self, rows: list[int]) -> None:
        """Ask whoever reads anything of rows about these again in the next round: their contents are others, and the log does not say so.

        IndexError.
        """

    def forget_filter(self, f: int) -> None:
        """Ask filter f about every row that no earlier filter refuses in the next round. IndexError when there is no such filter."""

    def forget_scorer(self, s: int) -> None:
        """Ask scorer s about every feasible row in the next round."""

    def first_filter(self) -> int:
        """Begin a round unless nothing has changed since the last one.

        Return the first filter that has to answer for some row (see `work_rows`), or -1: all verdicts are up to date.
        """

    def first_scorer(self) -> int:
        """Return the first scorer that has to answer for some feasible row, or -1."""

    def work_rows(self) -> NDArray[np.int32]:
        """Return the rows to answer for: a view that is valid until the answer is stored."""

    def store_codes(self, codes: NDArray[np.int32] | None) -> int:
        """Take the answer for `work_rows`; None: all pass. ValueError for another length or a negative code.

        Return the next filter that has to answer. -1: `feasible_count`, `feasible_changed` and `verdict_changed` are true now.
        """

    def enable_scorers(self, enabled: Sequence[bool]) -> None:
        """Say of each scorer whether it takes part from now on (all do after `configure`)."""

    def is_enabled(self, s: int) -> bool: ...
    def store_scores(self, scores: NDArray[np.int64] | None) -> int:
        """Take the raw scores of `work_rows`; None: all are 0. Return the next scorer that has to answer, or -1."""

    def raw_scores(self, s: int, rows: NDArray[np.int32]) -> NDArray[np.int64]: ...
    def store_normalized(self, s: int, rows: NDArray[np.int32], scores: NDArray[np.int64]) -> None:
        """Take what a custom normalisation made of scorer s's scores for all feasible rows."""

    def rank(self) -> int:
        """Bring totals up to date. Return -1, or the scorer whose normalised score is outside 0..100."""

    def best(self) -> tuple[int, int]:
        """Return (largest total, rows that have it); (0, 0) when no row is feasible. O(rows / 64)."""

    def pick(self, best: int, k: int) -> int:
        """Return the k-th row, from 0 in row order, whose total is `best`. LookupError when there is none."""

    def overrule(self, rows: NDArray[np.int32]) -> None:
        """Leave these feasible rows out until `reinstate`; `rank` must follow."""

    def reinstate(self, rows: NDArray[np.int32]) -> None: ...
    def is_feasible(self, row: int) -> bool: ...
    def feasible_among(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return those of the rows that are feasible, in the same order."""

    def feasible_rows(self) -> NDArray[np.int32]: ...
    def verdict(self, row: int) -> tuple[int, int]:
        """Return (filter, code) of the first filter that refused the row; (-1, 0) when it is feasible or no node."""

    def verdicts_of(self, rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return (filters, codes) of these rows, each as `verdict` has it."""

    def histogram(self) -> list[tuple[int, int, int]]:
        """Return (filter, code, rows) for each distinct refusal."""

    def refusals(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Return (rows, filters, codes) of all refused rows."""

    def totals_among(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the totals of these feasible, ranked rows as if no other row was feasible. ValueError for a row that is not feasible.

        Scorers that normalise by themselves are left out.
        """

    def scores(self, row: int) -> tuple[list[int], int]: ...
    def nbytes(self) -> int:
        """Return the most memory that the columns can take up with as many rows as are in use now; a half is usual (`Verdicts.blank`)."""
