"""Label selectors compiled for matching.

Compiling checks the selector once and puts it into one form, so that equal selectors compare and hash equal whatever way they were
written; memo tables may use a matcher as a key. An absent selector matches nothing, an empty one everything, as in Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.api.meta import LabelSelectorRequirement
from koordsched.api.names import is_label_value, is_qualified_name
from koordsched.api.selectors.requirements import SelectorError, label_requirement_error, requirement_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koordsched.api.meta import LabelSelector

_NO_LABELS: dict[str, str] = {}


class LabelSelectorMatcher(msgspec.Struct, frozen=True):
    """A conjunction of label requirements. Immutable and hashable; two that mean the same requirements are equal."""

    equal: tuple[tuple[str, str], ...] = ()  # key, the one value it must have; sorted
    others: tuple[LabelSelectorRequirement, ...] = ()  # all requirements that are no plain equality; sorted
    nothing: bool = False  # of an absent selector: matches no object at all

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Answer whether an object with these labels (None: it has none) is selected. O(requirements)."""
        if self.nothing:
            return False
        if labels is None:
            labels = _NO_LABELS
        for key, value in self.equal:
            if labels.get(key) != value:
                return False
        return not self.others or all(requirement_matches(other.operator, other.values, labels.get(other.key)) for other in self.others)

    @property
    def everything(self) -> bool:
        """Whether every object is selected, so that no label needs to be looked at."""
        return not (self.nothing or self.equal or self.others)

    def with_requirement(self, requirement: LabelSelectorRequirement) -> LabelSelectorMatcher:
        """Return the matcher that holds one requirement more (matchLabelKeys and mismatchLabelKeys add some)."""
        if self.nothing:
            return self
        own = [LabelSelectorRequirement(key, "In", (value,)) for key, value in self.equal]
        return matcher_of([*own, *self.others, requirement])


NOTHING = LabelSelectorMatcher(nothing=True)
EVERYTHING = LabelSelectorMatcher()


def label_selector_matcher(selector: LabelSelector | None) -> LabelSelectorMatcher:
    """Compile a selector; SelectorError names the requirement that cannot be understood."""
    if selector is None:
        return NOTHING
    for i, requirement in enumerate(selector.match_expressions):
        problem = label_requirement_error(requirement)
        if problem:
            raise SelectorError(f"matchExpressions[{i}].{problem}")
    _check_pairs(selector.match_labels, "matchLabels")
    return matcher_of([*_equalities(selector.match_labels), *selector.match_expressions])


def map_matcher(labels: Mapping[str, str]) -> LabelSelectorMatcher:
    """Compile the plain map of a Service, a ReplicationController or a nodeSelector. Its values are not checked: odd ones match nothing."""
    return matcher_of(_equalities(labels))


def matcher_of(requirements: Iterable[LabelSelectorRequirement]) -> LabelSelectorMatcher:
    """Put understood requirements into the one form of a matcher."""
    equal: set[tuple[str, str]] = set()
    others: set[tuple[str, str, tuple[str, ...]]] = set()
    for requirement in requirements:
        values = tuple(sorted(set(requirement.values)))
        if requirement.operator == "In" and len(values) == 1:
            equal.add((requirement.key, values[0]))
        else:
            others.add((requirement.key, requirement.operator, values))
    return LabelSelectorMatcher(tuple(sorted(equal)), tuple(LabelSelectorRequirement(*other) for other in sorted(others)))


def _equalities(labels: Mapping[str, str]) -> list[LabelSelectorRequirement]:
    return [LabelSelectorRequirement(key, "In", (value,)) for key, value in labels.items()]


def _check_pairs(labels: Mapping[str, str], path: str) -> None:
    for key, value in labels.items():
        if not is_qualified_name(key):
            raise SelectorError(f'{path}: "{key}" is not a label key')
        if not is_label_value(value):
            raise SelectorError(f'{path}[{key}]: "{value}" is not a label value')
