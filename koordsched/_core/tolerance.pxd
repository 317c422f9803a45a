# Which taint sets a pod tolerates, decided once for each set and gathered over rows.

from libc.stdint cimport int32_t

cpdef enum Effect:
    """What a taint that is not tolerated does."""
    NOTHING = 0   # its effect is not a known one
    REFUSES = 1   # keeps the pod away
    REPELS = 2    # counts against the row
    CORDONS = 3   # the row takes no new pods

cpdef enum Operator:
    """How a toleration compares values."""
    EQUAL = 0
    EXISTS = 1    # any value
    NEVER = 2     # matches nothing

cdef class TaintSets:
    """All taints and taint sets, as numbers; only ever extended. The caller interns strings: equal number, equal string, 0 for ""."""
    cdef readonly Py_ssize_t taints  # taints known
    cdef readonly Py_ssize_t sets    # sets known
    cdef int32_t[::1] key            # [taint]
    cdef int32_t[::1] value          # [taint]
    cdef int32_t[::1] effect         # [taint]; the effect's string
    cdef int32_t[::1] kind           # [taint]; an Effect
    cdef int32_t[::1] begin          # [set + 1]; set s holds member[begin[s]] .. member[begin[s + 1] - 1]
    cdef int32_t[::1] member         # taints, in the order they stand on the node

cdef class Tolerance:
    """What one list of tolerations makes of every taint set; extended when sets were added since."""
    cdef readonly TaintSets taint_sets
    cdef const int32_t[::1] key       # [toleration]; 0: any key
    cdef const int32_t[::1] value     # [toleration]
    cdef const int32_t[::1] effect    # [toleration]; 0: any effect
    cdef const int32_t[::1] operator  # [toleration]; an Operator
    cdef Py_ssize_t decided           # sets that have a verdict: the first `decided` entries of the arrays below
    cdef int32_t[::1] refusing        # [set]; 1 + the first taint that REFUSES and is not tolerated, 0: none
    cdef int32_t[::1] repelling       # [set]; how many taints REPEL and are not tolerated
    cdef int32_t[::1] cordoned        # [set]; 1: a taint CORDONS and is not tolerated
    cdef void extend(self)
    cdef bint tolerates(self, Py_ssize_t taint) noexcept nogil
    cdef void decide(self, Py_ssize_t taint_set) noexcept nogil
