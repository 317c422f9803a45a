# The holders of the CPUs of one machine.
#
# Holders are counted in layers of CPU sets: layer i has the CPUs with more than i holders. The last layer is never empty, so that equal
# holdings have equal layers, in whatever order they came and went.

from koordsched._core.cpu_accumulator cimport CpuRequest
from koordsched._core.cpu_availability cimport CpuHolders
from koordsched._core.cpuset cimport CpuTopology

cdef class NodeCpus:
    cdef readonly CpuTopology topology
    cdef int max_ref                # holders that a CPU may have; >= 1
    cdef list holders               # layers of all holders
    cdef tuple exclusive_holders    # [exclusive policy] layers of the holders with that policy; that of NONE stays empty

    cdef list restored_holders(self, restored)
    cdef object free_of(self, list holders, reserved)
    # Return why `allocate` would fail, "" if it would not.
    cdef str shortage(self, CpuRequest request, reserved, preferred, dict numa_amounts)
    cdef CpuHolders others(self, list holders, CpuRequest request)
    cdef object take_on_nodes(self, CpuHolders others, available, CpuRequest request, preferred, numa_amounts)
