"""Which of the available CPUs a request takes: step A whole cores, step B threads of one node or socket, step C whatever is left.

nodenumaresource.md §7, with D7 (never one CPU too many) and D19 (cores of different numbers of online threads: a core that fits is taken
whole, and one is split only where none fits). A request for no more CPUs than are available always gets them.
"""

import numpy as np

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from koordsched._core.cpu_availability cimport (
    ALL,
    DISTRIBUTE_EVENLY,
    LEAST,
    NO_GROUP,
    NUMA_NODE_LEVEL,
    ONE_OF_CORE,
    PCPU_LEVEL,
    SHARING,
    WHOLE,
    Length,
    Strategy,
    zero,
)
from koordsched._core.cpuset cimport MAX_CPUS, MAX_NODES, CpuTopology


cdef class CpuRequest:

    def __init__(self, int count, int bind=UNBOUND, *, bint required=False, int exclusive=SHARING, int strategy=LEAST):
        if count < 0 or not 0 <= bind <= <int> SPREAD_BY_PCPUS:
            raise ValueError(f"{count} CPUs with bind policy {bind}: expected a count >= 0 and a CpuBindPolicy")
        if not (0 <= exclusive <= <int> NUMA_NODE_LEVEL and 0 <= strategy <= <int> DISTRIBUTE_EVENLY):
            raise ValueError(f"exclusive policy {exclusive}, strategy {strategy}: expected a CpuExclusivePolicy and an AllocateStrategy")
        self.count = count
        self.bind = bind
        self.required = required
        self.exclusive = exclusive
        self.strategy = strategy


@cython.final
cdef class Accumulator(CpuAvailability):

    def __init__(self):
        CpuAvailability.__init__(self)
        self.node_order = np.zeros(MAX_NODES, np.int32)
        self.position = np.zeros(MAX_CPUS, np.int32)
        self.rank_of_node = np.zeros(MAX_NODES, np.int32)
        self.rank_of_socket = np.zeros(MAX_CPUS, np.int32)

    cdef object take(self, CpuHolders others, available, CpuRequest request, int count):
        # Return `count` of the available CPUs, of which there must be as many.
        self.begin(others, available)
        self.strategy = <Strategy> request.strategy
        if self.strategy == DISTRIBUTE_EVENLY:
            self._take_evenly(request.bind, count)
        else:
            self._take(request.bind, count)
        return self.topology.written(self.taken)

    cdef object take_exact_cores(self, CpuHolders others, available, int count):
        # Return whole cores with `count` CPUs, large ones first; nothing when those that fit do not add up.
        self.begin(others, available)
        self.look(count)
        self._take_cores(self.topology.socket_of, NO_GROUP, False)
        return 0 if self.needed else self.topology.written(self.taken)

    cdef void _take(self, int bind, int32_t count) noexcept:
        self.look(count)
        if bind == FULL_PCPUS or self.topology.cpus_per_core == 1:
            self._take_full_cores()
        if self.needed and bind != FULL_PCPUS:
            self._take_threads()
        if self.needed:
            self._take_anything(True)
        if self.needed:
            self._take_anything(False)

    cdef void _take_evenly(self, int bind, int32_t count) noexcept:
        # Take from one NUMA node after the other, the one with the fewest usable CPUs first: of each an equal share of what is still
        # needed, of the last one all of it (D12). What is missing then is taken from any node.
        cdef CpuTopology topology = self.topology
        cdef int32_t unit = topology.cpus_per_core if bind == FULL_PCPUS else 1
        cdef int32_t i, node, share, left = count
        cdef int32_t nodes = topology.nodes
        cdef int32_t[MAX_NODES] room
        memcpy(self.everything, self.available, topology.words * sizeof(uint64_t))
        self.look(count)
        self.survey(False, WHOLE if bind == FULL_PCPUS else ALL)
        for node in range(nodes):
            room[node] = self.length_in_node[node]
            self.key[node] = room[node]
            self.node_order[node] = node
        self.sort(self.node_order, nodes)
        for i in range(nodes):
            node = self.node_order[i]
            share = min(room[node], left // unit // (nodes - i) * unit if i < nodes - 1 else left)
            if share:
                self._only(&topology.node_words[node, 0])
                self._take(bind, share)
            left -= share
        if left:
            self._only(NULL)
            self._take(bind, left)

    cdef void _only(self, const uint64_t* cpus) noexcept:
        # Make available what is not taken of `everything`; of that only these CPUs, unless they are NULL.
        cdef Py_ssize_t word
        for word in range(self.topology.words):
            self.available[word] = self.everything[word] & ~self.taken[word]
            if cpus is not NULL:
                self.available[word] &= cpus[word]

    # Step A

    cdef void _take_full_cores(self) noexcept:
        cdef int32_t group
        if self.needed <= self.topology.cpus_per_node:
            group = NO_GROUP
            if self.exclusive == NUMA_NODE_LEVEL:
                group = self._choose_node(True, WHOLE)
            if group == NO_GROUP:
                group = self._choose_node(False, WHOLE)
            if group != NO_GROUP:
                self._take_cores(self.topology.node_of, group, True)
                return
        if self.needed <= self.topology.cpus_per_socket:
            group = self._choose_socket(False, WHOLE)
            if group != NO_GROUP:
                self._take_cores(self.topology.socket_of, group, True)
                return
        self._take_full_cores_of_sockets()

    cdef void _take_full_cores_of_sockets(self) noexcept:
        # The fullest list first, whatever the strategy, and whole; then as many cores as fit of the shortest list that is left.
        cdef int32_t i, socket, count = 0, left = 0
        self.survey(False, WHOLE)
        for socket in range(self.topology.num_sockets):
            self.key[socket] = MAX_CPUS - self.length_in_socket[socket]
            self.groups[count] = socket
            count += self.length_in_socket[socket] > 0
        self.sort(self.groups, count)
        for i in range(count):
            socket = self.groups[i]
            if self.length_in_socket[socket] <= self.needed:
                self._take_cores(self.topology.socket_of, socket, False)
            else:
                self.groups[left] = socket
                left += 1
        for i in range(left):
            self.key[self.groups[i]] = self.length_in_socket[self.groups[i]]
        self.sort(self.groups, left)
        for i in range(left):
            if not self.needed:
                return
            self._take_cores(self.topology.socket_of, self.groups[i], False)

    cdef void _take_cores(self, const int32_t[::1] group_of, int32_t group, bint splitting) noexcept:
        # Take full cores of a group as long as they fit. `splitting`: take what is then needed from the first that did not.
        cdef CpuTopology topology = self.topology
        cdef int32_t core, i, j, large = NO_GROUP
        cdef int32_t count = self.list_full_cores(group_of, group)
        for i in range(count):
            if not self.needed:
                return
            core = self.items[i]
            if self.free_of[core] <= self.needed:
                for j in range(topology.first[core], topology.first[core + 1]):
                    self.take_cpu(topology.cpu[j])
            elif large == NO_GROUP:
                large = core
        if splitting and large != NO_GROUP:
            for j in range(topology.first[large], topology.first[large] + self.needed):
                self.take_cpu(topology.cpu[j])

    # Step B

    cdef void _take_threads(self) noexcept:
        cdef CpuTopology topology = self.topology
        cdef int32_t group
        cdef bint spreading, shunning
        if self.needed <= topology.cpus_per_node:
            for spreading in (True, False):
                group = self._choose_node(spreading, ONE_OF_CORE if spreading else ALL)
                if group != NO_GROUP:
                    self._take_spread(self.list_threads(topology.node_of, group, spreading), spreading)
                    return
        if self.needed <= topology.cpus_per_socket:
            for spreading in (True, False):
                shunning = spreading and self.exclusive == PCPU_LEVEL  # exclusive nodes are not shunned here, as in Koordinator
                group = self._choose_socket(shunning, ONE_OF_CORE if spreading else ALL)
                if group != NO_GROUP:
                    self._take_spread(self.list_threads(topology.socket_of, group, shunning), spreading)
                    return

    cdef void _take_spread(self, int32_t count, bint one_of_core) noexcept:
        # Take what is needed from the list in `items`: the first CPU of every core, then, unless one_of_core, the second of every core...
        cdef int32_t i, cpu, core
        cdef bint is_short = count <= self.topology.cpus_per_core
        zero(self.position, self.topology.num_cores)
        for i in range(count):
            core = self.topology.core_of[self.items[i]]
            self.key[self.items[i]] = self.position[core]
            self.position[core] += 1
        if not is_short or one_of_core:
            self.sort(self.items, count)
        for i in range(count):
            cpu = self.items[i]
            if not self.needed or (one_of_core and self.key[cpu]):
                return
            self.take_cpu(cpu)

    # Step C

    cdef void _take_anything(self, bint shunning) noexcept:
        cdef CpuTopology topology = self.topology
        cdef int32_t i, core, cpu, count, start = 0
        cdef int32_t cores = self._list_cores(shunning)
        for i in range(cores):
            core = self.items[i]
            self.position[core] = start
            start += self.free_of[core]
        count = self.list_threads(topology.socket_of, NO_GROUP, shunning)
        for i in range(count):
            cpu = self.items[i]
            core = topology.core_of[cpu]
            self.spare[self.position[core]] = cpu
            self.position[core] += 1
        for i in range(count):
            self.items[i] = self.spare[i]
        self._take_spread(count, False)

    cdef int32_t _list_cores(self, bint shunning) noexcept:
        # Put the cores with available CPUs into `items`, in the order of step C; return how many.
        cdef CpuTopology topology = self.topology
        cdef int32_t core, i, count = 0
        cdef int node_bits = _bits(topology.nodes), core_bits = _bits(topology.cpus_per_core + 1)
        self.survey(shunning, ALL)
        self._rank_groups()
        for i in range(self.actives):
            core = self.active[i]
            if self.free_of[core] and not (shunning and self.is_shunned(core)):
                self.items[count] = core
                count += 1
        if self.is_shared:  # with fewer holders, but after the socket
            self.key_cores_by_holders(count)
            self.sort(self.items, count)
            for i in range(count):
                self.key[self.items[i]] = topology.socket_of[self.items[i]]
            self.sort(self.items, count)
        for i in range(count):
            core = self.items[i]
            self.key[core] = (self.rank_of_socket[topology.socket_of[core]] << node_bits) | self.rank_of_node[topology.node_of[core]]
            self.key[core] = (self.key[core] << core_bits) | self.free_of[core]
        self.sort(self.items, count)
        return count

    cdef void _rank_groups(self) noexcept:
        # Fill rank_of_*: equal groups have equal ranks. Sockets rank by CPUs taken there, then by room; nodes by room.
        cdef int32_t node, socket
        cdef int32_t nodes = self.topology.nodes, sockets = self.topology.num_sockets
        for node in range(nodes):
            self.groups[node] = node
            self.key[node] = self.by_strategy(self.room_in_node[node])
        self.sort(self.groups, nodes)
        self._rank(self.rank_of_node, nodes)
        for socket in range(sockets):
            self.groups[socket] = socket
            self.key[socket] = ((MAX_CPUS - self.taken_in[socket]) << 13) | self.by_strategy(self.room_in_socket[socket])
        self.sort(self.groups, sockets)
        self._rank(self.rank_of_socket, sockets)

    cdef void _rank(self, int32_t[::1] rank_of, int32_t count) noexcept:
        # Number the sorted `groups` by their keys.
        cdef int32_t i, rank = 0
        for i in range(count):
            if i and self.key[self.groups[i]] != self.key[self.groups[i - 1]]:
                rank += 1
            rank_of[self.groups[i]] = rank

    # Groups

    cdef int32_t _choose_node(self, bint shunning, Length length) noexcept:
        # Return the first node, by strategy, whose list has as many CPUs as are needed; NO_GROUP when none has.
        cdef CpuTopology topology = self.topology
        cdef int32_t node, best = NO_GROUP
        cdef int64_t order, least = 0
        self.survey(shunning, length)
        if topology.num_nodes > topology.nodes:
            self.find_heads(shunning, length)
        for node in range(topology.nodes):
            if self.length_in_node[node] < self.needed:
                continue
            order = self.by_strategy(self.length_in_node[node] if length == WHOLE else self.room_in_node[node])
            order = (order << 32) + self.by_strategy(self.room_in_socket[self.head_socket[node]])
            if best == NO_GROUP or order < least:
                best = node
                least = order
        return best

    cdef int32_t _choose_socket(self, bint shunning, Length length) noexcept:
        # The same for sockets, by the lengths of their lists.
        cdef int32_t socket, best = NO_GROUP
        self.survey(shunning, length)
        for socket in range(self.topology.num_sockets):
            if self.length_in_socket[socket] < self.needed:
                continue
            if best == NO_GROUP or (
                self.by_strategy(self.length_in_socket[socket]) < self.by_strategy(self.length_in_socket[best])
            ):
                best = socket
        return best


cdef int _bits(uint32_t values) noexcept:
    # Return how many bits hold 0..values-1.
    cdef int bits = 0
    while values > <uint32_t> 1 << bits:
        bits += 1
    return bits
