"""Pods by row, the most important first: the possible victims of preemption, and the pods that are nominated."""

import numpy as np

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport INFINITY
from libc.string cimport memmove, memset


@cython.final
cdef class PodIndex:

    def __cinit__(self, NodeTable table not None):
        self.table = table

    def __init__(self, NodeTable table not None):
        self.amounts = np.zeros((16, 8), np.int64)
        self.priorities = np.zeros(16, np.int32)
        self.uses = np.zeros(16, np.int32)
        self.requests = []
        self.free_kinds = []
        self.kinds = {}
        self.log = np.zeros(LOG_ROWS, np.int32)
        self.set_budgets([], [()])

    def __dealloc__(self):
        cdef Py_ssize_t row
        self._empty()
        for row in range(self.capacity):
            PyMem_Free(self.pods[row])
        PyMem_Free(self.pods)
        PyMem_Free(self.counts)
        PyMem_Free(self.room)
        PyMem_Free(self.nonempty)
        PyMem_Free(self.positions)

    cdef void _empty(self) noexcept:
        cdef Py_ssize_t row, i
        for row in range(self.capacity):
            for i in range(self.counts[row]):
                Py_DECREF(<object> self.pods[row][i].pod)
            self.counts[row] = 0
        self.nonempty_count = 0

    # Pods come and go

    def clear(self):
        """Remove all pods."""
        self._empty()
        self.requests = []
        self.free_kinds = []
        self.kinds = {}
        self.generation += 1

    def add(
        self, Py_ssize_t row, pod, int32_t priority, Request request not None, double started=INFINITY, bint of_daemon_set=False,
        Py_ssize_t budgets=0, int32_t group=0,
    ):
        self._reserve(row)
        cdef IndexedPod added
        added.kind = self._kind(priority, request)
        added.budgets = <int32_t> budgets
        added.group = group
        added.started = started
        added.of_daemon_set = of_daemon_set
        added.excluded = 0
        added.pod = <PyObject*> pod
        self._insert(row, added)

    def remove(self, Py_ssize_t row, pod):
        cdef Py_ssize_t i = self._find(row, pod)
        cdef IndexedPod removed = self.pods[row][i]
        cdef int32_t last
        self.counts[row] -= 1
        memmove(&self.pods[row][i], &self.pods[row][i + 1], (self.counts[row] - i) * sizeof(IndexedPod))
        if not self.counts[row]:
            self.nonempty_count -= 1
            last = self.nonempty[self.nonempty_count]
            self.nonempty[self.positions[row]] = last
            self.positions[last] = self.positions[row]
        self.uses[removed.kind] -= 1
        if not self.uses[removed.kind]:
            del self.kinds[self.priorities[removed.kind], self.requests[removed.kind]]
            self.requests[removed.kind] = None
            self.free_kinds.append(removed.kind)
        self._note(row)
        Py_DECREF(<object> removed.pod)

    def exclude(self, Py_ssize_t row, pod):
        """Count this pod on its row, but never as a possible victim."""
        self.pods[row][self._find(row, pod)].excluded = 1
        self._note(row)

    def set_budgets(self, allowed, sets):
        """Set how many disruptions each budget still allows, and the budgets that each set consists of; set 0 must be empty."""
        cdef Py_ssize_t i
        self.allowed = np.array(allowed, np.int64)
        begins = [0]
        budgets = []
        for members in sets:
            budgets.extend(members)
            begins.append(len(budgets))
        self.set_begin = np.array(begins, np.int32)
        self.set_members = np.array(budgets, np.int32)
        for i in range(self.set_members.shape[0]):
            if not 0 <= self.set_members[i] < self.allowed.shape[0]:
                raise IndexError(f"budget {self.set_members[i]} of {self.allowed.shape[0]}")
        self.generation += 1

    # Reading

    def nonempty_rows(self):
        """Return the rows with pods, in no order."""
        answer = np.empty(self.nonempty_count, np.int32)
        cdef int32_t[::1] rows = answer
        cdef Py_ssize_t i
        for i in range(self.nonempty_count):
            rows[i] = self.nonempty[i]
        return answer

    def lower_on(self, Py_ssize_t row, int32_t priority, int32_t group):
        """Return the row's pods of this group that are of a lower priority and not excluded, in order."""
        cdef Py_ssize_t i
        cdef IndexedPod* pod
        answer = []
        if row >= self.capacity:
            return answer
        for i in range(self.counts[row]):
            pod = &self.pods[row][i]
            if self.priorities[pod.kind] < priority and pod.group == group and not pod.excluded:
                answer.append(<object> pod.pod)
        return answer

    def shortages(self, const int32_t[::1] rows, int32_t priority, Request request not None, own=None):
        """Return per row what filter_fit would answer if all pods of at least this priority, but for `own`, were added to its amounts."""
        cdef Py_ssize_t i, j, k, row
        cdef int64_t free
        cdef IndexedPod* other
        answer = np.zeros(rows.shape[0], np.int32)
        cdef int32_t[::1] codes = answer
        for i in range(rows.shape[0]):
            row = rows[i]
            self.table.check_row(row)
            for j in range(request.ids.shape[0]):
                free = self.table.allocatable[request.ids[j], row] - self.table.requested[request.ids[j], row]
                for k in range(self.counts[row] if row < self.capacity else 0):
                    other = &self.pods[row][k]
                    if self.priorities[other.kind] >= priority and other.pod != <PyObject*> own:
                        free -= self.amounts[other.kind, request.ids[j]] if request.ids[j] < self.amounts.shape[1] else 0
                if request.amounts[j] > free:
                    codes[i] |= 1 << j
        return answer

    # Memory

    cdef int _reserve(self, Py_ssize_t row) except -1:
        cdef Py_ssize_t capacity
        if row < 0:
            raise IndexError(f"row {row}")
        if row < self.capacity:
            return 0
        capacity = max(self.table.capacity, row + 1)
        self.pods = <IndexedPod**> _grown(self.pods, self.capacity, capacity, sizeof(IndexedPod*))
        self.counts = <int32_t*> _grown(self.counts, self.capacity, capacity, sizeof(int32_t))
        self.room = <int32_t*> _grown(self.room, self.capacity, capacity, sizeof(int32_t))
        self.nonempty = <int32_t*> _grown(self.nonempty, self.capacity, capacity, sizeof(int32_t))
        self.positions = <int32_t*> _grown(self.positions, self.capacity, capacity, sizeof(int32_t))
        self.capacity = capacity
        return 0

    cdef int32_t _kind(self, int32_t priority, Request request) except -1:
        cdef Py_ssize_t i, wide
        cdef int32_t kind
        found = self.kinds.get((priority, request))
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
        if kind >= self.priorities.shape[0] or wide > self.amounts.shape[1]:
            self._widen(kind + 1, wide)
        for i in range(self.amounts.shape[1]):
            self.amounts[kind, i] = 0
        for i in range(request.counted):
            self.amounts[kind, request.ids[i]] = request.amounts[i]
        self.priorities[kind] = priority
        self.uses[kind] = 1
        self.kinds[priority, request] = kind
        return kind

    def _widen(self, Py_ssize_t kinds, Py_ssize_t resources):
        old = np.asarray(self.amounts)
        rows = old.shape[0] if kinds <= old.shape[0] else 2 * kinds
        columns = old.shape[1] if resources <= old.shape[1] else 2 * resources
        amounts = np.zeros((rows, columns), np.int64)
        amounts[:old.shape[0], :old.shape[1]] = old
        self.amounts = amounts
        priorities = np.zeros(rows, np.int32)
        priorities[:old.shape[0]] = self.priorities
        self.priorities = priorities
        uses = np.zeros(rows, np.int32)
        uses[:old.shape[0]] = self.uses
        self.uses = uses

    cdef int _insert(self, Py_ssize_t row, IndexedPod pod) except -1:
        cdef int32_t count = self.counts[row], priority = self.priorities[pod.kind], other
        cdef Py_ssize_t low = 0, high = count, middle
        cdef IndexedPod* pods
        if count == self.room[row]:
            self.pods[row] = <IndexedPod*> _grown(self.pods[row], count, max(4, 2 * count), sizeof(IndexedPod))
            self.room[row] = max(4, 2 * count)
        pods = self.pods[row]
        # Invariant: the pods in [0:low) come before the new one, those in [high:count) after it.
        while low < high:
            middle = (low + high) // 2
            other = self.priorities[pods[middle].kind]
            if other > priority or (other == priority and pods[middle].started <= pod.started):
                low = middle + 1
            else:
                high = middle
        memmove(&pods[low + 1], &pods[low], (count - low) * sizeof(IndexedPod))
        pods[low] = pod
        Py_INCREF(<object> pod.pod)
        if not count:
            self.positions[row] = <int32_t> self.nonempty_count
            self.nonempty[self.nonempty_count] = <int32_t> row
            self.nonempty_count += 1
        self.counts[row] = count + 1
        self.widest = max(self.widest, count + 1)
        self._note(row)
        return 0

    cdef Py_ssize_t _find(self, Py_ssize_t row, pod) except -1:
        cdef Py_ssize_t i
        if 0 <= row < self.capacity:
            for i in range(self.counts[row]):
                if self.pods[row][i].pod == <PyObject*> pod:
                    return i
        raise LookupError(f"{pod!r} is not indexed on row {row}")

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
