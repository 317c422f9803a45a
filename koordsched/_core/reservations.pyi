from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from koordsched._core.reserved_source import ReservedSource
from koordsched._core.table import NodeTable, Request

SOURCE_SHIFT: int
UNDECIDED: int

def refusal_of(row: int, uid: str, sources: Sequence[ReservedSource]) -> int:
    """Return why Reserve would fail on the row if a pod was given the reservation, as `unsuited` says it; 0: it would not. UNDECIDED.

    Outside of views and simulations: all reservations of the row hold what they have left.
    """

class Matched:
    """The reservations that a pod matches, as pairs of row and slot, ascending by row. Immutable."""

    def __init__(self, rows: NDArray[np.int32], slots: NDArray[np.int32], uids: Sequence[str] | None = None) -> None:
        """uids: of their placeholders, for `unsuited`."""
    def __len__(self) -> int: ...
    @property
    def rows(self) -> NDArray[np.int32]: ...
    def slots_of(self, row: int) -> list[int]: ...
    def uids_of(self, row: int) -> list[str]:
        """Return the placeholders of the row's reservations, in the order in which they are asked about."""

class Shortages:
    """Codes of a filter: each stands for what nodes and what reservations are short of. Belongs to one shape."""

    def __init__(self) -> None: ...
    def of(self, code: int) -> tuple[int, int, int]:
        """Return (bits of the request's ids of which nodes are short, the same of reservations, tag)."""

class Capacity:
    """What a reservation has and restricts, by resource ids: compiled once for all that have the same."""

    def __init__(self, allocatable: Mapping[int, int], named: Collection[int], weights: int, *, limits: bool) -> None:
        """named: its ResourceNames. weights: resources of which something is allocatable. limits: its policy is Restricted, and an owner
        gets no more of what it names than what is left.
        """

class ReservationTable:
    """What is left of reservations, by slot; amounts by resource ids of the node table."""

    skips_fit: bool
    """Where a pod matches one reservation of a row, only that is asked: NodeResourcesFit has compared the row's amounts. False at first."""

    def __init__(self, table: NodeTable) -> None: ...
    @property
    def capacity(self) -> int: ...
    def acquire(self) -> int:
        """Take a free slot, all 0."""

    def release(self, slot: int) -> None: ...
    def write(
        self,
        slot: int,
        capacity: Capacity,
        allocated: Mapping[int, int],
        reserved: Mapping[int, int],
        owners_left: int | None,
        order: int,
    ) -> None:
        """Write what a reservation has. allocated: what owners take, which may be more than there is. reserved: inside, for no owner.

        owners_left: None, not limited.
        """

    def count(self, slot: int, owner: Request, sign: int) -> None:
        """Let an owner take what it requests (1), or give it back (-1): what `write` would write then."""

    def filter(
        self, request: Request, rows: NDArray[np.int32], matched: Matched, shortages: Shortages, tag: int, *, required: bool
    ) -> NDArray[np.int32]:
        """Return 0 for rows where the pod fits with one of its reservations, or without where that may be; else codes of `shortages`.

        To be called while the placeholders of `matched` are hidden (`Cache.view`). required: the pod has to use one.
        """

    def unsuited(
        self,
        request: Request,
        rows: NDArray[np.int32],
        codes: NDArray[np.int32],
        matched: Matched,
        sources: Sequence[ReservedSource],
        *,
        required: bool,
    ) -> NDArray[np.int64]:
        """Return, of the rows whose code is 0, why none of their reservations suits the pod in all respects, nor the row without; else 0.

        What is said is the code of a source, with its place among `sources` above SOURCE_SHIFT: of the last reservation that was asked
        about, or of the row without any. UNDECIDED: a source does not know some reservation of the row. Rows where the sources have nothing
        to add to `filter` are not asked about: without pairs, with a single reservation that is not Restricted, and where none holds
        anything. Within the view, as `filter`, and outside of simulations.
        """

    def scores(self, request: Request, rows: NDArray[np.int32], matched: Matched, *, required: bool) -> NDArray[np.int64]:
        """Return the score of the reservation that each row would be given, 0 where there is none. Within the view, as `filter`."""

    def first_by_order(self, rows: NDArray[np.int32], matched: Matched) -> int:
        """Return which of the rows has the matched reservation of the smallest order, the first of equal ones; -1: none has an order."""

    def fits(self, slot: int, request: Request, row: int, *, counted: bool) -> tuple[int, int]:
        """Return (bits of which the row is short, bits of which the reservation is) for a pod with this one, outside of views.

        counted: the row counts the pod already.
        """

    def fits_hidden(self, slot: int, request: Request, row: int, matched: Matched) -> tuple[int, int]:
        """Return the same within the view that hides all of `matched`, for a pod that is counted nowhere. slot -1: with no reservation."""

    def touches(self, slot: int, request: Request) -> bool:
        """Answer whether the pod requests anything that the reservation reserves."""

    def score(self, slot: int, request: Request) -> int:
        """Return how full the reservation would be, 0 to 100 (MostAllocated)."""
