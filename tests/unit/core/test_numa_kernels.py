"""Filter, score, affinity and split over NUMA nodes, by hand. cpu in milli, memory in GiB; F is FullPCPUs, S is SpreadByPCPUs.

Sections and decisions are those of nodenumaresource.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from koordsched._core.hints import NumaView
from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_facts import (
    MALFORMED_RATIO,
    CpuCounts,
    Merged,
    NumaNode,
    NumaPolicies,
    NumaSplit,
    NumaStatus,
    NumaUsage,
    Restored,
    TopologyState,
    ZoneUsage,
)
from koordsched._core.numa_filter import NumaReason, filter_numa, reason_of, resources_of
from koordsched._core.numa_merge import merge_hints
from koordsched._core.numa_score import score_numa
from koordsched._core.table import NodeTable, Request
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, NumaExclusive, NumaTopologyPolicy

NAMES = ("pods", "cpu", "memory", "ephemeral-storage", "example.com/gpu")
CPU, MEMORY, GPU = 1, 2, 4
NONE, F, S = CpuBindPolicy.NONE, CpuBindPolicy.FULL_PCPUS, CpuBindPolicy.SPREAD_BY_PCPUS
BEST_EFFORT, RESTRICTED, SINGLE = (
    NumaTopologyPolicy.BEST_EFFORT,
    NumaTopologyPolicy.RESTRICTED,
    NumaTopologyPolicy.SINGLE_NUMA_NODE,
)
LEAST, MOST = AllocateStrategy.LEAST, AllocateStrategy.MOST
VALID = NumaNode(TopologyState.VALID, 2)


class Node:
    """A node under test: row 0, index 1."""

    def __init__(self, facts: NumaNode = VALID, cpu: int = 0, memory: int = 0) -> None:
        self.nodes = NodeTable()
        self.nodes.ensure_resources(len(NAMES))
        attribute = self.nodes.new_attribute()
        self.row = self.nodes.acquire_row()
        self.nodes.set_allocatable(self.row, {CPU: cpu, MEMORY: memory})
        self.nodes.set_attribute(attribute, self.row, 1, 0)
        self.nodes.set_live(self.row, True)
        self.table = NumaTable(self.nodes, attribute)
        self.table.set_node(1, facts)

    @classmethod
    def of_zones(cls, *zones: Mapping[int, int], **facts: Any) -> Node:
        """Make a node whose zones' CPUs are all free."""
        node = cls(VALID._replace(zones=dict(enumerate(zones)), **facts), sum(zone.get(CPU, 0) for zone in zones))
        counts = [free(zone.get(CPU, 0) // 1000) for zone in zones]
        return node.used(*(ZoneUsage(cpus=count) for count in counts))

    def used(self, *zones: ZoneUsage, cpus: CpuCounts | None = None) -> Node:
        whole = cpus or CpuCounts(*(sum(zone.cpus[i] for zone in zones) for i in range(4)))
        self.table.set_usage(1, NumaUsage(whole, dict(enumerate(zones))))
        return self

    def running(self, cpu: int, memory: int = 0) -> Node:
        amounts = {0: 1, CPU: cpu, MEMORY: memory}
        ids = [resource for resource, amount in amounts.items() if amount]
        self.nodes.add(self.row, Request(ids, [amounts[resource] for resource in ids], cpu, memory))
        return self

    def code(self, request: NumaRequest) -> int:
        return int(filter_numa(self.table, request, np.array([self.row], np.int32))[0])

    def reason(self, request: NumaRequest) -> NumaReason:
        return reason_of(self.code(request))

    def score(self, request: NumaRequest, scoring: NumaScoring) -> int:
        return int(score_numa(self.table, request, scoring, np.array([self.row], np.int32))[0])

    def view(self, request: NumaRequest, numa_strategy: AllocateStrategy = LEAST, restored: Restored | None = None) -> NumaView:
        return NumaView(self.table, request, 1, scoring(numa=numa_strategy), restored)


def free(cpus: int) -> CpuCounts:
    """Count CPUs of whole cores of two threads, all free."""
    return CpuCounts(0, cpus, cpus, cpus // 2)


def pod(cpu: int = 0, memory: int = 0, **terms: Any) -> NumaRequest:
    amounts = {CPU: cpu, MEMORY: memory, GPU: terms.pop("gpu", 0)}
    return NumaRequest({resource: amount for resource, amount in amounts.items() if amount}, NAMES, NumaPolicies(**terms))


def bound(cpu: int, policy: CpuBindPolicy = F, **others: Any) -> NumaRequest:
    return pod(cpu, bind_policy=policy, **others)


def required(cpu: int, policy: CpuBindPolicy = F, **others: Any) -> NumaRequest:
    return bound(cpu, policy, required_bind_policy=policy, **others)


def scoring(node: AllocateStrategy = LEAST, numa: AllocateStrategy = LEAST) -> NumaScoring:
    return NumaScoring({CPU: 1, MEMORY: 1}, node, numa, (GPU,))


def cpu_split(distribution: NumaSplit) -> list[int]:
    return [amounts[CPU] for _, amounts in sorted(distribution.amounts.items())]


# Splitting (§17 line 17, D8)


def test_an_unbound_request_is_split_evenly_and_what_a_zone_lacks_goes_to_the_others() -> None:
    node = Node.of_zones({CPU: 2000}, {CPU: 8000}, {CPU: 8000})
    assert cpu_split(node.view(pod(10_000)).distribute(0b111)) == [2000, 4000, 4000]


def test_bound_cpus_are_split_in_whole_cpus_and_whole_cores_if_they_must_be() -> None:
    node = Node.of_zones({CPU: 16_000}, {CPU: 16_000})
    assert cpu_split(node.view(bound(5000)).distribute(0b11)) == [2000, 3000]
    assert cpu_split(node.view(required(10_000)).distribute(0b11)) == [4000, 6000]
    assert cpu_split(node.view(required(6000, S)).distribute(0b11)) == [3000, 3000]


def test_the_members_of_a_mask_are_filled_not_the_first_zones() -> None:
    node = Node.of_zones({CPU: 1000}, {CPU: 9000}, {CPU: 2000})  # the reference would sort by zones 0 and 1 (D8)
    assert node.view(pod(6000)).distribute(0b110).amounts == {1: {CPU: 4000}, 2: {CPU: 2000}}


def test_memory_is_split_in_whole_units_and_nothing_is_recorded_where_nothing_is_taken() -> None:
    node = Node.of_zones({CPU: 4000, MEMORY: 3}, {CPU: 4000, MEMORY: 9}, {MEMORY: 1})
    assert node.view(pod(3000, 5)).distribute(0b011).amounts == {0: {CPU: 1500, MEMORY: 2}, 1: {CPU: 1500, MEMORY: 3}}
    assert node.view(pod(3000, 1)).distribute(0b111).amounts == {0: {CPU: 1500}, 1: {CPU: 1500, MEMORY: 1}}


def test_resources_that_no_zone_has_are_ignored_and_those_that_are_short_are_named() -> None:
    node = Node.of_zones({CPU: 4000, MEMORY: 1})
    assert node.view(pod(1000, gpu=8)).distribute(0b1).amounts == {0: {CPU: 1000}}
    assert node.view(pod(5000, 2)).distribute(0b1) == NumaSplit({}, ("cpu", "memory"))


def test_a_fraction_of_a_cpu_that_others_left_is_not_given_to_a_bound_pod() -> None:
    node = Node.of_zones({CPU: 8000}, {CPU: 8000}).used(ZoneUsage({CPU: 4500}, free(8)), ZoneUsage({CPU: 0}, free(8)))
    assert cpu_split(node.view(bound(8000)).distribute(0b11)) == [3000, 5000]  # the reference takes 3500m and finds 7 CPUs in the end


def test_cpus_that_are_bound_without_being_recorded_for_their_zone_are_not_given_again() -> None:
    node = Node.of_zones({CPU: 8000}, {CPU: 8000}).used(ZoneUsage({}, CpuCounts(6, 2, 2, 1)), ZoneUsage({}, free(8)))
    assert cpu_split(node.view(bound(10_000)).distribute(0b11)) == [2000, 8000]
    assert node.view(bound(12_000)).distribute(0b11) == NumaSplit({}, (), lacks_cpus=True)
    assert node.view(required(12_000)).distribute(0b11) == NumaSplit({}, ("cpu",))  # a required policy trims what is available


def test_required_cores_in_a_restricted_mask_come_evenly_from_what_is_left() -> None:
    """§17 line 20: 2x1x26x2, used 0-43 and 53-96, 48 cpu recorded for each NUMA node, F 8 required."""
    node = Node.of_zones({CPU: 52_000}, {CPU: 52_000}, numa_policy=RESTRICTED)
    node.used(ZoneUsage({CPU: 48_000}, CpuCounts(44, 8, 8, 4)), ZoneUsage({CPU: 48_000}, CpuCounts(44, 8, 6, 4)))
    view = node.view(required(8000))
    assert view.affinity().mask == 0b11
    assert cpu_split(view.distribute(0b11)) == [4000, 4000]


# Affinity (§17 lines 18, 21, 22; D9)


def test_of_two_zones_the_emptier_or_the_fuller_is_taken() -> None:
    zone = {CPU: 52_000, MEMORY: 128}
    node = Node.of_zones(zone, zone, numa_policy=SINGLE)
    node.used(ZoneUsage({CPU: 4000, MEMORY: 8}, free(52)), ZoneUsage({CPU: 40_000, MEMORY: 8}, free(52)))
    assert node.view(pod(4000, 40), LEAST).affinity().mask == 0b01
    assert node.view(pod(4000, 40), MOST).affinity().mask == 0b10


def test_sets_of_zones_are_scored_by_their_own_weights() -> None:
    """§16 D10. Zone 0 has less cpu left and zone 1 less memory."""
    node = Node.of_zones({CPU: 8000, MEMORY: 8}, {CPU: 8000, MEMORY: 8}, numa_policy=SINGLE)
    node.used(ZoneUsage({CPU: 4000}, free(8)), ZoneUsage({MEMORY: 4}, free(8)))
    for weighed, mask in ((CPU, 0b10), (MEMORY, 0b01)):
        by_node = {CPU: 1, MEMORY: 1}
        view = NumaView(node.table, pod(1000, 1), 1, NumaScoring(by_node, LEAST, LEAST, (), {weighed: 1}))
        assert view.affinity().mask == mask


def test_of_pairs_of_zones_the_one_with_the_best_score_is_taken_wherever_it_lies() -> None:
    node = Node.of_zones(*4 * [{CPU: 8000}], numa_policy=RESTRICTED)
    node.used(*(ZoneUsage({CPU: used}, free(8)) for used in (1000, 3000, 3000, 1000)))
    assert node.view(pod(9000)).affinity().mask == 0b1001  # {1,2} displaces it in the reference (D9)


def test_a_machine_of_one_zone_has_no_affinity_under_single_numa_node() -> None:
    node = Node.of_zones({CPU: 8000}, numa_policy=SINGLE)
    assert node.view(pod(4000)).affinity() == Merged(None, admitted=True)
    assert Node.of_zones({CPU: 8000}, numa_policy=RESTRICTED).view(pod(4000)).affinity().mask == 0b1


def test_best_effort_takes_the_narrowest_and_all_zones_when_none_would_do() -> None:
    node = Node.of_zones({CPU: 8000}, {CPU: 4000}, numa_policy=BEST_EFFORT)
    assert node.view(pod(6000)).affinity() == Merged(0b01, admitted=True)
    assert node.view(pod(20_000)).affinity() == Merged(0b11, admitted=True)


def test_without_a_numa_policy_there_is_no_affinity() -> None:
    assert Node.of_zones({CPU: 8000}).view(pod(4000)).affinity() == Merged(None, admitted=True)


@pytest.mark.parametrize("zones", [9, 16, 64])
def test_many_zones_are_no_reason_to_refuse_and_small_sets_are_found_among_them(zones: int) -> None:
    node = Node.of_zones(*zones * [{CPU: 2000}], numa_policy=RESTRICTED)
    for cpu, width in ((2000, 1), (4000, 2), (2000 * zones, zones)):
        view = node.view(bound(cpu))
        mask = view.affinity().mask
        assert mask is not None
        assert mask.bit_count() == width
        assert merge_hints([view.hints()], view.machine).mask == mask
        assert sum(cpu_split(view.distribute(mask))) == cpu
    assert node.reason(bound(2000 * zones)) is NumaReason.PASS
    assert node.reason(bound(2000 * zones + 1000)) is NumaReason.UNSATISFIED
    assert not node.view(bound(2000 * zones + 1000)).affinity().admitted


# What is given back (§8, §12, §14)


def test_amounts_and_cpus_of_reservations_and_victims_can_be_taken_again() -> None:
    node = Node.of_zones({CPU: 8000}, numa_policy=RESTRICTED).used(ZoneUsage({CPU: 8000}, CpuCounts(8, 0, 0, 0)))
    assert node.view(required(4000)).affinity().unsatisfied == ("cpu",)
    counts = CpuCounts(4, 4, 4, 2)
    restored = Restored({0: {CPU: 4000}}, NumaUsage(counts, {0: ZoneUsage({}, counts)}))
    assert cpu_split(node.view(required(4000), restored=restored).distribute(0b1)) == [4000]
    assert node.view(required(6000), restored=restored).distribute(0b1).short == ("cpu",)


def test_a_pod_can_be_held_to_amounts_that_were_set_aside_for_it() -> None:
    node = Node.of_zones({CPU: 8000, MEMORY: 8}, {CPU: 8000, MEMORY: 8})
    restored = Restored(available={1: {CPU: 3000}, 0: {CPU: 1000}})
    assert node.view(pod(4000, 50), restored=restored).distribute(0b11).amounts == {0: {CPU: 1000}, 1: {CPU: 3000}}
    assert node.view(pod(5000), restored=restored).distribute(0b11).short == ("cpu",)


# Filter


@pytest.mark.parametrize(
    ("node", "request_", "reason"),
    [
        (Node.of_zones({CPU: 8000}, numa_policy=SINGLE), pod(1000, numa_policy=RESTRICTED), NumaReason.POLICY_MISMATCH),
        (Node.of_zones({CPU: 8000}, numa_policy=SINGLE), pod(1000, numa_policy=SINGLE), NumaReason.PASS),
        (Node.of_zones({CPU: 8000}, bind_policy=F), pod(2500), NumaReason.NOT_INTEGER),
        (Node.of_zones({CPU: 8000}), pod(2500), NumaReason.PASS),
        (Node.of_zones({CPU: 8000}, bind_policy=F), pod(memory=1), NumaReason.PASS),
        (Node(NumaNode(TopologyState.INVALID)), bound(1000), NumaReason.INVALID_TOPOLOGY),
        (Node(NumaNode()), bound(1000), NumaReason.INVALID_TOPOLOGY),
        (Node(NumaNode()), pod(1000), NumaReason.PASS),
        (Node.of_zones({CPU: 8000}, bind_policy=F), required(2000, S), NumaReason.BIND_CONFLICT),
        (Node.of_zones({CPU: 8000}, bind_policy=F), bound(2000, S), NumaReason.PASS),
        (Node.of_zones({CPU: 8000}, bind_policy=F), bound(3000, S), NumaReason.NOT_WHOLE_CORES),
        (Node.of_zones({CPU: 8000}), required(3000), NumaReason.NOT_WHOLE_CORES),
        (Node.of_zones({CPU: 8000}), bound(3000), NumaReason.PASS),
        (Node.of_zones({CPU: 8000}), required(10_000), NumaReason.NOT_ENOUGH_CPUS),
        (Node.of_zones({CPU: 8000}), required(5000, S), NumaReason.NOT_ENOUGH_CPUS),
        (Node.of_zones({CPU: 8000}), bound(9000), NumaReason.NOT_ENOUGH_CPUS),  # only preferred, but counted all the same (D1)
        (Node(NumaNode(TopologyState.VALID)), pod(1000, numa_policy=SINGLE), NumaReason.MISSING_ZONES),
        (Node(NumaNode()), pod(1000, numa_policy=BEST_EFFORT), NumaReason.MISSING_ZONES),
        (Node.of_zones({CPU: 8000}), pod(9000, numa_policy=BEST_EFFORT), NumaReason.INSUFFICIENT),  # found before Reserve (D21)
        (Node.of_zones({CPU: 8000}, {CPU: 8000}), pod(9000, numa_policy=BEST_EFFORT), NumaReason.PASS),
        (Node.of_zones({CPU: 8000}, {CPU: 8000}), pod(9000, numa_policy=SINGLE), NumaReason.UNALIGNED),
        (Node.of_zones({CPU: 8000}, {CPU: 8000}), pod(9000, numa_policy=RESTRICTED), NumaReason.PASS),
        (Node.of_zones({CPU: 8000}, {CPU: 8000}), pod(17_000, numa_policy=RESTRICTED), NumaReason.UNSATISFIED),
        (Node.of_zones({CPU: 8000}, {MEMORY: 8}), pod(1000, 1, numa_policy=SINGLE), NumaReason.UNSATISFIED),
    ],
)
def test_a_node_is_refused_for_what_is_first_in_the_way(node: Node, request_: NumaRequest, reason: NumaReason) -> None:
    assert node.reason(request_) is reason


def test_refused_resources_are_named_in_order() -> None:
    node, request = Node.of_zones({CPU: 1000, MEMORY: 1}, numa_policy=SINGLE), pod(2000, 2, gpu=1)
    assert resources_of(request, node.code(request)) == ("cpu", "memory")  # no zone knows of GPUs
    assert resources_of(request, 0) == ()


def test_what_could_not_be_aligned_is_reported_and_equal_nodes_have_equal_codes() -> None:
    node, other = Node.of_zones({CPU: 8000}, {CPU: 8000}), Node.of_zones({CPU: 7000}, {CPU: 7000})
    request = pod(9000, numa_policy=SINGLE)
    assert node.table.summary_of(node.code(request)) == "cpu prefer [11] among [11]"
    assert node.code(request) == other.code(pod(9000, numa_policy=SINGLE))


@pytest.mark.parametrize(
    ("exclusive", "reason"),
    [
        (NumaExclusive.NONE, NumaReason.UNALIGNED),
        (NumaExclusive.REQUIRED, NumaReason.UNALIGNED),
        (NumaExclusive.PREFERRED, NumaReason.PASS),
    ],
)
def test_a_pod_with_a_policy_of_its_own_stays_off_shared_numa_nodes_unless_it_only_prefers_to(
    exclusive: NumaExclusive, reason: NumaReason
) -> None:
    node = Node.of_zones({CPU: 8000}, {CPU: 8000})
    node.used(*2 * [ZoneUsage({}, free(8), NumaStatus.SHARED)])
    assert node.reason(pod(4000, numa_policy=SINGLE, exclusive=exclusive)) is reason


def test_a_policy_of_the_node_alone_asks_for_no_exclusivity() -> None:
    node = Node.of_zones({CPU: 8000}, {CPU: 8000}, numa_policy=SINGLE).used(*2 * [ZoneUsage({}, free(8), NumaStatus.SHARED)])
    assert node.reason(pod(4000)) is NumaReason.PASS


def test_a_row_whose_node_was_not_described_has_no_topology() -> None:
    node = Node.of_zones({CPU: 8000})
    row = node.nodes.acquire_row()
    node.nodes.set_attribute(0, row, 1 << 20, 0)
    codes = filter_numa(node.table, bound(1000), np.array([row, node.row], np.int32))
    assert [reason_of(code) for code in codes.tolist()] == [NumaReason.INVALID_TOPOLOGY, NumaReason.PASS]


# Amplification (§13; §17 lines 24, 25)


def test_bound_cpus_count_amplified_against_an_amplified_node() -> None:
    facts = NumaNode(TopologyState.VALID, 2, checked_ratio=2.0, ratio=2.0)
    node = Node(facts, cpu=64_000).used(cpus=free(32)).running(32_000)
    assert node.reason(bound(32_000)) is NumaReason.AMPLIFIED_CPU
    assert node.reason(bound(16_000)) is NumaReason.PASS
    node = Node(facts, cpu=64_000).used(cpus=CpuCounts(16, 16, 16, 8)).running(16_000)
    assert node.reason(bound(16_000)) is NumaReason.PASS
    node.running(16_000).used(cpus=CpuCounts(32, 0, 0, 0))
    assert node.reason(pod(1)) is NumaReason.AMPLIFIED_CPU


@pytest.mark.parametrize(("allocatable", "reason"), [(3300, NumaReason.AMPLIFIED_CPU), (3301, NumaReason.PASS)])
def test_amplifying_rounds_up_what_doubles_make_of_it(allocatable: int, reason: NumaReason) -> None:
    node = Node(NumaNode(TopologyState.VALID, checked_ratio=1.1), cpu=allocatable).used(cpus=free(8))
    assert node.reason(bound(3000)) is reason


@pytest.mark.parametrize("ratio", [1e300, float("inf")])
def test_a_ratio_beyond_all_measure_refuses_the_node_and_does_no_harm(ratio: float) -> None:
    node = Node(NumaNode(TopologyState.VALID, checked_ratio=ratio, ratio=ratio), cpu=8000).used(cpus=free(8))
    assert node.reason(bound(1000)) is NumaReason.AMPLIFIED_CPU


def test_an_unreadable_ratio_refuses_pods_that_request_cpu() -> None:
    node = Node(NumaNode(TopologyState.VALID, checked_ratio=MALFORMED_RATIO), cpu=8000)
    assert (node.reason(pod(1)), node.reason(pod(memory=1))) == (NumaReason.INVALID_RATIO, NumaReason.PASS)


def test_an_amplified_node_whose_cpus_are_not_known_is_refused_even_by_unbound_pods() -> None:
    assert Node(NumaNode(TopologyState.INVALID, checked_ratio=2.0), cpu=8000).reason(pod(1000)) is NumaReason.INVALID_TOPOLOGY
    assert Node(NumaNode(checked_ratio=2.0), cpu=8000).reason(pod(1000)) is NumaReason.PASS


def test_bound_cpus_of_a_zone_count_amplified() -> None:
    node = Node.of_zones({CPU: 16_000}, numa_policy=SINGLE, ratio=2.0).used(ZoneUsage({CPU: 4000}, CpuCounts(4, 4, 4, 2)))
    assert node.reason(pod(8000)) is NumaReason.PASS  # 16000 - 2 * 4000
    assert node.reason(pod(8001)) is NumaReason.UNSATISFIED


def test_bound_cpus_of_a_zone_of_which_no_amounts_are_recorded_do_not_count_there() -> None:
    """They come from pods that no NUMA policy held for, which took nothing from the zone as far as its amounts go."""
    node = Node.of_zones({CPU: 16_000, MEMORY: 8}, numa_policy=SINGLE, ratio=2.0)
    node.used(ZoneUsage({}, CpuCounts(4, 4, 4, 2)))
    assert node.reason(pod(16_000)) is NumaReason.PASS
    node.used(ZoneUsage({MEMORY: 1}, CpuCounts(4, 4, 4, 2)))
    assert node.reason(pod(12_000)) is NumaReason.PASS  # 16000 - (0 - 4000 + 2 * 4000)
    assert node.reason(pod(12_001)) is NumaReason.UNSATISFIED


# Score


def test_a_bound_pod_is_scored_by_the_zone_it_goes_to() -> None:
    """§17 line 19: ((52-4)*100/52 + (128-40)*100/128) / 2 = (92 + 68) / 2."""
    zone = {CPU: 52_000, MEMORY: 128}
    assert Node.of_zones(zone, zone, numa_policy=SINGLE).score(bound(4000, memory=40), scoring()) == 80


def test_without_a_policy_the_node_is_scored_with_its_bound_cpus_amplified() -> None:
    node = Node(NumaNode(TopologyState.VALID, ratio=2.0), cpu=16_000, memory=100).used(cpus=CpuCounts(2, 6, 6, 3)).running(3000, 20)
    # unbound: cpu 3000 + 2000 + 4000 of 16000, 43 left; memory 20 + 10 of 100, 70 left; bound: the pod's 4000 count as 8000, 18 left
    assert node.score(pod(4000, 10), scoring()) == (43 + 70) // 2
    assert node.score(bound(4000, memory=10), scoring()) == (18 + 70) // 2
    assert node.score(bound(4000, memory=10), scoring(node=MOST)) == (81 + 30) // 2


def test_best_effort_is_scored_by_the_node_and_a_bound_pod_by_the_cpus_bound_there() -> None:
    node = Node.of_zones({CPU: 10_000, MEMORY: 100}, numa_policy=BEST_EFFORT).used(ZoneUsage({}, CpuCounts(2, 8, 8, 4)))
    node.running(7000)
    assert node.score(pod(1000), scoring()) == 20  # memory is not in the node's allocatable
    assert node.score(bound(1000), scoring()) == 70  # 2 bound and 1 more, whatever unbound pods request


def test_several_zones_are_scored_together_and_only_those_that_give_something() -> None:
    node = Node.of_zones(*3 * [{CPU: 10_000}], numa_policy=RESTRICTED)
    node.used(ZoneUsage({CPU: 2000}, free(10)), ZoneUsage({CPU: 4000}, free(10)), ZoneUsage({CPU: 9000}, free(10)))
    assert node.score(pod(10_000), scoring()) == 20  # zones 0 and 1: 20000, of which 6000 are taken


def test_what_cannot_be_placed_scores_nothing() -> None:
    node = Node.of_zones({CPU: 8000}, numa_policy=SINGLE)
    assert node.score(pod(9000), scoring()) == 0
    assert Node(NumaNode(), cpu=8000).score(bound(1000), scoring()) == 0


def test_scalar_resources_count_only_for_pods_that_request_them() -> None:
    node = Node.of_zones({CPU: 8000, GPU: 4}, numa_policy=RESTRICTED)
    weights = NumaScoring({CPU: 1, GPU: 3}, LEAST, LEAST, (GPU,))
    assert node.score(pod(2000), weights) == 75
    assert node.score(pod(2000, gpu=2), weights) == (75 + 3 * 50) // 4


@pytest.mark.parametrize("size", [(1 << 53) // 100, (1 << 53) // 100 + 1, 1 << 56])
def test_scores_of_huge_amounts_are_those_of_unbounded_integers(size: int) -> None:
    for taken in (1, size // 3, size - 1, size):
        node = Node.of_zones({MEMORY: size}, numa_policy=RESTRICTED)
        assert node.score(pod(memory=taken), scoring()) == (size - taken) * 100 // size
