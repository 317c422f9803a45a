# What Filter says of a node's devices while preemption removes pods from it (deviceshare.md §13, framework.md §7.4).

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from koordsched._core.compiled_holdings cimport CompiledHoldings
from koordsched._core.device_feasibility cimport Counted
from koordsched._core.device_request cimport DeviceRequest
from koordsched._core.device_table cimport GPU_RESOURCES, TYPES, DeviceColumns, DeviceTable, Positions
from koordsched._core.numa_joint cimport NumaAlignment
from koordsched._core.removal_filter cimport RemovalFilter

cdef struct HeldCell:
    # What a pod holds of one device. 64 bytes: reading them takes as long as all that is done with them
    int64_t[GPU_RESOURCES] amount     # of the resources of the type
    int32_t vfs                       # the first of its virtual functions in RowHoldings.vfs
    int32_t vfs_end
    int8_t type
    int8_t at                         # position among those of the type
    uint8_t named                     # bit r: it holds something of resource r

cdef struct RowHoldings:
    # What the pods of a row hold, in the order of the index
    bint is_known                     # False: removing a pod means something else than that what it holds is free
    int32_t* first                    # [pod]: the first of its cells; one more entry than pods
    HeldCell* cells
    int32_t count                     # cells
    int32_t* vfs                      # places among the virtual functions of the type

cdef class DeviceHoldings(CompiledHoldings):
    cdef DeviceTable table
    cdef RowHoldings* rows            # [row]
    cdef Py_ssize_t capacity          # rows there is memory for

    cdef const RowHoldings* of(self, Py_ssize_t row) except NULL
    cdef bint _is_listed(self, Py_ssize_t index, held)

cdef class DeviceRemovals(RemovalFilter):
    cdef DeviceHoldings holdings
    cdef DeviceRequest request
    cdef NumaAlignment alignment      # where another filter has answered for the devices; None: nowhere
    cdef bint is_followed             # another kernel reads the columns elsewhere, too
    # Of the row that was begun with
    cdef const RowHoldings* row
    cdef Py_ssize_t index
    cdef bint is_aligned
    cdef bint takes_any               # `counted` decides
    cdef bint is_counted              # it does, and only `used` follows what is removed and put back
    cdef Counted counted
    cdef Positions fitting            # devices of the type that fit now, where they are counted
    cdef bint is_changed              # since the last `code`
    cdef Positions[TYPES] touched     # devices whose columns have to follow what is used
    cdef int32_t last                 # what `code` returned

    cdef void _move(self, Py_ssize_t i, int sign) noexcept
    cdef void _count(self, const HeldCell* held, const DeviceColumns* columns, Py_ssize_t cell) noexcept
