"""Label selectors and node selector requirements: what an operator means, selectors compiled for matching, and their text form.

The six operators serve node selectors (framework.md §10.2); label selectors know the first four. A key that is absent satisfies NotIn and
DoesNotExist only; Gt and Lt compare 64-bit integers and are false when either side is none.

Compiling checks a selector once and puts it into one form, so that equal selectors compare and hash equal whatever way they were
written; memo tables may use a matcher as a key. An absent selector matches nothing, an empty one everything, as in Kubernetes.

The grammar of the text form (`a=b, c in (d,e), f notin (g), h, !i, j>1`) is that of apimachinery's labels.Parse: requirements with commas
between them, white space where one likes, `==` for `=`, values may be empty (`a=`, `a in ()`), the empty text selects everything.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.meta import LabelSelectorRequirement
from koordsched.api.names import is_label_value, is_qualified_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from koordsched.api.meta import LabelSelector


OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
LABEL_OPERATORS = OPERATORS[:4]

_INTEGER = r"[+-]?[0-9]{1,30}"
_INT64 = range(-(2**63), 2**63)


class SelectorError(ValueError):
    """A selector that cannot be understood; the message names the part and what was expected."""


def requirement_matches(operator: str, values: Collection[str], value: str | None) -> bool:
    """Answer whether a label's value (None: no such label) satisfies the operator; an unknown operator is satisfied by nothing."""
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return value is not None and _compares(operator, values, value)
    return False


def requirement_error(requirement: LabelSelectorRequirement) -> str | None:
    """Say why a node selector requirement on labels cannot be understood, or None. A term with such a one never matches."""
    operator, values = requirement.operator, requirement.values
    if not is_qualified_name(requirement.key):
        return f'key: "{requirement.key}" is not a label key'
    if operator not in OPERATORS:
        return f'operator: "{operator}" is not one of {", ".join(OPERATORS)}'
    if operator in {"In", "NotIn"} and not values:
        return f"values: at least one is required with {operator}"
    if operator in {"Exists", "DoesNotExist"} and values:
        return f"values: none are allowed with {operator}"
    if operator in {"Gt", "Lt"} and (len(values) != 1 or _integer(values[0]) is None):
        return f"values: exactly one integer is required with {operator}"
    return next((f'values: "{value}" is not a label value' for value in values if not is_label_value(value)), None)


def label_requirement_error(requirement: LabelSelectorRequirement) -> str | None:
    """Say why a label selector's requirement cannot be understood, or None."""
    if requirement.operator in OPERATORS and requirement.operator not in LABEL_OPERATORS:
        return f'operator: "{requirement.operator}" is not one of {", ".join(LABEL_OPERATORS)}'
    return requirement_error(requirement)


def _compares(operator: str, values: Collection[str], value: str) -> bool:
    if len(values) != 1:
        return False
    left, right = _integer(value), _integer(next(iter(values)))
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _integer(text: str) -> int | None:
    if re.fullmatch(_INTEGER, text, re.ASCII) is None:
        return None
    number = int(text)
    return number if number in _INT64 else None


_NO_LABELS: dict[str, str] = {}


class LabelSelectorMatcher(msgspec.Struct, frozen=True, gc=False):
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


_LEXEME = r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)"
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_SINGLE = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt"}
_SETS = {"in": "In", "notin": "NotIn"}


def parse_label_selector(text: str) -> LabelSelectorMatcher:
    """Compile a selector from its text form; SelectorError says what was found where something else was expected."""
    tokens = _Tokens(text)
    requirements = []
    while tokens.next:
        requirement = _requirement(tokens)
        problem = requirement_error(requirement)
        if problem:
            raise tokens.error(problem)
        requirements.append(requirement)
        if tokens.next:
            tokens.expect(",")
            if not tokens.next:
                raise tokens.found("a requirement after ','")
    return matcher_of(requirements)


class _Tokens:
    """The tokens of a selector; `next` is the one to read, "" at the end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = [*re.findall(_LEXEME, text), ""]
        self._position = 0

    @property
    def next(self) -> str:
        return self._tokens[self._position]

    @property
    def at_word(self) -> bool:
        return bool(self.next) and self.next not in _SYMBOLS

    def take(self) -> str:
        token = self.next
        self._position += bool(token)
        return token

    def take_if(self, token: str) -> bool:
        return self.next == token and bool(self.take())

    def word(self, expected: str) -> str:
        if not self.at_word:
            raise self.found(expected)
        return self.take()

    def expect(self, token: str) -> None:
        if not self.take_if(token):
            raise self.found(f"'{token}'")

    def found(self, expected: str) -> SelectorError:
        return self.error(f"found '{self.next}', expected {expected}" if self.next else f"found the end, expected {expected}")

    def error(self, problem: str) -> SelectorError:
        return SelectorError(f'label selector "{self._text}": {problem}')


def _requirement(tokens: _Tokens) -> LabelSelectorRequirement:
    if tokens.take_if("!"):
        return LabelSelectorRequirement(tokens.word("a label key after '!'"), "DoesNotExist")
    key = tokens.word("a label key or '!'")
    if tokens.next in {"", ","}:
        return LabelSelectorRequirement(key, "Exists")
    operator = tokens.take()
    if operator in _SINGLE:
        value = "" if tokens.next in {"", ","} else tokens.word("a value")
        return LabelSelectorRequirement(key, _SINGLE[operator], (value,))
    if operator in _SETS:
        return LabelSelectorRequirement(key, _SETS[operator], _values(tokens))
    raise tokens.error(f"found '{operator}', expected one of = == != in notin < >")


def _values(tokens: _Tokens) -> tuple[str, ...]:
    """Read `(a,b)`; where no word stands between commas and parentheses, the value is empty."""
    tokens.expect("(")
    values = [tokens.take() if tokens.at_word else ""]
    while tokens.take_if(","):
        values.append(tokens.take() if tokens.at_word else "")
    tokens.expect(")")
    return tuple(values)
