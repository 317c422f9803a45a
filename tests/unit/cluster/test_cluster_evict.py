"""Evictions on the embedded cluster; tests/e2e/test_evictions.py says that an API server answers the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from koordsched.api.kinds import POD, POD_DISRUPTION_BUDGET
from koordsched.cluster.memory import Fault, Faults
from koordsched.cluster.port import Binding, Conflict, Forbidden, NotFound, OutcomeUnknown, Patch, Ref, ServerError, TooManyRequests

if TYPE_CHECKING:
    from koordsched.cluster.memory import MemoryCluster

P = Ref(POD, "default", "p")
BUDGET = Ref(POD_DISRUPTION_BUDGET, "default", "b")


async def create_pod(cluster: MemoryCluster, *, ready: bool = True, bound: bool = True) -> None:
    spec = {"containers": [{"name": "main"}], "terminationGracePeriodSeconds": 30}
    body = {"metadata": {"name": "p", "namespace": "default", "labels": {"app": "a"}}, "spec": spec}
    made = await cluster.create(POD, body)
    if bound:
        await cluster.bind(Binding("default", "p", made.metadata.uid, "n1"))
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        await cluster.patch(P, Patch({"status": {"phase": "Running", "conditions": conditions}}, subresource="status"))


async def create_budget(cluster: MemoryCluster, name: str = "b", **status: Any) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    await cluster.create(POD_DISRUPTION_BUDGET, {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status})


async def test_a_pod_is_deleted_with_its_own_grace_period_and_says_why(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    await cluster.evict(P)
    raw = cluster.raw(P)
    assert raw["metadata"]["deletionGracePeriodSeconds"] == 30
    [condition] = [each for each in raw["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "EvictionByEvictionAPI", "Eviction API: evicting")


async def test_the_grace_period_may_be_another(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    await cluster.evict(P, grace_period_seconds=0)
    with pytest.raises(NotFound, match=r'^pods "p" not found$'):
        await cluster.evict(P)


async def test_each_eviction_takes_one_off_the_budget_until_it_forbids(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    await create_budget(cluster, disruptionsAllowed=1, desiredHealthy=2, currentHealthy=2)
    await cluster.evict(P, grace_period_seconds=0)
    status = cluster.raw(BUDGET)["status"]
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (0, {"p": "2026-01-01T00:00:00Z"})
    await create_pod(cluster)
    before = cluster.raw(P)
    with pytest.raises(TooManyRequests) as refused:
        await cluster.evict(P)
    assert refused.value.message == (
        "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget b needs 2 healthy pods and has 2 currently"
    )
    assert cluster.raw(P) is before


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        ({"disruptionsAllowed": 1, "observedGeneration": 0}, TooManyRequests, "b is still being processed by the server"),
        ({"disruptionsAllowed": 0, "desiredHealthy": 1, "currentHealthy": 2}, TooManyRequests, "b does not allow evicting pods currently"),
        ({"disruptionsAllowed": -1}, Forbidden, "pdb disruptions allowed is negative"),
        ({"disruptionsAllowed": 1, "disruptedPods": {f"p{i}": "t" for i in range(2001)}}, Forbidden, "DisruptedPods map too big"),
    ],
)
async def test_a_budget_that_cannot_be_spent_says_why(cluster: MemoryCluster, status: Any, error: Any, message: str) -> None:
    await create_pod(cluster)
    await create_budget(cluster, **status)
    with pytest.raises(error, match=message):
        await cluster.evict(P)


async def test_two_budgets_are_one_too_many(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    for name in ("b", "c"):
        await create_budget(cluster, name, disruptionsAllowed=1)
    with pytest.raises(ServerError, match="more than one PodDisruptionBudget"):
        await cluster.evict(P)


async def test_a_pod_that_does_not_run_needs_no_budget(cluster: MemoryCluster) -> None:
    await create_budget(cluster, disruptionsAllowed=0)
    await create_pod(cluster, bound=False)
    await cluster.evict(P)
    with pytest.raises(NotFound):
        await cluster.get(P)


async def test_a_pod_that_is_not_ready_spends_nothing_where_enough_others_are(cluster: MemoryCluster) -> None:
    await create_pod(cluster, ready=False)
    await create_budget(cluster, disruptionsAllowed=0, desiredHealthy=1, currentHealthy=1)
    await cluster.evict(P)
    assert "disruptedPods" not in cluster.raw(BUDGET)["status"]


async def test_another_pod_of_the_name_is_left(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    before = cluster.raw(P)
    with pytest.raises(Conflict, match=r"the UID in the precondition \(other\) does not match the UID in record"):
        await cluster.evict(P, uid="other")
    assert cluster.raw(P) is before
    await cluster.evict(P, uid=before["metadata"]["uid"])
    assert "deletionTimestamp" in cluster.raw(P)["metadata"]


async def test_evictions_are_counted_and_can_fail(cluster: MemoryCluster) -> None:
    await create_pod(cluster)
    cluster.faults = Faults(rules=[Fault(verb="evict", nth=(1,), error=lambda: OutcomeUnknown("lost"))])
    with pytest.raises(OutcomeUnknown):
        await cluster.evict(P)
    await cluster.evict(P)
    assert cluster.calls["evict", POD] == 2
