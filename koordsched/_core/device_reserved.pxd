# Which reservations of a row have the devices that a pod asks for (deviceshare.md §8).

cimport cython
from libc.stdint cimport int32_t, int64_t, uint64_t

from koordsched._core.device_request cimport Amounts, Buses, DeviceAdjustment, DeviceRequest
from koordsched._core.device_table cimport TYPES, DeviceTable
from koordsched._core.reserved_source cimport ReservedSource


@cython.no_gc  # there may be as many as reservations, and none refers to what refers to it
cdef class LeftDevices:
    """What a reservation has left, or a pod holds, ascending by type and minor, each device once."""
    cdef DeviceTable table
    cdef readonly bint restricted      # its owners get what it has, and nothing else
    cdef readonly bint plain           # the table counts the same: it can, no device was there twice, and no minor or amount was cut
    cdef int count                     # of devices
    cdef Amounts* amounts
    cdef int64_t* minors               # of the same devices, in the same memory
    cdef int[TYPES + 1] first          # [type]: the first device of the type
    cdef list vfs                      # (type, minor, bus ids) of those with virtual functions
    cdef int bus_count
    cdef Buses* buses                  # of the same
    cdef int32_t* bus                  # ids that these point to
    cdef Py_ssize_t known_buses        # bus ids of the table when they were looked up

    cdef int _allocate(self, held) except -1
    cdef int _add(self, int type, int64_t minor, dict amounts) except -1
    cdef int look_up_buses(self) except -1
    cdef bint is_listed(self, Py_ssize_t index) noexcept
    cdef bint is_known_on(self, Py_ssize_t index) noexcept
    cdef int count_on(self, Py_ssize_t index, int sign) except -1

cdef class WayToTake(DeviceAdjustment):
    """How devices may be taken where a reservation has something left: written anew for each reservation, of which it has no copy."""
    cdef LeftDevices left
    cdef void take_alone(self, LeftDevices left) noexcept
    cdef void take_only(self, LeftDevices left) noexcept
    cdef void prefer(self, LeftDevices left) noexcept
    cdef void _clear(self, LeftDevices left) noexcept

cdef class ReservedDevices(ReservedSource):
    cdef DeviceTable table
    cdef DeviceRequest request
    cdef dict given                    # by uid: reservations that were given devices
    cdef dict known                    # by uid: LeftDevices of these, as far as they were asked for
    cdef object compile_left
    cdef bint demanded                 # the pod may only go where it is given a reservation
    cdef bint aligned                  # devices come from the NUMA nodes that the pod is aligned to

    cdef LeftDevices left(self, uid)
    cdef int32_t _try(self, Py_ssize_t index, DeviceAdjustment way, uint64_t mask) noexcept
