from collections.abc import Mapping, Sequence

from koordsched._core.numa_facts import Hint, Machine, Merged

def merge_hints(providers: Sequence[Mapping[str, Sequence[Hint] | None]], machine: Machine) -> Merged:
    """Merge providers' hints, by resource name, to one affinity (nodenumaresource.md §9).

    A provider without hints, and None for a resource, means any zones; an empty list, that none would do. O(hints) for Restricted and
    SingleNUMANode, for BestEffort O(sets of zones x hints) when the providers do not agree.
    """

def mask_text(mask: int) -> str:
    """Return the mask in binary, at least two digits, as the reference prints it: {0} "01", {0,2} "0101", {2} "100"."""
