"""Controllers: what a plugin does of its own accord, for no pod that is being scheduled: writing statuses, cleaning up.

A plugin that has some inherits `ControllersPlugin`. They run on the scheduler's loop, in the process that leads only, from when it begins
to schedule until it stops or has lost the lease (frameworkext.md §1.1). The first profile that has the plugin speaks for it, since what a
plugin keeps is one for all profiles (§2.3). `--controller-plugins` turns them off plugin by plugin (§1.2).

Handlers of informers are called in every process, the one that leads or not. So a handler puts the key of what it has seen into a
`WorkQueue`, and the controller, once it runs, works off what has gathered.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Hashable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from koordsched.backoff import grown
from koordsched.cluster.port import ClusterError
from koordsched.framework.interface import Plugin
from koordsched.tasks import given_up

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence

    from koordsched.framework.profile import Profile

K = TypeVar("K", bound=Hashable)

ALL_PLUGINS = "*"
FIRST_RETRY, LONGEST_RETRY = 1.0, 60.0  # seconds
KEYS_TO_REMEMBER = 1024
LONGEST_HOLD, HOLD_STEP = 10.0, 0.1
"""Seconds for which work is put off for bindings at most, and between two looks at whether it still has to be."""
KEYS_A_TURN = 20
"""Keys that are looked at between two turns of the event loop, where none of them is waited for: with all objects of a kind at the start, a
fraction of a millisecond each, the first pods are placed meanwhile."""


class Controller(msgspec.Struct, frozen=True):
    """A task of a plugin. It is started again, after a growing delay, when it raises; one that returns has done its work.

    vital: it cannot be started again; its end, for whatever reason, ends the process, which then says why.
    """

    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    vital: bool = False


class ControllersPlugin(Plugin):
    """A plugin with controllers."""

    @abstractmethod
    def controllers(self) -> Sequence[Controller]:
        """Return what is to run. Called once, after all profiles are made and before anything has been listed."""


def is_enabled(plugin: str, flag: Sequence[str]) -> bool:
    """Answer whether `--controller-plugins` lets a plugin's controllers run: the first of NAME and -NAME decides, else if there is a *."""
    for item in flag:
        if item in {plugin, f"-{plugin}"}:
            return item == plugin
    return ALL_PLUGINS in flag


def controllers_of(profiles: Iterable[Profile]) -> dict[str, Sequence[Controller]]:
    """Return the controllers by the names of their plugins."""
    found: dict[str, Sequence[Controller]] = {}
    for profile in profiles:
        for plugin in profile.made.values():
            if isinstance(plugin, ControllersPlugin) and plugin.name not in found:
                found[plugin.name] = plugin.controllers()
    return found


class WorkQueue(Generic[K]):
    """Keys of objects that a controller has to look at again: each is there once, and is handed out at most once per interval, and not
    while it is worked at.

    What fails is handed out again, after a delay that grows from failure to failure. On one event loop, in its time.
    """

    def __init__(self, name: str, interval: float = 1.0, gives_way: Callable[[], bool] = lambda: False) -> None:
        """name: what the log calls work that failed. interval: seconds.

        gives_way: whether work that is due has to wait, which it does until it is ten seconds late; what is wanted at once does not.
        """
        self._name = name
        self._interval = interval
        self._gives_way = gives_way
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []  # an entry is void when `_due` has another time for its key
        self._serial = count()
        self._rests_until: dict[K, float] = {}  # keys that were handed out within the interval, and before
        self._rests_to_keep = KEYS_TO_REMEMBER
        self._failures: dict[K, int] = {}
        self._at_work: dict[K, float | None] = {}  # keys of which the work goes on, and when they are due again, if they are
        self._sooner = asyncio.Event()  # what is due first is due earlier than it was

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K, after: float = 0.0) -> None:
        """Hand out the key, in so many seconds at the earliest; if it is there already, at the earlier of both times."""
        due = 0.0  # at once, also where no loop runs yet
        if after > 0.0 or key in self._rests_until:
            due = max(_now() + after, self._rests_until.get(key, 0.0))
        if key in self._at_work:
            again = self._at_work[key]
            self._at_work[key] = due if again is None else min(due, again)
            return
        known = self._due.get(key)
        if known is not None and known <= due:
            return
        self._due[key] = due
        heappush(self._heap, (due, next(self._serial), key))
        if self._heap[0][0] == due:
            self._sooner.set()

    async def run(self, work: Callable[[K], Awaitable[float | None]], workers: int = 1) -> None:
        """Do the work for the keys that are due, for ever. It returns in how many seconds the key is to be handed out again, or None.

        Whatever it raises is logged and counted, and costs this key a delay. workers: for how many keys it is done at the same time.
        """
        async with asyncio.TaskGroup() as tasks:
            for _ in range(workers):
                tasks.create_task(self._work_off(work, max(1, KEYS_A_TURN // workers)))

    async def _work_off(self, work: Callable[[K], Awaitable[float | None]], keys_a_turn: int) -> None:
        """Do the work for one key after the other."""
        for number in count(1):
            if number % keys_a_turn == 0:
                await asyncio.sleep(0)
            key = await self._next()
            self._at_work[key] = None
            try:
                again = await work(key)
            except Exception as error:  # noqa: BLE001  # one object must not keep the others waiting
                given_up(self._name, error, from_outside=isinstance(error, ClusterError))
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                again = grown(FIRST_RETRY, LONGEST_RETRY, failures)
            else:
                self._failures.pop(key, None)
            finally:
                due = self._at_work.pop(key)
                if due is not None:
                    self.add(key, due - _now())
            if again is not None:
                self.add(key, again)

    async def _next(self) -> K:
        """Wait for the key that is due first, and take it."""
        while True:
            while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
                heappop(self._heap)
            now = _now()
            if self._heap and self._heap[0][0] <= now:
                if self._heap[0][0] > 0.0 and now < self._heap[0][0] + LONGEST_HOLD and self._gives_way():
                    await asyncio.sleep(HOLD_STEP)
                    continue
                _, _, key = heappop(self._heap)
                del self._due[key]
                self._rest(key, now)
                return key
            self._sooner.clear()
            try:
                async with asyncio.timeout(self._heap[0][0] - now if self._heap else None):
                    await self._sooner.wait()
            except TimeoutError:
                continue

    def _rest(self, key: K, now: float) -> None:
        # Thousands may rest at once: to look at all of them again with each key would be a square.
        if len(self._rests_until) >= self._rests_to_keep:
            self._rests_until = {other: until for other, until in self._rests_until.items() if until > now}
            self._rests_to_keep = max(KEYS_TO_REMEMBER, 2 * len(self._rests_until))
        self._rests_until[key] = now + self._interval


def _now() -> float:
    return asyncio.get_running_loop().time()
