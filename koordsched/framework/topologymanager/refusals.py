"""What a merge of hints says when it cannot admit a pod: the reference's texts (nodenumaresource.md §9, §15)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.status import Status, unschedulable

if TYPE_CHECKING:
    from koordsched._core.numa_facts import Merged

UNSATISFIED = "Unsatisfied NUMA {resource}"
UNALIGNED = "Unaligned NUMA Hint cause {summary}"


def merged_status(merged: Merged) -> Status | None:
    """Return the refusal that a merge came to, None when it admits."""
    if merged.admitted:
        return None
    if merged.unsatisfied:
        return unschedulable(*(UNSATISFIED.format(resource=resource) for resource in merged.unsatisfied))
    return unschedulable(UNALIGNED.format(summary=merged.summary))
