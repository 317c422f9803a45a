"""Replacing objects on the embedded cluster: versions, preconditions, and what stays the server's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from koordsched.api.core import Node
from koordsched.api.groups import Lease
from koordsched.api.kinds import CONFIG_MAP, LEASE, NODE
from koordsched.api.meta import Unstructured
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Conflict, Invalid, NotFound, Ref, ServerError

if TYPE_CHECKING:
    from koordsched.cluster.memory import MemoryCluster

NODE_REF = Ref(NODE, "", "n")
LEASE_REF = Ref(LEASE, "kube-system", "s")


async def create_node(cluster: MemoryCluster) -> Node:
    body = {"metadata": {"name": "n", "labels": {"a": "1"}}, "spec": {"unschedulable": True}, "status": {"allocatable": {"cpu": "4"}}}
    created = await cluster.create(NODE, body)
    assert isinstance(created, Node)
    return created


async def test_what_the_body_does_not_name_is_gone_but_the_status(cluster: MemoryCluster) -> None:
    old = await create_node(cluster)
    new = await cluster.update(NODE_REF, {"metadata": {"annotations": {"k": "v"}}, "status": {"allocatable": {"cpu": "9"}}})
    assert isinstance(new, Node)
    assert (new.metadata.labels, new.metadata.annotations, new.spec.unschedulable) == ({}, {"k": "v"}, False)
    assert new.status == old.status
    assert (new.metadata.uid, new.metadata.creation_timestamp) == (old.metadata.uid, old.metadata.creation_timestamp)
    assert int(new.metadata.resource_version) > int(old.metadata.resource_version)
    assert new.metadata.generation == 2
    assert await cluster.get(NODE_REF) == new


async def test_an_equal_body_makes_no_version(cluster: MemoryCluster) -> None:
    old = await create_node(cluster)
    body = {"spec": {"unschedulable": True}, "metadata": {"labels": {"a": "1"}, "name": "n", "uid": old.metadata.uid}}
    assert await cluster.update(NODE_REF, body) == old
    assert cluster.resource_version == old.metadata.resource_version


async def test_a_flag_is_not_a_number(cluster: MemoryCluster) -> None:
    await cluster.create(CONFIG_MAP, {"metadata": {"name": "c"}, "data": {"a": 1}})
    updated = await cluster.update(Ref(CONFIG_MAP, "default", "c"), {"data": {"a": True}})
    assert isinstance(updated, Unstructured)
    assert updated.raw["data"]["a"] is True
    assert updated.metadata.generation == 2


async def test_of_two_who_replace_the_same_version_the_second_gets_a_conflict(cluster: MemoryCluster) -> None:
    free = await cluster.create(LEASE, {"metadata": {"namespace": "kube-system", "name": "s"}})
    bodies = [{"metadata": {"resourceVersion": free.metadata.resource_version}, "spec": {"holderIdentity": name}} for name in ("a", "b")]
    await cluster.update(LEASE_REF, bodies[0])
    with pytest.raises(Conflict, match=r'^Operation cannot be fulfilled on leases.coordination.k8s.io "s": the object has been modified'):
        await cluster.update(LEASE_REF, bodies[1])
    lease = await cluster.get(LEASE_REF)
    assert isinstance(lease, Lease)
    assert lease.spec.holder_identity == "a"


async def test_an_object_that_was_made_anew_is_not_replaced(cluster: MemoryCluster) -> None:
    uid = (await create_node(cluster)).metadata.uid
    with pytest.raises(Conflict, match=f"UID in precondition: other, UID in object meta: {uid}"):
        await cluster.update(NODE_REF, {"metadata": {"uid": "other"}})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"metadata": {"name": "m"}}, r"the name of the object \(m\) does not match the name on the URL \(n\)"),
        ({"metadata": 5}, "metadata: Invalid value: 5: must be an object"),
        ([], "must be an object, not list"),
        ({"kind": "Pod"}, "the object is a v1 Pod, but it was sent to v1 nodes"),
        ({"spec": {"taints": [{"key": "", "effect": "NoSchedule"}]}}, r'^Node "n" is invalid: spec\.taints'),
    ],
)
async def test_a_body_that_makes_no_sense_changes_nothing(cluster: MemoryCluster, body: Any, text: str) -> None:
    old = await create_node(cluster)
    with pytest.raises(Invalid, match=text):
        await cluster.update(NODE_REF, body)
    assert await cluster.get(NODE_REF) == old


async def test_what_does_not_exist_cannot_be_replaced(cluster: MemoryCluster) -> None:
    with pytest.raises(NotFound, match=r'^leases.coordination.k8s.io "s" not found$'):
        await cluster.update(LEASE_REF, {})


async def test_a_terminating_object_goes_with_its_last_finalizer(cluster: MemoryCluster) -> None:
    await cluster.create(NODE, {"metadata": {"name": "n", "finalizers": ["x/y"]}})
    await cluster.delete(NODE_REF)
    await cluster.update(NODE_REF, {})
    with pytest.raises(NotFound):
        await cluster.get(NODE_REF)


async def test_updates_are_counted_and_struck_by_faults(cluster: MemoryCluster) -> None:
    await create_node(cluster)
    cluster.faults.rules.append(Fault(verb="update", times=1, error=lambda: ServerError("x")))
    with pytest.raises(ServerError):
        await cluster.update(NODE_REF, {"metadata": {"labels": {"b": "2"}}})
    await cluster.update(NODE_REF, {"metadata": {"labels": {"b": "2"}}})
    assert cluster.calls["update", NODE] == 2
