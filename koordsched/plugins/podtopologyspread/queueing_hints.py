"""When a change of a pod or a node may let a refused pod pass (framework.md §3.5).

Only hard constraints refuse, so only they are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Node, Pod
from koordsched.plugins.podtopologyspread.constraints import matches_any, own_constraints
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.plugins.podtopologyspread.constraints import SpreadConstraint
    from koordsched.plugins.podtopologyspread.eligible_domains import SpreadCounts


class SpreadHints:
    """The plugin's queueing hints, given the counts of a pod."""

    def __init__(self, counts_of: Callable[[PodInfo], SpreadCounts | None]) -> None:
        self._counts_of = counts_of

    def events(self) -> Sequence[EventHint]:
        pods = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
        nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        return (
            # UPDATE_POD_OTHER: a pod that begins to terminate is no longer counted. The reference retries when it is gone.
            EventHint(cluster_event(EventResource.POD, pods | ActionType.UPDATE_POD_OTHER), self.after_pod_change),
            EventHint(cluster_event(EventResource.NODE, nodes), self.after_node_change),
        )

    def after_pod_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the number of pods that some hard constraint counts may have changed, or this pod tolerates more."""
        changed = new if new is not None else old
        if not isinstance(changed, Pod):
            return QueueingHint.SKIP
        itself = changed.metadata.uid == pod.uid
        if not itself and not (changed.spec.node_name and changed.metadata.namespace == pod.pod.metadata.namespace):
            return QueueingHint.SKIP
        counts = self._counts_of(pod)
        hard = () if counts is None else counts.constraints.hard
        if isinstance(old, Pod) and isinstance(new, Pod):
            # Any constraint: one may lose the pod to another.
            differ = any(_counts(constraint, old) != _counts(constraint, new) for constraint in hard)
            return _answer(differ or (itself and (_tolerates_more(hard, old, new) or _has_other_constraints(old, new))))
        return _answer(matches_any(hard, changed))

    def after_node_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when a node with all keys came or went, or one's domains or taints changed."""
        counts = self._counts_of(pod)
        if counts is None or not counts.constraints.hard:
            return QueueingHint.SKIP
        before, after = _domains(old, counts.hard_keys), _domains(new, counts.hard_keys)
        if before != after:
            return QueueingHint.QUEUE
        return _answer(after is not None and isinstance(old, Node) and isinstance(new, Node) and _eligibility_differs(counts, old, new))


def _counts(constraint: SpreadConstraint, pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and matches_any((constraint,), pod)


def _tolerates_more(hard: Iterable[SpreadConstraint], old: Pod, new: Pod) -> bool:
    return old.spec.tolerations != new.spec.tolerations and any(constraint.honors_taints for constraint in hard)


def _has_other_constraints(old: Pod, new: Pod) -> bool:
    """Answer whether the pod's labels change its constraints: by matchLabelKeys, or by whether it counts itself."""
    if old.metadata.labels == new.metadata.labels:
        return False
    return not new.spec.topology_spread_constraints or own_constraints(old).hard != own_constraints(new).hard


def _eligibility_differs(counts: SpreadCounts, old: Node, new: Node) -> bool:
    """Answer whether a node that has all keys may have become eligible, or ceased to be. The reference looks at taints only."""
    return old.spec.taints != new.spec.taints or (counts.domains.is_restricted and old.metadata.labels != new.metadata.labels)


def _domains(node: Object | None, keys: Iterable[str]) -> list[str] | None:
    """Return the node's value of each key; None without a node or a key."""
    if not isinstance(node, Node) or not all(key in node.metadata.labels for key in keys):
        return None
    return [node.metadata.labels[key] for key in keys]


def _answer(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
