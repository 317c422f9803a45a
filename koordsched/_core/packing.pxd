# How many members of each kind go to each node, found by a search in depth.

from libc.stdint cimport int32_t, int64_t, uint8_t

cdef class PackingSearch:
    cdef Py_ssize_t nodes
    cdef Py_ssize_t kinds
    cdef Py_ssize_t resources
    cdef Py_ssize_t classes
    cdef const int64_t[:, ::1] free        # [node, resource] what members may take
    cdef const int64_t[:, ::1] slots       # [node, class] how many of a class the node takes at most
    cdef const int64_t[:, ::1] units       # [class, resource] what a member takes
    cdef const uint8_t[::1] counted        # [class] 0: only slots say how many a node takes
    cdef const int32_t[::1] class_of       # [kind]
    cdef const int32_t[::1] gang_of        # [kind]
    cdef const int64_t[::1] sizes          # [kind] members
    cdef const int64_t[::1] needs          # [gang] how many members of its kinds have to be placed
    cdef dict forbidden                    # by node: [n, class] numbers of members that it does not take together
    cdef int64_t most_work
    cdef Py_ssize_t most_combinations      # of one node
    cdef readonly int64_t work             # done so far: about how many amounts were looked at
    cdef int64_t step_work                 # of a combination that is tried or begun
    cdef int64_t combination_work          # of one that is compared with others
    cdef int64_t[:, ::1] rest              # [node, class] slots of this node and all after it
    cdef int64_t[::1] left                 # [kind] members without a node
    cdef int64_t[::1] reach                # [gang] scratch
    # Scratch of the node whose combinations are built.
    cdef int64_t[::1] taken                # [kind] members of the combination at hand
    cdef int64_t[:, ::1] room              # [kind, resource] what is free before members of the kind are taken
    cdef int64_t[:, ::1] open              # [kind, class] slots, likewise
    cdef int64_t[:, ::1] built             # [combination, kind]
    cdef Py_ssize_t count                  # combinations built
    cdef int64_t[::1] there                # [class]
    cdef const int64_t[:, ::1] vectors     # those forbidden on this node
    cdef bint is_limited                   # whether there are any

    cdef bint _is_enough(self, Py_ssize_t node)
    cdef _add(self, tuple taken, int64_t sign)
    cdef list _options(self, Py_ssize_t node)
    cdef _empty(self, Py_ssize_t node)
    cdef _extend(self, Py_ssize_t k)
    cdef bint _is_allowed(self, const int64_t[::1] taken)
    cdef bint _has_room(self, Py_ssize_t node, int64_t[::1] taken)
    cdef double _use(self, Py_ssize_t node, const int64_t[::1] taken)
