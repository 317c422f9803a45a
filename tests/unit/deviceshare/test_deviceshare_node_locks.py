"""Locks on Nodes: deviceshare.md §11 and checklist item 25."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from msgspec.structs import replace
from support.builders import pod
from support.plugins import WatchingBench
from support.virtual_loop import run_virtual

from koordsched.api.core import Node
from koordsched.api.kinds import NODE, POD
from koordsched.clock import VirtualClock, rfc3339
from koordsched.cluster.memory.cluster import MemoryCluster
from koordsched.cluster.memory.faults import Fault, Faults, Moment
from koordsched.cluster.port import Forbidden, OutcomeUnknown, Patch, Ref, ServerError
from koordsched.plugins.deviceshare.node_locks import LockRefused, NodeLocks, node_locks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from support.builders import PodBuilder

KEY = "hami.io/mutex.lock"
OURS = pod("ours", "ml")
FIRST, SECOND, THIRD = pod("first", "ml"), pod("second", "ml"), pod("third", "ml")
HELD = "2025-12-31T23:59:00Z,default,other"  # a minute before the stage's clock begins


class TimedBench(WatchingBench):
    """A bench on which what is to be called later is called."""

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, call)


class Stage(NamedTuple):
    """A cluster with the Node n1, and locks that have seen it. `held` is the Node's annotation at the beginning."""

    clock: VirtualClock
    cluster: MemoryCluster
    bench: WatchingBench
    locks: NodeLocks

    async def lock_of(self, key: str = KEY) -> str | None:
        found = await self.cluster.get(Ref(NODE, "", "n1"))
        return found.metadata.annotations.get(key)

    async def annotate(self, text: str) -> None:
        """Let another scheduler write the lock, which no watch has shown yet."""
        await self.cluster.patch(Ref(NODE, "", "n1"), Patch({"metadata": {"annotations": {KEY: text}}}))

    def watch_lock(self, text: str | None) -> None:
        """Let the watch show the Node with this lock."""
        node = self.bench.informer(NODE).store["n1"]
        annotations = {} if text is None else {KEY: text}
        version = str(int(node.metadata.resource_version) + 100)
        self.bench.came(NODE, replace(node, metadata=replace(node.metadata, annotations=annotations, resource_version=version)))

    async def refusal(self, builder: PodBuilder = OURS) -> str:
        """Try to take the lock; return why it is refused, "" when it is taken."""
        try:
            await self.locks.lock("n1", KEY, builder.info())
        except LockRefused as refused:
            return str(refused)
        return ""


def on_stage(body: Callable[[Stage], Awaitable[None]], held: str | None = None, *known: PodBuilder, faults: Faults | None = None) -> None:
    """Run the body on a stage where the watch has shown the Node and these pods."""

    async def run(clock: VirtualClock) -> None:
        cluster = MemoryCluster(clock, random=Random(1), faults=faults)
        annotations = {} if held is None else {KEY: held}
        created = await cluster.create(NODE, {"metadata": {"name": "n1", "annotations": annotations}})
        assert isinstance(created, Node)
        bench = TimedBench(cluster=cluster)
        bench.clock = clock
        bench.came(NODE, created)
        for builder in known:
            bench.came(POD, builder.resource_version("1").build())
        await body(Stage(clock, cluster, bench, node_locks(bench)))

    run_virtual(run)


def locked(stage: Stage, by: str, *, seconds_ago: float = 0.0) -> str:
    return f"{rfc3339(stage.clock.now() - seconds_ago)},{by}"


def test_a_free_node_is_locked_with_the_time_and_the_pod() -> None:
    async def body(stage: Stage) -> None:
        assert await stage.refusal() == ""
        assert await stage.lock_of() == locked(stage, "ml,ours")

    on_stage(body)


@pytest.mark.parametrize(
    ("held", "refused"),
    [
        ("2020-01-01T00:00:00Z,default,gone", ""),
        ("2025-12-31T23:59:00Z,default,gone", ""),
        ("2025-12-31T23:59:00Z,default,other", 'node "n1" has been locked'),
        ("2025-12-31T23:54:59Z,default,other", ""),
        ("2025-12-31T23:55:00Z,default,other", 'node "n1" has been locked'),
        ("2025-12-31T23:59:00Z,ml,ours", ""),
        ("foo", 'invalid node lock value "foo"'),
        ("2025-12-31T23:59:00Z,default", 'invalid node lock value "2025-12-31T23:59:00Z,default"'),
        ("soon,default,other", 'invalid node lock value "soon,default,other"'),
    ],
)
def test_a_lock_holds_five_minutes_for_a_living_other_pod(held: str, refused: str) -> None:
    async def body(stage: Stage) -> None:
        assert rfc3339(stage.clock.now()) == "2026-01-01T00:00:00Z"
        assert await stage.refusal() == refused
        assert await stage.lock_of() == (held if refused else locked(stage, "ml,ours"))

    on_stage(body, held, pod("other"), OURS)


def test_locks_of_two_vendors_do_not_concern_each_other() -> None:
    async def body(stage: Stage) -> None:
        await stage.locks.lock("n1", "cambricon.com/dsmlu.lock", OURS.info())
        assert await stage.refusal(pod("second")) == ""

    on_stage(body, None, OURS)


def test_of_pods_that_come_together_one_gets_the_lock_although_the_watch_is_late() -> None:
    async def body(stage: Stage) -> None:
        builders = [pod(f"p{i}", "ml") for i in range(5)]
        refusals = await asyncio.gather(*(stage.refusal(builder) for builder in builders))
        assert sorted(refusals) == ["", *['node "n1" has been locked'] * 4]
        assert await stage.lock_of() == locked(stage, f"ml,p{refusals.index('')}")

    on_stage(body, None, *(pod(f"p{i}", "ml") for i in range(5)))


def test_what_the_watch_has_not_shown_yet_is_read_before_the_lock_is_taken() -> None:
    async def body(stage: Stage) -> None:
        await stage.annotate(locked(stage, "default,other"))
        assert await stage.refusal() == 'node "n1" has been locked'
        await stage.annotate(locked(stage, "default,other", seconds_ago=301))
        assert await stage.refusal() == ""

    on_stage(body, None, pod("other"))


def test_another_change_of_the_node_meanwhile_is_no_obstacle() -> None:
    async def body(stage: Stage) -> None:
        await stage.cluster.patch(Ref(NODE, "", "n1"), Patch({"metadata": {"labels": {"a": "b"}}}))
        assert await stage.refusal() == ""
        assert await stage.lock_of() == f"{rfc3339(stage.clock.now())},ml,ours"

    on_stage(body)


@pytest.mark.parametrize("moment", Moment)
def test_an_answer_that_got_lost_is_found_out_about(moment: Moment) -> None:
    faults = Faults()

    async def body(stage: Stage) -> None:
        faults.rules = [Fault(verb="patch", kind=NODE, times=1, error=lambda: OutcomeUnknown("reset"), moment=moment)]
        assert await stage.refusal() == ""
        assert (await stage.lock_of() or "").endswith(",ml,ours")

    on_stage(body, faults=faults)


def test_a_node_that_cannot_be_written_is_named() -> None:
    faults = Faults()

    async def body(stage: Stage) -> None:
        faults.rules = [Fault(verb="patch", kind=NODE, error=lambda: Forbidden("nodes is forbidden"))]
        assert await stage.refusal() == 'failed to patch node "n1": nodes is forbidden'

    on_stage(body, faults=faults)


def test_an_api_server_that_keeps_failing_is_asked_five_times() -> None:
    faults = Faults()

    async def body(stage: Stage) -> None:
        faults.rules = [Fault(verb="patch", kind=NODE, error=lambda: ServerError("busy"))]
        assert await stage.refusal() == 'failed to patch node "n1": busy'
        assert stage.cluster.calls["patch", NODE] == 5
        assert 0.3 < stage.clock.uptime() < 1.0

    on_stage(body, faults=faults)


def test_a_node_that_went_cannot_be_locked() -> None:
    async def body(stage: Stage) -> None:
        stage.bench.went(NODE, "n1")
        assert await stage.refusal() == 'node "n1" not found'

    on_stage(body)


def test_a_mutex_goes_with_the_last_pod_that_needs_it() -> None:
    async def body(stage: Stage) -> None:
        await asyncio.gather(stage.refusal(pod("a")), stage.refusal(pod("b")))
        known: Any = stage.locks._mutexes
        assert not known

    on_stage(body)


def test_all_profiles_share_the_mutexes() -> None:
    async def body(stage: Stage) -> None:
        assert node_locks(stage.bench) is stage.locks

    on_stage(body)


# The line: pods that were refused are activated when the lock is gone


def activated(stage: Stage) -> list[str]:
    return [said.removeprefix("activate ml/") for said in stage.bench.said if said.startswith("activate ")]


def test_the_first_in_line_is_activated_when_the_lock_is_released_and_the_next_one_at_the_next_release() -> None:
    async def body(stage: Stage) -> None:
        for waiting in (FIRST, SECOND):
            assert await stage.refusal(waiting) == 'node "n1" has been locked'
        stage.watch_lock(locked(stage, "default,other", seconds_ago=1))
        assert activated(stage) == []
        stage.watch_lock(None)
        assert activated(stage) == ["first"]
        stage.watch_lock(locked(stage, "ml,first"))
        assert activated(stage) == ["first"]
        stage.watch_lock(None)
        assert activated(stage) == ["first", "second"]
        stage.watch_lock(None)
        assert activated(stage) == ["first", "second"]

    on_stage(body, HELD, pod("other"), FIRST, SECOND)


def test_a_pod_that_gets_the_lock_after_its_backoff_is_no_longer_in_line() -> None:
    async def body(stage: Stage) -> None:
        assert await stage.refusal(FIRST)
        await stage.annotate("")
        await stage.cluster.patch(Ref(NODE, "", "n1"), Patch({"metadata": {"annotations": {KEY: None}}}))
        stage.bench.came(NODE, await stage.cluster.get(Ref(NODE, "", "n1")))
        stage.bench.said.clear()
        assert await stage.refusal(FIRST) == ""
        stage.watch_lock(None)
        assert activated(stage) == []

    on_stage(body, HELD, pod("other"), FIRST)


def test_a_pod_in_line_is_activated_when_the_holder_is_deleted() -> None:
    async def body(stage: Stage) -> None:
        assert await stage.refusal(FIRST)
        stage.bench.went(POD, "default/bystander")
        assert activated(stage) == []
        stage.bench.went(POD, "default/other")
        assert activated(stage) == ["first"]

    on_stage(body, HELD, pod("other"), pod("bystander"), FIRST)


def test_a_pod_in_line_is_activated_when_the_lock_is_five_minutes_old() -> None:
    """HELD is a minute old: 240 s are left, and times of locks are whole seconds."""

    async def body(stage: Stage) -> None:
        assert await stage.refusal(FIRST)
        await asyncio.sleep(240.5)
        assert activated(stage) == []
        await asyncio.sleep(1.0)
        assert activated(stage) == ["first"]

    on_stage(body, HELD, pod("other"), FIRST)


def test_a_lock_that_was_renewed_holds_five_minutes_from_then_on() -> None:
    async def body(stage: Stage) -> None:
        assert await stage.refusal(FIRST)
        await asyncio.sleep(200)
        stage.watch_lock(locked(stage, "default,other"))
        await asyncio.sleep(290)
        assert activated(stage) == []
        await asyncio.sleep(12)
        assert activated(stage) == ["first"]

    on_stage(body, HELD, pod("other"), FIRST)


def test_the_line_passes_over_pods_that_were_deleted_or_bound_elsewhere() -> None:
    async def body(stage: Stage) -> None:
        for waiting in (FIRST, SECOND, THIRD):
            assert await stage.refusal(waiting)
        stage.bench.went(POD, "ml/first")
        stage.bench.came(POD, SECOND.on("n2").resource_version("2").build())
        stage.watch_lock(None)
        assert activated(stage) == ["third"]

    on_stage(body, HELD, pod("other"), FIRST, SECOND, THIRD)


def test_all_in_line_are_activated_when_the_node_goes() -> None:
    async def body(stage: Stage) -> None:
        for waiting in (FIRST, SECOND):
            assert await stage.refusal(waiting)
        stage.bench.went(NODE, "n1")
        assert activated(stage) == ["first", "second"]

    on_stage(body, HELD, pod("other"), FIRST, SECOND)
