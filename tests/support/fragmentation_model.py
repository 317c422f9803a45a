"""What `_core.fragmentation` computes, in plain Python: the formula of Weng et al. (USENIX ATC 2023) with exact fractions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

MIB = 1 << 20
Requests = Mapping[tuple[int, int, int, int], int]
"""Pods by milli-cores, bytes, GPUs and the share of each."""


def waste(requests: Requests, cpu: int, memory: int, shares: Sequence[int]) -> Fraction:
    """Return the expected waste of a node with so much free, in percent of a GPU."""
    total, free = sum(requests.values()), sum(shares)
    if not total:
        return Fraction(0)
    expected = Fraction(0)
    for (asked_cpu, asked_memory, count, share), pods in requests.items():
        runs = cpu >= asked_cpu and memory // MIB >= -(-asked_memory // MIB) and sum(left >= share for left in shares) >= count
        unusable = sum(left for left in shares if left < share) if runs else free
        expected += Fraction(pods * unusable, total)
    asked_cpu = sum(pods * request[0] for request, pods in requests.items())
    asked_share = sum(pods * request[2] * request[3] for request, pods in requests.items())
    if not asked_cpu:
        return expected
    return expected + max(Fraction(0), free - max(0, cpu) * Fraction(asked_share, asked_cpu))


def added(requests: Requests, cpu: int, memory: int, shares: Sequence[int], asked: tuple[int, int, int, int]) -> tuple[Fraction, list[int]]:
    """Return what a pod that fits adds to the waste of a node, and the GPUs that it takes: each the one that adds the least if it was taken
    alone, the first of those that add the same."""
    pod_cpu, pod_memory, count, share = asked
    left = (cpu - pod_cpu, memory - pod_memory)

    def after(place: int) -> Fraction:
        taken = [free - share if at == place else free for at, free in enumerate(shares)]
        return waste(requests, *left, taken) - _beyond_cpu(requests, left[0], sum(taken))

    fitting = [place for place, free in enumerate(shares) if free >= share] if count else []
    chosen = sorted(fitting, key=lambda place: (after(place), place))[:count]
    taken = [free - share if at in chosen else free for at, free in enumerate(shares)]
    return waste(requests, *left, taken) - waste(requests, cpu, memory, shares), chosen


def _beyond_cpu(requests: Requests, cpu: int, free: int) -> Fraction:
    asked_cpu = sum(pods * request[0] for request, pods in requests.items())
    asked_share = sum(pods * request[2] * request[3] for request, pods in requests.items())
    return max(Fraction(0), free - max(0, cpu) * Fraction(asked_share, asked_cpu)) if asked_cpu else Fraction(0)


def score(added_waste: Fraction) -> float:
    """Return the score before it is cut to a whole number."""
    return 100 / (1 + math.exp(float(added_waste) / 50))
