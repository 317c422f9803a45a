"""Whether requests fit rows: per row the set of amounts that are short, as bits in the order of the request's ids; and how many fit."""

cimport numpy as cnp
import numpy as np
from libc.stdint cimport int32_t, int64_t, uint64_t

from koordsched._core.rows cimport Rows, codes_in, rows_of, zero_codes
from koordsched._core.table cimport NodeTable, Request

cnp.import_array()


def filter_fit(NodeTable table not None, Request request not None, cnp.ndarray rows not None):
    if request.ids.shape[0] > MAX_IDS:
        raise ValueError(f"a request of {request.ids.shape[0]} resources: a reason code holds {MAX_IDS}")
    if request.largest >= table.resources:
        raise IndexError(f"resource {request.largest} of {table.resources}")
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray codes = zero_codes(asked)
    cdef int32_t* out = codes_in(codes)
    with nogil:
        _fit(table.allocatable, table.requested, request, asked, out)
    return codes


cdef void _fit(
    const int64_t[:, ::1] allocatable, const int64_t[:, ::1] requested, Request request, Rows rows, int32_t* codes
) noexcept nogil:
    cdef Py_ssize_t i, j, row
    cdef int32_t short, beyond, resource
    cdef int64_t amount, capacity, free
    # Column by column, without a branch: codes[] holds the bits of the ids before j.
    for j in range(request.ids.shape[0]):
        resource = request.ids[j]
        amount = request.amounts[j]
        short = 1 << j
        beyond = UNRESOLVABLE if j > 0 else 0
        for i in range(rows.count):
            row = rows.at[i]
            capacity = allocatable[resource, row]
            # Unsigned: a sum that has wrapped wraps here as it does in Go instead of being undefined.
            free = <int64_t> (<uint64_t> capacity - <uint64_t> requested[resource, row])
            codes[i] |= (short if amount > free else 0) | (beyond if amount > capacity else 0)


def fit_slots(NodeTable table not None, Request request not None, cnp.ndarray rows not None, int32_t most):
    if request.largest >= table.resources:
        raise IndexError(f"resource {request.largest} of {table.resources}")
    cdef Rows asked = rows_of(rows)
    cdef cnp.ndarray slots = zero_codes(asked)
    cdef int32_t* out = codes_in(slots)
    with nogil:
        _slots(table.allocatable, table.requested, request, asked, most, out)
    return slots


cdef void _slots(
    const int64_t[:, ::1] allocatable, const int64_t[:, ::1] requested, Request request, Rows rows, int32_t most, int32_t* slots
) noexcept nogil:
    cdef Py_ssize_t i, j, row
    cdef int32_t resource
    cdef int64_t amount, free
    for i in range(rows.count):
        slots[i] = most
    for j in range(request.ids.shape[0]):
        resource = request.ids[j]
        amount = request.amounts[j]
        for i in range(rows.count):
            row = rows.at[i]
            free = <int64_t> (<uint64_t> allocatable[resource, row] - <uint64_t> requested[resource, row])
            if free < amount:
                slots[i] = 0
            elif slots[i] and free // amount < slots[i]:
                slots[i] = <int32_t> (free // amount)


def fit_after(NodeTable table not None, Request request not None, cnp.ndarray rows not None, const int32_t[::1] before):
    if request.ids.shape[0] > MAX_IDS:
        raise ValueError(f"a request of {request.ids.shape[0]} resources: a reason code holds {MAX_IDS}")
    if request.largest >= table.resources:
        raise IndexError(f"resource {request.largest} of {table.resources}")
    cdef Rows asked = rows_of(rows)
    if before.shape[0] != asked.count:
        raise ValueError(f"{before.shape[0]} numbers for {asked.count} rows")
    cdef cnp.ndarray codes = zero_codes(asked)
    cdef int32_t* out = codes_in(codes)
    cdef Py_ssize_t i, j, row
    cdef int64_t free
    for i in range(asked.count):
        row = asked.at[i]
        for j in range(request.ids.shape[0]):
            free = <int64_t> (<uint64_t> table.allocatable[request.ids[j], row] - <uint64_t> table.requested[request.ids[j], row])
            if free // request.amounts[j] <= before[i]:
                out[i] |= 1 << j
    return codes


def free_amounts(NodeTable table not None, list ids, cnp.ndarray rows not None):
    cdef Rows asked = rows_of(rows)
    cdef int64_t[:, ::1] out = np.zeros((len(ids), asked.count), np.int64)
    cdef Py_ssize_t i, j, resource
    for j in range(out.shape[0]):
        resource = ids[j]
        if not 0 <= resource < table.resources:
            raise IndexError(f"resource {resource} of {table.resources}")
        for i in range(asked.count):
            out[j, i] = <int64_t> (<uint64_t> table.allocatable[resource, asked.at[i]] - <uint64_t> table.requested[resource, asked.at[i]])
    return np.asarray(out)
