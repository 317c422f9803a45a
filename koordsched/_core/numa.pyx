"""Columns over the NUMA nodes of all nodes, and what a pod requests of them, as the NUMA kernels read it."""

from array import array

import numpy as np

from libc.stdint cimport int32_t, int64_t

from koordsched._core.numa_facts import CpuCounts, NumaNode, NumaStatus, NumaUsage, TopologyState, ZoneUsage
from koordsched._core.table cimport RESOURCE_CPU, NodeTable

cdef int64_t MAX_AMOUNT = (<int64_t> 1) << MAX_AMOUNT_BITS
NOTHING = CpuCounts()
MAX_SUMMARIES = 1 << 20  # texts kept; further ones share the empty text


cdef class NumaTable:

    def __init__(self, NodeTable nodes not None, Py_ssize_t index_attribute):
        if index_attribute < 0 or index_attribute >= nodes.attributes:
            raise IndexError(f"attribute {index_attribute} of {nodes.attributes}")
        self.nodes = nodes
        self.index_attribute = index_attribute
        self.capacity = 64
        self.width = 2
        self.slot_of = np.full(4, -1, np.int32)
        cells = self.capacity * self.width
        self.total = np.zeros((4, cells), np.int64)
        self.allocated = np.zeros((4, cells), np.int64)
        self.known = np.zeros((4, self.capacity), np.uint8)
        self.cpus = np.zeros((COUNTS, cells), np.int32)
        self.zone_id = np.zeros(cells, np.uint8)
        self.status = np.zeros(cells, np.uint8)
        self.node_cpus = np.zeros((COUNTS, self.capacity), np.int32)
        self.zone_count = np.zeros(self.capacity, np.uint8)
        self.topology = np.zeros(self.capacity, np.uint8)
        self.bind_policy = np.zeros(self.capacity, np.uint8)
        self.numa_policy = np.zeros(self.capacity, np.uint8)
        self.cpus_per_core = np.ones(self.capacity, np.int32)
        self.ratio = np.ones(self.capacity, np.float64)
        self.checked_ratio = np.ones(self.capacity, np.float64)
        self._summaries = [""]
        self._summary_ids = {"": 0}

    # What changes with the node

    def set_node(self, Py_ssize_t index, node not None):
        zones = sorted(node.zones.items())
        if any([not 0 <= zone < MAX_ZONES for zone, _ in zones]):
            raise ValueError(f"zones {[zone for zone, _ in zones]}: NUMA ids must be 0..{MAX_ZONES - 1}")
        if node.cpus_per_core < 1:
            raise ValueError(f"{node.cpus_per_core} CPUs a core: must be at least 1")
        self.clear_node(index)
        if len(zones) > self.width:
            self._widen(len(zones))
        self.topology[index] = int(node.topology)
        self.cpus_per_core[index] = node.cpus_per_core
        self.bind_policy[index] = int(node.bind_policy)
        self.numa_policy[index] = int(node.numa_policy)
        self.ratio[index] = node.ratio
        self.checked_ratio[index] = node.checked_ratio
        self.zone_count[index] = <uint8_t> len(zones)
        cdef Py_ssize_t cell = index * self.width
        cdef Py_ssize_t slot
        for zone, amounts in zones:
            self.zone_id[cell] = zone
            for resource, amount in amounts.items():
                slot = self._slot(resource)
                self.total[slot, cell] = _cut(amount)
                self.known[slot, index] = 1
            cell += 1
        self.demanding += self.demands(index)

    def clear_node(self, Py_ssize_t index):
        if index < 1:
            raise IndexError(f"index {index}: must be at least 1")
        if index >= self.capacity:
            self._lengthen(index + 1)
        self.demanding -= self.demands(index)
        cdef Py_ssize_t slot
        for slot in range(self.slots):
            self.known[slot, index] = 0
        self._clear_zones(index, True)
        self.zone_count[index] = 0
        self.topology[index] = TOPOLOGY_NONE
        self.bind_policy[index] = BIND_NONE
        self.numa_policy[index] = NUMA_NONE
        self.cpus_per_core[index] = 1
        self.ratio[index] = 1.0
        self.checked_ratio[index] = 1.0

    def _clear_zones(self, Py_ssize_t index, bint totals):
        cdef Py_ssize_t cell, slot
        _count(self.node_cpus, index, NOTHING)
        for cell in range(index * self.width, index * self.width + self.zone_count[index]):
            _count(self.cpus, cell, NOTHING)
            self.status[cell] = STATUS_IDLE
            for slot in range(self.slots):
                self.allocated[slot, cell] = 0
                if totals:
                    self.total[slot, cell] = 0

    # What changes with the node's pods

    def set_usage(self, Py_ssize_t index, usage not None):
        self.check_index(index)
        self._clear_zones(index, False)
        _count(self.node_cpus, index, usage.cpus)
        cdef Py_ssize_t cell, slot
        zones = usage.zones
        for cell in range(index * self.width, index * self.width + self.zone_count[index]):
            zone = zones.get(self.zone_id[cell])
            if zone is None:
                continue
            _count(self.cpus, cell, zone.cpus)
            self.status[cell] = int(zone.status)
            for resource, amount in zone.allocated.items():
                slot = self._slot(resource)
                self.allocated[slot, cell] = _cut(amount)

    def set_allocated(self, Py_ssize_t index, int numa, amounts not None):
        self.check_index(index)
        cdef Py_ssize_t cell, slot
        for cell in range(index * self.width, index * self.width + self.zone_count[index]):
            if self.zone_id[cell] == numa:
                for slot in range(self.slots):
                    self.allocated[slot, cell] = 0
                for resource, amount in amounts.items():
                    slot = self._slot(resource)
                    self.allocated[slot, cell] = _cut(amount)

    def set_counts(self, Py_ssize_t index, counts not None):
        cdef Py_ssize_t cell
        cdef int i
        self.check_index(index)
        for i in range(COUNTS):
            self.node_cpus[i, index] = sum([of_zone[i] for of_zone in counts.values()])
        for cell in range(index * self.width, index * self.width + self.zone_count[index]):
            _count(self.cpus, cell, counts.get(self.zone_id[cell], NOTHING))

    def save_usage(self, Py_ssize_t index):
        self.check_index(index)
        cdef Py_ssize_t zones = self.zone_count[index], base = index * self.width, zone, slot, count
        cdef NumaCells cells = NumaCells.__new__(NumaCells)
        cells.index = index
        cells.slots = self.slots
        cells.cpus = array("i", bytes(4 * COUNTS * (zones + 1)))
        cells.allocated = array("q", bytes(8 * zones * self.slots))
        cells.status = array("B", bytes(zones))
        for count in range(COUNTS):
            cells.cpus[count] = self.node_cpus[count, index]
        for zone in range(zones):
            cells.status[zone] = self.status[base + zone]
            for count in range(COUNTS):
                cells.cpus[COUNTS * (zone + 1) + count] = self.cpus[count, base + zone]
            for slot in range(cells.slots):
                cells.allocated[zone * cells.slots + slot] = self.allocated[slot, base + zone]
        return cells

    def restore_usage(self, NumaCells cells not None):
        cdef Py_ssize_t zones = cells.status.shape[0], base = cells.index * self.width, zone, slot, count
        if zones != self.zone_count[cells.index]:
            raise ValueError(f"index {cells.index} had {zones} zones and has {self.zone_count[cells.index]}")
        for count in range(COUNTS):
            self.node_cpus[count, cells.index] = cells.cpus[count]
        for zone in range(zones):
            self.status[base + zone] = cells.status[zone]
            for count in range(COUNTS):
                self.cpus[count, base + zone] = cells.cpus[COUNTS * (zone + 1) + count]
            for slot in range(self.slots):
                self.allocated[slot, base + zone] = cells.allocated[zone * cells.slots + slot] if slot < cells.slots else 0

    # Reading back

    def node_of(self, Py_ssize_t index):
        self.check_index(index)
        zones = {}
        for cell in range(index * self.width, index * self.width + self.zone_count[index]):
            zones[self.zone_id[cell]] = self._amounts(np.asarray(self.total), cell)
        return NumaNode(
            TopologyState(self.topology[index]), self.cpus_per_core[index], zones, self.bind_policy[index],
            self.numa_policy[index], self.ratio[index], self.checked_ratio[index],
        )

    def usage_of(self, Py_ssize_t index):
        self.check_index(index)
        zones = {}
        for cell in range(index * self.width, index * self.width + self.zone_count[index]):
            allocated = self._amounts(np.asarray(self.allocated), cell)
            zones[self.zone_id[cell]] = ZoneUsage(allocated, _counts(self.cpus, cell), NumaStatus(self.status[cell]))
        return NumaUsage(_counts(self.node_cpus, index), zones)

    def _amounts(self, column, Py_ssize_t cell):
        slots = [(resource, slot) for resource, slot in enumerate(np.asarray(self.slot_of).tolist()) if slot >= 0]
        return {resource: int(column[slot, cell]) for resource, slot in slots if column[slot, cell]}

    def summary_of(self, int32_t code):
        cdef Py_ssize_t place = code >> DETAIL_SHIFT
        return self._summaries[place] if place < len(self._summaries) else ""

    cdef int32_t summary_id(self, str text) except -1:
        found = self._summary_ids.get(text)
        if found is None:
            if len(self._summaries) >= MAX_SUMMARIES:
                return 0
            found = self._summary_ids[text] = len(self._summaries)
            self._summaries.append(text)
        return found

    cdef bint demands(self, Py_ssize_t index) noexcept nogil:
        if self.bind_policy[index] != BIND_NONE or self.numa_policy[index] != NUMA_NONE:
            return True
        return self.checked_ratio[index] > 1.0 or self.checked_ratio[index] < 0.0

    cdef int check_index(self, Py_ssize_t index) except -1:
        if index < 1 or index >= self.capacity:
            raise IndexError(f"index {index}: no node of it was ever set")
        return 0

    # Room

    def _slot(self, Py_ssize_t resource):
        """Return the resource's slot, a new one if it has none."""
        if resource >= self.slot_of.shape[0]:
            wider = np.full(2 * resource + 2, -1, np.int32)
            wider[:self.slot_of.shape[0]] = self.slot_of
            self.slot_of = wider
        if self.slot_of[resource] < 0:
            if self.slots == self.total.shape[0]:
                self.total = _padded(self.total, 2 * self.slots, self.total.shape[1])
                self.allocated = _padded(self.allocated, 2 * self.slots, self.allocated.shape[1])
                self.known = _padded(self.known, 2 * self.slots, self.known.shape[1])
            self.slot_of[resource] = <int32_t> self.slots
            self.slots += 1
        return self.slot_of[resource]

    def _lengthen(self, Py_ssize_t count):
        """Make room for indexes below count."""
        capacity = max(count, 2 * self.capacity)
        self._resize(capacity, self.width)
        self.known = _padded(self.known, self.known.shape[0], capacity)
        self.node_cpus = _padded(self.node_cpus, COUNTS, capacity)
        self.zone_count = _longer(self.zone_count, capacity, 0)
        self.topology = _longer(self.topology, capacity, 0)
        self.bind_policy = _longer(self.bind_policy, capacity, 0)
        self.numa_policy = _longer(self.numa_policy, capacity, 0)
        self.cpus_per_core = _longer(self.cpus_per_core, capacity, 1)
        self.ratio = _longer(self.ratio, capacity, 1)
        self.checked_ratio = _longer(self.checked_ratio, capacity, 1)
        self.capacity = capacity

    def _widen(self, Py_ssize_t zones):
        """Make room for so many zones a node."""
        width = self.width
        while width < zones:
            width *= 2
        self._resize(self.capacity, width)
        self.width = width

    def _resize(self, Py_ssize_t capacity, Py_ssize_t width):
        """Move every cell to where it stands among so many indexes of so many zones."""
        shape = (self.capacity, self.width)
        room = (capacity, width)
        self.total = _moved(self.total, shape, room)
        self.allocated = _moved(self.allocated, shape, room)
        self.cpus = _moved(self.cpus, shape, room)
        self.zone_id = _moved(self.zone_id, shape, room)
        self.status = _moved(self.status, shape, room)


cdef class NumaCells:
    pass


cdef class NumaRequest:

    def __init__(self, amounts, names, policies not None):
        if len(amounts) > MAX_REQUESTED:
            raise ValueError(f"a request of {len(amounts)} resources: NUMA nodes are asked for {MAX_REQUESTED} at most")
        if any([amount <= 0 for amount in amounts.values()]):
            raise ValueError(f"amounts {dict(amounts)}: must be > 0")
        ids = sorted(amounts)
        # array, not numpy: a request has about three entries, and one is made for every pod that differs.
        self.ids = array("i", ids)
        self.amounts = array("q", [_cut(amounts[resource]) for resource in ids])
        self.names = tuple([names[resource] for resource in ids])
        self.cpu = _cut(amounts.get(RESOURCE_CPU, 0))
        self.bind_policy = int(policies.bind_policy)
        self.required_bind_policy = int(policies.required_bind_policy)
        self.numa_policy = int(policies.numa_policy)
        self.exclusive = int(policies.exclusive)
        if self.exclusive == EXCLUSIVE_NONE and self.numa_policy != NUMA_NONE:
            self.exclusive = EXCLUSIVE_REQUIRED  # of a pod that names a policy and no exclusivity (nodenumaresource.md §1)
        self.summaries = {}


cdef class NumaScoring:

    def __init__(self, weights, node_strategy, numa_strategy, only_requested=(), numa_weights=None):
        if numa_weights is None:
            numa_weights = weights
        for given in (weights, numa_weights):
            if any([weight <= 0 for weight in given.values()]) or sum(given.values()) >= 1 << 32:
                raise ValueError(f"weights {dict(given)}: must be > 0 and their sum below 2^32")
        resources = list({**weights, **numa_weights})
        if len(resources) > MAX_ITEMS - MAX_REQUESTED:
            raise ValueError(f"{len(resources)} resources: at most {MAX_ITEMS - MAX_REQUESTED} can be scored")
        self.ids = array("i", resources)
        self.weights = array("q", [weights.get(resource, 0) for resource in resources])
        self.numa_weights = array("q", [numa_weights.get(resource, 0) for resource in resources])
        self.optional = array("B", [resource in only_requested for resource in resources])
        self.node_most = node_strategy == MOST_ALLOCATED
        self.numa_most = numa_strategy == MOST_ALLOCATED


cdef int64_t _cut(amount) except -1:
    """Return the amount, at most 2^56 and at least 0."""
    return min(max(amount, 0), MAX_AMOUNT)


cdef int _count(int32_t[:, ::1] matrix, Py_ssize_t column, counts) except -1:
    matrix[BOUND, column], matrix[FREE, column], matrix[FULL, column], matrix[FIRST, column] = counts
    return 0


cdef _counts(const int32_t[:, ::1] matrix, Py_ssize_t column):
    return CpuCounts(matrix[BOUND, column], matrix[FREE, column], matrix[FULL, column], matrix[FIRST, column])


def _padded(matrix, Py_ssize_t rows, Py_ssize_t columns):
    """Return a copy of that shape, 0 where it is new."""
    old = np.asarray(matrix)
    new = np.zeros((rows, columns), old.dtype)
    new[:old.shape[0], :old.shape[1]] = old
    return new


def _longer(vector, Py_ssize_t length, fill):
    """Return a copy of that length, `fill` where it is new."""
    old = np.asarray(vector)
    new = np.zeros(length, old.dtype)
    if fill:
        new[old.shape[0]:] = fill
    new[:old.shape[0]] = old
    return new


def _moved(cells, shape, room):
    """Return a copy in which the last dimension, (indexes x zones) of `shape`, is one of `room`; 0 where it is new."""
    old = np.asarray(cells)
    others = old.shape[:old.ndim - 1]
    new = np.zeros((*others, *room), old.dtype)
    new[..., :shape[0], :shape[1]] = old.reshape(*others, *shape)
    return new.reshape(*others, room[0] * room[1])
