"""Long work on the event loop, cut into slices: a generator that yields whenever others should have their turn."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")

PODS_A_SLICE = 200.0
"""How much is done between two yields, counted in pods whose facts are derived anew: about 4 ms (bench_drift.py)."""
ROW = 5.0  # a node's row and what plugins keep of it, beside its pods
OBJECT = 0.4  # two states of an object compared field by field
GLANCE = 0.02  # a pod looked up


class Work:
    """Counts what was done since the last yield."""

    def __init__(self) -> None:
        self._left = PODS_A_SLICE

    def done(self, pods: float) -> bool:
        """Count some work; True when it is time to yield."""
        self._left -= pods
        if self._left > 0:
            return False
        self._left = PODS_A_SLICE
        return True


async def run_sliced(work: Generator[None, None, T], pause: float = 0.0) -> T:
    """Do the work, with a pause of so many seconds after each slice; return what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(pause)
