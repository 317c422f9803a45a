"""Pods that are placed all together or not at all: what a committed turn does, and that an undone one leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.fakes import Fake, FakeFilter, Late, config_with, embedded, factory, node_manifest, pod_manifest
from support.gangs import Gangs, member
from support.stages import begin, bound_to, condition, metric, nodes_of_pods, ref

import koordsched.plugins
from koordsched.api.kinds import EVENT, NODE, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import CacheError
from koordsched.cluster.port import Binding
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.status import error, unschedulable
from koordsched.scheduler.extenders.transport import Reply, TransportSettings

Make = Callable[..., AbstractAsyncContextManager[EmbeddedCluster]]
CAUSE = 'gang "g" is rejected due to member pod "default/{}" with reason "0/1 nodes are available: 1 Insufficient cpu.", {} placed before'
REFUSED = f"0/1 nodes are available: 1 {CAUSE}."
"""What members say that had a node."""
UNSCHEDULABLE = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}'


@pytest.fixture
def gangs(monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return a maker of worlds with the plugin Gangs, and others after it."""

    @asynccontextmanager
    async def make(*plugins: tuple[Fake, str], strict: bool = True, **fields: Any) -> AsyncIterator[EmbeddedCluster]:
        monkeypatch.setitem(koordsched.plugins.REGISTRY, "Gangs", lambda _args, handle: Gangs(handle, strict=strict))
        for plugin, _ in plugins:
            monkeypatch.setitem(koordsched.plugins.REGISTRY, plugin.name, factory(plugin))
        config = config_with({"Gangs": "preEnqueue"} | {plugin.name: points for plugin, points in plugins}, **fields)
        async with embedded(asyncio.get_running_loop(), config) as world:
            yield world

    return make


def plugin_of(world: EmbeddedCluster) -> Gangs:
    plugin = world.scheduler.profiles["default-scheduler"].made["Gangs"]
    assert isinstance(plugin, Gangs)
    return plugin


def failures(world: EmbeddedCluster) -> list[str]:
    """Return of which pod each FailedScheduling event is."""
    return [raw["regarding"]["name"] for raw in world.cluster.raws(EVENT) if raw["reason"] == "FailedScheduling"]


async def test_a_gang_that_fits_is_placed_in_one_attempt(gangs: Make) -> None:
    async with gangs() as world:
        await begin(world, member("a"), member("b"), member("c"))
        assert nodes_of_pods(world) == {"a": "n1", "b": "n1", "c": "n1"}
        attempts = metric(world, "scheduler_pod_scheduling_attempts_sum")
        assert attempts == 3 * (1 + len(plugin_of(world).refusals))  # b and c carry what a had
        world.scheduler.queue.check_invariants()
        assert world.scheduler.cache.assumed_count == 0


async def test_a_gang_that_does_not_fit_leaves_every_member_pending_with_one_event_and_one_requeue(gangs: Make) -> None:
    async with gangs() as world:
        await begin(world, member("a"), member("b", cpu="3"), member("c"))
        assert nodes_of_pods(world) == {"a": "", "b": "", "c": ""}
        assert {name: condition(world, name) for name in "ab"} == dict.fromkeys("ab", ("Unschedulable", REFUSED.format("c", 2)))
        others = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        assert condition(world, "c") == ("Unschedulable", f"0/1 nodes are available: 1 Insufficient cpu. {others}")
        assert failures(world) == ["a"] * len(plugin_of(world).refusals)
        assert metric(world, UNSCHEDULABLE) == len(failures(world))
        assert world.scheduler.cache.pods == {}
        world.scheduler.queue.check_invariants()


async def test_an_event_of_the_plugin_lets_a_refused_gang_try_again(gangs: Make) -> None:
    async with gangs() as world:
        await begin(world, member("a"), member("b", cpu="3"), member("c"))
        await world.create(NODE, node_manifest("n2"))
        await asyncio.sleep(20)
        assert all(nodes_of_pods(world).values())


async def test_a_plugin_that_fails_to_say_why_its_gang_was_refused_is_an_error_of_the_popped_pod(
    gangs: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost_for_words(_self: Gangs, _pod: object, _refusal: object) -> str:
        raise ValueError("lost for words")

    monkeypatch.setattr(Gangs, "group_refused", lost_for_words)
    async with gangs() as world:
        await begin(world, member("a"), member("b", cpu="3"), member("c"))
        reason, message = condition(world, "a")
        assert reason == "SchedulerError"
        assert "lost for words" in message
        assert (condition(world, "b"), condition(world, "c")) == (("", ""), ("", ""))
        assert world.scheduler.cache.pods == {}
        world.scheduler.queue.check_invariants()


async def test_a_member_that_the_cache_counts_already_undoes_the_turn(gangs: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gangs() as world:
        assume = world.scheduler.cache.assume_pod

        def refuse_b(made: PodInfo, name: str) -> None:
            if made.key == "default/b":
                raise CacheError("pod b is counted on n7")
            assume(made, name)

        monkeypatch.setattr(world.scheduler.cache, "assume_pod", refuse_b)
        await begin(world, member("a"), member("b"), member("c"))
        text = 'gang "g" is rejected due to member pod "default/b" with reason "pod b is counted on n7", 1 placed before'
        assert condition(world, "a") == ("SchedulerError", text)
        assert condition(world, "c") == ("", "")
        assert world.scheduler.cache.pods == {}
        world.scheduler.queue.check_invariants()


async def test_a_member_whose_search_fails_undoes_the_turn_with_the_plugins_words(gangs: Make) -> None:
    judge = FakeFilter("F", n1=error("lost its glasses"))
    async with gangs((judge, "filter")) as world:
        await begin(world, member("a"), member("b"), member("c"))
        reason, message = condition(world, "a")
        assert reason == "SchedulerError"
        assert message == 'running "F" filter plugin: lost its glasses'
        assert world.scheduler.cache.pods == {}


async def test_pods_beside_an_undone_gang_get_the_room(gangs: Make) -> None:
    async with gangs() as world:
        await begin(world, member("a"), member("b", cpu="2"), member("c", cpu="2"), pod_manifest("single", "4"))
        assert nodes_of_pods(world) == {"a": "", "b": "", "c": "", "single": "n1"}


async def test_members_beyond_what_the_gang_needs_go_alone(gangs: Make) -> None:
    async with gangs() as world:
        await begin(world, *(member(name, size=2) for name in "abc"))
        await asyncio.sleep(20)
        assert nodes_of_pods(world) == {"a": "n1", "b": "n1", "c": "n1"}


async def test_a_gang_that_is_not_strict_tries_its_other_members(gangs: Make) -> None:
    async with gangs(strict=False) as world:
        await begin(world, member("a", size=2), member("b", size=2, cpu="9"), member("c", size=2))
        assert {name: bound_to(world, name) for name in "abc"} == {"a": "n1", "b": "", "c": "n1"}


async def test_the_popped_pod_fails_alone_when_its_gang_has_enough_without_it(gangs: Make) -> None:
    async with gangs(strict=False) as world:
        await begin(world, member("a", size=2, cpu="9"), member("b", size=2), member("c", size=2))
        assert nodes_of_pods(world) == {"a": "", "b": "n1", "c": "n1"}
        assert condition(world, "a")[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")
        world.scheduler.queue.check_invariants()


async def test_too_few_members_are_not_tried(gangs: Make) -> None:
    async with gangs() as world:
        await begin(world, member("a"), member("b", schedulingGates=[{"name": "wait"}]), member("c"))
        assert nodes_of_pods(world) == {"a": "", "b": "", "c": ""}
        assert condition(world, "a")[1] == (
            '0/1 nodes are available: 1 gang "g" is rejected with reason "too few members can be tried", 2 placed before.'
        )


async def test_reserve_is_undone_for_every_member_in_reverse_order(gangs: Make) -> None:
    late = Late()
    async with gangs((late, "reserve")) as world:
        await begin(world, member("a"), member("b"), member("c", cpu="3"))
        turns = len(plugin_of(world).refusals)
        # a and b leave too little for c, and by amounts there is no other placement
        assert late.journal == ["reserve L", "reserve L", "unreserve L", "unreserve L"] * turns


@pytest.mark.parametrize(("answer", "reason"), [(unschedulable("no"), "Unschedulable"), (error("broken"), "SchedulerError")])
async def test_a_member_that_reserve_refuses_undoes_the_turn(gangs: Make, answer: Any, reason: str) -> None:
    late = Late()
    late.reserve_answer = answer
    async with gangs((late, "reserve")) as world:
        await begin(world, member("a"), member("b"), member("c"))
        assert not any(nodes_of_pods(world).values())
        assert condition(world, "a")[0] == reason
        assert late.journal[:2] == ["reserve L", "unreserve L"]
        assert world.scheduler.cache.pods == {}


async def test_a_gang_keeps_its_nominations_when_its_turn_is_undone(gangs: Make) -> None:
    async with gangs() as world:
        await begin(world, member("a"), member("b", cpu="3"), member("c"))
        queue = world.scheduler.queue
        waiting = queue.get("default/c")
        assert waiting is not None
        queue.nominate(waiting.pod_info, "n1")
        await world.create(NODE, node_manifest("small", "1"))
        await asyncio.sleep(20)
        assert queue.nominator.node_of(waiting.uid) == "n1" or bound_to(world, "c")


async def test_an_undone_turn_leaves_other_shapes_with_nothing_to_do(gangs: Make) -> None:
    async with gangs() as world:
        await begin(world, pod_manifest("there", "500m"))
        scheduler = world.scheduler
        shapes = scheduler.profiles["default-scheduler"].shapes
        counted = scheduler.cache.pods[world.cluster.raws(POD)[0]["metadata"]["uid"]].info
        shape = shapes.pre_filter(counted)
        shapes.filter(shape, counted)
        end, rewinds = scheduler.cache.table.log_end, scheduler.cache.table.rewinds
        for manifest in (member("a"), member("b"), member("c", cpu="3")):
            await world.create(POD, manifest)
        await world.settle()
        assert scheduler.cache.table.rewinds > rewinds
        assert scheduler.cache.table.log_end == end
        assert shape.evaluation.is_current()


class OneExtender:
    """Stands in for the connection to an extender that lets every node pass."""

    def __init__(self, _settings: TransportSettings) -> None:
        self.asked = 0

    async def post(self, url: str, body: bytes) -> Reply:
        await asyncio.sleep(0)
        return Reply(200, json.dumps({"NodeNames": json.loads(body)["NodeNames"]}).encode())

    async def close(self) -> None:
        pass


async def test_a_turn_that_asked_extenders_is_undone_without_a_rewind(gangs: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.scheduler.extenders.extender.Transport", OneExtender)
    async with gangs(extenders=[{"urlPrefix": "http://extender", "filterVerb": "filter", "nodeCacheCapable": True}]) as world:
        await begin(world, member("a"), member("b", cpu="3"), member("c"))
        assert condition(world, "b")[1] == REFUSED.format("c", 2)
        assert world.scheduler.cache.table.rewinds == 0
        assert world.scheduler.cache.pods == {}


async def test_a_member_that_goes_while_extenders_are_asked_undoes_the_turn(gangs: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.scheduler.extenders.extender.Transport", OneExtender)
    async with gangs(extenders=[{"urlPrefix": "http://extender", "filterVerb": "filter", "nodeCacheCapable": True}]) as world:

        async def delete_a(_self: OneExtender, _url: str, body: bytes) -> Reply:
            args = json.loads(body)
            if args["Pod"]["metadata"]["name"] == "b" and "default/a" in world.scheduler.pods:
                assert world.scheduler.cache.assumed_count == 1
                await world.cluster.delete(ref("a"))
                await asyncio.sleep(1)
            return Reply(200, json.dumps({"NodeNames": args["NodeNames"]}).encode())

        monkeypatch.setattr(OneExtender, "post", delete_a)
        await begin(world, member("a", size=2), member("b", size=2))
        assert bound_to(world, "b") == ""
        assert world.scheduler.cache.assumed_count == 0
        world.scheduler.queue.check_invariants()


@pytest.mark.parametrize("how", ["deleted", "bound", "replaced"])
async def test_a_member_that_goes_while_extenders_are_asked_about_it_is_not_placed(
    how: str, gangs: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koordsched.scheduler.extenders.extender.Transport", OneExtender)
    async with gangs(extenders=[{"urlPrefix": "http://extender", "filterVerb": "filter", "nodeCacheCapable": True}]) as world:

        async def take_b(_self: OneExtender, _url: str, body: bytes) -> Reply:
            args = json.loads(body)
            if args["Pod"]["metadata"]["name"] == "b" and not plugin_of(world).refusals:
                if how != "bound":
                    await world.cluster.delete(ref("b"))
                    if how == "replaced":
                        await world.create(POD, member("b", size=2))
                else:
                    await world.cluster.bind(Binding("default", "b", world.scheduler.pods["default/b"].metadata.uid, "n1"))
                await asyncio.sleep(1)
            return Reply(200, json.dumps({"NodeNames": args["NodeNames"]}).encode())

        monkeypatch.setattr(OneExtender, "post", take_b)
        await begin(world, member("a", size=2), member("b", size=2))
        await asyncio.sleep(1)
        refusal = plugin_of(world).refusals[0]
        assert (refusal.member, refusal.message, refusal.placed) == (
            "default/b",
            "the pod was deleted or bound by another scheduler meanwhile",
            1,
        )
        assert world.scheduler.cache.assumed_count == 0
        world.scheduler.queue.check_invariants()


async def test_a_group_whose_blocking_member_is_gone_is_tried_again(gangs: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gangs() as world:
        await begin(world, member("a"), member("b", cpu="9"), member("c"))
        scheduler = world.scheduler
        profile, waiting = scheduler.profiles["default-scheduler"], scheduler.queue.get("default/a")
        assert waiting is not None
        for key, refused in (("default/b", True), ("default/gone", False), ("", False)):
            monkeypatch.setattr(Gangs, "blocking_member", lambda _self, _pod, key=key: key)
            with capture_logs() as logs:
                assert scheduler._waiting_groups.still_refused(profile, waiting.pod_info, {}) is refused
            assert logs == []


async def test_a_turn_in_which_something_breaks_is_undone_and_the_popped_pod_says_so(gangs: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    async with gangs() as world:
        assume, table = world.scheduler.cache.assume_pod, world.scheduler.cache.table

        def break_at_b(made: PodInfo, name: str) -> None:
            if made.key == "default/b":
                raise RuntimeError("out of order")
            assume(made, name)

        monkeypatch.setattr(world.scheduler.cache, "assume_pod", break_at_b)
        await begin(world, member("a"), member("b"), member("c"))
        assert not any(nodes_of_pods(world).values())
        reason, message = condition(world, "a")
        assert reason == "SchedulerError"
        assert "out of order" in message
        assert (condition(world, "b"), condition(world, "c")) == (("", ""), ("", ""))
        assert world.scheduler.cache.pods == {}
        assert not table.in_turn
        world.scheduler.queue.check_invariants()
        monkeypatch.setattr(world.scheduler.cache, "assume_pod", assume)
        await asyncio.sleep(30)
        assert all(nodes_of_pods(world).values())
