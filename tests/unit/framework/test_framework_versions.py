"""Plugins with versions: who is asked again when one changes, and what that may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.builders import node, pod
from support.searching import totals

from koordsched._core.change import NodeChange
from koordsched.cache.cache import Cache
from koordsched.framework.evaluation_plan import EvaluationPlan, Evaluators
from koordsched.framework.interface import FilterNodesPlugin, Normalize, PreFilterPlugin, PreFilterResult, PreScorePlugin, ScoreNodesPlugin
from koordsched.framework.shapes import Shapes
from koordsched.framework.status import SKIP, Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import Codes, Scores

NAMES = ("n0", "n1", "n2", "n3")


class Recorder(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin):
    """Answers at PreFilter and PreScore as the test sets it; refuses the rows in `refused` and scores `score`. Notes what it is asked."""

    reads = NodeChange.LABELS

    def __init__(self, name: str) -> None:
        self.name = name
        self.asked: list[str] = []
        self.at_pre_filter: PreFilterResult | Status | None = None
        self.at_pre_score: Status | None = None
        self.refused: tuple[int, ...] = ()
        self.score = 0

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        self.asked.append("preFilter")
        return self.at_pre_filter

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        self.asked.append(f"filter {len(nodes)}")
        return np.isin(nodes.rows, self.refused).astype(np.int32)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return unschedulable(f"{self.name} says no")

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        self.asked.append("preScore")
        return self.at_pre_score

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        self.asked.append(f"score {len(nodes)}")
        return np.full(len(nodes), self.score, np.int64)


class Versioned(Recorder):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.filter_version = self.rank_version = 0

    def version(self, pod: PodInfo) -> Hashable:
        return self.filter_version

    def score_version(self, pod: PodInfo) -> Hashable:
        return self.rank_version


class Bench:
    """Four nodes; a plain plugin before and one after the versioned one."""

    def __init__(self, plugin: Any = None) -> None:
        self.cache = Cache()
        for name in NAMES:
            self.cache.set_node(node(name).build())
        self.first, self.last = Recorder("First"), Recorder("Last")
        self.plugin: Any = plugin or Versioned("V")
        plugins = [self.first, self.plugin, self.last]
        points = Evaluators(pre_filter=plugins, filter=plugins, pre_score=plugins, score=[(each, 1) for each in plugins])
        self.shapes = Shapes(EvaluationPlan(points), self.cache)
        self.pod = pod("p").info()
        self.pod.shape = self.shapes.key(self.pod)

    def totals(self) -> dict[str, int]:
        return {NAMES[row]: total for row, total in totals(self.shapes, self.pod).items()}

    def asked(self) -> list[list[str]]:
        """Return what First, V and Last were asked since the last call."""
        found = [each.asked[:] for each in (self.first, self.plugin, self.last)]
        for each in (self.first, self.plugin, self.last):
            each.asked.clear()
        return found


def test_a_new_filter_version_asks_that_plugin_alone() -> None:
    bench = Bench()
    bench.totals()
    bench.asked()
    bench.plugin.filter_version = 1
    assert bench.totals() == dict.fromkeys(NAMES, 0)
    assert bench.asked() == [[], ["preFilter", "filter 4"], []]


def test_a_later_filter_is_asked_about_rows_that_pass_for_the_first_time() -> None:
    bench = Bench()
    bench.plugin.refused, bench.last.refused = (0, 1), (1,)
    assert bench.totals() == {"n2": 0, "n3": 0}
    bench.asked()
    bench.plugin.filter_version, bench.plugin.refused = 1, (2,)
    assert bench.totals() == {"n0": 0, "n3": 0}
    assert bench.asked() == [["score 1"], ["preFilter", "filter 4", "score 1"], ["filter 2", "score 1"]]


def test_rows_that_an_earlier_filter_refuses_are_not_asked_about() -> None:
    bench = Bench()
    bench.first.refused = (0, 1, 2)
    bench.totals()
    bench.asked()
    bench.plugin.filter_version = 1
    bench.totals()
    assert bench.asked()[1] == ["preFilter", "filter 1"]


def test_rows_that_changed_as_well_are_asked_about_once() -> None:
    bench = Bench()
    bench.totals()
    bench.asked()
    bench.plugin.filter_version = 1
    bench.cache.table.mark(2, int(NodeChange.LABELS))
    bench.totals()
    assert bench.asked() == [["filter 1", "score 1"], ["preFilter", "filter 4", "score 1"], ["filter 1", "score 1"]]


def test_a_node_that_left_meanwhile_stays_away() -> None:
    bench = Bench()
    bench.totals()
    bench.plugin.filter_version = 1
    bench.cache.remove_node("n1")
    assert sorted(bench.totals()) == ["n0", "n2", "n3"]


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (SKIP, ["n0", "n1", "n2", "n3"]),
        (PreFilterResult(frozenset({"n1", "n3"})), ["n1"]),
        (unschedulable("never"), []),
    ],
)
def test_another_part_in_choosing_nodes_prepares_the_shape_anew(answer: PreFilterResult | Status, left: list[str]) -> None:
    bench = Bench()
    bench.plugin.refused = (3,)
    for _ in range(2):  # to that answer and back
        assert sorted(bench.totals()) == ["n0", "n1", "n2"]
        bench.plugin.filter_version, bench.plugin.at_pre_filter = bench.plugin.filter_version + 1, answer
        assert sorted(bench.totals()) == left
        bench.plugin.filter_version, bench.plugin.at_pre_filter = bench.plugin.filter_version + 1, None


def test_a_plugin_that_names_other_nodes_costs_its_pre_filter_and_these_nodes() -> None:
    bench = Bench()
    bench.plugin.at_pre_filter = PreFilterResult(frozenset({"n1"}))
    bench.totals()
    for version, name in enumerate(("n2", "n3", "n0"), 1):
        bench.asked()
        bench.plugin.filter_version, bench.plugin.at_pre_filter = version, PreFilterResult(frozenset({name}))
        assert sorted(bench.totals()) == [name]
        assert [asked[:1] for asked in bench.asked()] == [["filter 1"], ["preFilter"], ["filter 1"]], "no shape is prepared anew"


def test_a_plugin_that_goes_on_skipping_costs_only_its_pre_filter() -> None:
    bench = Bench()
    bench.plugin.at_pre_filter = SKIP
    bench.totals()
    bench.asked()
    bench.plugin.filter_version = 1
    bench.totals()
    assert bench.asked() == [[], ["preFilter"], []]


def test_a_new_score_version_asks_no_filter() -> None:
    bench = Bench()
    bench.totals()
    bench.asked()
    bench.plugin.rank_version, bench.plugin.score = 1, 7
    assert bench.totals() == dict.fromkeys(NAMES, 7)
    assert bench.asked() == [[], ["preScore", "score 4"], []]


def test_a_score_version_is_looked_at_when_ranking_only() -> None:
    bench = Bench()
    bench.totals()
    bench.asked()
    bench.plugin.rank_version = 1
    assert bench.shapes.why_infeasible(bench.pod) is None
    assert bench.asked() == [[], [], []]


def test_a_plugin_may_begin_and_cease_to_score() -> None:
    bench = Bench()
    bench.plugin.score, bench.plugin.at_pre_score = 5, SKIP
    assert bench.totals() == dict.fromkeys(NAMES, 0)
    bench.plugin.rank_version, bench.plugin.at_pre_score = 1, None
    assert bench.totals() == dict.fromkeys(NAMES, 5)
    bench.plugin.rank_version, bench.plugin.at_pre_score = 2, SKIP
    assert bench.totals() == dict.fromkeys(NAMES, 0)


def test_a_plugin_that_scores_without_versions_is_not_asked_for_them() -> None:
    class Steady(Versioned):
        def has_score_version(self, pod: PodInfo) -> bool:
            return False

    bench = Bench(Steady("V"))
    bench.totals()
    bench.asked()
    bench.plugin.rank_version = 1
    bench.totals()
    assert bench.asked() == [[], [], []]
    bench.plugin.filter_version = 1
    bench.totals()
    assert bench.asked() == [[], ["preFilter", "filter 4"], []]


def test_a_version_is_that_of_scores_too_unless_they_have_their_own() -> None:
    class OneVersion(Recorder):
        now = 0

        def version(self, pod: PodInfo) -> Hashable:
            return self.now

    bench = Bench(OneVersion("V"))
    bench.totals()
    bench.asked()
    bench.plugin.now, bench.plugin.score = 1, 3
    assert bench.totals() == dict.fromkeys(NAMES, 3)
    assert bench.asked()[1] == ["preFilter", "filter 4", "preScore", "score 4"]


def test_a_skipping_scorer_is_not_asked_again_when_other_nodes_are_feasible() -> None:
    class Dependent(Recorder):
        depends_on_feasible = True

    bench = Bench(Dependent("V"))
    bench.plugin.at_pre_score = SKIP
    bench.totals()
    bench.asked()
    bench.first.refused = (0,)
    bench.cache.table.mark(0, int(NodeChange.LABELS))
    bench.totals()
    assert "preScore" not in bench.asked()[1]
    bench.plugin.skips_by_feasible = True
    skipping = Bench(bench.plugin)
    skipping.totals()
    skipping.asked()
    skipping.first.refused = (0,)
    skipping.cache.table.mark(0, int(NodeChange.LABELS))
    skipping.totals()
    assert "preScore" in skipping.asked()[1]


def test_a_custom_normalisation_is_left_alone_while_its_scores_are() -> None:
    class Custom(Recorder):
        normalize = Normalize.CUSTOM

        def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
            self.asked.append("normalize")
            return scores

    bench = Bench(Custom("V"))
    bench.totals()
    assert "normalize" in bench.asked()[1]
    bench.totals()
    assert bench.asked()[1] == []
    bench.plugin.at_pre_score = SKIP
    skipping = Bench(bench.plugin)
    skipping.totals()
    assert "normalize" not in skipping.asked()[1]
