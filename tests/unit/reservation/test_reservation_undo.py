"""What is undone of a reservation whose owner, or which itself, was not bound after all (reservation.md §5, checklist 23 and 36)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from koordsched.api.kinds import NODE, POD, RESERVATION
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Conflict, Forbidden, Ref
from koordsched.config.flags import parse_flags
from koordsched.config.loading import load_config_text
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.plugins.defaultprebind.plugin import DefaultPreBind
from koordsched.plugins.reservation.state import ReservationState

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: koord-scheduler
  plugins: {multiPoint: {enabled: [{name: Reservation}, {name: DefaultPreBind}]}}
"""


def run(script: Callable[[EmbeddedCluster], Awaitable[None]]) -> None:
    run_embedded(EmbeddedOptions(config=load_config_text(CONFIG), flags=parse_flags([]), seed=0), script)


async def fill(cluster: EmbeddedCluster) -> None:
    status = {"allocatable": {"cpu": "10", "memory": "20Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.create(NODE, {"metadata": {"name": "a"}, "status": status})


async def reserve(cluster: EmbeddedCluster) -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    spec = {
        "allocateOnce": False,
        "allocatePolicy": "Restricted",
        "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
        "template": {"spec": {"schedulerName": "koord-scheduler", "containers": [container]}},
    }
    await cluster.create(RESERVATION, {"metadata": {"name": "r"}, "spec": spec})


async def ask(cluster: EmbeddedCluster) -> None:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "3"}}}
    spec = {"schedulerName": "koord-scheduler", "containers": [container]}
    await cluster.create(POD, {"metadata": {"name": "owner", "namespace": "default", "labels": {"app": "x"}}, "spec": spec})


def state_of(cluster: EmbeddedCluster) -> ReservationState:
    found = cluster.scheduler.cache.shared.find(ReservationState)
    assert found is not None
    return found


async def annotations_of(cluster: EmbeddedCluster) -> dict[str, Any]:
    found = await cluster.get(Ref(POD, "default", "owner"))
    assert found is not None
    return dict(found["metadata"].get("annotations") or {})


@pytest.mark.parametrize("busy", [0, 2])
def test_the_link_is_taken_off_a_pod_that_could_not_be_bound(monkeypatch: pytest.MonkeyPatch, busy: int) -> None:
    """The pod is refused once; its link, where it was written before the binding, goes, also if that takes several requests, and with the
    next attempt it is there again."""
    monkeypatch.setattr(DefaultPreBind, "leaves_to_binding", False)

    async def script(cluster: EmbeddedCluster) -> None:
        await fill(cluster)
        await cluster.start()
        await reserve(cluster)
        await cluster.sleep(3.0)
        refused = Fault(verb="bind", kind=POD, times=1, error=lambda: Forbidden("no"))
        cluster.cluster.faults.rules.append(refused)
        if busy:
            nth = tuple(range(2, 2 + busy))  # the first one wrote the link
            cluster.cluster.faults.rules.append(Fault(verb="patch", kind=POD, nth=nth, error=lambda: Conflict("busy")))
        await ask(cluster)
        await cluster.sleep(0.9)
        assert refused.applied == 1
        assert RESERVATION_ALLOCATED not in await annotations_of(cluster)
        (info,) = state_of(cluster).on_node("a")
        assert (info.owners, info.allocated) == ({}, {})
        await cluster.sleep(20.0)
        assert RESERVATION_ALLOCATED in await annotations_of(cluster)
        assert info.allocated == {"cpu": 3000}
        compared = await cluster.scheduler.debugger.compare()
        assert compared.ok, compared.report()

    run(script)


def test_nothing_is_left_of_a_reservation_that_is_deleted_while_its_status_is_written() -> None:
    async def script(cluster: EmbeddedCluster) -> None:
        await fill(cluster)
        cluster.cluster.faults.rules.append(Fault(verb="patch status", kind=RESERVATION, delay=2.0))
        await cluster.start()
        await reserve(cluster)
        await cluster.sleep(0.5)
        await cluster.delete(Ref(RESERVATION, "", "r"))
        await cluster.sleep(10.0)
        cache = cluster.scheduler.cache
        assert (list(state_of(cluster).on_node("a")), cache.pods, cache.assumed_count) == ([], {}, 0)
        compared = await cluster.scheduler.debugger.compare()
        assert compared.ok, compared.report()

    run(script)
