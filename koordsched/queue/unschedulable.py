"""Pods that wait for an event, in groups of pods that would all get the same answer.

A *shape group* holds the pods of one profile, shape and priority that PreFilter or Filter plugins alone refused: what fails one of them
fails all, so they share their rejectors (those of the latest real attempt) and are woken one by one. Every other group (gated pods,
refusals after Filter or by an extender, nominated pods, pods without a shape) is moved as a whole, each pod keeping its own rejectors,
which are equal within the group.

Events find groups through their interests: groups whose plugins registered nothing that matches are not looked at. Only `SubQueues` adds
and removes pods; `Waker` writes the fields about waking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koordsched.queue.heap import PodHeap

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from koordsched.queue.events import ClusterEvent
    from koordsched.queue.hints import HintBook, Interests, Registration
    from koordsched.queue.queued_pod import QueuedPodInfo, Rejectors


class ShapeKey(NamedTuple):
    """Identifies a shape group. Priority is part of it because nominated pods stand in the way of lower or equal priorities only."""

    profile: str
    shape: Hashable
    priority: int


class CohortKey(NamedTuple):
    """Identifies a group that is moved as a whole. `alike` is the shape, or the uid of a pod that has none."""

    profile: str
    alike: Hashable
    rejectors: Rejectors
    gating_plugin: str


GroupKey = ShapeKey | CohortKey


class Group:
    """Waiting pods that one answer serves, never empty while it is in `UnschedulablePods`."""

    __slots__ = (
        "by_shape",
        "certain",
        "distrusted",
        "flush",
        "gating_plugin",
        "hope",
        "ignore_backoff",
        "interests",
        "key",
        "members",
        "oldest",
        "rejectors",
        "scout",
        "wake_label",
        "woken_at",
    )

    def __init__(self, key: GroupKey, rejectors: Rejectors, interests: Interests) -> None:
        self.key = key
        self.by_shape = isinstance(key, ShapeKey)
        self.gating_plugin = key.gating_plugin if isinstance(key, CohortKey) else ""
        self.rejectors = rejectors
        self.interests = interests  # of the rejectors, or of everybody when these are distrusted
        self.distrusted = False  # the rejectors may be out of date
        self.members = PodHeap()
        self.oldest = float("inf")  # lower bound of the members' timestamps

        # Only shape groups are ever awake. Awake and not empty means: the scout is in the active queue.
        self.woken_at: int | None = None  # the queue's event count when it woke; None: asleep
        self.wake_label = ""
        self.ignore_backoff = False
        self.certain = False  # what woke it counts as helpful whatever a probe finds
        self.flush = False
        self.scout: QueuedPodInfo | None = None
        self.hope = ""  # asleep, but evictions may help since the event of this label: see `hopes`

    @property
    def awake(self) -> bool:
        return self.woken_at is not None

    @property
    def profile(self) -> str:
        return self.key.profile

    @property
    def representative(self) -> QueuedPodInfo:
        """The first member."""
        head = self.members.peek()
        if head is None:
            raise LookupError(f"the group {self.key} is empty")
        return head

    def fall_asleep(self) -> None:
        self.woken_at = None
        self.hope = ""


class UnschedulablePods:
    """All groups, found by key and by event."""

    def __init__(self, books: Mapping[str, HintBook]) -> None:
        self._books = books
        self._groups: dict[GroupKey, Group] = {}
        self._by_interests: dict[Interests, dict[GroupKey, Group]] = {}
        self._size = 0
        self._gated = 0

    def __len__(self) -> int:
        return self._size

    @property
    def gated(self) -> int:
        return self._gated

    @property
    def groups(self) -> list[Group]:
        """All groups, a copy: waking them changes the collection."""
        return list(self._groups.values())

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        for group in self._groups.values():
            yield from group.members

    def interested(self, event: ClusterEvent) -> list[tuple[Group, tuple[Registration, ...]]]:
        """Return the groups that registered the event, with whom to ask. O(distinct sets of rejectors + interested groups)."""
        return [
            (group, registrations)
            for interests, groups in self._by_interests.items()
            if (registrations := interests.matching(event))
            for group in groups.values()
        ]

    def shape_group(self, info: QueuedPodInfo) -> Group | None:
        """Return the group in which pods of this one's shape and priority wait after a Filter refused them."""
        return self._groups.get(_shape_key(info))

    def join(self, info: QueuedPodInfo, *, nominated: bool) -> Group:
        """Add the pod to its group. nominated: room is kept for it, so that it need not fail where others of its shape do."""
        key = self._key(info, nominated=nominated)
        group = self._groups.get(key) or self._create(key, info)
        group.members.add(info.sort_key, info)
        group.oldest = min(group.oldest, info.timestamp)
        info.group = group
        self._size += 1
        self._gated += info.gated
        return group

    def leave(self, info: QueuedPodInfo) -> None:
        """Take the pod out of its group; it keeps the group's rejectors as its own."""
        group = info.group
        if group is None or group.members.remove(info.key) is None:
            raise LookupError(f"{info!r} is in no group")
        info.set_rejectors(group.rejectors)
        info.group = None
        self._size -= 1
        self._gated -= bool(group.gating_plugin)
        if not group.members:
            group.fall_asleep()
            del self._groups[group.key]
            self._unindex(group)

    def set_rejectors(self, group: Group, rejectors: Rejectors) -> None:
        """Let these be the plugins that refuse the whole shape group from now on."""
        group.rejectors = rejectors
        group.distrusted = False
        self._index(group, self._books[group.profile].interests(rejectors.all))

    def distrust_rejectors(self, group: Group) -> None:
        """Show the shape group every registered event of any plugin: something changed, and who refuses it now is not known."""
        group.distrusted = True
        self._index(group, self._books[group.profile].everybody)

    def _key(self, info: QueuedPodInfo, *, nominated: bool) -> GroupKey:
        shape = info.pod_info.shape
        if info.rejected_in_filter and shape is not None and not nominated and not info.gated:
            return _shape_key(info)
        return CohortKey(info.profile, ("uid", info.uid) if shape is None else shape, info.rejectors, info.gating_plugin)

    def _create(self, key: GroupKey, info: QueuedPodInfo) -> Group:
        rejectors = info.rejectors
        group = Group(key, rejectors, self._books[key.profile].interests(rejectors.all, info.gating_plugin))
        self._groups[key] = group
        self._by_interests.setdefault(group.interests, {})[key] = group
        return group

    def _index(self, group: Group, interests: Interests) -> None:
        if interests is not group.interests:
            self._unindex(group)
            group.interests = interests
            self._by_interests.setdefault(interests, {})[group.key] = group

    def _unindex(self, group: Group) -> None:
        groups = self._by_interests[group.interests]
        del groups[group.key]
        if not groups:
            del self._by_interests[group.interests]


def _shape_key(info: QueuedPodInfo) -> ShapeKey:
    return ShapeKey(info.profile, info.pod_info.shape, info.pod_info.priority)
