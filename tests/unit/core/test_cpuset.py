"""CPU topologies (nodenumaresource.md §2)."""

from __future__ import annotations

import gc
import weakref

import pytest
from support.machines import machine, places

from koordsched._core.cpuset import CpuPlace, CpuTopology
from koordsched._core.numa_facts import CpuCounts
from koordsched.api.koordinator.cpulist import format_cpus, parse_cpus


def counts(topology: CpuTopology) -> tuple[int, ...]:
    return (topology.num_sockets, topology.num_nodes, topology.num_cores, topology.num_cpus)


def per(topology: CpuTopology) -> tuple[int, ...]:
    return (topology.cpus_per_socket, topology.cpus_per_node, topology.cpus_per_core)


def test_sockets_nodes_cores_and_cpus_are_counted() -> None:
    topology = machine("2x2x26x2")
    assert counts(topology) == (2, 4, 104, 208)
    assert per(topology) == (104, 52, 2)
    assert topology.is_valid
    assert not topology.is_uneven


def test_cpus_of_a_numa_node_are_known_by_its_id() -> None:
    topology = machine("2x1x2x2,linux")
    assert topology.node_ids == (0, 1)
    assert format_cpus(topology.cpus_of_node(0)) == "0-1,4-5"
    assert format_cpus(topology.cpus_of_node(1)) == "2-3,6-7"
    assert topology.cpus_of_node(2) == 0
    assert format_cpus(topology.all) == "0-7"


def test_core_ids_may_repeat_from_socket_to_socket() -> None:
    topology = CpuTopology([CpuPlace(cpu, 0, cpu // 2, 0) for cpu in range(4)])
    assert (topology.num_cores, topology.cpus_per_core) == (2, 2)
    assert format_cpus(topology.full_cores(parse_cpus("0-2"))) == "0-1"


def test_a_numa_node_that_spans_sockets_counts_once_a_socket() -> None:
    topology = CpuTopology([CpuPlace(cpu, cpu, cpu, 0) for cpu in range(4)])
    assert counts(topology) == (4, 4, 4, 4)
    assert topology.node_ids == (0,)
    assert topology.cpus_per_node == 1


def test_ids_may_have_gaps() -> None:
    topology = CpuTopology([CpuPlace(70, 7, 3, 63), CpuPlace(200, 7, 3, 63), CpuPlace(4095, 9, 1, 5)])
    assert topology.node_ids == (5, 63)
    assert format_cpus(topology.cpus_of_node(63)) == "70,200"
    assert format_cpus(topology.full_cores(topology.all)) == "70,200,4095"


def test_a_full_core_has_all_its_online_threads() -> None:
    """D19: the sibling of CPU 2 is offline."""
    topology = CpuTopology(place for place in places("1x1x3x2") if place.id != 3)
    assert (topology.cpus_per_core, topology.is_uneven) == (2, True)
    assert format_cpus(topology.full_cores(parse_cpus("0,2,4-5"))) == "2,4-5"


def test_the_first_of_a_core_is_its_lowest_cpu_that_is_asked_about() -> None:
    assert format_cpus(machine("1x1x4x2,linux").first_of_cores(parse_cpus("0-1,4,7"))) == "0-1,7"


def test_cpus_are_counted_by_numa_node_and_one_that_is_bound_may_be_free_once_more() -> None:
    topology = machine("1x2x2x2,linux")  # node 0: cores 0,4 and 1,5; node 1: cores 2,6 and 3,7
    counted = topology.counts(parse_cpus("0-1,5-7"), parse_cpus("0-2,4,7,99"))
    assert counted == {0: CpuCounts(bound=3, free=3, full=2, first=2), 1: CpuCounts(bound=2, free=2, full=0, first=2)}


def test_cpus_that_the_topology_lacks_are_left_out() -> None:
    topology = machine("1x1x2x2")
    assert topology.full_cores(parse_cpus("0-4096")) == topology.all
    assert format_cpus(topology.first_of_cores(-1)) == "0,2"


def test_equal_layouts_are_equal_in_any_order() -> None:
    one, other = CpuTopology(places("2x1x4x2")), CpuTopology(reversed(places("2x1x4x2")))
    assert one == other
    assert hash(one) == hash(other)
    assert one.details == tuple(places("2x1x4x2"))
    assert one != machine("2x1x4x2,linux")


def test_a_topology_can_be_interned_weakly() -> None:
    topology = machine("1x1x2x2")
    seen = weakref.ref(topology)
    del topology
    gc.collect()
    assert seen() is None


def test_without_cpus_a_topology_is_not_valid() -> None:
    topology = CpuTopology([])
    assert not topology.is_valid
    assert counts(topology) == (0, 0, 0, 0)
    assert per(topology) == (0, 0, 0)
    assert topology.full_cores(1) == topology.first_of_cores(1) == topology.all == 0


@pytest.mark.parametrize(
    ("details", "problem"),
    [
        ([CpuPlace(3, 0, 0, 0), CpuPlace(3, 1, 0, 0)], "CPU 3 is there twice"),
        ([CpuPlace(4096, 0, 0, 0)], r"CPU id 4096: expected 0\.\.4095"),
        ([CpuPlace(-1, 0, 0, 0)], r"CPU id -1: expected 0\.\.4095"),
        ([CpuPlace(i, i, 0, 0) for i in range(10_000)], "10000 CPUs: expected at most 4096"),
        ([CpuPlace(1, 0, 0, 64)], r"CPU 1: NUMA node 64: expected 0\.\.63"),
        ([CpuPlace(1, 0, 0, -1)], r"CPU 1: NUMA node -1: expected 0\.\.63"),
        ([CpuPlace(1, -2, 0, 0)], r"CPU 1: core -2 of socket 0: expected 0\.\.2147483647"),
        ([CpuPlace(1, 0, 2**31, 0)], r"CPU 1: core 0 of socket 2147483648: expected 0\.\.2147483647"),
    ],
)
def test_impossible_places_are_refused(details: list[CpuPlace], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        CpuTopology(details)


def test_the_largest_machine_is_accepted() -> None:
    topology = CpuTopology(CpuPlace(i, i // 2, i // 64, i // 64) for i in range(4096))
    assert counts(topology) == (64, 64, 2048, 4096)
    assert topology.full_cores(topology.all) == topology.all
