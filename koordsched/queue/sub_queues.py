"""Who is where: the active queue, the backoff queue and the unschedulable pods, and the only code that moves a pod between them.

A pod is in exactly one of them, and `QueuedPodInfo.place` says in which. Entering the active or the backoff queue runs PreEnqueue; a pod
that it refuses lands among the unschedulable pods, gated. Nothing here decides what an event means: that is `waking`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koordsched.log import get_logger
from koordsched.queue.backoff import BackoffQueue
from koordsched.queue.events import POP_FROM_BACKOFF_Q
from koordsched.queue.heap import PodHeap
from koordsched.queue.hints import HintBook
from koordsched.queue.history import History
from koordsched.queue.nominator import Nominator
from koordsched.queue.queued_pod import ACTIVE, BACKOFF, GATED, NOWHERE, UNSCHEDULABLE, Place, QueuedPodInfo, Rejectors
from koordsched.queue.unschedulable import Group, UnschedulablePods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from koordsched.api.podinfo import PodInfo
    from koordsched.clock import Clock
    from koordsched.queue.profile import QueueMetrics, QueueProfile, QueueSettings

log = get_logger(__name__)


class SubQueues:
    """The three queues and the pods in them."""

    def __init__(self, clock: Clock, profiles: Mapping[str, QueueProfile], settings: QueueSettings, metrics: QueueMetrics) -> None:
        self.books = {name: HintBook(profile.hints) for name, profile in profiles.items()}
        self.active = PodHeap()
        self.backoff = BackoffQueue(settings)
        self.unschedulable = UnschedulablePods(self.books)
        self.nominator = Nominator()
        self.history = History()
        self.on_backoff: Callable[[], None] = lambda: None  # called when a pod has begun to back off: there may be an earlier expiry
        self.arrivals = asyncio.Event()  # set whenever something may have become poppable
        self._clock = clock
        self._profiles = profiles
        self._metrics = metrics
        self._pods: dict[str, QueuedPodInfo] = {}  # by key, whatever the place
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._pods.values())

    @property
    def poppable(self) -> bool:
        return len(self.active) > 0 or self.backoff.may_pop_early

    def get(self, key: str) -> QueuedPodInfo | None:
        return self._pods.get(key)

    def profile(self, info: QueuedPodInfo) -> QueueProfile:
        return self._profiles[info.profile]

    def is_backing_off(self, info: QueuedPodInfo) -> bool:
        return self.backoff.is_backing_off(info, self._clock.now())

    def stamp(self, info: QueuedPodInfo, now: float) -> None:
        """Let the pod's time in the queue begin now, behind all that came before."""
        info.timestamp = now
        info.backoff_expiry = None
        self._sequence += 1
        info.sequence = self._sequence
        info.sort_key = self._profiles[info.profile].sort_key(info)

    def sort(self, info: QueuedPodInfo) -> None:
        """Read the pod's sort key anew. A queue that holds the pod must be told."""
        info.sort_key = self.profile(info).sort_key(info)

    def replace(self, info: QueuedPodInfo, pod_info: PodInfo) -> None:
        """Give a waiting pod its new state where it is, in its new order."""
        info.pod_info = pod_info
        self.sort(info)
        if info.place is ACTIVE:
            self.active.add(info.sort_key, info)
        elif info.place is BACKOFF:
            self.backoff.remove(info.key)
            self.backoff.add(info)
        elif info.group is not None:
            info.group.members.add(info.sort_key, info)

    def enter_active(self, info: QueuedPodInfo, event: str) -> bool:
        """Move the pod to the active queue, if PreEnqueue lets it; coming from the backoff queue it has passed that already."""
        was_kept_out = info.initial_attempt_timestamp is None or info.gated
        if info.place is not BACKOFF and not self._admit(info):
            self.place_unschedulable(info, event)
            return False
        if info.place is not NOWHERE:
            self._withdraw(info)
        if was_kept_out:  # a gated pod's nomination counts only from now on
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
        """Move the pod to the backoff queue, if PreEnqueue lets it."""
        if not self._admit(info):
            self.place_unschedulable(info, event)
            return False
        self._withdraw(info)
        self.backoff.add(info)
        self._arrive(info, BACKOFF, event)
        self._metrics.incoming("backoff", event)
        self.arrivals.set()
        self.on_backoff()
        return True

    def place_unschedulable(self, info: QueuedPodInfo, event: str) -> Group:
        """Let the pod wait for an event, in its group."""
        self._withdraw(info)
        group = self._join(info)
        self._arrive(info, GATED if info.gating_plugin else UNSCHEDULABLE, event)
        self._metrics.incoming("unschedulable", event)
        return group

    def regroup(self, info: QueuedPodInfo) -> None:
        """Find the group anew for a waiting pod that changed or was nominated, without having been tried."""
        place = info.place
        self._withdraw(info)
        self.sort(info)
        own = info.rejectors
        group = self._join(info)
        info.place = place
        if group.by_shape:
            self.adopt(info, own, group.rejectors.union(own))
            self.unschedulable.distrust_rejectors(group)  # they were found for another spec

    def adopt(self, info: QueuedPodInfo, own: Rejectors, rejectors: Rejectors) -> None:
        """Let a shape group, and the pod that just joined it with rejectors of its own, have these rejectors from now on."""
        group = info.group
        if group is None:
            raise LookupError(f"{info!r} is in no group")
        if own == rejectors == group.rejectors and not group.distrusted:
            return
        self._recount(group.profile, group.rejectors, rejectors, len(group.members) - 1)
        self._recount(group.profile, own, rejectors, 1)
        self.unschedulable.set_rejectors(group, rejectors)

    def take_over(self, info: QueuedPodInfo, rejectors: Rejectors) -> None:
        """Replace the rejectors of a pod that is in no group, the gauge included."""
        self._recount(info.profile, info.rejectors, rejectors, 1)
        info.set_rejectors(rejectors)

    def set_rejectors(self, group: Group, rejectors: Rejectors) -> None:
        """Let these be the rejectors of all members of a shape group."""
        if rejectors != group.rejectors:
            self._recount(group.profile, group.rejectors, rejectors, len(group.members))
        self.unschedulable.set_rejectors(group, rejectors)

    def count_rejectors(self, info: QueuedPodInfo, delta: int) -> None:
        """Move the gauge of unschedulable pods for all of the pod's rejectors."""
        for plugin in info.unschedulable_plugins | info.pending_plugins:
            self._metrics.unschedulable_pods(plugin, info.profile, delta)

    def remove(self, info: QueuedPodInfo) -> None:
        """Take the pod out of whichever queue it is in."""
        self._withdraw(info)
        info.place = NOWHERE
        del self._pods[info.key]

    def remove_head(self) -> QueuedPodInfo | None:
        """Take out the first active pod or, when there is none, the refused pod whose backoff ends first; None: nothing to do."""
        info = self.active.pop()
        if info is not None:
            info.place = NOWHERE
            del self._pods[info.key]
            return info
        info = self.backoff.pop_early()
        if info is not None:
            self._metrics.incoming("active", POP_FROM_BACKOFF_Q)
            self.remove(info)
        return info

    def mark(self, info: QueuedPodInfo, place: Place, event: str) -> None:
        """Write into the pod and the history where it is now."""
        info.place = place
        info.since = self._clock.now()
        self.history.record(info.since, info.key, place, event)

    def _admit(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue and write its outcome into the pod."""
        refusal = self._profiles[info.profile].pre_enqueue(info.pod_info, info.gating_plugin)
        if refusal is None:
            if info.gating_plugin:
                self._ungate(info)
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

    def _ungate(self, info: QueuedPodInfo) -> None:
        self._withdraw(info)
        info.gating_plugin = ""
        info.gating_message = ""

    def _withdraw(self, info: QueuedPodInfo) -> None:
        """Take the pod out of its structure while keeping it known: it is about to enter another one."""
        if info.place is ACTIVE:
            self.active.remove(info.key)
        elif info.place is BACKOFF:
            self.backoff.remove(info.key)
        elif info.group is not None:
            self.unschedulable.leave(info)
        info.place = NOWHERE

    def _join(self, info: QueuedPodInfo) -> Group:
        return self.unschedulable.join(info, nominated=info.uid in self.nominator)

    def _arrive(self, info: QueuedPodInfo, place: Place, event: str) -> None:
        self._pods[info.key] = info
        self.mark(info, place, event)

    def _recount(self, profile: str, old: Rejectors, new: Rejectors, pods: int) -> None:
        self._shift(profile, new.all - old.all, pods)
        self._shift(profile, old.all - new.all, -pods)

    def _shift(self, profile: str, plugins: Iterable[str], pods: int) -> None:
        for plugin in plugins if pods else ():
            self._metrics.unschedulable_pods(plugin, profile, pods)
