"""Devices of several types together, on the same PCIe switches where that is asked for (deviceshare.md §6.2).

The primary type is taken first, and the others near it. Where they cannot be had on just its switches, all sets of switches are searched,
so that a pod is refused only if there is none.
"""

from libc.stdint cimport int16_t, int32_t
from libc.string cimport memset

from koordsched._core.device_group cimport JOINT_VIOLATION, NO_PRIMARY, PASS, free_vf
from koordsched._core.device_request cimport ONE_TEMPLATE, DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceGroup, DeviceScoring
from koordsched._core.device_selection cimport (
    NODE_LEVEL,
    PCIE_WORDS,
    PCIES,
    Outcome,
    Pcies,
    add_pcie,
    forget,
    give,
    has_pcie,
    is_suitable,
    pcies_of,
    take_devices,
)
from koordsched._core.device_table cimport (
    GPU,
    HAS_TREE,
    HONORS_PARTITIONS,
    TYPES,
    DeviceNode,
    DeviceTable,
    NodeShape,
    Partition,
    Positions,
    position,
)

cdef enum:
    SEARCHED = 16                  # PCIe switches up to which all sets of them are tried

cdef struct Search:
    int types                                # that are allocated together
    int[TYPES] type
    bint[TYPES] exact                        # no more than `need`, however many switches there are
    int[TYPES] need
    Positions[TYPES] usable
    int[TYPES] elsewhere                     # usable devices whose place is not known
    int16_t[PCIES] pcie                      # switches with a usable device of every type
    int switches
    int16_t on[TYPES][PCIES]                 # [place among those switches]: usable devices there


cdef int32_t take_jointly(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    DeviceGroup* groups, Outcome* out
) noexcept nogil:
    cdef int primary = request.joint[0]
    cdef int i, type, desired
    cdef Pcies pcies, others
    cdef int32_t code = take_devices(table, request, index, adjustment, scoring, &groups[primary], out.desired.count[primary], NULL, out)
    if code != PASS:
        return code
    if out.taken[primary].count == 0:
        return NO_PRIMARY
    pcies_of(&groups[primary], out.taken[primary].devices, &pcies)
    for i in range(1, request.joint_count):
        type = request.joint[i]
        if not out.desired.asks[type]:
            continue
        desired = out.desired.count[type]
        if request.same_pcie and desired < pcies.count:
            desired = pcies.count
        code = take_devices(table, request, index, adjustment, scoring, &groups[type], desired, &pcies, out)
        if code != PASS:
            break
    if code == PASS and request.same_pcie:
        for i in range(1, request.joint_count):
            type = request.joint[i]
            if out.desired.asks[type]:
                pcies_of(&groups[type], out.taken[type].devices, &others)
                if not _equal(&pcies, &others):
                    code = JOINT_VIOLATION
    if code != PASS and request.same_pcie and _search(table, request, index, adjustment, groups, out):
        return PASS
    return code


cdef bint _equal(const Pcies* one, const Pcies* other) noexcept nogil:
    cdef int i
    for i in range(PCIE_WORDS):
        if one.word[i] != other.word[i]:
            return False
    return True


# By search: other primary devices than those that were taken first may have what the others need on their switches


cdef bint _search(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceGroup* groups, Outcome* out
) noexcept nogil:
    """Find devices of all joint types on the same PCIe switches, on as few of them as possible; answer whether there are some."""
    cdef const DeviceNode* node = &table.node[index]
    cdef Search search
    cdef int i, at, type
    search.types = 0
    for i in range(request.joint_count):
        type = request.joint[i]
        if out.desired.asks[type]:
            search.type[search.types] = type
            search.exact[search.types] = type == GPU or i == 0
            search.need[search.types] = out.desired.count[type] if out.desired.count[type] > 0 else 1
            search.usable[search.types] = groups[type].fitting & (groups[type].required if groups[type].required else groups[type].fitting)
            if type == GPU:
                search.usable[search.types] = groups[type].fitting & groups[type].healthy
            if request.vf_matches[type] != NULL and (type != GPU or not node.flags & HAS_TREE):
                for at in range(groups[type].count):
                    if search.usable[search.types] >> at & 1 and free_vf(table, request, index, adjustment, type, at) < 0:
                        search.usable[search.types] &= ~position(at)
            search.types += 1
    for i in range(search.types):
        if search.type[i] == GPU:
            return _search_gpus(table, request, index, adjustment, groups, &search, i, out)
    return _search_switches(table, request, index, adjustment, groups, &search, out)


cdef bint _search_gpus(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceGroup* groups,
    Search* search, int place, Outcome* out
) noexcept nogil:
    """Search within each set of GPUs that partitions and the required scope allow."""
    cdef const DeviceNode* node = &table.node[index]
    cdef const NodeShape* shape = &table.shape[index]
    cdef const Partition* partitions = shape.partitions
    cdef Positions usable = search.usable[place], whole = groups[GPU].fitting & groups[GPU].healthy & ~groups[GPU].busy
    cdef int i, first = -1
    if request.template_of != NULL:
        out.from_template = request.template_of[node.model] == ONE_TEMPLATE
    if not request.shared and (request.by_partition or node.flags & HONORS_PARTITIONS):
        for i in range(shape.partition_count):
            if partitions[i].count != request.count[GPU]:
                continue
            first = i if first < 0 else first
            if request.first_group and partitions[i].score != partitions[first].score:
                return False
            if not is_suitable(&partitions[i], request, whole, groups[GPU].included):
                continue
            search.usable[place] = partitions[i].devices
            if _search_switches(table, request, index, adjustment, groups, search, out):
                return True
        return False
    if request.scope <= NODE_LEVEL:
        return _search_switches(table, request, index, adjustment, groups, search, out)
    for i in range(shape.scope_count):
        if shape.scopes[i].level >= request.scope:
            search.usable[place] = usable & shape.scopes[i].devices
            if _search_switches(table, request, index, adjustment, groups, search, out):
                return True
    return False


cdef bint _search_switches(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceGroup* groups,
    Search* search, Outcome* out
) noexcept nogil:
    """Choose the switches: as few as will do, and of so many those that leave the fewest primary devices over."""
    cdef int[PCIES] chosen
    cdef int[PCIES] best
    cdef int size, i, most, left, least
    _count_switches(groups, search, table.node[index].pcies)
    most = search.switches
    for i in range(search.types):
        if search.exact[i] and search.need[i] < most:
            most = search.need[i]
    for size in range(most + 1):
        least = -1
        if search.switches > SEARCHED:
            # Too many for all sets: those with the most devices.
            if _widest(search, size, chosen) and _left_over(search, chosen, size) >= 0:
                least = 0
                best = chosen
        else:
            for i in range(size):
                chosen[i] = i
            while True:
                left = _left_over(search, chosen, size)
                if left >= 0 and (least < 0 or left < least):
                    least = left
                    best = chosen
                if not _next_set(chosen, size, search.switches):
                    break
        if least >= 0:
            _take_on(table, request, index, adjustment, groups, search, best, size, out)
            return True
    return False


cdef void _count_switches(const DeviceGroup* groups, Search* search, int pcies) noexcept nogil:
    cdef int16_t on[TYPES][PCIES]
    cdef int i, at, pcie
    cdef const DeviceGroup* group
    cdef bint every
    for i in range(search.types):
        memset(on[i], 0, pcies * sizeof(int16_t))
    for i in range(search.types):
        group = &groups[search.type[i]]
        search.elsewhere[i] = 0
        for at in range(group.count):
            if search.usable[i] >> at & 1:
                if group.pcie[at] < 0:
                    search.elsewhere[i] += 1
                else:
                    on[i][group.pcie[at]] += 1
    search.switches = 0
    for pcie in range(pcies):
        every = True
        for i in range(search.types):
            every = every and on[i][pcie] > 0
        if every:
            search.pcie[search.switches] = <int16_t> pcie
            for i in range(search.types):
                search.on[i][search.switches] = on[i][pcie]
            search.switches += 1


cdef int _left_over(const Search* search, const int* chosen, int size) noexcept nogil:
    """Return how many primary devices of these switches would be left; -1: some type has too few there."""
    cdef int i, j, found, left = 0
    for i in range(search.types):
        found = search.elsewhere[i]
        for j in range(size):
            found += search.on[i][chosen[j]]
        if found < search.need[i]:
            return -1
        if i == 0:
            left = found - search.need[i]
    return left


cdef bint _next_set(int* chosen, int size, int count) noexcept nogil:
    """Make the next set of so many places below count, in lexicographic order; answer whether there is one."""
    cdef int i = size - 1, j
    while i >= 0 and chosen[i] == count - size + i:
        i -= 1
    if i < 0:
        return False
    chosen[i] += 1
    for j in range(i + 1, size):
        chosen[j] = chosen[j - 1] + 1
    return True


cdef bint _widest(const Search* search, int size, int* chosen) noexcept nogil:
    """Choose so many switches, those with the most of the type that is the scarcest."""
    cdef int i, j, scarcest = 0, place, best
    cdef int[TYPES] total
    cdef bint taken
    for i in range(search.types):
        total[i] = search.elsewhere[i] - search.need[i]
        for j in range(search.switches):
            total[i] += search.on[i][j]
        if total[i] < total[scarcest]:
            scarcest = i
    for place in range(size):
        best = -1
        for j in range(search.switches):
            taken = False
            for i in range(place):
                taken = taken or chosen[i] == j
            if not taken and (best < 0 or search.on[scarcest][j] > search.on[scarcest][best]):
                best = j
        if best < 0:
            return False
        chosen[place] = best
    return True


cdef void _take_on(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceGroup* groups,
    const Search* search, const int* chosen, int size, Outcome* out
) noexcept nogil:
    """Take one device of each type on each of these switches, and then what is still needed on them or elsewhere."""
    cdef int i, j, at, type, left
    cdef Positions devices
    cdef Pcies pcies
    cdef const DeviceGroup* group
    memset(&pcies, 0, sizeof(Pcies))
    for j in range(size):
        add_pcie(&pcies, search.pcie[chosen[j]])
    for i in range(search.types):
        type = search.type[i]
        group = &groups[type]
        devices = 0
        for j in range(size):
            for at in range(group.count):
                if search.usable[i] >> at & 1 and group.pcie[at] == search.pcie[chosen[j]]:
                    devices |= position(at)
                    break
        left = search.need[i] - size
        for at in range(group.count):
            if left <= 0:
                break
            if search.usable[i] >> at & 1 and not devices >> at & 1 and (group.pcie[at] < 0 or has_pcie(&pcies, group.pcie[at])):
                devices |= position(at)
                left -= 1
        forget(&out.taken[type])
        for at in range(group.count):
            if devices >> at & 1:
                give(
                    &out.taken[type], at,
                    free_vf(table, request, index, adjustment, type, at) if request.vf_matches[type] != NULL and type != GPU else -1,
                )
