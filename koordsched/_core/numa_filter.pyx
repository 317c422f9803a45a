"""Which rows could give a pod the CPUs and NUMA nodes that it asks for, and why others could not (nodenumaresource.md §5, §13).

All rows are answered in one call, with the hints of another plugin if it has any for the pod.
"""

from enum import IntEnum

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint64_t

from koordsched._core.hint_source cimport NumaHintSource
from koordsched._core.hints cimport summarize
from koordsched._core.numa cimport (
    BIND_FULL_PCPUS,
    BIND_NONE,
    DETAIL_BITS,
    DETAIL_SHIFT,
    NUMA_NONE,
    TOPOLOGY_INVALID,
    TOPOLOGY_VALID,
    NumaRequest,
    NumaScoring,
    NumaTable,
    index_of,
)
from koordsched._core.numa_joint cimport (
    HINTS_REFUSED,
    TRIAL_REFUSED,
    JointChoice,
    KeptAffinities,
    choose_jointly,
    is_strict,
    summarize_jointly,
)
from koordsched._core.numa_zones cimport (
    AMPLIFIED_CPU,
    BIND_CONFLICT,
    INSUFFICIENT,
    INVALID_RATIO,
    INVALID_TOPOLOGY,
    MISSING_ZONES,
    NOT_ENOUGH_CPUS,
    NOT_WHOLE_CORES,
    PASS,
    UNALIGNED,
    UNSATISFIED,
    Choice,
    Items,
    Zones,
    agree,
    amplified,
    consider,
    detail_of,
    read_counts,
    read_items,
    read_zones,
    settle,
)
from koordsched._core.rows cimport Rows, codes_in, rows_of, zero_codes
from koordsched._core.table cimport RESOURCE_CPU, NodeTable

cnp.import_array()


class NumaReason(IntEnum):
    """Why a node is refused, in the order in which it is looked at."""

    PASS = 0
    POLICY_MISMATCH = 1  # pod and node have different NUMA policies
    NOT_INTEGER = 2  # CPUs are to be bound, but a fraction of one is requested
    INVALID_RATIO = 3  # the node's amplification cannot be read
    AMPLIFIED_CPU = 4  # too little cpu once that of bound pods is amplified
    INVALID_TOPOLOGY = 5  # CPUs are to be bound (or are amplified), but they are not known
    BIND_CONFLICT = 6  # pod and node require different bind policies
    NOT_WHOLE_CORES = 7  # whole cores are required, but a part of one is requested
    NOT_ENOUGH_CPUS = 8
    MISSING_ZONES = 9  # there is a NUMA policy, but no zones
    INSUFFICIENT = 10  # all zones together have too little of some resources
    UNSATISFIED = 11  # no set of zones would do for some resources
    UNALIGNED = 12  # there are sets, but none that all resources can come from
    HINTS_REFUSED = 13  # another plugin has no set of zones
    TRIAL_REFUSED = 14  # another plugin cannot allocate from the zones chosen


cdef int REASON_MASK = (1 << DETAIL_SHIFT) - 1


def filter_numa(
    NumaTable table not None, NumaRequest request not None, cnp.ndarray rows not None, NumaHintSource source=None, NumaScoring scoring=None,
    KeptAffinities kept=None,
):
    if source is not None and scoring is None:
        raise TypeError("which zones are tried depends on the scoring: there is none")
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray codes = zero_codes(asked)
    cdef int32_t* out = codes_in(codes)
    cdef Items items
    cdef bint any_unaligned
    read_items(&items, table, request, scoring)
    if source is not None:
        source.begin()
    if kept is not None:
        kept.begin(table, request, source)
    with nogil:
        any_unaligned = _refuse(table, request, &items, source, kept, asked, out)
    if any_unaligned:
        _summarize(table, request, &items, source, asked, out)
    return codes


cdef bint _refuse(
    NumaTable table, NumaRequest request, const Items* items, NumaHintSource source, KeptAffinities kept, Rows rows, int32_t* codes
) noexcept nogil:
    """Write the codes; return whether some are UNALIGNED, which then lack their texts."""
    cdef Py_ssize_t i
    cdef Zones zones
    cdef bint any_unaligned = False
    for i in range(rows.count):
        codes[i] = code_of_row(table, request, items, source, kept, rows.at[i], &zones)
        any_unaligned |= codes[i] == UNALIGNED
    return any_unaligned


cdef int32_t code_of_row(
    NumaTable table, NumaRequest request, const Items* items, NumaHintSource source, KeptAffinities kept, Py_ssize_t row, Zones* zones
) noexcept nogil:
    cdef Choice found
    cdef int code = agree(table, request, index_of(table, row), zones)
    read_counts(table, zones)
    if code == PASS:
        code = _check_amplified(table.nodes, request, row, table.checked_ratio[zones.index], table.topology[zones.index], zones)
    if code == PASS and zones.bind:
        code = _check_binding(table, request, zones)
    if code != PASS or zones.numa_policy == NUMA_NONE:
        return code
    if zones.count == 0:
        return MISSING_ZONES
    if source is not None and is_strict(zones):
        return _joint_code(table, items, source, kept, row, zones)
    found = consider(table, items, zones, True)
    if found.code == INSUFFICIENT or found.code == UNSATISFIED:
        return found.code | <int32_t> detail_of(found.items) << DETAIL_SHIFT
    return found.code


cdef int32_t _joint_code(
    NumaTable table, const Items* items, NumaHintSource source, KeptAffinities kept, Py_ssize_t row, Zones* zones
) noexcept nogil:
    cdef JointChoice chosen = choose_jointly(table, items, zones, source, row)
    if kept is not None:
        kept.stamp[row] = table.nodes.touched[row] if chosen.code == PASS else -1
        kept.mask[row] = chosen.mask
    return chosen.code | <int32_t> (chosen.detail << DETAIL_SHIFT)


cdef int _check_amplified(
    NodeTable nodes, NumaRequest request, Py_ssize_t row, double ratio, int topology, const Zones* zones
) noexcept nogil:
    """Refuse a node with too little cpu once that of bound pods is amplified (nodenumaresource.md §13); return PASS or the reason."""
    cdef int64_t bound, used, pod, free
    if request.cpu == 0:
        return PASS
    if ratio < 0:
        return INVALID_RATIO
    if not ratio > 1:
        return PASS
    if topology == TOPOLOGY_INVALID:
        return INVALID_TOPOLOGY
    bound = 1000 * zones.bound
    used = nodes.requested[RESOURCE_CPU, row]
    if bound > 0 and used >= bound:
        used += amplified(bound, ratio) - bound
    pod = amplified(request.cpu, ratio) if zones.bind else request.cpu
    # Unsigned: a sum of requests that has wrapped wraps here too instead of being undefined.
    free = <int64_t> (<uint64_t> nodes.allocatable[RESOURCE_CPU, row] - <uint64_t> used)
    return AMPLIFIED_CPU if pod > free else PASS


cdef int _check_binding(NumaTable table, NumaRequest request, const Zones* zones) noexcept nogil:
    """Refuse a node that cannot bind the pod to CPUs as the policies require (nodenumaresource.md §5 step 6); return PASS or the reason."""
    cdef int demanded = table.bind_policy[zones.index]
    if table.topology[zones.index] != TOPOLOGY_VALID:
        return INVALID_TOPOLOGY
    if request.required_bind_policy != BIND_NONE and demanded != BIND_NONE and request.required_bind_policy != demanded:
        return BIND_CONFLICT
    if zones.required and zones.policy == BIND_FULL_PCPUS and zones.cpus % table.cpus_per_core[zones.index]:
        return NOT_WHOLE_CORES
    # Also for a policy that is only preferred (D1): it never fails for the shape of what is free, but for the number.
    if zones.numa_policy == NUMA_NONE and zones.usable < zones.cpus:
        return NOT_ENOUGH_CPUS
    return PASS


cdef int _summarize(
    NumaTable table, NumaRequest request, const Items* items, NumaHintSource source, Rows rows, int32_t* codes
) except -1:
    """Give the UNALIGNED codes the places of their texts."""
    cdef Py_ssize_t i
    for i in range(rows.count):
        if codes[i] == UNALIGNED:
            codes[i] = unaligned_code(table, request, items, source, rows.at[i])
    return 0


cdef int32_t unaligned_code(
    NumaTable table, NumaRequest request, const Items* items, NumaHintSource source, Py_ssize_t row
) except -1:
    cdef int32_t place
    cdef Zones zones
    agree(table, request, index_of(table, row), &zones)
    read_counts(table, &zones)
    read_zones(table, items, &zones)
    settle(items, &zones)
    if source is None:
        place = summarize(table, request, items, &zones)
    else:
        place = summarize_jointly(table, request, items, &zones, source, row)
    return UNALIGNED | place << DETAIL_SHIFT


def reason_of(int32_t code):
    return NumaReason(code & REASON_MASK)


def resources_of(NumaRequest request not None, int32_t code):
    cdef Py_ssize_t i
    if code & REASON_MASK not in (INSUFFICIENT, UNSATISFIED):
        return ()
    return tuple(sorted([request.names[i] for i in range(len(request.names)) if code >> DETAIL_SHIFT >> min(i, DETAIL_BITS - 1) & 1]))


def source_code_of(int32_t code):
    return code >> DETAIL_SHIFT if code & REASON_MASK in (HINTS_REFUSED, TRIAL_REFUSED) else 0
