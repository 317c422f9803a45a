"""Which rows have the devices that a pod asks for, and how well each suits it (deviceshare.md §5, §7): all rows in one call."""

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from koordsched._core.device_allocation cimport score_candidates, try_allocate
from koordsched._core.device_feasibility cimport check_rows
from koordsched._core.device_group cimport PASS, check_labels
from koordsched._core.device_request cimport DeviceAdjustment, DeviceRequest
from koordsched._core.device_score cimport DeviceScoring
from koordsched._core.device_selection cimport Outcome
from koordsched._core.device_table cimport HAS_ENTRY, TYPES, DeviceTable, index_of
from koordsched._core.rows cimport Rows, codes_in, flags_in, rows_of, scores_in, zero_codes, zero_scores

cnp.import_array()


def filter_devices(
    DeviceTable table not None, DeviceRequest request not None, cnp.ndarray rows not None, DeviceAdjustment adjustment=None, *,
    bint reserve=False, cnp.ndarray aligned=None,
):
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray codes = zero_codes(asked)
    cdef int32_t* out = codes_in(codes)
    cdef const uint8_t* tried = NULL
    if aligned is not None:
        if cnp.PyArray_TYPE(aligned) != cnp.NPY_UINT8 or not cnp.PyArray_IS_C_CONTIGUOUS(aligned):
            raise TypeError(f"flags must be contiguous uint8: got {aligned.dtype}")
        if cnp.PyArray_SIZE(aligned) != asked.count:
            raise ValueError(f"{cnp.PyArray_SIZE(aligned)} flags for {asked.count} rows")
        tried = flags_in(aligned)
    request.prepare(table)
    if adjustment is not None:
        adjustment.prepare(table)
    with nogil:
        if adjustment is None:
            check_rows(table, request, asked, reserve, tried, out)
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
            codes[i] = try_allocate(table, request, index, adjustment, None, 0, reserve, &outcome)


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
            score_rows(table, request, scoring, asked, NULL, out)
        return scores
    numa = masks
    if numa.shape[0] != asked.count:
        raise ValueError(f"{numa.shape[0]} masks for {asked.count} rows")
    if asked.count:
        with nogil:
            score_rows(table, request, scoring, asked, &numa[0], out)
    return scores


cdef void score_rows(
    DeviceTable table, DeviceRequest request, DeviceScoring scoring, Rows rows, const uint64_t* masks, int64_t* scores
) noexcept nogil:
    cdef Py_ssize_t i, index
    cdef int type
    cdef bint selects = False
    for type in range(TYPES):
        selects = selects or request.matches[type] != NULL
    if not selects:
        scoring.score_rows(table, request, rows, masks, scores)
        return
    for i in range(rows.count):
        index = index_of(table, rows.at[i])
        if table.node[index].flags & HAS_ENTRY:
            scores[i] = score_candidates(table, request, index, None, scoring, 0 if masks == NULL else masks[i])
