"""Scores of nodes and devices by how little a placement adds to the GPU share that recent requests could not use."""

import numpy as np

cimport numpy as cnp
from libc.math cimport exp
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from koordsched._core.device_request cimport DeviceRequest
from koordsched._core.device_score cimport DeviceGroup, DeviceScoring
from koordsched._core.device_table cimport (
    GPU,
    GPU_RESOURCES,
    LARGEST_GROUP,
    MEMORY,
    RATIO,
    Cells,
    DeviceColumns,
    DeviceTable,
    index_of,
    position,
)
from koordsched._core.rows cimport Rows, rows_of, scores_in, zero_scores
from koordsched._core.table cimport RESOURCE_CPU, RESOURCE_MEMORY, NodeTable

cnp.import_array()

MAX_REQUESTS = MAX_ITEMS

cdef enum:
    CORE = 0              # place among the resources of GPUs
    MIB_BITS = 20
    KEPT = 256            # nodes whose score is kept during a call; a power of two
    PACKED = 16           # GPUs of a node whose shares are packed into a key
    LARGEST = 0x7FFFFFFF

cdef double SPREAD = 50.0   # by so much added waste, in shares, scores go from 50 to 27
cdef double TAKEN = -1.0     # waste is at least 0
cdef double MIDDLE = 1e12   # device scores are this, less the waste in 1/1024 of a share


cdef class RequestMix:

    def __init__(self, requests not None):
        cdef int item = 0, k = -1, i, n
        cdef int64_t cpu = 0, shares = 0
        if len(requests) > MAX_ITEMS:
            raise ValueError(f"{len(requests)} requests: at most {MAX_ITEMS}")
        for (share, count), listed in _by_class(requests).items():
            if not (1 <= share <= WHOLE_GPU and 1 <= count):
                raise ValueError(f"{count} GPUs of {share} %: expected 1 to {WHOLE_GPU} % of at least 1")
            k += 1
            self.share[k], self.count[k] = share, min(count, LARGEST_GROUP + 1)
            for request, pods in listed:
                self.cpu[item] = min(request[0], LARGEST)
                self.memory[item] = min(-(-request[1] >> MIB_BITS), LARGEST)
                self.weight[item] = pods
                self.class_of[item] = k
                self.class_weight[k] += pods
                self.total += pods
                cpu += pods * request[0]
                shares += <int64_t> pods * share * count
                item += 1
        self.items, self.classes = item, k + 1
        self.cpu_per_share = cpu / <double> shares if shares else 0.0
        levels = sorted({self.cpu[i] for i in range(item)})
        self.levels = len(levels)
        for n in range(self.levels):
            self.level[n] = levels[n]
        for n, i in enumerate(sorted(range(item), key=lambda place: -self.memory[place])):
            self.by_memory[n] = i
        self.within = np.zeros((self.levels + 1, max(self.classes, 1)), np.int64)
        for i in range(item):
            for n in range(self.levels):
                if self.cpu[i] <= self.level[n]:
                    self.within[n + 1, self.class_of[i]] += self.weight[i]


def _by_class(requests):
    found = {}
    for request, pods in sorted(requests.items(), key=_share_and_count):
        found.setdefault((request[3], request[2]), []).append((request, pods))
    return found


def _share_and_count(item):
    (cpu, memory, count, share), _ = item
    return share, count, cpu, memory


cdef class FragmentationScoring(DeviceScoring):

    def __init__(self, RequestMix mix not None):
        super().__init__({}, most=False)
        self.mix = mix
        self.picks_device = True

    def aim(self, NodeTable nodes not None, Py_ssize_t row):
        nodes.check_row(row)
        self.cpu = nodes.allocatable[RESOURCE_CPU, row] - nodes.requested[RESOURCE_CPU, row]
        self.memory = nodes.allocatable[RESOURCE_MEMORY, row] - nodes.requested[RESOURCE_MEMORY, row]
        _weigh_fitting(self.mix, self.cpu, self.memory, &self.fitting[0])

    cdef int64_t score_device(self, const DeviceGroup* group, int at, const int64_t* amounts) noexcept nogil:
        cdef int32_t[LARGEST_GROUP] shares
        cdef FreeShares free
        cdef int p, count = 0
        if group.type != GPU or self.mix.total == 0:
            return 0
        for p in range(group.count):
            if group.healthy & position(p) or p == at:
                shares[count] = _free_share(&group.total[p], &group.free[p], group.total_stride, group.free_stride)
                count += 1
        _read_free(self.mix, shares, count, &free)
        return <int64_t> (MIDDLE - 1024 * _waste_without(
            self.mix, &self.fitting[0], &free, _free_share(&group.total[at], &group.free[at], group.total_stride, group.free_stride),
            _asked_share(&group.total[at], group.total_stride, amounts),
        ))


cdef struct Kept:
    int64_t cpu
    int64_t memory
    uint64_t[2] shares
    int32_t count     # GPUs; 0: nothing is kept here
    int32_t score


def score_fragmentation(
    DeviceTable table not None, DeviceRequest request, FragmentationScoring scoring not None, int64_t cpu, int64_t memory,
    cnp.ndarray rows not None,
):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray scores = zero_scores(asked)
    cdef int64_t* out = scores_in(scores)
    cdef int64_t[GPU_RESOURCES] amounts
    cdef int r, wanted = 0
    memset(amounts, 0, sizeof(amounts))
    if request is not None:
        for r in range(GPU_RESOURCES):
            amounts[r] = request.amount[GPU][r]
        wanted = request.count[GPU] if request.asks[GPU] else 0
    with nogil:
        _score(table, scoring.mix, wanted, amounts, cpu, memory, asked, out)
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
    cdef int32_t[LARGEST_GROUP] free
    cdef int64_t[MAX_ITEMS] fitting
    cdef FreeShares read
    cdef int i, count = len(shares)
    if count > LARGEST_GROUP:
        raise ValueError(f"{count} GPUs: at most {LARGEST_GROUP}")
    for i in range(count):
        free[i] = shares[i]
    _weigh_fitting(mix, cpu, memory, fitting)
    _read_free(mix, free, count, &read)
    return _waste(mix, fitting, cpu, &read)


cdef void _score(
    DeviceTable table, RequestMix mix, int wanted, const int64_t* amounts, int64_t cpu, int64_t memory, Rows rows, int64_t* scores
) noexcept nogil:
    cdef Kept[KEPT] kept
    cdef Kept state
    cdef Kept* found
    cdef int32_t[LARGEST_GROUP] shares
    cdef int32_t[LARGEST_GROUP] asked
    cdef bint packed, by_share = amounts[MEMORY] == 0
    cdef Py_ssize_t i, index, row
    cdef const DeviceColumns* gpus = &table.columns[GPU]
    cdef const Cells* cells
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
        cells = &table.node[index].cells[GPU]
        state.count = _read_shares(gpus, cells, wanted, amounts, shares, asked)
        if state.count == 0:  # a node without GPUs, or of which nothing is known
            scores[i] = 0 if wanted else nothing
            continue
        state.cpu = allocatable_cpu[row] - requested_cpu[row]
        state.memory = allocatable_memory[row] - requested_memory[row]
        packed = by_share and state.count <= PACKED and _pack(shares, state.count, state.shares)
        found = &kept[_place(&state)]
        if packed and _is_same(found, &state):
            scores[i] = found.score
            continue
        scores[i] = _score_of(_added(mix, state.cpu, state.memory, cpu, memory, shares, asked, state.count, wanted))
        if packed:
            state.score = <int32_t> scores[i]
            found[0] = state


cdef inline bint _pack(const int32_t* shares, int count, uint64_t* packed) noexcept nogil:
    cdef int p
    packed[0] = packed[1] = 0
    for p in range(count):
        packed[p >> 3] |= <uint64_t> shares[p] << ((p & 7) * 8)
    return True


cdef inline Py_ssize_t _place(const Kept* state) noexcept nogil:
    cdef uint64_t mixed = <uint64_t> state.cpu * 31 + <uint64_t> state.memory
    mixed = (mixed ^ state.shares[0] ^ (state.shares[1] << 1) ^ <uint64_t> state.count) * <uint64_t> 0x9E3779B97F4A7C15
    return <Py_ssize_t> (mixed >> 56)


cdef inline bint _is_same(const Kept* one, const Kept* other) noexcept nogil:
    return (
        one.count == other.count and one.cpu == other.cpu and one.memory == other.memory
        and one.shares[0] == other.shares[0] and one.shares[1] == other.shares[1]
    )


cdef inline int32_t _score_of(double added) noexcept nogil:
    return <int32_t> (100.0 / (1.0 + exp(added / SPREAD)))


cdef int _read_shares(
    const DeviceColumns* gpus, const Cells* cells, int wanted, const int64_t* amounts, int32_t* shares, int32_t* asked
) noexcept nogil:
    # Write the free share of each healthy GPU, and what the pod takes of it: 0 where it does not fit. Return how many GPUs there are.
    cdef Py_ssize_t cell
    cdef const int64_t* total
    cdef const int64_t* free
    cdef int r, count = 0
    for cell in range(cells.start, cells.start + cells.count):
        total, free = &gpus.total[cell], &gpus.free[cell]
        if (total[CORE * gpus.capacity] | total[RATIO * gpus.capacity] | total[MEMORY * gpus.capacity]) == 0:
            continue
        shares[count] = _free_share(total, free, gpus.capacity, gpus.capacity)
        asked[count] = 0
        if wanted:
            for r in range(GPU_RESOURCES):
                if amounts[r] and free[r * gpus.capacity] < amounts[r]:
                    break
            else:
                asked[count] = _asked_share(total, gpus.capacity, amounts)
        count += 1
    return count


cdef inline int32_t _free_share(const int64_t* total, const int64_t* free, Py_ssize_t total_stride, Py_ssize_t free_stride) noexcept nogil:
    """Return the free share of a device: of cores and of memory the smaller one."""
    cdef int64_t cores = WHOLE_GPU, memory = WHOLE_GPU
    if total[CORE * total_stride]:
        cores = _percent(free[CORE * free_stride], total[CORE * total_stride])
    if total[RATIO * total_stride]:
        memory = _percent(free[RATIO * free_stride], total[RATIO * total_stride])
    elif total[MEMORY * total_stride]:
        memory = _percent(free[MEMORY * free_stride], total[MEMORY * total_stride])
    return <int32_t> min(cores, memory)


cdef inline int64_t _percent(int64_t part, int64_t whole) noexcept nogil:
    """Return how many percent it is, rounded down. Cores and ratios of memory are percentages already: no division."""
    return part if whole == WHOLE_GPU else part * WHOLE_GPU // whole


cdef inline int64_t _percent_up(int64_t part, int64_t whole) noexcept nogil:
    return part if whole == WHOLE_GPU else (part * WHOLE_GPU + whole - 1) // whole


cdef inline int32_t _asked_share(const int64_t* total, Py_ssize_t stride, const int64_t* amounts) noexcept nogil:
    """Return the share of a device that is asked for: of cores and of memory the larger one, rounded up."""
    cdef int64_t share = 0
    if amounts[CORE] and total[CORE * stride]:
        share = _percent_up(amounts[CORE], total[CORE * stride])
    if amounts[RATIO] and total[RATIO * stride]:
        share = max(share, _percent_up(amounts[RATIO], total[RATIO * stride]))
    if amounts[MEMORY] and total[MEMORY * stride]:
        share = max(share, _percent_up(amounts[MEMORY], total[MEMORY * stride]))
    return <int32_t> min(share, <int64_t> WHOLE_GPU)


cdef void _weigh_fitting(RequestMix mix, int64_t cpu, int64_t memory, int64_t* fitting) noexcept nogil:
    """Write by class the weight of the items for which CPU and memory suffice."""
    cdef int low = 0, high = mix.levels, middle, i, k
    cdef int64_t mib = memory >> MIB_BITS
    while low < high:
        middle = (low + high) >> 1
        if mix.level[middle] <= cpu:
            low = middle + 1
        else:
            high = middle
    for k in range(mix.classes):
        fitting[k] = mix.within[low, k]
    for k in range(mix.items):
        i = mix.by_memory[k]
        if mix.memory[i] <= mib:
            return
        if mix.cpu[i] <= cpu:
            fitting[mix.class_of[i]] -= mix.weight[i]


cdef struct FreeShares:
    # The GPUs of a node by the shares that the classes of a mix ask for
    int64_t sum
    int64_t[MAX_ITEMS] below     # [class] free on GPUs that have less than each has to have
    int32_t[MAX_ITEMS] enough    # [class] the other GPUs


cdef void _read_free(RequestMix mix, const int32_t* shares, int count, FreeShares* free) noexcept nogil:
    cdef int32_t[WHOLE_GPU + 1] having   # [share] GPUs with so much free
    cdef int64_t below = 0
    cdef int k, p, share = 0, enough = count
    memset(having, 0, sizeof(having))
    free.sum = 0
    for p in range(count):
        free.sum += shares[p]
        having[shares[p]] += 1
    # Classes have ascending shares: what is below one follows from what is below the one before.
    for k in range(mix.classes):
        while share < mix.share[k]:
            below += share * having[share]
            enough -= having[share]
            share += 1
        free.below[k], free.enough[k] = below, enough


cdef double _waste(RequestMix mix, const int64_t* fitting, int64_t cpu, const FreeShares* free) noexcept nogil:
    """Return the expected waste of a node, in shares; 0 for a mix of nothing."""
    cdef int64_t waste = 0
    cdef int k
    if mix.total == 0:
        return 0.0
    for k in range(mix.classes):
        waste += _waste_of(mix, k, fitting[k], free.sum, free.below[k], free.enough[k])
    return waste / <double> mix.total + _beyond_cpu(mix, cpu, free.sum)


cdef double _waste_without(RequestMix mix, const int64_t* fitting, const FreeShares* free, int32_t share, int32_t asked) noexcept nogil:
    """Return the same after so much of one GPU, which has that share free, is taken. What the CPU is too small for is left out: it is the
    same whichever GPU it is."""
    cdef int64_t waste = 0, below
    cdef int32_t left = share - asked
    cdef int k, enough
    for k in range(mix.classes):
        below = free.below[k] - (share if share < mix.share[k] else 0) + (left if left < mix.share[k] else 0)
        enough = free.enough[k] - (share >= mix.share[k]) + (left >= mix.share[k])
        waste += _waste_of(mix, k, fitting[k], free.sum - asked, below, enough)
    return waste / <double> mix.total


cdef inline int64_t _waste_of(RequestMix mix, int k, int64_t fitting, int64_t sum, int64_t below, int enough) noexcept nogil:
    """Return the waste for the requests of a class together."""
    if enough < mix.count[k]:
        return mix.class_weight[k] * sum
    return (mix.class_weight[k] - fitting) * sum + fitting * below


cdef inline double _beyond_cpu(RequestMix mix, int64_t cpu, int64_t sum) noexcept nogil:
    """Return the share for which the node has no CPU left, at the mix's mean."""
    if mix.cpu_per_share == 0.0:
        return 0.0
    return max(0.0, sum - max(<int64_t> 0, cpu) / mix.cpu_per_share)


cdef double _added(
    RequestMix mix, int64_t cpu, int64_t memory, int64_t asked_cpu, int64_t asked_memory, int32_t* shares, const int32_t* asked, int count,
    int wanted
) noexcept nogil:
    """Return what the pod adds to the node's expected waste, on the GPUs that add the least. Changes shares."""
    cdef int64_t[MAX_ITEMS] fitting
    cdef FreeShares free
    cdef double before
    if mix.total == 0:
        return 0.0
    _read_free(mix, shares, count, &free)
    _weigh_fitting(mix, cpu, memory, fitting)
    before = _waste(mix, fitting, cpu, &free)
    _weigh_fitting(mix, cpu - asked_cpu, memory - asked_memory, fitting)
    if wanted:
        _take(mix, fitting, &free, shares, asked, count, wanted)
        _read_free(mix, shares, count, &free)
    return _waste(mix, fitting, cpu - asked_cpu, &free) - before


cdef void _take(
    RequestMix mix, const int64_t* fitting, const FreeShares* free, int32_t* shares, const int32_t* asked, int count, int wanted
) noexcept nogil:
    # Each GPU is judged as if it was the only one that is taken, as the allocator does.
    cdef double[LARGEST_GROUP] waste
    cdef int p, q, best, _taken
    for p in range(count):
        if asked[p] == 0:
            continue
        if asked[p] == WHOLE_GPU:
            waste[p] = 0.0  # all of them are alike
            continue
        for q in range(p):
            if shares[q] == shares[p] and asked[q] == asked[p]:
                waste[p] = waste[q]
                break
        else:
            waste[p] = _waste_without(mix, fitting, free, shares[p], asked[p])
    for _taken in range(wanted):
        best = -1
        for p in range(count):
            if asked[p] and waste[p] != TAKEN and (best < 0 or waste[p] < waste[best]):
                best = p
        if best < 0:
            return  # fewer GPUs fit than are wanted: such a node is refused
        shares[best] -= min(shares[best], asked[best])
        waste[best] = TAKEN
