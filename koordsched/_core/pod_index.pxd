# Pods by row, the most important first: by priority descending, then by start time, then in order of arrival.
#
# Preemption keeps two such indexes: the pods that run on each row, which are its possible victims, and the pods that are nominated for it.
# What disruption budgets, DaemonSets and groups mean here: framework/preemption.

from libc.stdint cimport int32_t, int64_t, uint8_t
from cpython.object cimport PyObject

from koordsched._core.table cimport NodeTable, Request

cdef enum:
    NO_GROUP = -1
    LOG_ROWS = 1 << 16  # entries of PodIndex.log

cdef struct IndexedPod:
    int32_t kind            # index of its priority and its request
    int32_t budgets         # index of the set of disruption budgets that cover it; 0: none does
    int32_t group           # a preemptor may evict the pods of one group; NO_GROUP: none may evict it
    double started          # seconds; larger is younger, infinity: not started yet
    uint8_t of_daemon_set   # 1: it can run on no other row
    uint8_t excluded        # 1: it is no possible victim
    PyObject* pod           # the object that the caller added it as; an owned reference

cdef class PodIndex:
    cdef readonly NodeTable table
    cdef readonly int64_t generation    # counts changes that concern all rows
    cdef readonly int64_t log_end       # rows ever logged
    cdef IndexedPod** pods              # [row]: its pods, the most important first
    cdef int32_t* counts                # [row]: how many
    cdef int32_t* room                  # [row]: how many there is memory for
    cdef int32_t* nonempty              # the rows with pods, in no order
    cdef int32_t* positions             # [row]: where it is in `nonempty`, if it has pods
    cdef Py_ssize_t nonempty_count
    cdef Py_ssize_t capacity            # rows there is memory for
    cdef int32_t widest                 # the largest count that any row ever had
    cdef int64_t[:, ::1] amounts        # [kind, resource]
    cdef int32_t[::1] priorities        # [kind]
    cdef int32_t[::1] uses              # [kind]: pods that have it
    cdef list requests                  # [kind]: the Request
    cdef list free_kinds
    cdef dict kinds                     # (priority, Request) -> kind
    cdef int64_t[::1] allowed           # [budget]: disruptions that it still allows
    cdef int32_t[::1] set_begin         # [set of budgets]: where its budgets begin in set_members; one entry more than sets
    cdef int32_t[::1] set_members
    cdef int32_t[::1] log               # ring of rows that changed in a way that the table does not log

    cdef void _empty(self) noexcept
    cdef int _reserve(self, Py_ssize_t row) except -1
    cdef int32_t _kind(self, int32_t priority, Request request) except -1
    cdef int _insert(self, Py_ssize_t row, IndexedPod pod) except -1
    cdef Py_ssize_t _find(self, Py_ssize_t row, pod) except -1
    cdef void _note(self, Py_ssize_t row) noexcept
