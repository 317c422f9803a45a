"""SchedulingGates, PrioritySort, NodeName, NodeUnschedulable: framework.md §10.1 and their hints in §3.5."""

from __future__ import annotations

import pytest
from support.builders import node, pod
from support.plugins import PluginBench, hint, registered

from koordsched.framework.status import unresolvable
from koordsched.plugins.nodename.plugin import NodeName
from koordsched.plugins.nodeunschedulable.plugin import NodeUnschedulable
from koordsched.plugins.prioritysort.plugin import PrioritySort
from koordsched.plugins.schedulinggates.plugin import SchedulingGates
from koordsched.queue.events import ActionType, EventResource, QueueingHint
from koordsched.queue.queued_pod import QueuedPodInfo

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


class TestSchedulingGates:
    def test_a_pod_with_gates_waits_and_the_message_lists_them(self) -> None:
        status = SchedulingGates().pre_enqueue(pod().gate("a").gate("b").info())
        assert status == unresolvable("waiting for scheduling gates: [a b]")

    def test_a_pod_without_gates_enters(self) -> None:
        assert SchedulingGates().pre_enqueue(pod().info()) is None

    def test_only_the_end_of_its_own_gates_helps_a_pod(self) -> None:
        plugin = SchedulingGates()
        assert [(r.event.resource, r.event.action) for r in registered(plugin)] == [
            (EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        ]
        own, other = pod("a"), pod("b")
        assert hint(plugin, 0, own.gate("x"), own.gate("x").build(), own.build()) is QueueingHint.QUEUE
        assert hint(plugin, 0, own.gate("x"), other.gate("x").build(), other.build()) is QueueingHint.SKIP

    def test_pods_with_different_gates_have_different_signatures(self) -> None:
        assert SchedulingGates().sign(pod().gate("a").info()) != SchedulingGates().sign(pod().gate("b").info())


class TestPrioritySort:
    def test_higher_priority_comes_first_then_earlier_timestamp(self) -> None:
        queued = {
            "late": QueuedPodInfo(pod("late").priority(5).info(), now=20.0),
            "early": QueuedPodInfo(pod("early").priority(5).info(), now=10.0),
            "none": QueuedPodInfo(pod("none").info(), now=1.0),
            "high": QueuedPodInfo(pod("high").priority(2_000_000_000).info(), now=30.0),
            "negative": QueuedPodInfo(pod("negative").priority(-1).info(), now=0.0),
        }
        assert sorted(queued, key=lambda name: PrioritySort().sort_key(queued[name])) == ["high", "early", "late", "none", "negative"]


class TestNodeName:
    def test_a_pod_that_names_a_node_goes_nowhere_else(self) -> None:
        bench = PluginBench(node("n1"), node("n2"))
        assert bench.filter(NodeName(), pod().on("n2")) == {
            "n1": unresolvable("node(s) didn't match the requested node name"),
            "n2": None,
        }

    def test_a_pod_that_names_none_goes_anywhere(self) -> None:
        assert PluginBench(node("n1"), node("n2")).passing(NodeName(), pod()) == ["n1", "n2"]

    def test_a_node_that_comes_after_the_first_try_is_found(self) -> None:
        bench = PluginBench(node("n1"))
        assert bench.passing(NodeName(), pod().on("n2")) == []
        bench.set(node("n2"))
        assert bench.passing(NodeName(), pod().on("n2")) == ["n2"]

    def test_every_new_node_retries_the_pod(self) -> None:
        (event,) = registered(NodeName())
        assert (event.event.resource, event.event.action, event.hint) == (EventResource.NODE, ActionType.ADD, None)


class TestNodeUnschedulable:
    @pytest.fixture
    def bench(self) -> PluginBench:
        return PluginBench(node("open"), node("closed").cordoned(), node("tainted").taint(UNSCHEDULABLE, "NoSchedule"))

    def test_a_cordoned_node_is_refused(self, bench: PluginBench) -> None:
        refusal = unresolvable("node(s) were unschedulable")
        assert bench.filter(NodeUnschedulable(bench), pod()) == {"open": None, "closed": refusal, "tainted": None}

    @pytest.mark.parametrize("toleration", [{"key": UNSCHEDULABLE, "operator": "Exists"}, {"operator": "Exists"}, {"key": UNSCHEDULABLE}])
    def test_a_pod_that_tolerates_the_taint_of_a_cordon_may_go_there(self, bench: PluginBench, toleration: dict[str, str]) -> None:
        assert bench.passing(NodeUnschedulable(bench), pod().tolerates(**toleration)) == ["open", "closed", "tainted"]

    def test_another_effect_does_not_tolerate_it(self, bench: PluginBench) -> None:
        tolerant = pod().tolerates(key=UNSCHEDULABLE, operator="Exists", effect="NoExecute")
        assert "closed" not in bench.passing(NodeUnschedulable(bench), tolerant)

    def test_a_new_node_helps_when_it_is_open(self, bench: PluginBench) -> None:
        plugin = NodeUnschedulable(bench)
        assert hint(plugin, 0, pod(), None, node().build()) is QueueingHint.QUEUE
        assert hint(plugin, 0, pod(), None, node().cordoned().build()) is QueueingHint.SKIP

    def test_a_node_helps_when_its_cordon_goes(self, bench: PluginBench) -> None:
        plugin = NodeUnschedulable(bench)
        assert hint(plugin, 0, pod(), node().cordoned().build(), node().build()) is QueueingHint.QUEUE
        assert hint(plugin, 0, pod(), node().build(), node().taint("a", "NoSchedule").build()) is QueueingHint.SKIP
        assert hint(plugin, 0, pod(), node().cordoned().build(), node().cordoned().build()) is QueueingHint.SKIP

    def test_the_pod_itself_helps_when_it_tolerates_cordons_now(self, bench: PluginBench) -> None:
        plugin = NodeUnschedulable(bench)
        tolerant = pod("a").tolerates(key=UNSCHEDULABLE, operator="Exists")
        assert hint(plugin, 1, pod("a"), pod("a").build(), tolerant.build()) is QueueingHint.QUEUE
        assert hint(plugin, 1, pod("a"), pod("a").build(), pod("a").tolerates(key="x").build()) is QueueingHint.SKIP
        assert hint(plugin, 1, pod("b"), pod("a").build(), tolerant.build()) is QueueingHint.SKIP
