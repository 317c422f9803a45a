# What a class of equal pods asks of devices, and what one pod may take of one node besides or instead of what is free.

from libc.stdint cimport int32_t, int64_t, uint8_t

from koordsched._core.device_table cimport GPU, GPU_RESOURCES, IS_WELL_PLANNED, LARGEST_GROUP, TYPES, DeviceTable

cdef enum:
    NO_SCOPE = -1        # DeviceRequest.scope
    NO_TEMPLATE_OF = 0   # DeviceRequest.template_of: no template of the model is what is asked for,
    ONE_TEMPLATE = 1     # or one is,
    MORE_TEMPLATES = 2   # or several are

cdef class DeviceRequest:
    cdef readonly bint shared              # a part of each GPU
    cdef readonly int type_count           # types that are asked for
    cdef int[TYPES] types                  # which they are, ascending
    cdef bint[TYPES] asks
    cdef int32_t[TYPES] count              # devices of each type
    cdef bint[TYPES] for_all               # as many as there are instead
    cdef int64_t amount[TYPES][GPU_RESOURCES]   # [resource] of each device; 0 of what is not named
    cdef int[TYPES] named_count
    cdef int named[TYPES][GPU_RESOURCES]   # resources that are named
    cdef int[TYPES] share                  # what DeviceColumns.share must be for a device to fit; -1: it does not say
    cdef bint takes_vfs                    # virtual functions of some type are asked for
    cdef int[TYPES] joint                  # types that are allocated together; the first is the primary one
    cdef int joint_count
    cdef bint same_pcie
    cdef bint by_partition                 # the pod demands a partition
    cdef bint first_group                  # ... of the first group
    cdef int64_t bandwidth                 # ... with at least this; NO_BANDWIDTH: any
    cdef int scope                         # level within which GPUs must be; NO_SCOPE
    cdef bint plain                        # GPUs only, by amounts only
    # What depends on what the table has interned; see `prepare`. Pointers into the bytearrays below.
    cdef DeviceTable table                 # for which it is prepared
    cdef int32_t isolation                 # id of the provider that the node must have; 0: any
    cdef uint8_t* matches[TYPES]           # [label-set id] the selector matches; NULL: there is none
    cdef uint8_t* vf_matches[TYPES]        # [label-set id] likewise of virtual functions; NULL: none are asked for
    cdef uint8_t* template_of              # [model id] *_TEMPLATE; NULL: templates do not matter
    cdef uint8_t* unshareable              # [model id] shares of the model's GPUs are not supported; NULL: of all they are
    cdef Py_ssize_t known_labels
    cdef Py_ssize_t known_models
    cdef list _selectors
    cdef list _vf_selectors
    cdef dict templates                    # "<vendor>-<model>" -> names
    cdef frozenset _unshareable
    cdef str _isolation_provider
    cdef dict _buffers                     # name -> bytearray that a pointer above points into

    cdef int prepare(self, DeviceTable table) except -1   # before anything without the GIL
    cdef int _read_type(self, int type, demand) except -1
    cdef int _share_of(self, int type) noexcept
    cdef int _extend(self, DeviceTable table) except -1
    cdef uint8_t* _asked(self, name, predicate, known) except NULL

cdef struct Amounts:
    # Of one device
    int type
    int64_t minor
    int64_t[GPU_RESOURCES] amount
    bint[GPU_RESOURCES] is_named
    bint is_empty        # nothing is named

cdef struct Minors:
    # A set of devices of one type; count 0 with is_set: the empty set
    bint is_set
    int count
    int64_t* minor

cdef struct Buses:
    # Virtual functions of one device
    int type
    int64_t minor
    int count
    int32_t* bus

cdef class DeviceAdjustment:
    cdef Amounts* reusable
    cdef int reusable_count
    cdef Amounts* required
    cdef int required_count
    cdef bint[TYPES] requires              # what is required holds for the type
    cdef bint complete                     # memory and ratio of what is required follow from each other
    cdef bint changes_amounts              # reusable or required say something
    cdef Minors[TYPES] preferred
    cdef Minors[TYPES] required_minors
    cdef Minors[TYPES] only
    cdef Minors[TYPES] included
    cdef Buses* freed_vfs
    cdef int freed_count
    cdef Buses* only_vfs
    cdef int only_vfs_count
    # Scratch: what is free on the node looked at; resource r of a position is at r * LARGEST_GROUP + position.
    cdef int64_t free[TYPES][GPU_RESOURCES * LARGEST_GROUP]
    cdef dict _freed_names
    cdef dict _only_names
    cdef list _memory                      # keeps what the pointers point into

    cdef Amounts* _amounts(self, by_type, int* count) except? NULL
    cdef int _minors(self, Minors* sets, by_type) except -1
    cdef Buses* _buses(self, by_type, int* count, names) except? NULL
    cdef int prepare(self, DeviceTable table) except -1

cdef bint has_minor(const Minors* minors, int64_t minor) noexcept nogil

cdef inline bint is_skipped(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type) noexcept nogil:
    """Answer whether a type need not be looked at before Reserve, since whole GPUs of the node never lack it (deviceshare.md §6)."""
    return (
        request.joint_count > 0 and type != request.joint[0] and request.asks[GPU] and not request.shared
        and table.node[index].flags & IS_WELL_PLANNED != 0
    )
