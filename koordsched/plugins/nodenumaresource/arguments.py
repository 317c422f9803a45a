"""The plugin's arguments as it uses them: resource ids instead of names, numbers instead of texts (nodenumaresource.md §1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched._core.numa import NumaScoring
from koordsched._core.numa_policy import AllocateStrategy
from koordsched.cache.columns import BASE_RESOURCES
from koordsched.config.args import MOST_ALLOCATED

if TYPE_CHECKING:
    from koordsched.cache.columns import Columns
    from koordsched.config.args import ResourceSpec
    from koordsched.config.koordinator_args import NodeNUMAResourceArgs, ScoringStrategy


class Settings(msgspec.Struct, frozen=True):
    """What one profile wants."""

    default_bind_policy: str  # of LSE and LSR pods that name none; "" binds none of them
    scoring: NumaScoring
    strategy: AllocateStrategy  # where a node's label names none
    evenly: bool  # D12: DistributeEvenly is honoured


def settings_of(args: NodeNUMAResourceArgs, columns: Columns) -> Settings:
    """Read the arguments, which have been validated."""
    node, numa = args.scoring_strategy, args.numa_scoring_strategy
    node_weights, numa_weights = _weights(node.resources, columns), _weights(numa.resources or node.resources, columns)
    optional = [found for found in {*node_weights, *numa_weights} if columns.resource_names[found] not in BASE_RESOURCES]
    scoring = NumaScoring(node_weights, _strategy(node), _strategy(numa), optional, numa_weights)
    return Settings(args.default_cpu_bind_policy, scoring, _strategy(numa), args.honor_distribute_evenly)


def _weights(resources: tuple[ResourceSpec, ...], columns: Columns) -> dict[int, int]:
    return {columns.resource(spec.name): spec.weight for spec in resources}


def _strategy(strategy: ScoringStrategy) -> AllocateStrategy:
    return AllocateStrategy.MOST if strategy.type == MOST_ALLOCATED else AllocateStrategy.LEAST
