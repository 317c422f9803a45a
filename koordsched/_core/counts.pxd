# Counts per row for which the table has no column, because each exists only as long as a plugin uses it, and sums of them over domains.
#
# A domain is the set of rows with the same value id of an attribute column, the topology key; value id 0 means that the row has no such
# key, so that it is in no domain. Loops over rows end at table.extent(): rows after that were never in use.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from koordsched._core.table cimport LogReader, NodeTable
from koordsched._core.view cimport CompiledPart

cdef class RowCounts:
    cdef object __weakref__
    cdef NodeTable table
    cdef int32_t[::1] count          # [row]; as long as the table's columns were when it last had to grow
    cdef readonly int64_t total      # sum over all rows
    cdef readonly int64_t version    # NodeTable.next_stamp at the last change that was not quiet; 0 before the first
    cdef int64_t turn                # NodeTable.turns when version_before was written
    cdef int64_t version_before      # the version when that turn began; NO_VERSION: these counts did not exist then

    cdef int reach(self, Py_ssize_t row) except -1
    cdef int ensure(self) except -1
    cdef int move(self, int64_t before) except -1

cdef class Changes:
    cdef NodeTable table
    cdef uint32_t kinds         # change bits that count
    cdef LogReader log          # up to which place the log is counted
    cdef int64_t counted        # what `version` returned last

cdef class Domains:
    cdef NodeTable table
    cdef Py_ssize_t attribute
    cdef Py_ssize_t values           # one more than the largest value id of an eligible row
    cdef int32_t[::1] domain         # [row in use when this was made] value id; 0: the row is left out
    cdef uint8_t[::1] is_present     # [value id] 1: the domain has an eligible row
    cdef readonly Py_ssize_t present  # such domains
    cdef bint leaves_out             # a live row is in none

cdef class DomainSums:
    cdef NodeTable table
    cdef Py_ssize_t attribute
    cdef int64_t[::1] sums           # [value id] as long as the largest value id seen needs; [0] is always 0
    cdef uint8_t[::1] is_present     # [value id] 1: the domain has an eligible row
    cdef bint shared                 # is_present is that of a Domains: to be copied before it is written to

    cdef int ensure(self) except -1

cdef class HiddenPods(CompiledPart):
    """Pods of a row that views take off all counts. Their classes are looked up when anything is counted for the first time."""
    cdef dict queries      # by whatever: empty while nothing is counted
    cdef object counts     # with `classes_of` and `add_of_class`
    cdef object pods
    cdef Py_ssize_t row
    cdef list classes      # (class, one of its pods, how many); None: not looked up

    cdef int add(self, int times) except -1
