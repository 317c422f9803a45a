"""What pods of one signature have to look at, compiled: the counts of their own terms, and of the existing pods' terms that match them.

Compiled once for a signature; after that only terms that appeared since are looked at, and everything again when namespaces changed. The
versions differ whenever the answer for a row may that saw no change itself: other counts (a serial number), another label of some node,
another domain that refuses (`version`), or another sum of a domain (`score_version`).
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from koordsched.cache.pod_counts import PodQuery, pod_counts
from koordsched.framework.shape import ShapeKey
from koordsched.plugins.interpodaffinity.existing_terms import ExistingTerm, TermKind, existing_terms_of
from koordsched.plugins.interpodaffinity.terms import AffinityTerm, Namespaces, PodAffinityTerms, all_of
from koordsched.plugins.interpodaffinity.topology_counts import FilterCounts, FilterState, TopologyCounts, TopologyKeys

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from koordsched._core.counts import RowCounts
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.cache import Cache
    from koordsched.config.args import InterPodAffinityArgs

KEPT_SIGNATURES = 1024  # each may keep counts, 4 bytes a row
KEPT_SHAPES = 4096

NO_TERMS = PodAffinityTerms()

Signature = tuple[PodAffinityTerms | None, str, tuple[tuple[str, str], ...]]
"""Terms, namespace, and the labels that some existing term reads, sorted."""


class AffinityCompiler:
    """Signs the pods of one profile, and keeps what the signatures that were used last compile to."""

    def __init__(self, cache: Cache, namespaces: Namespaces, args: InterPodAffinityArgs) -> None:
        self.cache = cache
        self.namespaces = namespaces
        self.args = args
        self.terms = existing_terms_of(cache)
        self.keys = TopologyKeys(cache)
        self.serials = count(1)
        self._by_signature: OrderedDict[Signature, CompiledAffinity] = OrderedDict()
        self._large: WeakKeyDictionary[ShapeKey, CompiledAffinity] = WeakKeyDictionary()
        self._by_shape: dict[Hashable, CompiledAffinity | None] = {}
        cache.signatures.call(lambda _: self._forget_shapes())
        cache.columns.call_when_renewed(self._forget_columns)

    def _forget_columns(self) -> None:
        """Forget everything that may hold ids of columns or values."""
        self.keys.forget()
        self._by_signature.clear()
        self._forget_shapes()

    def _forget_shapes(self) -> None:
        self._by_shape.clear()
        self._large.clear()

    def sign(self, pod: PodInfo) -> Signature | None:
        """Return what is read of the pod: its terms, and its namespace with those of its labels that some existing term reads.

        None when nothing can matter. A pod whose signature changes because more terms appear is signed again.
        """
        terms = self.terms
        affinity = terms.read(pod.pod) if pod.pod.spec.affinity is not None else None
        if affinity is None and not terms.match_others:
            return None
        keys = terms.label_keys
        meta = pod.pod.metadata
        labels = [pair for pair in meta.labels.items() if pair[0] in keys]
        if affinity is None and not labels and not terms.match_unlabelled:
            return None
        labels.sort()
        return affinity, meta.namespace, tuple(labels)

    def queries(self, pod: PodInfo) -> list[PodQuery]:
        """Return what is counted for the pod's own terms."""
        own = self.terms.reader.read(pod.pod) if pod.pod.spec.affinity is not None else None
        if own is None:
            return []
        alone = [(term,) for term in (*own.required_anti, *(term for term, _ in own.preferred))]
        return [self.query(terms) for terms in ((own.required, *alone) if own.required else alone)]

    def query(self, terms: tuple[AffinityTerm, ...]) -> PodQuery:
        """Return which pods match all these terms."""
        return PodQuery(self.namespaces.of(terms), all_of(terms))

    def compiled(self, pod: PodInfo) -> CompiledAffinity | None:
        """Return what the pod's signature compiles to; None when it has no terms, and none can match it."""
        shape = pod.shape
        if shape is None:
            return self._of_signature(self.sign(pod))
        if isinstance(shape, ShapeKey) and shape.is_large:
            large = self._large.get(shape)
            signature = self.sign(pod) if large is None else None
            if signature is not None:
                large = self._large[shape] = CompiledAffinity(self, signature)
            return large
        try:
            return self._by_shape[shape]
        except KeyError:
            found = self._of_signature(self.sign(pod))
            if len(self._by_shape) >= KEPT_SHAPES:
                self._by_shape.clear()
            self._by_shape[shape] = found
            return found

    def _of_signature(self, signature: Signature | None) -> CompiledAffinity | None:
        if signature is None:
            return None
        found = self._by_signature.get(signature)
        if found is None:
            if len(self._by_signature) >= KEPT_SIGNATURES:
                self._by_signature.popitem(last=False)
                self._by_shape.clear()  # or they would keep it
            found = self._by_signature[signature] = CompiledAffinity(self, signature)
        else:
            self._by_signature.move_to_end(signature)
        return found


class KnownFilter:
    """What the counts of one signature refused when they were looked at last."""

    __slots__ = ("of", "state", "version")

    def __init__(self) -> None:
        self.of: tuple[int, int, int, int] | None = None  # the serial, node labels, counts and view (its stamp) that it is of
        self.state: FilterState
        self.version: Hashable = 0


class CompiledAffinity:
    """The counts of one signature. Call `refresh` (or `version`, which does) before reading them."""

    def __init__(self, compiler: AffinityCompiler, signature: Signature) -> None:
        self._compiler = compiler
        affinity, self._namespace, labels = signature
        self._labels = dict(labels)
        self.own = affinity or NO_TERMS
        self.matching: list[ExistingTerm] = []  # existing terms, owned or not, that match the pod
        self.filter_counts = FilterCounts()
        self.score_counts: tuple[TopologyCounts, ...] = ()
        self._generation = self._namespaces_version = -1
        self._position = 0  # in the log of existing terms
        self._filter_serial = self._score_serial = 0
        self._row_counts: tuple[RowCounts, ...] = ()  # those of `filter_counts`
        self._known = (KnownFilter(), KnownFilter())  # as the nodes are, and in the last view of an owner of credits

    # Filter

    def version(self) -> Hashable:
        """Return what the filter's answers depend on besides the row."""
        self.refresh()
        return self._filter().version if self._row_counts else self._filter_serial

    def filter_state(self) -> FilterState:
        """Return what the counts refuse now, or in the view or simulation that the cache shows."""
        self.refresh()
        return self._filter().state

    def _filter(self) -> KnownFilter:
        """Return the filter's state and version, up to date. What is simulated is not kept."""
        cache, keys = self._compiler.cache, self._compiler.keys
        shown = cache.credits.shown
        labels = keys.changes.version()
        newest = 0
        for counts in self._row_counts:
            newest = max(newest, counts.version)
        of = (self._filter_serial, labels, newest, 0 if shown is None else shown.stamp)
        known = KnownFilter() if cache.simulating else self._known[shown is not None]
        if known.of != of:
            known.of = of
            known.state = FilterState(keys, self.filter_counts)
            known.version = (self._filter_serial, labels, known.state.key)
        return known

    # Score

    def score_version(self) -> Hashable:
        """Return what scores depend on besides the row."""
        self.refresh()
        if not self.score_counts:
            return self._score_serial
        keys, scores, newest = self._compiler.keys, False, 0
        labels = keys.changes.version()
        for each in self.score_counts:
            scores = scores or each.counts.total > 0
            if not keys.is_unique(each.attribute):
                newest = max(newest, each.counts.version)
        return self._score_serial, labels, scores, newest

    @property
    def scores(self) -> bool:
        """Whether any node gets a score."""
        return any(each.counts.total for each in self.score_counts)

    # Compiling

    def matches(self, term: AffinityTerm) -> bool:
        """Answer whether pods of this signature match a term."""
        return term.matches(self._namespace, self._compiler.namespaces.labels(self._namespace), self._labels)

    def refresh(self) -> None:
        """Take in the terms and namespaces that changed."""
        terms, namespaces = self._compiler.terms, self._compiler.namespaces
        if self._generation == terms.generation and self._namespaces_version == namespaces.version:
            if self._position == len(terms.log):
                return
            found = [existing for existing in terms.log[self._position :] if self.matches(existing.term)]
            self._position = len(terms.log)
            if not found:
                return
            self.matching += found
        else:
            self.matching = [existing for existing in terms.candidates(self._namespace, self._labels) if self.matches(existing.term)]
            self._generation, self._position, self._namespaces_version = terms.generation, len(terms.log), namespaces.version
        self._compile()

    def _compile(self) -> None:
        own, keys = self.own, self._compiler.keys.known()
        filter_counts = FilterCounts(
            tuple(self._count(own.required, key) for key in dict.fromkeys(term.topology_key for term in own.required) if key in keys),
            tuple(self._count((term,), term.topology_key) for term in own.required_anti if term.topology_key in keys),
            tuple(
                self._count_owners(existing)
                for existing in self.matching
                if existing.kind is TermKind.REQUIRED_ANTI and existing.term.topology_key in keys
            ),
            any(term.topology_key not in keys for term in own.required),
            bool(own.required) and all(self.matches(term) for term in own.required),
        )
        if self._filter_serial == 0 or filter_counts != self.filter_counts:
            self._filter_serial = next(self._compiler.serials)
            self._row_counts = filter_counts.distinct()
        self.filter_counts = filter_counts
        score_counts = tuple(self._scoring())
        if self._score_serial == 0 or score_counts != self.score_counts:
            self._score_serial = next(self._compiler.serials)
        self.score_counts = score_counts

    def _scoring(self) -> Iterator[TopologyCounts]:
        keys, args = self._compiler.keys.known(), self._compiler.args
        for term, weight in self.own.preferred:
            if term.topology_key in keys:
                yield self._count((term,), term.topology_key, weight)
        if args.ignore_preferred_terms_of_existing_pods and not self.own.preferred:
            return  # neither theirs nor, with them, their required ones
        for existing in self.matching:
            if existing.term.topology_key not in keys:
                continue
            if existing.kind is TermKind.PREFERRED:
                yield self._count_owners(existing, existing.weight)
            elif existing.kind is TermKind.REQUIRED and args.hard_pod_affinity_weight:
                yield self._count_owners(existing, args.hard_pod_affinity_weight)

    def _count(self, terms: tuple[AffinityTerm, ...], key: str, weight: int = 1) -> TopologyCounts:
        """Count the pods that match all these terms."""
        counts = pod_counts(self._compiler.cache).count(self._compiler.query(terms))
        return TopologyCounts(self._compiler.keys.attribute(key), counts, weight)

    def _count_owners(self, existing: ExistingTerm, weight: int = 1) -> TopologyCounts:
        attribute = self._compiler.keys.attribute(existing.term.topology_key)
        return TopologyCounts(attribute, existing.counts(self._compiler.cache), weight)
