# What a code says: a NumaReason in its lowest DETAIL_SHIFT bits; above them, for INSUFFICIENT and UNSATISFIED, a bit for each resource of
# the request that is concerned (in the order of its ids; the last bit also stands for all that follow), for UNALIGNED a text's place, for
# HINTS_REFUSED and TRIAL_REFUSED the code of the NumaHintSource.

from libc.stdint cimport int32_t

from koordsched._core.hint_source cimport NumaHintSource
from koordsched._core.numa cimport NumaRequest, NumaTable
from koordsched._core.numa_joint cimport KeptAffinities
from koordsched._core.numa_zones cimport Items, Zones

# Return the code of one row, UNALIGNED without its text. zones: memory to work in.
cdef int32_t code_of_row(
    NumaTable table, NumaRequest request, const Items* items, NumaHintSource source, KeptAffinities kept, Py_ssize_t row, Zones* zones
) noexcept nogil
# Return the code UNALIGNED with the place of its text for the row as it is.
cdef int32_t unaligned_code(
    NumaTable table, NumaRequest request, const Items* items, NumaHintSource source, Py_ssize_t row
) except -1
