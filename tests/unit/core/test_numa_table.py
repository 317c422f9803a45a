"""The columns of NUMA nodes: what is written is read again, whatever was there before and however much they had to grow."""

from __future__ import annotations

import pytest

from koordsched._core.numa import NumaRequest, NumaScoring, NumaTable
from koordsched._core.numa_facts import MALFORMED_RATIO, CpuCounts, NumaNode, NumaPolicies, NumaStatus, NumaUsage, TopologyState, ZoneUsage
from koordsched._core.table import NodeTable
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, NumaTopologyPolicy

CPU, MEMORY = 1, 2
NODE = NumaNode(
    TopologyState.VALID, 2, {0: {CPU: 8000, MEMORY: 64}, 3: {CPU: 7000}}, CpuBindPolicy.FULL_PCPUS, NumaTopologyPolicy.RESTRICTED, 1.5, 2.0
)
USAGE = NumaUsage(
    CpuCounts(3, 12, 10, 6),
    {
        0: ZoneUsage({CPU: 2000, MEMORY: 7}, CpuCounts(2, 6, 4, 3), NumaStatus.SHARED),
        3: ZoneUsage({CPU: 1000}, CpuCounts(1, 6, 6, 3), NumaStatus.SINGLE),
    },
)


def numa_table() -> NumaTable:
    nodes = NodeTable()
    return NumaTable(nodes, nodes.new_attribute())


def test_a_node_and_its_usage_are_read_as_they_were_written() -> None:
    table = numa_table()
    table.set_node(5, NODE)
    table.set_usage(5, USAGE)
    assert (table.node_of(5), table.usage_of(5)) == (NODE, USAGE)


def test_amounts_of_one_zone_are_replaced_and_nothing_else() -> None:
    table = numa_table()
    table.set_node(5, NODE)
    table.set_usage(5, USAGE)
    table.set_allocated(5, 0, {CPU: 500})
    table.set_allocated(5, 1, {CPU: 700})  # the node has no such zone
    zone = USAGE.zones[0]._replace(allocated={CPU: 500})
    assert table.usage_of(5) == USAGE._replace(zones={0: zone, 3: USAGE.zones[3]})
    with pytest.raises(IndexError):
        table.set_allocated(1000, 0, {})


def test_counts_of_cpus_are_replaced_and_nothing_else() -> None:
    table = numa_table()
    table.set_node(5, NODE)
    table.set_usage(5, USAGE)
    table.set_counts(5, {3: CpuCounts(1, 2, 2, 1), 7: CpuCounts(2, 4, 2, 2)})  # the node has no zone 7, but CPUs there
    zones = {0: USAGE.zones[0]._replace(cpus=CpuCounts()), 3: USAGE.zones[3]._replace(cpus=CpuCounts(1, 2, 2, 1))}
    assert table.usage_of(5) == NumaUsage(CpuCounts(3, 6, 4, 3), zones)


def test_facts_stay_when_indexes_zones_and_resources_outgrow_the_table() -> None:
    table = numa_table()
    table.set_node(5, NODE)
    table.set_usage(5, USAGE)
    wide = NumaNode(zones={numa: {resource: 1 + numa + resource for resource in range(1, 12)} for numa in range(64)})
    table.set_node(9000, wide)
    used = NumaUsage(zones={numa: ZoneUsage({20: numa + 1}) for numa in range(64)})
    table.set_usage(9000, used)
    assert (table.node_of(5), table.usage_of(5)) == (NODE, USAGE)
    assert (table.node_of(9000), table.usage_of(9000)) == (wide, used)
    assert (table.width, table.slots, table.capacity) == (64, 12, 9001)


def test_a_node_that_is_written_again_has_no_usage_and_none_of_its_old_zones() -> None:
    table = numa_table()
    table.set_node(5, NODE)
    table.set_usage(5, USAGE)
    table.set_node(5, NumaNode(zones={3: {MEMORY: 1}}))
    assert table.node_of(5) == NumaNode(zones={3: {MEMORY: 1}})
    assert table.usage_of(5) == NumaUsage(zones={3: ZoneUsage()})


def test_a_cleared_node_is_as_one_that_was_never_described() -> None:
    table = numa_table()
    table.set_node(5, NODE)
    table.set_usage(5, USAGE)
    table.clear_node(5)
    assert (table.node_of(5), table.usage_of(5)) == (NumaNode(), NumaUsage())


def test_usage_of_a_zone_that_the_node_does_not_have_is_ignored_and_that_of_one_not_named_is_none() -> None:
    table = numa_table()
    table.set_node(5, NODE)
    table.set_usage(5, USAGE)
    table.set_usage(5, NumaUsage(zones={3: ZoneUsage({CPU: 9}), 7: ZoneUsage({CPU: 1})}))
    assert table.usage_of(5) == NumaUsage(zones={0: ZoneUsage(), 3: ZoneUsage({CPU: 9})})


@pytest.mark.parametrize(
    ("facts", "demanding"),
    [
        (NumaNode(TopologyState.VALID, zones={0: {CPU: 1}}), 0),
        (NumaNode(bind_policy=CpuBindPolicy.SPREAD_BY_PCPUS), 1),
        (NumaNode(numa_policy=NumaTopologyPolicy.BEST_EFFORT), 1),
        (NumaNode(checked_ratio=1.5), 1),
        (NumaNode(checked_ratio=0.5), 0),
        (NumaNode(checked_ratio=MALFORMED_RATIO), 1),
    ],
)
def test_nodes_that_matter_to_pods_that_ask_for_nothing_are_counted(facts: NumaNode, demanding: int) -> None:
    table = numa_table()
    for index in (1, 2, 2, 3):
        table.set_node(index, facts)
    table.clear_node(3)
    table.clear_node(3)
    table.set_node(4, NumaNode())
    assert table.demanding == 2 * demanding


def test_amounts_are_cut_so_that_sums_stay_in_64_bits() -> None:
    table = numa_table()
    table.set_node(1, NumaNode(zones={0: {MEMORY: 1 << 90}, 1: {MEMORY: -5}}))
    assert table.node_of(1).zones == {0: {MEMORY: 1 << 56}, 1: {}}


@pytest.mark.parametrize("numa", [-1, 64, 1 << 40])
def test_a_zone_id_that_no_mask_has_a_bit_for_is_refused_and_changes_nothing(numa: int) -> None:
    table = numa_table()
    table.set_node(5, NODE)
    with pytest.raises(ValueError, match=r"NUMA ids must be 0\.\.63"):
        table.set_node(5, NumaNode(zones={0: {}, numa: {}}))
    assert table.node_of(5) == NODE


def test_index_0_and_indexes_never_set_are_refused() -> None:
    table = numa_table()
    with pytest.raises(IndexError):
        table.set_node(0, NODE)
    with pytest.raises(IndexError):
        table.set_usage(5000, USAGE)
    with pytest.raises(IndexError):
        NumaTable(NodeTable(), 0)


def test_less_than_one_cpu_a_core_is_refused() -> None:
    with pytest.raises(ValueError, match="0 CPUs a core"):
        numa_table().set_node(1, NumaNode(cpus_per_core=0))


def test_a_request_names_its_resources_in_the_order_of_their_ids() -> None:
    request = NumaRequest({MEMORY: 5, CPU: 1500}, ("pods", "cpu", "memory"), NumaPolicies())
    assert (request.names, request.cpu) == (("cpu", "memory"), 1500)


def test_a_request_for_nothing_of_a_resource_or_for_too_many_of_them_is_refused() -> None:
    with pytest.raises(ValueError, match="must be > 0"):
        NumaRequest({CPU: 0}, ("pods", "cpu"), NumaPolicies())
    with pytest.raises(ValueError, match="a request of 49 resources"):
        NumaRequest(dict.fromkeys(range(49), 1), [""] * 49, NumaPolicies())


def test_weights_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(ValueError, match="must be > 0"):
        NumaScoring({CPU: 0}, AllocateStrategy.LEAST, AllocateStrategy.LEAST)
    with pytest.raises(ValueError, match="at most 16"):
        NumaScoring(dict.fromkeys(range(17), 1), AllocateStrategy.LEAST, AllocateStrategy.LEAST)
