"""What a plugin that keeps state of its own about nodes offers, so that the state can be compared with the objects and mended.

`scheduler.debugger` asks, for one node at a time and between two awaits. A plugin puts its state on `Cache.checked` while it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


class Difference(NamedTuple):
    """A fact that is another than the objects say."""

    column: str
    cached: Any
    actual: Any


class CheckedState(Protocol):
    """State about nodes that follows from the cluster's objects and from what is reserved for assumed pods."""

    @property
    def name(self) -> str:
        """The plugin's name."""

    def names(self) -> Iterable[str]:
        """Return the names of all nodes of which something is kept."""

    def differences(self, node: str) -> Iterable[Difference]:
        """Compare what is kept of a node with its objects and with the pods that the cache counts there. O(facts of the node).

        What is reserved for an assumed pod is known here only, and right.
        """

    def rebuild(self, node: str) -> None:
        """Derive anew what is kept of a node, but for what is reserved for assumed pods, and log the change of its row."""
