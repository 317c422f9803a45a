"""The available CPUs of a machine: by core, NUMA node and socket, and in lists from which CPUs are taken in the lists' order.

nodenumaresource.md §7, the lists. The accumulator decides from which list CPUs are taken (cpu_accumulator.pyx).
"""

import numpy as np

from libc.string cimport memset

from koordsched._core.cpuset cimport drop, has, lowest, put

cdef enum:
    FEW = 12  # items that are sorted faster one by one than by passes over bytes


cdef class CpuHolders:

    def __cinit__(self, CpuTopology topology, list holders, int policy, exclusive):
        self.topology = topology
        self.holders = holders
        self.policy = <Exclusive> policy
        self.exclusive = exclusive


cdef class CpuAvailability:

    def __init__(self):
        self.refs_of = np.zeros(MAX_CPUS, np.int32)
        self.refs_of_core = np.zeros(MAX_CPUS, np.int32)
        self.free_of = np.zeros(MAX_CPUS, np.int32)
        self.active = np.zeros(MAX_CPUS, np.int32)
        self.taken_in = np.zeros(MAX_CPUS, np.int32)
        self.shunned_core = np.zeros(MAX_CPUS, np.uint8)
        self.room_in_node = np.zeros(MAX_NODES, np.int32)
        self.room_in_socket = np.zeros(MAX_CPUS, np.int32)
        self.length_in_node = np.zeros(MAX_NODES, np.int32)
        self.length_in_socket = np.zeros(MAX_CPUS, np.int32)
        self.head_socket = np.zeros(MAX_NODES, np.int32)
        self.items = np.zeros(MAX_CPUS, np.int32)
        self.groups = np.zeros(MAX_CPUS, np.int32)
        self.spare = np.zeros(MAX_CPUS, np.int32)
        self.key = np.zeros(MAX_CPUS, np.uint32)

    # What is there

    cdef int begin(self, CpuHolders others, available) except -1:
        # Start anew: CPUs are taken from `available`, while `others` hold CPUs of the machine.
        self.topology = others.topology
        self.exclusive = others.policy
        self.topology.read(available, self.available)
        memset(self.taken, 0, sizeof(self.taken))
        self.any_exclusive = others.policy != SHARING and others.exclusive
        if self.any_exclusive:
            self.topology.read(others.exclusive, self.exclusive_cpus)
        self.is_shared = others.holders is not None
        if self.is_shared:
            self._count_holders(others.holders)
        return 0

    cdef void look(self, int32_t count) noexcept:
        # Count anew what is available, of which `count` CPUs are to be taken; CPUs that were taken since `begin` stay taken.
        self.needed = count
        zero(self.taken_in, self.topology.num_sockets)
        self._count_cores()
        self._shun()

    cdef int _count_holders(self, list layers) except -1:
        cdef uint64_t[MAX_WORDS] layer
        cdef int32_t cpu
        zero(self.refs_of, self.topology.limit)
        for cpus in layers:
            self.topology.read(cpus, layer)
            for cpu in range(self.topology.limit):
                self.refs_of[cpu] += has(layer, cpu)
        return 0

    cdef void _count_cores(self) noexcept:
        # Fill free_of and refs_of_core, and list the cores that have available CPUs, ascending: often they are those of one NUMA node.
        cdef CpuTopology topology = self.topology
        cdef uint64_t[MAX_WORDS] is_active
        cdef uint64_t left
        cdef int32_t cpu, core
        cdef Py_ssize_t word
        memset(is_active, 0, sizeof(is_active))
        zero(self.free_of, topology.num_cores)
        zero(self.refs_of_core, topology.num_cores)
        for word in range(topology.words):
            left = self.available[word]
            while left:
                cpu = <int32_t> (word * 64) + lowest(left)
                left &= left - 1
                core = topology.core_of[cpu]
                put(is_active, core)
                self.free_of[core] += 1
                if self.is_shared:
                    self.refs_of_core[core] += self.refs_of[cpu]
        self.actives = 0
        for word in range((topology.num_cores + 63) // 64):
            left = is_active[word]
            while left:
                self.active[self.actives] = <int32_t> (word * 64) + lowest(left)
                self.actives += 1
                left &= left - 1

    cdef void _shun(self) noexcept:
        cdef int32_t i, core
        self.shunned_nodes = 0
        if self.exclusive == SHARING:
            return
        memset(&self.shunned_core[0], 0, self.topology.num_cores)
        if not self.any_exclusive:
            return
        for core in range(self.topology.num_cores):
            for i in range(self.topology.first[core], self.topology.first[core + 1]):
                if has(self.exclusive_cpus, self.topology.cpu[i]):
                    self._shun_core(core)

    cdef void _shun_core(self, int32_t core) noexcept:
        if self.exclusive == PCPU_LEVEL:
            self.shunned_core[core] = 1
        elif self.exclusive == NUMA_NODE_LEVEL:
            self.shunned_nodes |= <uint64_t> 1 << self.topology.node_of[core]

    cdef void take_cpu(self, int32_t cpu) noexcept:
        cdef int32_t core = self.topology.core_of[cpu]
        drop(self.available, cpu)
        put(self.taken, cpu)
        self.needed -= 1
        self.free_of[core] -= 1
        self.taken_in[self.topology.socket_of[core]] += 1
        if self.is_shared:
            self.refs_of_core[core] -= self.refs_of[cpu]
        if self.exclusive:
            self._shun_core(core)

    # Groups

    cdef void survey(self, bint shunning, Length length) noexcept:
        # Fill room_in_*, length_in_* and head_socket of all groups, leaving out shunned CPUs if so asked.
        cdef CpuTopology topology = self.topology
        cdef int32_t i, core, node, socket, free, listed
        zero(self.room_in_node, topology.nodes)
        zero(self.length_in_node, topology.nodes)
        zero(self.room_in_socket, topology.num_sockets)
        zero(self.length_in_socket, topology.num_sockets)
        for i in range(self.actives):
            core = self.active[i]
            free = self.free_of[core]
            if not free or (shunning and self.is_shunned(core)):
                continue
            node = topology.node_of[core]
            socket = topology.socket_of[core]
            listed = free
            if length == ONE_OF_CORE:
                listed = 1
            elif length == WHOLE and not self.is_full(core):
                listed = 0
            self.room_in_node[node] += free
            self.room_in_socket[socket] += free
            self.length_in_node[node] += listed
            self.length_in_socket[socket] += listed
            self.head_socket[node] = socket

    cdef void find_heads(self, bint shunning, Length length) noexcept:
        # A node that spans sockets counts as one of the socket of the first CPU in its list.
        cdef CpuTopology topology = self.topology
        cdef int32_t node
        for node in range(topology.nodes):
            if length == WHOLE:
                if self.list_full_cores(topology.node_of, node):
                    self.head_socket[node] = topology.socket_of[self.items[0]]
            elif self.list_threads(topology.node_of, node, shunning):
                self.head_socket[node] = topology.socket_of[topology.core_of[self.items[0]]]

    cdef int64_t by_strategy(self, int32_t room) noexcept:
        return room if self.strategy == MOST else MAX_CPUS - room

    # Lists

    cdef int32_t list_full_cores(self, const int32_t[::1] group_of, int32_t group) noexcept:
        # Put the full cores of a group into `items`: those with more threads first, then those with few holders; return how many.
        cdef CpuTopology topology = self.topology
        cdef int32_t core, i, count = 0
        for i in range(self.actives):
            core = self.active[i]
            if (group == NO_GROUP or group_of[core] == group) and self.is_full(core):
                self.items[count] = core
                count += 1
        if self.is_shared:
            self.key_cores_by_holders(count)
            self.sort(self.items, count)
        if topology.is_uneven:
            for i in range(count):
                self.key[self.items[i]] = MAX_CPUS - self.free_of[self.items[i]]
            self.sort(self.items, count)
        return count

    cdef void key_cores_by_holders(self, int32_t count) noexcept:
        cdef int32_t i
        for i in range(count):
            self.key[self.items[i]] = self.refs_of_core[self.items[i]]

    cdef int32_t list_threads(self, const int32_t[::1] group_of, int32_t group, bint shunning) noexcept:
        # Put the available CPUs of a group, or of all, into `items`, those with few holders first, then by id; return how many.
        cdef CpuTopology topology = self.topology
        cdef int32_t cpu, core, count = 0
        cdef Py_ssize_t word
        cdef uint64_t left
        for word in range(topology.words):
            left = self.available[word]
            while left:
                cpu = <int32_t> (word * 64) + lowest(left)
                left &= left - 1
                core = topology.core_of[cpu]
                if (group == NO_GROUP or group_of[core] == group) and not (shunning and self.is_shunned(core)):
                    self.items[count] = cpu
                    count += 1
        if self.is_shared:
            for cpu in range(topology.limit):
                self.key[cpu] = self.refs_of[cpu]
            self.sort(self.items, count)
        return count

    # Sorting

    cdef void sort(self, int32_t[::1] items, int32_t count) noexcept:
        # Sort items[0:count] by their keys, ascending, keeping the order of equal ones.
        cdef uint32_t differing = 0
        cdef int32_t i
        cdef int shift
        if count <= FEW:
            self._insert(items, count)
            return
        for i in range(1, count):
            differing |= self.key[items[i]] ^ self.key[items[0]]
        for shift in range(0, 32, 8):
            if (differing >> shift) & 255:
                self._sort_by_byte(items, count, shift)

    cdef void _insert(self, int32_t[::1] items, int32_t count) noexcept:
        cdef int32_t i, j, item
        for i in range(1, count):
            item = items[i]
            j = i
            while j and self.key[items[j - 1]] > self.key[item]:
                items[j] = items[j - 1]
                j -= 1
            items[j] = item

    cdef void _sort_by_byte(self, int32_t[::1] items, int32_t count, int shift) noexcept:
        cdef int32_t[257] start
        cdef int32_t i, digit
        memset(start, 0, sizeof(start))
        for i in range(count):
            start[((self.key[items[i]] >> shift) & 255) + 1] += 1
        for digit in range(256):
            start[digit + 1] += start[digit]
        for i in range(count):
            self.spare[i] = items[i]
        for i in range(count):
            digit = (self.key[self.spare[i]] >> shift) & 255
            items[start[digit]] = self.spare[i]
            start[digit] += 1


cdef void zero(int32_t[::1] numbers, Py_ssize_t count) noexcept:
    memset(&numbers[0], 0, count * sizeof(int32_t))
