"""Allocation of CPUs. The numbers in test names and ids are lines of nodenumaresource.md §17; expected CPUs are from there or by hand."""

from __future__ import annotations

import pytest
from support.machines import machine, places

from koordsched._core.cpu_accumulator import CpuRequest
from koordsched._core.cpu_allocator import CpuShortage, NodeCpus
from koordsched._core.cpuset import CpuPlace, CpuTopology
from koordsched.api.koordinator.cpulist import format_cpus, parse_cpus
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, CpuExclusivePolicy

F, S = CpuBindPolicy.FULL_PCPUS, CpuBindPolicy.SPREAD_BY_PCPUS
L, M, EVENLY = AllocateStrategy.LEAST, AllocateStrategy.MOST, AllocateStrategy.DISTRIBUTE_EVENLY
NONE, PCPU, NUMA = CpuExclusivePolicy.NONE, CpuExclusivePolicy.PCPU_LEVEL, CpuExclusivePolicy.NUMA_NODE_LEVEL
NOT_ENOUGH = "not enough cpus available to satisfy request"


def cpus(layout: str, used: str = "", max_ref_count: int = 1) -> NodeCpus:
    """Make a machine where pods without an exclusive policy hold some CPUs."""
    made = NodeCpus(machine(layout), max_ref_count)
    made.add(parse_cpus(used), NONE)
    return made


def bind(made: NodeCpus, request: CpuRequest) -> str:
    """Allocate and hold the CPUs."""
    found = made.allocate(request)
    made.add(found, request.exclusive)
    return format_cpus(found)


def full(count: int, strategy: AllocateStrategy = L) -> CpuRequest:
    return CpuRequest(count, F, strategy=strategy)


def spread(count: int, strategy: AllocateStrategy = L) -> CpuRequest:
    return CpuRequest(count, S, strategy=strategy)


ODD, EVEN = "1,3,5,7,9,11,13,15", "0,2,4,6,8,10,12,14"
HALF = "0,2,4,8,10,12"


@pytest.mark.parametrize(
    ("layout", "used", "request_", "expected"),
    [
        pytest.param("2x1x4x2", "", full(12), "0-11", id="1 more than a socket"),
        pytest.param("2x1x4x2", "0-1", full(8), "8-15", id="1 a whole socket"),
        pytest.param("2x1x8x2", "0-3", full(4), "16-19", id="1 least"),
        pytest.param("2x1x8x2", "0-3", full(4, M), "4-7", id="1 most"),
        pytest.param("2x2x8x2", "0-3,16-23", full(6), "32-37", id="2 F6 least"),
        pytest.param("2x2x8x2", "0-3,16-23", full(6, M), "24-29", id="2 F6 most"),
        pytest.param("2x2x8x2", "0-3,16-23", full(18), "32-49", id="2 F18 least"),
        pytest.param("2x2x8x2", "0-3,16-23", full(18, M), "4-15,24-29", id="2 F18 most"),
        pytest.param("2x2x8x2", "0-3,16-23", full(40), "4-11,32-63", id="2 F40 least"),
        pytest.param("2x2x8x2", "0-3,16-23", full(40, M), "4-11,32-63", id="2 F40 most"),
        pytest.param("2x2x8x2", "0-3,16-23", full(5), "32-36", id="2 F5 splits a core"),
        pytest.param("2x2x2x2", HALF, full(6, M), "5-7,13-15", id="3 most"),
        pytest.param("2x2x2x2", HALF, full(6), "1,3,6-7,14-15", id="3 least"),
        pytest.param("2x1x4x2", "0,2", spread(4, M), "1,3-4,6", id="4 S4 most"),
        pytest.param("2x1x4x2", "0,2", spread(4), "8,10,12,14", id="4 S4 least"),
        pytest.param("2x1x4x2", "0,2", spread(6, M), "1,3-7", id="4 S6 most"),
        pytest.param("2x1x4x2", "0,2", spread(6), "8-12,14", id="4 S6 least"),
        pytest.param("2x2x8x2", "", spread(12), "0-8,10,12,14", id="5 NUMA before spreading"),
        pytest.param("2x2x8x2", ODD, spread(6, M), "0,2,4,6,8,10", id="5 S6 most"),
        pytest.param("2x2x8x2", ODD, spread(10, M), "16-20,22,24,26,28,30", id="5 S10 most"),
        pytest.param("2x2x8x2,linux", "0-3,32-35", full(6), "16-18,48-50", id="6 least"),
        pytest.param("2x2x8x2,linux", "0-3,16-18,32-35,48-50", full(6, M), "4-6,36-38", id="6 then most"),
        pytest.param("2x2x4x1", "0-1,8", spread(3), "12-14", id="7 whole cores where a core is a CPU"),
        pytest.param("2x2x4x1", "0-1,8,12-14", spread(3, M), "9-11", id="7 then most"),
        # One socket whole, two cores of the next; for the last CPU Koordinator takes a core of the third (D7).
        pytest.param("3x1x4x2", "", full(13), "0-12", id="31 D7"),
        pytest.param("3x1x4x2", "8-9", full(11), "0-7,10-12", id="31 D7, of the shortest list"),
        pytest.param("2x1x4x2", "", full(0), "", id="nothing"),
    ],
)
def test_the_cpus_are_those_of_the_specification(layout: str, used: str, request_: CpuRequest, expected: str) -> None:
    assert format_cpus(cpus(layout, used).allocate(request_)) == expected


def test_8_required_policies_use_whole_cores_or_one_cpu_of_a_core() -> None:
    made = cpus("2x2x8x2", EVEN)
    assert bind(made, CpuRequest(4, F, required=True, strategy=M)) == "16-19"
    assert bind(made, CpuRequest(20, S, required=True, strategy=M)) == "1,3,5,7,9,11,13,15,20,22,24,26,28,30,32,34,36,38,40,42"


def test_9_exclusive_pods_avoid_the_cores_of_their_like_alone() -> None:
    made = NodeCpus(machine("2x2x8x2"))
    made.add(parse_cpus("0,2"), PCPU)
    assert bind(made, CpuRequest(6, S, exclusive=PCPU, strategy=M)) == "4,6,8,10,12,14"
    assert bind(made, CpuRequest(7, S, exclusive=PCPU, strategy=M)) == "16,18,20,22,24,26,28"
    assert bind(made, CpuRequest(4, S, strategy=M)) == "1,3,5,7"


def test_10_cpus_with_few_holders_come_first_where_cpus_are_shared() -> None:
    made = cpus("1x1x4x2", max_ref_count=2)
    assert [bind(made, CpuRequest(count, F, strategy=M)) for count in (4, 5, 4)] == ["0-3", "0,4-7", "2-5"]


def test_20_amounts_by_numa_node_say_how_many_cpus_come_from_each() -> None:
    made = cpus("2x1x26x2", "0-43,53-96")
    request = CpuRequest(8, F, required=True)
    assert format_cpus(made.allocate(request, numa_amounts={0: 4000, 1: 4000})) == "44-47,98-101"


def test_parts_of_a_cpu_do_not_count_in_amounts_by_numa_node() -> None:
    made = cpus("2x1x4x2")
    assert format_cpus(made.allocate(CpuRequest(5, F), numa_amounts={1: 2500, 0: 3999})) == "0-2,8-9"
    with pytest.raises(CpuShortage, match=NOT_ENOUGH):
        made.allocate(CpuRequest(6, F), numa_amounts={1: 2500, 0: 3999})


def test_amounts_of_a_numa_node_without_cpus_give_none() -> None:
    with pytest.raises(CpuShortage, match=NOT_ENOUGH):
        cpus("2x1x4x2").allocate(CpuRequest(4, F), numa_amounts={7: 4000})


def test_exclusive_pods_share_cores_rather_than_wait() -> None:
    made = NodeCpus(machine("2x1x4x2"))
    assert format_cpus(made.allocate(CpuRequest(10, S, exclusive=PCPU, strategy=M))) == "0-4,6,8,10,12,14"


@pytest.mark.parametrize(
    ("policy", "exclusive", "expected"),
    [(F, NUMA, "8-11"), (S, NUMA, "8,10,12,14"), (F, NONE, "4-7"), (S, NONE, "1,3-4,6"), (S, PCPU, "1,3-4,6")],
)
def test_exclusive_numa_nodes_are_avoided_by_their_like(policy: CpuBindPolicy, exclusive: CpuExclusivePolicy, expected: str) -> None:
    made = NodeCpus(machine("2x1x4x2"))
    made.add(parse_cpus("0,2"), NUMA)
    assert format_cpus(made.allocate(CpuRequest(4, policy, exclusive=exclusive, strategy=M))) == expected


def test_when_all_numa_nodes_are_exclusive_the_strategy_decides() -> None:
    made = NodeCpus(machine("2x1x4x2"))
    made.add(parse_cpus("0,8,10"), NUMA)
    assert format_cpus(made.allocate(CpuRequest(4, F, exclusive=NUMA, strategy=M))) == "12-15"


def test_the_socket_comes_before_the_number_of_holders_where_no_core_is_whole() -> None:
    made = cpus("2x1x1x2", "0", max_ref_count=2)
    assert format_cpus(made.allocate(CpuRequest(1, F), reserved=parse_cpus("1,3"))) == "0"


def test_no_more_cpus_than_a_core_has_are_not_spread() -> None:
    assert format_cpus(cpus("1x1x2x4", "3,5-7").allocate(spread(3))) == "0-2"


def test_more_cpus_than_a_numa_node_has_on_average_come_from_whole_sockets() -> None:
    """Nodes span sockets: 0-1 and 2-3 are of node 0. Socket 1 has most of node 0, then socket 0 the one that is left."""
    made = NodeCpus(CpuTopology(CpuPlace(cpu, cpu, cpu // 2, cpu // 4) for cpu in range(8)))
    assert format_cpus(made.allocate(full(3), reserved=parse_cpus("0"))) == "1-3"


def test_more_cpus_than_a_socket_has_on_average_come_from_whole_sockets() -> None:
    made = NodeCpus(CpuTopology(CpuPlace(cpu, cpu, cpu // 6, cpu // 6) for cpu in range(8)))
    assert format_cpus(made.allocate(full(5))) == "0-2,6-7"


@pytest.mark.parametrize(
    ("used", "request_", "problem"),
    [
        ("0-4", CpuRequest(4), NOT_ENOUGH),
        ("0,2,4,6", CpuRequest(2, F, required=True), NOT_ENOUGH),
        ("0-1", CpuRequest(4, S, required=True), NOT_ENOUGH),
        ("", CpuRequest(3, F, required=True), "insufficient CPUs to satisfy required cpu bind policy FullPCPUs"),
    ],
)
def test_a_refusal_says_what_is_missing(used: str, request_: CpuRequest, problem: str) -> None:
    with pytest.raises(CpuShortage) as refusal:
        cpus("1x1x4x2", used).allocate(request_)
    assert str(refusal.value) == problem


def test_reserved_cpus_are_not_free() -> None:
    made = cpus("1x1x4x2", "0-1")
    assert format_cpus(made.free(parse_cpus("1,4-5,4096"))) == "2-3,6-7"
    assert format_cpus(made.allocate(CpuRequest(4, F), parse_cpus("4-5"))) == "2-3,6-7"
    with pytest.raises(CpuShortage, match=NOT_ENOUGH):
        made.allocate(CpuRequest(5, F), parse_cpus("4-5"))


def test_each_restored_set_ends_one_holding_of_its_cpus() -> None:
    made = cpus("1x1x2x2", "0-3")
    made.add(parse_cpus("0-1"), NONE)
    assert format_cpus(made.free(restored=[parse_cpus("0-2")])) == "2"
    assert format_cpus(made.free(restored=[parse_cpus("0-2"), 0, parse_cpus("1-2")])) == "1-2"
    assert format_cpus(made.allocate(CpuRequest(1, F), restored=[parse_cpus("1-2")])) == "2"
    assert made.free() == 0


def test_a_restored_cpu_without_a_holder_is_not_exclusive() -> None:
    made = NodeCpus(machine("1x1x4x2"))
    made.add(parse_cpus("0,2"), PCPU)
    request = CpuRequest(3, S, exclusive=PCPU)
    assert format_cpus(made.allocate(request)) == "1,3-4"
    assert format_cpus(made.allocate(request, restored=[parse_cpus("0,2")])) == "0,2,4"


def test_30_preferred_cpus_are_restored_and_come_first() -> None:
    made = cpus("2x1x4x2", "8-11")
    assert format_cpus(made.allocate(CpuRequest(2, F), preferred=parse_cpus("8-11"))) == "8-9"
    assert format_cpus(made.allocate(CpuRequest(6, F), preferred=parse_cpus("8-11"))) == "0-1,8-11"
    assert format_cpus(made.allocate(CpuRequest(12, F))) == "0-7,12-15"
    with pytest.raises(CpuShortage, match=NOT_ENOUGH):
        made.allocate(CpuRequest(13, F))


def test_preferred_cpus_come_first_in_every_numa_node() -> None:
    made = cpus("2x1x4x2", "4-5,12-13")
    amounts = {0: 4000, 1: 2000}
    assert format_cpus(made.allocate(CpuRequest(6, F), preferred=parse_cpus("4-5,12-13"), numa_amounts=amounts)) == "0-1,4-5,12-13"


# Cores with an offline sibling (D19)


def uneven(layout: str, offline: str) -> NodeCpus:
    return NodeCpus(CpuTopology(place for place in places(layout) if not parse_cpus(offline) >> place.id & 1))


def test_a_core_with_an_offline_sibling_is_whole_but_comes_last() -> None:
    made = uneven("1x1x3x2", "3")
    assert format_cpus(made.allocate(CpuRequest(4, F, required=True))) == "0-1,4-5"
    assert format_cpus(made.allocate(CpuRequest(3, F, required=True))) == "0-2"
    assert format_cpus(made.allocate(CpuRequest(5, F, required=True))) == "0-2,4-5"
    with pytest.raises(CpuShortage, match="required cpu bind policy FullPCPUs"):
        made.allocate(CpuRequest(1, F, required=True), reserved=parse_cpus("2"))


def test_whole_cores_are_found_across_sockets_where_some_have_one_thread() -> None:
    # 2+2+1 and 2+2+1: a whole socket, then a core of two and one of one
    assert format_cpus(uneven("2x1x3x2", "5,11").allocate(CpuRequest(8, F, required=True))) == "0-4,6-7,10"
    # 2+2+1 and 2+2: the whole first socket would leave a core to split
    assert format_cpus(uneven("2x1x3x2", "5,10-11").allocate(CpuRequest(8, F, required=True))) == "0-3,6-9"


# Even shares of the NUMA nodes (D12)


@pytest.mark.parametrize(
    ("layout", "used", "request_", "expected"),
    [
        pytest.param("2x1x8x2", "", spread(6, EVENLY), "0,2,4,16,18,20", id="equal shares"),
        pytest.param("2x1x8x2", "", full(6, EVENLY), "0-1,16-19", id="of whole cores"),
        pytest.param("2x1x8x2", "0-13", full(8, EVENLY), "14-21", id="a node gives what it has"),
        pytest.param("2x1x8x2", "", full(5, EVENLY), "0-1,16-18", id="the last node gives the odd CPU"),
        pytest.param("2x2x2x2", "", spread(2, EVENLY), "8,12", id="fewer CPUs than nodes"),
        pytest.param("2x1x2x2", "0,4", full(6, EVENLY), "1-3,5-7", id="threads of broken cores come last"),
    ],
)
def test_cpus_are_distributed_evenly_on_request(layout: str, used: str, request_: CpuRequest, expected: str) -> None:
    assert format_cpus(cpus(layout, used).allocate(request_)) == expected


# Who holds what


def test_adding_and_removing_a_holder_leaves_nothing_behind() -> None:
    made = NodeCpus(machine("1x1x4x2"))
    made.add(parse_cpus("0-3"), PCPU)
    made.add(parse_cpus("2-5"), NUMA)
    assert [made.ref_count(cpu) for cpu in range(8)] == [1, 1, 2, 2, 1, 1, 0, 0]
    assert [made.exclusive_of(cpu) for cpu in (0, 2, 4, 6)] == [PCPU, NUMA, NUMA, NONE]
    made.remove(parse_cpus("0-3"), PCPU)
    assert format_cpus(made.bound) == "2-5"
    assert [made.exclusive_of(cpu) for cpu in (0, 2, 4, 6)] == [NONE, NUMA, NUMA, NONE]
    made.remove(parse_cpus("2-5"), NUMA)
    assert made.bound == 0
    assert [made.ref_count(cpu) for cpu in range(8)] == [0] * 8


def test_a_later_holder_does_not_lift_an_earlier_ones_exclusion() -> None:
    made = cpus("1x1x4x2", max_ref_count=2)
    made.add(parse_cpus("0,2"), PCPU)
    made.add(parse_cpus("0,2"), NONE)
    assert format_cpus(made.allocate(CpuRequest(2, S, exclusive=PCPU))) == "4,6"


def test_cpus_that_the_machine_lacks_are_ignored() -> None:
    made = cpus("1x1x2x2")
    made.add(parse_cpus("3-9"), NONE)
    assert format_cpus(made.bound) == "3"
    made.remove(parse_cpus("3-9"), NONE)
    assert made.bound == 0
    assert format_cpus(made.take(parse_cpus("3-9"), CpuRequest(1))) == "3"


def test_cpus_may_get_more_holders_while_running() -> None:
    made = cpus("1x1x2x2", "0-3")
    assert (made.free(), made.max_ref_count) == (0, 1)
    made.max_ref_count = 2
    assert format_cpus(made.free()) == "0-3"
    with pytest.raises(ValueError, match="max_ref_count 0"):
        made.max_ref_count = 0


def test_a_take_is_from_the_cpus_given_alone() -> None:
    made = cpus("1x1x4x2")
    assert format_cpus(made.take(parse_cpus("1,4-7"), CpuRequest(2, F))) == "4-5"
    with pytest.raises(CpuShortage, match=NOT_ENOUGH):
        made.take(parse_cpus("1,4-7"), CpuRequest(6, F))


def test_a_machine_without_cpus_has_none_to_give() -> None:
    made = NodeCpus(CpuTopology([]))
    assert made.free() == made.allocate(CpuRequest(0, F, required=True)) == 0
    with pytest.raises(CpuShortage, match=NOT_ENOUGH):
        made.allocate(CpuRequest(1))


def test_a_numa_node_that_spans_sockets_is_one_group() -> None:
    """Virtual machines: every CPU a socket of its own, all of NUMA node 0. Too many for a socket, so whole sockets, by id."""
    made = NodeCpus(CpuTopology(CpuPlace(cpu, 0, cpu, 0) for cpu in range(8)))
    assert bind(made, CpuRequest(3, F)) == "0-2"
    assert bind(made, CpuRequest(4, S)) == "3-6"


def test_the_largest_machine_is_allocated_to_its_last_cpu() -> None:
    made = NodeCpus(CpuTopology(CpuPlace(i, i // 2, i // 64, i // 64) for i in range(4096)))
    made.add(parse_cpus("1000"), NONE)
    assert made.allocate(CpuRequest(4095, S)) == made.free()
    assert made.allocate(CpuRequest(4094, F, required=True)).bit_count() == 4094


@pytest.mark.parametrize(
    ("count", "bind_policy", "others"), [(-1, 0, {}), (1, 3, {}), (1, -1, {}), (1, 0, {"exclusive": 3}), (1, 0, {"strategy": -1})]
)
def test_a_request_needs_a_count_and_policies_that_exist(count: int, bind_policy: int, others: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        CpuRequest(count, bind_policy, exclusive=others.get("exclusive", 0), strategy=others.get("strategy", 0))
