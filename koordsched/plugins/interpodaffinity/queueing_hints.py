"""Which events may help a pod that InterPodAffinity refused (framework.md §3.5, with the events that the reference misses).

Kubernetes v1.35 asks a deleted pod to match ALL anti-affinity terms and forgets the terms of the deleted pod itself, nodes that bring a
pod out of another's reach, and the first of a group (kubernetes #134393, #139135, #141354).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.core import Node, Pod
from koordsched.plugins.interpodaffinity.existing_terms import TermKind
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.plugins.interpodaffinity.compiled_affinity import AffinityCompiler, CompiledAffinity
    from koordsched.plugins.interpodaffinity.terms import AffinityTerm

NAMESPACE_ACTIONS = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_OTHER


class AffinityHints:
    """The plugin's queueing hints."""

    def __init__(self, compiler: AffinityCompiler) -> None:
        self._compiler = compiler

    def events(self) -> Sequence[EventHint]:
        pod_actions = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
        # A node that goes takes its pods out of their domain, before their own deletions arrive.
        node_actions = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL
        return (
            EventHint(cluster_event(EventResource.POD, pod_actions), self.after_pod_event),
            EventHint(cluster_event(EventResource.NODE, node_actions), self.after_node_event),
            EventHint(cluster_event(EventResource.NAMESPACE, NAMESPACE_ACTIONS), self.after_namespace_event),
        )

    def after_pod_event(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when a pod came that this one has to be near, one went that it avoids or that kept it out, or its own labels changed."""
        affinity = self._refreshed(pod)
        before, after = old if isinstance(old, Pod) else None, new if isinstance(new, Pod) else None
        if affinity is None or (before is None and after is None):
            return QueueingHint.SKIP
        if after is not None and after.metadata.uid == pod.uid:
            helps = before is not None
        elif after is None and before is not None:
            helps = self._after_delete(affinity, before)
        elif after is not None and after.spec.node_name:
            helps = self._after_change(affinity, before, after)
        else:
            helps = False  # it is not on a node yet
        return _answer(helps)

    def _after_change(self, affinity: CompiledAffinity, before: Pod | None, after: Pod) -> bool:
        """Answer for a bound pod that came (before is None) or got other labels."""
        required = affinity.own.required
        wanted_before = before is not None and self._matches_all(required, before)
        wanted_now = self._matches_all(required, after)
        if wanted_now and not wanted_before:
            return True
        if before is None:
            return False
        if any(self._matches(term, before) and not self._matches(term, after) for term in affinity.own.required_anti):
            return True
        kept_out = self._anti_terms(before)
        if kept_out != self._anti_terms(after) and any(affinity.matches(term) for term in kept_out):
            return True  # by matchLabelKeys they are other terms now
        return wanted_before and not wanted_now and self._is_first_of_its_group(affinity)

    def _after_delete(self, affinity: CompiledAffinity, gone: Pod) -> bool:
        if not gone.spec.node_name and not gone.status.nominated_node_name:
            return False
        if any(self._matches(term, gone) for term in affinity.own.required_anti):
            return True
        if any(affinity.matches(term) for term in self._anti_terms(gone)):
            return True
        return self._matches_all(affinity.own.required, gone) and self._is_first_of_its_group(affinity)

    def after_node_event(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when a node came into or went out of a domain, or became free of one, that matters to the pod."""
        affinity = self._refreshed(pod)
        if affinity is None:
            return QueueingHint.SKIP
        wanted = {term.topology_key for term in affinity.own.required}
        avoided = {term.topology_key for term in affinity.own.required_anti}
        avoided |= {existing.term.topology_key for existing in affinity.matching if existing.kind is TermKind.REQUIRED_ANTI}
        before, after = _labels(old), _labels(new)
        if before is None and after is not None:
            helps = bool(avoided) or any(key in after for key in wanted)
        elif after is None and before is not None:
            helps = any(key in before for key in wanted | avoided)
        elif before is not None and after is not None:
            moved = {key for key in wanted | avoided if before.get(key) != after.get(key)}
            helps = any(key in after for key in moved & wanted) or any(key in before for key in moved & avoided)
        else:
            helps = False
        return _answer(helps)

    def after_namespace_event(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """Queue when a namespace that a term may select, or the pod's own one that others' terms may, got other labels."""
        affinity = self._refreshed(pod)
        changed = new or old
        if affinity is None or changed is None or (old is not None and new is not None and old.metadata.labels == new.metadata.labels):
            return QueueingHint.SKIP
        own = any(not term.namespace_selector.nothing for term in (*affinity.own.required, *affinity.own.required_anti))
        return _answer(own or (self._compiler.terms.select_namespaces and changed.metadata.name == pod.pod.metadata.namespace))

    def _refreshed(self, pod: PodInfo) -> CompiledAffinity | None:
        affinity = self._compiler.compiled(pod)
        if affinity is not None:
            affinity.refresh()
        return affinity

    def _is_first_of_its_group(self, affinity: CompiledAffinity) -> bool:
        return affinity.filter_counts.matches_itself and all(each.are_empty() for each in affinity.filter_counts.affinity)

    def _anti_terms(self, pod: Pod) -> tuple[AffinityTerm, ...]:
        affinity = self._compiler.terms.reader.read(pod)
        return affinity.required_anti if affinity is not None else ()

    def _matches(self, term: AffinityTerm, pod: Pod) -> bool:
        meta = pod.metadata
        return term.matches(meta.namespace, self._compiler.namespaces.labels(meta.namespace), meta.labels)

    def _matches_all(self, terms: tuple[AffinityTerm, ...], pod: Pod) -> bool:
        return bool(terms) and all(self._matches(term, pod) for term in terms)


def _labels(node: Object | None) -> dict[str, str] | None:
    return node.metadata.labels if isinstance(node, Node) else None


def _answer(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP
