# The last words, which the handler of the timer's signal finds written: it may neither allocate nor take a lock.

cdef enum:
    TEXT_BYTES = 1024
    STDERR = 2
    EXIT_CODE = 1

cdef char[2][TEXT_BYTES] texts  # texts[current] is what the handler writes; `arm` writes the other one, then turns `current`
cdef size_t[2] lengths          # of the texts, in bytes
cdef int current                # 0 or 1

cdef void expired(int number) noexcept nogil  # the handler: on the thread that the switch was made for, whatever that one is doing
