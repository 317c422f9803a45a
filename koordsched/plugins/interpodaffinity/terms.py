"""What a pod's affinity says, read once for all pods that say the same.

A term is in one form whatever way it was written, so equal terms are equal objects to dictionaries. matchLabelKeys and mismatchLabelKeys
are in its selector: an API server writes them there when it creates the pod, and for a pod that never saw one it is done here. Terms that
cannot be understood are left out and named in `problem`. Weights of preferred anti-affinity are negative.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import msgspec

from koordsched.api.meta import LabelSelectorRequirement
from koordsched.api.selectors import NOTHING, LabelSelectorMatcher, SelectorError, label_selector_matcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koordsched.api.core import Pod, PodAffinityTerm

KEPT_BYTES = 4 << 20  # of written affinities that are kept, read, for pods that say the same; read they take a few times as much
LONG = 2048  # bytes; what is longer, however few terms it is, is kept only as long as somebody needs it

POSITIVE = frozenset({"In", "Exists"})  # operators that no pod without the label satisfies


Key = tuple[bytes, str]  # what is written, with the labels that it depends on, or a digest of that; and the namespace


class Term(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods (by namespace and labels) and what counts as one place. A pod's own namespace is in `namespaces` when the term names none."""

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: LabelSelectorMatcher
    selector: LabelSelectorMatcher

    def label_keys(self) -> frozenset[str]:
        """Return the label keys of pods that the selector reads."""
        return frozenset(key for key, _ in self.selector.equal) | frozenset(other.key for other in self.selector.others)

    def is_wild(self) -> bool:
        """Answer whether a pod without any label may match."""
        selector = self.selector
        return not selector.nothing and not selector.equal and all(other.operator not in POSITIVE for other in selector.others)


class Affinity(msgspec.Struct, frozen=True, cache_hash=True, weakref=True):
    """The terms of one pod, in the order in which they stand. `problem` names what cannot be understood; "" when all can.

    is_large: they name so much that they must not be kept longer than the pods that have them.
    """

    required: tuple[Term, ...] = ()
    required_anti: tuple[Term, ...] = ()
    preferred: tuple[tuple[Term, int], ...] = ()
    problem: str = ""
    is_large: bool = False

    def terms(self) -> Iterator[Term]:
        yield from self.required
        yield from self.required_anti
        for term, _ in self.preferred:
            yield term


class AffinityReader:
    """Reads pods' affinities; what was read last is kept."""

    def __init__(self) -> None:
        self._encode = msgspec.msgpack.Encoder().encode
        self._read: dict[Key, Affinity | None] = {}
        self._kept_bytes = 0
        self._large: WeakValueDictionary[Key, Affinity] = WeakValueDictionary()  # kept by those who hold them

    def read(self, pod: Pod) -> Affinity | None:
        """Return what the pod says about other pods; None when it says nothing."""
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

    def _read_large(self, pod: Pod, key: Key) -> Affinity | None:
        found = self._large.get(key)
        if found is None:
            found = read_affinity(pod, is_large=True)
            if found is not None:
                self._large[key] = found
        return found


def read_affinity(pod: Pod, *, is_large: bool = False) -> Affinity | None:
    """Read a pod's affinity and anti-affinity to other pods; None when it has no term."""
    affinity = pod.spec.affinity
    together, apart = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else (None, None)
    reading = _Reading(pod)
    required = together.required_during_scheduling_ignored_during_execution if together else ()
    required_anti = apart.required_during_scheduling_ignored_during_execution if apart else ()
    preferred = together.preferred_during_scheduling_ignored_during_execution if together else ()
    preferred_anti = apart.preferred_during_scheduling_ignored_during_execution if apart else ()
    if not (required or required_anti or preferred or preferred_anti):
        return None
    likes = reading.terms("preferredAffinityTerms", [weighted.pod_affinity_term for weighted in preferred])
    dislikes = reading.terms("preferredAntiAffinityTerms", [weighted.pod_affinity_term for weighted in preferred_anti])
    return Affinity(
        tuple(term for term in reading.terms("requiredAffinityTerms", required) if term is not None),
        tuple(term for term in reading.terms("requiredAntiAffinityTerms", required_anti) if term is not None),
        (
            *((term, weighted.weight) for term, weighted in zip(likes, preferred, strict=True) if term is not None),
            *((term, -weighted.weight) for term, weighted in zip(dislikes, preferred_anti, strict=True) if term is not None),
        ),
        ", ".join(reading.problems),
        is_large,
    )


class _Reading:
    """Reads the terms of one pod and gathers what cannot be understood."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self.problems: list[str] = []
        self._own_namespace = frozenset({pod.metadata.namespace})
        self._selectors: dict[LabelSelectorMatcher, LabelSelectorMatcher] = {}  # one for all terms that select alike

    def terms(self, name: str, written: list[PodAffinityTerm] | tuple[PodAffinityTerm, ...]) -> list[Term | None]:
        """Return each term, None for one that cannot be understood. Reference: the names are those of its parse errors."""
        read: list[Term | None] = []
        for i, term in enumerate(written):
            try:
                read.append(self._term(term))
            except SelectorError as error:
                self.problems.append(f"{name}: [{i}].{error}")
                read.append(None)
        return read

    def _term(self, term: PodAffinityTerm) -> Term:
        named = bool(term.namespaces) or term.namespace_selector is not None
        try:
            selector = self._with_label_keys(label_selector_matcher(term.label_selector), term)
        except SelectorError as error:
            raise SelectorError(f"labelSelector.{error}") from error
        try:
            namespace_selector = label_selector_matcher(term.namespace_selector) if term.namespace_selector is not None else NOTHING
        except SelectorError as error:
            raise SelectorError(f"namespaceSelector.{error}") from error
        namespaces = frozenset(term.namespaces) if named else self._own_namespace
        return Term(term.topology_key, namespaces, namespace_selector, self._selectors.setdefault(selector, selector))

    def _with_label_keys(self, selector: LabelSelectorMatcher, term: PodAffinityTerm) -> LabelSelectorMatcher:
        """Add `key In [value]` and `key NotIn [value]` for the keys that the pod has, unless an API server has done so already."""
        for keys, operator in ((term.match_label_keys, "In"), (term.mismatch_label_keys, "NotIn")):
            for key in keys:
                value = self._pod.metadata.labels.get(key)
                if value is not None and not _has_expression(term, key, operator):
                    selector = selector.with_requirement(LabelSelectorRequirement(key, operator, (value,)))
        return selector


def _has_expression(term: PodAffinityTerm, key: str, operator: str) -> bool:
    expressions = term.label_selector.match_expressions if term.label_selector else ()
    return any(expression.key == key and expression.operator == operator for expression in expressions)


def all_of(terms: tuple[Term, ...]) -> LabelSelectorMatcher:
    """Return the selector of the pods that match all the terms' selectors."""
    if any(term.selector.nothing for term in terms):
        return NOTHING
    equal = {pair for term in terms for pair in term.selector.equal}
    others = {(other.key, other.operator, other.values) for term in terms for other in term.selector.others}
    return LabelSelectorMatcher(tuple(sorted(equal)), tuple(LabelSelectorRequirement(*other) for other in sorted(others)))


def selects(term: Term, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Answer whether a pod of this namespace with these labels matches the term."""
    if namespace not in term.namespaces and not term.namespace_selector.matches(namespace_labels):
        return False
    return term.selector.matches(labels)
