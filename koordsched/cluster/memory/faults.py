"""Injected faults.

A `Fault` is a rule: to which requests it applies, and what happens to these. `Faults` holds the rules in order; the first one that applies
to a request is taken. Equal sequences of requests with equal random seeds meet the same faults.
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
    """When a request fails: before it is carried out, or after, so that only its answer is lost."""

    BEFORE = "before"
    AFTER = "after"


class Fault(msgspec.Struct, kw_only=True):
    """One rule, which applies to the requests that meet all its conditions; without conditions to every request.

    A rule counts the requests of `verb` and `kind` (None: of any) from 1. It applies to those whose number is in `nth` (if given), with
    `probability`, and at most `times` times (None: no limit). Such a request takes `delay` seconds more and then raises `error()`; without
    an error it is only late.
    """

    verb: Verb | None = None
    kind: Kind | None = None
    nth: Sequence[int] = ()
    probability: float = 1.0
    times: int | None = None
    error: Callable[[], ClusterError] | None = None
    moment: Moment = Moment.BEFORE
    delay: float = 0.0
    seen: int = 0  # requests so far that were of the verb and kind
    applied: int = 0  # of these, the requests that the rule applied to

    def applies_to(self, verb: Verb, kind: Kind, random: Random) -> bool:
        """Count the request if the rule is about it, and answer whether the fault is injected into it."""
        if (self.verb is not None and self.verb != verb) or (self.kind is not None and self.kind != kind):
            return False
        self.seen += 1
        if (self.nth and self.seen not in self.nth) or (self.times is not None and self.applied >= self.times):
            return False
        if self.probability < 1.0 and random.random() >= self.probability:
            return False
        self.applied += 1
        return True

    async def before(self) -> None:
        """Delay the request, and raise the rule's error if that comes before the request is carried out."""
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.error is not None and self.moment is Moment.BEFORE:
            raise self.error()

    def after(self) -> None:
        """Raise the rule's error if that comes after the request was carried out, so that its answer is lost."""
        if self.error is not None and self.moment is Moment.AFTER:
            raise self.error()


class Faults(msgspec.Struct, kw_only=True):
    """All injected faults: rules for requests, and the seconds between two cuts of all watches and two losses of history (0: never)."""

    rules: list[Fault] = []
    cut_watches_every: float = 0.0
    compact_every: float = 0.0

    def for_request(self, verb: Verb, kind: Kind, random: Random) -> Fault | None:
        """Return the first rule that applies to the request. Rules after it do not count the request."""
        return next((rule for rule in self.rules if rule.applies_to(verb, kind, random)), None)
