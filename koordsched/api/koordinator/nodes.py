"""Labels and annotations of Nodes about CPUs and NUMA nodes (nodenumaresource.md §1, §13)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.koordinator.pods import NUMA_POLICIES
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, NumaTopologyPolicy
from koordsched.api.koordinator.reading import Malformed, read_annotation
from koordsched.api.quantity import MAX_INT64
from koordsched.yamltext.documents import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node

CPU_BIND_POLICY = "node.koordinator.sh/cpu-bind-policy"
NUMA_ALLOCATE_STRATEGY = "node.koordinator.sh/numa-allocate-strategy"
NUMA_TOPOLOGY_POLICY = "node.koordinator.sh/numa-topology-policy"
AMPLIFICATION_RATIO = "node.koordinator.sh/resource-amplification-ratio"
"""Of Nodes, and of NodeResourceTopologies whose zones are amplified already."""

MAX_RATIO = 1_000_000.0
"""A larger ratio is a mistake: amplified amounts must stay int64."""

_BIND_POLICIES = {"FullPCPUsOnly": CpuBindPolicy.FULL_PCPUS, "SpreadByPCPUs": CpuBindPolicy.SPREAD_BY_PCPUS}
_STRATEGIES = {"MostAllocated": AllocateStrategy.MOST, "DistributeEvenly": AllocateStrategy.DISTRIBUTE_EVENLY}
_NO_POLICY = "None"

Ratios = dict[str, float]
"""By resource; 1 and less: not amplified."""


class NodePolicy(msgspec.Struct, frozen=True):
    """What a Node says. `problems` are its mistakes, a line each; `ratios` is None when the annotation is malformed."""

    bind: CpuBindPolicy = CpuBindPolicy.NONE
    strategy: AllocateStrategy | None = None  # None: the node does not say
    numa_policy: NumaTopologyPolicy | None = None  # None: the node does not say
    ratios: Ratios | None = msgspec.field(default_factory=dict)
    problems: tuple[str, ...] = ()


def node_policy(node: Node) -> NodePolicy:
    """Read a Node. An unknown NUMA topology policy counts as absent (D3)."""
    labels, problems = node.metadata.labels, []
    ratios: Ratios | None = None
    try:
        ratios = amplification_ratios(node.metadata.annotations) or {}
        problems += negative_ratios(ratios)
    except Malformed as error:
        problems.append(str(error))
    policy = labels.get(NUMA_TOPOLOGY_POLICY, "")
    if policy not in NUMA_POLICIES and policy != _NO_POLICY:
        problems.append(
            f"{NUMA_TOPOLOGY_POLICY}: expected None, BestEffort, Restricted or SingleNUMANode, so it is ignored: {shown(policy)}"
        )
    return NodePolicy(
        bind=_BIND_POLICIES.get(labels.get(CPU_BIND_POLICY, ""), CpuBindPolicy.NONE),
        strategy=_strategy(labels.get(NUMA_ALLOCATE_STRATEGY, "")),
        numa_policy=NumaTopologyPolicy.NONE if policy == _NO_POLICY else NUMA_POLICIES.get(policy) or None,
        ratios=ratios,
        problems=tuple(problems),
    )


def _strategy(text: str) -> AllocateStrategy | None:
    """Return what a label means: a text that is no strategy acts as LeastAllocated."""
    return _STRATEGIES.get(text, AllocateStrategy.LEAST) if text else None


def amplification_ratios(annotations: Mapping[str, str]) -> Ratios | None:
    """Return the ratios; None when the object has none. Malformed when one is too large to be meant."""
    ratios = read_annotation(annotations, AMPLIFICATION_RATIO, Ratios)
    for resource, ratio in (ratios or {}).items():
        if ratio > MAX_RATIO:
            problem = f"the ratio of {resource}, {ratio:g}, is more than {MAX_RATIO:.0f}"
            raise Malformed(AMPLIFICATION_RATIO, problem, annotations[AMPLIFICATION_RATIO])
    return ratios


def negative_ratios(ratios: Ratios) -> list[str]:
    """Return a line for each ratio below 0, which amplifies nothing and is surely not meant."""
    return [
        f"{AMPLIFICATION_RATIO}: the ratio of {name}, {ratio:g}, is ignored: expected 1 or more"
        for name, ratio in ratios.items()
        if ratio < 0
    ]


def amplify(amount: int, ratio: float) -> int:
    """Return the amount (milli for cpu) times the ratio, rounded up in double precision; not amplified by a ratio of 1 or less."""
    return amount if ratio <= 1 else min(math.ceil(float(amount) * ratio), MAX_INT64)
