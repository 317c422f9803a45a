"""The text form of label selectors: `a=b, c in (d,e), f notin (g), h, !i, j>1`.

The grammar is that of apimachinery's labels.Parse: requirements with commas between them, white space where one likes, `==` for `=`,
values may be empty (`a=`, `a in ()`), the empty text selects everything.
"""

from __future__ import annotations

import re

from koordsched.api.meta import LabelSelectorRequirement
from koordsched.api.selectors.labels import LabelSelectorMatcher, matcher_of
from koordsched.api.selectors.requirements import SelectorError, requirement_error

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
