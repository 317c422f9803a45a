"""Creating objects on the embedded cluster: what the server writes, fills in and refuses."""

from __future__ import annotations

import uuid
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from support.manifests import pod_manifest

from koordsched.api.core import Namespace, Pod
from koordsched.api.kinds import CONFIG_MAP, NAMESPACE, NODE, POD, PRIORITY_CLASS, RESERVATION, unstructured_kind
from koordsched.api.meta import Unstructured
from koordsched.cluster.memory import MemoryCluster
from koordsched.cluster.port import AlreadyExists, Forbidden, Invalid, NotFound, Ref

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock


async def create_pod(cluster: MemoryCluster, name: str = "p", status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    created = await cluster.create(POD, pod_manifest(name, status=status, **spec))
    assert isinstance(created, Pod)
    return created


async def test_a_new_object_gets_type_uid_version_generation_and_time(cluster: MemoryCluster, clock: VirtualClock) -> None:
    before = int(cluster.resource_version)
    pod = await create_pod(cluster)
    assert (pod.api_version, pod.kind) == ("v1", "Pod")
    assert pod.metadata.namespace == "default"
    assert pod.metadata.generation == 1
    assert pod.metadata.creation_timestamp == "2026-01-01T00:00:00Z"
    assert int(pod.metadata.resource_version) > before
    assert str(uuid.UUID(pod.metadata.uid)) == pod.metadata.uid


async def test_two_clusters_with_one_seed_hand_out_the_same_uids(clock: VirtualClock) -> None:
    first, second = (MemoryCluster(clock, random=Random(7)) for _ in range(2))
    other = MemoryCluster(clock, random=Random(8))
    uids = [(await create_pod(cluster)).metadata.uid for cluster in (first, second, other)]
    assert uids[0] == uids[1] != uids[2]
    assert (await create_pod(first, "q")).metadata.uid != uids[0]


async def test_versions_grow_over_all_kinds(cluster: MemoryCluster) -> None:
    versions = [
        int((await cluster.create(kind, {"metadata": {"name": "x"}})).metadata.resource_version) for kind in (NODE, CONFIG_MAP, RESERVATION)
    ]
    assert versions == sorted(set(versions))


async def test_what_only_the_server_writes_is_taken_from_no_client(cluster: MemoryCluster) -> None:
    metadata = {"name": "n", "uid": "mine", "resourceVersion": "99", "generation": 9, "deletionTimestamp": "2020-01-01T00:00:00Z"}
    node = await cluster.create(NODE, {"metadata": metadata})
    assert node.metadata.uid != "mine"
    assert node.metadata.resource_version == cluster.resource_version
    assert node.metadata.generation == 1
    assert node.metadata.deletion_timestamp is None


async def test_a_namespace_is_made_on_demand(cluster: MemoryCluster) -> None:
    await cluster.create(CONFIG_MAP, {"metadata": {"name": "c", "namespace": "team-a"}})
    namespace = await cluster.get(Ref(NAMESPACE, "", "team-a"))
    assert isinstance(namespace, Namespace)
    assert namespace.metadata.labels == {"kubernetes.io/metadata.name": "team-a"}


async def test_an_object_and_the_namespace_made_for_it_have_versions_of_their_own(cluster: MemoryCluster) -> None:
    created = await cluster.create(CONFIG_MAP, {"metadata": {"name": "c", "namespace": "team-a"}})
    namespace = await cluster.get(Ref(NAMESPACE, "", "team-a"))
    assert int(namespace.metadata.resource_version) < int(created.metadata.resource_version)
    assert created.metadata.resource_version == cluster.resource_version


async def test_a_cluster_scoped_object_has_no_namespace(cluster: MemoryCluster) -> None:
    node = await cluster.create(NODE, {"metadata": {"name": "n", "namespace": "default"}})
    assert node.metadata.namespace == ""


async def test_status_is_honoured(cluster: MemoryCluster) -> None:
    pod = await create_pod(cluster, status={"phase": "Succeeded", "nominatedNodeName": "n1"})
    assert (pod.status.phase, pod.status.nominated_node_name) == ("Succeeded", "n1")


async def test_an_unknown_kind_is_kept_whole(cluster: MemoryCluster) -> None:
    kind = unstructured_kind("example.com/v1", "Widget")
    created = await cluster.create(kind, {"metadata": {"name": "w"}, "spec": {"odd": [1, {"deep": True}]}})
    assert isinstance(created, Unstructured)
    assert created.raw["spec"] == {"odd": [1, {"deep": True}]}
    assert created.raw["metadata"]["namespace"] == "default"


async def test_an_existing_name_is_refused(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    with pytest.raises(AlreadyExists, match=r'^pods "p" already exists$'):
        await create_pod(cluster)


async def test_generate_name_gets_a_suffix(cluster: MemoryCluster) -> None:
    body = {"metadata": {"generateName": "web-"}}
    names = {(await cluster.create(CONFIG_MAP, body)).metadata.name for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_later_changes_of_the_callers_body_are_not_seen(cluster: MemoryCluster) -> None:
    body: dict[str, Any] = {"metadata": {"name": "c", "labels": {"a": "1"}}, "data": {"k": "v"}}
    await cluster.create(CONFIG_MAP, body)
    body["data"]["k"] = "changed"
    found = await cluster.get(Ref(CONFIG_MAP, "default", "c"))
    assert isinstance(found, Unstructured)
    assert found.raw["data"] == {"k": "v"}
    assert "uid" not in body["metadata"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "metadata.name: Required value"),
        ({"metadata": "x"}, "metadata: Invalid value: 'x': must be an object"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "p"}}, "the object is a v1 Node, but it was sent to v1 pods"),
        ({"metadata": {"name": "p"}, "spec": {"x": {1, 2}, "y": object()}}, "not JSON"),
    ],
)
async def test_a_malformed_body_is_refused(cluster: MemoryCluster, body: dict[str, Any], text: str) -> None:
    with pytest.raises(Invalid, match=text):
        await cluster.create(POD, body)


async def test_a_bad_quantity_is_refused_with_path_and_value(cluster: MemoryCluster) -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "four"}}}
    with pytest.raises(Invalid, match=r'^Pod "p" is invalid: spec\.containers\[0\]\.resources\.requests.*cpu.*: Invalid value: "four"'):
        await create_pod(cluster, containers=[container])
    with pytest.raises(NotFound, match=r'^pods "p" not found$'):
        await cluster.get(Ref(POD, "default", "p"))


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"name": "Not-A-Name"}, r'Pod "Not-A-Name" is invalid: metadata\.name: Invalid value: "Not-A-Name"'),
        ({"name": "q", "labels": {"bad key": "x"}}, r'Pod "q" is invalid: metadata\.labels: Invalid value: "bad key"'),
        ({"name": "q", "namespace": "Team"}, r'Pod "q" is invalid: metadata\.namespace: Invalid value: "Team"'),
    ],
)
async def test_a_pod_like_a_valid_one_still_has_to_be_valid_itself(cluster: MemoryCluster, metadata: dict[str, Any], text: str) -> None:
    manifest = pod_manifest("p")
    for name in ("p", "p2"):
        await cluster.create(POD, {**manifest, "metadata": {"name": name}})
    with pytest.raises(Invalid, match=text):
        await cluster.create(POD, {**manifest, "metadata": metadata})


async def test_a_spec_that_differs_from_a_valid_one_is_checked(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    with pytest.raises(Invalid, match=r"spec\.tolerations\[0\]"):
        await create_pod(cluster, "q", tolerations=[{"key": "a", "operator": "Sometimes"}])


async def test_a_pod_gets_the_defaults_that_scheduling_reads(cluster: MemoryCluster) -> None:
    pod = await create_pod(cluster)
    assert pod.spec.scheduler_name == "default-scheduler"
    assert pod.spec.priority == 0
    assert pod.spec.preemption_policy == "PreemptLowerPriority"
    assert pod.status.phase == "Pending"
    assert pod.status.conditions == ()


async def test_requests_default_to_limits(cluster: MemoryCluster) -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}
    pod = await create_pod(
        cluster,
        containers=[{"name": "main", "resources": resources}],
        initContainers=[{"name": "i", "resources": {"limits": {"memory": "1Gi"}}}],
    )
    assert pod.spec.containers[0].resources.requests == {"cpu": "1", "nvidia.com/gpu": "1"}
    assert pod.spec.init_containers[0].resources.requests == {"memory": "1Gi"}


async def test_pod_level_requests_default_to_limits_that_no_container_asks_for(cluster: MemoryCluster) -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    pod = await create_pod(cluster, containers=[container], resources={"limits": {"cpu": "4", "memory": "1Gi"}})
    assert pod.spec.resources is not None
    assert pod.spec.resources.requests == {"memory": "1Gi"}


@pytest.mark.parametrize(
    ("name", "priority"),
    [("koord-prod", 9000), ("koord-mid", 7000), ("koord-batch", 5000), ("koord-free", 3000), ("system-node-critical", 2000001000)],
)
async def test_priority_comes_from_a_class_that_always_exists(cluster: MemoryCluster, name: str, priority: int) -> None:
    assert (await create_pod(cluster, priorityClassName=name)).spec.priority == priority


async def test_a_class_of_the_user_gives_priority_and_policy(cluster: MemoryCluster) -> None:
    await cluster.create(PRIORITY_CLASS, {"metadata": {"name": "gold"}, "value": 77, "preemptionPolicy": "Never"})
    pod = await create_pod(cluster, priorityClassName="gold")
    assert (pod.spec.priority, pod.spec.preemption_policy) == (77, "Never")


async def test_the_global_default_class_serves_pods_without_class(cluster: MemoryCluster) -> None:
    await cluster.create(PRIORITY_CLASS, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True})
    pod = await create_pod(cluster)
    assert (pod.spec.priority_class_name, pod.spec.priority) == ("usual", 5)


async def test_a_given_priority_is_kept(cluster: MemoryCluster) -> None:
    assert (await create_pod(cluster, "p", priority=42)).spec.priority == 42
    assert (await create_pod(cluster, "q", priority=42, priorityClassName="of-another-cluster")).spec.priority == 42


async def test_an_unknown_class_is_refused(cluster: MemoryCluster) -> None:
    with pytest.raises(Forbidden, match=r'^pods "p" is forbidden: no PriorityClass with name gold was found$'):
        await create_pod(cluster, priorityClassName="gold")


async def test_a_pod_with_a_node_runs(cluster: MemoryCluster) -> None:
    pod = await create_pod(cluster, nodeName="n1")
    assert pod.status.phase == "Running"
    assert pod.status.start_time == "2026-01-01T00:00:00Z"
    assert [(condition.type, condition.status) for condition in pod.status.conditions] == [("PodScheduled", "True")]


async def test_a_gated_pod_says_so(cluster: MemoryCluster) -> None:
    pod = await create_pod(cluster, schedulingGates=[{"name": "wait"}])
    (condition,) = pod.status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "SchedulingGated")
    assert condition.message == "Scheduling is blocked due to non-empty scheduling gates"
