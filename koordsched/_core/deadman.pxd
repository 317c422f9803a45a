# The text that the handler of the timer's signal writes before it ends the process. It is prepared beforehand, since a handler may neither
# allocate memory nor take a lock.

cdef enum:
    TEXT_BYTES = 1024
    STDERR = 2
    EXIT_CODE = 1

cdef char[2][TEXT_BYTES] texts  # texts[current] is what the handler writes; `arm` writes the other one, then turns `current`
cdef size_t[2] lengths          # of the texts, in bytes
cdef int current                # 0 or 1

cdef void expired(int number) noexcept nogil  # the handler: it runs on the thread that `make` named
