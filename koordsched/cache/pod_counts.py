"""PodCounts: how many pods on each row match a query, kept up to date by pod events (framework.md §15).

A pod is reduced to its class: namespace, labels, and whether it is terminating. Which queries a class matches is found out once; after
that a pod event costs one lookup and an addition for each query that matches. A new query is counted once, class by class, and before the
first one all pods are sorted into classes: at once where the counts are needed now, or in steps (`PodCounts.prepare`) where there is time.
Nothing is counted while there is no query, and a query ends when its `RowCounts` is held no more. Callers: topology spreading, affinity
between pods.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary, ref

from koordsched._core.counts import RowCounts
from koordsched.cache.plugin_state import PodFollower, StateDifference

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from koordsched.api.podinfo import PodInfo
    from koordsched.api.selectors import LabelSelectorMatcher
    from koordsched.cache.cache import Cache

ClassKey = tuple[str, tuple[tuple[str, str], ...], bool]
Pair = tuple[str, str]
PODS_A_STEP, CLASSES_A_STEP = 256, 1024
"""Of `PodCounts.prepare`: half a millisecond, and more where all pods differ in their labels."""


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


class PodClass:
    """Pods that match the same queries, and on which rows they are.

    place: among all classes. after: how many queries had begun before it.
    """

    __slots__ = ("after", "key", "matching", "place", "rows")

    def __init__(self, key: ClassKey, matching: list[ref[RowCounts]], place: int, after: int) -> None:
        self.key = key
        self.rows: dict[int, int] = {}  # how many pods, > 0
        self.matching = matching
        self.place = place
        self.after = after


class BegunQuery:
    """A query whose counts lack the pods of classes that were there when it began, from the place `next` on.

    number: how many queries had begun with it.
    """

    __slots__ = ("__weakref__", "counts", "end", "next", "number", "query", "reference")

    def __init__(self, query: PodQuery, counts: RowCounts, reference: ref[RowCounts], number: int, end: int) -> None:
        self.query = query
        self.counts = counts
        self.reference = reference
        self.number = number
        self.next = 0
        self.end = end  # of the places

    def lacks(self, known: PodClass) -> bool:
        """Answer whether the class is still to be asked."""
        return self.next <= known.place < self.end and known.after < self.number


def pod_counts(cache: Cache) -> PodCounts:
    """Return the counts of a cache, which all plugins share."""
    return cache.shared.one(PodCounts, lambda: PodCounts(cache))


class PodCounts(PodFollower):
    """The counts of one cache: also a `CheckedState`. Begins to follow when it is asked for the first time."""

    name = "PodCounts"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._classes: dict[ClassKey, PodClass] = {}
        self._counts: WeakValueDictionary[PodQuery, RowCounts] = WeakValueDictionary()
        self._queries = QueryIndex()
        self._following = False
        self._behind: set[int] = set()  # rows whose pods are in no class yet: they were there when following began
        self._places: list[PodClass | None] = []  # the classes, found again while others come and go
        self._free: list[int] = []  # places
        self._begun_queries = 0
        self._begun: WeakValueDictionary[PodQuery, BegunQuery] = WeakValueDictionary()  # those of which not all classes were asked

    def __len__(self) -> int:
        """Return how many queries are counted."""
        return len(self._counts)

    def count(self, query: PodQuery) -> RowCounts:
        """Return the query's counts, which stay true for as long as the caller holds them. O(classes) for a new query."""
        found = self._counts.get(query)
        begun = self._begin(query) if found is None else self._begun.get(query)
        if begun is None:
            assert found is not None
            return found
        self._finish(begun)
        return begun.counts

    def prepare(self, query: PodQuery) -> Generator[None, None, RowCounts]:
        """Do in steps what `count` would do at once, and return the counts; pods may come and go between steps, and `count` be called.

        To be stepped outside of views and simulations.
        """
        self._follow()
        while self._behind:
            taken = 0
            while taken < PODS_A_STEP and self._behind:
                taken += self._take_in(self._behind.pop())
            yield
        found = self._counts.get(query)
        begun = self._begin(query) if found is None else self._begun.get(query)
        while begun is not None and begun.next < begun.end:
            self._ask_classes(begun, CLASSES_A_STEP)
            yield
        return self.count(query)

    def prepare_all(self, queries: Iterable[PodQuery]) -> Generator[None, None, list[RowCounts]]:
        """Do the same for several queries, one after the other."""
        found = []
        for query in queries:
            counts = yield from self.prepare(query)
            found.append(counts)
        return found

    def _follow(self) -> None:
        if not self._following:
            self._following = True
            self._behind = {info.row for info in self._cache.nodes_by_name.values() if info.counted}
            self._cache.follow(self, replay=False)
            self._cache.checked.append(self)

    def _take_in(self, row: int) -> int:
        """Sort the pods of a row into their classes that is behind no more; how many. Nothing is counted yet."""
        info, taken = self._cache.infos[row], 0
        nodes = [info] if info is not None else [node for node in self._cache.nodes_by_name.values() if node.row == row]
        for node in nodes:
            for pod in node.counted.values():
                rows = self._class(_key(pod)).rows
                rows[row] = rows.get(row, 0) + 1
            taken += len(node.counted)
        return taken

    def _catch_up(self, rows: Iterable[int]) -> None:
        """Take in the pods of those of these rows that are behind."""
        for row in self._behind.intersection(rows) if self._behind else ():
            self._behind.discard(row)
            self._take_in(row)

    def _begin(self, query: PodQuery) -> BegunQuery:
        self._follow()
        self._catch_up(self._behind)
        counts = self._counts[query] = RowCounts(self._cache.table)
        reference = ref(counts, lambda _: self._queries.drop(query))
        self._queries.put(query, reference)
        self._begun_queries += 1
        found = self._begun[query] = BegunQuery(query, counts, reference, self._begun_queries, len(self._places))
        return found

    def _ask_classes(self, begun: BegunQuery, most: int) -> None:
        """Count the pods of the classes at so many more places."""
        query, first = begun.query, begun.next
        for known in self._places[first : min(first + most, begun.end)]:
            if known is None or known.after >= begun.number:
                continue
            namespace, labels, terminating = known.key
            if terminating and not query.terminating:
                continue
            if query.counts_namespace(namespace) and query.selector.matches(dict(labels)):
                known.matching.append(begun.reference)
                begun.counts.add_all(known.rows)
        begun.next = min(first + most, begun.end)

    def _finish(self, begun: BegunQuery) -> None:
        """Ask all classes that are left, without the pods that the view hides which is shown now."""
        hidden = [(pod, row) for pod, row in self._cache.hidden_pods() if begun.query.counts(pod)]
        asked_now = [row for pod, row in hidden if begun.lacks(self._class(_key(pod)))]
        self._ask_classes(begun, begun.end - begun.next)
        for row in asked_now:
            begun.counts.add_quietly(row, -1)  # added again when the view ends
        self._begun.pop(begun.query, None)

    # PodFollower

    def pod_added(self, pod: PodInfo, row: int) -> None:
        if row in self._behind:
            return
        known = self._class(_key(pod))
        known.rows[row] = known.rows.get(row, 0) + 1
        self._add(known, row, 1)

    def pod_removed(self, pod: PodInfo, row: int) -> None:
        if row in self._behind:
            return
        known = self._classes[_key(pod)]
        left = known.rows[row] - 1
        if left:
            known.rows[row] = left
        else:
            del known.rows[row]
            if not known.rows:
                self._drop(known)
        self._add(known, row, -1)

    def pod_moved(self, pod: PodInfo, old_row: int, row: int) -> None:
        self.pod_removed(pod, old_row)
        self.pod_added(pod, row)

    def pod_replaced(self, old: PodInfo, new: PodInfo, row: int) -> None:
        if _key(old) != _key(new):  # equal labels may stand in another order
            self.pod_removed(old, row)
            self.pod_added(new, row)

    def without(self, pods: Sequence[PodInfo], row: int) -> HiddenClasses:
        """Hide the pods from the counts alone: on which rows a class is concerns queries that begin, and these leave out what is hidden."""
        self._catch_up((row,))
        return HiddenClasses(self, [(self._class(key), count) for key, count in Counter(map(_key, pods)).items()], row)

    def count_quietly(self, known: PodClass, row: int, amount: int) -> None:
        """Add so many pods of a class to what the counts have of a row."""
        if known.matching:
            self._add(known, row, amount)

    # CheckedState

    def names(self) -> Iterable[str]:
        """Nothing is kept of a node that the cache does not know."""
        return ()

    def differences(self, node: str) -> Iterable[StateDifference]:
        """Count the pods of a node's row anew. O(its pods and the queries)."""
        row = self._own_row(node)
        if row is None:
            return
        classes, matching = self._counted(node)
        for key, count in classes.items():
            known = self._classes.get(key)
            kept = 0 if known is None else known.rows.get(row, 0)
            if kept != count:
                yield StateDifference(f"pods of namespace {key[0]} with labels {dict(key[1])}", kept, count)
        for query, counts in self._counts.items():
            if counts.of(row) != matching[id(counts)]:
                yield StateDifference(f"pods that match {query.selector}", counts.of(row), matching[id(counts)])

    def rebuild(self, node: str) -> None:
        """Write what was counted anew. O(classes)."""
        row = self._own_row(node)
        if row is None:
            return
        classes, matching = self._counted(node)
        for key, known in list(self._classes.items()):
            if known.rows.pop(row, 0) and not known.rows and key not in classes:
                self._drop(known)
        for key, count in classes.items():
            self._class(key).rows[row] = count
        for counts in list(self._counts.values()):
            counts.add(row, matching[id(counts)] - counts.of(row))
        self._cache.table.touch(row)

    def _own_row(self, node: str) -> int | None:
        info = self._cache.nodes_by_name.get(node)
        return None if info is None or self._cache.infos[info.row] is not info else info.row

    def _counted(self, node: str) -> tuple[Counter[ClassKey], Counter[int]]:
        """Return how many pods of each class the cache has on a node, and how many match each query, by the identity of its counts."""
        self._catch_up((self._cache.nodes_by_name[node].row,))
        classes = Counter(_key(pod) for pod in self._cache.nodes_by_name[node].pods.values())
        matching: Counter[int] = Counter()
        for key, count in classes.items():
            known = self._classes.get(key)
            namespace, labels, terminating = key
            references = self._queries.matching(namespace, dict(labels), terminating=terminating) if known is None else known.matching
            for reference in references:
                matching[id(reference())] += count
        return classes, matching

    # Classes

    def _class(self, key: ClassKey) -> PodClass:
        found = self._classes.get(key)
        if found is None:
            namespace, labels, terminating = key
            if not self._free:
                self._free.append(len(self._places))
                self._places.append(None)
            matching = self._queries.matching(namespace, dict(labels), terminating=terminating)
            found = PodClass(key, matching, self._free.pop(), self._begun_queries)
            self._classes[key] = self._places[found.place] = found
        return found

    def _drop(self, known: PodClass) -> None:
        """Forget a class without pods."""
        del self._classes[known.key]
        self._places[known.place] = None
        self._free.append(known.place)

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
            known.matching = [reference for reference in known.matching if reference() is not None]


class HiddenClasses:
    """Pods of some classes on a row, in views."""

    counts_alone = True

    def __init__(self, counts: PodCounts, classes: list[tuple[PodClass, int]], row: int) -> None:
        """classes: with how many pods of each."""
        self._counts = counts
        self._classes = classes
        self._row = row

    def hide(self) -> None:
        for known, count in self._classes:
            self._counts.count_quietly(known, self._row, -count)

    def restore(self) -> None:
        for known, count in self._classes:
            self._counts.count_quietly(known, self._row, count)


class QueryIndex:
    """The queries in use, by what a pod must have to match: a namespace, and one label if the selector asks for one."""

    def __init__(self) -> None:
        self._by_need: dict[tuple[str | None, Pair | None], dict[PodQuery, ref[RowCounts]]] = {}

    def put(self, query: PodQuery, reference: ref[RowCounts]) -> None:
        for need in _needs(query):
            self._by_need.setdefault(need, {})[query] = reference

    def drop(self, query: PodQuery) -> None:
        """Forget a query whose counts are gone; one that has begun anew meanwhile stays."""
        for need in _needs(query):
            queries = self._by_need.get(need, {})
            reference = queries.get(query)
            if reference is not None and reference() is None:
                del queries[query]
                if not queries:
                    del self._by_need[need]

    def matching(self, namespace: str, labels: Mapping[str, str], *, terminating: bool) -> list[ref[RowCounts]]:
        """Return the counts of all queries that such pods match."""
        if not self._by_need:
            return []
        return [
            reference
            for query, reference in self._candidates(namespace, labels)
            if (query.terminating or not terminating) and query.matches(namespace, labels)
        ]

    def _candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[tuple[PodQuery, ref[RowCounts]]]:
        pairs: list[Pair | None] = [None, *labels.items()]
        for place in (namespace, None):
            for pair in pairs:
                yield from list(self._by_need.get((place, pair), {}).items())


def _needs(query: PodQuery) -> Iterable[tuple[str | None, Pair | None]]:
    pair = query.selector.equal[0] if query.selector.equal else None
    places: Iterable[str | None] = (None,) if query.namespaces is None else query.namespaces
    return [(place, pair) for place in places]


def _key(pod: PodInfo) -> ClassKey:
    meta = pod.pod.metadata
    return meta.namespace, tuple(meta.labels.items()), meta.deletion_timestamp is not None
