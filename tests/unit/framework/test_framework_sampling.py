"""Sampling: how many feasible nodes are enough, and where the search goes on."""

from __future__ import annotations

from random import Random

import pytest
from support.builders import node, pod
from support.fakes import FakeFilter, FakeScore, profile_config, registry_of
from support.plugins import PluginBench

from koordsched.framework.interface import Normalize
from koordsched.framework.profile import Profile
from koordsched.framework.sampling import Sampler, nodes_to_find
from koordsched.framework.status import unschedulable


@pytest.mark.parametrize(
    ("nodes", "percentage", "wanted"),
    [
        (99, 5, None),
        (100, 50, 100),
        (1000, 42, 420),
        (5000, 10, 500),
        (6000, 40, 2400),
        (2000, 12, 240),
        (1000, 5, 100),
        (101, 99, 100),
        (5000, 0, None),
        (5000, 100, None),
    ],
)
def test_how_many_feasible_nodes_are_enough(nodes: int, percentage: int, wanted: int | None) -> None:
    assert nodes_to_find(nodes, percentage) == wanted


class Bench:
    """Six nodes, of which some are refused, and a sampler."""

    def __init__(self, *refused: str, **scores: int) -> None:
        bench = PluginBench(*(node(f"n{i}") for i in range(6)))
        self.judge = FakeFilter("F", **{name: unschedulable("no") for name in refused})
        self.scorer = FakeScore("S", Normalize.NONE, **scores)
        self.handle = bench
        self.cache = bench.cache
        self.sampler = Sampler(self.cache)
        self.random = Random(1)
        self.use(self.scorer)

    def use(self, *scorers: FakeScore) -> None:
        """Score by these plugins from now on."""
        config = profile_config(filter=[self.judge], score=[*scorers])
        self.profile = Profile(config, registry_of(self.judge, *scorers), self.handle)
        self.pod = pod("p").info()
        self.pod.shape = self.profile.shapes.key(self.pod)

    def choose(self, wanted: int) -> str:
        shape = self.profile.shapes.pre_filter(self.pod)
        self.profile.shapes.filter(shape, self.pod)
        rows = self.sampler.sample(shape.evaluation.feasible_rows(), wanted)
        self.profile.shapes.pre_score(shape, self.pod)
        self.profile.shapes.score(shape, self.pod)
        totals = self.sampler.totals(shape, self.pod, rows)
        best = rows[totals == totals.max()]
        info = self.cache.infos[int(self.random.choice(best))]
        assert info is not None
        return info.name


def test_each_search_goes_on_where_the_last_one_stopped() -> None:
    bench = Bench(n0=1, n1=2, n2=3, n3=4, n4=5, n5=6)
    assert [bench.choose(2) for _ in range(5)] == ["n1", "n3", "n5", "n1", "n3"]


def test_refused_nodes_are_examined_too() -> None:
    bench = Bench("n1", "n2", n0=1, n3=4, n4=5, n5=6)
    # n0 and, past n1 and n2, n3; then n4, n5; then from n0 again
    assert [bench.choose(2) for _ in range(3)] == ["n3", "n5", "n3"]


def test_a_search_that_does_not_find_enough_examines_all_and_starts_where_it_did() -> None:
    bench = Bench("n0", "n1", "n2", "n4", "n5", n3=1)
    assert [bench.choose(2) for _ in range(2)] == ["n3", "n3"]
    bench.judge.refuse.clear()
    for info in bench.cache.nodes_by_name.values():
        bench.cache.table.mark(info.row, 1)
    bench.scorer.scores = {"n0": 9}
    assert bench.choose(2) == "n0"


@pytest.mark.parametrize(("mode", "second", "best"), [(Normalize.DEFAULT, "n0", "n1"), (Normalize.DEFAULT_REVERSE, "n1", "n0")])
def test_scores_are_normalised_over_the_sample_alone(mode: Normalize, second: str, best: str) -> None:
    # n0 and n1 are 50 apart after normalising by 20, which 40 points for the other one do not outweigh. By 4000 they would be equal.
    bench = Bench(n0=10, n1=20, n2=4000)
    bench.scorer.normalize = mode
    bench.use(bench.scorer, FakeScore("T", Normalize.NONE, **{second: 40}))
    assert bench.choose(2) == best


@pytest.mark.parametrize(("largest", "apart"), [(0, 0), (1, 100), (2, 100)])
@pytest.mark.parametrize("mode", [Normalize.DEFAULT, Normalize.DEFAULT_REVERSE])
def test_the_largest_score_becomes_a_hundred_however_small_it_is(mode: Normalize, largest: int, apart: int) -> None:
    bench = Bench(n0=largest)
    bench.scorer.normalize = mode
    bench.use(bench.scorer)
    shape = bench.profile.shapes.pre_filter(bench.pod)
    bench.profile.shapes.filter(shape, bench.pod)
    rows = bench.sampler.sample(shape.evaluation.feasible_rows(), 2)
    bench.profile.shapes.pre_score(shape, bench.pod)
    bench.profile.shapes.score(shape, bench.pod)
    first, second = bench.sampler.totals(shape, bench.pod, rows).tolist()
    assert {first, second} <= {0, 100}
    assert first - second == (apart if mode is Normalize.DEFAULT else -apart)


def test_ties_are_drawn_from_the_seed() -> None:
    def picks(seed: int) -> list[str]:
        bench = Bench()
        bench.random = Random(seed)
        return [bench.choose(6) for _ in range(20)]

    assert picks(1) == picks(1) != picks(2)
    assert len(set(picks(1))) > 1


def test_zones_take_turns_in_a_sample() -> None:
    bench = Bench(n0=1, n1=2, n3=50, n5=7)
    for i in range(6):
        bench.cache.set_node(node(f"n{i}").zone("a" if i < 3 else "b").build())
    # moved one by one: zone a holds n0 n1 n2, zone b n3 n4 n5
    assert bench.choose(2) == "n3"  # n0 and n3
