"""What goes wrong on purpose.

A `Fault` is a rule: for which requests, when it strikes, and what then happens. `Faults` holds the rules in order and decides for each
request; the first that strikes is taken. The same requests in the same order with the same random seed meet the same faults.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from koordsched.api.kinds import Kind
    from koordsched.cluster.port import ClusterError

Verb = Literal["list", "watch", "get", "create", "patch", "patch status", "update", "delete", "evict", "bind"]


class Moment(Enum):
    """Whether a request fails before it was carried out or after: then only the answer is lost."""

    BEFORE = "before"
    AFTER = "after"


class Fault(msgspec.Struct, kw_only=True):
    """One rule. Empty conditions hold always: without any, every request fails.

    A rule looks at requests of `verb` and `kind` (None: of any) and counts them from 1. It strikes when that count is in `nth` (if given)
    and with `probability`, at most `times` times (None: no limit). A struck request takes `delay` seconds more and then raises
    `error()`; without an error it is only late.
    """

    verb: Verb | None = None
    kind: Kind | None = None
    nth: Sequence[int] = ()
    probability: float = 1.0
    times: int | None = None
    error: Callable[[], ClusterError] | None = None
    moment: Moment = Moment.BEFORE
    delay: float = 0.0
    seen: int = 0  # requests looked at so far
    struck: int = 0  # of these, how many were hit

    def strikes(self, verb: Verb, kind: Kind, random: Random) -> bool:
        """Count the request and say whether it is hit."""
        if (self.verb is not None and self.verb != verb) or (self.kind is not None and self.kind != kind):
            return False
        self.seen += 1
        if (self.nth and self.seen not in self.nth) or (self.times is not None and self.struck >= self.times):
            return False
        if self.probability < 1.0 and random.random() >= self.probability:
            return False
        self.struck += 1
        return True

    async def before(self) -> None:
        """Let the struck request be late, and fail before it is carried out where the rule says so."""
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.error is not None and self.moment is Moment.BEFORE:
            raise self.error()

    def after(self) -> None:
        """Lose the answer of a struck request that was carried out, where the rule says so."""
        if self.error is not None and self.moment is Moment.AFTER:
            raise self.error()


class Faults(msgspec.Struct, kw_only=True):
    """Everything that may go wrong: rules for requests, watches cut every so many seconds, history lost every so many (0: never)."""

    rules: list[Fault] = []
    cut_watches_every: float = 0.0
    compact_every: float = 0.0

    def strike(self, verb: Verb, kind: Kind, random: Random) -> Fault | None:
        """Return the first rule that hits the request. Rules after it do not count the request."""
        return next((rule for rule in self.rules if rule.strikes(verb, kind, random)), None)
