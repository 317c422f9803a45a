"""The arithmetic on one node's zones: what fits into a set of zones, how a request is split over it, and which set is best.

Nothing here is visible from Python; `numa_filter`, `numa_score` and `hints` call it. Amounts are at most 2^56 (`NumaTable`), so sums over
the 64 zones of a node do not overflow. Reference: pkg/scheduler/plugins/nodenumaresource/resource_manager.go of Koordinator v1.8.0, with
the repairs of nodenumaresource.md D8, D9 and D21.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from koordsched._core.numa cimport (
    BOUND,
    EXCLUSIVE_REQUIRED,
    MAX_ZONES,
    NUMA_BEST_EFFORT,
    NUMA_SINGLE,
    STATUS_SHARED,
    STATUS_SINGLE,
    NumaRequest,
    NumaScoring,
    NumaTable,
)
from koordsched._core.table cimport RESOURCE_CPU

cdef extern from *:
    """
    #define KOORDSCHED_LOWEST(mask) __builtin_ctzll(mask)
    """
    int KOORDSCHED_LOWEST(uint64_t mask) nogil

cdef enum:
    CPU = 1000  # milli
    MASKS_TRIED = 1 << 14  # sets of one size that are looked at; only nodes of more than 16 zones have more


# Reading


cdef int read_items(Items* items, NumaTable table, NumaRequest request, NumaScoring scoring) except -1:
    """Fill the items; without a scoring none has weight."""
    cdef int i, j
    items.requested = <int> request.ids.shape[0]
    items.count = items.requested
    items.cpu = -1
    items.most = scoring is not None and scoring.numa_most
    for i in range(items.requested):
        items.id[i] = request.ids[i]
        items.amount[i] = request.amounts[i]
        items.weight[i] = items.numa_weight[i] = 0
        items.optional[i] = False
    for j in range(0 if scoring is None else <int> scoring.ids.shape[0]):
        i = 0
        while i < items.count and items.id[i] != scoring.ids[j]:
            i += 1
        if i == items.count:
            items.id[i] = scoring.ids[j]
            items.amount[i] = 0
            items.count += 1
        items.weight[i] = scoring.weights[j]
        items.numa_weight[i] = scoring.numa_weights[j]
        items.optional[i] = scoring.optional[j]
    for i in range(items.count):
        items.slot[i] = table.slot_of[items.id[i]] if items.id[i] < table.slot_of.shape[0] else -1
        if items.id[i] == RESOURCE_CPU:
            items.cpu = i
    return 0


cdef void read_zones(NumaTable table, const Items* items, Zones* zones) noexcept nogil:
    """Fill zones and amounts from the table; what is left is not settled yet."""
    cdef Py_ssize_t index = zones.index
    cdef Py_ssize_t cell = index * table.width
    # Pointers, because the compiler would load those of memoryviews again for every zone.
    cdef const int32_t* usable = &table.cpus[usable_row(zones), cell]
    cdef const uint8_t* status = &table.status[cell]
    cdef const uint8_t* ids = &table.zone_id[cell]
    cdef const int64_t* total
    cdef const int64_t* allocated
    cdef int i, p
    cdef int32_t slot
    cdef int64_t bound
    zones.all = ~(<uint64_t> 0) >> (MAX_ZONES - zones.count) if zones.count else 0
    zones.shared = 0
    zones.single = 0
    zones.known = 0
    for p in range(zones.count):
        zones.id[p] = ids[p]
        zones.usable_in[p] = usable[p]
        zones.shared |= (<uint64_t> (status[p] == STATUS_SHARED)) << p
        zones.single |= (<uint64_t> (status[p] == STATUS_SINGLE)) << p
    for i in range(items.count):
        slot = items.slot[i]
        if slot < 0 or not table.known[slot, index]:
            continue
        zones.known |= (<uint64_t> 1) << i
        total = &table.total[slot, cell]
        allocated = &table.allocated[slot, cell]
        for p in range(zones.count):
            zones.of[i].total[p] = total[p]
            zones.of[i].allocated[p] = allocated[p]
        if i == items.cpu and zones.ratio > 1:
            for p in range(zones.count):
                if not _gives_amounts(table, cell + p):
                    continue
                bound = CPU * <int64_t> table.cpus[BOUND, cell + p]
                zones.of[i].allocated[p] += amplified(bound, zones.ratio) - bound


cdef bint _gives_amounts(NumaTable table, Py_ssize_t cell) noexcept nogil:
    """Answer whether any pod has amounts of the zone. Pods for which no NUMA policy held may have CPUs there, but no amounts."""
    cdef Py_ssize_t slot
    for slot in range(table.slots):
        if table.allocated[slot, cell]:
            return True
    return False


cdef void settle(const Items* items, Zones* zones) noexcept nogil:
    """Derive what is available and what there is room for from totals, allocated amounts and usable CPUs."""
    cdef int i, p
    for i in range(items.count):
        if not zones.known >> i & 1:
            continue
        for p in range(zones.count):
            zones.of[i].available[p] = max(0, zones.of[i].total[p] - max(0, zones.of[i].allocated[p]))
        make_room(items, zones, i)


cdef void make_room(const Items* items, Zones* zones, int item) noexcept nogil:
    """Trim what is available of the item, and derive the room for it and the zones that lack it."""
    cdef int64_t* available = &zones.of[item].available[0]
    cdef int64_t* room = &zones.of[item].room[0]
    cdef int64_t threads = zones.unit // CPU
    cdef bint bind = item == items.cpu and zones.bind
    cdef bint trim = item == items.cpu and zones.required
    cdef uint64_t lack = 0
    cdef int64_t whole
    cdef int p
    for p in range(zones.count):
        if trim:
            available[p] = min(available[p], CPU * zones.usable_in[p])
        room[p] = available[p]
        lack |= (<uint64_t> (available[p] == 0)) << p
        if bind:
            # In whole units: a fraction could not be bound, so putting one there would only make the CPUs too few in the end.
            whole = min(available[p] // CPU, zones.usable_in[p])
            whole -= whole & 1 if threads == 2 else whole % threads  # dividing takes as long as all the rest
            room[p] = CPU * whole
    zones.of[item].lack = lack


# Asking


cdef bint fits(const Items* items, const Zones* zones, uint64_t mask) noexcept nogil:
    """Answer whether the request can be split over the zones of the mask.

    The sum of the room decides: a split takes the narrowest zone first and the rest of each share goes on to the next, so it fails only
    when all zones are exhausted (tests/property/test_numa_hints.py).
    """
    cdef int i
    for i in range(items.requested):
        if zones.known >> i & 1:
            if _sum(&zones.of[i].room[0], mask) < items.amount[i]:
                return False
        elif i == items.cpu and zones.bind:
            return shortage(items, zones, mask).code == PASS
    return True


cdef Choice shortage(const Items* items, const Zones* zones, uint64_t mask) noexcept nogil:
    """Return PASS with the mask, or why the request cannot be split over it."""
    cdef Choice found
    cdef bint lacks_cpus = False
    found.code = PASS
    found.mask = mask
    found.items = 0
    cdef int i
    for i in range(items.requested):
        if not zones.known >> i & 1:
            # No zone has the resource, so it is not split. But bound CPUs must come from the zones if these have any requested resource.
            lacks_cpus = lacks_cpus or (i == items.cpu and zones.bind and knows(items, zones))
        elif _sum(&zones.of[i].room[0], mask) < items.amount[i]:
            if i == items.cpu and zones.bind and _sum(&zones.of[i].available[0], mask) >= items.amount[i]:
                lacks_cpus = True
            else:
                found.items |= (<uint64_t> 1) << i
    if found.items:
        found.code = INSUFFICIENT
    elif lacks_cpus:
        found.code = NOT_ENOUGH_CPUS
    elif zones.bind and not knows(items, zones) and zones.usable < zones.cpus:
        found.code = NOT_ENOUGH_CPUS  # nothing is split, so the CPUs may be any of the node
    return found


cdef int64_t _sum(const int64_t* amounts, uint64_t mask) noexcept nogil:
    cdef int64_t total = 0
    while mask:
        total += amounts[KOORDSCHED_LOWEST(mask)]
        mask &= mask - 1
    return total


cdef bint knows(const Items* items, const Zones* zones) noexcept nogil:
    """Answer whether the zones have any requested resource."""
    return (zones.known & (((<uint64_t> 1) << items.requested) - 1)) != 0


# Choosing


cdef Choice consider(NumaTable table, const Items* items, Zones* zones, bint any_will_do) noexcept nogil:
    """Read the zones of a node that has some, and choose."""
    read_zones(table, items, zones)
    settle(items, zones)
    return choose(items, zones, any_will_do)


cdef Choice choose(const Items* items, const Zones* zones, bint any_will_do) noexcept nogil:
    """Return the zones to take from by the pod's own hints alone, or why there are none (nodenumaresource.md §5 step 7, §9).

    With any_will_do the mask need not be the best one, only right. Under BestEffort it is the narrowest that does not violate; what is best
    where zones lack a resource, or where a narrower one violates, takes a merge.
    """
    cdef Choice found
    cdef uint64_t lack = 0
    cdef int i
    if not knows(items, zones):
        return _choose_any(items, zones)
    if zones.numa_policy == NUMA_BEST_EFFORT:
        found = shortage(items, zones, zones.all)
        if found.code == PASS and not any_will_do:
            found.mask = _narrowest(items, zones, zones.all)
        return found
    for i in range(items.requested):
        if zones.known >> i & 1:
            lack |= zones.of[i].lack
    found.code = PASS
    found.items = 0
    found.mask = _aligned(items, zones, zones.all & ~lack, any_will_do)
    if not found.mask:
        found.items = unsatisfied(items, zones)
        found.code = UNSATISFIED if found.items else UNALIGNED
    elif zones.numa_policy == NUMA_SINGLE and found.mask == zones.all:
        found.mask = 0  # a machine of one zone: nothing to align (single-numa-node policy of the reference)
    return found


cdef uint64_t unsatisfied(const Items* items, const Zones* zones) noexcept nogil:
    """Return the items that no set of zones would do for: with all that have something left of it the request does not fit."""
    cdef uint64_t found = 0
    cdef int i
    for i in range(items.requested):
        if zones.known >> i & 1 and not fits(items, zones, zones.all & ~zones.of[i].lack):
            found |= (<uint64_t> 1) << i
    return found


cdef Choice _choose_any(const Items* items, const Zones* zones) noexcept nogil:
    """Choose for a request of nothing that the zones have."""
    cdef Choice found = shortage(items, zones, zones.all)
    if zones.numa_policy == NUMA_BEST_EFFORT:
        return found
    if violating(zones, zones.all):
        found.code = UNALIGNED
        found.mask = 0
    elif zones.numa_policy == NUMA_SINGLE:
        found.mask = 0
    return found


cdef uint64_t _aligned(const Items* items, const Zones* zones, uint64_t among, bint any_will_do) noexcept nogil:
    """Return zones that all resources can come from alike, 0: there are none."""
    cdef uint64_t wide, lone
    cdef uint64_t rest = among
    if not any_will_do and zones.numa_policy != NUMA_SINGLE:
        return _narrowest(items, zones, among)
    if zones.numa_policy == NUMA_SINGLE and not any_will_do:
        return _best_lone(items, zones, among)
    while rest:
        lone = rest & (~rest + 1)
        rest &= rest - 1
        if not violating(zones, lone) and fits(items, zones, lone):
            return lone
    wide = _widest(zones, among)
    if zones.numa_policy == NUMA_SINGLE or bits(wide) < 2 or not fits(items, zones, wide):
        return 0
    return wide


cdef uint64_t _widest(const Zones* zones, uint64_t among) noexcept nogil:
    """Return the most zones that several may be taken from."""
    return among & ~zones.single if zones.exclusive == EXCLUSIVE_REQUIRED else among


cdef uint64_t _narrowest(const Items* items, const Zones* zones, uint64_t among) noexcept nogil:
    """Return the best of the smallest sets that fit and do not violate; 0: none does."""
    cdef uint64_t found
    cdef uint64_t wide = _widest(zones, among)
    cdef int size
    found = _best_lone(items, zones, among)
    if found or bits(wide) < 2 or not fits(items, zones, wide):
        return found
    for size in range(2, bits(wide)):
        if not may_fit(items, zones, wide, size):
            continue
        found = _best_of_size(items, zones, wide, size)
        if found:
            return found
    return wide


cdef uint64_t _best_lone(const Items* items, const Zones* zones, uint64_t among) noexcept nogil:
    """As `_best_of_size` for single zones, which is what most pods get."""
    cdef uint64_t lone
    cdef uint64_t best = 0
    cdef int64_t score
    cdef int64_t best_score = -1
    while among:
        lone = among & (~among + 1)
        among &= among - 1
        if violating(zones, lone) or not fits(items, zones, lone):
            continue
        score = mask_score(items, zones, lone)
        if score > best_score:
            best = lone
            best_score = score
    return best


cdef uint64_t _best_of_size(const Items* items, const Zones* zones, uint64_t among, int size) noexcept nogil:
    """Return the set that fits with the highest score, of equal ones the lowest mask (D9); 0: none fits.

    Looks at MASKS_TRIED sets at most.
    """
    cdef Masks masks
    cdef uint64_t mask
    cdef uint64_t best = 0
    cdef int64_t score
    cdef int64_t best_score = -1
    cdef int left = MASKS_TRIED
    begin_masks(&masks, among, size)
    while left and next_mask(&masks, &mask):
        left -= 1
        if violating(zones, mask) or not fits(items, zones, mask):
            continue
        score = mask_score(items, zones, mask)
        if score > best_score or (score == best_score and mask < best):
            best = mask
            best_score = score
    return best


cdef bint may_fit(const Items* items, const Zones* zones, uint64_t among, int size) noexcept nogil:
    """Answer whether the `size` roomiest zones have enough of each item; if not, no set of that size fits."""
    cdef int64_t roomiest[MAX_ZONES]
    cdef int i, p, q
    cdef int64_t room, total
    cdef uint64_t rest
    for i in range(items.requested):
        if not zones.known >> i & 1:
            continue
        # roomiest[:q] are the largest of the rooms seen, descending.
        q = 0
        rest = among
        while rest:
            room = zones.of[i].room[KOORDSCHED_LOWEST(rest)]
            rest &= rest - 1
            p = q
            q += 1
            while p > 0 and roomiest[p - 1] < room:
                roomiest[p] = roomiest[p - 1]
                p -= 1
            roomiest[p] = room
        total = 0
        for p in range(size):
            total += roomiest[p]
        if total < items.amount[i]:
            return False
    return True


# Splitting


cdef int64_t split(const Items* items, const Zones* zones, uint64_t mask, int item, int64_t* share) noexcept nogil:
    """Split what is requested of a known item over the zones of the mask; return what is left over (nodenumaresource.md §8).

    share[p] is written for the positions of the mask. Zones are filled in ascending order of what is available (D8); if bound CPUs do
    not fit that way, in the order of what there is room for.
    """
    cdef int64_t left = _split_in_order(items, zones, mask, item, &zones.of[item].available[0], share)
    if left and item == items.cpu and zones.bind:
        left = _split_in_order(items, zones, mask, item, &zones.of[item].room[0], share)
    return left


cdef int64_t _split_in_order(
    const Items* items, const Zones* zones, uint64_t mask, int item, const int64_t* key, int64_t* share
) noexcept nogil:
    cdef int order[MAX_ZONES]
    cdef int count = 0
    cdef int i, p
    cdef int64_t rest = items.amount[item]
    cdef int64_t unit = zones.unit if item == items.cpu and zones.bind else 1
    cdef int64_t part
    # order[:count] are the positions seen, ascending by key, equal ones by position.
    while mask:
        p = KOORDSCHED_LOWEST(mask)
        mask &= mask - 1
        i = count
        count += 1
        while i > 0 and key[order[i - 1]] > key[p]:
            order[i] = order[i - 1]
            i -= 1
        order[i] = p
    for i in range(count):
        part = rest if i == count - 1 else rest // unit // (count - i) * unit
        share[order[i]] = min(part, zones.of[item].room[order[i]])
        rest -= share[order[i]]
    return rest


# Scoring


cdef int64_t mask_score(const Items* items, const Zones* zones, uint64_t mask) noexcept nogil:
    """Return the score of a set of zones if the pod went there."""
    cdef int64_t score = 0
    cdef int64_t weights = 0
    cdef int64_t total, taken
    cdef int i
    for i in range(items.count):
        if not items.numa_weight[i] or not zones.known >> i & 1 or (items.optional[i] and not items.amount[i]):
            continue
        total = _sum(&zones.of[i].total[0], mask)
        if total == 0:
            continue
        taken = max(0, total - _sum(&zones.of[i].available[0], mask))
        taken += zones.scored_cpu if i == items.cpu else items.amount[i]
        score += items.numa_weight[i] * fraction(items.most, taken, total)
        weights += items.numa_weight[i]
    return mean(score, weights)


# Enumerating


cdef void begin_masks(Masks* masks, uint64_t among, int size) noexcept nogil:
    masks.size = size
    masks.among = 0
    masks.started = False
    while among:
        masks.of[masks.among] = <uint8_t> KOORDSCHED_LOWEST(among)
        masks.among += 1
        among &= among - 1


cdef bint next_mask(Masks* masks, uint64_t* mask) noexcept nogil:
    """Write the next set; False: there is none."""
    cdef int i, j
    if masks.size > masks.among or masks.size < 1:
        return False
    if not masks.started:
        masks.started = True
        for i in range(masks.size):
            masks.member[i] = i
    else:
        # The last member that can be increased is; those after it take the places directly behind.
        i = masks.size - 1
        while i >= 0 and masks.member[i] == masks.among - masks.size + i:
            i -= 1
        if i < 0:
            return False
        masks.member[i] += 1
        for j in range(i + 1, masks.size):
            masks.member[j] = masks.member[j - 1] + 1
    mask[0] = 0
    for i in range(masks.size):
        mask[0] |= (<uint64_t> 1) << masks.of[masks.member[i]]
    return True
