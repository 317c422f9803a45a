"""The pods in the queues by their labels, names, uids or owners: to find those that are signed differently from now on (`PodsWith`).

Only what has been asked for is indexed: where no plugin signs pods by what they have, nothing is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.cache.plugin_state import NAME, OWNER_NAME, UID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from koordsched.api.core import Pod
    from koordsched.cache.plugin_state import Need
    from koordsched.queue.queued_pod import QueuedPodInfo

MOST_FACETS = 16  # label keys and kinds that are indexed; for others all pods are found


class WaitingIndex:
    """asked: whether anything is indexed, so that pods that come and go have to be reported."""

    def __init__(self, pods: Mapping[str, QueuedPodInfo]) -> None:
        """pods: those in the queues, by key."""
        self.asked = False
        self._pods = pods
        self._facets: dict[Need, dict[str, dict[str, QueuedPodInfo]]] = {}  # by Need without its value: pods by key, by value

    def having(self, needs: Collection[Need]) -> Collection[QueuedPodInfo]:
        """Return all pods of which one of the needs holds, and maybe others. O(these); O(pods) for a label key's or kind's first time."""
        found: dict[str, QueuedPodInfo] = {}
        for need in needs:
            facet = need[:-1]
            if facet not in self._facets:
                if len(self._facets) == MOST_FACETS:
                    return list(self._pods.values())
                self._begin(facet)
            found |= self._facets[facet].get(need[-1], {})
        return found.values()

    def _begin(self, facet: Need) -> None:
        self._facets[facet] = {}
        self.asked = True
        for info in self._pods.values():
            self._add(info, facet)

    def add(self, info: QueuedPodInfo) -> None:
        for facet in self._facets:
            self._add(info, facet)

    def _add(self, info: QueuedPodInfo, facet: Need) -> None:
        pods = self._facets[facet]
        for value in values_of(info.pod_info.pod, facet):
            pods.setdefault(value, {})[info.key] = info

    def remove(self, info: QueuedPodInfo) -> None:
        for facet, pods in self._facets.items():
            for value in values_of(info.pod_info.pod, facet):
                of_value = pods.get(value)
                if of_value is not None:
                    of_value.pop(info.key, None)
                    if not of_value:
                        del pods[value]


def values_of(pod: Pod, facet: Need) -> Iterable[str]:
    """Return with which values a need of this label key or kind holds of the pod."""
    meta = pod.metadata
    if len(facet) == 1:
        value = meta.labels.get(facet[0])
        return () if value is None else (value,)
    if facet[1] == NAME:
        return (meta.name,)
    if facet[1] == UID:
        return (meta.uid,)
    return [owner.name if facet[1] == OWNER_NAME else owner.uid for owner in meta.owner_references]
