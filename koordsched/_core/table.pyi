from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

class Request:
    """What one pod adds to a row: resource ids (the first is "pods") with amounts > 0, and the nonzero amounts for scores.

    The ids must exist in the table (`NodeTable.ensure_resources`). The last `absent` amounts are of resources that no row has: they are
    compared with rows, in a column that is always 0, but not added to them. names: of the resources, for messages about short ones.
    """

    def __init__(
        self,
        ids: Sequence[int],
        amounts: Sequence[int],
        nonzero_cpu: int,
        nonzero_memory: int,
        names: tuple[str, ...] = (),
        absent: int = 0,
    ) -> None: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def __len__(self) -> int: ...
    @property
    def nonzero_cpu(self) -> int: ...
    @property
    def nonzero_memory(self) -> int: ...
    @property
    def amounts_by_id(self) -> dict[int, int]: ...

class NodeTable:
    """Columns over nodes: one row a node, one column a fact. Grows by doubling; freed rows are used again.

    Every change of a fact that an answer may depend on is logged with its kind (`koordsched._core.change.NodeChange`); readers remember a
    position in the log and ask for `changes_since`. Not thread-safe. IndexError for a row or column that is not there.
    """

    def __init__(self, capacity: int = 64) -> None: ...
    @property
    def capacity(self) -> int: ...
    @property
    def resources(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def live_count(self) -> int: ...
    @property
    def existence(self) -> int: ...
    @property
    def log_end(self) -> int: ...
    def acquire_row(self) -> int:
        """Take a free row; all its facts are 0. It is a ghost until `set_live`."""

    def release_row(self, row: int) -> None:
        """Zero the row and free it. ValueError when it is live."""

    def erase_row(self, row: int) -> None:
        """Zero the row, which stays in use. ValueError when it is live. Not logged: the caller marks the row once it is filled again."""

    def set_live(self, row: int, live: bool) -> None: ...
    def is_live(self, row: int) -> bool: ...
    def live_rows(self) -> NDArray[np.int32]:
        """Return the live rows, ascending; read-only, kept until one comes or goes."""

    def ensure_resources(self, count: int) -> None:
        """Make resource ids 0..count-1 usable."""

    def clear_resource(self, resource: int) -> None:
        """Set a column's amounts to 0 without logging it: no answer may depend on it any more."""

    def drop_last_resources(self, count: int) -> None:
        """Keep the first `count` columns, which are no fewer than 4, and give memory back when few are left."""

    def set_allocatable(self, row: int, amounts: Mapping[int, int]) -> bool:
        """Set all of the row's allocatable amounts (ids not named: 0). Whether anything changed."""

    def add(self, row: int, request: Request) -> None: ...
    def subtract(self, row: int, request: Request) -> None: ...
    def add_quietly(self, row: int, request: Request) -> None:
        """As `add`, but not logged: for a simulation, whose changes `subtract_quietly` undoes before any other code reads the table."""

    def subtract_quietly(self, row: int, request: Request) -> None: ...
    def allocatable_of(self, row: int, resource: int) -> int: ...
    def requested_of(self, row: int, resource: int) -> int: ...
    def nonzero_of(self, row: int) -> tuple[int, int]:
        """Return the non-zero requests of cpu and memory."""

    def new_attribute(self) -> int:
        """Make one more attribute column (all 0) and return its id."""

    def drop_last_attributes(self, count: int) -> None:
        """Keep the first `count` attribute columns, and give memory back when few are left."""

    def set_attribute(self, attribute: int, row: int, value: int, change: int) -> bool:
        """Set the value and log `change`, unless it is that already. Whether it changed."""

    def attribute_of(self, attribute: int, row: int) -> int: ...
    def attributes_of(self, attribute: int, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the column's values in these rows."""

    def new_bit(self) -> int:
        """Make one more bit column (no row set), using a freed one first, and return its id."""

    def free_bit(self, column: int) -> None:
        """Give back an empty bit column. ValueError when a row is still set."""

    def set_bit(self, column: int, row: int) -> None: ...
    def clear_bit(self, column: int, row: int) -> None: ...
    def has_bit(self, column: int, row: int) -> bool: ...
    def bits_of(self, row: int) -> list[int]:
        """Return the bit columns that the row is set in, ascending. O(bit columns)."""

    def count_bits(self, column: int) -> int:
        """Return how many rows have the bit; O(1)."""

    def mark(self, row: int, change: int) -> None:
        """Log a change whose fact is kept elsewhere (bits are logged by their caller)."""

    def touch(self, row: int) -> None:
        """Note a change of the row that no answer depends on, or that is taken back again: what views have compiled of it ends."""

    def changes_since(self, position: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]] | None:
        """Return (rows, changes): each changed row once with its changes or-ed; None when the log no longer reaches back. O(entries)."""

    @property
    def in_turn(self) -> bool:
        """Whether a turn is under way."""

    @property
    def turns(self) -> int:
        """How many turns have begun."""

    @property
    def rewinds(self) -> int:
        """How many turns were rewound."""

    def begin_turn(self) -> None:
        """Begin a turn: changes that will be kept or undone together. ValueError when one is under way."""

    def keep_turn(self) -> None:
        """End the turn and keep its changes. ValueError when none is under way."""

    def rewind_turn(self) -> bool:
        """End the turn and take its entries out of the log. The caller has undone all its changes before.

        Readers that were up to date in the middle of the turn see its rows as changed; others see nothing. False: the turn had more entries
        than the log keeps, so its entries and those of undoing it stay. ValueError when no turn is under way. O(entries).
        """

    def call_on_rewind(self, restore: Callable[[], object]) -> None:
        """Call this when the turn that is under way is rewound, the last one first. Nothing happens outside of a turn."""

    def next_stamp(self) -> int:
        """Return a number larger than all before, for a version of something: used once, so that no version comes again after a rewind."""

    def columns(self) -> dict[str, NDArray[np.generic]]: ...
    def nbytes(self) -> int: ...
