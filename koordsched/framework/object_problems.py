"""What plugins find wrong with objects, reported where their authors look: a line in the log, and one event on the Node if there is one.

Each mistake is reported once. An object that is corrected and broken again is reported again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.api.kinds import NODE
from koordsched.cluster.event_series import EventText
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.api.core import Node
    from koordsched.framework.handle import Handle

log = get_logger(__name__)


class ProblemReporter:
    """Reports the mistakes of objects that have the name of a node. For plugins that follow nodes; to be made while the plugin is."""

    def __init__(self, handle: Handle, reason: str, text: str) -> None:
        """reason: of the events. text: of the lines in the log."""
        self._handle = handle
        self._reason = reason
        self._text = text
        self._nodes: Mapping[str, Node] = handle.informer(NODE).store
        self._known: dict[tuple[str, str], Mapping[str, str]] = {}  # by kind and name of the object

    def set_problems(self, kind: str, name: str, problems: Mapping[str, str]) -> None:
        """Take over what is wrong with an object now, a text for each mistake by what identifies it, and report what is new."""
        known = self._known.get((kind, name), {})
        if known.keys() == problems.keys():
            return
        if not problems:
            del self._known[kind, name]
            return
        self._known[kind, name] = dict(problems)
        news = [text for key, text in problems.items() if key not in known]
        if not news:
            return
        for problem in news:
            log.warning(self._text, kind=kind, node=name, problem=problem)
        self._handle.malformed_object(kind)
        self._add_event(kind, name, news)

    def node_added(self, kind: str, name: str) -> None:
        """Report on the node what was wrong with its object of this kind before the node was there."""
        problems = self._known.get((kind, name))
        if problems:
            self._add_event(kind, name, list(problems.values()))

    def _add_event(self, kind: str, name: str, problems: list[str]) -> None:
        node = self._nodes.get(name)
        if node is not None:
            self._handle.event_on(node, EventText("Warning", self._reason, "Scheduling", f"{kind}: {'; '.join(problems)}"))
