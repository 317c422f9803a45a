"""Which rows have the devices that a pod asks for, and how well each suits it (deviceshare.md §5, §7): all rows in one call.

Pods that ask for GPUs alone, and for amounts alone, are answered by counting the devices that fit; all else by the allocator.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from koordsched._core.device_allocation cimport (
    DETAIL_BITS,
    INSUFFICIENT,
    INSUFFICIENT_GPUS,
    NO_DEVICES,
    PASS,
    Outcome,
    check_feasible,
    check_labels,
    score_candidates,
    try_allocate,
)
from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceScoring
from koordsched._core.device_table cimport (
    GPU,
    HAS_ENTRY,
    HAS_TREE,
    HONORS_PARTITIONS,
    TYPES,
    DeviceNode,
    DeviceTable,
    index_of,
)
from koordsched._core.rows cimport Rows, codes_in, rows_of, scores_in, zero_codes, zero_scores

cnp.import_array()


def filter_devices(
    DeviceTable table not None, DeviceRequest request not None, cnp.ndarray rows not None, DeviceAdjustment adjustment=None, *,
    bint reserve=False, aligned=None,
):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray codes = zero_codes(asked)
    cdef int32_t* out = codes_in(codes)
    cdef const uint8_t[::1] flags
    cdef const uint8_t* tried = NULL
    if aligned is not None and asked.count:
        flags = aligned.view("uint8")
        if flags.shape[0] != asked.count:
            raise ValueError(f"{flags.shape[0]} flags for {asked.count} rows")
        tried = &flags[0]
    request.prepare(table)
    if adjustment is not None:
        adjustment.prepare(table)
    with nogil:
        if request.plain and adjustment is None and tried == NULL:
            count_gpus(table, request, asked, out)
        else:
            try_rows(table, request, asked, adjustment, reserve, tried, out)
    return codes


cdef void try_rows(
    DeviceTable table, DeviceRequest request, Rows rows, DeviceAdjustment adjustment, bint reserve, const uint8_t* aligned, int32_t* codes
) noexcept nogil:
    cdef Outcome outcome
    cdef Py_ssize_t i, index
    for i in range(rows.count):
        index = index_of(table, rows.at[i])
        codes[i] = check_labels(table, request, index)
        if codes[i] == PASS and table.node[index].flags & HAS_ENTRY and (aligned == NULL or not aligned[i]):
            if adjustment is None:
                codes[i] = check_feasible(table, request, index, reserve)
            else:
                codes[i] = try_allocate(table, request, index, adjustment, None, 0, reserve, &outcome)


cdef void count_gpus(DeviceTable table, DeviceRequest request, Rows rows, int32_t* codes) noexcept nogil:
    # What steps 2 to 4 of §6.3 come to where partitions are not honored and no scope is required: enough GPUs that fit.
    cdef const DeviceNode* node
    cdef const int64_t* free
    cdef Py_ssize_t i, index, capacity = table.columns[GPU].capacity
    cdef int wanted = request.count[GPU], named = request.named_count[GPU], at, found
    cdef const int64_t* amount = &request.amount[GPU][0]
    cdef int first, second
    cdef int64_t least_first, least_second
    cdef bint by_labels = request.isolation != 0 or request.unshareable != NULL
    first = request.named[GPU][0]
    second = request.named[GPU][1] if named > 1 else first
    least_first = amount[first] if amount[first] > 1 else 1
    least_second = amount[second]
    for i in range(rows.count):
        index = index_of(table, rows.at[i])
        node = &table.node[index]
        if by_labels:
            codes[i] = check_labels(table, request, index)
        if codes[i] != PASS or not node.flags & HAS_ENTRY:
            continue
        if named > 2 or amount[first] == 0 or (node.flags & HONORS_PARTITIONS and not request.shared):
            codes[i] = check_feasible(table, request, index, False)
            continue
        free = table.columns[GPU].free + node.cells[GPU].start
        found = 0
        for at in range(node.cells[GPU].count):
            found += (free[first * capacity + at] >= least_first) & (free[second * capacity + at] >= least_second)
        if found >= wanted:
            continue
        if node.cells[GPU].count == 0:
            codes[i] = NO_DEVICES | GPU << DETAIL_BITS
        elif node.flags & HAS_TREE and (wanted <= 1 or not request.shared):
            codes[i] = INSUFFICIENT_GPUS
        else:
            codes[i] = INSUFFICIENT | GPU << DETAIL_BITS


def score_devices(
    DeviceTable table not None, DeviceRequest request not None, DeviceScoring scoring not None, cnp.ndarray rows not None, masks=None
):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray scores = zero_scores(asked)
    cdef int64_t* out = scores_in(scores)
    cdef const uint64_t[::1] numa
    request.prepare(table)
    if masks is None:
        with nogil:
            _score(table, request, scoring, asked, NULL, out)
        return scores
    numa = masks
    if numa.shape[0] != asked.count:
        raise ValueError(f"{numa.shape[0]} masks for {asked.count} rows")
    if asked.count:
        with nogil:
            _score(table, request, scoring, asked, &numa[0], out)
    return scores


cdef void _score(
    DeviceTable table, DeviceRequest request, DeviceScoring scoring, Rows rows, const uint64_t* masks, int64_t* scores
) noexcept nogil:
    cdef Py_ssize_t i, index
    cdef int type
    cdef bint selects = False
    for type in range(TYPES):
        selects = selects or request.matches[type] != NULL
    for i in range(rows.count):
        index = index_of(table, rows.at[i])
        if not table.node[index].flags & HAS_ENTRY:
            continue
        if selects or (masks != NULL and masks[i]):
            scores[i] = score_candidates(table, request, index, None, scoring, 0 if masks == NULL else masks[i])
        else:
            scores[i] = scoring.score_node(table, request, index)
