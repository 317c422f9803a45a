"""Details of the scheduler that larger tests pass by: which facts are read again, what is said, and what is counted."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.builders import node, pod
from support.fakes import FakePostFilter, Late, node_manifest, pod_manifest
from support.known import known
from support.stages import Stage, begin, bound_to, condition, metric, ref
from support.virtual_loop import running
from support.world import World

from koordsched.api.core import ContainerStatus, Pod, ResourceRequirements
from koordsched.api.kinds import EVENT, NODE, POD
from koordsched.api.podinfo import PodInfo
from koordsched.cache.plugin_state import PodFollower
from koordsched.clock import VirtualClock
from koordsched.cluster.memory import Fault, MemoryCluster
from koordsched.cluster.port import Patch, Ref, ServerError
from koordsched.config.types import ExtenderConfig, ExtenderTLSConfig
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.status import Code, Status, unschedulable
from koordsched.metrics import Histogram, Registry
from koordsched.scheduler.extenders import extender as extender_module
from koordsched.scheduler.extenders.extender import Extender
from koordsched.scheduler.handlers import PodHandler
from koordsched.scheduler.metrics import TIDY_DECISIONS, Metrics
from koordsched.scheduler.origins import PodStatusUpdate
from koordsched.scheduler.status_writer import StatusWriter


def handler_of(world: EmbeddedCluster) -> PodHandler:
    return PodHandler(world.scheduler._context)


def requested(world: EmbeddedCluster, name: str = "n1") -> int:
    """Return the milli-cores that are counted on a node."""
    return known(world.scheduler.cache.node(name)).requested("cpu")


# Pods that change


async def test_a_pod_that_is_being_deleted_has_an_event_that_it_is_not_scheduled(stage: Stage) -> None:
    async with stage() as world:
        await world.create(NODE, node_manifest("n1"))
        manifest = pod_manifest()
        manifest["metadata"]["finalizers"] = ["example.com/wait"]
        await world.create(POD, manifest)
        await world.delete(ref())
        await world.start()
        await world.settle()
        assert bound_to(world) == ""
        [event] = world.cluster.raws(EVENT)
        assert [event[key] for key in ("type", "reason", "action", "note")] == [
            "Warning",
            "FailedScheduling",
            "Scheduling",
            "skip schedule deleting pod: default/p",
        ]
        assert (world.scheduler.queue.in_flight, world.scheduler.queue.waiting()) == ([], [])


STATUS = ContainerStatus(name="main", allocated_resources={"cpu": "3"}, resources=ResourceRequirements(requests={"cpu": "3"}))


def _resized(seen: Pod, **status: Any) -> Pod:
    return replace(seen, status=replace(seen.status, **status))


def _init(seen: Pod) -> Pod:
    started = replace(seen.spec.containers[0], name="side", restart_policy="Always")
    return replace(seen, spec=replace(seen.spec, init_containers=(started,)))


@pytest.mark.parametrize(
    ("change", "milli"),
    [
        (lambda seen: seen, 1000),
        (lambda seen: _resized(seen, container_statuses=(STATUS,)), 3000),
        (_init, 2000),
        (lambda seen: replace(seen, spec=replace(seen.spec, overhead={"cpu": "500m"})), 1500),
        (lambda seen: replace(seen, spec=replace(seen.spec, resources=ResourceRequirements(requests={"cpu": "4"}))), 4000),
        (lambda seen: replace(seen, spec=replace(seen.spec, containers=(seen.spec.containers[0],) * 2)), 2000),
    ],
    ids=["same", "status", "init", "overhead", "resources", "containers"],
)
async def test_what_a_bound_pod_uses_is_read_again_only_where_it_may_differ(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, change: Any, milli: int
) -> None:
    async with stage(damaged=True) as world:
        late_binding = Fault(verb="bind", delay=5.0)
        world.cluster.faults.rules.append(late_binding)
        await begin(world)
        assert world.scheduler.cache.is_assumed(world.cluster.raw(ref())["metadata"]["uid"])
        stored = world.scheduler.pods["default/p"]
        seen = change(replace(stored, spec=replace(stored.spec, node_name="n1")))
        read: list[Pod] = []
        original = PodInfo.__init__

        def init(self: PodInfo, pod: Pod, **fields: Any) -> None:
            read.append(pod)
            original(self, pod, **fields)

        monkeypatch.setattr(PodInfo, "__init__", init)
        handler_of(world).on_update(stored, seen)
        assert (requested(world), len(read) > 0) == (milli, milli != 1000)
        monkeypatch.undo()
        await asyncio.sleep(6)


async def test_statuses_of_init_containers_are_read_too(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        world.cluster.faults.rules.append(Fault(verb="bind", delay=5.0))
        side = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
        await begin(world, pod_manifest(initContainers=[side]))
        stored = world.scheduler.pods["default/p"]
        seen = _resized(replace(stored, spec=replace(stored.spec, node_name="n1")), init_container_statuses=(replace(STATUS, name="side"),))
        handler_of(world).on_update(stored, seen)
        assert requested(world) == 4000
        await asyncio.sleep(6)


async def test_a_bound_pod_that_becomes_readable_is_counted(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await begin(world)
        handler = handler_of(world)
        odd, sound = (pod("odd").uid("u").cpu(amount).on("n1").build() for amount in ("1x", "2"))
        with capture_logs():
            handler.on_update(odd, sound)
        assert requested(world) == 3000
        with capture_logs() as logs:
            handler.on_update(sound, odd)
        assert requested(world) == 3000, "as it was before it became so"
        assert [line["event"] for line in logs] == ["pod left out: its resources cannot be read"]


async def test_a_pod_in_flight_that_changes_keeps_the_shape_of_its_kind(stage: Stage) -> None:
    async with stage(damaged=True) as world:
        await world.create(NODE, node_manifest("n1"))
        await world.scheduler.fill()
        await world.create(POD, pod_manifest())
        await asyncio.sleep(0.1)
        queue = world.scheduler.queue
        info = known(queue.pop())
        old = info.pod_info.pod
        handler_of(world).on_update(old, replace(old, metadata=replace(old.metadata, resource_version="99")))
        handler_of(world).on_update(old, replace(old, metadata=replace(old.metadata, labels={"a": "b"}, resource_version="100")))
        assert queue.in_flight == [info]
        assert queue.waiting() == []
        queue.done(info.uid)


async def test_what_changed_while_a_pod_was_tried_is_what_waits(stage: Stage) -> None:
    late = Late()
    late.permit_answer = Status(Code.WAIT), 5.0
    late.events = []
    async with stage((late, "permit")) as world:
        await begin(world)
        await world.patch(ref(), {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(6)
        assert known(world.scheduler.queue.get("default/p")).pod_info.pod.metadata.labels == {"a": "b"}


# What is said

OTHERWISE = "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable."


async def test_reasons_that_change_are_pending_until_they_are_reported_and_known_to_the_queue(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, *(pod_manifest(name, nodeSelector={"disk": "ssd"}) for name in "ab"))
        assert world.scheduler.idle()
        await world.create(NODE, {**node_manifest("n2", disk="ssd"), "spec": {"unschedulable": True}})
        await asyncio.sleep(0.2)
        assert not world.scheduler.idle()
        await asyncio.sleep(1.2)
        assert world.scheduler.idle()
        messages = {condition(world, name)[1] for name in ("a", "b")}
        assert {info.last_message for info in world.scheduler.queue.waiting()} == messages
        assert len(messages) == 1
        assert messages.pop().startswith(OTHERWISE)


async def test_of_many_pods_a_hundred_at_a_time_are_given_their_new_reasons(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, *(pod_manifest(f"p{number:03}", nodeSelector={"disk": "ssd"}) for number in range(230)))
        await asyncio.sleep(10)
        began, reported = world.cluster.calls["patch status", POD], []
        await world.create(NODE, {**node_manifest("n2", disk="ssd"), "spec": {"unschedulable": True}})
        await asyncio.sleep(0.5)
        for _ in range(6):
            reported.append((world.cluster.calls["patch status", POD] - began, world.scheduler.idle()))
            await asyncio.sleep(1)
        assert reported == [(0, False), (100, False), (100, False), (200, False), (200, False), (230, True)]
        assert {condition(world, f"p{number:03}")[1].partition(" no new claims")[0] for number in range(230)} == {OTHERWISE}


async def test_reasons_that_go_on_changing_are_given_ever_more_rarely(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest(nodeSelector={"disk": "ssd"}))
        await asyncio.sleep(10)
        seen, times = condition(world), []
        began = world.clock.now()
        for number in range(250):
            if number % 5 == 0:
                node = node_manifest(f"m{number}", disk="ssd")
                await world.create(NODE, {**node, "spec": {"unschedulable": True}})
            await asyncio.sleep(0.1)
            if condition(world) != seen:
                seen = condition(world)
                times.append(round(world.clock.now() - began, 1))
        assert [round(after - before) for before, after in pairwise([0.0, *times])] == [1, 2, 4, 5, 5, 5]


async def test_what_could_help_is_asked_with_the_reasons(stage: Stage) -> None:
    asked: list[Any] = []

    class Helpful(FakePostFilter):
        def may_help(self, pod: PodInfo, diagnosis: Diagnosis) -> bool:
            asked.append((pod.key, diagnosis.message if isinstance(diagnosis, Diagnosis) else diagnosis))
            return False

    async with stage((Helpful("Q", (None, unschedulable("no"))), "postFilter")) as world:
        await begin(world, pod_manifest(nodeSelector={"disk": "ssd"}))
        await world.create(NODE, {**node_manifest("n2", disk="ssd"), "spec": {"unschedulable": True}})
        await world.settle()
        assert asked[-1] == ("default/p", OTHERWISE)


async def test_a_failure_after_a_success_is_the_first_again(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = MemoryCluster(clock, random=Random(1))
    writer = StatusWriter(cluster, clock, Random(1))
    made = await cluster.create(POD, {**pod_manifest(), "status": {"phase": "Pending"}})
    assert isinstance(made, Pod)
    tries: list[float] = []
    failing = 3
    original = cluster.patch

    async def patch(target: Ref, change: Patch) -> Any:
        nonlocal failing
        tries.append(clock.now())
        if failing:
            failing -= 1
            raise ServerError("down")
        return await original(target, change)

    monkeypatch.setattr(cluster, "patch", patch)
    async with running(writer.run()):
        writer.update(made, PodStatusUpdate("Unschedulable", "one"))
        await asyncio.sleep(10)
        failing = 1
        writer.update(made, PodStatusUpdate("Unschedulable", "two"))
        await asyncio.sleep(10)
    waits = [after - before for before, after in pairwise(tries)]
    assert len(tries) == 6
    for wait, least in ((waits[0], 0.2), (waits[1], 0.4), (waits[2], 0.8), (waits[4], 0.2)):
        assert least <= wait <= 1.2 * least + 1e-6
    assert (writer.idle, writer.failed) == (True, 0)


async def test_what_was_being_written_at_a_stop_is_written_by_the_flush(clock: VirtualClock) -> None:
    cluster = MemoryCluster(clock, random=Random(1))
    cluster.faults.rules.append(Fault(verb="patch status", delay=5.0, times=1))
    writer = StatusWriter(cluster, clock, Random(1))
    made = await cluster.create(POD, {**pod_manifest(), "status": {"phase": "Pending"}})
    assert isinstance(made, Pod)
    async with running(writer.run()):
        writer.update(made, PodStatusUpdate("Unschedulable", "one"))
        await asyncio.sleep(1)
        assert (writer.idle, writer.unwritten) == (False, 1)
    assert (writer.idle, writer.unwritten) == (False, 1)
    await writer.flush()
    assert (writer.idle, writer.unwritten) == (True, 0)
    assert cluster.raw(ref())["status"]["conditions"][0]["message"] == "one"


# What is counted


def test_observations_are_summed_up_every_1024_decisions() -> None:
    metrics = Metrics()
    [algorithm] = [each for each in metrics.collectors if each.name == "scheduler_scheduling_algorithm_duration_seconds"]
    assert isinstance(algorithm, Histogram)
    buckets = algorithm.child()
    for number in range(1, 2 * TIDY_DECISIONS + 1):
        metrics.decided(0.5)
        assert len(buckets._kept) == number % TIDY_DECISIONS + (0 if number < TIDY_DECISIONS else 1)
    assert (metrics.decisions, metrics.decision_seconds_sum) == (2 * TIDY_DECISIONS, TIDY_DECISIONS)


def test_what_is_observed_adds_up_however_often_it_is_read() -> None:
    registry: Registry = []
    buckets = Histogram(registry, "d", "text", bounds=[1, 2]).child()
    assert buckets.read() == ([0, 0, 0], 0.0)
    for value, expected in ((0.5, ([1, 0, 0], 0.5)), (1.5, ([1, 1, 0], 2.0)), (4.0, ([1, 1, 1], 6.0))):
        buckets.observe(value)
        assert buckets.read() == expected
    buckets.reset()
    assert buckets.read() == ([0, 0, 0], 0.0)
    buckets.observe(2.0)
    assert buckets.read() == ([0, 1, 0], 2.0)


def test_a_hint_is_measured_by_plugin_event_and_answer() -> None:
    metrics = Metrics()
    metrics.hint_duration("F", "NodeAdd", "Queue", 0.25)
    line = 'scheduler_queueing_hint_execution_duration_seconds_sum{event="NodeAdd",hint="Queue",plugin="F"} 0.25'
    assert line in metrics.text().decode().splitlines()


async def test_waiting_on_permit_is_measured_in_the_clusters_time(stage: Stage) -> None:
    late = Late()
    late.permit_answer = Status(Code.WAIT), 7.0
    late.events = []
    async with stage((late, "permit")) as world:
        await begin(world)
        await asyncio.sleep(7.5)
        assert metric(world, 'scheduler_permit_wait_duration_seconds_sum{result="unschedulable"}') == pytest.approx(7.0, abs=0.01)


# Nominated pods


class Simulated(PodFollower):
    """Follows the pods of a cache, and keeps the rows on which any was counted."""

    def __init__(self) -> None:
        self.rows: set[int] = set()

    def pod_added(self, pod: PodInfo, row: int) -> None:
        self.rows.add(row)

    def pod_removed(self, pod: PodInfo, row: int) -> None: ...

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None: ...

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None: ...


def test_what_takes_nothing_but_room_is_estimated_without_a_simulation_on_each_node() -> None:
    world, simulated = World(), Simulated()
    for name in ("n1", "n2", "n3"):
        world.cache.set_node(node(name).cpu("4").memory("8Gi").build())
    world.cache.follow(simulated)
    n3 = world.cache.nodes_by_name["n3"].row
    for name in ("n1", "n2"):
        world.nominator.set(pod(f"room-{name}").cpu("3").priority(10).info(), name)
    assert world.find(pod("p").cpu("2").info()) == "n3"
    assert simulated.rows == set()
    ports = [pod(f"port-{number}").cpu("1").host_port(80 + number).priority(10).info() for number in range(2)]
    for each in ports:
        world.nominator.set(each, "n3")
    assert isinstance(world.find(pod("q").cpu("2").host_port(80).info()), Diagnosis)
    assert simulated.rows == {n3}
    simulated.rows.clear()
    world.nominator.remove(ports[0].uid)
    assert world.find(pod("r").cpu("2").host_port(80).info()) == "n3"
    assert simulated.rows == {n3}, "the other one holds a port still"
    simulated.rows.clear()
    world.nominator.remove(ports[1].uid)
    assert world.find(pod("s").cpu("2").host_port(80).info()) == "n3"
    assert simulated.rows == set()


# Extenders


@pytest.mark.parametrize("part", ["ca", "cert", "key"])
@pytest.mark.parametrize("given", ["file", "data", "both"])
def test_data_of_tls_settings_go_before_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: str, given: str) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(extender_module, "read_material", seen.append)
    monkeypatch.setattr(extender_module, "make_context", lambda *_: None)
    fields: dict[str, Any] = {}
    if given != "data":
        fields[f"{part}_file"] = str(tmp_path / part)
    if given != "file":
        fields[f"{part}_data"] = b64encode(b"PEM")
    config = ExtenderConfig(url_prefix="https://e", enable_https=True, tls_config=ExtenderTLSConfig(**fields))
    Extender(config, "extenders[3]", transport=object())  # type: ignore[arg-type] # nothing is sent
    [settings] = seen
    pems = {"ca": settings.authority, "cert": settings.certificate, "key": settings.key}
    assert {name: pem.where for name, pem in pems.items()} == {name: f"extenders[3].tlsConfig.{name}File" for name in pems}
    chosen = pems.pop(part)
    assert (chosen.file, chosen.data) == (str(tmp_path / part) if given == "file" else "", b"" if given == "file" else b64encode(b"PEM"))
    assert [(pem.file, pem.data) for pem in pems.values()] == [("", b"")] * 2
    assert settings.insecure is (part != "ca")


# The debugger


async def test_the_log_says_how_much_was_compared_even_if_that_is_nothing(stage: Stage) -> None:
    async with stage() as world:
        await world.start()
        with capture_logs() as logs:
            await world.scheduler.debugger.log_all()
        assert [(line["nodes"], line["pods"]) for line in logs if line["event"].startswith("cache comparison")] == [(0, 0)]
