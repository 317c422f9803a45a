"""What gangs cost the API server that are placed: requests, which are counted by what they are about (coscheduling.md §8 and §9).

The reference writes to each member a patch, a binding and an event, and to each PodGroup each of its phases.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from support.coscheduling import coscheduling_config, create_member, create_pod_group
from support.fakes import embedded, node_manifest
from support.stages import nodes_of_pods

from koordsched.api.kinds import NODE, POD_GROUP
from koordsched.cluster.memory.cluster import MemoryCluster
from koordsched.scheduler.context import SchedulerContext


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return counts of requests by verb and kind; lists and watches, of which there is one a kind, are not among them."""
    found: Counter[str] = Counter()

    def count(verb: str) -> None:
        original = getattr(MemoryCluster, verb)

        async def counted(self: MemoryCluster, about: Any, *args: Any, **options: Any) -> Any:
            kind = getattr(about, "kind", "pods")
            found[f"{verb} {kind if isinstance(kind, str) else kind.plural}"] += 1
            return await original(self, about, *args, **options)

        monkeypatch.setattr(MemoryCluster, verb, counted)

    for verb in ("get", "patch", "update", "delete", "evict", "bind"):
        count(verb)
    return found


async def test_a_placed_gang_costs_a_binding_a_member_and_one_write_of_its_pod_group(requests: Counter[str]) -> None:
    """What says with whom a member is bound goes with its binding; phases that a gang passed within a second are not written."""
    async with embedded(asyncio.get_running_loop(), coscheduling_config()) as world:
        for number in range(4):
            await world.create(NODE, node_manifest(f"n{number}", "20"))
        await world.start()
        for gang in ("a", "b", "c"):
            await create_pod_group(world, gang, 10)
            for number in range(10):
                await create_member(world, gang, f"{gang}{number}")
        await world.sleep(5)
        assert all(nodes_of_pods(world).values())
        assert requests == {"bind pods": 30, f"patch {POD_GROUP.plural}": 3}


async def test_a_gang_that_is_placed_costs_nothing_more_however_long_it_stands(requests: Counter[str]) -> None:
    async with embedded(asyncio.get_running_loop(), coscheduling_config()) as world:
        await world.create(NODE, node_manifest("n", "20"))
        await world.start()
        await create_pod_group(world, "a", 10)
        for number in range(10):
            await create_member(world, "a", f"a{number}")
        await world.sleep(5)
        placed = Counter(requests)
        await world.create(NODE, node_manifest("m", "20"))
        await world.sleep(1800)
        assert requests == placed


async def test_the_status_of_a_pod_group_is_written_after_the_pods_that_wait_to_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is due a second after the last member has come; pods wait to be bound for four seconds here."""
    async with embedded(asyncio.get_running_loop(), coscheduling_config()) as world:
        await world.create(NODE, node_manifest("n", "20"))
        await world.start()
        monkeypatch.setattr(SchedulerContext, "has_backlog", True)
        await create_pod_group(world, "a", 3)
        for number in range(3):
            await create_member(world, "a", f"a{number}")
        await world.sleep(4)
        [group] = await world.list(POD_GROUP)
        assert all(nodes_of_pods(world).values())
        assert not group.get("status")
        monkeypatch.setattr(SchedulerContext, "has_backlog", False)
        await world.sleep(1)
        [group] = await world.list(POD_GROUP)
        assert (group["status"]["phase"], group["status"]["scheduled"]) == ("Scheduled", 3)
