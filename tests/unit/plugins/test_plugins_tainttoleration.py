"""TaintToleration: framework.md §10.1, hints of §3.5; the compiled tolerations that it shares with others."""

from __future__ import annotations

import pytest
from support.builders import NodeBuilder, node, pod
from support.plugins import PluginBench, hint, registered

from koordsched.api.core import Taint, Toleration
from koordsched.cache.nodes import Nodes
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import Normalize
from koordsched.framework.status import unresolvable
from koordsched.framework.tolerations import Tolerances, first_untolerated
from koordsched.plugins.tainttoleration.plugin import TaintToleration
from koordsched.queue.events import ActionType, EventResource, QueueingHint

REFUSAL = unresolvable("node(s) had untolerated taint(s)")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="dedicated", operator="Equal", value="infra", effect="NoSchedule"), True),
        (Toleration(key="dedicated", value="infra"), True),
        (Toleration(key="dedicated", value="other"), False),
        (Toleration(key="other", value="infra"), False),
        (Toleration(key="dedicated", operator="Exists"), True),
        (Toleration(key="dedicated", operator="Exists", effect="NoExecute"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect="NoSchedule"), True),
        (Toleration(value="infra"), True),  # an empty key with Equal compares values only
        (Toleration(), False),
        (Toleration(key="dedicated", operator="Gt", value="1"), False),  # its gate is off
        (Toleration(key="dedicated", operator="exists"), False),
    ],
)
def test_key_operator_value_and_effect_decide(toleration: Toleration, expected: bool) -> None:
    taint = Taint(key="dedicated", value="infra", effect="NoSchedule")
    assert (first_untolerated([taint], [toleration]) is None) is expected
    bench = PluginBench(node("n").taint("dedicated", "NoSchedule", "infra"))
    spec = pod().tolerates(toleration.key, toleration.value, toleration.effect, toleration.operator)
    assert bench.passing(TaintToleration(bench), spec) == (["n"] if expected else [])


def test_no_schedule_and_no_execute_refuse_and_prefer_no_schedule_does_not() -> None:
    bench = PluginBench(*(node(effect).taint("k", effect) for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule", "Unheard")))
    assert bench.filter(TaintToleration(bench), pod()) == {
        "NoSchedule": REFUSAL,
        "NoExecute": REFUSAL,
        "PreferNoSchedule": None,
        "Unheard": None,
    }


@pytest.mark.parametrize(("effect", "scored"), [("NoSchedule", False), ("NoExecute", False), ("PreferNoSchedule", True)])
def test_nodes_are_scored_only_where_a_taint_repels(effect: str, scored: bool) -> None:
    bench = PluginBench(node("tainted").taint("k", effect), node("free"))
    plugin, pod_info = TaintToleration(bench), pod().info()
    assert (plugin.score_nodes(CycleState(), pod_info, bench.cache.nodes()) is not None) is scored


def test_every_taint_of_a_node_has_to_be_tolerated() -> None:
    bench = PluginBench(node("two").taint("a", "NoSchedule").taint("b", "NoExecute"))
    plugin = TaintToleration(bench)
    assert bench.passing(plugin, pod().tolerates(key="a", operator="Exists")) == []
    assert bench.passing(plugin, pod().tolerates(key="a", operator="Exists").tolerates(key="b", operator="Exists")) == ["two"]


def test_a_cordon_is_none_of_its_business() -> None:
    bench = PluginBench(node("closed").cordoned())
    assert bench.passing(TaintToleration(bench), pod()) == ["closed"]


def test_the_code_names_the_first_taint_that_is_not_tolerated() -> None:
    bench = PluginBench(node("n").taint("a", "PreferNoSchedule").taint("b", "NoSchedule").taint("c", "NoExecute", "x"))
    plugin, nodes = TaintToleration(bench), bench.cache.nodes()
    codes = [int(plugin.filter_nodes(CycleState(), spec.info(), nodes)[0]) for spec in (pod(), pod().tolerates(key="b", operator="Exists"))]
    assert [plugin.taint(code) for code in codes] == [Taint(key="b", effect="NoSchedule"), Taint(key="c", effect="NoExecute", value="x")]


def test_taints_that_appear_while_the_state_of_a_shape_is_kept_are_seen() -> None:
    bench = PluginBench(node("n"))
    plugin, state = TaintToleration(bench), CycleState()
    assert bench.filter(plugin, pod(), state) == {"n": None}
    bench.set(node("n").taint("new", "NoSchedule"))
    assert bench.filter(plugin, pod(), state) == {"n": REFUSAL}
    bench.set(node("n").taint("newer", "PreferNoSchedule"))
    assert bench.score(plugin, pod(), state) == {"n": 1}


def test_the_score_counts_untolerated_prefer_no_schedule_taints() -> None:
    both = node("both").taint("a", "PreferNoSchedule").taint("b", "PreferNoSchedule").taint("c", "NoSchedule")
    bench = PluginBench(node("none"), node("one").taint("a", "PreferNoSchedule"), both)
    plugin = TaintToleration(bench)
    assert plugin.normalize is Normalize.DEFAULT_REVERSE
    assert bench.score(plugin, pod()) == {"none": 0, "one": 1, "both": 2}
    assert bench.score(plugin, pod().tolerates(key="a", operator="Exists")) == {"none": 0, "one": 0, "both": 1}
    assert bench.score(plugin, pod().tolerates(key="a", operator="Exists", effect="NoSchedule")) == {"none": 0, "one": 1, "both": 2}


def test_pods_with_equal_tolerations_are_alike() -> None:
    bench = PluginBench()
    plugin = TaintToleration(bench)
    assert plugin.sign(pod("a").tolerates(key="x").info()) == plugin.sign(pod("b").tolerates(key="x").info())
    assert plugin.sign(pod("a").tolerates(key="x").info()) != plugin.sign(pod("a").tolerates(key="y").info())


def test_the_first_refusing_taint_in_node_order_is_returned() -> None:
    taints = (Taint(key="p", effect="PreferNoSchedule"), Taint(key="a", effect="NoSchedule"), Taint(key="b", effect="NoExecute"))
    assert first_untolerated(taints, ()) == taints[1]
    assert first_untolerated(taints, (Toleration(key="a", operator="Exists"),)) == taints[2]
    assert first_untolerated(taints, (Toleration(operator="Exists"),)) is None


class TestHints:
    def test_it_listens_to_new_nodes_taints_and_tolerations(self) -> None:
        assert [(r.event.resource, r.event.action) for r in registered(TaintToleration(PluginBench()))] == [
            (EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT),
            (EventResource.POD, ActionType.UPDATE_POD_TOLERATION),
        ]

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (None, node(), QueueingHint.QUEUE),
            (None, node().taint("a", "NoSchedule"), QueueingHint.SKIP),
            (None, node().taint("tolerated", "NoSchedule"), QueueingHint.QUEUE),
            (node().taint("a", "NoExecute"), node(), QueueingHint.QUEUE),
            (node().taint("a", "NoSchedule"), node().taint("tolerated", "NoSchedule"), QueueingHint.QUEUE),
            (node(), node().taint("a", "PreferNoSchedule"), QueueingHint.SKIP),
            (node(), node().taint("a", "NoSchedule"), QueueingHint.SKIP),
            (node().taint("a", "NoSchedule"), node().taint("b", "NoSchedule"), QueueingHint.SKIP),
        ],
    )
    def test_a_node_helps_when_it_is_tolerated_now_and_was_not_before(
        self, old: NodeBuilder | None, new: NodeBuilder, expected: QueueingHint
    ) -> None:
        waiting = pod().tolerates(key="tolerated", operator="Exists")
        plugin = TaintToleration(PluginBench())
        assert hint(plugin, 0, waiting, old.build() if old else None, new.build()) is expected

    def test_any_new_toleration_of_the_pod_itself_helps(self) -> None:
        plugin = TaintToleration(PluginBench())
        tolerant = pod("a").tolerates(key="x").build()
        assert hint(plugin, 1, pod("a"), pod("a").build(), tolerant) is QueueingHint.QUEUE
        assert hint(plugin, 1, pod("b"), pod("a").build(), tolerant) is QueueingHint.SKIP


def test_a_part_of_the_rows_is_answered_in_their_order() -> None:
    bench = PluginBench(node("a").taint("k", "NoSchedule"), node("b"), node("c").taint("k", "NoSchedule"))
    nodes: Nodes = bench.cache.nodes()
    part = nodes.select(nodes.rows[[2, 1]])
    assert (TaintToleration(bench).filter_nodes(CycleState(), pod().info(), part) > 0).tolist() == [True, False]


def test_each_new_taint_makes_what_was_compiled_outdated() -> None:
    bench = PluginBench(node("n").taint("a", "NoSchedule"))
    tolerances = bench.cache.columns.shared.find(Tolerances) or Tolerances(bench.columns)
    versions = []
    for key in ("b", "c", "d"):
        tolerances.refresh()
        versions.append(tolerances.version)
        bench.cache.set_node(node(f"n-{key}").taint(key, "NoSchedule").build())
    tolerances.refresh()
    versions.append(tolerances.version)
    assert len(set(versions)) == 4
    tolerances.refresh()
    assert tolerances.version == versions[-1], "nothing has changed"
