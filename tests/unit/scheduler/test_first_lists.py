"""What a scheduler does with the pods that are there when it starts: PreEnqueue is asked when all first lists are read, once a pod."""

from __future__ import annotations

import asyncio

import pytest
from support.coscheduling import coscheduling_config, create_member, create_pod_group
from support.fakes import embedded, node_manifest, pod_manifest
from support.stages import nodes_of_pods

from koordsched.api.core import Pod
from koordsched.api.kinds import NODE, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.object_store import OBJECTS_A_TURN
from koordsched.cluster.port import Ref
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.status import Status
from koordsched.plugins.coscheduling.plugin import Coscheduling
from koordsched.scheduler.handlers import PodHandler


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return, in order, the pods that Coscheduling's PreEnqueue was asked about, with why it held them back."""
    found: list[tuple[str, str]] = []
    ask = Coscheduling.pre_enqueue

    def noted(self: Coscheduling, pod: PodInfo) -> Status | None:
        status = ask(self, pod)
        found.append((pod.key, "" if status is None else status.message))
        return status

    monkeypatch.setattr(Coscheduling, "pre_enqueue", noted)
    return found


async def with_gangs(world: EmbeddedCluster) -> None:
    """Create two gangs of three whose members come in turns."""
    await world.create(NODE, node_manifest("n", "20"))
    for gang in ("a", "b"):
        await create_pod_group(world, gang, 3)
    for number in range(3):
        for gang in ("a", "b"):
            await create_member(world, gang, f"{gang}{number}")


async def test_no_member_is_held_back_because_the_others_are_further_down_the_first_list(asked: list[tuple[str, str]]) -> None:
    async with embedded(asyncio.get_running_loop(), coscheduling_config()) as world:
        await with_gangs(world)
        await world.scheduler.fill()
        assert sorted(key for key, _ in asked) == [f"default/{gang}{number}" for gang in "ab" for number in range(3)]
        assert all(not why or "represent" in why for _, why in asked), asked
        world.scheduler.begin()
        await world.settle()
        assert all(nodes_of_pods(world).values())


async def test_pods_that_come_change_or_go_while_the_first_list_is_queued_are_queued_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """More pods than are queued in one turn of the event loop; the watch goes on beside that."""
    async with embedded(asyncio.get_running_loop(), coscheduling_config()) as world:
        await world.create(NODE, node_manifest("n", "200"))
        names = [f"p{number:03d}" for number in range(OBJECTS_A_TURN + 10)]
        for name in names:
            await world.create(POD, pod_manifest(name, "1"))
        add, begun = PodHandler.add_listed, asyncio.Event()

        def noted(self: PodHandler, pod: Pod) -> None:
            begun.set()
            add(self, pod)

        monkeypatch.setattr(PodHandler, "add_listed", noted)
        filling = asyncio.create_task(world.scheduler.fill())
        await begun.wait()
        await world.delete(Ref(POD, "default", names[-1]))
        await world.patch(Ref(POD, "default", names[-2]), {"metadata": {"labels": {"changed": "yes"}}})
        await world.create(POD, pod_manifest("late", "1"))
        await filling
        world.scheduler.begin()
        await world.settle()
        bound = nodes_of_pods(world)
        assert set(bound) == {*names[:-1], "late"}
        assert all(bound.values())


async def test_a_pod_of_the_first_list_on_which_a_plugin_failed_is_queued_later(monkeypatch: pytest.MonkeyPatch) -> None:
    add = PodHandler._add_pending
    failed: list[str] = []

    def fails_once(self: PodHandler, pod: Pod) -> None:
        if not failed:
            failed.append(pod.metadata.name)
            raise RuntimeError("a plugin's bug")
        add(self, pod)

    monkeypatch.setattr(PodHandler, "_add_pending", fails_once)
    async with embedded(asyncio.get_running_loop(), coscheduling_config()) as world:
        await world.create(NODE, node_manifest("n", "20"))
        for name in ("p", "q"):
            await world.create(POD, pod_manifest(name, "1"))
        await world.start()
        await world.sleep(10)
        assert failed == ["p"]
        assert all(nodes_of_pods(world).values())
