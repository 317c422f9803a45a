"""Ways to choose by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
Json = dict[str, Any]
Part = Callable[[Random], Json]


def some(random: Random, items: Sequence[T], most: int) -> list[T]:
    """Return 1 to `most` different items."""
    return random.sample(items, random.randint(1, min(most, len(items))))


def merged(parts: Sequence[Json]) -> Json:
    """Put maps together: maps inside are merged, lists appended, anything else replaced."""
    found: Json = {}
    for part in parts:
        for key, value in part.items():
            present = found.get(key)
            if isinstance(present, dict) and isinstance(value, dict):
                found[key] = merged([present, value])
            elif isinstance(present, list) and isinstance(value, list):
                found[key] = present + value
            else:
                found[key] = value
    return found


def by_chance(random: Random, parts: Sequence[tuple[float, Part]]) -> Json:
    """Merge those parts whose chance (0..1) comes up."""
    return merged([part(random) for chance, part in parts if random.random() < chance])
