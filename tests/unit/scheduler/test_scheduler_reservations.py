"""Reservations in the scheduler: what stands for them in the queue as they come, change and are taken in again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.fakes import Late, config_with, embedded, factory, node_manifest, pod_manifest
from support.stages import metric

import koordsched.plugins
from koordsched.api.kinds import EVENT, NODE, POD, RESERVATION
from koordsched.cluster.port import Patch, PatchType, Ref
from koordsched.config import load_config_text
from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.framework.status import error

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Reservation}]}}}]
"""
MALFORMED = 'koord_scheduler_malformed_objects_total{kind="Reservation"}'


@asynccontextmanager
async def started(*cpus: str, damaged: bool = False, config: Any = None) -> AsyncIterator[EmbeddedCluster]:
    """Return a running scheduler with the plugin, on nodes with so many cores."""
    async with embedded(asyncio.get_running_loop(), config or load_config_text(CONFIG), damaged=damaged) as world:
        for number, cpu in enumerate(cpus, 1):
            await world.create(NODE, node_manifest(f"n{number}", cpu))
        await world.start()
        yield world


def manifest(name: str = "r", cpu: str = "9", **more: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    spec = {"template": template, "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}], "ttl": "24h"}
    return {"metadata": {"name": name}, "spec": {**spec, **more.pop("spec", {})}, **more}


async def patch(world: EmbeddedCluster, body: dict[str, Any], subresource: str = "") -> None:
    await world.cluster.patch(Ref(RESERVATION, "", "r"), Patch(body, PatchType.MERGE, subresource))
    await world.settle()


def events(world: EmbeddedCluster) -> list[tuple[str, str]]:
    return [(raw["reason"], raw["regarding"]["name"]) for raw in world.cluster.raws(EVENT)]


def conditions(world: EmbeddedCluster, name: str = "r") -> dict[str, tuple[str, str]]:
    """Return status and message of each condition by its type."""
    raws = world.cluster.raw(Ref(RESERVATION, "", name)).get("status", {}).get("conditions", [])
    return {raw["type"]: (raw["status"], raw.get("message", "")) for raw in raws}


async def test_a_reservation_that_is_taken_in_again_stays_one_pod_where_it_is() -> None:
    async with started("4") as world:
        for name, cpu in (("r", "9"), ("s", "1")):
            await world.create(RESERVATION, manifest(name, cpu))
        await world.settle()
        queue, informer = world.scheduler.queue, world.scheduler._informers.of(RESERVATION)
        before = [(info.key, info.place, info.attempts) for info in queue.pending()]
        assert len(before) == 1
        counted = {uid: state.node.name for uid, state in world.scheduler.cache.pods.items()}
        assert list(counted.values()) == ["n1"]
        for name in ("r", "s"):
            informer._objects.repeat(name)
        await world.settle()
        assert [info.key for info in queue.pending()] == [key for key, _, _ in before]
        assert {uid: state.node.name for uid, state in world.scheduler.cache.pods.items()} == counted
        assert set(world.scheduler._context.reserve_pods) == {f"default/{uid}" for uid in (before[0][0].split("/")[1], *counted)}
        queue.check_invariants()


async def test_one_that_cannot_be_scheduled_as_it_is_says_so_once_and_is_counted() -> None:
    """reservation.md D12."""
    async with started("4") as world:
        await world.create(RESERVATION, manifest(cpu="much"))
        await world.settle()
        problem = (
            'spec.containers[0].resources.requests[cpu]: "much" is not a quantity: '
            "expected a number with an optional suffix such as m, k, Ki, Mi, Gi or an exponent"
        )
        assert metric(world, MALFORMED) == 1
        assert conditions(world)["Scheduled"] == ("False", problem)
        assert events(world) == [("FailedScheduling", "r")]
        assert world.scheduler.queue.pending() == []
        await patch(world, {"metadata": {"labels": {"a": "b"}}})
        assert (metric(world, MALFORMED), events(world)) == (1, [("FailedScheduling", "r")])
        await patch(world, {"spec": manifest(cpu="1")["spec"]})
        assert conditions(world)["Scheduled"][0] == "True"


class OfReservations(Late):
    """Has something to do before Reservations are bound, and for pods too."""

    pre_binds_reservations = True


async def test_what_plugins_do_before_a_reservation_is_bound_is_timed_each_time_and_apart_from_pods(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """frameworkext.md §8: PreBindReservation is counted in every cycle, PreBind in one of ten."""
    late = OfReservations("L")
    monkeypatch.setitem(koordsched.plugins.REGISTRY, "L", factory(late))
    plugins = {"multiPoint": {"enabled": [{"name": "Reservation"}]}, "preBind": {"enabled": [{"name": "L"}]}}
    config = config_with({"L": "preBind"}, profiles=[{"schedulerName": "default-scheduler", "plugins": plugins}])
    async with started("8", config=config) as world:
        for number in range(6):
            await world.create(RESERVATION, manifest(f"r{number}", "1"))
            await world.settle()
            assert timed(world, "PreBindReservation") == number + 1
        assert timed(world, "PreBind") == 0
        late.pre_bind_answer = error("no")
        await world.create(RESERVATION, manifest("refused", "1"))
        await world.settle()
        assert timed(world, "PreBindReservation", "Error") == 1
        late.pre_bind_answer = None
        await world.create(POD, pod_manifest("p", "1"))
        await world.settle()
        assert timed(world, "PreBindReservation") == 6


def timed(world: EmbeddedCluster, point: str, status: str = "Success") -> float:
    """Return how many of the plugin's executions at an extension point are in the histogram."""
    labels = f'extension_point="{point}",plugin="L",status="{status}"'
    return metric(world, f"scheduler_plugin_execution_duration_seconds_count{{{labels}}}")


async def test_nothing_is_kept_of_one_that_could_not_be_scheduled_and_is_gone() -> None:
    async with started("4") as world:
        await world.create(RESERVATION, manifest(cpu="much"))
        await world.settle()
        await world.delete(Ref(RESERVATION, "", "r"))
        await world.settle()
        assert world.scheduler.status_writer._known == set()


async def test_one_that_is_not_counted_or_on_another_node_than_its_own_is_a_difference() -> None:
    async with started("4", "4", damaged=True) as world:
        await world.create(RESERVATION, manifest(cpu="1"))
        await world.settle()
        cache, debugger = world.scheduler.cache, world.scheduler.debugger
        [(uid, state)] = cache.pods.items()
        name, info = state.node.name, state.info
        assert (await debugger.compare_with_watch()).ok
        cache.remove_pod(uid)
        found = await debugger.compare_with_watch()
        assert found.missed_pods == (f"default/{uid} ({uid})",)
        assert [(each.node, each.column) for each in found.wrong_nodes] == [(name, "Reservation: reservation r is counted")]
        cache.set_pod(info, "n2" if name == "n1" else "n1")
        found = await debugger.compare_with_watch()
        assert {each.node for each in found.wrong_nodes} == {"n1", "n2"} - {name}
        assert "requested pods" in {each.column for each in found.wrong_nodes}
