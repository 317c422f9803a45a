"""Objects that differ in little are created from a template: each must come out as if it were the first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from support.manifests import pod_manifest

from koordsched.api.core import Node, Pod
from koordsched.api.kinds import NAMESPACE, NODE, POD, PRIORITY_CLASS
from koordsched.cluster.port import AlreadyExists, Binding, Invalid, Patch, Ref

if TYPE_CHECKING:
    from koordsched.api.kinds import Kind
    from koordsched.cluster.memory import MemoryCluster

HOSTNAME = "kubernetes.io/hostname"


def node_manifest(name: str, **labels: Any) -> dict[str, Any]:
    """Make a node whose hostname is its name."""
    return {"metadata": {"name": name, "labels": {HOSTNAME: name, **labels}}, "status": {"allocatable": {"cpu": "4"}}}


async def created(cluster: MemoryCluster, kind: Kind, *bodies: dict[str, Any]) -> list[Any]:
    return [await cluster.create(kind, body) for body in bodies]


async def test_pods_that_are_alike_have_names_uids_versions_and_times_of_their_own(cluster: MemoryCluster) -> None:
    (first,) = await created(cluster, POD, pod_manifest("a"))
    await asyncio.sleep(5)
    (second,) = await created(cluster, POD, pod_manifest("b"))
    assert (first.metadata.name, second.metadata.name) == ("a", "b")
    assert first.metadata.uid != second.metadata.uid
    assert int(second.metadata.resource_version) == int(first.metadata.resource_version) + 1 == int(cluster.resource_version)
    assert second.metadata.creation_timestamp == "2026-01-01T00:00:05Z"
    raw = cluster.raw(Ref(POD, "default", "b"))["metadata"]
    assert (raw["name"], raw["uid"], raw["resourceVersion"]) == ("b", second.metadata.uid, second.metadata.resource_version)
    assert (raw["namespace"], raw["generation"], raw["creationTimestamp"]) == ("default", 1, "2026-01-01T00:00:05Z")


async def test_pods_that_are_alike_are_found_as_they_were_created(cluster: MemoryCluster) -> None:
    labels = {"app": "web"}
    pods = await created(cluster, POD, *(pod_manifest(name) | {"metadata": {"name": name, "labels": labels}} for name in "abc"))
    assert (await cluster.list(POD)).items == pods
    assert [pod.metadata.labels for pod in pods] == [labels] * 3
    assert all(pod.spec.priority == 0 and pod.status.phase == "Pending" for pod in pods)


async def test_nodes_that_are_alike_have_hostnames_of_their_own(cluster: MemoryCluster) -> None:
    nodes = await created(cluster, NODE, node_manifest("n1", zone="z"), node_manifest("n2", zone="z"), node_manifest("n3", zone="y"))
    assert [node.metadata.labels for node in nodes] == [
        {HOSTNAME: "n1", "zone": "z"},
        {HOSTNAME: "n2", "zone": "z"},
        {HOSTNAME: "n3", "zone": "y"},
    ]
    assert [raw["metadata"]["labels"][HOSTNAME] for raw in cluster.raws(NODE)] == ["n1", "n2", "n3"]


async def test_a_hostname_that_is_not_the_nodes_name_is_kept(cluster: MemoryCluster) -> None:
    body = node_manifest("n1")
    other = {**body, "metadata": {"name": "n2", "labels": {HOSTNAME: "n1"}}}
    without: dict[str, Any] = {**body, "metadata": {"name": "n3", "labels": {HOSTNAME: None}}}
    nodes = await created(cluster, NODE, body, other, without)
    assert [node.metadata.labels for node in nodes] == [{HOSTNAME: "n1"}, {HOSTNAME: "n1"}, {}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("No", 'metadata.name: Invalid value: "No"'),
        (f"{'n' * 60}.{'n' * 60}", r"metadata.labels\[kubernetes.io/hostname\]: Invalid value"),
        (7, "metadata.name: Required value"),
    ],
)
async def test_the_like_of_a_valid_node_still_needs_a_valid_name(cluster: MemoryCluster, name: Any, text: str) -> None:
    await created(cluster, NODE, node_manifest("n1"))
    with pytest.raises(Invalid, match=text):
        await cluster.create(NODE, node_manifest(name))


async def test_the_like_of_a_pod_is_not_created_twice(cluster: MemoryCluster) -> None:
    await created(cluster, POD, pod_manifest("a"), pod_manifest("b"))
    with pytest.raises(AlreadyExists, match=r'^pods "b" already exists$'):
        await cluster.create(POD, pod_manifest("b"))


async def test_a_namespace_that_was_deleted_is_made_again_for_the_like_of_a_pod(cluster: MemoryCluster) -> None:
    await created(cluster, POD, pod_manifest("a", namespace="team"))
    await cluster.delete(Ref(NAMESPACE, "", "team"))
    (pod,) = await created(cluster, POD, pod_manifest("b", namespace="team"))
    namespace = await cluster.get(Ref(NAMESPACE, "", "team"))
    assert int(namespace.metadata.resource_version) < int(pod.metadata.resource_version)


async def test_a_new_default_class_is_for_the_like_of_a_pod_too(cluster: MemoryCluster) -> None:
    await created(cluster, POD, pod_manifest("a"))
    await cluster.create(PRIORITY_CLASS, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    pods = await created(cluster, POD, pod_manifest("b"), pod_manifest("c"))
    assert [pod.spec.priority for pod in pods] == [7, 7]


async def test_changing_one_object_leaves_its_the_others_of_its_template_alone(cluster: MemoryCluster) -> None:
    await created(cluster, NODE, node_manifest("n1"), node_manifest("n2"))
    await cluster.patch(Ref(NODE, "", "n1"), Patch({"metadata": {"labels": {"zone": "z"}}, "spec": {"unschedulable": True}}))
    await cluster.patch(Ref(NODE, "", "n1"), Patch({"status": {"allocatable": {"cpu": "1"}}}, subresource="status"))
    (third,) = await created(cluster, NODE, node_manifest("n3"))
    for name in ("n2", "n3"):
        node = await cluster.get(Ref(NODE, "", name))
        assert isinstance(node, Node)
        assert (node.metadata.labels, node.spec.unschedulable, node.status.allocatable) == ({HOSTNAME: name}, False, {"cpu": "4"})
    assert third.metadata.generation == 1


async def test_pods_bound_at_different_seconds_say_so(cluster: MemoryCluster) -> None:
    for seconds, name in ((0, "a"), (0, "b"), (3, "c")):
        await asyncio.sleep(seconds)
        (pod,) = await created(cluster, POD, pod_manifest(name))
        await cluster.bind(Binding("default", name, pod.metadata.uid, f"on-{name}"))
    pods = [pod for pod in (await cluster.list(POD)).items if isinstance(pod, Pod)]
    assert [(pod.spec.node_name, pod.status.conditions[0].last_transition_time) for pod in pods] == [
        ("on-a", "2026-01-01T00:00:00Z"),
        ("on-b", "2026-01-01T00:00:00Z"),
        ("on-c", "2026-01-01T00:00:03Z"),
    ]
    assert [raw["spec"]["nodeName"] for raw in cluster.raws(POD)] == ["on-a", "on-b", "on-c"]
