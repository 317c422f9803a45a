"""Small admission plugins to run a scheduler with: a gang that must be complete, and a quota with room or without.

A pod's labels say which gang and which quota it is of: `gang`, `gang-size`, `quota`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from koordsched.api.kinds import POD
from koordsched.cache.plugin_state import PodFollower
from koordsched.framework.interface import AdmissionPlugin, ReservePlugin
from koordsched.framework.status import SKIP, Status, unresolvable, unschedulable
from koordsched.queue.events import ASSIGNED_POD_DELETE, UNSCHEDULABLE_POD_ADD, ActionType, AdmissionKey, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle

QUOTA_CHANGED = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "quotas.example.com")


class GangAdmission(AdmissionPlugin):
    """Admits the pods of a gang once as many of them exist as the gang has members. Stands before PreFilter, as Coscheduling does."""

    name = "GangAdmission"
    before_pre_filter = True

    def __init__(self) -> None:
        self.asked = 0
        self._members: defaultdict[str, set[str]] = defaultdict(set)
        self._handle: Handle

    def begin(self, handle: Handle) -> None:
        self._handle = handle
        handle.informer(POD).add_handler(self)

    def on_add(self, pod: Pod, _arrival: Arrival) -> None:
        gang = pod.metadata.labels.get("gang")
        if gang is None:
            return
        members = self._members[gang]
        members.add(pod.metadata.name)
        if len(members) == int(pod.metadata.labels["gang-size"]):
            self._handle.announce(UNSCHEDULABLE_POD_ADD, AdmissionKey(self.name, gang))

    def on_update(self, old: Pod, new: Pod) -> None:
        """Do nothing: labels stay."""

    def on_delete(self, pod: Pod, _final_state: FinalState) -> None:
        self._members[pod.metadata.labels.get("gang", "")].discard(pod.metadata.name)

    def admit(self, pod: PodInfo) -> Status | None:
        self.asked += 1
        labels = pod.pod.metadata.labels
        gang = labels.get("gang")
        if gang is None:
            return SKIP
        known, wanted = len(self._members[gang]), int(labels["gang-size"])
        return None if known >= wanted else unresolvable(f"gang {gang} has {known} of {wanted} members")

    def admission_key(self, pod: PodInfo) -> Hashable | None:
        return pod.pod.metadata.labels.get("gang")

    def sign_admission(self, pod: PodInfo) -> Hashable:
        return pod.pod.metadata.labels.get("gang-size")


class QuotaAdmission(AdmissionPlugin, ReservePlugin, PodFollower):
    """Admits a pod while its quota's limit of CPU covers what is used and the pod's request. Counts from Reserve on."""

    name = "QuotaAdmission"

    def __init__(self, **limits: int) -> None:
        """limits: of each quota, in CPUs."""
        self.asked = 0
        self.limits = {quota: 1000 * limit for quota, limit in limits.items()}
        self.used: defaultdict[str, int] = defaultdict(int)
        self._counted: dict[str, tuple[str, int]] = {}  # quota and amount, by uid
        self._handle: Handle

    def begin(self, handle: Handle) -> None:
        self._handle = handle
        handle.cache.follow(self)

    def set_limit(self, quota: str, limit: int) -> None:
        self.limits[quota] = 1000 * limit
        self._handle.announce(QUOTA_CHANGED, AdmissionKey(self.name, quota))

    def admit(self, pod: PodInfo) -> Status | None:
        self.asked += 1
        quota = pod.pod.metadata.labels.get("quota")
        if quota is None:
            return SKIP
        used, limit = self.used[quota], self.limits[quota]
        return None if used + amount_of(pod) <= limit else unschedulable(f"quota {quota} is exhausted: {used}m of {limit}m used")

    def admission_key(self, pod: PodInfo) -> Hashable | None:
        return pod.pod.metadata.labels.get("quota")

    def sign_admission(self, pod: PodInfo) -> Hashable:
        return ()  # the request is part of the shape

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        self._count(pod)
        return None

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        self._release(pod)

    def pod_added(self, pod: PodInfo, row: int) -> None:
        """Count a pod that was bound before this scheduler began; others are counted by Reserve."""
        if pod.pod.spec.node_name and not self._handle.cache.simulating:
            self._count(pod)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if not self._handle.cache.simulating:
            self._release(pod)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        """Do nothing: the pod is counted."""

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        """Do nothing: the pod is counted."""

    def _count(self, pod: PodInfo) -> None:
        quota = pod.pod.metadata.labels.get("quota")
        if quota is not None and pod.uid not in self._counted:
            self._counted[pod.uid] = (quota, amount_of(pod))
            self.used[quota] += amount_of(pod)

    def _release(self, pod: PodInfo) -> None:
        counted = self._counted.pop(pod.uid, None)
        if counted is not None:
            self.used[counted[0]] -= counted[1]
            self._handle.announce(ASSIGNED_POD_DELETE, AdmissionKey(self.name, counted[0]))


def amount_of(pod: PodInfo) -> int:
    """Return the CPU that the pod asks for, in thousandths."""
    return pod.resources.requests.get("cpu", 0)
