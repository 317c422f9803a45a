# Which devices of one type a pod gets (deviceshare.md §6.1, §6.3).

from libc.stdint cimport int16_t, int32_t, uint64_t

from koordsched._core.device_group cimport Desired
from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceGroup, DeviceScoring
from koordsched._core.device_table cimport LARGEST_GROUP, NO_BANDWIDTH, TYPES, DeviceTable, Partition, Positions, position

cdef enum:
    # Levels of scopes
    NODE_LEVEL = 1
    NUMA_LEVEL = 2
    PCIE_LEVEL = 3

cdef enum:
    PCIES = TYPES * LARGEST_GROUP  # PCIe ids that a node can have
    PCIE_WORDS = PCIES // 64

cdef struct Pcies:
    # A set of PCIe ids of a node
    uint64_t[PCIE_WORDS] word
    int count

cdef struct Taken:
    # Devices of one type, in the order in which they are given
    int count
    int16_t[LARGEST_GROUP] at
    int32_t[LARGEST_GROUP] vf      # place among the virtual functions of the type; -1: none
    Positions devices

cdef struct Outcome:
    Desired desired
    Taken[TYPES] taken
    bint from_template

# Take devices of one type; return why that is not possible, or 0. pcies: PCIe ids to spread over; NULL: none are preferred.
cdef int32_t take_devices(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    const DeviceGroup* group, int desired, const Pcies* pcies, Outcome* out
) noexcept nogil

# Write the PCIe ids of these devices.
cdef void pcies_of(const DeviceGroup* group, Positions devices, Pcies* pcies) noexcept nogil

cdef inline bint has_pcie(const Pcies* pcies, int pcie) noexcept nogil:
    return pcie >= 0 and pcies.word[pcie >> 6] >> (pcie & 63) & 1

cdef inline void add_pcie(Pcies* pcies, int pcie) noexcept nogil:
    if pcie >= 0 and not has_pcie(pcies, pcie):
        pcies.word[pcie >> 6] |= (<uint64_t> 1) << (pcie & 63)
        pcies.count += 1

cdef inline void give(Taken* taken, int at, int32_t vf) noexcept nogil:
    taken.at[taken.count] = <int16_t> at
    taken.vf[taken.count] = vf
    taken.devices |= position(at)
    taken.count += 1

cdef inline void give_all(Taken* taken, Positions devices, int count) noexcept nogil:
    cdef int at
    for at in range(count):
        if devices >> at & 1:
            give(taken, at, -1)

cdef inline void forget(Taken* taken) noexcept nogil:
    taken.count = 0
    taken.devices = 0

cdef inline bint is_suitable(const Partition* partition, DeviceRequest request, Positions usable, Positions included) noexcept nogil:
    """Answer whether a partition may be given. usable: GPUs that fit, nothing of them used. included: all of these must be in it."""
    if not partition.complete or included & ~partition.devices or partition.devices & ~usable:
        return False
    return request.bandwidth == NO_BANDWIDTH or (partition.bandwidth != NO_BANDWIDTH and partition.bandwidth >= request.bandwidth)
