"""What plugins of several profiles, or several plugins, keep together about one cache: made once, and gone when the cache is."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Shared:
    """At most one object of each class, for whoever asks."""

    def __init__(self) -> None:
        self._objects: dict[type, object] = {}

    def one(self, kind: type[T], make: Callable[[], T]) -> T:
        """Return the object of this class; who asks first makes it."""
        found = self._objects.get(kind)
        if found is None:
            found = self._objects[kind] = make()
        assert isinstance(found, kind)
        return found
