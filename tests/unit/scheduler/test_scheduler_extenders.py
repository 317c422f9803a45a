"""Pods on their way through extenders: who is asked, what counts, what is said, and what holds when the world changes (framework.md §8)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs
from support import stages
from support.extender import ExtenderServer
from support.fakes import FakeFilter, FakePostFilter, node_manifest, pod_manifest
from support.restricting import ONLY, Only
from support.stages import Stage, bound_to, metric, ref

from koordsched.api.kinds import EVENT, NODE, POD
from koordsched.cluster.port import Binding, Patch, Ref
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.handle import EXTENDER, ExtenderError, Victims
from koordsched.framework.status import unresolvable, unschedulable
from koordsched.queue.events import ActionType, EventResource, cluster_event
from koordsched.queue.hints import EventRegistry
from koordsched.scheduler.extenders.transport import Reply, TransportSettings, Unanswered

Answer = Callable[[dict[str, Any]], Awaitable[Any]]

begin = partial(stages.begin, nodes="n1 n2 n3")

URL = "http://extender/prefix"
FILTER = {"urlPrefix": URL, "filterVerb": "filter", "nodeCacheCapable": True}
PRIORITIZE = {"urlPrefix": URL, "prioritizeVerb": "prioritize", "weight": 1, "nodeCacheCapable": True}
UNSCHEDULABLE = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}'


class Extenders:
    """Stands in for the connections: `answers` by URL; what was asked is in `asked`."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.settings: list[TransportSettings] = []

    def __call__(self, settings: TransportSettings) -> Extenders:
        self.settings.append(settings)
        return self

    async def post(self, url: str, body: bytes) -> Reply:
        args = json.loads(body)
        self.asked.append((url.rsplit("/", 1)[-1], args))
        await asyncio.sleep(0)
        if url not in self.answers:
            raise Unanswered("nothing there")
        found = await self.answers[url](args)
        return found if isinstance(found, Reply) else Reply(200, json.dumps(found).encode())

    async def close(self) -> None:
        pass

    def say(self, verb: str, answer: Any, prefix: str = URL) -> None:
        """Let the verb be answered by this, or by what this function makes of the arguments."""

        async def found(args: dict[str, Any]) -> Any:
            return answer(args) if callable(answer) else answer

        self.answers[f"{prefix}/{verb}"] = found

    def calls(self, verb: str) -> list[dict[str, Any]]:
        return [args for asked, args in self.asked if asked == verb]


@pytest.fixture
def extenders(monkeypatch: pytest.MonkeyPatch) -> Extenders:
    made = Extenders()
    monkeypatch.setattr("koordsched.scheduler.extenders.extender.Transport", made)
    return made


def only(*names: str, **rest: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Let these nodes remain, of those asked about."""
    return lambda args: {"NodeNames": [name for name in args["NodeNames"] if name in names], **rest}


def condition(world: EmbeddedCluster, name: str = "p") -> tuple[str, str]:
    """Return reason and message of PodScheduled=False, without the part of PostFilter."""
    reason, message = stages.condition(world, name)
    return reason, message.partition(" no new claims")[0]


def said(world: EmbeddedCluster) -> list[str]:
    """Return what failed attempts said, without the part of PostFilter."""
    notes = [event["note"] for event in world.cluster.raws(EVENT) if event["reason"] == "FailedScheduling"]
    return [note.partition(" no new claims")[0] for note in notes]


def check_books(world: EmbeddedCluster) -> None:
    shown = {raw["metadata"]["uid"]: raw["spec"]["nodeName"] for raw in world.cluster.raws(POD) if raw["spec"].get("nodeName")}
    assert {uid: state.node.name for uid, state in world.scheduler.cache.pods.items()} == shown
    assert world.scheduler.queue.in_flight == []
    world.scheduler.queue.check_invariants()


# Filter


async def test_a_pod_goes_where_the_extender_lets_it(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", only("n2"))
    async with stage(extenders=[FILTER]) as world:
        await begin(world)
        assert bound_to(world) == "n2"
        (args,) = extenders.calls("filter")
        assert args["Pod"]["metadata"]["name"] == "p"
        assert (sorted(args["NodeNames"]), args["Nodes"]) == (["n1", "n2", "n3"], None)
        check_books(world)


async def test_an_extender_without_a_cache_gets_whole_nodes_and_their_copies_are_taken_for_ours(stage: Stage, extenders: Extenders) -> None:
    # The answer's node claims to be empty and huge; what we know of n1 (full) still counts when the second pod comes.
    emptied = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1000"}}}
    extenders.say("filter", lambda _: {"nodes": {"ITEMS": [emptied]}})
    async with stage(extenders=[{**FILTER, "nodeCacheCapable": False}]) as world:
        await begin(world, pod_manifest("a", "3"), pod_manifest("b", "3"), nodes="n1")
        assert sorted((bound_to(world, "a"), bound_to(world, "b"))) == ["", "n1"]
        nodes = extenders.calls("filter")[0]["Nodes"]["items"]
        assert [node["metadata"]["name"] for node in nodes] == ["n1"]
        assert nodes[0]["status"]["allocatable"]["cpu"] == "4"
        assert extenders.calls("filter")[0]["NodeNames"] is None


async def test_reasons_of_an_extender_stand_in_the_message(stage: Stage, extenders: Extenders) -> None:
    failed = {"FailedNodes": {"n1": "busy", "n2": "busy"}, "failedAndUnresolvableNodes": {"n3": "broken"}}
    extenders.say("filter", {"NodeNames": [], **failed})
    async with stage(extenders=[FILTER]) as world:
        await begin(world)
        assert condition(world) == ("Unschedulable", "0/3 nodes are available: 1 broken, 2 busy.")
        info = world.scheduler.queue.get("default/p")
        assert info is not None
        assert info.unschedulable_plugins == {EXTENDER}


async def test_reasons_of_filters_and_of_extenders_are_counted_together(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", {"NodeNames": [], "FailedNodes": {"n2": "busy"}})
    async with stage(extenders=[FILTER]) as world:
        await world.create(NODE, node_manifest("n1", "1"))
        await begin(world, pod_manifest("p", "2"), nodes="n2 n3")
        left_out = f'1 node(s) were left out by extender "{URL}"'
        assert condition(world)[1] == f"0/3 nodes are available: 1 Insufficient cpu, 1 busy, {left_out}."
        info = world.scheduler.queue.get("default/p")
        assert info is not None
        assert info.unschedulable_plugins == {EXTENDER, "NodeResourcesFit"}


async def test_any_event_retries_a_pod_that_an_extender_refused(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", {"NodeNames": [], "FailedNodes": {"n1": "busy"}})
    async with stage(extenders=[FILTER]) as world:
        await begin(world, nodes="n1")
        assert condition(world)[1] == "0/1 nodes are available: 1 busy."
        extenders.say("filter", only("n1"))
        await asyncio.sleep(20)
        assert bound_to(world) == ""  # nothing has happened but that its condition was written
        assert metric(world, UNSCHEDULABLE) == 1
        await world.patch(Ref(NODE, "", "n1"), {"metadata": {"labels": {"any": "thing"}}})
        await asyncio.sleep(3)
        assert bound_to(world) == "n1"


async def test_pods_of_one_shape_do_not_share_what_an_extender_said_of_one_of_them(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", lambda args: {"NodeNames": args["NodeNames"] if args["Pod"]["metadata"]["name"] == "b" else []})
    async with stage(extenders=[FILTER]) as world:
        await begin(world, pod_manifest("a"), pod_manifest("b"), pod_manifest("c"), nodes="n1")
        assert [bound_to(world, name) for name in "abc"] == ["", "n1", ""]
        assert [args["Pod"]["metadata"]["name"] for args in extenders.calls("filter")][:3] == ["a", "b", "c"]


async def test_each_extender_sees_what_the_one_before_it_left_and_ignorable_ones_come_last(stage: Stage, extenders: Extenders) -> None:
    first, second, last = "http://first", "http://second", "http://last"
    extenders.say("filter", only("n1", "n2"), first)
    extenders.say("filter", only("n2", "n3"), second)
    extenders.say("filter", only("n2"), last)
    configured = [{**FILTER, "urlPrefix": last, "ignorable": True}, {**FILTER, "urlPrefix": first}, {**FILTER, "urlPrefix": second}]
    async with stage(extenders=configured) as world:
        await begin(world)
        assert bound_to(world) == "n2"
        assert [sorted(args["NodeNames"]) for args in extenders.calls("filter")] == [["n1", "n2", "n3"], ["n1", "n2"], ["n2"]]


MANAGED = {"managedResources": [{"name": "example.com/gpu"}]}
OTHER = "http://other"


async def test_an_extender_that_does_not_want_the_pod_or_fails_and_may_does_not_end_the_round(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", only("n2"), OTHER)
    for first in ({**FILTER, **MANAGED}, {**FILTER, "urlPrefix": "http://silent", "ignorable": True}):
        extenders.asked.clear()
        async with stage(extenders=[first, {**FILTER, "urlPrefix": OTHER, "ignorable": True}]) as world:
            await begin(world)
            assert bound_to(world) == "n2"
            assert len(extenders.calls("filter")) == (1 if "managedResources" in first else 2)


async def test_a_preempting_extender_that_does_not_want_the_pod_or_fails_and_may_does_not_end_the_round(
    stage: Stage, extenders: Extenders
) -> None:
    preempt = {"urlPrefix": "http://first", "preemptVerb": "preempt", "nodeCacheCapable": True, "ignorable": True}
    for first in ({**preempt, **MANAGED}, preempt):
        async with stage(extenders=[first, {**preempt, "urlPrefix": OTHER}]) as world:
            chain = world.scheduler._extenders
            assert chain is not None
            await begin(world, pod_manifest("a", nodeName="n1"), pod_manifest("b", nodeName="n2"))
            there = {name: tuple(world.scheduler.cache.nodes_by_name[name].pods.values()) for name in ("n1", "n2")}
            chosen = {"n2": {"Pods": [{"UID": there["n2"][0].uid}]}}
            extenders.say("preempt", {"NodeNameToMetaVictims": chosen}, OTHER)
            assert list(await chain.preempt(there["n1"][0], {name: Victims(pods) for name, pods in there.items()})) == ["n2"]


# Pods that a plugin restricts to some nodes


def restricted_to(names: str, cpu: str = "1", **meta: Any) -> dict[str, Any]:
    made = pod_manifest("p", cpu)
    made["metadata"]["annotations"] = {ONLY: names}
    made["metadata"] |= meta
    return made


async def test_extenders_are_asked_about_the_nodes_of_a_restriction_alone(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", only("n2", "n3"))
    async with stage((Only(), "preFilter"), extenders=[FILTER]) as world:
        await begin(world, restricted_to("n1,n3"))
        assert bound_to(world) == "n3"
        assert [sorted(args["NodeNames"]) for args in extenders.calls("filter")] == [["n1", "n3"]]
        check_books(world)


async def test_the_nominated_node_outside_the_restriction_is_what_extenders_are_asked_about_first(
    stage: Stage, extenders: Extenders
) -> None:
    extenders.say("filter", only("n1", "n2", "n3"))
    async with stage((Only(), "preFilter"), extenders=[FILTER]) as world:
        await begin(world, {**restricted_to("n1"), "status": {"phase": "Pending", "nominatedNodeName": "n2"}})
        assert bound_to(world) == "n2"
        assert [args["NodeNames"] for args in extenders.calls("filter")] == [["n2"]]


@pytest.mark.parametrize("best", ["n1", "n3"])
async def test_scores_of_extenders_decide_among_the_nodes_of_a_restriction(best: str, stage: Stage, extenders: Extenders) -> None:
    extenders.say("prioritize", lambda args: [{"Host": name, "Score": 10 if name == best else 0} for name in args["NodeNames"]])
    async with stage((Only(), "preFilter"), extenders=[PRIORITIZE]) as world:
        await begin(world, restricted_to("n1,n3"))
        assert bound_to(world) == best


async def test_where_extenders_leave_no_node_of_a_restriction_each_node_has_its_reason(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", {"NodeNames": [], "FailedNodes": {"n3": "busy"}})
    async with stage((Only(), "preFilter"), extenders=[FILTER]) as world:
        await world.create(NODE, node_manifest("n1", "1"))
        await begin(world, restricted_to("n1,n3", "2"), nodes="n2 n3")
        refusals = "1 Insufficient cpu, 1 busy, 1 node(s) didn't satisfy plugin(s) [Only]"
        assert condition(world)[1] == f"0/3 nodes are available: {refusals}."
        info = world.scheduler.queue.get("default/p")
        assert info is not None
        assert info.unschedulable_plugins == {EXTENDER, "NodeResourcesFit", "Only"}


async def test_a_node_of_a_restriction_that_fills_up_while_the_extender_thinks_is_not_chosen(stage: Stage, extenders: Extenders) -> None:
    async with stage((Only(), "preFilter"), extenders=[FILTER]) as world:

        async def fill_n1(args: dict[str, Any]) -> dict[str, Any]:
            if args["Pod"]["metadata"]["name"] == "p" and not world.scheduler.cache.pods:
                await world.create(POD, pod_manifest("other", "4", nodeName="n1"))
                await asyncio.sleep(1)
            return {"NodeNames": args["NodeNames"]}

        extenders.answers[f"{URL}/filter"] = fill_n1
        await begin(world, restricted_to("n1"))
        await asyncio.sleep(1)
        assert bound_to(world) == ""
        assert "1 Insufficient cpu" in condition(world)[1]


async def test_no_extender_is_asked_about_a_pod_that_fits_nowhere(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[FILTER]) as world:
        await begin(world, pod_manifest("p", "5"))
        assert condition(world) == ("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
        assert extenders.asked == []


async def test_pods_that_no_extender_wants_do_not_wait_for_any(stage: Stage, extenders: Extenders) -> None:
    managed = {**FILTER, "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]}
    extenders.say("filter", only("n3"))
    async with stage(extenders=[managed]) as world:
        wants = pod_manifest("wants")
        wants["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
        wants["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
        await begin(world, pod_manifest("plain"), wants)
        assert bound_to(world, "plain")
        assert bound_to(world, "wants") == "n3"  # no node offers the resource: the extender alone looks after it
        assert [args["Pod"]["metadata"]["name"] for args in extenders.calls("filter")] == ["wants"]


# When it goes wrong


MALFORMED = [
    ({"Error": "out of order"}, f'extender "{URL}/filter": out of order'),
    ({"NodeNames": ["n1", "elsewhere"]}, f'extender "{URL}" claims a filtered node "elsewhere" which is not found in the input node list'),
    (Reply(500, b"boom\n"), f"failed filter with extender at URL {URL}/filter, code 500: boom"),
    (Reply(200, b"<html>"), f'extender "{URL}/filter": the answer is no JSON'),
    (Reply(200, b"[1]"), f'extender "{URL}/filter": the answer is not what it must be: Expected `object | null`, got `array`'),
    ({"NodeNames": "n1"}, f'extender "{URL}/filter": nodenames: the answer is not what it must be'),
]


@pytest.mark.parametrize(("answer", "said"), MALFORMED)
async def test_what_an_extender_did_wrong_is_in_the_condition_and_others_go_on(
    stage: Stage, extenders: Extenders, answer: Any, said: str
) -> None:
    extenders.say("filter", lambda args: answer if args["Pod"]["metadata"]["name"] == "p" else only("n1")(args))
    async with stage(extenders=[FILTER]) as world:
        await begin(world, pod_manifest("p"), pod_manifest("other"), nodes="n1")
        reason, message = condition(world)
        assert reason == "SchedulerError"
        assert said in message
        assert bound_to(world, "other") == "n1"
        extenders.say("filter", only("n1"))
        await asyncio.sleep(12)  # a backoff, without any event
        assert bound_to(world) == "n1"
        check_books(world)


async def test_an_ignorable_extender_that_is_down_is_as_if_it_were_not_there(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[{**FILTER, "ignorable": True}]) as world:
        await begin(world, nodes="n1")
        assert bound_to(world) == "n1"
        assert len(extenders.calls("filter")) == 1


async def test_an_extender_that_is_down_holds_the_pod_back_with_an_error(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[FILTER]) as world:
        await begin(world, nodes="n1")
        assert condition(world) == ("SchedulerError", f'Post "{URL}/filter": nothing there')
        attempts = metric(world, 'scheduler_schedule_attempts_total{profile="default-scheduler",result="error"}')
        assert attempts >= 1
        assert metric(world, "scheduler_scheduling_algorithm_duration_seconds_count") == attempts


# Prioritize


async def test_scores_count_ten_times_their_weight(stage: Stage, extenders: Extenders) -> None:
    # ImageLocality prefers n1 by 100 of 100; 6 * 2 * 10 = 120 outweigh that, 4 * 2 * 10 = 80 do not.
    image = {"names": ["big:1"], "sizeBytes": 2_000_000_000}
    for score, expected in ((6, "n2"), (4, "n1")):
        extenders.say("prioritize", [{"Host": "n2", "Score": score}, {"host": "gone", "score": 3}])
        async with stage(extenders=[{**PRIORITIZE, "weight": 2}]) as world:
            for name in ("n1", "n2"):
                manifest = node_manifest(name)
                manifest["status"]["images"] = [image] if name == "n1" else []
                await world.create(NODE, manifest)
            pod = pod_manifest()
            pod["spec"]["containers"][0]["image"] = "big:1"
            await begin(world, pod, nodes="")
            # one of two nodes has the image: trunc(2e9 * 1/2) is beyond the largest size that counts, so n1 scores 96
            assert bound_to(world) == expected


async def test_scores_of_several_extenders_add_up(stage: Stage, extenders: Extenders) -> None:
    other = "http://other"
    extenders.say("prioritize", [{"Host": "n1", "Score": 10}, {"Host": "n2", "Score": 6}])
    extenders.say("prioritize", [{"Host": "n2", "Score": 5}, {"Host": "n3", "Score": 10}], other)
    async with stage(extenders=[PRIORITIZE, {**PRIORITIZE, "urlPrefix": other}]) as world:
        await begin(world)
        assert bound_to(world) == "n2"  # 60 + 50 > 100
        assert 'scheduler_goroutines{operation="prioritizing_extender"} 0' in world.scheduler.metrics.text().decode()


@pytest.mark.parametrize("answer", [{"Host": "n1"}, [{"Host": "n1", "Score": 11}], [{"Host": "n1", "Score": -1}], Reply(500, b""), "no"])
async def test_an_extender_that_cannot_prioritize_adds_nothing(stage: Stage, extenders: Extenders, answer: Any) -> None:
    other = "http://other"
    extenders.say("prioritize", answer)
    extenders.say("prioritize", [{"Host": "n3", "Score": 1}], other)
    async with stage(extenders=[PRIORITIZE, {**PRIORITIZE, "urlPrefix": other}]) as world:
        await begin(world)
        assert bound_to(world) == "n3"


async def test_a_single_feasible_node_is_taken_without_asking_for_scores(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", only("n2"))
    async with stage(extenders=[{**PRIORITIZE, **FILTER}]) as world:
        await begin(world)
        assert bound_to(world) == "n2"
        assert extenders.calls("prioritize") == []


async def test_equal_totals_are_settled_by_chance(stage: Stage, extenders: Extenders) -> None:
    extenders.say("prioritize", [])
    chosen = set()
    for seed in range(20):
        async with stage(seed=seed, extenders=[PRIORITIZE]) as world:
            await begin(world, nodes="n1 n2")
            chosen.add(bound_to(world))
    assert chosen == {"n1", "n2"}


# The nominated node


async def test_the_nominated_node_is_asked_about_alone_and_taken(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", lambda args: {"NodeNames": args["NodeNames"]})
    async with stage(extenders=[FILTER]) as world:
        await begin(world, {**pod_manifest(), "status": {"phase": "Pending", "nominatedNodeName": "n2"}})
        assert bound_to(world) == "n2"
        assert [args["NodeNames"] for args in extenders.calls("filter")] == [["n2"]]


async def test_a_nominated_node_that_an_extender_refuses_is_one_of_many(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", only("n3"))
    async with stage(extenders=[FILTER]) as world:
        await begin(world, {**pod_manifest(), "status": {"phase": "Pending", "nominatedNodeName": "n2"}})
        assert bound_to(world) == "n3"
        assert [len(args["NodeNames"]) for args in extenders.calls("filter")] == [1, 3]


async def test_an_extender_that_fails_on_the_nominated_node_is_asked_about_all(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", lambda args: {"Error": "boom"} if len(args["NodeNames"]) == 1 else {"NodeNames": ["n3"]})
    async with stage(extenders=[FILTER]) as world:
        with capture_logs() as logs:
            await begin(world, {**pod_manifest(), "status": {"phase": "Pending", "nominatedNodeName": "n2"}})
        assert bound_to(world) == "n3"
    (logged,) = [each for each in logs if each["event"] == "an extender failed on the nominated node"]
    assert (logged["pod"], logged["err"], logged["log_level"]) == ("default/p", f'extender "{URL}/filter": boom', "warning")


async def test_an_ignorable_extender_that_fails_is_logged_once_until_it_is_well_again(stage: Stage, extenders: Extenders) -> None:
    config = {**FILTER, "bindVerb": "bind", "ignorable": True}
    async with stage(extenders=[config]) as world:
        with capture_logs() as logs:
            await begin(world, pod_manifest("a"), pod_manifest("b"), nodes="n1")
            extenders.say("filter", lambda args: {"NodeNames": args["NodeNames"]})
            extenders.say("bind", {})
            await world.create(POD, pod_manifest("c"))
            await world.settle()
            extenders.answers.clear()
            await world.create(POD, pod_manifest("d", "100m"))
            await world.settle()
    logged = [each for each in logs if each["event"] == "an extender fails and is ignored until it answers again"]
    assert [(each["extender"], each["verb"], each["err"], each["log_level"]) for each in logged] == [
        (URL, "filter", f'Post "{URL}/filter": nothing there', "warning"),
        (URL, "bind", f'Post "{URL}/bind": nothing there', "warning"),
    ] * 2


# The world changes while an extender thinks


def changing(extenders: Extenders, change: Callable[[], Awaitable[Any]], verb: str = "filter", answer: Any = None) -> None:
    """Let the verb be answered only after the change has come to the scheduler's notice."""

    async def found(args: dict[str, Any]) -> Any:
        del extenders.answers[f"{URL}/{verb}"]
        extenders.say(verb, lambda args: {"NodeNames": args["NodeNames"]})
        await change()
        await asyncio.sleep(1)
        return {"NodeNames": args["NodeNames"]} if answer is None else answer

    extenders.answers[f"{URL}/{verb}"] = found


async def test_a_node_that_goes_meanwhile_is_not_chosen(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[FILTER]) as world:
        changing(extenders, lambda: world.delete(Ref(NODE, "", "n1")), answer={"NodeNames": ["n1"], "FailedNodes": {"n2": "busy"}})
        await begin(world, nodes="n1 n2")
        await asyncio.sleep(10)
        assert said(world) == ["0/1 nodes are available: 1 busy."]
        assert bound_to(world) == "n2"  # the node's end is an event that the pod missed: it was tried again
        check_books(world)


async def test_room_that_is_taken_meanwhile_is_not_sold_again(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[FILTER]) as world:
        changing(extenders, lambda: world.create(POD, pod_manifest("thief", "3", nodeName="n1", schedulerName="x")))
        await begin(world, pod_manifest("p", "2"), nodes="n1")
        await asyncio.sleep(20)
        assert (bound_to(world), condition(world)[1]) == ("", "0/1 nodes are available: 1 Insufficient cpu.")
        assert world.scheduler.cache.nodes_by_name["n1"].requested("cpu") == 3000
        await world.delete(ref("thief"))
        await asyncio.sleep(20)
        assert bound_to(world) == "n1"
        check_books(world)


async def test_a_node_that_came_meanwhile_is_found_by_the_next_attempt(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[FILTER]) as world:
        changing(extenders, lambda: world.create(NODE, node_manifest("n2")), answer={"NodeNames": [], "FailedNodes": {"n1": "busy"}})
        await begin(world, nodes="n1")
        await asyncio.sleep(10)
        assert said(world) == ["0/2 nodes are available: 1 busy."]
        assert bound_to(world) in {"n1", "n2"}
        assert sorted(extenders.calls("filter")[1]["NodeNames"]) == ["n1", "n2"]


async def test_a_pod_that_is_deleted_meanwhile_leaves_nothing_behind(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[FILTER]) as world:
        changing(extenders, lambda: world.delete(ref()))
        await begin(world, nodes="n1")
        await asyncio.sleep(5)
        assert world.cluster.raws(POD) == []
        assert world.scheduler.cache.pods == {}
        assert world.cluster.calls["bind", POD] == 0
        check_books(world)


async def test_a_pod_that_another_scheduler_binds_meanwhile_stays_there(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[FILTER]) as world:
        bind = Binding("default", "p", "", "n2")

        async def by_another_scheduler() -> None:
            uid = world.cluster.raw(ref())["metadata"]["uid"]
            await world.cluster.bind(Binding(bind.namespace, bind.name, uid, bind.node))

        changing(extenders, by_another_scheduler, answer={"NodeNames": ["n1"]})
        await begin(world, nodes="n1 n2")
        await asyncio.sleep(5)
        assert bound_to(world) == "n2"
        check_books(world)


async def test_a_pod_that_changes_meanwhile_is_placed_as_it_is_now(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[FILTER]) as world:
        tainted = node_manifest("n1")
        tainted["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
        await world.create(NODE, tainted)
        patch = Patch({"spec": {"tolerations": [{"operator": "Exists"}]}, "metadata": {"labels": {"new": "yes"}}})
        changing(extenders, lambda: world.cluster.patch(ref(), patch))
        await begin(world, nodes="n2")
        await asyncio.sleep(5)
        assert bound_to(world) == "n2"
        (state,) = world.scheduler.cache.pods.values()
        assert state.info.pod.metadata.labels["new"] == "yes"
        check_books(world)


async def test_nothing_else_is_scheduled_while_an_extender_thinks(stage: Stage, extenders: Extenders) -> None:
    managed = {**FILTER, "managedResources": [{"name": "example.com/gpu"}]}
    seen: list[str] = []
    async with stage(extenders=[managed]) as world:

        async def meanwhile() -> None:
            await world.create(POD, pod_manifest("later"))
            await asyncio.sleep(2)
            seen.append(bound_to(world, "later"))

        changing(extenders, meanwhile)
        wants = pod_manifest()
        wants["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "0"}}
        await begin(world, wants, nodes="n1")
        await asyncio.sleep(5)
        assert (seen, bound_to(world, "later"), bound_to(world)) == ([""], "n1", "n1")


async def test_the_scheduler_stops_although_an_extender_does_not_answer(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[FILTER]) as world:

        async def never(args: dict[str, Any]) -> Any:
            await asyncio.Event().wait()

        extenders.answers[f"{URL}/filter"] = never
        await begin(world, nodes="n1")
        await world.stop()
        assert bound_to(world) == ""
        assert world.scheduler.cache.assumed_count == 0


# PostFilter


async def test_postfilter_sees_what_extenders_said_of_each_node(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", {"NodeNames": [], "FailedNodes": {"n1": "busy"}, "FailedAndUnresolvableNodes": {"n2": "broken"}})
    seen: dict[str, Any] = {}

    class Looking(FakePostFilter):
        async def post_filter(self, state: Any, pod: Any, diagnosis: Any) -> Any:
            seen.update({info.name: diagnosis.status_of(info.row) for info in world.scheduler.cache.nodes_by_name.values()})
            return None, unschedulable("nothing to do")

    async with stage((Looking("Looking", (None, None)), "postFilter"), extenders=[FILTER]) as world:
        await begin(world)
        assert {name: (status.code.value, status.reasons) for name, status in seen.items()} == {
            "n1": ("Unschedulable", ("busy",)),
            "n2": ("UnschedulableAndUnresolvable", ("broken",)),
            "n3": ("UnschedulableAndUnresolvable", (f'node(s) were left out by extender "{URL}"',)),
        }
        (event,) = world.cluster.raws(EVENT)
        assert event["note"].endswith("nothing to do")


async def test_postfilter_sees_what_filters_said_of_the_nodes_that_no_extender_was_asked_about(stage: Stage, extenders: Extenders) -> None:
    extenders.say("filter", {"NodeNames": [], "FailedNodes": {"n1": "busy"}})
    seen: dict[str, Any] = {}

    class Looking(FakePostFilter):
        async def post_filter(self, state: Any, pod: Any, diagnosis: Any) -> Any:
            seen.update({info.name: diagnosis.status_of(info.row) for info in world.scheduler.cache.nodes_by_name.values()})
            return None, unschedulable("nothing to do")

    full = FakeFilter("F", n2=unschedulable("full"), n3=unresolvable("wrong"))
    async with stage((full, "filter"), (Looking("Looking", (None, None)), "postFilter"), extenders=[FILTER]) as world:
        await begin(world)
        assert {name: (status.plugin, status.reasons) for name, status in seen.items()} == {
            "n1": (EXTENDER, ("busy",)),
            "n2": ("F", ("full",)),
            "n3": ("F", ("wrong",)),
        }


@pytest.mark.parametrize(
    ("configured", "expected"), [([FILTER], True), ([PRIORITIZE], True), ([{"urlPrefix": URL, "bindVerb": "bind"}], False), ([], False)]
)
async def test_events_count_that_only_extenders_may_wait_for_where_one_chooses_nodes(
    stage: Stage, extenders: Extenders, configured: list[dict[str, Any]], expected: bool
) -> None:
    """Any other event is dropped at once instead of being kept for the pods in flight."""
    async with stage(extenders=configured) as world:
        (profile,) = world.scheduler._queue_profiles().values()
        assert (EXTENDER in profile.hints) is expected
        assert EventRegistry(profile.hints).registered(cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_ANNOTATION)) is expected


# Bind


async def test_the_extender_that_binds_takes_the_place_of_the_binder(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[{"urlPrefix": URL, "bindVerb": "bind"}]) as world:

        async def bind(args: dict[str, Any]) -> Any:
            await world.cluster.bind(Binding(args["PodNamespace"], args["PodName"], args["PodUID"], args["Node"]))
            return {}

        extenders.answers[f"{URL}/bind"] = bind
        await begin(world, nodes="n1")
        await asyncio.sleep(1)
        uid = world.cluster.raw(ref())["metadata"]["uid"]
        assert extenders.calls("bind") == [{"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "n1"}]
        assert bound_to(world) == "n1"
        assert world.cluster.calls["bind", POD] == 1
        check_books(world)


async def test_a_binding_that_failed_is_undone_and_said(stage: Stage, extenders: Extenders) -> None:
    extenders.say("bind", {"Error": "no"})
    async with stage(extenders=[{"urlPrefix": URL, "bindVerb": "bind"}]) as world:
        await begin(world, nodes="n1")
        assert condition(world) == ("SchedulerError", f'extender "{URL}/bind": no')
        assert world.scheduler.cache.assumed_count == 0
        check_books(world)


async def test_a_binding_whose_answer_is_lost_is_found_out_about(stage: Stage, extenders: Extenders) -> None:
    async with stage(extenders=[{"urlPrefix": URL, "bindVerb": "bind"}]) as world:

        async def bind(args: dict[str, Any]) -> Any:
            await world.cluster.bind(Binding(args["PodNamespace"], args["PodName"], args["PodUID"], args["Node"]))
            raise Unanswered("no answer within 5 s")

        extenders.answers[f"{URL}/bind"] = bind
        await begin(world, nodes="n1")
        await asyncio.sleep(1)
        assert (bound_to(world), condition(world)) == ("n1", ("", ""))
        assert metric(world, 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"}') == 1
        check_books(world)


async def test_bind_plugins_bind_what_an_ignorable_extender_cannot_or_does_not_want(stage: Stage, extenders: Extenders) -> None:
    managed = {"urlPrefix": URL, "bindVerb": "bind", "managedResources": [{"name": "example.com/gpu"}], "ignorable": True}
    async with stage(extenders=[managed]) as world:
        wants = pod_manifest("wants")
        wants["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "0"}
        await begin(world, pod_manifest("plain"), wants, nodes="n1")
        assert (bound_to(world, "plain"), bound_to(world, "wants")) == ("n1", "n1")
        assert len(extenders.calls("bind")) == 1


# Preempt


async def test_extenders_narrow_the_candidates_of_preemption(stage: Stage, extenders: Extenders) -> None:
    preempt = {"urlPrefix": URL, "preemptVerb": "preempt", "nodeCacheCapable": True}
    async with stage(extenders=[preempt, {**preempt, "urlPrefix": "http://last", "ignorable": True}]) as world:
        chain = world.scheduler._extenders
        assert chain is not None
        await begin(world, pod_manifest("a", nodeName="n1"), pod_manifest("b", nodeName="n2"), pod_manifest("c", nodeName="n2"))
        there = {name: tuple(world.scheduler.cache.nodes_by_name[name].pods.values()) for name in ("n1", "n2")}
        pod = there["n1"][0]
        candidates = {name: Victims(pods) for name, pods in there.items()}
        uid = next(victim.uid for victim in there["n2"] if victim.key == "default/c")
        extenders.say("preempt", {"nodenametometavictims": {"n2": {"Pods": [{"uid": uid}], "NumPDBViolations": 1}}})
        assert chain.wants_preemption(pod)
        found = await chain.preempt(pod, candidates)
        assert {name: ([victim.key for victim in one.pods], one.pdb_violations) for name, one in found.items()} == {
            "n2": (["default/c"], 1)
        }
        asked = extenders.calls("preempt")[0]
        assert asked["NodeNameToVictims"] is None
        assert {victim["UID"] for victim in asked["NodeNameToMetaVictims"]["n2"]["Pods"]} == {victim.uid for victim in there["n2"]}

        extenders.say("preempt", {"NodeNameToMetaVictims": {"n2": {"Pods": [{"UID": "stranger"}]}}})
        with pytest.raises(
            ExtenderError, match=r"claims to preempt pod \(UID: stranger\) on node: n2, but the pod is not found on that node"
        ):
            await chain.preempt(pod, candidates)
        extenders.say("preempt", {"NodeNameToMetaVictims": {"n2": {"Pods": []}}})
        with pytest.raises(ExtenderError, match='expected at least one victim pod on node "n2"'):
            await chain.preempt(pod, candidates)
        extenders.say("preempt", {})
        assert await chain.preempt(pod, candidates) == {}


async def test_extenders_that_are_not_concerned_or_fail_and_may_be_ignored_leave_preemption_to_the_others(
    stage: Stage, extenders: Extenders
) -> None:
    preempt = {"urlPrefix": URL, "preemptVerb": "preempt", "nodeCacheCapable": True}
    unconcerned = {**preempt, "urlPrefix": "http://gpus", "managedResources": [{"name": "example.com/gpu"}]}
    extenders.say("preempt", lambda args: {"NodeNameToMetaVictims": {"n2": args["NodeNameToMetaVictims"]["n2"]}})
    async with stage(extenders=[unconcerned, preempt, {**preempt, "urlPrefix": "http://down", "ignorable": True}]) as world:
        lows = [pod_manifest(f"low{i}", "4", nodeName=f"n{i}", priority=i) for i in (1, 2)]
        await begin(world, *lows, pod_manifest("p", "4", priority=100), nodes="n1 n2")
        await asyncio.sleep(15)
        assert (bound_to(world), bound_to(world, "low1")) == ("n2", "n1")


async def test_a_preemptor_goes_where_the_extender_lets_it_evict(stage: Stage, extenders: Extenders) -> None:
    preempt = {"urlPrefix": URL, "preemptVerb": "preempt", "nodeCacheCapable": True}
    extenders.say("preempt", lambda args: {"NodeNameToMetaVictims": {"n2": args["NodeNameToMetaVictims"]["n2"]}})
    async with stage(extenders=[preempt]) as world:
        lows = [pod_manifest(f"low{i}", "4", nodeName=f"n{i}", priority=i) for i in (1, 2)]
        await begin(world, *lows, pod_manifest("p", "4", priority=100), nodes="n1 n2")
        await asyncio.sleep(15)
        assert bound_to(world) == "n2"  # though the victim on n1 is less important
        assert bound_to(world, "low1") == "n1"
        (args,) = extenders.calls("preempt")
        assert sorted(args["NodeNameToMetaVictims"]) == ["n1", "n2"]


async def test_an_extender_may_leave_no_candidate(stage: Stage, extenders: Extenders) -> None:
    preempt = {"urlPrefix": URL, "preemptVerb": "preempt", "nodeCacheCapable": True}
    extenders.say("preempt", {"NodeNameToMetaVictims": {}})
    async with stage(extenders=[preempt]) as world:
        await begin(world, pod_manifest("low", "4", nodeName="n1"), pod_manifest("p", "4", priority=100), nodes="n1")
        await asyncio.sleep(3)
        assert bound_to(world, "low") == "n1"
        event = next(event for event in world.cluster.raws(EVENT) if event["reason"] == "FailedScheduling")
        assert event["note"].startswith("0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, ")
        assert event["note"].endswith("no candidate node for preemption")


# All of it


async def test_a_real_server_is_asked_in_virtual_time(stage: Stage) -> None:
    with ExtenderServer(filter=only("n1", "n2"), prioritize=lambda _: [{"Host": "n2", "Score": 10}]) as server:
        both = {**FILTER, **PRIORITIZE, "urlPrefix": server.url}
        async with stage(extenders=[both]) as world:
            await begin(world)
            assert bound_to(world) == "n2"
            assert [verb for verb, _ in server.asked] == ["filter", "prioritize"]
            assert server.connections == 1
            (thread,) = [thread for thread in threading.enumerate() if thread.name == "extenders"]
            assert thread.daemon, "it would keep a process from ending that does not close it"
        assert not thread.is_alive()
