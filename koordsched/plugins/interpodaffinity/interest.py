"""What pods of one signature have to look at: counters, each with the topology key by whose domains it is summed.

An `Interest` is compiled once for a signature and follows what is known: only terms that appeared since are looked at, everything is looked
at again when namespaces changed. The versions differ whenever the answer for a row may that saw no change itself: another set of counters
(its serial), another label of some node, another domain that refuses (`filtering`), or another sum of a domain (`scoring`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched._core.affinity import any_with
from koordsched.cache.pod_counts import PodQuery
from koordsched.plugins.interpodaffinity.existing import Kind, OwnedTerm
from koordsched.plugins.interpodaffinity.filtering import Filtering
from koordsched.plugins.interpodaffinity.terms import Affinity, all_of, selects

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from koordsched._core.counts import RowCounts
    from koordsched.plugins.interpodaffinity.interests import Interests
    from koordsched.plugins.interpodaffinity.terms import Term

NO_TERMS = Affinity()

Signature = tuple[Affinity | None, str, tuple[tuple[str, str], ...]]


class Counter(msgspec.Struct, frozen=True):
    """Pods by row, and the topology key by whose domains they are summed, as the id of its column."""

    attribute: int
    counts: RowCounts
    weight: int = 1


class Interest:
    """The counters of one signature. Call `refresh` (or `version`, which does) before reading them."""

    def __init__(self, known: Interests, signature: Signature) -> None:
        self._known = known
        affinity, self._namespace, labels = signature
        self._labels = dict(labels)
        self.own = affinity or NO_TERMS
        self.together: tuple[Counter, ...] = ()  # pods that match all required terms, once for each topology key
        self.unreachable = False  # no node has the topology key of some required term
        self.apart: tuple[Counter, ...] = ()  # pods that match a required anti-affinity term
        self.existing: tuple[Counter, ...] = ()  # owners of required anti-affinity terms that mean this pod
        self.wishes: tuple[Counter, ...] = ()  # everything that scores
        self.matches_itself = False
        self.means: list[OwnedTerm] = []  # known terms, owned or not, that mean this pod
        self._generation = -1
        self._position = 0
        self._namespaces_version = -1
        self._filter_serial = self._score_serial = 0
        self._filter_counts: tuple[RowCounts, ...] = ()
        self._filtered_at = (0, 0, 0)  # serial, node labels and counts that `_filtering` is of
        self._filter_version: Hashable = 0
        self._filtering: Filtering | None = None  # the last one

    def version(self) -> Hashable:
        """Return what the filter's answers depend on besides the row."""
        self.refresh()
        if self._filter_counts:
            labels = self._known.label_changes.version()
            total = 0
            for counts in self._filter_counts:
                total += counts.version
            if self._filtered_at != (self._filter_serial, labels, total):
                self._filtered_at = (self._filter_serial, labels, total)
                self._filtering = Filtering(self._known, self)
                self._filter_version = (self._filter_serial, labels, self._filtering.key)
        return self._filter_version

    def filtering(self) -> Filtering:
        """Return what the counters refuse now, or inside the simulation that the cache makes."""
        if self._known.cache.simulating:
            self.refresh()
            return Filtering(self._known, self)
        self.version()
        if self._filtering is None:
            self._filtering = Filtering(self._known, self)
        return self._filtering

    def score_version(self) -> Hashable:
        """Return what scores depend on besides the row."""
        self.refresh()
        if not self.wishes:
            return self._score_serial
        labels, contributes, total = self._known.label_changes.version(), False, 0
        for counter in self.wishes:
            contributes = contributes or counter.counts.total > 0
            if not self._known.is_unique(counter.attribute):
                total += counter.counts.version
        return self._score_serial, labels, contributes, total

    @property
    def contributes(self) -> bool:
        """Whether any node gets a score."""
        return any(counter.counts.total for counter in self.wishes)

    def refresh(self) -> None:
        """Follow what is known: terms, namespaces."""
        known = self._known
        terms, namespaces = known.terms, known.namespaces
        if self._generation == terms.generation and self._namespaces_version == namespaces.version:
            if self._position == len(terms.log):
                return
            found = [owned for owned in terms.log[self._position :] if self.matches(owned.term)]
            self._position = len(terms.log)
            if not found:
                return
            self.means += found
        else:
            self.means = [owned for owned in terms.candidates(self._namespace, self._labels) if self.matches(owned.term)]
            self._generation, self._position, self._namespaces_version = terms.generation, len(terms.log), namespaces.version
        self._compile()

    def nobody_matches(self) -> bool:
        """Answer whether no domain holds a pod that matches all required terms."""
        return not any(any_with(counter.counts, counter.attribute) for counter in self.together)

    def matches(self, term: Term) -> bool:
        """Answer whether a term means pods of this signature."""
        namespaces = self._known.namespaces
        return selects(term, self._namespace, namespaces.labels(self._namespace), self._labels)

    def _compile(self) -> None:
        before, wishes_before = self._filter_parts(), self.wishes
        own = self.own
        self.matches_itself = bool(own.required) and all(self.matches(term) for term in own.required)
        # A topology key that no node has divides nothing: there is nothing to count. Anybody may name such keys.
        columns = self._known.cache.columns.labels
        self.unreachable = any(term.topology_key not in columns for term in own.required)
        self.together = tuple(self._together())
        self.apart = tuple(self._counter((term,), term.topology_key) for term in own.required_anti if term.topology_key in columns)
        self.existing = tuple(
            self._owners(owned, 1) for owned in self.means if owned.kind is Kind.REQUIRED_ANTI and owned.term.topology_key in columns
        )
        self.wishes = tuple(self._wishes())
        if self._filter_serial == 0 or before != self._filter_parts():
            self._filter_serial = next(self._known.serials)
            self._filter_counts = _distinct((*self.together, *self.apart, *self.existing))
            self._filter_version, self._filtering = self._filter_serial, None
        if self._score_serial == 0 or wishes_before != self.wishes:
            self._score_serial = next(self._known.serials)

    def _filter_parts(self) -> tuple[object, ...]:
        return self.unreachable, self.together, self.apart, self.existing, self.matches_itself

    def _together(self) -> Iterator[Counter]:
        required = self.own.required
        columns = self._known.cache.columns.labels
        for key in dict.fromkeys(term.topology_key for term in required if term.topology_key in columns):
            yield self._counter(required, key)

    def _wishes(self) -> Iterator[Counter]:
        columns = self._known.cache.columns.labels
        for term, weight in self.own.preferred:
            if term.topology_key not in columns:
                continue
            yield self._counter((term,), term.topology_key, weight)
        args = self._known.args
        if args.ignore_preferred_terms_of_existing_pods and not self.own.preferred:
            return  # neither theirs nor, with them, their required ones
        for owned in self.means:
            if owned.term.topology_key not in columns:
                continue
            if owned.kind is Kind.PREFERRED:
                yield self._owners(owned, owned.weight)
            elif owned.kind is Kind.REQUIRED and args.hard_pod_affinity_weight:
                yield self._owners(owned, args.hard_pod_affinity_weight)

    def _counter(self, terms: tuple[Term, ...], key: str, weight: int = 1) -> Counter:
        """Count the pods that match all these terms."""
        known = self._known
        query = PodQuery(known.namespaces.of(terms), all_of(terms))
        return Counter(known.attribute(key), known.cache.counts.count(query), weight)

    def _owners(self, owned: OwnedTerm, weight: int) -> Counter:
        return Counter(self._known.attribute(owned.term.topology_key), owned.counts(self._known.cache), weight)


def _distinct(counters: Iterable[Counter]) -> tuple[RowCounts, ...]:
    return tuple({id(counter.counts): counter.counts for counter in counters}.values())
