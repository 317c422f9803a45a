from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koordsched._core.pod_index import PodIndex
from koordsched._core.removal_filter import RemovalFilter
from koordsched._core.table import Request

class DryRun:
    """Which pods a preemptor of this priority and request would evict on each row, if amounts decide. O(rows that changed) a refresh.

    On each row all pods of lower priority in the group are removed; if the request fits then, as many as possible are put back: first those
    whose eviction violates a disruption budget, then the others, each in the index's order. Those that cannot be put back are the victims.
    """

    def __init__(
        self,
        index: PodIndex,
        nominated: PodIndex,
        priority: int,
        request: Request,
        group: int = 0,
        release: Sequence[tuple[int, int]] = (),
        others: Sequence[RemovalFilter] = (),
    ) -> None:
        """index: the pods on the rows, which are the possible victims. nominated: pods that count on their row, too, for a preemptor of
        the same or a lower priority, without being victims. group: that of the pods that may be evicted. release: (resource, amount) that
        the victims of a row must release besides; which they release is the same for every row. others: filters that have to pass the
        row, too, whenever amounts do, in the order in which they are asked."""

    @property
    def priority(self) -> int: ...
    @property
    def request(self) -> Request: ...
    @property
    def limited(self) -> bool:
        """Whether something has to be released."""
    def refresh(self) -> None:
        """Bring all rows up to date. Comes before everything else.

        Where all rows are begun with, the other filters are asked about a row only when its answer is needed.
        """

    def codes(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return per row 0 (it fits), -1 (no possible victim), -2 (no node), -3 (its possible victims do not release enough), filter_fit's
        code without all possible victims, or where amounts suffice then -4 (another filter refuses it) or -5 (one does not know)."""

    def codes_so_far(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the same, but -6 where amounts suffice and the other filters have not been asked yet."""

    def refusals(self, rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return which of the others refuses each row without all possible victims, and its code: of rows that `codes` has -4 for."""

    def best(self, rows: NDArray[np.int32], order: NDArray[np.int32]) -> int:
        """Return the best of these rows that fit, -1 when none does.

        The other filters are asked only about rows that may be better than the best one known by then. Compared are, the smaller the
        better, the next one where all before are equal: victims that violate a disruption budget, the highest priority of a victim, the
        sum over victims of priority + 2^31, the number of victims, victims of DaemonSets, how long the oldest victim of the highest
        priority has run, and order[row].
        """

    def ranks(self, rows: NDArray[np.int32]) -> tuple[NDArray[Any], ...]:
        """Return, column by column, what `best` compares of each row before order[row]. Rows that do not fit have the least rank."""

    def slots(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return how many such requests each row would have room for without its possible victims, beside the nominated pods that count."""

    def codes_beside(self, rows: NDArray[np.int32], placed: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return filter_fit's code of one more such request on each row without its possible victims, beside placed[i] of them and the
        nominated pods that count; 0: it fits. ValueError when the lengths differ, IndexError for a row that the table does not have."""

    def costs(
        self, rows: NDArray[np.int32], held: NDArray[np.int64], unit: NDArray[np.int64], most: int, none_allowed: bool = False
    ) -> NDArray[np.int64]:
        """Return [i, k]: what it costs to have room on rows[i] for k times the amounts `unit` beside the amounts held[i]; -1: it has not.

        Amounts are by the resources of the request. A cost is the sum over victims of priority + 2^31, and of 2^46 for each that violates
        a disruption budget; none_allowed: as if no budget allowed any disruption.
        """

    def victims_beside(self, row: int, held: NDArray[np.int64], violating: NDArray[np.uint8]) -> list[int]:
        """Return the indices of the row's possible victims (`PodIndex.lower_on`) that cannot be put back beside these amounts.

        violating: of each possible victim, whether evicting it violates a budget; those are put back before the others.
        """

    def victims(self, row: int) -> tuple[list[Any], int]:
        """Return the victims of a row that fits, the most important first, and how many violate a budget. LookupError if it does not."""

    def lower_bounds(self, rows: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return two bounds per row that hold for every set of victims that makes room; meaningless where `codes` is not 0.

        1 if some victim violates a disruption budget, else 0; and the least possible priority of the most important victim.
        """

def cheapest(costs: NDArray[np.int64], wanted: int) -> NDArray[np.int32] | None:
    """Return how many each row is to have room for: `wanted` in all, for the least sum of costs; None: they have room for fewer.

    costs: [row, k], as `DryRun.costs` answers; more may cost less, where what is put back for fewer no longer finds room. Of equal sums
    the earlier rows are taken. O(rows x wanted x most of a row).
    """

def least_sums(costs: NDArray[np.int64], wanted: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the least cost of each number of pods up to `wanted` on all items, and how many each item has of them.

    costs: [item, k]; -1 where it cannot have k. sums[j]: -1 where j cannot be reached. taken[i, j]: of the item i where the items up to it
    have j; of equal sums the earlier items have more. O(items x wanted x k).
    """
