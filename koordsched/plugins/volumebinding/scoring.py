"""The utilization of storage after the pod, by class, on the shape of the arguments; with the gate StorageCapacityScoring only.

Available volumes count by request and size; where none of the pod's claims gets one, requests count against what the class has left.
Reference: plugins/volumebinding/scorer.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched.api.quantity import units
from koordsched.api.volume_matching import volume_size
from koordsched.plugins.volumebinding.filtering import NO_VOLUME
from koordsched.plugins.volumebinding.topology import NO_CANDIDATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from koordsched.config.args import UtilizationShapePoint
    from koordsched.framework.interface import Scores
    from koordsched.plugins.volumebinding.filtering import ClaimDecisions, CompiledClaims

SHAPE_SCALE = 10  # a shape's scores are 0..10, node scores 0..100
FULL = 100


class _Usage:
    """One class's sums per row, in bytes."""

    def __init__(self, rows: int) -> None:
        self.requested = np.zeros(rows, np.int64)
        self.capacity = np.zeros(rows, np.int64)
        self.counts = np.zeros(rows, np.bool_)


class CapacityScore:
    """Scores rows by what the claims get there."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._utilization = np.array([point.utilization for point in shape], np.int64)
        self._scores = np.array([point.score * SHAPE_SCALE for point in shape], np.int64)

    def score(self, claims: CompiledClaims, found: ClaimDecisions) -> Scores:
        """Return 0..100 per row: the mean over the classes that count there, 0 where none does."""
        rows = len(found.codes)
        static = np.zeros(rows, np.bool_)
        for numbers in found.volumes:
            static |= numbers != NO_VOLUME
        total, classes = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        for usage in [*_static(claims, found, rows), *_dynamic(claims, found, ~static)]:
            full = (usage.capacity == 0) | (usage.requested > usage.capacity)
            utilization = np.where(full, FULL, _percent(usage))
            total += np.where(usage.counts, self._interpolated(utilization), 0)
            classes += usage.counts
        mean = total / np.maximum(classes, 1)
        return np.floor(mean + 0.5).astype(np.int64)  # halves up: no score is negative

    def _interpolated(self, percent: NDArray[np.int64]) -> NDArray[np.int64]:
        """Follow the shape's lines, in integers that are rounded towards zero."""
        index = np.searchsorted(self._utilization, percent, side="left")
        right = np.minimum(index, len(self._utilization) - 1)
        left = np.maximum(right - 1, 0)
        width = np.maximum(self._utilization[right] - self._utilization[left], 1)
        rise = (self._scores[right] - self._scores[left]) * (percent - self._utilization[left])
        between = self._scores[left] + np.sign(rise) * (np.abs(rise) // width)
        result: NDArray[np.int64] = np.where(index == 0, self._scores[0], np.where(index > right, self._scores[-1], between))
        return result


def _percent(usage: _Usage) -> NDArray[np.int64]:
    """Return requested * 100 / capacity rounded down; computed in floats only where the product does not fit."""
    exact = usage.requested < np.iinfo(np.int64).max // FULL
    capacity = np.maximum(usage.capacity, 1)
    return np.where(exact, usage.requested * FULL // capacity, (usage.requested / capacity * FULL).astype(np.int64))


def _static(claims: CompiledClaims, found: ClaimDecisions, rows: int) -> Iterable[_Usage]:
    """Sum up requests and sizes of the available volumes that the claims get."""
    sizes = np.array([units(volume_size(volume)) for volume in claims.volumes] or [0], np.int64)
    by_class: dict[str, _Usage] = {}
    for each, numbers in zip(claims.delayed, found.volumes, strict=True):
        usage = by_class.setdefault(each.claim.storage_class, _Usage(rows))
        chosen = numbers != NO_VOLUME
        usage.requested += np.where(chosen, units(each.claim.request.size or 0), 0)
        usage.capacity += np.where(chosen, sizes[np.maximum(numbers, 0)], 0)
        usage.counts |= chosen
    return by_class.values()


def _dynamic(claims: CompiledClaims, found: ClaimDecisions, rows: NDArray[np.bool_]) -> Iterable[_Usage]:
    """Sum up requests against what the class has left where the volume is to be provisioned."""
    by_class: dict[str, _Usage] = {}
    for each, ranks in zip(claims.delayed, found.pools, strict=True):
        if not each.pools:
            continue
        usage = by_class.setdefault(each.claim.storage_class, _Usage(len(rows)))
        left = np.array([pool.capacity for pool in each.pools], np.int64)
        known = rows & (ranks != NO_CANDIDATE)
        usage.requested += np.where(known, units(each.claim.request.size or 0), 0)
        usage.capacity = np.where(known, left[np.minimum(ranks, len(left) - 1)], usage.capacity)
        usage.counts |= known
    return by_class.values()
