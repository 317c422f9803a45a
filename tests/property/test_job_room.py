"""Room for a job by amounts: the kernel's choice against plain models on small clusters (coscheduling.md §8)."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.builders import node, pod
from support.world import World

from koordsched._core.dry_run import cheapest
from koordsched.api.podinfo import PodInfo
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.preemption.engine import PreemptionEngine
from koordsched.framework.preemption.job import Job, JobSearch
from koordsched.framework.preemption.job_by_amounts import EXACT_PODS, JobRoom, least_cost
from koordsched.framework.preemption.rules import PreemptionRules

CPUS = 6


def least_sum(costs: list[list[int]], wanted: int) -> int | None:
    """Return the least sum of costs[row][k] with `wanted` in all, by trying everything."""
    found = None
    for taken in product(*[[k for k, cost in enumerate(row) if cost >= 0] for row in costs]):
        if sum(taken) == wanted:
            total = sum(row[k] for row, k in zip(costs, taken, strict=True))
            found = total if found is None else min(found, total)
    return found


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=5),
    st.integers(1, 8),
)
@example([[2, 5, 3], [1, 1, 1]], 4)  # three on the first row cost less than two
def test_the_least_sum_of_costs_is_that_of_trying_everything(steps: list[list[int]], wanted: int) -> None:
    width = max(map(len, steps)) + 1
    costs = [[0, *row] + [-1] * (width - 1 - len(row)) for row in steps]
    found = cheapest(np.array(costs, np.int64), wanted)
    expected = least_sum(costs, wanted)
    if expected is None:
        assert found is None
        return
    assert found is not None
    assert found.sum() == wanted
    assert sum(row[k] for row, k in zip(costs, found.tolist(), strict=True)) == expected


def test_of_more_pods_than_are_placed_exactly_each_still_finds_a_place_where_it_costs_least() -> None:
    # 400 rows take 4 for 8, 400 others 2 for 1: 800 go to the latter, the other 200 to 50 of the former.
    costs = np.array([[0, 2, 4, 6, 8]] * 400 + [[0, 1, 1, -1, -1]] * 400, np.int64)
    assert EXACT_PODS < 1000
    found = least_cost(costs, 1000)
    assert found is not None
    assert (found[400:] == 2).all()
    assert found[:400].sum() == 200
    assert least_cost(costs, 2401) is None


class Cluster:
    """A few nodes with pods of lower priorities, and a job of equal pods."""

    def __init__(self, random: Random) -> None:
        self.world = World()
        self.nodes = [f"n{i}" for i in range(random.randint(1, 4))]
        self.there: dict[str, list[tuple[str, int, int]]] = {}  # (name, cpus, priority)
        for name in self.nodes:
            self.world.cache.set_node(node(name).cpu(str(CPUS)).build())
            left = CPUS
            pods: list[tuple[str, int, int]] = []
            while left and random.random() < 0.85:
                cpus = random.randint(1, min(left, 4))
                left -= cpus
                pods.append((f"{name}-{len(pods)}", cpus, random.choice([1, 2, 3, 20])))
            self.there[name] = pods
            for other, cpus, priority in pods:
                info = pod(other).cpu(str(cpus)).priority(priority).on(name).info(counted_on_node=True)
                self.world.cache.set_pod(info, name)
        self.size = random.randint(1, 4)
        self.count = random.randint(1, 6)

    def pods(self) -> list[PodInfo]:
        return [self.world.signed(pod(f"job-{i}").cpu(str(self.size)).priority(9).info()) for i in range(self.count)]

    def victims(self, name: str, pods: int) -> list[int] | None:
        """Return the priorities of the pods that are left when all of lower priority were removed and put back, None without room."""
        free = CPUS - sum(cpus for _, cpus, priority in self.there[name] if priority >= 9) - pods * self.size
        if free < 0:
            return None
        victims = []
        for _, cpus, priority in sorted((each for each in self.there[name] if each[2] < 9), key=lambda each: -each[2]):
            if cpus <= free:
                free -= cpus
            else:
                victims.append(priority)
        return victims

    def fewest(self) -> int | None:
        """Return the fewest victims of any way to place the job."""
        found = None
        for taken in product(range(self.count + 1), repeat=len(self.nodes)):
            if sum(taken) != self.count:
                continue
            each = [self.victims(name, pods) for name, pods in zip(self.nodes, taken, strict=True)]
            if all(victims is not None for victims in each):
                total = sum(len(victims or ()) for victims in each)
                found = total if found is None else min(found, total)
        return found

    def of_the_reference(self) -> int | None:
        """Return the victims of the reference's plan: member by member to the node whose possible victims cost least, then by name."""
        priorities = sorted({priority for pods in self.there.values() for _, _, priority in pods if priority < 9})
        cost = {
            name: min((priorities.index(priority) + 1 for _, _, priority in self.there[name] if priority < 9), default=0)
            for name in self.nodes
        }
        taken = dict.fromkeys(self.nodes, 0)
        for _ in range(self.count):
            for name in sorted(self.nodes, key=lambda name: (cost[name], name)):
                if self.victims(name, taken[name] + 1) is not None:
                    taken[name] += 1
                    break
            else:
                return None
        return sum(len(self.victims(name, pods) or ()) for name, pods in taken.items())


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=3)
@example(seed=2526)
def test_a_job_has_the_fewest_victims_of_all_placements_and_so_no_more_than_the_plan_of_the_reference(seed: int) -> None:
    cluster = Cluster(Random(seed))
    world, pods = cluster.world, cluster.pods()
    engine = PreemptionEngine(world, PreemptionRules(plugin="Jobs"))
    found = JobSearch(world, engine.finder, Job(pods[0], Diagnosis.without_nodes(), pods)).room()
    expected, reference = cluster.fewest(), cluster.of_the_reference()
    if not any(priority < 9 for there in cluster.there.values() for _, _, priority in there):
        assert not isinstance(found, JobRoom), "there is nothing to evict: that is for the turn to decide"
        return
    assert (expected is None) == (not isinstance(found, JobRoom))
    if expected is None or not isinstance(found, JobRoom):
        return
    assert sum(map(len, found.victims.values())) == expected
    assert reference is None or expected <= reference
    assert found.nodes.keys() == {each.uid for each in pods}
    for name in cluster.nodes:
        members = list(found.nodes.values()).count(name)
        evicted = {each.uid for each in found.victims.get(name, ())}
        left = sum(cpus for other, cpus, _ in cluster.there[name] if f"uid-default-{other}" not in evicted)
        assert left + members * cluster.size <= CPUS
        assert all(each.priority < 9 for each in found.victims.get(name, ()))


@pytest.mark.parametrize("seed", range(3))
def test_both_outcomes_occur(seed: int) -> None:
    outcomes = {Cluster(Random(100 * seed + each)).fewest() is None for each in range(40)}
    assert outcomes == {True, False}
