"""Nominations: pending pods for which a node is being made free (framework.md §3.4).

What is here may be ahead of the API server: a preemptor is nominated the moment it is decided, before the write, so that the pods tried
right after it do not take the room. Filters count a nominated pod against pods of the same or lower priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.podinfo import PodInfo


class Nominator:
    """Node -> nominated pods and uid -> node. `version` changes whenever anything here does."""

    def __init__(self) -> None:
        self.version = 0
        self._pods: dict[str, dict[str, PodInfo]] = {}  # node -> uid -> pod, in order of nomination; no empty entries
        self._nodes: dict[str, str] = {}  # uid -> node

    def __contains__(self, uid: str) -> bool:
        return uid in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def nodes(self) -> Mapping[str, Mapping[str, PodInfo]]:
        """All nominations: node -> uid -> pod. Do not change."""
        return self._pods

    def node_of(self, uid: str) -> str:
        """Return the node the pod is nominated for, "" for none."""
        return self._nodes.get(uid, "")

    def pods_on(self, node: str) -> list[PodInfo]:
        return list(self._pods.get(node, {}).values())

    def blocking(self, pod: PodInfo) -> dict[str, list[PodInfo]]:
        """Return, by node, the nominated pods that this pod must make room for: other pods of at least its priority. O(nominations)."""
        found = {}
        for node, pods in self._pods.items():
            ahead = [other for uid, other in pods.items() if uid != pod.uid and other.priority >= pod.priority]
            if ahead:
                found[node] = ahead
        return found

    def set(self, pod: PodInfo, node: str) -> None:
        """Nominate the pod for the node instead of any other; "" withdraws. The caller knows that the pod exists and is not bound."""
        if not node:
            if self._nodes:
                self.remove(pod.uid)
        elif self._nodes.get(pod.uid) != node:
            self.remove(pod.uid)
        if node:
            self._nodes[pod.uid] = node
            self._pods.setdefault(node, {})[pod.uid] = pod
            self.version += 1

    def remove(self, uid: str) -> None:
        """Withdraw the pod's nomination, if any."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        pods = self._pods[node]
        del pods[uid]
        if not pods:
            del self._pods[node]
        self.version += 1

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Follow a change of the pod. Where neither state names a node the nomination in memory stays: its write may be under way."""
        named = new.pod.status.nominated_node_name
        if not named and not old.pod.status.nominated_node_name:
            named = self.node_of(new.uid)
        self.set(new, named)
