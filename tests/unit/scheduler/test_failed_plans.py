"""A group without a plan is not planned again in the same state of the cluster (coscheduling.md §13, D15): turns and plans are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.coscheduling import coscheduling_config, coscheduling_profile, create_member, create_pod_group
from support.fakes import embedded, node_manifest, pod_manifest
from support.stages import condition, metric, nodes_of_pods, ref

from koordsched.api.kinds import CLUSTER_NETWORK_TOPOLOGY, NODE, POD, POD_GROUP
from koordsched.api.koordinator.network_topology import TOPOLOGY_SELECTOR, TOPOLOGY_SPEC
from koordsched.cluster.port import Ref
from koordsched.config.flag_table import Flags
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.plugins.coscheduling.topology_plan import TopologyPlan
from koordsched.scheduler.group_turn import GroupTurns

LAYERS: list[dict[str, Any]] = [
    {"topologyLayer": "Block", "labelKey": ["block"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Block"},
]
IN_A_BLOCK = '{"gatherStrategy":[{"layer":"Block","strategy":"MustGather"}]}'
NEVER_A_VICTIM = "scheduling.koordinator.sh/disable-preemptible"


@asynccontextmanager
async def world_of(*, preempts: bool = False) -> AsyncIterator[EmbeddedCluster]:
    """Make two blocks with a node of 2 CPUs each."""
    config = coscheduling_config(coscheduling_profile(awareNetworkTopology=True, enablePreemption=preempts))
    async with embedded(asyncio.get_running_loop(), config, flags=Flags(enable_network_topology_manager=True)) as world:
        topology = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": LAYERS}}
        await world.create(CLUSTER_NETWORK_TOPOLOGY, topology)
        for block in "ab":
            await world.create(NODE, node_manifest(block, "2", block=block))
        yield world


async def gang(world: EmbeddedCluster, name: str = "g", members: int = 3, least: int = 0, selector: str = "", **spec: Any) -> None:
    await create_pod_group(world, name, least or members, {TOPOLOGY_SPEC: IN_A_BLOCK})
    annotations = {TOPOLOGY_SELECTOR: selector} if selector else {}
    for number in range(members):
        await create_member(world, name, f"{name}-{number}", annotations=annotations, **spec)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()
    run, prepare = GroupTurns.run, TopologyPlan.prepare

    async def counted_run(self: GroupTurns, *args: Any) -> bool:
        found["turns"] += 1
        return await run(self, *args)

    def counted_prepare(self: TopologyPlan, *args: Any) -> Any:
        found["plans"] += 1
        return prepare(self, *args)

    monkeypatch.setattr(GroupTurns, "run", counted_run)
    monkeypatch.setattr(TopologyPlan, "prepare", counted_prepare)
    return found


async def test_a_gang_is_not_planned_again_while_nothing_changed(counts: Counter[str]) -> None:
    """Half an hour, in which waiting pods are tried every five minutes and others come and go that fit nowhere."""
    async with world_of() as world:
        await world.start()
        await gang(world)
        await world.sleep(5)
        assert (counts["turns"], counts["plans"]) == (1, 1)
        text = condition(world, "g-0")[1]
        assert "desiredOfferSlot: 3, topology topologyNode Block/a: 2;topology topologyNode Block/b: 2" in text
        for number in range(3):
            await world.create(POD, pod_manifest(f"large-{number}", "99"))
            await world.sleep(30)
        assert counts["turns"] == 1, "what happens and changes nothing for the plan lets the gang wait"
        await world.sleep(30 * 60)
        assert counts["turns"] > 4
        assert counts["plans"] == 1
        assert condition(world, "g-0")[1] == text
        await world.create(NODE, node_manifest("more", "1", block="a"))
        await world.sleep(15)
        assert {nodes_of_pods(world)[f"g-{number}"] for number in range(3)} == {"a", "more"}


async def test_gangs_that_need_fewer_members_than_they_have_are_not_planned_again_either(counts: Counter[str]) -> None:
    async with world_of() as world:
        await world.start()
        await gang(world, members=4, least=3)
        await world.sleep(30 * 60)
        assert counts["turns"] > 1
        assert counts["plans"] == 2, "for all members, and for as many as are needed"


@pytest.mark.parametrize("change", ["a node's label", "room", "a member", "another half-bound gang", "the spec", "the layers"])
async def test_whatever_a_plan_depends_on_lets_the_gang_be_planned_again(counts: Counter[str], change: str) -> None:
    async with world_of() as world:
        low = pod_manifest("on-a", "1")
        low["spec"]["nodeName"] = "a"
        await world.create(POD, low)
        await world.start()
        await gang(world)
        await world.sleep(15)
        before = counts["plans"]
        match change:
            case "a node's label":
                await world.patch(Ref(NODE, "", "b"), {"metadata": {"labels": {"block": "a"}}})
            case "room":
                await world.delete(ref("on-a"))
            case "a member":
                await world.delete(ref("g-2"))
                await create_member(world, "g", "g-3")
            case "another half-bound gang":
                await gang(world, "h", members=0, least=2)
                await create_member(world, "h", "h-0", nodeName="b")
            case "the spec":
                await world.patch(Ref(POD_GROUP, "default", "g"), {"metadata": {"annotations": {TOPOLOGY_SPEC: "{}"}}})
            case _:
                layers = [{"topologyLayer": "Zone", "labelKey": ["zone", "block"]}, {**LAYERS[0], "parentTopologyLayer": "Zone"}, LAYERS[1]]
                await world.patch(Ref(CLUSTER_NETWORK_TOPOLOGY, "", "default"), {"spec": {"networkTopologySpec": layers}})
        await world.sleep(15)
        assert counts["plans"] > before
        await world.create(POD, pod_manifest("large", "99"))
        settled = counts["plans"]
        await world.sleep(60)
        assert counts["plans"] == settled


async def test_pods_that_attract_the_gang_are_part_of_the_state(counts: Counter[str]) -> None:
    """Which pods run where is the same, but one of them has the value of the gang's selector from now on."""
    async with world_of() as world:
        other = pod_manifest("on-a", "1")
        other["spec"]["nodeName"] = "a"
        await world.create(POD, other)
        await world.start()
        await gang(world, selector="job")
        await world.sleep(15)
        before = counts["plans"]
        await world.patch(ref("on-a"), {"metadata": {"annotations": {TOPOLOGY_SELECTOR: "job"}}})
        await world.sleep(15)
        assert counts["plans"] == before + 1


async def test_room_is_made_for_a_gang_that_is_not_planned_again(counts: Counter[str]) -> None:
    """Whether room can be made is looked at each time: the pod that took it is no victim at first."""
    async with world_of(preempts=True) as world:
        low = pod_manifest("on-a", "1")
        low["metadata"]["labels"] = {NEVER_A_VICTIM: "true"}
        low["spec"] |= {"nodeName": "a", "priority": 0}
        await world.create(POD, low)
        await world.start()
        await gang(world, members=2, priority=9)  # they are bound to b
        await gang(world, "h", members=2, priority=9)
        await world.sleep(60)
        assert not nodes_of_pods(world)["h-0"]
        before, turns, attempts = counts["plans"], counts["turns"], metric(world, "scheduler_preemption_attempts_total")
        await world.sleep(30 * 60)
        assert counts["turns"] - turns == metric(world, "scheduler_preemption_attempts_total") - attempts > 3
        assert counts["plans"] == before
        await world.patch(ref("on-a"), {"metadata": {"labels": {NEVER_A_VICTIM: "false"}}})
        await world.sleep(15)
        placed = nodes_of_pods(world)
        assert "on-a" not in placed
        assert (placed["h-0"], placed["h-1"]) == ("a", "a")
