"""Whether requests fit rows: per row the set of amounts that are short, as bits in the order of the request's ids."""

cimport numpy as cnp
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
