# Where CPUs, memory and another plugin's devices come from the same NUMA nodes: `numa_zones` and one `NumaHintSource` together.

from libc.stdint cimport int32_t, int64_t, uint64_t

from koordsched._core.hint_source cimport NumaHintSource
from koordsched._core.numa cimport NUMA_RESTRICTED, NUMA_SINGLE, NumaRequest, NumaTable
from koordsched._core.numa_zones cimport Items, Zones

cdef enum:
    # Numbered as numa_filter.NumaReason, after those of numa_zones
    HINTS_REFUSED = 13
    TRIAL_REFUSED = 14

cdef struct JointChoice:
    int code        # PASS, or why there is none
    uint64_t mask   # with PASS: NUMA ids to take from, 0: no affinity
    int64_t detail  # as in a code of numa_filter

cdef class KeptAffinities:
    cdef NumaRequest request    # what the affinities below are of
    cdef NumaHintSource source
    cdef int64_t[::1] stamp     # [row] NodeTable.touched when the affinity was found, -1: there is none
    cdef uint64_t[::1] mask     # [row] as JointChoice.mask

    cdef int begin(self, NumaTable table, NumaRequest request, NumaHintSource source) except -1

cdef class NumaAlignment:
    cdef NumaTable table
    cdef NumaRequest request

    cdef bint holds(self, Py_ssize_t row) noexcept nogil

cdef JointChoice choose_jointly(
    NumaTable table, const Items* items, Zones* zones, NumaHintSource source, Py_ssize_t row
) noexcept nogil
cdef int32_t summarize_jointly(
    NumaTable table, NumaRequest request, const Items* items, const Zones* zones, NumaHintSource source, Py_ssize_t row
) except -1

cdef inline bint is_strict(const Zones* zones) noexcept nogil:
    """Answer whether Filter aligns under the NUMA policy that holds."""
    return zones.numa_policy == NUMA_RESTRICTED or zones.numa_policy == NUMA_SINGLE
