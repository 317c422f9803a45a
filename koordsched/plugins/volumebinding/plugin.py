"""VolumeBinding: Filter by what the pod's claims can be given on a node, Reserve promises it, PreBind writes it and waits for it.

Reference: plugins/volumebinding/volume_binding.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.change import Change
from koordsched.framework.interface import (
    FilterNodesPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScoreNodesPlugin,
)
from koordsched.framework.status import SKIP, Status, error, unresolvable
from koordsched.plugins.volumebinding.binding import BindingError, VolumeBinder
from koordsched.plugins.volumebinding.claims import sort_claims
from koordsched.plugins.volumebinding.hints import EVENTS
from koordsched.plugins.volumebinding.plan import REASONS, Plan
from koordsched.plugins.volumebinding.scoring import CapacityScore
from koordsched.plugins.volumebinding.shared import shared_by

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.args import VolumeBindingArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Scores
    from koordsched.plugins.volumebinding.plan import Choice
    from koordsched.queue.events import EventHint

PLAN = "PreFilterVolumeBinding"
PROMISED = "ReserveVolumeBinding"  # the choices that were promised to this pod

NO_CLAIMS = unresolvable("the pod has no claims")  # only asked for where PreFilter is left out
REFUSED = 16  # the code of a refusal that PreFilter would have told, where the configuration leaves it out

PREDICATE, ASSUME, BIND = "predicate", "assume", "bind"


class VolumeBinding(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin, ReservePlugin, PreBindPlugin):
    name = "VolumeBinding"
    signs = ("volumes",)
    reads = Change.LABELS

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        shared = shared_by(handle)
        self._handle = handle
        self._world = shared.world
        self._binder = VolumeBinder(handle.cluster, handle.clock, shared, args.bind_timeout_seconds)
        self._scoring = CapacityScore(args.shape) if args.shape else None

    def has_version(self, pod: PodInfo) -> bool:
        return pod.volumes is not None

    def version(self, pod: PodInfo) -> Hashable:
        volumes = pod.volumes
        return None if volumes is None else tuple([self._world.version_of(use.key) for use in volumes.claims])

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if pod.volumes is None or not pod.volumes.claims:
            return SKIP
        plan = self._plan(pod)
        if isinstance(plan, Status):
            return plan
        state.write(PLAN, plan)
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        if pod.volumes is None or not pod.volumes.claims:
            return None
        plan: Plan | Status = state.read(PLAN) or self._plan(pod)  # the configuration may leave the plugin out at preFilter
        if isinstance(plan, Status):
            return np.full(len(nodes.rows), REFUSED, np.int32)
        return plan.ask(nodes).codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        if code == REFUSED:
            refusal = self._plan(pod)
            return refusal if isinstance(refusal, Status) else NO_CLAIMS
        return unresolvable(*(text for bit, text in REASONS.items() if code & bit))

    def _plan(self, pod: PodInfo) -> Plan | Status:
        if pod.volumes is None:
            return NO_CLAIMS
        claims = sort_claims(self._world.objects, self._world.supply.assumed, pod.volumes)
        if isinstance(claims, Status):
            if not claims.rejected:
                self._handle.services.volume_stage_failed(PREDICATE)
            return claims
        return Plan(self._world, claims)

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return SKIP if self._scoring is None or state.read(PLAN) is None else None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        plan: Plan | None = state.read(PLAN)
        if self._scoring is None or plan is None:
            return None
        return self._scoring.score(plan, plan.ask(nodes))

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Promise what the waiting claims get on the node."""
        plan: Plan | None = state.read(PLAN)
        if plan is None or not plan.waiting:
            return None
        node = self._handle.cache.node(node_name)
        if node is None:
            return error(f'node "{node_name}" not found')
        choices = plan.choices(plan.ask(self._handle.cache.select(np.array([node.row], np.int32))), 0)
        state.write(PROMISED, choices)
        try:
            for choice in choices:
                self._promise(choice, node_name, pod.uid)
        except ValueError as problem:
            self._handle.services.volume_stage_failed(ASSUME)
            return error(str(problem))
        return None

    def _promise(self, choice: Choice, node_name: str, holder: str) -> None:
        assumed = self._world.supply.assumed
        if choice.volume is None:
            assumed.promise_node(choice.delayed.key, node_name, holder)
        else:
            assumed.promise_volume(choice.volume.metadata.name, choice.delayed.key, holder)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Give back what was promised to this pod. What was written stays written."""
        promised: list[Choice] | None = state.read(PROMISED)
        if promised is None:
            return
        assumed = self._world.supply.assumed
        for choice in promised:
            if choice.volume is None:
                assumed.release_node(choice.delayed.key, pod.uid)
            else:
                assumed.release_volume(choice.volume.metadata.name, pod.uid)

    # PreBind

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return SKIP if state.read(PROMISED) is None else None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind the claims; what was promised is then on the cluster."""
        promised: list[Choice] | None = state.read(PROMISED)
        if promised is None:
            return None
        try:
            await self._binder.bind(promised, pod, node_name)
        except BindingError as problem:
            self._handle.services.volume_stage_failed(BIND)
            return error(str(problem))
        self.unreserve(state, pod, node_name)
        return None

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        return EVENTS
