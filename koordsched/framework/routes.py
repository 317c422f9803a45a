"""Routes: what a plugin answers over HTTP, below `/apis/v1/plugins/<Plugin>/` (frameworkext.md §9).

A plugin that has something to show inherits `RoutesPlugin`; the server collects the routes of all profiles, the first profile that has the
plugin speaking for it, and answers only while its scheduler leads. An answer is made synchronously, on the scheduler's own loop: keep it
O(one object).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from koordsched.framework.interface import Plugin


class Answer(msgspec.Struct, frozen=True):
    """What is sent as JSON. `body` is anything that msgspec encodes."""

    body: Any
    status: int = 200


class Route(msgspec.Struct, frozen=True):
    """A path below the plugin's own, such as `nodes/:nodeName`; a part that begins with `:` matches anything and is handed over by name.

    So are parameters of the query, such as `includePods`, as far as no part of the path has their name.
    """

    path: str
    answer: Callable[[Mapping[str, str]], Answer]


class RoutesPlugin(Plugin):
    """A plugin that answers GET requests."""

    @abstractmethod
    def routes(self) -> Sequence[Route]: ...


def refusal(status: int, message: str) -> Answer:
    """Return an error as Koordinator's services word it."""
    return Answer({"message": message}, status)
