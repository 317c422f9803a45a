"""Field selectors: `spec.nodeName=,status.phase!=Succeeded` over JSON objects.

The grammar is that of apimachinery's fields package: `=`, `==` and `!=`, backslash before a comma, an equals sign or a backslash inside a
value. The embedded API server applies them by dotted path; a field that is absent reads as an API server shows it, "" or "false".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from koordsched.api.selectors.labels import SelectorError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_TERMS = re.compile(r"(?:\\.|[^\\,]|\\$)+", re.DOTALL)
_OPERATOR = re.compile(r"!=|==|=")
_ABSENT = {"spec.unschedulable": "false", "spec.hostNetwork": "false"}


class FieldRequirement(msgspec.Struct, frozen=True):
    """A field, given by its dotted path, that must (or must not) have a value."""

    path: str
    value: str
    negated: bool = False
    steps: tuple[str, ...] = ()  # the names in `path`; a selector is asked at every write of a pod


class FieldSelector(msgspec.Struct, frozen=True):
    """A conjunction of field requirements; one without any selects everything."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, raw: Mapping[str, Any]) -> bool:
        """Answer whether an object, as JSON values, is selected."""
        path, value = "", ""
        for requirement in self.requirements:  # mostly about the phase twice
            if requirement.path != path:
                path = requirement.path
                found: Any = raw
                try:
                    for step in requirement.steps:
                        found = found[step]
                except (KeyError, TypeError, IndexError):
                    found = None
                value = found if type(found) is str else _text(path, found)
            if (value == requirement.value) is requirement.negated:
                return False
        return True


def parse_field_selector(text: str) -> FieldSelector:
    """Read a field selector; SelectorError names the term that cannot be understood."""
    return FieldSelector(tuple(_requirement(term, text) for term in _TERMS.findall(text)))


def _requirement(term: str, text: str) -> FieldRequirement:
    operator = _OPERATOR.search(term)
    path = term[: operator.start()].strip() if operator else ""
    if operator is None or not path:
        raise SelectorError(f'field selector "{text}": "{term}" is not of the form path=value or path!=value')
    return FieldRequirement(path, _unescaped(term[operator.end() :], text), operator[0] == "!=", tuple(path.split(".")))


def _unescaped(value: str, text: str) -> str:
    plain = re.sub(r"\\[\\,=]", "", value)
    if "\\" in plain or "=" in plain:
        raise SelectorError(f'field selector "{text}": in the value "{value}" a backslash must stand before each of \\ , =')
    return re.sub(r"\\([\\,=])", r"\1", value)


def _text(path: str, value: Any) -> str:
    """Write a field's value as an API server compares it."""
    if value is None:
        return _ABSENT.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
