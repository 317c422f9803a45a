"""CycleState: what plugins remember from one extension point of a pod's cycle to the next, and what they want written to the pod.

A plugin notes annotations that it has decided while the pod's PreBind runs (`annotate`); after PreBind of all plugins the framework hands
them to the first `PreBindPatchPlugin` that does not skip, which sends one patch (frameworkext.md §4 item 11). Later notes of one key
replace earlier ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        """Return a copy that shares the values. Most cycles write nothing of their own, so the dict is copied at the first write."""
        other = CycleState.__new__(CycleState)
        other.sampled = self.sampled
        other._data = self._data
        self._lent = other._lent = True
        return other

    def _keep_own(self) -> None:
        self._data = self._data.copy()
        self._lent = False


Annotations = dict[str, str | None]
"""Values to write by key; None: the annotation is removed."""

NOTED = "framework/annotations"


def annotate(state: CycleState, changes: Mapping[str, str | None]) -> None:
    """Note annotations to write; called from `pre_bind`."""
    state.write(NOTED, {**(state.read(NOTED) or {}), **changes})


def noted_annotations(state: CycleState) -> Annotations:
    """Return what is to be written, {} when nothing is."""
    return state.read(NOTED) or {}
