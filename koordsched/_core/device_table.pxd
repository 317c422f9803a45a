# The devices of all nodes: what each has, what pods hold of it, and where it sits (deviceshare.md §13, §19).
#
# A node stands here under an index that the node table has in one of its attribute columns, not under its row: its devices may be known
# before the node is and outlive it. Index 0 stands for a node of which nothing is known; its facts are never written.
#
# A cell is a device. The cells of one type of one node are [start, start + count), minors ascending; the place of a device among them is
# its position, and sets of devices are masks of positions. Listed devices have cells, and so have those that pods hold and no Device object
# lists any more. A resource counts here by its place among those of its type: GPU_CORE to NPU_DVPP are 0 to 5 of a GPU, RDMA and FPGA 0.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from koordsched._core.table cimport NodeTable

cdef extern from *:
    """
    typedef unsigned __int128 koordsched_positions;
    """
    ctypedef unsigned long long Positions "koordsched_positions"  # a set of positions; 128 bits wide, whatever Cython takes it for

cdef enum:
    # Device types, as device_facts.DeviceType
    GPU = 0
    RDMA = 1
    FPGA = 2
    TYPES = 3

cdef enum:
    GPU_RESOURCES = 6
    RESOURCES = 8        # of all types
    CORE = 0             # places among the resources of GPUs
    MEMORY = 1
    RATIO = 2
    WHOLE_GPU = 100      # percent: what a GPU has of cores and of the ratio of its memory
    LARGEST_SHARE = 127  # DeviceColumns.share
    LARGEST_GROUP = 128  # devices of a type on a node
    NO_TOPOLOGY = -2     # DeviceColumns.numa; -1: a topology without NUMA node
    NO_PCIE = -1         # DeviceColumns.pcie
    NO_BANDWIDTH = -1    # Partition.bandwidth

cdef enum:
    CHUNK = 8            # cells of a node are a multiple of it, so that most changes find room, and shares are read eight at a time

cdef enum:
    # Bits of DeviceNode.flags
    HAS_ENTRY = 1          # a Device object was seen, or pods hold devices; without it any pod may go there
    IS_DESCRIBED = 2       # a Device object was seen
    IS_WELL_PLANNED = 4    # every other type suffices wherever GPUs do
    HAS_PARTITIONS = 8     # there is a partition table, maybe an empty one
    HONORS_PARTITIONS = 16
    HAS_TREE = 32          # the place of every listed GPU is known
    HAS_VFS = 64           # bit HAS_VFS << type: some listed device of the type has groups of virtual functions
    HAS_FREE = 512         # bit HAS_FREE << type: something of the type is free, of whatever device
    HAS_PERCENT_GPUS = 4096  # every healthy GPU has WHOLE_GPU of cores and of the ratio of its memory

cdef enum:
    # Bits of DeviceColumns.state
    IS_LISTED = 1
    IS_HEALTHY = 2

cdef struct DeviceColumns:
    # The cells of one type. A column with resources has a part for each: resource r of a cell is at r * capacity + cell.
    Py_ssize_t capacity   # cells that there is room for
    Py_ssize_t end        # cells ever used
    uint32_t known        # bit r: some device has had, or some pod has held, something of resource r; of others all below is 0
    int64_t* total        # 0 of devices that are not healthy or not listed
    int64_t* used         # what pods hold
    int64_t* free         # max(0, total - used)
    int32_t* minor
    int32_t* labels       # label-set id
    int32_t* holds        # pods that hold something of it
    int16_t* pcie         # place of its PCIe id among those of the node, as strings; NO_PCIE
    int8_t* numa          # NO_TOPOLOGY, -1 or 0..63
    uint8_t* state
    uint8_t* share        # what is free: of a GPU's cores and ratio the smaller one; at most LARGEST_SHARE

cdef struct Cells:
    int32_t start
    int32_t count
    int32_t room          # cells from start on that are this node's; like start a multiple of CHUNK

cdef struct Masks:
    # Of the devices of one type of one node
    Positions listed
    Positions healthy     # some total is not 0
    Positions held        # something of it is used
    Positions busy        # less than all of it is free
    Positions available   # something of it is free

cdef struct Scope:
    # A NUMA node, followed by its PCIe switches
    Positions devices
    int32_t level         # 2 NUMANode, 3 PCIe
    int32_t size          # devices
    int32_t next          # place of the next one that is not within it

cdef struct Partition:
    Positions devices
    int64_t score
    int64_t bandwidth     # NO_BANDWIDTH
    int32_t count         # GPUs that it is listed for
    bint complete         # it names as many minors as it is listed for, and all have positions

cdef struct VirtualFunction:
    int32_t bus           # id of its bus id
    int32_t labels        # label-set id of its group
    int32_t minor
    int32_t used          # pods that hold it

cdef struct NodeShape:
    # What changes with the Device object alone. Nodes that are alike share their scopes and partitions.
    const Scope* scopes
    const Partition* partitions   # by count, then score, then as listed
    const Positions* switches     # [PCIe id * TYPES + type]: the listed devices there; NULL: no device has a PCIe id
    int32_t scope_count
    int32_t partition_count
    VirtualFunction* vfs[TYPES]   # of each device those of its groups, by bus id
    int32_t* vf_start[TYPES]      # [position]: the first of its vfs; one more entry than devices. NULL: none has any

cdef struct DeviceNode:
    Cells cells[TYPES]
    uint32_t flags
    int32_t model         # id of vendor and model
    int32_t isolation     # id of the isolation provider; 0: none
    int32_t pcies         # PCIe ids of all devices
    int32_t holders       # pods that hold devices, as the plugin says
    uint64_t numa_ids     # of all devices, unknown types included

cdef class DeviceTable:
    cdef readonly NodeTable nodes
    cdef readonly Py_ssize_t index_attribute  # the attribute column that holds a row's index
    cdef readonly Py_ssize_t capacity         # indexes that there is room for
    cdef DeviceColumns[TYPES] columns
    cdef DeviceNode* node                     # [index]
    cdef NodeShape* shape                     # [index]
    cdef Masks* masks                         # [index * TYPES + type]
    cdef int64_t* sums                        # [(index * RESOURCES + resource) * 2] of listed devices: the total, then what is free
    cdef dict _spare                          # (type, room) -> starts of cells that are no node's
    cdef dict _layouts                        # scopes or partitions as bytes -> [the bytes that nodes share, how many do]
    cdef dict _layouts_of                     # index -> [those of the node]
    cdef dict _described                      # index -> NodeDevices
    cdef dict _laid_out                       # id of NodeDevices -> an index that was laid out by them, if it is described by them still
    cdef dict _accelerators                   # index -> NodeAccelerators
    cdef dict _vfs_held                       # (index, type, minor) -> {bus id: pods that hold it}
    cdef list label_sets                      # [id] mapping of labels; 0: the empty one
    cdef dict _label_ids
    cdef list models                          # [id] (vendor, model)
    cdef dict _model_ids
    cdef dict isolation_ids                   # name of a provider -> id
    cdef list bus_names                       # [id] bus id of a virtual function
    cdef dict bus_ids

    cdef int check(self, Py_ssize_t index) except -1
    cdef Py_ssize_t find(self, Py_ssize_t index, int type, int64_t minor) noexcept nogil   # the cell, -1: none
    cdef void settle(self, Py_ssize_t index, int type, Py_ssize_t cell) noexcept nogil     # after `used` changed
    cdef int rebuild(self, Py_ssize_t index) except -1
    cdef int _change(self, Py_ssize_t index, held, int sign) except -1
    cdef Py_ssize_t _admit(self, Py_ssize_t index, int type, int64_t minor) except -2
    cdef bint _copy_layout(self, Py_ssize_t index, devices) except -1
    cdef bint _is_held(self, Py_ssize_t index, int type) noexcept nogil
    cdef int _copy_cells(self, Py_ssize_t index, Py_ssize_t source, int type) except -1
    cdef int _copy_shape(self, Py_ssize_t index, Py_ssize_t source) except -1
    cdef int _shape(self, Py_ssize_t index) except -1
    cdef int _write_totals(self, int64_t* sums, int type, Py_ssize_t cell, device) except -1
    cdef int hold_vfs(self, Py_ssize_t index, int type, int64_t minor, vfs, int sign) except -1
    cdef int _mark_vfs(self, Py_ssize_t index, int type, Py_ssize_t cell) except -1
    cdef const void* _share(self, Py_ssize_t index, char* written, Py_ssize_t size) except NULL
    cdef bint _has_percent_gpus(self, Py_ssize_t index) noexcept
    cdef int _forget_shape(self, Py_ssize_t index) except -1
    cdef _amounts(self, int type, const int64_t* column, Py_ssize_t cell)
    cdef int _make_room(self, int type, Cells* cells, int count) except -1
    cdef int _release(self, int type, Cells* cells) except -1
    cdef int _take(self, int type, Cells* cells, int count) except -1
    cdef int _widen(self, int type, Py_ssize_t capacity) except -1

# Return an amount within 0 and the largest one that is counted.
cdef int64_t cut_amount(object amount) except? -1

cdef inline Py_ssize_t index_of(DeviceTable table, Py_ssize_t row) noexcept nogil:
    """Return the index of a row's node, 0 when nothing was ever known of it."""
    cdef Py_ssize_t index = table.nodes.attribute[table.index_attribute, row]
    return index if index < table.capacity else 0

cdef inline int resources_of(int type) noexcept nogil:
    return GPU_RESOURCES if type == GPU else 1

cdef inline int first_resource(int type) noexcept nogil:
    """Return the DeviceResource of the first resource of a type."""
    return 0 if type == GPU else GPU_RESOURCES - 1 + type

cdef inline Positions position(int at) noexcept nogil:
    return (<Positions> 1) << at

cdef inline int bits64(uint64_t mask) noexcept nogil:
    mask = mask - ((mask >> 1) & <uint64_t> 0x5555555555555555)
    mask = (mask & <uint64_t> 0x3333333333333333) + ((mask >> 2) & <uint64_t> 0x3333333333333333)
    mask = (mask + (mask >> 4)) & <uint64_t> 0x0F0F0F0F0F0F0F0F
    return <int> ((mask * <uint64_t> 0x0101010101010101) >> 56)

cdef inline int size_of(Positions mask) noexcept nogil:
    cdef uint64_t high = <uint64_t> (mask >> 64)
    return bits64(<uint64_t> mask) + (bits64(high) if high else 0)

cdef inline uint64_t having_share8(const uint8_t* share, int least) noexcept nogil:
    """Return which of eight shares are at least so much, 0 to LARGEST_SHARE."""
    cdef uint64_t eight
    memcpy(&eight, share, 8)
    # Each byte has its highest bit after this if it is large enough; the product brings these bits together, the first one lowest.
    eight = ((eight | <uint64_t> 0x8080808080808080) - <uint64_t> least * <uint64_t> 0x0101010101010101) & <uint64_t> 0x8080808080808080
    return (eight >> 7) * <uint64_t> 0x0102040810204080 >> 56

cdef inline Positions having_share(const uint8_t* share, int count, int least) noexcept nogil:
    """Return the same of so many; count is rounded up to eights."""
    cdef Positions found = 0
    cdef int at
    for at in range(0, count, 8):
        found |= <Positions> having_share8(share + at, least) << at
    return found
