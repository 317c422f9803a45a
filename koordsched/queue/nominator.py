"""Nominations: pending pods for which preemption makes room on a node (framework.md §3.4).

A nomination is made here when preemption decides, before it is written to the API server, so that the pods tried right after do not take
the room. Filters count a nominated pod against pods of the same or lower priority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.podinfo import PodInfo


class NominationFollower(Protocol):
    """Keeps facts about nominations. Called right after each change."""

    def nominated(self, pod: PodInfo, node: str) -> None: ...

    def withdrawn(self, pod: PodInfo, node: str) -> None: ...


class Nominator:
    """Node -> nominated pods and uid -> node. `version` changes whenever anything here does."""

    def __init__(self) -> None:
        self.version = 0
        self._pods: dict[str, dict[str, PodInfo]] = {}  # node -> uid -> pod, in order of nomination; no empty entries
        self._nodes: dict[str, str] = {}  # uid -> node
        self._followers: list[NominationFollower] = []

    def __contains__(self, uid: str) -> bool:
        return uid in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def nodes(self) -> Mapping[str, Mapping[str, PodInfo]]:
        """All nominations: node -> uid -> pod. Do not change."""
        return self._pods

    def node_of(self, uid: str) -> str:
        """Return the node that the pod is nominated for, "" for none."""
        return self._nodes.get(uid, "")

    def pods_on(self, node: str) -> list[PodInfo]:
        return list(self._pods.get(node, {}).values())

    def get(self, uid: str) -> PodInfo | None:
        """Return the nominated pod as it was when it was nominated."""
        node = self._nodes.get(uid)
        return None if node is None else self._pods[node][uid]

    def ahead(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Return the other pods nominated for the node that count for this pod: those of its priority or higher."""
        pods = self._pods.get(node)
        if pods is None:
            return []
        return [other for uid, other in pods.items() if uid != pod.uid and other.priority >= pod.priority]

    def follow(self, follower: NominationFollower) -> None:
        """Call the follower for all nominations there are, and for every change from now on."""
        self._followers.append(follower)
        for node, pods in self._pods.items():
            for pod in pods.values():
                follower.nominated(pod, node)

    def set(self, pod: PodInfo, node: str) -> None:
        """Nominate the pod for the node instead of any other; "" withdraws. The pod must exist and not be bound."""
        if self._nodes:
            self.remove(pod.uid)
        if node:
            self._nodes[pod.uid] = node
            self._pods.setdefault(node, {})[pod.uid] = pod
            self.version += 1
            for follower in self._followers:
                follower.nominated(pod, node)

    def remove(self, uid: str) -> None:
        """Withdraw the pod's nomination, if any."""
        node = self._nodes.pop(uid, None)
        if node is None:
            return
        pods = self._pods[node]
        pod = pods.pop(uid)
        if not pods:
            del self._pods[node]
        self.version += 1
        for follower in self._followers:
            follower.withdrawn(pod, node)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """Follow a change of the pod. Where neither state names a node the nomination in memory stays: its write may be under way."""
        named = new.pod.status.nominated_node_name
        if not named and not old.pod.status.nominated_node_name:
            named = self.node_of(new.uid)
        self.set(new, named)
