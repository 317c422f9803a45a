"""Answers remembered for a while: at most so many, the least recently used are forgotten first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Memory(Generic[V]):
    """`now` returns seconds; `size` bounds the answers kept."""

    def __init__(self, now: Callable[[], float], size: int) -> None:
        self._now = now
        self._size = size
        self._kept: OrderedDict[Hashable, tuple[float, V]] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """Return what is remembered, None when nothing is or its time is over."""
        until, value = self._kept.get(key, (0.0, None))
        if value is None or until <= self._now():
            self._kept.pop(key, None)
            return None
        self._kept.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V, seconds: float) -> None:
        """Remember a value for so long."""
        if seconds <= 0:
            return
        self._kept[key] = (self._now() + seconds, value)
        self._kept.move_to_end(key)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)
