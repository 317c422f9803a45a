"""The node table: columns that own the facts of all nodes, and the log of rows that changed."""

from array import array

import numpy as np

cimport cython

from koordsched._core.change import NodeChange

cdef uint32_t CHANGE_USAGE = int(NodeChange.USAGE)
cdef uint32_t CHANGE_CAPACITY = int(NodeChange.CAPACITY)
cdef uint32_t CHANGE_EXISTENCE = int(NodeChange.EXISTENCE)

cdef Py_ssize_t BLOCK = 64  # rows are allocated in multiples of this; a bit column's word covers one block


cdef class Request:

    def __init__(self, ids, amounts, int64_t nonzero_cpu, int64_t nonzero_memory, names=(), absent=0):
        # array, not numpy: a request has about three entries, and one is made for every pod that differs.
        self.ids = array("i", ids)
        self.amounts = array("q", amounts)
        if self.ids.shape[0] != self.amounts.shape[0] or self.ids.shape[0] == 0:
            raise ValueError(f"a request needs as many ids as amounts and at least one: got {len(ids)} and {len(amounts)}")
        if not 0 <= absent < self.ids.shape[0]:
            raise ValueError(f"{absent} of {len(ids)} amounts cannot be of resources without a column: the first is that of the pods")
        self.counted = self.ids.shape[0] - absent
        self.largest = max(ids)
        self.names = names
        self.nonzero_cpu = nonzero_cpu
        self.nonzero_memory = nonzero_memory

    def __len__(self):
        return self.ids.shape[0]

    @property
    def amounts_by_id(self):
        return dict(zip(np.asarray(self.ids).tolist(), np.asarray(self.amounts).tolist(), strict=True))


cdef class NodeTable:

    def __init__(self, Py_ssize_t capacity=64):
        self.capacity = _odd_blocks(capacity)
        self.resources = 4
        self.attributes = 0
        self.allocatable = np.zeros((8, self.capacity), np.int64)
        self.requested = np.zeros((8, self.capacity), np.int64)
        self.nonzero = np.zeros((2, self.capacity), np.int64)
        self.attribute = np.zeros((16, self.capacity), np.int32)
        self.bit = np.zeros((16, self.capacity // BLOCK), np.uint64)
        self.bit_count = np.zeros(16, np.int32)
        self.live = np.zeros(self.capacity, np.uint8)
        self.log_row = np.zeros(LOG_SIZE, np.int32)
        self.log_change = np.zeros(LOG_SIZE, np.uint32)
        self.stamp = np.zeros(self.capacity, np.int64)
        self.slot = np.zeros(self.capacity, np.int32)
        self.touched = np.zeros(self.capacity, np.int64)
        self.turn_start = NO_TURN
        self.undone = []
        self.journal = []
        self._free_rows = {}
        self._free_bits = {}
        self._live_rows = None

    # Rows

    def acquire_row(self):
        if self._free_rows:
            return self._free_rows.popitem()[0]
        if self._next_row == self.capacity:
            self._grow_rows()
        self._next_row += 1
        return self._next_row - 1

    def release_row(self, Py_ssize_t row):
        self.check_row(row)
        if self.live[row]:
            raise ValueError(f"row {row} is live: it cannot be released")
        if row in self._free_rows:
            raise ValueError(f"row {row} is free already")
        self.erase_row(row)
        self._free_rows[row] = None

    def erase_row(self, Py_ssize_t row):
        self.check_row(row)
        if self.live[row]:
            raise ValueError(f"row {row} is live: it cannot be erased")
        cdef Py_ssize_t i
        for i in range(self.resources):
            self.allocatable[i, row] = 0
            self.requested[i, row] = 0
        self.nonzero[0, row] = 0
        self.nonzero[1, row] = 0
        for i in range(self.attributes):
            self.attribute[i, row] = 0
        for i in range(self._next_bit):
            self.clear_bit(i, row)

    def set_live(self, Py_ssize_t row, bint live):
        self.check_row(row)
        if self.live[row] == live:
            return
        self.live[row] = live
        self.live_count += 1 if live else -1
        self.existence += 1
        self._live_rows = None
        self.log(row, CHANGE_EXISTENCE)

    def is_live(self, Py_ssize_t row):
        self.check_row(row)
        return self.live[row] == 1

    def live_rows(self):
        if self._live_rows is None:
            self._live_rows = np.flatnonzero(self.live).astype(np.int32)
            self._live_rows.flags.writeable = False
        return self._live_rows

    cdef Py_ssize_t extent(self) noexcept:
        return (self._next_row + BLOCK - 1) // BLOCK * BLOCK

    cdef int check_row(self, Py_ssize_t row) except -1:
        if row < 0 or row >= self._next_row:
            raise IndexError(f"row {row} of {self._next_row}")
        return 0

    # Amounts

    def ensure_resources(self, Py_ssize_t count):
        if count > self.allocatable.shape[0]:
            self.allocatable = _wider(self.allocatable, count)
            self.requested = _wider(self.requested, count)
        self.resources = max(self.resources, count)

    def clear_resource(self, Py_ssize_t resource):
        """Set a column's amounts to 0 without logging it: no answer depends on it any more."""
        if resource < 0 or resource >= self.resources:
            raise IndexError(f"resource {resource} of {self.resources}")
        self.allocatable[resource, :] = 0
        self.requested[resource, :] = 0

    def drop_last_resources(self, Py_ssize_t count):
        """Keep the first `count` columns, and give memory back when few are left."""
        self.resources = min(self.resources, max(4, count))
        self.allocatable = _narrower(self.allocatable, self.resources, 8)
        self.requested = _narrower(self.requested, self.resources, 8)

    def set_allocatable(self, Py_ssize_t row, dict amounts):
        self.check_row(row)
        cdef Py_ssize_t i
        cdef int64_t amount
        cdef bint changed = False
        for i in range(self.resources):
            amount = amounts.get(i, 0)
            if self.allocatable[i, row] != amount:
                self.allocatable[i, row] = amount
                changed = True
        if changed:
            self.log(row, CHANGE_CAPACITY)
        return changed

    def add(self, Py_ssize_t row, Request request not None):
        self.check_row(row)
        apply_request(self, row, request, 1)
        self.log(row, CHANGE_USAGE)

    def subtract(self, Py_ssize_t row, Request request not None):
        self.check_row(row)
        apply_request(self, row, request, -1)
        self.log(row, CHANGE_USAGE)

    def add_quietly(self, Py_ssize_t row, Request request not None):
        self.check_row(row)
        apply_request(self, row, request, 1)

    def subtract_quietly(self, Py_ssize_t row, Request request not None):
        self.check_row(row)
        apply_request(self, row, request, -1)

    def allocatable_of(self, Py_ssize_t row, Py_ssize_t resource):
        self.check_row(row)
        return self.allocatable[resource, row] if 0 <= resource < self.resources else 0

    def requested_of(self, Py_ssize_t row, Py_ssize_t resource):
        self.check_row(row)
        return self.requested[resource, row] if 0 <= resource < self.resources else 0

    def nonzero_of(self, Py_ssize_t row):
        self.check_row(row)
        return self.nonzero[0, row], self.nonzero[1, row]

    # Attributes

    def new_attribute(self):
        if self.attributes == self.attribute.shape[0]:
            self.attribute = _wider(self.attribute, self.attributes + 1)
        self.attributes += 1
        return self.attributes - 1

    def drop_last_attributes(self, Py_ssize_t count):
        """Keep the first `count` columns, and give memory back when few are left."""
        if count > self.attributes:
            raise IndexError(f"attribute {count} of {self.attributes}")
        self.attribute[count:self.attributes, :] = 0
        self.attributes = count
        self.attribute = _narrower(self.attribute, count, 16)

    def set_attribute(self, Py_ssize_t attribute, Py_ssize_t row, int32_t value, uint32_t change):
        self.check_row(row)
        if attribute < 0 or attribute >= self.attributes:
            raise IndexError(f"attribute {attribute} of {self.attributes}")
        if self.attribute[attribute, row] == value:
            return False
        self.attribute[attribute, row] = value
        self.log(row, change)
        return True

    def attribute_of(self, Py_ssize_t attribute, Py_ssize_t row):
        self.check_row(row)
        if attribute < 0 or attribute >= self.attributes:
            raise IndexError(f"attribute {attribute} of {self.attributes}")
        return self.attribute[attribute, row]

    def attributes_of(self, Py_ssize_t attribute, const int32_t[::1] rows):
        cdef Py_ssize_t i
        if attribute < 0 or attribute >= self.attributes:
            raise IndexError(f"attribute {attribute} of {self.attributes}")
        values = np.empty(rows.shape[0], np.int32)
        cdef int32_t[::1] view = values
        for i in range(rows.shape[0]):
            view[i] = self.attribute[attribute, rows[i]]
        return values

    # Bits

    def new_bit(self):
        if self._free_bits:
            return self._free_bits.popitem()[0]
        if self._next_bit == self.bit.shape[0]:
            self.bit = _wider(self.bit, self._next_bit + 1)
            counts = np.zeros(self.bit.shape[0], np.int32)
            counts[:self.bit_count.shape[0]] = self.bit_count
            self.bit_count = counts
        self._next_bit += 1
        return self._next_bit - 1

    cdef int check_bit(self, Py_ssize_t column) except -1:
        if column < 0 or column >= self._next_bit:
            raise IndexError(f"bit column {column} of {self._next_bit}")
        return 0

    def free_bit(self, Py_ssize_t column):
        self.check_bit(column)
        if column in self._free_bits:
            raise ValueError(f"bit column {column} is free already")
        if self.bit_count[column]:
            raise ValueError(f"bit column {column} still has {self.bit_count[column]} rows")
        self._free_bits[column] = None
        while self._next_bit and self._next_bit - 1 in self._free_bits:
            self._next_bit -= 1
            del self._free_bits[self._next_bit]
        if 16 < self.bit.shape[0] > 4 * self._next_bit:
            self.bit = _narrower(self.bit, self._next_bit, 16)
            self.bit_count = np.array(self.bit_count[:self.bit.shape[0]])

    def set_bit(self, Py_ssize_t column, Py_ssize_t row):
        self.check_bit(column)
        self.check_row(row)
        cdef uint64_t mask = (<uint64_t> 1) << (row & 63)
        if not self.bit[column, row >> 6] & mask:
            self.bit[column, row >> 6] |= mask
            self.bit_count[column] += 1

    def clear_bit(self, Py_ssize_t column, Py_ssize_t row):
        self.check_bit(column)
        self.check_row(row)
        cdef uint64_t mask = (<uint64_t> 1) << (row & 63)
        if self.bit[column, row >> 6] & mask:
            self.bit[column, row >> 6] &= ~mask
            self.bit_count[column] -= 1

    def has_bit(self, Py_ssize_t column, Py_ssize_t row):
        self.check_bit(column)
        self.check_row(row)
        return (self.bit[column, row >> 6] >> (row & 63)) & 1 == 1

    def bits_of(self, Py_ssize_t row):
        self.check_row(row)
        cdef Py_ssize_t i
        cdef uint64_t mask = (<uint64_t> 1) << (row & 63)
        return [i for i in range(self._next_bit) if self.bit[i, row >> 6] & mask]

    def count_bits(self, Py_ssize_t column):
        self.check_bit(column)
        return self.bit_count[column]

    # The change log

    def mark(self, Py_ssize_t row, uint32_t change):
        self.check_row(row)
        self.log(row, change)

    def touch(self, Py_ssize_t row):
        self.check_row(row)
        self.touched[row] = self.take_stamp()

    cdef void log(self, Py_ssize_t row, uint32_t change) noexcept:
        cdef int64_t place = self.log_end & (LOG_SIZE - 1)
        self.log_row[place] = <int32_t> row
        self.log_change[place] = change
        self.log_end += 1
        if self.log_end > self.log_high:
            self.log_high = self.log_end
        self.touched[row] = self.take_stamp()

    def changes_since(self, int64_t position):
        """Return (rows, changes): each row once, with all its changes or-ed; None when the log no longer reaches back that far."""
        if self.log_high - position > LOG_SIZE:
            return None
        # At most one answer entry a log entry, and at most one a row.
        cdef Py_ssize_t most = min(self.log_end - position, self.capacity)
        rows = np.empty(most, np.int32)
        changes = np.empty(most, np.uint32)
        cdef int32_t[::1] row_view = rows
        cdef uint32_t[::1] change_view = changes
        cdef int64_t i
        cdef int32_t row
        cdef Py_ssize_t count = 0
        self.round += 1
        for i in range(position, self.log_end):
            row = self.log_row[i & (LOG_SIZE - 1)]
            if self.stamp[row] == self.round:
                change_view[self.slot[row]] |= self.log_change[i & (LOG_SIZE - 1)]
                continue
            self.stamp[row] = self.round
            self.slot[row] = <int32_t> count
            row_view[count] = row
            change_view[count] = self.log_change[i & (LOG_SIZE - 1)]
            count += 1
        return rows[:count], changes[:count]

    # Turns

    @property
    def in_turn(self):
        return self.turn_start != NO_TURN

    def begin_turn(self):
        if self.turn_start != NO_TURN:
            raise ValueError("a turn is under way already")
        self.turn_start = self.log_end
        self.turns += 1

    def keep_turn(self):
        if self.turn_start == NO_TURN:
            raise ValueError("no turn is under way")
        self.turn_start = NO_TURN
        self.journal.clear()

    def rewind_turn(self):
        if self.turn_start == NO_TURN:
            raise ValueError("no turn is under way")
        found = self.changes_since(self.turn_start)
        if found is None:
            self.keep_turn()
            return False
        cdef UndoneTurn turn = UndoneTurn()
        turn.start = self.turn_start
        turn.rows, turn.changes = found
        self.undone.append(turn)
        if len(self.undone) > UNDONE_TURNS:
            del self.undone[0]
        self.rewinds += 1
        self.log_end = self.turn_start
        for restore in reversed(self.journal):
            restore()
        self.keep_turn()
        return True

    def call_on_rewind(self, restore):
        if self.turn_start != NO_TURN:
            self.journal.append(restore)

    def next_stamp(self):
        return self.take_stamp()

    cdef int64_t take_stamp(self) noexcept:
        self.stamp_count += 1
        return self.stamp_count

    # Views, for tests and tools

    def columns(self):
        """Return every column, cut to the rows and columns in use, as read-only copies by name."""
        rows = self._next_row
        return {
            "allocatable": np.array(self.allocatable)[:self.resources, :rows],
            "requested": np.array(self.requested)[:self.resources, :rows],
            "nonzero": np.array(self.nonzero)[:, :rows],
            "attribute": np.array(self.attribute)[:self.attributes, :rows],
            "bit": np.array(self.bit)[:self._next_bit],
            "live": np.array(self.live)[:rows],
        }

    def nbytes(self):
        """Return the bytes that all columns take."""
        cdef list columns = [
            np.asarray(self.allocatable), np.asarray(self.requested), np.asarray(self.nonzero), np.asarray(self.attribute),
            np.asarray(self.bit), np.asarray(self.bit_count), np.asarray(self.live), np.asarray(self.log_row),
            np.asarray(self.log_change), np.asarray(self.stamp), np.asarray(self.slot), np.asarray(self.touched),
        ]
        return sum([column.nbytes for column in columns])

    def _grow_rows(self):
        cdef Py_ssize_t capacity = _odd_blocks(self.capacity * 2)
        self.allocatable = _longer(self.allocatable, capacity)
        self.requested = _longer(self.requested, capacity)
        self.nonzero = _longer(self.nonzero, capacity)
        self.attribute = _longer(self.attribute, capacity)
        self.bit = _longer(self.bit, capacity // BLOCK)
        self.live = _longer(self.live, capacity)
        self.stamp = _longer(self.stamp, capacity)
        self.slot = _longer(self.slot, capacity)
        self.touched = _longer(self.touched, capacity)
        self.capacity = capacity


@cython.final
cdef class UndoneTurn:
    pass


@cython.final
cdef class LogReader:

    def __init__(self, NodeTable table not None):
        self.table = table
        self.done()

    cdef bint is_current(self):
        return self.position == self.table.log_end and self._knows_no_undone()

    cdef bint reaches(self):
        # Return whether the log still holds all that happened since the reader was last up to date. If so, the reader has to
        # take in the rows of `undone` again, then the log from `position` on.
        self.undone = None
        if not self._knows_no_undone():
            self.undone = self._first_rewound()
            if self.undone is None:
                return False
            self.position = self.undone.start
        self.rewinds = self.table.rewinds
        self.tentative = False
        return self.table.log_high - self.position <= LOG_SIZE

    cdef bint _knows_no_undone(self):
        # Answer whether all that the reader has taken in still holds. It can have taken in changes that were undone since only if it was
        # up to date in the middle of a turn (`tentative`), and that turn is then the first that was rewound. A turn that began later holds
        # nothing that the reader has taken in.
        cdef UndoneTurn turn
        if not self.tentative or self.rewinds == self.table.rewinds:
            return True
        turn = self._first_rewound()
        return turn is not None and self.position <= turn.start

    cdef UndoneTurn _first_rewound(self):
        # Return the first turn that was rewound since the reader was up to date, None if the table no longer remembers it.
        cdef Py_ssize_t index = len(self.table.undone) - (self.table.rewinds - self.rewinds)
        return self.table.undone[index] if index >= 0 else None

    cdef void done(self) noexcept:
        # The reader is up to date.
        self.position = self.table.log_end
        self.rewinds = self.table.rewinds
        self.tentative = self.table.turn_start != NO_TURN
        self.undone = None


cdef void apply_request(NodeTable table, Py_ssize_t row, Request request, int64_t sign) noexcept:
    cdef Py_ssize_t i
    for i in range(request.counted):
        table.requested[request.ids[i], row] += sign * request.amounts[i]
    table.nonzero[0, row] += sign * request.nonzero_cpu
    table.nonzero[1, row] += sign * request.nonzero_memory


def _wider(column, Py_ssize_t count):
    """Return a copy with room for at least `count` columns."""
    old = np.asarray(column)
    new = np.zeros((max(count, 2 * old.shape[0]), old.shape[1]), old.dtype)
    new[:old.shape[0]] = old
    return new


def _narrower(column, Py_ssize_t count, Py_ssize_t least):
    """Return the columns, or a copy with less room when `count`, the number in use, is less than a quarter of what there is room for."""
    old = np.asarray(column)
    if old.shape[0] <= least or count > old.shape[0] // 4:
        return column
    return np.array(old[:max(least, 2 * count)])


cdef Py_ssize_t _odd_blocks(Py_ssize_t rows):
    """Return how many rows to make room for: so that the resources of a row do not compete for the same few places in the cache."""
    return (max(rows, BLOCK) + BLOCK - 1) // BLOCK * BLOCK | BLOCK


def _longer(column, Py_ssize_t length):
    """Return a copy with `length` entries in the last dimension."""
    old = np.asarray(column)
    if old.ndim == 1:
        new = np.zeros(length, old.dtype)
        new[:old.shape[0]] = old
    else:
        new = np.zeros((old.shape[0], length), old.dtype)
        new[:, :old.shape[1]] = old
    return new
