"""Pods that wait, each in its own way: every door says the same of each, also of those that never come to a cycle."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from support.explained import node, pod, workload_of

from koordsched.api.kinds import EVENT, POD, SCHEDULE_EXPLANATION
from koordsched.cluster.port import Ref
from koordsched.config.flag_table import Flags
from koordsched.config.loading import default_config
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.explain.rendering import text
from koordsched.framework.waiting import WaitingPod
from koordsched.scheduler.suggestions.answers import AnswerOptions
from koordsched.serve.endpoints import Endpoints
from koordsched.server.http import HttpRequest
from koordsched.simulate.simulation import Simulation
from koordsched.slices import Slices

Json = dict[str, Any]

TEAM = {"quota.scheduling.koordinator.sh/name": "team"}
GANG = {"pod-group.scheduling.sigs.k8s.io": "g"}
QUOTA = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "ElasticQuota",
    "metadata": {"name": "team", "namespace": "default"},
    "spec": {"max": {"cpu": "1"}, "min": {"cpu": "1"}},
}
GROUP = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 3},
}


def in_scheduler(objects: list[Json], script: Any) -> Any:
    options = EmbeddedOptions(config=default_config(), flags=Flags(enable_network_topology_manager=True), lasting=True)

    async def play(embedded: EmbeddedCluster) -> Any:
        await Simulation(workload_of(objects), embedded, None).play(30.0)
        return await script(embedded)

    return run_embedded(options, play)


async def doors(embedded: EmbeddedCluster, name: str = "web") -> Json:
    """Return what each door says of a pod."""
    question = {"metadata": {"namespace": "default", "name": "why"}, "spec": {"questionObjectKey": f"default/{name}"}}
    await embedded.create(SCHEDULE_EXPLANATION, question)
    await embedded.sleep(7.0)
    raw = embedded.cluster.raw(Ref(POD, "default", name))
    conditions = [each["message"] for each in raw.get("status", {}).get("conditions", ()) if each["type"] == "PodScheduled"]
    events = [each["note"] for each in embedded.cluster.raws(EVENT) if each["reason"] == "FailedScheduling" and name in str(each)]
    written = embedded.cluster.raw(Ref(SCHEDULE_EXPLANATION, "default", "why"))["status"]
    endpoints = Endpoints(embedded.scheduler)
    served = json.loads((await endpoints.answer(HttpRequest.of("GET", f"/apis/v1/explain/default/{name}"))).body)
    with Slices(embedded.scheduler.clock.perf) as work:
        found = await embedded.scheduler.answers.of_pod(f"default/{name}", AnswerOptions(changes=False), work)
    assert found is not None
    out = io.StringIO()
    out.write(text(found, tried=False))
    return {
        "condition": conditions,
        "events": events,
        "object": written.get("failedMessage"),
        "endpoint": served.get("failedMessage"),
        "said": found,
        "shown": out.getvalue(),
    }


@pytest.mark.parametrize(
    ("objects", "message", "waiting"),
    [
        ([node("n1"), pod("web", {"cpu": "9"})], "0/1 nodes are available: 1 Insufficient cpu.", "waits since "),
        ([node("n1"), QUOTA, pod("web", {"cpu": "2"}, labels=TEAM)], "Insufficient quotas", "waits since "),
        ([node("n1"), GROUP, pod("web", {"cpu": "1"}, labels=GANG)], "gang", "is held back by Coscheduling since "),
    ],
    ids=["nodes", "quota", "siblings"],
)
def test_condition_event_object_endpoint_and_command_line_say_the_same(objects: list[Json], message: str, waiting: str) -> None:
    found = in_scheduler(objects, doors)
    (condition,) = found["condition"]
    assert message in condition
    assert found["object"] == found["endpoint"] == found["said"].message == condition
    assert not found["events"] or condition in found["events"]
    assert condition in found["shown"]
    assert found["said"].waiting.startswith(waiting)
    assert f"It {found['said'].waiting}." in found["shown"]


def test_a_gated_pod_is_said_to_be_held_back() -> None:
    """The API server writes its condition, in words of its own."""
    found = in_scheduler([node("n1"), pod("web", {"cpu": "1"}, schedulingGates=[{"name": "g"}])], doors)
    assert found["condition"] == [found["said"].message] == ["Scheduling is blocked due to non-empty scheduling gates"]
    assert found["object"] == found["endpoint"] == "waiting for scheduling gates: [g]"
    assert found["said"].waiting.startswith("is held back by SchedulingGates since 20")


def test_a_pod_that_waits_on_permit_is_said_to_with_its_node_and_since_when() -> None:
    async def script(embedded: EmbeddedCluster) -> Any:
        scheduler = embedded.scheduler
        info = scheduler.queue.get("default/web")
        assert info is not None
        scheduler.queue.delete(info.pod_info)
        scheduler.cache.assume_pod(info.pod_info, "n1")
        scheduler._context.waiting_pods.add(WaitingPod(info.pod_info, "n1", {"Coscheduling": 600.0}, 1_700_000_000.0))
        with Slices(scheduler.clock.perf) as work:
            return await scheduler.answers.of_pod("default/web", AnswerOptions(), work)

    found = in_scheduler([node("n1"), pod("web", {"cpu": "9"})], script)
    assert (found.state, found.node) == ("pending", "n1")
    assert found.waiting == "waiting on Permit for Coscheduling since 2023-11-14T22:13:20Z"
    assert text(found, tried=False).startswith("Pod default/web is pending with node n1.\n")


def test_a_pod_that_waits_for_its_victims_names_them() -> None:
    async def script(embedded: EmbeddedCluster) -> Any:
        low = pod("low", {"cpu": "4"}, nodeName="n1", priority=0, terminationGracePeriodSeconds=60)
        await embedded.create(POD, low)
        await embedded.sleep(1.0)
        await embedded.create(POD, pod("web", {"cpu": "3"}, priority=1000, schedulerName="koord-scheduler"))
        await embedded.sleep(5.0)
        return await doors(embedded)

    found = in_scheduler([node("n1"), pod("other", {"cpu": "9"})], script)
    assert found["said"].waiting == "waits for its victims on node n1 to go: default/low"
    assert found["condition"] == [found["said"].message]
    assert found["object"] == found["endpoint"] == found["said"].message
