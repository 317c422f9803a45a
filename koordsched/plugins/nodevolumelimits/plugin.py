"""NodeVolumeLimits: Filter refuses nodes whose CSI drivers cannot attach the pod's volumes too.

A volume counts once on its node, whether pods use it or it is (still) attached; one of the pod's own that is there already counts no more.
Reference: plugins/nodevolumelimits/csi.go of Kubernetes v1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordsched._core.change import NodeChange
from koordsched.api.storage import CSINode, VolumeAttachment
from koordsched.framework.interface import FilterNodesPlugin, PreFilterPlugin
from koordsched.framework.status import SKIP, Status, unresolvable, unschedulable
from koordsched.framework.volumes import claim_not_found, had_a_place, hint_own_claim, volumes_of
from koordsched.plugins.nodevolumelimits.csi_volumes import csi_disk, resolve_claim
from koordsched.plugins.nodevolumelimits.state import AttachedVolumes, limits_of
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.volumes import PodVolumes
    from koordsched.cache.nodes import Nodes
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle
    from koordsched.framework.interface import Codes
    from koordsched.plugins.nodevolumelimits.csi_volumes import CSIVolume

EXCEEDED = unschedulable("node(s) exceed max volume count")

BY_LIMIT = 1  # reason codes
BY_MISSING_CLAIM = 2


class Wanted(msgspec.Struct, frozen=True):
    """The volumes that a pod needs attached, each once, or the claim that is missing."""

    volumes: frozenset[CSIVolume]
    missing: str = ""


NONE_WANTED = Wanted(frozenset())


class NodeVolumeLimits(PreFilterPlugin, FilterNodesPlugin):
    name = "NodeVolumeLimits"
    signs = ("volumes",)

    def __init__(self, handle: Handle) -> None:
        self._state = AttachedVolumes(handle)
        self.reads = NodeChange.USAGE | self._state.change

    def has_version(self, pod: PodInfo) -> bool:
        return pod.volumes is not None

    def version(self, pod: PodInfo) -> Hashable:
        volumes = pod.volumes
        return None if volumes is None else self._wanted(volumes)

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        volumes = pod.volumes
        if volumes is None or not (volumes.claims or _attachable(volumes)):
            return SKIP
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Nodes) -> Codes | None:
        wanted = NONE_WANTED if pod.volumes is None else self._wanted(pod.volumes)
        if wanted.missing:
            return np.full(len(nodes.rows), BY_MISSING_CLAIM, np.int32)
        if not wanted.volumes:
            return None
        names = nodes.table.attributes_of(nodes.columns.name_column.attribute, nodes.rows)
        codes = np.zeros(len(nodes.rows), np.int32)
        for driver in {volume[0] for volume in wanted.volumes}:
            exceeded = self._state.counts.exceeded(driver, [volume for volume in wanted.volumes if volume[0] == driver], names)
            if exceeded is not None:
                codes[exceeded] = BY_LIMIT
        return codes

    def explain(self, state: CycleState, pod: PodInfo, code: int) -> Status:
        if code == BY_MISSING_CLAIM and pod.volumes is not None:
            return unresolvable(self._wanted(pod.volumes).missing)
        return EXCEEDED

    def _wanted(self, volumes: PodVolumes) -> Wanted:
        """O(claims and disks)."""
        found = set(_attachable(volumes))
        for use in volumes.claims:
            if use.key not in self._state.objects.claims:
                return Wanted(frozenset(), f"looking up PVC {use.key}: {claim_not_found(use.name)}")
            volume = resolve_claim(self._state.objects, use.key).volume
            if volume is not None:
                found.add(volume)
        return Wanted(frozenset(found))

    # Events

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(cluster_event(EventResource.CSI_NODE, ActionType.ADD | ActionType.UPDATE_OTHER), _after_csi_node_change),
            EventHint(cluster_event(EventResource.POD, ActionType.DELETE), _after_pod_delete),
            EventHint(cluster_event(EventResource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD), hint_own_claim),
            EventHint(cluster_event(EventResource.VOLUME_ATTACHMENT, ActionType.DELETE), _after_detach),
        )


def _attachable(volumes: PodVolumes) -> list[CSIVolume]:
    """Return the pod's own disks that a CSI driver attaches."""
    return [volume for disk in volumes.disks if (volume := csi_disk(disk)) is not None]


def _after_csi_node_change(_pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue for a new CSINode, and for one where a driver can attach more than before."""
    assert isinstance(new, CSINode)
    if not isinstance(old, CSINode):
        return QueueingHint.QUEUE
    before, now = limits_of(old), limits_of(new)
    # A driver that lost its limit can attach any number; the reference misses that.
    raised = any(name not in now or now[name] > limit for name, limit in before.items())
    return QueueingHint.QUEUE if raised else QueueingHint.SKIP


def _after_pod_delete(_pod: PodInfo, old: Object | None, _new: Object | None) -> QueueingHint:
    """Queue when the pod that went away had a place and volumes that may have been attached there."""
    freed = volumes_of(old)
    helps = freed is not None and had_a_place(old) and bool(freed.claims or _attachable(freed))
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _after_detach(pod: PodInfo, old: Object | None, _new: Object | None) -> QueueingHint:
    """Queue when the waiting pod has a claim, or a disk that the same driver attaches."""
    assert isinstance(old, VolumeAttachment)
    volumes = pod.volumes
    if volumes is None:
        return QueueingHint.SKIP
    helps = bool(volumes.claims) or any(volume[0] == old.spec.attacher for volume in _attachable(volumes))
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
