"""The informers of one scheduler: a kind is mirrored once, for the first who asks for it.

Plugins ask while they are made (`Handle.informer`); their handlers run before the queue is told of the same change (`Announcer`), so that a
hint finds the plugin's facts up to date. Pods and nodes have handlers of their own (`handlers`), which bring them into the cache.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from koordsched.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NAMESPACE,
    NODE_RESOURCE_TOPOLOGY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from koordsched.cluster.informer import Informer
from koordsched.queue.events import ActionType, EventResource, cluster_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.clock import Clock
    from koordsched.cluster.mirror import Arrival, FinalState
    from koordsched.cluster.port import Cluster
    from koordsched.queue.events import ClusterEvent
    from koordsched.queue.scheduling_queue import SchedulingQueue
    from koordsched.scheduler.measures import Buckets

ANNOUNCED: dict[Kind, EventResource] = {
    NAMESPACE: EventResource.NAMESPACE,
    PERSISTENT_VOLUME: EventResource.PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM: EventResource.PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS: EventResource.STORAGE_CLASS,
    CSI_NODE: EventResource.CSI_NODE,
    CSI_DRIVER: EventResource.CSI_DRIVER,
    CSI_STORAGE_CAPACITY: EventResource.CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT: EventResource.VOLUME_ATTACHMENT,
    NODE_RESOURCE_TOPOLOGY: EventResource.CUSTOM,
}
"""Kinds whose changes may move unschedulable pods (framework.md §3.5); those of custom resources are known by their plural and group."""


class Informers:
    """One informer a kind. Iterating gives them in the order in which they were asked for."""

    def __init__(self, cluster: Cluster, clock: Clock, random: Random) -> None:
        self._cluster = cluster
        self._clock = clock
        self._random = random
        self._by_kind: dict[Kind, Informer[Any]] = {}

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(self._by_kind.values())

    def of(self, kind: Kind, field_selector: str = "") -> Informer[Any]:
        """Return the kind's informer, making it on first use. The first caller's field selector holds for all."""
        found = self._by_kind.get(kind)
        if found is None:
            found = self._by_kind[kind] = Informer(self._cluster, kind, self._clock, self._random, field_selector)
        return found

    def announce(self, queue: SchedulingQueue, handling: Callable[[str], Buckets]) -> None:
        """Tell the queue of the changes of every kind that is mirrored by now, and measure how long that takes by the event's label.

        Called once, after all plugins are made.
        """
        for kind, informer in self._by_kind.items():
            if kind in ANNOUNCED:
                informer.add_handler(Announcer(queue, ANNOUNCED[kind], kind, Watch(self._clock, handling)))

    async def synced(self) -> None:
        """Wait until the first list of every kind has been handled."""
        await asyncio.gather(*(informer.synced.wait() for informer in self))

    @property
    def all_synced(self) -> bool:
        return all(informer.synced.is_set() for informer in self)


class Watch(NamedTuple):
    """By which clock the handling of events is timed, and where that is kept."""

    clock: Clock
    handling: Callable[[str], Buckets]


class Announcer:
    """Makes cluster events of one kind's changes."""

    def __init__(self, queue: SchedulingQueue, resource: EventResource, kind: Kind, watch: Watch) -> None:
        custom = kind.plural_group if resource is EventResource.CUSTOM else ""
        self._queue = queue
        self._perf, self._handling = watch.clock.perf, watch.handling
        self._add = cluster_event(resource, ActionType.ADD, custom)
        self._update = cluster_event(resource, ActionType.UPDATE_OTHER, custom)
        self._delete = cluster_event(resource, ActionType.DELETE, custom)

    def on_add(self, obj: Object, _arrival: Arrival) -> None:
        self._tell(self._add, None, obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._tell(self._update, old, new)

    def on_delete(self, obj: Object, _final_state: FinalState) -> None:
        self._tell(self._delete, obj, None)

    def _tell(self, event: ClusterEvent, old: Object | None, new: Object | None) -> None:
        started = self._perf()
        self._queue.move_all(event, old, new)
        self._handling(event.label).observe(self._perf() - started)
