"""The tasks of binding cycles: `BindingTasks` runs them, and `CancellableWaits` notes which of them only wait when the scheduler stops."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

from koordsched.framework.interface import PreBindPlugin
from koordsched.tasks import given_up

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from koordsched.api.podinfo import PodInfo
    from koordsched.framework.cycle_state import CycleState
    from koordsched.framework.status import Status

T = TypeVar("T")


class BindingTasks(Generic[T]):
    """Runs coroutines one after the other in one task for as long as they need not wait, and side by side as soon as they do.

    A binding cycle is a task of its own, since it waits for the cluster. Making a task for it costs more than the cycle itself where the
    answer is there at once, as on the embedded cluster: so a runner goes on with the next while nothing makes it wait, and has a successor
    ready that takes over the moment something does. They begin in the order in which they were added. A coroutine that raises is logged and
    counted. `len` is how many have not ended; each is added with what it is about, by which `running` names those that have begun.
    """

    def __init__(self) -> None:
        self.running: set[T] = set()
        self._waiting: deque[tuple[T, Coroutine[None, None, None]]] = deque()
        self._runners: set[asyncio.Task[None]] = set()
        self._successor = False  # a runner has been made that has not begun

    def __len__(self) -> int:
        return len(self._waiting) + len(self.running)

    @property
    def not_begun(self) -> int:
        """Return how many have not begun."""
        return len(self._waiting)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the tasks that run them."""
        return list(self._runners)

    def add(self, subject: T, work: Coroutine[None, None, None]) -> None:
        """Run this soon. subject: what it is about; one coroutine a subject."""
        self._waiting.append((subject, work))
        if not self._successor:
            self._make_successor()

    def drop(self) -> list[asyncio.Task[None]]:
        """Drop the coroutines that have not begun, and return the tasks of the others, for the caller to cancel."""
        for _, work in self._waiting:
            work.close()
        self._waiting.clear()
        return self.tasks

    def _make_successor(self) -> None:
        self._successor = True
        self._runners.add(asyncio.get_running_loop().create_task(self._run()))

    async def _run(self) -> None:
        self._successor = False
        try:
            while self._waiting:
                subject, work = self._waiting.popleft()
                if self._waiting and not self._successor:
                    self._make_successor()
                self.running.add(subject)
                try:
                    await work
                except Exception as error:  # noqa: BLE001  # what comes after it is to run nevertheless
                    given_up("binding cycle", error)
                finally:
                    self.running.discard(subject)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._runners.discard(task)  # not in a done callback: that is one more turn of the loop for each pod


class CancellableWaits:
    """The binding cycles that wait for something slow while none of their requests is on its way to the cluster.

    They wait on Permit, for volumes that others have to provide, or for a turn among the binds. A scheduler that stops cancels these waits
    and leaves the pods pending, for the scheduler that follows it. The writes of volumes name the version that they were decided on
    (`plugins/volumebinding/binding.py`), so one that still arrives after that changes nothing that was decided meanwhile.
    """

    def __init__(self) -> None:
        self.cancelled = False  # the scheduler stops
        self._waiting: set[asyncio.Task[None]] = set()

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Let the running task be cancelled by `cancel` for the length of a block."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.add(task)
        try:
            yield
        finally:
            self._waiting.discard(task)

    def around(self, plugins: list[PreBindPlugin]) -> list[PreBindPlugin]:
        """Return the plugins, with those that take time made cancellable while they do."""
        return [_CancellablePreBind(plugin, self) if plugin.takes_time else plugin for plugin in plugins]

    def cancel(self) -> int:
        """Cancel what waits; return how many."""
        self.cancelled = True
        left = list(self._waiting)
        self._waiting.clear()
        for task in left:
            task.cancel()
        return len(left)


class _CancellablePreBind(PreBindPlugin):
    def __init__(self, plugin: PreBindPlugin, waits: CancellableWaits) -> None:
        self.name = plugin.name
        self._plugin = plugin
        self._waits = waits

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        with self._waits.wait():
            return await self._plugin.pre_bind(state, pod, node_name)
