"""CycleState: what plugins remember from one extension point of a pod's cycle to the next."""

from __future__ import annotations

from typing import Any


class CycleState:
    """A key/value store for one pod's scheduling cycle (framework.md §2.1). Values written by PreFilter and PreScore are shared by all pods
    of a shape and must not be changed; other values belong to this cycle alone."""

    __slots__ = ("_data", "_lent", "sampled")

    def __init__(self) -> None:
        self.sampled = False  # whether plugins are timed in this cycle
        self._data: dict[str, Any] = {}
        self._lent = False  # whether a clone reads the same dict, which must then not be changed

    def write(self, key: str, value: object) -> None:
        if self._lent:
            self._keep_own()
        self._data[key] = value

    def read(self, key: str) -> Any:
        """Return the value, or None when nothing was written."""
        return self._data.get(key)

    def delete(self, key: str) -> None:
        if self._lent:
            self._keep_own()
        self._data.pop(key, None)

    def clone(self) -> CycleState:
        """Return a copy that shares the values. Most cycles write nothing of their own, so the dict is copied by who writes first."""
        other = CycleState.__new__(CycleState)
        other.sampled = self.sampled
        other._data = self._data
        self._lent = other._lent = True
        return other

    def _keep_own(self) -> None:
        self._data = self._data.copy()
        self._lent = False
