"""Nominations follow their nodes: one that can no longer come true is withdrawn, and the pods that it kept away are tried again."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs
from support.builders import node
from support.fakes import node_manifest, pod_manifest
from support.stages import Stage, nodes_of_pods

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.object_store import Arrival
from koordsched.cluster.port import Ref
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.scheduler.handlers import NodeHandler
from koordsched.scheduler.nominations import NominationKeeper

N1 = Ref(NODE, "", "n1")


async def nominated(world: EmbeddedCluster) -> None:
    """Let "high" be nominated for n1, of whose four cores two are taken, so that "low", which would fit there, is kept away."""
    await world.create(NODE, node_manifest("n1", disk="ssd"))
    await world.create(POD, pod_manifest("there", "2", nodeName="n1", priority=1000))
    high = pod_manifest("high", "4", priority=100, preemptionPolicy="Never", nodeSelector={"disk": "ssd"})
    await world.create(POD, {**high, "status": {"phase": "Pending", "nominatedNodeName": "n1"}})
    await world.start()
    await world.create(POD, pod_manifest("low", "2"))
    await asyncio.sleep(20)
    assert nodes_of_pods(world) == {"there": "n1", "high": "", "low": ""}


def nomination(world: EmbeddedCluster) -> str | None:
    found: str | None = world.cluster.raw(Ref(POD, "default", "high"))["status"].get("nominatedNodeName")
    return found


@pytest.mark.parametrize("change", [{"metadata": {"labels": {"disk": "hdd"}}}, {"spec": {"unschedulable": True}}], ids=["labels", "spec"])
async def test_a_nomination_is_withdrawn_when_its_node_becomes_wrong_for_the_pod(stage: Stage, change: dict[str, object]) -> None:
    async with stage() as world:
        await nominated(world)
        await world.patch(N1, change)
        await world.settle()
        assert nomination(world) is None
        assert "low" not in nodes_of_pods(world) or len(world.scheduler.queue.nominator) == 0


async def test_a_pod_that_a_withdrawn_nomination_kept_away_is_tried_again(stage: Stage) -> None:
    async with stage() as world:
        await nominated(world)
        await world.patch(N1, {"metadata": {"labels": {"disk": "hdd"}}})
        await asyncio.sleep(12)  # a backoff at most
        assert nodes_of_pods(world) == {"there": "n1", "high": "", "low": "n1"}


@pytest.mark.parametrize(
    "change",
    [{"metadata": {"labels": {"rack": "r1"}}}, {"metadata": {"annotations": {"a": "b"}}}, {"status": {"allocatable": {"cpu": "3"}}}],
    ids=["labels", "annotations", "room"],
)
async def test_a_nomination_stays_while_its_node_may_still_become_right(stage: Stage, change: dict[str, object]) -> None:
    async with stage() as world:
        await nominated(world)
        await world.patch(N1, change)
        await asyncio.sleep(12)
        assert nomination(world) == "n1"
        assert nodes_of_pods(world)["low"] == ""


async def test_a_nomination_stays_without_a_word_while_its_node_cannot_be_read(stage: Stage) -> None:
    async with stage() as world:
        await nominated(world)
        before = world.scheduler._nodes.store["n1"]
        odd = node("n1").label("disk", "hdd").cpu("many").build()
        keeper = NominationKeeper(world.scheduler._context, world.scheduler.profiles, world.scheduler._handle)
        with capture_logs() as logs:
            NodeHandler(world.scheduler._context).on_update(before, odd)
            keeper.on_update(before, odd)
        assert [log["event"] for log in logs] == ["node left out: its resources cannot be read"]
        assert list(world.scheduler.queue.nominator.nodes) == ["n1"]
        NodeHandler(world.scheduler._context).on_add(before, Arrival.LATER)


async def test_a_nomination_for_a_node_that_is_gone_is_withdrawn(stage: Stage) -> None:
    async with stage() as world:
        await nominated(world)
        await world.delete(N1)
        await world.settle()
        assert nomination(world) is None
        assert len(world.scheduler.queue.nominator) == 0
