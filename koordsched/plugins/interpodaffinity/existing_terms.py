"""The terms of existing pods: each distinct term once, its owners by row, and the terms that may match a given pod.

However many pods have a term, it is kept once; its owners are a number a row. Terms of pending pods are kept too, without owners: a
nominated pod counts on its node while a simulation adds it there. Terms without owners are forgotten when there are too many. Which
namespaces a namespace selector selects is not part of this: it is asked when a term is matched.

The kept terms decide which labels of a pod can matter (`label_keys`, `match_unlabelled`); when that grows, pods that were signed before are
signed again (`cache.signatures`). One object serves all profiles of a scheduler.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, finalize, ref

from koordsched._core.counts import RowCounts
from koordsched.cache.plugin_state import PodFollower
from koordsched.log import get_logger
from koordsched.plugins.interpodaffinity.terms import AffinityReader, AffinityTerm, PodAffinityTerms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koordsched._core.view import Part
    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.cache.plugin_state import PodsByRow

log = get_logger(__name__)

MAX_UNOWNED = 4_000  # terms without an owner that are kept; some 500 bytes each
KEPT_PROBLEMS = 1_000  # texts about invalid terms, each of which is logged once

Pair = tuple[str, str]
Need = tuple[str | None, Pair | str | None]  # a namespace (None: any), and a label, a label key or nothing


class TermKind(Enum):
    """What a term does to the pods that match it."""

    REQUIRED = "required affinity"
    REQUIRED_ANTI = "required anti-affinity"
    PREFERRED = "preferred affinity or anti-affinity"


class TermOwners:
    """Pods with equal affinities: their distinct terms, with how often each occurs among them, and how many such pods are on each row."""

    __slots__ = ("rows", "terms")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.terms: dict[ExistingTerm, int] = {}

    def change(self, row: int, amount: int, *, quietly: bool) -> None:
        """Count so many more pods (less than 0: fewer) on the row."""
        left = self.rows.get(row, 0) + amount
        if left:
            self.rows[row] = left
        else:
            del self.rows[row]
        for term, times in self.terms.items():
            term.count(row, amount * times, quietly=quietly)


class ExistingTerm:
    """A distinct term with its owners. Owners are counted by row only while the `RowCounts` are in use."""

    __slots__ = ("_counts", "kind", "owners", "term", "weight")

    def __init__(self, kind: TermKind, term: AffinityTerm, weight: int) -> None:
        self.kind = kind
        self.term = term
        self.weight = weight  # of a preferred one; negative: anti-affinity
        self.owners: tuple[TermOwners, ...] = ()
        self._counts: ref[RowCounts] | None = None

    @property
    def is_owned(self) -> bool:
        return any(owners.rows for owners in self.owners)

    def counts(self, cache: Cache) -> RowCounts:
        """Return the owners by row, kept up to date for as long as there is a reference to the result."""
        found = self._counts() if self._counts is not None else None
        if found is None:
            found = RowCounts(cache.table)
            for owners in self.owners:
                found.add_all(owners.rows, owners.terms[self])
            self._counts = ref(found)
        return found

    def count(self, row: int, amount: int, *, quietly: bool) -> None:
        counts = self._counts() if self._counts is not None else None
        if counts is None:
            return
        if quietly:
            counts.add_quietly(row, amount)
        else:
            counts.add(row, amount)


def existing_terms_of(cache: Cache) -> ExistingTerms:
    """Return the terms of a cache's pods: one object for the plugins of all profiles."""
    return cache.shared.one(ExistingTerms, lambda: ExistingTerms(cache))


class ExistingTerms(PodFollower):
    """`log` lists the kept terms in order of appearance; `generation` counts how often it was begun anew."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.reader = AffinityReader()
        self.log: list[ExistingTerm] = []
        self.generation = 0
        self.label_keys: frozenset[str] = frozenset()  # those that the selectors of kept terms read
        self.match_unlabelled = False  # whether a kept term may match a pod without labels
        self.match_others = False  # whether a kept term may match a pod that has no terms itself
        self.select_namespaces = False  # whether a kept term has a namespace selector
        self._distinct: dict[tuple[TermKind, AffinityTerm, int], ExistingTerm] = {}
        self._owners: dict[PodAffinityTerms, TermOwners] = {}
        self._large: WeakKeyDictionary[PodAffinityTerms, TermOwners] = WeakKeyDictionary()  # large affinities of pods that are not counted
        self._gone: list[TermOwners] = []  # those of `_large` whose pods are gone
        self._by_need: dict[Need, list[ExistingTerm]] = {}
        self._limit = MAX_UNOWNED
        self._logged_problems: set[str] = set()
        cache.follow(self)

    # Learning and forgetting terms

    def read(self, pod: Pod) -> PodAffinityTerms | None:
        """Return a pod's terms, and keep them from now on."""
        affinity = self.reader.read(pod)
        if affinity is not None and affinity not in self._owners and affinity not in self._large:
            self._learn(affinity)
        return affinity

    def _learn(self, affinity: PodAffinityTerms) -> TermOwners:
        if len(self.log) > self._limit and self._cache.shows_all:
            # The newest stay without owners, too: their pods may be pending.
            recent = len(self.log) - MAX_UNOWNED // 2
            self._keep([term for i, term in enumerate(self.log) if i >= recent or term.is_owned])
        found = TermOwners()
        alone = (found,)  # one object for all terms that only these pods have
        if affinity.is_large:
            self._large[affinity] = found
            finalize(affinity, _forget, ref(self), found).atexit = False
        else:
            self._owners[affinity] = found
        for kind, term, weight in _by_kind(affinity):
            existing = self._distinct.get((kind, term, weight))
            if existing is None:
                existing = self._distinct[kind, term, weight] = ExistingTerm(kind, term, weight)
                self._file(existing)
            if existing not in found.terms:
                existing.owners = (*existing.owners, found) if existing.owners else alone
            found.terms[existing] = found.terms.get(existing, 0) + 1
        keys = frozenset(key for term in affinity.terms() for key in term.label_keys()) - self.label_keys
        unlabelled = not self.match_unlabelled and any(term.may_match_unlabelled() for term in affinity.terms())
        if keys or unlabelled:
            self.label_keys |= keys
            self.match_unlabelled = self.match_unlabelled or unlabelled
            self.match_others = True
            self._cache.signatures.changed(lambda pod: unlabelled or not keys.isdisjoint(pod.pod.metadata.labels))
        return found

    def _file(self, existing: ExistingTerm) -> None:
        self.log.append(existing)
        self.select_namespaces = self.select_namespaces or not existing.term.namespace_selector.nothing
        for need in _needs(existing.term):
            self._by_need.setdefault(need, []).append(existing)

    def forget(self, gone: TermOwners) -> None:
        """Begin the log anew without the terms of a large affinity that no pod has any more."""
        self._gone.append(gone)
        if not self._cache.shows_all:
            return  # with the next one
        going = {term for each in self._gone for term in each.terms}
        self._gone.clear()
        self._keep([term for term in self.log if term not in going or term.is_owned])

    def _keep(self, kept: list[ExistingTerm]) -> None:
        self.log, self._by_need, self.select_namespaces = [], {}, False
        self._distinct = {(existing.kind, existing.term, existing.weight): existing for existing in kept}
        self._owners = {affinity: owners for affinity, owners in self._owners.items() if owners.rows}
        known = set(kept)
        for affinity, owners in list(self._large.items()):
            if not known.issuperset(owners.terms):
                del self._large[affinity]  # learned anew when a pod that has it is read
        unowned = set(self._large.values())
        for existing in kept:
            existing.owners = tuple([owners for owners in existing.owners if owners.rows or owners in unowned])
            self._file(existing)
        # Signatures that were made before hold more labels than these; that does no harm.
        self.label_keys = frozenset(key for existing in kept for key in existing.term.label_keys())
        self.match_unlabelled = any(existing.term.may_match_unlabelled() for existing in kept)
        self.match_others = bool(self.label_keys) or self.match_unlabelled
        self.generation += 1
        self._limit = len(kept) + MAX_UNOWNED

    # Finding terms

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[ExistingTerm]:
        """Yield a superset of the terms that match such pods, each once; labels with a key that is not in `label_keys` may be left out."""
        wanted: list[Pair | str | None] = [None, *labels.items(), *labels]
        for place in (namespace, None):
            for each in wanted:
                yield from self._by_need.get((place, each), ())

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if pod.pod.spec.affinity is not None:
            self._change(pod, row, 1)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if pod.pod.spec.affinity is not None:
            self._change(pod, row, -1)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        self.pod_removed(pod, old_row)
        self.pod_added(pod, row)

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if (old.pod.spec.affinity is None and new.pod.spec.affinity is None) or old.pod is new.pod:
            return
        if self.reader.read(old.pod) != self.reader.read(new.pod):
            self._change(old, row, -1)
            self._change(new, row, 1)

    def without(self, pods: PodsByRow) -> Iterable[tuple[int, Part]]:
        rows = [row for row, of_row in pods.items() for pod in of_row if pod.pod.spec.affinity is not None]
        return super().without({row: [pod for pod in pods[row] if pod.pod.spec.affinity is not None] for row in rows})

    def counts_alone(self, pod: PodInfo, row: int) -> bool:
        return pod.pod.spec.affinity is None

    def _change(self, pod: PodInfo, row: int, amount: int) -> None:
        affinity = self.reader.read(pod.pod)
        if affinity is None:
            return
        if affinity.problem:
            self._log_problem(pod, affinity.problem)
        quietly = self._cache.simulating
        owners = self._owners.get(affinity) or self._large.get(affinity) or self._learn(affinity)
        if affinity.is_large and not owners.rows:
            self._owners[affinity] = owners  # kept as long as pods that have it are counted
        owners.change(row, amount, quietly=quietly)
        if affinity.is_large and not owners.rows:
            del self._owners[affinity]

    def _log_problem(self, pod: PodInfo, problem: str) -> None:
        if problem not in self._logged_problems:
            if len(self._logged_problems) >= KEPT_PROBLEMS:
                self._logged_problems.clear()
            self._logged_problems.add(problem)
            log.warning("affinity terms of a pod cannot be understood and are left out", pod=pod.key, problem=problem)


def _forget(terms: ref[ExistingTerms], gone: TermOwners) -> None:
    """Called when nothing refers to a large affinity any more."""
    existing_terms = terms()
    if existing_terms is not None:
        existing_terms.forget(gone)


def _by_kind(affinity: PodAffinityTerms) -> Iterator[tuple[TermKind, AffinityTerm, int]]:
    for term in affinity.required:
        yield TermKind.REQUIRED, term, 0
    for term in affinity.required_anti:
        yield TermKind.REQUIRED_ANTI, term, 0
    for term, weight in affinity.preferred:
        yield TermKind.PREFERRED, term, weight


def _needs(term: AffinityTerm) -> Iterable[Need]:
    """Return what a pod must have, one of them at least, to match."""
    places: Iterable[str | None] = (None,) if not term.namespace_selector.nothing else term.namespaces
    wanted = _needed_labels(term)
    return [(place, each) for place in places for each in wanted]


def _needed_labels(term: AffinityTerm) -> list[Pair] | list[str] | list[None]:
    selector = term.selector
    if selector.nothing:
        return []
    if selector.equal:
        return [selector.equal[0]]
    for other in selector.others:
        if other.operator == "In":
            return [(other.key, value) for value in other.values]
        if other.operator == "Exists":
            return [other.key]
    return [None]
