"""Rows of the node table as they are without some of their pods: hidden in one call, and restored in one call."""

import numpy as np

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint64_t

from koordsched._core.table cimport NodeTable, Request, apply_request

cnp.import_array()


cdef class CompiledPart:

    def hide(self):
        self.hide_now()

    def restore(self):
        self.restore_now()

    cdef int hide_now(self) except -1:
        return 0

    cdef int restore_now(self) except -1:
        return 0


@cython.final
cdef class RowView:

    def __init__(self, NodeTable table not None, Py_ssize_t row, node, frozenset uids not None, requests, bits, parts):
        table.check_row(row)
        for column in bits:
            table.check_bit(column)
        self._fill(table, row, node, uids, [<Request?> request for request in requests], tuple(bits), list(parts))

    cdef int _fill(self, NodeTable table, Py_ssize_t row, node, frozenset uids, list requests, tuple bits, list parts) except -1:
        self.table = table
        self.row = row
        self.node = node
        self.uids = uids
        self.requests = requests
        self.bits = bits
        self.parts = parts
        self.stamp = table.touched[row]
        self.counts_alone = True
        for part in parts:
            if not (<CompiledPart> part).counts_alone if isinstance(part, CompiledPart) else not part.counts_alone:
                self.counts_alone = False
        return 0

    def add(self, part):
        self.parts.append(part)
        if not part.counts_alone:
            self.counts_alone = False

    cdef bint is_current(self) noexcept:
        return self.stamp == self.table.touched[self.row]

    cdef int hide(self) except -1:
        cdef Py_ssize_t done = 0
        try:
            for part in self.parts:
                if isinstance(part, CompiledPart):
                    (<CompiledPart> part).hide_now()
                else:
                    part.hide()
                done += 1
        except BaseException:
            self._restore_parts(done)
            raise
        self._apply(-1)
        self.node.hidden = self.uids
        self.is_hidden = True
        return 0

    cdef void restore(self):
        self.is_hidden = False
        self.node.hidden = None
        self._apply(1)
        self._restore_parts(len(self.parts))

    cdef int _restore_parts(self, Py_ssize_t count) except -1:
        """Restore the first so many parts, the last one first."""
        cdef Py_ssize_t i
        for i in range(count - 1, -1, -1):
            part = self.parts[i]
            if isinstance(part, CompiledPart):
                (<CompiledPart> part).restore_now()
            else:
                part.restore()
        return 0

    cdef void _apply(self, int64_t sign) noexcept:
        # How many rows have a bit stays as it is: the columns are not free, whatever a view hides.
        cdef NodeTable table = self.table
        cdef uint64_t mask = (<uint64_t> 1) << (self.row & 63)
        cdef Py_ssize_t column
        for request in self.requests:
            apply_request(table, self.row, <Request> request, sign)
        for column in self.bits:
            if sign > 0:
                table.bit[column, self.row >> 6] |= mask
            else:
                table.bit[column, self.row >> 6] &= ~mask


@cython.final
cdef class TableView:

    def __init__(self, rows):
        self.rows = [<RowView?> row for row in rows]
        self.places = {(<RowView> row).row: i for i, row in enumerate(self.rows)}
        self.hidden = []

    def outdated(self):
        cdef Py_ssize_t i
        return [i for i in range(len(self.rows)) if not (<RowView> self.rows[i]).is_current()]

    def counts_alone(self):
        cdef Py_ssize_t i
        for i in range(len(self.rows)):
            if not (<RowView> self.rows[i]).counts_alone:
                return False
        return True

    def is_current(self):
        cdef Py_ssize_t i
        for i in range(len(self.rows)):
            if not (<RowView> self.rows[i]).is_current():
                return False
        return True

    def hide(self, const int32_t[::1] rows=None):
        cdef Py_ssize_t i, begun = len(self.hidden)
        cdef RowView row
        places = range(len(self.rows))
        if rows is not None:
            places = [self.places[rows[i]] for i in range(rows.shape[0]) if rows[i] in self.places]
        try:
            for i in places:
                row = self.rows[i]
                if not row.is_hidden:
                    row.hide()
                    self.hidden.append(row)
        except BaseException:
            while len(self.hidden) > begun:
                (<RowView> self.hidden.pop()).restore()
            raise

    def restore(self):
        while self.hidden:
            (<RowView> self.hidden.pop()).restore()

    def replace(self, Py_ssize_t i, RowView row not None):
        self.rows[i] = row


# Compiling many rows at once


def locate(dict pods not None, uids):
    cdef dict found = {}
    cdef list missing = []
    for uid in uids:
        state = pods.get(uid)
        node = None if state is None else state.node
        if node is None or node.shares_row or uid not in <dict> node.counted:
            missing.append(uid)
            continue
        of_row = found.get(node.row)
        if of_row is None:
            found[node.row] = [state]
        else:
            (<list> of_row).append(state)
    return found, missing


def row_views(NodeTable table not None, dict states not None, dict bits not None, dict parts not None):
    cdef RowView view
    views = []
    for row, of_row in states.items():
        table.check_row(row)
        view = RowView.__new__(RowView)
        uids = frozenset([state.info.uid for state in <list> of_row])
        requests = [<Request?> state.request for state in <list> of_row]
        view._fill(table, row, of_row[0].node, uids, requests, tuple(bits.get(row, ())), parts.get(row) or [])
        views.append(view)
    return views


def rows_of_pods(dict pods not None, uids):
    cdef cnp.ndarray rows = np.empty(len(uids), np.int32)
    cdef int32_t* out = <int32_t*> cnp.PyArray_DATA(rows)
    cdef Py_ssize_t i = 0
    for uid in uids:
        state = pods.get(uid)
        node = None if state is None else state.node
        out[i] = -1 if node is None or node.shares_row or uid not in <dict> node.counted else <int32_t> node.row
        i += 1
    return rows
