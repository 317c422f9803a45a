"""The cluster on a real cluster: how its steps reach an API server with the habits of a real one, and how they are cleared away."""

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
from koordsched.scenario.live.api import ScenarioApi
from koordsched.scenario.live.cluster import LiveCluster

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
def cluster(api: FakeApi) -> LiveCluster:
    return LiveCluster(ScenarioApi(Wire(api)), None, RealClock())


def pod(name: str, spec: Json | None = None, status: Json | None = None, **metadata: Any) -> Json:
    body: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", **metadata}, "spec": spec or {}}
    return body if status is None else {**body, "status": status}


def named(kind: str, name: str, **more: Any) -> Json:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}


def ref(name: str) -> Ref:
    return Ref(POD, "default", name)


async def test_status_is_written_through_its_subresource(api: FakeApi, cluster: LiveCluster) -> None:
    await cluster.create(POD, pod("a", {"nodeName": "n1"}, {"phase": "Running"}))
    assert api.asked == [f"POST {PODS}", f"PATCH {PODS}/a/status"]
    assert api.objects[f"{PODS}/a"]["status"] == {"phase": "Running", "qosClass": "BestEffort"}


async def test_status_that_the_server_gave_already_is_not_written_again(api: FakeApi, cluster: LiveCluster) -> None:
    await cluster.create(POD, pod("a", {}, {"phase": "Pending"}))
    assert api.asked == [f"POST {PODS}"]


async def test_the_kind_of_a_custom_resource_is_found_where_the_server_serves_it(api: FakeApi, cluster: LiveCluster) -> None:
    await cluster.create(WIDGET, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "status": {"ok": True}})
    assert api.asked == ["POST /apis/example.com/v1/widgets", "PATCH /apis/example.com/v1/widgets/w/status"]


async def test_a_node_is_as_the_scenario_says_whatever_admission_adds(api: FakeApi, cluster: LiveCluster) -> None:
    own = {"key": "gpu", "effect": "NoSchedule"}
    await cluster.create(NODE, named("Node", "n1", spec={"taints": [own]}, status={"capacity": {"cpu": "4"}}))
    await cluster.create(NODE, named("Node", "n2", status={"capacity": {"cpu": "4"}}))
    assert api.objects[f"{NODES}/n1"]["spec"] == {"taints": [own]}
    assert api.objects[f"{NODES}/n2"]["spec"] == {}
    assert api.objects[f"{NODES}/n1"]["status"] == {"capacity": {"cpu": "4"}}


async def test_a_claim_has_no_finalizer_that_only_a_controller_takes_away(api: FakeApi, cluster: LiveCluster) -> None:
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}
    claim = Ref(PERSISTENT_VOLUME_CLAIM, "default", "c")
    await cluster.create(PERSISTENT_VOLUME_CLAIM, body)
    await cluster.delete(claim)
    assert await cluster.get(claim) is None


async def test_finalizers_that_the_scenario_gives_hold_the_object(cluster: LiveCluster) -> None:
    await cluster.create(POD, pod("a", {"nodeName": "n1"}, finalizers=["example.com/hold"]))
    await cluster.delete(ref("a"))
    held = await cluster.get(ref("a"))
    assert held is not None
    assert held["metadata"]["deletionTimestamp"]
    await cluster.patch(ref("a"), {"metadata": {"finalizers": None}})
    assert await cluster.get(ref("a")) is None


async def test_pods_are_deleted_at_once_whatever_their_grace_period(api: FakeApi, cluster: LiveCluster) -> None:
    await cluster.create(POD, pod("a", {"nodeName": "n1", "terminationGracePeriodSeconds": 30}))
    await cluster.delete(ref("a"))
    assert f"{PODS}/a" not in api.objects


async def test_a_priority_without_a_class_gets_one(api: FakeApi, cluster: LiveCluster) -> None:
    await cluster.create(POD, pod("a", {"priority": 10}))
    await cluster.create(POD, pod("b", {"priority": 10}))
    assert api.asked == [f"POST {CLASSES}", f"POST {PODS}", f"POST {PODS}"]
    assert api.objects[f"{CLASSES}/scenario-10"]["value"] == 10
    assert api.objects[f"{PODS}/b"]["spec"] == {"priority": 10, "priorityClassName": "scenario-10"}


async def test_admission_may_hear_of_a_class_a_little_later(api: FakeApi, cluster: LiveCluster) -> None:
    api.slow_classes = 1
    await cluster.create(POD, pod("a", {"priority": 10}))
    assert f"{PODS}/a" in api.objects


async def test_other_refusals_are_not_tried_again(api: FakeApi, cluster: LiveCluster) -> None:
    api.put(f"{CLASSES}/five", {"metadata": {"name": "five"}, "value": 5})
    with pytest.raises(Forbidden, match=r"the integer value of priority \(6\) must not be provided"):
        await cluster.create(POD, pod("a", {"priority": 6, "priorityClassName": "five"}))
    assert api.asked == [f"POST {PODS}"]


async def test_a_missing_service_account_is_made(api: FakeApi, cluster: LiveCluster) -> None:
    api.accounts_needed = True
    await cluster.create(POD, pod("a"))
    assert api.objects["/api/v1/namespaces/default/serviceaccounts/default"]["metadata"]["name"] == "default"
    await cluster.end()
    assert api.objects == {}


async def test_koordinators_classes_are_made_when_missing_and_stay(api: FakeApi, cluster: LiveCluster) -> None:
    api.put(f"{CLASSES}/koord-mid", {"metadata": {"name": "koord-mid"}, "value": 7001})
    await cluster.prepare()
    await cluster.end()
    values = {key.rpartition("/")[2]: body["value"] for key, body in api.objects.items()}
    assert values == {"koord-mid": 7001, "koord-prod": 9000, "koord-batch": 5000, "koord-free": 3000}


async def test_a_kind_that_is_not_served_is_named(cluster: LiveCluster) -> None:
    with pytest.raises(NotFound) as raised:
        await cluster.create(DEVICE, {"apiVersion": DEVICE.api_version, "kind": "Device", "metadata": {"name": "n1"}})
    assert raised.value.message == (
        "the cluster does not serve Device (scheduling.koordinator.sh/v1alpha1); is its CustomResourceDefinition missing?"
    )
    assert await cluster.list(DEVICE) == []
    assert await cluster.get(Ref(DEVICE, "", "n1")) is None


async def test_a_patch_of_the_status_goes_apart(api: FakeApi, cluster: LiveCluster) -> None:
    await cluster.create(POD, pod("a"))
    api.asked.clear()
    await cluster.patch(ref("a"), {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Failed"}})
    await cluster.patch(ref("a"), {"status": {"phase": "Succeeded"}})
    assert api.asked == [f"PATCH {PODS}/a", f"PATCH {PODS}/a/status", f"PATCH {PODS}/a/status"]
    assert api.objects[f"{PODS}/a"]["status"]["phase"] == "Succeeded"
    assert api.objects[f"{PODS}/a"]["metadata"]["labels"] == {"x": "y"}


async def test_what_containers_ask_for_is_changed_by_a_resize_which_names_all_of_them_as_they_are(
    api: FakeApi, cluster: LiveCluster
) -> None:
    main, side = {"name": "main", "image": "pause", "terminationMessagePath": "/log"}, {"name": "side", "image": "pause"}
    await cluster.create(POD, pod("a", {"containers": [main, side]}))
    api.asked.clear()
    asked = {"requests": {"cpu": "2"}}
    spec = {"containers": [{"name": "main", "image": "pause", "resources": asked}], "activeDeadlineSeconds": 9}
    await cluster.patch(ref("a"), {"spec": spec})
    assert api.asked == [f"PATCH {PODS}/a", f"PATCH {PODS}/a/resize"]
    assert api.objects[f"{PODS}/a"]["spec"] == {"containers": [{**main, "resources": asked}, side], "activeDeadlineSeconds": 9}


async def test_only_its_own_pods_and_the_events_about_them_are_seen(api: FakeApi, cluster: LiveCluster) -> None:
    foreign = api.put(f"{PODS}/foreign", pod("foreign"))
    await cluster.create(POD, pod("a"))
    own = await cluster.get(ref("a"))
    assert own is not None
    for name, about in (("old", foreign), ("new", own)):
        api.put(f"{EVENTS}/{name}", {"metadata": {"name": name, "namespace": "default"}, "regarding": {"uid": about["metadata"]["uid"]}})
    assert [found["metadata"]["name"] for found in await cluster.list(POD)] == ["a"]
    assert [found["metadata"]["name"] for found in await cluster.list(EVENT)] == ["new"]
    await cluster.end()
    assert sorted(api.objects) == [f"{PODS}/foreign", f"{EVENTS}/old"]


async def test_all_that_a_scenario_made_is_cleared_away_and_nothing_else(api: FakeApi, cluster: LiveCluster) -> None:
    api.put(f"{NODES}/theirs", named("Node", "theirs", spec={}))
    await cluster.create(NODE, named("Node", "n1", spec={}))
    await cluster.create(POD, pod("held", {"nodeName": "n1", "terminationGracePeriodSeconds": 30}, finalizers=["example.com/hold"]))
    await cluster.create(POD, pod("again", {"priority": 3}))
    await cluster.delete(ref("again"))
    api.put(f"{PODS}/again", pod("again"))  # another client's, under the name of one of ours
    assert await cluster.end() == []
    assert sorted(api.objects) == [f"{PODS}/again", f"{NODES}/theirs"]


async def test_what_cannot_be_cleared_away_is_said(api: FakeApi, cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.scenario.live.clearing.GONE_WITHIN", 0.0)
    await cluster.create(POD, pod("a", finalizers=["x"]))
    monkeypatch.setattr(api, "_patch", lambda *_: None)  # another client keeps putting the finalizer back
    assert await cluster.end() == ["Pod default/a: it is still there after 0s"]


async def test_a_namespace_stays_and_serves_the_next_scenario_as_new(api: FakeApi, cluster: LiveCluster) -> None:
    await cluster.create(
        NAMESPACE, {**named("Namespace", "team"), "metadata": {"name": "team", "labels": {"a": "1"}, "annotations": {"b": "2"}}}
    )
    await cluster.end()
    left = api.objects["/api/v1/namespaces/team"]["metadata"]
    assert (left["labels"], left["annotations"]) == ({}, {"koordsched.io/left-over-of-a-scenario": "true"})

    following = LiveCluster(ScenarioApi(Wire(api)), None, RealClock())
    await following.create(NAMESPACE, {**named("Namespace", "team"), "metadata": {"name": "team", "labels": {"c": "3"}}})
    taken = api.objects["/api/v1/namespaces/team"]["metadata"]
    assert (taken["labels"], taken["annotations"]) == ({"c": "3"}, {})
    with pytest.raises(AlreadyExists):
        await following.create(NAMESPACE, named("Namespace", "team"))


async def test_a_namespace_of_another_user_is_not_taken_over(api: FakeApi, cluster: LiveCluster) -> None:
    api.put("/api/v1/namespaces/prod", named("Namespace", "prod"))
    with pytest.raises(AlreadyExists):
        await cluster.create(NAMESPACE, named("Namespace", "prod"))
    await cluster.end()
    assert api.asked == ["POST /api/v1/namespaces"]


async def test_a_namespace_that_a_step_deleted_is_ended_for_good(api: FakeApi, cluster: LiveCluster) -> None:
    await cluster.create(NAMESPACE, named("Namespace", "team"))
    await cluster.delete(Ref(NAMESPACE, "", "team"))
    assert await cluster.get(Ref(NAMESPACE, "", "team")) is not None
    assert await cluster.end() == []
    assert api.objects == {}


async def test_a_busy_server_is_asked_again(api: FakeApi, cluster: LiveCluster) -> None:
    api.busy = 3
    await cluster.create(PRIORITY_CLASS, {**named("PriorityClass", "x"), "value": 1})
    assert f"{CLASSES}/x" in api.objects


async def test_the_scheduler_that_serves_the_cluster_is_not_ours_to_restart(cluster: LiveCluster) -> None:
    await cluster.start()
    with pytest.raises(ClusterError, match="cannot be restarted or asked"):
        await cluster.restart()
    with pytest.raises(ClusterError, match="cannot be restarted or asked"):
        await cluster.http("/readyz")


async def test_a_running_scheduler_is_given_time_to_hear_of_one_kind_before_another(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    await cluster.create(NODE, named("Node", "n1"))
    await cluster.create(POD, pod("a"))
    assert waits == []  # the scheduler does not listen yet
    await cluster.start()
    await cluster.create(POD, pod("b"))
    await cluster.create(POD, pod("c"))
    await cluster.delete(ref("c"))
    assert waits == []
    await cluster.patch(Ref(NODE, "", "n1"), {"spec": {"unschedulable": True}})
    assert waits == [0.3]
    await cluster.settle()
    await cluster.create(POD, pod("d"))
    assert waits == [0.3, 0.3]
