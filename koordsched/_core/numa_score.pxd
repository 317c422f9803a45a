# What a row is scored by: the node, or those of its zones that the pod would get a part of.

from libc.stdint cimport int64_t

from koordsched._core.numa cimport MAX_ITEMS

cdef struct Level:
    int64_t capacity[MAX_ITEMS]   # [item] 0: it does not count
    int64_t requested[MAX_ITEMS]  # [item] by the pods that are there
