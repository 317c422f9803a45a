"""Maintenance: nodes of a pool take no new pods while there is a MaintenanceWindow for it.

Everything beside Filter goes through the same doors as an in-tree plugin's: a kind of its own, which is watched; its events, which move
refused pods; a route, metrics, and a controller, which writes the windows' statuses.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from koordsched._core.change import NodeChange
from koordsched.api.core import Node
from koordsched.framework.controllers import Controller, ControllersPlugin
from koordsched.framework.interface import FilterPlugin
from koordsched.framework.routes import Answer, Route, RoutesPlugin, refusal
from koordsched.framework.status import Status, unresolvable
from koordsched.queue.events import ActionType, EventHint, EventResource, QueueingHint, cluster_event

from koordsched_maintenance.windows import MAINTENANCE_WINDOW, POOL, Windows

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from koordsched.api.meta import Object
    from koordsched.api.podinfo import PodInfo
    from koordsched.cache.nodes import NodeInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.handle import Handle

UNDER_MAINTENANCE = unresolvable("node(s) were under maintenance")


class Maintenance(FilterPlugin, RoutesPlugin, ControllersPlugin):
    name = "Maintenance"
    kinds = (MAINTENANCE_WINDOW,)
    reads = NodeChange.LABELS

    def __init__(self, args: object, handle: Handle) -> None:
        # One for all profiles of the process, made by the first.
        self.windows = handle.cache.shared.one(Windows, partial(Windows, handle))

    # Filter: it reads nothing of the pod, the node's label, and which pools are under maintenance.

    def sign(self, pod: PodInfo) -> Hashable:
        return None

    def version(self, pod: PodInfo) -> Hashable:
        return self.windows.version

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return UNDER_MAINTENANCE if self.windows.covers(_pool(node.node)) else None

    # What may help a refused pod

    def events_to_register(self) -> Sequence[EventHint]:
        window = partial(cluster_event, EventResource.CUSTOM, kind=MAINTENANCE_WINDOW.plural_group)
        node = partial(cluster_event, EventResource.NODE)
        return (
            EventHint(window(ActionType.DELETE)),
            EventHint(window(ActionType.UPDATE_OTHER), _after_window_change),
            EventHint(node(ActionType.ADD | ActionType.UPDATE_NODE_LABEL), self._after_node_change),
        )

    def _after_node_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        assert isinstance(new, Node)
        return QueueingHint.SKIP if self.windows.covers(_pool(new)) else QueueingHint.QUEUE

    # What is shown and done besides

    def routes(self) -> Sequence[Route]:
        return (
            Route("windows", lambda _: Answer(self.windows.sizes())),
            Route("windows/:name", self._window),
        )

    def _window(self, named: Mapping[str, str]) -> Answer:
        window = self.windows.by_name.get(named["name"])
        if window is None:
            return refusal(404, f"cannot find window {named['name']}")
        return Answer({"pool": window.spec.pool, "nodes": self.windows.size(named["name"])})

    def controllers(self) -> Sequence[Controller]:
        windows = self.windows
        return (Controller("status", lambda: windows.stale.run(windows.write_status)),)


def _after_window_change(pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
    """Queue when the window covers another pool now; its status changes without helping any pod."""
    return QueueingHint.SKIP if getattr(old, "spec", None) == getattr(new, "spec", None) else QueueingHint.QUEUE


def _pool(node: Node | None) -> str:
    return "" if node is None else node.metadata.labels.get(POOL, "")
