# How much GPU share of a node the recent requests could not use, and how much a placement adds to it.
#
# Shares are percent of one GPU. A node's waste for one request is the free share that the request cannot take there: all of it where the
# request finds no room, else that of the GPUs on which less is free than it asks of each (Weng et al., "Beware of Fragmentation",
# USENIX ATC 2023). Its expected waste is the mean over the mix. What the node's CPU is too small for, at the mix's mean of CPU per share,
# is added: the mean over single requests does not see that a node runs out of CPU before it runs out of GPUs.

from libc.stdint cimport int32_t, int64_t

from koordsched._core.device_score cimport DeviceScoring

cdef enum:
    MAX_ITEMS = 128      # of a mix
    WHOLE_GPU = 100      # share

cdef class RequestMix:
    """What recent pods asked for, of those that ask for GPUs. Immutable. Items that ask for the same GPUs are a class, side by side."""
    cdef readonly int items
    cdef readonly int classes
    cdef int32_t[MAX_ITEMS] cpu             # [item] milli-cores
    cdef int32_t[MAX_ITEMS] memory          # [item] MiB, rounded up
    cdef int32_t[MAX_ITEMS] weight          # [item] pods
    cdef int32_t[MAX_ITEMS] class_of        # [item]
    cdef int32_t[MAX_ITEMS] by_memory       # items, those that ask for the most memory first
    cdef int levels                         # distinct amounts of CPU
    cdef int32_t[MAX_ITEMS] level           # these, ascending
    cdef int64_t[:, ::1] within             # [levels that suffice, class] weight of the items that ask for no more CPU
    cdef int32_t[MAX_ITEMS] share           # [class] of each GPU, 1 to WHOLE_GPU; ascending
    cdef int32_t[MAX_ITEMS] count           # [class] GPUs
    cdef int64_t[MAX_ITEMS] class_weight    # [class] pods
    cdef readonly int64_t total             # all pods
    cdef readonly double cpu_per_share      # milli-cores per share, mean of the pods; 0: they need none

cdef class FragmentationScoring(DeviceScoring):
    cdef public RequestMix mix
    cdef int64_t[MAX_ITEMS] fitting         # [class] weight of the items that the aimed-at node has CPU and memory for
    cdef readonly int64_t cpu               # what that node has left, the pod counted
    cdef readonly int64_t memory
