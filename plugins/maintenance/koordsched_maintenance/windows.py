"""MaintenanceWindow, the kind that the plugin brings, and what is known of all windows: one state for all profiles.

apiVersion: maintenance.example.com/v1
kind: MaintenanceWindow
metadata: {name: spring}
spec: {pool: a}                # nodes with the label maintenance.example.com/pool: a
status: {nodes: 3}             # written by the plugin's controller
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koordsched.api.core import Node
from koordsched.api.kinds import NODE, Kind
from koordsched.api.meta import Api, Object
from koordsched.cluster.port import NotFound, Patch, Ref
from koordsched.framework.controllers import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.cluster.object_store import Arrival, FinalState
    from koordsched.framework.handle import Handle

POOL = "maintenance.example.com/pool"


class WindowSpec(Api):
    pool: str = ""


class WindowStatus(Api):
    nodes: int | None = None


class MaintenanceWindow(Object):
    spec: WindowSpec = WindowSpec()
    status: WindowStatus = WindowStatus()


MAINTENANCE_WINDOW = Kind(
    "maintenance.example.com", "v1", "MaintenanceWindow", "maintenancewindows", namespaced=False, struct=MaintenanceWindow
)


class Windows:
    """All windows by name, and how many nodes each pool has. A handler of windows; `_Pools` follows the nodes for it."""

    def __init__(self, handle: Handle) -> None:
        self.version = 0  # counts changes of which pools are under maintenance
        self.by_name: dict[str, MaintenanceWindow] = {}
        self.nodes: Counter[str] = Counter()  # by pool
        self.stale: WorkQueue[str] = WorkQueue("status of a MaintenanceWindow")
        self._cluster = handle.cluster
        # A profile makes a plugin of its own, but each of them gets this one counter.
        self._writes = handle.metrics.counter("maintenance_status_writes_total", "Statuses of MaintenanceWindows that were written.")
        self._writes.child()
        handle.metrics.gauge_function("maintenance_nodes", "Nodes that take no new pods, by window.", self.sizes, "window")
        handle.informer(MAINTENANCE_WINDOW).add_handler(self)
        handle.informer(NODE).add_handler(_Pools(self))

    def covers(self, pool: str) -> bool:
        """Answer whether the nodes of this pool are under maintenance."""
        return any(window.spec.pool == pool for window in self.by_name.values())

    def size(self, name: str) -> int:
        """Return how many nodes a window covers."""
        return self.nodes[self.by_name[name].spec.pool]

    def sizes(self) -> Mapping[str, int]:
        """Return how many nodes each window covers."""
        return {name: self.size(name) for name in sorted(self.by_name)}

    def count(self, node: Node, change: int) -> None:
        pool = node.metadata.labels.get(POOL)
        if pool is not None:
            self.nodes[pool] += change
            for name, window in self.by_name.items():
                if window.spec.pool == pool:
                    self.stale.add(name)

    async def write_status(self, name: str) -> None:
        """Write how many nodes the window covers, if its status says something else."""
        window = self.by_name.get(name)
        if window is None or window.status.nodes == self.size(name):
            return
        try:
            await self._cluster.patch(
                Ref(MAINTENANCE_WINDOW, "", name), Patch({"status": {"nodes": self.size(name)}}, subresource="status")
            )
        except NotFound:
            return  # the watch will say so
        self._writes.increment()

    # Handler of windows: called in every process, whichever leads. What is to be written waits in `stale`.

    def on_add(self, window: MaintenanceWindow, _arrival: Arrival) -> None:
        self._set(window.metadata.name, window)

    def on_update(self, old: MaintenanceWindow, new: MaintenanceWindow) -> None:
        self._set(new.metadata.name, new)

    def on_delete(self, window: MaintenanceWindow, _final_state: FinalState) -> None:
        if self.by_name.pop(window.metadata.name, None) is not None:
            self.version += 1

    def _set(self, name: str, window: MaintenanceWindow) -> None:
        before = self.by_name.get(name)
        self.by_name[name] = window
        if before is None or before.spec != window.spec:
            self.version += 1
        self.stale.add(name)


class _Pools:
    """A handler of nodes."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._known: dict[str, Node] = {}  # as they are counted: a change may be reported twice

    def on_add(self, node: Node, _arrival: Arrival) -> None:
        self._put(node)

    def on_update(self, old: Node, new: Node) -> None:
        if old.metadata.labels.get(POOL) != new.metadata.labels.get(POOL):
            self._put(new)

    def on_delete(self, node: Node, _final_state: FinalState) -> None:
        known = self._known.pop(node.metadata.name, None)
        if known is not None:
            self._windows.count(known, -1)

    def _put(self, node: Node) -> None:
        self.on_delete(node, None)  # type: ignore[arg-type]  # which it does not look at
        self._known[node.metadata.name] = node
        self._windows.count(node, 1)
