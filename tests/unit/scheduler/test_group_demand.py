"""Whether quotas and all nodes together have room for a group, before any member is placed: what that costs, says, and never gets wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.coscheduling import coscheduling_config, coscheduling_profile
from support.fakes import embedded, node_manifest, pod_manifest
from support.stages import condition, metric, nodes_of_pods, ref

from koordsched.api.kinds import ELASTIC_QUOTA, NODE, POD
from koordsched.cache.cache import Cache
from koordsched.cluster.port import Ref
from koordsched.embedded.cluster import EmbeddedCluster

GANG = "gang.scheduling.koordinator.sh"
QUOTA = "quota.scheduling.koordinator.sh/name"
GIB = 1 << 30


@asynccontextmanager
async def world_of(*others: str, preempts: bool = False) -> AsyncIterator[EmbeddedCluster]:
    """Make a cluster with Coscheduling, and these plugins too."""
    config = coscheduling_config(coscheduling_profile(others=others, enablePreemption=preempts))
    async with embedded(asyncio.get_running_loop(), config) as world:
        yield world


def member(number: int, cpu: str = "1", least: int = 10, **spec: Any) -> dict[str, Any]:
    made = pod_manifest(f"p{number:02d}", cpu)
    made["metadata"]["annotations"] = {f"{GANG}/name": "g", f"{GANG}/min-available": str(least)}
    made["spec"] |= spec
    return made


@pytest.fixture
def assumed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the keys of the pods that are assumed, as they are."""
    keys: list[str] = []
    assume = Cache.assume_pod

    def note(self: Cache, pod: Any, name: str) -> None:
        keys.append(pod.key)
        assume(self, pod, name)

    monkeypatch.setattr(Cache, "assume_pod", note)
    return keys


async def test_a_gang_for_which_there_are_too_few_slots_is_refused_without_placing_any_member(assumed: list[str]) -> None:
    async with world_of() as world:
        for name, cpu in (("n1", "4"), ("n2", "3"), ("n3", "0")):
            await world.create(NODE, node_manifest(name, cpu))
        await world.start()
        for number in range(10):
            await world.create(POD, member(number))
        await world.settle()
        assert assumed == []
        assert condition(world, "p07") == ("Unschedulable", "0/3 nodes are available: 3 Insufficient cpu.")
        text = (
            '0/1 nodes are available: 1 GangGroup "default/g" gets rejected due to member Pod "default/p07" is unschedulable with reason '
        )
        assert condition(world, "p00")[1] == f'{text}"0/3 nodes are available: 3 Insufficient cpu.", alreadyWaitForBound: 7.'
        await world.create(NODE, node_manifest("n4", "3"))
        await world.sleep(15)
        assert all(nodes_of_pods(world).values())


async def test_one_class_of_members_that_fits_nowhere_refuses_the_gang(assumed: list[str]) -> None:
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "64"))
        await world.start()
        for number in range(10):
            await world.create(POD, member(number, "99" if number == 9 else "1"))
        await world.settle()
        assert assumed == []
        assert condition(world, "p09")[1] == "0/1 nodes are available: 1 Insufficient cpu."


async def test_a_gang_that_may_do_without_a_class_of_its_members_is_not_refused_for_it() -> None:
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "64"))
        await world.start()
        for number in range(11):
            await world.create(POD, member(number, "99" if number == 3 else "1"))
        await world.settle()
        placed = nodes_of_pods(world)
        assert [name for name, node in placed.items() if not node] == ["p03"]


async def test_members_that_others_of_the_gang_help_are_not_refused_before_those_are_placed() -> None:
    """All want to be near pods with the label of the first, of which there are none yet."""
    term = {"labelSelector": {"matchLabels": {"role": "head"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with world_of() as world:
        for name in ("n1", "n2"):
            await world.create(NODE, node_manifest(name, "20", **{"kubernetes.io/hostname": name}))
        await world.start()
        head = member(0)
        head["metadata"]["labels"] = {"role": "head"}
        await world.create(POD, head)
        for number in range(1, 10):
            await world.create(POD, member(number, affinity=near))
        await world.settle()
        assert len(set(nodes_of_pods(world).values()) - {""}) == 1
        assert all(nodes_of_pods(world).values())


async def test_a_group_that_waits_is_not_tried_again_as_long_as_there_are_too_few_slots() -> None:
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "4"))
        await world.start()
        for number in range(10):
            await world.create(POD, member(number))
        await world.settle()
        unschedulable = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}'
        assert metric(world, unschedulable) == 1
        for index in range(5):
            await world.create(NODE, node_manifest(f"small-{index}", "1"))
            await world.sleep(20)
        assert metric(world, unschedulable) == 1
        await world.create(NODE, node_manifest("last", "1"))
        await world.sleep(20)
        assert all(nodes_of_pods(world).values())


async def test_a_member_that_asks_for_less_lets_its_group_be_tried_again() -> None:
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "10"))
        await world.start()
        for number in range(10):
            await world.create(POD, member(number, "2" if number else "1"))
        await world.settle()
        for number in range(1, 10):
            await world.patch(ref(f"p{number:02d}"), {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}})
        await world.sleep(20)
        assert all(nodes_of_pods(world).values())


async def quota(world: EmbeddedCluster, cpu: str) -> None:
    spec = {"max": {"cpu": cpu, "memory": str(100 * GIB)}, "min": {"cpu": cpu, "memory": "0"}}
    labels = {"quota.scheduling.koordinator.sh/is-parent": "false"}
    await world.create(ELASTIC_QUOTA, {"metadata": {"name": "team", "namespace": "default", "labels": labels}, "spec": spec})


async def test_a_quota_is_asked_once_for_all_members(assumed: list[str]) -> None:
    async with world_of("ElasticQuota") as world:
        await world.create(NODE, node_manifest("n1", "64"))
        await quota(world, "7")
        await world.start()
        for number in range(10):
            made = member(number)
            made["metadata"]["labels"] = {QUOTA: "team"}
            await world.create(POD, made)
        await world.settle()
        assert assumed == []
        own = condition(world, "p07")[1]
        assert "Insufficient quotas, quotaName: team" in own
        assert "used: cpu:7" in own
        assert "pod's request: cpu:1" in own
        assert "exceedDimensions: [cpu]" in own
        assert 'due to member Pod "default/p07"' in condition(world, "p00")[1]


async def test_a_gang_waits_for_its_quota_and_goes_when_that_grows() -> None:
    async with world_of("ElasticQuota") as world:
        await world.create(NODE, node_manifest("n1", "64"))
        await quota(world, "7")
        await world.start()
        for number in range(10):
            made = member(number)
            made["metadata"]["labels"] = {QUOTA: "team"}
            await world.create(POD, made)
        await world.settle()
        unschedulable = 'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"}'
        before = metric(world, unschedulable)
        for index in range(3):
            await world.create(NODE, node_manifest(f"more-{index}", "64"))
            await world.sleep(20)
        assert metric(world, unschedulable) == before
        await world.patch(Ref(ELASTIC_QUOTA, "default", "team"), {"spec": {"max": {"cpu": "10"}, "min": {"cpu": "10"}}})
        await world.sleep(20)
        assert all(nodes_of_pods(world).values())
