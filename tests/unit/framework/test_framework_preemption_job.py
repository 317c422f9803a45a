"""Preemption for a job beyond what the model of tests/property/test_preemption_rules.py shows: order, nominations, evictions, refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs
from support.builders import PodBuilder, node, pod
from support.preemption import EvictionApi, PreemptionBench
from support.world import Setup, World

from koordsched._core.change import NodeChange
from koordsched.api.podinfo import PodInfo
from koordsched.cache.nodes import NodeInfo
from koordsched.cluster.port import Forbidden
from koordsched.config import REFERENCE, Environment
from koordsched.config.features import FeatureGates
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import FilterPlugin, PostFilterResult
from koordsched.framework.preemption.engine import Outcome, PreemptionEngine
from koordsched.framework.preemption.job import Job, JobSearch
from koordsched.framework.preemption.job_by_amounts import JobRoom
from koordsched.framework.preemption.regions import Region
from koordsched.framework.preemption.rules import NO_VICTIMS, OVER_LIMIT, PreemptionRules, VictimRule
from koordsched.framework.status import Status, error, unschedulable
from koordsched.plugins import REGISTRY


class Cluster(PreemptionBench):
    """Nodes n1 (pods low and mid of two cores) to n3, four cores each, and an engine for jobs."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        others: dict[str, int],
        answers: tuple[Exception | None, ...] = (),
        setup: Setup | None = None,
        victims: VictimRule | None = None,
    ) -> None:
        """others: priorities of the pods of four cores on further nodes."""
        self.api = EvictionApi(*answers)
        super().__init__(self.api, monkeypatch, World(setup))
        for name, priority in others.items():
            self.world.cache.set_node(node(name).cpu("4").build())
            self.store[f"default/on-{name}"] = pod(f"on-{name}").cpu("4").priority(priority).on(name).build()
            self.world.cache.set_pod(pod(f"on-{name}").cpu("4").priority(priority).on(name).info(counted_on_node=True), name)
        rules = PreemptionRules(plugin="Jobs", victims=victims or VictimRule(), message=lambda job: f"room for a job, {job.key}")
        self.engine = PreemptionEngine(self.world, rules)

    def waiting(self, *pods: PodBuilder) -> list[PodInfo]:
        made = [self.world.signed(each.info()) for each in pods]
        self.store.update({each.key: each.pod for each in made})
        return made

    def diagnosis(self, trigger: PodInfo) -> Diagnosis:
        found = self.world.find(trigger)
        assert isinstance(found, Diagnosis)
        return found

    async def attempt(self, pods: list[PodInfo], **changes: Any) -> Outcome:
        return await self.engine.preempt_for_job(Job(pods[0], self.diagnosis(pods[0]), pods, **changes))

    def nominations(self, pods: list[PodInfo]) -> list[str]:
        return [self.world.nominator.node_of(each.uid) for each in pods]


def members(count: int, cpu: str = "4", priority: int = 9) -> list[PodBuilder]:
    return [pod(f"job-{i}").cpu(cpu).priority(priority) for i in range(count)]


async def test_the_cheapest_nodes_are_chosen_and_all_pods_nominated_and_gated_until_the_last_victim_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 3, "n4": 4})
    pods = cluster.waiting(*members(3))
    # n1 has two victims, the others one each.
    assert await cluster.attempt(pods) == (PostFilterResult("n2"), None)
    assert cluster.nominations(pods) == ["", "n3", "n4"], "the trigger's own nomination is the answer"
    assert [cluster.engine.pre_enqueue(each) is not None for each in pods] == [True, True, True]
    assert cluster.world.said[:2] == ["attempted", "nominate default/job-1: n3"]
    assert cluster.world.said[3] == "evicting 3"
    await cluster.finish()
    assert [cluster.engine.pre_enqueue(each) for each in pods] == [None, None, None]
    assert sorted(call for call in cluster.api.calls if call.startswith("delete")) == [
        "delete on-n2 uid-default-on-n2",
        "delete on-n3 uid-default-on-n3",
        "delete on-n4 uid-default-on-n4",
    ]
    assert "Preempted on-n4: Preempted by pod uid-default-job-0 on node n4" in cluster.world.said
    assert cluster.world.said[-3:] == [f"activate default/job-{i}" for i in range(3)]


async def test_several_pods_of_a_job_share_a_node_and_no_more_victims_go_than_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    pods = cluster.waiting(*members(3, cpu="2"))
    # Room for two on n2 costs one victim, room for one on n1 the one of the lowest priority.
    assert await cluster.attempt(pods) == (PostFilterResult("n1"), None)
    assert cluster.nominations(pods) == ["", "n2", "n2"]
    await cluster.finish()
    assert {call.split()[1] for call in cluster.api.calls} == {"low", "on-n2"}


def rows_of(cluster: Cluster, *names: str) -> Any:
    return np.array(sorted(cluster.world.cache.nodes_by_name[name].row for name in names), np.int32)


async def test_a_job_is_in_one_region_that_with_the_fewest_victims(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 3, "n4": 7})
    pods = cluster.waiting(*members(2))
    # n1 and n3 are the cheapest nodes, but n1 has two victims, and n3 is in a region with it.
    regions = [Region(rows_of(cluster, "n1", "n3")), Region(rows_of(cluster, "n2", "n4"))]
    result, _ = await cluster.attempt(pods, regions=regions)
    assert result is not None
    assert {result.nominated_node_name, cluster.nominations(pods)[1]} == {"n2", "n4"}
    await cluster.finish()


async def test_no_region_has_room_although_the_cluster_has(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 3})
    pods = cluster.waiting(*members(2))
    regions = [Region(rows_of(cluster, name)) for name in ("n1", "n2", "n3")]
    result, status = await cluster.attempt(pods, regions=regions)
    assert result == PostFilterResult("")
    assert status is not None
    assert status.message.startswith("preemption: room can be made for 1 of 2 pods: ")
    assert cluster.world.spawned == []


async def test_without_regions_in_question_nothing_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={})
    pods = cluster.waiting(*members(1))
    result, status = await cluster.attempt(pods, regions=[])
    assert result == PostFilterResult("")
    assert status is not None
    assert status.message.startswith("preemption: room can be made for 0 of 1 pods: ")


async def test_in_a_region_the_smallest_part_is_used_that_costs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 5, "n4": 5, "n5": 5})
    pods = cluster.waiting(*members(2))
    parts = [Region(rows_of(cluster, "n1", "n2")), Region(rows_of(cluster, "n3")), Region(rows_of(cluster, "n4", "n5"))]
    whole = Region(rows_of(cluster, "n1", "n2", "n3", "n4", "n5"), parts)
    result, _ = await cluster.attempt(pods, regions=[whole])
    assert result is not None
    # Any two of n2 to n5 cost the same.
    assert {result.nominated_node_name, cluster.nominations(pods)[1]} == {"n4", "n5"}
    await cluster.finish()


async def test_without_room_for_all_nothing_is_evicted_and_nominations_are_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 9})
    pods = cluster.waiting(*members(3))
    cluster.world.nominator.set(pods[1], "n1")
    result, status = await cluster.attempt(pods)
    assert result == PostFilterResult("")
    assert status is not None
    assert status.message == "preemption: 0/3 nodes are available: 3 Insufficient cpu."
    assert cluster.nominations(pods) == ["", "", ""]
    assert cluster.world.said == ["attempted", "withdraw default/job-1"]
    assert cluster.world.spawned == []


async def test_each_node_says_why_it_takes_no_other_pod_of_a_job_whatever_it_is_short_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """n2 is short of cores once a pod of the job is there, n3 has no pod that may go, n4 takes one pod, n5 refuses for good."""
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 9, "n4": 5})
    cluster.world.cache.set_node(node("n4").cpu("16").pods(1).build())
    cluster.world.cache.set_node(node("n5").cpu("16").taint("a", "NoSchedule").build())
    pods = cluster.waiting(*members(4))
    _, status = await cluster.attempt(pods)
    assert status is not None
    assert (
        status.message
        == "preemption: 0/5 nodes are available: 1 Preemption is not helpful for scheduling, 1 Too many pods, 3 Insufficient cpu."
    )


async def test_a_job_of_several_classes_says_what_nodes_lack_for_the_one_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    small, large = members(1, cpu="1"), [pod("large").cpu("4").priority(9), pod("larger").cpu("4").priority(9)]
    _, status = await cluster.attempt(cluster.waiting(*large, *small))
    assert status is not None
    assert status.message == "preemption: 0/2 nodes are available: 2 Insufficient cpu."


async def test_no_pod_gives_way_to_a_job_that_has_a_pod_of_its_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 3})
    pods = cluster.waiting(pod("a").cpu("4").priority(9), pod("b").cpu("4").priority(4))
    # The pods of n1 and the one of n3 have lower priorities than both.
    result, _ = await cluster.attempt(pods)
    assert result is not None
    assert {result.nominated_node_name, cluster.nominations(pods)[1]} == {"n1", "n3"}
    await cluster.finish()


async def test_pods_of_different_sizes_each_find_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    pods = cluster.waiting(pod("big").cpu("4").priority(9), pod("small").cpu("2").priority(9), pod("tiny").cpu("1").priority(9))
    # One victim on n2 makes room for the big one; the others need both pods of n1 gone.
    assert (await cluster.attempt(pods))[0] == PostFilterResult("n2")
    assert cluster.nominations(pods)[1:] == ["n1", "n1"]
    await cluster.finish()


@pytest.mark.parametrize("port", [0, 80], ids=["by amounts", "by filters"])
async def test_pods_that_keep_apart_get_nodes_of_their_own(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    apart = [made.host_port(port) if port else made for made in members(2, cpu="1")]
    pods = cluster.waiting(*apart)
    assert (await cluster.attempt(pods))[0] == PostFilterResult("n1")
    assert cluster.nominations(pods)[1] == ("n2" if port else "n1")
    await cluster.finish()


async def test_one_pod_that_waits_for_its_victims_keeps_the_job_from_evicting_more(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    cluster.run("low", 0, deleted="2999-01-01T00:00:00Z")
    pods = cluster.waiting(*members(2))
    cluster.world.nominator.set(pods[1], "n1")
    result, status = await cluster.attempt(pods)
    assert result is None
    assert status is not None
    assert status.message == "preemption: not eligible due to a terminating pod on the nominated node."
    assert cluster.nominations(pods)[1] == "n1"


async def test_lower_nominations_that_do_not_fit_beside_the_job_are_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    lower = pod("lower").cpu("2").priority(7).info()
    cluster.world.nominator.set(lower, "n2")
    await cluster.attempt(cluster.waiting(*members(2)))
    assert "withdraw default/lower" in cluster.world.said
    await cluster.finish()


async def test_when_a_victim_cannot_be_evicted_all_pods_of_the_job_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5}, answers=(Forbidden("no rights"),))
    await cluster.attempt(cluster.waiting(*members(2)))
    await cluster.finish()
    assert cluster.world.said[-3:] == ["evicted: error", "activate default/job-0", "activate default/job-1"]


async def test_a_pod_of_the_job_waits_for_its_victims_where_the_trigger_could_not_go_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    """What refuses the trigger there need not refuse the other pod."""
    cluster = Cluster(monkeypatch, others={"n2": 5})
    cluster.run("low", 0, deleted="2999-01-01T00:00:00Z")
    pods = cluster.waiting(pod("elsewhere").cpu("4").priority(9).requires_name("n2"), pod("here").cpu("4").priority(9))
    cluster.world.nominator.set(pods[1], "n1")
    _, status = await cluster.attempt(pods)
    assert status is not None
    assert status.message == "preemption: not eligible due to a terminating pod on the nominated node."


async def test_a_trigger_does_not_wait_for_victims_on_a_node_where_it_could_not_go_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    cluster.run("low", 0, deleted="2999-01-01T00:00:00Z")
    pods = cluster.waiting(pod("elsewhere").cpu("4").priority(9).requires_name("n2"))
    cluster.world.nominator.set(pods[0], "n1")
    assert await cluster.attempt(pods) == (PostFilterResult("n2"), None)
    await cluster.finish()


async def test_a_lower_nomination_for_a_node_without_victims_stays_if_the_pod_fits_beside_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 9})
    cluster.world.cache.set_node(node("roomy").cpu("4").build())
    cluster.world.cache.set_pod(pod("there").cpu("1").priority(9).on("roomy").info(counted_on_node=True), "roomy")
    lower = [pod(f"lower-{i}").cpu("1").priority(7).info() for i in range(3)]
    for each, there in zip(lower, ("roomy", "roomy", "n1"), strict=True):
        cluster.world.nominator.set(each, there)
    asked: list[tuple[str, list[str], list[str]]] = []

    def fits(waiting: PodInfo, there: NodeInfo, add: Iterable[PodInfo], remove: Iterable[PodInfo]) -> bool:
        asked.append((waiting.key, [other.key for other in add], [other.key for other in remove]))
        return waiting is lower[0]

    monkeypatch.setattr(cluster.world, "fits", fits)
    pods = cluster.waiting(pod("big").cpu("4").priority(9), pod("small").cpu("2").priority(9))
    assert (await cluster.attempt(pods))[0] == PostFilterResult("n1")
    assert cluster.nominations(pods)[1] == "roomy"
    assert asked == [
        ("default/lower-2", ["default/big"], ["default/mid", "default/low"]),
        ("default/lower-0", ["default/small"], []),
        ("default/lower-1", ["default/small", "default/lower-0"], []),
    ]
    assert [said for said in cluster.world.said if "withdraw" in said] == ["withdraw default/lower-2", "withdraw default/lower-1"]
    await cluster.finish()


async def test_without_evictions_in_the_background_the_answer_says_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5}, answers=(Forbidden("no rights"),))
    cluster.world.gates = FeatureGates({"SchedulerAsyncPreemption": False})
    pods = cluster.waiting(*members(2))
    result, status = await cluster.attempt(pods)
    assert (result, status) == (None, error("preemption: no rights"))
    assert cluster.world.spawned == []
    assert {call for call in cluster.api.calls if call.startswith("patch")} == {"patch low", "patch mid", "patch on-n2"}


async def test_without_evictions_in_the_background_all_victims_are_gone_when_the_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    cluster.world.gates = FeatureGates({"SchedulerAsyncPreemption": False})
    assert await cluster.attempt(cluster.waiting(*members(2))) == (PostFilterResult("n1"), None)
    assert cluster.world.cache.pods == {}
    assert cluster.world.spawned == []


async def test_without_any_pod_of_lower_priority_no_node_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    result, status = await cluster.attempt(cluster.waiting(*members(2, priority=0)))
    assert result == PostFilterResult("")
    assert status is not None
    assert status.message == f"preemption: 0/2 nodes are available: 2 {NO_VICTIMS.message}."


@pytest.mark.parametrize(("where", "said"), [("", 1), ("n1", 0)])
async def test_a_nomination_of_a_pod_of_the_job_is_withdrawn_where_there_is_one(
    where: str, said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 9})
    pods = cluster.waiting(*members(2))
    if not where:
        cluster.world.nominator.set(pods[1], "n2")
    await cluster.attempt(pods)
    assert sum(line.startswith("withdraw") for line in cluster.world.said) == said


async def test_a_victim_is_put_back_only_if_every_kind_of_pod_of_the_job_still_fits_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={})
    cluster.world.cache.set_node(node("m").cpu("8").memory("4Gi").build())
    for name, made in (("hog", pod("hog").memory("4Gi")), ("idle", pod("idle").cpu("1"))):
        cluster.store[f"default/{name}"] = made.on("m").build()
        cluster.world.cache.set_pod(made.on("m").info(counted_on_node=True), "m")
    small, again, hungry = cluster.waiting(
        pod("small").cpu("3").priority(9), pod("again").cpu("3").priority(9), pod("hungry").memory("2Gi").priority(9)
    )
    job = Job(hungry, cluster.diagnosis(hungry), [small, again, hungry])
    assert await cluster.engine.preempt_for_job(job) == (PostFilterResult("m"), None)
    await cluster.finish()
    assert cluster.api.calls == ["patch hog", "delete hog uid-default-hog"]


@pytest.mark.parametrize("port", [0, 80], ids=["by amounts", "by filters"])
async def test_pods_of_others_that_are_nominated_before_the_job_keep_their_room(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 7})
    ahead = pod("ahead").cpu("4").priority(10)
    cluster.world.nominator.set(cluster.world.signed((ahead.host_port(port) if port else ahead).info()), "n1")
    pods = cluster.waiting(*members(2))
    assert (await cluster.attempt(pods))[0] == PostFilterResult("n2")
    assert cluster.nominations(pods)[1] == "n3"
    await cluster.finish()


class Counted(FilterPlugin):
    """Lets every node pass, whichever pods are there, and counts how often it is asked about a job's pod on a cleared node."""

    name = "Counted"
    reads = NodeChange.LABELS

    def __init__(self) -> None:
        self.asked = 0

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.asked += 1
        return None


async def test_where_amounts_alone_decide_filters_are_asked_about_the_first_of_equal_pods_on_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = Counted()
    cluster = Cluster(monkeypatch, others={"n2": 5}, setup=with_filter("Counted", counted))
    asked = []
    for count in (1, 2, 3, 4):
        pods = cluster.waiting(*members(count, cpu="500m"))
        before = counted.asked
        room = JobSearch(cluster.world, cluster.engine.finder, Job(pods[0], cluster.diagnosis(pods[0]), pods)).room()
        assert isinstance(room, JobRoom)
        assert list(room.nodes.values()) == ["n1"] * count
        asked.append(counted.asked - before)
    assert asked[0] == asked[1] == asked[2] == asked[3]


async def test_where_victims_release_too_little_the_refusal_gives_the_reason_of_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    class Limited(VictimRule):
        def to_release(self, preemptors: Sequence[PodInfo]) -> Mapping[str, int]:
            return {"cpu": 5000 * len(preemptors)}

    cluster = Cluster(monkeypatch, others={"n2": 5}, victims=Limited())
    result, status = await cluster.attempt(cluster.waiting(*members(2)))
    assert result == PostFilterResult("")
    assert status is not None
    assert status.message == f"preemption: 0/2 nodes are available: 2 {OVER_LIMIT.message}."
    assert cluster.world.spawned == []


def with_filter(name: str, plugin: FilterPlugin) -> Setup:
    return Setup(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: {name}}}]}}}}}}]\n",
        Environment(catalogue=REFERENCE.with_plugin(name, frozenset({"filter"}))),
        {**REGISTRY, name: lambda _args, _handle: plugin},
    )


class Fickle(FilterPlugin):
    """Refuses pods of jobs that it has let pass once on a node without others."""

    name = "Fickle"

    def __init__(self) -> None:
        self.passed = False

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if self.passed:
            return unschedulable("changed its mind")
        self.passed = not node.pods
        return None


async def test_filters_that_say_at_the_end_otherwise_than_before_are_logged_and_nothing_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={}, setup=with_filter("Fickle", Fickle()))
    with capture_logs() as logs:
        result, status = await cluster.attempt(cluster.waiting(*[each.host_port(80) for each in members(1)]))
    assert [(said["event"], said["pod"]) for said in logs] == [
        ("preemption foresaw room for a job that the filters do not see", "default/job-0")
    ]
    assert result == PostFilterResult("")
    assert status is not None
    assert status.message == "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    assert cluster.world.spawned == []
    assert {each.key for each in cluster.world.cache.nodes_by_name["n1"].pods.values()} == {"default/low", "default/mid"}


async def test_the_condition_of_a_victim_says_what_the_rules_say(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    messages: list[str] = []
    patch = cluster.api.patch

    async def noted(ref: Any, change: Any) -> None:
        messages.append(change.body["status"]["conditions"][0]["message"])
        await patch(ref, change)

    monkeypatch.setattr(cluster.api, "patch", noted)
    await cluster.attempt(cluster.waiting(*members(2)))
    await cluster.finish()
    assert set(messages) == {"default-scheduler: room for a job, default/job-0"}


async def test_a_trigger_that_may_not_preempt_does_not_and_neither_does_one_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    pods = cluster.waiting(*[made.preemption_policy("Never") for made in members(2)])
    status: Status | None
    _, status = await cluster.attempt(pods)
    assert status is not None
    assert status.message == "preemption: not eligible due to preemptionPolicy=Never."
    del cluster.store[pods[0].key]
    _, status = await cluster.attempt(pods)
    assert status is not None
    assert status.message == 'preemption: pods "job-0" not found'
    await asyncio.sleep(0)


async def test_what_amounts_do_not_know_of_nominated_pods_is_asked_of_all_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    """n1 has room by amounts for the job beside the nominated pod, whose port the job's pods want too."""
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 6})
    ahead = cluster.world.signed(pod("ahead").host_port(80).priority(10).info())
    cluster.world.nominator.set(ahead, "n1")
    pods = cluster.waiting(*[made.host_port(80) for made in members(2)])
    assert (await cluster.attempt(pods))[0] == PostFilterResult("n2")
    assert cluster.nominations(pods)[1] == "n3"
    await cluster.finish()


async def test_a_node_that_amounts_rule_out_for_a_nominated_pod_may_take_the_job_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a nominated pod with a port the dry run counts the amounts, though it is of the job itself and goes with it."""
    cluster = Cluster(monkeypatch, others={})
    pods = cluster.waiting(*[made.host_port(80 + i) for i, made in enumerate(members(2, cpu="2"))])
    assert (await cluster.attempt(pods))[0] == PostFilterResult("n1")
    assert cluster.nominations(pods)[1] == "n1"
    await cluster.finish()


async def test_the_refusal_says_for_how_many_pods_there_is_room_where_they_are_placed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    pods = cluster.waiting(*[made.host_port(80) for made in members(3, cpu="1")])
    result, status = await cluster.attempt(pods)
    assert result == PostFilterResult("")
    assert status is not None
    reason = "2 node(s) didn't have free ports for the requested pod ports"
    assert status.message == f"preemption: 0/2 nodes are available: {reason}."
    assert cluster.world.spawned == []
