from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable, Request

class PodIndex:
    """The pods of each row, the most important first: by priority descending, then the oldest, then in order of arrival.

    Pods are any objects, compared by identity. Requests are those that were added to the table's rows.
    """

    def __init__(self, table: NodeTable) -> None: ...
    @property
    def table(self) -> NodeTable: ...
    @property
    def generation(self) -> int: ...
    @property
    def log_end(self) -> int: ...
    def add(
        self,
        row: int,
        pod: object,
        priority: int,
        request: Request,
        started: float = inf,
        of_daemon_set: bool = False,
        budgets: int = 0,
        group: int = 0,
    ) -> None:
        """Add a pod.

        started: seconds, inf when it has not started; of_daemon_set: it can run on no other row; budgets: its set of them; group: a dry run
        looks for victims in one group, in -1 none does.
        """

    def remove(self, row: int, pod: object) -> None:
        """Remove a pod; LookupError when it is not there. O(pods of the row)."""

    def clear(self) -> None:
        """Remove all pods."""

    def exclude(self, row: int, pod: object) -> None:
        """Count this pod on its row, but never as a possible victim. LookupError when it is not there."""

    def set_budgets(self, allowed: Sequence[int], sets: Iterable[Sequence[int]]) -> None:
        """Set how many disruptions each budget still allows, and the budgets that each set consists of; set 0 must be empty."""

    def nonempty_rows(self) -> NDArray[np.int32]:
        """Return the rows with pods, in no order."""

    def lower_on(self, row: int, priority: int, group: int) -> list[Any]:
        """Return the row's pods of this group that are of a lower priority and not excluded, in order."""

    def shortages(self, rows: NDArray[np.int32], priority: int, request: Request, own: object = None) -> NDArray[np.int32]:
        """Return per row what filter_fit would answer if all pods of at least this priority, but for `own`, were added to its amounts.

        A row that would be short even when empty is not distinguished: bit 30 is never set.
        """
