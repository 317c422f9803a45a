"""Which devices of one node a pod gets, or why it gets none (deviceshare.md §6).

What Filter asks for all rows, hints ask for sets of NUMA nodes, and Reserve asks for the node that was chosen is this same code: the latter
has a scoring by which it prefers devices, and nothing that is feasible without one is infeasible with it.

Devices of one node are positions, minors ascending, and a set of them is a mask.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t
from libc.string cimport memset

from koordsched._core.device_facts import Allocated, DeviceResource, DeviceType
from koordsched._core.device_request cimport (
    NO_SCOPE,
    NO_TEMPLATE_OF,
    ONE_TEMPLATE,
    Amounts,
    Buses,
    DeviceAdjustment,
    DeviceRequest,
    Minors,
    has_minor,
    is_skipped,
)
from koordsched._core.device_score cimport DeviceGroup, DeviceScoring
from koordsched._core.device_table cimport (
    GPU,
    HAS_ENTRY,
    HAS_PARTITIONS,
    HAS_TREE,
    HAS_VFS,
    HONORS_PARTITIONS,
    LARGEST_GROUP,
    MEMORY,
    NO_BANDWIDTH,
    NO_TOPOLOGY,
    RATIO,
    TYPES,
    Cells,
    DeviceColumns,
    DeviceNode,
    DeviceTable,
    Masks,
    NodeShape,
    Partition,
    Positions,
    Scope,
    VirtualFunction,
    first_resource,
    index_of,
    position,
    resources_of,
    size_of,
)

cdef enum:
    PCIES = TYPES * LARGEST_GROUP  # PCIe ids that a node can have
    PCIE_WORDS = PCIES // 64
    SEARCHED = 16                  # PCIe switches up to which all sets of them are tried
    NODE_LEVEL = 1
    NUMA_LEVEL = 2
    PCIE_LEVEL = 3

cdef struct Pcies:
    # A set of PCIe ids of a node
    uint64_t[PCIE_WORDS] word
    int count

cdef struct Answer:
    # What a scope would give
    Positions devices    # 0: nothing
    int depth
    int in_use           # scopes on the way to it in which something is in use
    int64_t score


# What the node has


cdef int32_t check_labels(DeviceTable table, DeviceRequest request, Py_ssize_t index) noexcept nogil:
    if not request.shared:
        return PASS
    if request.isolation and table.node[index].isolation != request.isolation:
        return NO_ISOLATION_PROVIDER
    if request.unshareable != NULL and request.unshareable[table.node[index].model]:
        return SHARE_UNSUPPORTED | table.node[index].model << DETAIL_BITS
    return PASS


cdef int32_t read_desired(DeviceTable table, DeviceRequest request, Py_ssize_t index, bint reserve, Outcome* out) noexcept nogil:
    cdef int type
    for type in range(TYPES):
        out.asks[type] = request.asks[type] and (reserve or not is_skipped(table, request, index, type))
        out.desired[type] = request.count[type] if out.asks[type] else 0
        if not out.asks[type]:
            continue
        if request.for_all[type]:
            out.desired[type] = _matching(table, request, index, type)
        if table.node[index].cells[type].count == 0 or (request.for_all[type] and out.desired[type] == 0):
            return NO_DEVICES | type << DETAIL_BITS
    for type in range(TYPES):
        if out.asks[type] and request.vf_matches[type] != NULL and not table.node[index].flags & <unsigned int> HAS_VFS << type:
            return NO_VFS | type << DETAIL_BITS
    return PASS


cdef int _matching(DeviceTable table, DeviceRequest request, Py_ssize_t index, int type) noexcept nogil:
    """Return how many devices the selector matches, healthy or not."""
    cdef const Cells* cells = &table.node[index].cells[type]
    cdef int at, found = 0
    if request.matches[type] == NULL:
        return cells.count
    for at in range(cells.count):
        if table.masks[index * TYPES + type].listed >> at & 1 and request.matches[type][table.columns[type].labels[cells.start + at]]:
            found += 1
    return found


cdef void read_group(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, int type, DeviceAdjustment adjustment, uint64_t mask, DeviceGroup* group
) noexcept nogil:
    cdef const DeviceColumns* columns = &table.columns[type]
    cdef const Masks* masks = &table.masks[index * TYPES + type]
    cdef Py_ssize_t start = table.node[index].cells[type].start
    cdef Positions available = masks.available, busy = masks.busy
    cdef int at
    group.type = type
    group.count = table.node[index].cells[type].count
    group.total = columns.total + start
    group.free = columns.free + start
    group.total_stride = group.free_stride = columns.capacity
    group.minor = columns.minor + start
    group.labels = columns.labels + start
    group.pcie = columns.pcie + start
    group.numa = columns.numa + start
    group.candidates = masks.listed
    group.preferred = group.required = group.included = 0
    if adjustment is not None:
        if adjustment.changes_amounts:
            _adjust(adjustment, columns.used + start, group, &available, &busy)
        group.preferred = _positions(group, &adjustment.preferred[type])
        group.required = _positions(group, &adjustment.required_minors[type])
        group.included = _positions(group, &adjustment.included[type])
        if adjustment.only[type].is_set:
            group.candidates &= _positions(group, &adjustment.only[type])
    if available == 0:
        group.candidates = 0
    if mask != 0:
        for at in range(group.count):
            if group.numa[at] == NO_TOPOLOGY or (group.numa[at] >= 0 and not mask >> group.numa[at] & 1):
                group.candidates &= ~position(at)
    if request.matches[type] != NULL:
        for at in range(group.count):
            if not request.matches[type][group.labels[at]]:
                group.candidates &= ~position(at)
    group.busy = (masks.held & ~group.candidates) | (busy & group.candidates)
    group.healthy = masks.healthy & group.candidates
    group.fitting = _fitting(group, request, type) & group.candidates & available


cdef Positions _fitting(const DeviceGroup* group, DeviceRequest request, int type) noexcept nogil:
    """Return the devices that have what is asked of each."""
    cdef int at, k, r
    cdef Positions found = 0
    cdef uint64_t few = 0
    cdef bint fits
    cdef const int64_t* first
    cdef const int64_t* second
    cdef int64_t least_first, least_second
    if 0 < request.named_count[type] <= 2 and group.count <= 64:
        # Nearly all requests and nodes; for them this is the time that Filter takes (bench_deviceshare.py::bench_new_kind_of_request).
        r = request.named[type][0]
        k = request.named[type][request.named_count[type] - 1]
        first, least_first = group.free + r * group.free_stride, request.amount[type][r]
        second, least_second = group.free + k * group.free_stride, request.amount[type][k]
        for at in range(group.count):
            few |= <uint64_t> ((first[at] >= least_first) & (second[at] >= least_second)) << at
        return few
    for at in range(group.count):
        fits = True
        for k in range(request.named_count[type]):
            r = request.named[type][k]
            fits &= group.free[r * group.free_stride + at] >= request.amount[type][r]
        if fits:
            found |= position(at)
    return found


cdef Positions _positions(const DeviceGroup* group, const Minors* minors) noexcept nogil:
    cdef int at
    cdef Positions found = 0
    if minors.count:
        for at in range(group.count):
            if has_minor(minors, group.minor[at]):
                found |= position(at)
    return found


cdef void _adjust(
    DeviceAdjustment adjustment, const int64_t* used, DeviceGroup* group, Positions* available, Positions* busy
) noexcept nogil:
    """Work out what is free with what is reusable, and no more than what is required; leave out devices of which nothing is required."""
    cdef int64_t* free = &adjustment.free[group.type][0]
    cdef const Amounts* reusable
    cdef const Amounts* required
    cdef int at, r
    cdef int64_t left, limit
    available[0] = busy[0] = 0
    for at in range(group.count):
        reusable = _amounts_of(adjustment.reusable, adjustment.reusable_count, group.type, group.minor[at])
        required = _amounts_of(adjustment.required, adjustment.required_count, group.type, group.minor[at])
        if adjustment.requires[group.type] and required == NULL:
            group.candidates &= ~position(at)
        for r in range(resources_of(group.type)):
            left = used[r * group.total_stride + at] - (0 if reusable == NULL else reusable.amount[r])
            left = group.total[r * group.total_stride + at] - (left if left > 0 else 0)
            if left < 0:
                left = 0
            if adjustment.requires[group.type]:
                limit = 0 if required == NULL or required.is_empty else left
                if required != NULL and required.is_named[r]:
                    limit = required.amount[r]
                elif required != NULL and adjustment.complete and group.type == GPU:
                    limit = _completed(required, r, group, at, left)
                left = limit if limit < left else left
            free[r * LARGEST_GROUP + at] = left if left > 0 else 0
            if left > 0:
                available[0] |= position(at)
            if left < group.total[r * group.total_stride + at]:
                busy[0] |= position(at)
    group.free = free
    group.free_stride = LARGEST_GROUP


cdef int64_t _completed(const Amounts* amounts, int r, const DeviceGroup* group, int at, int64_t otherwise) noexcept nogil:
    """Return memory or ratio of an allocation that names the other one alone (deviceshare.md §6.3, end)."""
    cdef int64_t memory = group.total[MEMORY * group.total_stride + at]
    if r == MEMORY and amounts.is_named[RATIO]:
        return memory_of(amounts.amount[RATIO], memory)
    if r == RATIO and amounts.is_named[MEMORY]:
        return ratio_of(amounts.amount[MEMORY], memory)
    return otherwise


cdef inline int64_t memory_of(int64_t ratio, int64_t total) noexcept nogil:
    # total * ratio / 100, cut off, without a product that could be too large
    return total // 100 * ratio + total % 100 * ratio // 100


cdef inline int64_t ratio_of(int64_t memory, int64_t total) noexcept nogil:
    return <int64_t> (<double> memory / <double> total * 100) if total else 0


cdef const Amounts* _amounts_of(const Amounts* listed, int count, int type, int64_t minor) noexcept nogil:
    cdef int i
    for i in range(count):
        if listed[i].type == type and listed[i].minor == minor:
            return &listed[i]
    return NULL


cdef const Buses* _buses_of(const Buses* listed, int count, int type, int64_t minor) noexcept nogil:
    cdef int i
    for i in range(count):
        if listed[i].type == type and listed[i].minor == minor:
            return &listed[i]
    return NULL


cdef bint _has_bus(const Buses* buses, int32_t bus) noexcept nogil:
    cdef int i
    for i in range(buses.count):
        if buses.bus[i] == bus:
            return True
    return False


cdef int32_t _free_vf(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, const DeviceGroup* group, int at
) noexcept nogil:
    """Return the place of the free virtual function with the smallest bus id, -1 when the device has none that suits."""
    cdef int type = group.type
    cdef const int32_t* start = table.shape[index].vf_start[type]
    cdef const VirtualFunction* vf
    cdef const Buses* freed = NULL
    cdef const Buses* limits = NULL
    cdef int v
    if start == NULL:
        return -1
    if adjustment is not None:
        freed = _buses_of(adjustment.freed_vfs, adjustment.freed_count, type, group.minor[at])
        limits = _buses_of(adjustment.only_vfs, adjustment.only_vfs_count, type, group.minor[at])
    for v in range(start[at], start[at + 1]):
        vf = &table.shape[index].vfs[type][v]
        if not request.vf_matches[type][vf.labels] or (limits != NULL and not _has_bus(limits, vf.bus)):
            continue
        if vf.used == 0 or (freed != NULL and _has_bus(freed, vf.bus)):
            return v
    return -1


# One type (§6.1)


cdef inline void _give(Taken* taken, int at, int32_t vf) noexcept nogil:
    taken.at[taken.count] = <int16_t> at
    taken.vf[taken.count] = vf
    taken.devices |= position(at)
    taken.count += 1


cdef inline void _give_all(Taken* taken, Positions devices, int count) noexcept nogil:
    cdef int at
    for at in range(count):
        if devices >> at & 1:
            _give(taken, at, -1)


cdef inline void _forget(Taken* taken) noexcept nogil:
    taken.count = 0
    taken.devices = 0


cdef inline bint _has_pcie(const Pcies* pcies, int pcie) noexcept nogil:
    return pcie >= 0 and pcies.word[pcie >> 6] >> (pcie & 63) & 1


cdef inline void _add_pcie(Pcies* pcies, int pcie) noexcept nogil:
    if pcie >= 0 and not _has_pcie(pcies, pcie):
        pcies.word[pcie >> 6] |= (<uint64_t> 1) << (pcie & 63)
        pcies.count += 1


cdef void _pcies_of(const DeviceGroup* group, Positions devices, Pcies* pcies) noexcept nogil:
    cdef int at
    memset(pcies, 0, sizeof(Pcies))
    for at in range(group.count):
        if devices >> at & 1:
            _add_pcie(pcies, group.pcie[at])


cdef bint _equal(const Pcies* one, const Pcies* other) noexcept nogil:
    cdef int i
    for i in range(PCIE_WORDS):
        if one.word[i] != other.word[i]:
            return False
    return True


cdef int32_t _take_any(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    const DeviceGroup* group, int desired, int maximum, const Pcies* pcies, Taken* taken
) noexcept nogil:
    """Take the best devices that fit, spread over the preferred PCIe switches first."""
    cdef int type = group.type
    cdef int16_t[LARGEST_GROUP] order
    cdef int count = _in_order(request, scoring, group, pcies, order)
    cdef int i, at
    cdef int32_t vf = -1
    _forget(taken)
    if desired > group.count:
        return INSUFFICIENT | type << DETAIL_BITS
    for i in range(count):
        at = order[i]
        if not group.fitting >> at & 1 or (group.required and not group.required >> at & 1):
            continue
        if request.vf_matches[type] != NULL:
            vf = _free_vf(table, request, index, adjustment, group, at)
            if vf < 0:
                continue
        _give(taken, at, vf)
        if taken.count == maximum:
            break
    if taken.count < desired:
        _forget(taken)
        return INSUFFICIENT | type << DETAIL_BITS
    return PASS


cdef int _in_order(
    DeviceRequest request, DeviceScoring scoring, const DeviceGroup* group, const Pcies* pcies, int16_t* order
) noexcept nogil:
    """Write the candidates, those that are tried first first; return how many."""
    cdef int64_t[LARGEST_GROUP] score
    cdef int32_t[LARGEST_GROUP] rank
    cdef int16_t[PCIES] seen
    cdef Positions first = group.preferred | group.included
    cdef int at, i, count = 0
    for at in range(group.count):
        if not group.candidates >> at & 1:
            continue
        score[at] = 0 if scoring is None else scoring.score_device(group, at, &request.amount[group.type][0])
        rank[at] = 0 if first >> at & 1 else 1
        _insert(order, count, at, rank, score)
        count += 1
    if first or pcies == NULL or pcies.count == 0:
        return count
    # The first device of each preferred switch, then the second of each, and so on; then all others.
    memset(seen, 0, sizeof(seen))
    for i in range(count):
        at = order[i]
        rank[at] = PCIES
        if _has_pcie(pcies, group.pcie[at]):
            rank[at] = seen[group.pcie[at]]
            seen[group.pcie[at]] += 1
    count = 0
    for at in range(group.count):
        if group.candidates >> at & 1:
            _insert(order, count, at, rank, score)
            count += 1
    return count


cdef inline void _insert(int16_t* order, int count, int at, const int32_t* rank, const int64_t* score) noexcept nogil:
    """Put a device into its place: by rank, then the higher score, then the smaller minor, which comes first here."""
    cdef int i = count
    while i > 0 and (rank[at] < rank[order[i - 1]] or (rank[at] == rank[order[i - 1]] and score[at] > score[order[i - 1]])):
        order[i] = order[i - 1]
        i -= 1
    order[i] = <int16_t> at


# GPUs (§6.3)


cdef int32_t _take_gpus(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    const DeviceGroup* group, int desired, int maximum, Outcome* out
) noexcept nogil:
    cdef const DeviceNode* node = &table.node[index]
    cdef int32_t code
    cdef int templates
    cdef Taken* taken = &out.taken[GPU]
    cdef Positions devices = 0
    _forget(taken)
    out.from_template = False
    if request.template_of != NULL:
        templates = request.template_of[node.model]
        if templates == NO_TEMPLATE_OF:
            return NO_TEMPLATE
        out.from_template = templates == ONE_TEMPLATE
    if not request.shared:
        code = _by_partition(node, &table.shape[index], request, group, &devices)
        if devices:
            _give_all(taken, devices, group.count)
            return PASS
        if code != PASS and (request.by_partition or node.flags & HONORS_PARTITIONS):
            return code
    if scoring is not None and scoring.picks_device and request.shared and request.count[GPU] == 1 and request.scope == NO_SCOPE:
        devices = _best_device(request, scoring, group, group.fitting & group.healthy, NULL)
        if devices:
            _give_all(taken, devices, group.count)
            return PASS
    code = NO_TOPOLOGY_TREE
    if node.flags & HAS_TREE:
        code = MULTI_SHARED
        if not request.shared or request.count[GPU] <= 1:
            devices = _by_topology(&table.shape[index], table.masks[index * TYPES + GPU].listed, request, scoring, group)
            if devices:
                _give_all(taken, devices, group.count)
                return PASS
            return INSUFFICIENT_GPUS if request.scope == NO_SCOPE else INSUFFICIENT_SCOPED
    if request.scope != NO_SCOPE:
        return code
    return _take_any(table, request, index, adjustment, scoring, group, desired, maximum, NULL, taken)


cdef int32_t _by_partition(
    const DeviceNode* node, const NodeShape* shape, DeviceRequest request, const DeviceGroup* group, Positions* devices
) noexcept nogil:
    """Find the partition that leaves the most and largest ones whole; return why there is none, or PASS."""
    cdef const Partition* partitions = shape.partitions
    cdef int first = 0, i, feasible = 0
    cdef int64_t score, best = 0
    if not node.flags & HAS_PARTITIONS:
        return NO_PARTITION_TABLE
    while first < shape.partition_count and partitions[first].count != request.count[GPU]:
        first += 1
    if first == shape.partition_count:
        return UNSUPPORTED_COUNT
    for i in range(first, shape.partition_count):
        if partitions[i].count != request.count[GPU]:
            break
        if partitions[i].score != partitions[first].score:
            # The next group: only if those before had none, and the pod does not insist on the first.
            if feasible or request.first_group:
                break
            first = i
        if not _is_feasible(&partitions[i], request, group):
            continue
        score = _left_whole(shape, request, group.busy | partitions[i].devices)
        feasible += 1
        if feasible == 1 or score > best:
            best = score
            devices[0] = partitions[i].devices
    return PASS if feasible else INSUFFICIENT_PARTITIONED


cdef bint _is_feasible(const Partition* partition, DeviceRequest request, const DeviceGroup* group) noexcept nogil:
    if not partition.complete or group.included & ~partition.devices:
        return False
    if partition.devices & group.busy or partition.devices & ~(group.healthy & group.fitting):
        return False
    return request.bandwidth == NO_BANDWIDTH or (partition.bandwidth != NO_BANDWIDTH and partition.bandwidth >= request.bandwidth)


cdef int64_t _left_whole(const NodeShape* shape, DeviceRequest request, Positions busy) noexcept nogil:
    """Return what the partitions are worth that would be left whole."""
    cdef const Partition* partitions = shape.partitions
    cdef int i, first = -1, before = -1
    cdef int64_t weight, score = 0
    for i in range(shape.partition_count):
        if partitions[i].count != before:
            before = partitions[i].count
            first = i
        weight = 10000 if before == 8 else 100 if before == 4 else 1 if before == 2 else 0
        # Of each size the partitions of the first group count.
        if weight and before >= request.count[GPU] and partitions[i].score == partitions[first].score and not partitions[i].devices & busy:
            score += weight * partitions[i].score
    return score


cdef Positions _by_topology(
    const NodeShape* shape, Positions listed, DeviceRequest request, DeviceScoring scoring, const DeviceGroup* group
) noexcept nogil:
    """Find GPUs in the narrowest scope that has enough, preferring scopes that are in use; 0: there is no such scope."""
    cdef const Scope* scopes = shape.scopes
    cdef int wanted = request.count[GPU], i = 0, j, in_node, in_numa
    cdef Answer best, within
    memset(&best, 0, sizeof(Answer))
    if size_of(listed) < wanted:
        return 0
    in_node = 1 if listed & group.busy else 0
    while i < shape.scope_count:
        if scopes[i].size >= wanted:
            in_numa = in_node + (1 if scopes[i].devices & group.busy else 0)
            memset(&within, 0, sizeof(Answer))
            if request.scope <= PCIE_LEVEL:
                for j in range(i + 1, scopes[i].next):
                    if scopes[j].size >= wanted:
                        _prefer(&within, request, scoring, group, &scopes[j], 3, in_numa + (1 if scopes[j].devices & group.busy else 0))
            if within.devices == 0 and request.scope <= NUMA_LEVEL:
                _prefer(&within, request, scoring, group, &scopes[i], 2, in_numa)
            if within.devices and _is_better(request, &within, &best):
                best = within
        i = scopes[i].next
    if best.devices == 0 and request.scope <= NODE_LEVEL:
        return _answer(request, scoring, group, listed, NULL)
    return best.devices


cdef void _prefer(
    Answer* best, DeviceRequest request, DeviceScoring scoring, const DeviceGroup* group, const Scope* scope, int depth, int in_use
) noexcept nogil:
    """Take the answer of a scope if it has one that is better."""
    cdef Answer found
    found.depth = depth
    found.in_use = in_use
    found.score = 0
    found.devices = _answer(request, scoring, group, scope.devices, &found.score)
    if found.devices and _is_better(request, &found, best):
        best[0] = found


cdef inline bint _is_better(DeviceRequest request, const Answer* found, const Answer* best) noexcept nogil:
    if best.devices == 0:
        return True
    if found.depth != best.depth:
        return found.depth > best.depth
    if found.in_use != best.in_use:
        return found.in_use > best.in_use
    return request.shared and found.score > best.score


cdef Positions _answer(
    DeviceRequest request, DeviceScoring scoring, const DeviceGroup* group, Positions scope, int64_t* score
) noexcept nogil:
    """Return the GPUs that a scope gives: the first ones of those that fit, or for a share the best one; 0 when it has too few."""
    cdef Positions fitting = group.fitting & group.healthy & scope
    cdef Positions found = group.included
    cdef int at = 0, left
    if group.included & ~fitting or size_of(fitting) < request.count[GPU]:
        return 0
    if request.shared:
        return _best_device(request, scoring, group, fitting if group.included == 0 else group.included, score)
    left = request.count[GPU] - size_of(found)
    if left < 0:
        return 0
    fitting &= ~found
    while left > 0:
        if fitting >> at & 1:
            found |= position(at)
            left -= 1
        at += 1
    return found


cdef Positions _best_device(
    DeviceRequest request, DeviceScoring scoring, const DeviceGroup* group, Positions devices, int64_t* score
) noexcept nogil:
    cdef int at, best = -1
    cdef int64_t of_device, highest = 0
    if group.included & ~devices or (group.included and size_of(group.included) > 1):
        return 0
    for at in range(group.count):
        if not devices >> at & 1:
            continue
        of_device = 0 if scoring is None else scoring.score_device(group, at, &request.amount[GPU][0])
        if best < 0 or of_device > highest:
            best, highest = at, of_device
    if score != NULL:
        score[0] = highest
    return position(best) if best >= 0 else 0


# Several types (§6.2)


cdef int32_t _take(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    const DeviceGroup* group, int desired, const Pcies* pcies, Outcome* out
) noexcept nogil:
    cdef int maximum = desired if pcies == NULL or pcies.count < desired else pcies.count
    desired = desired if desired > 0 else 1
    maximum = maximum if maximum > desired else desired
    if group.type == GPU:
        return _take_gpus(table, request, index, adjustment, scoring, group, desired, maximum, out)
    return _take_any(table, request, index, adjustment, scoring, group, desired, maximum, pcies, &out.taken[group.type])


cdef int32_t _take_jointly(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    DeviceGroup* groups, Outcome* out
) noexcept nogil:
    cdef int primary = request.joint[0]
    cdef int i, type, desired
    cdef Pcies pcies, others
    cdef int32_t code = _take(table, request, index, adjustment, scoring, &groups[primary], out.desired[primary], NULL, out)
    if code != PASS:
        return code
    if out.taken[primary].count == 0:
        return NO_PRIMARY
    _pcies_of(&groups[primary], out.taken[primary].devices, &pcies)
    for i in range(1, request.joint_count):
        type = request.joint[i]
        if not out.asks[type]:
            continue
        desired = out.desired[type]
        if request.same_pcie and desired < pcies.count:
            desired = pcies.count
        code = _take(table, request, index, adjustment, scoring, &groups[type], desired, &pcies, out)
        if code != PASS:
            break
    if code == PASS and request.same_pcie:
        for i in range(1, request.joint_count):
            type = request.joint[i]
            if out.asks[type]:
                _pcies_of(&groups[type], out.taken[type].devices, &others)
                if not _equal(&pcies, &others):
                    code = JOINT_VIOLATION
    if code != PASS and request.same_pcie and _search(table, request, index, adjustment, groups, False, out):
        return PASS
    return code


# Joint allocation by search: other primary devices than those that were taken first may have what the others need on their switches


cdef struct Search:
    int types                                # that are allocated together
    int[TYPES] type
    bint[TYPES] exact                        # no more than `need`, however many switches there are
    int[TYPES] need
    Positions[TYPES] usable
    int[TYPES] elsewhere                     # usable devices whose place is not known
    int16_t[PCIES] pcie                      # switches with a usable device of every type
    int switches
    bint only_feasible                       # nothing is chosen; whether something could be is all that is asked
    int16_t on[TYPES][PCIES]                 # [place among those switches]: usable devices there


cdef bint _search(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceGroup* groups, bint only_feasible,
    Outcome* out
) noexcept nogil:
    """Find devices of all joint types on the same PCIe switches, on as few of them as possible; answer whether there are some."""
    cdef const DeviceNode* node = &table.node[index]
    cdef Search search
    cdef int i, at, type
    search.types = 0
    search.only_feasible = only_feasible
    for i in range(request.joint_count):
        type = request.joint[i]
        if out.asks[type]:
            search.type[search.types] = type
            search.exact[search.types] = type == GPU or i == 0
            search.need[search.types] = out.desired[type] if out.desired[type] > 0 else 1
            search.usable[search.types] = groups[type].fitting & (groups[type].required if groups[type].required else groups[type].fitting)
            if type == GPU:
                search.usable[search.types] = groups[type].fitting & groups[type].healthy
            if request.vf_matches[type] != NULL and (type != GPU or not node.flags & HAS_TREE):
                for at in range(groups[type].count):
                    if search.usable[search.types] >> at & 1 and _free_vf(table, request, index, adjustment, &groups[type], at) < 0:
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
    cdef Positions usable = search.usable[place]
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
            if not _is_feasible(&partitions[i], request, &groups[GPU]):
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
                if left >= 0 and search.only_feasible:
                    return True
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
        _add_pcie(&pcies, search.pcie[chosen[j]])
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
            if search.usable[i] >> at & 1 and not devices >> at & 1 and (group.pcie[at] < 0 or _has_pcie(&pcies, group.pcie[at])):
                devices |= position(at)
                left -= 1
        _forget(&out.taken[type])
        for at in range(group.count):
            if devices >> at & 1:
                _give(
                    &out.taken[type], at,
                    _free_vf(table, request, index, adjustment, group, at) if request.vf_matches[type] != NULL and type != GPU else -1,
                )


# All types


cdef int32_t try_allocate(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    uint64_t mask, bint reserve, Outcome* out
) noexcept nogil:
    cdef DeviceGroup[TYPES] groups
    cdef int type, asked = 0
    cdef int32_t code = read_desired(table, request, index, reserve, out)
    out.from_template = False
    for type in range(TYPES):
        _forget(&out.taken[type])
    if code != PASS:
        return code
    if adjustment is not None and adjustment.complete:
        code = _check_healthy(table, index, adjustment)
        if code != PASS:
            return code
    for type in range(TYPES):
        if out.asks[type]:
            read_group(table, request, index, type, adjustment, mask, &groups[type])
            asked += 1
    if asked > 1 and request.joint_count > 0:
        code = _take_jointly(table, request, index, adjustment, scoring, groups, out)
        if code != PASS:
            return code
    for type in range(TYPES):
        if out.asks[type] and out.taken[type].count == 0:
            code = _take(table, request, index, adjustment, scoring, &groups[type], out.desired[type], NULL, out)
            if code != PASS:
                return code
        if out.asks[type] and groups[type].included & ~out.taken[type].devices:
            return NOT_INCLUDED
    return PASS


cdef int32_t check_feasible(DeviceTable table, DeviceRequest request, Py_ssize_t index, bint reserve) noexcept nogil:
    cdef DeviceGroup[TYPES] groups
    cdef Outcome out
    cdef int i, type, asked = 0
    cdef int32_t code = read_desired(table, request, index, reserve, &out)
    cdef bint together
    if code != PASS:
        return code
    for type in range(TYPES):
        if out.asks[type]:
            read_group(table, request, index, type, None, 0, &groups[type])
            asked += 1
    together = asked > 1 and request.joint_count > 1 and request.same_pcie
    for i in range(request.joint_count if asked > 1 else 0):
        if code == PASS and out.asks[request.joint[i]]:
            code = _check_type(table, request, index, &groups[request.joint[i]], out.desired[request.joint[i]])
    for type in range(TYPES):
        if code == PASS and out.asks[type]:
            code = _check_type(table, request, index, &groups[type], out.desired[type])
    if not together or (code == PASS and _search(table, request, index, None, groups, True, &out)):
        return code
    return try_allocate(table, request, index, None, None, 0, reserve, &out)  # which finds the reason


cdef int32_t _check_type(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, const DeviceGroup* group, int desired
) noexcept nogil:
    """Return why devices of one type cannot be taken, apart from all others, or 0."""
    cdef const DeviceNode* node = &table.node[index]
    cdef const NodeShape* shape = &table.shape[index]
    cdef Positions fitting = group.fitting & group.healthy
    cdef int32_t code
    cdef int i, at, found
    cdef bint honors = request.by_partition or node.flags & HONORS_PARTITIONS
    if group.type == GPU:
        if request.template_of != NULL and request.template_of[node.model] == NO_TEMPLATE_OF:
            return NO_TEMPLATE
        # Where partitions are not honored, and no scope is required, cards of a partition are enough cards in any case.
        if not request.shared and (honors or request.scope != NO_SCOPE):
            code = _check_partitions(node, shape, request, group)
            if code == PASS or honors:
                return code
        if node.flags & HAS_TREE and (not request.shared or request.count[GPU] <= 1):
            if request.scope <= NODE_LEVEL and size_of(fitting) >= request.count[GPU]:
                return PASS
            for i in range(shape.scope_count if NODE_LEVEL < request.scope <= PCIE_LEVEL else 0):
                if shape.scopes[i].level == request.scope and size_of(fitting & shape.scopes[i].devices) >= request.count[GPU]:
                    return PASS
            return INSUFFICIENT_GPUS if request.scope == NO_SCOPE else INSUFFICIENT_SCOPED
        if request.scope != NO_SCOPE:
            return MULTI_SHARED if node.flags & HAS_TREE else NO_TOPOLOGY_TREE
    found = size_of(group.fitting)
    if request.vf_matches[group.type] != NULL:
        for at in range(group.count):
            if group.fitting >> at & 1 and _free_vf(table, request, index, None, group, at) < 0:
                found -= 1
    return PASS if found >= desired and found > 0 else INSUFFICIENT | group.type << DETAIL_BITS


cdef int32_t _check_partitions(
    const DeviceNode* node, const NodeShape* shape, DeviceRequest request, const DeviceGroup* group
) noexcept nogil:
    """Return why there is no partition, or 0."""
    cdef const Partition* partitions = shape.partitions
    cdef int i, first = -1
    if not node.flags & HAS_PARTITIONS:
        return NO_PARTITION_TABLE
    for i in range(shape.partition_count):
        if partitions[i].count != request.count[GPU]:
            continue
        first = i if first < 0 else first
        if request.first_group and partitions[i].score != partitions[first].score:
            break
        if _is_feasible(&partitions[i], request, group):
            return PASS
    return UNSUPPORTED_COUNT if first < 0 else INSUFFICIENT_PARTITIONED


cdef int32_t _check_healthy(DeviceTable table, Py_ssize_t index, DeviceAdjustment adjustment) noexcept nogil:
    """Return why what is required cannot be completed: a GPU is missing or not healthy."""
    cdef int i
    cdef Py_ssize_t cell
    cdef Positions healthy = table.masks[index * TYPES + GPU].healthy
    for i in range(adjustment.required_count):
        if adjustment.required[i].type == GPU:
            cell = table.find(index, GPU, adjustment.required[i].minor)
            if cell < 0 or not healthy >> (cell - table.node[index].cells[GPU].start) & 1:
                return NO_HEALTHY_GPU | <int32_t> _cut_minor(adjustment.required[i].minor) << DETAIL_BITS
    return PASS


cdef inline int64_t _cut_minor(int64_t minor) noexcept nogil:
    return minor if minor < 1 << 24 else 1 << 24


# For Python


def allocate(
    DeviceTable table not None, DeviceRequest request not None, Py_ssize_t row, DeviceScoring scoring=None, *,
    DeviceAdjustment adjustment=None, mask=None, bint reserve=False,
):
    cdef Outcome out
    cdef int32_t code
    cdef Py_ssize_t index = index_of(table, row)
    cdef uint64_t numa = 0 if mask is None else mask
    request.prepare(table)
    if adjustment is not None:
        adjustment.prepare(table)
    code = check_labels(table, request, index)
    if code != PASS:
        return code
    if not table.node[index].flags & HAS_ENTRY:
        return ()
    with nogil:
        code = try_allocate(table, request, index, adjustment, scoring, numa, reserve, &out)
    return code if code != PASS else result_of(table, request, index, &out, reserve)


cdef result_of(DeviceTable table, DeviceRequest request, Py_ssize_t index, const Outcome* out, bint complete):
    """Return what is taken as values; amounts of GPUs complete, if that is asked for."""
    cdef int type, i, at
    cdef Py_ssize_t start
    cdef const VirtualFunction* vf
    cdef object function, template
    cdef dict amounts, given
    found = []
    for type in range(TYPES):
        start = table.node[index].cells[type].start
        amounts = {DeviceResource(first_resource(type) + request.named[type][i]): request.amount[type][request.named[type][i]]
                   for i in range(request.named_count[type])}
        for i in range(out.taken[type].count):
            at = out.taken[type].at[i]
            function = None
            template = ""
            given = dict(amounts)
            if out.taken[type].vf[i] >= 0:
                vf = &table.shape[index].vfs[type][out.taken[type].vf[i]]
                function = (table.bus_names[vf.bus], vf.minor)
            if type == GPU:
                if out.from_template:
                    model = table.models[table.node[index].model]
                    template = request.templates[f"{model[0]}-{model[1]}"][0]
                if complete:
                    complete_amounts(given, table.columns[GPU].total[MEMORY * table.columns[GPU].capacity + start + at])
            found.append(Allocated(DeviceType(type), table.columns[type].minor[start + at], given, function, template))
    return tuple(found)


def complete_amounts(dict amounts not None, int64_t memory):
    ratio = amounts.get(DeviceResource.GPU_MEMORY_RATIO)
    asked = amounts.get(DeviceResource.GPU_MEMORY)
    if ratio is not None and asked is None:
        amounts[DeviceResource.GPU_MEMORY] = memory_of(ratio, memory)
    elif asked is not None and ratio is None:
        amounts[DeviceResource.GPU_MEMORY_RATIO] = ratio_of(asked, memory)


def score_node(
    DeviceTable table not None, DeviceRequest request not None, DeviceScoring scoring not None, Py_ssize_t row, *,
    DeviceAdjustment adjustment=None, mask=None,
):
    cdef Py_ssize_t index = index_of(table, row)
    cdef uint64_t numa = 0 if mask is None else mask
    cdef int64_t score = 0
    request.prepare(table)
    if adjustment is not None:
        adjustment.prepare(table)
    if table.node[index].flags & HAS_ENTRY:
        score = score_candidates(table, request, index, adjustment, scoring, numa)
    return score


cdef int64_t score_candidates(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring, uint64_t mask
) noexcept nogil:
    cdef Outcome out
    cdef DeviceGroup group
    cdef int type
    cdef int64_t score = 0
    if read_desired(table, request, index, False, &out) != PASS:
        return 0
    for type in range(TYPES):
        if out.asks[type]:
            read_group(table, request, index, type, adjustment, mask, &group)
            if group.candidates:
                score += scoring.score_group(request, &group, &request.amount[type][0])
    return score
