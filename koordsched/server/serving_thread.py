"""ServingThread: the ports, in a thread with an event loop of its own.

Connections, handshakes, certificates, the API server's word on who may ask, HTTP and the text of answers: all of it happens there, so that
whoever connects is served beside scheduling and not in its place, and probes are answered while the scheduling loop is busy. What answers
need of the scheduler they get through `scheduling_loop`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import prometheus_client.core
import prometheus_client.exposition  # noqa: F401  # two threads that import a package at the same time may get half of it

from koordsched.config import Flags
from koordsched.log import get_logger
from koordsched.server.access import World
from koordsched.server.pace import Pace
from koordsched.server.plain_port import plain_port
from koordsched.server.ports import Answering, listening
from koordsched.server.scheduling_loop import SchedulingLoop
from koordsched.server.secure_port import secure_port
from koordsched.tasks import TaskFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from koordsched.server.connections import Connections
    from koordsched.server.ports import Port

log = get_logger(__name__)


class Service(msgspec.Struct, frozen=True):
    """What is served, by whom and where. `opened` is told of each port's connections, `world` is not shared with another thread."""

    flags: Flags
    world: World
    answering: Answering
    opened: Callable[[Connections], object]
    new_loop: Callable[[], asyncio.AbstractEventLoop]


class ServingThread:
    """The thread, seen from the scheduling loop, which makes it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._main = SchedulingLoop()
        self._opened: asyncio.Future[None] = self._main.loop.create_future()
        self._ended: asyncio.Future[None] = self._main.loop.create_future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None  # of the thread's loop

    async def start(self) -> None:
        """Open the ports; StartError when one cannot be had, or a file or name in the flags cannot be used."""
        threading.Thread(target=self._run, name="serving", daemon=True).start()
        await asyncio.wait([self._opened, self._ended], return_when=asyncio.FIRST_COMPLETED)
        if self._ended.done():
            self._ended.result()

    async def ended(self) -> TaskFailure | None:
        """Wait until the thread has ended, and return why if nobody told it to."""
        await asyncio.wait([self._ended])
        error = self._ended.exception()
        return None if error is None else TaskFailure("serving thread", error)

    async def stop(self) -> None:
        """Close the ports and wait for that."""
        if self._loop is not None and self._stopping is not None and not self._ended.done():
            self._loop.call_soon_threadsafe(self._stopping.set)
        await self.ended()

    # In the serving thread

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=self._service.new_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001  # a thread must not die without a word
            failure = error
        self._main.loop.call_soon_threadsafe(self._end, failure)

    async def _serve(self) -> None:
        service = self._service
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as kept:
            ports: list[Port] = []
            if service.flags.secure_port:
                ports.append(await kept.enter_async_context(secure_port(service.flags, service.world)))
            if service.flags.port:
                ports.append(plain_port(service.flags))
            pace = Pace(self._cpu_seconds, self._loop.time)
            for connections in await kept.enter_async_context(listening(ports, service.answering, pace)):
                service.opened(connections)
            self._main.loop.call_soon_threadsafe(self._opened.set_result, None)
            await self._stopping.wait()

    def _cpu_seconds(self) -> float:
        """Return the CPU time of all threads but the scheduling one: what answers leave to other threads, such as profiles, counts, too."""
        return time.process_time() - self._main.cpu_seconds()

    # On the scheduling loop

    def _end(self, failure: BaseException | None) -> None:
        if failure is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(failure)


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[ServingThread]:
    """Serve for the length of a block; StartError as with `ServingThread.start`."""
    thread = ServingThread(service)
    await thread.start()
    try:
        yield thread
    finally:
        await thread.stop()
