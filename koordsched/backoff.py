"""How long to wait before trying again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


class Backoff:
    """Exponential delays in seconds, each made up to twice as long by chance so that many clients do not come back together.

    The first delay and the cap are those of client-go's reflector.
    """

    def __init__(self, random: Random, *, first: float = 0.8, cap: float = 30.0) -> None:
        self._random = random
        self._first = first
        self._cap = cap
        self._next = first

    def delay(self) -> float:
        """Return how long to wait now; the next wait is twice as long, up to the cap."""
        delay = self._next * (1.0 + self._random.random())
        self._next = min(2.0 * self._next, self._cap)
        return delay

    def reset(self) -> None:
        """Begin anew: something went well."""
        self._next = self._first
