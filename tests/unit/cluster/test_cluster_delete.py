"""Deleting objects on the embedded cluster: grace periods without a kubelet, finalizers, preconditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.manifests import pod_manifest

from koordsched.api.kinds import CONFIG_MAP, POD, RESERVATION
from koordsched.cluster.port import Conflict, NotFound, Patch, Ref

if TYPE_CHECKING:
    from koordsched.api.meta import Object
    from koordsched.clock import VirtualClock
    from koordsched.cluster.memory import MemoryCluster

POD_REF = Ref(POD, "default", "p")


async def create_pod(cluster: MemoryCluster, finalizers: tuple[str, ...] = (), **spec: Any) -> Object:
    manifest = pod_manifest(**spec)
    manifest["metadata"]["finalizers"] = finalizers
    return await cluster.create(POD, manifest)


async def exists(cluster: MemoryCluster, ref: Ref) -> bool:
    try:
        await cluster.get(ref)
    except NotFound:
        return False
    return True


@pytest.mark.parametrize(
    ("spec", "stays"),
    [
        ({}, False),
        ({"terminationGracePeriodSeconds": 30}, False),  # not bound: nothing to wind down
        ({"nodeName": "n"}, False),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 0}, False),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 30}, True),
    ],
)
async def test_a_bound_pod_with_a_grace_period_stays(cluster: MemoryCluster, spec: dict[str, Any], stays: bool) -> None:
    await create_pod(cluster, **spec)
    await cluster.delete(POD_REF)
    assert await exists(cluster, POD_REF) is stays


async def test_a_terminating_pod_shows_when_its_grace_ends(cluster: MemoryCluster, clock: VirtualClock) -> None:
    await create_pod(cluster, nodeName="n", terminationGracePeriodSeconds=30)
    await cluster.delete(POD_REF)
    pod = await cluster.get(POD_REF)
    assert pod.metadata.deletion_timestamp == "2026-01-01T00:00:30Z"
    assert pod.metadata.generation == 2


async def test_a_second_deletion_without_grace_removes_the_pod(cluster: MemoryCluster) -> None:
    await create_pod(cluster, nodeName="n", terminationGracePeriodSeconds=30)
    await cluster.delete(POD_REF)
    await cluster.delete(POD_REF, grace_period_seconds=0)
    assert not await exists(cluster, POD_REF)


async def test_a_repeated_deletion_only_shortens_the_grace(cluster: MemoryCluster) -> None:
    await create_pod(cluster, nodeName="n", terminationGracePeriodSeconds=30)
    await cluster.delete(POD_REF)
    before = cluster.resource_version
    await cluster.delete(POD_REF, grace_period_seconds=60)
    assert cluster.resource_version == before
    await cluster.delete(POD_REF, grace_period_seconds=10)
    assert (await cluster.get(POD_REF)).metadata.deletion_timestamp == "2026-01-01T00:00:10Z"


async def test_repeating_a_deletion_changes_nothing(cluster: MemoryCluster) -> None:
    await create_pod(cluster, ("example.com/hold",), nodeName="n", terminationGracePeriodSeconds=30)
    for grace in (30, 0):
        await cluster.delete(POD_REF, grace_period_seconds=grace)
        before = cluster.resource_version
        await cluster.delete(POD_REF, grace_period_seconds=grace)
        assert cluster.resource_version == before


async def test_the_requests_grace_wins_over_the_pods(cluster: MemoryCluster) -> None:
    await create_pod(cluster, nodeName="n")
    await cluster.delete(POD_REF, grace_period_seconds=5)
    assert (await cluster.get(POD_REF)).metadata.deletion_timestamp == "2026-01-01T00:00:05Z"


async def test_a_finished_pod_goes_at_once(cluster: MemoryCluster) -> None:
    await create_pod(cluster, nodeName="n", terminationGracePeriodSeconds=30)
    await cluster.patch(POD_REF, Patch({"status": {"phase": "Succeeded"}}, subresource="status"))
    await cluster.delete(POD_REF)
    assert not await exists(cluster, POD_REF)


async def test_finalizers_hold_an_object_until_they_are_patched_away(cluster: MemoryCluster) -> None:
    ref = Ref(RESERVATION, "", "r")
    await cluster.create(RESERVATION, {"metadata": {"name": "r", "finalizers": ["a", "b"]}})
    await cluster.delete(ref)
    assert (await cluster.get(ref)).metadata.deletion_timestamp == "2026-01-01T00:00:00Z"
    assert (await cluster.patch(ref, Patch({"metadata": {"finalizers": ["b"]}}))).metadata.finalizers == ("b",)
    await cluster.patch(ref, Patch({"metadata": {"finalizers": None}}))
    assert not await exists(cluster, ref)


async def test_a_pod_without_finalizers_still_waits_for_its_grace(cluster: MemoryCluster) -> None:
    await create_pod(cluster, ("a",), nodeName="n", terminationGracePeriodSeconds=30)
    await cluster.delete(POD_REF)
    await cluster.patch(POD_REF, Patch({"metadata": {"finalizers": None}}))
    assert await exists(cluster, POD_REF)
    await cluster.delete(POD_REF, grace_period_seconds=0)
    assert not await exists(cluster, POD_REF)


async def test_a_deletion_without_grace_waits_for_finalizers(cluster: MemoryCluster) -> None:
    await create_pod(cluster, ("a",), nodeName="n", terminationGracePeriodSeconds=30)
    await cluster.delete(POD_REF)
    await cluster.delete(POD_REF, grace_period_seconds=0)
    assert await exists(cluster, POD_REF)
    await cluster.patch(POD_REF, Patch({"metadata": {"finalizers": []}}))
    assert not await exists(cluster, POD_REF)


async def test_removing_a_finalizer_of_a_living_object_deletes_nothing(cluster: MemoryCluster) -> None:
    await create_pod(cluster, ("a",))
    await cluster.patch(POD_REF, Patch({"metadata": {"finalizers": None}}))
    assert await exists(cluster, POD_REF)


async def test_the_uid_protects_a_successor(cluster: MemoryCluster) -> None:
    old = await create_pod(cluster)
    await cluster.delete(POD_REF, uid=old.metadata.uid)
    await create_pod(cluster)
    with pytest.raises(Conflict, match=f"UID in precondition: {old.metadata.uid}"):
        await cluster.delete(POD_REF, uid=old.metadata.uid)
    assert await exists(cluster, POD_REF)


async def test_what_does_not_exist_cannot_be_deleted(cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound, match=r'^configmaps "c" not found$'):
        await cluster.delete(Ref(CONFIG_MAP, "default", "c"))
