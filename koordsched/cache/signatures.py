"""Signatures: tells who keeps pods' signatures that some of them may differ by now.

What a plugin signs of a pod may depend on what it has seen: labels, for instance, matter from the moment on when something selects by them.
Whoever widens its signatures says so here, before it gives another answer because of it; pods that wait are then signed again.
"""

from __future__ import annotations

from collections.abc import Callable

from koordsched.api.podinfo import PodInfo

Concerns = Callable[[PodInfo], bool]
"""Answers whether a pod's signature may differ from what it was."""


class Signatures:
    """A list of calls to make."""

    def __init__(self) -> None:
        self._calls: list[Callable[[Concerns], None]] = []

    def call(self, hook: Callable[[Concerns], None]) -> None:
        """Call the hook after every change."""
        self._calls.append(hook)

    def changed(self, concerns: Concerns) -> None:
        for hook in self._calls:
            hook(concerns)
