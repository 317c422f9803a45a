"""Which devices of one node a pod gets, or why it gets none (deviceshare.md §6).

What hints ask for sets of NUMA nodes and Reserve asks for the node that was chosen is this same code: the latter has a scoring by which it
prefers devices, and nothing that is feasible without one is infeasible with it. Filter's own answer, for all rows, is `device_feasibility`.
"""

from libc.stdint cimport int32_t, int64_t, uint64_t

from koordsched._core.device_facts import Allocated, DeviceResource, DeviceType
from koordsched._core.device_group cimport (
    DETAIL_BITS,
    NO_HEALTHY_GPU,
    NOT_INCLUDED,
    PASS,
    Desired,
    check_labels,
    memory_of,
    ratio_of,
    read_desired,
    read_group,
)
from koordsched._core.device_joint cimport take_jointly
from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceGroup, DeviceScoring
from koordsched._core.device_selection cimport Outcome, forget, take_devices
from koordsched._core.device_table cimport (
    GPU,
    HAS_ENTRY,
    MEMORY,
    TYPES,
    DeviceTable,
    Positions,
    VirtualFunction,
    first_resource,
    index_of,
)

# Members of enums are slow to find by number and by name: a third of what Reserve asks (bench_numa_joint.py::bench_identical_pods).
cdef tuple TYPES_BY_NUMBER = tuple(DeviceType)
cdef tuple RESOURCES_BY_NUMBER = tuple(DeviceResource)
cdef object GPU_MEMORY = DeviceResource.GPU_MEMORY
cdef object GPU_RATIO = DeviceResource.GPU_MEMORY_RATIO


cdef int32_t try_allocate(
    DeviceTable table, DeviceRequest request, Py_ssize_t index, DeviceAdjustment adjustment, DeviceScoring scoring,
    uint64_t mask, bint reserve, Outcome* out
) noexcept nogil:
    cdef DeviceGroup[TYPES] groups
    cdef int i, type
    cdef int32_t code = read_desired(table, request, index, reserve, &out.desired)
    out.from_template = False
    for type in range(TYPES):
        forget(&out.taken[type])
    if code != PASS:
        return code
    if adjustment is not None and adjustment.complete:
        code = _check_healthy(table, index, adjustment)
        if code != PASS:
            return code
    for i in range(request.type_count):
        type = request.types[i]
        if out.desired.asks[type]:
            read_group(table, request, index, type, adjustment, mask, &groups[type])
    if out.desired.types > 1 and request.joint_count > 0:
        code = take_jointly(table, request, index, adjustment, scoring, groups, out)
        if code != PASS:
            return code
    for i in range(request.type_count):
        type = request.types[i]
        if not out.desired.asks[type]:
            continue
        if out.taken[type].count == 0:
            code = take_devices(table, request, index, adjustment, scoring, &groups[type], out.desired.count[type], NULL, out)
            if code != PASS:
                return code
        if groups[type].included & ~out.taken[type].devices:
            return NOT_INCLUDED
    return PASS


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
        if not out.taken[type].count:
            continue
        amounts = {RESOURCES_BY_NUMBER[first_resource(type) + request.named[type][i]]: request.amount[type][request.named[type][i]]
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
            found.append(Allocated(TYPES_BY_NUMBER[type], table.columns[type].minor[start + at], given, function, template))
    return tuple(found)


def complete_amounts(dict amounts not None, int64_t memory):
    ratio = amounts.get(GPU_RATIO)
    asked = amounts.get(GPU_MEMORY)
    if ratio is not None and asked is None:
        amounts[GPU_MEMORY] = memory_of(ratio, memory)
    elif asked is not None and ratio is None:
        amounts[GPU_RATIO] = ratio_of(asked, memory)


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
    cdef Desired desired
    cdef DeviceGroup group
    cdef int type
    cdef int64_t score = 0
    if read_desired(table, request, index, False, &desired) != PASS:
        return 0
    for type in range(TYPES):
        if desired.asks[type]:
            read_group(table, request, index, type, adjustment, mask, &group)
            if group.candidates:
                score += scoring.score_group(request, &group, &request.amount[type][0])
    return score
