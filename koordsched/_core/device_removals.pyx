"""What Filter says of a node's devices while preemption removes pods from it and puts them back.

The columns of the node are changed and changed back, so that Filter's own code answers, whatever is asked for. What a pod holds is compiled
once for all requests, so that to remove it is a few subtractions (bench_deviceshare.py::bench_first_attempt_to_preempt). Where it is enough
to count the devices that fit, as for most requests, the other columns do not even have to follow: a device that is touched fits or not.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Realloc
from libc.stdint cimport int8_t, int32_t, uint8_t
from libc.string cimport memset

from koordsched._core.device_feasibility cimport check_index, counts_devices
from koordsched._core.device_group cimport PASS, check_labels, fits_unused, fitting_of
from koordsched._core.device_table cimport (
    GPU,
    IS_LISTED,
    LARGEST_GROUP,
    RESOURCES,
    DeviceColumns,
    NodeShape,
    cut_amount,
    first_resource,
    index_of,
    position,
    resources_of,
    size_of,
)
from koordsched._core.pod_index cimport PodIndex
from koordsched._core.prefetch cimport prefetch


cdef class DeviceHoldings(CompiledHoldings):

    def __init__(self, DeviceTable table not None, PodIndex pods not None, held_by not None):
        CompiledHoldings.__init__(self, pods, held_by)
        self.table = table

    def __dealloc__(self):
        cdef Py_ssize_t row
        for row in range(self.capacity):
            self.forget(row)
        PyMem_Free(self.rows)

    cdef const RowHoldings* of(self, Py_ssize_t row) except NULL:
        self.bring(row)
        return &self.rows[row]

    cdef int lengthen(self, Py_ssize_t capacity) except -1:
        cdef RowHoldings* rows = <RowHoldings*> PyMem_Realloc(self.rows, capacity * sizeof(RowHoldings))
        if rows == NULL:
            raise MemoryError
        memset(rows + self.capacity, 0, (capacity - self.capacity) * sizeof(RowHoldings))
        self.rows = rows
        self.capacity = capacity
        return 0

    cdef void forget(self, Py_ssize_t row) noexcept:
        PyMem_Free(self.rows[row].first)
        PyMem_Free(self.rows[row].cells)
        PyMem_Free(self.rows[row].vfs)
        memset(&self.rows[row], 0, sizeof(RowHoldings))

    cdef int compile(self, Py_ssize_t row, list pods) except -1:
        cdef RowHoldings* found = &self.rows[row]
        cdef Py_ssize_t i, index = index_of(self.table, row), cell = 0
        cdef int count = <int> len(pods)
        cdef int type, r, at, v, vfs_end = 0
        cdef HeldCell* written
        cdef const NodeShape* shape = &self.table.shape[index]
        held = self.held_by(row, pods)
        if held is not None and not all([self._is_listed(index, device) for devices in held for device in devices]):
            held = None
        if held is None:
            return 0
        found.first = <int32_t*> PyMem_Calloc(count + 1, sizeof(int32_t))
        found.cells = <HeldCell*> PyMem_Calloc(sum([len(devices) for devices in held]) + 1, sizeof(HeldCell))
        found.vfs = <int32_t*> PyMem_Calloc(sum([len(device.vfs) for devices in held for device in devices]) + 1, sizeof(int32_t))
        if found.first == NULL or found.cells == NULL or found.vfs == NULL:
            raise MemoryError
        for i in range(count):
            for device in held[i]:
                type = device.type
                at = <int> (self.table.find(index, type, device.minor) - self.table.node[index].cells[type].start)
                written = &found.cells[cell]
                written.type = <int8_t> type
                written.at = <int8_t> at
                for resource, amount in device.amounts.items():
                    r = resource - first_resource(type)
                    if 0 <= r < resources_of(type):
                        written.amount[r] = cut_amount(amount)
                        written.named |= <uint8_t> (1 << r)
                written.vfs = vfs_end
                if device.vfs and shape.vf_start[type] != NULL:
                    for v in range(shape.vf_start[type][at], shape.vf_start[type][at + 1]):
                        if self.table.bus_names[shape.vfs[type][v].bus] in device.vfs:
                            found.vfs[vfs_end] = v
                            vfs_end += 1
                written.vfs_end = vfs_end
                cell += 1
            found.first[i + 1] = <int32_t> cell
        found.count = <int32_t> cell
        found.is_known = True
        return 0

    cdef bint _is_listed(self, Py_ssize_t index, held):
        # Of a device that no Device object lists no trace is left when the last pod that holds it is gone.
        cdef Py_ssize_t cell = self.table.find(index, held.type, held.minor)
        return cell >= 0 and self.table.columns[<int> held.type].state[cell] & IS_LISTED != 0


cdef class DeviceRemovals(RemovalFilter):

    def __init__(
        self, DeviceHoldings holdings not None, DeviceRequest request not None, NumaAlignment alignment=None, *, bint is_followed=False
    ):
        self.holdings = holdings
        self.request = request
        self.alignment = alignment
        self.is_followed = is_followed

    def __eq__(self, other):
        cdef DeviceRemovals that
        if not isinstance(other, DeviceRemovals):
            return NotImplemented
        that = <DeviceRemovals> other
        return (
            self.holdings is that.holdings and self.request is that.request and self.alignment == that.alignment
            and self.is_followed == that.is_followed
        )

    def __hash__(self):
        return hash((DeviceRemovals, id(self.holdings), id(self.request)))

    cdef void expect(self, Py_ssize_t row, Py_ssize_t pods) noexcept:
        cdef DeviceTable table = self.holdings.table
        cdef const RowHoldings* held
        cdef const DeviceColumns* columns = &table.columns[GPU]
        cdef Py_ssize_t index = index_of(table, row), start = table.node[index].cells[GPU].start
        cdef bint follow = self.is_followed or self.alignment is not None
        cdef int r
        if row < self.holdings.capacity and self.holdings.rows[row].count:
            held = &self.holdings.rows[row]
            prefetch(&held.first[pods])
            prefetch(&held.cells[held.count - 1])
            prefetch(&held.cells[max(held.count - 2, 0)])
            prefetch(&held.cells[held.count - 1].named)
        if columns.end:
            for r in range(GPU_RESOURCES):
                if not columns.counted >> r & 1:
                    continue
                prefetch(&columns.used[r * columns.capacity + start])
                prefetch(&columns.total[r * columns.capacity + start])
                if follow:
                    prefetch(&columns.free[r * columns.capacity + start])
        if follow:
            prefetch(&table.masks[index * TYPES + GPU])
            prefetch(&table.masks[index * TYPES + GPU].available)
            prefetch(&table.sums[(index * RESOURCES) * 2])

    cdef bint begin(self, Py_ssize_t row) except -1:
        cdef int type
        self.row = self.holdings.of(row)
        self.index = index_of(self.holdings.table, row)
        self.request.prepare(self.holdings.table)
        self.is_aligned = self.alignment is not None and self.alignment.holds(row)
        self.takes_any = not self.is_aligned and counts_devices(self.holdings.table, self.request, self.index, &self.counted)
        self.is_counted = self.takes_any and not self.is_followed
        if self.is_counted:
            self.fitting = fitting_of(self.holdings.table, self.request, self.index, self.counted.type)
        for type in range(TYPES):
            self.touched[type] = 0
        self.is_changed = True
        return self.row.is_known

    cdef bint is_monotone(self) noexcept:
        return self.is_aligned or self.takes_any  # labels, or how many devices fit

    cdef void remove(self, Py_ssize_t i) noexcept:
        self._move(i, -1)

    cdef void put_back(self, Py_ssize_t i) noexcept:
        self._move(i, 1)

    cdef void _move(self, Py_ssize_t i, int sign) noexcept:
        cdef DeviceTable table = self.holdings.table
        cdef const HeldCell* held
        cdef DeviceColumns* columns
        cdef Py_ssize_t k, cell
        cdef int r, v
        for k in range(self.row.first[i], self.row.first[i + 1]):
            held = &self.row.cells[k]
            columns = &table.columns[held.type]
            cell = table.node[self.index].cells[held.type].start + held.at
            r = 0
            while held.named >> r:
                if held.named >> r & 1:
                    columns.used[r * columns.capacity + cell] += sign * held.amount[r]
                r += 1
            for v in range(held.vfs, held.vfs_end):
                table.shape[self.index].vfs[held.type][self.row.vfs[v]].used += sign
            if self.is_counted:
                self._count(held, columns, cell)
            else:
                self.touched[held.type] |= position(held.at)
                self.is_changed = True

    cdef void _count(self, const HeldCell* held, const DeviceColumns* columns, Py_ssize_t cell) noexcept:
        # Note whether a device fits now of which something was removed, or put back.
        cdef Positions device = position(held.at)
        if held.type != self.counted.type or not self.counted.candidates & device:
            return
        if fits_unused(columns, self.request, held.type, cell):
            self.fitting |= device
        else:
            self.fitting &= ~device

    cdef int32_t code(self) noexcept:
        if self.is_counted:
            return PASS if size_of(self.fitting) >= self.counted.wanted else self.counted.otherwise
        if self.is_changed:
            if self.is_aligned:
                self.last = check_labels(self.holdings.table, self.request, self.index)
            else:
                self.last = check_index(self.holdings.table, self.request, self.index)
            self.is_changed = False
        return self.last

    cdef void end(self) noexcept:
        self.settle()

    cdef void settle(self) noexcept:
        cdef DeviceTable table = self.holdings.table
        cdef int type, at
        if self.is_counted or not self.is_changed:
            return
        for type in range(TYPES):
            at = 0
            while at < LARGEST_GROUP and self.touched[type] >> at:
                if self.touched[type] >> at & 1:
                    table.settle(self.index, type, table.node[self.index].cells[type].start + at)
                at += 1
            self.touched[type] = 0
