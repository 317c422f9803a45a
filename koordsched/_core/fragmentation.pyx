"""Scores of nodes and devices by how little a placement adds to the GPU share that recent requests could not use."""

import numpy as np

cimport numpy as cnp
from libc.math cimport exp
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from koordsched._core.device_request cimport DeviceRequest
from koordsched._core.device_score cimport DeviceGroup, DeviceScoring
from koordsched._core.device_table cimport (
    CORE,
    GPU,
    GPU_RESOURCES,
    HAS_PERCENT_GPUS,
    LARGEST_GROUP,
    MEMORY,
    RATIO,
    TYPES,
    WHOLE_GPU,
    Cells,
    DeviceColumns,
    DeviceTable,
    Positions,
    index_of,
    position,
)
from koordsched._core.rows cimport Rows, rows_of, scores_in, zero_scores
from koordsched._core.table cimport RESOURCE_CPU, RESOURCE_MEMORY, NodeTable

cnp.import_array()

MAX_REQUESTS = MAX_ITEMS

cdef enum:
    MIB_BITS = 20
    KEPT = 256            # nodes whose score is kept during a call; a power of two
    PACKED = 16           # GPUs that a node may have for that
    LARGEST = 0x7FFFFFFF

cdef double SPREAD = 50.0   # by so much added waste, in shares, scores go from 50 to 27
cdef int64_t TAKEN = INT64_MAX
cdef double MIDDLE = 1e12   # device scores are this, less the waste in 1/1024 of a share


cdef class RequestMix:

    def __init__(self, requests not None):
        cdef int item, k = -1, n, x
        cdef int64_t cpu = 0, shares = 0
        if len(requests) > MAX_ITEMS:
            raise ValueError(f"{len(requests)} requests: at most {MAX_ITEMS}")
        slots = {}
        for share, count in sorted({(request[3], request[2]) for request in requests}):
            if not (1 <= share <= WHOLE_GPU and 1 <= count):
                raise ValueError(f"{count} GPUs of {share} %: expected 1 to {WHOLE_GPU} % of at least 1")
            slots[share, count] = share
            if count > 1:
                k += 1
                slots[share, count] = SHARES + k
                self.share[k], self.count[k] = share, min(count, LARGEST_GROUP + 1)
        self.items, self.classes = <int> len(requests), k + 1
        for item, (request, pods) in enumerate(sorted(requests.items(), key=_memory_first)):
            self.cpu[item] = min(request[0], LARGEST)
            self.memory[item] = min(-(-request[1] >> MIB_BITS), LARGEST)
            self.weight[item] = pods
            self.slot[item] = slots[request[3], request[2]]
            self.total += pods
            cpu += pods * request[0]
            shares += <int64_t> pods * request[3] * request[2]
        self.cpu_per_share = cpu / <double> shares if shares else 0.0
        levels = sorted({self.cpu[item] for item in range(self.items)})
        self.levels = len(levels)
        self.within = np.zeros((self.levels + 1, SHARES + self.classes), np.int64)
        for n in range(self.levels):
            self.level[n] = levels[n]
            for item in range(self.items):
                if self.cpu[item] <= self.level[n]:
                    self.within[n + 1, self.slot[item]] += self.weight[item]
            for x in range(1, SHARES):
                self.within[n + 1, x] += self.within[n + 1, x - 1]


def _memory_first(item):
    request, _ = item
    return -request[1], request


cdef class FragmentationScoring(DeviceScoring):

    def __init__(self, RequestMix mix not None):
        super().__init__({}, most=False)
        self.mix = mix
        self.picks_device = True

    def aim(self, NodeTable nodes not None, Py_ssize_t row):
        nodes.check_row(row)
        self.cpu = nodes.allocatable[RESOURCE_CPU, row] - nodes.requested[RESOURCE_CPU, row]
        self.memory = nodes.allocatable[RESOURCE_MEMORY, row] - nodes.requested[RESOURCE_MEMORY, row]
        _weigh_fitting(self.mix, self.cpu, self.memory, &self.fitting)

    cdef int64_t score_device(self, const DeviceGroup* group, int at, const int64_t* amounts) noexcept nogil:
        cdef uint8_t[LARGEST_GROUP] shares
        cdef Waste waste
        cdef uint8_t share = _free_share(&group.total[at], &group.free[at], group.total_stride, group.free_stride)
        cdef int p, count = 0
        if group.type != GPU or self.mix.total == 0:
            return 0
        for p in range(group.count):
            if group.healthy & position(p) or p == at:
                shares[count] = _free_share(&group.total[p], &group.free[p], group.total_stride, group.free_stride)
                count += 1
        _read_waste(self.mix, &self.fitting, shares, count, &waste)
        return <int64_t> (MIDDLE - 1024 * (_waste_without(
            self.mix, &self.fitting, &waste, share, _asked_share(&group.total[at], group.total_stride, amounts, share)
        ) / <double> self.mix.total))


cdef struct Kept:
    # The score of nodes that are alike in all that it depends on
    int64_t cpu
    int64_t memory
    uint64_t[2] shares   # PACKED of them; 0 behind the last GPU
    int32_t count        # GPUs; 0: nothing is kept here
    int32_t score


def score_fragmentation(
    DeviceTable table not None, DeviceRequest request, FragmentationScoring scoring not None, int64_t cpu, int64_t memory,
    cnp.ndarray rows not None,
):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray scores = zero_scores(asked)
    cdef int64_t* out = scores_in(scores)
    cdef Wanted wanted
    cdef int r
    memset(&wanted, 0, sizeof(Wanted))
    if request is not None and request.asks[GPU]:
        wanted.count = request.count[GPU]
        for r in range(GPU_RESOURCES):
            wanted.amounts[r] = request.amount[GPU][r]
        wanted.share = request.share[GPU]
    with nogil:
        _score(table, scoring.mix, &wanted, cpu, memory, asked, out)
    return scores


def mean_gpu_memory(DeviceTable table not None):
    cdef const DeviceColumns* gpus = &table.columns[GPU]
    cdef Py_ssize_t cell
    cdef int64_t count = 0
    cdef double sum = 0.0
    for cell in range(gpus.end):
        if gpus.total[MEMORY * gpus.capacity + cell]:
            sum += gpus.total[MEMORY * gpus.capacity + cell]
            count += 1
    return int(sum / count) if count else 0


def expected_waste(RequestMix mix not None, int64_t cpu, int64_t memory, shares):
    cdef uint8_t[LARGEST_GROUP] free
    cdef Fitting fitting
    cdef Waste waste
    cdef int i, count = len(shares)
    if count > LARGEST_GROUP:
        raise ValueError(f"{count} GPUs: at most {LARGEST_GROUP}")
    for i in range(count):
        free[i] = shares[i]
    if mix.total == 0:
        return 0.0
    _weigh_fitting(mix, cpu, memory, &fitting)
    _read_waste(mix, &fitting, free, count, &waste)
    return _expected(mix, waste.all, cpu, waste.sum)


cdef struct Wanted:
    # What a pod asks for
    int count                            # GPUs
    int64_t[GPU_RESOURCES] amounts       # of each
    int share                            # DeviceRequest.share


cdef void _score(
    DeviceTable table, RequestMix mix, const Wanted* wanted, int64_t cpu, int64_t memory, Rows rows, int64_t* scores
) noexcept nogil:
    cdef Kept[KEPT] kept
    cdef Kept state
    cdef Kept* found
    cdef uint8_t[LARGEST_GROUP + PACKED] shares
    cdef uint8_t[LARGEST_GROUP] asked
    cdef bint packed, by_share = wanted.amounts[MEMORY] == 0
    cdef Py_ssize_t i, index, row
    cdef const int64_t* allocatable_cpu = &table.nodes.allocatable[RESOURCE_CPU, 0]
    cdef const int64_t* requested_cpu = &table.nodes.requested[RESOURCE_CPU, 0]
    cdef const int64_t* allocatable_memory = &table.nodes.allocatable[RESOURCE_MEMORY, 0]
    cdef const int64_t* requested_memory = &table.nodes.requested[RESOURCE_MEMORY, 0]
    cdef int32_t nothing = _score_of(0.0)
    memset(kept, 0, sizeof(kept))
    memset(&state, 0, sizeof(state))
    for i in range(rows.count):
        row = rows.at[i]
        index = index_of(table, row)
        state.count = _read_shares(table, index, wanted, shares, asked)
        if state.count == 0:  # a node without GPUs, or of which nothing is known
            scores[i] = 0 if wanted.count else nothing
            continue
        state.cpu = allocatable_cpu[row] - requested_cpu[row]
        state.memory = allocatable_memory[row] - requested_memory[row]
        packed = by_share and state.count <= PACKED
        if packed:
            memcpy(state.shares, shares, PACKED)
            found = &kept[_place(&state)]
            if (
                found.count == state.count and found.cpu == state.cpu and found.memory == state.memory
                and found.shares[0] == state.shares[0] and found.shares[1] == state.shares[1]
            ):
                scores[i] = found.score
                continue
        scores[i] = _score_of(_added(mix, state.cpu, state.memory, cpu, memory, shares, asked, state.count, wanted.count))
        if packed:
            found[0] = state
            found.score = <int32_t> scores[i]


cdef inline Py_ssize_t _place(const Kept* state) noexcept nogil:
    cdef uint64_t mixed = <uint64_t> state.cpu * 31 + <uint64_t> state.memory
    mixed = (mixed ^ state.shares[0] ^ (state.shares[1] << 1) ^ <uint64_t> state.count) * <uint64_t> 0x9E3779B97F4A7C15
    return <Py_ssize_t> (mixed >> 56)


cdef inline int32_t _score_of(double added) noexcept nogil:
    return <int32_t> (100.0 / (1.0 + exp(added / SPREAD)))


cdef int _read_shares(DeviceTable table, Py_ssize_t index, const Wanted* wanted, uint8_t* shares, uint8_t* asked) noexcept nogil:
    # Write the free share of each healthy GPU, 0 behind the last one, and what the pod takes of it, 0 where it does not fit; return how
    # many GPUs there are.
    cdef const DeviceColumns* gpus = &table.columns[GPU]
    cdef const Cells* cells = &table.node[index].cells[GPU]
    cdef Positions healthy = table.masks[index * TYPES + GPU].healthy
    cdef Py_ssize_t cell
    cdef const int64_t* total
    cdef const int64_t* free
    cdef int at, r, count = 0
    if table.node[index].flags & HAS_PERCENT_GPUS and wanted.share >= 0:
        for at in range(cells.count):
            shares[count] = gpus.share[cells.start + at]
            asked[count] = <uint8_t> wanted.share if shares[count] >= wanted.share else 0
            count += <int> (healthy >> at & 1)
        memset(shares + count, 0, PACKED)
        return count
    for cell in range(cells.start, cells.start + cells.count):
        total, free = &gpus.total[cell], &gpus.free[cell]
        if (total[CORE * gpus.capacity] | total[RATIO * gpus.capacity] | total[MEMORY * gpus.capacity]) == 0:
            continue
        shares[count] = _free_share(total, free, gpus.capacity, gpus.capacity)
        asked[count] = 0
        if wanted.count:
            for r in range(GPU_RESOURCES):
                if wanted.amounts[r] and free[r * gpus.capacity] < wanted.amounts[r]:
                    break
            else:
                asked[count] = _asked_share(total, gpus.capacity, wanted.amounts, shares[count])
        count += 1
    memset(shares + count, 0, PACKED)
    return count


cdef inline uint8_t _free_share(const int64_t* total, const int64_t* free, Py_ssize_t total_stride, Py_ssize_t free_stride) noexcept nogil:
    """Return the free share of a device: of cores and of memory the smaller one."""
    cdef int64_t cores = WHOLE_GPU, memory = WHOLE_GPU
    if total[CORE * total_stride]:
        cores = _percent(free[CORE * free_stride], total[CORE * total_stride])
    if total[RATIO * total_stride]:
        memory = _percent(free[RATIO * free_stride], total[RATIO * total_stride])
    elif total[MEMORY * total_stride]:
        memory = _percent(free[MEMORY * free_stride], total[MEMORY * total_stride])
    return <uint8_t> min(cores, memory)


cdef inline int64_t _percent(int64_t part, int64_t whole) noexcept nogil:
    """Return how many percent it is, rounded down. Cores and ratios of memory are percentages already: no division."""
    return part if whole == WHOLE_GPU else part * WHOLE_GPU // whole


cdef inline int64_t _percent_up(int64_t part, int64_t whole) noexcept nogil:
    return part if whole == WHOLE_GPU else (part * WHOLE_GPU + whole - 1) // whole


cdef inline uint8_t _asked_share(const int64_t* total, Py_ssize_t stride, const int64_t* amounts, uint8_t free) noexcept nogil:
    """Return the share of a device that is asked for: of cores and of memory the larger one, rounded up; no more than is free."""
    cdef int64_t share = 0
    if amounts[CORE] and total[CORE * stride]:
        share = _percent_up(amounts[CORE], total[CORE * stride])
    if amounts[RATIO] and total[RATIO * stride]:
        share = max(share, _percent_up(amounts[RATIO], total[RATIO * stride]))
    if amounts[MEMORY] and total[MEMORY * stride]:
        share = max(share, _percent_up(amounts[MEMORY], total[MEMORY * stride]))
    return <uint8_t> min(share, <int64_t> free)


# The waste of a node


cdef struct Waste:
    int64_t all                    # the waste itself, by weight
    int64_t sum                    # shares that are free
    int32_t[MAX_ITEMS] enough      # [class] GPUs of which as much is free as is asked of each
    int64_t[MAX_ITEMS] above       # [class] what is free of these


cdef void _weigh_fitting(RequestMix mix, int64_t cpu, int64_t memory, Fitting* fitting) noexcept nogil:
    cdef int low = 0, high = mix.levels, middle, item = 0, x
    cdef int64_t mib = memory >> MIB_BITS, less = 0
    cdef const int64_t* row
    while low < high:
        middle = (low + high) >> 1
        if mix.level[middle] <= cpu:
            low = middle + 1
        else:
            high = middle
    row = &mix.within[low, 0]
    fitting.weight = row
    if mix.items == 0 or mix.memory[0] <= mib:
        return
    memset(fitting.own, 0, (SHARES + mix.classes) * sizeof(int64_t))
    while item < mix.items and mix.memory[item] > mib:
        fitting.own[mix.slot[item]] += mix.weight[item] & -<int64_t> (mix.cpu[item] <= cpu)  # a branch is mispredicted every other time
        item += 1
    for x in range(SHARES):
        less += fitting.own[x]
        fitting.own[x] = row[x] - less
    for x in range(SHARES, SHARES + mix.classes):
        fitting.own[x] = row[x] - fitting.own[x]
    fitting.weight = fitting.own


cdef void _read_waste(RequestMix mix, const Fitting* fitting, const uint8_t* shares, int count, Waste* waste) noexcept nogil:
    cdef int64_t used = 0
    cdef int k, p
    waste.sum = 0
    for p in range(count):
        waste.sum += shares[p]
        used += shares[p] * fitting.weight[shares[p]]
    waste.all = mix.total * waste.sum - used
    for k in range(mix.classes):
        if k and mix.share[k] == mix.share[k - 1]:
            waste.enough[k], waste.above[k] = waste.enough[k - 1], waste.above[k - 1]
        else:
            waste.enough[k] = 0
            waste.above[k] = 0
            for p in range(count):
                waste.enough[k] += shares[p] >= mix.share[k]
                waste.above[k] += shares[p] if shares[p] >= mix.share[k] else 0
        if waste.enough[k] >= mix.count[k]:
            waste.all -= fitting.weight[SHARES + k] * waste.above[k]


cdef int64_t _waste_without(RequestMix mix, const Fitting* fitting, const Waste* waste, int share, int asked) noexcept nogil:
    """Return the waste after so much of one GPU, which has that share free, is taken."""
    cdef int left = share - asked, k, enough
    cdef int64_t found = waste.all - mix.total * asked + share * fitting.weight[share] - left * fitting.weight[left], above
    for k in range(mix.classes):
        if share < mix.share[k]:
            break  # of no concern to this class, and to those that ask for more of each
        if waste.enough[k] >= mix.count[k]:
            found += fitting.weight[SHARES + k] * waste.above[k]
        enough = waste.enough[k] - (left < mix.share[k])
        above = waste.above[k] - (asked if left >= mix.share[k] else share)
        if enough >= mix.count[k]:
            found -= fitting.weight[SHARES + k] * above
    return found


cdef inline double _expected(RequestMix mix, int64_t waste, int64_t cpu, int64_t sum) noexcept nogil:
    """Return the expected waste, in shares: the mean over the mix, and the share for which the node has no CPU left at the mix's mean."""
    cdef double found = waste / <double> mix.total
    if mix.cpu_per_share != 0.0:
        found += max(0.0, sum - max(<int64_t> 0, cpu) / mix.cpu_per_share)
    return found


cdef double _added(
    RequestMix mix, int64_t cpu, int64_t memory, int64_t asked_cpu, int64_t asked_memory, uint8_t* shares, const uint8_t* asked, int count,
    int wanted
) noexcept nogil:
    """Return what the pod adds to the node's expected waste, on the GPUs that add the least. Changes shares."""
    cdef Fitting fitting
    cdef Waste waste
    cdef double before
    if mix.total == 0:
        return 0.0
    _weigh_fitting(mix, cpu, memory, &fitting)
    _read_waste(mix, &fitting, shares, count, &waste)
    before = _expected(mix, waste.all, cpu, waste.sum)
    cpu -= asked_cpu
    _weigh_fitting(mix, cpu, memory - asked_memory, &fitting)
    _read_waste(mix, &fitting, shares, count, &waste)
    if wanted:
        _take(mix, &fitting, shares, asked, count, wanted, &waste)
    return _expected(mix, waste.all, cpu, waste.sum) - before


cdef void _take(
    RequestMix mix, const Fitting* fitting, uint8_t* shares, const uint8_t* asked, int count, int wanted, Waste* waste
) noexcept nogil:
    """Take the GPUs that add the least, each judged as if it was the only one, as the allocator does; leave the waste after that."""
    cdef int64_t[LARGEST_GROUP] after
    cdef int64_t least
    cdef int p, best, _taken, whole = -1
    for p in range(count):
        if asked[p] == 0:
            after[p] = TAKEN
        elif whole >= 0 and shares[p] == WHOLE_GPU and asked[p] == asked[whole]:
            after[p] = after[whole]  # nothing of either is used
        else:
            after[p] = _waste_without(mix, fitting, waste, shares[p], asked[p])
            if shares[p] == WHOLE_GPU:
                whole = p
    for _taken in range(wanted):
        best = -1
        least = TAKEN
        for p in range(count):
            if after[p] < least:
                best, least = p, after[p]
        if best < 0:
            break  # fewer GPUs fit than are wanted: such a node is refused
        waste.all = least
        waste.sum -= asked[best]
        shares[best] -= asked[best]
        after[best] = TAKEN
    if wanted > 1:
        _read_waste(mix, fitting, shares, count, waste)
