# The CPUs of a machine that are available for a request (nodenumaresource.md §7), in scratch memory: its fields are meaningless until
# `begin` and `look` have filled them.
#
# A group is a NUMA node or a socket. A list is its available CPUs in the order in which they would be taken. Shunned cores and nodes are
# those of exclusive pods, which one more pod of the same policy should not share.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from koordsched._core.cpuset cimport MAX_CPUS, MAX_NODES, MAX_WORDS, CpuTopology

cdef enum Exclusive:  # as in api.koordinator.policies
    SHARING = 0
    PCPU_LEVEL = 1
    NUMA_NODE_LEVEL = 2

cdef enum Strategy:
    LEAST = 0
    MOST = 1
    DISTRIBUTE_EVENLY = 2  # the accumulator takes CPUs node by node for this; in here it is the same as LEAST

cdef enum Length:  # which of a group's available CPUs its list has
    ALL
    ONE_OF_CORE  # the first of each core
    WHOLE        # those of full cores

cdef enum:
    NO_GROUP = -1  # all CPUs, where a group is asked for

cdef class CpuHolders:
    """The other pods that hold CPUs of a machine."""
    cdef CpuTopology topology
    cdef list holders      # holders[i]: CPUs with more than i holders; None where a CPU can have but one
    cdef Exclusive policy  # the request's
    cdef object exclusive  # CPUs held under that policy, as a set

cdef class CpuAvailability:
    # What is available
    cdef CpuTopology topology
    cdef uint64_t[64] available     # CPUs, less those taken
    cdef uint64_t[64] taken
    cdef int32_t needed             # CPUs, less those taken
    cdef Exclusive exclusive
    cdef Strategy strategy
    cdef uint64_t[64] exclusive_cpus  # those held under `exclusive`
    cdef bint any_exclusive
    cdef bint is_shared             # a CPU may have several holders: refs_of and refs_of_core count
    cdef int32_t[::1] refs_of       # [CPU] its holders
    cdef int32_t[::1] refs_of_core  # [core] the sum over its available CPUs
    cdef int32_t[::1] free_of       # [core] its available CPUs
    cdef int32_t[::1] active        # [0:actives] cores that had available CPUs when `look` was called, ascending
    cdef int32_t actives
    cdef int32_t[::1] taken_in      # [socket] CPUs taken so far
    cdef unsigned char[::1] shunned_core  # [core] 1: of a pod of PCPU_LEVEL, or taken; means something only when that is `exclusive`
    cdef uint64_t shunned_nodes     # bit: dense NUMA node; the same for NUMA_NODE_LEVEL
    # What the last survey found
    cdef int32_t[::1] room_in_node      # [node] available CPUs
    cdef int32_t[::1] room_in_socket
    cdef int32_t[::1] length_in_node    # [node] CPUs in the group's list
    cdef int32_t[::1] length_in_socket
    cdef int32_t[::1] head_socket       # [node] socket of the first CPU in its list
    # Lists, and what they are sorted by
    cdef int32_t[::1] items         # CPUs or cores
    cdef int32_t[::1] groups
    cdef int32_t[::1] spare
    cdef uint32_t[::1] key          # [CPU, core or group]

    cdef int begin(self, CpuHolders others, available) except -1
    cdef void look(self, int32_t count) noexcept
    cdef int _count_holders(self, list layers) except -1
    cdef void _count_cores(self) noexcept
    cdef void _shun(self) noexcept
    cdef void _shun_core(self, int32_t core) noexcept
    cdef void take_cpu(self, int32_t cpu) noexcept
    cdef void survey(self, bint shunning, Length length) noexcept
    cdef void find_heads(self, bint shunning, Length length) noexcept
    cdef int64_t by_strategy(self, int32_t room) noexcept
    cdef int32_t list_full_cores(self, const int32_t[::1] group_of, int32_t group) noexcept
    cdef void key_cores_by_holders(self, int32_t count) noexcept
    cdef int32_t list_threads(self, const int32_t[::1] group_of, int32_t group, bint shunning) noexcept
    cdef void sort(self, int32_t[::1] items, int32_t count) noexcept
    cdef void _insert(self, int32_t[::1] items, int32_t count) noexcept
    cdef void _sort_by_byte(self, int32_t[::1] items, int32_t count, int shift) noexcept

    cdef inline bint is_shunned(self, int32_t core) noexcept:
        if self.exclusive == PCPU_LEVEL:
            return self.shunned_core[core]
        return (self.shunned_nodes >> self.topology.node_of[core]) & 1

    cdef inline bint is_full(self, int32_t core) noexcept:
        return self.free_of[core] == self.topology.first[core + 1] - self.topology.first[core]

cdef void zero(int32_t[::1] numbers, Py_ssize_t count) noexcept
