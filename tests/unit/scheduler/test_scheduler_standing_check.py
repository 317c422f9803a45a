"""The standing check: what has drifted from the cluster is found, mended, counted and logged; what is on its way is left alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.builders import node, pod
from support.drift import all_drift, check_all, drift, standing_check
from support.fakes import embedded, node_manifest, pod_manifest
from support.known import known
from support.stages import Stage, bound_to, metric, ref
from support.virtual_loop import running

from koordsched.api.kinds import NAMESPACE, NODE, NODE_RESOURCE_TOPOLOGY, POD, Kind
from koordsched.cache.columns import CORDON
from koordsched.cache.pod_counts import pod_counts
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Forbidden, Gone, ListPage, Ref, ServerError, Unreadable
from koordsched.config import load_config_object
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.plugins.nodenumaresource.node_allocations import PodAllocation
from koordsched.plugins.nodenumaresource.state import NumaState
from koordsched.scheduler.debugger import Comparison, WrongNode
from koordsched.scheduler.debugger.debugger import ASKED_FOR, PAGE
from koordsched.scheduler.debugger.standing_check import LOST_SECONDS, TURNS, mend
from koordsched.scheduler.handlers import PodHandler
from koordsched.slices import Slices

NUMA_CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}}],
}


async def prepare(world: EmbeddedCluster) -> None:
    """Two nodes with 4 cpu each; `bound` with 1 cpu and host port 80; `big`, which fits nowhere."""
    for name in ("n1", "n2"):
        await world.create(NODE, node_manifest(name, zone="a"))
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80, "hostPort": 80}]}
    await world.create(POD, pod_manifest("bound", containers=[container]))
    await world.start()
    await world.create(POD, pod_manifest("big", "9"))
    await world.settle()


async def deafen(world: EmbeddedCluster, kind: Kind, seconds: float = LOST_SECONDS) -> None:
    """Let the watch of a kind fail for ever, and let so much time go by."""
    world.cluster.faults.rules.append(Fault(verb="watch", kind=kind, error=lambda: ServerError("down")))
    world.cluster.cut_watches(lambda: ServerError("cut"))
    await asyncio.sleep(seconds)


def mended(logs: list[Any]) -> list[tuple[str, str, str, object, object]]:
    """Return what is logged of each thing that is mended: kind, object, column, what was cached, what is true."""
    event = "the cache differed from the cluster and is mended"
    return [(log["kind"], log["object"], log["column"], log["cached"], log["actual"]) for log in logs if log["event"] == event]


def missed(logs: list[Any]) -> list[tuple[str, str, str, str]]:
    """Return what is logged of each object that a watch missed: kind, key, and both versions."""
    event = "a watch missed a change; it is taken in now"
    return [(log["kind"], log["object"], log["cached"], log["actual"]) for log in logs if log["event"] == event]


async def assert_sound(world: EmbeddedCluster) -> None:
    assert (await world.scheduler.debugger.compare()).ok
    world.scheduler.queue.check_invariants()


async def test_a_sound_scheduler_is_left_alone(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        before = world.now()
        await check_all(world)
        assert (all_drift(world), world.now()) == ("", before)
        assert metric(world, 'koord_scheduler_cache_checks_total{result="done"}') == 10


async def test_a_corrupted_row_is_found_mended_counted_and_logged(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        cache, name = world.scheduler.cache, bound_to(world, "bound")
        row = cache.nodes_by_name[name].row
        cache.table.add(row, cache.columns.request(pod().cpu("3").memory("1Gi").info().resources))
        cache.columns.set_labels(row, {}, {"zone": "b"})
        cache.columns.host_ports.free(row, pod().host_port(80).info().ports)
        cache.columns.set_taints(row, (), (CORDON,))
        with capture_logs() as logs:
            await check_all(world)
        # cpu, memory, pods, both non-zero amounts, label, port, cordon
        assert all_drift(world) == 'koord_scheduler_cache_drift_total{kind="row"} 8.0'
        said = {log["column"]: (log["object"], log["cached"], log["actual"]) for log in logs if "column" in log}
        assert said["label zone"] == (name, "b", "a")
        assert said["requested cpu"] == (name, 4000, 1000)
        assert said["host port TCP 0.0.0.0:80"] == (name, False, True)
        await assert_sound(world)


async def test_a_turn_compares_a_tenth_of_the_nodes(stage: Stage) -> None:
    async with stage() as world:
        for i in range(25):
            await world.create(NODE, node_manifest(f"n{i:02}"))
        await world.start()
        cache = world.scheduler.cache
        for info in cache.nodes_by_name.values():
            cache.columns.set_labels(info.row, {}, {"zone": "b"})
        check = standing_check(world)
        counts = []
        for _ in range(TURNS):
            await check.check_part()
            counts.append(drift(world, "row"))
        assert counts == [3, 6, 9, 12, 15, 18, 21, 24, 25, 25]  # 25 // 10 + 1 each
        await assert_sound(world)


@pytest.mark.parametrize("interval", [0.0, 60.0])
async def test_a_scheduler_checks_itself_as_often_as_its_interval_says(stage: Stage, interval: float) -> None:
    async with stage() as world:
        world.scheduler._check_interval = interval
        await prepare(world)
        world.scheduler.cache.remove_node("n1")
        await asyncio.sleep(60 * (TURNS + 1))
        checks = metric(world, 'koord_scheduler_cache_checks_total{result="done"}')
        assert (checks >= TURNS, drift(world, "node")) == ((True, 1) if interval else (False, 0))
        if not interval:
            await check_all(world)  # which leaves nothing behind


@pytest.mark.parametrize("counted", ["gone", "namesake", "moved", "twice"])
async def test_a_row_is_mended_by_the_pods_that_are_on_its_node_now(stage: Stage, counted: str) -> None:
    """Between the comparison and the mending a pod may go, or give its name to another."""
    async with stage() as world:
        await prepare(world)
        scheduler = world.scheduler
        name = bound_to(world, "bound")
        other = "n2" if name == "n1" else "n1"
        uid = str(world.cluster.raw(ref("bound"))["metadata"]["uid"])
        if counted == "moved":
            state = scheduler.cache.pods[uid]
            scheduler.cache.remove_pod(uid)
            scheduler.cache.set_pod(state.info, other)
            wrong = other
        elif counted == "twice":
            wrong = "n9"  # which is not there
            scheduler.cache.set_pod(pod("x").uid("stranger").info(), wrong)
            pods = scheduler.cache.nodes_by_name[wrong].pods
            pods.clear()
            pods[uid] = scheduler.cache.pods[uid].info
            del scheduler.cache.pods["stranger"]
        else:
            key, wrong = ("dead", name) if counted == "gone" else ("bound", other)
            scheduler.cache.set_pod(pod(key).uid("stranger").cpu("3").info(), wrong)
        with capture_logs() as logs:
            found = Comparison(wrong_nodes=(WrongNode(wrong, "requested cpu", 4000, 1000),))
            await mend(scheduler._sources(), found, scheduler.metrics.drifted, Slices(scheduler.clock.perf))
        assert [(log["kind"], log["object"], log["column"]) for log in logs] == [("row", wrong, "requested cpu")]
        assert {kept: state.node.name for kept, state in scheduler.cache.pods.items()} == {uid: name}
        await assert_sound(world)


async def test_what_a_plugin_alone_has_wrong_is_derived_anew_by_it_and_the_row_stays(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    class Kept:
        def __init__(self, name: str) -> None:
            self.name = name
            self.rebuilt: list[str] = []

        def rebuild(self, node: str) -> None:
            self.rebuilt.append(node)

    async with stage() as world:
        await prepare(world)
        scheduler, cache = world.scheduler, world.scheduler.cache
        kept: list[Any] = [Kept("Counts"), Kept("Other")]
        rewritten: list[str] = []
        monkeypatch.setattr(cache, "checked", kept)
        monkeypatch.setattr(cache, "rewrite", rewritten.append)
        for column, row in (("Counts: term a: b: c", []), ("requested cpu: x", ["n1"])):
            rewritten.clear()
            counted: list[str] = []
            wrong = (WrongNode("n1", "Counts: term", 1, 2), WrongNode("n1", column, 1, 2))
            await mend(scheduler._sources(), Comparison(wrong_nodes=wrong), counted.append, Slices(scheduler.clock.perf))
            assert (counted, rewritten) == (["Counts", "row" if row else "Counts"], row)
        assert [each.rebuilt for each in kept] == [["n1", "n1"], []]
        monkeypatch.undo()


async def test_a_pod_that_waits_for_room_goes_where_a_corrupted_row_hid_it(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        cache = world.scheduler.cache
        for name in ("n1", "n2"):
            cache.table.add(cache.nodes_by_name[name].row, cache.columns.request(pod().cpu("4").info().resources))
        await world.create(POD, pod_manifest("p", "2"))
        await world.settle()
        assert bound_to(world, "p") == ""
        await check_all(world)
        await asyncio.sleep(20)  # a backoff
        assert bound_to(world, "p")


@pytest.mark.parametrize("lost", ["node", "counted", "waits"])
async def test_what_the_cache_or_queue_lost_is_taken_in_again(stage: Stage, lost: str) -> None:
    async with stage() as world:
        await prepare(world)
        scheduler = world.scheduler
        if lost == "node":
            scheduler.cache.remove_node("n1")
        elif lost == "counted":
            scheduler.cache.remove_pod(str(world.cluster.raw(ref("bound"))["metadata"]["uid"]))
        else:
            scheduler.queue.forget(known(scheduler.queue.get("default/big")).pod_info)
        with capture_logs() as logs:
            await check_all(world)
        assert drift(world, "node" if lost == "node" else "pod") == 1
        assert (
            mended(logs)[-1]
            == {
                "node": ("node", "n1", "exists", False, True),
                "counted": ("pod", "default/bound", "known", "it was missing", ""),
                "waits": ("pod", "default/big", "known", "it was missing", ""),
            }[lost]
        )
        await assert_sound(world)


async def test_what_does_not_exist_is_forgotten_wherever_it_is(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        scheduler = world.scheduler
        scheduler.cache.set_node(node("n9").build())
        scheduler.cache.set_pod(pod("dead").uid("u1").host_port(80).info(), "n1")
        gone = pod("gone").uid("u2").gate("wait").info()
        gone.shape = "any"
        scheduler.queue.add(gone)
        bound = pod("bound").uid(world.cluster.raw(ref("bound"))["metadata"]["uid"]).gate("wait").info()
        bound.shape = "any"
        scheduler.queue.add(bound)
        with capture_logs() as logs:
            await check_all(world)
        assert (drift(world, "node"), drift(world, "pod")) == (1, 3)
        assert sorted(each for each in mended(logs) if each[0] != "row") == [
            ("node", "n9", "exists", True, False),
            ("pod", f"default/bound ({bound.uid})", "waits", True, False),
            ("pod", "default/dead (u1)", "counted on", "n1", ""),
            ("pod", "default/gone (u2)", "waits", True, False),
        ]
        assert scheduler.queue.get("default/gone") is None
        await assert_sound(world)


async def test_a_pod_that_fits_where_a_forgotten_one_was_counted_is_tried_at_once(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        await world.start()
        world.scheduler.cache.set_pod(pod("dead").uid("u1").cpu("3").info(), "n1")
        await world.create(POD, pod_manifest("waits", "4"))
        await asyncio.sleep(20)
        assert bound_to(world, "waits") == ""
        await check_all(world)
        await world.settle()
        assert bound_to(world, "waits") == "n1"
        assert metric(world, 'scheduler_queue_incoming_pods_total{event="AssignedPodDelete",queue="active"}') == 1


async def test_pods_on_a_node_that_does_not_exist_are_no_drift(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        await world.create(POD, pod_manifest("lost", "1", nodeName="ghost"))
        await world.settle()
        assert "ghost" in world.scheduler.cache.nodes_by_name
        await assert_sound(world)
        await check_all(world)
        assert all_drift(world) == ""


async def test_a_waiting_pod_whose_state_the_queue_missed_is_replaced(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        scheduler = world.scheduler
        info = known(scheduler.queue.get("default/big"))
        old = info.pod_info.pod
        info.pod_info.pod = replace(old, metadata=replace(old.metadata, resource_version="1"))
        with capture_logs() as logs:
            await check_all(world)
        assert drift(world, "pod") == 1
        why = f"the queue had version 1, not {old.metadata.resource_version}"
        assert mended(logs) == [("pod", "default/big", "known", why, "")]
        assert known(scheduler.queue.get("default/big")).pod_info.pod is scheduler.pods["default/big"]


async def test_what_the_watch_never_reported_is_taken_in(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        for kind in (POD, NODE):
            await deafen(world, kind)
        nodes = world.scheduler._nodes.store
        await world.patch(Ref(NODE, "", "n1"), {"metadata": {"labels": {"zone": "b"}}})
        await world.delete(ref("big"))
        await world.create(POD, pod_manifest("late"))
        versions = {name: world.cluster.raw(ref(name))["metadata"]["resourceVersion"] for name in ("late",)}
        versions["n1"] = world.cluster.raw(Ref(NODE, "", "n1"))["metadata"]["resourceVersion"]
        before = {key: each.metadata.resource_version for key, each in [*nodes.items(), *world.scheduler._pods.store.items()]}
        with capture_logs() as logs:
            await check_all(world)
        assert all_drift(world) == 'koord_scheduler_cache_drift_total{kind="watch"} 3.0'
        assert sorted(missed(logs)) == [
            ("nodes", "n1", before["n1"], versions["n1"]),
            ("pods", "default/big", before["default/big"], ""),
            ("pods", "default/late", "", versions["late"]),
        ]
        assert world.scheduler.queue.get("default/big") is None
        await world.settle()
        assert bound_to(world, "late")


async def test_what_an_informer_without_a_watch_will_take_in_by_itself_is_left_to_it(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        await deafen(world, NODE, seconds=0.01)
        await world.patch(Ref(NODE, "", "n1"), {"metadata": {"labels": {"zone": "b"}}})
        await standing_check(world).check_part()
        assert all_drift(world) == ""
        world.cluster.faults.rules.clear()
        await asyncio.sleep(60)
        assert world.scheduler._nodes.store["n1"].metadata.labels == {"zone": "b"}
        assert all_drift(world) == ""


async def test_kinds_that_plugins_watch_are_compared_too(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        await deafen(world, NAMESPACE)
        await world.create(NAMESPACE, {"metadata": {"name": "new"}})
        await check_all(world)
        assert drift(world, "watch") == 1
        assert "new" in world.scheduler._informers.of(NAMESPACE).store


async def test_a_watch_that_lost_very_much_is_given_up_and_all_is_listed_again(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        store = world.scheduler._pods.store
        for i in range(ASKED_FOR + 1):
            await world.create(POD, pod_manifest(f"q{i}", schedulerName="another-scheduler"))
        await world.settle()
        for i in range(ASKED_FOR + 1):
            del store[f"default/q{i}"]
        with capture_logs() as logs:
            await check_all(world)
        assert missed(logs) == [("pods", f"{ASKED_FOR + 1} objects", "", "")]
        assert (drift(world, "watch"), world.scheduler._pods.stats.relists) == (1, 1)
        assert len(store) == ASKED_FOR + 3


async def test_a_list_of_many_pages_is_walked_on_where_its_token_has_expired(stage: Stage) -> None:
    async with stage() as world:
        for i in range(3 * PAGE):
            await world.create(POD, pod_manifest(f"p{i:04}", schedulerName="another-scheduler"))
        await world.start()
        check = standing_check(world)
        await check.check_part()
        expired = Fault(verb="list", kind=POD, times=1, error=lambda: Gone("too old"))
        world.cluster.faults.rules.append(expired)
        del world.scheduler._pods.store["default/p0001"]
        for _ in range(3):
            await check.check_part()
        assert drift(world, "watch") == 1
        assert metric(world, 'koord_scheduler_cache_checks_total{result="failed"}') == 0


async def test_a_list_that_fails_is_counted_and_the_next_turn_comes(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        world.cluster.faults.rules.append(Fault(verb="list", kind=POD, times=2, error=lambda: ServerError("down")))
        async with running(standing_check(world).run(60.0)):
            await asyncio.sleep(60 * 4.5)
        assert metric(world, 'koord_scheduler_cache_checks_total{result="failed"}') == 2
        assert metric(world, 'koord_scheduler_cache_checks_total{result="done"}') == 2


@pytest.mark.parametrize("required", [True, False])
async def test_only_kinds_that_the_scheduler_cannot_do_without_have_to_be_readable(stage: Stage, required: bool) -> None:
    async with stage() as world:
        await prepare(world)
        world.scheduler._informers.of(NAMESPACE).required = required
        world.cluster.faults.rules.append(Fault(verb="list", kind=NAMESPACE, error=lambda: Forbidden("no such rule")))
        async with running(standing_check(world).run(60.0)):
            await asyncio.sleep(90)
        assert metric(world, 'koord_scheduler_cache_checks_total{result="failed"}') == required
        assert metric(world, 'koord_scheduler_cache_checks_total{result="done"}') == (not required)


async def test_an_object_that_cannot_be_read_any_more_is_not_taken_for_gone(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as world:
        await prepare(world)
        expected, whole = world.scheduler._pods.store["default/bound"], world.cluster.list

        async def without_it(kind: Kind, **options: Any) -> ListPage:
            page = await whole(kind, **options)
            return replace(page, items=[item for item in page.items if item.metadata.name != "bound"])

        monkeypatch.setattr(world.cluster, "list", without_it)
        world.cluster.faults.rules.append(Fault(verb="get", kind=POD, error=lambda: Unreadable("it cannot be read")))
        await check_all(world)
        assert all_drift(world) == ""
        assert world.scheduler._pods.store["default/bound"] is expected
        assert (await world.scheduler.debugger.compare()).ok


async def test_what_is_on_its_way_is_not_reported(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        world.cluster.faults.rules.append(Fault(verb="bind", delay=3.0))
        world.cluster.faults.rules.append(Fault(verb="list", delay=0.025))

        async def churn() -> None:
            for i in range(2000):
                await world.create(POD, pod_manifest(f"c{i}", "10m"))
                await asyncio.sleep(0.02)
                if i >= 5:
                    await world.delete(Ref(POD, "default", f"c{i - 5}"))

        async with running(churn()):
            await check_all(world)
        assert all_drift(world) == ""


# What plugins keep


async def prepare_numa(world: EmbeddedCluster) -> tuple[NumaState, str]:
    """A node with 8 CPUs, two of which `p` holds; return the state and the pod's uid."""
    await world.create(NODE, node_manifest("n1", "8"))
    await world.create(NODE_RESOURCE_TOPOLOGY, topology_manifest("n1", CpuLayout.parse("2x1x2x2"), 1 << 33))
    await world.start()
    await world.create(POD, lsr("p"))
    await world.settle()
    (check,) = (check for check in world.scheduler.cache.checked if check.name == "NodeNUMAResource")
    uid = str(world.cluster.raw(ref())["metadata"]["uid"])
    state: NumaState = check._state  # type: ignore[attr-defined]
    assert known(state.held_by(uid)).cpus
    return state, uid


def lsr(name: str) -> dict[str, Any]:
    manifest = pod_manifest(name, "2", priority=9500)
    manifest["metadata"]["labels"] = {"koordinator.sh/qosClass": "LSR"}
    return manifest


async def test_a_corrupted_count_of_pods_is_found_mended_and_counted(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        spread = pod_manifest("spread")
        selector = {"matchLabels": {"app": "web"}}
        constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        spread["metadata"]["labels"] = {"app": "web"}
        spread["spec"]["topologySpreadConstraints"] = [constraint]
        await world.create(POD, spread)
        await world.settle()
        counts = pod_counts(world.scheduler.cache)
        (counted,) = counts._counts.values()
        row = world.scheduler.cache.nodes_by_name[bound_to(world, "spread")].row
        other = world.scheduler.cache.nodes_by_name["n1" if bound_to(world, "spread") == "n2" else "n2"].row
        counted.add(row, 2)
        counted.add(other, -1)
        counts._classes.add(row, *counts._classes.on_row(row)[0])
        await check_all(world)
        assert all_drift(world) == 'koord_scheduler_cache_drift_total{kind="PodCounts"} 3.0'
        assert (counted.of(row), counted.of(other), counted.total) == (1, 0, 1)
        await assert_sound(world)


@pytest.mark.parametrize("how", ["lost", "another", "table", "sums", "stranger", "topology"])
async def test_a_corrupted_cpu_allocation_is_found_mended_and_counted(how: str) -> None:
    async with embedded(asyncio.get_running_loop(), load_config_object(NUMA_CONFIG)) as world:
        state, uid = await prepare_numa(world)
        held = known(state.held_by(uid))
        usage = state.table.usage_of(state.nodes["n1"].index)
        if how == "lost":
            state.release(uid)
        elif how == "another":
            state.reserve("n1", replace(held, cpus=held.cpus << 2))
        elif how == "table":
            state.table.set_usage(state.nodes["n1"].index, usage._replace(zones={}))
        elif how == "sums":
            known(state.nodes["n1"].cpus).add(1 << 7, 0)
        elif how == "stranger":
            state.reserve("n1", PodAllocation("u9", "default", "stranger", cpus=1 << 6))
        else:
            state.set_options("n1", None)
        with capture_logs() as logs:
            await check_all(world)
        assert drift(world, "NodeNUMAResource") >= 1
        assert all("NodeNUMAResource" in line for line in all_drift(world).splitlines())
        if how == "lost":
            (said,) = [log for log in logs if "allocation of" in log.get("column", "")]
            assert (said["object"], said["column"]) == ("n1", f"NodeNUMAResource: allocation of default/p ({uid})")
            assert (said["cached"], said["actual"]) == ("", "CPUs 0-1")
        assert state.held_by(uid) == held
        assert state.held_by("u9") is None
        assert state.table.usage_of(state.nodes["n1"].index) == usage
        before = all_drift(world)
        await check_all(world)
        assert all_drift(world) == before


async def test_what_an_assumed_pod_holds_outlives_the_mending_of_its_row() -> None:
    async with embedded(asyncio.get_running_loop(), load_config_object(NUMA_CONFIG)) as world:
        state, uid = await prepare_numa(world)
        world.cluster.faults.rules.append(Fault(verb="bind", delay=100.0))
        await world.create(POD, lsr("assumed"))
        await asyncio.sleep(0.1)
        theirs = str(world.cluster.raw(ref("assumed"))["metadata"]["uid"])
        held = known(state.held_by(theirs))
        state.release(uid)
        cache = world.scheduler.cache
        cache.table.add(cache.nodes_by_name["n1"].row, cache.columns.request(pod().cpu("1").info().resources))
        await check_all(world)
        assert (drift(world, "row") > 0, drift(world, "NodeNUMAResource") > 0) == (True, True)
        assert known(state.held_by(uid)).cpus & held.cpus == 0
        assert state.held_by(theirs) == held
        assert cache.is_assumed(theirs)


# Handlers


async def test_a_pod_whose_handler_raised_is_taken_in_later_and_nothing_is_lost(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as world:
        await prepare(world)
        queue = world.scheduler.queue
        add, failures = queue.add, 0

        def fails_twice(info: Any) -> None:
            nonlocal failures
            failures += 1
            if failures < 3:
                raise RuntimeError("boom")
            add(info)

        monkeypatch.setattr(queue, "add", fails_twice)
        await world.create(POD, pod_manifest("p"))
        await world.settle()
        assert bound_to(world, "p") == ""
        assert metric(world, 'koord_scheduler_handler_retries_pending{kind="pods"}') == 1
        await asyncio.sleep(10)
        assert bound_to(world, "p")
        assert metric(world, 'koord_scheduler_handler_errors_total{kind="pods"}') == 2
        world.scheduler._pods._objects.handler_errors = 0  # they were meant
        assert metric(world, 'koord_scheduler_handler_retries_pending{kind="pods"}') == 0


async def test_the_age_of_each_watch_is_a_metric(stage: Stage) -> None:
    async with stage() as world:
        await prepare(world)
        await asyncio.sleep(45)
        assert metric(world, 'koord_scheduler_watch_age_seconds{kind="nodes"}') == pytest.approx(45, abs=1)
        assert metric(world, 'koord_scheduler_watch_stalls_total{kind="nodes"}') == 0


# Transformed objects


async def test_transformed_objects_are_compared_as_they_are_transformed(stage: Stage) -> None:
    """Neither the cache nor the watch differs from the list; and what the check takes in itself is transformed too, once."""
    reservation = {"annotations": {"node.koordinator.sh/reservation": '{"resources":{"cpu":"1"}}'}}
    labels = {"scheduling.koordinator.sh/scheduler-name": "default-scheduler"}
    async with stage() as world:
        for name in ("n1", "n2"):
            manifest = node_manifest(name)
            await world.create(NODE, {**manifest, "metadata": {**manifest["metadata"], **reservation}})
        await world.start()
        handed = pod_manifest("handed", schedulerName="other")
        await world.create(POD, {**handed, "metadata": {**handed["metadata"], "labels": labels}})
        await world.settle()
        await check_all(world)
        compared = await world.scheduler.debugger.compare()
        assert (compared.wrong_nodes, compared.stale, compared.missed_pods, compared.redundant_pods) == ((), (), (), ())
        assert all_drift(world) == ""
        assert bound_to(world, "handed") != ""

        await deafen(world, NODE)
        await world.patch(Ref(NODE, "", "n1"), {"status": {"allocatable": {"cpu": "8"}}})
        await check_all(world)
        assert drift(world, "watch") == 1
        info = known(world.scheduler.cache.node("n1"))
        assert info.allocatable("cpu") == 7000


async def test_a_pod_that_waits_though_another_scheduler_is_responsible_is_forgotten(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as world:
        await prepare(world)
        monkeypatch.setattr(PodHandler, "_hand_over", lambda *_: None)  # the change is lost
        await world.patch(ref("big"), {"metadata": {"labels": {"scheduling.koordinator.sh/scheduler-name": "other"}}})
        await world.settle()
        assert [info.key for info in world.scheduler.queue.pending()] == ["default/big"]
        with capture_logs() as logs:
            await check_all(world)
        assert [line[2:] for line in mended(logs)] == [("waits", True, False)]
        assert world.scheduler.queue.pending() == []
