"""Where the CPUs of a machine sit: cores, NUMA nodes and sockets (nodenumaresource.md §2, §6).

A core consists of its online threads: one with an offline sibling is full as soon as its only online thread is (D19). Core ids may repeat
from socket to socket, and a NUMA node may span sockets, as on many virtual machines.
"""

from collections import Counter, namedtuple

import numpy as np

from libc.string cimport memcpy, memset

from koordsched._core.numa_facts import CpuCounts

CpuPlace = namedtuple("CpuPlace", ["id", "core", "socket", "node"])

MAX_ID = 2**31 - 1  # the ids are int32 in the annotation


cdef class CpuTopology:

    def __init__(self, details):
        places = list(details)
        _check(places)
        self.details = tuple(sorted(places))
        self.hashed = hash(self.details)
        cores = Counter([(socket, core, node) for _, core, socket, node in self.details])
        self.node_ids = tuple(sorted({node for _, _, node in cores}))
        self.nodes = len(self.node_ids)
        self.num_cpus = len(self.details)
        self.num_cores = len(cores)
        self.num_nodes = len({(socket, node) for socket, _, node in cores})
        self.num_sockets = len({socket for socket, _, _ in cores})
        self.cpus_per_core = max(cores.values(), default=0)
        self.cpus_per_node = self.num_cpus // self.num_nodes if self.num_nodes else 0
        self.cpus_per_socket = self.num_cpus // self.num_sockets if self.num_sockets else 0
        self.is_uneven = min(cores.values(), default=0) < self.cpus_per_core
        self.index()

    cdef int index(self) except -1:
        cdef list by_core = sorted([(socket, core, node, cpu) for cpu, core, socket, node in self.details])
        sockets = {socket: i for i, socket in enumerate(sorted({place.socket for place in self.details}))}
        nodes = {node: i for i, node in enumerate(self.node_ids)}
        self.limit = max([place.id + 1 for place in self.details], default=0)
        self.words = (self.limit + 63) // 64
        self.cpu = np.array([cpu for _, _, _, cpu in by_core], np.int32)
        self.first = np.full(self.num_cores + 1, self.num_cpus, np.int32)
        self.core_of = np.full(self.limit, -1, np.int32)
        self.node_of = np.empty(self.num_cores, np.int32)
        self.socket_of = np.empty(self.num_cores, np.int32)
        self.cpus_of = dict.fromkeys(self.node_ids, 0)
        self.all = 0
        cdef int32_t i, core = -1
        before = None
        for i, (socket, core_id, node, cpu) in enumerate(by_core):
            if before != (socket, core_id, node):
                before = (socket, core_id, node)
                core += 1
                self.first[core] = i
                self.node_of[core] = nodes[node]
                self.socket_of[core] = sockets[socket]
            self.core_of[<Py_ssize_t> cpu] = core
            self.cpus_of[node] |= 1 << cpu
            self.all |= 1 << cpu
        self.node_words = np.zeros((self.nodes, self.words), np.uint64)
        for i in range(self.nodes):
            self.read(self.cpus_of[self.node_ids[i]], &self.node_words[i, 0])
        return 0

    def __eq__(self, other):
        return self is other or (isinstance(other, CpuTopology) and self.details == other.details)

    def __hash__(self):
        return self.hashed

    def __repr__(self):
        return f"CpuTopology({self.num_sockets} sockets, {self.num_nodes} nodes, {self.num_cores} cores, {self.num_cpus} CPUs)"

    @property
    def is_valid(self):
        return self.num_cpus > 0

    def cpus_of_node(self, node):
        return self.cpus_of.get(node, 0)

    def full_cores(self, cpus):
        cdef uint64_t[MAX_WORDS] asked, found
        cdef const int32_t[::1] cpu = self.cpu, first = self.first
        cdef int32_t core, i
        self.read(cpus, asked)
        memset(found, 0, sizeof(found))
        for core in range(self.num_cores):
            for i in range(first[core], first[core + 1]):
                if not has(asked, cpu[i]):
                    break
            else:
                for i in range(first[core], first[core + 1]):
                    put(found, cpu[i])
        return self.written(found)

    def first_of_cores(self, cpus):
        cdef uint64_t[MAX_WORDS] asked, found
        cdef const int32_t[::1] cpu = self.cpu, first = self.first
        cdef int32_t core, i
        self.read(cpus, asked)
        memset(found, 0, sizeof(found))
        for core in range(self.num_cores):
            for i in range(first[core], first[core + 1]):
                if has(asked, cpu[i]):
                    put(found, cpu[i])
                    break
        return self.written(found)

    def counts(self, bound, free):
        cdef uint64_t[MAX_WORDS] is_bound, is_free
        cdef int32_t[MAX_NODES] bound_of, free_of, full_of, first_of
        cdef const int32_t[::1] cpu = self.cpu, first = self.first
        cdef int32_t core, node, i, here
        self.read(bound, is_bound)
        self.read(free, is_free)
        for node in range(<int32_t> self.nodes):
            bound_of[node] = free_of[node] = full_of[node] = first_of[node] = 0
        for core in range(self.num_cores):
            node = self.node_of[core]
            here = 0
            for i in range(first[core], first[core + 1]):
                bound_of[node] += has(is_bound, cpu[i])
                here += has(is_free, cpu[i])
            free_of[node] += here
            full_of[node] += here if here == first[core + 1] - first[core] else 0
            first_of[node] += here != 0
        return {
            self.node_ids[node]: CpuCounts(bound_of[node], free_of[node], full_of[node], first_of[node])
            for node in range(<int32_t> self.nodes)
        }

    cdef int read(self, cpus, uint64_t* words) except -1:
        # CPUs that the topology lacks are left out.
        cdef bytes little = (cpus & self.all).to_bytes(self.words * sizeof(uint64_t), "little")
        memcpy(words, <const char*> little, self.words * sizeof(uint64_t))
        return 0

    cdef object written(self, const uint64_t* words):
        return int.from_bytes((<const char*> words)[:self.words * sizeof(uint64_t)], "little")


def _check(list places):
    if len(places) > MAX_CPUS:
        raise ValueError(f"{len(places)} CPUs: expected at most {MAX_CPUS}")
    seen = set()
    for cpu, core, socket, node in places:
        if not 0 <= cpu < MAX_CPUS:
            raise ValueError(f"CPU id {cpu}: expected 0..{MAX_CPUS - 1}")
        if cpu in seen:
            raise ValueError(f"CPU {cpu} is there twice")
        if not 0 <= node < MAX_NODES:
            raise ValueError(f"CPU {cpu}: NUMA node {node}: expected 0..{MAX_NODES - 1}")
        if not (0 <= core <= MAX_ID and 0 <= socket <= MAX_ID):
            raise ValueError(f"CPU {cpu}: core {core} of socket {socket}: expected 0..{MAX_ID}")
        seen.add(cpu)
