"""The namespaces of the cluster, as far as namespace selectors ask: their labels.

A namespace that is not known (its object comes later than a pod in it) has no labels. `version` moves when a selector may select others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Namespace
    from koordsched.api.selectors import LabelSelectorMatcher
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.mirror import Arrival, FinalState
    from koordsched.plugins.interpodaffinity.terms import Term

_NONE: Mapping[str, str] = {}


class Namespaces:
    """Labels by namespace, kept by the informer of namespaces."""

    def __init__(self, informer: Informer[Namespace]) -> None:
        self.version = 0
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selected: dict[LabelSelectorMatcher, frozenset[str]] = {}
        informer.add_handler(self)

    def labels(self, name: str) -> Mapping[str, str]:
        return self._labels.get(name, _NONE)

    def of(self, terms: tuple[Term, ...]) -> frozenset[str] | None:
        """Return the namespaces whose pods all these terms mean; None: those of any namespace."""
        common: frozenset[str] | None = None
        for term in terms:
            meant = self._meant(term)
            if meant is not None:
                common = meant if common is None else common & meant
        return common

    def _meant(self, term: Term) -> frozenset[str] | None:
        selector = term.namespace_selector
        if selector.everything:
            return None
        return term.namespaces if selector.nothing else term.namespaces | self._select(selector)

    def _select(self, selector: LabelSelectorMatcher) -> frozenset[str]:
        found = self._selected.get(selector)
        if found is None:
            found = frozenset(name for name, labels in self._labels.items() if selector.matches(labels))
            self._selected[selector] = found
        return found

    # Handler

    def on_add(self, obj: Namespace, _arrival: Arrival) -> None:
        self._changed(obj.metadata.name, obj.metadata.labels)

    def on_update(self, old: Namespace, new: Namespace) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._changed(new.metadata.name, new.metadata.labels)

    def on_delete(self, obj: Namespace, _final_state: FinalState) -> None:
        self._changed(obj.metadata.name, None)

    def _changed(self, name: str, labels: Mapping[str, str] | None) -> None:
        if labels is None:
            self._labels.pop(name, None)
        else:
            self._labels[name] = labels
        self._selected.clear()
        self.version += 1
