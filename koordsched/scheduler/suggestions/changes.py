"""What a change is, and what a trial of changes says: the contract between the search, which sizes changes, and what tries them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

Json = dict[str, Any]


class Change(Protocol):
    """Something that could be different. It has amounts, by level: a higher one is a larger change, and helps wherever a lower one does."""

    @property
    def kind(self) -> str:
        """Return the kind of the change: that of which none is smaller."""

    @property
    def levels(self) -> int:
        """Return the number of amounts, at least 1: level 1 is the smallest change, this the largest."""

    def text(self, level: int, /) -> str:
        """Say what is changed, as an instruction."""

    def fields(self, level: int, /) -> Json:
        """Return the same for programs, without the kind."""


Sized = tuple[Change, int]
"""A change and its level."""


class TrialOutcome(msgspec.Struct, frozen=True):
    """What became of the pod. node: where it went, "" for nowhere. fits: how many nodes passed its filters, 0 where that was not asked."""

    node: str
    fits: int


NOWHERE = TrialOutcome("", 0)


class Trials(Protocol):
    """Tries changes of one pod and of what surrounds it."""

    @property
    def is_exhausted(self) -> bool:
        """Whether no more is to be tried, though something may be left."""

    async def run(self, changes: Sequence[Sized] = ()) -> TrialOutcome:
        """Find out what becomes of the pod with these changes."""

    def likely_level(self, change: Change, others: Sequence[Sized], /) -> int:
        """Return the level that is likely to be the smallest that suffices beside the others; 0: none is more likely than another."""

    def narrowed(self, change: Change, node: str, /) -> Change | None:
        """Return the change made to this node alone; None: it is that already, or not one of nodes."""
