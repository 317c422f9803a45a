"""Watching the embedded cluster: what is reported, in which batches, and how a watch ends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from support.manifests import pod_manifest
from support.virtual_loop import running, settle

from koordsched.api.core import Pod
from koordsched.api.kinds import CONFIG_MAP, DEVICE, POD
from koordsched.cluster.memory import MemoryCluster, MemoryClusterOptions
from koordsched.cluster.port import Binding, Gone, Invalid, NotFound, Patch, Ref, ServerError, WatchEvent, WatchEventType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koordsched.api.kinds import Kind
    from koordsched.clock import VirtualClock

PHASES = "status.phase!=Succeeded,status.phase!=Failed"


class Watcher:
    """Collects what one watch yields, until it ends or fails."""

    def __init__(self, cluster: MemoryCluster, kind: Kind, version: str, selector: str = "") -> None:
        self.batches: list[list[WatchEvent]] = []
        self._watch = cluster.watch(kind, resource_version=version, field_selector=selector)

    async def run(self) -> None:
        async with aclosing(self._watch):
            async for batch in self._watch:
                self.batches.append(list(batch))

    def reported(self) -> list[tuple[str, str]]:
        return [(event.type.value, event.object.metadata.name) for batch in self.batches for event in batch]


async def watch_while(cluster: MemoryCluster, kind: Kind, changes: Callable[[], Awaitable[None]], selector: str = "") -> Watcher:
    """Watch from now on, make the changes, and return what was reported of them."""
    watcher = Watcher(cluster, kind, cluster.resource_version, selector)
    async with running(watcher.run()):
        await settle()
        await changes()
        await settle()
    return watcher


async def create(cluster: MemoryCluster, kind: Kind, name: str, **body: Any) -> None:
    await cluster.create(kind, pod_manifest(name, **body) if kind == POD else {"metadata": {"name": name}, **body})


async def test_a_watch_reports_every_change_in_order(cluster: MemoryCluster) -> None:
    async def changes() -> None:
        await create(cluster, CONFIG_MAP, "a")
        await cluster.patch(Ref(CONFIG_MAP, "default", "a"), Patch({"data": {"k": "v"}}))
        await create(cluster, CONFIG_MAP, "b")
        await cluster.delete(Ref(CONFIG_MAP, "default", "a"))

    watcher = await watch_while(cluster, CONFIG_MAP, changes)
    assert watcher.reported() == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert len(watcher.batches) == 1  # nothing waited in between, so the watch read all at once
    versions = [int(event.object.metadata.resource_version) for event in watcher.batches[0]]
    assert versions == sorted(set(versions))


async def test_a_watch_goes_on_from_a_version(cluster: MemoryCluster) -> None:
    await create(cluster, CONFIG_MAP, "a")
    version = cluster.resource_version
    await create(cluster, CONFIG_MAP, "b")
    watcher = Watcher(cluster, CONFIG_MAP, version)
    async with running(watcher.run()):
        await settle()
    assert watcher.reported() == [("ADDED", "b")]


async def test_other_kinds_are_not_reported(cluster: MemoryCluster) -> None:
    watcher = await watch_while(cluster, CONFIG_MAP, lambda: create(cluster, DEVICE, "d"))
    assert watcher.batches == []


async def test_an_event_carries_the_state_at_its_time(cluster: MemoryCluster) -> None:
    async def changes() -> None:
        await create(cluster, POD, "p")
        await cluster.bind(Binding("default", "p", "", "n1"))

    watcher = await watch_while(cluster, POD, changes)
    pods = [event.object for batch in watcher.batches for event in batch]
    assert [pod.spec.node_name for pod in pods if isinstance(pod, Pod)] == ["", "n1"]


async def test_a_deleted_object_comes_with_its_last_state_at_the_version_of_the_deletion(cluster: MemoryCluster) -> None:
    await create(cluster, CONFIG_MAP, "a")
    watcher = await watch_while(cluster, CONFIG_MAP, lambda: cluster.delete(Ref(CONFIG_MAP, "default", "a")))
    (event,) = watcher.batches[0]
    assert event.object.metadata.resource_version == cluster.resource_version
    assert event.object.metadata.uid != ""


async def test_removing_the_last_finalizer_is_one_deletion(cluster: MemoryCluster) -> None:
    await cluster.create(DEVICE, {"metadata": {"name": "d", "finalizers": ["a"]}})
    ref = Ref(DEVICE, "", "d")

    async def changes() -> None:
        await cluster.delete(ref)
        await cluster.patch(ref, Patch({"metadata": {"finalizers": None}}))

    watcher = await watch_while(cluster, DEVICE, changes)
    assert watcher.reported() == [("MODIFIED", "d"), ("DELETED", "d")]
    assert watcher.batches[0][-1].object.metadata.finalizers == ()


async def test_an_object_that_leaves_the_selector_is_deleted_as_last_seen(cluster: MemoryCluster) -> None:
    await create(cluster, POD, "p")
    patch = Patch({"status": {"phase": "Succeeded"}}, subresource="status")
    watcher = await watch_while(cluster, POD, lambda: _ignore(cluster.patch(Ref(POD, "default", "p"), patch)), PHASES)
    (event,) = watcher.batches[0]
    assert event.type is WatchEventType.DELETED
    assert isinstance(event.object, Pod)
    assert event.object.status.phase == "Pending"
    assert event.object.metadata.resource_version == cluster.resource_version


async def test_an_object_that_enters_the_selector_is_added(cluster: MemoryCluster) -> None:
    await create(cluster, POD, "p")
    watcher = await watch_while(cluster, POD, lambda: cluster.bind(Binding("default", "p", "", "n1")), "spec.nodeName=n1")
    assert watcher.reported() == [("ADDED", "p")]


async def test_watches_with_different_selectors_do_not_mix(cluster: MemoryCluster) -> None:
    selectors = ("spec.nodeName=n1", "spec.nodeName=n2", "")
    watchers = [Watcher(cluster, POD, cluster.resource_version, selector) for selector in selectors]
    async with running(*(watcher.run() for watcher in watchers)):
        await settle()
        await create(cluster, POD, "p")
        await cluster.bind(Binding("default", "p", "", "n1"))
        await cluster.delete(Ref(POD, "default", "p"))
        await settle()
    assert [watcher.reported() for watcher in watchers] == [
        [("ADDED", "p"), ("DELETED", "p")],
        [],
        [("ADDED", "p"), ("MODIFIED", "p"), ("DELETED", "p")],
    ]


async def test_changes_outside_the_selector_are_not_reported(cluster: MemoryCluster) -> None:
    async def changes() -> None:
        await create(cluster, POD, "done", status={"phase": "Failed"})
        await cluster.delete(Ref(POD, "default", "done"))

    assert (await watch_while(cluster, POD, changes, PHASES)).batches == []


async def test_every_watch_gets_the_event(cluster: MemoryCluster) -> None:
    watchers = [Watcher(cluster, CONFIG_MAP, cluster.resource_version) for _ in range(3)]
    async with running(*(watcher.run() for watcher in watchers)):
        await settle()
        await create(cluster, CONFIG_MAP, "a")
        await settle()
    assert [watcher.reported() for watcher in watchers] == [[("ADDED", "a")]] * 3


async def test_bookmarks_come_every_minute_and_carry_the_present_version(cluster: MemoryCluster) -> None:
    watcher = Watcher(cluster, CONFIG_MAP, cluster.resource_version)
    async with running(watcher.run()):
        await settle()
        await create(cluster, DEVICE, "d")
        await asyncio.sleep(125)
    assert [[event.type for event in batch] for batch in watcher.batches] == [[WatchEventType.BOOKMARK]] * 2
    assert watcher.batches[0][0].object.metadata.resource_version == cluster.resource_version


async def test_the_server_ends_a_watch_after_some_minutes_with_a_bookmark(clock: VirtualClock) -> None:
    cluster = MemoryCluster(clock, random=Random(1), options=MemoryClusterOptions(bookmark_interval=1000, watch_seconds=(30, 40)))
    begun = clock.now()
    watcher = Watcher(cluster, CONFIG_MAP, cluster.resource_version)
    await watcher.run()
    assert 30 <= clock.now() - begun <= 40
    assert [event.type for event in watcher.batches[-1]] == [WatchEventType.BOOKMARK]


async def test_history_has_an_end(clock: VirtualClock) -> None:
    cluster = MemoryCluster(clock, random=Random(1), options=MemoryClusterOptions(history=3))
    begin = cluster.resource_version
    for number in range(6):
        await create(cluster, DEVICE, f"d{number}")
    with pytest.raises(Gone, match=rf"^too old resource version: {begin} \("):
        await Watcher(cluster, DEVICE, begin).run()
    recent = Watcher(cluster, DEVICE, str(int(cluster.resource_version) - 3))
    async with running(recent.run()):
        await settle()
    assert recent.reported() == [("ADDED", "d3"), ("ADDED", "d4"), ("ADDED", "d5")]


async def test_a_watcher_that_falls_behind_history_ends_with_gone(clock: VirtualClock) -> None:
    cluster = MemoryCluster(clock, random=Random(1), options=MemoryClusterOptions(history=2))
    watch = cluster.watch(DEVICE, resource_version=cluster.resource_version)
    await create(cluster, DEVICE, "d")
    async with aclosing(watch):
        assert len(await anext(watch)) == 1
        for number in range(5):
            await create(cluster, DEVICE, f"d{number}")
        with pytest.raises(Gone):
            await anext(watch)


async def test_a_compaction_hurts_only_those_who_are_behind(cluster: MemoryCluster) -> None:
    version = cluster.resource_version
    current = Watcher(cluster, DEVICE, version)
    async with running(current.run()):
        await settle()
        await create(cluster, DEVICE, "a")
        await settle()
        cluster.compact()
        await create(cluster, DEVICE, "b")
        await settle()
    assert current.reported() == [("ADDED", "a"), ("ADDED", "b")]
    with pytest.raises(Gone):
        await Watcher(cluster, DEVICE, version).run()


async def test_watches_can_be_cut_cleanly_or_with_an_error(cluster: MemoryCluster) -> None:
    clean, broken = (Watcher(cluster, DEVICE, cluster.resource_version) for _ in range(2))
    async with running(clean.run()) as (task,):
        await settle()
        cluster.cut_watches()
        await settle()
        assert task.done()
    task = asyncio.create_task(broken.run())
    await settle()
    cluster.cut_watches(lambda: ServerError("gone fishing"))
    with pytest.raises(ServerError, match="gone fishing"):
        await task


async def test_a_watch_from_nowhere_is_refused(cluster: MemoryCluster) -> None:
    with pytest.raises(Invalid, match='resourceVersion: Invalid value: "x"'):
        await Watcher(cluster, DEVICE, "x").run()
    with pytest.raises(Invalid, match="Too large resource version: 99999"):
        await Watcher(cluster, DEVICE, "99999").run()


async def test_a_kind_that_is_not_served_cannot_be_watched(cluster: MemoryCluster) -> None:
    cluster.undefine(DEVICE)
    with pytest.raises(NotFound):
        await Watcher(cluster, DEVICE, cluster.resource_version).run()


async def _ignore(result: Awaitable[object]) -> None:
    await result
