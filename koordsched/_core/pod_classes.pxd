# The pods of each row by class, for counting those that a selector matches.
#
# All that a selector can read of a pod is a set of facts: its namespace, each of its labels, and that it is terminating. Facts have
# numbers, and pods with the same facts are of one class. A selector is then asked once per class, with one bit per requirement and fact,
# and the pods are counted by the classes' verdicts: no string is looked at, and no object of a pod.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef class PodClass:
    cdef bytes facts             # their numbers as int32, ascending
    cdef int32_t number          # index of PodClasses.classes, until the class ends
    cdef readonly int64_t pods   # how many there are, on all rows
    cdef public int64_t seen     # the caller's: which of its queries `matching` covers; 0 at first
    cdef public tuple matching   # the caller's: the queries that the class matches

cdef struct RowPods:
    int32_t* classes             # of each pod, in no order
    int32_t count
    int32_t room                 # how many there is memory for

cdef class PodClasses:
    cdef dict numbers            # key of a fact -> {value: its number}; no key without a value
    cdef int32_t[::1] uses       # [fact] classes that have it; 0: the number is free
    cdef list free_facts
    cdef Py_ssize_t known_facts  # numbers that were ever given
    cdef dict by_facts           # PodClass.facts -> PodClass
    cdef list classes            # [number] PodClass; None: the number is free
    cdef list free_classes
    cdef list emptied            # (PodClass, namespace, labels, terminating) that lost its last pod, the latest last; it may have one again
    cdef Py_ssize_t living       # classes with pods
    cdef RowPods* rows
    cdef Py_ssize_t capacity     # rows there is memory for
    cdef int32_t* scratch        # facts of the pod that is looked at
    cdef Py_ssize_t scratch_room

    cdef bytes facts_of(self, namespace, dict labels, bint terminating, bint create)
    cdef int32_t fact(self, key, value, bint create) except -2
    cdef int32_t new_fact(self) except -1
    cdef PodClass new_class(self, bytes facts)
    cdef int end_emptied(self) except -1
    cdef int end_class(self, PodClass ended, namespace, dict labels, bint terminating) except -1
    cdef int end_use(self, key, value) except -1
    cdef int reserve(self, Py_ssize_t row) except -1
    cdef bint match(self, list requirements, uint8_t[::1] verdict) except -1
