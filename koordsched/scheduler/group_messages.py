"""What each pending member of a group says whose turn was undone, in the words of the reference (coscheduling.md §5).

There members are tried one after the other: those before the one that failed waited on Permit and are rejected there, those after it are
refused by PreFilter. Here they are decided together, and say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.framework.diagnosis import fit_error

if TYPE_CHECKING:
    from collections.abc import Collection

    from koordsched.framework.interface import GroupRefusal


class GroupMessages:
    """The texts of one refusal."""

    def __init__(self, refusal: GroupRefusal, placed: Collection[str], total_nodes: int, cause: str, preemption: tuple[str, str]) -> None:
        """placed: keys of the members that had a node. cause: why the group is refused, to be said by the members that lack nothing.

        preemption: what the member that failed and what the others say of an attempt to make room, "" for nothing.
        """
        self._member = refusal.member
        self._placed = placed
        own, others = preemption
        self.failed = _joined(refusal.message, own)
        self._rejected = fit_error(1, {cause: 1})
        self._untried = _joined(fit_error(total_nodes, {}, cause), others)

    def of(self, key: str) -> str:
        """Return what the member with this key says."""
        if key == self._member:
            return self.failed
        return self._rejected if key in self._placed else self._untried


def _joined(message: str, preemption: str) -> str:
    return f"{message} {preemption}" if preemption else message
