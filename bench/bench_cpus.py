"""What it costs to find the exact CPUs of a pod on its node, and to keep who holds which.

Question: is an allocation below 20 us on a machine of 512 CPUs (4 sockets x 2 NUMA x 32 cores x 2 threads), whichever way its CPUs are
found: whole cores of one NUMA node, of sockets, threads of one, what is left of all, or cores that are required? Every fifth core or so is
in use. Fixed seed. Last measured (min, us, 2-core Xeon 2.5 GHz with other work on it):

    allocate    4 in whole cores 6, with an exclusive policy 8, required 10; 4 spread 8, required 10; 100 of a socket 7;
                200 of sockets 13; 360 with broken cores 9; 150 spread over sockets 15; 8 by amounts of four NUMA nodes 9;
                16 in equal shares of eight NUMA nodes 10
    hold, free and let go 1.5; full_cores 3; a list of 4 CPUs written and read 8
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from koordsched._core.cpu_accumulator import CpuRequest
from koordsched._core.cpu_allocator import NodeCpus
from koordsched._core.cpuset import CpuPlace, CpuTopology
from koordsched.api.koordinator.cpulist import format_cpus, parse_cpus
from koordsched.api.koordinator.policies import AllocateStrategy, CpuBindPolicy, CpuExclusivePolicy

SOCKETS, NODES, CORES, THREADS = 4, 8, 256, 2
F, S = CpuBindPolicy.FULL_PCPUS, CpuBindPolicy.SPREAD_BY_PCPUS

Benchmark = Callable[..., Any]

REQUESTS = {
    "4 in whole cores": CpuRequest(4, F),
    "4 in whole cores, most allocated": CpuRequest(4, F, strategy=AllocateStrategy.MOST),
    "4 in required whole cores": CpuRequest(4, F, required=True),
    "4 in exclusive whole cores": CpuRequest(4, F, exclusive=CpuExclusivePolicy.PCPU_LEVEL),
    "4 spread": CpuRequest(4, S),
    "4 required to be spread": CpuRequest(4, S, required=True),
    "100 in whole cores of a socket": CpuRequest(100, F),
    "200 in whole cores of sockets": CpuRequest(200, F, required=True),
    "150 spread over sockets": CpuRequest(150, S),
    "360 with broken cores": CpuRequest(360, F),
    "16 in equal shares": CpuRequest(16, F, strategy=AllocateStrategy.DISTRIBUTE_EVENLY),
}


@pytest.fixture(scope="module", params=["adjacent", "linux"])
def machine(request: pytest.FixtureRequest) -> NodeCpus:
    linux = request.param == "linux"
    chance = random.Random(1)
    places = []
    for core in range(CORES):
        node = core * NODES // CORES
        for thread in range(THREADS):
            cpu = core + thread * CORES if linux else core * THREADS + thread
            places.append(CpuPlace(cpu, core, node * SOCKETS // NODES, node))
    made = NodeCpus(CpuTopology(places))
    for core in chance.sample(range(CORES), CORES // 5):
        mine = [place.id for place in places if place.core == core]
        made.add(sum(1 << cpu for cpu in mine[: chance.randint(1, 2)]), CpuExclusivePolicy.PCPU_LEVEL)
    return made


@pytest.mark.parametrize("kind", REQUESTS)
def bench_allocate(benchmark: Benchmark, machine: NodeCpus, kind: str) -> None:
    found = benchmark(machine.allocate, REQUESTS[kind])
    assert found.bit_count() == REQUESTS[kind].count


def bench_allocate_by_amounts(benchmark: Benchmark, machine: NodeCpus) -> None:
    amounts = dict.fromkeys(range(4), 2_000)
    found = benchmark(lambda: machine.allocate(CpuRequest(8, F), numa_amounts=amounts))
    assert found.bit_count() == 8


def bench_hold_and_let_go(benchmark: Benchmark, machine: NodeCpus) -> None:
    mine = machine.allocate(CpuRequest(4, F))

    def hold_and_let_go() -> int:
        machine.add(mine, CpuExclusivePolicy.NONE)
        free = machine.free()
        machine.remove(mine, CpuExclusivePolicy.NONE)
        return free

    assert not benchmark(hold_and_let_go) & mine


def bench_full_cores(benchmark: Benchmark, machine: NodeCpus) -> None:
    assert benchmark(machine.topology.full_cores, machine.free())


def bench_list(benchmark: Benchmark, machine: NodeCpus) -> None:
    """Write and read the list of what a pod of 4 CPUs was given."""
    mine = machine.allocate(CpuRequest(4, S))
    assert benchmark(lambda: parse_cpus(format_cpus(mine))) == mine
