"""Whatever is sent to the embedded cluster is taken or refused with a reason: never a traceback, never half a write."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.manifests import pod_manifest
from support.virtual_loop import run_virtual

from koordsched.api.kinds import CONFIG_MAP, NAMESPACE, NODE, POD, PRIORITY_CLASS, RESERVATION, Kind
from koordsched.cluster.memory import MemoryCluster
from koordsched.cluster.port import ClusterError, Invalid, Patch, PatchType, Ref

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock

KINDS = [POD, NODE, NAMESPACE, CONFIG_MAP, PRIORITY_CLASS, RESERVATION]
FIELDS = [
    "apiVersion",
    "kind",
    "metadata",
    "name",
    "namespace",
    "generateName",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "uid",
    "resourceVersion",
    "deletionTimestamp",
    "spec",
    "nodeName",
    "containers",
    "initContainers",
    "resources",
    "requests",
    "limits",
    "priorityClassName",
    "priority",
    "schedulingGates",
    "status",
    "phase",
    "conditions",
    "type",
    "value",
    "globalDefault",
    "$patch",
    "$setElementOrder/conditions",
    "$deleteFromPrimitiveList/finalizers",
    "data",
]
WORDS = st.sampled_from(["", "p", "v1", "Pod", "PodScheduled", "koord-prod", "replace", "delete", "cpu", "1", "x" * 300, "Ü"])
SCALARS = st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | WORDS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | WORDS, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5)


async def unchanged_when_refused(cluster: MemoryCluster, request: Any) -> None:
    before, refusal = cluster.resource_version, None
    try:
        await request
    except ClusterError as error:
        refusal = error
    assert refusal is None or (refusal.message and cluster.resource_version == before)


@given(st.sampled_from(KINDS), OBJECTS, st.booleans())
def test_a_creation_is_taken_or_refused(kind: Kind, body: dict[str, Any], named: bool) -> None:
    async def create(clock: VirtualClock) -> None:
        cluster = MemoryCluster(clock, random=Random(1))
        given_body = {"metadata": {"name": "p"}, **body} if named else body
        await unchanged_when_refused(cluster, cluster.create(kind, given_body))
        await cluster.list(kind)

    run_virtual(create)


@given(st.sampled_from(KINDS), st.lists(OBJECTS, max_size=3), st.sampled_from(PatchType), st.sampled_from(["", "status"]))
@settings(max_examples=200)
def test_a_patch_is_taken_or_refused(kind: Kind, bodies: list[dict[str, Any]], patch_type: PatchType, subresource: str) -> None:
    async def patch(clock: VirtualClock) -> None:
        cluster = MemoryCluster(clock, random=Random(1))
        created = await cluster.create(kind, pod_manifest() if kind == POD else {"metadata": {"name": "p"}})
        ref = Ref(kind, created.metadata.namespace, "p")
        for body in bodies:
            await unchanged_when_refused(cluster, cluster.patch(ref, Patch(body, patch_type, subresource)))
        await unchanged_when_refused(cluster, cluster.delete(ref))
        await cluster.list(kind)

    run_virtual(patch)


@given(st.sampled_from(KINDS), st.lists(OBJECTS, max_size=3))
def test_an_update_is_taken_or_refused(kind: Kind, bodies: list[dict[str, Any]]) -> None:
    async def update(clock: VirtualClock) -> None:
        cluster = MemoryCluster(clock, random=Random(1))
        created = await cluster.create(kind, pod_manifest() if kind == POD else {"metadata": {"name": "p"}})
        ref = Ref(kind, created.metadata.namespace, "p")
        for body in bodies:
            await unchanged_when_refused(cluster, cluster.update(ref, body))
        await unchanged_when_refused(cluster, cluster.delete(ref))
        await cluster.list(kind)

    run_virtual(update)


def test_nesting_without_end_is_refused() -> None:
    async def create(clock: VirtualClock) -> None:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        cluster = MemoryCluster(clock, random=Random(1))
        with pytest.raises(Invalid, match="not JSON"):
            await cluster.create(CONFIG_MAP, {"metadata": {"name": "c"}, "data": deep})

    run_virtual(create)
