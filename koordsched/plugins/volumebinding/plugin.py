"""VolumeBinding: Filter refuses nodes where the pod's claims cannot be bound, Reserve assumes the bindings, PreBind makes them.

Reference: plugins/volumebinding/volume_binding.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.change import NodeChange
from koordsched.api.quantity import QuantityError
from koordsched.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from koordsched.framework.interface import (
    FilterNodesPlugin,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScoreNodesPlugin,
)
from koordsched.framework.status import SKIP, Status, error, unresolvable
from koordsched.framework.volumes import hint_own_claim
from koordsched.plugins.volumebinding.binding import BindingError, VolumeBinder
from koordsched.plugins.volumebinding.claims import classify_claims
from koordsched.plugins.volumebinding.filtering import REASONS, CompiledClaims
from koordsched.plugins.volumebinding.inventory import storage_limit
from koordsched.plugins.volumebinding.scoring import CapacityScore
from koordsched.plugins.volumebinding.state import state_of
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import Nodes
    from koordsched.config.args import VolumeBindingArgs
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes, Scores
    from koordsched.plugins.volumebinding.filtering import BindingDecision

COMPILED = "PreFilterVolumeBinding"
ASSUMED = "ReserveVolumeBinding"  # the decisions that were assumed for this pod


PREDICATE, ASSUME, BIND = "predicate", "assume", "bind"

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

CHANGED = ActionType.ADD | ActionType.UPDATE_OTHER


class VolumeBinding(PreFilterPlugin, FilterNodesPlugin, PreScorePlugin, ScoreNodesPlugin, ReservePlugin, PreBindPlugin):
    name = "VolumeBinding"
    signs = ("volumes",)
    reads = NodeChange.LABELS

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        self._handle = handle
        self._state = state_of(handle)
        self._binder = VolumeBinder(handle.cluster, handle.clock, self._state, args.bind_timeout_seconds)
        self._scoring = CapacityScore(args.shape) if args.shape else None

    def has_version(self, pod: PodInfo) -> bool:
        return pod.volumes is not None

    def version(self, pod: PodInfo) -> Hashable:
        volumes = pod.volumes
        return None if volumes is None else tuple([self._state.version_of(use.key) for use in volumes.claims])

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if pod.volumes is None or not pod.volumes.claims:
            return SKIP
        claims = classify_claims(self._state.objects, self._state.inventory.assumed, pod.volumes)
        if isinstance(claims, Status):
            if not claims.rejected:
                self._handle.volume_stage_failed(PREDICATE)
            return claims
        state.write(COMPILED, CompiledClaims(self._state, claims))
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes:
        compiled: CompiledClaims = state.read(COMPILED)
        return compiled.evaluate(nodes).codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return unresolvable(*(text for bit, text in REASONS.items() if code & bit))

    # Score

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        return SKIP if self._scoring is None or state.read(COMPILED) is None else None

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Scores | None:
        compiled: CompiledClaims | None = state.read(COMPILED)
        if self._scoring is None or compiled is None:
            return None
        return self._scoring.score(compiled, compiled.evaluate(nodes))

    # Reserve

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Assume what the delayed claims get on the node."""
        compiled: CompiledClaims | None = state.read(COMPILED)
        if compiled is None or not compiled.delayed:
            return None
        node = self._handle.cache.node(node_name)
        if node is None:
            return error(f'node "{node_name}" not found')
        decisions = compiled.decisions(compiled.evaluate(self._handle.cache.select(np.array([node.row], np.int32))), 0)
        state.write(ASSUMED, decisions)
        assumed = self._state.inventory.assumed
        try:
            for decision in decisions:
                if decision.volume is None:
                    assumed.assume_node(decision.claim.key, node_name, pod.uid)
                else:
                    assumed.assume_volume(decision.volume.metadata.name, decision.claim.key, pod.uid)
        except ValueError as problem:
            self._handle.volume_stage_failed(ASSUME)
            return error(str(problem))
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Release what was assumed for this pod. What was written stays written."""
        decisions: list[BindingDecision] | None = state.read(ASSUMED)
        for decision in decisions or ():
            if decision.volume is None:
                self._state.inventory.assumed.release_node(decision.claim.key, pod.uid)
            else:
                self._state.inventory.assumed.release_volume(decision.volume.metadata.name, pod.uid)

    # PreBind

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        return SKIP if state.read(ASSUMED) is None else None

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        """Bind the claims; the cluster then shows what was assumed."""
        decisions: list[BindingDecision] | None = state.read(ASSUMED)
        if decisions is None:
            return None
        try:
            await self._binder.bind(decisions, pod, node_name)
        except BindingError as problem:
            self._handle.volume_stage_failed(BIND)
            return error(str(problem))
        self.unreserve(state, pod, node_name)
        return None

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        return EVENTS


def _hint(*, helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _after_class_change(_pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue for a new class, and for one that can make volumes elsewhere now."""
    assert isinstance(new, StorageClass)
    return _hint(helps=not isinstance(old, StorageClass) or old.allowed_topologies != new.allowed_topologies)


def _after_csi_node_change(_pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue for a new CSINode, and for one whose node has other in-tree plugins migrated."""
    assert isinstance(new, CSINode)
    before = old.metadata.annotations.get(MIGRATED_PLUGINS) if isinstance(old, CSINode) else None
    return _hint(helps=old is None or before != new.metadata.annotations.get(MIGRATED_PLUGINS))


def _after_driver_change(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue when a driver that may make a volume of the pod's no longer counts its storage.

    Kubernetes v1.35 looks at inline volumes only, though storage is counted for claims, and not at drivers that go.
    """
    assert isinstance(old, CSIDriver)
    mine = pod.volumes is not None and (bool(pod.volumes.claims) or old.metadata.name in pod.volumes.drivers)
    counts = isinstance(new, CSIDriver) and new.spec.storage_capacity
    return _hint(helps=mine and old.spec.storage_capacity and not counts)


def _after_capacity_change(_pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue for new storage, and where larger volumes can be made than before."""
    assert isinstance(new, CSIStorageCapacity)
    if not isinstance(old, CSIStorageCapacity):
        return QueueingHint.QUEUE
    before, now = _limit(old), _limit(new)
    return _hint(helps=now is not None and (before is None or now > before))


def _limit(capacity: CSIStorageCapacity) -> int | None:
    try:
        return storage_limit(capacity)
    except QuantityError:
        return None


EVENTS = (
    EventHint(cluster_event(EventResource.STORAGE_CLASS, CHANGED), _after_class_change),
    EventHint(cluster_event(EventResource.PERSISTENT_VOLUME_CLAIM, CHANGED), hint_own_claim),
    EventHint(cluster_event(EventResource.PERSISTENT_VOLUME, CHANGED)),
    EventHint(cluster_event(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
    EventHint(cluster_event(EventResource.CSI_NODE, CHANGED), _after_csi_node_change),
    EventHint(cluster_event(EventResource.CSI_DRIVER, ActionType.UPDATE_OTHER | ActionType.DELETE), _after_driver_change),
    EventHint(cluster_event(EventResource.CSI_STORAGE_CAPACITY, CHANGED), _after_capacity_change),
)
