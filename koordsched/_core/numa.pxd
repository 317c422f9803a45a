# What is known of the NUMA nodes ("zones") of all nodes, and what one request asks of them.
#
# A node stands here under an index that the node table has in one of its attribute columns, not under its row: its topology may be known
# before the node is and outlive it. Index 0 stands for a node that was never described; its facts are never written.
# A cell is a zone: zone z of node i is cell i * width + z, and its zones are cells [i * width : i * width + zone_count[i]], ids ascending.

from libc.stdint cimport int32_t, int64_t, uint8_t

from koordsched._core.table cimport NodeTable

cdef enum:
    MAX_ZONES = 64      # zones of a node; NUMA ids are 0..63
    MAX_REQUESTED = 48  # resources that a request may name
    MAX_ITEMS = 64      # resources that a request and a scoring may name together
    DETAIL_SHIFT = 4    # a code of numa_filter holds a NumaReason below this bit, what it says of it above
    DETAIL_BITS = 27    # in which it says that
    MAX_AMOUNT_BITS = 56  # amounts are cut to 2^56, so that 64 of them can be added

cdef enum:
    # As numa_facts.TopologyState
    TOPOLOGY_NONE = 0
    TOPOLOGY_INVALID = 1
    TOPOLOGY_VALID = 2

cdef enum:
    # These and those that follow are as api.koordinator.policies has them
    BIND_NONE = 0
    BIND_FULL_PCPUS = 1
    BIND_SPREAD_BY_PCPUS = 2

cdef enum:
    NUMA_NONE = 0
    NUMA_BEST_EFFORT = 1
    NUMA_RESTRICTED = 2
    NUMA_SINGLE = 3

cdef enum:
    EXCLUSIVE_NONE = 0
    EXCLUSIVE_PREFERRED = 1
    EXCLUSIVE_REQUIRED = 2

cdef enum:
    MOST_ALLOCATED = 1  # of AllocateStrategy

cdef enum:
    # As numa_facts.NumaStatus
    STATUS_IDLE = 0
    STATUS_SINGLE = 1
    STATUS_SHARED = 2

cdef enum:
    # Rows of the matrices of CPU counts, as in numa_facts.CpuCounts
    BOUND = 0
    FREE = 1
    FULL = 2
    FIRST = 3
    COUNTS = 4

cdef class NumaTable:
    cdef readonly NodeTable nodes
    cdef readonly Py_ssize_t index_attribute  # the attribute column that holds a row's index
    cdef readonly Py_ssize_t capacity         # indexes that there is room for
    cdef readonly Py_ssize_t width            # zones that a node has room for; a power of two
    cdef readonly Py_ssize_t slots            # resources that some node has in zones
    cdef readonly Py_ssize_t demanding        # indexes that `demands` answers yes for
    cdef int32_t[::1] slot_of                 # [resource id] the resource's slot, -1: none
    cdef int64_t[:, ::1] total                # [slot, cell] what the zone offers, amplified
    cdef int64_t[:, ::1] allocated            # [slot, cell] what pods have of it, not amplified
    cdef uint8_t[:, ::1] known                # [slot, index] 1: some zone of the node names the resource
    cdef int32_t[:, ::1] cpus                 # [BOUND .. FIRST, cell]
    cdef uint8_t[::1] zone_id                 # [cell] NUMA id
    cdef uint8_t[::1] status                  # [cell] STATUS_*
    cdef int32_t[:, ::1] node_cpus            # [BOUND .. FIRST, index] of the whole node
    cdef uint8_t[::1] zone_count              # [index]
    cdef uint8_t[::1] topology                # [index] TOPOLOGY_*
    cdef uint8_t[::1] bind_policy             # [index] BIND_*
    cdef uint8_t[::1] numa_policy             # [index] NUMA_*
    cdef int32_t[::1] cpus_per_core           # [index] >= 1
    cdef double[::1] ratio                    # [index] as numa_facts.NumaNode
    cdef double[::1] checked_ratio            # [index] likewise; negative: malformed
    # Texts of refusals: what hints looked like. A code holds a text's place; texts are only ever added.
    cdef list _summaries
    cdef dict _summary_ids

    cdef int check_index(self, Py_ssize_t index) except -1
    cdef int32_t summary_id(self, str text) except -1
    cdef bint demands(self, Py_ssize_t index) noexcept nogil  # the node may matter to a request of amounts alone

cdef class NumaCells:
    """What pods have of one node, as the table held it."""
    cdef Py_ssize_t index
    cdef int32_t[::1] cpus          # BOUND .. FIRST of the node, then of each zone
    cdef int64_t[::1] allocated     # [zone * slots + slot]
    cdef uint8_t[::1] status        # [zone]
    cdef Py_ssize_t slots           # of the table then; resources that got a slot later are not in the zones

cdef class NumaRequest:
    """What a pod requests of NUMA nodes, and how."""
    cdef const int32_t[::1] ids          # resource ids, ascending
    cdef const int64_t[::1] amounts      # same length; > 0, not amplified, cpu in milli
    cdef readonly tuple names            # the resources' names, same order
    cdef readonly int64_t cpu            # milli; 0: none
    cdef uint8_t bind_policy             # BIND_*; BIND_NONE: the pod does not ask to be bound
    cdef uint8_t required_bind_policy    # BIND_*
    cdef uint8_t numa_policy             # NUMA_*
    cdef uint8_t exclusive               # EXCLUSIVE_*; what holds if a node has a NUMA policy
    cdef dict summaries                  # what feasible masks look like, as bytes -> summary id of the table it is used with

cdef class NumaScoring:
    """How nodes and sets of NUMA nodes are scored."""
    cdef const int32_t[::1] ids          # resource ids
    cdef const int64_t[::1] weights      # same length; for nodes; 0: does not count
    cdef const int64_t[::1] numa_weights  # same length; for sets of NUMA nodes; likewise
    cdef const uint8_t[::1] optional     # same length; 1: counts only if the pod requests it
    cdef bint node_most                  # nodes: the fuller the better
    cdef bint numa_most                  # sets of NUMA nodes: likewise

cdef inline Py_ssize_t index_of(NumaTable table, Py_ssize_t row) noexcept nogil:
    """Return the index of a row's node, 0 when it was never described."""
    cdef Py_ssize_t index = table.nodes.attribute[table.index_attribute, row]
    return index if index < table.capacity else 0
