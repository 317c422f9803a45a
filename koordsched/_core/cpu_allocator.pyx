"""Which pods hold which CPUs of one machine, which CPUs are free, and which a request gets (nodenumaresource.md §3, §6)."""

from koordsched._core.cpu_accumulator cimport FULL_PCPUS, SPREAD_BY_PCPUS, Accumulator
from koordsched._core.cpu_availability cimport NUMA_NODE_LEVEL

NOT_ENOUGH_CPUS = "not enough cpus available to satisfy request"
UNSATISFIED = "insufficient CPUs to satisfy required cpu bind policy"

cdef enum:
    MILLI = 1000
    EXCLUSIVE_POLICIES = NUMA_NODE_LEVEL + 1

cdef tuple POLICY_NAMES = ("", "FullPCPUs", "SpreadByPCPUs")  # [Bind] as messages have them
cdef Accumulator ACCUMULATOR = Accumulator()  # scratch memory: one take ends before another begins


class CpuShortage(Exception):
    pass


cdef class NodeCpus:

    def __init__(self, CpuTopology topology not None, int max_ref_count=1):
        self.topology = topology
        self.max_ref_count = max_ref_count
        self.holders = []
        self.exclusive_holders = tuple([[] for _ in range(EXCLUSIVE_POLICIES)])

    @property
    def max_ref_count(self):
        return self.max_ref

    @max_ref_count.setter
    def max_ref_count(self, int count):
        if count < 1:
            raise ValueError(f"max_ref_count {count}: expected at least 1")
        self.max_ref = count

    def copy(self):
        cdef NodeCpus found = NodeCpus(self.topology, self.max_ref)
        found.holders = list(self.holders)
        found.exclusive_holders = tuple([list(layers) for layers in self.exclusive_holders])
        return found

    # Holders

    def add(self, cpus, int exclusive):
        cpus &= self.topology.all
        _add(self.holders, cpus)
        if exclusive:
            _add(self.exclusive_holders[exclusive], cpus)

    def remove(self, cpus, int exclusive):
        cpus &= self.topology.all
        _remove(self.holders, cpus)
        if exclusive:
            _remove(self.exclusive_holders[exclusive], cpus)

    @property
    def bound(self):
        return self.holders[0] if self.holders else 0

    def ref_count(self, int cpu):
        return sum([layer >> cpu & 1 for layer in self.holders])

    def exclusive_of(self, int cpu):
        cdef int policy
        for policy in range(EXCLUSIVE_POLICIES - 1, 0, -1):
            layers = self.exclusive_holders[policy]
            if layers and layers[0] >> cpu & 1:
                return policy
        return 0

    def free(self, reserved=0, restored=()):
        return self.free_of(self.restored_holders(restored), reserved)

    cdef list restored_holders(self, restored):
        # Each restored set ends one holding of each of its CPUs.
        cdef list holders = self.holders
        for cpus in restored:
            if cpus:
                holders = list(holders) if holders is self.holders else holders
                _remove(holders, cpus)
        return holders

    cdef object free_of(self, list holders, reserved):
        taken = holders[self.max_ref - 1] if len(holders) >= self.max_ref else 0
        return self.topology.all & ~(taken | reserved)

    # Allocation

    def allocate(self, CpuRequest request not None, reserved=0, preferred=0, restored=(), numa_amounts=None):
        cdef list holders = self.restored_holders((preferred, *restored))
        available = self.free_of(holders, reserved)
        if request.required:
            available = self._usable(available, request.bind)
        if available.bit_count() < request.count:
            raise CpuShortage(NOT_ENOUGH_CPUS)
        cdef CpuHolders others = self.others(holders, request)
        if numa_amounts:
            found = self.take_on_nodes(others, available, request, preferred, numa_amounts)
        else:
            found = _take_preferred(others, available, request, request.count, preferred)
        if request.required and self._usable(found, request.bind) != found:
            found = 0 if numa_amounts or not self.topology.is_uneven else ACCUMULATOR.take_exact_cores(others, available, request.count)
            if not found:
                raise CpuShortage(f"{UNSATISFIED} {POLICY_NAMES[request.bind]}")
        return found

    cdef str shortage(self, CpuRequest request, reserved, preferred, dict numa_amounts):
        if not request.required and not numa_amounts:  # then only the number matters
            available = self.free_of(self.restored_holders((preferred,)), reserved)
            return "" if available.bit_count() >= request.count else NOT_ENOUGH_CPUS
        try:
            self.allocate(request, reserved, preferred, (), numa_amounts)
        except CpuShortage as shortage:
            return str(shortage)
        return ""

    def take(self, available, CpuRequest request not None):
        available &= self.topology.all
        if available.bit_count() < request.count:
            raise CpuShortage(NOT_ENOUGH_CPUS)
        return _take(self.others(self.holders, request), available, request, request.count)

    def _usable(self, cpus, int bind):
        if bind == FULL_PCPUS:
            return self.topology.full_cores(cpus)
        return self.topology.first_of_cores(cpus) if bind == SPREAD_BY_PCPUS else cpus

    cdef CpuHolders others(self, list holders, CpuRequest request):
        cdef list layers = self.exclusive_holders[request.exclusive]
        exclusive = layers[0] & holders[0] if layers and holders else 0
        return CpuHolders(self.topology, holders if self.max_ref > 1 else None, request.exclusive, exclusive)

    cdef object take_on_nodes(self, CpuHolders others, available, CpuRequest request, preferred, numa_amounts):
        cdef int left = request.count
        found = 0
        for node in sorted(numa_amounts):
            there = available & self.topology.cpus_of_node(node)
            cpus = _take_preferred(others, there, request, min(there.bit_count(), numa_amounts[node] // MILLI), preferred)
            left -= cpus.bit_count()
            found |= cpus
        if left:
            raise CpuShortage(NOT_ENOUGH_CPUS)
        return found


cdef object _take_preferred(CpuHolders others, available, CpuRequest request, int count, preferred):
    favoured = available & preferred
    if not favoured:
        return _take(others, available, request, count)
    cdef int first = min(count, favoured.bit_count())
    found = _take(others, favoured, request, first)
    return found | _take(others, available & ~favoured, request, count - first)


cdef object _take(CpuHolders others, available, CpuRequest request, int count):
    return ACCUMULATOR.take(others, available, request, count) if count > 0 else 0


cdef int _add(list layers, cpus) except -1:
    cdef Py_ssize_t i
    for i in range(len(layers)):
        again = layers[i] & cpus
        layers[i] |= cpus
        cpus = again
    if cpus:
        layers.append(cpus)
    return 0


cdef int _remove(list layers, cpus) except -1:
    cdef Py_ssize_t i
    for i in range(len(layers) - 1, -1, -1):
        held = layers[i] & cpus
        layers[i] ^= held
        cpus ^= held
    while layers and not layers[len(layers) - 1]:
        layers.pop()
    return 0
