"""A node table with a scheduling profile on it and no cluster: for tests and benchmarks of what happens between pop and assume."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from koordsched.api.core import Pod
from koordsched.api.kinds import Kind
from koordsched.api.meta import Object
from koordsched.api.podinfo import PodInfo
from koordsched.cache.cache import Cache
from koordsched.cache.columns import Columns
from koordsched.cache.nodes import NodeInfo
from koordsched.clock import Clock, RealClock
from koordsched.cluster.event_series import EventText
from koordsched.cluster.informer import Informer
from koordsched.cluster.port import Cluster, NotFound, Ref
from koordsched.config import Environment, load_config_text
from koordsched.config.features import FeatureGates
from koordsched.config.flag_table import Flags
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.diagnosis import Diagnosis
from koordsched.framework.handle import PreemptionExtenders
from koordsched.framework.plugin_metrics import PluginMetrics
from koordsched.framework.profile import PluginFactory, Profile
from koordsched.framework.simulation import NodeSimulation
from koordsched.framework.transformers import Transformer
from koordsched.framework.waiting import WaitingPods
from koordsched.plugins import REGISTRY
from koordsched.queue.events import AdmissionKey, ClusterEvent
from koordsched.queue.nominator import Nominator
from koordsched.scheduler.attempt import Attempt
from koordsched.scheduler.context import Informers
from koordsched.scheduler.cycle import Cycle
from koordsched.scheduler.explanations.decision_log import DecisionLog
from koordsched.scheduler.explanations.log_queue import LogQueue
from koordsched.scheduler.explanations.switches import DebugSwitches
from koordsched.scheduler.extenders.asking import ExtenderQuestion
from koordsched.scheduler.metrics import Metrics
from koordsched.scheduler.origins import LivePods

EMPTY_CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Setup(NamedTuple):
    """What a world's profile is made of: a configuration's text, what it is read against, and the plugins."""

    config: str = EMPTY_CONFIG
    environment: Environment = Environment()
    registry: Mapping[str, PluginFactory] = REGISTRY


class NoCluster:
    """Stands where a plugin expects a cluster: there is nothing that informers have not shown, and nothing may be written."""

    async def get(self, ref: Ref) -> Object:
        raise NotFound(f"there is no {ref.name} but what informers show")


class RecordedActions:
    """The part of a handle by which plugins have something done: it is noted. What would run later or in the background is kept."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.nominator = Nominator(cache)
        self.preemption_metrics = self
        self.flags = Flags()
        self.metrics = PluginMetrics([])
        self.said: list[str] = []
        self.spawned: list[Coroutine[None, None, None]] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def attempted(self) -> None:
        self.said.append("attempted")

    def evicting(self, victims: int) -> None:
        self.said.append(f"evicting {victims}")

    def evicted(self, result: str, seconds: float) -> None:
        self.said.append(f"evicted: {result}")

    def has_backlog(self) -> bool:
        return False

    def volume_stage_failed(self, operation: str) -> None:
        self.said.append(f"volume stage failed: {operation}")

    def activate(self, pods: Iterable[PodInfo]) -> None:
        self.said += [f"activate {pod.key}" for pod in pods]

    def announce(self, event: ClusterEvent, key: AdmissionKey | None = None, *, regarding: Object | None = None) -> None:
        self.said.append(f"announce {event.label}" if key is None else f"announce {event.label} to {key.plugin} {key.key}")

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        self.nominator.set(pod, node_name)
        self.said.append(f"nominate {pod.key}: {node_name}" if node_name != "" else f"withdraw {pod.key}")

    def report_gated(self, pod: PodInfo, message: str) -> None:
        self.said.append(f"gated {pod.key}: {message}")

    def simulation(self, pod: PodInfo) -> NodeSimulation:
        raise LookupError(f"no profile for {pod.key}")

    def fits(self, pod: PodInfo, node: NodeInfo, add: Iterable[PodInfo], remove: Iterable[PodInfo]) -> bool:
        return False

    def event(self, profile: str, regarding: Pod, text: EventText, related: Pod) -> None:
        self.said.append(f"{text.reason} {regarding.metadata.name}: {text.note}")

    def event_on(self, regarding: Object, text: EventText) -> None:
        self.said.append(f"{text.reason} {regarding.metadata.name}: {text.note}")

    def malformed_object(self, kind: str) -> None:
        self.said.append(f"malformed {kind}")

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        self.spawned.append(work)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.said.append(f"in {seconds:g} s")
        self.timers.append((seconds, call))


class NodeSearch:
    """What a scheduling cycle does until it has a node, without a scheduler around it."""

    def __init__(self, cache: Cache, nominator: Nominator, random: random.Random) -> None:
        switches, nothing = DebugSwitches(Flags()), LogQueue("", 0, 0, RealClock())
        explanations: Any = SimpleNamespace(switches=switches, decisions=DecisionLog(switches, cache, nothing), attempts=None)
        context: Any = SimpleNamespace(cache=cache, random=random, queue=SimpleNamespace(nominator=nominator), metrics=Metrics())
        failures: Any = None
        self._cycle = Cycle(context, failures, LivePods({}, {}), explanations=explanations)

    def find(self, profile: Profile, pod: PodInfo) -> tuple[CycleState, str | Diagnosis]:
        """Return the cycle's state with the node's name, or with the reasons why there is none."""
        info: Any = None
        attempt = Attempt(info, pod, profile, 0.0)
        found = self._cycle.find_for_owner(attempt) if profile.shapes.have_owners else self._cycle.find_node(attempt)
        assert not isinstance(found, ExtenderQuestion)
        return attempt.state.clone(), found


class World(RecordedActions):
    """A cache and the profiles of a configuration on it."""

    cluster: Cluster
    waiting_pods: WaitingPods

    def __init__(self, setup: Setup | None = None, cache: Cache | None = None) -> None:
        super().__init__(cache or Cache())
        config, environment, registry = setup or Setup()
        self.cluster = NoCluster()  # type: ignore[assignment]
        self.clock: Clock = RealClock()
        self.random = random.Random(1)
        self.waiting_pods = WaitingPods()
        self.extenders: PreemptionExtenders | None = None
        self.gates = FeatureGates()
        self.informers = Informers(self.cluster, self.clock, self.random)
        loaded = load_config_text(config, environment)
        percentage = loaded.percentage_of_nodes_to_score
        self.profiles = [Profile(profile, registry, self, percentage_of_nodes_to_score=percentage) for profile in loaded.profiles]
        self.profile = self.profiles[0]
        self.search = NodeSearch(self.cache, self.nominator, self.random)

    @property
    def columns(self) -> Columns:
        return self.cache.columns

    def informer(self, kind: Kind, field_selector: str = "") -> Informer[Any]:
        return self.informers.of(kind, field_selector)

    def simulation(self, pod: PodInfo) -> NodeSimulation:
        return self.profile.shapes.simulation_for(self.signed(pod))

    def follow_reserve_pods(self, handler: Any) -> None:
        """There are no Reservations here."""

    def add_transformer(self, transformer: Transformer) -> None:
        self.informers.add_transformer(transformer)

    def signed(self, pod: PodInfo) -> PodInfo:
        """Give the pod its shape."""
        pod.shape = self.profile.shapes.key(pod)
        return pod

    def find(self, pod: PodInfo) -> str | Diagnosis:
        """Return the node for the pod, or why there is none."""
        return self.search.find(self.profile, self.signed(pod) if pod.shape is None else pod)[1]

    def place(self, pod: PodInfo) -> str:
        """Find a node and assume the pod there; LookupError with the message when there is none."""
        found = self.find(pod)
        if isinstance(found, Diagnosis):
            raise LookupError(found.message)
        self.cache.assume_pod(pod, found)
        return found
