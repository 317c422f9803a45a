"""What the whole scheduler asks of the API server for pods with CPUs of their own, and shows of them (frameworkext.md §10 line 23)."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import msgspec
import pytest
from support.embedded import AnsweringCluster
from support.fakes import embedded, node_manifest, pod_manifest
from support.virtual_loop import run_virtual

from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY, POD
from koordsched.clock import VirtualClock
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import ClusterError, Forbidden, Ref, ServerError
from koordsched.config import load_config_object
from koordsched.plugins.defaultprebind.plugin import DefaultPreBind
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest

PLUGINS = {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": PLUGINS}],
}
LSR = {"koordinator.sh/qosClass": "LSR"}


async def begin(world: AnsweringCluster, *pods: tuple[str, dict[str, str]]) -> None:
    await world.create(NODE, node_manifest("n1", "8"))
    await world.create(NODE_RESOURCE_TOPOLOGY, topology_manifest("n1", CpuLayout.parse("1x1x4x2")))
    await world.start()
    for name, labels in pods:
        manifest = pod_manifest(name, "2")
        manifest["metadata"]["labels"] = labels
        await world.create(POD, manifest)
    await asyncio.sleep(5)


def writes(world: AnsweringCluster) -> dict[tuple[str, str], int]:
    """Return how often pods were written, by verb; their creation left out."""
    calls = {(verb, kind.plural): count for (verb, kind), count in world.cluster.calls.items() if kind is POD and count}
    return {call: count for call, count in calls.items() if call[0] not in {"list", "watch", "get", "create"}}


async def allocated(world: AnsweringCluster) -> dict[str, str]:
    body: Any = msgspec.json.decode((await world.http("/apis/v1/plugins/NodeNUMAResource/nodes/n1")).body)
    return {pod["name"]: pod["cpuset"] for pod in body["allocatedPods"]}


def test_a_pod_costs_one_binding_whether_or_not_it_gets_cpus_of_its_own() -> None:
    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG)) as world:
            await begin(world, ("lsr", LSR), ("plain", {}))
            assert writes(world) == {("bind", "pods"): 2}
            assert await allocated(world) == {"lsr": "0-1"}

    run_virtual(body)


@pytest.mark.parametrize(("leaves", "verb", "refusal"), [(True, "bind", Forbidden("no")), (False, "patch", ServerError("away"))])
def test_cpus_of_a_pod_whose_patch_or_binding_fails_are_free_again_until_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, verb: Literal["bind", "patch"], refusal: ClusterError, *, leaves: bool
) -> None:
    monkeypatch.setattr(DefaultPreBind, "leaves_to_binding", leaves)

    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG)) as world:
            world.cluster.faults.rules.append(Fault(verb=verb, kind=POD, error=lambda: refusal))
            await begin(world, ("lsr", LSR))
            await asyncio.sleep(0.5)  # attempts begin at whole seconds, and their tries take less than 0.4 s
            assert await allocated(world) == {}
            world.cluster.faults.rules.clear()
            await asyncio.sleep(15)
            assert world.cluster.raw(Ref(POD, "default", "lsr"))["spec"]["nodeName"] == "n1"
            assert await allocated(world) == {"lsr": "0-1"}

    run_virtual(body)
