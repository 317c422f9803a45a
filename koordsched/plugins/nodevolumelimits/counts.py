"""Columns of how many distinct volumes of each CSI driver every node has attached, and of how many it can attach.

The index is the id of a node's name, not its row: a CSINode may be known before its node and stay after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from koordsched.cache.columns import Vocabulary
    from koordsched.plugins.nodevolumelimits.csi_volumes import CSIVolume

NO_LIMIT = -1


class _Driver:
    """One driver's columns, indexed by the ids of node names."""

    __slots__ = ("attached", "limit")

    def __init__(self) -> None:
        self.attached = np.zeros(0, np.int64)
        self.limit = np.zeros(0, np.int64)

    def grow(self, size: int) -> None:
        """Make room for ids below size."""
        missing = size - len(self.limit)
        if missing > 0:
            missing = max(missing, len(self.limit))
            self.attached = np.concatenate([self.attached, np.zeros(missing, np.int64)])
            self.limit = np.concatenate([self.limit, np.full(missing, NO_LIMIT, np.int64)])


class VolumeCounts:
    """Attachments and limits. A volume that is attached for several reasons counts once on its node."""

    def __init__(self, names: Vocabulary[str]) -> None:
        self._names = names
        self._drivers: dict[str, _Driver] = {}
        self._nodes: dict[CSIVolume, dict[int, int]] = {}  # by volume: node -> reasons for which it is attached there
        self._limits: dict[str, dict[str, int]] = {}  # by node: its limits by driver

    def attach(self, volume: CSIVolume, node: str, reasons: int) -> None:
        """Add so many reasons (less than 0: take away) for which the volume is attached to the node."""
        nodes_of = self._nodes.setdefault(volume, {})
        index = self._names.hold(node)  # while the volume is there
        before = nodes_of.get(index, 0)
        after = before + reasons
        if after:
            nodes_of[index] = after
        else:
            nodes_of.pop(index, None)
            if not nodes_of:
                del self._nodes[volume]
        if bool(before) != bool(after):
            self._driver(volume[0]).attached[index] += 1 if after else -1
        if before or not after:
            self._names.release(index)
        if before and not after:
            self._names.release(index)

    def set_limits(self, node: str, limits: Mapping[str, int]) -> bool:
        """Write what the node can attach, by driver; a driver that is not named has no limit. Return whether anything changed."""
        before = self._limits.pop(node, {})
        if limits:
            self._limits[node] = dict(limits)
        index = self._names.hold(node)  # while it has limits
        if before or not limits:
            self._names.release(index)
        if before and not limits:
            self._names.release(index)
        for driver in before.keys() | limits.keys():
            self._driver(driver).limit[index] = limits.get(driver, NO_LIMIT)
        return before != limits

    def exceeded(self, driver: str, volumes: Iterable[CSIVolume], nodes: NDArray[np.int32]) -> NDArray[np.bool_] | None:
        """Return for each node (by name id) whether these volumes of the driver are more than it can attach. None: no node has a limit."""
        columns = self._drivers.get(driver)
        if columns is None:
            return None
        columns.grow(len(self._names))
        wanted = list(volumes)
        new = np.full(len(nodes), len(wanted), np.int64)
        for volume in wanted:
            on = self._nodes.get(volume)
            if on:
                new -= np.isin(nodes, np.fromiter(on, np.int32, len(on)))
        limit = columns.limit[nodes]
        exceeded: NDArray[np.bool_] = (limit != NO_LIMIT) & (new > 0) & (columns.attached[nodes] + new > limit)
        return exceeded

    def attached(self, node: str) -> dict[str, int]:
        """Return how many volumes of each driver are attached to the node, for tests and debugging."""
        index = self._names.ids.get(node, -1)
        counts = {name: int(driver.attached[index]) for name, driver in self._drivers.items() if 0 <= index < len(driver.attached)}
        return {name: count for name, count in counts.items() if count}

    def _driver(self, name: str) -> _Driver:
        found = self._drivers.get(name)
        if found is None:
            found = self._drivers[name] = _Driver()
        found.grow(len(self._names))
        return found
