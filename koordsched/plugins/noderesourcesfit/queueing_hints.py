"""Which events may help a pod that NodeResourcesFit refused (framework.md §3.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Node, Pod
from koordsched.api.resources import node_allocatable, pod_resources
from koordsched.queue.events import QueueingHint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.plugins.noderesourcesfit.filtering import CheckedRequests


class FitHints:
    """The plugin's queueing hints. QuantityError when an object's quantity cannot be read, which counts as Queue."""

    def __init__(self, requests: CheckedRequests) -> None:
        self._requests = requests
        self._last: tuple[tuple[Node, Mapping[str, int]], ...] = ()

    def after_pod_event(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when a pod with a node went away, when the waiting pod requests less, or when a bound pod uses less of what it requests."""
        assert isinstance(old, Pod)
        if not isinstance(new, Pod):
            helps = bool(old.spec.node_name or old.status.nominated_node_name)
        elif new.metadata.uid == pod.uid:
            helps = True
        else:
            helps = bool(new.spec.node_name) and self._shrank(pod, old, new)
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _shrank(self, pod: PodInfo, old: Pod, new: Pod) -> bool:
        before = pod_resources(old, counted_on_node=True).requests
        after = pod_resources(new, counted_on_node=True).requests
        return any(before.get(name, 0) > after.get(name, 0) for name in pod.resources.requests)

    def after_node_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the pod fits the node as long as it is empty, and the node is new or offers more than before of what matters.

        Ignored resources do not matter here either; fit.go of Kubernetes v1.35 forgets that and misses nodes.
        """
        assert isinstance(new, Node)
        requests = self._requests.checked(pod)
        after = self._allocatable(new)
        if not _fits(requests, after):
            return QueueingHint.SKIP
        helps = _grew(requests, self._allocatable(old), after) if isinstance(old, Node) else True
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _allocatable(self, node: Node) -> Mapping[str, int]:
        """Return what the node offers. One event is put to many shapes in a row, so the last two nodes are remembered."""
        for known, amounts in self._last:
            if known is node:
                return amounts
        amounts = node_allocatable(node)
        self._last = (self._last[-1], (node, amounts)) if self._last else ((node, amounts),)
        return amounts


def _fits(requests: Mapping[str, int], allocatable: Mapping[str, int]) -> bool:
    for name, amount in requests.items():  # a loop, not all(): this is asked once an event and waiting shape
        if amount > allocatable.get(name, 0):
            return False
    return allocatable.get("pods", 0) >= 1


def _grew(requests: Mapping[str, int], before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return any(after.get(name, 0) > before.get(name, 0) for name in ("pods", *requests))
