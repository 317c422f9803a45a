"""The unschedulable and gated pods, in their groups (`queued_pod.UnschedulableGroup`), found by key, by event and by announcement.

An event finds groups through their subscriptions: a group is not looked at if none of its rejectors registered the event. An announcement
finds the groups that wait under its key, and no other. Only `SubQueues` adds and removes pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.queue.events import AdmissionKey
from koordsched.queue.queued_pod import AdmissionGroupKey, RejectorGroupKey, ShapeGroupKey, UnschedulableGroup, refused_by_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koordsched.queue.events import ClusterEvent
    from koordsched.queue.hints import EventRegistry, EventSubscriptions, Registration, Rejectors
    from koordsched.queue.profile import QueueProfile
    from koordsched.queue.queued_pod import QueuedPodInfo, UnschedulableGroupKey


class UnschedulablePods:
    """All groups. None of them is empty."""

    def __init__(self, profiles: Mapping[str, QueueProfile], registries: Mapping[str, EventRegistry]) -> None:
        self._profiles = profiles
        self._registries = registries
        self._groups: dict[UnschedulableGroupKey, UnschedulableGroup] = {}
        self._by_subscriptions: dict[EventSubscriptions, dict[UnschedulableGroupKey, UnschedulableGroup]] = {}
        self._by_admission: dict[AdmissionKey, dict[UnschedulableGroupKey, UnschedulableGroup]] = {}
        self._size = 0
        self.gated = 0  # pods in gated groups

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        for group in self._groups.values():
            yield from group.members

    @property
    def groups(self) -> list[UnschedulableGroup]:
        """All groups, a copy: moving their pods changes the collection."""
        return list(self._groups.values())

    def subscribed(self, event: ClusterEvent) -> list[tuple[UnschedulableGroup, tuple[Registration, ...]]]:
        """Return the groups with registrations that match the event, and these. O(distinct sets of rejectors + groups returned)."""
        return [
            (group, registrations)
            for subscriptions, groups in self._by_subscriptions.items()
            if (registrations := subscriptions.matching(event))
            for group in groups.values()
        ]

    def shape_group(self, info: QueuedPodInfo) -> UnschedulableGroup | None:
        """Return the shape group of the pod's profile, shape and priority, whether or not the pod is in it."""
        return self._groups.get(_shape_group_key(info))

    def waiting_under(self, key: AdmissionKey) -> list[UnschedulableGroup]:
        """Return the groups that wait under this key, a copy. O(groups returned)."""
        groups = self._by_admission.get(key)
        return [] if groups is None else list(groups.values())

    def group_of_key(self, key: UnschedulableGroupKey) -> UnschedulableGroup | None:
        return self._groups.get(key)

    def admission_keys(self, info: QueuedPodInfo) -> tuple[AdmissionKey, ...]:
        """Return the keys under which the admission plugins among the pod's rejectors let it wait; of a gated pod its gating plugin's."""
        admission = self._profiles[info.profile].admission
        if admission is None:
            return ()
        rejectors = info.rejectors.all if not info.gating_plugin else {info.gating_plugin}
        keys = ((plugin, admission.key(plugin, info.pod_info)) for plugin in sorted(rejectors & admission.plugins))
        return tuple(AdmissionKey(plugin, key) for plugin, key in keys if key is not None)

    def group_key(self, info: QueuedPodInfo, *, nominated: bool) -> UnschedulableGroupKey:
        """Return the key of the group in which the pod waits, or would."""
        if refused_by_shape(info, nominated=nominated):
            return _shape_group_key(info)
        pod, plugin, rejectors = info.pod_info, info.admission_plugin, info.rejectors
        alike = ("uid", info.uid) if pod.shape is None else pod.shape
        admission = self._profiles[info.profile].admission
        if plugin and not info.gated and admission is not None:
            key = admission.key(plugin, pod)
            if key is not None:
                signature = admission.signature(plugin, pod)
                return AdmissionGroupKey(info.profile, AdmissionKey(plugin, key), signature, alike, pod.priority, nominated, rejectors)
        return RejectorGroupKey(info.profile, alike, rejectors, info.gating_plugin, self.admission_keys(info))

    def join(self, info: QueuedPodInfo, *, nominated: bool) -> UnschedulableGroup:
        """Add the pod to its group, which is made if need be."""
        key = self.group_key(info, nominated=nominated)
        group = self._groups.get(key)
        if group is None:
            rejectors = info.rejectors
            group = UnschedulableGroup(key, rejectors, self._registries[key.profile].subscriptions(rejectors.all, info.gating_plugin))
            self._groups[key] = group
            self._by_subscriptions.setdefault(group.subscriptions, {})[key] = group
            for admission_key in group.admission_keys:
                self._by_admission.setdefault(admission_key, {})[key] = group
        group.members.add(info.sort_key, info)
        group.oldest = min(group.oldest, info.timestamp)
        info.group = group
        self._size += 1
        self.gated += info.gated
        return group

    def leave(self, info: QueuedPodInfo) -> None:
        """Remove the pod from its group, whose rejectors become its own."""
        group = info.group
        if group is None or group.members.remove(info.key) is None:
            raise LookupError(f"{info!r} is in no group")
        info.set_rejectors(group.rejectors)
        info.group = None
        self._size -= 1
        self.gated -= bool(group.gating_plugin)
        if not group.members:
            group.park()
            del self._groups[group.key]
            self._unindex(group)
            for admission_key in group.admission_keys:
                groups = self._by_admission[admission_key]
                del groups[group.key]
                if not groups:
                    del self._by_admission[admission_key]

    def set_rejectors(self, group: UnschedulableGroup, rejectors: Rejectors) -> None:
        """Let these be the plugins that refuse the whole shape group from now on."""
        group.rejectors = rejectors
        group.rejectors_unknown = False
        self._index(group, self._registries[group.profile].subscriptions(rejectors.all))

    def mark_rejectors_unknown(self, group: UnschedulableGroup) -> None:
        """Subscribe the shape group to the events of all plugins: something changed, and which plugins refuse it now is not known."""
        group.rejectors_unknown = True
        self._index(group, self._registries[group.profile].all_plugins)

    def _index(self, group: UnschedulableGroup, subscriptions: EventSubscriptions) -> None:
        if subscriptions is not group.subscriptions:
            self._unindex(group)
            group.subscriptions = subscriptions
            self._by_subscriptions.setdefault(subscriptions, {})[group.key] = group

    def _unindex(self, group: UnschedulableGroup) -> None:
        groups = self._by_subscriptions[group.subscriptions]
        del groups[group.key]
        if not groups:
            del self._by_subscriptions[group.subscriptions]


def _shape_group_key(info: QueuedPodInfo) -> ShapeGroupKey:
    return ShapeGroupKey(info.profile, info.pod_info.shape, info.pod_info.priority)
