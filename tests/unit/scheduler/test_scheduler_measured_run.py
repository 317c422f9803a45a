"""What a small run leaves in the metrics: extension points, plugins, events."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from support.fakes import LATE_POINTS, FakeFilter, FakePostFilter, FakePreScore, Late, node_manifest, pod_manifest
from support.stages import Stage

from koordsched.api.kinds import NODE, POD
from koordsched.cluster.port import Ref
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.status import Code, Status, error, unschedulable


async def begin(world: EmbeddedCluster, *pods: dict[str, Any], nodes: str = "n1") -> None:
    for name in nodes.split():
        await world.create(NODE, node_manifest(name))
    await world.start()
    for manifest in pods:
        await world.create(POD, manifest)
        await world.settle()


def found(world: EmbeddedCluster, name: str, *shown: str, **labels: str) -> dict[tuple[str, ...], float]:
    """Return the values of a metric with these labels that are not 0, by the values of the labels to be shown."""
    families = text_string_to_metric_families(world.scheduler.metrics.text().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == f"scheduler_{name}" and sample.value]
    return {tuple(sample.labels[label] for label in shown): sample.value for sample in samples if labels.items() <= sample.labels.items()}


def points(world: EmbeddedCluster) -> dict[tuple[str, ...], float]:
    return found(world, "framework_extension_point_duration_seconds_count", "extension_point", "status", profile="default-scheduler")


def executions(world: EmbeddedCluster, plugin: str) -> dict[tuple[str, ...], float]:
    return found(world, "plugin_execution_duration_seconds_count", "extension_point", "status", plugin=plugin)


ONCE = {
    ("PreEnqueue", "Success"): 1,
    ("PreFilter", "Success"): 1,
    ("Filter", "Success"): 1,
    ("Reserve", "Success"): 1,
    ("PreBindPreFlight", "Skip"): 1,  # VolumeBinding's word on a pod without claims
    ("Bind", "Success"): 1,
}


async def test_a_pod_passes_each_extension_point_once(stage: Stage) -> None:
    async with stage((Late(), LATE_POINTS)) as world:
        await begin(world, pod_manifest(), nodes="n1 n2")
        late = {(point, "Success"): 1 for point in ("Reserve", "Permit", "PreBindPreFlight", "PreBind", "PostBind")}
        once = {point: times for point, times in ONCE.items() if point != ("PreBindPreFlight", "Skip")}
        assert points(world) == {**once, **late, ("PreScore", "Success"): 1, ("Score", "Success"): 1}
        sums = found(world, "framework_extension_point_duration_seconds_sum", "extension_point")
        assert all(0 < seconds < 1 for seconds in sums.values())


async def test_a_point_without_plugins_is_not_measured_and_one_node_is_not_scored(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest())
        assert points(world) == ONCE


async def test_equal_pods_are_prepared_once(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, *(pod_manifest(f"p{i}") for i in range(3)), nodes="n1 n2")
        assert points(world) == {
            ("PreEnqueue", "Success"): 3,
            ("PreFilter", "Success"): 1,
            ("Filter", "Success"): 3,
            ("PreScore", "Success"): 1,
            ("Score", "Success"): 3,
            ("Reserve", "Success"): 3,
            ("PreBindPreFlight", "Skip"): 3,
            ("Bind", "Success"): 3,
        }


async def test_answers_that_are_not_success_have_their_own_status(stage: Stage) -> None:
    late = Late()
    late.permit_answer = unschedulable("no"), 0.0
    async with stage((late, LATE_POINTS)) as world:
        await begin(world, pod_manifest(), pod_manifest("gated", schedulingGates=[{"name": "g"}]))
        shown = points(world)
        assert shown["Reserve", "Success"] == shown["Permit", "Unschedulable"] == shown["Unreserve", "Success"] == 1
        assert shown["PreEnqueue", "UnschedulableAndUnresolvable"] == 1
        assert not [point for point, _ in shown if "Bind" in point]


async def test_waiting_is_a_status_of_permit_and_skipping_one_of_the_pre_flight(stage: Stage) -> None:
    late = Late()
    late.permit_answer = Status(Code.WAIT), 5.0
    late.pre_flight_answer = Status(Code.SKIP)
    async with stage((late, LATE_POINTS)) as world:
        await begin(world, pod_manifest())
        shown = points(world)
        assert shown["Permit", "Wait"] == shown["PreBindPreFlight", "Skip"] == 1
        assert found(world, "goroutines", "operation") == {("binding",): 1}


async def test_a_filter_that_fails_is_an_error_of_filter(stage: Stage) -> None:
    async with stage((FakeFilter("F", n1=error("broken")), "filter")) as world:
        await begin(world, pod_manifest())
        assert points(world)["Filter", "Error"] == 1
        assert ("Filter", "Success") not in points(world)


async def test_where_no_node_passes_filter_is_a_success_and_post_filter_says_what_came_of_it(stage: Stage) -> None:
    preempting = FakePostFilter("Q", (None, unschedulable("no victims")))
    async with stage((preempting, "postFilter")) as world:
        await begin(world, pod_manifest(cpu="100"))
        shown = points(world)
        assert shown["Filter", "Success"] == shown["PostFilter", "Unschedulable"] == 1


async def test_a_plugin_is_evaluated_once_a_node_or_once_a_pod(stage: Stage) -> None:
    async with stage((FakeFilter("F", n1=unschedulable("no")), "filter"), (FakePreScore("S", n2=1, n3=2), "preScore score")) as world:
        await begin(world, pod_manifest(), nodes="n1 n2 n3")
        evaluated = found(world, "plugin_evaluation_total", "plugin", "extension_point")
        assert (evaluated["F", "Filter"], evaluated["S", "PreScore"], evaluated["S", "Score"]) == (3, 1, 2)
        assert evaluated["NodeResourcesFit", "PreFilter"] == 1
        assert ("NodePorts", "PreFilter") not in evaluated  # it skips


async def test_plugins_are_timed_in_one_cycle_of_ten(stage: Stage) -> None:
    async with stage((Late(), LATE_POINTS)) as world:
        await begin(world, *(pod_manifest(f"p{i}", cpu="100m") for i in range(3)), nodes="n1 n2")
        assert executions(world, "L") == executions(world, "DefaultBinder") == executions(world, "NodeResourcesFit") == {}
        assert executions(world, "SchedulingGates") == {("PreEnqueue", "Success"): 1}  # of the third pod
        await world.create(POD, pod_manifest("p3", cpu="200m"))  # another shape: PreFilter and PreScore are asked, too
        await world.settle()
        late = ("Reserve", "Permit", "PreBindPreFlight", "PreBind", "PostBind")
        assert executions(world, "L") == {(point, "Success"): 1 for point in late}
        assert executions(world, "DefaultBinder") == {("Bind", "Success"): 1}
        assert executions(world, "NodeResourcesFit") == {
            ("PreFilter", "Success"): 1,
            ("Filter", "Success"): 1,
            ("PreScore", "Success"): 1,
            ("Score", "Success"): 1,
        }


async def test_a_filter_that_refuses_every_node_is_timed_with_its_refusal(stage: Stage) -> None:
    async with stage((FakeFilter("F", n1=unschedulable("no"), n2=unschedulable("no")), "filter")) as world:
        await begin(world, *(pod_manifest(f"p{i}", cpu=f"{i + 1}00m") for i in range(4)), nodes="n1 n2")
        assert executions(world, "F") == {("Filter", "Unschedulable"): 1}


async def test_events_are_measured_by_what_they_are(stage: Stage) -> None:
    async with stage() as world:
        await begin(world, pod_manifest(), pod_manifest("big", cpu="100"))
        await world.patch(Ref(NODE, "", "n1"), {"metadata": {"labels": {"a": "b"}}})
        await world.patch(Ref(POD, "default", "big"), {"metadata": {"labels": {"a": "b"}}})
        await world.settle()
        await world.delete(Ref(POD, "default", "big"))
        await world.delete(Ref(POD, "default", "p"))
        await world.delete(Ref(NODE, "", "n1"))
        await world.settle()
        events = found(world, "event_handling_duration_seconds_count", "event")
        assert {event: events[event,] for event in ("NodeAdd", "NodeUpdateNodeLabel", "NodeDelete")} == {
            "NodeAdd": 1,
            "NodeUpdateNodeLabel": 1,
            "NodeDelete": 1,
        }
        assert events["UnschedulablePodAdd",] == 2
        assert events["UnschedulablePodUpdate",] >= 1  # the patch, and what the scheduler itself wrote into the status
        assert events["UnschedulablePodDelete",] == events["AssignedPodAdd",] == events["AssignedPodDelete",] == 1
