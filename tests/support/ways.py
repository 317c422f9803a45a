"""The way to everything inside a JSON value, for tests that change one place of it."""

from __future__ import annotations

from typing import Any

Way = tuple[Any, ...]  # keys and indices, from the outside in


def ways(value: Any, way: Way = ()) -> list[Way]:
    """Return the way to every value below this one; what holds others comes before them."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for step, item in items for found in [(*way, step), *ways(item, (*way, step))]]
