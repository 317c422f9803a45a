# Which reservations of a row have the CPUs that a pod asks for, on nodes without a NUMA policy (nodenumaresource.md §12).

from libc.stdint cimport int32_t

from koordsched._core.cpu_accumulator cimport CpuRequest
from koordsched._core.cpu_allocator cimport NodeCpus
from koordsched._core.numa cimport NumaRequest, NumaTable
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
    cdef int exclusive                 # policy of the pod
    cdef object strategy_of            # returns whence CPUs of a node are taken first
    cdef list infos                    # [row] of the cache
    cdef dict nodes                    # by name: what NodeAllocations says of it
    cdef dict given                    # by uid: reservations that were given something
    cdef dict known                    # by uid: LeftCpus of these, as far as they were asked for
    cdef object compile_left
    cdef list texts                    # of refusals; a code is a place, from 1 on
    cdef bint demanded                 # the pod may only go where it is given a reservation
    cdef dict _requests                # by policy, whether it is required, and strategy
    # The row that was asked about last; -1: none since `begin`
    cdef Py_ssize_t _row
    cdef bint _is_known                # the node has no NUMA policy for the pod
    cdef bint _binds                   # and the pod gets CPUs of its own
    cdef object _node
    cdef NodeCpus _cpus                # None: not known
    cdef CpuRequest _asked             # what the pod asks of them

    cdef LeftCpus left(self, uid)
    cdef int _look_at(self, Py_ssize_t row) except -1
    cdef int _move(self, Py_ssize_t row, uid, bint shown) except -1
    cdef CpuRequest _request_on(self, node, const Zones* zones)
    cdef int32_t _code(self, str text) except -1
