"""The terms of the pods that are counted: which distinct ones there are, who owns them where, and which of them mean a given pod.

A distinct term is kept once however many pods have it; its owners are rows with numbers. Terms of pending pods are known too, with no
owner: whoever is nominated to a node counts there in a simulation. What nobody owns is forgotten when there is too much of it. Nothing here
knows which namespaces a namespace selector selects; that is asked when a term is matched.

Which labels of a pod can matter follows from the terms that are known (`keys`, `wild`); when that grows, pods that were signed before are
signed again (`cache.signatures`). One object serves all profiles of a scheduler.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, finalize, ref

from koordsched._core.counts import RowCounts
from koordsched.log import get_logger
from koordsched.plugins.interpodaffinity.terms import Affinity, AffinityReader, Term

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from koordsched.api.core import Pod
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache

log = get_logger(__name__)

MAX_UNOWNED = 4_000  # terms without an owner that are kept; some 500 bytes each
KEPT_PROBLEMS = 1_000  # texts about terms that cannot be understood, each of which is logged once

Pair = tuple[str, str]
Need = tuple[str | None, Pair | str | None]


class Kind(Enum):
    """What a term does to the pods it means."""

    REQUIRED = "required affinity"
    REQUIRED_ANTI = "required anti-affinity"
    PREFERRED = "preferred affinity or anti-affinity"


class OwnedAffinity:
    """What pods say that say the same: its distinct terms with how often it names each, and how many such pods are on each row."""

    __slots__ = ("rows", "terms")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.terms: dict[OwnedTerm, int] = {}

    def change(self, row: int, amount: int, *, quietly: bool) -> None:
        """Let so many more pods (less than 0: fewer) be on the row."""
        left = self.rows.get(row, 0) + amount
        if left:
            self.rows[row] = left
        else:
            del self.rows[row]
        for owned, times in self.terms.items():
            owned.count(row, amount * times, quietly=quietly)


class OwnedTerm:
    """A distinct term, and who has it. How many owners are on each row is counted while somebody holds the counts."""

    __slots__ = ("_counts", "kind", "owners", "term", "weight")

    def __init__(self, kind: Kind, term: Term, weight: int) -> None:
        self.kind = kind
        self.term = term
        self.weight = weight  # of a preferred one; negative: anti-affinity
        self.owners: tuple[OwnedAffinity, ...] = ()
        self._counts: ref[RowCounts] | None = None

    @property
    def is_owned(self) -> bool:
        return any(owner.rows for owner in self.owners)

    def counts(self, cache: Cache) -> RowCounts:
        """Return the owners by row, which stay true for as long as somebody holds them."""
        found = self._counts() if self._counts is not None else None
        if found is None:
            found = RowCounts(cache.table)
            for owner in self.owners:
                found.add_all(owner.rows, owner.terms[self])
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


class ExistingTerms:
    """A `PodFollower`. `log` lists the known terms in order of appearance; `generation` counts when it was begun anew."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.reader = AffinityReader()
        self.log: list[OwnedTerm] = []
        self.generation = 0
        self.keys: frozenset[str] = frozenset()  # labels that the selectors of known terms read
        self.wild = False  # whether a known term means pods without any label
        self.matter = False  # whether some pod without terms of its own may be meant by one
        self.selects_namespaces = False
        self._distinct: dict[tuple[Kind, Term, int], OwnedTerm] = {}
        self._owned_by: dict[Affinity, OwnedAffinity] = {}
        self._large: WeakKeyDictionary[Affinity, OwnedAffinity] = WeakKeyDictionary()  # of many terms that no counted pod has
        self._gone: list[OwnedAffinity] = []  # of `_large`, those that no pod says any more
        self._by_need: dict[Need, list[OwnedTerm]] = {}
        self._limit = MAX_UNOWNED
        self._said: set[str] = set()
        cache.follow(self)

    # Learning terms

    def read(self, pod: Pod) -> Affinity | None:
        """Return what a pod says about others, and know its terms from now on."""
        affinity = self.reader.read(pod)
        if affinity is not None and affinity not in self._owned_by and affinity not in self._large:
            self._learn(affinity)
        return affinity

    def _learn(self, affinity: Affinity) -> OwnedAffinity:
        if len(self.log) > self._limit and not self._cache.simulating:
            self._forget_unowned()
        found = OwnedAffinity()
        alone = (found,)  # one for all terms that only these pods have
        if affinity.is_large:
            self._large[affinity] = found
            finalize(affinity, _forget, ref(self), found).atexit = False
        else:
            self._owned_by[affinity] = found
        for each in _kinds(affinity):
            owned = self._intern(*each)
            if owned not in found.terms:
                owned.owners = (*owned.owners, found) if owned.owners else alone
            found.terms[owned] = found.terms.get(owned, 0) + 1
        keys = frozenset(key for term in affinity.terms() for key in term.label_keys()) - self.keys
        wild = not self.wild and any(term.is_wild() for term in affinity.terms())
        if keys or wild:
            self.keys |= keys
            self.wild = self.wild or wild
            self.matter = True
            self._cache.signatures.changed(lambda pod: wild or not keys.isdisjoint(pod.pod.metadata.labels))
        return found

    def _intern(self, kind: Kind, term: Term, weight: int) -> OwnedTerm:
        found = self._distinct.get((kind, term, weight))
        if found is None:
            found = self._distinct[kind, term, weight] = OwnedTerm(kind, term, weight)
            self._file(found)
        return found

    def _file(self, owned: OwnedTerm) -> None:
        self.log.append(owned)
        self.selects_namespaces = self.selects_namespaces or not owned.term.namespace_selector.nothing
        for need in _needs(owned.term):
            self._by_need.setdefault(need, []).append(owned)

    def _forget_unowned(self) -> None:
        """Begin the log anew without the older terms that nobody owns. The newest stay: their pods may be pending."""
        recent = len(self.log) - MAX_UNOWNED // 2
        self._keep([owned for i, owned in enumerate(self.log) if i >= recent or owned.is_owned])

    def forget(self, gone: OwnedAffinity) -> None:
        """Begin the log anew without many terms that no pod has any more."""
        self._gone.append(gone)
        if self._cache.simulating:
            return  # later
        going = {owned for each in self._gone for owned in each.terms}
        self._gone.clear()
        self._keep([owned for owned in self.log if owned not in going or owned.is_owned])

    def _keep(self, kept: list[OwnedTerm]) -> None:
        self.log, self._by_need, self.selects_namespaces = [], {}, False
        self._distinct = {(owned.kind, owned.term, owned.weight): owned for owned in kept}
        self._owned_by = {affinity: owner for affinity, owner in self._owned_by.items() if owner.rows}
        known = set(kept)
        for affinity, owner in list(self._large.items()):
            if not known.issuperset(owner.terms):
                del self._large[affinity]  # learned anew when a pod that says it is read
        unowned = set(self._large.values())
        for owned in kept:
            owned.owners = tuple([owner for owner in owned.owners if owner.rows or owner in unowned])
            self._file(owned)
        # Signatures that were made before hold more labels than these; that does no harm.
        self.keys = frozenset(key for owned in kept for key in owned.term.label_keys())
        self.wild = any(owned.term.is_wild() for owned in kept)
        self.matter = bool(self.keys) or self.wild
        self.generation += 1
        self._limit = len(kept) + MAX_UNOWNED

    # Finding terms

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[OwnedTerm]:
        """Yield terms that may mean such pods, each once, all that do among them; labels that are not in `keys` may be left out."""
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

    def _change(self, pod: PodInfo, row: int, amount: int) -> None:
        affinity = self.reader.read(pod.pod)
        if affinity is None:
            return
        if affinity.problem:
            self._say(pod, affinity.problem)
        quietly = self._cache.simulating
        owned = self._owned_by.get(affinity) or self._large.get(affinity) or self._learn(affinity)
        if affinity.is_large and not owned.rows:
            self._owned_by[affinity] = owned  # lives as long as pods that have it are counted
        owned.change(row, amount, quietly=quietly)
        if affinity.is_large and not owned.rows:
            del self._owned_by[affinity]

    def _say(self, pod: PodInfo, problem: str) -> None:
        if problem not in self._said:
            if len(self._said) >= KEPT_PROBLEMS:
                self._said.clear()
            self._said.add(problem)
            log.warning("affinity terms of a pod cannot be understood and are left out", pod=pod.key, problem=problem)


def _forget(terms: ref[ExistingTerms], gone: OwnedAffinity) -> None:
    """Called when nobody holds what pods said any more."""
    known = terms()
    if known is not None:
        known.forget(gone)


def _kinds(affinity: Affinity) -> Iterator[tuple[Kind, Term, int]]:
    for term in affinity.required:
        yield Kind.REQUIRED, term, 0
    for term in affinity.required_anti:
        yield Kind.REQUIRED_ANTI, term, 0
    for term, weight in affinity.preferred:
        yield Kind.PREFERRED, term, weight


def _needs(term: Term) -> Iterable[Need]:
    """Return what a pod must have, one of them at least, to be meant: a namespace (None: any) with a label, a key, or anything (None)."""
    places: Iterable[str | None] = (None,) if not term.namespace_selector.nothing else term.namespaces
    wanted = _wanted(term)
    return [(place, each) for place in places for each in wanted]


def _wanted(term: Term) -> list[Pair] | list[str] | list[None]:
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
