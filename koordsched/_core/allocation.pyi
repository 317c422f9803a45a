from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from koordsched._core.table import NodeTable

class ScoredResources:
    """The resources that are scored, with what the pod adds of each (>= 0) and their weights (>= 1, together at most 100,000).

    ValueError for amounts or weights outside that. Immutable.
    """

    def __init__(self, ids: Sequence[int], amounts: Sequence[int], weights: Sequence[int]) -> None: ...
    @property
    def weight(self) -> int: ...

class MixedResources:
    """The resources that are scored, with what the pod adds of each (>= 0), weights (>= 0) and whether the fuller row is the better one.

    ValueError for amounts or weights outside that, or weights that add up to more than 2^63 / 100. Immutable.
    """

    def __init__(self, ids: Sequence[int], amounts: Sequence[int], weights: Sequence[int], most: Sequence[bool]) -> None: ...
    @property
    def weight(self) -> int: ...

class RatioShape:
    """A piecewise linear function of utilization 0..100 through (utilization, score) points of strictly ascending utilization.

    Constant before the first and after the last point; truncated toward zero between them.
    """

    def __init__(self, points: list[tuple[int, int]]) -> None: ...
    def __getitem__(self, utilization: int) -> int: ...

def least_allocated(table: NodeTable, scored: ScoredResources, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return per row the weighted mean of 100 * (capacity - requested) / capacity; 0 for a resource that would be overcommitted.

    requested counts the pod; capacity 0 leaves the resource out; no resource at all: 0. Without the GIL; O(rows x resources).
    """

def most_allocated(table: NodeTable, scored: ScoredResources, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return per row the weighted mean of 100 * min(requested, capacity) / capacity; otherwise as least_allocated."""

def mixed_allocated(table: NodeTable, scored: MixedResources, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return per row the weighted mean over the resources of least_allocated or most_allocated of that resource alone, each truncated.

    A resource that the row does not have scores 0 with its weight; 100 where the weights add up to 0. Without the GIL; O(rows x resources).
    """

def requested_to_capacity_ratio(table: NodeTable, scored: ScoredResources, shape: RatioShape, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return per row the weighted mean, rounded half up, of the shape at each resource's utilization.

    A resource that would be overcommitted is at 100; one with score 0 or capacity 0 is left out of the mean.
    """

def balanced(table: NodeTable, scored: ScoredResources, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return per row 100 * (1 - standard deviation of requested / capacity), truncated; requested counts the pod, plain amounts.

    A fraction is at most 1; capacity 0 leaves the resource out; fewer than two resources: 100. Weights are not used.
    """
