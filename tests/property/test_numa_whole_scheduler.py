"""The whole scheduler with NodeNUMAResource on the embedded cluster, through any sequence of changes.

No schedulable pod stays parked, no CPU is sold twice by a recount from the annotations, though bindings and patches fail, and a
scheduler that starts again shows of every node what the one before it showed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.embedded import AnsweringCluster
from support.fakes import embedded, node_manifest, pod_manifest
from support.parked import parked_but_schedulable
from support.stages import nodes_of_pods
from support.virtual_loop import run_virtual

from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY, POD
from koordsched.clock import VirtualClock
from koordsched.cluster.memory import Fault
from koordsched.cluster.port import ClusterError, Ref, ServerError
from koordsched.config import load_config_object
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.plugins.nodenumaresource.tooling import cpus_of

LONGEST_BACKOFF = 12.0
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": [{"name": "NodeNUMAResource"}]}}}],
}
LAYOUTS = ("1x1x2x2", "2x1x2x2", "1x2x2x1", "1x1x4x2")
POLICIES = ("SingleNUMANode", "Restricted", "BestEffort", None)
QOS = "koordinator.sh/qosClass"
SPEC = "scheduling.koordinator.sh/resource-spec"
NUMA_SPEC = "scheduling.koordinator.sh/numa-topology-spec"
PODS: tuple[tuple[str, dict[str, str], dict[str, str]], ...] = (  # cpu, labels, annotations
    ("2", {QOS: "LSR"}, {}),
    ("4", {QOS: "LSR"}, {SPEC: '{"requiredCPUBindPolicy":"FullPCPUs"}'}),
    ("2", {QOS: "LSR"}, {SPEC: '{"requiredCPUBindPolicy":"SpreadByPCPUs","preferredCPUExclusivePolicy":"PCPULevel"}'}),
    ("3", {QOS: "LSE"}, {NUMA_SPEC: '{"numaTopologyPolicy":"SingleNUMANode"}'}),
    ("1500m", {QOS: "LSR"}, {}),
    ("2", {}, {}),
    ("1500m", {}, {NUMA_SPEC: '{"numaTopologyPolicy":"Restricted"}'}),
    ("0", {}, {}),
)

PODS_CHANGE = ("add pod", "add pod", "delete pod", "finish pod", "spec", "qos")
NODES_CHANGE = ("topology", "no topology", "bind policy", "numa policy", "amplify", "resize")

Step = tuple[str, int, int]
numbers = st.integers(0, 7)
steps = st.tuples(
    st.sampled_from([*PODS_CHANGE, *NODES_CHANGE, "break", "wait"]),
    numbers,
    numbers,
)


class Story:
    """A world of two nodes to which things happen."""

    def __init__(self, world: AnsweringCluster) -> None:
        self._world = world
        self._made = 0

    async def begin(self) -> None:
        for i in range(2):
            await self._world.create(NODE, node_manifest(f"n{i}", "12"))
        await self._topology(0, 1)
        await self._world.start()

    async def play(self, step: Step) -> None:
        what, i, j = step
        happens: dict[str, Callable[[], Awaitable[None]]] = {
            "topology": lambda: self._topology(i, j),
            "no topology": lambda: self._world.delete(Ref(NODE_RESOURCE_TOPOLOGY, "", f"n{i % 2}")),
            "bind policy": lambda: self._label(i, "cpu-bind-policy", ("FullPCPUsOnly", "SpreadByPCPUs", None)[j % 3]),
            "numa policy": lambda: self._label(i, "numa-topology-policy", POLICIES[j % 4]),
            "amplify": lambda: self._node(i, {"metadata": {"annotations": {f"node.{RATIO}": ('{"cpu":2}', "{", None)[j % 3]}}}),
            "resize": lambda: self._node(i, {"status": {"allocatable": {"cpu": str(4 + 4 * (j % 4))}}}),
            "add pod": lambda: self._add_pod(i, j),
            "delete pod": lambda: self._pod(i, None),
            "finish pod": lambda: self._pod(i, {"status": {"phase": "Succeeded"}}, bound=True),
            "spec": lambda: self._pod(
                i, {"metadata": {"annotations": {SPEC: ('{"preferredCPUBindPolicy":"SpreadByPCPUs"}', "{", None)[j % 3]}}}
            ),
            "qos": lambda: self._pod(i, {"metadata": {"labels": {QOS: ("LSR", "LS", None)[j % 3]}}}),
            "break": lambda: self._break("bind" if i % 2 else "patch", 1 + j),
            "wait": lambda: asyncio.sleep(i),
        }
        try:
            await happens[what]()
        except ClusterError:
            return  # an API server would not take it either
        await asyncio.sleep(0.3 * (j % 3))

    async def _topology(self, i: int, j: int) -> None:
        manifest = topology_manifest(f"n{i % 2}", CpuLayout.parse(LAYOUTS[j % 4]), 1 << 33)
        manifest["metadata"]["annotations"]["node.koordinator.sh/reservation"] = '{"reservedCPUs":"0"}' if j > 3 else "{}"
        ref = Ref(NODE_RESOURCE_TOPOLOGY, "", f"n{i % 2}")
        if await self._world.get(ref) is None:
            await self._world.create(NODE_RESOURCE_TOPOLOGY, manifest)
        else:
            await self._world.patch(ref, manifest)

    async def _label(self, i: int, key: str, value: str | None) -> None:
        await self._node(i, {"metadata": {"labels": {f"node.koordinator.sh/{key}": value}}})

    async def _node(self, i: int, merge: dict[str, Any]) -> None:
        await self._world.patch(Ref(NODE, "", f"n{i % 2}"), merge)

    async def _add_pod(self, kind: int, priority: int) -> None:
        self._made += 1
        cpu, labels, annotations = PODS[kind]
        manifest = pod_manifest(f"p{self._made}", cpu, terminationGracePeriodSeconds=0, priority=9000 + priority % 2)
        manifest["metadata"] |= {"labels": labels, "annotations": annotations}
        await self._world.create(POD, manifest)

    async def _pod(self, i: int, merge: dict[str, Any] | None, *, bound: bool = False) -> None:
        raws = [raw for raw in self._world.cluster.raws(POD) if raw["spec"].get("nodeName") or not bound]
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


RATIO = "koordinator.sh/resource-amplification-ratio"


def sold_twice(world: AnsweringCluster) -> list[str]:
    """Return the nodes on which two pods that run name one CPU."""
    held: dict[str, int] = {}
    found = []
    for raw in world.cluster.raws(POD):
        node = raw["spec"].get("nodeName", "")
        if node and raw.get("status", {}).get("phase") != "Succeeded":
            cpus = cpus_of(raw)
            if cpus & held.get(node, 0):
                found.append(f"{raw['metadata']['name']} on {node}")
            held[node] = held.get(node, 0) | cpus
    return found


async def shown(world: AnsweringCluster) -> list[bytes]:
    return [(await world.http(f"/apis/v1/plugins/NodeNUMAResource/nodes/n{i}")).body for i in range(2)]


beginnings = st.lists(st.tuples(st.just("add pod"), numbers, numbers), min_size=2, max_size=6)


@given(beginnings, st.lists(steps, min_size=1, max_size=10))
@example([("add pod", 0, 0), ("add pod", 0, 0), ("add pod", 0, 0)], [("no topology", 0, 0), ("topology", 0, 1)])
@example([("add pod", 1, 0), ("add pod", 1, 0), ("add pod", 1, 0)], [("delete pod", 0, 0)])
@example([("add pod", 3, 0), ("add pod", 3, 0), ("add pod", 6, 2)], [("add pod", 0, 0)])  # CPUs in both zones make them shared ones
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_feasible_pod_is_parked_no_cpu_is_sold_twice_and_a_restart_changes_nothing(beginning: list[Step], changes: list[Step]) -> None:
    async def body(_clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop(), load_config_object(CONFIG)) as world:
            story = Story(world)
            await story.begin()
            for step in (*beginning, *changes):
                await story.play(step)
            world.cluster.faults.rules.clear()
            await asyncio.sleep(LONGEST_BACKOFF)
            assert parked_but_schedulable(world) == []
            assert sold_twice(world) == []
            assert (await world.scheduler.debugger.compare()).ok
            before, bound = await shown(world), nodes_of_pods(world)
            await world.restart()
            await world.settle()
            if nodes_of_pods(world) == bound:  # a pod that was refused may find a pod to evict now
                assert await shown(world) == before
            assert sold_twice(world) == []

    run_virtual(body)
