"""What pods hold, compiled for the dry run of preemption: which rows are true, and which have changed since."""

import numpy as np

from libc.stdint cimport int32_t


cdef class CompiledHoldings:

    def __init__(self, PodIndex pods not None, held_by not None):
        self.pods = pods
        self.held_by = held_by
        self.is_compiled = np.zeros(0, np.uint8)
        self.log = LogReader(pods.table)
        self.pods_position = pods.log_end
        self.pods_generation = pods.generation

    cdef int bring(self, Py_ssize_t row) except -1:
        cdef Py_ssize_t capacity, count, i
        if not self.log.is_current() or self.pods_position != self.pods.log_end or self.pods_generation != self.pods.generation:
            self._forget_changed()
        if row >= self.is_compiled.shape[0]:
            capacity = self.pods.table.capacity + row
            self.lengthen(capacity)
            longer = np.zeros(capacity, np.uint8)
            longer[:self.is_compiled.shape[0]] = self.is_compiled
            self.is_compiled = longer
        if not self.is_compiled[row]:
            self.forget(row)
            count = self.pods.counts[row] if row < self.pods.capacity else 0
            self.compile(row, [<object> self.pods.pods[row][i].pod for i in range(count)])
            self.is_compiled[row] = True
        return 0

    cdef int _forget_changed(self) except -1:
        cdef Py_ssize_t i
        cdef int32_t[::1] changed
        cdef UndoneTurn undone
        found = self.pods.table.changes_since(self.log.position) if self.log.reaches() else None
        if found is None or self.pods.log_end - self.pods_position > LOG_ROWS or self.pods_generation != self.pods.generation:
            self.is_compiled[:] = False
        else:
            undone = self.log.undone
            if undone is not None:
                for i in range(undone.rows.shape[0]):
                    self._forget_row(undone.rows[i])
            changed = found[0]
            for i in range(changed.shape[0]):
                self._forget_row(changed[i])
            for i in range(self.pods_position, self.pods.log_end):
                self._forget_row(self.pods.log[i & (LOG_ROWS - 1)])
        self.log.done()
        self.pods_position = self.pods.log_end
        self.pods_generation = self.pods.generation
        return 0

    cdef void _forget_row(self, Py_ssize_t row) noexcept:
        if row < self.is_compiled.shape[0]:
            self.is_compiled[row] = False

    cdef int compile(self, Py_ssize_t row, list pods) except -1:
        return 0

    cdef void forget(self, Py_ssize_t row) noexcept:
        pass

    cdef int lengthen(self, Py_ssize_t capacity) except -1:
        return 0
