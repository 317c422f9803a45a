"""A Reservation takes over pods, and its scheduler dies, or a request fails, at any step: nothing is sold twice, and nothing is left behind
(reservation.md §13, D11, D16)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from koordsched.api.kinds import NODE, POD, RESERVATION
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED, allocated_reservation
from koordsched.cluster.memory import Fault
from koordsched.cluster.memory.faults import Moment
from koordsched.cluster.port import Forbidden, OutcomeUnknown, Patch, PatchType, Ref
from koordsched.config.flags import parse_flags
from koordsched.config.loading import load_config_text
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: koord-scheduler
  plugins: {multiPoint: {enabled: [{name: Reservation}, {name: DefaultPreBind}]}}
"""
LATENCY = 0.5  # seconds that each write takes, so that a process can die between any two
KILLS = [round(0.13 + 0.25 * i, 2) for i in range(20)]
REQUIRED = {"scheduling.koordinator.sh/pre-allocation-required": "true"}


def node(name: str, cpu: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": cpu, "memory": "20Gi", "pods": "110"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name}, "status": status}


def pod(name: str, on: str, cpu: str, **labels: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "koord-scheduler", "nodeName": on, "containers": [container]}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec, "status": {"phase": "Running"}}


def reservation(name: str, cpu: str, *, multiple: bool, owner: str = "x") -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    spec = {
        "preAllocation": True,
        "preAllocationPolicy": {"enableMultiple": multiple},
        "allocateOnce": False,
        "allocatePolicy": "Restricted",
        "owners": [{"labelSelector": {"matchLabels": {"app": owner}}}],
        "template": {"spec": {"schedulerName": "koord-scheduler", "containers": [container]}},
    }
    return {"metadata": {"name": name, "labels": REQUIRED}, "spec": spec}


async def fill(cluster: EmbeddedCluster) -> None:
    for each in (node("a", "10"), node("b", "6")):
        await cluster.create(NODE, each)
    for each in (
        pod("filler", "a", "4"),
        pod("p1", "a", "3", app="x"),
        pod("p2", "a", "3", app="x"),
        pod("q1", "b", "3", app="x"),
        pod("q2", "b", "3", app="x"),
    ):
        await cluster.create(POD, each)


def run(script: Callable[[EmbeddedCluster], Awaitable[None]], seed: int = 0) -> None:
    run_embedded(EmbeddedOptions(config=load_config_text(CONFIG), flags=parse_flags([]), seed=seed), script)


async def assert_sound(cluster: EmbeddedCluster, *names: str) -> None:
    """Nothing is sold twice, every Reservation has what says that it is its, and the cache is what the cluster says."""
    stored = {name: found for name in names if (found := await cluster.get(Ref(RESERVATION, "", name))) is not None}
    by_uid = {found["metadata"]["uid"]: found for found in stored.values()}
    used: dict[str, int] = {"a": 0, "b": 0}
    taken = dict.fromkeys(by_uid, 0)
    owners: dict[str, set[str]] = {uid: set() for uid in by_uid}
    for each in await cluster.list(POD):
        cpu = int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        on = each["spec"].get("nodeName")
        if not on:
            continue
        used[on] += cpu
        uid = allocated_reservation(each["metadata"].get("annotations") or {})
        if uid:
            assert uid in by_uid, f"{each['metadata']['name']} says that it has part of {uid}, which is not there"
            assert by_uid[uid]["status"]["nodeName"] == on
            taken[uid] += cpu
            owners[uid].add(each["metadata"]["name"])
    for uid, found in by_uid.items():
        assert found["status"]["phase"] == "Available"
        held = int(found["status"]["allocatable"]["cpu"])
        assert taken[uid] <= held
        used[found["status"]["nodeName"]] += held - taken[uid]
        assert {owner["name"] for owner in found["status"]["currentOwners"]} == owners[uid]
    assert used["a"] <= 10
    assert used["b"] <= 6
    compared = await cluster.scheduler.debugger.compare()
    assert compared.ok, compared.report()


@pytest.mark.parametrize("multiple", [False, True])
@pytest.mark.parametrize("after", KILLS)
def test_a_scheduler_that_dies_on_the_way_sells_nothing_twice_and_leaves_nothing(after: float, multiple: bool) -> None:
    async def script(cluster: EmbeddedCluster) -> None:
        await fill(cluster)
        cluster.cluster.faults.rules += [
            Fault(verb="patch", kind=POD, delay=LATENCY),
            Fault(verb="get", kind=POD, delay=LATENCY),
            Fault(verb="patch status", kind=RESERVATION, delay=LATENCY),
        ]
        await cluster.start()
        await cluster.create(RESERVATION, reservation("r", "6" if multiple else "3", multiple=multiple))
        await cluster.sleep(after)
        await cluster.restart()
        await cluster.sleep(30.0)
        await assert_sound(cluster, "r")

    run(script)


@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_request_that_fails_on_the_way_leaves_no_links_behind(nth: int, moment: Moment) -> None:
    """D16: the attempt fails at one of its two pods, in a way that repeating it does not help; it is undone, and the next one succeeds."""
    lost = moment is Moment.AFTER

    async def script(cluster: EmbeddedCluster) -> None:
        await fill(cluster)
        error = OutcomeUnknown if lost else Forbidden
        fault = Fault(verb="patch", kind=POD, nth=(nth,), error=lambda: error("no"), moment=moment)
        cluster.cluster.faults.rules.append(fault)
        await cluster.start()
        await cluster.create(RESERVATION, reservation("r", "6", multiple=True))
        await cluster.sleep(30.0)
        assert fault.applied == 1
        await assert_sound(cluster, "r")

    run(script)


def test_pods_are_as_they_were_once_their_reservation_could_not_be_given_its_node() -> None:
    """D16: both pods were written, and then the status is refused."""

    async def script(cluster: EmbeddedCluster) -> None:
        await fill(cluster)
        await cluster.start()
        refused = {"times": 0}

        def refuse() -> Forbidden:
            refused["times"] += 1
            return Forbidden("no")

        cluster.cluster.faults.rules.append(Fault(verb="patch status", kind=RESERVATION, nth=range(1, 3), error=refuse))
        await cluster.create(RESERVATION, reservation("r", "6", multiple=True))
        await cluster.sleep(0.5)
        assert refused["times"] >= 1
        linked = [each for each in await cluster.list(POD) if RESERVATION_ALLOCATED in (each["metadata"].get("annotations") or {})]
        assert linked == []
        await cluster.sleep(60.0)
        await assert_sound(cluster, "r")

    run(script)


@pytest.mark.parametrize("after", [0.2, 0.7, 1.2, 1.7, 2.2])
def test_a_reservation_that_is_deleted_on_the_way_leaves_nothing(after: float) -> None:
    """D11: whatever was written and assumed is taken back."""

    async def script(cluster: EmbeddedCluster) -> None:
        await fill(cluster)
        rules = [Fault(verb="patch", kind=POD, delay=LATENCY), Fault(verb="patch status", kind=RESERVATION, delay=LATENCY)]
        cluster.cluster.faults.rules += rules
        await cluster.start()
        await cluster.create(RESERVATION, reservation("r", "6", multiple=True))
        await cluster.sleep(after)
        uid = cluster.cluster.raw(Ref(RESERVATION, "", "r"))["metadata"]["uid"]
        was_bound = "nodeName" in cluster.cluster.raw(Ref(RESERVATION, "", "r")).get("status", {})
        await cluster.delete(Ref(RESERVATION, "", "r"))
        await cluster.sleep(30.0)
        assert cluster.scheduler.cache.pods.get(uid) is None
        links = [allocated_reservation(each["metadata"].get("annotations") or {}) for each in await cluster.list(POD)]
        assert was_bound or uid not in links
        assert (await cluster.scheduler.debugger.compare()).ok
        await cluster.create(RESERVATION, reservation("again", "6", multiple=True))
        await cluster.sleep(30.0)
        if not was_bound:
            await assert_sound(cluster, "again")

    run(script)


@pytest.mark.parametrize("after", KILLS)
def test_a_pod_that_goes_on_the_way_leaves_its_part_to_the_reservation(after: float) -> None:
    async def script(cluster: EmbeddedCluster) -> None:
        await fill(cluster)
        cluster.cluster.faults.rules.append(Fault(delay=0.2))
        await cluster.start()
        await cluster.create(RESERVATION, reservation("r", "6", multiple=True))
        await cluster.sleep(after)
        await cluster.delete(Ref(POD, "default", "p1"))
        await cluster.sleep(60.0)
        await assert_sound(cluster, "r")

    run(script)


def test_links_to_pods_of_several_nodes_are_put_right_before_the_reservation_is_available() -> None:
    """A scheduler that died on another node, and one that died with other pods, have left links: those that are not chosen lose them."""

    async def script(cluster: EmbeddedCluster) -> None:
        await fill(cluster)
        await cluster.create(RESERVATION, reservation("r", "6", multiple=True))
        uid = cluster.cluster.raw(Ref(RESERVATION, "", "r"))["metadata"]["uid"]
        for name in ("filler", "p1", "q1"):
            text = f'{{"name": "r", "uid": "{uid}"}}'
            body = {"metadata": {"annotations": {RESERVATION_ALLOCATED: text}}}
            await cluster.cluster.patch(Ref(POD, "default", name), Patch(body, PatchType.STRATEGIC))
        seen: list[set[str]] = []

        def links() -> set[str]:
            found = cluster.cluster.raws(POD)
            return {each["metadata"]["name"] for each in found if allocated_reservation(each["metadata"].get("annotations") or {}) == uid}

        await cluster.start()
        for _ in range(3000):
            await cluster.sleep(0.001)
            if cluster.cluster.raw(Ref(RESERVATION, "", "r")).get("status", {}).get("nodeName"):
                seen.append(links())
                break
        await cluster.sleep(10.0)
        assert seen == [links()]
        assert links() in ({"p1", "p2"}, {"q1", "q2"})
        await assert_sound(cluster, "r")

    run(script)
