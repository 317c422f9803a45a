"""Patching objects on the embedded cluster: subresources, versions, preconditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.manifests import pod_manifest

from koordsched.api.core import Node, Pod
from koordsched.api.kinds import CONFIG_MAP, NODE, POD, RESERVATION
from koordsched.api.meta import Unstructured
from koordsched.cluster.port import Conflict, Invalid, NotFound, Patch, PatchType, Ref

if TYPE_CHECKING:
    from koordsched.cluster.memory import MemoryCluster

NODE_REF = Ref(NODE, "", "n")
POD_REF = Ref(POD, "default", "p")


async def create_node(cluster: MemoryCluster) -> Node:
    created = await cluster.create(NODE, {"metadata": {"name": "n", "labels": {"a": "1"}}, "status": {"allocatable": {"cpu": "4"}}})
    assert isinstance(created, Node)
    return created


async def create_pod(cluster: MemoryCluster) -> None:
    await cluster.create(POD, pod_manifest())


async def test_a_merge_patch_changes_what_it_names(cluster: MemoryCluster) -> None:
    old = await create_node(cluster)
    new = await cluster.patch(NODE_REF, Patch({"metadata": {"labels": {"b": "2"}, "annotations": {"k": "v"}}}))
    assert new.metadata.labels == {"a": "1", "b": "2"}
    assert new.metadata.annotations == {"k": "v"}
    assert int(new.metadata.resource_version) > int(old.metadata.resource_version)
    assert await cluster.get(NODE_REF) == new


@pytest.mark.parametrize("body", [{}, {"metadata": {"labels": {"a": "1", "gone": None}}}, {"metadata": None}, {"spec": None}])
async def test_a_patch_that_changes_nothing_makes_no_version(cluster: MemoryCluster, body: dict[str, Any]) -> None:
    old = await create_node(cluster)
    assert (await cluster.patch(NODE_REF, Patch(body))) == old
    assert cluster.resource_version == old.metadata.resource_version


async def test_generation_counts_changes_of_what_is_desired(cluster: MemoryCluster) -> None:
    await create_node(cluster)
    assert (await cluster.patch(NODE_REF, Patch({"metadata": {"labels": {"b": "2"}}}))).metadata.generation == 1
    assert (await cluster.patch(NODE_REF, Patch({"spec": {"unschedulable": True}}))).metadata.generation == 2
    status = Patch({"status": {"allocatable": {"cpu": "8"}}}, subresource="status")
    assert (await cluster.patch(NODE_REF, status)).metadata.generation == 2


async def test_the_main_resource_and_the_status_do_not_touch_each_other(cluster: MemoryCluster) -> None:
    await create_node(cluster)
    body = {"metadata": {"labels": {"b": "2"}}, "spec": {"unschedulable": True}, "status": {"allocatable": {"cpu": "8"}}}
    node = await cluster.patch(NODE_REF, Patch(body, subresource="status"))
    assert isinstance(node, Node)
    assert (node.metadata.labels, node.spec.unschedulable, node.status.allocatable) == ({"a": "1"}, False, {"cpu": "8"})
    body["status"] = {"allocatable": {"cpu": "16"}}
    node = await cluster.patch(NODE_REF, Patch(body))
    assert isinstance(node, Node)
    assert (node.metadata.labels, node.spec.unschedulable, node.status.allocatable) == ({"a": "1", "b": "2"}, True, {"cpu": "8"})


async def test_conditions_of_a_pod_are_merged_by_type(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    for kind, reason in (
        ("PodScheduled", "Unschedulable"),
        ("DisruptionTarget", "PreemptionByScheduler"),
        ("PodScheduled", "SchedulerError"),
    ):
        body = {"status": {"conditions": [{"type": kind, "status": "False", "reason": reason}], "nominatedNodeName": "n1"}}
        pod = await cluster.patch(POD_REF, Patch(body, PatchType.STRATEGIC, "status"))
    assert isinstance(pod, Pod)
    assert [(condition.type, condition.reason) for condition in pod.status.conditions] == [
        ("PodScheduled", "SchedulerError"),
        ("DisruptionTarget", "PreemptionByScheduler"),
    ]
    assert (pod.status.nominated_node_name, pod.status.phase) == ("n1", "Pending")


async def test_a_custom_resource_takes_no_strategic_patch(cluster: MemoryCluster) -> None:
    await cluster.create(RESERVATION, {"metadata": {"name": "r"}})
    with pytest.raises(Invalid, match="unknown format"):
        await cluster.patch(Ref(RESERVATION, "", "r"), Patch({"metadata": {"labels": {"a": "1"}}}, PatchType.STRATEGIC))


async def test_a_version_that_was_overtaken_conflicts(cluster: MemoryCluster) -> None:
    version = (await create_node(cluster)).metadata.resource_version
    await cluster.patch(NODE_REF, Patch({"metadata": {"resourceVersion": version, "labels": {"b": "2"}}}))
    with pytest.raises(Conflict, match=r'^Operation cannot be fulfilled on nodes "n": the object has been modified'):
        await cluster.patch(NODE_REF, Patch({"metadata": {"resourceVersion": version, "labels": {"b": "3"}}}))


async def test_another_uid_conflicts(cluster: MemoryCluster) -> None:
    uid = (await create_node(cluster)).metadata.uid
    with pytest.raises(Conflict, match=f"UID in precondition: other, UID in object meta: {uid}"):
        await cluster.patch(NODE_REF, Patch({"metadata": {"uid": "other", "labels": {"b": "2"}}}))


@pytest.mark.parametrize("field", ["uid", "creationTimestamp", "deletionTimestamp", "generation"])
async def test_a_patch_does_not_reach_what_the_server_writes(cluster: MemoryCluster, field: str) -> None:
    old = await create_node(cluster)
    assert await cluster.patch(NODE_REF, Patch({"metadata": {field: None}})) == old


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"metadata": {"name": "m"}}, r"the name of the object \(m\) does not match the name on the URL \(n\)"),
        ({"metadata": 5}, "metadata: Invalid value: 5: must be an object"),
        ([], "must be an object, not list"),
        ({"kind": "Pod"}, "the object is a v1 Pod, but it was sent to v1 nodes"),
    ],
)
async def test_a_patch_that_makes_no_sense_is_refused(cluster: MemoryCluster, body: Any, text: str) -> None:
    await create_node(cluster)
    with pytest.raises(Invalid, match=text):
        await cluster.patch(NODE_REF, Patch(body))


@pytest.mark.parametrize("body", [{"$patch": "replace", "kind": None}, {"metadata": {"$patch": "replace", "name": "n"}}])
async def test_a_replacing_patch_leaves_identity_and_status(cluster: MemoryCluster, body: dict[str, Any]) -> None:
    old = await create_node(cluster)
    new = await cluster.patch(NODE_REF, Patch(body, PatchType.STRATEGIC))
    assert isinstance(new, Node)
    assert (new.api_version, new.kind, new.metadata.name, new.metadata.uid) == ("v1", "Node", "n", old.metadata.uid)
    assert (new.metadata.labels, new.status) == ({}, old.status)


async def test_a_patch_with_an_invalid_result_changes_nothing(cluster: MemoryCluster) -> None:
    old = await create_node(cluster)
    with pytest.raises(Invalid, match=r'^Node "n" is invalid: status\.allocatable.*cpu.*"lots"'):
        await cluster.patch(NODE_REF, Patch({"status": {"allocatable": {"cpu": "lots"}}}, subresource="status"))
    assert await cluster.get(NODE_REF) == old


async def test_what_does_not_exist_cannot_be_patched(cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound, match=r'^reservations.scheduling.koordinator.sh "r" not found$'):
        await cluster.patch(Ref(RESERVATION, "", "r"), Patch({}))


async def test_a_whole_unstructured_object_can_be_patched(cluster: MemoryCluster) -> None:
    await cluster.create(CONFIG_MAP, {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}})
    patched = await cluster.patch(Ref(CONFIG_MAP, "default", "c"), Patch({"data": {"a": None, "c": "3"}}))
    assert isinstance(patched, Unstructured)
    assert patched.raw["data"] == {"b": "2", "c": "3"}
    assert patched.metadata.generation == 2


async def test_a_patch_may_take_a_pods_status_away(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    await cluster.patch(POD_REF, Patch({"status": {"nominatedNodeName": "n"}}, subresource="status"))
    pod = await cluster.patch(POD_REF, Patch({"status": None}, PatchType.MERGE, "status"))
    assert isinstance(pod, Pod)
    assert pod.status.nominated_node_name == ""
    assert await cluster.get(POD_REF) == pod
