from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from koordsched._core.reservations import Shortages
from koordsched._core.table import NodeTable, Request

class CandidateRows:
    """Running pods that Reservations may take over, by row."""

    def __init__(self, table: NodeTable) -> None: ...
    def set_row(self, row: int, requests: Iterable[Request]) -> None:
        """Write what the pods of a row have, in the order in which they are tried."""

class PreAllocatable:
    """The running pods that Reservations of one kind may take over, and which of them they take (reservation.md §13).

    One pod is taken that makes a Reservation the fullest; with `multiple`, pods in their order until it fits, or those first that make it
    the fullest (`by_score`).
    """

    def __init__(
        self,
        candidates: CandidateRows,
        request: Request,
        limits: Mapping[str, int],
        *,
        most: int | None,
        weights: int,
        multiple: bool,
        by_score: bool,
        required: bool,
        prefers_none: bool,
    ) -> None:
        """request: of the reserve pod. limits: by name, what its owners may have together; they take other resources from the node.

        most: owners that it may have, None: any number. weights: resources that it holds, those that no row offers included.
        ValueError when a request has more than 30 resources.
        """

    multiple: bool
    by_score: bool
    required: bool
    prefers_none: bool

    def filter(self, rows: NDArray[np.int32], shortages: Shortages) -> NDArray[np.int32]:
        """Return 0 for rows where the Reservation fits with pods or without, where that may be; else codes of `shortages`.

        To be called while these pods are hidden (`Cache.view`). Rows without such pods pass, unless some are required.
        """

    def scores(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return how full the chosen pod makes it, 0 without one; with `multiple` 100 divided by one more than the pods. As `filter`."""

    def choose(self, row: int) -> tuple[list[int] | None, int, int]:
        """Return which pods of the row a Reservation takes over, in the order in which they were tried.

        To be called outside of views; its reserve pod is counted already. None: it does not fit; then bits of the request's entries of
        which the row is short, and of which pods ask for too much.
        """
