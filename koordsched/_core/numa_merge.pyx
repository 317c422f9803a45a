"""Merging hints: which NUMA nodes several resources come from together (nodenumaresource.md §9).

Hints are few and merged for one node at a time, so this is plain Python, compiled. Reference: pkg/scheduler/frameworkext/topologymanager/
policy*.go of Koordinator v1.8.0, with the repair of nodenumaresource.md D9.
"""

from libc.stdint cimport uint64_t

from koordsched._core.numa cimport EXCLUSIVE_REQUIRED, NUMA_BEST_EFFORT, NUMA_SINGLE

from koordsched._core.numa_facts import Hint, Merged


def merge_hints(providers, machine):
    cdef list lists = []
    unsatisfied = []
    summary = []
    for provider in providers:
        if not provider:
            lists.append([Hint(None, 0, True)])
        for name, hints in provider.items():
            if hints is None:
                lists.append([Hint(None, 0, True)])
            elif not hints:
                lists.append([])
                unsatisfied.append(name)
            else:
                # Zones that the machine does not have cannot be taken from.
                lists.append([hint for hint in hints if hint.mask is None or not hint.mask & ~machine.zones])
                summary.append(summary_of(name, hints))
    strict = machine.policy != NUMA_BEST_EFFORT
    if strict and unsatisfied:
        return Merged(None, False, tuple(sorted(unsatisfied)))
    best = _best_preferred(lists, machine)
    if best is not None:
        lone_machine = machine.policy == NUMA_SINGLE and best == machine.zones
        return Merged(None if lone_machine else best, True)
    if strict:
        separator = "," if machine.policy == NUMA_SINGLE else " & "
        return Merged(None, False, (), separator.join(sorted(summary)))
    return Merged(_best_effort(lists, machine), True)


cdef _best_preferred(list lists, machine):
    """Return the best mask that every list prefers, or None: narrowest, then highest score, then lowest (D9)."""
    single = machine.policy == NUMA_SINGLE
    candidates = None  # mask -> score; None while every list would take any
    for hints in lists:
        any_will_do = any([hint.mask is None and hint.preferred for hint in hints])
        scores = {}
        for hint in hints:
            if hint.mask is not None and hint.preferred and not (single and hint.mask.bit_count() != 1):
                scores[hint.mask] = max(hint.score, scores.get(hint.mask, hint.score))
        if any_will_do and not scores:
            continue
        if candidates is None:
            candidates = scores
        else:
            candidates = {mask: score + scores.get(mask, 0) for mask, score in candidates.items() if any_will_do or mask in scores}
    if candidates is None:
        candidates = {machine.zones: 0}
    return _best({mask: score for mask, score in candidates.items() if not _violates(mask, machine)})


cdef _best_effort(list lists, machine):
    """Return the best mask that is not preferred by all; all zones unless every list has it (nodenumaresource.md §9)."""
    reachable = {machine.zones}
    for hints in lists:
        if hints:
            reachable = {mask if hint.mask is None else mask & hint.mask for mask in reachable for hint in hints}
    candidates = {machine.zones: 0}
    for mask in reachable:
        candidates[mask] = sum([max([hint.score for hint in hints if hint.mask == mask], default=0) for hints in lists])
    best = _best(candidates)
    satisfied = all([any([hint.mask is None or hint.mask == best for hint in hints]) for hints in lists])
    return best if satisfied else machine.zones


cdef _best(dict scores):
    """Return the best of the masks with scores, None: there is none but the empty one."""
    return min([mask for mask in scores if mask], key=lambda mask: (mask.bit_count(), -scores[mask], mask), default=None)


cdef bint _violates(mask, machine):
    """Answer whether a pod with that affinity would share NUMA nodes although it requires them for itself (nodenumaresource.md §9)."""
    if machine.exclusive != EXCLUSIVE_REQUIRED:
        return False
    return bool(mask & (machine.single if mask.bit_count() > 1 else machine.shared))


# Texts


def mask_text(uint64_t mask):
    cdef int width = 2
    while width < 64 and mask > (<uint64_t> 1) << width:
        width += 2
    return f"{mask:0{width}b}"


cdef str summary_of(str name, hints):
    """Return what was asked for, as the reference prints it."""
    prefer = " ".join([mask_text(hint.mask) for hint in hints if hint.preferred])
    among = " ".join([mask_text(hint.mask) for hint in hints])
    return f"{name} prefer [{prefer}] among [{among}]"
