"""Which devices of one type a pod gets, of those that fit (deviceshare.md §6.1, §6.3).

GPUs are taken by partition, or from the narrowest place in the tree of NUMA nodes and PCIe switches that has enough. All others, and
GPUs where neither is known, are taken in an order: reserved ones first, then spread over the PCIe switches that are preferred, then by
score. A scoring only chooses among what is feasible: without one, devices with smaller minors come first.
"""

from libc.stdint cimport int16_t, int32_t, int64_t
from libc.string cimport memset

from koordsched._core.device_group cimport (
    DETAIL_BITS,
    INSUFFICIENT,
    INSUFFICIENT_GPUS,
    INSUFFICIENT_PARTITIONED,
    INSUFFICIENT_SCOPED,
    MULTI_SHARED,
    NO_PARTITION_TABLE,
    NO_TEMPLATE,
    NO_TOPOLOGY_TREE,
    PASS,
    UNSUPPORTED_COUNT,
    free_vf,
)
from koordsched._core.device_request cimport NO_SCOPE, NO_TEMPLATE_OF, ONE_TEMPLATE, DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceGroup, DeviceScoring
from koordsched._core.device_table cimport (
    GPU,
    HAS_PARTITIONS,
    HAS_TREE,
    HONORS_PARTITIONS,
    LARGEST_GROUP,
    TYPES,
    DeviceNode,
    DeviceTable,
    NodeShape,
    Partition,
    Positions,
    Scope,
    position,
    size_of,
)

cdef struct Answer:
    # What a scope would give
    Positions devices    # 0: nothing
    int depth
    int in_use           # scopes on the way to it in which something is in use
    int64_t score


cdef void pcies_of(const DeviceGroup* group, Positions devices, Pcies* pcies) noexcept nogil:
    cdef int at
    memset(pcies, 0, sizeof(Pcies))
    for at in range(group.count):
        if devices >> at & 1:
            add_pcie(pcies, group.pcie[at])


cdef int32_t take_devices(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    const DeviceGroup* group, int desired, const Pcies* pcies, Outcome* out
) noexcept nogil:
    cdef int maximum = desired if pcies == NULL or pcies.count < desired else pcies.count
    desired = desired if desired > 0 else 1
    maximum = maximum if maximum > desired else desired
    if group.type == GPU:
        return _take_gpus(table, request, index, adjustment, scoring, group, desired, maximum, out)
    return _take_any(table, request, index, adjustment, scoring, group, desired, maximum, pcies, &out.taken[group.type])


# In order (§6.1)


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
    forget(taken)
    if desired > group.count:
        return INSUFFICIENT | type << DETAIL_BITS
    for i in range(count):
        at = order[i]
        if not group.fitting >> at & 1 or (group.required and not group.required >> at & 1):
            continue
        if request.vf_matches[type] != NULL:
            vf = free_vf(table, request, index, adjustment, type, at)
            if vf < 0:
                continue
        give(taken, at, vf)
        if taken.count == maximum:
            break
    if taken.count < desired:
        forget(taken)
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
        if has_pcie(pcies, group.pcie[at]):
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
    forget(taken)
    out.from_template = False
    if request.template_of != NULL:
        templates = request.template_of[node.model]
        if templates == NO_TEMPLATE_OF:
            return NO_TEMPLATE
        out.from_template = templates == ONE_TEMPLATE
    if not request.shared:
        code = _by_partition(node, &table.shape[index], request, group, &devices)
        if devices:
            give_all(taken, devices, group.count)
            return PASS
        if code != PASS and (request.by_partition or node.flags & HONORS_PARTITIONS):
            return code
    if scoring is not None and scoring.picks_device and request.shared and request.count[GPU] == 1 and request.scope == NO_SCOPE:
        devices = _best_device(request, scoring, group, group.fitting & group.healthy, NULL)
        if devices:
            give_all(taken, devices, group.count)
            return PASS
    code = NO_TOPOLOGY_TREE
    if node.flags & HAS_TREE:
        code = MULTI_SHARED
        if not request.shared or request.count[GPU] <= 1:
            devices = _by_topology(&table.shape[index], table.masks[index * TYPES + GPU].listed, request, scoring, group)
            if devices:
                give_all(taken, devices, group.count)
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
    cdef Positions usable = group.fitting & group.healthy & ~group.busy
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
        if not is_suitable(&partitions[i], request, usable, group.included):
            continue
        score = _left_whole(shape, request, group.busy | partitions[i].devices)
        feasible += 1
        if feasible == 1 or score > best:
            best = score
            devices[0] = partitions[i].devices
    return PASS if feasible else INSUFFICIENT_PARTITIONED


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
