"""Which disks and claims the counted pods use, and on which rows: kept by pod events, so that Filter looks up and never searches."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from koordsched.api.core import AWSElasticBlockStore, GCEPersistentDisk, ISCSIVolume, RBDVolume
from koordsched.cache.plugin_state import PodFollower, with_volumes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from koordsched._core.view import Part
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.volumes import Disk, PodVolumes
    from koordsched.cache.plugin_state import PodsByRow

K = TypeVar("K")


class Mount(msgspec.Struct, frozen=True):
    """A disk as one pod uses it. Two mounts of one disk conflict unless both only read."""

    disk: tuple[str, ...]
    read_only: bool


def mounts(disk: Disk) -> Iterator[Mount]:
    """Yield what the disk can conflict over: an RBD image once for each monitor; nothing for disks that any number of pods may use."""
    if isinstance(disk, GCEPersistentDisk):
        yield Mount(("gce", disk.pd_name), disk.read_only)
    elif isinstance(disk, AWSElasticBlockStore):
        yield Mount(("ebs", disk.volume_id), read_only=False)  # conflicts however it is mounted
    elif isinstance(disk, ISCSIVolume):
        yield Mount(("iscsi", disk.iqn), disk.read_only)
    elif isinstance(disk, RBDVolume):
        for monitor in disk.monitors:
            yield Mount(("rbd", monitor, disk.pool, disk.image), disk.read_only)


def pod_mounts(volumes: PodVolumes) -> frozenset[Mount]:
    return frozenset(mount for disk in volumes.disks for mount in mounts(disk))


def conflict(wanted: frozenset[Mount], held: frozenset[Mount]) -> bool:
    """Answer whether some disk is in both, and not only read in both."""
    return any(one.disk == other.disk and not (one.read_only and other.read_only) for one in wanted for other in held)


class VolumeUsers(PodFollower):
    """Knows where which disk is mounted, and how many pods use each claim."""

    def __init__(self) -> None:
        self.claims: Counter[str] = Counter()  # pods by the key of a claim that they use
        self._rows: dict[Mount, dict[int, int]] = {}  # by mount: row -> mounts there

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if pod.volumes is not None:
            self._count(pod.volumes, row, 1)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if pod.volumes is not None:
            self._count(pod.volumes, row, -1)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        self.pod_removed(pod, old_row)
        self.pod_added(pod, row)

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        """A pod's volumes never change."""

    def without(self, pods: PodsByRow) -> Iterable[tuple[int, Part]]:
        return super().without(with_volumes(pods))

    def counts_alone(self, pod: PodInfo, row: int) -> bool:
        return pod.volumes is None

    def conflicting_rows(self, wanted: frozenset[Mount]) -> NDArray[np.int32]:
        """Return the rows where some pod holds one of the disks in a way that conflicts. O(such rows)."""
        found: set[int] = set()
        for mount in wanted:
            found.update(self._rows.get(Mount(mount.disk, read_only=False), ()))
            if not mount.read_only:
                found.update(self._rows.get(Mount(mount.disk, read_only=True), ()))
        return np.fromiter(found, np.int32, len(found))

    def _count(self, volumes: PodVolumes, row: int, by: int) -> None:
        for claim in volumes.claims:
            _add(self.claims, claim.key, by)
        for mount in pod_mounts(volumes):
            rows = self._rows.setdefault(mount, {})
            _add(rows, row, by)
            if not rows:
                del self._rows[mount]


def _add(counts: dict[K, int], key: K, by: int) -> None:
    """Count, and drop what is no longer used."""
    total = counts.get(key, 0) + by
    if total:
        counts[key] = total
    else:
        counts.pop(key, None)
