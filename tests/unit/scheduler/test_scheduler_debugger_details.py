"""How the debugger asks for lists, and what it says of a pod that only one of queue and cluster can read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.drift import check_all, standing_check
from support.fakes import node_manifest, pod_manifest
from support.known import known
from support.stages import Stage, begin

from koordsched.api.core import ContainerStatus
from koordsched.api.kinds import NODE, POD
from koordsched.cluster.port import Gone, Ref
from koordsched.scheduler.debugger import Stale
from koordsched.scheduler.debugger import standing_check as checking
from koordsched.scheduler.debugger.list_comparison import ListWalk
from koordsched.slices import Slices


@pytest.mark.parametrize("rest", ["", "offered"])
async def test_a_list_is_walked_page_by_page_with_the_tokens_that_are_given(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    async with stage() as world:
        await world.start()
        for number in range(5):
            await world.create(NODE, node_manifest(f"n{number}"))
        await world.settle()
        asked: list[tuple[str, int, str]] = []
        original = world.cluster.list

        async def listed(kind: Any, *, field_selector: str = "", limit: int = 0, continue_token: str = "") -> Any:
            asked.append((field_selector, limit, continue_token))
            if len(asked) == 2:
                raise Gone("expired", rest and continue_token)
            return await original(kind, field_selector=field_selector, limit=limit, continue_token=continue_token)

        monkeypatch.setattr(world.cluster, "list", listed)
        walk, pages = ListWalk(world.cluster, world.scheduler._nodes), 0
        last = False
        while not last:
            with Slices(world.clock.perf) as slices:
                found, last = await walk.next_page(2, slices)
            assert found == []
            pages += 1
        assert {(selector, limit) for selector, limit, _ in asked} == {("", 2)}
        tokens = [token for *_, token in asked]
        assert tokens[0] == ""
        assert tokens[1] != ""
        assert (tokens[2] == tokens[1]) if rest else (tokens[2] == "")
        assert (pages, len(asked)) == ((3, 4) if rest else (4, 5))
        monkeypatch.undo()


async def test_a_pod_in_the_queue_is_read_as_a_pending_one(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await begin(world, pod_manifest("p", "9"))
        stored = world.scheduler.pods["default/p"]
        odd = ContainerStatus(name="main", allocated_resources={"cpu": "1x"})  # what counts on a node only
        seen = replace(stored, status=replace(stored.status, container_statuses=(odd,)))
        world.scheduler._pods.store["default/p"] = replace(seen, metadata=replace(seen.metadata, resource_version="99"))
        found = await world.scheduler.debugger.compare_with_watch()
        uid = stored.metadata.uid
        ours = known(world.scheduler.queue.get("default/p")).pod_info.pod.metadata.resource_version
        assert found.stale == (Stale("queued pod", f"default/p ({uid})", ours, "99"),)
        assert found.unreadable == ()


async def test_a_pod_that_waits_though_it_does_not_exist_is_taken_out_and_logged(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest("p", "9"), pod_manifest("q", schedulingGates=[{"name": "g"}]))
        gone = world.scheduler.pods["default/q"].metadata.uid
        info = known(world.scheduler.queue.get("default/q"))
        await world.delete(Ref(POD, "default", "q"))
        await world.settle()
        world.scheduler.queue.add(info.pod_info)
        with capture_logs() as logs:
            await check_all(world)
        text = "the cache differed from the cluster and is mended"
        lines = [line for line in logs if line["event"] == text]
        reported = {"event": text, "log_level": "error", "kind": "pod", "object": f"default/q ({gone})", "column": "waits"}
        assert lines == [{**reported, "cached": True, "actual": False}]
        assert [waiting.key for waiting in world.scheduler.queue.waiting()] == ["default/p"]
        await asyncio.sleep(1)


async def test_the_standing_check_goes_on_where_its_last_turn_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as world:
        await world.start()
        for number in range(5):
            await world.create(NODE, node_manifest(f"n{number}"))
        await world.settle()
        monkeypatch.setattr(checking, "PAGE", 2)
        tokens: list[str] = []
        original = world.cluster.list

        async def listed(kind: Any, *, field_selector: str = "", limit: int = 0, continue_token: str = "") -> Any:
            if kind == NODE:
                tokens.append(continue_token)
            return await original(kind, field_selector=field_selector, limit=limit, continue_token=continue_token)

        monkeypatch.setattr(world.cluster, "list", listed)
        check = standing_check(world)
        for _ in range(4):
            await check.check_part()
        assert [token == "" for token in tokens] == [True, False, False, True]
        assert len(set(tokens)) == 3
        monkeypatch.undo()
