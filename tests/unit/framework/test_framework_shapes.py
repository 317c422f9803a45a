"""Shapes: who shares one, what is asked again and what is not, and what happens to a shape whose plugin failed."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.builders import PodBuilder, node, pod
from support.fakes import FakeFilter, FakePreFilter, FakePreScore, FakeScore, VersionedFilter, VersionedScore
from support.searching import feasible_rows
from support.world import World

from koordsched._core.change import NodeChange
from koordsched.api.core import TopologySpreadConstraint
from koordsched.api.meta import LabelSelector, LabelSelectorRequirement
from koordsched.api.sharing import MANY_NAMES
from koordsched.cache.cache import Cache
from koordsched.framework.evaluation_plan import EvaluationPlan, Evaluators
from koordsched.framework.interface import UNSIGNABLE, FilterPlugin, Normalize, PreFilterResult, PreScorePlugin, ScorePlugin
from koordsched.framework.kept_shapes import KEPT_LARGE, OBJECTS_OF_A_SHAPE, REMEMBERED, USED_ONCE
from koordsched.framework.row_refusals import NO_REFUSALS, RowRefusals
from koordsched.framework.shapes import Shapes
from koordsched.framework.status import SKIP, Code, PluginError, Status, error, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.interface import Scores
    from koordsched.framework.shapes import Shape

REFUSED = unschedulable("no")


class PreparedFilter(FakePreFilter, FilterPlugin):
    """Refuses what its PreFilter wrote down; fails without it."""

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        state.write(self.name, {"n2"})
        return super().pre_filter(state, pod, nodes)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return REFUSED if node.name in state.read(self.name) else None


class Bench:
    """Some nodes, and the shapes of some plugins on them."""

    def __init__(self, nodes: str = "n1 n2 n3", budget: int = 1 << 20, **points: Any) -> None:
        self.cache = Cache()
        for name in nodes.split():
            self.cache.set_node(node(name).cpu("4").build())
        score = [each if isinstance(each, tuple) else (each, 1) for each in points.pop("score", [])]
        self.shapes = Shapes(EvaluationPlan(Evaluators(score=score, **points)), self.cache, budget)

    def sign(self, builder: PodBuilder = pod("p")) -> PodInfo:  # noqa: B008  a builder is immutable
        info = builder.info()
        info.shape = self.shapes.key(info)
        return info

    def filtered(self, info: PodInfo) -> Shape:
        shape = self.shapes.pre_filter(info)
        self.shapes.filter(shape, info)
        return shape

    def feasible(self, info: PodInfo) -> list[str]:
        return [self.name(row) for row in feasible_rows(self.shapes, info)]

    def totals(self, info: PodInfo) -> dict[str, int]:
        shape = self.filtered(info)
        self.shapes.pre_score(shape, info)
        self.shapes.score(shape, info)
        return {self.name(row): shape.evaluation.scores(row)[1] for row in shape.evaluation.feasible_rows().tolist()}

    def message(self, info: PodInfo) -> str:
        return self.shapes.diagnoses.of_shape(self.filtered(info), info, NO_REFUSALS).message

    def plugins(self, info: PodInfo) -> set[str]:
        return set(self.shapes.diagnoses.of_shape(self.filtered(info), info, NO_REFUSALS).plugins)

    def name(self, row: int) -> str:
        info = self.cache.infos[row]
        assert info is not None
        return info.name

    def touch(self, name: str, change: NodeChange = NodeChange.USAGE) -> None:
        self.cache.table.mark(self.cache.nodes_by_name[name].row, int(change))


class BySpec(FakeFilter):
    """Signs what it reads: the pod's priority."""

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.priority


class Naming(PreScorePlugin):
    """Names what it reads."""

    def __init__(self, name: str, *signs: str) -> None:
        self.name = name
        self.signs = signs

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None


# Keys


def test_pods_with_equal_signatures_share_one_key_object() -> None:
    bench = Bench(filter=[BySpec("A"), FakeFilter("B")])
    first, second = bench.sign(pod("a").priority(1)), bench.sign(pod("b").priority(1))
    assert first.shape is second.shape is not None
    assert bench.sign(pod("c").priority(2)).shape is not first.shape


def test_one_plugin_that_cannot_sign_leaves_the_pod_without_a_shape() -> None:
    shy = FakeFilter("B")
    shy.signature = UNSIGNABLE
    bench = Bench(filter=[FakeFilter("A"), shy])
    assert bench.sign().shape is None


def test_a_pod_without_a_shape_is_evaluated_in_full_every_time_and_nothing_is_kept() -> None:
    shy = FakeFilter("A", n2=REFUSED)
    shy.signature = UNSIGNABLE
    bench = Bench(filter=[shy])
    info = bench.sign()
    assert bench.feasible(info) == bench.feasible(info) == ["n1", "n3"]
    assert shy.asked == ["n1", "n2", "n3"] * 2
    assert len(bench.shapes) == 0
    assert bench.shapes.unchanged_diagnosis(info) is None


def test_a_plugin_signs_once_for_all_its_points() -> None:
    plugin = FakePreScore("S")
    assert EvaluationPlan(Evaluators(pre_score=[plugin], score=[(plugin, 1)])).sign(pod().info()) == ((), ())


def test_what_several_plugins_name_is_read_once_and_before_what_others_compute() -> None:
    plan = EvaluationPlan(Evaluators(pre_score=[FakePreScore("A"), Naming("B", "priority"), Naming("C", "pod.spec.node_name", "priority")]))
    assert plan.sign(pod().priority(5).on("n").info()) == ((5, "n"), ())


def test_a_plugin_that_names_what_it_reads_can_be_asked_for_it() -> None:
    info = pod().priority(5).info()
    assert Naming("A", "priority").sign(info) == 5
    assert Naming("A").sign(info) is UNSIGNABLE


def test_one_plugin_that_says_nothing_of_what_it_reads_leaves_the_pod_without_a_shape() -> None:
    assert Bench(pre_score=[Naming("A", "priority"), Naming("B")]).sign().shape is None
    assert Bench(pre_score=[Naming("A", "priority")]).sign().shape is not None


# Asking again


def test_equal_pods_are_asked_about_once() -> None:
    judge = FakeFilter("A", n2=REFUSED)
    bench = Bench(filter=[judge])
    assert bench.feasible(bench.sign(pod("a"))) == bench.feasible(bench.sign(pod("b"))) == ["n1", "n3"]
    assert judge.asked == ["n1", "n2", "n3"]


def test_only_changed_nodes_are_asked_about_again() -> None:
    judge = FakeFilter("A")
    judge.reads = NodeChange.USAGE
    bench = Bench(filter=[judge])
    info = bench.sign()
    bench.feasible(info)
    judge.asked.clear()
    bench.touch("n2")
    bench.touch("n3", NodeChange.LABELS)
    judge.refuse["n2"] = REFUSED
    assert bench.feasible(info) == ["n1", "n3"]
    assert judge.asked == ["n2"]


def test_a_new_version_of_a_filter_asks_it_about_everything() -> None:
    judge = VersionedFilter("A")
    bench = Bench(filter=[judge])
    info = bench.sign()
    bench.feasible(info)
    judge.now, judge.refuse_all = 1, REFUSED
    assert bench.feasible(info) == []
    assert judge.asked == ["n1", "n2", "n3"] * 2


def test_a_new_version_of_a_scorer_asks_only_the_scorer() -> None:
    judge, other, scorer = FakeFilter("A"), FakeScore("O", n1=1), VersionedScore("S", n1=10)
    bench = Bench(filter=[judge], score=[other, scorer])
    info = bench.sign()
    assert bench.totals(info) == {"n1": 11, "n2": 0, "n3": 0}
    judge.asked.clear()
    other.asked.clear()
    scorer.now, scorer.scores = 1, {"n2": 20}
    assert bench.totals(info) == {"n1": 1, "n2": 20, "n3": 0}
    assert (judge.asked, other.asked) == ([], [])


def test_a_scorer_that_depends_on_the_feasible_nodes_is_asked_again_when_they_change() -> None:
    judge, scorer = FakeFilter("A"), FakePreScore("S", n1=1)
    scorer.depends_on_feasible = True
    bench = Bench(filter=[judge], pre_score=[scorer], score=[scorer])
    info = bench.sign()
    bench.totals(info)
    bench.totals(info)
    assert scorer.asked == ["PreScore of 3", "n1", "n2", "n3"]
    judge.refuse["n3"] = REFUSED
    bench.touch("n3")
    bench.totals(info)
    assert scorer.asked[4:] == ["PreScore of 2", "n1", "n2"]


def test_a_scorer_that_does_not_is_left_alone() -> None:
    judge, scorer = FakeFilter("A"), FakePreScore("S", n1=1)
    bench = Bench(filter=[judge], pre_score=[scorer], score=[scorer])
    info = bench.sign()
    bench.totals(info)
    judge.refuse["n3"] = REFUSED
    bench.touch("n3")
    assert bench.totals(info) == {"n1": 1, "n2": 0}
    assert scorer.asked == ["PreScore of 3", "n1", "n2", "n3"]


# PreScore, Score


def test_a_pre_score_that_skips_turns_its_score_off() -> None:
    skipping, other = FakePreScore("S", n1=50), FakeScore("O", n2=7)
    skipping.answer = SKIP
    bench = Bench(pre_score=[skipping], score=[(skipping, 1), (other, 2)])
    assert bench.totals(bench.sign()) == {"n1": 0, "n2": 14, "n3": 0}
    assert skipping.asked == ["PreScore of 3"]


def test_any_other_answer_of_pre_score_fails_the_cycle() -> None:
    failing = FakePreScore("S")
    failing.answer = error("no idea")
    bench = Bench(pre_score=[failing], score=[failing])
    info = bench.sign()
    with pytest.raises(PluginError, match=r'^running PreScore plugin "S": no idea$'):
        bench.totals(info)
    failing.answer = None
    assert bench.totals(info) == {"n1": 0, "n2": 0, "n3": 0}


def test_an_invalid_score_fails_the_cycle_with_the_reference_text() -> None:
    scorer = FakeScore("S", n2=101)
    bench = Bench(score=[scorer])
    info = bench.sign()
    with pytest.raises(PluginError) as caught:
        bench.totals(info)
    text = 'plugin "S" returns an invalid score 101, it should in the range of [0, 100] after normalizing'
    assert caught.value.status == Status(Code.ERROR, (text,), "S")
    scorer.scores = {"n2": 100}
    assert bench.totals(info) == {"n1": 0, "n2": 100, "n3": 0}


class Spread(FakeScore):
    """Normalises between the smallest and the largest score."""

    def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
        self.asked.append(f"normalize {len(nodes)}")
        span = scores.max() - scores.min()
        return 100 * (scores - scores.min()) // span if span else np.zeros_like(scores)


def test_a_custom_normalisation_sees_all_feasible_nodes_and_runs_only_when_something_changed() -> None:
    scorer, judge = Spread("S", Normalize.CUSTOM, n1=1000, n2=1500, n3=3000), FakeFilter("A")
    bench = Bench(filter=[judge], score=[(scorer, 2)])
    info = bench.sign()
    assert bench.totals(info) == {"n1": 0, "n2": 50, "n3": 200}
    assert bench.totals(info) == {"n1": 0, "n2": 50, "n3": 200}
    assert scorer.asked.count("normalize 3") == 1
    judge.refuse["n3"] = REFUSED
    bench.touch("n3")
    assert bench.totals(info) == {"n1": 0, "n2": 200}
    scorer.scores["n1"] = 2000
    bench.touch("n1")
    assert bench.totals(info) == {"n1": 200, "n2": 0}


# PreFilter


def test_a_pre_filter_that_skips_turns_its_filter_off() -> None:
    class Both(FakePreFilter, FilterPlugin):
        def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
            return REFUSED

    both = Both("A", SKIP)
    bench = Bench(pre_filter=[both], filter=[both, FakeFilter("B", n1=REFUSED)])
    assert bench.feasible(bench.sign()) == ["n2", "n3"]


def test_an_unresolvable_pre_filter_stops_at_once_and_no_filter_is_asked() -> None:
    first, second, judge = FakePreFilter("A", unresolvable("gone")), FakePreFilter("B"), FakeFilter("F")
    bench = Bench(pre_filter=[first, second], filter=[judge])
    info = bench.sign()
    assert bench.feasible(info) == []
    assert (second.asked, judge.asked) == ([], [])
    assert (bench.message(info), bench.plugins(info)) == ("0/3 nodes are available: gone.", {"A"})


def test_an_unschedulable_pre_filter_is_remembered_while_the_rest_runs_and_the_last_one_wins() -> None:
    last = FakePreFilter("C")
    bench = Bench(pre_filter=[FakePreFilter("A", unschedulable("first")), FakePreFilter("B", unschedulable("second", "third")), last])
    info = bench.sign()
    assert (bench.message(info), bench.plugins(info)) == ("0/3 nodes are available: second, third.", {"B"})
    assert last.asked == ["default/p"]


def test_an_error_of_pre_filter_fails_the_cycle_and_is_asked_again() -> None:
    failing = FakePreFilter("A", error("boom"))
    bench = Bench(pre_filter=[failing], filter=[FakeFilter("F", n1=REFUSED)])
    info = bench.sign()
    with pytest.raises(PluginError, match=r'^running PreFilter plugin "A": boom$'):
        bench.feasible(info)
    failing.answer = None
    assert bench.feasible(info) == ["n2", "n3"]


def names(*nodes: str) -> PreFilterResult:
    return PreFilterResult(frozenset(nodes))


def test_named_nodes_restrict_the_search_and_count_as_a_refusal_of_the_others() -> None:
    bench = Bench(pre_filter=[FakePreFilter("A", names("n1", "n3", "elsewhere"))], filter=[FakeFilter("F", n1=REFUSED, n3=REFUSED)])
    diagnosis = bench.shapes.why_infeasible(bench.sign())
    assert diagnosis is not None
    assert diagnosis.message == "0/3 nodes are available: 1 node(s) didn't satisfy plugin(s) [A], 2 no."
    assert diagnosis.plugins == {"A", "F"}


def test_named_nodes_are_intersected_and_no_names_means_all() -> None:
    first, second, third = (
        FakePreFilter("A", names("n1", "n2")),
        FakePreFilter("B", PreFilterResult()),
        FakePreFilter("C", names("n2", "n3")),
    )
    bench = Bench(pre_filter=[first, second, third])
    assert bench.feasible(bench.sign()) == ["n2"]


@pytest.mark.parametrize(
    ("plugins", "message", "rejectors"),
    [
        ([FakePreFilter("A", names())], "node(s) didn't satisfy plugin A", {"A"}),
        (
            [FakePreFilter("Z", names("n1")), FakePreFilter("B", names("n2")), FakePreFilter("C", names("n1"))],
            "node(s) didn't satisfy plugin(s) [B Z] simultaneously",
            {"B", "Z"},
        ),
    ],
    ids=["one", "two"],
)
def test_an_empty_intersection_is_unresolvable_and_names_who_made_it(
    plugins: list[FakePreFilter], message: str, rejectors: set[str]
) -> None:
    bench = Bench(pre_filter=plugins)
    info = bench.sign()
    refusal = bench.shapes.pre_filter(info).pre_filtered.refusal
    assert refusal is not None
    assert refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert (bench.message(info), bench.plugins(info)) == (f"0/3 nodes are available: {message}.", rejectors)


def test_a_node_that_is_named_before_it_exists_is_found_when_it_comes() -> None:
    bench = Bench("n1", pre_filter=[FakePreFilter("A", names("n9"))])
    info = bench.sign()
    assert bench.feasible(info) == []
    bench.cache.set_node(node("n9").build())
    assert bench.feasible(info) == ["n9"]


# Lifting


def test_lifted_refusals_keep_their_code_and_all_their_reasons() -> None:
    bench = Bench(filter=[FakeFilter("A", n1=unschedulable("a", "b"), n2=unresolvable("b"), n3=unschedulable("a", "b"))])
    info = bench.sign()
    shape = bench.filtered(info)
    diagnosis = bench.shapes.diagnoses.of_shape(shape, info, NO_REFUSALS)
    assert diagnosis.message == "0/3 nodes are available: 2 a, 3 b."
    assert [shape.evaluation.verdict(row)[1] for row in range(3)] == [1, 2, 1]
    assert diagnosis.status_of(1) == Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("b",), "A")


@pytest.mark.parametrize(
    "status", [error("boom"), Status(Code.SKIP, ("boom",)), Status(Code.WAIT, ("boom",))], ids=lambda status: status.code.value
)
def test_an_answer_that_no_filter_may_give_fails_the_cycle(status: Status) -> None:
    judge = FakeFilter("A", n2=status)
    bench = Bench(filter=[judge])
    info = bench.sign()
    with pytest.raises(PluginError, match=r'^running "A" filter plugin: boom$') as caught:
        bench.feasible(info)
    assert caught.value.status.plugin == "A"
    judge.refuse.clear()
    assert bench.feasible(info) == ["n1", "n2", "n3"]


class PlainScore(ScorePlugin):
    """Scores one node at a time, and fails on n2 while `failing` is set."""

    name = "plain"
    failing = False

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int | Status:
        return error("lost") if self.failing and node.name == "n2" else int(node.name[1:])


def test_errors_of_plain_scorers_fail_the_cycle() -> None:
    plugin = PlainScore()
    bench = Bench(score=[(plugin, 3)])
    info = bench.sign()
    assert bench.totals(info) == {"n1": 3, "n2": 6, "n3": 9}
    plugin.failing = True
    bench.touch("n2")
    with pytest.raises(PluginError, match=r'^running Score plugins: plugin "plain" failed with: lost$') as caught:
        bench.totals(info)
    assert (caught.value.status.code, caught.value.status.plugin) == (Code.ERROR, "plain")
    plugin.failing = False
    assert bench.totals(info) == {"n1": 3, "n2": 6, "n3": 9}


# Budget


class Budgeted:
    """Shapes of pods that all differ, and which of them had to be evaluated."""

    def __init__(self, kept: int = 20) -> None:
        self.judge = BySpec("A")
        self.bench = Bench(budget=1, filter=[self.judge])
        self.infos = [self.bench.sign(pod(f"p{i}").priority(i)) for i in range(3 * REMEMBERED)]
        one = self.bench.shapes.pre_filter(self.infos[-1]).evaluation.nbytes() + OBJECTS_OF_A_SHAPE
        self.bench.shapes = Shapes(EvaluationPlan(Evaluators(filter=[self.judge])), self.bench.cache, kept * one)
        self.infos = [self.bench.sign(pod(f"p{i}").priority(i)) for i in range(3 * REMEMBERED)]

    def use(self, *which: int) -> list[int]:
        """Use these shapes in turn. Return those that were evaluated, not only looked up."""
        anew = []
        for index in which:
            self.judge.asked.clear()
            self.bench.feasible(self.infos[index])
            anew += [index] if self.judge.asked else []
        return anew


def test_a_shape_that_is_used_again_outlives_any_number_of_shapes_that_are_used_once() -> None:
    shapes = Budgeted()
    assert shapes.use(0, 0) == [0]
    assert shapes.use(*range(1, 600)) == list(range(1, 600))
    assert len(shapes.bench.shapes) == USED_ONCE + 1
    assert shapes.use(0) == []


def test_a_shape_that_left_after_one_use_is_kept_when_it_comes_back() -> None:
    shapes = Budgeted()
    turns = range(10)
    assert shapes.use(*turns) == list(turns)
    assert shapes.use(*turns)[0] == 0, "it had left"
    assert shapes.use(*turns, *turns) == []


def test_a_shape_that_left_long_ago_is_new_again() -> None:
    shapes = Budgeted()
    shapes.use(0, *range(1, 1 + REMEMBERED + USED_ONCE))
    shapes.use(0, *range(500, 500 + USED_ONCE))
    assert shapes.use(0) == [0]


def test_of_the_shapes_that_are_used_again_the_least_recently_used_goes_first() -> None:
    shapes = Budgeted(kept=USED_ONCE + 3)
    shapes.use(0, 0, 1, 1, 2, 2, 0, 3, 3)
    assert len(shapes.bench.shapes) == 3
    assert shapes.use(0, 2, 3) == []
    assert shapes.use(1) == [1]


def test_a_shape_whose_pod_found_no_node_is_kept() -> None:
    shapes = Budgeted()
    shapes.judge.refuse = dict.fromkeys(("n1", "n2", "n3"), REFUSED)
    waiting = shapes.infos[0]
    shapes.bench.message(waiting)
    shapes.judge.refuse = {}
    shapes.use(*range(1, 100))
    assert shapes.bench.shapes.unchanged_diagnosis(waiting) is not None


def test_the_python_objects_of_shapes_count_against_the_budget_as_well_as_their_columns() -> None:
    bench = Bench(budget=10 * OBJECTS_OF_A_SHAPE, filter=[BySpec("A")])
    infos = [bench.sign(pod(f"p{i}").priority(i)) for i in range(20)]
    for info in infos:
        bench.feasible(info)
        bench.feasible(info)
    columns = bench.shapes.pre_filter(infos[-1]).evaluation.nbytes()
    assert 20 * columns < 10 * OBJECTS_OF_A_SHAPE, "the columns alone would be within it"
    assert len(bench.shapes) <= 10


@pytest.mark.parametrize("budget", [0, 1, 20_000])
def test_answers_are_right_however_little_may_be_kept(budget: int) -> None:
    judge = BySpec("A")
    bench = Bench(budget=budget, filter=[judge], score=[FakeScore("S", n1=1, n2=2, n3=3)])
    infos = [bench.sign(pod(f"p{i}").priority(i)) for i in range(12)]
    for name in ("n1", "n2", "n3"):
        judge.refuse = {name: REFUSED}
        for each in ("n1", "n2", "n3"):
            bench.touch(each)
        expected = {other: int(other[1:]) for other in ("n1", "n2", "n3") if other != name}
        assert [bench.totals(info) for info in infos] == [expected] * len(infos)


# Failures that last


def test_a_failed_shape_is_unchanged_until_a_verdict_differs() -> None:
    judge = FakeFilter("A")
    judge.refuse_all = REFUSED
    bench = Bench(filter=[judge])
    info = bench.sign()
    assert bench.shapes.unchanged_diagnosis(info) is None
    bench.message(info)
    bench.touch("n1")
    assert bench.shapes.unchanged_diagnosis(info) is not None
    judge.refuse_all = unschedulable("another reason")
    bench.touch("n1")
    assert bench.shapes.unchanged_diagnosis(info) is None
    assert bench.message(info) == "0/3 nodes are available: 1 another reason, 2 no."


def test_a_probe_answers_whether_some_node_would_pass_now() -> None:
    judge = FakeFilter("A")
    judge.refuse_all = REFUSED
    bench = Bench(filter=[judge])
    info = bench.sign()
    assert bench.shapes.why_infeasible(info) is not None
    judge.refuse_all = None
    bench.touch("n3")
    assert bench.shapes.why_infeasible(info) is None


def test_a_simulation_of_one_row_keeps_nothing() -> None:
    judge = FakeFilter("A", n2=REFUSED)
    bench = Bench(filter=[FakeFilter("B"), judge])
    info = bench.sign()
    shape: Shape = bench.filtered(info)
    judge.refuse = {"n1": REFUSED}
    first, second = (bench.cache.node(name) for name in ("n1", "n2"))
    assert first is not None
    assert second is not None
    simulation = bench.shapes.simulation(shape)
    assert simulation.simulate_on_node(info, first, add=[pod("other").info()]) == REFUSED.with_plugin("A")
    assert simulation.filter_node(info, second) is None
    assert bench.feasible(info) == ["n1", "n3"]


def test_rows_that_nominated_pods_take_count_as_refused_by_whom_they_cause() -> None:
    bench = Bench(filter=[FakeFilter("A", n1=unschedulable("full"), n2=unschedulable("full")), FakeFilter("B")])
    info = bench.sign()
    shape = bench.filtered(info)
    diagnosis = bench.shapes.diagnoses.of_shape(shape, info, RowRefusals.of({2: unschedulable("full").with_plugin("A")}))
    assert diagnosis.message == "0/3 nodes are available: 3 full."
    assert diagnosis.status_of(2) == unschedulable("full").with_plugin("A")
    assert shape.diagnosis is None  # it holds for this pod only


def test_a_custom_normalisation_follows_rows_that_sit_out() -> None:
    class Raw(ScorePlugin):
        name = "Raw"
        normalize = Normalize.CUSTOM

        def sign(self, pod: PodInfo) -> Hashable:
            return ()

        def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
            return {"n1": 10, "n2": 20, "n3": 40}[node.name]

        def normalize_scores(self, state: CycleState, pod: PodInfo, nodes: Nodes, scores: Scores) -> Scores:
            normalized: Scores = 100 * scores // scores.max()
            return normalized

    bench = Bench(score=[Raw()])
    info = bench.sign()
    assert bench.totals(info) == {"n1": 25, "n2": 50, "n3": 100}
    shape = bench.filtered(info)
    bench.shapes.overrule(shape, np.array([2], np.int32))
    bench.shapes.pre_score(shape, info)
    bench.shapes.score(shape, info)
    assert [shape.evaluation.scores(row)[1] for row in (0, 1)] == [50, 100]
    bench.shapes.reinstate(shape, np.array([2], np.int32))
    assert bench.totals(info) == {"n1": 25, "n2": 50, "n3": 100}


@pytest.mark.parametrize("fits", [True, False])
def test_the_shape_of_a_pod_that_names_much_goes_with_it(fits: bool) -> None:
    """Also when the pod was refused, and why is kept with the shape."""
    world = World()
    world.cache.set_node(node("n1").cpu("4").build())
    names = tuple(f"name-{i}" for i in range(MANY_NAMES + 1))
    selects = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "In", names),))
    many = TopologySpreadConstraint(1, "kubernetes.io/hostname" if fits else "zone", "ScheduleAnyway" if fits else "DoNotSchedule", selects)
    info = world.signed(pod("p").spread(many).info())
    assert isinstance(world.search.find(world.profile, info)[1], str) == fits
    assert len(world.profile.shapes) == 1
    del info, many, selects
    gc.collect()
    assert len(world.profile.shapes) == 0


def test_no_more_than_a_few_shapes_of_pods_that_name_much_are_kept_at_a_time() -> None:
    world = World()
    world.cache.set_node(node("n1").cpu("4").build())
    pods = []
    for i in range(2 * KEPT_LARGE):
        names = tuple(f"name-{i}-{j}" for j in range(MANY_NAMES + 1))
        selects = LabelSelector(match_expressions=(LabelSelectorRequirement("app", "In", names),))
        spread = TopologySpreadConstraint(1, "kubernetes.io/hostname", "ScheduleAnyway", selects)
        pods.append(world.signed(pod(f"p{i}").spread(spread).info()))
        assert world.search.find(world.profile, pods[-1])[1] == "n1"
        assert len(world.profile.shapes) == min(i + 1, KEPT_LARGE)


def test_pre_filter_of_a_filter_runs_where_the_configuration_leaves_it_out() -> None:
    first, plugin = FakePreFilter("A"), PreparedFilter("B")
    bench = Bench(pre_filter=[first], filter=[plugin])
    assert bench.feasible(bench.sign()) == ["n1", "n3"]
    assert len(first.asked) == len(plugin.asked) == 1


def test_a_pre_filter_that_the_configuration_leaves_out_can_skip_and_refuse() -> None:
    skipping, refusing = Bench(filter=[PreparedFilter("B", SKIP)]), Bench(filter=[PreparedFilter("B", REFUSED)])
    assert skipping.feasible(skipping.sign()) == ["n1", "n2", "n3"]
    assert refusing.message(refusing.sign()) == "0/3 nodes are available: no."


def test_pre_filter_runs_once_where_it_is_configured() -> None:
    plugin = PreparedFilter("B")
    bench = Bench(pre_filter=[plugin], filter=[plugin])
    assert bench.feasible(bench.sign()) == ["n1", "n3"]
    assert plugin.asked == ["default/p"]


def test_pre_score_of_a_scorer_runs_where_the_configuration_leaves_it_out() -> None:
    plugin = FakePreScore("S", n1=3)
    bench = Bench(score=[plugin])
    assert bench.totals(bench.sign()) == {"n1": 3, "n2": 0, "n3": 0}
    assert plugin.asked[0] == "PreScore of 3"


def test_a_shape_that_pre_filter_refuses_counts_the_nodes_that_there_are_now() -> None:
    bench = Bench("n1 n2", pre_filter=[FakePreFilter("P", REFUSED)])
    info = bench.sign()
    assert bench.message(info) == "0/2 nodes are available: no."
    bench.cache.set_node(node("n3").cpu("4").build())
    assert bench.message(info) == "0/3 nodes are available: no."
