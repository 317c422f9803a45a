"""Patience: which binding cycles wait for what may take long while nothing of theirs is on its way to the cluster.

On Permit, for volumes that others have to provide, for a turn among the binds. When the scheduler stops nobody waits for these: they are
left, their pods stay pending, and whoever schedules next finds them so. The writes of volumes name the version that they were decided on
(`plugins/volumebinding/binding.py`), so one that still arrives after that changes nothing that somebody else has decided meanwhile.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from koordsched.framework.interface import PreBindPlugin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.status import Status


class Patience:
    """The tasks that wait so. `over`: the scheduler stops, and they are being left."""

    def __init__(self) -> None:
        self.over = False
        self._waiting: set[asyncio.Task[None]] = set()

    @contextmanager
    def waits(self) -> Iterator[None]:
        """Let the running task be left for the length of a block."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            yield
        finally:
            self._waiting.discard(task)

    def with_plugins(self, work: list[PreBindPlugin]) -> list[PreBindPlugin]:
        """Return the plugins, of which those that take time may be left while they do."""
        return [_Patient(plugin, self) if plugin.takes_time else plugin for plugin in work]

    def leave(self) -> int:
        """Cancel what waits; return how many."""
        self.over = True
        left = list(self._waiting)
        self._waiting.clear()
        for task in left:
            task.cancel()
        return len(left)


class _Patient(PreBindPlugin):
    """A plugin that waits for others."""

    def __init__(self, plugin: PreBindPlugin, patience: Patience) -> None:
        self.name = plugin.name
        self._plugin = plugin
        self._patience = patience

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        with self._patience.waits():
            return await self._plugin.pre_bind(state, pod, node_name)
