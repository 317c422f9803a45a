"""The active queue, the backoff queue and the unschedulable pods, and the only code that moves a pod between them.

A pod is in exactly one of them, and `QueuedPodInfo.place` names it. Before a pod enters the active or the backoff queue PreEnqueue runs; a
pod that it refuses joins the unschedulable pods, gated. Which pods an event moves is decided in `moving`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from koordsched.log import get_logger
from koordsched.queue.backoff import BackoffQueue
from koordsched.queue.events import POP_FROM_BACKOFF_Q
from koordsched.queue.heap import PodHeap
from koordsched.queue.hints import EventRegistry
from koordsched.queue.queued_pod import ACTIVE, BACKOFF, GATED, NOWHERE, UNSCHEDULABLE
from koordsched.queue.unschedulable import UnschedulablePods
from koordsched.queue.waiting_index import WaitingIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from koordsched.api.podinfo import PodInfo
    from koordsched.clock import Clock
    from koordsched.queue.hints import Rejectors
    from koordsched.queue.nominator import Nominator
    from koordsched.queue.profile import QueueMetrics, QueueProfile, QueueSettings
    from koordsched.queue.queued_pod import QueuedPodInfo, QueuePlace, UnschedulableGroup, UnschedulableGroupKey

log = get_logger(__name__)

HISTORY = 20_000  # transitions that are remembered, of all pods together


class Transition(NamedTuple):
    """One transition of a pod."""

    time: float  # seconds since the epoch
    key: str
    place: QueuePlace  # the place it came to
    event: str  # the cause: the metric's event label

    def __str__(self) -> str:
        return f"{self.time:.3f} {self.key} -> {self.place.name} ({self.event})"


class SubQueues:
    """The three queues and the pods in them, their nominations and their last transitions."""

    def __init__(
        self,
        clock: Clock,
        profiles: Mapping[str, QueueProfile],
        settings: QueueSettings,
        metrics: QueueMetrics,
        nominator: Nominator,
    ) -> None:
        self.registries = {name: EventRegistry(profile.hints) for name, profile in profiles.items()}
        self.active: PodHeap[QueuedPodInfo] = PodHeap()
        self.backoff = BackoffQueue(settings)
        self.unschedulable = UnschedulablePods(profiles, self.registries)
        self.nominator = nominator
        self.on_backoff: Callable[[], None] = lambda: None  # called when a backoff has begun, as there may be an earlier expiry
        self.arrivals = asyncio.Event()  # set whenever something may have become poppable
        self._clock = clock
        self.profiles = profiles
        self._metrics = metrics
        self._pods: dict[str, QueuedPodInfo] = {}  # by key, in whichever queue
        self.index = WaitingIndex(self._pods)
        self._sequence = 0
        self._transitions: deque[tuple[float, str, QueuePlace, str]] = deque(maxlen=HISTORY)  # a Transition costs 1 us to make

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._pods.values())

    @property
    def poppable(self) -> bool:
        return len(self.active) > 0 or self.backoff.may_pop_early

    def get(self, key: str) -> QueuedPodInfo | None:
        return self._pods.get(key)

    def is_backing_off(self, info: QueuedPodInfo) -> bool:
        return self.backoff.is_backing_off(info, self._clock.now())

    def stamp(self, info: QueuedPodInfo, now: float) -> None:
        """Let the pod's time in the queue begin now, after all pods that came before."""
        info.timestamp = now
        info.backoff_expiry = None
        self._sequence += 1
        info.sequence = self._sequence
        info.sort_key = self.profiles[info.profile].sort_key(info)

    def sort(self, info: QueuedPodInfo) -> None:
        """Compute the pod's sort key anew. A heap that holds the pod does not notice: add the pod to it again."""
        info.sort_key = self.profiles[info.profile].sort_key(info)

    def exchange(self, info: QueuedPodInfo, pod_info: PodInfo) -> None:
        """Give a pod its new state; in a queue it is sorted as it was."""
        indexed = self.index.asked and info.key in self._pods
        if indexed:
            self.index.remove(info)
        info.pod_info = pod_info
        if indexed:
            self.index.add(info)

    def replace(self, info: QueuedPodInfo, pod_info: PodInfo) -> None:
        """Give a pending pod its new state and order in the queue that it is in."""
        self.exchange(info, pod_info)
        self.sort(info)
        if info.place is ACTIVE:
            self.active.add(info.sort_key, info)
        elif info.place is BACKOFF:
            self.backoff.remove(info.key)
            self.backoff.add(info)
        elif info.group is not None:
            info.group.members.add(info.sort_key, info)

    def enter_active(self, info: QueuedPodInfo, event: str) -> bool:
        """Move the pod to the active queue if it passes PreEnqueue, which a pod from the backoff queue has done already."""
        newly_admitted = info.initial_attempt_timestamp is None or info.gated
        if info.place is not BACKOFF and not self._admit(info):
            self.enter_unschedulable(info, event)
            return False
        if info.place is not NOWHERE:
            self._withdraw(info)
        if newly_admitted:  # the nomination of a gated pod counts only from now on
            node = info.pod_info.pod.status.nominated_node_name
            if node and info.uid not in self.nominator:
                self.nominator.set(info.pod_info, node)
        self.active.add(info.sort_key, info)
        self._arrive(info, ACTIVE, event)
        if info.initial_attempt_timestamp is None:
            info.initial_attempt_timestamp = info.since
        self._metrics.incoming("active", event)
        self.arrivals.set()
        return True

    def enter_backoff(self, info: QueuedPodInfo, event: str) -> bool:
        """Move the pod to the backoff queue if it passes PreEnqueue."""
        if not self._admit(info):
            self.enter_unschedulable(info, event)
            return False
        self._withdraw(info)
        self.backoff.add(info)
        self._arrive(info, BACKOFF, event)
        self._metrics.incoming("backoff", event)
        self.arrivals.set()
        self.on_backoff()
        return True

    def enter_unschedulable(self, info: QueuedPodInfo, event: str) -> UnschedulableGroup:
        """Move the pod to the unschedulable pods, into its group."""
        self._withdraw(info)
        group = self._join(info)
        self._arrive(info, GATED if info.gating_plugin else UNSCHEDULABLE, event)
        self._metrics.incoming("unschedulable", event)
        return group

    def regroup(self, info: QueuedPodInfo) -> None:
        """Move an unschedulable pod that changed or was nominated to the group that is now its own, without an attempt."""
        place = info.place
        self._withdraw(info)
        self.sort(info)
        own = info.rejectors
        group = self._join(info)
        info.place = place
        if group.by_shape:
            self.adopt(info, own, group.rejectors.union(own))
            self.unschedulable.mark_rejectors_unknown(group)  # those of the pod were found for another spec

    def adopt(self, info: QueuedPodInfo, own: Rejectors, rejectors: Rejectors) -> None:
        """Give these rejectors to the shape group that the pod just joined; own: the pod's until then."""
        group = info.group
        if group is None:
            raise LookupError(f"{info!r} is in no group")
        if own == rejectors == group.rejectors and not group.rejectors_unknown:
            return
        self._recount(group.profile, group.rejectors, rejectors, len(group.members) - 1)
        self._recount(group.profile, own, rejectors, 1)
        self.unschedulable.set_rejectors(group, rejectors)

    def replace_rejectors(self, info: QueuedPodInfo, rejectors: Rejectors) -> None:
        """Replace the rejectors of a pod that is in no group, the gauge included."""
        self._recount(info.profile, info.rejectors, rejectors, 1)
        info.set_rejectors(rejectors)

    def set_rejectors(self, group: UnschedulableGroup, rejectors: Rejectors) -> None:
        """Give these rejectors to all members of a shape group."""
        if rejectors != group.rejectors:
            self._recount(group.profile, group.rejectors, rejectors, len(group.members))
        self.unschedulable.set_rejectors(group, rejectors)

    def count_rejectors(self, info: QueuedPodInfo, delta: int) -> None:
        """Move the gauge of unschedulable pods for all of the pod's rejectors."""
        for plugin in info.unschedulable_plugins | info.pending_plugins:
            self._metrics.unschedulable_pods(plugin, info.profile, delta)

    def remove(self, info: QueuedPodInfo) -> None:
        """Remove the pod from the queue that it is in."""
        self._withdraw(info)
        info.place = NOWHERE
        self._drop(info)

    def remove_head(self) -> QueuedPodInfo | None:
        """Remove and return the first active pod or, if there is none, the refused pod whose backoff ends first."""
        info = self.active.pop()
        if info is not None:
            info.place = NOWHERE
            self._drop(info)
            return info
        info = self.backoff.pop_early()
        if info is not None:
            self._metrics.incoming("active", POP_FROM_BACKOFF_Q)
            self.remove(info)
        return info

    def mark(self, info: QueuedPodInfo, place: QueuePlace, event: str) -> None:
        """Write the pod's new place into the pod and its history."""
        info.place = place
        info.since = self._clock.now()
        self._transitions.append((info.since, info.key, place, event))

    def history(self, key: str) -> list[Transition]:
        """Return the pod's remembered transitions, oldest first. O(HISTORY)."""
        return [Transition(*fields) for fields in self._transitions if fields[1] == key]

    def _admit(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue and write its outcome into the pod."""
        refusal = self.profiles[info.profile].pre_enqueue(info.pod_info, info.gating_plugin)
        if refusal is None:
            if info.gating_plugin:
                self._withdraw(info)
                info.gating_plugin = info.gating_message = ""
            return True
        plugin, message, is_error = refusal
        if is_error:
            log.error("PreEnqueue failed, the pod is gated", pod=info.key, plugin=plugin, error=message)
        self._withdraw(info)
        info.gating_plugin = plugin
        info.gating_message = message
        if plugin not in info.unschedulable_plugins and plugin not in info.pending_plugins:
            self._metrics.unschedulable_pods(plugin, info.profile, 1)
        info.unschedulable_plugins.add(plugin)
        return False

    def _withdraw(self, info: QueuedPodInfo) -> None:
        """Remove the pod from its queue, but not from `_pods`: it is about to enter another queue."""
        if info.place is ACTIVE:
            self.active.remove(info.key)
        elif info.place is BACKOFF:
            self.backoff.remove(info.key)
        elif info.group is not None:
            self.unschedulable.leave(info)
        info.place = NOWHERE

    def group_key(self, info: QueuedPodInfo) -> UnschedulableGroupKey:
        """Return the key of the group in which the pod waits, or would."""
        return self.unschedulable.group_key(info, nominated=info.uid in self.nominator)

    def _join(self, info: QueuedPodInfo) -> UnschedulableGroup:
        return self.unschedulable.join(info, nominated=info.uid in self.nominator)

    def _drop(self, info: QueuedPodInfo) -> None:
        del self._pods[info.key]
        if self.index.asked:
            self.index.remove(info)

    def _arrive(self, info: QueuedPodInfo, place: QueuePlace, event: str) -> None:
        if self.index.asked and info.key not in self._pods:
            self.index.add(info)
        self._pods[info.key] = info
        self.mark(info, place, event)

    def _recount(self, profile: str, old: Rejectors, new: Rejectors, pods: int) -> None:
        """Move the gauge of unschedulable pods for a number of pods whose rejectors change."""
        if pods:
            for plugin in new.all - old.all:
                self._metrics.unschedulable_pods(plugin, profile, pods)
            for plugin in old.all - new.all:
                self._metrics.unschedulable_pods(plugin, profile, -pods)
