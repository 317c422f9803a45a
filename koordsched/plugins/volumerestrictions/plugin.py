"""VolumeRestrictions: Filter refuses nodes where a disk of the pod is in use, and all nodes while its ReadWriteOncePod claim is.

A pod with such a claim never skips, used or not: a pod that is only nominated is added to its node while the filters are asked, and a
skipped filter would not see it (framework.md §5.1). Reference: plugins/volumerestrictions/volume_restrictions.go of Kubernetes v1.35.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from koordsched._core.change import NodeChange
from koordsched.api.volumes import READ_WRITE_ONCE_POD
from koordsched.framework.interface import FilterNodesPlugin, PreFilterPlugin
from koordsched.framework.status import SKIP, Status, unresolvable, unschedulable
from koordsched.framework.volumes import VolumeObjects, claim_not_found, hint_own_claim, volumes_of
from koordsched.plugins.volumerestrictions.state import VolumeUsers, conflict, pod_mounts
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.volumes import ClaimUse
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes

DISK_CONFLICT = unschedulable("node(s) had no available disk")
CLAIM_IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

BY_DISK = 1  # reason codes
BY_CLAIM = 2


class ClaimState(IntEnum):
    """What matters of a claim here."""

    MISSING = 0
    SHARED = 1
    FREE = 2  # ReadWriteOncePod, and no pod has it
    IN_USE = 3


class VolumeRestrictions(PreFilterPlugin, FilterNodesPlugin):
    name = "VolumeRestrictions"
    signs = ("volumes",)
    reads = NodeChange.USAGE

    def __init__(self, handle: Handle) -> None:
        self._claims = VolumeObjects(handle).claims
        self._users = VolumeUsers()
        handle.cache.follow(self._users)

    def has_version(self, pod: PodInfo) -> bool:
        return pod.volumes is not None

    def version(self, pod: PodInfo) -> Hashable:
        volumes = pod.volumes
        return None if volumes is None else tuple([self._state_of(use) for use in volumes.claims])

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        volumes = pod.volumes
        if volumes is None:
            return SKIP
        states = [self._state_of(use) for use in volumes.claims]
        for use, found in zip(volumes.claims, states, strict=True):
            if found is ClaimState.MISSING and not use.is_ephemeral:
                return unresolvable(claim_not_found(use.name))
        restricted = max(states, default=ClaimState.MISSING) >= ClaimState.FREE
        return None if restricted or pod_mounts(volumes) else SKIP

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        volumes = pod.volumes
        if volumes is None:
            return None
        in_use = any(self._state_of(use) is ClaimState.IN_USE for use in volumes.claims)
        codes = np.full(len(nodes.rows), BY_CLAIM if in_use else 0, np.int32)
        codes[np.isin(nodes.rows, self._users.conflicting_rows(pod_mounts(volumes)))] = BY_DISK
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        return DISK_CONFLICT if code == BY_DISK else CLAIM_IN_USE

    def _state_of(self, use: ClaimUse) -> ClaimState:
        claim = self._claims.get(use.key)
        if claim is None:
            return ClaimState.MISSING
        if READ_WRITE_ONCE_POD not in claim.spec.access_modes:
            return ClaimState.SHARED
        return ClaimState.IN_USE if self._users.claims.get(use.key) else ClaimState.FREE

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(cluster_event(EventResource.POD, ActionType.DELETE), _after_pod_delete),
            EventHint(cluster_event(EventResource.NODE, ActionType.ADD)),
            EventHint(cluster_event(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD), hint_own_claim),
        )


def _after_pod_delete(pod: PodInfo, old: Object | None, _new: Object | None) -> QueueingHint:
    """Queue when the pod that went away held a disk that the waiting pod wants, in whatever namespace, or one of its claims."""
    freed, wanted = volumes_of(old), pod.volumes
    if freed is None or wanted is None:
        return QueueingHint.SKIP
    helps = conflict(pod_mounts(wanted), pod_mounts(freed)) or any(wanted.uses_claim(use.key) for use in freed.claims)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
