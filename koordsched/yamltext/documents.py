"""A text as plain values: what `reading` makes of it, and how places and values in it are written in messages."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

ROOT = "(root)"
_SHOWN_TEXT = 120
_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_MAX_NAME = 64  # characters of a key that a path shows


class Problem(msgspec.Struct, frozen=True):
    """A mistake of the text itself."""

    path: str
    text: str
    line: int | None = None


class Document(msgspec.Struct, frozen=True):
    """One YAML document: its plain value, the line of every path in it, and what is wrong with it."""

    number: int
    value: Any
    lines: dict[str, int]
    problems: tuple[Problem, ...]


def child(path: str, key: str) -> str:
    """Return the path of a mapping's value, as Kubernetes writes it: a.b, or a[b/c] for a key that is no name."""
    name = key if len(key) <= _MAX_NAME else key[:_MAX_NAME] + "..."
    if not _NAME.fullmatch(name):
        return f"{path}[{name if name.isprintable() else shown(name)}]"
    return f"{path}.{name}" if path else name


def shown(value: Any) -> str:
    """Write a value for a message: as JSON, on one line, shortened when long, invisible characters escaped; what is no JSON as its type."""
    try:
        plain = msgspec.to_builtins(value)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
        if not text.isprintable():
            text = json.dumps(plain, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN_TEXT else text[:_SHOWN_TEXT] + "..."
