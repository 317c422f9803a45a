"""Regions: sets of nodes of which one has to take a whole job, as the domains of a network are (coscheduling.md §7.2, §8).

A region consists of parts, those of parts again, and in the end of rows. How many pods of the job a region or a row takes may have to be a
multiple of a number: then the least sum of costs is found part by part (`least_cost_in`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.dry_run import least_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from koordsched.framework.row_refusals import Rows

    Costs = NDArray[np.int64]


class Region:
    """Rows that lie together."""

    def __init__(self, rows: Rows, parts: Sequence[Region] = (), multiple: int = 1, row_multiple: int = 1) -> None:
        """parts: what it consists of, with the same rows; none where these are single rows.

        multiple: what the number of pods in it has to be a multiple of. row_multiple: that of each row; of a region without parts.
        """
        self.rows = rows
        self.parts = parts
        self.multiple = multiple
        self.row_multiple = row_multiple
        self.divided = row_multiple > 1 or any(part.has_multiples for part in parts)  # whether its parts or rows have multiples

    @property
    def has_multiples(self) -> bool:
        return self.divided or self.multiple > 1

    def parts_or_rows(self) -> Sequence[Region]:
        """Return what it consists of, single rows as regions."""
        return self.parts or [Region(self.rows[i : i + 1], multiple=self.row_multiple) for i in range(len(self.rows))]

    def keeps_multiples(self, pods: Mapping[int, int]) -> bool:
        """Answer whether all numbers are such multiples. pods: by row; rows outside of the region do not count."""
        if sum(pods.get(row, 0) for row in self.rows.tolist()) % self.multiple:
            return False
        return not self.divided or all(part.keeps_multiples(pods) for part in self.parts_or_rows())


def least_cost_in(region: Region, costs: Costs, places: NDArray[np.int32], count: int) -> NDArray[np.int64] | None:
    """Return how many of `count` pods each place takes for the least sum of costs, with the multiples of the region; None: no room for all.

    costs: [place, pods], -1 where there is no room for so many. places: by row; -1 for rows that take none.
    """
    sums, give = _sums(region, costs, places, count)
    if sums[count] < 0:
        return None
    taken = np.zeros(len(costs), np.int64)
    give(count, taken)
    return taken


def _sums(region: Region, costs: Costs, places: NDArray[np.int32], count: int) -> tuple[Costs, Callable[[int, NDArray[np.int64]], None]]:
    """Return the least cost of each number of pods in the region, -1 for those that it cannot take, and what distributes a number."""
    below = [_sums(part, costs, places, count) for part in region.parts] if region.divided else []
    if below:
        items = np.array([sums for sums, _ in below], np.int64)
    else:
        chosen = places[region.rows]
        chosen = np.sort(chosen[chosen >= 0])
        items = costs[chosen, : count + 1]
        items = np.where(np.arange(items.shape[1]) % region.row_multiple, -1, items)
    sums, taken_by = least_sums(np.ascontiguousarray(items), count)
    sums[np.arange(count + 1) % region.multiple != 0] = -1

    def give(amount: int, taken: NDArray[np.int64]) -> None:
        for i in range(len(items) - 1, -1, -1):
            share = int(taken_by[i, amount])
            if below:
                below[i][1](share, taken)
            else:
                taken[chosen[i]] = share
            amount -= share

    return sums, give
