# Which of the available CPUs a request takes (nodenumaresource.md §7). `take` holds the GIL until it returns and runs no Python code in
# which another `take` could begin, so one accumulator serves all machines.

from libc.stdint cimport int32_t, uint64_t

from koordsched._core.cpu_availability cimport CpuAvailability, CpuHolders, Length

cdef enum Bind:  # as in api.koordinator.policies
    UNBOUND = 0
    FULL_PCPUS = 1
    SPREAD_BY_PCPUS = 2

cdef class CpuRequest:
    """What a pod asks for. Immutable."""
    cdef readonly int count
    cdef readonly int bind
    cdef readonly bint required
    cdef readonly int exclusive
    cdef readonly int strategy

cdef class Accumulator(CpuAvailability):
    cdef uint64_t[64] everything      # the available CPUs of all NUMA nodes, while CPUs are taken from one node after the other
    cdef int32_t[::1] node_order      # NUMA nodes, in the order in which CPUs are taken from them
    cdef int32_t[::1] position        # [core] where its next CPU goes in a list
    cdef int32_t[::1] rank_of_node    # [node] its place in step C
    cdef int32_t[::1] rank_of_socket

    cdef object take(self, CpuHolders others, available, CpuRequest request, int count)
    cdef object take_exact_cores(self, CpuHolders others, available, int count)
    cdef void _take(self, int bind, int32_t count) noexcept
    cdef void _take_evenly(self, int bind, int32_t count) noexcept
    cdef void _only(self, const uint64_t* cpus) noexcept
    cdef void _take_full_cores(self) noexcept
    cdef void _take_full_cores_of_sockets(self) noexcept
    cdef void _take_cores(self, const int32_t[::1] group_of, int32_t group, bint splitting) noexcept
    cdef void _take_threads(self) noexcept
    cdef void _take_spread(self, int32_t count, bint one_of_core) noexcept
    cdef void _take_anything(self, bint shunning) noexcept
    cdef int32_t _list_cores(self, bint shunning) noexcept
    cdef void _rank_groups(self) noexcept
    cdef void _rank(self, int32_t[::1] rank_of, int32_t count) noexcept
    cdef int32_t _choose_node(self, bint shunning, Length length) noexcept
    cdef int32_t _choose_socket(self, bint shunning, Length length) noexcept
