"""When a change of a pod or a node may let a refused pod pass (framework.md §3.5).

Only hard constraints refuse, so only they are looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Node, Pod
from koordsched.plugins.podtopologyspread.constraints import matches_any, own_demand
from koordsched.queue.events import QueueingHint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.plugins.podtopologyspread.constraints import Constraint
    from koordsched.plugins.podtopologyspread.spread import Spread

Hard = tuple["Constraint", ...]


class Hints:
    """Answers for waiting pods, given their spreads."""

    def __init__(self, spread_of: Callable[[PodInfo], Spread | None]) -> None:
        self._spread_of = spread_of

    def after_pod_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when the number of pods that some hard constraint counts may have changed, or this pod tolerates more."""
        changed = new if new is not None else old
        if not isinstance(changed, Pod) or not _concerns(pod, changed):
            return QueueingHint.SKIP
        hard = self._hard(pod)
        if isinstance(old, Pod) and isinstance(new, Pod):
            itself = new.metadata.uid == pod.uid
            return _answer(_counts_differ(hard, old, new) or (itself and (_tolerates_more(hard, old, new) or _asks_otherwise(old, new))))
        return _answer(matches_any(hard, changed))

    def after_node_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when a node with all keys came or went, or one's domains or taints changed."""
        spread = self._spread_of(pod)
        if spread is None or not spread.demand.hard:
            return QueueingHint.SKIP
        before, after = _domains(old, spread.hard_keys), _domains(new, spread.hard_keys)
        if before != after:
            return QueueingHint.QUEUE
        return _answer(after is not None and isinstance(old, Node) and isinstance(new, Node) and _eligibility_differs(spread, old, new))

    def _hard(self, pod: PodInfo) -> Hard:
        spread = self._spread_of(pod)
        return () if spread is None else spread.demand.hard


def _concerns(pod: PodInfo, changed: Pod) -> bool:
    """Answer whether the change is of the pod itself or of a bound pod in its namespace."""
    if changed.metadata.uid == pod.uid:
        return True
    return bool(changed.spec.node_name) and changed.metadata.namespace == pod.pod.metadata.namespace


def _counts_differ(hard: Hard, old: Pod, new: Pod) -> bool:
    """Answer whether some constraint counts the pod otherwise than before: one may lose it to another."""
    return any(_counts(constraint, old) != _counts(constraint, new) for constraint in hard)


def _counts(constraint: Constraint, pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and matches_any((constraint,), pod)


def _tolerates_more(hard: Hard, old: Pod, new: Pod) -> bool:
    return old.spec.tolerations != new.spec.tolerations and any(constraint.honors_taints for constraint in hard)


def _asks_otherwise(old: Pod, new: Pod) -> bool:
    """Answer whether the pod's labels make its constraints other ones: by matchLabelKeys, or by whether it counts itself."""
    if old.metadata.labels == new.metadata.labels:
        return False
    return not new.spec.topology_spread_constraints or own_demand(old).hard != own_demand(new).hard


def _eligibility_differs(spread: Spread, old: Node, new: Node) -> bool:
    """Answer whether a node that has all keys may have become one to look at, or ceased to be. The reference looks at taints only."""
    return old.spec.taints != new.spec.taints or (spread.places.is_restricted and old.metadata.labels != new.metadata.labels)


def _domains(node: Object | None, keys: Iterable[str]) -> list[str] | None:
    """Return the node's value of each key; None without a node or a key."""
    if not isinstance(node, Node) or not all(key in node.metadata.labels for key in keys):
        return None
    return [node.metadata.labels[key] for key in keys]


def _answer(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
