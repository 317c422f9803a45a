"""Plugins whose answers a test sets, and ways to make a profile or a scheduler of them.

Every fake signs its pods, so that they share a shape, unless the test says otherwise. What it is asked it writes into `asked` or into a
journal that several of them may share.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from koordsched._core.change import NodeChange
from koordsched.config import REFERENCE, Environment, KubeSchedulerProfile, load_config_object
from koordsched.config.flags import Flags
from koordsched.config.types import PluginRef
from koordsched.embedded.cluster import EmbeddedOptions
from koordsched.framework.controllers import Controller, ControllersPlugin
from koordsched.framework.interface import (
    AdmissionPlugin,
    BindPlugin,
    FilterPlugin,
    Normalize,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScoreNodesPlugin,
)
from support.embedded import AnsweringCluster
from support.final_state import check_final_state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.config import SchedulerConfiguration
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.diagnosis import Diagnosis
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Scores
    from koordsched.framework.profile import PluginFactory
    from koordsched.framework.status import Status
    from koordsched.queue.events import EventHint
    from koordsched.queue.queued_pod import QueuedPodInfo

SCHEDULER = "default-scheduler"


class Fake(Plugin):
    """A plugin with a name of its own, a signature and a version that a test may change, and no events that help the pods it refuses."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.signature: Hashable = ()
        self.now: Hashable = 0
        self.events: list[EventHint] | None = []
        self.asked: list[str] = []

    def events_to_register(self) -> Sequence[EventHint] | None:
        return self.events

    def sign(self, pod: PodInfo) -> Hashable:
        return self.signature


@runtime_checkable
class BegunPlugin(Protocol):
    """A plugin that a test made and that needs the scheduler's handle all the same."""

    def begin(self, handle: Handle) -> None: ...


class FakeFilter(Fake, FilterPlugin):
    """Refuses the nodes in `refuse`, and every node with `refuse_all`."""

    def __init__(self, name: str = "F", **refuse: Status) -> None:
        super().__init__(name)
        self.refuse = refuse
        self.refuse_all: Status | None = None
        self.reads = NodeChange.ALL

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        return self.refuse_all or self.refuse.get(node.name)


class VersionedFilter(FakeFilter):
    """A filter whose answers depend on `now` too."""

    def version(self, pod: PodInfo) -> Hashable:
        return self.now


class FakePreFilter(Fake, PreFilterPlugin):
    """Answers PreFilter with `answer`; with `raises` it fails as a plugin with a bug does."""

    def __init__(self, name: str = "P", answer: PreFilterResult | Status | None = None) -> None:
        super().__init__(name)
        self.answer = answer

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterResult | Status | None:
        self.asked.append(pod.key)
        return self.answer


class FakeAdmission(Fake, AdmissionPlugin):
    """Answers admission with `answer`; pods wait under the value of their label "group"."""

    def __init__(self, name: str = "A", answer: Status | None = None, *, before_pre_filter: bool = False) -> None:
        super().__init__(name)
        self.answer = answer
        self.before_pre_filter = before_pre_filter

    def admit(self, pod: PodInfo) -> Status | None:
        self.asked.append(pod.key)
        return self.answer

    def admission_key(self, pod: PodInfo) -> Hashable | None:
        return pod.pod.metadata.labels.get("group")

    def sign_admission(self, pod: PodInfo) -> Hashable:
        return ()


class FakeScore(Fake, ScoreNodesPlugin):
    """Scores nodes by name; others get 0."""

    def __init__(self, name: str = "S", normalize: Normalize = Normalize.NONE, **scores: int) -> None:
        super().__init__(name)
        self.normalize = normalize
        self.scores = scores
        self.reads = NodeChange.ALL

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        names = [nodes.info(row).name for row in nodes.rows.tolist()]
        self.asked += names
        return np.array([self.scores.get(name, 0) for name in names], np.int64)


class VersionedScore(FakeScore):
    """A scorer whose scores depend on `now` too."""

    def version(self, pod: PodInfo) -> Hashable:
        return self.now


class FakePreScore(FakeScore, PreScorePlugin):
    """A scorer with a PreScore, which answers `answer`."""

    answer: Status | None = None

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        self.asked.append(f"PreScore of {len(nodes)}")
        return self.answer


class FakeSort(Fake, QueueSortPlugin):
    """First come, first served."""

    def sort_key(self, info: QueuedPodInfo) -> tuple[float, ...]:
        return (info.timestamp,)


class FakePostFilter(Fake, PostFilterPlugin):
    """Answers PostFilter with `answer`."""

    def __init__(self, name: str, answer: tuple[PostFilterResult | None, Status | None]) -> None:
        super().__init__(name)
        self.answer = answer

    async def post_filter(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status | None]:
        self.asked.append(diagnosis.message)
        return self.answer


class FakeBind(Fake, BindPlugin):
    """Answers Bind with `answer`."""

    def __init__(self, name: str = "B", answer: Status | None = None) -> None:
        super().__init__(name)
        self.answer = answer

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.asked.append(f"{pod.key} to {node_name}")
        return self.answer


class Late(Fake, ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin):
    """Everything between the choice of a node and the end of binding. Calls are written into `journal` as "point name"."""

    def __init__(self, name: str = "L", journal: list[str] | None = None) -> None:
        super().__init__(name)
        self.journal = [] if journal is None else journal
        self.reserve_answer: Status | None = None
        self.permit_answer: tuple[Status | None, float] = (None, 0.0)
        self.pre_flight_answer: Status | None = None
        self.pre_bind_answer: Status | None = None
        self.activate: list[PodInfo] = []
        self.gate: asyncio.Event | None = None  # PreBind waits for it

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.journal.append(f"reserve {self.name}")
        if self.activate:
            state.write("kubernetes.io/pods-to-activate", {pod.key: pod for pod in self.activate})
        return self.reserve_answer

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.journal.append(f"unreserve {self.name}")

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> tuple[Status | None, float]:
        self.journal.append(f"permit {self.name}")
        return self.permit_answer

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return self.pre_flight_answer

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self.journal.append(f"pre_bind {self.name}")
        if self.gate is not None:
            await self.gate.wait()
        return self.pre_bind_answer

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self.journal.append(f"post_bind {self.name}")


class Controlled(FakeFilter, ControllersPlugin):
    """A filter with a controller that notes each of its ticks, one a second, and raises where `fails` says so."""

    def __init__(self, name: str = "C", *, vital: bool = False) -> None:
        super().__init__(name)
        self.vital = vital
        self.ticks: list[str] = []
        self.fails = False
        self.made = 0

    def controllers(self) -> Sequence[Controller]:
        self.made += 1
        return (Controller("ticker", self._tick, self.vital),)

    async def _tick(self) -> None:
        try:
            while True:
                if self.fails:
                    raise LookupError("oops")
                self.ticks.append("tick")
                await asyncio.sleep(1)
        finally:
            self.ticks.append("end")


LATE_POINTS = "reserve permit preBind postBind"


def factory(plugin: Plugin) -> PluginFactory:
    """Return a factory that always makes this plugin, which gets the handle if it has a method `begin` for that."""

    def make(_args: Any, handle: Handle) -> Plugin:
        if isinstance(plugin, BegunPlugin):
            plugin.begin(handle)
        return plugin

    return make


def profile_config(**points: list[Plugin]) -> KubeSchedulerProfile:
    """Return a profile's configuration with these plugins at these points, each score with weight 1."""
    refs = {point: tuple(PluginRef(plugin.name, int(point == "score")) for plugin in plugins) for point, plugins in points.items()}
    return KubeSchedulerProfile(scheduler_name=SCHEDULER, points={"queueSort": (PluginRef("Sort"),), **refs})


def registry_of(*plugins: Plugin) -> dict[str, PluginFactory]:
    return {"Sort": factory(FakeSort("Sort"))} | {plugin.name: factory(plugin) for plugin in plugins}


def config_with(points: Mapping[str, str], **fields: Any) -> SchedulerConfiguration:
    """Return the default profile with these plugins more, each with its points ("reserve permit"); fields are the file's."""
    catalogue = REFERENCE
    for name, where in points.items():
        catalogue = catalogue.with_plugin(name, frozenset(where.split()))
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in points]}}
    body = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profile = {"schedulerName": SCHEDULER, "plugins": plugins}
    return load_config_object({**body, "profiles": [profile], **fields}, Environment(catalogue=catalogue))


def node_manifest(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    """Return a node as a user would create it."""
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}}}


def pod_manifest(name: str = "p", cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """Return a pod for the scheduler; keywords are fields of its spec."""
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"schedulerName": SCHEDULER, "containers": containers, **spec}}


@asynccontextmanager
async def embedded(
    loop: Any, config: SchedulerConfiguration | None = None, seed: int = 1, flags: Flags | None = None, *, damaged: bool = False
) -> AsyncIterator[AnsweringCluster]:
    """Make a world whose scheduler has not been started, and kill it in the end.

    damaged: the test leaves a scheduler that does not know what the cluster has.
    """
    settings = EmbeddedOptions(config=config or config_with({}), flags=flags or Flags(), seed=seed)
    world = AnsweringCluster(loop, settings)
    try:
        yield world
        await check_final_state(world, damaged=damaged)
    finally:
        await world.scheduler.kill()
