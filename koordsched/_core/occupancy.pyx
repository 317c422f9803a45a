"""Who occupies each row and at which level, in the order in which they would be spared; and for whom room is kept there."""

import numpy as np

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport INFINITY
from libc.string cimport memmove, memset


@cython.final
cdef class Occupancy:

    def __cinit__(self, NodeTable table not None):
        self.table = table

    def __init__(self, NodeTable table not None):
        self.amounts = np.zeros((16, 8), np.int64)
        self.levels = np.zeros(16, np.int32)
        self.uses = np.zeros(16, np.int32)
        self.requests = []
        self.free_kinds = []
        self.kinds = {}
        self.log = np.zeros(LOG_ROWS, np.int32)
        self.set_guards_of([], [()])

    def __dealloc__(self):
        cdef Py_ssize_t row
        self._empty()
        for row in range(self.capacity):
            PyMem_Free(self.rows[row])
        PyMem_Free(self.rows)
        PyMem_Free(self.counts)
        PyMem_Free(self.room)
        PyMem_Free(self.claims)
        PyMem_Free(self.claimed)
        PyMem_Free(self.places)

    cdef void _empty(self) noexcept:
        cdef Py_ssize_t row, i
        for row in range(self.capacity):
            for i in range(self.counts[row]):
                Py_DECREF(<object> self.rows[row][i].item)
            self.counts[row] = 0
            self.claims[row] = 0
        self.claimed_count = 0

    # Who is where

    def clear(self):
        """Forget all occupants and claims."""
        self._empty()
        self.requests = []
        self.free_kinds = []
        self.kinds = {}
        self.generation += 1

    def add(self, Py_ssize_t row, item, int32_t level, Request request not None, double started, bint tied, Py_ssize_t guards):
        self._reserve(row)
        cdef Occupant occupant
        occupant.kind = self._kind(level, request)
        occupant.guards = <int32_t> guards
        occupant.started = started
        occupant.serial = self.next_serial
        occupant.tied = tied
        occupant.pinned = 0
        occupant.claim = 0
        occupant.item = <PyObject*> item
        self.next_serial += 1
        self._insert(row, occupant)

    def claim(self, Py_ssize_t row, item, int32_t level, Request request not None):
        self._reserve(row)
        cdef Occupant occupant
        occupant.kind = self._kind(level, request)
        occupant.guards = 0
        occupant.started = INFINITY
        occupant.serial = self.next_serial
        occupant.tied = 0
        occupant.pinned = 0
        occupant.claim = 1
        occupant.item = <PyObject*> item
        self.next_serial += 1
        self._insert(row, occupant)
        if not self.claims[row]:
            self.places[row] = <int32_t> self.claimed_count
            self.claimed[self.claimed_count] = <int32_t> row
            self.claimed_count += 1
        self.claims[row] += 1

    def remove(self, Py_ssize_t row, item):
        cdef Py_ssize_t i = self._find(row, item)
        cdef Occupant occupant = self.rows[row][i]
        self.counts[row] -= 1
        memmove(&self.rows[row][i], &self.rows[row][i + 1], (self.counts[row] - i) * sizeof(Occupant))
        if occupant.claim:
            self._unclaim(row)
        self.uses[occupant.kind] -= 1
        if not self.uses[occupant.kind]:
            del self.kinds[self.levels[occupant.kind], self.requests[occupant.kind]]
            self.requests[occupant.kind] = None
            self.free_kinds.append(occupant.kind)
        self._note(row)
        Py_DECREF(<object> occupant.item)

    cdef void _unclaim(self, Py_ssize_t row) noexcept:
        cdef int32_t last
        self.claims[row] -= 1
        if not self.claims[row]:
            self.claimed_count -= 1
            last = self.claimed[self.claimed_count]
            self.claimed[self.places[row]] = last
            self.places[last] = self.places[row]

    def claimed_rows(self):
        """Return the rows with claims, in no order."""
        answer = np.empty(self.claimed_count, np.int32)
        cdef int32_t[::1] rows = answer
        cdef Py_ssize_t i
        for i in range(self.claimed_count):
            rows[i] = self.claimed[i]
        return answer

    def holds(self, Py_ssize_t row, item):
        """Answer whether this occupant or claim is on the row."""
        cdef Py_ssize_t i
        if row < 0 or row >= self.capacity:
            return False
        for i in range(self.counts[row]):
            if self.rows[row][i].item == <PyObject*> item:
                return True
        return False

    def pin(self, Py_ssize_t row, item):
        """Let nobody send this occupant away."""
        self.rows[row][self._find(row, item)].pinned = 1
        self._note(row)

    def shortages(self, const int32_t[::1] rows, int32_t level, Request request not None, own=None):
        """Return per row what filter_fit would say if all claims of at least this level, but for `own`, were occupants already."""
        cdef Py_ssize_t i, j, k, row
        cdef int64_t free
        cdef Occupant* occupant
        answer = np.zeros(rows.shape[0], np.int32)
        cdef int32_t[::1] codes = answer
        for i in range(rows.shape[0]):
            row = rows[i]
            self.table.check_row(row)
            for j in range(request.ids.shape[0]):
                free = self.table.allocatable[request.ids[j], row] - self.table.requested[request.ids[j], row]
                for k in range(self.counts[row] if row < self.capacity and self.claims[row] else 0):
                    occupant = &self.rows[row][k]
                    if occupant.claim and self.levels[occupant.kind] >= level and occupant.item != <PyObject*> own:
                        free -= self.amounts[occupant.kind, request.ids[j]] if request.ids[j] < self.amounts.shape[1] else 0
                if request.amounts[j] > free:
                    codes[i] |= 1 << j
        return answer

    def items(self, Py_ssize_t row):
        """Return the occupants of a row with their levels, claims left out, in order."""
        cdef Py_ssize_t i
        if row >= self.capacity:
            return []
        return [
            (<object> self.rows[row][i].item, self.levels[self.rows[row][i].kind])
            for i in range(self.counts[row]) if not self.rows[row][i].claim
        ]

    def set_guards_of(self, allowed, sets):
        """Say how many occupants under each guard may be sent away, and which guards each set names; set 0 must be empty."""
        cdef Py_ssize_t i
        self.allowed = np.array(allowed, np.int64)
        begins = [0]
        guards = []
        for members in sets:
            guards.extend(members)
            begins.append(len(guards))
        self.set_begin = np.array(begins, np.int32)
        self.set_guards = np.array(guards, np.int32)
        for i in range(self.set_guards.shape[0]):
            if not 0 <= self.set_guards[i] < self.allowed.shape[0]:
                raise IndexError(f"guard {self.set_guards[i]} of {self.allowed.shape[0]}")
        self.generation += 1

    cdef int _reserve(self, Py_ssize_t row) except -1:
        cdef Py_ssize_t capacity
        if row < 0:
            raise IndexError(f"row {row}")
        if row < self.capacity:
            return 0
        capacity = max(self.table.capacity, row + 1)
        self.rows = <Occupant**> _grown(self.rows, self.capacity, capacity, sizeof(Occupant*))
        self.counts = <int32_t*> _grown(self.counts, self.capacity, capacity, sizeof(int32_t))
        self.room = <int32_t*> _grown(self.room, self.capacity, capacity, sizeof(int32_t))
        self.claims = <int32_t*> _grown(self.claims, self.capacity, capacity, sizeof(int32_t))
        self.claimed = <int32_t*> _grown(self.claimed, self.capacity, capacity, sizeof(int32_t))
        self.places = <int32_t*> _grown(self.places, self.capacity, capacity, sizeof(int32_t))
        self.capacity = capacity
        return 0

    cdef int32_t _kind(self, int32_t level, Request request) except -1:
        cdef Py_ssize_t i, wide
        cdef int32_t kind
        found = self.kinds.get((level, request))
        if found is not None:
            kind = found
            self.uses[kind] += 1
            return kind
        if self.free_kinds:
            kind = self.free_kinds.pop()
            self.requests[kind] = request
        else:
            kind = <int32_t> len(self.requests)
            self.requests.append(request)
        wide = max(self.table.resources, request.largest + 1)
        if kind >= self.levels.shape[0] or wide > self.amounts.shape[1]:
            self._widen(kind + 1, wide)
        for i in range(self.amounts.shape[1]):
            self.amounts[kind, i] = 0
        for i in range(request.counted):
            self.amounts[kind, request.ids[i]] = request.amounts[i]
        self.levels[kind] = level
        self.uses[kind] = 1
        self.kinds[level, request] = kind
        return kind

    def _widen(self, Py_ssize_t kinds, Py_ssize_t resources):
        old = np.asarray(self.amounts)
        rows = old.shape[0] if kinds <= old.shape[0] else 2 * kinds
        columns = old.shape[1] if resources <= old.shape[1] else 2 * resources
        amounts = np.zeros((rows, columns), np.int64)
        amounts[:old.shape[0], :old.shape[1]] = old
        self.amounts = amounts
        levels = np.zeros(rows, np.int32)
        levels[:old.shape[0]] = self.levels
        self.levels = levels
        uses = np.zeros(rows, np.int32)
        uses[:old.shape[0]] = self.uses
        self.uses = uses

    cdef int _insert(self, Py_ssize_t row, Occupant occupant) except -1:
        cdef int32_t count = self.counts[row], level = self.levels[occupant.kind], other
        cdef Py_ssize_t low = 0, high = count, middle
        cdef Occupant* occupants
        if count == self.room[row]:
            self.rows[row] = <Occupant*> _grown(self.rows[row], count, max(4, 2 * count), sizeof(Occupant))
            self.room[row] = max(4, 2 * count)
        occupants = self.rows[row]
        # Invariant: whoever is in [0:low) comes before the new one, whoever is in [high:count) after it.
        while low < high:
            middle = (low + high) // 2
            other = self.levels[occupants[middle].kind]
            if other > level or (other == level and occupants[middle].started <= occupant.started):
                low = middle + 1
            else:
                high = middle
        memmove(&occupants[low + 1], &occupants[low], (count - low) * sizeof(Occupant))
        occupants[low] = occupant
        Py_INCREF(<object> occupant.item)
        self.counts[row] = count + 1
        self.widest = max(self.widest, count + 1)
        self._note(row)
        return 0

    cdef Py_ssize_t _find(self, Py_ssize_t row, item) except -1:
        cdef Py_ssize_t i
        if 0 <= row < self.capacity:
            for i in range(self.counts[row]):
                if self.rows[row][i].item == <PyObject*> item:
                    return i
        raise LookupError(f"{item!r} does not occupy row {row}")

    cdef void _note(self, Py_ssize_t row) noexcept:
        self.log[self.log_end & (LOG_ROWS - 1)] = <int32_t> row
        self.log_end += 1


cdef void* _grown(void* memory, Py_ssize_t old, Py_ssize_t new, size_t size) except NULL:
    """Return the memory with room for `new` entries; those beyond `old` are zero."""
    cdef char* found = <char*> PyMem_Realloc(memory, new * size)
    if found == NULL:
        raise MemoryError
    memset(found + old * size, 0, (new - old) * size)
    return found
