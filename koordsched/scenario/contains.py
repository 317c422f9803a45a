"""The subset rule of scenarios: does what was seen contain what was expected?

A map contains a map when each expected key is there with a value that contains the expected one (an expected null: the key is absent or
null). A list contains a list when the expected items are found in it in order, others between them allowed. All else must be equal.
"""

from __future__ import annotations

from typing import Any


def contains(seen: Any, expected: Any) -> bool:
    """Return whether a JSON value contains another."""
    if isinstance(expected, dict):
        return isinstance(seen, dict) and all(_at(seen, key, value) for key, value in expected.items())
    if isinstance(expected, list):
        return isinstance(seen, list) and _in_order(seen, expected)
    return type_of(seen) == type_of(expected) and bool(seen == expected)


def type_of(value: Any) -> str:
    """Name the JSON type, so that true is not 1 while 1 is 1.0."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return type(value).__name__


def missing(seen: Any, expected: Any, path: str = "") -> str:
    """Say in a few words where `seen` fails to contain `expected`; "" when it contains it."""
    if contains(seen, expected):
        return ""
    if isinstance(expected, dict) and isinstance(seen, dict):
        for key, value in expected.items():
            if not _at(seen, key, value):
                return missing(seen[key], value, f"{path}.{key}".lstrip(".")) if key in seen else f"no {f'{path}.{key}'.lstrip('.')}"
    return f"{path} is {seen!r}" if path else repr(seen)


def _at(seen: dict[str, Any], key: str, value: Any) -> bool:
    if value is None:
        return seen.get(key) is None
    return key in seen and contains(seen[key], value)


def _in_order(seen: list[Any], expected: list[Any]) -> bool:
    """Match each expected item with the first later one that contains it: if any assignment in order exists, this one does."""
    position = 0
    for wanted in expected:
        while position < len(seen) and not contains(seen[position], wanted):
            position += 1
        if position == len(seen):
            return False
        position += 1
    return True
