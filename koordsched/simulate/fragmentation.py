"""How much of what is free on nodes is of no use to pods like those of the input: the fragmentation of CPU and memory.

What is free on a node is of no use to a pod that does not fit there. The expected waste of a resource is its mean over the input's pods
that request the resource, after Weng et al., "Beware of Fragmentation" (USENIX ATC 2023); DeviceShare measures GPUs in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched.simulate.result import SHARE_DIGITS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from koordsched.cache.nodes import NodeInfo

MIX = 128
"""How many different requests count, the most frequent ones."""

MEASURED = ("cpu", "memory")
AMOUNTS = (*MEASURED, "pods")
"""What is free of a node, in milli-cores, bytes and pods."""

Request = tuple[int, int]
"""Milli-cores and bytes."""


def request_of(requests: Mapping[str, int]) -> Request:
    """Return what decides here of a pod's requests."""
    return requests.get("cpu", 0), requests.get("memory", 0)


class Mix:
    """The most frequent requests, and how many pods ask for each."""

    def __init__(self, pods: Counter[Request]) -> None:
        wanted = pods.most_common(MIX)
        self.requests = np.array([request for request, _ in wanted], np.int64).reshape(-1, len(MEASURED))
        self._weights = np.array([count for _, count in wanted], np.float64)[:, None] * (self.requests > 0)

    def asks(self, column: int) -> bool:
        """Answer whether some pod requests the resource."""
        return bool(self._weights[:, column].any())

    def parts(self, column: int) -> NDArray[np.float64]:
        """Return per request its part of the pods that request the resource."""
        weights = self._weights[:, column]
        return weights / max(float(weights.sum()), 1.0)


def unusable(nodes: Iterable[NodeInfo], mix: Counter[Request], offered: Mapping[str, int]) -> dict[str, float]:
    """Return the expected waste of CPU and memory as shares of what all nodes offer; {} where no pod or no node is.

    mix: how many pods ask for each request. A pod fits where as much of both is free, and one more pod may run; taints, affinities and
    whatever else keeps it from a node do not count.
    """
    known, wanted = [info for info in nodes if info.node is not None], Mix(mix)
    if not known:
        return {}
    free = np.array([[info.allocatable(name) - info.requested(name) for name in AMOUNTS] for info in known], dtype=np.int64)
    wasted = wasted_on_nodes(free.clip(min=0), wanted).sum(axis=0)
    asked = [(column, name) for column, name in enumerate(MEASURED) if wanted.asks(column) and offered.get(name)]
    return {name: round(float(wasted[column]) / offered[name], SHARE_DIGITS) for column, name in asked}


def wasted_on_nodes(free: NDArray[np.int64], mix: Mix) -> NDArray[np.float64]:
    """Return per node how much CPU and memory is not expected to be of use. free: a row per node, columns as AMOUNTS."""
    wasted = np.zeros((len(free), len(MEASURED)))
    if len(free) and len(mix.requests):
        fits = (free[:, None, : len(MEASURED)] >= mix.requests).all(axis=2) & (free[:, 2:] >= 1)
        for column in range(len(MEASURED)):
            wasted[:, column] = free[:, column] * ((~fits) @ mix.parts(column))
    return wasted
