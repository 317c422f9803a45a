"""Random NUMA nodes, requests and scorings, and the columns that kernels see of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np

from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_facts import MALFORMED_RATIO, CpuCounts, NumaNode, NumaPolicies, NumaStatus, NumaUsage, TopologyState, ZoneUsage
from koordsched._core.table import NodeTable, Request
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, NumaExclusive, NumaTopologyPolicy
from support.models.numa import CPU, Host, Pod, Scoring

NAMES = ("pods", "cpu", "memory", "ephemeral-storage", "example.com/gpu")
MEMORY, GPU = 2, 4


class Chance(random.Random):
    """Draws examples in which most nodes are in order and the answers differ."""

    def often(self) -> bool:
        return self.random() < 0.85

    def milli(self) -> int:
        return 1000 * self.randint(0, 12) if self.often() else self.randint(0, 12_000)

    def amounts(self) -> dict[int, int]:
        """Draw amounts of cpu and memory, mostly, and of GPUs, now and then."""
        drawn = {CPU: self.milli(), MEMORY: self.randint(0, 12), GPU: self.randint(0, 12)}
        wanted = {CPU: self.often(), MEMORY: self.often(), GPU: not self.often()}
        return {resource: amount for resource, amount in drawn.items() if wanted[resource]}

    def counts(self) -> CpuCounts:
        free = self.randint(0, 12)
        return CpuCounts(self.randint(0, 6), free, self.randint(free // 2, free), self.randint(free // 2, free))

    def host(self, most_zones: int = 4) -> Host:
        ids = self.sample(range(most_zones if self.often() else 64), self.randint(1, most_zones) if self.often() else 0)
        used = [numa for numa in ids if self.often()]
        facts = NumaNode(
            TopologyState.VALID if self.often() else self.choice(list(TopologyState)),
            self.choice([1, 2, 2, 4]),
            {numa: self.amounts() for numa in ids},
            CpuBindPolicy.NONE if self.often() else self.choice(list(CpuBindPolicy)),
            self.choice(list(NumaTopologyPolicy)),
            1.0 if self.often() else self.choice([1.1, 1.5, 2.0, 0.5]),
            1.0 if self.often() else self.choice([1.5, MALFORMED_RATIO]),
        )
        zones = {numa: ZoneUsage(self._used(facts.zones[numa]), self.counts(), self.choice(list(NumaStatus))) for numa in used}
        allocatable = {resource: 3 * amount for resource, amount in self.amounts().items()}
        return Host(facts, NumaUsage(self.counts(), zones), allocatable, self.amounts())

    def _used(self, amounts: Mapping[int, int]) -> dict[int, int]:
        return {resource: self.randint(0, amount + 1) for resource, amount in amounts.items() if not self.often()}

    def pod(self, host: Host) -> Pod:
        requested = {resource: amount for resource, amount in self.amounts().items() if amount}
        may_bind = CPU in requested and (requested[CPU] % 1000 == 0 or not self.often())
        bind = self.choice(list(CpuBindPolicy)) if may_bind else CpuBindPolicy.NONE
        required = bind if self.random() < 0.3 else CpuBindPolicy.NONE
        policy = self.choice([NumaTopologyPolicy.NONE, host.facts.numa_policy]) if self.often() else self.choice(list(NumaTopologyPolicy))
        return Pod(requested, NumaPolicies(bind, required, policy, self.choice(list(NumaExclusive))), NAMES)

    def scoring(self) -> Scoring:
        strategies = [AllocateStrategy.LEAST, AllocateStrategy.MOST]
        return Scoring(self._weights(), self._weights(), self.choice(strategies), self.choice(strategies), (GPU,))

    def _weights(self) -> dict[int, int]:
        return {r: self.randint(1, 100) for r in (CPU, MEMORY, GPU) if self.often()}

    def case(self, hosts: int = 1, most_zones: int = 4) -> tuple[list[Host], Pod, Scoring]:
        cluster = [self.host(most_zones) for _ in range(hosts)]
        return cluster, self.pod(cluster[0]), self.scoring()


class Columns:
    """The hosts in a node table and a NUMA table, rows and indexes apart; facts are written twice to see that nothing stays behind."""

    def __init__(self, hosts: Sequence[Host], index: int = 60) -> None:
        self.nodes = NodeTable()
        self.nodes.ensure_resources(len(NAMES))
        attribute = self.nodes.new_attribute()
        self.table = NumaTable(self.nodes, attribute)
        self.indexes = [index + i for i in range(len(hosts))]
        for which in (hosts[::-1], hosts):
            for at, host in zip(self.indexes, which, strict=True):
                self.table.set_node(at, host.facts)
                self.table.set_usage(at, host.usage)
        for at, host in zip(self.indexes, hosts, strict=True):
            row = self.nodes.acquire_row()
            self.nodes.set_allocatable(row, host.allocatable)
            self.nodes.set_attribute(attribute, row, at, 0)
            used = {resource: amount for resource, amount in host.requested.items() if amount}
            self.nodes.add(row, Request([0, *sorted(used)], [1, *(used[resource] for resource in sorted(used))], 0, 0))
            self.nodes.set_live(row, True)

    @property
    def rows(self) -> np.ndarray:
        return self.nodes.live_rows()


def request_of(pod: Pod) -> NumaRequest:
    return NumaRequest(pod.amounts, NAMES, pod.terms)


def scoring_of(scoring: Scoring) -> NumaScoring:
    return NumaScoring(scoring.weights, scoring.node_strategy, scoring.numa_strategy, scoring.only_requested, scoring.numa_weights)
