"""A plugin among nodes: `PluginBench(node("n1").cpu("4"))` answers for each node by name what the plugin says of a pod."""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from koordsched.api.kinds import NODE
from koordsched.cache.cache import Cache
from koordsched.clock import Clock, RealClock
from koordsched.cluster.port import ADDED, DELETED, WatchEvent
from koordsched.config.features import FeatureGates
from koordsched.framework.cycle_state import CycleState
from koordsched.framework.interface import PreFilterPlugin, PreFilterResult, PreScorePlugin
from koordsched.framework.status import Code, Status
from koordsched.framework.waiting import WaitingPods
from koordsched.scheduler.context import Informers
from support.world import RecordedActions

if TYPE_CHECKING:
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.cache.columns import Columns
    from koordsched.cluster.informer import Informer
    from koordsched.framework.interface import FilterNodesPlugin, Plugin, ScoreNodesPlugin
    from koordsched.framework.transformers import Transformer
    from koordsched.queue.events import EventHint, QueueingHint
    from support.builders import NodeBuilder, PodBuilder

ENTRY_REASONS = tuple[str, ...]
VERSIONS = count(1)


class PluginBench(RecordedActions):
    """A cache with nodes and pods, and a handle for plugins (`koordsched.framework.handle.Handle`)."""

    def __init__(self, *nodes: NodeBuilder, cluster: Any = None) -> None:
        super().__init__(Cache())
        self.cluster = cluster
        self.random = random.Random(1)
        self.clock: Clock = RealClock()
        self.waiting_pods = WaitingPods()
        self.extenders: Any = None
        self.gates = FeatureGates()
        self.informers = Informers(cluster, self.clock, self.random)
        for builder in nodes:
            self.set(builder)

    @property
    def columns(self) -> Columns:
        return self.cache.columns

    def informer(self, kind: Kind, field_selector: str = "") -> Informer[Any]:
        return self.informers.of(kind, field_selector)

    def follow_reserve_pods(self, handler: Any) -> None:
        """There are no Reservations here."""

    def add_transformer(self, transformer: Transformer) -> None:
        self.informers.add_transformer(transformer)

    def set(self, builder: NodeBuilder) -> None:
        """Add the node, or change the one of that name."""
        self.cache.set_node(builder.build())

    def put(self, builder: PodBuilder, node_name: str) -> None:
        """Let the pod run on the node."""
        self.cache.set_pod(builder.on(node_name).info(counted_on_node=True), node_name)

    def pre_filter(self, plugin: PreFilterPlugin, pod: PodBuilder) -> PreFilterResult | Status | None:
        return plugin.pre_filter(CycleState(), pod.info(), self.cache.nodes())

    def filter(self, plugin: FilterNodesPlugin, pod: PodBuilder, state: CycleState | None = None) -> dict[str, Status | None]:
        """Return the plugin's refusal of each node, None where it passes; all None when PreFilter skips. A state of one's own skips it."""
        info, nodes = pod.info(), self.cache.nodes()
        if state is None:
            state = CycleState()
            answer = plugin.pre_filter(state, info, nodes) if isinstance(plugin, PreFilterPlugin) else None
            if isinstance(answer, Status):
                assert answer.code is Code.SKIP, answer
                return dict.fromkeys(self._names())
        refused = plugin.filter_nodes(state, info, nodes)
        codes = [0] * len(nodes) if refused is None else refused.tolist()
        return {name: plugin.explain(state, info, code) if code else None for name, code in zip(self._names(), codes, strict=True)}

    def reasons(self, plugin: FilterNodesPlugin, pod: PodBuilder) -> dict[str, ENTRY_REASONS]:
        """Return the reasons of each node, () where it passes."""
        return {name: status.reasons if status else () for name, status in self.filter(plugin, pod).items()}

    def passing(self, plugin: FilterNodesPlugin, pod: PodBuilder) -> list[str]:
        """Return the nodes that the plugin lets the pod go to."""
        return [name for name, status in self.filter(plugin, pod).items() if status is None]

    def score(self, plugin: ScoreNodesPlugin, pod: PodBuilder, state: CycleState | None = None) -> dict[str, int] | None:
        """Return the raw score of each node; None when PreScore skips. A state of one's own leaves PreScore out."""
        info, nodes = pod.info(), self.cache.nodes()
        if state is None:
            state = CycleState()
            if isinstance(plugin, PreScorePlugin) and plugin.pre_score(state, info, nodes) is not None:
                return None
        scores = plugin.score_nodes(state, info, nodes)
        return dict(zip(self._names(), [0] * len(nodes) if scores is None else scores.tolist(), strict=True))

    def _names(self) -> list[str]:
        nodes = self.cache.nodes()
        return [nodes.info(row).name for row in nodes.rows.tolist()]


def registered(plugin: Plugin) -> list[EventHint]:
    events = plugin.events_to_register()
    assert events is not None
    return list(events)


def hint(plugin: Plugin, index: int, pod: PodBuilder, old: Object | None, new: Object | None) -> QueueingHint:
    """Return what the plugin's index-th registered hint answers."""
    function = registered(plugin)[index].hint
    assert function is not None
    return function(pod.info(), old, new)


class WatchingBench(PluginBench):
    """A plugin bench on which objects come, change and go as watches report it: plugins first, then the cache."""

    def set(self, builder: NodeBuilder) -> None:
        node = builder.build()
        node = replace(node, metadata=replace(node.metadata, resource_version=str(next(VERSIONS))))
        self.came(NODE, node)
        self.cache.set_node(node)

    def remove(self, name: str) -> None:
        """Let the node be deleted."""
        self.went(NODE, name)
        self.cache.remove_node(name)

    def came(self, kind: Kind, obj: Object) -> None:
        """Let an object come, or replace the one of its name."""
        self._apply(kind, WatchEvent(ADDED, obj))

    def went(self, kind: Kind, name: str) -> None:
        """Let an object be deleted."""
        self._apply(kind, WatchEvent(DELETED, self.informer(kind).store[name]))

    def _apply(self, kind: Kind, event: WatchEvent) -> None:
        objects = self.informer(kind)._objects
        objects.apply(event)
        assert not objects.handler_errors
