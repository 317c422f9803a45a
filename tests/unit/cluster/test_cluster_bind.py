"""Binding pods on the embedded cluster: what it writes, and when it is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs
from support.manifests import pod_manifest

from koordsched.api.core import Pod
from koordsched.api.kinds import POD
from koordsched.cluster.port import Binding, Conflict, NotFound, Patch, PatchType, Ref

if TYPE_CHECKING:
    from koordsched.cluster.memory import MemoryCluster

REF = Ref(POD, "default", "p")


async def create_pod(cluster: MemoryCluster, **spec: Any) -> Binding:
    """Create a pod and return a binding of it to n1."""
    pod = await cluster.create(POD, pod_manifest(**spec))
    return Binding("default", "p", pod.metadata.uid, "n1")


async def get_pod(cluster: MemoryCluster) -> Pod:
    pod = await cluster.get(REF)
    assert isinstance(pod, Pod)
    return pod


async def test_a_bound_pod_has_a_node_is_scheduled_and_no_longer_nominated(cluster: MemoryCluster) -> None:
    binding = await create_pod(cluster)
    failed = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}], "nominatedNodeName": "n2"}
    await cluster.patch(REF, Patch({"status": failed}, PatchType.STRATEGIC, "status"))
    await cluster.bind(binding)
    pod = await get_pod(cluster)
    (condition,) = pod.status.conditions
    assert pod.spec.node_name == "n1"
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "True", "")
    assert condition.last_transition_time == "2026-01-01T00:00:00Z"
    assert pod.status.nominated_node_name == ""
    assert pod.status.phase == "Pending"  # there is no kubelet to start it
    assert pod.metadata.generation == 1


async def test_a_binding_without_uid_binds_whatever_has_the_name(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    await cluster.bind(Binding("default", "p", "", "n1"))
    assert (await get_pod(cluster)).spec.node_name == "n1"


@pytest.mark.parametrize("seen", [True, False], ids=["read before", "never read"])
async def test_a_binding_writes_its_annotations_beside_those_of_the_pod(cluster: MemoryCluster, seen: bool) -> None:
    binding = await create_pod(cluster)
    await cluster.patch(REF, Patch({"metadata": {"annotations": {"own": "1", "both": "2"}}}))
    if seen:
        await get_pod(cluster)
    await cluster.bind(structs.replace(binding, annotations={"both": "3", "new": "4"}))
    pod = await get_pod(cluster)
    assert pod.metadata.annotations == {"own": "1", "both": "3", "new": "4"}
    assert pod.spec.node_name == "n1"
    assert cluster.raw(REF)["metadata"]["annotations"] == {"own": "1", "both": "3", "new": "4"}


async def test_a_binding_that_is_refused_writes_no_annotations(cluster: MemoryCluster) -> None:
    binding = await create_pod(cluster, schedulingGates=[{"name": "wait"}])
    with pytest.raises(Conflict):
        await cluster.bind(structs.replace(binding, annotations={"new": "4"}))
    assert (await get_pod(cluster)).metadata.annotations == {}


async def test_a_pod_is_bound_once(cluster: MemoryCluster) -> None:
    binding = await create_pod(cluster)
    await cluster.bind(binding)
    with pytest.raises(Conflict, match=r'^Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"$'):
        await cluster.bind(binding)


async def test_a_recreated_pod_is_not_bound_by_an_old_binding(cluster: MemoryCluster) -> None:
    old = await create_pod(cluster)
    await cluster.delete(REF)
    await create_pod(cluster)
    with pytest.raises(Conflict, match="Precondition failed: UID in precondition"):
        await cluster.bind(old)


async def test_a_terminating_pod_is_not_bound(cluster: MemoryCluster) -> None:
    binding = await create_pod(cluster)
    await cluster.patch(REF, Patch({"metadata": {"finalizers": ["example.com/hold"]}}))
    await cluster.delete(REF)
    with pytest.raises(Conflict, match="pod p is being deleted, cannot be assigned to a host"):
        await cluster.bind(binding)


async def test_a_gated_pod_is_not_bound(cluster: MemoryCluster) -> None:
    binding = await create_pod(cluster, schedulingGates=[{"name": "wait"}])
    with pytest.raises(Conflict, match=r"pod p has non-empty .spec.schedulingGates"):
        await cluster.bind(binding)


async def test_a_pod_that_is_gone_is_not_found(cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound, match=r'^pods "p" not found$'):
        await cluster.bind(Binding("default", "p", "u", "n1"))


async def test_a_pod_whose_status_holds_nulls_is_bound_like_any_other(cluster: MemoryCluster) -> None:
    body = pod_manifest() | {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": None}], "containerStatuses": None}}
    pod = await cluster.create(POD, body)
    await cluster.bind(Binding("default", "p", pod.metadata.uid, "n1"))
    bound = await get_pod(cluster)
    assert bound.spec.node_name == "n1"
    assert [(condition.type, condition.reason) for condition in bound.status.conditions] == [("Ready", ""), ("PodScheduled", "")]
