"""Handlers of what the informers report: nodes, pods, and the other kinds whose changes may move pods (framework.md §3.4, §3.5 and §4).

Called by informers, synchronously. A change goes to the cache and the plugins first and then to the queue, so when the queue looks for the
pods that it may help, the node table and the plugins' facts are up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from koordsched.api.koordinator.operating_pods import is_operating, lends_otherwise
from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError
from koordsched.cluster.event_series import EventText
from koordsched.cluster.object_store import LATER
from koordsched.log import get_logger
from koordsched.queue.event_detection import node_events, pod_update_events
from koordsched.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_POD_DELETE,
    UNSCHEDULABLE_POD_UPDATE,
    ActionType,
    EventResource,
    cluster_event,
)
from koordsched.scheduler.failure import SCHEDULER_NAME_UNMATCHED, bound_to, refreshed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.api.core import Node, Pod
    from koordsched.api.kinds import Kind
    from koordsched.api.meta import Object
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.interface import Plugin
    from koordsched.queue.events import ClusterEvent
    from koordsched.scheduler.context import SchedulerContext

log = get_logger(__name__)


class NodeHandler:
    """Brings nodes into the cache."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._perf = context.clock.perf
        self._handling = context.metrics.event_handling

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        started = self._perf()
        if self._set(node):
            self._context.queue.move_all(NODE_ADD, None, node)
        self._handling(NODE_ADD.label).observe(self._perf() - started)

    def on_update(self, old: Node, new: Node) -> None:
        """Move pods for each event that the update is; the cache is updated once, and its time counts for each."""
        started = self._perf()
        if not self._set(new):
            return
        setting = self._perf() - started
        for event in node_events(old, new):
            started = self._perf()
            self._context.queue.move_all(event, old, new)
            self._handling(event.label).observe(setting + self._perf() - started)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        started = self._perf()
        self._context.cache.remove_node(node.metadata.name)
        self._context.queue.move_all(NODE_DELETE, node, None)
        self._handling(NODE_DELETE.label).observe(self._perf() - started)

    def _set(self, node: Node) -> bool:
        try:
            self._context.cache.set_node(node)
        except QuantityError as error:
            # No pod may go to a node whose size is not known, and none may be lost because of it.
            log.error("node left out: its resources cannot be read", node=node.metadata.name, path=error.path, err=str(error))
            self._context.cache.remove_node(node.metadata.name)
            return False
        return True


class PodHandler:
    """Brings bound pods into the cache, and pending pods of this scheduler's profiles into the queue.

    Pending pods of the first list are left to `add_listed`, to be called once the first lists of all kinds are read: before, PreEnqueue
    would hold back each member of a gang whose other members are further down the list, only to be asked again.
    """

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._profiles = context.profiles
        self._late = context.late_lists
        self._perf = context.clock.perf
        self._handling = context.metrics.event_handling
        self._pending_added = self._handling(UNSCHEDULABLE_POD_ADD.label)
        self._bound_added = self._handling(ASSIGNED_POD_ADD.label)

    def on_add(self, pod: Pod, arrival: Arrival) -> None:
        if pod.spec.node_name:
            self._add_bound(pod)
        elif arrival is LATER:
            self._add_pending(pod)

    def add_listed(self, pod: Pod) -> None:
        """Add a pod of the first list if it is still pending and not in the queue yet because of a change that the watch has brought."""
        if not pod.spec.node_name and self._context.queue.get(_key(pod)) is None:
            self._add_pending(pod)

    def on_update(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name:
            self._update_bound(old, new)
        elif new.spec.node_name:
            self._was_bound(old, new)
        else:
            self._update_pending(old, new)

    def on_delete(self, pod: Pod, _final_state: FinalState) -> None:
        self._delete(pod)

    # Bound pods

    def _add_bound(self, pod: Pod) -> None:
        started = self._perf()
        info = self._assumed(pod) or self._read(pod, counted_on_node=True)
        if info is None:
            return
        self._late.note(info)
        self._context.cache.set_pod(info, pod.spec.node_name)
        self._context.queue.move_all(ASSIGNED_POD_ADD, None, pod)
        self._bound_added.observe(self._perf() - started)

    def _was_bound(self, old: Pod, new: Pod) -> None:
        """Count a pod on the node to which it was bound; one that is still in the queue was bound by another scheduler."""
        self._context.status_writer.forget(new.metadata.uid)
        waiting = self._context.queue.get(_key(old))
        if waiting is not None:
            self._context.queue.forget(waiting.pod_info)
        self._add_bound(new)

    def _update_bound(self, old: Pod, new: Pod) -> None:
        started = self._perf()
        before, after = self._read(old, counted_on_node=True), self._read(new, counted_on_node=True)
        if after is None:
            return
        self._context.cache.set_pod(after, new.spec.node_name)
        setting = self._perf() - started
        for event in pod_update_events(before, after) if before is not None else ():
            started = self._perf()
            self._context.queue.move_all(event, old, new)
            self._handling(event.label).observe(setting + self._perf() - started)
        if is_operating(new) and lends_otherwise(old, new):
            self._context.queue.move_all(ASSIGNED_POD_DELETE, new, None)  # its owners may find free what it holds (reservation.md D20)

    def _assumed(self, pod: Pod) -> PodInfo | None:
        """Return the facts of a pod that this scheduler bound; they hold still as long as none of its containers has a status."""
        state = self._context.cache.pods.get(pod.metadata.uid)
        if state is None or pod.status.container_statuses or pod.status.init_container_statuses:
            return None
        before = state.info.pod.spec
        same = pod.spec.containers == before.containers and pod.spec.init_containers == before.init_containers
        same = same and pod.spec.overhead == before.overhead and pod.spec.resources == before.resources
        return state.info.with_pod(pod) if same else None

    # Pending pods

    def _add_pending(self, pod: Pod) -> None:
        started = self._perf()
        profile = self._profiles.get(pod.spec.scheduler_name)
        info = self._read(pod) if profile is not None else None
        if profile is None or info is None or self._late.hold(info):
            return
        info.shape = profile.shapes.key(info)
        self._context.queue.add(info)
        self._pending_added.observe(self._perf() - started)

    def _update_pending(self, old: Pod, new: Pod) -> None:
        if old.spec.scheduler_name != new.spec.scheduler_name:
            self._hand_over(old, new)
            return
        profile = self._profiles.get(new.spec.scheduler_name)
        if profile is None or self._late.is_held(_key(new)):
            return
        if self._context.cache.is_assumed(new.metadata.uid):
            self._update_assumed(old, new)
            return
        started = self._perf()
        waiting = self._context.queue.get(_key(new))
        before = waiting.pod_info if waiting is not None else self._read(old)
        try:
            after = refreshed(before, new, profile) if before is not None else None
        except QuantityError as error:
            self._report_unreadable(new, error)
            return
        if before is None or after is None:
            self._add_pending(new)
        else:
            after.shape = after.shape or profile.shapes.key(after)
            self._context.queue.update(before, after)
            took = self._perf() - started
            self._handling(UNSCHEDULABLE_POD_UPDATE.label).observe(took)
            for event in pod_update_events(before, after):
                if event is not UNSCHEDULABLE_POD_UPDATE:
                    self._handling(event.label).observe(took)

    def _hand_over(self, old: Pod, new: Pod) -> None:
        """Follow a pod whose label names another scheduler from now on (frameworkext.md §3 item 6): no more ours, ours now, or another
        profile's. An attempt that is under way ends first; where it fails, the failure path passes the pod on.
        """
        uid = new.metadata.uid
        if self._context.cache.is_assumed(uid):
            waiting_on_permit = self._context.waiting_pods.get(uid)
            if waiting_on_permit is not None:
                waiting_on_permit.reject("", SCHEDULER_NAME_UNMATCHED)
            else:
                self._update_assumed(old, new)
        elif not self._context.queue.is_in_flight(uid):
            waiting = self._context.queue.get(_key(new))
            if waiting is not None:
                self._context.queue.delete(waiting.pod_info)
                self._context.status_writer.forget(uid)
            self._add_pending(new)

    def _update_assumed(self, old: Pod, new: Pod) -> None:
        """An assumed pod that is being deleted makes room at once; other changes are the kubelet's business."""
        if new.metadata.deletion_timestamp is None or old.metadata.deletion_timestamp is not None:
            return
        if self._end_wait_on_permit(new.metadata.uid):
            return
        node = self._context.cache.pods[new.metadata.uid].node.name
        self._context.cache.forget_pod(new.metadata.uid)
        self._context.queue.move_all(ASSIGNED_POD_DELETE, bound_to(new, node), None)

    # Either

    def _delete(self, pod: Pod) -> None:
        started = self._perf()
        uid = pod.metadata.uid
        self._late.forget(_key(pod))
        self._context.status_writer.forget(uid)
        self._end_wait_on_permit(uid)
        waiting = self._context.queue.get(_key(pod))
        if waiting is not None and waiting.uid == uid:
            self._context.queue.delete(waiting.pod_info)
            self._handling(UNSCHEDULABLE_POD_DELETE.label).observe(self._perf() - started)
        counted = self._context.cache.pods.get(uid)
        if pod.spec.node_name or (counted is not None and counted.assumed):
            # Assumed: whatever becomes of its binding, the pod is gone or has ended, and no event of it follows.
            self._context.cache.remove_pod(uid)
            self._context.queue.move_all(ASSIGNED_POD_DELETE, pod if counted is None else bound_to(pod, counted.node.name), None)
            self._handling(ASSIGNED_POD_DELETE.label).observe(self._perf() - started)

    def _end_wait_on_permit(self, uid: str) -> bool:
        """Send a pod that waits on Permit back, refused by no plugin: it is not to be parked. Answer whether it waited."""
        waiting = self._context.waiting_pods.get(uid)
        if waiting is None:
            return False
        waiting.reject("", "removed")
        return True

    def _read(self, pod: Pod, *, counted_on_node: bool = False) -> PodInfo | None:
        try:
            return PodInfo(pod, counted_on_node=counted_on_node)
        except QuantityError as error:
            self._report_unreadable(pod, error)
            return None

    def _report_unreadable(self, pod: Pod, error: QuantityError) -> None:
        """Report it in the log and in an event of the pod, which is left alone until it changes."""
        log.error("pod left out: its resources cannot be read", pod=_key(pod), path=error.path, err=str(error))
        if pod.spec.scheduler_name in self._profiles:
            text = EventText("Warning", "FailedScheduling", "Scheduling", f"{error.path}: {error}")
            self._context.events(pod.spec.scheduler_name).event(pod, text)


EVENT_RESOURCES: dict[str, EventResource] = {
    NAMESPACE.plural_group: EventResource.NAMESPACE,
    PERSISTENT_VOLUME.plural_group: EventResource.PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM.plural_group: EventResource.PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS.plural_group: EventResource.STORAGE_CLASS,
    CSI_NODE.plural_group: EventResource.CSI_NODE,
    CSI_DRIVER.plural_group: EventResource.CSI_DRIVER,
    CSI_STORAGE_CAPACITY.plural_group: EventResource.CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT.plural_group: EventResource.VOLUME_ATTACHMENT,
}
"""Other kinds, of whatever version, whose changes may move unschedulable pods (framework.md §3.5)."""


def custom_event_kinds(plugins: Iterable[Plugin]) -> frozenset[str]:
    """Return the custom resources, by plural and group, whose changes may move pods that these plugins refuse.

    Those of which a plugin registered events; and all that a plugin brings, if it waits for every event.
    """
    found: set[str] = set()
    for plugin in plugins:
        events = plugin.events_to_register()
        found |= {kind.plural_group for kind in plugin.kinds} if events is None else {hint.event.kind for hint in events}
    return frozenset(found - {""})


class ObjectHandler:
    """Moves the pods that a change of another kind may help. Added after the handlers of plugins, which keep the facts that hints read."""

    def __init__(self, context: SchedulerContext, kind: Kind) -> None:
        resource = EVENT_RESOURCES.get(kind.plural_group, EventResource.CUSTOM)
        custom = kind.plural_group if resource is EventResource.CUSTOM else ""
        self._queue = context.queue
        self._perf, self._handling = context.clock.perf, context.metrics.event_handling
        self._add = cluster_event(resource, ActionType.ADD, custom)
        self._update = cluster_event(resource, ActionType.UPDATE_OTHER, custom)
        self._delete = cluster_event(resource, ActionType.DELETE, custom)

    def on_add(self, obj: Object, _arrival: Arrival) -> None:
        self._move(self._add, None, obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._move(self._update, old, new)

    def on_delete(self, obj: Object, _final_state: FinalState) -> None:
        self._move(self._delete, obj, None)

    def _move(self, event: ClusterEvent, old: Object | None, new: Object | None) -> None:
        started = self._perf()
        self._queue.move_all(event, old, new)
        self._handling(event.label).observe(self._perf() - started)


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
