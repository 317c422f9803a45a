"""The score of each row for a pod's CPUs and NUMA nodes (nodenumaresource.md §10).

All rows are scored in one call. The scores of rows that `numa_filter` refuses are meaningless. A row of which nothing can be scored gets 0
(D2).
"""

cimport numpy as cnp
from libc.stdint cimport INT64_MAX, int64_t, uint64_t

from koordsched._core.hint_source cimport NumaHintSource
from koordsched._core.hints cimport positions_of
from koordsched._core.numa cimport (
    MAX_ZONES,
    NUMA_BEST_EFFORT,
    NUMA_NONE,
    TOPOLOGY_VALID,
    NumaRequest,
    NumaScoring,
    NumaTable,
    index_of,
)
from koordsched._core.numa_joint cimport JointChoice, KeptAffinities, choose_jointly
from koordsched._core.numa_zones cimport (
    PASS,
    Choice,
    Items,
    Zones,
    agree,
    amplified,
    consider,
    fraction,
    mean,
    read_counts,
    read_items,
    read_zones,
    settle,
    split,
)
from koordsched._core.rows cimport Rows, rows_of, scores_in, zero_scores
from koordsched._core.table cimport NodeTable

cnp.import_array()


def score_numa(
    NumaTable table not None, NumaRequest request not None, NumaScoring scoring not None, cnp.ndarray rows not None,
    NumaHintSource source=None, KeptAffinities kept=None,
):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray scores = zero_scores(asked)
    cdef int64_t* out = scores_in(scores)
    cdef Items items
    read_items(&items, table, request, scoring)
    if source is not None:
        source.begin()
    if kept is not None:
        kept.begin(table, request, source)
    with nogil:
        _score_rows(table, request, &items, scoring.node_most, source, kept, asked, out)
    return scores


cdef void _score_rows(
    NumaTable table, NumaRequest request, const Items* items, bint most, NumaHintSource source, KeptAffinities kept, Rows rows,
    int64_t* scores
) noexcept nogil:
    cdef Py_ssize_t i
    cdef Zones zones
    for i in range(rows.count):
        scores[i] = _score_row(table, request, items, most, source, kept, rows.at[i], &zones)


cdef int64_t _score_row(
    NumaTable table, NumaRequest request, const Items* items, bint most, NumaHintSource source, KeptAffinities kept, Py_ssize_t row,
    Zones* zones
) noexcept nogil:
    cdef Level level
    cdef Choice found
    if agree(table, request, index_of(table, row), zones) != PASS:
        return 0
    if zones.bind and table.topology[zones.index] != TOPOLOGY_VALID:
        return 0
    read_counts(table, zones)
    _take_node(table.nodes, items, row, &level)
    if zones.numa_policy == NUMA_NONE:
        if items.cpu >= 0 and items.amount[items.cpu]:
            level.requested[items.cpu] += amplified(1000 * zones.bound, zones.ratio) - 1000 * zones.bound
        return _weighted(items, zones, most, &level)
    if zones.numa_policy != NUMA_BEST_EFFORT:  # which has no affinity before Reserve
        if zones.count == 0:
            return 0
        found = consider(table, items, zones, False) if source is None else _joint(table, items, zones, source, kept, row)
        if found.code != PASS:
            return 0
        _take_zones(items, zones, found.mask, &level)
    if zones.bind and items.cpu >= 0:
        level.requested[items.cpu] = amplified(1000 * zones.bound, zones.ratio)  # of the whole node, not of zones [D22]
    return _weighted(items, zones, most, &level)


cdef Choice _joint(
    NumaTable table, const Items* items, Zones* zones, NumaHintSource source, KeptAffinities kept, Py_ssize_t row
) noexcept nogil:
    """Return the zones (positions) that the pod was found to come from together with another plugin's devices."""
    cdef Choice found
    cdef JointChoice chosen
    found.code = PASS
    found.items = 0
    if kept is not None and kept.stamp[row] == table.nodes.touched[row]:
        read_zones(table, items, zones)
        settle(items, zones)
        found.mask = positions_of(zones, kept.mask[row])
    else:
        chosen = choose_jointly(table, items, zones, source, row)
        found.code = chosen.code
        found.mask = positions_of(zones, chosen.mask)
    return found


cdef void _take_node(NodeTable nodes, const Items* items, Py_ssize_t row, Level* level) noexcept nogil:
    cdef int i
    for i in range(items.count):
        if items.id[i] < nodes.resources:
            level.capacity[i] = nodes.allocatable[items.id[i], row]
            level.requested[i] = nodes.requested[items.id[i], row]
        else:
            level.capacity[i] = 0
            level.requested[i] = 0


cdef void _take_zones(const Items* items, const Zones* zones, uint64_t mask, Level* level) noexcept nogil:
    """Take the zones of the mask that the request would have a part of; nothing changes when there is none."""
    cdef int64_t share[MAX_ZONES]
    cdef bint used[MAX_ZONES]
    cdef bint any_used = False
    cdef int i, p
    for p in range(zones.count):
        used[p] = False
        if mask == (<uint64_t> 1) << p:
            used[p] = (zones.known & (((<uint64_t> 1) << items.requested) - 1)) != 0
            any_used |= used[p]
    for i in range(items.requested):
        if not mask or not zones.known >> i & 1 or not mask & (mask - 1):
            continue
        split(items, zones, mask, i, share)
        for p in range(zones.count):
            if mask >> p & 1 and share[p]:
                used[p] = True
                any_used = True
    if not any_used:
        return
    for i in range(items.count):
        level.capacity[i] = 0
        level.requested[i] = 0
        for p in range(zones.count):
            if used[p] and zones.known >> i & 1:
                level.capacity[i] += zones.of[i].total[p]
                level.requested[i] += zones.of[i].allocated[p]


cdef int64_t _weighted(const Items* items, const Zones* zones, bint most, const Level* level) noexcept nogil:
    """Return the weighted mean over the scored resources that there are."""
    cdef int64_t score = 0
    cdef int64_t weights = 0
    cdef int64_t taken
    cdef int i
    for i in range(items.count):
        if not items.weight[i] or level.capacity[i] == 0 or (items.optional[i] and not items.amount[i]):
            continue
        taken = zones.scored_cpu if i == items.cpu else items.amount[i]
        # A sum beyond an int64 is more than any capacity, as its largest value is.
        taken = taken + level.requested[i] if level.requested[i] <= INT64_MAX - taken else INT64_MAX
        score += items.weight[i] * fraction(most, taken, level.capacity[i])
        weights += items.weight[i]
    return mean(score, weights)
