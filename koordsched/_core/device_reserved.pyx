"""Which reservations of a row have the devices that a pod asks for: what Reserve would do with each (deviceshare.md §8).

What a reservation has left is compiled once until it changes, and the allocator that Reserve asks is asked here too.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from koordsched._core.device_allocation import allocate
from koordsched._core.device_allocation cimport try_allocate
from koordsched._core.device_group cimport (
    NO_DEVICES,
    NO_ISOLATION_PROVIDER,
    NO_VFS,
    PASS,
    SHARE_UNSUPPORTED,
    check_labels,
)
from koordsched._core.device_request cimport Minors
from koordsched._core.device_score cimport DeviceScoring
from koordsched._core.device_selection cimport Outcome
from koordsched._core.device_table cimport (
    HAS_ENTRY,
    IS_LISTED,
    TYPES,
    DeviceColumns,
    first_resource,
    index_of,
    resources_of,
)

cdef enum:
    OF_RESERVATION = 1 << 5        # set in codes of what a reservation lacks; as in plugins.deviceshare.reasons
    REASON_MASK = (1 << 6) - 1
cdef int64_t LARGEST_AMOUNT = (<int64_t> 1) << 48  # that the table counts
cdef int64_t LARGEST_MINOR = (<int64_t> 1) << 31


@cython.no_gc
cdef class LeftDevices:

    def __init__(self, DeviceTable table not None, held not None, *, bint restricted, bint counted=True):
        cdef int type
        cdef int64_t minor
        self.table = table
        self.restricted = restricted
        self.plain = counted
        self.vfs = []
        self._allocate(held)
        for device_type, device_minor, amounts, vfs in held:
            type, minor = device_type, min(device_minor, LARGEST_MINOR)  # which no device has
            self._add(type, minor, amounts)
            if vfs:
                self.vfs.append((type, minor, vfs))
        for type in range(TYPES):
            self.first[type + 1] += self.first[type]

    cdef int _add(self, int type, int64_t minor, dict amounts) except -1:
        cdef Amounts* of = &self.amounts[self.count]
        cdef int r
        if self.count and (of - 1).type == type and (of - 1).minor == minor:
            of -= 1  # of a device that stands there twice the last one counts
            memset(of, 0, sizeof(Amounts))
            self.plain = False
        else:
            self.count += 1
            self.first[type + 1] += 1
        self.plain = self.plain and minor < LARGEST_MINOR
        of.type = type
        of.minor = self.minors[self.count - 1] = minor
        of.is_empty = True
        for resource, amount in amounts.items():
            r = <int> resource - first_resource(type)
            if 0 <= r < resources_of(type):
                self.plain = self.plain and 0 <= amount <= LARGEST_AMOUNT
                of.amount[r] = max(-LARGEST_AMOUNT, min(amount, LARGEST_AMOUNT))
                of.is_named[r] = True
                of.is_empty = False
        return 0

    cdef int _allocate(self, held) except -1:
        cdef Py_ssize_t devices = len(held), vfs = 0
        for device in held:
            if device[3]:
                self.bus_count += 1
                vfs += len(device[3])
        self.amounts = <Amounts*> calloc(devices + 1, sizeof(Amounts) + sizeof(int64_t))
        if self.amounts == NULL:
            raise MemoryError
        self.minors = <int64_t*> (self.amounts + devices)
        if self.bus_count:
            self.buses = <Buses*> calloc(self.bus_count, sizeof(Buses))
            self.bus = <int32_t*> calloc(vfs, sizeof(int32_t))
            if self.buses == NULL or self.bus == NULL:
                raise MemoryError
        return 0

    def __dealloc__(self):
        free(self.amounts)
        free(self.buses)
        free(self.bus)

    cdef int look_up_buses(self) except -1:
        """Write the ids of virtual functions, -1 for those that no device has, if the table has learned of some since."""
        cdef int place = 0, at = 0
        if not self.bus_count or self.known_buses == len(self.table.bus_ids):
            return 0
        for type, minor, names in self.vfs:
            self.buses[place].type = type
            self.buses[place].minor = minor
            self.buses[place].count = <int> len(names)
            self.buses[place].bus = &self.bus[at]
            for name in names:
                self.bus[at] = self.table.bus_ids.get(name, -1)
                at += 1
            place += 1
        self.known_buses = len(self.table.bus_ids)
        return 0

    cdef bint is_listed(self, Py_ssize_t index) noexcept:
        """Answer whether the node's Device lists all of these."""
        cdef int i
        cdef Py_ssize_t cell
        for i in range(self.count):
            cell = self.table.find(index, self.amounts[i].type, self.amounts[i].minor)
            if cell < 0 or not self.table.columns[self.amounts[i].type].state[cell] & IS_LISTED:
                return False
        return True

    def alone(self):
        cdef WayToTake way = WayToTake(self)
        way.take_alone(self)
        return way

    def is_counted_on(self, Py_ssize_t index):
        self.table.check(index)
        return self.is_known_on(index)

    cdef bint is_known_on(self, Py_ssize_t index) noexcept:
        """Answer whether `count_on` does what the table does when pods with this come and go."""
        return self.plain and self.is_listed(index)

    cdef int count_on(self, Py_ssize_t index, int sign) except -1:
        """Let all this be held on the node (1), or no longer (-1). `is_known_on` holds, or held when it was asked."""
        cdef int i
        cdef Py_ssize_t cell
        cdef DeviceColumns* columns
        cdef const Amounts* of
        for i in range(self.count):
            of = &self.amounts[i]
            columns = &self.table.columns[of.type]
            # Found again each time: a simulation may have moved the node's cells to where there was room.
            cell = self.table.find(index, of.type, of.minor)
            if cell < 0:
                raise ValueError(f"device {of.minor} of type {of.type}: it is not listed any more")
            self.table.use(of.type, cell, of.amount, sign)
            columns.holds[cell] += sign
            self.table.settle(index, of.type, cell)
        for type, minor, names in self.vfs:
            self.table.hold_vfs(index, type, minor, names, sign)
        return 0


cdef class WayToTake(DeviceAdjustment):

    def __init__(self, LeftDevices left):
        self._clear(left)

    def __dealloc__(self):
        # These belong to what was left of a reservation.
        self.required = NULL
        self.only_vfs = NULL

    cdef int prepare(self, DeviceTable table) except -1:
        return self.left.look_up_buses()

    cdef void _clear(self, LeftDevices left) noexcept:
        cdef int type
        self.left = left
        self.required = NULL
        self.required_count = 0
        self.only_vfs = NULL
        self.only_vfs_count = 0
        self.changes_amounts = False
        for type in range(TYPES):
            self.requires[type] = False
            self.required_minors[type] = self.only[type] = self.preferred[type] = _no_minors()

    cdef void take_alone(self, LeftDevices left) noexcept:
        """Let them be taken from what is left, of the types of which there is any; of none, where there is nothing left at all."""
        cdef int type
        self._clear(left)
        self.required = left.amounts
        self.required_count = left.count
        self.changes_amounts = True
        for type in range(TYPES):
            self.required_minors[type] = _minors_of(left, type)
            self.requires[type] = self.required_minors[type].is_set or left.count == 0
        self.only_vfs = left.buses
        self.only_vfs_count = left.bus_count

    cdef void take_only(self, LeftDevices left) noexcept:
        """Let them be those of which something is left, of the types of which there is any, with what is free of them besides."""
        cdef int type
        self._clear(left)
        for type in range(TYPES):
            self.only[type] = _minors_of(left, type)
        self.only_vfs = left.buses
        self.only_vfs_count = left.bus_count

    cdef void prefer(self, LeftDevices left) noexcept:
        """Let those come first of which something is left."""
        cdef int type
        self._clear(left)
        for type in range(TYPES):
            self.preferred[type] = _minors_of(left, type)


cdef Minors _no_minors() noexcept:
    cdef Minors none
    none.is_set = False
    none.count = 0
    none.minor = NULL
    return none


cdef Minors _minors_of(LeftDevices left, int type) noexcept:
    cdef Minors found = _no_minors()
    found.count = left.first[type + 1] - left.first[type]
    found.is_set = found.count > 0
    if found.is_set:
        found.minor = &left.minors[left.first[type]]
    return found


cdef WayToTake WAY = WayToTake(None)  # scratch memory, of 18 KB: one question ends before another begins


cdef class ReservedDevices(ReservedSource):

    def __init__(
        self, DeviceTable table not None, DeviceRequest request not None, dict given not None, dict known not None, compile_left, *,
        bint demanded, bint aligned
    ):
        self.table = table
        self.request = request
        self.given = given
        self.known = known
        self.compile_left = compile_left
        self.demanded = demanded
        self.aligned = aligned

    cdef int begin(self) except -1:
        self.request.prepare(self.table)
        return 0

    cdef bint holds(self, uid) except -1:
        return uid in self.given

    cdef LeftDevices left(self, uid):
        """Return what a reservation has left that was given something."""
        found = self.known.get(uid)
        if found is None:
            found = self.known[uid] = self.compile_left(uid)
        return <LeftDevices?> found

    cdef bint knows(self, Py_ssize_t row, uid) except -1:
        if uid not in self.given:
            return True
        cdef LeftDevices left = self.left(uid)
        return left.is_known_on(index_of(self.table, row))

    cdef int show(self, Py_ssize_t row, uid) except -1:
        if uid in self.given:
            self.left(uid).count_on(index_of(self.table, row), 1)
        return 0

    cdef int hide(self, Py_ssize_t row, uid) except -1:
        if uid in self.given:
            self.left(uid).count_on(index_of(self.table, row), -1)
        return 0

    cdef int32_t refusal(self, Py_ssize_t row, uid, uint64_t* numa) except -1:
        cdef Py_ssize_t index = index_of(self.table, row)
        cdef int32_t code = check_labels(self.table, self.request, index)
        cdef LeftDevices left
        cdef uint64_t mask = numa[0] if self.aligned else 0
        if code == PASS and self.table.node[index].flags & HAS_ENTRY:
            if uid is None or uid not in self.given:
                code = self._try(index, None, mask)
            else:
                left = self.left(uid)
                left.look_up_buses()
                if left.restricted:
                    WAY.take_alone(left)
                else:
                    WAY.take_only(left)
                    code = self._try(index, WAY, mask)
                    if code == PASS:
                        return PASS
                    WAY.prefer(left)
                code = self._try(index, WAY, mask)
        return code if uid is None or not self.demanded else _of_reservation(code)

    cdef int32_t _try(self, Py_ssize_t index, DeviceAdjustment way, uint64_t mask) noexcept:
        cdef Outcome out
        return try_allocate(self.table, self.request, index, way, None, mask, True, &out)


def allocate_left(
    DeviceTable table not None, DeviceRequest request not None, Py_ssize_t row, LeftDevices left not None, DeviceScoring scoring=None, *,
    mask=None
):
    if left.restricted:
        WAY.take_alone(left)
    else:
        WAY.take_only(left)
        found = allocate(table, request, row, scoring, adjustment=WAY, mask=mask, reserve=True)
        if not isinstance(found, int):
            return found
        WAY.prefer(left)
    return allocate(table, request, row, scoring, adjustment=WAY, mask=mask, reserve=True)


cdef int32_t _of_reservation(int32_t code) noexcept:
    """Return the code that says of a reservation what this one says of a node; the same where no reservation can change it."""
    cdef int reason = code & REASON_MASK
    if reason in (PASS, NO_ISOLATION_PROVIDER, SHARE_UNSUPPORTED, NO_DEVICES, NO_VFS):
        return code
    return code | OF_RESERVATION
