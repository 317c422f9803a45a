"""Debugger: what is shown of cache and queue, in the log and as data."""

from __future__ import annotations

import asyncio
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.builders import pod
from support.fakes import Late, node_manifest, pod_manifest
from support.known import known
from support.queueing import Bench
from support.stages import Stage

from koordsched.api.kinds import NODE, POD
from koordsched.clock import rfc3339
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Ref, ServerError
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.status import Code, Status
from koordsched.queue.events import NODE_ADD, EventHint
from koordsched.scheduler.debugger import debugger
from koordsched.scheduler.debugger.dump import NodeDump, WaitingDump, dump_queue
from koordsched.slices import Slices

TOO_BIG = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)


async def prepare(world: EmbeddedCluster) -> None:
    """n1 with 4 cpu and `p` (1 cpu) on it; `big` (9 cpu, nominated for n1), `huge` (99 cpu) and `gated` are pending."""
    await world.create(NODE, node_manifest("n1"))
    await world.create(POD, pod_manifest("p"))
    await world.start()
    await world.settle()
    await world.create(POD, pod_manifest("big", "9", priority=5))
    await world.create(POD, pod_manifest("huge", "99"))
    await world.create(POD, pod_manifest("gated", schedulingGates=[{"name": "wait"}]))
    await world.settle()
    queue = world.scheduler.queue
    queue.nominate(known(queue.get("default/big")).pod_info, "n1")


async def test_a_dump_in_the_log_is_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debugger, "LOGGED", 1)
    async with stage() as world:
        await prepare(world)
        await world.create(NODE, node_manifest("n2", "0"))
        await world.create(POD, pod_manifest("gated2", schedulingGates=[{"name": "wait"}]))
        await world.settle()
        with capture_logs() as logs:
            await world.scheduler.debugger.log_all()
        lines = {log["event"]: (log["total"], len(log.get("items", ()))) for log in logs if "total" in log}
        assert {event: lines[f"dump: {event}"] for event in ("nodes", "unschedulable pods", "gated pods")} == {
            "nodes": (2, 1),
            "unschedulable pods": (2, 1),
            "gated pods": (2, 1),
        }


async def test_a_node_is_shown_with_its_amounts_and_its_pods(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        dump = await world.scheduler.debugger.cache(10, Slices(perf_counter))
        assert (dump.nodes_total, dump.pods_total, dump.assumed_total, dump.repairs) == (1, 1, 0, 0)
        assert dump.nominated == {"n1": ("default/big",)}
        assert dump.nodes == (
            NodeDump(
                name="n1",
                known=True,
                pods=1,
                assumed_pods=(),
                nominated_pods=("default/big",),
                requested={"pods": 1, "cpu": 1000},
                allocatable={"pods": 110, "cpu": 4000, "memory": 8 * 2**30},
            ),
        )


async def test_a_node_of_which_only_pods_are_known_is_shown_as_unknown(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        await world.delete(Ref(NODE, "", "n1"))
        await world.settle()
        (shown,) = (await world.scheduler.debugger.cache(10, Slices(perf_counter))).nodes
        assert (shown.name, shown.known, shown.pods, shown.allocatable) == ("n1", False, 1, {})


async def test_pending_pods_are_shown_with_who_refused_them_and_why(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        dump = await world.scheduler.debugger.queue(10, Slices(perf_counter))
        assert [part.total for part in (dump.active, dump.backoff, dump.unschedulable, dump.gated, dump.in_flight)] == [0, 0, 2, 1, 0]
        shown = {each.pod: each for each in dump.unschedulable.pods}
        big = shown["default/big"]
        assert (big.attempts, big.priority, big.rejectors, big.message, big.nominated_node) == (1, 5, ("NodeResourcesFit",), TOO_BIG, "n1")
        assert (big.profile, big.since) == ("default-scheduler", rfc3339(world.now()))
        (gated,) = dump.gated.pods
        assert (gated.attempts, gated.rejectors) == (0, ("SchedulingGates",))
        assert "waiting for scheduling gates" in gated.message


async def test_each_pod_is_shown_in_the_part_of_the_queue_where_it_waits() -> None:
    bench = Bench({"Fit": [EventHint(NODE_ADD)], "Other": []})
    bench.profile.gates["default/d"] = "SchedulingGates"
    for name, plugin in (("c", "Other"), ("b", "Fit")):
        bench.add(pod(name))
        bench.fail(plugin)
    bench.queue.move_all(NODE_ADD, None, None)
    bench.add(pod("e"))
    bench.pop()
    bench.add(pod("a"), pod("d"))
    with Slices(perf_counter) as work:
        dump = await dump_queue(SimpleNamespace(queue=bench.queue, waiting_pods=()), 10, work.pause)  # type: ignore[arg-type] # all that it reads
    parts = {name: [each.pod for each in getattr(dump, name).pods] for name in ("active", "backoff", "unschedulable", "gated", "in_flight")}
    assert parts == {
        "active": ["default/a"],
        "backoff": ["default/b"],
        "unschedulable": ["default/c"],
        "gated": ["default/d"],
        "in_flight": ["default/e"],
    }


async def test_pods_that_wait_on_permit_are_in_flight_and_show_whom_they_wait_for(stage: Stage) -> None:
    late = Late()
    late.permit_answer = (Status(Code.WAIT), 600.0)
    async with stage((late, "permit")) as world:
        await prepare(world)
        dump = await world.scheduler.debugger.queue(10, Slices(perf_counter))
        assert (dump.waiting_total, dump.waiting) == (1, (WaitingDump("default/p", "n1", ("L",)),))
        assert [each.pod for each in dump.in_flight.pods] == ["default/p"]
        assert (await world.scheduler.debugger.cache(10, Slices(perf_counter))).nodes[0].assumed_pods == ("default/p",)


async def test_a_limit_bounds_what_is_shown_but_not_the_counts(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        await world.create(NODE, node_manifest("n0", "2"))
        await world.settle()
        debugger = world.scheduler.debugger
        assert [each.name for each in (await debugger.cache(1, Slices(perf_counter))).nodes] == ["n0"]
        assert ((await debugger.cache(1, Slices(perf_counter))).nodes_total, (await debugger.cache(0, Slices(perf_counter))).nodes) == (
            2,
            (),
        )
        world.scheduler.queue.nominate(known(world.scheduler.queue.get("default/huge")).pod_info, "n0")
        assert (await debugger.cache(2, Slices(perf_counter))).nominated == {"n1": ("default/big",), "n0": ("default/huge",)}
        assert (await debugger.cache(1, Slices(perf_counter))).nominated == {"n1": ("default/big",)}
        unschedulable = (await debugger.queue(1, Slices(perf_counter))).unschedulable
        assert (unschedulable.total, len(unschedulable.pods)) == (2, 1)


async def test_the_log_has_the_dump_and_then_the_comparison(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        for i in range(51):
            await world.create(NODE, node_manifest(f"x{i:02}", "2"))
        await world.settle()
        logs = await logged(world)
        nodes = [each for each in logs if each["event"] == "dump: nodes"]
        assert [(each["first"], each["total"], len(each["items"])) for each in nodes] == [(1, 52, 50), (51, 52, 2)]
        (gated,) = [each for each in logs if each["event"] == "dump: gated pods"]
        assert [each["pod"] for each in gated["items"]] == ["default/gated"]
        assert logs[-1] == {"event": "cache comparison: equal to the cluster", "log_level": "info", "ok": True, "nodes": 52, "pods": 4}


async def test_a_difference_is_logged_as_a_warning_with_what_differs(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await prepare(world)
        world.scheduler.cache.remove_node("n1")
        last = (await logged(world))[-1]
        assert (last["log_level"], last["event"]) == ("warning", "cache comparison: different from the cluster")
        assert last["missed_nodes"] == ["n1"]
        assert "redundant_nodes" not in last


async def test_many_differences_are_cut_short_in_the_log(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        for i in range(103):
            await world.create(NODE, node_manifest(f"n{i:03}"))
        await world.start()
        for i in range(103):
            world.scheduler.cache.remove_node(f"n{i:03}")
        missed = (await logged(world))[-1]["missed_nodes"]
        assert missed[98:] == ["n098", "n099", "and 3 more"]


async def test_when_the_cluster_cannot_be_listed_the_watches_are_compared_with(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        world.cluster.faults.rules.append(Fault(verb="list", error=lambda: ServerError("down")))
        *_, warned, last = await logged(world)
        assert (warned["log_level"], warned["err"], warned["status"]) == ("warning", "down", 500)
        assert last["event"] == "cache comparison: equal to the cluster"


async def logged(world: EmbeddedCluster) -> list[Any]:
    """Return what the log says on SIGUSR2."""
    with capture_logs() as logs:
        await asyncio.create_task(world.scheduler.debugger.log_all())
    return list(logs)
