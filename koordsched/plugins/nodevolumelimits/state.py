"""Keeps the counts true: to the pods that are counted on nodes, to attachments, and to the objects that say which volume a claim is.

A *source* is a claim that counted pods use, or an attachment: it stands on some nodes and resolves to one volume. When an object changes,
the sources that depend on it are resolved anew, and rows whose counts differ are marked in the node table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched._core.change import Change
from koordsched.api.kinds import CSI_NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, VOLUME_ATTACHMENT
from koordsched.cluster.mirror import object_key
from koordsched.framework.volumes import VolumeObjects
from koordsched.plugins.nodevolumelimits.counts import VolumeCounts
from koordsched.plugins.nodevolumelimits.migration import attached_disk
from koordsched.plugins.nodevolumelimits.resolving import (
    ATTACHMENT,
    CLAIM,
    CLASS,
    NOTHING,
    VOLUME,
    Cause,
    Resolved,
    resolve_attachment,
    resolve_claim,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.storage import CSINode, VolumeAttachment
    from koordsched.api.volumes import PodVolumes
    from koordsched.cluster.mirror import Arrival, FinalState
    from koordsched.framework.handle import Handle

OBJECT = int(Change.OBJECT)


class _Source:
    """Where a claim or an attachment is, how often, and what it was counted as."""

    __slots__ = ("nodes", "resolved")

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.resolved = NOTHING


class AttachedVolumes:
    """A `PodFollower` that keeps `counts`, and the limits that CSINodes state."""

    def __init__(self, handle: Handle) -> None:
        self.objects = VolumeObjects(handle)
        self.counts = VolumeCounts(handle.columns.name_column.values)
        self._cache = handle.cache
        self._attachments: Mapping[str, VolumeAttachment] = handle.informer(VOLUME_ATTACHMENT).store
        self._sources: dict[Cause, _Source] = {}
        self._dependents: dict[Cause, set[Cause]] = {}  # by object: the sources that resolve by it
        self._follow(handle)

    def _follow(self, handle: Handle) -> None:
        kinds: dict[Kind, str] = {PERSISTENT_VOLUME_CLAIM: CLAIM, PERSISTENT_VOLUME: VOLUME, STORAGE_CLASS: CLASS}
        for kind, name in kinds.items():
            handle.informer(kind).add_handler(_Changes(name, self._changed))
        handle.informer(VOLUME_ATTACHMENT).add_handler(_Attachments(self._place_attachment))
        handle.informer(CSI_NODE).add_handler(_Limits(self._set_limits))
        handle.cache.follow(self)

    # Pods

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if pod.volumes is not None:
            self._count(pod.volumes, row, 1)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if pod.volumes is not None:
            self._count(pod.volumes, row, -1)

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        """A pod's volumes never change."""

    def _count(self, volumes: PodVolumes, row: int, by: int) -> None:
        info = self._cache.infos[row]
        if info is None:
            raise LookupError(f"a pod was counted on row {row}, which holds no node")
        for use in volumes.claims:
            self._place((CLAIM, use.key), info.name, by)
        for disk in volumes.disks:
            volume = attached_disk(disk)
            if volume is not None:
                self.counts.attach(volume, info.name, by)

    # Sources

    def _place(self, key: Cause, node: str, by: int) -> None:
        """Let the source be on the node so many times more (less than 0: less)."""
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = _Source()
            self._depend(key, source, self._resolve(key))
        after = source.nodes.get(node, 0) + by
        if after:
            source.nodes[node] = after
        else:
            source.nodes.pop(node, None)
        if source.resolved.volume is not None:
            self.counts.attach(source.resolved.volume, node, by)
        if not source.nodes:
            self._depend(key, source, NOTHING)
            del self._sources[key]

    def _resolve(self, key: Cause) -> Resolved:
        if key[0] == CLAIM:
            return resolve_claim(self.objects, key[1])
        attachment = self._attachments.get(key[1])
        return NOTHING if attachment is None else resolve_attachment(self.objects, attachment)

    def _depend(self, key: Cause, source: _Source, resolved: Resolved) -> None:
        for cause in source.resolved.causes:
            dependents = self._dependents.get(cause, set())
            dependents.discard(key)
            if not dependents:
                self._dependents.pop(cause, None)
        for cause in resolved.causes:
            self._dependents.setdefault(cause, set()).add(key)
        source.resolved = resolved

    # Changes of objects

    def _changed(self, cause: Cause) -> None:
        """Resolve anew what depends on the object."""
        for key in tuple(self._dependents.get(cause, ())):
            self._resolve_anew(key, self._sources[key])

    def _resolve_anew(self, key: Cause, source: _Source) -> None:
        before, after = source.resolved.volume, self._resolve(key)
        self._depend(key, source, after)
        if before == after.volume:
            return
        for node, times in source.nodes.items():
            if before is not None:
                self.counts.attach(before, node, -times)
            if after.volume is not None:
                self.counts.attach(after.volume, node, times)
            self._mark(node)

    def _place_attachment(self, attachment: VolumeAttachment, by: int) -> None:
        self._place((ATTACHMENT, attachment.metadata.name), attachment.spec.node_name, by)
        self._mark(attachment.spec.node_name)

    def _set_limits(self, csi_node: CSINode, *, present: bool) -> None:
        if self.counts.set_limits(csi_node.metadata.name, limits_of(csi_node) if present else {}):
            self._mark(csi_node.metadata.name)

    def _mark(self, node: str) -> None:
        info = self._cache.nodes_by_name.get(node)
        if info is not None:
            self._cache.table.mark(info.row, OBJECT)


def limits_of(csi_node: CSINode) -> dict[str, int]:
    """Return how many volumes each driver can attach there; drivers without a limit are left out."""
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


class _Changes:
    """Names every object that came, changed or went."""

    def __init__(self, kind: str, changed: Callable[[Cause], None]) -> None:
        self._kind = kind
        self._changed = changed

    def on_add(self, obj: Object, _arrival: Arrival) -> None:
        self._changed((self._kind, object_key(obj)))

    def on_update(self, _old: Object, new: Object) -> None:
        self._changed((self._kind, object_key(new)))

    def on_delete(self, obj: Object, _final_state: FinalState) -> None:
        self._changed((self._kind, object_key(obj)))


class _Attachments:
    """Attachments come and go; what one attaches, and to which node, never changes."""

    def __init__(self, place: Callable[[VolumeAttachment, int], None]) -> None:
        self._place = place

    def on_add(self, obj: VolumeAttachment, _arrival: Arrival) -> None:
        self._place(obj, 1)

    def on_update(self, old: VolumeAttachment, new: VolumeAttachment) -> None:
        """Only its status is new."""

    def on_delete(self, obj: VolumeAttachment, _final_state: FinalState) -> None:
        self._place(obj, -1)


class _Limits:
    """Takes the limits from CSINodes."""

    def __init__(self, set_limits: Callable[..., None]) -> None:
        self._set = set_limits

    def on_add(self, obj: CSINode, _arrival: Arrival) -> None:
        self._set(obj, present=True)

    def on_update(self, _old: CSINode, new: CSINode) -> None:
        self._set(new, present=True)

    def on_delete(self, obj: CSINode, _final_state: FinalState) -> None:
        self._set(obj, present=False)
