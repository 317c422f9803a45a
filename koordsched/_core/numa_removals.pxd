# What Filter says of a node's zones while preemption removes pods from it (nodenumaresource.md §12, framework.md §7.4).

from libc.stdint cimport int32_t, int64_t, uint8_t

from koordsched._core.compiled_holdings cimport CompiledHoldings
from koordsched._core.hint_source cimport NumaHintSource
from koordsched._core.numa cimport NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_zones cimport Items
from koordsched._core.removal_filter cimport RemovalFilter

cdef struct HeldInZone:
    # What a pod holds of one resource in one zone
    int32_t slot                      # of the resource
    int32_t zone                      # place among the zones of the node
    int64_t amount

cdef struct RowZones:
    # What the pods of a row hold, in the order of the index
    bint is_known                     # False: removing a pod means something else than that what it holds is free
    int32_t* first                    # [pod]: the first of its amounts; one more entry than pods
    HeldInZone* held
    int32_t count                     # amounts

cdef class NumaHoldings(CompiledHoldings):
    cdef NumaTable table
    cdef RowZones* rows               # [row]
    cdef Py_ssize_t capacity          # rows there is memory for

    cdef const RowZones* of(self, Py_ssize_t row) except NULL
    cdef int32_t _place(self, Py_ssize_t index, int zone) noexcept

cdef class NumaRemovals(RemovalFilter):
    cdef NumaHoldings holdings
    cdef NumaRequest request
    cdef NumaScoring scoring
    cdef NumaHintSource source        # the hints of another plugin; None: there are none
    cdef Items items
    # Of the row that was begun with
    cdef const RowZones* zones        # NULL: what pods hold of zones does not matter there
    cdef uint8_t policy               # NUMA_* that holds for the pod there
    cdef Py_ssize_t row
    cdef Py_ssize_t index

    cdef void _move(self, Py_ssize_t i, int sign) noexcept
