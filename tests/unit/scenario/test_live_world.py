"""The world on a real cluster: how its steps reach an API server with the habits of a real one, and how they are cleared away."""

from __future__ import annotations

from typing import Any

import pytest
from support.fake_api import FakeApi, Wire

from koordsched.api.kinds import (
    DEVICE,
    EVENT,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    unstructured_kind,
)
from koordsched.clock import RealClock
from koordsched.cluster.port import AlreadyExists, ClusterError, Forbidden, NotFound, Ref
from koordsched.scenario.live.api import Api
from koordsched.scenario.live.world import LiveWorld

Json = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
WIDGET = unstructured_kind("example.com/v1", "Widget")


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def world(api: FakeApi) -> LiveWorld:
    return LiveWorld(Api(Wire(api)), None, RealClock())


def pod(name: str, spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    body: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", **metadata}, "spec": spec or {}}
    return body if status is None else {**body, "status": status}


def named(kind: str, name: str, **more: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


def ref(name: str) -> Ref:
    return Ref(POD, "default", name)


async def test_status_is_written_through_its_subresource(api: FakeApi, world: LiveWorld) -> None:
    await world.create(POD, pod("a", {"nodeName": "n1"}, {"phase": "Running"}))
    assert api.asked == [f"POST {PODS}", f"PATCH {PODS}/a/status"]
    assert api.objects[f"{PODS}/a"]["status"] == {"phase": "Running", "qosClass": "BestEffort"}


async def test_status_that_the_server_gave_already_is_not_written_again(api: FakeApi, world: LiveWorld) -> None:
    await world.create(POD, pod("a", {}, {"phase": "Pending"}))
    assert api.asked == [f"POST {PODS}"]


async def test_the_kind_of_a_custom_resource_is_found_where_the_server_serves_it(api: FakeApi, world: LiveWorld) -> None:
    await world.create(WIDGET, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "status": {"ok": True}})
    assert api.asked == ["POST /apis/example.com/v1/widgets", "PATCH /apis/example.com/v1/widgets/w/status"]


async def test_a_node_is_as_the_scenario_says_whatever_admission_adds(api: FakeApi, world: LiveWorld) -> None:
    own = {"key": "gpu", "effect": "NoSchedule"}
    await world.create(NODE, named("Node", "n1", spec={"taints": [own]}, status={"capacity": {"cpu": "4"}}))
    await world.create(NODE, named("Node", "n2", status={"capacity": {"cpu": "4"}}))
    assert api.objects[f"{NODES}/n1"]["spec"] == {"taints": [own]}
    assert api.objects[f"{NODES}/n2"]["spec"] == {}
    assert api.objects[f"{NODES}/n1"]["status"] == {"capacity": {"cpu": "4"}}


async def test_a_claim_has_no_finalizer_that_only_a_controller_takes_away(api: FakeApi, world: LiveWorld) -> None:
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}
    claim = Ref(PERSISTENT_VOLUME_CLAIM, "default", "c")
    await world.create(PERSISTENT_VOLUME_CLAIM, body)
    await world.delete(claim)
    assert await world.get(claim) is None


async def test_finalizers_that_the_scenario_gives_hold_the_object(world: LiveWorld) -> None:
    await world.create(POD, pod("a", {"nodeName": "n1"}, finalizers=["example.com/hold"]))
    await world.delete(ref("a"))
    held = await world.get(ref("a"))
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    await world.patch(ref("a"), {"metadata": {"finalizers": None}})
    assert await world.get(ref("a")) is None


async def test_pods_are_deleted_at_once_whatever_their_grace_period(api: FakeApi, world: LiveWorld) -> None:
    await world.create(POD, pod("a", {"nodeName": "n1", "terminationGracePeriodSeconds": 30}))
    await world.delete(ref("a"))
    assert f"{PODS}/a" not in api.objects


async def test_a_priority_without_a_class_gets_one(api: FakeApi, world: LiveWorld) -> None:
    await world.create(POD, pod("a", {"priority": 10}))
    await world.create(POD, pod("b", {"priority": 10}))
    assert api.asked == [f"POST {CLASSES}", f"POST {PODS}", f"POST {PODS}"]
    assert api.objects[f"{CLASSES}/scenario-10"]["value"] == 10
    assert api.objects[f"{PODS}/b"]["spec"] == {"priority": 10, "priorityClassName": "scenario-10"}


async def test_admission_may_hear_of_a_class_a_little_later(api: FakeApi, world: LiveWorld) -> None:
    api.slow_classes = 1
    await world.create(POD, pod("a", {"priority": 10}))
    assert f"{PODS}/a" in api.objects


async def test_other_refusals_are_not_tried_again(api: FakeApi, world: LiveWorld) -> None:
    api.put(f"{CLASSES}/five", {"metadata": {"name": "five"}, "value": 5})
    with pytest.raises(Forbidden, match=r"the integer value of priority \(6\) must not be provided"):
        await world.create(POD, pod("a", {"priority": 6, "priorityClassName": "five"}))
    assert api.asked == [f"POST {PODS}"]


async def test_a_missing_service_account_is_made(api: FakeApi, world: LiveWorld) -> None:
    api.accounts_needed = True
    await world.create(POD, pod("a"))
    assert api.objects["/api/v1/namespaces/default/serviceaccounts/default"]["metadata"]["name"] == "default"
    await world.end()
    assert api.objects == {}


async def test_koordinators_classes_are_made_when_missing_and_stay(api: FakeApi, world: LiveWorld) -> None:
    api.put(f"{CLASSES}/koord-mid", {"metadata": {"name": "koord-mid"}, "value": 7001})
    await world.prepare()
    await world.end()
    values = {key.rpartition("/")[2]: body["value"] for key, body in api.objects.items()}
    assert values == {"koord-mid": 7001, "koord-prod": 9000, "koord-batch": 5000, "koord-free": 3000}


async def test_a_kind_that_is_not_served_is_named(world: LiveWorld) -> None:
    with pytest.raises(NotFound) as raised:
        await world.create(DEVICE, {"apiVersion": DEVICE.api_version, "kind": "Device", "metadata": {"name": "n1"}})
    assert raised.value.message == (
        "the cluster does not serve Device (scheduling.koordinator.sh/v1alpha1); is its CustomResourceDefinition missing?"
    )
    assert await world.list(DEVICE) == []
    assert await world.get(Ref(DEVICE, "", "n1")) is None


async def test_a_patch_of_the_status_goes_apart(api: FakeApi, world: LiveWorld) -> None:
    await world.create(POD, pod("a"))
    api.asked.clear()
    await world.patch(ref("a"), {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Failed"}})
    await world.patch(ref("a"), {"status": {"phase": "Succeeded"}})
    assert api.asked == [f"PATCH {PODS}/a", f"PATCH {PODS}/a/status", f"PATCH {PODS}/a/status"]
    assert api.objects[f"{PODS}/a"]["status"]["phase"] == "Succeeded"
    assert api.objects[f"{PODS}/a"]["metadata"]["labels"] == {"x": "y"}


async def test_only_its_own_pods_and_the_events_about_them_are_seen(api: FakeApi, world: LiveWorld) -> None:
    foreign = api.put(f"{PODS}/foreign", pod("foreign"))
    await world.create(POD, pod("a"))
    own = await world.get(ref("a"))
    assert own is not None
    for name, about in (("old", foreign), ("new", own)):
        api.put(f"{EVENTS}/{name}", {"metadata": {"name": name, "namespace": "default"}, "regarding": {"uid": about["metadata"]["uid"]}})
    assert [found["metadata"]["name"] for found in await world.list(POD)] == ["a"]
    assert [found["metadata"]["name"] for found in await world.list(EVENT)] == ["new"]
    await world.end()
    assert sorted(api.objects) == [f"{PODS}/foreign", f"{EVENTS}/old"]


async def test_all_that_a_scenario_made_is_cleared_away_and_nothing_else(api: FakeApi, world: LiveWorld) -> None:
    api.put(f"{NODES}/theirs", named("Node", "theirs", spec={}))
    await world.create(NODE, named("Node", "n1", spec={}))
    await world.create(POD, pod("held", {"nodeName": "n1", "terminationGracePeriodSeconds": 30}, finalizers=["example.com/hold"]))
    await world.create(POD, pod("again", {"priority": 3}))
    await world.delete(ref("again"))
    api.put(f"{PODS}/again", pod("again"))  # somebody else's, under the name of one of ours
    assert await world.end() == []
    assert sorted(api.objects) == [f"{PODS}/again", f"{NODES}/theirs"]


async def test_what_cannot_be_cleared_away_is_said(api: FakeApi, world: LiveWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.scenario.live.clearing.GONE_WITHIN", 0.0)
    await world.create(POD, pod("a", finalizers=["x"]))
    monkeypatch.setattr(api, "_patch", lambda *_: None)  # somebody keeps putting the finalizer back
    assert await world.end() == ["Pod default/a: it is still there after 0s"]


async def test_a_namespace_stays_and_serves_the_next_scenario_as_new(api: FakeApi, world: LiveWorld) -> None:
    await world.create(
        NAMESPACE, {**named("Namespace", "team"), "metadata": {"name": "team", "labels": {"a": "1"}, "annotations": {"b": "2"}}}
    )
    await world.end()
    left = api.objects["/api/v1/namespaces/team"]["metadata"]
    assert (left["labels"], left["annotations"]) == ({}, {"koordsched.io/left-over-of-a-scenario": "true"})

    following = LiveWorld(Api(Wire(api)), None, RealClock())
    await following.create(NAMESPACE, {**named("Namespace", "team"), "metadata": {"name": "team", "labels": {"c": "3"}}})
    taken = api.objects["/api/v1/namespaces/team"]["metadata"]
    assert (taken["labels"], taken["annotations"]) == ({"c": "3"}, {})
    with pytest.raises(AlreadyExists):
        await following.create(NAMESPACE, named("Namespace", "team"))


async def test_a_namespace_of_somebody_elses_is_not_taken_over(api: FakeApi, world: LiveWorld) -> None:
    api.put("/api/v1/namespaces/prod", named("Namespace", "prod"))
    with pytest.raises(AlreadyExists):
        await world.create(NAMESPACE, named("Namespace", "prod"))
    await world.end()
    assert api.asked == ["POST /api/v1/namespaces"]


async def test_a_namespace_that_a_step_deleted_is_ended_for_good(api: FakeApi, world: LiveWorld) -> None:
    await world.create(NAMESPACE, named("Namespace", "team"))
    await world.delete(Ref(NAMESPACE, "", "team"))
    assert await world.get(Ref(NAMESPACE, "", "team")) is not None
    assert await world.end() == []
    assert api.objects == {}


async def test_a_busy_server_is_asked_again(api: FakeApi, world: LiveWorld) -> None:
    api.busy = 3
    await world.create(PRIORITY_CLASS, {**named("PriorityClass", "x"), "value": 1})
    assert f"{CLASSES}/x" in api.objects


async def test_the_scheduler_that_serves_the_cluster_is_not_ours_to_restart(world: LiveWorld) -> None:
    await world.start()
    with pytest.raises(ClusterError, match="cannot be restarted or asked"):
        await world.restart()
    with pytest.raises(ClusterError, match="cannot be restarted or asked"):
        await world.http("/readyz")


async def test_a_running_scheduler_is_given_time_to_hear_of_one_kind_before_another(
    world: LiveWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    await world.create(NODE, named("Node", "n1"))
    await world.create(POD, pod("a"))
    assert waits == []  # nobody listens yet
    await world.start()
    await world.create(POD, pod("b"))
    await world.create(POD, pod("c"))
    await world.delete(ref("c"))
    assert waits == []
    await world.patch(Ref(NODE, "", "n1"), {"spec": {"unschedulable": True}})
    assert waits == [0.3]
    await world.settle()
    await world.create(POD, pod("d"))
    assert waits == [0.3, 0.3]
