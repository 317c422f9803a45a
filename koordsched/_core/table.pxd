# The node table. Every array has `capacity` entries in its last dimension; row r of all of them is one node.
# A row is free, or in use; a row in use is live (a node that pods may go to) or a ghost (pods are counted on it, its node is not known).

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    RESOURCE_PODS = 0     # resource id of "number of pods": each pod requests 1
    RESOURCE_CPU = 1      # milli-cores
    RESOURCE_MEMORY = 2   # bytes
    LOG_SIZE = 1 << 16    # entries the change log keeps; a power of two
    NO_TURN = -1          # NodeTable.turn_start
    UNDONE_TURNS = 16     # rewound turns that are remembered for readers that took part in them

cdef class Request:
    """What one pod adds to a row."""
    cdef const int32_t[::1] ids         # resource ids; ids[0] is RESOURCE_PODS
    cdef const int64_t[::1] amounts     # same length; > 0
    cdef Py_ssize_t counted             # the first so many are added to rows; the others are of resources that no row has, in a column of 0
    cdef int32_t largest                # of the ids
    cdef readonly tuple names           # of the resources, if the caller gave them
    cdef readonly int64_t nonzero_cpu     # milli-cores with the default for containers that ask for none
    cdef readonly int64_t nonzero_memory  # bytes, likewise

cdef class NodeTable:
    cdef readonly Py_ssize_t capacity     # rows allocated; a multiple of 64
    cdef readonly Py_ssize_t resources    # resource columns in use
    cdef readonly Py_ssize_t attributes   # attribute columns in use
    cdef readonly Py_ssize_t live_count   # live rows
    cdef readonly int64_t existence       # counts every time a row became live or ceased to be
    cdef int64_t[:, ::1] allocatable      # [resource, row]; 0 where the node does not offer the resource
    cdef int64_t[:, ::1] requested        # [resource, row]; sum over the row's pods
    cdef int64_t[:, ::1] nonzero          # [0 cpu, 1 memory; row]; sum of the pods' nonzero amounts
    cdef int32_t[:, ::1] attribute        # [attribute, row]; an interned id, 0 where absent
    cdef uint64_t[:, ::1] bit             # [bit column, row // 64]; bit row % 64
    cdef int32_t[::1] bit_count           # [bit column]; rows whose bit is set
    cdef uint8_t[::1] live                # [row]; 1: live
    # The change log: entry i is at i & (LOG_SIZE - 1), and is kept until entry i + LOG_SIZE is written. [0:log_end[ is what has happened;
    # the entries of an undone turn are no part of it, and later ones are written over them.
    cdef readonly int64_t log_end
    cdef int64_t log_high                 # the largest log_end so far
    cdef int32_t[::1] log_row
    cdef uint32_t[::1] log_change         # a mask of kinds of change
    # Scratch of `changes_since`: slot[row] is the row's place in the answer if stamp[row] == round.
    cdef int64_t[::1] stamp
    cdef int32_t[::1] slot
    cdef int64_t round
    cdef int64_t[::1] touched             # [row] the stamp of its last change, logged or not: see touch
    # Turns: changes that may be undone together (`begin_turn`).
    cdef int64_t turn_start               # log_end when the turn began; NO_TURN outside of one
    cdef readonly int64_t turns           # that have begun
    cdef readonly int64_t rewinds         # that were undone and taken out of the log
    cdef list undone                      # the last of these, as UndoneTurn, oldest first
    cdef list journal                     # what to call when the turn is rewound, in the order in which it was asked for
    cdef int64_t stamp_count              # stamps given so far: see next_stamp
    cdef dict _free_rows  # row -> None: the last one freed is used first
    cdef dict _free_bits
    cdef Py_ssize_t _next_row
    cdef Py_ssize_t _next_bit
    cdef object _live_rows

    cdef Py_ssize_t extent(self) noexcept   # rows ever used, rounded up to a multiple of 64: loops over all rows end here
    cdef void log(self, Py_ssize_t row, uint32_t change) noexcept
    cdef int64_t take_stamp(self) noexcept
    cdef int check_row(self, Py_ssize_t row) except -1
    cdef int check_bit(self, Py_ssize_t column) except -1

cdef void apply_request(NodeTable table, Py_ssize_t row, Request request, int64_t sign) noexcept  # adds (1) or subtracts (-1) it

cdef class UndoneTurn:
    """What the log held of a turn that was rewound."""
    cdef int64_t start                    # the table's turn_start
    cdef const int32_t[::1] rows          # each row that was changed, once,
    cdef const uint32_t[::1] changes      # and all kinds of change that it saw

cdef class LogReader:
    # One reader's place in the log. An object that keeps something derived from the table's rows has one.
    cdef NodeTable table
    cdef readonly int64_t position        # the reader knows [0:position[ of the log
    cdef int64_t rewinds                  # NodeTable.rewinds when the reader was last up to date
    cdef bint tentative                   # it was in a turn then, so that what it knows may be undone
    cdef UndoneTurn undone                # set by `reaches`: changes that the reader has taken in but that were undone; None as a rule

    cdef bint is_current(self)
    cdef bint reaches(self)
    cdef bint _knows_no_undone(self)
    cdef UndoneTurn _first_rewound(self)
    cdef void done(self) noexcept
