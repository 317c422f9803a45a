# What another plugin than NodeNUMAResource has to say of NUMA nodes, in a form that the NUMA kernels ask for all rows without the GIL.
#
# A provider of hints (framework.topologymanager.NumaHintProvider) with kernels of its own derives from NumaHintSource and overrides `find`
# and `refusal`. Both read live columns of the row, so that what is simulated is seen, and keep nothing.

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef enum:
    MAX_HINTS = 256       # sets of NUMA nodes in one answer: all of up to 8 NUMA nodes
    MAX_HINT_NAMES = 32   # resources of one source
    HINT_CODE_BITS = 26   # codes of a source are below 2^26

cdef struct FoundHints:
    # What one node has for the pod (nodenumaresource.md §9). Every resource that is named gets the same hints.
    int32_t code                # > 0: why the node is refused as a whole, and the rest means nothing
    uint32_t named              # bit i: names[i] of the source has these hints; 0: any NUMA nodes would do
    int count                   # sets, at least one if something is named
    uint64_t mask[MAX_HINTS]    # bit n: NUMA id n; smaller sets first, then in lexicographic order of their members
    int64_t score[MAX_HINTS]    # >= 0, far below 2^31

cdef class NumaHintSource:
    cdef readonly tuple names   # of resources, as texts show them
    cdef bint consistent        # a set that `find` gives is never refused, so that it need not be tried again

    # Get ready for calls without the GIL. Called once before the rows of one call are asked about.
    cdef int begin(self) except -1
    # Write which sets of NUMA nodes could serve the pod on the row. Narrowest: only those of the smallest size are read.
    cdef void find(self, Py_ssize_t row, bint narrowest, FoundHints* found) noexcept nogil
    # Answer whether, as more of the row is free, single NUMA nodes can only be added to what `find` gives, and refusals only go.
    cdef bint is_monotone(self, Py_ssize_t row) noexcept nogil
    # Return why the pod cannot be served from these NUMA nodes (0: from any), or 0 if it can. A trial: nothing is taken.
    cdef int32_t refusal(self, Py_ssize_t row, uint64_t mask) noexcept nogil

cdef class HintTable(NumaHintSource):
    cdef int32_t[::1] code          # [row]
    cdef uint32_t[::1] named        # [row]
    cdef int32_t[::1] first         # [row] its hints are first[row] : first[row] + count[row] of those below
    cdef int32_t[::1] count         # [row]
    cdef const uint64_t[::1] mask   # as in FoundHints
    cdef const int64_t[::1] score
    cdef int32_t[::1] refused_first  # [row] likewise: masks that are refused
    cdef int32_t[::1] refused_count
    cdef const uint64_t[::1] refused_mask
    cdef const int32_t[::1] refused_code
