"""Keeps the counts in step with the pods on nodes, with attachments, and with the objects that say which volume a claim is.

A *source* is a claim that pods on nodes use, or an attachment: it is on some nodes and resolves to one volume. When an object changes, the
sources that depend on it are resolved again, and rows whose counts differ are marked in the node table.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from koordsched.api.kinds import CSI_NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, VOLUME_ATTACHMENT
from koordsched.cache.plugin_state import PodFollower, with_volumes
from koordsched.cluster.object_store import LatestStateHandler, object_key
from koordsched.framework.volumes import VolumeObjects
from koordsched.plugins.nodevolumelimits.counts import VolumeCounts
from koordsched.plugins.nodevolumelimits.csi_volumes import (
    ATTACHMENT,
    CLAIM,
    CLASS,
    NOTHING,
    VOLUME,
    Dependency,
    Resolved,
    csi_disk,
    resolve_attachment,
    resolve_claim,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from koordsched._core.view import Part
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.storage import CSINode, VolumeAttachment
    from koordsched.api.volumes import PodVolumes
    from koordsched.cache.plugin_state import PodsByRow
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.handle import Handle


class _Source:
    """The nodes that a claim or an attachment is on, how often, and what it was counted as."""

    __slots__ = ("nodes", "resolved")

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.resolved = NOTHING


class AttachedVolumes(PodFollower):
    """Keeps `counts`, and the limits that CSINodes state."""

    def __init__(self, handle: Handle) -> None:
        self.objects = VolumeObjects(handle)
        self.counts = VolumeCounts(handle.columns.name_column.values)
        self._cache = handle.cache
        self.change = handle.cache.change_kinds.register("NodeVolumeLimits")  # with which a node's row is marked
        self._attachments: Mapping[str, VolumeAttachment] = handle.informer(VOLUME_ATTACHMENT).store
        self._sources: dict[Dependency, _Source] = {}
        self._dependents: dict[Dependency, set[Dependency]] = {}  # by object: the sources that resolve by it
        kinds: dict[Kind, str] = {PERSISTENT_VOLUME_CLAIM: CLAIM, PERSISTENT_VOLUME: VOLUME, STORAGE_CLASS: CLASS}
        for kind, name in kinds.items():
            changed = partial(self._object_changed, name)
            handle.informer(kind).add_handler(LatestStateHandler(changed, changed))
        handle.informer(VOLUME_ATTACHMENT).add_handler(_AttachmentHandler(self._attachment_changed))
        handle.informer(CSI_NODE).add_handler(LatestStateHandler(self._set_limits, self._drop_limits))
        handle.cache.follow(self)

    # Pods

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if pod.volumes is not None:
            self._count(pod, pod.volumes, row, 1)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if pod.volumes is not None:
            self._count(pod, pod.volumes, row, -1)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        """Volumes are counted by the names of nodes."""

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        """A pod's volumes never change."""

    def without(self, pods: PodsByRow) -> Iterable[tuple[int, Part]]:
        return super().without(with_volumes(pods))

    def counts_alone(self, pod: PodInfo, row: int) -> bool:
        return pod.volumes is None

    def _count(self, pod: PodInfo, volumes: PodVolumes, row: int, by: int) -> None:
        info = self._cache.infos[row]
        node = pod.pod.spec.node_name if info is None else info.name  # the row of unknown nodes is that of no one of them
        for use in volumes.claims:
            self._add((CLAIM, use.key), node, by)
        for disk in volumes.disks:
            volume = csi_disk(disk)
            if volume is not None:
                self.counts.attach(volume, node, by)

    # Sources

    def _add(self, key: Dependency, node: str, by: int) -> None:
        """Add so many times (less than 0: remove) that the source is on the node."""
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

    def _resolve(self, key: Dependency) -> Resolved:
        if key[0] == CLAIM:
            return resolve_claim(self.objects, key[1])
        attachment = self._attachments.get(key[1])
        return NOTHING if attachment is None else resolve_attachment(self.objects, attachment)

    def _depend(self, key: Dependency, source: _Source, resolved: Resolved) -> None:
        for dependency in source.resolved.dependencies:
            dependents = self._dependents.get(dependency, set())
            dependents.discard(key)
            if not dependents:
                self._dependents.pop(dependency, None)
        for dependency in resolved.dependencies:
            self._dependents.setdefault(dependency, set()).add(key)
        source.resolved = resolved

    # Changes of objects

    def _object_changed(self, kind: str, obj: Object) -> None:
        """Resolve the sources again that depend on the object."""
        for key in tuple(self._dependents.get((kind, object_key(obj)), ())):
            source = self._sources[key]
            before, after = source.resolved.volume, self._resolve(key)
            self._depend(key, source, after)
            if before == after.volume:
                continue
            for node, times in source.nodes.items():
                if before is not None:
                    self.counts.attach(before, node, -times)
                if after.volume is not None:
                    self.counts.attach(after.volume, node, times)
                self._mark(node)

    def _attachment_changed(self, attachment: VolumeAttachment, by: int) -> None:
        self._add((ATTACHMENT, attachment.metadata.name), attachment.spec.node_name, by)
        self._mark(attachment.spec.node_name)

    def _set_limits(self, csi_node: CSINode) -> None:
        if self.counts.set_limits(csi_node.metadata.name, limits_of(csi_node)):
            self._mark(csi_node.metadata.name)

    def _drop_limits(self, csi_node: CSINode) -> None:
        if self.counts.set_limits(csi_node.metadata.name, {}):
            self._mark(csi_node.metadata.name)

    def _mark(self, node: str) -> None:
        info = self._cache.nodes_by_name.get(node)
        if info is not None:
            self._cache.table.mark(info.row, self.change)


def limits_of(csi_node: CSINode) -> dict[str, int]:
    """Return how many volumes each driver can attach there; drivers without a limit are left out."""
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


class _AttachmentHandler:
    """Reports attachments; what one attaches, and to which node, never changes."""

    def __init__(self, changed: Callable[[VolumeAttachment, int], None]) -> None:
        self._changed = changed

    def on_add(self, obj: VolumeAttachment, _arrival: Arrival) -> None:
        self._changed(obj, 1)

    def on_update(self, old: VolumeAttachment, new: VolumeAttachment) -> None:
        """Only its status is new."""

    def on_delete(self, obj: VolumeAttachment, _final_state: FinalState) -> None:
        self._changed(obj, -1)
