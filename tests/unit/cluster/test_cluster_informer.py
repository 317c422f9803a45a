"""The informer: list and watch, and what it does when the cluster does not do what it should."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.manifests import pod_manifest
from support.virtual_loop import running, settle

from koordsched.api.kinds import DEVICE, POD
from koordsched.cluster.informer import PAGE_SIZE, Informer
from koordsched.cluster.memory import Fault, Faults, MemoryCluster, MemoryClusterOptions
from koordsched.cluster.object_store import OBJECTS_A_TURN, object_key
from koordsched.cluster.port import Binding, Conflict, Forbidden, Gone, ListPage, Patch, Ref, ServerError, TooManyRequests, WatchEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from koordsched.api.core import Pod
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object, Unstructured
    from koordsched.clock import VirtualClock
    from koordsched.cluster.object_store import Arrival, FinalState


class Story:
    """Writes down the calls of a handler, and when they come."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._begun = clock.now()
        self.lines: list[str] = []
        self.times: list[float] = []

    def on_add(self, obj: Object, arrival: Arrival) -> None:
        self._report(f"add {obj.metadata.name} {arrival.value}")

    def on_update(self, old: Object, new: Object) -> None:
        self._report(f"update {new.metadata.name}")

    def on_delete(self, obj: Object, final_state: FinalState) -> None:
        self._report(f"delete {obj.metadata.name} {final_state.value}")

    def _report(self, line: str) -> None:
        self.lines.append(line)
        self.times.append(self._clock.now() - self._begun)


def pod_informer(cluster: MemoryCluster, clock: VirtualClock, selector: str = "") -> tuple[Informer[Pod], Story]:
    informer: Informer[Pod] = Informer(cluster, POD, clock, Random(2), selector)
    story = Story(clock)
    informer.add_handler(story)
    return informer, story


async def create(cluster: MemoryCluster, *names: str, kind: Kind = POD) -> None:
    for name in names:
        await cluster.create(kind, pod_manifest(name) if kind == POD else {"metadata": {"name": name}})


async def bind(cluster: MemoryCluster, name: str) -> None:
    await cluster.bind(Binding("default", name, "", "n1"))


async def delete(cluster: MemoryCluster, name: str) -> None:
    await cluster.delete(Ref(POD, "default", name))


async def assert_true_to(cluster: MemoryCluster, informer: Informer[Pod]) -> None:
    listed = (await cluster.list(POD)).items
    assert sorted(informer.store.items()) == [(f"default/{pod.metadata.name}", pod) for pod in listed]


class CannotRead(MemoryCluster):
    """A cluster of whose pods some cannot be read when they are listed."""

    unreadable = frozenset[str]()

    async def list(self, kind: Kind, **options: Any) -> ListPage:
        page = await super().list(kind, **options)
        items = [obj for obj in page.items if object_key(obj) not in self.unreadable]
        return replace(page, items=items, unreadable=[key for obj in page.items if (key := object_key(obj)) in self.unreadable])


async def test_an_object_that_cannot_be_read_any_more_stays_as_it_was_when_everything_is_listed_again(clock: VirtualClock) -> None:
    cluster = CannotRead(clock, random=Random(1))
    await create(cluster, "a", "b", "c")
    await bind(cluster, "a")
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
        await delete(cluster, "b")
        await settle()
        cluster.unreadable = frozenset({"default/a"})
        informer.list_again()
        await asyncio.sleep(60)
        assert informer.stats.relists
        assert informer.store["default/a"].spec.node_name == "n1"
        assert sorted(informer.store) == ["default/a", "default/c"]
    assert "delete a" not in " ".join(story.lines)
    another, _ = pod_informer(cluster, clock)
    async with running(another.run()):
        await another.synced.wait()
    assert sorted(another.store) == ["default/c"]


async def test_it_lists_then_follows(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await create(cluster, "a", "b")
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
        await create(cluster, "c")
        await bind(cluster, "a")
        await delete(cluster, "b")
        await settle()
        await assert_true_to(cluster, informer)
    assert story.lines == ["add a initial", "add b initial", "add c later", "update a", "delete b known"]
    assert informer.store["default/a"].spec.node_name == "n1"
    assert informer.resource_version == cluster.resource_version
    assert (informer.stats.lists, informer.stats.watches, informer.stats.events, informer.stats.errors) == (1, 1, 3, 0)


async def test_it_is_synced_only_after_the_first_list_was_handled(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await create(cluster, "a")
    informer, story = pod_informer(cluster, clock)
    assert not informer.synced.is_set()
    async with running(informer.run()):
        await informer.synced.wait()
        assert story.lines == ["add a initial"]


async def test_a_first_list_that_comes_after_another_is_taken_over_once_that_is_synced_and_later_ones_at_once(
    cluster: MemoryCluster, clock: VirtualClock
) -> None:
    await create(cluster, "a")
    await create(cluster, "d", kind=DEVICE)
    pods, _ = pod_informer(cluster, clock)
    devices: Informer[Any] = Informer(cluster, DEVICE, clock, Random(2))
    devices.take_over_after(pods)
    async with running(devices.run()):
        await asyncio.sleep(60)
        assert devices.stats.lists == 1
        assert (devices.synced.is_set(), devices.store) == (False, {})
        async with running(pods.run()):
            await asyncio.sleep(1)
        assert (devices.synced.is_set(), [*devices.store]) == (True, ["d"])
        await create(cluster, "e", kind=DEVICE)
        devices.list_again()
        await asyncio.sleep(60)
        assert [*devices.store] == ["d", "e"]


async def test_a_long_list_is_read_in_pages(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await create(cluster, *(f"p{number}" for number in range(PAGE_SIZE + 1)))
    informer, _ = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
        assert len(informer.store) == PAGE_SIZE + 1
    assert cluster.calls["list", POD] == 2
    assert informer.stats.lists == 1


async def test_custom_resources_are_read_in_one_page_and_in_smaller_ones_after_an_error(clock: VirtualClock) -> None:
    cluster = MemoryCluster(
        clock, random=Random(1), faults=Faults(rules=[Fault(verb="list", nth=(2,), error=lambda: ServerError("too large"))])
    )
    await create(cluster, *(f"d{number}" for number in range(PAGE_SIZE + 1)), kind=DEVICE)
    devices: Informer[Any] = Informer(cluster, DEVICE, clock, Random(2))
    async with running(devices.run()):
        await devices.synced.wait()
        assert (len(devices.store), cluster.calls["list", DEVICE]) == (PAGE_SIZE + 1, 1)
        devices.list_again()
        await asyncio.sleep(60)
        assert (devices.stats.lists, cluster.calls["list", DEVICE]) == (2, 4)  # the one that failed, and two pages


async def test_a_list_whose_pages_expire_is_begun_anew(clock: VirtualClock) -> None:
    expired = Fault(verb="list", nth=(2,), error=lambda: Gone("The provided continue parameter is too old"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[expired]))
    await create(cluster, *(f"p{number}" for number in range(PAGE_SIZE + 1)))
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
    assert len(story.lines) == len(informer.store) == PAGE_SIZE + 1
    assert cluster.calls["list", POD] == 4


class SlowPages(MemoryCluster):
    """A cluster whose lists wait before their second page until they may go on."""

    def __init__(self, clock: VirtualClock, faults: Faults) -> None:
        super().__init__(clock, random=Random(1), faults=faults)
        self.go_on = asyncio.Event()

    async def list(self, kind: Kind, **options: Any) -> ListPage:
        if options.get("continue_token"):
            await self.go_on.wait()
        return await super().list(kind, **options)


async def test_the_first_pages_of_a_first_list_are_taken_over_while_the_next_one_is_read(clock: VirtualClock) -> None:
    cluster = SlowPages(clock, Faults())
    await create(cluster, *(f"p{number:05}" for number in range(PAGE_SIZE + 1)))
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await asyncio.sleep(1)
        assert (len(story.lines), informer.synced.is_set(), informer.stats.lists) == (PAGE_SIZE, False, 0)
        cluster.go_on.set()
        await informer.synced.wait()
        assert story.lines == [f"add p{number:05} initial" for number in range(PAGE_SIZE + 1)]
        await assert_true_to(cluster, informer)


async def test_what_goes_before_a_first_list_is_begun_anew_is_reported_as_deleted(clock: VirtualClock) -> None:
    expired = Fault(verb="list", nth=(2,), error=lambda: Gone("The provided continue parameter is too old"))
    cluster = SlowPages(clock, Faults(rules=[expired]))
    await create(cluster, *(f"p{number:05}" for number in range(PAGE_SIZE + 1)))
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await asyncio.sleep(1)
        await delete(cluster, "p00000")
        await bind(cluster, "p00001")
        cluster.go_on.set()
        await informer.synced.wait()
        assert story.lines[PAGE_SIZE:] == ["update p00001", f"add p{PAGE_SIZE:05} initial", "delete p00000 unknown"]
        assert not informer.correct("default/p00001", informer.store["default/p00001"])
        await assert_true_to(cluster, informer)


async def test_a_selector_makes_finished_pods_disappear(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await create(cluster, "a")
    informer, story = pod_informer(cluster, clock, "status.phase!=Succeeded,status.phase!=Failed")
    async with running(informer.run()):
        await informer.synced.wait()
        await cluster.patch(Ref(POD, "default", "a"), Patch({"status": {"phase": "Succeeded"}}, subresource="status"))
        await settle()
    assert story.lines == ["add a initial", "delete a known"]


async def test_a_watch_that_ends_is_renewed_without_a_list(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await create(cluster, "a")
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await asyncio.sleep(3600)
        await create(cluster, "b")
        await settle()
    assert story.lines == ["add a initial", "add b later"]
    assert informer.stats.lists == 1
    assert 6 <= informer.stats.watches <= 13  # each lasts five to ten minutes
    assert (informer.stats.errors, informer.stats.stalls) == (0, 0)


async def test_changes_while_no_watch_runs_are_not_lost(cluster: MemoryCluster, clock: VirtualClock) -> None:
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
        await settle()
        cluster.cut_watches(lambda: ServerError("connection reset"))
        await settle()
        await create(cluster, "a")
        await delete(cluster, "a")
        await asyncio.sleep(5)
    assert story.lines == ["add a later", "delete a known"]
    assert (informer.stats.lists, informer.stats.errors) == (1, 1)


async def test_bookmarks_keep_a_quiet_watch_young(cluster: MemoryCluster, clock: VirtualClock) -> None:
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
        await create(cluster, "d", kind=DEVICE)
        await asyncio.sleep(61)
        assert informer.resource_version == cluster.resource_version
        assert informer.stats.last_event == clock.now() - 1
        cluster.compact()
        cluster.cut_watches()
        await create(cluster, "a")
        await settle()
    assert story.lines == ["add a later"]
    assert informer.stats.relists == 0


async def test_lost_history_is_made_up_for_by_a_list(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await create(cluster, "gone", "same", "changed")
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await asyncio.sleep(20)
        story.lines.clear()
        cluster.cut_watches()
        await delete(cluster, "gone")
        await bind(cluster, "changed")
        await create(cluster, "new")
        cluster.compact()
        await settle()
        await assert_true_to(cluster, informer)
    assert story.lines == ["update changed", "add new later", "delete gone unknown"]
    assert story.times[-1] == 20  # at once
    assert (informer.stats.relists, informer.stats.errors) == (1, 0)


async def test_a_cluster_that_is_always_gone_is_not_asked_in_a_loop(clock: VirtualClock) -> None:
    gone = Fault(verb="watch", error=lambda: Gone("too old"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[gone]))
    informer, _ = pod_informer(cluster, clock)
    async with running(informer.run()):
        await asyncio.sleep(60)
    # Delays of 0, 0.8-1.6, 1.6-3.2, 3.2-6.4, 6.4-12.8, 12.8-25.6, 25.6-51.2 s: at least the fifth and at most the seventh is over.
    assert 6 <= cluster.calls["list", POD] <= 8


async def test_errors_are_retried_with_growing_delays(clock: VirtualClock) -> None:
    failing = Fault(verb="list", nth=(1, 2, 3, 4), error=lambda: ServerError("down"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[failing]))
    await create(cluster, "a")
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
    # 0.8 + 1.6 + 3.2 + 6.4 s, each up to twice as long.
    assert 12 <= story.times[0] <= 24
    assert informer.stats.errors == 4


async def test_delays_are_short_again_after_something_went_well(cluster: MemoryCluster, clock: VirtualClock) -> None:
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        for number in range(6):  # the sixth delay in a row would be at least 25.6 s
            await asyncio.sleep(100)
            cluster.cut_watches(lambda: ServerError("connection reset"))
            await create(cluster, f"p{number}")
            await settle()
        await asyncio.sleep(2)
    assert informer.stats.errors == 6
    assert len(story.lines) == 6


async def test_the_delays_come_from_the_seed(clock: VirtualClock) -> None:
    async def first_sync(seed: int) -> float:
        begun = clock.now()
        failing = Fault(verb="list", nth=(1,), error=lambda: Conflict("odd"))
        cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[failing]))
        informer: Informer[Pod] = Informer(cluster, POD, clock, Random(seed))
        async with running(informer.run()):
            await informer.synced.wait()
        return round(clock.now() - begun, 6)

    assert await first_sync(1) == await first_sync(1) != await first_sync(2)


async def test_a_server_that_asks_to_wait_is_waited_for(clock: VirtualClock) -> None:
    busy = Fault(verb="list", nth=(1,), error=lambda: TooManyRequests("slow down", retry_after=17))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[busy]))
    await create(cluster, "a")
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
    assert story.times == [17]


async def test_a_failed_watch_is_retried_from_the_last_version(clock: VirtualClock) -> None:
    failing = Fault(verb="watch", nth=(1,), error=lambda: ServerError("down"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[failing]))
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
        await create(cluster, "a")
        await asyncio.sleep(2)
    assert story.lines == ["add a later"]
    assert informer.stats.lists == 1


async def test_a_kind_that_is_not_served_is_empty_until_it_is(cluster: MemoryCluster, clock: VirtualClock) -> None:
    cluster.undefine(DEVICE)
    informer: Informer[Unstructured] = Informer(cluster, DEVICE, clock, Random(2))
    story = Story(clock)
    informer.add_handler(story)
    async with running(informer.run()):
        await informer.synced.wait()
        await asyncio.sleep(100)
        assert cluster.calls["list", DEVICE] == 4  # at 0, 30, 60 and 90 s
        cluster.define(DEVICE)
        await create(cluster, "d", kind=DEVICE)
        await asyncio.sleep(20)
    assert story.lines == ["add d later"]
    assert story.times == [120]
    assert informer.stats.errors == 0


@pytest.mark.parametrize("required", [True, False])
async def test_nothing_waits_for_a_kind_that_may_not_be_read_and_is_not_required(
    cluster: MemoryCluster, clock: VirtualClock, *, required: bool
) -> None:
    await create(cluster, "d", kind=DEVICE)
    cluster.faults.rules.append(Fault(verb="list", kind=DEVICE, times=4, error=lambda: Forbidden("no")))
    informer: Informer[Unstructured] = Informer(cluster, DEVICE, clock, Random(2))
    informer.required = required
    story = Story(clock)
    informer.add_handler(story)
    async with running(informer.run()):
        await asyncio.sleep(0.5)
        assert informer.synced.is_set() is not required
        await asyncio.sleep(300)
    assert story.lines == ["add d initial" if required else "add d later"]


async def test_a_kind_that_is_no_longer_served_loses_its_objects(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await create(cluster, "d", kind=DEVICE)
    informer: Informer[Unstructured] = Informer(cluster, DEVICE, clock, Random(2))
    story = Story(clock)
    informer.add_handler(story)
    async with running(informer.run()):
        await asyncio.sleep(20)
        cluster.undefine(DEVICE)
        await settle()
        assert story.lines == ["add d initial", "delete d unknown"]
        cluster.define(DEVICE)
        await create(cluster, "e", kind=DEVICE)
        await asyncio.sleep(40)
    assert story.lines[2:] == ["add e later"]


async def test_that_a_kind_is_not_served_is_logged_when_it_begins_and_when_it_ends(cluster: MemoryCluster, clock: VirtualClock) -> None:
    cluster.undefine(DEVICE)
    informer: Informer[Unstructured] = Informer(cluster, DEVICE, clock, Random(2))
    with capture_logs() as logs:
        async with running(informer.run()):
            await asyncio.sleep(100)
            cluster.define(DEVICE)
            await asyncio.sleep(40)
            cluster.undefine(DEVICE)
            await asyncio.sleep(100)
    missing, there = "the cluster does not serve this kind; taken as empty", "the cluster serves this kind now"
    assert [(line["event"], line["kind"]) for line in logs] == [(text, DEVICE.plural_group) for text in (missing, there, missing)]


async def test_a_handler_that_raises_does_not_stop_it(cluster: MemoryCluster, clock: VirtualClock) -> None:
    class Fails(Story):
        def on_add(self, obj: Object, arrival: Arrival) -> None:
            raise RuntimeError("boom")

    informer, story = pod_informer(cluster, clock)
    informer.add_handler(Fails(clock))
    async with running(informer.run()):
        await informer.synced.wait()
        await create(cluster, "a", "b")
        await settle()
        await assert_true_to(cluster, informer)
    assert informer.handler_errors == 2
    assert story.lines == ["add a later", "add b later"]


async def test_a_handler_that_raises_is_called_again_until_it_works(cluster: MemoryCluster, clock: VirtualClock) -> None:
    class FailsUntil(Story):
        def on_add(self, obj: Object, arrival: Arrival) -> None:
            super().on_add(obj, arrival)
            if clock.now() < self._begun + 100:
                raise RuntimeError("boom")

    informer, _ = pod_informer(cluster, clock)
    fails = FailsUntil(clock)
    informer.add_handler(fails)
    async with running(informer.run()):
        await informer.synced.wait()
        await create(cluster, "a")
        await asyncio.sleep(90)
        # Tries after 1-2, 2-4, 4-8, 8-16, 16-32 and 32-64 s: by then at least the sixth and at most the seventh has failed.
        assert 6 <= informer.handler_errors <= 7
        assert list(informer.missed) == ["default/a"]
        await asyncio.sleep(130)
        assert informer.missed == {}
        failed = informer.handler_errors
        await asyncio.sleep(600)
    assert (informer.handler_errors, len(fails.lines)) == (failed, failed + 1)


async def test_what_a_handler_missed_is_left_when_the_informer_ends(cluster: MemoryCluster, clock: VirtualClock) -> None:
    class Fails(Story):
        def on_add(self, obj: Object, arrival: Arrival) -> None:
            raise RuntimeError("boom")

    informer, _ = pod_informer(cluster, clock)
    informer.add_handler(Fails(clock))
    async with running(informer.run()):
        await informer.synced.wait()
        await create(cluster, "a")
        await settle()
    failed = informer.handler_errors
    await asyncio.sleep(600)
    assert informer.handler_errors == failed


async def test_a_long_list_is_taken_over_in_slices(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await create(cluster, *(f"p{number}" for number in range(5 * OBJECTS_A_TURN)))
    informer, story = pod_informer(cluster, clock)
    reported = [0]

    async def count() -> None:
        while True:
            reported.append(len(story.lines))
            await asyncio.sleep(0)

    async with running(count(), informer.run()):
        await informer.synced.wait()
        await settle()
    assert len(story.lines) == 5 * OBJECTS_A_TURN
    assert max(after - before for before, after in pairwise(reported)) == OBJECTS_A_TURN


async def test_how_long_nothing_was_heard_is_known(cluster: MemoryCluster, clock: VirtualClock) -> None:
    informer, _ = pod_informer(cluster, clock)
    assert informer.silent_for() == 0
    async with running(informer.run()):
        await informer.synced.wait()
        await asyncio.sleep(59)
        assert informer.silent_for() == 59  # since the list
        await asyncio.sleep(3)
        assert informer.silent_for() == 2  # since the bookmark after a minute


async def test_a_kind_with_many_objects_is_reported_in_one_go(cluster: MemoryCluster, clock: VirtualClock) -> None:
    """Between two awaits nothing else runs, so a reader of several stores never sees half a batch."""
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await informer.synced.wait()
        await settle()
        await create(cluster, *(f"p{number}" for number in range(100)))
        seen = set()
        while len(story.lines) < 100:
            await asyncio.sleep(0)
            seen.add(len(story.lines))
    assert seen <= {0, 100}


class SilentCluster(MemoryCluster):
    """Its watches say nothing, not even bookmarks, and do not end: a connection that is half open."""

    watches = 0

    async def watch(self, kind: Kind, *, resource_version: str, field_selector: str = "") -> AsyncGenerator[Sequence[WatchEvent], None]:
        self.watches += 1
        await asyncio.sleep(1e9)
        yield []


class HastyCluster(MemoryCluster):
    """Its watches end at once."""

    watches = 0

    async def watch(self, kind: Kind, *, resource_version: str, field_selector: str = "") -> AsyncGenerator[Sequence[WatchEvent], None]:
        self.watches += 1
        return
        yield []


async def test_a_silent_watch_is_given_up(clock: VirtualClock) -> None:
    cluster = SilentCluster(clock, random=Random(1))
    informer, _ = pod_informer(cluster, clock)
    async with running(informer.run()):
        await asyncio.sleep(2.5 * cluster.max_silence)
    assert (cluster.watches, informer.stats.stalls, informer.stats.lists) == (3, 2, 1)


async def test_a_cluster_without_bookmarks_may_be_silent(clock: VirtualClock) -> None:
    """`simulate` over months of virtual time: nothing ticks while nothing happens."""
    quiet = MemoryClusterOptions(bookmark_interval=1e12, watch_seconds=(1e12, 1e12))
    cluster = MemoryCluster(clock, random=Random(1), options=quiet)
    informer, story = pod_informer(cluster, clock)
    async with running(informer.run()):
        await asyncio.sleep(1e7)
        await create(cluster, "a")
        await settle()
    assert story.lines == ["add a later"]
    assert (informer.stats.watches, informer.stats.stalls) == (1, 0)


async def test_watches_that_end_at_once_are_not_renewed_in_a_loop(clock: VirtualClock) -> None:
    cluster = HastyCluster(clock, random=Random(1))
    informer, _ = pod_informer(cluster, clock)
    async with running(informer.run()):
        await asyncio.sleep(30)
    # Delays of 0.8, 1.6, 3.2, 6.4, 12.8 s, each up to twice as long.
    assert 4 <= cluster.watches <= 6


@pytest.mark.parametrize("seconds", [0, 0.5, 45, 1000])
async def test_it_ends_when_cancelled_whatever_it_waits_for(clock: VirtualClock, seconds: float) -> None:
    failing = Fault(verb="list", nth=(1,), error=lambda: ServerError("down"))
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(rules=[failing]), options=MemoryClusterOptions(watch_seconds=(10, 20)))
    informer, _ = pod_informer(cluster, clock)
    task = asyncio.create_task(informer.run())
    await asyncio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
