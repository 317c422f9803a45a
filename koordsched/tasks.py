"""Background tasks and timers: what they raise reaches no caller, so each is made here, with a policy for it.

An owner (the scheduler, a connection, the process) has one `Tasks` and ends it. A task that is kept is started again when it fails; one
that must run reports its end to its owner, which ends the process; a single piece of work and a timer's callback are given up. In every
case the log names the task and its exception, and a count grows: no task ends quietly. Tasks that their maker awaits need none of this.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from koordsched.backoff import Backoff
from koordsched.log import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from random import Random

    Work = Coroutine[Any, Any, None]

log = get_logger(__name__)

RUNS_WELL_SECONDS = 60.0
"""A task that ran for so long before it failed is started again as after its first failure."""

restarts: Counter[str] = Counter()
"""By task: how often it was started again. One process, one count, as with its log."""
failures: Counter[str] = Counter()
"""By task or callback: how often work was given up because it raised."""


class TaskFailure(NamedTuple):
    """What ends the process: a task that must run has ended, and of what."""

    task: str
    error: BaseException


class EndedError(Exception):
    """A task that must run for ever returned, or something that it waited for was cancelled."""


class Tasks:
    """The background tasks of one owner, on one event loop. `failed` is called with a task that must run and has ended, and why."""

    def __init__(self, random: Random, failed: Callable[[str, Exception], None] | None = None) -> None:
        self._random = random
        self._failed = failed
        self._running: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def keep(self, name: str, run: Callable[[], Work]) -> asyncio.Task[None]:
        """Run this until it returns or is cancelled, and again, after a growing delay, whenever it raises."""
        return self._start(name, self._kept(name, run))

    def must_run(self, name: str, run: Callable[[], Work]) -> asyncio.Task[None]:
        """Run this for ever: it cannot be started again, so its end, for whatever reason, is reported to the owner."""
        return self._start(name, self._needed(name, run))

    def once(self, name: str, work: Work) -> asyncio.Task[None]:
        """Run this to its end."""
        task = self._start(name, self._single(name, work))
        task.add_done_callback(lambda _: work.close())  # it has not begun, if the task was cancelled at once
        return task

    async def end(self) -> None:
        """Cancel all tasks, and wait for their end."""
        running = self._running - {asyncio.current_task()}
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    def _start(self, name: str, work: Work) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _kept(self, name: str, run: Callable[[], Work]) -> None:
        backoff, now = Backoff(self._random), asyncio.get_running_loop().time
        while True:
            began = now()
            error = await _outcome(run())
            if error is None:
                return
            if now() - began >= RUNS_WELL_SECONDS:
                backoff.reset()
            delay = backoff.delay()
            restarts[name] += 1
            log.exception("a task failed and is started again", task=name, in_seconds=round(delay, 1), err=repr(error), exc_info=error)
            del error  # its traceback would hold the frames of the failed run meanwhile
            await asyncio.sleep(delay)

    async def _needed(self, name: str, run: Callable[[], Work]) -> None:
        error = await _outcome(run())
        assert self._failed is not None, "an owner of tasks that must run takes note of their end"
        self._failed(name, error or EndedError("it returned"))

    async def _single(self, name: str, work: Work) -> None:
        if (error := await _outcome(work)) is not None:
            given_up(name, error)


async def _outcome(work: Work) -> Exception | None:
    """Await the work, and return what it raises. Cancelling is passed on, if it is meant for the task that runs this."""
    try:
        await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return EndedError("something that it waited for was cancelled")
    except Exception as error:  # noqa: BLE001  # whatever it is, it is the owner's now
        return error
    return None


def given_up(name: str, error: Exception, *, from_outside: bool = False) -> None:
    """Log and count that a piece of work in the background raised. from_outside: what it asked for failed, which no traceback explains."""
    failures[name] += 1
    if from_outside:
        log.warning("work in the background failed", task=name, err=str(error))
    else:
        log.exception("work in the background failed", task=name, err=repr(error), exc_info=error)


def call_later(seconds: float, call: Callable[..., object], *arguments: object) -> asyncio.TimerHandle:
    """Call this on the running loop after so many seconds, unless the returned handle is cancelled before."""
    return asyncio.get_running_loop().call_later(seconds, _call, call, arguments)


def _call(call: Callable[..., object], arguments: tuple[object, ...]) -> None:
    try:
        call(*arguments)
    except Exception as error:  # noqa: BLE001  # the loop would only log it
        given_up(getattr(call, "__qualname__", repr(call)), error)
