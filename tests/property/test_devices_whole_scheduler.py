"""The whole scheduler with DeviceShare on the embedded cluster, through any sequence of changes.

No schedulable pod stays parked, no device is given twice by a recount from the annotations, though bindings and patches fail, and a
scheduler that starts again shows of every node what the one before it showed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from fractions import Fraction
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.device_recount import CORE, DEVICE_ALLOCATED, JOINT, MEMORY, RATIO, RDMA, WHOLE_GPUS, DeviceRecount, quantity
from support.embedded import AnsweringCluster
from support.fakes import embedded, node_manifest, pod_manifest
from support.parked import parked_but_schedulable
from support.stages import nodes_of_pods
from support.virtual_loop import run_virtual

from koordsched.api.kinds import DEVICE, NODE, POD
from koordsched.clock import VirtualClock
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import ClusterError, Ref, ServerError
from koordsched.config import load_config_object
from koordsched.plugins.deviceshare.layouts import device_manifest

LONGEST_BACKOFF = 12.0
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "DeviceShare"}]}}}],
}
ROOM = {"cpu": "64", WHOLE_GPUS: "9", CORE: "900", RATIO: "900", MEMORY: "900Gi", RDMA: "900"}
LAYOUTS: tuple[dict[str, str], ...] = ({"gpus": "1x2x2", "nics": "1x2x1,2"}, {"gpus": "2x1x2", "nics": "1"}, {"gpus": "3"}, {"nics": "2,1"})
HINT = "scheduling.koordinator.sh/device-allocate-hint"
ISOLATION, MODEL = "koordinator.sh/gpu-isolation-provider", "node.koordinator.sh/gpu-model"
POLICY = "node.koordinator.sh/gpu-partition-policy"
TABLE = "scheduling.koordinator.sh/gpu-partitions"
PODS: tuple[tuple[dict[str, str], dict[str, str], dict[str, str]], ...] = (  # requests, labels, annotations
    ({WHOLE_GPUS: "1"}, {}, {}),
    ({WHOLE_GPUS: "2"}, {}, {}),
    ({CORE: "50", RATIO: "50"}, {}, {}),
    ({RATIO: "40"}, {ISOLATION: "HAMi-core"}, {}),
    ({RDMA: "1"}, {}, {HINT: '{"rdma":{"vfSelector":{}}}'}),
    ({WHOLE_GPUS: "2", RDMA: "1"}, {}, {JOINT: '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'}),
    ({MEMORY: "30Gi"}, {}, {}),
    ({"cpu": "1"}, {}, {}),
)
PODS_CHANGE = ("add pod", "add pod", "add pod", "delete pod", "finish pod", "hint")
NODES_CHANGE = ("device", "no device", "ill", "policy", "partitions", "isolation", "resize")

Step = tuple[str, int, int]
numbers = st.integers(0, 7)
steps = st.tuples(st.sampled_from([*PODS_CHANGE, *NODES_CHANGE, "break", "wait"]), numbers, numbers)


class Story:
    """A world of two nodes to which things happen."""

    def __init__(self, world: AnsweringCluster) -> None:
        self._world = world
        self._made = 0

    async def begin(self) -> None:
        for i in range(2):
            manifest = node_manifest(f"n{i}", "64")
            manifest["status"]["allocatable"] |= ROOM
            manifest["status"]["capacity"] = manifest["status"]["allocatable"]
            await self._world.create(NODE, manifest)
        await self._device(0, 0)
        await self._world.start()

    async def play(self, step: Step) -> None:
        what, i, j = step
        happens: dict[str, Callable[[], Awaitable[None]]] = {
            "device": lambda: self._device(i, j),
            "no device": lambda: self._world.delete(Ref(DEVICE, "", f"n{i % 2}")),
            "ill": lambda: self._ill(i, j),
            "policy": lambda: self._node(
                i, {"metadata": {"labels": {POLICY: ("Honor", "Prefer", None)[j % 3], MODEL: ("H20", None)[j % 2]}}}
            ),
            "partitions": lambda: self._partitions(i, j),
            "isolation": lambda: self._node(i, {"metadata": {"labels": {ISOLATION: ("HAMi-core", None)[j % 2]}}}),
            "resize": lambda: self._node(i, {"status": {"allocatable": {WHOLE_GPUS: str(j)}}}),
            "add pod": lambda: self._add_pod(i, j),
            "delete pod": lambda: self._pod(i, None),
            "finish pod": lambda: self._pod(i, {"status": {"phase": "Succeeded"}}, bound=True),
            "hint": lambda: self._pod(
                i, {"metadata": {"annotations": {HINT: ('{"gpu":{"requiredTopologyScope":"PCIe"}}', "{", None)[j % 3]}}}, bound=False
            ),
            "break": lambda: self._break("bind" if i % 2 else "patch", 1 + j),
            "wait": lambda: asyncio.sleep(i),
        }
        try:
            await happens[what]()
        except ClusterError:
            return  # an API server would not take it either
        await asyncio.sleep(0.3 * (j % 3))

    async def _device(self, i: int, j: int) -> None:
        await self._describe(i, device_manifest(f"n{i % 2}", **LAYOUTS[j % 4]))

    async def _ill(self, i: int, j: int) -> None:
        manifest = device_manifest(f"n{i % 2}", **LAYOUTS[0])
        for entry in manifest["spec"]["devices"]:
            entry["health"] = not j >> entry["minor"] & 1
        await self._describe(i, manifest)

    async def _partitions(self, i: int, j: int) -> None:
        table = ('{"2":[{"minors":[0,1]},{"minors":[2,3],"allocationScore":1}]}', "{", None, '{"1":[{"minors":[3]}]}')[j % 4]
        merge = {"metadata": {"annotations": {TABLE: table}, "labels": {POLICY: ("Honor", None)[j % 2]}}}
        await self._world.patch(Ref(DEVICE, "", f"n{i % 2}"), merge)

    async def _describe(self, i: int, manifest: dict[str, Any]) -> None:
        ref = Ref(DEVICE, "", f"n{i % 2}")
        if await self._world.get(ref) is None:
            await self._world.create(DEVICE, manifest)
        else:
            await self._world.patch(ref, manifest)

    async def _node(self, i: int, merge: dict[str, Any]) -> None:
        await self._world.patch(Ref(NODE, "", f"n{i % 2}"), merge)

    async def _add_pod(self, kind: int, priority: int) -> None:
        self._made += 1
        amounts, labels, annotations = PODS[kind]
        manifest = pod_manifest(f"p{self._made}", "100m", terminationGracePeriodSeconds=0, priority=9000 + priority % 2)
        manifest["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        manifest["metadata"] |= {"labels": labels, "annotations": annotations}
        await self._world.create(POD, manifest)

    async def _pod(self, i: int, merge: dict[str, Any] | None, *, bound: bool | None = None) -> None:
        raws = [raw for raw in self._world.cluster.raws(POD) if bound is None or bool(raw["spec"].get("nodeName")) is bound]
        if not raws:
            return
        meta = raws[i % len(raws)]["metadata"]
        ref = Ref(POD, meta["namespace"], meta["name"])
        if merge is None:
            await self._world.delete(ref)
        else:
            await self._world.patch(ref, merge)

    async def _break(self, verb: Any, times: int) -> None:
        self._world.cluster.faults.rules.append(Fault(verb=verb, kind=POD, times=times, error=lambda: ServerError("away")))


def recount(world: AnsweringCluster) -> DeviceRecount:
    """Count what pods that run hold. A card has 80Gi whatever Devices say now: some have changed since it was given."""
    held = {}
    for raw in world.cluster.raws(POD):
        node = raw["spec"].get("nodeName", "")
        if node and raw.get("status", {}).get("phase") != "Succeeded":
            held[raw["metadata"]["name"]] = (node, json.loads(raw["metadata"].get("annotations", {}).get(DEVICE_ALLOCATED, "{}")))
    totals: dict[tuple[str, str, int], dict[str, Fraction]] = {}
    for node in ("n0", "n1"):
        for minor in range(8):
            totals[node, "gpu", minor] = {CORE: Fraction(100), RATIO: Fraction(100), MEMORY: quantity("80Gi")}
            totals[node, "rdma", minor] = {RDMA: Fraction(100)}
    return DeviceRecount(held, totals, {}, {})


async def shown(world: AnsweringCluster) -> Any:
    """Return what pods hold, and what is free, of every node: without what says nothing, as a Device that went leaves its minors behind."""
    return filled(json.loads((await world.http("/apis/v1/plugins/DeviceShare/nodeDeviceSummaries")).body))


def filled(found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    inside = {key: filled(value) for key, value in found.items()}
    return {key: value for key, value in inside.items() if value not in ({}, "0", None)}


beginnings = st.lists(st.tuples(st.just("add pod"), numbers, numbers), min_size=2, max_size=6)


@given(beginnings, st.lists(steps, min_size=1, max_size=10))
@example([("add pod", 1, 0), ("add pod", 1, 0), ("add pod", 1, 0)], [("no device", 0, 0), ("device", 0, 1)])
@example([("add pod", 5, 0), ("add pod", 4, 0), ("add pod", 4, 0)], [("delete pod", 0, 0)])
@example([("add pod", 0, 0), ("add pod", 4, 0)], [("add pod", 4, 0), ("policy", 0, 0), ("add pod", 4, 0)])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_feasible_pod_is_parked_no_device_is_given_twice_and_a_restart_changes_nothing(
    beginning: list[Step], changes: list[Step]
) -> None:
    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG)) as world:
            story = Story(world)
            await story.begin()
            for step in (*beginning, *changes):
                await story.play(step)
            world.cluster.faults.rules.clear()
            await asyncio.sleep(LONGEST_BACKOFF)
            assert parked_but_schedulable(world) == []
            assert recount(world).given_twice() == []
            assert (await world.scheduler.debugger.compare()).ok
            before, bound = await shown(world), nodes_of_pods(world)
            await world.restart()
            await world.settle()
            if nodes_of_pods(world) == bound:  # a pod that was refused may find a pod to evict now
                assert await shown(world) == before
            assert recount(world).given_twice() == []

    run_virtual(body)
