"""The table of devices: what Device objects, node labels and pods say becomes columns, masks and sums that the allocator reads.

A pod that comes or goes costs O(devices it holds); a Device object is laid out anew. Nothing here decides anything.
"""

cimport numpy as cnp
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from koordsched._core.device_facts import (
    DEVICE_TYPE_NAMES,
    DeviceCell,
    DeviceCensus,
    DevicePartition,
    DeviceResource,
    DeviceType,
    NodeAccelerators,
)
from koordsched._core.rows cimport Rows, flags_in, rows_of, zero_flags
from koordsched._core.table cimport NodeTable

cdef extern from "<stdlib.h>":
    void* aligned_alloc(size_t alignment, size_t size) nogil

cnp.import_array()

cdef int64_t LARGEST_AMOUNT = (<int64_t> 1) << 48  # 128 of them, as percent, can be added
cdef int64_t LARGEST_MINOR = (<int64_t> 1) << 31
cdef dict EIGHT_LINKED = {                         # deviceshare.md §6.3: cards of H100, H800 and H20 that NVLink joins
    count: [DevicePartition(tuple(range(first, first + count)), 1) for first in range(0, 8, count)] for count in (1, 2, 4, 8)
}

cdef Py_ssize_t MAX_LAID_OUT = 1024  # layouts that are found again: those of nodes that all differ must not fill the memory

MAX_DEVICES = LARGEST_GROUP
MAX_AMOUNT = LARGEST_AMOUNT


cdef class DeviceTable:

    def __cinit__(self):
        cdef int type
        for type in range(TYPES):
            memset(&self.columns[type], 0, sizeof(DeviceColumns))

    def __init__(self, NodeTable nodes not None, Py_ssize_t index_attribute):
        if index_attribute < 0 or index_attribute >= nodes.attributes:
            raise IndexError(f"attribute {index_attribute} of {nodes.attributes}")
        self.nodes = nodes
        self.index_attribute = index_attribute
        self._spare = {}
        self._layouts = {}
        self._layouts_of = {}
        self._described = {}
        self._laid_out = {}
        self._accelerators = {}
        self._vfs_held = {}
        self.label_sets = []
        self._label_ids = {}
        self.models = []
        self._model_ids = {}
        self.isolation_ids = {"": 0}
        self.bus_names = []
        self.bus_ids = {}
        self._label_id({})
        self._model_id("", "")
        self._lengthen(64)

    def __dealloc__(self):
        cdef Py_ssize_t index
        cdef int type
        for index in range(self.capacity if self.shape != NULL else 0):
            _free_shape(&self.shape[index])
        free(self.node)
        free(self.shape)
        free(self.masks)
        free(self.sums)
        for type in range(TYPES):
            free(self.columns[type].total)
            free(self.columns[type].used)
            free(self.columns[type].free)
            free(self.columns[type].minor)
            free(self.columns[type].labels)
            free(self.columns[type].holds)
            free(self.columns[type].pcie)
            free(self.columns[type].numa)
            free(self.columns[type].state)
            free(self.columns[type].share)

    # What changes with the node

    def clear_node(self, Py_ssize_t index):
        cdef int type
        if index < 1:
            raise IndexError(f"index {index}: must be at least 1")
        if index >= self.capacity:
            self._lengthen(index + 1)
        self._described.pop(index, None)
        self._accelerators.pop(index, None)
        cdef DeviceNode* node = &self.node[index]
        for type in range(TYPES):
            self._release(type, &node.cells[type])
            for key in [key for key in self._vfs_held if key[0] == index and key[1] == type] if self._vfs_held else ():
                del self._vfs_held[key]
        self._forget_shape(index)
        memset(node, 0, sizeof(DeviceNode))
        memset(&self.masks[index * TYPES], 0, TYPES * sizeof(Masks))
        memset(&self.sums[index * 2 * RESOURCES], 0, 2 * RESOURCES * sizeof(int64_t))

    def set_accelerators(self, Py_ssize_t index, accelerators not None):
        self.check(index)
        self._accelerators[index] = accelerators
        cdef DeviceNode* node = &self.node[index]
        node.model = self._model_id(accelerators.vendor, accelerators.model)
        node.isolation = self.isolation_ids.setdefault(accelerators.isolation_provider, len(self.isolation_ids))
        self._shape(index)

    def set_devices(self, Py_ssize_t index, devices not None):
        self.check(index)
        if self._copy_layout(index, devices):
            return
        for type, listed in devices.devices.items():
            minors = {device.minor for device in listed} | self._held_minors(index, type)
            if len(minors) > LARGEST_GROUP:
                raise ValueError(f"{len(minors)} devices of type {DEVICE_TYPE_NAMES[type]}: more than {LARGEST_GROUP} cannot be counted")
            for device in listed:
                if not 0 <= device.minor < LARGEST_MINOR:
                    raise ValueError(f"minor {device.minor} of type {DEVICE_TYPE_NAMES[type]}: must be 0 to 2^31 - 1")
                if device.numa is not None and not -1 <= device.numa < 64:
                    raise ValueError(f"NUMA node {device.numa} of {DEVICE_TYPE_NAMES[type]} {device.minor}: must be -1 to 63")
        if devices.numa_ids >> 64:
            raise ValueError(f"NUMA nodes {devices.numa_ids:#x}: must be 0 to 63")
        self._described[index] = devices
        self.rebuild(index)
        if len(self._laid_out) >= MAX_LAID_OUT:
            self._laid_out.clear()
        self._laid_out[id(devices)] = index

    cdef bint _copy_layout(self, Py_ssize_t index, devices) except -1:
        """Lay the devices out as on another node of which the very same was said: most nodes have the same ones. False: there is none.

        What pods hold is the other node's own, so it is left out, and neither may have devices that are held and not listed.
        """
        cdef int type
        cdef Py_ssize_t source = self._laid_out.get(id(devices), 0)
        if not source or source == index or self._described.get(source) is not devices:
            return False
        if (self._accelerators.get(index) or NodeAccelerators()) != (self._accelerators.get(source) or NodeAccelerators()):
            return False
        for type in range(TYPES):
            if self._is_held(index, type) or size_of(self.masks[source * TYPES + type].listed) != self.node[source].cells[type].count:
                return False
        self._described[index] = devices
        memset(&self.sums[index * 2 * RESOURCES], 0, 2 * RESOURCES * sizeof(int64_t))
        self.node[index].numa_ids = self.node[source].numa_ids
        self.node[index].pcies = self.node[source].pcies
        for type in range(TYPES):
            self._copy_cells(index, source, type)
        self._copy_shape(index, source)
        return True

    cdef bint _is_held(self, Py_ssize_t index, int type) noexcept nogil:
        """Answer whether pods hold some device of a type."""
        cdef const Cells* cells = &self.node[index].cells[type]
        cdef Py_ssize_t cell
        for cell in range(cells.start, cells.start + cells.count):
            if self.columns[type].holds[cell] > 0:
                return True
        return False

    cdef int _copy_cells(self, Py_ssize_t index, Py_ssize_t source, int type) except -1:
        """Write the devices of one type as those of another node, and nothing of them held."""
        cdef DeviceColumns* columns = &self.columns[type]
        cdef Cells* cells = &self.node[index].cells[type]
        cdef const Cells* others = &self.node[source].cells[type]
        cdef int64_t* sums = &self.sums[(index * RESOURCES + first_resource(type)) * 2]
        cdef Py_ssize_t at, cell, other, part
        cdef int r
        self._make_room(type, cells, others.count)
        cells.count = others.count
        memset(&self.masks[index * TYPES + type], 0, sizeof(Masks))
        self.masks[index * TYPES + type].listed = self.masks[source * TYPES + type].listed
        for at in range(cells.count):
            cell, other = cells.start + at, others.start + at
            columns.minor[cell] = columns.minor[other]
            columns.holds[cell] = 0
            columns.state[cell] = columns.state[other]
            columns.labels[cell] = columns.labels[other]
            columns.numa[cell] = columns.numa[other]
            columns.pcie[cell] = columns.pcie[other]
            for r in range(resources_of(type)):
                part = r * columns.capacity
                columns.total[part + cell] = columns.total[part + other]
                columns.used[part + cell] = columns.free[part + cell] = 0
                sums[2 * r] += columns.total[part + cell]
            self.settle(index, type, cell)
        return 0

    cdef int _copy_shape(self, Py_ssize_t index, Py_ssize_t source) except -1:
        """Let an index have the scopes, partitions, switches and virtual functions of another one, and nothing of these held."""
        cdef NodeShape* shape = &self.shape[index]
        cdef const NodeShape* other = &self.shape[source]
        cdef uint32_t free_bits = HAS_FREE << GPU | HAS_FREE << RDMA | HAS_FREE << FPGA
        cdef int type, v
        cdef int32_t vfs, count
        self._forget_shape(index)
        self.node[index].flags = (self.node[index].flags & free_bits) | (self.node[source].flags & ~free_bits)
        layouts = self._layouts_of.get(source)
        if layouts is not None:
            self._layouts_of[index] = list(layouts)
            for content in layouts:
                self._layouts[content][1] += 1
        shape.scopes, shape.partitions, shape.switches = other.scopes, other.partitions, other.switches
        shape.scope_count, shape.partition_count = other.scope_count, other.partition_count
        for type in range(TYPES):
            if other.vf_start[type] == NULL:
                continue
            count = self.node[source].cells[type].count
            vfs = other.vf_start[type][count]
            shape.vf_start[type] = <int32_t*> calloc(count + 1, sizeof(int32_t))
            shape.vfs[type] = <VirtualFunction*> calloc(vfs + 1, sizeof(VirtualFunction))
            if shape.vf_start[type] == NULL or shape.vfs[type] == NULL:
                raise MemoryError
            memcpy(shape.vf_start[type], other.vf_start[type], (count + 1) * sizeof(int32_t))
            memcpy(shape.vfs[type], other.vfs[type], vfs * sizeof(VirtualFunction))
            for v in range(vfs):
                shape.vfs[type][v].used = 0
        return 0

    # What changes with a pod

    def add(self, Py_ssize_t index, held not None):
        self._change(index, held, 1)

    def remove(self, Py_ssize_t index, held not None):
        self._change(index, held, -1)

    cdef int _change(self, Py_ssize_t index, held, int sign) except -1:
        cdef Py_ssize_t cell
        cdef int type, r
        cdef int64_t minor
        cdef DeviceColumns* columns
        cdef bint anew = False
        self.check(index)
        for item in held:
            type, minor, amounts, vfs = item
            if not 0 <= type < TYPES or not 0 <= minor < LARGEST_MINOR:
                raise ValueError(f"device {minor} of type {type}: there is no such")
            cell = self.find(index, type, minor)
            if cell < 0 and sign > 0:
                cell = self._admit(index, type, minor)
            if cell < 0:
                raise ValueError(f"device {minor} of {DEVICE_TYPE_NAMES[type]}: nothing of it is held")
            columns = &self.columns[type]
            for resource, amount in amounts.items():
                r = resource - first_resource(type)
                if 0 <= r < resources_of(type):
                    columns.used[r * columns.capacity + cell] += sign * cut_amount(amount)
                    columns.counted |= <uint8_t> (1 << r)
            columns.holds[cell] += sign
            if vfs:
                self.hold_vfs(index, type, minor, vfs, sign)
            self.settle(index, type, cell)
            anew = anew or (columns.holds[cell] <= 0 and not columns.state[cell] & IS_LISTED)
        if anew:
            self.rebuild(index)
        return 0

    cdef int hold_vfs(self, Py_ssize_t index, int type, int64_t minor, vfs, int sign) except -1:
        counts = self._vfs_held.setdefault((index, type, minor), {})
        for bus in vfs:
            counts[bus] = counts.get(bus, 0) + sign
            if counts[bus] <= 0:
                del counts[bus]
        if not counts:
            del self._vfs_held[index, type, minor]
        return self._mark_vfs(index, type, self.find(index, type, minor))

    def set_holders(self, Py_ssize_t index, int32_t pods):
        self.check(index)
        self.node[index].holders = pods

    def holding(self, cnp.ndarray rows not None):
        cdef Rows asked = rows_of(rows)
        cdef cnp.ndarray found = zero_flags(asked)
        cdef uint8_t* out = flags_in(found)
        cdef Py_ssize_t i
        for i in range(asked.count):
            out[i] = self.node[index_of(self, asked.at[i])].holders > 0
        return found

    cdef int _mark_vfs(self, Py_ssize_t index, int type, Py_ssize_t cell) except -1:
        """Write into the virtual functions of a device how many pods hold each."""
        cdef NodeShape* shape = &self.shape[index]
        cdef int at = <int> (cell - self.node[index].cells[type].start)
        cdef int v
        if shape.vf_start[type] == NULL:
            return 0
        counts = self._vfs_held.get((index, type, self.columns[type].minor[cell]), {})
        for v in range(shape.vf_start[type][at], shape.vf_start[type][at + 1]):
            shape.vfs[type][v].used = counts.get(self.bus_names[shape.vfs[type][v].bus], 0)
        return 0

    # Layout

    cdef int rebuild(self, Py_ssize_t index) except -1:
        """Give the node cells for what is listed and what is held."""
        self._lay_out(index, self._held_cells(index))
        return 0

    def _held_cells(self, Py_ssize_t index):
        """Return type -> minor -> (pods, amounts used) of the devices that pods hold something of."""
        cdef int type, r
        cdef Py_ssize_t cell
        cdef DeviceColumns* columns
        found = {}
        for type in range(TYPES):
            columns = &self.columns[type]
            cells = {}
            for cell in range(self.node[index].cells[type].start, self.node[index].cells[type].start + self.node[index].cells[type].count):
                if columns.holds[cell] > 0:
                    cells[columns.minor[cell]] = (
                        columns.holds[cell], [columns.used[r * columns.capacity + cell] for r in range(resources_of(type))]
                    )
            found[type] = cells
        return found

    def _held_minors(self, Py_ssize_t index, int type):
        return self._held_cells(index)[type].keys()

    cdef Py_ssize_t _admit(self, Py_ssize_t index, int type, int64_t minor) except -2:
        """Return a new cell for a device that is not listed."""
        held = self._held_cells(index)
        if self.node[index].cells[type].count >= LARGEST_GROUP:
            raise ValueError(f"device {minor} of {DEVICE_TYPE_NAMES[type]}: more than {LARGEST_GROUP} cannot be counted")
        held[type][minor] = (0, [0] * resources_of(type))
        self._lay_out(index, held)
        return self.find(index, type, minor)

    def _lay_out(self, Py_ssize_t index, held):
        cdef int type, r, count
        cdef Py_ssize_t cell
        cdef DeviceNode* node = &self.node[index]
        cdef DeviceColumns* columns
        cdef int64_t* sums = &self.sums[index * 2 * RESOURCES]
        described = self._described.get(index)
        pcies = self._pcies(described)
        memset(sums, 0, 2 * RESOURCES * sizeof(int64_t))
        node.numa_ids = 0 if described is None else described.numa_ids
        node.pcies = <int32_t> len(pcies)
        for type in range(TYPES):
            listed = {} if described is None else {device.minor: device for device in described.devices.get(type, ())}
            minors = sorted({*listed, *held[type]})
            count = len(minors)
            self._make_room(type, &node.cells[type], count)
            node.cells[type].count = count
            columns = &self.columns[type]
            memset(&self.masks[index * TYPES + type], 0, sizeof(Masks))
            for cell, minor in enumerate(minors, node.cells[type].start):
                device = listed.get(minor)
                holds, used = held[type].get(minor, (0, [0] * GPU_RESOURCES))
                columns.minor[cell] = minor
                columns.holds[cell] = holds
                columns.state[cell] = 0 if device is None else IS_LISTED | (IS_HEALTHY if device.healthy else 0)
                columns.labels[cell] = 0 if device is None else self._label_id(device.labels)
                columns.numa[cell] = NO_TOPOLOGY if device is None or device.numa is None else device.numa
                columns.pcie[cell] = NO_PCIE if columns.numa[cell] == NO_TOPOLOGY else pcies[device.pcie]
                if columns.numa[cell] >= 0:
                    node.numa_ids |= (<uint64_t> 1) << columns.numa[cell]
                for r in range(resources_of(type)):
                    columns.used[r * columns.capacity + cell] = used[r]
                    columns.total[r * columns.capacity + cell] = 0
                    columns.free[r * columns.capacity + cell] = 0
                if device is not None:
                    self.masks[index * TYPES + type].listed |= position(<int> (cell - node.cells[type].start))
                    self._write_totals(&sums[2 * first_resource(type)], type, cell, device)
                self.settle(index, type, cell)
        self._shape(index)

    cdef int _write_totals(self, int64_t* sums, int type, Py_ssize_t cell, device) except -1:
        cdef int r, first = first_resource(type)
        cdef DeviceColumns* columns = &self.columns[type]
        if not device.healthy:
            return 0
        for resource, amount in device.totals.items():
            r = resource - first
            if 0 <= r < resources_of(type):
                columns.total[r * columns.capacity + cell] = cut_amount(amount)
                columns.counted |= <uint8_t> (1 << r)
                sums[2 * r] += cut_amount(amount)
        return 0

    cdef void use(self, int type, Py_ssize_t cell, const int64_t* amounts, int sign) noexcept nogil:
        cdef DeviceColumns* columns = &self.columns[type]
        cdef int r
        for r in range(resources_of(type)):
            if amounts[r]:
                columns.used[r * columns.capacity + cell] += sign * amounts[r]
                columns.counted |= <uint8_t> (1 << r)

    cdef void settle(self, Py_ssize_t index, int type, Py_ssize_t cell) noexcept nogil:
        cdef DeviceColumns* columns = &self.columns[type]
        cdef Masks* masks = &self.masks[index * TYPES + type]
        cdef int64_t* sums = &self.sums[(index * RESOURCES + first_resource(type)) * 2]
        cdef Positions bit = position(<int> (cell - self.node[index].cells[type].start))
        cdef int r
        cdef int64_t total, used, left
        cdef bint healthy = False, held = False, busy = False, available = False
        for r in range(resources_of(type)):
            if not columns.counted >> r & 1:
                continue  # nothing to read, of several arrays that are in no cache when a thousand nodes are gone through
            total = columns.total[r * columns.capacity + cell]
            used = columns.used[r * columns.capacity + cell]
            left = total - (used if used > 0 else 0)
            if left < 0:
                left = 0
            if columns.state[cell] & IS_LISTED:
                sums[2 * r + 1] += left - columns.free[r * columns.capacity + cell]
            columns.free[r * columns.capacity + cell] = left
            healthy |= total > 0
            held |= used > 0
            busy |= left < total
            available |= left > 0
        left = columns.free[cell]
        if type == GPU and columns.free[RATIO * columns.capacity + cell] < left:
            left = columns.free[RATIO * columns.capacity + cell]
        columns.share[cell] = <uint8_t> (left if left < LARGEST_SHARE else LARGEST_SHARE)
        masks.healthy = masks.healthy | bit if healthy else masks.healthy & ~bit
        masks.held = masks.held | bit if held else masks.held & ~bit
        masks.busy = masks.busy | bit if busy else masks.busy & ~bit
        masks.available = masks.available | bit if available else masks.available & ~bit
        if masks.available:
            self.node[index].flags |= <uint32_t> HAS_FREE << type
        else:
            self.node[index].flags &= ~(<uint32_t> HAS_FREE << type)

    @staticmethod
    def _pcies(described):
        """Return the place of each PCIe id of a node among all of them, as strings."""
        if described is None:
            return {}
        found = {device.pcie for listed in described.devices.values() for device in listed if device.numa is not None}
        return {pcie: place for place, pcie in enumerate(sorted(found))}

    # What follows from the Device object: scopes, partitions, virtual functions

    cdef int _shape(self, Py_ssize_t index) except -1:
        cdef DeviceNode* node = &self.node[index]
        cdef int type
        described = self._described.get(index)
        accelerators = self._accelerators.get(index) or NodeAccelerators()
        self._forget_shape(index)
        node.flags &= HAS_FREE << GPU | HAS_FREE << RDMA | HAS_FREE << FPGA
        if described is not None:
            node.flags |= HAS_ENTRY | IS_DESCRIBED | (IS_WELL_PLANNED if described.well_planned else 0)
        partitions = None if described is None else described.partitions
        honor = described is not None and described.honor
        if partitions is None:
            honor = accelerators.honor
            if accelerators.vendor in ("", "nvidia") and accelerators.model in ("H100", "H800", "H20"):
                partitions = EIGHT_LINKED
        node.flags |= HONORS_PARTITIONS if honor else 0
        if partitions is not None:
            node.flags |= HAS_PARTITIONS
            self._write_partitions(index, partitions)
        self._write_scopes(index)
        self._write_switches(index)
        if self._has_percent_gpus(index):
            node.flags |= HAS_PERCENT_GPUS
        for type in range(TYPES):
            if node.cells[type].count:
                node.flags |= HAS_ENTRY
            if described is not None:
                self._write_vfs(index, type, {device.minor: device for device in described.devices.get(type, ())})
        return 0

    def _write_partitions(self, Py_ssize_t index, partitions):
        cdef Partition* all_written
        cdef Partition* written
        cdef Py_ssize_t cell
        listed = [(count, partition) for count, of_count in partitions.items() for partition in of_count]
        listed.sort(key=lambda item: (item[0], item[1].score))
        if not listed:
            return
        all_written = <Partition*> calloc(len(listed), sizeof(Partition))
        if all_written == NULL:
            raise MemoryError
        for place, (count, partition) in enumerate(listed):
            written = &all_written[<Py_ssize_t> place]
            written.count = max(-1, min(count, LARGEST_MINOR - 1))
            written.score = max(-LARGEST_AMOUNT, min(partition.score, LARGEST_AMOUNT))
            written.bandwidth = NO_BANDWIDTH if partition.bandwidth is None else max(0, min(partition.bandwidth, MAX_INT64))
            written.complete = len(set(partition.minors)) == len(partition.minors) == count
            for minor in partition.minors:
                cell = self.find(index, GPU, minor) if 0 <= minor < LARGEST_MINOR else -1
                if cell < 0:
                    written.complete = False
                else:
                    written.devices |= position(<int> (cell - self.node[index].cells[GPU].start))
        self.shape[index].partition_count = len(listed)
        self.shape[index].partitions = <const Partition*> self._share(index, <char*> all_written, len(listed) * sizeof(Partition))

    def _write_scopes(self, Py_ssize_t index):
        """Write the tree of NUMA nodes and PCIe switches, if the place of every listed GPU is known (deviceshare.md §6.3.3)."""
        cdef DeviceNode* node = &self.node[index]
        cdef DeviceColumns* columns = &self.columns[GPU]
        cdef Py_ssize_t cell
        cdef Scope* scopes
        cdef Scope* scope
        cdef int numa_place = 0
        places = []
        for cell in range(node.cells[GPU].start, node.cells[GPU].start + node.cells[GPU].count):
            if columns.state[cell] & IS_LISTED:
                if columns.numa[cell] == NO_TOPOLOGY:
                    return
                places.append((columns.numa[cell], columns.pcie[cell], cell - node.cells[GPU].start))
        if not places:
            return
        node.flags |= HAS_TREE
        switches = {}
        for numa, pcie, at in sorted(places):
            switches.setdefault(numa, {}).setdefault(pcie, []).append(at)
        count = len(switches) + sum([len(of_numa) for of_numa in switches.values()])
        scopes = <Scope*> calloc(count, sizeof(Scope))
        if scopes == NULL:
            raise MemoryError
        for of_numa in switches.values():
            scope = &scopes[numa_place]
            scope.level = 2
            scope.next = numa_place + 1 + len(of_numa)
            for place, devices in enumerate(of_numa.values(), numa_place + 1):
                scopes[<int> place].level = 3
                scopes[<int> place].next = place + 1
                scopes[<int> place].size = len(devices)
                for at in devices:
                    scopes[<int> place].devices |= position(at)
                    scope.devices |= position(at)
                scope.size += len(devices)
            numa_place = scope.next
        self.shape[index].scope_count = count
        self.shape[index].scopes = <const Scope*> self._share(index, <char*> scopes, count * sizeof(Scope))

    def _write_switches(self, Py_ssize_t index):
        """Write which devices are on each PCIe switch."""
        cdef DeviceNode* node = &self.node[index]
        cdef Positions* switches
        cdef int type, at
        cdef int16_t pcie
        if not node.pcies:
            return
        switches = <Positions*> calloc(node.pcies * TYPES, sizeof(Positions))
        if switches == NULL:
            raise MemoryError
        for type in range(TYPES):
            for at in range(node.cells[type].count):
                pcie = self.columns[type].pcie[node.cells[type].start + at]
                if pcie >= 0:
                    switches[pcie * TYPES + type] |= position(at)
        self.shape[index].switches = <const Positions*> self._share(index, <char*> switches, node.pcies * TYPES * sizeof(Positions))

    cdef bint _has_percent_gpus(self, Py_ssize_t index) noexcept:
        cdef const DeviceColumns* columns = &self.columns[GPU]
        cdef const Cells* cells = &self.node[index].cells[GPU]
        cdef Py_ssize_t cell
        for cell in range(cells.start, cells.start + cells.count):
            if self.masks[index * TYPES + GPU].healthy >> (cell - cells.start) & 1 and (
                columns.total[CORE * columns.capacity + cell] != WHOLE_GPU or columns.total[RATIO * columns.capacity + cell] != WHOLE_GPU
            ):
                return False
        return True

    def _write_vfs(self, Py_ssize_t index, int type, listed):
        cdef NodeShape* shape = &self.shape[index]
        cdef Cells* cells = &self.node[index].cells[type]
        cdef int at, v = 0
        if not any([device.vf_groups for device in listed.values()]):
            return
        self.node[index].flags |= HAS_VFS << type
        of_device = []
        for at in range(cells.count):
            device = listed.get(self.columns[type].minor[cells.start + at])
            groups = () if device is None else device.vf_groups
            labelled = [(self._label_id(group.labels), group.vfs) for group in groups]
            of_device.append(sorted([(bus, labels, minor) for labels, vfs in labelled for bus, minor in vfs]))
        shape.vf_start[type] = <int32_t*> calloc(cells.count + 1, sizeof(int32_t))
        shape.vfs[type] = <VirtualFunction*> calloc(sum([len(vfs) for vfs in of_device]) + 1, sizeof(VirtualFunction))
        if shape.vf_start[type] == NULL or shape.vfs[type] == NULL:
            raise MemoryError
        for at in range(cells.count):
            for bus, labels, minor in of_device[at]:
                shape.vfs[type][v].bus = self._bus_id(bus)
                shape.vfs[type][v].labels = labels
                shape.vfs[type][v].minor = minor
                v += 1
            shape.vf_start[type][at + 1] = v
            self._mark_vfs(index, type, cells.start + at)

    cdef const void* _share(self, Py_ssize_t index, char* written, Py_ssize_t size) except NULL:
        """Return the memory that all nodes with this content share, and free that in which it was written."""
        content = written[:size]
        free(written)
        shared = self._layouts.setdefault(content, [content, 0])
        shared[1] += 1
        self._layouts_of.setdefault(index, []).append(shared[0])
        return <const char*> shared[0]

    cdef int _forget_shape(self, Py_ssize_t index) except -1:
        for content in self._layouts_of.pop(index, ()):
            shared = self._layouts[content]
            shared[1] -= 1
            if not shared[1]:
                del self._layouts[content]
        _free_shape(&self.shape[index])
        return 0

    # Ids

    def _label_id(self, labels):
        key = frozenset(labels.items())
        found = self._label_ids.get(key)
        if found is None:
            found = self._label_ids[key] = len(self.label_sets)
            self.label_sets.append(dict(labels))
        return found

    def _model_id(self, vendor, model):
        found = self._model_ids.get((vendor, model))
        if found is None:
            found = self._model_ids[vendor, model] = len(self.models)
            self.models.append((vendor, model))
        return found

    def _bus_id(self, bus):
        found = self.bus_ids.get(bus)
        if found is None:
            found = self.bus_ids[bus] = len(self.bus_names)
            self.bus_names.append(bus)
        return found

    # To look at

    def has_entry(self, Py_ssize_t index):
        self.check(index)
        return self.node[index].flags & HAS_ENTRY != 0

    def model(self, Py_ssize_t model):
        return self.models[model]

    def summary(self, Py_ssize_t index):
        cdef int type
        cdef Py_ssize_t cell
        self.check(index)
        found = []
        for type in range(TYPES):
            for cell in range(self.node[index].cells[type].start, self.node[index].cells[type].start + self.node[index].cells[type].count):
                minor = self.columns[type].minor[cell]
                found.append(DeviceCell(
                    DeviceType(type), minor,
                    bool(self.columns[type].state[cell] & IS_LISTED), bool(self.columns[type].state[cell] & IS_HEALTHY),
                    self._amounts(type, self.columns[type].total, cell), self._amounts(type, self.columns[type].used, cell),
                    self._amounts(type, self.columns[type].free, cell),
                    tuple(sorted(self._vfs_held.get((index, type, minor), ()))),
                ))
        return tuple(found)

    def census(self):
        cdef int type
        cdef Py_ssize_t index, untouched, shared, full, unhealthy
        cdef const Masks* masks
        found = []
        for type in range(TYPES):
            untouched = shared = full = unhealthy = 0
            for index in range(1, self.capacity):
                masks = &self.masks[index * TYPES + type]
                untouched += size_of(masks.healthy & ~masks.busy)
                shared += size_of(masks.healthy & masks.busy & masks.available)
                full += size_of(masks.healthy & ~masks.available)
                unhealthy += size_of(masks.listed & ~masks.healthy)
            found.append(DeviceCensus(DeviceType(type), untouched, shared, full, unhealthy))
        return tuple(found)

    cdef _amounts(self, int type, const int64_t* column, Py_ssize_t cell):
        """Return what is not 0."""
        cdef int r
        found = {}
        for r in range(resources_of(type)):
            if column[r * self.columns[type].capacity + cell]:
                found[DeviceResource(first_resource(type) + r)] = column[r * self.columns[type].capacity + cell]
        return found

    def damage(self, Py_ssize_t index, int device_type, int64_t minor, int resource, int64_t by):
        self.check(index)
        cdef Py_ssize_t cell = self.find(index, device_type, minor)
        cdef DeviceColumns* columns = &self.columns[device_type]
        if cell < 0:
            raise ValueError(f"device {minor} of type {device_type}: there is no such")
        columns.used[(resource - first_resource(device_type)) * columns.capacity + cell] += by
        columns.counted |= <uint8_t> (1 << (resource - first_resource(device_type)))
        self.settle(index, device_type, cell)

    @property
    def nbytes(self):
        cdef int type
        of_cell = 3 * 8 * RESOURCES + 3 * 4 + 2 + 1 + 1 + 1
        found = self.capacity * (sizeof(DeviceNode) + sizeof(NodeShape) + TYPES * sizeof(Masks) + 2 * RESOURCES * sizeof(int64_t))
        return found + sum([self.columns[type].capacity * of_cell for type in range(TYPES)])

    # Room

    cdef int check(self, Py_ssize_t index) except -1:
        if index < 1 or index >= self.capacity:
            raise IndexError(f"index {index}: no node of it was ever set")
        return 0

    cdef Py_ssize_t find(self, Py_ssize_t index, int type, int64_t minor) noexcept nogil:
        cdef const Cells* cells = &self.node[index].cells[type]
        cdef Py_ssize_t cell
        for cell in range(cells.start, cells.start + cells.count):
            if self.columns[type].minor[cell] == minor:
                return cell
        return -1

    cdef int _make_room(self, int type, Cells* cells, int count) except -1:
        """Let a node have at least so many cells of a type; what stood in them is lost if there are too few."""
        if count > cells.room:
            self._release(type, cells)
            self._take(type, cells, count)
        return 0

    cdef int _release(self, int type, Cells* cells) except -1:
        if cells.room:
            self._spare.setdefault((type, cells.room), []).append(cells.start)
        cells.start = cells.count = cells.room = 0
        return 0

    cdef int _take(self, int type, Cells* cells, int count) except -1:
        cdef DeviceColumns* columns = &self.columns[type]
        room = (count + CHUNK - 1) // CHUNK * CHUNK
        spare = self._spare.get((type, room))
        if spare:
            cells.start = spare.pop()
        else:
            if columns.end + room > columns.capacity:
                self._widen(type, max(columns.end + room, columns.capacity * 2, 64))
            cells.start = columns.end
            columns.end += room
        cells.room = room
        return 0

    cdef int _widen(self, int type, Py_ssize_t capacity) except -1:
        """Make room for so many cells of a type."""
        cdef DeviceColumns* columns = &self.columns[type]
        cdef Py_ssize_t before = columns.capacity
        # An odd number of cache lines, so that the resources of a cell do not all compete for the same few places in the cache
        # (bench_deviceshare.py::bench_first_attempt_to_preempt_under_single_numa_node).
        capacity |= CHUNK
        columns.total = <int64_t*> _spread(columns.total, resources_of(type), before, capacity)
        columns.used = <int64_t*> _spread(columns.used, resources_of(type), before, capacity)
        columns.free = <int64_t*> _spread(columns.free, resources_of(type), before, capacity)
        columns.minor = <int32_t*> _longer(columns.minor, before, capacity, sizeof(int32_t))
        columns.labels = <int32_t*> _longer(columns.labels, before, capacity, sizeof(int32_t))
        columns.holds = <int32_t*> _longer(columns.holds, before, capacity, sizeof(int32_t))
        columns.pcie = <int16_t*> _longer(columns.pcie, before, capacity, sizeof(int16_t))
        columns.numa = <int8_t*> _longer(columns.numa, before, capacity, sizeof(int8_t))
        columns.state = <uint8_t*> _longer(columns.state, before, capacity, sizeof(uint8_t))
        columns.share = <uint8_t*> _longer(columns.share, before, capacity, sizeof(uint8_t))
        columns.capacity = capacity
        return 0

    def _lengthen(self, Py_ssize_t count):
        """Make room for indexes below count."""
        capacity = max(count, self.capacity + self.capacity // 2)
        self.node = <DeviceNode*> _longer(self.node, self.capacity, capacity, sizeof(DeviceNode))
        self.shape = <NodeShape*> _longer(self.shape, self.capacity, capacity, sizeof(NodeShape))
        self.masks = <Masks*> _longer(self.masks, self.capacity, capacity, TYPES * sizeof(Masks))
        self.sums = <int64_t*> _longer(self.sums, self.capacity, capacity, 2 * RESOURCES * sizeof(int64_t))
        self.capacity = capacity


cdef int64_t MAX_INT64 = 0x7fffffffffffffff


cdef int64_t cut_amount(object amount) except? -1:
    return max(0, min(amount, LARGEST_AMOUNT))


cdef void* _longer(void* old, Py_ssize_t before, Py_ssize_t capacity, size_t size) except NULL:
    """Return the memory with zeros behind what it held."""
    cdef char* made = <char*> realloc(old, capacity * size)
    if made == NULL:
        raise MemoryError
    memset(made + before * size, 0, (capacity - before) * size)
    return made


cdef int64_t* _spread(int64_t* old, int parts, Py_ssize_t before, Py_ssize_t capacity) except NULL:
    """Return a column of several parts with more room in each: eight cells from a multiple of CHUNK on are a cache line."""
    cdef size_t size = parts * capacity * sizeof(int64_t)
    cdef int64_t* made = <int64_t*> aligned_alloc(CHUNK * sizeof(int64_t), size)
    cdef Py_ssize_t part, at
    if made == NULL:
        raise MemoryError
    memset(made, 0, size)
    for part in range(parts):
        for at in range(before):
            made[part * capacity + at] = old[part * before + at]
    free(old)
    return made


cdef void _free_shape(NodeShape* shape) noexcept:
    cdef int type
    for type in range(TYPES):
        free(shape.vfs[type])
        free(shape.vf_start[type])
    memset(shape, 0, sizeof(NodeShape))
