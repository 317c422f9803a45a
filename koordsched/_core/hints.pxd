# What one node's zones have for one request, as Python values; and the text of hints for the kernels.

from libc.stdint cimport int32_t, uint64_t

from koordsched._core.numa cimport NumaRequest, NumaTable
from koordsched._core.numa_zones cimport Choice, Items, Zones

cdef enum:
    LISTED = 1 << 10  # sets of zones that are listed at most; a node of up to 8 zones has 255

cdef class NumaView:
    cdef NumaRequest request
    cdef NumaTable table
    cdef Items items
    cdef Zones* zones  # allocated when this is made

    cdef bint _is_preferred(self, Choice found) noexcept

cdef int32_t summarize(NumaTable table, NumaRequest request, const Items* items, const Zones* zones) except -1
cdef int list_feasible(const Items* items, const Zones* zones, uint64_t* key) noexcept nogil
cdef list summaries_of_zones(NumaRequest request, const Items* items, const Zones* zones)
cdef uint64_t ids_of(const Zones* zones, uint64_t positions) noexcept nogil
cdef uint64_t positions_of(const Zones* zones, uint64_t ids) noexcept nogil
