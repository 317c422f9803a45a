"""NodePorts: framework.md §10.3, §13 line 24, hints of §3.5."""

from __future__ import annotations

import pytest
from support.builders import PodBuilder, node, pod
from support.plugins import PluginBench, hint, registered

from koordsched.framework.cycle_state import CycleState
from koordsched.framework.status import SKIP, unschedulable
from koordsched.plugins.nodeports.plugin import NodePorts
from koordsched.queue.events import ActionType, EventResource, QueueingHint

REFUSAL = unschedulable("node(s) didn't have free ports for the requested pod ports")


def test_a_pod_without_host_ports_skips() -> None:
    assert PluginBench(node()).pre_filter(NodePorts(), pod()) is SKIP
    assert PluginBench(node()).pre_filter(NodePorts(), pod().host_port(80)) is None


@pytest.mark.parametrize(
    ("wanted", "free"),
    [
        (pod().host_port(80), False),
        (pod().host_port(80, "TCP", "0.0.0.0"), False),
        (pod().host_port(80, "TCP", "10.1.2.3"), False),
        (pod().host_port(80, "UDP"), True),
        (pod().host_port(81), True),
        (pod().host_port(81).host_port(80), False),
    ],
)
def test_a_port_taken_on_all_ips_is_taken_on_each(wanted: PodBuilder, free: bool) -> None:
    bench = PluginBench(node("taken"), node("empty"))
    bench.put(pod("web").host_port(80), "taken")
    assert bench.filter(NodePorts(), wanted) == {"taken": None if free else REFUSAL, "empty": None}


@pytest.mark.parametrize(("ip", "free"), [("", False), ("10.0.0.1", False), ("10.0.0.2", True)])
def test_a_port_taken_on_one_ip_is_free_on_others(ip: str, free: bool) -> None:
    bench = PluginBench(node("n"))
    bench.put(pod("web").host_port(80, host_ip="10.0.0.1"), "n")
    assert bool(bench.passing(NodePorts(), pod().host_port(80, host_ip=ip))) is free


def test_a_port_is_free_again_when_the_last_of_its_users_is_gone() -> None:
    bench = PluginBench(node("n"))
    bench.put(pod("one").host_port(80), "n")
    bench.put(pod("two").host_port(80), "n")
    bench.cache.remove_pod("uid-default-one")
    assert bench.passing(NodePorts(), pod().host_port(80)) == []
    bench.cache.remove_pod("uid-default-two")
    assert bench.passing(NodePorts(), pod().host_port(80)) == ["n"]
    assert len(bench.columns.host_ports) == 0


def test_a_column_that_is_used_again_for_another_port_is_not_mixed_up() -> None:
    bench, plugin, state = PluginBench(node("n")), NodePorts(), CycleState()
    bench.put(pod("one").host_port(80), "n")
    assert bench.filter(plugin, pod().host_port(80), state) == {"n": REFUSAL}
    bench.cache.remove_pod("uid-default-one")
    bench.put(pod("two").host_port(81), "n")
    assert bench.filter(plugin, pod().host_port(80), state) == {"n": None}


class TestHints:
    def test_it_listens_to_deleted_pods_and_new_nodes(self) -> None:
        deleted, added = registered(NodePorts())
        assert (deleted.event.resource, deleted.event.action) == (EventResource.POD, ActionType.DELETE)
        assert (added.event.resource, added.event.action, added.hint) == (EventResource.NODE, ActionType.ADD, None)

    @pytest.mark.parametrize(
        ("gone", "expected"),
        [
            (pod("x").host_port(80).on("n"), QueueingHint.QUEUE),
            (pod("x").host_port(80).nominated("n"), QueueingHint.QUEUE),
            (pod("x").host_port(80, host_ip="10.0.0.1").on("n"), QueueingHint.QUEUE),
            (pod("x").host_port(80), QueueingHint.SKIP),
            (pod("x").host_port(81).on("n"), QueueingHint.SKIP),
            (pod("x").host_port(80, "UDP").on("n"), QueueingHint.SKIP),
            (pod("x").on("n"), QueueingHint.SKIP),
        ],
    )
    def test_a_pod_that_is_gone_helps_when_it_had_a_port_in_conflict(self, gone: PodBuilder, expected: QueueingHint) -> None:
        assert hint(NodePorts(), 0, pod().host_port(80), gone.build(), None) is expected
