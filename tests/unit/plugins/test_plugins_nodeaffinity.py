"""NodeAffinity: framework.md §10.2, §13 line 23, hints of §3.5."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from support.builders import NodeBuilder, PodBuilder, node, pod, requirement
from support.plugins import PluginBench, hint, registered

from koordsched.api.core import Affinity, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm
from koordsched.api.core import NodeAffinity as NodeAffinitySpec
from koordsched.api.meta import LabelSelectorRequirement
from koordsched.config.args import NodeAffinityArgs
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import Normalize, PreFilterResult
from koordsched.framework.status import SKIP, Status, error, unresolvable
from koordsched.plugins.nodeaffinity.plugin import NodeAffinityPlugin
from koordsched.queue.events import ActionType, EventResource, QueueingHint

BY_POD = unresolvable("node(s) didn't match Pod's node affinity/selector")
BY_ADDED = unresolvable("node(s) didn't match scheduler-enforced node affinity")

IN_A, IN_B, SSD = requirement("zone", "In", "a"), requirement("zone", "In", "b"), requirement("disk", "In", "ssd")


@pytest.fixture
def bench() -> PluginBench:
    return PluginBench(node("n1").label("zone", "a").label("disk", "ssd"), node("n2").label("zone", "b"), node("n3"))


def plugin(bench: PluginBench, added: NodeAffinitySpec | None = None) -> NodeAffinityPlugin:
    return NodeAffinityPlugin(NodeAffinityArgs(added_affinity=added), bench)


def requiring(*terms: NodeSelectorTerm) -> PodBuilder:
    made = pod().build()
    affinity = Affinity(node_affinity=NodeAffinitySpec(required_during_scheduling_ignored_during_execution=NodeSelector(terms)))
    return PodBuilder(replace(made, spec=replace(made.spec, affinity=affinity)))


def named(*names: str) -> NodeSelectorTerm:
    """Make a term with one metadata.name In requirement for each argument, its names separated by commas."""
    return NodeSelectorTerm(match_fields=tuple(requirement("metadata.name", "In", *listed.split(",")) for listed in names))


def added_required(*expressions: LabelSelectorRequirement) -> NodeAffinitySpec:
    return NodeAffinitySpec(required_during_scheduling_ignored_during_execution=NodeSelector((NodeSelectorTerm(expressions),)))


class TestFilter:
    def test_a_pod_that_asks_for_nothing_skips(self, bench: PluginBench) -> None:
        assert bench.pre_filter(plugin(bench), pod()) is SKIP

    def test_node_selector_and_required_terms_must_both_match(self, bench: PluginBench) -> None:
        assert bench.filter(plugin(bench), pod().node_selector({"zone": "a"})) == {"n1": None, "n2": BY_POD, "n3": BY_POD}
        assert bench.passing(plugin(bench), pod().requires(IN_A).requires(IN_B)) == ["n1", "n2"]
        assert bench.passing(plugin(bench), pod().node_selector({"disk": "ssd"}).requires(IN_B)) == []

    def test_a_required_affinity_without_terms_matches_nothing(self, bench: PluginBench) -> None:
        assert bench.passing(plugin(bench), requiring()) == []

    def test_the_added_affinity_is_refused_with_its_own_reason_first(self, bench: PluginBench) -> None:
        made = plugin(bench, added_required(IN_A))
        assert bench.filter(made, pod().requires(IN_B)) == {"n1": BY_POD, "n2": BY_ADDED, "n3": BY_ADDED}
        assert bench.passing(made, pod()) == ["n1"]


class TestPreFilterResult:
    @pytest.mark.parametrize(
        ("terms", "expected"),
        [
            ([named("n1")], PreFilterResult(frozenset({"n1"}))),
            ([named("n1"), named("n2")], PreFilterResult(frozenset({"n1", "n2"}))),
            ([named("n1,n2", "n2,n3")], PreFilterResult(frozenset({"n2"}))),
            ([named("n1"), NodeSelectorTerm((IN_A,))], None),
            ([named("n1", "n2")], unresolvable("pod affinity terms conflict")),
            ([named("n1", "n2"), named("n3")], PreFilterResult(frozenset({"n3"}))),
            ([NodeSelectorTerm(match_fields=(requirement("metadata.name", "NotIn", "n1"),))], None),
            ([], None),
        ],
    )
    def test_nodes_named_by_every_term_restrict_the_cycle(
        self, bench: PluginBench, terms: list[NodeSelectorTerm], expected: PreFilterResult | Status | None
    ) -> None:
        assert bench.pre_filter(plugin(bench), requiring(*terms)) == expected


class TestScore:
    def test_the_weights_of_matching_terms_are_added(self, bench: PluginBench) -> None:
        made = plugin(bench)
        assert made.normalize is Normalize.DEFAULT  # 10 and 30 become 33 and 100: §13 line 23
        assert bench.score(made, pod().prefers(10, IN_A).prefers(30, IN_B)) == {"n1": 10, "n2": 30, "n3": 0}
        assert bench.score(made, pod().prefers(10, IN_A).prefers(5, SSD)) == {"n1": 15, "n2": 0, "n3": 0}

    def test_added_preferences_count_for_every_pod(self, bench: PluginBench) -> None:
        preferred = (PreferredSchedulingTerm(weight=7, preference=NodeSelectorTerm((SSD,))),)
        made = plugin(bench, NodeAffinitySpec(preferred_during_scheduling_ignored_during_execution=preferred))
        assert bench.score(made, pod()) == {"n1": 7, "n2": 0, "n3": 0}
        assert bench.score(made, pod().prefers(1, IN_B)) == {"n1": 7, "n2": 1, "n3": 0}

    def test_without_preferences_it_skips(self, bench: PluginBench) -> None:
        assert bench.score(plugin(bench), pod().requires(IN_A)) is None

    def test_empty_terms_and_weight_zero_do_not_count(self, bench: PluginBench) -> None:
        assert bench.score(plugin(bench), pod().prefers(5).prefers(0, IN_A).prefers(1, IN_B)) == {"n1": 0, "n2": 1, "n3": 0}

    def test_a_preference_that_cannot_be_understood_fails_the_cycle(self, bench: PluginBench) -> None:
        made, odd = plugin(bench), pod().prefers(1, IN_A).prefers(1, requirement("cores", "Gt", "many"))
        status = made.pre_score(CycleState(), odd.info(), bench.cache.nodes())
        assert status == error("[1].matchExpressions[0].values: exactly one integer is required with Gt")


class TestSignature:
    def test_pods_that_ask_alike_are_alike(self, bench: PluginBench) -> None:
        made = plugin(bench)
        assert made.sign(pod("a").requires(IN_A).info()) == made.sign(pod("b").requires(IN_A).info())
        signatures = [
            made.sign(each.info())
            for each in (pod(), pod().node_selector({"zone": "a"}), pod().requires(IN_A), pod().requires(IN_B), pod().prefers(1, IN_A))
        ]
        assert len(set(signatures)) == 5


class TestHints:
    def test_it_listens_to_new_nodes_and_labels(self, bench: PluginBench) -> None:
        (event,) = registered(plugin(bench))
        assert (event.event.resource, event.event.action) == (EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (None, node().label("zone", "a"), QueueingHint.QUEUE),
            (None, node().label("zone", "b"), QueueingHint.SKIP),
            (node(), node().label("zone", "a"), QueueingHint.QUEUE),
            (node().label("zone", "a"), node().label("zone", "a").label("x", "y"), QueueingHint.SKIP),
            (node().label("zone", "a"), node(), QueueingHint.SKIP),
        ],
    )
    def test_a_node_helps_when_it_matches_now_and_did_not_before(
        self, bench: PluginBench, old: NodeBuilder | None, new: NodeBuilder, expected: QueueingHint
    ) -> None:
        assert hint(plugin(bench), 0, pod().requires(IN_A), old.build() if old else None, new.build()) is expected

    def test_the_added_affinity_must_match_too_and_may_be_what_changed(self, bench: PluginBench) -> None:
        made = plugin(bench, added_required(SSD))
        in_a = node().label("zone", "a")
        assert hint(made, 0, pod().requires(IN_A), None, in_a.build()) is QueueingHint.SKIP
        assert hint(made, 0, pod().requires(IN_A), in_a.build(), in_a.label("disk", "ssd").build()) is QueueingHint.QUEUE
