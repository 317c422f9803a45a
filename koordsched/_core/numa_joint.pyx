"""On which NUMA nodes of each row a pod's CPUs and memory come together with another plugin's devices (nodenumaresource.md §9).

What `framework.topologymanager.TopologyManager.check` does for one node with all hints in Python, for all rows at once: hints of
both, merged; then a trial of both within what came out. `numa_filter` and `numa_score` call it for rows with a NUMA policy that Filter
aligns under. The merge is shorter than that of any lists, because under these policies an affinity has to be preferred by all: under
SingleNUMANode it is one zone; under Restricted zones prefer whatever fits, and the source its narrowest sets.
"""

cimport numpy as cnp
import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from koordsched._core.hint_source cimport FoundHints, NumaHintSource
from koordsched._core.hints cimport LISTED, ids_of, list_feasible, positions_of, summaries_of_zones
from koordsched._core.numa cimport (
    DETAIL_SHIFT,
    MAX_ZONES,
    NUMA_SINGLE,
    NumaRequest,
    NumaScoring,
    NumaTable,
    index_of,
)
from koordsched._core.numa_merge cimport summary_of
from koordsched._core.numa_zones cimport (
    PASS,
    UNALIGNED,
    UNSATISFIED,
    Choice,
    Items,
    Zones,
    agree,
    bits,
    choose,
    detail_of,
    fits,
    knows,
    mask_score,
    read_counts,
    read_items,
    read_zones,
    settle,
    shortage,
    unsatisfied,
    violating,
)
from koordsched._core.numa_facts import Hint
from koordsched._core.rows cimport Rows, flags_in, rows_of, zero_flags

cnp.import_array()


# Deciding


cdef JointChoice choose_jointly(
    NumaTable table, const Items* items, Zones* zones, NumaHintSource source, Py_ssize_t row
) noexcept nogil:
    """Return the NUMA nodes to take from, or why there are none. Reads the zones of a node that has some; the scoring must be in items."""
    cdef FoundHints found
    cdef JointChoice chosen
    cdef Choice own
    cdef uint64_t mask
    read_zones(table, items, zones)
    settle(items, zones)
    source.find(row, True, &found)
    chosen.mask = 0
    if found.code:
        chosen.code = HINTS_REFUSED
        chosen.detail = found.code
        return chosen
    if found.named:
        own = _best_of_both(items, zones, &found)
    else:
        own = choose(items, zones, False)
    chosen.code = own.code
    chosen.detail = detail_of(own.items)
    if own.code != PASS:
        return chosen
    mask = ids_of(zones, own.mask)
    if not (source.consistent and found.named and own.mask):
        chosen.detail = source.refusal(row, mask)
        if chosen.detail:
            chosen.code = TRIAL_REFUSED
            return chosen
    chosen.mask = mask
    return chosen


cdef Choice _best_of_both(const Items* items, const Zones* zones, const FoundHints* found) noexcept nogil:
    """Return the best zones (positions) that the source prefers and all known items could come from."""
    cdef Choice best
    cdef bint known = knows(items, zones)
    cdef int size = bits(found.mask[0])
    cdef int lists = 0
    cdef int i
    cdef uint64_t lack = 0
    cdef uint64_t mask
    cdef int64_t score
    cdef int64_t best_score = -1
    best.mask = 0
    best.items = 0
    for i in range(items.requested):
        if zones.known >> i & 1:
            lack |= zones.of[i].lack
            lists += 1
    if zones.numa_policy != NUMA_SINGLE or size == 1:
        for i in range(found.count):
            if bits(found.mask[i]) != size:
                break
            mask = positions_of(zones, found.mask[i])
            if bits(mask) != size or violating(zones, mask):
                continue  # has zones that the node lacks, or that the pod may not share
            if known and (mask & lack or not fits(items, zones, mask)):
                continue
            score = bits(found.named) * found.score[i] + (lists * mask_score(items, zones, mask) if lists else 0)
            if score > best_score or (score == best_score and mask < best.mask):
                best.mask = mask
                best_score = score
    if not best.mask:
        best.items = unsatisfied(items, zones)
        best.code = UNSATISFIED if best.items else UNALIGNED
        return best
    best.code = PASS
    if zones.numa_policy == NUMA_SINGLE and best.mask == zones.all:
        best.mask = 0  # a machine of one zone: nothing to align
    if not known:
        best = shortage(items, zones, best.mask)  # nothing is split; CPUs may be any of the node
    return best


# For all rows


cdef class KeptAffinities:

    def __init__(self):
        self.stamp = np.empty(0, np.int64)
        self.mask = np.empty(0, np.uint64)

    cdef int begin(self, NumaTable table, NumaRequest request, NumaHintSource source) except -1:
        """Forget what is not of this request and source, and make room for all rows."""
        cdef Py_ssize_t capacity = table.nodes.touched.shape[0]
        if self.request is request and self.source is source and self.stamp.shape[0] >= capacity:
            return 0
        if self.stamp.shape[0] < capacity:
            self.stamp = np.empty(capacity, np.int64)
            self.mask = np.empty(capacity, np.uint64)
        memset(&self.stamp[0], 0xFF, self.stamp.shape[0] * sizeof(int64_t))  # -1
        self.request = request
        self.source = source
        return 0


def joint_masks(
    NumaTable table not None, NumaRequest request not None, NumaScoring scoring not None, cnp.ndarray rows not None,
    NumaHintSource source not None, KeptAffinities kept=None,
):
    cdef Rows asked = rows_of(rows)
    cdef cnp.npy_intp count = asked.count
    cdef cnp.ndarray answer = cnp.PyArray_ZEROS(1, &count, cnp.NPY_UINT64, 0)
    cdef uint64_t* out = <uint64_t*> cnp.PyArray_DATA(answer)
    cdef Items items
    cdef bint any_mask
    source.begin()
    read_items(&items, table, request, scoring)
    if kept is not None:
        kept.begin(table, request, source)
    with nogil:
        any_mask = _write_masks(table, request, &items, source, kept, asked, out)
    return answer if any_mask else None


cdef bint _write_masks(
    NumaTable table, NumaRequest request, const Items* items, NumaHintSource source, KeptAffinities kept, Rows rows, uint64_t* out
) noexcept nogil:
    cdef Zones zones
    cdef Py_ssize_t i, row
    cdef bint any_mask = False
    for i in range(rows.count):
        row = rows.at[i]
        if kept is not None and kept.stamp[row] == table.nodes.touched[row]:
            out[i] = kept.mask[row]
        else:
            if agree(table, request, index_of(table, row), &zones) != PASS or not is_strict(&zones):
                continue
            read_counts(table, &zones)
            if zones.count == 0:
                continue
            out[i] = choose_jointly(table, items, &zones, source, row).mask
        any_mask |= out[i] != 0
    return any_mask


cdef class NumaAlignment:

    def __init__(self, NumaTable table not None, NumaRequest request not None):
        self.table = table
        self.request = request

    def __eq__(self, other):
        if not isinstance(other, NumaAlignment):
            return NotImplemented
        return self.table is (<NumaAlignment> other).table and self.request is (<NumaAlignment> other).request

    def __hash__(self):
        return hash((NumaAlignment, id(self.table), id(self.request)))

    cdef bint holds(self, Py_ssize_t row) noexcept nogil:
        cdef Zones zones
        agree(self.table, self.request, index_of(self.table, row), &zones)
        return is_strict(&zones)


def aligned_rows(NumaTable table not None, NumaRequest request not None, cnp.ndarray rows not None):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray answer = zero_flags(asked)
    cdef uint8_t* out = flags_in(answer)
    cdef NumaAlignment alignment = NumaAlignment(table, request)
    cdef Py_ssize_t i
    cdef bint any_aligned = False
    with nogil:
        for i in range(asked.count):
            out[i] = alignment.holds(asked.at[i])
            any_aligned |= out[i]
    return answer if any_aligned else None


# For one row


def joint_affinity(
    NumaTable table not None, NumaRequest request not None, NumaScoring scoring not None, Py_ssize_t row, NumaHintSource source not None
):
    cdef Items items
    cdef Zones zones
    cdef JointChoice chosen
    table.nodes.check_row(row)
    source.begin()
    read_items(&items, table, request, scoring)
    agree(table, request, index_of(table, row), &zones)
    read_counts(table, &zones)
    chosen = choose_jointly(table, &items, &zones, source, row)
    if chosen.code == UNALIGNED:
        chosen.detail = summarize_jointly(table, request, &items, &zones, source, row)
    return chosen.code | chosen.detail << DETAIL_SHIFT, chosen.mask


cdef int32_t summarize_jointly(
    NumaTable table, NumaRequest request, const Items* items, const Zones* zones, NumaHintSource source, Py_ssize_t row
) except -1:
    """Return the place in the table of what all hints of a node looked like, once for all nodes whose hints are the same."""
    cdef FoundHints found
    cdef uint64_t key[LISTED + MAX_ZONES + 1]
    cdef int count = list_feasible(items, zones, key)
    cdef int i
    with nogil:
        source.find(row, False, &found)
    ids = (<const char*> zones.id)[:zones.count]
    masks = [found.mask[i] for i in range(found.count)] if found.named else []
    seen = ((<char*> key)[:count * sizeof(uint64_t)], ids, source.names, found.named, tuple(masks))
    place = request.summaries.get(seen)
    if place is None:
        texts = summaries_of_zones(request, items, zones)
        narrowest = min([mask.bit_count() for mask in masks], default=0)
        hints = [Hint(mask, 0, mask.bit_count() == narrowest) for mask in masks]
        texts += [summary_of(name, hints) for i, name in enumerate(source.names) if found.named >> i & 1]
        separator = "," if zones.numa_policy == NUMA_SINGLE else " & "
        place = request.summaries[seen] = table.summary_id(separator.join(sorted(texts)))
    return place
