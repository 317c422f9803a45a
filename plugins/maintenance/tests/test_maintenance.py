"""Maintenance, one call at a time; what a cluster sees of it is in scenarios/."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from koordsched.api.core import Node, Pod
from koordsched.api.meta import ObjectMeta
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.cluster.object_store import Arrival, FinalState
from koordsched.cluster.port import NotFound
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.handle import Handle
from koordsched.framework.plugin_metrics import PluginMetrics
from koordsched.queue.events import QueueingHint

from koordsched_maintenance.plugin import UNDER_MAINTENANCE, Maintenance
from koordsched_maintenance.windows import POOL, MaintenanceWindow, WindowSpec, WindowStatus


class Bench:
    """A handle of which the plugin's handlers are called by hand."""

    def __init__(self) -> None:
        self.cache, self.metrics, self.cluster = Cache(), PluginMetrics([]), self
        self.handlers: dict[str, Any] = {}
        self.patches: list[tuple[str, object]] = []
        self.missing = False
        self.plugin = Maintenance(None, cast("Handle", self))

    def informer(self, kind: Any) -> Any:
        return SimpleNamespace(add_handler=lambda handler: self.handlers.update({kind.kind: handler}))

    async def patch(self, ref: Any, patch: Any) -> None:
        if self.missing:
            raise NotFound(ref.name)
        self.patches.append((ref.name, patch.body))

    def window(self, name: str, pool: str, nodes: int | None = None) -> None:
        made = MaintenanceWindow(metadata=ObjectMeta(name=name), spec=WindowSpec(pool=pool), status=WindowStatus(nodes=nodes))
        self.handlers["MaintenanceWindow"].on_add(made, Arrival.LATER)

    def node(self, name: str, pool: str) -> Node:
        made = node(name, pool)
        self.handlers["Node"].on_add(made, Arrival.LATER)
        self.cache.set_node(made)
        return made


def node(name: str, pool: str) -> Node:
    return Node(metadata=ObjectMeta(name=name, labels={POOL: pool} if pool else {}))


def pod() -> PodInfo:
    return PodInfo(Pod(metadata=ObjectMeta(name="p", namespace="d", uid="u")))


def test_nodes_of_a_pool_with_a_window_refuse_and_the_version_says_when_that_changes() -> None:
    bench = Bench()
    bench.node("a", "a")
    info = bench.cache.nodes_by_name["a"]
    versions = [bench.plugin.version(pod())]
    assert bench.plugin.filter(CycleState(), pod(), info) is None
    bench.window("w", "a")
    versions.append(bench.plugin.version(pod()))
    assert bench.plugin.filter(CycleState(), pod(), info) is UNDER_MAINTENANCE
    bench.window("w", "a", nodes=1)  # its status alone
    assert bench.plugin.version(pod()) == versions[-1]
    bench.handlers["MaintenanceWindow"].on_delete(bench.plugin.windows.by_name["w"], FinalState.KNOWN)
    versions.append(bench.plugin.version(pod()))
    assert bench.plugin.filter(CycleState(), pod(), info) is None
    assert len(set(versions)) == 3


def test_two_profiles_share_one_state_and_one_counter() -> None:
    bench = Bench()
    other = Maintenance(None, cast("Handle", bench))
    assert other.windows is bench.plugin.windows


def test_the_status_is_written_when_it_says_something_else() -> None:
    bench = Bench()
    bench.window("w", "a")
    bench.node("a1", "a")
    bench.node("a2", "a")
    bench.node("a2", "a")  # a change may be reported twice
    bench.node("b", "b")
    asyncio.run(bench.plugin.windows.write_status("w"))
    bench.window("w", "a", nodes=2)
    asyncio.run(bench.plugin.windows.write_status("w"))
    asyncio.run(bench.plugin.windows.write_status("gone"))
    assert bench.patches == [("w", {"status": {"nodes": 2}})]
    bench.handlers["Node"].on_update(node("a1", "a"), node("a1", ""))
    bench.missing = True
    asyncio.run(bench.plugin.windows.write_status("w"))
    assert bench.plugin.windows.sizes() == {"w": 1}


def test_the_routes_show_windows() -> None:
    bench = Bench()
    bench.window("w", "a")
    bench.node("a", "a")
    every, one = bench.plugin.routes()
    assert every.answer({}).body == {"w": 1}
    assert one.answer({"name": "w"}).body == {"pool": "a", "nodes": 1}
    assert one.answer({"name": "x"}).status == 404


@pytest.mark.parametrize(("pool", "hint"), [("a", QueueingHint.SKIP), ("b", QueueingHint.QUEUE)])
def test_a_node_that_is_not_under_maintenance_moves_the_pod(pool: str, hint: QueueingHint) -> None:
    bench = Bench()
    bench.window("w", "a")
    after_node_change = bench.plugin.events_to_register()[2].hint
    assert after_node_change is not None
    assert after_node_change(pod(), None, node("n", pool)) is hint


@pytest.mark.parametrize(("pool", "hint"), [("a", QueueingHint.SKIP), ("b", QueueingHint.QUEUE)])
def test_a_window_that_covers_another_pool_now_moves_the_pod_and_one_whose_status_changed_does_not(pool: str, hint: QueueingHint) -> None:
    after_window_change = Bench().plugin.events_to_register()[1].hint
    assert after_window_change is not None
    old = MaintenanceWindow(spec=WindowSpec(pool="a"))
    assert after_window_change(pod(), old, MaintenanceWindow(spec=WindowSpec(pool=pool), status=WindowStatus(nodes=1))) is hint
