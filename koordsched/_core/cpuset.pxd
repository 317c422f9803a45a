# Where the CPUs of a machine sit, and sets of them as words.
#
# Outside, a CPU set is a Python integer, bit i being the CPU with id i; in here it is `words` uint64, lowest first. Cores, NUMA nodes and
# sockets have dense numbers in here: cores in ascending (socket, core, node) ids, nodes and sockets in ascending ids.

from libc.stdint cimport int32_t, uint64_t

cdef enum:
    MAX_CPUS = 4096
    MAX_WORDS = 64  # MAX_CPUS / 64
    MAX_NODES = 64

cdef class CpuTopology:
    """The online CPUs of a machine. Immutable."""
    cdef object __weakref__
    cdef readonly tuple details        # CpuPlace of every CPU, ascending by id
    cdef readonly object all           # all CPUs as a set
    cdef readonly tuple node_ids       # NUMA ids, ascending
    cdef readonly int num_cpus
    cdef readonly int num_cores        # distinct (socket, core, node)
    cdef readonly int num_nodes        # distinct (socket, node): a node that spans sockets counts once a socket, as in Koordinator
    cdef readonly int num_sockets
    cdef readonly int cpus_per_core    # the most online threads that a core has
    cdef readonly int cpus_per_node    # num_cpus / num_nodes, rounded down
    cdef readonly int cpus_per_socket  # num_cpus / num_sockets, rounded down
    cdef readonly bint is_uneven       # some core has fewer online threads than cpus_per_core
    cdef Py_ssize_t words              # of a set that holds any CPU of the topology
    cdef Py_ssize_t limit              # one more than the largest CPU id
    cdef Py_ssize_t nodes              # len(node_ids)
    cdef dict cpus_of                  # NUMA id: its CPUs as a set
    cdef object hashed                 # hash(details)
    cdef int32_t[::1] cpu              # [0:num_cpus] CPU ids in ascending (core, id)
    cdef int32_t[::1] first            # [core] where the core's CPUs begin in `cpu`; [num_cores] is num_cpus
    cdef int32_t[::1] core_of          # [CPU id] core; -1: there is no such CPU
    cdef int32_t[::1] node_of          # [core] dense NUMA node
    cdef int32_t[::1] socket_of        # [core] dense socket
    cdef uint64_t[:, ::1] node_words   # [node] its CPUs

    cdef int index(self) except -1
    cdef int read(self, cpus, uint64_t* words) except -1
    cdef object written(self, const uint64_t* words)

cdef extern from *:
    int lowest "__builtin_ctzll"(uint64_t word) noexcept nogil  # the lowest bit that is set; word must not be 0

cdef inline bint has(const uint64_t* words, int32_t cpu) noexcept nogil:
    return (words[cpu >> 6] >> (cpu & 63)) & 1

cdef inline void put(uint64_t* words, int32_t cpu) noexcept nogil:
    words[cpu >> 6] |= <uint64_t> 1 << (cpu & 63)

cdef inline void drop(uint64_t* words, int32_t cpu) noexcept nogil:
    words[cpu >> 6] &= ~(<uint64_t> 1 << (cpu & 63))
