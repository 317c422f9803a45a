"""Whether memory grows: the slope of a line through what was measured when caches are full and pools are warm."""

from __future__ import annotations

from collections.abc import Sequence

FEWEST = 4
"""Through fewer points no line is drawn."""


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the least-squares line, y per x; 0 of less than two different x."""
    if not points:
        return 0.0
    middle = sum(x for x, _ in points) / len(points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    return sum((x - middle) * y for x, y in points) / spread if spread else 0.0


def rise(minutes: Sequence[float], mebibytes: Sequence[float]) -> float | None:
    """Return by how many percent it grew from the end of the warm-up, the first third, to the end; None: too short a run."""
    third = -(-len(minutes) // 3)
    points = list(zip(minutes[third:], mebibytes[third:], strict=True))
    if len(points) < FEWEST:
        return None
    middle = sum(mib for _, mib in points) / len(points)
    grown = slope(points) * (points[-1][0] - points[0][0])
    return 100 * grown / (middle - grown / 2)


def growth_an_hour(minutes: Sequence[float], mebibytes: Sequence[float]) -> float | None:
    """Return by how many MiB an hour it grew over the second half; None: too short a run."""
    half = len(minutes) // 2
    points = list(zip(minutes[half:], mebibytes[half:], strict=True))
    return 60 * slope(points) if len(points) >= FEWEST else None
