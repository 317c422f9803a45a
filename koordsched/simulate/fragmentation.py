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

    from koordsched.cache.nodes import NodeInfo

MIX = 128
"""How many different requests count, the most frequent ones."""

MEASURED = ("cpu", "memory")

Request = tuple[int, int]
"""Milli-cores and bytes."""


def request_of(requests: Mapping[str, int]) -> Request:
    """Return what decides here of a pod's requests."""
    return requests.get("cpu", 0), requests.get("memory", 0)


def unusable(nodes: Iterable[NodeInfo], mix: Counter[Request], offered: Mapping[str, int]) -> dict[str, float]:
    """Return the expected waste of CPU and memory as shares of what all nodes offer; {} where no pod or no node is.

    mix: how many pods ask for each request. A pod fits where as much of both is free, and one more pod may run; taints, affinities and
    whatever else keeps it from a node do not count.
    """
    wanted = mix.most_common(MIX)
    known = [info for info in nodes if info.node is not None]
    if not wanted or not known:
        return {}
    free = np.array([[info.allocatable(name) - info.requested(name) for name in (*MEASURED, "pods")] for info in known], dtype=np.int64)
    free = free.clip(min=0)
    found = {}
    for column, name in enumerate(MEASURED):
        asking = [(request, count) for request, count in wanted if request[column]]
        if not asking or not offered.get(name):
            continue
        wasted = sum(count * _wasted(free, column, request) for request, count in asking)
        found[name] = round(wasted / sum(count for _, count in asking) / offered[name], SHARE_DIGITS)
    return found


def _wasted(free: np.ndarray[tuple[int, int], np.dtype[np.int64]], column: int, request: Request) -> int:
    """Return how much of a resource is free where the request does not fit. free: a row per node, columns cpu, memory, pods."""
    fits = (free[:, 0] >= request[0]) & (free[:, 1] >= request[1]) & (free[:, 2] >= 1)
    return int(free[~fits, column].sum())
