"""The extension points of a profile, in the order of a pod's way: the one table of them (framework.md §1.2 and §2.1).

The table decides which plugin sets are expanded and in which order, which of them may not be empty, what messages and metrics call a point,
and which refusals cluster events may cure. `framework.interface` has one class or more for each point, which name their entry here.
To add a point: an entry here, its plugin set in `types.Plugins`, its interface, and its call in `framework.profile`.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec


class ExtensionPoint(msgspec.Struct, frozen=True):
    """One extension point.

    name: of its plugin set in a configuration. label: what metrics and messages call it.
    filled: the position at which the reference fills it; of several mistakes, messages name that of the point that is filled first.
    required: how many plugins a profile needs here; "": any number.
    refuses: whether a Status of its plugins makes a pod wait for the events that they registered.
    """

    name: str
    label: str
    filled: int
    required: Literal["", "at least one", "only one"] = ""
    refuses: bool = False

    @property
    def interface(self) -> str:
        """Return what the reference calls the interface of its plugins."""
        return f"{self.label}Plugin"

    @property
    def words(self) -> str:
        """Return the name as words of a sentence."""
        return re.sub("[A-Z]", lambda capital: f" {capital[0].lower()}", self.name)


EXTENSION_POINTS = (
    PRE_ENQUEUE := ExtensionPoint("preEnqueue", "PreEnqueue", 11, refuses=True),
    QUEUE_SORT := ExtensionPoint("queueSort", "QueueSort", 12, "only one"),
    PRE_FILTER := ExtensionPoint("preFilter", "PreFilter", 1, refuses=True),
    FILTER := ExtensionPoint("filter", "Filter", 2, refuses=True),
    POST_FILTER := ExtensionPoint("postFilter", "PostFilter", 3),
    PRE_SCORE := ExtensionPoint("preScore", "PreScore", 5),
    SCORE := ExtensionPoint("score", "Score", 6),
    RESERVE := ExtensionPoint("reserve", "Reserve", 4, refuses=True),
    PERMIT := ExtensionPoint("permit", "Permit", 10, refuses=True),
    PRE_BIND := ExtensionPoint("preBind", "PreBind", 7),
    BIND := ExtensionPoint("bind", "Bind", 8, "at least one"),
    POST_BIND := ExtensionPoint("postBind", "PostBind", 9),
)
