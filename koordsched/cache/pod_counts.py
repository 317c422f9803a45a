"""PodCounts: how many pods on each row match a query, kept up to date by pod events (framework.md §15).

A pod is reduced to its class: namespace, labels, and whether it is terminating (`PodClasses`). A new query is counted once, class by class;
after that a pod event costs finding its class and an addition for each query that matches. Which queries those are is found out when a
class has its first event, and later for queries that are newer than its last one. A query ends when its `RowCounts` is held no more.
Callers: topology spreading, affinity between pods.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary, ref

from koordsched._core.counts import HiddenPods, RowCounts
from koordsched._core.pod_classes import NAMESPACE, TERMINATING, PodClasses
from koordsched.cache.plugin_state import PodFollower, StateDifference

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from koordsched._core.pod_classes import PodClass, Requirement
    from koordsched._core.view import Part
    from koordsched.api.podinfo import PodInfo
    from koordsched.api.selectors import LabelSelectorMatcher
    from koordsched.cache.cache import Cache
    from koordsched.cache.plugin_state import PodsByRow

Pair = tuple[str, str]
Facts = tuple[str, tuple[Pair, ...], bool]
"""What a class of pods has in common: the namespace, the labels, sorted, and whether they are terminating."""

OPERATORS = {"In": (True, False), "NotIn": (True, True), "Exists": (False, False), "DoesNotExist": (False, True)}
"""Of label selectors: whether they name values, and whether pods without such a label match instead of those with one."""


class PodQuery:
    """Which pods to count: those of these namespaces (None: of all) whose labels match, terminating ones or not. Hashable."""

    __slots__ = ("_hash", "namespaces", "selector", "terminating")

    def __init__(self, namespaces: frozenset[str] | None, selector: LabelSelectorMatcher, *, terminating: bool = True) -> None:
        self.namespaces = namespaces
        self.selector = selector
        self.terminating = terminating  # whether pods with a deletionTimestamp count
        self._hash = hash((namespaces, selector, terminating))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, PodQuery)
            and self._hash == other._hash
            and self.terminating == other.terminating
            and self.namespaces == other.namespaces
            and self.selector == other.selector
        )

    def counts_namespace(self, namespace: str) -> bool:
        """Answer whether pods of the namespace are among those to count."""
        return self.namespaces is None or namespace in self.namespaces

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.counts_namespace(namespace) and self.selector.matches(labels)

    def counts(self, pod: PodInfo) -> bool:
        """Answer whether the pod is one of those to count, wherever it is."""
        meta = pod.pod.metadata
        return (self.terminating or meta.deletion_timestamp is None) and self.matches(meta.namespace, meta.labels)


def pod_counts(cache: Cache) -> PodCounts:
    """Return the counts of a cache, which all plugins share."""
    return cache.shared.one(PodCounts, lambda: PodCounts(cache))


class PodCounts(PodFollower):
    """The counts of one cache: also a `CheckedState`. Follows the pods from the moment on when the first plugin asks for it."""

    name = "PodCounts"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._classes = PodClasses()
        self._counts: WeakValueDictionary[PodQuery, RowCounts] = WeakValueDictionary()
        self._queries = QueryIndex()
        cache.follow(self)
        cache.checked.append(self)

    def __len__(self) -> int:
        """Return how many queries are counted."""
        return len(self._counts)

    def count(self, query: PodQuery) -> RowCounts:
        """Return the query's counts, which stay true for as long as the caller holds them.

        A new query costs about a millisecond with 50,000 pods of which no two have equal labels, and less with fewer classes
        (bench_pod_counts).
        """
        found = self._counts.get(query)
        return self._begin(query) if found is None else found

    def count_each(self, queries: Iterable[PodQuery]) -> Generator[None, None, list[RowCounts]]:
        """Count several queries, each in a step of its own."""
        found = []
        for query in queries:
            found.append(self.count(query))
            yield
        return found

    def _begin(self, query: PodQuery) -> RowCounts:
        counts = self._counts[query] = RowCounts(self._cache.table)
        if not query.selector.nothing:
            counts.add_rows(self._classes.count(_requirements(query), self._cache.table.capacity))
        for pod, row in self._cache.hidden_pods():
            if query.counts(pod):
                counts.add_quietly(row, -1)  # added again when the view ends
        self._queries.put(query, ref(counts, lambda _: self._queries.drop(query)))
        return counts

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        meta = pod.pod.metadata
        known = self._classes.add(row, meta.namespace, meta.labels, meta.deletion_timestamp is not None)
        self.add_of_class(known, pod, row, 1)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        meta = pod.pod.metadata
        known = self._classes.remove(row, meta.namespace, meta.labels, meta.deletion_timestamp is not None)
        self.add_of_class(known, pod, row, -1)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        self.pod_removed(pod, old_row)
        self.pod_added(pod, row)

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        before, after = old.pod.metadata, new.pod.metadata
        is_same = before.namespace == after.namespace and before.labels == after.labels
        if not is_same or (before.deletion_timestamp is None) != (after.deletion_timestamp is None):
            self.pod_removed(old, row)
            self.pod_added(new, row)

    def without(self, pods: PodsByRow) -> Iterable[tuple[int, Part]]:
        """Hide the pods from the counts alone: they stay in their classes, and queries that begin leave out what is hidden."""
        return [(row, HiddenPods(self._queries.by_need, self, of_row, row)) for row, of_row in pods.items()]

    def counts_alone(self, pod: PodInfo, row: int) -> bool:  # noqa: ARG002 (the signature is PodFollower's)
        return True

    def classes_of(self, pods: Iterable[PodInfo]) -> list[tuple[PodClass, PodInfo, int]]:
        """Return each class that some of these pods are of, with one of them, and how many there are."""
        found: dict[PodClass, list[PodInfo]] = {}
        for pod in pods:
            meta = pod.pod.metadata
            known = self._classes.find(meta.namespace, meta.labels, meta.deletion_timestamp is not None)
            if known is not None:
                found.setdefault(known, []).append(pod)
        return [(known, of_class[0], len(of_class)) for known, of_class in found.items()]

    def add_of_class(self, known: PodClass, pod: PodInfo, row: int, amount: int) -> None:
        """Add so many pods of a class to what the queries have of a row. pod: one of the class."""
        if known.seen != self._queries.newest:
            meta = pod.pod.metadata
            terminating = meta.deletion_timestamp is not None
            newer = self._queries.matching(meta.namespace, meta.labels, terminating=terminating, after=known.seen)
            known.seen = self._queries.newest
            if newer:
                known.matching = (*known.matching, *newer)
        if known.matching:
            self._add(known, row, amount)

    def _add(self, known: PodClass, row: int, amount: int) -> None:
        quiet, ended = self._cache.simulating, False
        for reference in known.matching:
            counts = reference()
            if counts is None:
                ended = True
            elif quiet:
                counts.add_quietly(row, amount)
            else:
                counts.add(row, amount)
        if ended:
            known.matching = tuple([reference for reference in known.matching if reference() is not None])

    # CheckedState

    def names(self) -> Iterable[str]:
        """Nothing is kept of a node that the cache does not know."""
        return ()

    def differences(self, node: str) -> Iterable[StateDifference]:
        """Count the pods of a node's row anew. O(its pods and the queries)."""
        row = self._own_row(node)
        if row is None:
            return
        pods = self._pods_by_facts(node)
        for (namespace, labels, terminating), count in pods.items():
            known = self._classes.find(namespace, dict(labels), terminating)
            kept = 0 if known is None else self._classes.of_class(row, known)
            if kept != count:
                yield StateDifference(f"pods of namespace {namespace} with labels {dict(labels)}", kept, count)
        matching = self._matching(pods)
        for query, counts in self._counts.items():
            if counts.of(row) != matching[id(counts)]:
                yield StateDifference(f"pods that match {query.selector}", counts.of(row), matching[id(counts)])

    def rebuild(self, node: str) -> None:
        """Write what was counted anew. O(all labels)."""
        row = self._own_row(node)
        if row is None:
            return
        pods = self._pods_by_facts(node)
        for namespace, labels, terminating in self._classes.on_row(row):
            self._classes.remove(row, namespace, labels, terminating)
        for (namespace, pairs, terminating), count in pods.items():
            for _ in range(count):
                known = self._classes.add(row, namespace, dict(pairs), terminating)
                known.seen, known.matching = 0, ()
        matching = self._matching(pods)
        for counts in list(self._counts.values()):
            counts.add(row, matching[id(counts)] - counts.of(row))
        self._cache.table.touch(row)

    def _own_row(self, node: str) -> int | None:
        info = self._cache.nodes_by_name.get(node)
        return None if info is None or self._cache.infos[info.row] is not info else info.row

    def _pods_by_facts(self, node: str) -> Counter[Facts]:
        """Return how many pods of each class the cache has on a node."""
        metas = [pod.pod.metadata for pod in self._cache.nodes_by_name[node].pods.values()]
        return Counter((meta.namespace, tuple(sorted(meta.labels.items())), meta.deletion_timestamp is not None) for meta in metas)

    def _matching(self, pods: Counter[Facts]) -> Counter[int]:
        """Return how many of these pods match each query, by the identity of its counts."""
        matching: Counter[int] = Counter()
        for (namespace, labels, terminating), count in pods.items():
            for reference in self._queries.matching(namespace, dict(labels), terminating=terminating):
                matching[id(reference())] += count
        return matching


class BegunQuery(NamedTuple):
    """A query in use. serial: how many had begun with it."""

    serial: int
    counts: ref[RowCounts]


class QueryIndex:
    """The queries in use, by what a pod must have to match: a namespace, and one label if the selector asks for one.

    newest: how many have ever begun. by_need: empty while there is none; to be read only.
    """

    def __init__(self) -> None:
        self.newest = 0
        self.by_need: dict[tuple[str | None, Pair | None], dict[PodQuery, BegunQuery]] = {}

    def put(self, query: PodQuery, counts: ref[RowCounts]) -> None:
        self.newest += 1
        for need in _needs(query):
            queries = self.by_need.setdefault(need, {})
            queries.pop(query, None)  # the newest are last
            queries[query] = BegunQuery(self.newest, counts)

    def drop(self, query: PodQuery) -> None:
        """Forget a query whose counts are gone; one that has begun anew meanwhile stays."""
        for need in _needs(query):
            queries = self.by_need.get(need, {})
            begun = queries.get(query)
            if begun is not None and begun.counts() is None:
                del queries[query]
                if not queries:
                    del self.by_need[need]

    def matching(self, namespace: str, labels: Mapping[str, str], *, terminating: bool, after: int = 0) -> list[ref[RowCounts]]:
        """Return the counts of all queries that such pods match. after: of those with a larger serial alone."""
        pairs: list[Pair | None] = [None, *labels.items()]
        found = []
        for place in (namespace, None):
            for pair in pairs:
                queries = self.by_need.get((place, pair))
                if queries is None or next(reversed(queries.values())).serial <= after:
                    continue
                for query, begun in list(queries.items()):  # a copy: queries may end at any time
                    if begun.serial > after and (query.terminating or not terminating) and query.matches(namespace, labels):
                        found.append(begun.counts)
        return found


def _needs(query: PodQuery) -> Iterable[tuple[str | None, Pair | None]]:
    pair = query.selector.equal[0] if query.selector.equal else None
    places: Iterable[str | None] = (None,) if query.namespaces is None else query.namespaces
    return [(place, pair) for place in places]


def _requirements(query: PodQuery) -> list[Requirement]:
    """Return what the facts of a pod have to be, for a query whose selector selects anything."""
    found: list[Requirement] = [(key, (value,), False) for key, value in query.selector.equal]
    for other in query.selector.others:
        values, absent = OPERATORS[other.operator]
        found.append((other.key, other.values if values else None, absent))
    if query.namespaces is not None:
        found.append((NAMESPACE, query.namespaces, False))
    if not query.terminating:
        found.append((TERMINATING, None, True))
    return found
