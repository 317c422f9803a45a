"""Preemption for a job beyond what the model of tests/property/test_preemption_rules.py shows: order, nominations, evictions, refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from support.builders import PodBuilder, node, pod
from support.preemption import EvictionApi, PreemptionBench
from support.world import World

from koordsched.api.podinfo import PodInfo
from koordsched.cluster.port import Forbidden
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.interface import PostFilterResult
from koordsched.framework.preemption.engine import Outcome, PreemptionEngine
from koordsched.framework.preemption.job import Job
from koordsched.framework.preemption.rules import PreemptionRules
from koordsched.framework.status import Status


class Cluster(PreemptionBench):
    """Nodes n1 (pods low and mid of two cores) to n3, four cores each, and an engine for jobs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, others: dict[str, int], answers: tuple[Exception | None, ...] = ()) -> None:
        """others: priorities of the pods of four cores on further nodes."""
        self.api = EvictionApi(*answers)
        super().__init__(self.api, monkeypatch, World())
        for name, priority in others.items():
            self.world.cache.set_node(node(name).cpu("4").build())
            self.store[f"default/on-{name}"] = pod(f"on-{name}").cpu("4").priority(priority).on(name).build()
            self.world.cache.set_pod(pod(f"on-{name}").cpu("4").priority(priority).on(name).info(counted_on_node=True), name)
        self.engine = PreemptionEngine(self.world, PreemptionRules(plugin="Jobs", message=lambda trigger: f"room for a job, {trigger.key}"))

    def waiting(self, *pods: PodBuilder) -> list[PodInfo]:
        made = [self.world.signed(each.info()) for each in pods]
        self.store.update({each.key: each.pod for each in made})
        return made

    async def attempt(self, pods: list[PodInfo], **changes: Any) -> Outcome:
        found = self.world.find(pods[0])
        assert isinstance(found, Diagnosis)
        return await self.engine.preempt_for_job(Job(pods[0], found, pods, **changes))

    def nominations(self, pods: list[PodInfo]) -> list[str]:
        return [self.world.nominator.node_of(each.uid) for each in pods]


def members(count: int, cpu: str = "4", priority: int = 9) -> list[PodBuilder]:
    return [pod(f"job-{i}").cpu(cpu).priority(priority) for i in range(count)]


async def test_the_cheapest_nodes_are_chosen_and_all_pods_nominated_and_gated_until_the_last_victim_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 3, "n4": 4})
    pods = cluster.waiting(*members(3))
    # Victims of n1 have the highest priority 1, of n3 3, of n4 4, of n2 5.
    assert await cluster.attempt(pods) == (PostFilterResult("n1"), None)
    assert cluster.nominations(pods) == ["", "n3", "n4"], "the trigger's own nomination is the answer"
    assert [cluster.engine.pre_enqueue(each) is not None for each in pods] == [True, True, True]
    assert cluster.world.said[:2] == ["attempted", "nominate default/job-1: n3"]
    assert cluster.world.said[3] == "evicting 4"
    await cluster.finish()
    assert [cluster.engine.pre_enqueue(each) for each in pods] == [None, None, None]
    assert sorted(call for call in cluster.api.calls if call.startswith("delete")) == [
        "delete low uid-default-low",
        "delete mid uid-default-mid",
        "delete on-n3 uid-default-on-n3",
        "delete on-n4 uid-default-on-n4",
    ]
    assert "Preempted on-n4: Preempted by pod uid-default-job-0 on node n4" in cluster.world.said
    assert cluster.world.said[-3:] == [f"activate default/job-{i}" for i in range(3)]


async def test_several_pods_of_a_job_share_a_node_and_no_more_victims_go_than_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    pods = cluster.waiting(*members(3, cpu="2"))
    assert await cluster.attempt(pods) == (PostFilterResult("n1"), None)
    assert cluster.nominations(pods) == ["", "n1", "n2"]
    await cluster.finish()
    assert {call.split()[1] for call in cluster.api.calls} == {"low", "mid", "on-n2"}


async def test_a_user_may_say_what_making_room_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 3})
    pods = cluster.waiting(*members(2))
    costs = {cluster.world.cache.nodes_by_name[name].row: cost for name, cost in (("n1", 7), ("n2", 1), ("n3", 4))}
    result, _ = await cluster.attempt(pods, cost=lambda rows: np.array([costs[row] for row in rows.tolist()], np.int64))
    assert (result, cluster.nominations(pods)[1]) == (PostFilterResult("n2"), "n3")
    await cluster.finish()


async def test_without_room_for_all_nothing_is_evicted_and_nominations_are_withdrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 9})
    pods = cluster.waiting(*members(3))
    cluster.world.nominator.set(pods[1], "n1")
    result, status = await cluster.attempt(pods)
    assert result == PostFilterResult("")
    assert status is not None
    assert status.message.startswith("preemption: room can be made for 2 of 3 pods: 0/3 nodes are available: ")
    assert cluster.nominations(pods) == ["", "", ""]
    assert cluster.world.said == ["attempted", "withdraw default/job-1"]
    assert cluster.world.spawned == []


async def test_no_pod_gives_way_to_a_job_that_has_a_pod_of_its_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5, "n3": 3})
    pods = cluster.waiting(pod("a").cpu("4").priority(9), pod("b").cpu("4").priority(4))
    assert (await cluster.attempt(pods))[0] == PostFilterResult("n1")
    assert cluster.nominations(pods)[1] == "n3"
    await cluster.finish()


async def test_pods_of_different_sizes_each_find_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, others={"n2": 5})
    pods = cluster.waiting(pod("big").cpu("4").priority(9), pod("small").cpu("2").priority(9), pod("tiny").cpu("1").priority(9))
    assert (await cluster.attempt(pods))[0] == PostFilterResult("n1")
    assert cluster.nominations(pods)[1:] == ["n2", "n2"]
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
