# Loading memory into the cache before it is needed: for loops over all rows that follow pointers, which no hardware foresees.

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* memory) noexcept nogil

cdef enum:
    ROWS_AHEAD = 8  # far enough that the memory is there in time, near enough that it has not been displaced again
