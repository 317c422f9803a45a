"""Undone turns of groups leave nothing behind in a whole scheduler (coscheduling.md §4): it decides as one that never had these groups.

Two schedulers on clusters in memory see the same events, but one of them has gangs besides, of which a member fits nowhere or is refused at
Reserve. After every event the two have placed the other pods alike, know the same of each node, and say the same of pods to come: what
reasons and what scores each node gives them. What shapes have kept is what they answer when everything is asked anew, and what the cache
and the plugins keep is what follows from the objects. Ties are decided by the order of nodes, so that the two decide them alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import TYPE_CHECKING, Any, cast
from unittest import mock

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.described import described
from support.embedded import AnsweringCluster
from support.fakes import SCHEDULER, node_manifest, pod_manifest
from support.gangs import Gangs
from support.owners import Owners
from support.virtual_loop import run_virtual

import koordsched.plugins
from koordsched.api.kinds import NODE, NODE_RESOURCE_TOPOLOGY, POD
from koordsched.api.podinfo import PodInfo
from koordsched.api.validation import decode
from koordsched.clock import VirtualClock
from koordsched.cluster.port import ClusterError, Ref
from koordsched.config import REFERENCE, Environment, load_config_object
from koordsched.config.flag_table import Flags
from koordsched.embedded.cluster import EmbeddedOptions
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import ReservePlugin
from koordsched.framework.shapes import Shapes
from koordsched.framework.status import Status, unschedulable
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.scheduler.group_demand import GroupDemand

if TYPE_CHECKING:
    from koordsched.api.core import Pod

NODES = ("n0", "n1", "n2")
ZONE, QOS = "topology.kubernetes.io/zone", "koordinator.sh/qosClass"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": SCHEDULER,
            "plugins": {"multiPoint": {"enabled": [{"name": name} for name in ("NodeNUMAResource", "Gangs", "Refuses", "Owners")]}},
        }
    ],
}
CATALOGUE = (
    REFERENCE.with_plugin("Gangs", frozenset({"preEnqueue"}))
    .with_plugin("Refuses", frozenset({"reserve"}))
    .with_plugin("Owners", frozenset({"preFilter"}))
)

KINDS: tuple[tuple[str, dict[str, str], dict[str, Any]], ...] = (  # cpu, labels, fields of the spec
    ("1", {"app": "a"}, {}),
    ("3", {"app": "b"}, {}),
    ("2", {"app": "a", QOS: "LSR"}, {}),
    ("2", {"app": "b", QOS: "LSR", "owner": "x"}, {}),
    ("1", {"app": "a", "owner": "x"}, {}),
    ("1", {"app": "a"}, {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}], "resources": {}}]}),
    (
        "1",
        {"app": "a"},
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "a"}}}
            ]
        },
    ),
    (
        "1",
        {"app": "b", "owner": "y"},
        {
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": "kubernetes.io/hostname"}
                    ]
                }
            }
        },
    ),
)

numbers = st.integers(0, 7)
kinds = "pod pod gang undone undone undone end-undone delete finish resize cordon grant revoke wait"
steps = st.tuples(st.sampled_from(kinds.split()), numbers, numbers)
Step = tuple[str, int, int]


class FirstOfTies(Random):
    """Decides in the same way however often it was asked before."""

    def getrandbits(self, k: int) -> int:
        return 0

    def random(self) -> float:
        return 0.5


class Refuses(ReservePlugin):
    """Refuses pods at Reserve by label, and keeps of the others what only Unreserve takes back."""

    name = "Refuses"

    def __init__(self) -> None:
        self.reserved: dict[str, str] = {}

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.reserved[pod.key] = node_name
        return unschedulable("refused") if "refused" in pod.pod.metadata.labels else None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        del self.reserved[pod.key]


def manifest(name: str, kind: int, priority: int, **labels: str) -> dict[str, Any]:
    cpu, own, spec = KINDS[kind]
    made = pod_manifest(name, cpu, priority=priority, terminationGracePeriodSeconds=0, **deepcopy(spec))
    made["metadata"]["labels"] = own | labels
    return made


class Story:
    """A cluster to which things happen. Pods of groups that are going to be undone are created only where there are to be any."""

    def __init__(self, world: AnsweringCluster, *, undone: bool) -> None:
        self.world = world
        self._undone = undone
        refuses = world.scheduler.profiles[SCHEDULER].made["Refuses"]
        assert isinstance(refuses, Refuses)
        self._refuses = refuses
        self._made = 0
        self._owned: set[tuple[str, str]] = set()

    async def begin(self) -> None:
        for i, name in enumerate(NODES):
            await self.world.create(NODE, node_manifest(name, "8", **{ZONE: f"z{i % 2}", "kubernetes.io/hostname": name}))
            await self.world.create(NODE_RESOURCE_TOPOLOGY, topology_manifest(name, CpuLayout.parse("1x1x4x2"), 1 << 33))
        await self.world.start()

    async def play(self, step: Step) -> None:
        what, i, j = step
        self._made += 1
        happens: dict[str, Callable[[], Awaitable[None]]] = {
            "pod": lambda: self.world.create(POD, manifest(f"p{self._made}", i, 10 * (j % 2))),
            "gang": lambda: self._gang(f"g{self._made}", [(i, {}), *[(j, {})] * (1 + i % 3)]),
            "undone": lambda: self._undone_gang(i, j),
            "end-undone": lambda: self._end_undone(i),
            "delete": lambda: self._on_pod(i, self.world.delete),
            "finish": lambda: self._on_pod(i, lambda ref: self.world.patch(ref, {"status": {"phase": "Succeeded"}})),
            "resize": lambda: self.world.patch(self._node(i), {"status": {"allocatable": {"cpu": str(4 + 2 * (j % 4))}}}),
            "cordon": lambda: self.world.patch(self._node(i), {"spec": {"unschedulable": True if j % 2 else None}}),
            "grant": lambda: self._on_pod(i, lambda ref: self._grant(ref.name, "xy"[j % 2], given=True)),
            "revoke": lambda: self._on_pod(i, lambda ref: self._grant(ref.name, "xy"[j % 2], given=False)),
            "wait": lambda: asyncio.sleep(2 * i),
        }
        with suppress(ClusterError):  # an API server would not take it either
            await happens[what]()
        await asyncio.sleep(1.0)

    async def _gang(self, name: str, members: list[tuple[int, dict[str, str]]], cpu: str = "") -> None:
        for number, (kind, labels) in enumerate(members):
            made = manifest(f"{name}-{number}", kind, 5, gang=name, size=str(len(members)), **labels)
            if cpu and number == len(members) - 1:
                made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
            await self.world.create(POD, made)

    async def _undone_gang(self, i: int, j: int) -> None:
        """Create a gang whose last member fits nowhere, or is refused at Reserve."""
        members: list[tuple[int, dict[str, str]]] = [(i, {}), *[(j, {})] * (i % 3), (i, {"refused": "yes"} if j % 2 else {})]
        if self._undone:
            await self._gang(f"undone-{self._made}", members, "" if j % 2 else "100")

    async def _end_undone(self, i: int) -> None:
        gangs = sorted({name.rsplit("-", 1)[0] for name in self._names() if name.startswith("undone-")})
        for name in self._names():
            if gangs and name.rsplit("-", 1)[0] == gangs[i % len(gangs)]:
                await self.world.delete(Ref(POD, "default", name))

    def _node(self, i: int) -> Ref:
        return Ref(NODE, "", NODES[i % len(NODES)])

    def _names(self) -> list[str]:
        return sorted(raw["metadata"]["name"] for raw in self.world.cluster.raws(POD))

    async def _on_pod(self, i: int, do: Callable[[Ref], Awaitable[None]]) -> None:
        names = [name for name in self._names() if not name.startswith("undone-")]
        if names:
            await do(Ref(POD, "default", names[i % len(names)]))

    async def _grant(self, name: str, owner: str, *, given: bool) -> None:
        """Let what a pod holds belong to an owner, or no longer."""
        uid = self.world.cluster.raw(Ref(POD, "default", name))["metadata"]["uid"]
        credits_ = self.world.scheduler.cache.credits
        (credits_.grant if given else credits_.revoke)(owner, uid)

    # What is so

    def known(self) -> dict[str, Any]:
        """Return where pods are, what the cache knows of each node, and what shapes say of pods to come."""
        scheduler = self.world.scheduler
        names = {uid: state.info.key for uid, state in scheduler.cache.pods.items()}
        nodes = described(scheduler.cache)
        for node in nodes.values():
            node["pods"] = sorted(names[uid] for uid in node["pods"])
        raws = [raw for raw in self.world.cluster.raws(POD) if not raw["metadata"]["name"].startswith("undone-")]
        return {
            "placed": {raw["metadata"]["name"]: raw["spec"].get("nodeName", "") for raw in raws},
            "nodes": nodes,
            "reserved": dict(self._refuses.reserved),
            "said": self.said(scheduler.profiles[SCHEDULER].shapes),
        }

    def said(self, shapes: Shapes) -> list[Any]:
        return [said(self.world, shapes, manifest("to-come", kind, 0)) for kind in range(len(KINDS))]

    def asked_anew(self) -> list[Any]:
        """Return what shapes say that have kept nothing."""
        kept = self.world.scheduler.profiles[SCHEDULER].shapes
        return self.said(Shapes(kept._plan, self.world.scheduler.cache))


def said(world: AnsweringCluster, shapes: Shapes, body: dict[str, Any]) -> Any:
    """Return the refusal or the scores of a pod on each node, or why it is refused as a whole."""
    info = PodInfo(cast("Pod", decode(POD, body)))
    info.shape = shapes.key(info)
    with shapes.view(info):
        shape = shapes.pre_filter(info)
        shapes.filter(shape, info)
        if shape.pre_filtered.refusal is not None:
            return shape.pre_filtered.refusal.message
        shapes.pre_score(shape, info)
        shapes.score(shape, info)
        evaluation, answers = shape.evaluation, {}
        for row in world.scheduler.cache.table.live_rows().tolist():
            name, (f, code) = world.scheduler.cache.nodes().info(row).name, evaluation.verdict(row)
            feasible = evaluation.is_feasible(row)
            answers[name] = evaluation.scores(row)[1] if feasible else shape.filters[f].explain(shape.state, info, code).message
        return answers


async def play(sequence: list[Step], *, undone: bool, strict: bool) -> tuple[list[dict[str, Any]], int]:
    """Return what is known after each step, and how many turns were undone."""
    plugins: dict[str, Any] = {
        "Gangs": lambda _args, handle: Gangs(handle, strict=strict),
        "Refuses": lambda _args, _handle: Refuses(),
        "Owners": lambda _args, _handle: Owners(),
    }
    refused_by_placing = mock.patch.object(GroupDemand, "shortfall", return_value=None)  # else most groups are refused before any turn
    with mock.patch.dict(koordsched.plugins.REGISTRY, plugins), refused_by_placing:
        config = load_config_object(CONFIG, Environment(catalogue=CATALOGUE))
        world = AnsweringCluster(asyncio.get_running_loop(), EmbeddedOptions(config=config, flags=Flags(), seed=1, lasting=True))  # type: ignore[arg-type]
        world._random = FirstOfTies()
        world.scheduler = world._new_scheduler()
        story, found = Story(world, undone=undone), []
        try:
            await story.begin()
            for step in sequence:
                await story.play(step)
                found.append(story.known())
                assert found[-1]["said"] == story.asked_anew()
                world.scheduler.queue.check_invariants()
            assert (await world.scheduler.debugger.compare()).ok
            return found, world.scheduler.cache.table.rewinds
        finally:
            await world.scheduler.kill()


def run(sequence: list[Step], *, undone: bool, strict: bool) -> tuple[list[dict[str, Any]], int]:
    outcome: list[tuple[list[dict[str, Any]], int]] = []

    async def body(_clock: VirtualClock) -> None:
        outcome.append(await play(sequence, undone=undone, strict=strict))

    run_virtual(body)
    return outcome[0]


@given(st.lists(steps, min_size=2, max_size=10), st.booleans())
@example([("undone", 2, 0), ("pod", 2, 0), ("undone", 0, 1), ("pod", 0, 0), ("delete", 0, 0)], True)
@example([("pod", 2, 0), ("grant", 0, 0), ("undone", 3, 1), ("pod", 3, 0), ("undone", 4, 4), ("pod", 4, 1), ("revoke", 0, 0)], False)
@example([("gang", 6, 6), ("undone", 6, 5), ("pod", 6, 0), ("undone", 7, 2), ("pod", 7, 0), ("resize", 0, 3), ("wait", 6, 0)], True)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_scheduler_decides_as_if_it_had_never_had_the_groups_that_it_undid(sequence: list[Step], strict: bool) -> None:
    ours, turns = run(sequence, undone=True, strict=strict)
    never, fewer = run(sequence, undone=False, strict=strict)
    for step, with_them, without in zip(sequence, ours, never, strict=True):
        assert with_them == without, step
    if any(what == "undone" for what, _, _ in sequence):
        assert turns > fewer
