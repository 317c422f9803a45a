"""NodeNUMAResource: CPUs of their own for pods that need them, and all resources of a pod from as few NUMA nodes as wanted.

Filter and Score are columns (`_core.numa_filter`, `_core.numa_score`) over what `allocations` keeps of every node; the exact CPUs are
worked out in Reserve, for the one node that was chosen. Reference: plugins/nodenumaresource of Koordinator v1.8.0 (nodenumaresource.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.change import Change
from koordsched._core.numa_score import score_numa
from koordsched.api.koordinator.pods import RESOURCE_STATUS
from koordsched.config.extension_points import FILTER
from koordsched.framework.cycle_state import annotate
from koordsched.framework.interface import (
    FilterNodesPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScoreNodesPlugin,
)
from koordsched.framework.routes import Answer, Route, RoutesPlugin, refusal
from koordsched.framework.status import SKIP, PluginError, Status, error
from koordsched.framework.topologymanager import NumaAffinity, NumaHintProvider, merged_status
from koordsched.plugins.nodenumaresource.allocations import numa_state
from koordsched.plugins.nodenumaresource.arguments import settings_of
from koordsched.plugins.nodenumaresource.describe import SERVER_ERROR, describe
from koordsched.plugins.nodenumaresource.filtering import Filtering
from koordsched.plugins.nodenumaresource.hints import GONE, Hints
from koordsched.plugins.nodenumaresource.preparing import Prepared, Preparing, key_of
from koordsched.plugins.nodenumaresource.reasons import MISSING_ZONES
from koordsched.plugins.nodenumaresource.reserving import Allocator, annotations_for

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from koordsched._core.hints import NumaView
    from koordsched._core.numa_facts import Hint, Machine
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo, Nodes
    from koordsched.config.koordinator_args import NodeNUMAResourceArgs
    from koordsched.framework.cycle_state import Annotations, CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Scores
    from koordsched.queue.events import EventHint

PREPARED = "PreFilterNodeNUMAResource"  # the Prepared of pods like this one
RESERVED = "ReserveNodeNUMAResource"  # the annotations of what this pod was given


class NodeNUMAResource(
    PreFilterPlugin,
    FilterNodesPlugin,
    PreScorePlugin,
    ScoreNodesPlugin,
    ReservePlugin,
    PreBindPlugin,
    NumaHintProvider,
    RoutesPlugin,
):
    name = "NodeNUMAResource"
    reads = Change.USAGE | Change.CAPACITY | Change.OBJECT  # what else is known of a node is announced as OBJECT by `allocations`
    takes_time = False

    def __init__(self, args: NodeNUMAResourceArgs, handle: Handle) -> None:
        self._cache = handle.cache
        self._numa = numa_state(handle)
        self._table = self._numa.table
        if args.honor_pod_level_policies:
            self._numa.honour_pod_level()
        self._settings = settings_of(args, handle.columns)
        self._preparing = Preparing(self._settings.default_bind_policy, handle.columns)
        self._allocator = Allocator(self._numa, self._settings, handle.columns)
        self._filtering = Filtering(self._numa, self._allocator)

    def sign(self, pod: PodInfo) -> Hashable:
        return key_of(pod)

    def has_version(self, pod: PodInfo) -> bool:
        prepared = self._preparing.prepare(pod)
        return isinstance(prepared, Prepared) and prepared.modest

    def version(self, pod: PodInfo) -> Hashable:
        """Return whether a pod that asks for nothing itself has to be filtered: because nodes demand something of it."""
        return self._table.demanding > 0

    def has_score_version(self, pod: PodInfo) -> bool:
        return False

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        prepared = self._preparing.prepare(pod)
        if prepared is None:
            return SKIP
        if isinstance(prepared, Status):
            return prepared
        state.write(PREPARED, prepared)
        return SKIP if prepared.modest and not self._table.demanding else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        prepared = self._prepared(state, pod)
        if prepared is None:
            return None
        if not self.topology_manager.others_want(self, pod):
            return self._filtering.codes(prepared, nodes)

        def joint(node: NodeInfo, machine: Machine) -> Status | None:
            answer = self.topology_manager.check(state, pod, node, machine)
            return None if isinstance(answer, NumaAffinity) else answer

        return self._filtering.codes(prepared, nodes, joint)

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        prepared = self._prepared(state, pod)
        assert prepared is not None, "a pod without a demand is refused nowhere"
        return self._filtering.explain(prepared, code)

    def _prepared(self, state: CycleState, pod: PodInfo) -> Prepared | None:
        """Return the pod's demand; the configuration may leave the plugin out at preFilter."""
        found: Prepared | None = state.read(PREPARED)
        if found is not None:
            return found
        prepared = self._preparing.prepare(pod)
        if isinstance(prepared, Status):
            raise PluginError(prepared.with_plugin(self.name), FILTER.label)
        return prepared

    def _refusal(self, pod: PodInfo, node_name: str) -> Status | None:
        """Return why the pod cannot go to one node now, other plugins' hints aside."""
        node, prepared = self._cache.node(node_name), self._preparing.prepare(pod)
        if node is None or prepared is None:
            return GONE
        if isinstance(prepared, Status):
            return prepared
        code = int(self._filtering.codes(prepared, self._cache.select(np.array([node.row], np.int32)))[0])
        return self._filtering.explain(prepared, code) if code else None

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return None if pod.resources.requests else SKIP

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        prepared = self._prepared(state, pod)
        return None if prepared is None else score_numa(self._table, prepared.request, self._settings.scoring, nodes.rows)

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Give the pod its exact part of the node."""
        prepared = self._prepared(state, pod) if pod.resources.requests else None
        if prepared is None or (prepared.modest and not self._table.demanding):
            return None
        terms = self._allocator.terms(prepared, node_name)
        if isinstance(terms, Status):
            return terms
        given = self._allocator.allocate(prepared, terms, lambda view: self._affinity(state, pod, node_name, view))
        if given is None or isinstance(given, Status):
            return given
        state.write(RESERVED, annotations_for(pod, prepared, terms, given))
        self._numa.reserve(node_name, self._allocator.record(pod, prepared, given))
        return None

    def _affinity(self, state: CycleState, pod: PodInfo, node_name: str, view: NumaView) -> int | Status | None:
        if not self.topology_manager.others_want(self, pod):
            merged = view.affinity()
            return merged_status(merged) or merged.mask
        node = self._cache.node(node_name)
        if node is None:
            return error(f'node "{node_name}" not found')
        answer = self.topology_manager.admit(state, pod, node, view.machine)
        return answer.mask if isinstance(answer, NumaAffinity) else answer

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        if state.read(RESERVED) is not None:
            self._numa.release(pod.uid)

    # PreBind

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if state.read(RESERVED) is not None:
            return None
        annotations = pod.pod.metadata.annotations
        return None if annotations and RESOURCE_STATUS in annotations else SKIP

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Note what the pod was given; what an attempt has left whose binding failed is taken away, or it would count as given."""
        reserved: Annotations | None = state.read(RESERVED)
        annotate(state, {RESOURCE_STATUS: None} if reserved is None else reserved)
        return None

    # Hints for the topology manager

    def wants(self, pod: PodInfo) -> bool:
        return bool(pod.resources.requests)

    def hints(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Mapping[str, Sequence[Hint] | None] | Status:
        prepared = self._prepared(state, pod)
        terms = None if prepared is None else self._allocator.terms(prepared, node.name)
        if terms is None or isinstance(terms, Status):
            return terms or {}
        return terms.view.hints() if terms.node.zones else MISSING_ZONES

    def allocate(self, state: CycleState, pod: PodInfo, node: NodeInfo, affinity: NumaAffinity) -> Status | None:
        prepared = self._prepared(state, pod)
        terms = None if prepared is None else self._allocator.terms(prepared, node.name)
        if prepared is None or terms is None or isinstance(terms, Status):
            return terms if isinstance(terms, Status) else None
        given = self._allocator.from_zones(prepared, terms, affinity.mask)
        return given if isinstance(given, Status) else None

    # Events, HTTP

    def events_to_register(self) -> Sequence[EventHint]:
        return Hints(self._refusal).events()

    def routes(self) -> Sequence[Route]:
        return (Route("nodes/:nodeName", self._show),)

    def _show(self, named: Mapping[str, str]) -> Answer:
        name = named["nodeName"]
        if self._cache.node(name) is None:
            return refusal(SERVER_ERROR, f'node "{name}" not found')
        node = self._numa.node(name)
        return describe(node, node.numa_policy(pod_level=self._numa.pod_level))
