from collections.abc import Collection, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable, Request

class Part(Protocol):
    """What is kept of a row beside the table, and can be shown without some pods.

    counts_alone: it is read by plugins alone that name versions for the pods that it matters to (`Plugin.version`).
    """

    counts_alone: bool

    def hide(self) -> None:
        """Let the pods not be there."""

    def restore(self) -> None:
        """Make everything exactly what it was. Must not fail."""

class CompiledPart:
    """A `Part` whose work is compiled, so that a view of a thousand rows calls no Python for it. Derived from in `_core`."""

    counts_alone: bool

    def hide(self) -> None: ...
    def restore(self) -> None: ...

class HidingNode(Protocol):
    """What shows the pods of a row, but for those that are hidden."""

    hidden: frozenset[str] | None

class CountedPod(Protocol):
    """A pod that is counted on a node. node: with `row`, `shares_row` and `counted` (of `cache.nodes.NodeInfo`). info: with its `uid`."""

    @property
    def node(self) -> Any: ...
    @property
    def info(self) -> Any: ...
    @property
    def request(self) -> Request: ...

P = TypeVar("P", bound=CountedPod)

def locate(pods: dict[str, P], uids: Iterable[str]) -> tuple[dict[int, list[P]], list[str]]:
    """Return which of these pods each row counts, and the uids of those that are on no row of their own. pods: by uid."""

def rows_of_pods(pods: dict[str, P], uids: Collection[str]) -> NDArray[np.int32]:
    """Return the row of its own on which each of these pods is counted, -1 for those that are on none."""

def row_views(table: NodeTable, states: dict[int, list[P]], bits: dict[int, list[int]], parts: dict[int, list[Part]]) -> list[RowView]:
    """Make the views of many rows without these pods. bits, parts: as `RowView` takes them, of rows that have any."""

class RowView:
    """One row without some of its pods: amounts, bit columns, the node's pods, and what parts keep.

    Valid until the row is changed or touched (`NodeTable.touch`). Nothing is logged, and no row is touched by it.
    """

    def __init__(
        self,
        table: NodeTable,
        row: int,
        node: HidingNode,
        uids: frozenset[str],
        requests: Iterable[Request],
        bits: Iterable[int],
        parts: Iterable[Part],
    ) -> None:
        """requests: those of the pods. bits: columns that only these pods have set in the row. parts: hidden in this order.

        IndexError for a row or column that is not there.
        """

    @property
    def row(self) -> int: ...
    @property
    def uids(self) -> frozenset[str]:
        """The pods."""

    @property
    def counts_alone(self) -> bool:
        """Whether nothing else is hidden than amounts, ports, and what `Part.counts_alone` says so of."""

    @property
    def is_hidden(self) -> bool: ...
    def add(self, part: Part) -> None:
        """Let one more part be hidden and restored, the last one; one that hides already while the row is hidden."""

class TableView:
    """Rows without some of their pods, hidden and restored in one call. O(rows)."""

    def __init__(self, rows: Iterable[RowView]) -> None:
        """rows: each of another row."""

    @property
    def rows(self) -> list[RowView]: ...
    def outdated(self) -> list[int]:
        """Return the places in `rows` of those that are no longer valid, ascending."""

    def counts_alone(self) -> bool:
        """Answer whether all rows say so (`RowView.counts_alone`)."""

    def is_current(self) -> bool:
        """Answer whether all rows are valid. O(rows)."""

    def hide(self, rows: NDArray[np.int32] | None = None) -> None:
        """Hide the pods of all rows that are not hidden yet, or of those among these numbers. All must be valid.

        If a part raises, what this call has hidden is shown again. O(rows, those that are asked for).
        """

    def restore(self) -> None:
        """Undo `hide`, all calls of it."""

    def replace(self, i: int, row: RowView) -> None:
        """Put a new view of the same row at a place."""
