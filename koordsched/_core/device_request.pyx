"""Requests for devices, compiled from what a pod says, and adjustments: what reservations, victims and designations change on one node."""

from array import array

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from koordsched._core.device_facts import DeviceType
from koordsched._core.device_table cimport (
    CORE,
    GPU,
    LARGEST_SHARE,
    NO_BANDWIDTH,
    RATIO,
    TYPES,
    DeviceTable,
    first_resource,
    resources_of,
)

cdef int64_t LARGEST_AMOUNT = (<int64_t> 1) << 48
cdef int64_t LARGEST_COUNT = (<int64_t> 1) << 30


cdef class DeviceRequest:

    def __init__(
        self, types not None, *, bint shared=False, joint=(), bint same_pcie=False, partition=None, scope=None, templates=None,
        str isolation_provider not None="", unshareable=(),
    ):
        cdef int type
        for type in range(TYPES):
            demand = types.get(DeviceType(type))
            if demand is not None:
                self._read_type(type, demand)
        if self.type_count == 0:
            raise ValueError("a request must ask for some type of device")
        joint = tuple(joint)
        if len(set(joint)) != len(joint) or any([not self.asks[<int> type] for type in joint]):
            raise ValueError(f"joint types {joint}: must be different ones that are asked for")
        for place, type in enumerate(joint):
            self.joint[<int> place] = type
        self.joint_count = len(joint)
        self.same_pcie = same_pcie
        self.shared = shared
        self.by_partition = partition is not None
        self.first_group = partition is not None and partition.restricted
        self.bandwidth = NO_BANDWIDTH
        if partition is not None and partition.bandwidth is not None:
            self.bandwidth = max(0, min(partition.bandwidth, INT64_MAX))
        self.scope = NO_SCOPE if scope is None else scope
        self._selectors = [None if demand is None else demand.selector for demand in [types.get(DeviceType(type)) for type in range(TYPES)]]
        self._vf_selectors = [
            None if demand is None else demand.vf_selector for demand in [types.get(DeviceType(type)) for type in range(TYPES)]
        ]
        self.templates = None if templates is None else {key: tuple(names) for key, names in templates.items()}
        self._unshareable = frozenset(unshareable)
        self._isolation_provider = isolation_provider
        self.plain = (
            self.type_count == 1 and self.asks[GPU] and not self.by_partition and self.scope == NO_SCOPE and templates is None
            and self._selectors[GPU] is None and self._vf_selectors[GPU] is None
        )

    cdef int _read_type(self, int type, demand) except -1:
        cdef int r
        if not demand.apply_for_all and not 0 <= demand.count:
            raise ValueError(f"{demand.count} devices: must not be negative")
        self.asks[type] = True
        self.types[self.type_count] = type
        self.type_count += 1
        self.count[type] = min(demand.count, LARGEST_COUNT)
        self.for_all[type] = demand.apply_for_all
        for resource, amount in sorted(demand.amounts.items()):
            r = resource - first_resource(type)
            if not 0 <= r < resources_of(type):
                raise ValueError(f"resource {resource!r} is none of type {type}")
            self.amount[type][r] = max(0, min(amount, 2 * LARGEST_AMOUNT))
            self.named[type][self.named_count[type]] = r
            self.named_count[type] += 1
        self.takes_vfs = self.takes_vfs or demand.vf_selector is not None
        self.share[type] = self._share_of(type)
        return 0

    cdef int _share_of(self, int type) noexcept:
        """Return the least share that a device must have, -1 where that does not say whether it fits."""
        cdef int64_t amount = self.amount[type][CORE]
        if amount > LARGEST_SHARE:
            return -1
        if type == GPU:
            if self.named_count[GPU] != 2 or self.named[GPU][0] != CORE or self.named[GPU][1] != RATIO or self.amount[GPU][RATIO] != amount:
                return -1
        return <int> amount

    cdef int prepare(self, DeviceTable table) except -1:
        if self.table is not table:
            self.table = table
            self.known_labels = self.known_models = 0
            self._buffers = {}
        if self.known_labels != len(table.label_sets) or self.known_models != len(table.models):
            self._extend(table)
        # A provider that no node has is like no id.
        self.isolation = table.isolation_ids.get(self._isolation_provider, -1) if self._isolation_provider and self.shared else 0
        return 0

    cdef int _extend(self, DeviceTable table) except -1:
        """Ask the selectors about label sets, and look up models, that the table has learned of."""
        cdef int type
        for type in range(TYPES):
            if self._selectors[type] is not None:
                self.matches[type] = self._asked(("selector", type), self._selectors[type], table.label_sets)
            if self._vf_selectors[type] is not None:
                self.vf_matches[type] = self._asked(("vf_selector", type), self._vf_selectors[type], table.label_sets)
        if self.templates is not None:
            self.template_of = self._asked("template", self._templates_of, table.models)
        if self._unshareable:
            self.unshareable = self._asked("unshareable", self._unshareable.__contains__, table.models)
        self.known_labels = len(table.label_sets)
        self.known_models = len(table.models)
        return 0

    cdef uint8_t* _asked(self, name, predicate, known) except NULL:
        before = self._buffers.get(name, b"")
        buffer = self._buffers[name] = bytes([*before, *[int(predicate(item)) for item in known[len(before):]]])
        return <uint8_t*> <char*> buffer

    def _templates_of(self, model):
        return min(len(self.templates.get(f"{model[0]}-{model[1]}", ())), <int> MORE_TEMPLATES)


cdef class DeviceAdjustment:

    def __init__(
        self, reusable not None=(), required=None, preferred not None=(), required_minors not None=(), only not None=(),
        included not None=(), freed_vfs not None=(), only_vfs not None=(), *, bint complete_required=False,
    ):
        cdef int type
        self._memory = []
        self._freed_names = {}
        self._only_names = {}
        self.complete = complete_required
        self.reusable = self._amounts(dict(reusable), &self.reusable_count)
        self.required = self._amounts(dict(required or ()), &self.required_count)
        for type in required or ():
            self.requires[type] = True
        self.changes_amounts = self.reusable_count > 0 or required is not None
        self._minors(self.preferred, dict(preferred))
        self._minors(self.required_minors, dict(required_minors))
        self._minors(self.only, dict(only))
        self._minors(self.included, dict(included))
        self.freed_vfs = self._buses(dict(freed_vfs), &self.freed_count, self._freed_names)
        self.only_vfs = self._buses(dict(only_vfs), &self.only_vfs_count, self._only_names)

    def __dealloc__(self):
        free(self.reusable)
        free(self.required)
        free(self.freed_vfs)
        free(self.only_vfs)

    cdef Amounts* _amounts(self, by_type, int* count) except? NULL:
        cdef Amounts* made
        cdef int place = 0, r
        listed = [(type, minor, amounts) for type, of_type in by_type.items() for minor, amounts in of_type.items()]
        if not listed:
            return NULL
        made = <Amounts*> calloc(len(listed), sizeof(Amounts))
        if made == NULL:
            raise MemoryError
        count[0] = <int> len(listed)
        for type, minor, amounts in listed:
            made[place].type = type
            made[place].minor = minor
            made[place].is_empty = True
            for resource, amount in amounts.items():
                r = resource - first_resource(type)
                if 0 <= r < resources_of(type):
                    made[place].amount[r] = max(-LARGEST_AMOUNT * 1024, min(amount, LARGEST_AMOUNT * 1024))
                    made[place].is_named[r] = True
                    made[place].is_empty = False
            place += 1
        return made

    cdef int _minors(self, Minors* sets, by_type) except -1:
        cdef int64_t[::1] view
        memset(sets, 0, TYPES * sizeof(Minors))
        for type, minors in by_type.items():
            held = array("q", sorted(minors))
            self._memory.append(held)
            sets[<int> type].is_set = True
            sets[<int> type].count = <int> len(held)
            if held:
                view = held
                sets[<int> type].minor = &view[0]
        return 0

    cdef Buses* _buses(self, by_type, int* count, names) except? NULL:
        cdef Buses* made
        cdef int place = 0
        cdef int32_t[::1] view
        listed = [(type, minor, buses) for type, of_type in by_type.items() for minor, buses in of_type.items()]
        if not listed:
            return NULL
        made = <Buses*> calloc(len(listed), sizeof(Buses))
        if made == NULL:
            raise MemoryError
        count[0] = <int> len(listed)
        for type, minor, buses in listed:
            held = array("i", [-1] * len(buses))
            self._memory.append(held)
            names[place] = (tuple(buses), held)
            made[place].type = type
            made[place].minor = minor
            made[place].count = <int> len(held)
            if held:
                view = held
                made[place].bus = &view[0]
            place += 1
        return made

    cdef int prepare(self, DeviceTable table) except -1:
        """Look up the bus ids; those that no device has are -1."""
        for names in (self._freed_names, self._only_names):
            for buses, held in names.values():
                for place, bus in enumerate(buses):
                    held[place] = table.bus_ids.get(bus, -1)
        return 0


cdef bint has_minor(const Minors* minors, int64_t minor) noexcept nogil:
    cdef int i
    for i in range(minors.count):
        if minors.minor[i] == minor:
            return True
    return False
