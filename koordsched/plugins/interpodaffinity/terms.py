"""The affinity terms of a pod, and which pods a term matches.

A term has one form however it was written, so that equal terms are one dictionary key, and pods with equal affinities share what was read.
matchLabelKeys and mismatchLabelKeys are part of the selector: an API server writes them there when it creates the pod, and for a pod that
never passed one it is done here. Terms with an invalid selector are left out and named in `problem`. `Namespaces` follows the labels of
the cluster's namespaces, for terms with a namespace selector.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import msgspec

from koordsched.api.meta import LabelSelectorRequirement
from koordsched.api.selectors import NOTHING, LabelSelectorMatcher, SelectorError, label_selector_matcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from koordsched.api.core import Namespace, Pod, PodAffinityTerm
    from koordsched.cluster.informer import Informer
    from koordsched.cluster.object_store import Arrival, FinalState

KEPT_BYTES = 4 << 20  # of written affinities whose terms are kept; the terms themselves take a few times as much
LONG = 2048  # bytes; the terms of a longer affinity, however few they are, are kept only as long as something else holds them

POSITIVE = frozenset({"In", "Exists"})  # operators that no pod without the label satisfies

NO_LABELS: Mapping[str, str] = {}

Key = tuple[bytes, str]  # a written affinity with the labels that it depends on, or a digest of both; and the namespace


class AffinityTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods, by namespace and labels, and the topology key whose domains count. A term without namespaces has its pod's own one."""

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelectorMatcher
    selector: LabelSelectorMatcher

    def label_keys(self) -> frozenset[str]:
        """Return the label keys of pods that the selector reads."""
        return frozenset(key for key, _ in self.selector.equal) | frozenset(other.key for other in self.selector.others)

    def may_match_unlabelled(self) -> bool:
        """Answer whether a pod without any label may match."""
        selector = self.selector
        return not selector.nothing and not selector.equal and all(other.operator not in POSITIVE for other in selector.others)

    def matches(self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Answer whether a pod of this namespace with these labels matches."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class PodAffinityTerms(msgspec.Struct, frozen=True, cache_hash=True, weakref=True):
    """The terms of one pod, each kind in the order in which the pod has them; weights of preferred anti-affinity are negative.

    problem: the terms with an invalid selector, which are left out; "" when there are none.
    is_large: the terms name so much that they must not be kept longer than the pods that have them.
    """

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[AffinityTerm, int], ...] = ()
    problem: str = ""
    is_large: bool = False

    def terms(self) -> Iterator[AffinityTerm]:
        yield from self.required
        yield from self.required_anti
        for term, _ in self.preferred:
            yield term


class AffinityReader:
    """Reads pods' affinities, and keeps the terms of those that it read last."""

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._read: dict[Key, PodAffinityTerms | None] = {}
        self._kept_bytes = 0
        self._large: WeakValueDictionary[Key, PodAffinityTerms] = WeakValueDictionary()

    def read(self, pod: Pod) -> PodAffinityTerms | None:
        """Return the pod's terms; None when it has none."""
        affinity = pod.spec.affinity
        if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
            return None
        written = self._encode((affinity.pod_affinity, affinity.pod_anti_affinity))
        if b"atchLabelKeys" in written:
            written += self._encode(pod.metadata.labels)
        if len(written) > LONG:
            return self._read_large(pod, (blake2b(written).digest(), pod.metadata.namespace))
        key = (written, pod.metadata.namespace)
        try:
            return self._read[key]
        except KeyError:
            if self._kept_bytes > KEPT_BYTES:
                self._read.clear()
                self._kept_bytes = 0
            self._kept_bytes += len(written)
            found = self._read[key] = read_affinity(pod)
            return found

    def _read_large(self, pod: Pod, key: Key) -> PodAffinityTerms | None:
        found = self._large.get(key)
        if found is None:
            found = read_affinity(pod, is_large=True)
            if found is not None:
                self._large[key] = found
        return found


def read_affinity(pod: Pod, *, is_large: bool = False) -> PodAffinityTerms | None:
    """Read a pod's affinity and anti-affinity to other pods; None when it has no term."""
    affinity = pod.spec.affinity
    near, far = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else (None, None)
    required = near.required_during_scheduling_ignored_during_execution if near else ()
    required_anti = far.required_during_scheduling_ignored_during_execution if far else ()
    preferred = near.preferred_during_scheduling_ignored_during_execution if near else ()
    preferred_anti = far.preferred_during_scheduling_ignored_during_execution if far else ()
    if not (required or required_anti or preferred or preferred_anti):
        return None
    parser = _TermParser(pod)
    near_terms = parser.parse("preferredAffinityTerms", [weighted.pod_affinity_term for weighted in preferred])
    far_terms = parser.parse("preferredAntiAffinityTerms", [weighted.pod_affinity_term for weighted in preferred_anti])
    return PodAffinityTerms(
        tuple(term for term in parser.parse("requiredAffinityTerms", required) if term is not None),
        tuple(term for term in parser.parse("requiredAntiAffinityTerms", required_anti) if term is not None),
        (
            *((term, weighted.weight) for term, weighted in zip(near_terms, preferred, strict=True) if term is not None),
            *((term, -weighted.weight) for term, weighted in zip(far_terms, preferred_anti, strict=True) if term is not None),
        ),
        ", ".join(parser.problems),
        is_large,
    )


class _TermParser:
    """Parses the terms of one pod; `problems` are the invalid ones."""

    def __init__(self, pod: Pod) -> None:
        self._labels = pod.metadata.labels
        self._own_namespace = frozenset({pod.metadata.namespace})
        self._selectors: dict[LabelSelectorMatcher, LabelSelectorMatcher] = {}  # one object for all terms with equal selectors
        self.problems: list[str] = []

    def parse(self, kind: str, written: Sequence[PodAffinityTerm]) -> list[AffinityTerm | None]:
        """Return each term, None for an invalid one. Kinds are named as in the reference's parse errors."""
        terms: list[AffinityTerm | None] = []
        for i, term in enumerate(written):
            try:
                terms.append(self._term(term))
            except SelectorError as error:
                self.problems.append(f"{kind}: [{i}].{error}")
                terms.append(None)
        return terms

    def _term(self, term: PodAffinityTerm) -> AffinityTerm:
        try:
            selector = self._with_label_keys(label_selector_matcher(term.label_selector), term)
        except SelectorError as error:
            raise SelectorError(f"labelSelector.{error}") from error
        try:
            namespace_selector = label_selector_matcher(term.namespace_selector) if term.namespace_selector is not None else NOTHING
        except SelectorError as error:
            raise SelectorError(f"namespaceSelector.{error}") from error
        names_namespaces = bool(term.namespaces) or term.namespace_selector is not None
        namespaces = frozenset(term.namespaces) if names_namespaces else self._own_namespace
        return AffinityTerm(term.topology_key, namespaces, namespace_selector, self._selectors.setdefault(selector, selector))

    def _with_label_keys(self, selector: LabelSelectorMatcher, term: PodAffinityTerm) -> LabelSelectorMatcher:
        """Add `key In [value]` and `key NotIn [value]` for the keys that the pod has, unless an API server has done so already."""
        expressions = term.label_selector.match_expressions if term.label_selector else ()
        present = {(expression.key, expression.operator) for expression in expressions}
        for keys, operator in ((term.match_label_keys, "In"), (term.mismatch_label_keys, "NotIn")):
            for key in keys:
                value = self._labels.get(key)
                if value is not None and (key, operator) not in present:
                    selector = selector.with_requirement(LabelSelectorRequirement(key, operator, (value,)))
        return selector


def all_of(terms: tuple[AffinityTerm, ...]) -> LabelSelectorMatcher:
    """Return the selector of the pods that match all the terms' selectors."""
    if any(term.selector.nothing for term in terms):
        return NOTHING
    equal = {pair for term in terms for pair in term.selector.equal}
    others = {(other.key, other.operator, other.values) for term in terms for other in term.selector.others}
    return LabelSelectorMatcher(tuple(sorted(equal)), tuple(LabelSelectorRequirement(*other) for other in sorted(others)))


class Namespaces:
    """Labels by namespace, as an informer's handler. A namespace that is not known (its object comes after its pods) has no labels."""

    def __init__(self, informer: Informer[Namespace]) -> None:
        self.version = 0  # grows when a namespace selector may select others
        self._labels: dict[str, Mapping[str, str]] = {}
        self._selected: dict[LabelSelectorMatcher, frozenset[str]] = {}
        informer.add_handler(self)

    def labels(self, name: str) -> Mapping[str, str]:
        return self._labels.get(name, NO_LABELS)

    def of(self, terms: tuple[AffinityTerm, ...]) -> frozenset[str] | None:
        """Return the namespaces whose pods may match all these terms; None: any namespace."""
        common: frozenset[str] | None = None
        for term in terms:
            selector = term.namespace_selector
            if selector.everything:
                continue
            selected = term.namespaces if selector.nothing else term.namespaces | self._select(selector)
            common = selected if common is None else common & selected
        return common

    def _select(self, selector: LabelSelectorMatcher) -> frozenset[str]:
        found = self._selected.get(selector)
        if found is None:
            found = frozenset(name for name, labels in self._labels.items() if selector.matches(labels))
            self._selected[selector] = found
        return found

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
