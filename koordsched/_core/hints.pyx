"""Hints of one node: which sets of its NUMA nodes could serve a request, which is best, and how the request is split over it.

The kernels (`numa_filter`, `numa_score`) answer for all rows, but only where no other plugin has hints; this is for the one node that was
chosen, for nodes where reservations or victims give something back, and for merging with other providers' hints (`numa_merge`).
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport free, malloc

from koordsched._core.numa cimport (
    BIND_FULL_PCPUS,
    EXCLUSIVE_REQUIRED,
    MAX_ZONES,
    NUMA_BEST_EFFORT,
    NUMA_NONE,
    NUMA_RESTRICTED,
    NumaRequest,
    NumaScoring,
    NumaTable,
)
from koordsched._core.numa_facts import NumaSplit, Hint, Machine, Merged
from koordsched._core.numa_merge import merge_hints
from koordsched._core.numa_merge cimport summary_of
from koordsched._core.numa_zones cimport (
    NOT_ENOUGH_CPUS,
    PASS,
    UNALIGNED,
    UNSATISFIED,
    Choice,
    Items,
    Masks,
    Zones,
    agree,
    begin_masks,
    bits,
    choose,
    fits,
    make_room,
    mask_score,
    may_fit,
    next_mask,
    read_counts,
    read_items,
    read_zones,
    settle,
    shortage,
    split,
)

cdef int FULLY_LISTED = 8        # zones up to which every set is listed
cdef int TRIED = 1 << 14         # sets that are looked at on nodes of more zones


cdef class NumaView:

    def __cinit__(self):
        self.zones = <Zones*> malloc(sizeof(Zones))
        if self.zones == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.zones)

    def __init__(
        self, NumaTable table not None, NumaRequest request not None, Py_ssize_t index, NumaScoring scoring not None, restored=None
    ):
        self.table = table
        self.request = request
        read_items(&self.items, table, request, scoring)
        agree(table, request, index if 0 < index < table.capacity else 0, self.zones)
        read_counts(table, self.zones)
        read_zones(table, &self.items, self.zones)
        if restored is not None and restored.cpus is not None:
            self._count_anew(restored.cpus)
        if restored is not None:
            self._reuse(restored.reusable)
        settle(&self.items, self.zones)
        if restored is not None and restored.available is not None:
            self._offer(restored.available)

    def _count_anew(self, usage):
        """Take the CPU counts from a usage."""
        cdef int p
        self.zones.bound = usage.cpus.bound
        self.zones.usable = self._usable(usage.cpus)
        for p in range(self.zones.count):
            zone = usage.zones.get(self.zones.id[p])
            self.zones.usable_in[p] = 0 if zone is None else self._usable(zone.cpus)

    def _usable(self, counts):
        if not self.zones.required:
            return counts.free
        return counts.full if self.zones.policy == BIND_FULL_PCPUS else counts.first

    def _reuse(self, reusable):
        """Count these amounts as not allocated."""
        cdef int i, p
        for p in range(self.zones.count):
            amounts = reusable.get(self.zones.id[p], {})
            for i in range(self.items.count):
                if self.zones.known >> i & 1:
                    self.zones.of[i].allocated[p] -= max(0, min(amounts.get(self.items.id[i], 0), self.zones.of[i].allocated[p]))

    def _offer(self, available):
        """Let these amounts be all that is available, whatever is free."""
        cdef int i, p
        self.zones.known = 0
        for i in range(self.items.count):
            if any([self.items.id[i] in amounts for amounts in available.values()]):
                self.zones.known |= (<uint64_t> 1) << i
            for p in range(self.zones.count):
                if not self.zones.known >> i & 1:
                    continue
                self.zones.of[i].available[p] = min(max(0, available.get(self.zones.id[p], {}).get(self.items.id[i], 0)), <int64_t> 1 << 56)
                self.zones.of[i].allocated[p] = 0
                self.zones.of[i].total[p] = self.zones.of[i].available[p]
            if self.zones.known >> i & 1:
                make_room(&self.items, self.zones, i)

    @property
    def bind(self):
        return self.zones.bind

    @property
    def required(self):
        return self.zones.required

    @property
    def bind_policy(self):
        return self.zones.policy

    @property
    def cpus(self):
        return self.zones.cpus

    @property
    def machine(self):
        return Machine(
            self.zones.numa_policy, self.zones.exclusive, ids_of(self.zones, self.zones.all),
            ids_of(self.zones, self.zones.shared), ids_of(self.zones, self.zones.single),
        )

    def affinity(self):
        cdef Choice found
        if self.zones.numa_policy == NUMA_NONE:
            return Merged(None, True)
        with nogil:
            found = choose(&self.items, self.zones, False)
        if self.zones.numa_policy == NUMA_BEST_EFFORT and not self._is_preferred(found):
            return merge_hints([self.hints()], self.machine)
        if found.code == UNSATISFIED:
            return Merged(None, False, self._named(found.items))
        if found.code == UNALIGNED:
            return Merged(None, False, (), _summary_of_zones(self.request, &self.items, self.zones))
        return Merged(ids_of(self.zones, found.mask) if found.mask else None, True)

    cdef bint _is_preferred(self, Choice found) noexcept:
        """Answer whether a choice under BestEffort is what all resources' hints prefer, so that no merge can come to anything else."""
        cdef int i
        for i in range(self.items.requested):
            if self.zones.known >> i & 1 and self.zones.of[i].lack:
                return False
        if found.code != PASS or self.zones.exclusive != EXCLUSIVE_REQUIRED:
            return True
        # Narrower sets may have been passed over because they violate; then nothing is preferred.
        return bits(found.mask) == 1 or (found.mask != 0 and not may_fit(&self.items, self.zones, self.zones.all, bits(found.mask) - 1))

    def hints(self):
        cdef uint64_t found[LISTED]
        cdef int count = _feasible(&self.items, self.zones, found)
        cdef int i, j
        cdef uint64_t lack
        scored = [(ids_of(self.zones, found[j]), mask_score(&self.items, self.zones, found[j])) for j in range(count)]
        hints = {}
        without = {}  # zones that are left out -> hints; resources mostly lack nothing anywhere and have the same
        for i in range(self.items.requested):
            if self.zones.known >> i & 1:
                lack = ids_of(self.zones, self.zones.of[i].lack)
                if lack not in without:
                    masks = [(mask, score) for mask, score in scored if not mask & lack]
                    without[lack] = _preferring(masks, self.zones.numa_policy == NUMA_RESTRICTED)
                hints[self.request.names[i]] = without[lack]
        return hints

    def distribute(self, mask):
        cdef int64_t share[MAX_ZONES]
        cdef uint64_t positions = positions_of(self.zones, mask)
        cdef Choice found = shortage(&self.items, self.zones, positions)
        cdef int i, p
        if found.items or found.code == NOT_ENOUGH_CPUS:
            return NumaSplit({}, self._named(found.items), found.code == NOT_ENOUGH_CPUS)
        amounts = {self.zones.id[p]: {} for p in range(self.zones.count) if positions >> p & 1}
        for i in range(self.items.requested):
            if not self.zones.known >> i & 1:
                continue
            if split(&self.items, self.zones, positions, i, share):
                return NumaSplit({}, (), True)  # bound CPUs that are no whole units of what is required: Filter refuses such pods
            for p in range(self.zones.count):
                if positions >> p & 1 and share[p]:
                    amounts[self.zones.id[p]][self.items.id[i]] = share[p]
        return NumaSplit({zone: split_off for zone, split_off in amounts.items() if split_off})

    def _named(self, uint64_t items):
        """Return the names of the requested items of a mask, sorted."""
        return tuple(sorted([self.request.names[i] for i in range(len(self.request.names)) if items >> i & 1]))


# Sets of zones


cdef uint64_t ids_of(const Zones* zones, uint64_t positions) noexcept nogil:
    """Return the mask of NUMA ids of a mask of positions."""
    cdef uint64_t ids = 0
    cdef int p
    if zones.count and zones.id[zones.count - 1] == zones.count - 1:
        return positions  # ids are positions
    for p in range(zones.count):
        if positions >> p & 1:
            ids |= (<uint64_t> 1) << zones.id[p]
    return ids


cdef uint64_t positions_of(const Zones* zones, uint64_t ids) noexcept nogil:
    """Return the mask of positions of a mask of NUMA ids; ids that the node lacks are left out."""
    cdef uint64_t positions = 0
    cdef int p
    for p in range(zones.count):
        if ids >> zones.id[p] & 1:
            positions |= (<uint64_t> 1) << p
    return positions


cdef int _feasible(const Items* items, const Zones* zones, uint64_t* found) noexcept nogil:
    """Write the sets of zones (positions) over which the request can be split, smaller ones first; return how many.

    All of them on nodes of up to 8 zones. On others those of the smallest size that has any, among the first TRIED, and the widest ones.
    """
    cdef Masks masks
    cdef uint64_t mask
    cdef int count = 0
    cdef int size = 0
    cdef int left = TRIED
    while size < zones.count and (zones.count <= FULLY_LISTED or (count == 0 and left > 0)):
        size += 1
        begin_masks(&masks, zones.all, size)
        while left > 0 and count < LISTED - MAX_ZONES and next_mask(&masks, &mask):
            left -= 1
            if fits(items, zones, mask):
                found[count] = mask
                count += 1
    return count if zones.count <= FULLY_LISTED else _with_widest(items, zones, found, count)


cdef int _with_widest(const Items* items, const Zones* zones, uint64_t* found, int count) noexcept nogil:
    """Add, for every resource and for all together, the set of all zones that have something left of it."""
    cdef uint64_t without = zones.all
    cdef int i
    for i in range(items.requested):
        if zones.known >> i & 1:
            without &= ~zones.of[i].lack
            count = _with(items, zones, found, count, zones.all & ~zones.of[i].lack)
    return _with(items, zones, found, count, without)


cdef int _with(const Items* items, const Zones* zones, uint64_t* found, int count, uint64_t mask) noexcept nogil:
    """Add the set if the request can be split over it and it is not there yet; return how many there are then."""
    cdef int i
    if not fits(items, zones, mask):
        return count
    for i in range(count):
        if found[i] == mask:
            return count
    found[count] = mask
    return count + 1


cdef list _preferring(list scored, bint restricted):
    """Return hints; preferred are the narrowest, or under Restricted all (nodenumaresource.md §9)."""
    narrowest = min([mask.bit_count() for mask, _ in scored], default=0)
    return [Hint(mask, score, restricted or mask.bit_count() == narrowest) for mask, score in scored]


# Texts


cdef str _summary_of_zones(NumaRequest request, const Items* items, const Zones* zones):
    """Return the summary of a merge of these hints alone."""
    return (" & " if zones.numa_policy == NUMA_RESTRICTED else ",").join(sorted(summaries_of_zones(request, items, zones)))


cdef list summaries_of_zones(NumaRequest request, const Items* items, const Zones* zones):
    """Return what a summary of a merge says of each resource that the zones have."""
    cdef uint64_t found[LISTED]
    cdef int count = _feasible(items, zones, found)
    cdef int i, j
    cdef uint64_t lack
    restricted = zones.numa_policy == NUMA_RESTRICTED
    masks = [ids_of(zones, found[j]) for j in range(count)]
    texts = []
    for i in range(items.requested):
        if zones.known >> i & 1:
            lack = ids_of(zones, zones.of[i].lack)
            texts.append(summary_of(request.names[i], _preferring([(mask, 0) for mask in masks if not mask & lack], restricted)))
    return texts


cdef int32_t summarize(NumaTable table, NumaRequest request, const Items* items, const Zones* zones) except -1:
    """Return the place in the table of the node's summary.

    Nodes with the same sets of zones have the same text, so that it is made once for each such class, not for each node.
    """
    cdef uint64_t key[LISTED + MAX_ZONES + 1]
    cdef int count = list_feasible(items, zones, key)
    ids = (<const char*> zones.id)[:zones.count]
    seen = (<char*> key)[:count * sizeof(uint64_t)] + ids
    place = request.summaries.get(seen)
    if place is None:
        place = request.summaries[seen] = table.summary_id(_summary_of_zones(request, items, zones))
    return place


cdef int list_feasible(const Items* items, const Zones* zones, uint64_t* key) noexcept nogil:
    """Write all that the hints of zones depend on; return how many numbers that is, LISTED + MAX_ZONES + 1 at most."""
    cdef int count = _feasible(items, zones, key)
    cdef int i
    for i in range(items.requested):
        key[count] = zones.of[i].lack if zones.known >> i & 1 else ~(<uint64_t> 0)
        count += 1
    key[count] = zones.numa_policy
    return count + 1
