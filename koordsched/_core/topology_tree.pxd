# Domains of a network in layers, and the placement of a group's members in them. Level 0 is the root, domain 0; the levels 1 to `depth`
# are the layers below it; the rows of the node table stand below the domains of level `depth`, as level depth + 1.

from libc.stdint cimport int32_t, int64_t, uint8_t

from koordsched._core.table cimport NodeTable

cdef enum:
    NO_DOMAIN = -1  # of a row that is outside of the tree, and of the root's parent
    FREE = -1       # level of an id that stands for no domain

cdef class TopologyTree:
    cdef readonly Py_ssize_t depth         # levels between the root and the rows
    cdef readonly Py_ssize_t domains       # ids of domains, free ones included
    cdef readonly Py_ssize_t rows          # rows that are known here; later ones are outside of the tree
    cdef const int32_t[::1] parent         # [domain]
    cdef const int32_t[::1] level          # [domain]
    cdef const int32_t[::1] rank           # [domain] its place in the order of names
    cdef const int32_t[::1] row_domain     # [row] the domain of level `depth` that it is in
    cdef const int32_t[::1] row_rank       # [row] its place in the order of names
    # Derived: domains by level, and what each contains, in segments.
    cdef int32_t[::1] order                # domains by level, ascending
    cdef int32_t[::1] level_end            # [level] where it ends in `order`
    cdef int32_t[::1] begin                # [domain] where its segment begins: in `children`, of rows if its level is `depth`
    cdef int32_t[::1] end
    cdef int32_t[::1] children             # domains by parent, without the root
    cdef int32_t[::1] members              # rows by domain

    cdef _check(self)
    cdef _arrange(self)

cdef class MemberPlacement:
    cdef TopologyTree tree
    cdef NodeTable table
    cdef Py_ssize_t classes                # of equal members
    cdef list requests                     # [class] a Request, None where amounts do not decide
    cdef int32_t[:, ::1] most              # [class, row] how many the row takes at most, by what is known of it alone
    cdef const int64_t[::1] wanted         # [class] members
    cdef const int32_t[::1] class_order    # classes in the order in which a row is filled
    cdef const int64_t[::1] multiple       # [level] members of a domain of it are a multiple of this
    cdef readonly int64_t demand           # sum of `wanted`
    cdef int64_t[::1] left                 # [class] members without a row, while a domain is filled
    cdef int64_t[::1] taken                # [resource] scratch: what members take of the row at hand; 0 in between
    cdef int64_t[::1] row_slots            # [row] how many members it takes if it is filled first
    cdef int64_t[::1] row_existing         # [row] pods that attract the members
    cdef int64_t[::1] slots                # [domain] sums over the rows, rounded down to multiples from below to above
    cdef int64_t[::1] existing             # [domain]
    cdef int32_t[::1] children             # as TopologyTree.children; the order within a segment changes
    cdef int32_t[::1] members              # as TopologyTree.members, likewise
    cdef uint8_t[::1] open_domain          # [domain] 1: all its members may be in it
    cdef uint8_t[::1] open_row
    cdef list placed                       # (row, class, members) of the domain at hand
    cdef bint is_broken                    # it holds a number that is no multiple

    cdef _by_row(self, const int32_t[::1] rows, const int64_t[::1] values)
    cdef _check_class(self, Py_ssize_t klass)
    cdef _check_level(self, Py_ssize_t level)
    cdef int64_t _fill_with_all(self, Py_ssize_t row, int64_t limit, bint record) except -1
    cdef int64_t _fill_row(self, Py_ssize_t row, int64_t limit) except -1
    cdef int64_t _fill_domain(self, Py_ssize_t domain, int64_t limit) except -1
    cdef void _open(self, Py_ssize_t level, const uint8_t[::1] allowed) noexcept
    cdef Py_ssize_t _best(self, Py_ssize_t level) noexcept
    cdef bint _is_better(self, Py_ssize_t a, Py_ssize_t b, bint rows) noexcept
    cdef bint _comes_first(self, int32_t a, int32_t b, bint rows) noexcept
    cdef Py_ssize_t _make_heap(self, int32_t[::1] items, Py_ssize_t begin, Py_ssize_t end, bint rows) noexcept
    cdef int32_t _pop(self, int32_t[::1] items, Py_ssize_t begin, Py_ssize_t size, bint rows) noexcept
    cdef void _sift(self, int32_t[::1] items, Py_ssize_t begin, Py_ssize_t size, Py_ssize_t i, bint rows) noexcept
