"""A configuration's text as plain values: what `yaml_text` makes of it, and how places in it are called."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from koordsched.config.errors import shown

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
