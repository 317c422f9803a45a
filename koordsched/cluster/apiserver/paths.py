"""Where the API server keeps objects: URL paths."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from koordsched.api.kinds import Kind


_PLAIN = re.compile(r"[a-z0-9.-]*")  # what nearly all names are made of: quoting them is 20 times dearer than looking


@cache
def _root(kind: Kind) -> str:
    return f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"


@cache
def all_of(kind: Kind) -> str:
    """Return the path of the kind's objects in all namespaces."""
    return f"{_root(kind)}/{kind.plural}"


def collection(kind: Kind, namespace: str) -> str:
    """Return the path under which an object of the namespace is created."""
    if not kind.namespaced:
        return all_of(kind)
    return f"{_root(kind)}/namespaces/{_quoted(namespace)}/{kind.plural}"


def item(kind: Kind, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of one object or of its subresource."""
    path = f"{collection(kind, namespace)}/{_quoted(name)}"
    return f"{path}/{subresource}" if subresource else path


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quote(name, safe="")
