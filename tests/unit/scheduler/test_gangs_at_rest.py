"""What gangs cost that wait: turns, requests and looks at nodes, which are counted (coscheduling.md §6, checklist 32)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.coscheduling import coscheduling_config, create_member, create_pod_group
from support.fakes import embedded, node_manifest, pod_manifest
from support.stages import condition, nodes_of_pods

from koordsched.api.kinds import EVENT, NODE, POD, POD_GROUP
from koordsched.api.koordinator.gang_membership import GROUPS
from koordsched.cluster.memory.cluster import MemoryCluster
from koordsched.cluster.port import Binding, Patch, Ref
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.shapes import Shapes
from koordsched.scheduler.group_turn import GroupTurn, GroupTurns

MINUTE = 60.0


@asynccontextmanager
async def world_of() -> AsyncIterator[EmbeddedCluster]:
    async with embedded(asyncio.get_running_loop(), coscheduling_config()) as world:
        yield world


async def gang(world: EmbeddedCluster, name: str, cpus: list[str]) -> None:
    await create_pod_group(world, name, len(cpus))
    for number, cpu in enumerate(cpus):
        await create_member(world, name, f"{name}-{number:04d}", cpu)


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Return counts: turns of groups, members that were placed in them, and patches of the status of pods by name."""
    found: Counter[str] = Counter()
    run, place, patch = GroupTurns.run, GroupTurn.place_member, MemoryCluster.patch

    async def counted_run(self: GroupTurns, *args: Any) -> bool:
        found["turns"] += 1
        return await run(self, *args)

    async def counted_place(self: GroupTurn, *args: Any) -> str:
        found["placed"] += 1
        return await place(self, *args)

    async def counted_patch(self: MemoryCluster, ref: Ref, body: Patch) -> Any:
        if ref.kind is POD and body.subresource == "status":
            found["patches"] += 1
            found[f"patches of {ref.name}"] += 1
        return await patch(self, ref, body)

    monkeypatch.setattr(GroupTurns, "run", counted_run)
    monkeypatch.setattr(GroupTurn, "place_member", counted_place)
    monkeypatch.setattr(MemoryCluster, "patch", counted_patch)
    return found


async def test_100_impossible_gangs_of_an_idle_cluster_are_tried_once_in_five_minutes_and_write_nothing(counts: Counter[str]) -> None:
    """A turn that finds too few slots costs some 0.1 ms: 100 of them in 300 s are a 30,000th of a core, far below 2 %."""
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "4"))
        await world.start()
        for number in range(100):
            await gang(world, f"g{number:02d}", ["1"] * 8)
        await world.sleep(10)
        assert counts["turns"] == 100
        assert counts["placed"] == 0
        written = counts["patches"]
        await world.sleep(30 * MINUTE)
        assert counts["turns"] <= 100 * (1 + 6)  # the flush of unschedulable pods, every five minutes
        assert counts["placed"] == 0
        assert counts["patches"] == written
        await world.create(NODE, node_manifest("n2", "4"))
        await world.sleep(12)  # the longest backoff is 10 s
        assert sum(bool(node) for node in nodes_of_pods(world).values()) == 8


async def test_a_failed_gang_of_5000_costs_one_requeue_one_event_and_one_condition_a_member(counts: Counter[str]) -> None:
    async with world_of() as world:
        for index in range(50):
            await world.create(NODE, node_manifest(f"n{index}", "100"))
        await world.start()
        await gang(world, "g", ["1"] * 4999 + ["101"])
        await world.sleep(30)
        assert counts["turns"] == 1
        assert max(count for name, count in counts.items() if name.startswith("patches of")) == 1
        assert condition(world, "g-4999")[1] == "0/50 nodes are available: 50 Insufficient cpu."
        assert condition(world, "g-0000")[1].startswith(
            '0/1 nodes are available: 1 GangGroup "default/g" gets rejected due to member Pod "default/g-4999"'
        )
        events = [raw for raw in world.cluster.raws(EVENT) if raw["reason"] == "FailedScheduling"]
        assert len(events) == 1
        before = counts["patches"]
        await world.sleep(4 * MINUTE)
        assert (counts["turns"], counts["patches"]) == (1, before)


async def test_members_that_take_some_seconds_to_be_created_say_once_why_their_gang_was_refused(counts: Counter[str]) -> None:
    """Not also, each of them, that others are missing as yet."""
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "4"))
        await world.start()
        await create_pod_group(world, "g", 24)
        for number in range(24):
            await create_member(world, "g", f"g-{number:04d}")
            await world.sleep(0.3)
        await world.sleep(5)
        patches = {name: count for name, count in counts.items() if name.startswith("patches of")}
        assert patches == {f"patches of g-{number:04d}": 1 for number in range(24)}
        assert condition(world, "g-0004")[1] == "0/1 nodes are available: 1 Insufficient cpu."


async def test_a_member_of_a_gang_that_never_stops_growing_says_after_ten_seconds_why_it_is_held_back(counts: Counter[str]) -> None:
    async with world_of() as world:
        await world.start()
        await create_pod_group(world, "g", 100)
        for number in range(50):
            await create_member(world, "g", f"g-{number:04d}")
            await world.sleep(0.3)
            if number == 30:  # after 9.3 s
                assert counts["patches"] == 0
        assert condition(world, "g-0000")[0] == "SchedulingGated"
        assert counts["patches of g-0000"] == 1


async def test_a_turn_of_a_large_gang_looks_at_each_node_once_and_then_at_those_that_got_a_member(
    counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop is held for as long as a turn takes, so what a turn does grows with nodes and members, never with their product."""
    nodes, members = 300, 600
    looked_at = 0
    filter_all = Shapes.filter

    def counted_filter(self: Shapes, shape: Any, pod: Any) -> int:
        nonlocal looked_at
        looked_at += shape.evaluation.behind()
        return filter_all(self, shape, pod)

    monkeypatch.setattr(Shapes, "filter", counted_filter)
    async with world_of() as world:
        for index in range(nodes):
            await world.create(NODE, node_manifest(f"n{index}", "4"))
        await world.start()
        await gang(world, "g", ["1"] * members)
        await world.sleep(5)
        assert all(nodes_of_pods(world).values())
        assert counts["turns"] == 1
        assert counts["placed"] == members
        assert looked_at <= nodes + 2 * members


async def test_an_event_that_leaves_too_few_slots_tries_none_of_the_gangs_that_wait(counts: Counter[str]) -> None:
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "3"))
        await world.start()
        for number in range(50):
            await gang(world, f"g{number:02d}", ["1"] * 12)
        await world.sleep(20)
        assert counts["turns"] == 50
        for index in range(8):
            await world.create(NODE, node_manifest(f"more-{index}", "1"))
            await world.sleep(12)
        assert counts["turns"] == 50
        await world.create(NODE, node_manifest("last", "1"))
        await world.sleep(30)
        assert sum(bool(node) for node in nodes_of_pods(world).values()) == 12


async def test_the_condition_of_a_member_that_is_held_back_is_written_once_a_second_at_most_and_once_a_reason(counts: Counter[str]) -> None:
    """D9. Another gang of the group comes and goes ten times a second."""
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "8"))
        await world.start()
        groups = '["default/g","default/other"]'
        await create_pod_group(world, "g", 1, {GROUPS: groups})
        await create_member(world, "g", "p")
        await world.sleep(3)
        check = "basic check: memberGangs [default/other] doesn't exists"
        text = f"gangGroup [default/g default/other] {check}, current gang: default/g, podName: default/p"
        assert condition(world, "p") == ("SchedulingGated", text)
        assert counts["patches of p"] == 1
        await world.sleep(MINUTE)
        assert counts["patches of p"] == 1
        for _ in range(30):
            await create_pod_group(world, "other", 1)
            await world.sleep(0.1)
            await world.delete(Ref(POD_GROUP, "default", "other"))
            await world.sleep(0.1)
        assert counts["patches of p"] <= 1 + 6
        await world.sleep(3)
        assert condition(world, "p") == ("SchedulingGated", text)


async def test_gangs_are_bound_one_after_the_other_and_a_plain_pod_between_them_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checklist 11. Members of two gangs come in turns, with a plain pod between them: the gangs' binds do not interleave."""
    order: list[str] = []
    bind = MemoryCluster.bind

    async def noted(self: MemoryCluster, binding: Binding) -> None:
        order.append(binding.name)
        await bind(self, binding)

    monkeypatch.setattr(MemoryCluster, "bind", noted)
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "20"))
        await world.start()
        for name in ("a", "b"):
            await create_pod_group(world, name, 4)
        for number in range(4):
            for name in ("a", "b"):
                await create_member(world, name, f"{name}{number}")
            if number == 1:
                await world.create(POD, pod_manifest("plain", "1"))
                await world.settle()
        await world.settle()
        assert order[0] == "plain"
        assert "".join(name[0] for name in order[1:]) in {"aaaabbbb", "bbbbaaaa"}


async def test_gangs_of_equal_priority_that_fail_are_tried_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checklist 33, D14. Each event lets both be tried again, the one first that failed first, and no oftener than their backoffs allow."""
    order: list[str] = []
    run = GroupTurns.run

    async def noted(self: GroupTurns, first: Any, *args: Any) -> bool:
        order.append(first.info.key.split("/")[1][:2])
        return await run(self, first, *args)

    monkeypatch.setattr(GroupTurns, "run", noted)
    async with world_of() as world:
        await world.create(NODE, node_manifest("n1", "1"))
        await world.start()
        for name in ("ga", "gb"):  # two of 3 and 2 each: any node of 4 takes one member, none takes both
            await gang(world, name, ["3", "2"])
        await world.sleep(15)
        for index in range(4):
            await world.create(NODE, node_manifest(f"more{index}", "4" if not index else "1"))
            await world.sleep(15)
        assert set(order) == {"ga", "gb"}
        assert order == ["ga", "gb"] * (len(order) // 2)
        assert len(order) == 2 * 5  # at first, and after each event
