"""A plugin that names the pod to schedule next: where it is taken from, what it carries on, and what is not taken."""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from support.fakes import Fake, pod_manifest
from support.stages import Stage, begin, metric, nodes_of_pods

from koordsched.api.kinds import POD
from koordsched.api.podinfo import PodInfo
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import NextPod, NextPodPlugin, PermitPlugin, PreEnqueuePlugin
from koordsched.framework.status import Status, unresolvable

LATENCY = "scheduler_next_pod_delete_from_queue_latency_count"


class Followers(Fake, PreEnqueuePlugin, NextPodPlugin, PermitPlugin):
    """Gates all pods but "first", and names them one by one after it."""

    def __init__(self) -> None:
        super().__init__("Followers")
        self.first: PodInfo | None = None
        self.gated: dict[str, PodInfo] = {}
        self.order: list[str] = []
        self.fails = False

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if pod.pod.metadata.name == "first":
            return None
        self.gated[pod.pod.metadata.name] = pod
        return unresolvable("after the first")

    def next_pod(self) -> NextPod | None:
        if self.fails:
            raise RuntimeError("broken")
        if self.first is None or not self.gated:
            return None
        return NextPod(self.gated.pop(min(self.gated)), self.first)

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        self.order.append(pod.pod.metadata.name)
        self.first = self.first or pod
        return None, 0.0


def executions(world: EmbeddedCluster) -> dict[str, float]:
    """Return how often the plugin was asked, by whether it named a pod."""
    name = "scheduler_plugin_execution_duration_seconds_count"
    where = {"plugin": "Followers", "extension_point": "NextPod"}
    families = text_string_to_metric_families(world.scheduler.metrics.text().decode())
    samples = [sample for family in families for sample in family.samples if sample.name == name and where.items() <= sample.labels.items()]
    return {sample.labels["status"]: sample.value for sample in samples}


async def started(world: EmbeddedCluster, *pods: dict[str, Any]) -> None:
    """Let the followers be gated before the first pod comes."""
    await begin(world, *pods)
    await world.create(POD, pod_manifest("first"))
    await world.settle()


async def test_named_pods_come_before_the_queue_and_count_no_attempt(stage: Stage) -> None:
    plugin = Followers()
    async with stage((plugin, "preEnqueue permit")) as world:
        await started(world, pod_manifest("c"), pod_manifest("b"))
        assert plugin.order == ["first", "b", "c"]
        assert metric(world, LATENCY) == 2
        assert executions(world)["true"] == 2
        assert executions(world)["false"] >= 2, "asked at least before the first pod and when no follower was left"
        assert metric(world, "scheduler_pod_scheduling_attempts_sum") == 3
        world.scheduler.queue.check_invariants()


async def test_a_named_pod_keeps_its_nomination_and_carries_on_the_first_pods_attempts(stage: Stage) -> None:
    plugin = Followers()
    async with stage((plugin, "preEnqueue permit")) as world:
        await begin(world, pod_manifest("b"), pod_manifest("first", cpu="9"))
        queue = world.scheduler.queue
        first, follower = queue.get("default/first"), queue.get("default/b")
        assert first is not None
        assert follower is not None
        began = first.initial_attempt_timestamp
        queue.nominate(follower.pod_info, "n1")
        first.attempts, follower.initial_attempt_timestamp = 7, None
        plugin.first, plugin.gated = first.pod_info, {"b": follower.pod_info}
        world.scheduler.cycle._choosing = [plugin]
        taken = world.scheduler.cycle.next_pod()
        assert taken is follower
        assert (follower.attempts, follower.initial_attempt_timestamp) == (7, began)
        assert queue.nominator.node_of(follower.uid) == "n1"
        assert world.scheduler.cycle.schedule(follower) is None
        await world.settle()


async def test_pods_that_are_gated_otherwise_or_gone_are_not_taken(stage: Stage) -> None:
    plugin = Followers()
    async with stage((plugin, "preEnqueue permit")) as world:
        await begin(world, pod_manifest("a", schedulingGates=[{"name": "wait"}]), pod_manifest("b"))
        gone = plugin.gated["b"].with_pod(plugin.gated["b"].pod)
        gone.key = "default/gone"
        plugin.gated["bb"] = gone
        await world.create(POD, pod_manifest("first"))
        await asyncio.sleep(1)
        assert nodes_of_pods(world) == {"a": "", "b": "n1", "first": "n1"}


async def test_a_plugin_that_fails_does_not_stop_the_queue(stage: Stage) -> None:
    plugin = Followers()
    plugin.fails = True
    async with stage((plugin, "preEnqueue permit")) as world:
        await started(world)
        assert nodes_of_pods(world)["first"] == "n1"
