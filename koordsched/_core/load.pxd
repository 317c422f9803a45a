# What nodes use and what their pods are estimated to use, with the room that thresholds leave (frameworkext.md §5).
#
# A node stands here under an index that the node table has in one of its attribute columns, not under its row: its metric may be known
# before the node is and outlive it. Index 0 stands for a node of which nothing is known; its facts are never written.
# Amounts are cpu in milli and everything else in whole units, one for each resource of the vector that the table was made for.

from libc.stdint cimport int32_t, int64_t, uint8_t

from koordsched._core.table cimport NodeTable

cdef enum:
    # Columns, each with a part for every resource: resource r of column c is row c * width + r of LoadTable.amount.
    CAPACITY = 0         # what the node has
    FILTER_USAGE = 1     # what it uses, as Filter counts it: plain or aggregated
    SCORE_USAGE = 2      # the same for Score
    PROD_USAGE = 3       # what its prod pods use, with the system's part where that counts
    DELTA = 4            # what estimates of pods add to its use
    PROD_DELTA = 5       # what those of prod pods add to PROD_USAGE
    ESTIMATED = 6        # the estimates of all pods in full
    MOST = 7             # the largest estimated use that the threshold lets pass; UNLIMITED: none holds
    PROD_MOST = 8        # the same for prod thresholds
    COLUMNS = 9

cdef enum:
    # What follows from those above, written by `settle`, as doubles: amounts that matter are exact, and quicker to compare and to divide.
    ROOM = 0         # the largest estimate that Filter lets pass, inf where it lets all pass, -inf where none
    PROD_ROOM = 1    # the same for prod pods
    SPARE = 2        # what the node has left for Score, less than 0 where it has too little, -inf where that is not known
    PROD_SPARE = 3   # the same where it counts what prod pods use
    SHARE = 4        # 100 / CAPACITY, 0 where there is none
    DERIVED = 5

cdef enum:
    # Bits of LoadTable.flag
    HAS_METRIC = 1        # there is a NodeMetric
    IS_MEASURED = 2       # ... and it holds measurements
    IS_EXPIRED = 4        # ... and it is too old
    IS_AGGREGATED = 8     # thresholds for pods that are not checked as prod pods are of aggregated use
    HAS_THRESHOLDS = 16   # any of those is not 0
    HAS_PROD_THRESHOLDS = 32
    FILTER_BY_ESTIMATES = 64   # aggregated use is asked for and not measured: Filter counts ESTIMATED alone
    SCORE_BY_ESTIMATES = 128   # the same for Score

cdef enum:
    # Values of LoadTable.verdict and LoadTable.prod_verdict
    PASSES = 0
    COMPARES = 1  # with ROOM
    REFUSES = 2   # for its expired metric

cdef class PodEstimate:
    """What a pod is estimated to use."""
    cdef const int64_t[::1] amounts
    cdef readonly tuple values       # the same
    cdef readonly bint is_prod
    cdef readonly bint is_daemon     # owned by a DaemonSet
    cdef bint is_nothing             # every amount is 0
    cdef int64_t hashed

cdef class PodLoad:
    """A pod that is counted on a node."""
    cdef readonly PodEstimate estimate
    cdef readonly str key            # namespace/name
    cdef readonly double timestamp   # when it was scheduled, seconds since the epoch
    cdef readonly double deadline    # its estimate counts in any case for metrics from before; -inf: none

cdef class LoadTable:
    cdef readonly NodeTable nodes
    cdef readonly Py_ssize_t index_attribute  # the attribute column that holds a row's index
    cdef readonly Py_ssize_t width            # resources of the vector
    cdef readonly Py_ssize_t capacity         # indexes that there is room for
    cdef readonly bint filters_expired        # expired metrics are not compared with thresholds
    cdef readonly bint passes_expired         # ... and do not refuse either
    cdef bint large                           # a capacity was ever too large to multiply with its SHARE
    cdef int64_t[:, ::1] amount               # [column * width + resource, index]
    cdef double[:, ::1] derived               # [column * width + resource, index]
    cdef uint8_t[::1] flag                    # [index]
    cdef uint8_t[::1] verdict                 # [index] PASSES, COMPARES or REFUSES
    cdef uint8_t[::1] prod_verdict            # [index] the same for prod pods

    cdef int check(self, Py_ssize_t index) except -1
    cdef void count(
        self, Py_ssize_t index, PodLoad pod, const int64_t* usage, bint reported, bint as_prod, bint due, int64_t sign
    ) noexcept
    cdef int _change(
        self, Py_ssize_t index, PodLoad pod, usage, bint as_prod, double update_time, double settled_before, int64_t sign
    ) except -1
    cdef void settle(self, Py_ssize_t index) noexcept

cdef class LoadScoring:
    """How nodes are scored."""
    cdef const int64_t[::1] weights  # one for each resource of the vector
    cdef int64_t dominant            # weight of the scarcest resource; 0: none
    cdef int64_t total               # of all weights
    cdef double inverse              # 1 / total
    cdef bint prod                   # prod pods by what prod pods use
