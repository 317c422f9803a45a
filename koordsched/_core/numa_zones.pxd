# One node's zones as one request sees them, and the arithmetic on them: what fits into a set of zones, how it is split, what it scores.
#
# Everything works on positions: position p is the node's p-th zone (NUMA ids ascending), bit p of a mask stands for it. Items are the
# resources that matter: first those of the request, then those that only a scoring names.

from libc.math cimport ceil
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from koordsched._core.numa cimport (
    BIND_FULL_PCPUS,
    BIND_NONE,
    BOUND,
    DETAIL_BITS,
    EXCLUSIVE_REQUIRED,
    FIRST,
    FREE,
    FULL,
    MAX_ITEMS,
    MAX_ZONES,
    NUMA_NONE,
    NumaRequest,
    NumaScoring,
    NumaTable,
)

cdef extern from *:
    """
    #define KOORDSCHED_BITS(mask) __builtin_popcountll(mask)
    #define KOORDSCHED_EXACT INT64_C(90071992547409)
    #define KOORDSCHED_LARGEST INT64_C(1152921504606846976)
    """
    ctypedef long long int128_t "__int128"
    int KOORDSCHED_BITS(uint64_t mask) nogil
    const int64_t EXACT "KOORDSCHED_EXACT"  # 2^53 // 100: up to it, 100 * amount is an exact double
    const int64_t LARGEST "KOORDSCHED_LARGEST"  # 2^60: what amplifying is cut to

cdef enum:
    # Numbered as numa_filter.NumaReason
    PASS = 0
    POLICY_MISMATCH = 1
    NOT_INTEGER = 2
    INVALID_RATIO = 3
    AMPLIFIED_CPU = 4
    INVALID_TOPOLOGY = 5
    BIND_CONFLICT = 6
    NOT_WHOLE_CORES = 7
    NOT_ENOUGH_CPUS = 8
    MISSING_ZONES = 9
    INSUFFICIENT = 10
    UNSATISFIED = 11
    UNALIGNED = 12

cdef struct Items:
    int count                      # items
    int requested                  # the first so many are requested
    int cpu                        # the item of cpu, -1: none
    bint most                      # sets of zones: the fuller the better
    int32_t id[MAX_ITEMS]          # resource ids
    int32_t slot[MAX_ITEMS]        # of the NumaTable, -1: no node has the resource in a zone
    int64_t amount[MAX_ITEMS]      # requested; 0: not
    int64_t weight[MAX_ITEMS]      # for scores of nodes; 0: does not count
    int64_t numa_weight[MAX_ITEMS]  # for scores of sets of NUMA nodes; 0: does not count
    bint optional[MAX_ITEMS]       # counts for scores only if requested

cdef struct Amounts:
    # Of one item, by position. In one struct, because columns of separate matrices would lie whole pages apart, which slows down reading
    # them together (4K aliasing).
    int64_t total[MAX_ZONES]       # offered
    int64_t allocated[MAX_ZONES]   # taken, amplified
    int64_t available[MAX_ZONES]   # left; cpu trimmed to what a required bind policy can use
    int64_t room[MAX_ZONES]        # what a split can put there: available, for bound CPUs whole units of usable ones
    uint64_t lack                  # mask of the zones that have nothing left: no hint for the item may name them

cdef struct Zones:
    Py_ssize_t index
    int count                      # zones
    uint64_t all                   # mask of all positions
    uint64_t shared                # mask of the zones of STATUS_SHARED
    uint64_t single                # mask of the zones of STATUS_SINGLE
    uint64_t known                 # bit i: some zone has item i
    uint8_t id[MAX_ZONES]          # NUMA ids, ascending
    # How the request and the node agree
    bint bind                      # the pod gets CPUs of its own
    bint required                  # they must be as `policy` says
    uint8_t policy                 # BIND_*
    uint8_t numa_policy            # NUMA_*
    uint8_t exclusive              # EXCLUSIVE_*
    int64_t cpus                   # CPUs to bind
    int64_t unit                   # cpu is split in multiples of so many milli
    int64_t usable                 # CPUs of the node that the pod could be bound to
    int64_t bound                  # CPUs of the node that pods are bound to
    double ratio                   # of cpu; <= 1: not amplified
    int64_t scored_cpu             # what the request counts for in scores: amplified if bound
    Amounts of[MAX_ITEMS]
    int64_t usable_in[MAX_ZONES]   # CPUs of the zone that the pod could be bound to

cdef struct Choice:
    int code                       # PASS, or why there is none
    uint64_t mask                  # the zones to take from; 0: no affinity
    uint64_t items                 # with INSUFFICIENT and UNSATISFIED: the items concerned

cdef struct Masks:
    # All sets of `size` of the zones in `of`, in lexicographic order of their members
    int size
    int among
    bint started
    int member[MAX_ZONES]          # places in `of`, ascending
    uint8_t of[MAX_ZONES]          # positions

cdef int read_items(Items* items, NumaTable table, NumaRequest request, NumaScoring scoring) except -1
cdef void read_zones(NumaTable table, const Items* items, Zones* zones) noexcept nogil
cdef void settle(const Items* items, Zones* zones) noexcept nogil
cdef void make_room(const Items* items, Zones* zones, int item) noexcept nogil
cdef bint fits(const Items* items, const Zones* zones, uint64_t mask) noexcept nogil
cdef Choice shortage(const Items* items, const Zones* zones, uint64_t mask) noexcept nogil
cdef Choice consider(NumaTable table, const Items* items, Zones* zones, bint any_will_do) noexcept nogil
cdef Choice choose(const Items* items, const Zones* zones, bint any_will_do) noexcept nogil
cdef bint knows(const Items* items, const Zones* zones) noexcept nogil
cdef uint64_t unsatisfied(const Items* items, const Zones* zones) noexcept nogil
cdef bint may_fit(const Items* items, const Zones* zones, uint64_t among, int size) noexcept nogil
cdef int64_t split(const Items* items, const Zones* zones, uint64_t mask, int item, int64_t* share) noexcept nogil
cdef int64_t mask_score(const Items* items, const Zones* zones, uint64_t mask) noexcept nogil
cdef void begin_masks(Masks* masks, uint64_t among, int size) noexcept nogil
cdef bint next_mask(Masks* masks, uint64_t* mask) noexcept nogil

# Inlined: these are all that nodes without a NUMA policy need

cdef inline int bits(uint64_t mask) noexcept nogil:
    return KOORDSCHED_BITS(mask)

cdef inline int64_t amplified(int64_t milli, double ratio) noexcept nogil:
    """Return ceil(milli * ratio) in doubles, cut to 2^60; a ratio <= 1 or no number changes nothing (nodenumaresource.md §13)."""
    cdef double product
    if not ratio > 1 or milli <= 0:
        return milli
    product = ceil(<double> milli * ratio)
    return <int64_t> product if product < <double> LARGEST else LARGEST

cdef inline Py_ssize_t usable_row(const Zones* zones) noexcept nogil:
    """Return the row of the matrices of counts that says how many CPUs the pod could be bound to."""
    if not zones.required:
        return FREE
    return FULL if zones.policy == BIND_FULL_PCPUS else FIRST

cdef inline int agree(NumaTable table, NumaRequest request, Py_ssize_t index, Zones* zones) noexcept nogil:
    """Decide what holds for the pod on the node, whatever is free; PASS or a refusal (nodenumaresource.md §4, §5 steps 2, 4 and 6).

    Fills all that `zones` says of how they agree; `read_counts` and `read_zones` fill the rest.
    """
    cdef uint8_t demanded = table.bind_policy[index]
    cdef uint8_t required
    zones.index = index
    zones.numa_policy = request.numa_policy if request.numa_policy != NUMA_NONE else table.numa_policy[index]
    zones.exclusive = request.exclusive
    zones.cpus = request.cpu // 1000
    zones.ratio = table.ratio[index]
    zones.bind = request.bind_policy != BIND_NONE or (request.cpu > 0 and demanded != BIND_NONE)
    required = request.required_bind_policy if request.required_bind_policy != BIND_NONE else demanded
    zones.required = required != BIND_NONE
    zones.policy = required if zones.required else request.bind_policy
    zones.scored_cpu = amplified(request.cpu, zones.ratio) if zones.bind else request.cpu
    if table.numa_policy[index] != NUMA_NONE and zones.numa_policy != table.numa_policy[index]:
        return POLICY_MISMATCH
    if zones.bind and request.cpu % 1000:
        return NOT_INTEGER
    return PASS

cdef inline void read_counts(NumaTable table, Zones* zones) noexcept nogil:
    """Fill the unit of cpu and the counts of the whole node."""
    zones.unit = 1000 * table.cpus_per_core[zones.index] if zones.required and zones.policy == BIND_FULL_PCPUS else 1000
    zones.usable = table.node_cpus[usable_row(zones), zones.index]
    zones.bound = table.node_cpus[BOUND, zones.index]
    zones.count = table.zone_count[zones.index]

cdef inline uint64_t violating(const Zones* zones, uint64_t mask) noexcept nogil:
    """Return the zones of the mask that a pod with that affinity would share but requires for itself (nodenumaresource.md §9)."""
    if zones.exclusive != EXCLUSIVE_REQUIRED:
        return 0
    return mask & (zones.single if mask & (mask - 1) else zones.shared)

cdef inline int64_t detail_of(uint64_t items) noexcept nogil:
    """Return the detail of a code (numa_filter.pxd) that says which items it concerns."""
    cdef uint64_t last = (<uint64_t> 1) << (DETAIL_BITS - 1)
    return <int64_t> ((items & (last - 1)) | (last if items >= last else 0))

cdef inline int64_t fraction(bint most, int64_t requested, int64_t capacity) noexcept nogil:
    """Return how full (most) or how empty something is, 0..100, rounded down (nodenumaresource.md §10)."""
    if capacity <= 0:
        return 0
    if most:
        requested = min(requested, capacity)
    elif requested > capacity:
        return 0
    else:
        requested = capacity - requested
    if capacity <= EXACT:
        # The quotient is at most 100 and both numbers are exact, so the nearest double to one below an integer is below it too. Half the
        # time of an integer division (bench/bench_numa.py::bench_filter_and_score_all_rows).
        return <int64_t> (<double> (requested * 100) / <double> capacity)
    return <int64_t> (<int128_t> requested * 100 // capacity)

cdef inline int64_t mean(int64_t sum_of_scores, int64_t weights) noexcept nogil:
    """Return a weighted mean of scores 0..100, rounded down; 0 without weights. As in `fraction`, weights being below 2^32."""
    return <int64_t> (<double> sum_of_scores / <double> weights) if weights else 0
