"""How long to wait before trying again: the one place where delays grow.

A delay grows by a factor from one failure to the next until a cap. The number of failures has no limit (what cannot be written is tried for
as long as it is wanted), so the exponent has one: the power of a large count does not fit into a float.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

MAX_EXPONENT = 62
"""Doubled so often, a nanosecond is 146 years: beyond every cap."""


def grown(first: float, cap: float, failures: int, factor: float = 2.0) -> float:
    """Return the delay after so many failures in a row: `first` after one, `factor` times as long after each further one, at most `cap`.

    0 before the first failure. No count overflows, and a longer row never has a shorter delay.
    """
    if failures <= 0:
        return 0.0
    return min(first * factor ** min(failures - 1, MAX_EXPONENT), cap)


class Backoff:
    """The delays of one thing that is tried again and again, in seconds; each is lengthened by chance, up to `jitter` of it, so that many
    clients do not come back together.

    The defaults are those of client-go's reflector.
    """

    def __init__(self, random: Random, *, first: float = 0.8, cap: float = 30.0, factor: float = 2.0, jitter: float = 1.0) -> None:
        self.failures = 0  # since it was made or reset
        self._random = random
        self._first = first
        self._cap = cap
        self._factor = factor
        self._jitter = jitter

    def delay(self) -> float:
        """Count a failure, and return how long to wait after it."""
        self.failures += 1
        return grown(self._first, self._cap, self.failures, self._factor) * (1.0 + self._jitter * self._random.random())

    def reset(self) -> None:
        """Begin anew: something went well."""
        self.failures = 0
