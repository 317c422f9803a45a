"""ResizePod (frameworkext.md §4 item 8): what a reserve pod will really hold is counted from Reserve on, with the feature gate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.embedded import AnsweringCluster
from support.fakes import Late, config_with, embedded, factory, node_manifest

import koordsched.plugins
from koordsched.api.kinds import DEVICE, NODE, RESERVATION
from koordsched.api.podinfo import PodInfo
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import Invalid, Ref
from koordsched.config import default_config
from koordsched.config.flags import parse_flags
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import ResizePodPlugin
from koordsched.framework.status import Status, unschedulable
from koordsched.plugins.deviceshare.layouts import gpus

RATIO, MEMORY = "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-memory"
GIB = 1024**3
GATE = "--feature-gates=ResizePod=true"


@asynccontextmanager
async def cluster(*arguments: str, config: Any = None) -> AsyncIterator[AnsweringCluster]:
    async with embedded(asyncio.get_running_loop(), config or default_config(), flags=parse_flags(arguments)) as world:
        node = node_manifest("n1", "16")
        node["status"]["allocatable"] |= {RATIO: "200", MEMORY: "160Gi"}
        await world.create(NODE, node)
        await world.create(DEVICE, {"metadata": {"name": "n1"}, "spec": {"devices": gpus("2,80Gi")}})
        await world.start()
        yield world


async def reserve(world: AnsweringCluster, requests: Mapping[str, str]) -> None:
    """Create a Reservation."""
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": requests}}
    spec = {
        "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
        "ttl": "1h",
        "template": {"spec": {"schedulerName": next(iter(world.scheduler.profiles)), "containers": [container]}},
    }
    await world.create(RESERVATION, {"metadata": {"name": "r"}, "spec": spec})
    await world.settle()


def counted(world: AnsweringCluster) -> dict[str, int]:
    """Return what is counted of pods on the node."""
    return {name: amount for pod in world.scheduler.cache.pods.values() for name, amount in pod.info.resources.requests.items()}


@pytest.mark.parametrize(("arguments", "expected"), [((GATE,), {RATIO: 50, MEMORY: 40 * GIB}), ((), {RATIO: 50})])
async def test_half_a_card_is_counted_with_its_memory_before_the_reservation_is_available(
    arguments: tuple[str, ...], expected: dict[str, int]
) -> None:
    async with cluster(*arguments) as world:
        world.cluster.faults.rules.append(Fault(verb="patch status", kind=RESERVATION, times=1, delay=5.0))
        await reserve(world, {RATIO: "50"})
        assert world.cluster.raw(Ref(RESERVATION, "", "r")).get("status", {}).get("phase") != "Available"
        assert counted(world) == expected
        (pod,) = world.scheduler.cache.pods.values()
        assert pod.assumed
        await world.sleep(10)
        status = world.cluster.raw(Ref(RESERVATION, "", "r"))["status"]
        assert (status["phase"], MEMORY in status["allocatable"]) == ("Available", MEMORY in expected)
        assert counted(world).keys() == expected.keys()


async def test_what_is_counted_goes_when_the_reservation_does_not_get_its_node() -> None:
    async with cluster(GATE) as world:
        world.cluster.faults.rules.append(Fault(verb="patch status", kind=RESERVATION, times=1, error=lambda: Invalid("no")))
        await reserve(world, {RATIO: "50"})
        assert counted(world) == {}
        await world.sleep(30)
        assert counted(world)[MEMORY] == 40 * GIB, "the next attempt has it"


class Resizing(Late, ResizePodPlugin):
    """Lets reserve pods hold 3 CPUs, or refuses."""

    refusal: Status | None = None

    def resize_pod(self, state: CycleState, pod: PodInfo, node_name: str) -> Mapping[str, int] | Status | None:
        return self.refusal or {"cpu": 3000}


async def test_a_plugin_that_refuses_to_resize_undoes_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    resizing = Resizing("R")
    resizing.refusal = unschedulable("too large")
    monkeypatch.setitem(koordsched.plugins.REGISTRY, "R", factory(resizing))
    plugins = {"multiPoint": {"enabled": [{"name": "Reservation"}]}, "reserve": {"enabled": [{"name": "R"}]}}
    config = config_with({"R": "reserve"}, profiles=[{"schedulerName": "koord-scheduler", "plugins": plugins}])
    async with cluster(GATE, config=config) as world:
        await reserve(world, {"cpu": "1"})
        assert resizing.journal[:2] == ["reserve R", "unreserve R"]
        assert counted(world) == {}
        (condition,) = world.cluster.raw(Ref(RESERVATION, "", "r"))["status"]["conditions"]
        assert condition["message"] == "0/1 nodes are available: 1 too large."
        resizing.refusal = None
        await world.sleep(400)
        assert world.cluster.raw(Ref(RESERVATION, "", "r"))["status"]["phase"] == "Available"
        assert b'scheduler_plugin_execution_duration_seconds_count{extension_point="ResizePod",plugin="R"' in world.scheduler.metrics.text()
