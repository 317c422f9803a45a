"""ScheduleExplanations: when their status is written, what it says, and when they go (frameworkext.md §4.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.fakes import FakeFilter, node_manifest, pod_manifest
from support.stages import Stage, bound_to

from koordsched import tasks
from koordsched.api.kinds import NODE, POD, POD_GROUP, SCHEDULE_EXPLANATION
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Patch, Ref, ServerError
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.scheduler.explanations.controller import DEFAULT_TTL, NO_TEMPLATE

REF = Ref(SCHEDULE_EXPLANATION, "default", "why")
GANG_LABEL = "pod-group.scheduling.sigs.k8s.io"


def question(key: str = "default/p", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "default", "name": "why"}, "spec": {"questionObjectKey": key, **spec}}


def status(world: EmbeddedCluster) -> dict[str, Any]:
    found: dict[str, Any] = world.cluster.raw(REF).get("status", {})
    return found


def details(world: EmbeddedCluster) -> list[tuple[str, str, list[str]]]:
    found = status(world)["detailedExplanation"][0]["scheduleExplanation"].get("nodeFailedDetails", [])
    return [(each["failedPlugin"], each["reason"], each["failedNodes"]) for each in found]


def writes(world: EmbeddedCluster) -> int:
    return int(world.cluster.raw(REF)["metadata"]["resourceVersion"])


@pytest.fixture
def koordinators(stage: Stage) -> Stage:
    """Make worlds whose profile has a plugin of Koordinator's, as those have that ask."""

    def make(*plugins: Any, **options: Any) -> Any:
        profiles = [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}, {"name": "DefaultPreBind"}]}},
            }
        ]
        return stage(*plugins, profiles=profiles, **options)

    return make


async def ask(world: EmbeddedCluster, *objects: tuple[Any, dict[str, Any]]) -> None:
    """Create these, start, ask about default/p and let time pass for the answer."""
    for kind, manifest in objects:
        await world.create(kind, manifest)
    await world.start()
    await world.settle()
    await world.create(SCHEDULE_EXPLANATION, question())
    await asyncio.sleep(0.1)


async def test_why_a_pod_fits_nowhere_is_answered_by_node(koordinators: Stage) -> None:
    """frameworkext.md §10, 42."""
    async with koordinators() as world:
        tainted = node_manifest("n3", "9")
        tainted["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
        await ask(
            world, *((NODE, each) for each in (node_manifest("n2", "1"), node_manifest("n1", "1"), tainted)), (POD, pod_manifest("p", "2"))
        )
        assert status(world).get("schedulable", False) is False
        assert details(world) == [
            ("NodeResourcesFit", "Insufficient cpu", ["n1", "n2"]),
            ("TaintToleration", "node(s) had untolerated taint(s)", ["n3"]),
        ]
        conditions = world.cluster.raw(Ref(POD, "default", "p"))["status"]["conditions"]
        assert status(world)["failedMessage"] == conditions[0]["message"]
        assert status(world)["lastUpdateTime"]


async def test_an_answer_that_changes_is_written_after_five_seconds_and_one_that_holds_every_minute(koordinators: Stage) -> None:
    async with koordinators() as world:
        await ask(world, (NODE, node_manifest("n1", "1")), (POD, pod_manifest("p", "2")))
        version = writes(world)
        await asyncio.sleep(30)
        assert writes(world) == version
        await world.create(NODE, node_manifest("n2", "1"))
        await asyncio.sleep(4.9)
        await asyncio.sleep(0.2)
        assert details(world) == [("NodeResourcesFit", "Insufficient cpu", ["n1", "n2"])]
        changed = writes(world)
        assert changed > version
        await asyncio.sleep(50)
        assert writes(world) == changed
        await asyncio.sleep(20)
        assert writes(world) > changed


async def test_answers_that_change_all_the_time_are_written_every_five_seconds(koordinators: Stage) -> None:
    async with koordinators() as world:
        await ask(world, (NODE, node_manifest("n1", "1")), (POD, pod_manifest("p", "2")))
        seen = {writes(world)}
        for i in range(100):
            await world.create(NODE, node_manifest(f"m{i}", "1"))
            await asyncio.sleep(0.2)
            seen.add(writes(world))
        assert 4 <= len(seen) <= 6  # 20 s


async def test_a_pod_that_gets_a_node_is_schedulable(koordinators: Stage) -> None:
    async with koordinators() as world:
        await ask(world, (NODE, node_manifest("n1", "1")), (POD, pod_manifest("p", "2")))
        await world.create(NODE, node_manifest("n2", "2"))
        await asyncio.sleep(20)
        assert bound_to(world) == "n2"
        (explained,) = status(world)["detailedExplanation"]
        (result,) = explained["scheduleExplanation"]["feasibleSchedulingResult"]
        assert (status(world)["schedulable"], result["nodeName"], "failedMessage" in status(world)) == (True, "n2", False)


async def test_a_pod_that_never_came_to_a_cycle_is_explained_too(koordinators: Stage) -> None:
    async with koordinators() as world:
        await ask(world, (POD, pod_manifest("p", schedulingGates=[{"name": "later"}])))
        assert "later" in status(world)["failedMessage"]


async def test_a_pod_of_another_scheduler_is_named_as_such(koordinators: Stage) -> None:
    async with koordinators() as world:
        await ask(world, (POD, pod_manifest("p", schedulerName="other")))
        assert status(world)["failedMessage"] == "scheduler 'other' is responsible for it, which this one is not"


async def test_what_is_not_there_is_said_and_what_comes_later_is_answered(koordinators: Stage) -> None:
    async with koordinators() as world:
        await ask(world, (NODE, node_manifest("n1", "1")))
        assert status(world)["failedMessage"] == 'there is no pod, gang or job "default/p"'
        await world.create(POD, pod_manifest("p", "2"))
        await asyncio.sleep(6)
        assert details(world) == [("NodeResourcesFit", "Insufficient cpu", ["n1"])]


async def test_a_template_is_not_supported(koordinators: Stage) -> None:
    async with koordinators() as world:
        await world.start()
        body = {"metadata": {"namespace": "default", "name": "why"}, "spec": {"questionObjectTemplate": {"spec": {}}}}
        await world.create(SCHEDULE_EXPLANATION, body)
        await asyncio.sleep(0.1)
        assert status(world)["failedMessage"] == NO_TEMPLATE


async def test_a_question_that_changes_is_answered_anew(koordinators: Stage) -> None:
    async with koordinators() as world:
        await ask(world, (NODE, node_manifest("n1", "4")), (POD, pod_manifest("p", "9")), (POD, pod_manifest("q", "1")))
        await world.cluster.patch(REF, Patch({"spec": {"questionObjectKey": "default/q"}}))
        await asyncio.sleep(6)
        assert status(world)["schedulable"] is True


async def test_a_job_is_the_owner_of_pods(koordinators: Stage) -> None:
    async with koordinators() as world:
        pods = [pod_manifest(f"p{i}", "3") for i in range(2)]
        for each in pods:
            each["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "u"}]
        for kind, manifest in ((NODE, node_manifest("n1", "4")), *((POD, each) for each in pods)):
            await world.create(kind, manifest)
        await world.start()
        await world.settle()
        await world.create(SCHEDULE_EXPLANATION, question("default/work"))
        await asyncio.sleep(0.1)
        (explained,) = status(world)["detailedExplanation"]
        assert [each["name"] for each in explained["scheduleExplanation"]["feasibleSchedulingResult"]] == ["p0"]
        assert details(world) == [("NodeResourcesFit", "Insufficient cpu", ["n1"])]


async def test_pods_of_a_job_come_and_go_and_are_given_other_owners(koordinators: Stage) -> None:
    """After the first question nothing walks over all pods: the second one is answered by what was learnt from their changes."""

    def owned(name: str, owner: str) -> dict[str, Any]:
        manifest = pod_manifest(name, "1")
        manifest["metadata"]["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner}]
        return manifest

    def pods(job: str) -> list[str]:
        return [key.partition("/")[2] for key in world.scheduler.explanations.explainer.pods_of(job)]

    async with koordinators() as world:
        for each in (owned("a", "one"), owned("b", "one"), owned("c", "two"), pod_manifest("alone")):
            await world.create(POD, each)
        await world.start()
        await world.settle()
        assert (pods("default/one"), pods("default/two"), pods("default/none")) == (["a", "b"], ["c"], [])
        assert pods("other/one") == []
        live = world.scheduler.explanations.explainer._pods
        store, live.pods = live.pods, Unwalkable(live.pods)
        await world.create(POD, owned("d", "two"))
        await world.cluster.patch(Ref(POD, "default", "a"), Patch({"metadata": owned("a", "two")["metadata"]}))
        await world.delete(Ref(POD, "default", "c"))
        await world.settle()
        assert (pods("default/one"), pods("default/two")) == (["b"], ["d", "a"])
        await world.delete(Ref(POD, "default", "b"))
        await world.settle()
        assert (pods("default/one"), pods("default/a")) == ([], ["a"])
        live.pods = store


class Unwalkable(Mapping[str, Any]):
    """A store in which objects can be looked up and over which there is no loop."""

    def __init__(self, store: Mapping[str, Any]) -> None:
        self._store = store

    def __getitem__(self, key: str) -> Any:
        return self._store[key]

    def __len__(self) -> int:
        return len(self._store)

    def __iter__(self) -> Iterator[str]:
        raise AssertionError


async def gang_of_two(world: EmbeddedCluster) -> None:
    """Two members, of which n1 has room for one."""
    await world.create(NODE, node_manifest("n1", "3"))
    await world.create(POD_GROUP, {"metadata": {"namespace": "default", "name": "g"}, "spec": {"minMember": 2}})
    for name in ("m0", "m1"):
        manifest = pod_manifest(name, "2")
        manifest["metadata"]["labels"] = {GANG_LABEL: "g"}
        await world.create(POD, manifest)
    await world.start()
    await world.settle()


async def test_a_gang_is_asked_about_by_its_id_and_the_member_without_room_speaks(koordinators: Stage) -> None:
    async with koordinators() as world:
        await gang_of_two(world)
        await world.create(SCHEDULE_EXPLANATION, question("default/g"))
        await asyncio.sleep(0.1)
        assert status(world).get("schedulable", False) is False
        assert "Insufficient cpu" in status(world)["failedMessage"]


async def test_a_failed_gang_is_diagnosed_member_by_member_under_its_id(koordinators: Stage) -> None:
    with capture_logs() as lines:
        async with koordinators(args=["-d"]) as world:
            await gang_of_two(world)
    found = [json.loads(line["event"].split("$", 1)[1]) for line in lines if line["event"].startswith("dump diagnosis for default/g, ")]
    assert [(each["questionedKey"], each["isRootCausePod"]) for each in found] == [("default/g", False), ("default/g", True)]
    follower, cause = found
    assert follower["preFilterMessage"].startswith('GangGroup "default/g" gets rejected due to member Pod "default/m1"')
    assert cause["scheduleDiagnosis"]["alreadyWaitForBound"] == 1
    assert cause["scheduleDiagnosis"]["nodeOfferSlot"] == {"n1": 1}
    assert [each["failedNodes"] for each in cause["scheduleDiagnosis"]["nodeFailedDetails"]] == [["n1"]]


async def test_what_preemption_found_is_part_of_the_answer(koordinators: Stage) -> None:
    async with koordinators() as world:
        await ask(world, (NODE, node_manifest("n1", "2")), (POD, pod_manifest("low", "2", priority=1)))
        assert bound_to(world, "low") == "n1"
        await world.create(POD, pod_manifest("p", "2", priority=10, preemptionPolicy="Never"))
        await asyncio.sleep(6)
        assert details(world) == [("NodeResourcesFit", "Insufficient cpu", ["n1"])]
        assert "schedulableAfterPreemption" not in status(world)


async def test_whom_preemption_evicts_and_for_which_node_is_part_of_the_answer(koordinators: Stage) -> None:
    async with koordinators() as world:
        await ask(world, (NODE, node_manifest("n1", "1")), (POD, pod_manifest("p", "2", priority=10)))
        assert status(world)["detailedExplanation"][0].get("nodePossibleVictims", []) == []
        low = pod_manifest("low", "2", priority=1, nodeName="n2")
        low["metadata"]["finalizers"] = ["example.com/slow"]  # so that it is still there after it was evicted
        await world.create(POD, low)
        await world.create(NODE, node_manifest("n2", "2"))
        await asyncio.sleep(70)
        (found,) = status(world)["detailedExplanation"]
        (on_node,) = found["nodePossibleVictims"]
        assert (on_node["nodeName"], [each["name"] for each in on_node["possibleVictims"]]) == ("n2", ["low"])
        assert found["preemptExplanation"]["schedulable"] is True
        assert [each["nodeName"] for each in found["preemptExplanation"]["feasibleSchedulingResult"]] == ["n2"]


# How long objects stay


async def test_an_object_goes_when_its_time_is_over(koordinators: Stage) -> None:
    async with koordinators() as world:
        await world.start()
        await world.create(SCHEDULE_EXPLANATION, question(ttl="1m"))
        await asyncio.sleep(50)
        assert await world.get(REF) is not None
        await asyncio.sleep(20)
        assert await world.get(REF) is None


@pytest.mark.parametrize("ttl", [{}, {"ttl": "0s"}])
async def test_an_object_without_a_limit_of_its_own_stays(koordinators: Stage, ttl: dict[str, str]) -> None:
    """For 24 hours, or for ever."""
    assert DEFAULT_TTL == "24h"
    async with koordinators() as world:
        await world.start()
        await world.create(SCHEDULE_EXPLANATION, question(**ttl))
        await asyncio.sleep(600)
        assert await world.get(REF) is not None


async def test_a_limit_that_is_no_duration_is_reported_once_and_does_not_count(koordinators: Stage) -> None:
    with capture_logs() as lines:
        async with koordinators() as world:
            await world.start()
            await world.create(SCHEDULE_EXPLANATION, question(ttl="soon"))
            await asyncio.sleep(60)
            assert await world.get(REF) is not None
    problems = [line["problem"] for line in lines if "problem" in line]
    assert problems == ["spec.ttl: 'soon' is no duration such as 90m; 24h counts"]


# Who writes


async def test_a_write_that_fails_is_made_again(koordinators: Stage) -> None:
    async with koordinators() as world:
        fault = Fault(verb="patch status", kind=SCHEDULE_EXPLANATION, error=lambda: ServerError("etcd is away"))
        world.cluster.faults.rules.append(fault)
        await ask(world, (NODE, node_manifest("n1", "1")), (POD, pod_manifest("p", "2")))
        assert status(world) == {}
        world.cluster.faults.rules.clear()
        await asyncio.sleep(10)
        assert details(world)
    tasks.failures.clear()


async def test_a_flag_turns_it_off(koordinators: Stage) -> None:
    async with koordinators(args=["--controller-plugins=*,-ScheduleExplanation"]) as world:
        await ask(world, (POD, pod_manifest("p", "2")))
        await asyncio.sleep(10)
        assert status(world) == {}


async def test_a_scheduler_without_plugins_of_koordinators_does_not_look_for_the_kind(stage: Stage) -> None:
    async with stage((FakeFilter(), "filter")) as world:
        assert SCHEDULE_EXPLANATION not in {informer.kind for informer in world.scheduler._informers}
