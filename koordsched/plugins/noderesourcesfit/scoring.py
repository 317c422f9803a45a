"""The scoring strategies: which amounts of a pod count, and the kernel that scores them.

Scalar resources that the pod does not request are left out; cpu and memory count with the defaults for containers that request nothing.
Reference: plugins/noderesources/resource_allocation.go of Kubernetes v1.35.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from koordsched._core.allocation import RatioShape, ScoredResources, least_allocated, most_allocated, requested_to_capacity_ratio
from koordsched._core.table import NodeTable
from koordsched.api.names import is_scalar_resource_name
from koordsched.api.resources import pod_resources
from koordsched.config.args import LEAST_ALLOCATED, MOST_ALLOCATED, ScoringStrategy

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.columns import Columns

Kernel = Callable[[NodeTable, ScoredResources, NDArray[np.int32]], NDArray[np.int64]]

ALWAYS_SCORED = ("cpu", "memory", "ephemeral-storage")
SHAPE_SCALE = 10  # a shape's scores are 0..10, node scores 0..100


class AllocationScorer:
    """A profile's scoring strategy."""

    def __init__(self, strategy: ScoringStrategy, columns: Columns) -> None:
        self._columns = columns
        self._resources = strategy.resources
        self._scores_hugepages = any(spec.name.startswith("hugepages-") for spec in strategy.resources)
        self.score = _kernel(strategy)
        self._names = [spec.name for spec in strategy.resources]
        self._weights = [spec.weight for spec in strategy.resources]
        self._always_scored = all(name in ALWAYS_SCORED for name in self._names)
        self._ids = [columns.resource_id(name) for name in self._names] if self._always_scored else []

    def sign(self, pod: PodInfo) -> Hashable:
        """Return the pod's requests; with hugepages scored also those of its containers alone."""
        if self._scores_hugepages and pod.pod.spec.resources is not None:
            return (pod.resources, tuple(sorted(_containers_requests(pod).items())))
        return pod.resources

    def scored(self, pod: PodInfo) -> ScoredResources:
        requests = _containers_requests(pod) if self._scores_hugepages else pod.resources.requests
        counted = requests | {"cpu": pod.resources.scoring_cpu, "memory": pod.resources.scoring_memory}
        if self._always_scored:
            return ScoredResources(self._ids, [counted.get(name, 0) for name in self._names], self._weights)
        specs = [spec for spec in self._resources if _is_scored(spec.name, counted)]
        ids = [self._columns.resource_id(spec.name) for spec in specs]
        return ScoredResources(ids, [counted.get(spec.name, 0) for spec in specs], [spec.weight for spec in specs])


def _is_scored(resource: str, requests: dict[str, int]) -> bool:
    return resource in ALWAYS_SCORED or (is_scalar_resource_name(resource) and requests.get(resource, 0) > 0)


def _containers_requests(pod: PodInfo) -> dict[str, int]:
    """Return the requests without pod-level ones: the reference's scorer does not look at those (framework.md §10.4)."""
    if pod.pod.spec.resources is None:
        return pod.resources.requests
    without = replace(pod.pod, spec=replace(pod.pod.spec, resources=None))
    return pod_resources(without, counted_on_node=False).requests


def _kernel(strategy: ScoringStrategy) -> Kernel:
    if strategy.type == LEAST_ALLOCATED:
        return least_allocated
    if strategy.type == MOST_ALLOCATED:
        return most_allocated
    ratio = strategy.requested_to_capacity_ratio
    if ratio is None:
        raise ValueError(f"scoringStrategy of type {strategy.type} without requestedToCapacityRatio: loading refuses it")
    shape = RatioShape([(point.utilization, point.score * SHAPE_SCALE) for point in ratio.shape])

    def score(table: NodeTable, scored: ScoredResources, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        return requested_to_capacity_ratio(table, scored, shape, rows)

    return score
