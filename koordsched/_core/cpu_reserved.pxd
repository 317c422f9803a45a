# Which reservations of a row have the CPUs, and amounts in NUMA nodes, that a pod asks for (nodenumaresource.md §12).

from libc.stdint cimport int32_t, uint64_t

from koordsched._core.cpu_accumulator cimport CpuRequest
from koordsched._core.cpu_allocator cimport NodeCpus
from koordsched._core.numa cimport NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_zones cimport Zones
from koordsched._core.reserved_source cimport ReservedSource

cdef class LeftCpus:
    """What a reservation has left."""
    cdef readonly object cpus          # a set of CPUs
    cdef readonly int exclusive        # the policy under which it holds them
    cdef readonly bint restricted      # its owners get what it has, and nothing else

cdef class ReservedCpus(ReservedSource):
    cdef NumaTable table
    cdef NumaRequest request
    cdef NumaScoring scoring
    cdef int exclusive                 # policy of the pod
    cdef list infos                    # [row] of the cache
    cdef object holdings               # what pods hold; as in the .pyi
    cdef dict nodes                    # by name: what NodeAllocations says of it
    cdef dict given                    # by uid: reservations that were given something
    cdef object answers                # of the plugin; as in the .pyi
    cdef int others                    # other plugins with hints for the pod; more than 1: some that no kernel asks
    cdef bint demanded                 # the pod may only go where it is given a reservation
    cdef dict _requests                # by policy, whether it is required, and strategy
    # The row that was asked about last; -1: none since `begin`
    cdef Py_ssize_t _row
    cdef Py_ssize_t _index             # of the row's node
    cdef bint _is_known
    cdef bint _aligns                  # a NUMA policy holds for the pod
    cdef bint _binds                   # the pod gets CPUs of its own
    cdef object _node
    cdef NodeCpus _cpus                # None: not known
    cdef CpuRequest _asked             # what the pod asks of them

    cdef int _look_at(self, Py_ssize_t row) except -1
    cdef object _unaligned(self, Py_ssize_t row, uid, reserved, preferred, uint64_t* numa)
    cdef CpuRequest _request_on(self, node, const Zones* zones)
