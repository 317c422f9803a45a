"""Faults: to which requests they apply, at which moment, and what the cluster has done by then."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest
from support.manifests import pod_manifest

from koordsched.api.core import Pod
from koordsched.api.kinds import CONFIG_MAP, DEVICE, NODE, POD
from koordsched.cluster.memory import Fault, Faults, MemoryCluster, Moment
from koordsched.cluster.port import Binding, Conflict, Gone, OutcomeUnknown, Patch, Ref, ServerError, TooManyRequests

if TYPE_CHECKING:
    from koordsched.clock import VirtualClock


def broken() -> ServerError:
    return ServerError("etcdserver: request timed out")


def cluster_with(clock: VirtualClock, *rules: Fault, seed: int = 1) -> MemoryCluster:
    return MemoryCluster(clock, random=Random(seed), faults=Faults(rules=list(rules)))


async def outcomes(cluster: MemoryCluster, count: int) -> str:
    """List the pods so many times; write each answer as a letter."""
    letters = ""
    for _ in range(count):
        try:
            await cluster.list(POD)
            letters += "."
        except ServerError:
            letters += "x"
    return letters


async def test_a_fault_hits_its_verb_and_kind_only(clock: VirtualClock) -> None:
    cluster = cluster_with(clock, Fault(verb="list", kind=POD, error=broken))
    await cluster.list(NODE)
    await cluster.create(POD, pod_manifest())
    with pytest.raises(ServerError, match="etcdserver: request timed out"):
        await cluster.list(POD)


async def test_a_fault_hits_the_nth_request(clock: VirtualClock) -> None:
    assert await outcomes(cluster_with(clock, Fault(verb="list", nth=(2, 4), error=broken)), 5) == ".x.x."


async def test_a_fault_hits_so_many_times(clock: VirtualClock) -> None:
    assert await outcomes(cluster_with(clock, Fault(times=2, error=broken)), 4) == "xx.."


async def test_a_probability_is_drawn_from_the_seed(clock: VirtualClock) -> None:
    first, again, other = [await outcomes(cluster_with(clock, Fault(probability=0.5, error=broken), seed=seed), 40) for seed in (1, 1, 2)]
    assert first == again != other
    assert 10 <= first.count("x") <= 30


async def test_a_request_that_fails_before_does_nothing(clock: VirtualClock) -> None:
    cluster = cluster_with(clock, Fault(verb="create", nth=(1,), error=lambda: TooManyRequests("slow down", retry_after=7)))
    before = cluster.resource_version
    with pytest.raises(TooManyRequests) as caught:
        await cluster.create(DEVICE, {"metadata": {"name": "d"}})
    assert caught.value.retry_after == 7
    assert cluster.resource_version == before


async def test_a_bind_whose_answer_is_lost_has_bound(clock: VirtualClock) -> None:
    lost = Fault(verb="bind", moment=Moment.AFTER, error=lambda: OutcomeUnknown("connection reset"))
    cluster = cluster_with(clock, lost)
    await cluster.create(POD, pod_manifest())
    with pytest.raises(OutcomeUnknown):
        await cluster.bind(Binding("default", "p", "", "n1"))
    pod = await cluster.get(Ref(POD, "default", "p"))
    assert isinstance(pod, Pod)
    assert pod.spec.node_name == "n1"


async def test_a_request_that_would_fail_anyway_fails_for_its_own_reason(clock: VirtualClock) -> None:
    cluster = cluster_with(clock, Fault(verb="bind", moment=Moment.AFTER, error=lambda: OutcomeUnknown("connection reset")))
    await cluster.create(POD, pod_manifest(nodeName="n0"))
    with pytest.raises(Conflict, match="already assigned"):
        await cluster.bind(Binding("default", "p", "", "n1"))


async def test_a_delay_takes_virtual_time(clock: VirtualClock) -> None:
    cluster = cluster_with(clock, Fault(verb="bind", delay=2.5))
    await cluster.create(POD, pod_manifest())
    begun = clock.now()
    await cluster.bind(Binding("default", "p", "", "n1"))
    assert clock.now() - begun == 2.5


async def test_while_one_bind_is_late_others_go_on(clock: VirtualClock) -> None:
    cluster = cluster_with(clock, Fault(verb="bind", nth=(1,), delay=5))
    for name in ("slow", "quick"):
        await cluster.create(POD, pod_manifest(name))
    slow = asyncio.create_task(cluster.bind(Binding("default", "slow", "", "n1")))
    await asyncio.sleep(0)
    await cluster.bind(Binding("default", "quick", "", "n1"))
    assert not slow.done()
    await slow


async def test_status_patches_are_a_verb_of_their_own(clock: VirtualClock) -> None:
    cluster = cluster_with(clock, Fault(verb="patch status", error=broken))
    await cluster.create(DEVICE, {"metadata": {"name": "d"}})
    ref = Ref(DEVICE, "", "d")
    await cluster.patch(ref, Patch({"metadata": {"labels": {"a": "1"}}}))
    with pytest.raises(ServerError):
        await cluster.patch(ref, Patch({"status": {"x": 1}}, subresource="status"))


async def test_every_request_is_counted(clock: VirtualClock) -> None:
    cluster = cluster_with(clock, Fault(verb="list", nth=(1,), error=broken))
    await outcomes(cluster, 2)
    await cluster.create(POD, pod_manifest())
    assert dict(cluster.calls) == {("list", POD): 2, ("create", POD): 1}


async def test_watches_are_cut_every_so_many_seconds(clock: VirtualClock) -> None:
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(cut_watches_every=7))
    begun = clock.now()
    async for _ in cluster.watch(DEVICE, resource_version=cluster.resource_version):
        pass
    assert clock.now() - begun == 7


async def test_history_is_lost_every_so_many_seconds(clock: VirtualClock) -> None:
    cluster = MemoryCluster(clock, random=Random(1), faults=Faults(compact_every=60, cut_watches_every=1))
    version = cluster.resource_version
    await cluster.create(CONFIG_MAP, {"metadata": {"name": "c"}})
    await asyncio.sleep(59)
    assert [len(batch) async for batch in cluster.watch(CONFIG_MAP, resource_version=version)] == [1, 1]  # the change, the last bookmark
    with pytest.raises(Gone):
        [batch async for batch in cluster.watch(CONFIG_MAP, resource_version=version)]
