"""No schedulable pod stays parked (framework.md §14): the whole scheduler on the embedded cluster, through any sequence of changes.

After the last change and the longest backoff, and before the 5-minute flush could hide anything, every pod among the unschedulable ones is
given a fresh attempt: all plugins are asked about all nodes anew. None may find a node. It holds for whatever plugins are registered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.admission import GangAdmission, QuotaAdmission
from support.fakes import config_with, embedded, factory, node_manifest, pod_manifest
from support.parked import parked_but_schedulable
from support.virtual_loop import run_virtual

import koordsched.plugins
from koordsched.api.kinds import NODE, POD
from koordsched.clock import VirtualClock
from koordsched.cluster.port import ClusterError, Ref
from koordsched.embedded.cluster import EmbeddedCluster

LONGEST_BACKOFF = 12.0
FLUSH = 300.0
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"

Step = tuple[str, int, int]

numbers = st.integers(0, 9)
steps = st.tuples(
    st.sampled_from(
        [
            "add node",
            "delete node",
            "cordon",
            "uncordon",
            "taint",
            "zone",
            "resize",
            "add pod",
            "add pod",
            "delete pod",
            "finish pod",
            "relabel pod",
            "tolerate",
            "annotate",
            "ungate",
            "wait",
        ]
    ),
    numbers,
    numbers,
)

beginnings = st.tuples(
    st.lists(st.tuples(st.just("add node"), numbers, numbers), min_size=1, max_size=2),
    st.lists(st.tuples(st.just("add pod"), numbers, numbers), min_size=4, max_size=8),
)
"""Few small nodes and too many pods, so that some wait."""


def term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def required(kind: str, app: str, key: str) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}}


KINDS: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {ZONE: "z1"}},
    {"tolerations": [{"key": "k", "operator": "Exists"}]},
    {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]},
    required("podAntiAffinity", "a", HOSTNAME),
    required("podAntiAffinity", "b", ZONE),
    required("podAffinity", "a", ZONE),
    required("podAffinity", "b", HOSTNAME),
    {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}
        ]
    },
    {"schedulingGates": [{"name": "g"}]},
]
"""What pods may ask for, by number."""


class Story:
    """A world to which things happen. Each step names what happens and two numbers that choose to whom and how."""

    def __init__(self, world: EmbeddedCluster) -> None:
        self._world = world
        self._made = 0

    async def play(self, step: Step) -> None:
        what, first, second = step
        happens: dict[str, Callable[[int, int], Awaitable[None]]] = {
            "add node": self._add_node,
            "add pod": self._add_pod,
            "delete node": lambda i, _: self._delete(NODE, i),
            "delete pod": lambda i, _: self._delete(POD, i),
            "cordon": lambda i, _: self._patch(NODE, i, {"spec": {"unschedulable": True}}),
            "uncordon": lambda i, _: self._patch(NODE, i, {"spec": {"unschedulable": None}}),
            "taint": lambda i, j: self._patch(NODE, i, {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}] * (j % 2)}}),
            "zone": lambda i, j: self._patch(NODE, i, {"metadata": {"labels": {ZONE: f"z{j % 3}" if j % 4 else None}}}),
            "resize": lambda i, j: self._patch(NODE, i, {"status": {"allocatable": {"cpu": str(j % 4 + 1)}}}),
            "finish pod": lambda i, _: self._patch(POD, i, {"status": {"phase": "Succeeded"}}),
            "relabel pod": lambda i, j: self._patch(POD, i, {"metadata": {"labels": {"app": "abc"[j % 3]}}}),
            "tolerate": lambda i, _: self._patch(POD, i, {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}),
            "annotate": lambda i, j: self._patch(POD, i, {"metadata": {"annotations": {"note": str(j)}}}),
            "ungate": lambda i, _: self._patch(POD, i, {"spec": {"schedulingGates": None}}),
            "wait": lambda i, _: asyncio.sleep(i),
        }
        try:
            await happens[what](first, second)
        except ClusterError:
            return  # an API server would not take it either
        await asyncio.sleep(0.3 * (second % 3))

    async def _add_node(self, zone: int, cpu: int) -> None:
        self._made += 1
        labels = {ZONE: f"z{zone % 3}"} if zone % 4 else {}
        await self._world.create(NODE, node_manifest(f"n{self._made}", str(cpu % 3 + 1), **{HOSTNAME: f"n{self._made}", **labels}))

    async def _add_pod(self, kind: int, app: int) -> None:
        self._made += 1
        spec = {"terminationGracePeriodSeconds": 0, "priority": 5 * (app % 2), **KINDS[kind]}
        manifest = pod_manifest(f"p{self._made}", str(app % 3), **spec)
        manifest["metadata"]["labels"] = {"app": "ab"[app % 2]}
        await self._world.create(POD, manifest)

    async def _delete(self, kind: Any, index: int) -> None:
        ref = self._pick(kind, index)
        if ref is not None:
            await self._world.delete(ref)

    async def _patch(self, kind: Any, index: int, merge: dict[str, Any]) -> None:
        ref = self._pick(kind, index)
        if ref is not None:
            await self._world.patch(ref, merge)

    def _pick(self, kind: Any, index: int) -> Ref | None:
        raws = self._world.cluster.raws(kind)
        if not raws:
            return None
        meta = raws[index % len(raws)]["metadata"]
        return Ref(kind, meta.get("namespace", ""), meta["name"])


ADMISSION_STEPS = ("limit", "add member", "quota of pod")
admission_steps = st.tuples(
    st.sampled_from(["add node", "resize", "add pod", "delete pod", "finish pod", "wait", *ADMISSION_STEPS]), numbers, numbers
)


class AdmittingStory(Story):
    """The same with quotas and gangs: pods of quota x or y, some of which are members of gangs of two."""

    def __init__(self, world: EmbeddedCluster, quotas: QuotaAdmission) -> None:
        super().__init__(world)
        self._quotas = quotas

    async def play(self, step: Step) -> None:
        what, first, second = step
        if what not in ADMISSION_STEPS:
            await super().play(step)
        elif what == "limit":
            self._quotas.set_limit("xy"[first % 2], second % 5)
        elif what == "quota of pod":
            await self._patch(POD, first, {"metadata": {"labels": {"quota": ("x", "y", None)[second % 3]}}})
        else:
            self._made += 1
            manifest = pod_manifest(f"p{self._made}", str(second % 3), terminationGracePeriodSeconds=0, priority=5 * (second % 2))
            gang = {"gang": f"g{first % 3}", "gang-size": "2"} if first % 2 else {}
            manifest["metadata"]["labels"] = {"quota": "xy"[second % 2], **gang}
            await self._world.create(POD, manifest)
        await asyncio.sleep(0.3 * (second % 3))


members = st.lists(st.tuples(st.just("add member"), numbers, numbers), min_size=3, max_size=8)


@given(beginnings, members, st.lists(admission_steps, min_size=1, max_size=10))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_pod_of_a_quota_or_gang_that_would_pass_a_fresh_attempt_stays_refused(
    beginning: tuple[list[Step], list[Step]], pods: list[Step], changes: list[Step]
) -> None:
    async def body(clock: VirtualClock) -> None:
        quotas, gangs = QuotaAdmission(x=1, y=2), GangAdmission()
        points = {"QuotaAdmission": "preFilter reserve", "GangAdmission": "preFilter"}
        registry = {plugin.name: factory(plugin) for plugin in (quotas, gangs)}
        with mock.patch.dict(koordsched.plugins.REGISTRY, registry):
            async with embedded(asyncio.get_running_loop(), config_with(points)) as world:
                story, began = AdmittingStory(world, quotas), clock.now()
                await world.start()
                for step in (*beginning[0], *beginning[1][:2], *pods, *changes):
                    await story.play(step)
                await asyncio.sleep(LONGEST_BACKOFF)
                assert clock.now() - began < FLUSH
                assert parked_but_schedulable(world) == []
                world.scheduler.queue.check_invariants()
                assert all(quotas.used[quota] >= 0 for quota in "xy")

    run_virtual(body)


@given(beginnings, st.lists(steps, min_size=1, max_size=8))
@example(([("add node", 0, 0)], [("add pod", 0, 1), ("add pod", 0, 1)]), [("finish pod", 0, 0)])
@example(([("add node", 1, 2)], [("add pod", 4, 0), ("add pod", 0, 0)]), [("relabel pod", 0, 1)])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_after_any_sequence_of_changes_no_unschedulable_pod_would_pass_a_fresh_attempt(
    beginning: tuple[list[Step], list[Step]], changes: list[Step]
) -> None:
    async def body(clock: VirtualClock) -> None:
        async with embedded(asyncio.get_running_loop()) as world:
            story, began = Story(world), clock.now()
            await world.start()
            for step in (*beginning[0], *beginning[1], *changes):
                await story.play(step)
            await asyncio.sleep(LONGEST_BACKOFF)
            assert clock.now() - began < FLUSH
            assert parked_but_schedulable(world) == []
            world.scheduler.queue.check_invariants()

    run_virtual(body)
