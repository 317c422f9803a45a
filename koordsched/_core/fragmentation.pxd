# How much GPU share of a node the recent requests could not use, and how much a placement adds to it.
#
# Shares are percent of one GPU. A node's waste for one request is the free share that the request cannot take there: all of it where the
# request finds no room, else that of the GPUs on which less is free than it asks of each (Weng et al., "Beware of Fragmentation",
# USENIX ATC 2023). Its expected waste is the mean over the mix. What the node's CPU is too small for, at the mix's mean of CPU per share,
# is added: the mean over single requests does not see that a node runs out of CPU before it runs out of GPUs.

from libc.stdint cimport int32_t, int64_t

from koordsched._core.device_score cimport DeviceScoring
from koordsched._core.device_table cimport WHOLE_GPU

cdef enum:
    MAX_ITEMS = 128      # of a mix
    SHARES = WHOLE_GPU + 1

cdef class RequestMix:
    """What recent pods asked for, of those that ask for GPUs. Immutable. Items that ask for the same GPUs, several of them, are a class.

    What the waste is made of is added up beforehand, so that a node costs what its GPUs cost and not what the mix has items: of requests
    for one GPU a GPU with a free share gives them its whole share, and which they are depends on that share alone.
    """
    cdef readonly int items
    cdef int32_t[MAX_ITEMS] cpu             # [item] milli-cores; items that ask for the most memory come first
    cdef int32_t[MAX_ITEMS] memory          # [item] MiB, rounded up
    cdef int32_t[MAX_ITEMS] weight          # [item] pods
    cdef int32_t[MAX_ITEMS] slot            # [item] its column in `within`
    cdef int levels                         # distinct amounts of CPU
    cdef int32_t[MAX_ITEMS] level           # these, ascending
    cdef int64_t[:, ::1] within             # [levels that suffice] see Fitting
    cdef int classes                        # of requests for several GPUs
    cdef int32_t[MAX_ITEMS] share           # [class] of each GPU, 1 to WHOLE_GPU; ascending
    cdef int32_t[MAX_ITEMS] count           # [class] GPUs
    cdef readonly int64_t total             # all pods
    cdef readonly double cpu_per_share      # milli-cores per share, mean of the pods; 0: they need none

cdef struct Fitting:
    # Weight of the items that CPU and memory of a node suffice for. [share] for one GPU, of no larger share; [SHARES + class] of the class
    const int64_t* weight
    int64_t[SHARES + MAX_ITEMS] own         # where memory keeps some out; else `weight` is a row of RequestMix.within

cdef class FragmentationScoring(DeviceScoring):
    cdef public RequestMix mix
    cdef Fitting fitting                    # of the node that is aimed at
    cdef readonly int64_t cpu               # what that node has left, the pod counted
    cdef readonly int64_t memory
