"""The check of what is kept of quotas: a `CheckedState` that compares it with the cluster's objects, node by node, and mends it.

Of a node that is what it offers, and how its pods count: in which quota, and as assigned. Sums and runtimes follow from these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import NODE, POD
from koordsched.cache.plugin_state import StateDifference
from koordsched.plugins.elasticquota.changes import PLUGIN
from koordsched.plugins.elasticquota.node_totals import offered_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.core import Node, Pod
    from koordsched.framework.handle import Handle
    from koordsched.plugins.elasticquota.manager import CountedPod
    from koordsched.plugins.elasticquota.state import QuotaState


class QuotaCheck:
    """The check of one state."""

    name = PLUGIN

    def __init__(self, handle: Handle, state: QuotaState) -> None:
        self._state = state
        self._counting = state.counting
        self._cache = handle.cache
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._pods: Mapping[str, Pod] = handle.informer(POD).store
        self._bound: dict[str, list[CountedPod]] = {}  # by node, as of the last `names`

    def names(self) -> Iterable[str]:
        self._bound = {}
        for counted in self._counting.pods.values():
            node = counted.pod.spec.node_name
            if node:
                self._bound.setdefault(node, []).append(counted)
        return {**dict.fromkeys(self._state.nodes.known), **dict.fromkeys(self._bound)}

    def differences(self, node: str) -> Iterable[StateDifference]:
        """Compare what a node offers, and its pods, with the objects."""
        ours, obj = self._state.nodes.known.get(node), self._nodes.get(node)
        leaving = obj is not None and obj.metadata.deletion_timestamp is not None  # what was known of it stays; else nothing is
        if (ours is None) != (obj is None) and not leaving:
            yield StateDifference("known", ours is not None, obj is not None)
        elif ours is not None and obj is not None and not leaving:
            actual = offered_by(obj)
            if ours != actual:
                yield StateDifference("offered", str(ours), str(actual))
        there = self._cache.nodes_by_name.get(node)
        pods = {} if there is None else there.pods
        for uid, info in pods.items():
            stored = self._pods.get(info.key)
            if stored is None or stored.metadata.uid != uid or stored.metadata.deletion_timestamp is not None:
                continue  # it stands for a Reservation, or is on its way out
            yield from self._pod_differences(self._counting.pods.get(uid), stored)
        for counted in self._bound.get(node, ()):
            if counted.uid not in pods and self._counting.pods.get(counted.uid) is counted and counted.key not in self._pods:
                yield StateDifference(f"pod {counted.key}", counted.quota.name, "")

    def _pod_differences(self, counted: CountedPod | None, pod: Pod) -> Iterable[StateDifference]:
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        quota = self._state.association.quota_of(pod)
        ours, actual = "" if counted is None else counted.quota.name, "" if quota is None else quota.name
        if ours != actual:
            yield StateDifference(f"quota of {key}", ours, actual)
        elif counted is not None and not counted.entry.assigned:
            yield StateDifference(f"pod {key} is assigned", False, True)

    def rebuild(self, node: str) -> None:
        """Count the node and its pods anew."""
        obj = self._nodes.get(node)
        if obj is None:
            self._state.remove_node(node)
        else:
            self._state.set_node(obj)
        there = self._cache.nodes_by_name.get(node)
        for uid, info in ({} if there is None else dict(there.pods)).items():
            stored = self._pods.get(info.key)
            if stored is None or stored.metadata.uid != uid:
                continue
            was_reserved = uid in self._counting.pods and not stored.spec.node_name
            self._counting.recount(stored)
            if was_reserved:
                self._counting.reserve(info)
        for counted in self._bound.pop(node, []):
            if counted.key not in self._pods and self._counting.pods.get(counted.uid) is counted:
                self._counting.remove_pod(counted.uid)
