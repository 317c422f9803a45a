"""Read an untrusted YAML value against what a format allows, and collect every mistake instead of stopping at the first.

Each method takes the value and its path, records what is wrong, and returns something of the right type so that reading goes on. A name
that the format does not know gets the nearest one that it does.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from koordsched.config.duration import Duration
from koordsched.yamltext.documents import shown


class StrictReader:
    """Reads one document; `mistakes` holds a line for each thing that is wrong, in the order of reading."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.mistakes: list[str] = []

    def mistake(self, path: str, what: str) -> None:
        self.mistakes.append(f"{self._origin}: {path}: {what}" if path else f"{self._origin}: {what}")

    def mapping(self, value: Any, path: str, known: Collection[str] | None = None, required: Collection[str] = ()) -> dict[str, Any]:
        """Read a map with none but known keys and all required ones; known None: any key."""
        if not isinstance(value, dict):
            self._wrong_type(path, value, "a map")
            return {}
        for key in value:
            if known is not None and key not in known:
                self.mistake(join(path, key), f"unknown field{nearest(key, known)}")
        for key in required:
            if key not in value:
                self.mistake(join(path, key), "missing")
        return {key: item for key, item in value.items() if known is None or key in known}

    def list_(self, value: Any, path: str) -> list[tuple[str, Any]]:
        """Read a list into pairs of path and item."""
        if not isinstance(value, list):
            self._wrong_type(path, value, "a list")
            return []
        return [(f"{path}[{index}]", item) for index, item in enumerate(value)]

    def text(self, value: Any, path: str) -> str:
        if not isinstance(value, str):
            self._wrong_type(path, value, "a text")
            return ""
        return value

    def texts(self, value: Any, path: str) -> tuple[str, ...]:
        return tuple(self.text(item, where) for where, item in self.list_(value, path))

    def number(self, value: Any, path: str, *, least: int = 0) -> int:
        """Read a whole number that is not below `least`."""
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self._wrong_type(path, value, f"a whole number of at least {least}")
            return least
        return value

    def numbers(self, value: Any, path: str) -> tuple[int, ...]:
        return tuple(self.number(item, where) for where, item in self.list_(value, path))

    def flag(self, value: Any, path: str) -> bool:
        if not isinstance(value, bool):
            self._wrong_type(path, value, "true or false")
            return False
        return value

    def duration(self, value: Any, path: str) -> float:
        """Read a duration such as 5s, 1m30s or 500ms into seconds."""
        try:
            seconds = Duration.parse(value) if isinstance(value, str) else -1.0
        except ValueError:
            seconds = -1.0
        if seconds < 0:
            self._wrong_type(path, value, "a duration such as 5s, 1m30s or 500ms")
            return 0.0
        return seconds

    def _wrong_type(self, path: str, value: Any, wanted: str) -> None:
        self.mistake(path, f"{shown(value)}: expected {wanted}")


def join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def nearest(word: str, known: Collection[str]) -> str:
    """Return `; did you mean 'x'?` when some known word is close, else what is known."""
    import difflib  # noqa: PLC0415  # costs 5 ms, and only a mistake needs it

    close = difflib.get_close_matches(str(word), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"
