"""A tiny cluster for property tests of the queue: small enough to see through, rich enough to have every kind of refusal.

A node has room and a level. The filter Level refuses nodes below the pod's level, then the filter Room refuses nodes without enough room;
Quota, no filter, refuses when too many pods run; Gate is a PreEnqueue plugin. The hints are complete: they never miss a change that helps
against their own plugin, but they do not look at those of other plugins.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from koordsched.api.meta import Object, Unstructured
from koordsched.cache.cache import Cache
from koordsched.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    ActionType,
    ClusterEvent,
    EventHint,
    EventResource,
    QueueingHint,
    cluster_event,
)
from koordsched.queue.hints import Rejectors
from koordsched.queue.nominator import Nominator
from koordsched.queue.profile import FEASIBLE, INFEASIBLE, PreEnqueueRefusal, ProbeResult, QueueProfile, QueueSettings
from koordsched.queue.scheduling_queue import SchedulingQueue
from support.builders import pod as build_pod
from support.queueing import PROFILE, HandClock, RememberedMetrics, by_priority

if TYPE_CHECKING:
    from koordsched.api.podinfo import PodInfo
    from koordsched.queue.profile import QueueAdmission

NODE_ROOM = cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_ALLOCATABLE)
NODE_LEVEL = cluster_event(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
QUOTA = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "quotas.example.com")
GATE = cluster_event(EventResource.CUSTOM, ActionType.UPDATE_OTHER, "gates.example.com")
OWN = cluster_event(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_LABEL)


class Need(NamedTuple):
    """What a pod asks for: its shape."""

    room: int
    level: int


class Outcome(NamedTuple):
    """What an attempt found: a node, or the plugins that refused the pod and whether all of them were filters."""

    node: str
    rejectors: frozenset[str]
    in_filter: bool
    admission_plugin: str = ""  # which refused the pod before any node was looked at


class World:
    """The state of the cluster, and the hints of its plugins."""

    def __init__(self) -> None:
        self.nodes: dict[str, Need] = {}  # what a node offers
        self.bound: list[tuple[str, Need]] = []
        self.quota = 3
        self.gated: set[str] = set()  # uids
        self.needs: dict[str, Need] = {}  # uid -> what the pod asks for
        self.version = 0  # of everything filters look at
        self.failed_at: dict[Need, int] = {}  # shape -> version at which no node passed the filters
        self.hints: dict[str, Sequence[EventHint]] = {
            "Level": [EventHint(NODE_ADD, self._level), EventHint(NODE_LEVEL, self._level), EventHint(OWN, _own_level)],
            "Room": [
                EventHint(NODE_ADD, self._room),
                EventHint(NODE_ROOM, self._room),
                EventHint(ASSIGNED_POD_DELETE, lambda *_: QueueingHint.QUEUE),
                EventHint(OWN, _own_room),
            ],
            "Quota": [EventHint(QUOTA, _grew), EventHint(ASSIGNED_POD_DELETE)],
            "Gate": [EventHint(GATE)],
        }

    def attempt(self, need: Need) -> Outcome:
        """Find the first node that passes, by name; the filters' findings are remembered for the shape."""
        if len(self.bound) >= self.quota:
            return Outcome("", frozenset({"Quota"}), in_filter=False)
        node, rejectors = self._filter(need)
        if not node:
            self.failed_at[need] = self.version
        return Outcome(node, rejectors or frozenset({"Room"}), in_filter=True)

    def passes(self, need: Need) -> bool:
        return bool(self._filter(need)[0])

    def would_schedule(self, need: Need) -> bool:
        return len(self.bound) < self.quota and self.passes(need)

    def bind(self, need: Need, node: str) -> None:
        self.bound.append((node, need))
        self.version += 1

    def unbind(self, index: int) -> None:
        self.bound.sort()
        del self.bound[index % len(self.bound)]
        self.version += 1

    def set_node(self, name: str, offer: Need) -> list[tuple[ClusterEvent, Object | None, Object]]:
        """Change the node and return what happened."""
        old = self.nodes.get(name)
        self.nodes[name] = offer
        self.version += 1
        new_object = _object(offer)
        if old is None:
            return [(NODE_ADD, None, new_object)]
        changes: list[tuple[ClusterEvent, Object | None, Object]] = []
        if old.room != offer.room:
            changes.append((NODE_ROOM, _object(old), new_object))
        if old.level != offer.level:
            changes.append((NODE_LEVEL, _object(old), new_object))
        return changes

    def set_quota(self, quota: int) -> tuple[ClusterEvent, Object, Object]:
        old, self.quota = self.quota, quota
        return (QUOTA, Unstructured(raw={"quota": old}), Unstructured(raw={"quota": quota}))

    def queue(
        self, clock: HandClock, metrics: RememberedMetrics, *, names_rejectors: bool, admission: QueueAdmission | None = None
    ) -> SchedulingQueue:
        """Make a queue for this world. names_rejectors: the profile knows which plugins refuse a shape now."""
        profile = QueueProfile(
            sort_key=by_priority,
            pre_enqueue=self._pre_enqueue,
            hints=self.hints,
            probe=partial(self._probe, names_rejectors=names_rejectors),
            probe_without_preemption=partial(self._probe, names_rejectors=names_rejectors),
            unchanged_since_failure=lambda pod: self.failed_at.get(self.needs[pod.uid]) == self.version,
            admission=admission,
        )
        return SchedulingQueue(clock, {PROFILE: profile}, QueueSettings(), metrics, Nominator(Cache()))

    def _probe(self, pod: PodInfo, *, names_rejectors: bool) -> ProbeResult:
        need = self.needs[pod.uid]
        if self.passes(need):
            return FEASIBLE, None
        return INFEASIBLE, Rejectors(self._filter(need)[1], frozenset()) if names_rejectors else None

    def pod(self, name: str, need: Need, *, priority: int = 0, version: int = 1, has_shape: bool = True) -> PodInfo:
        """Make a state of a pod."""
        builder = build_pod(name).priority(priority).resource_version(str(version))
        info = builder.label("room", str(need.room)).label("level", str(need.level)).info()
        info.shape = need if has_shape else None
        self.needs[info.uid] = need
        return info

    def _filter(self, need: Need) -> tuple[str, frozenset[str]]:
        rejectors = set()
        for name, offer in sorted(self.nodes.items()):
            used = sum(bound.room for node, bound in self.bound if node == name)
            if offer.level < need.level:
                rejectors.add("Level")
            elif offer.room - used < need.room:
                rejectors.add("Room")
            else:
                return name, frozenset()
        return "", frozenset(rejectors)

    def _pre_enqueue(self, pod: PodInfo, preferred: str) -> PreEnqueueRefusal | None:
        return ("Gate", "wait", False) if pod.uid in self.gated else None

    def _level(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        need = self.needs[pod.uid].level
        return _answer(_offer(new).level >= need and (old is None or _offer(old).level < need))

    def _room(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        fits_when_empty = _offer(new).room >= self.needs[pod.uid].room
        return _answer(fits_when_empty and (old is None or _offer(old).room < _offer(new).room))


def _object(offer: Need) -> Object:
    return Unstructured(raw={"room": offer.room, "level": offer.level})


def _offer(made: Object | None) -> Need:
    assert isinstance(made, Unstructured)
    return Need(made.raw["room"], made.raw["level"])


def _answer(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _own_level(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    return _own(pod, old, new, "level")


def _own_room(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    return _own(pod, old, new, "room")


def _own(pod: PodInfo, old: Object | None, new: Object | None, label: str) -> QueueingHint:
    assert old is not None
    assert new is not None
    before, after = (int(state.metadata.labels[label]) for state in (old, new))
    return _answer(new.metadata.uid == pod.uid and after < before)


def _grew(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    assert isinstance(old, Unstructured)
    assert isinstance(new, Unstructured)
    return _answer(new.raw["quota"] > old.raw["quota"])
