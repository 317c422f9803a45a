"""EvictionWatcher: when a victim counts as leaving."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from support.builders import node, pod

from koordsched.api.core import Pod
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.framework.preemption.eviction import EvictionWatcher

UID = "uid-default-victim"


def victim(grace: int | None, **meta: Any) -> Pod:
    made = pod("victim").on("n1").build()
    spec = replace(made.spec, termination_grace_period_seconds=grace)
    return replace(made, spec=spec, metadata=replace(made.metadata, **meta))


def with_victim(grace: int | None) -> Cache:
    cache = Cache()
    cache.set_node(node("n1").cpu("4").build())
    cache.set_pod(PodInfo(victim(grace), counted_on_node=True), "n1")
    return cache


@pytest.mark.parametrize(
    ("grace", "finalizers", "leaves"), [(30, (), True), (None, (), True), (0, (), False), (0, ("example.com/keep",), True)]
)
def test_a_terminating_pod_leaves_unless_it_will_be_gone_at_once(grace: int | None, finalizers: tuple[str, ...], leaves: bool) -> None:
    cache = with_victim(grace)
    watcher = EvictionWatcher(cache)
    assert not watcher.is_leaving(UID)
    terminating = victim(grace, deletion_timestamp="2026-01-01T00:00:00Z", finalizers=finalizers)
    cache.set_pod(PodInfo(terminating, counted_on_node=True), "n1")
    assert watcher.is_leaving(UID) == leaves
    cache.remove_pod(UID)
    assert watcher.is_leaving(UID)


async def test_all_tasks_that_wait_for_a_pod_go_on_when_it_leaves_but_not_in_a_simulation() -> None:
    cache = with_victim(30)
    watcher = EvictionWatcher(cache)
    waiting = [asyncio.ensure_future(watcher.leaving(UID)) for _ in range(2)]
    await asyncio.sleep(0)
    info = cache.nodes_by_name["n1"]
    with cache.simulate(info, remove=list(info.pods.values())):
        pass
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    cache.remove_pod(UID)
    await asyncio.gather(*waiting)
