# How a kernel takes the rows it is asked about and makes its answer. No .pyx: all of this is inlined.
#
# Rows come in and answers go out as numpy arrays whose memory is read and written through these pointers, not through memoryviews: an
# incremental cycle asks each kernel about one row, and acquiring two buffers takes longer than all the rest of such a call (0.4 us
# without, 1.1 us with; bench/bench_kernels.py::bench_filter_fit). The table's columns stay memoryviews, so the checked build
# still catches a row that is not there.

cimport numpy as cnp
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef struct Rows:
    const int32_t* at  # row numbers; valid while the array they came from lives
    Py_ssize_t count

cdef inline Rows rows_of(cnp.ndarray rows) except *:
    """Return the row numbers. TypeError when the array is not one-dimensional, contiguous int32."""
    cdef Rows found
    if cnp.PyArray_NDIM(rows) != 1 or cnp.PyArray_TYPE(rows) != cnp.NPY_INT32 or not cnp.PyArray_IS_C_CONTIGUOUS(rows):
        raise TypeError(f"rows must be a contiguous int32 vector: got {rows.dtype} of shape {(<object> rows).shape}")
    found.at = <const int32_t*> cnp.PyArray_DATA(rows)
    found.count = cnp.PyArray_DIM(rows, 0)
    return found

cdef inline cnp.ndarray zero_codes(Rows rows):
    """Return an int32 answer, all 0."""
    cdef cnp.npy_intp count = rows.count
    return cnp.PyArray_ZEROS(1, &count, cnp.NPY_INT32, 0)

cdef inline cnp.ndarray zero_scores(Rows rows):
    """Return an int64 answer, all 0."""
    cdef cnp.npy_intp count = rows.count
    return cnp.PyArray_ZEROS(1, &count, cnp.NPY_INT64, 0)

cdef inline cnp.ndarray zero_flags(Rows rows):
    """Return a uint8 answer, all 0."""
    cdef cnp.npy_intp count = rows.count
    return cnp.PyArray_ZEROS(1, &count, cnp.NPY_UINT8, 0)

cdef inline int32_t* codes_in(cnp.ndarray codes) noexcept:
    return <int32_t*> cnp.PyArray_DATA(codes)

cdef inline int64_t* scores_in(cnp.ndarray scores) noexcept:
    return <int64_t*> cnp.PyArray_DATA(scores)

cdef inline uint8_t* flags_in(cnp.ndarray flags) noexcept:
    return <uint8_t*> cnp.PyArray_DATA(flags)
