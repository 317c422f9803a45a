"""Indexes in which most keys have one value: that alone is kept then, as a tuple of one costs 48 bytes, 10,000 times.

Values are compared by identity and are no tuples themselves.
"""

from __future__ import annotations

from typing import TypeVar, Union

K = TypeVar("K")
T = TypeVar("T")
Group = Union[T, tuple[T, ...]]  # noqa: UP007  # of a type variable
"""The values of a key."""


def members(group: Group[T] | None) -> tuple[T, ...]:
    """Return all values of a key; None, it has none."""
    if isinstance(group, tuple):
        return group
    return () if group is None else (group,)


def put(index: dict[K, Group[T]], key: K, value: T) -> None:
    """Add a value to those of a key. O(these)."""
    found = index.get(key)
    index[key] = value if found is None else (*members(found), value)


def take(index: dict[K, Group[T]], key: K, value: T) -> None:
    """Take a value away from those of a key. O(these); KeyError when it has none."""
    rest = tuple([other for other in members(index[key]) if other is not value])
    if not rest:
        del index[key]
    else:
        index[key] = rest if len(rest) > 1 else rest[0]
