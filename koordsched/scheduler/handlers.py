"""What the cluster says, brought into the cache first and then to the queue's attention (framework.md §3.4 and §4).

Called by informers, synchronously: when the queue is told of a change, the node table shows it already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError
from koordsched.cluster.event_series import EventText
from koordsched.cluster.mirror import Arrival
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
)
from koordsched.scheduler.failure import bound_to, refreshed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node, Pod
    from koordsched.cluster.mirror import FinalState
    from koordsched.framework.profile import Profile
    from koordsched.scheduler.parts import Parts

log = get_logger(__name__)


class NodeHandler:
    """Nodes into the cache."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._perf = parts.clock.perf
        self._handling = parts.metrics.event_handling

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        started = self._perf()
        if self._set(node):
            self._parts.queue.move_all(NODE_ADD, None, node)
        self._handling(NODE_ADD.label).observe(self._perf() - started)

    def on_update(self, old: Node, new: Node) -> None:
        """Handle each thing that an update is; all of them took the update of the cache."""
        started = self._perf()
        if not self._set(new):
            return
        setting = self._perf() - started
        for event in node_events(old, new):
            started = self._perf()
            self._parts.queue.move_all(event, old, new)
            self._handling(event.label).observe(setting + self._perf() - started)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        started = self._perf()
        self._parts.cache.remove_node(node.metadata.name)
        self._parts.queue.move_all(NODE_DELETE, node, None)
        self._handling(NODE_DELETE.label).observe(self._perf() - started)

    def _set(self, node: Node) -> bool:
        try:
            self._parts.cache.set_node(node)
        except QuantityError as error:
            # No pod may go to a node whose size is not known, and none may be lost because of it.
            log.error("node left out: its resources cannot be read", node=node.metadata.name, path=error.path, err=str(error))
            self._parts.cache.remove_node(node.metadata.name)
            return False
        return True


class PodHandler:
    """Bound pods into the cache, pending ones of our profiles into the queue."""

    def __init__(self, parts: Parts, profiles: Mapping[str, Profile]) -> None:
        self._parts = parts
        self._profiles = profiles
        self._perf = parts.clock.perf
        self._handling = parts.metrics.event_handling
        self._pending_added = self._handling(UNSCHEDULABLE_POD_ADD.label)
        self._bound_added = self._handling(ASSIGNED_POD_ADD.label)

    def on_add(self, pod: Pod, _arrival: Arrival) -> None:
        if pod.spec.node_name:
            self._add_bound(pod)
        else:
            self._add_pending(pod)

    def on_update(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid:  # deleted and created again between two events
            self._delete(old)
            self.on_add(new, Arrival.LATER)
        elif old.spec.node_name:
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
        self._parts.cache.set_pod(info, pod.spec.node_name)
        self._parts.queue.move_all(ASSIGNED_POD_ADD, None, pod)
        self._bound_added.observe(self._perf() - started)

    def _was_bound(self, old: Pod, new: Pod) -> None:
        """Count it where it is now; if it waited in our queue somebody else bound it."""
        self._parts.status_writer.forget(new.metadata.uid)
        waiting = self._parts.queue.get(_key(old))
        if waiting is not None:
            self._parts.queue.forget(waiting.pod_info)
        self._add_bound(new)

    def _update_bound(self, old: Pod, new: Pod) -> None:
        started = self._perf()
        before, after = self._read(old, counted_on_node=True), self._read(new, counted_on_node=True)
        if after is None:
            return
        self._parts.cache.set_pod(after, new.spec.node_name)
        setting = self._perf() - started
        for event in pod_update_events(before, after) if before is not None else ():
            started = self._perf()
            self._parts.queue.move_all(event, old, new)
            self._handling(event.label).observe(setting + self._perf() - started)

    def _assumed(self, pod: Pod) -> PodInfo | None:
        """Return the facts of a pod that we bound ourselves, which need not be derived again: nothing runs yet that could differ."""
        state = self._parts.cache.pods.get(pod.metadata.uid)
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
        if profile is None or info is None:
            return
        info.shape = profile.shapes.key(info)
        self._parts.queue.add(info)
        self._pending_added.observe(self._perf() - started)

    def _update_pending(self, old: Pod, new: Pod) -> None:
        profile = self._profiles.get(new.spec.scheduler_name)
        if profile is None:
            return
        if self._parts.cache.is_assumed(new.metadata.uid):
            self._update_assumed(old, new)
            return
        started = self._perf()
        waiting = self._parts.queue.get(_key(new))
        before = waiting.pod_info if waiting is not None else self._read(old)
        try:
            after = refreshed(before, new, profile) if before is not None else None
        except QuantityError as error:
            self._say_unreadable(new, error)
            return
        if before is None or after is None:
            self._add_pending(new)
        else:
            after.shape = after.shape or profile.shapes.key(after)
            self._parts.queue.update(before, after)
            took = self._perf() - started
            self._handling(UNSCHEDULABLE_POD_UPDATE.label).observe(took)
            for event in pod_update_events(before, after):
                if event is not UNSCHEDULABLE_POD_UPDATE:
                    self._handling(event.label).observe(took)

    def _update_assumed(self, old: Pod, new: Pod) -> None:
        """An assumed pod that is being deleted makes room at once; other changes are the kubelet's business."""
        if new.metadata.deletion_timestamp is None or old.metadata.deletion_timestamp is not None:
            return
        waiting = self._parts.waiting_pods.get(new.metadata.uid)
        if waiting is not None:
            waiting.reject("", "removed")
            return
        node = self._parts.cache.pods[new.metadata.uid].node.name
        self._parts.cache.forget_pod(new.metadata.uid)
        self._parts.queue.move_all(ASSIGNED_POD_DELETE, bound_to(new, node), None)

    # Either

    def _delete(self, pod: Pod) -> None:
        started = self._perf()
        uid = pod.metadata.uid
        self._parts.status_writer.forget(uid)
        waiting_on_permit = self._parts.waiting_pods.get(uid)
        if waiting_on_permit is not None:
            waiting_on_permit.reject("", "removed")
        waiting = self._parts.queue.get(_key(pod))
        if waiting is not None and waiting.uid == uid:
            self._parts.queue.delete(waiting.pod_info)
            self._handling(UNSCHEDULABLE_POD_DELETE.label).observe(self._perf() - started)
        counted = self._parts.cache.pods.get(uid)
        if pod.spec.node_name or (counted is not None and counted.assumed):
            # Assumed: whatever becomes of its binding, it is gone, or has ended, and nothing will be heard of it again.
            self._parts.cache.remove_pod(uid)
            self._parts.queue.move_all(ASSIGNED_POD_DELETE, pod if counted is None else bound_to(pod, counted.node.name), None)
            self._handling(ASSIGNED_POD_DELETE.label).observe(self._perf() - started)

    def _read(self, pod: Pod, *, counted_on_node: bool = False) -> PodInfo | None:
        try:
            return PodInfo(pod, counted_on_node=counted_on_node)
        except QuantityError as error:
            self._say_unreadable(pod, error)
            return None

    def _say_unreadable(self, pod: Pod, error: QuantityError) -> None:
        """Tell the pod's author where they look; the pod is left alone until it changes."""
        log.error("pod left out: its resources cannot be read", pod=_key(pod), path=error.path, err=str(error))
        if pod.spec.scheduler_name in self._profiles:
            text = EventText("Warning", "FailedScheduling", "Scheduling", f"{error.path}: {error}")
            self._parts.events(pod.spec.scheduler_name).event(pod, text)


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
