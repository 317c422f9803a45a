"""Keeps nominations true to the nodes: one for a node that is gone, or that can no longer become right for the pod, is withdrawn.

kube-scheduler leaves a stale status.nominatedNodeName as it is until the pod is tried again, which may be never (kubernetes #106780); and
as long as it stands, pods of lower priority keep away from the node. Here it is checked when the node changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from koordsched.framework.status import Code
from koordsched.log import get_logger
from koordsched.queue.events import ASSIGNED_POD_DELETE, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node
    from koordsched.api.podinfo import PodInfo
    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.handle import Handle
    from koordsched.framework.profile import Profile
    from koordsched.scheduler.context import SchedulerContext

log = get_logger(__name__)


class NominationKeeper:
    """A handler of nodes; the cache shows their changes already."""

    def __init__(self, context: SchedulerContext, profiles: Mapping[str, Profile], handle: Handle) -> None:
        self._context = context
        self._profiles = profiles
        self._handle = handle

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        """Do nothing: a nomination that was read before its node holds from now on."""

    def on_update(self, old: Node, new: Node) -> None:
        name = new.metadata.name
        if name not in self._context.queue.nominator.nodes or (old.spec == new.spec and old.metadata.labels == new.metadata.labels):
            return
        for pod in self._context.queue.nominator.pods_on(name):
            if self._can_never_fit(pod, name):
                self._withdraw(pod, name)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        for pod in self._context.queue.nominator.pods_on(node.metadata.name):
            self._withdraw(pod, node.metadata.name)

    def _can_never_fit(self, pod: PodInfo, name: str) -> bool:
        """Answer whether the node refuses the pod for something that no eviction can change."""
        profile, node = self._profiles.get(pod.pod.spec.scheduler_name), self._context.cache.node(name)
        if profile is None or node is None:
            return False
        try:
            refusal = profile.shapes.simulation_for(pod).filter_node(pod, node)
        except Exception:
            log.exception("cannot find out whether a nomination still holds", pod=pod.key, node=name)
            return False
        return refusal is not None and refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def _withdraw(self, pod: PodInfo, name: str) -> None:
        log.info("a nomination no longer holds", pod=pod.key, node=name)
        self._handle.nominate(pod, "")
        was = replace(pod.pod, status=replace(pod.pod.status, nominated_node_name=name))
        self._context.queue.move_all(ASSIGNED_POD_DELETE, was, None, Scope(max_priority=pod.priority))
        self._handle.activate([pod])
