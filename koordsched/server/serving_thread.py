"""ServingThread: the ports, in a thread with an event loop of its own.

Connections, handshakes, certificates, reviews of access, HTTP and the text of answers: all of it happens there, so that clients are served
beside the main loop's work and not in its place, and probes are answered while that loop is busy. Answers reach what belongs to the main
loop through `main_loop`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
import prometheus_client.core
import prometheus_client.exposition  # noqa: F401  # two threads that import a package at the same time may get half of it

from koordsched.config import Flags
from koordsched.log import get_logger
from koordsched.server.access import ApiConnector, Delegation
from koordsched.server.budget import Pace
from koordsched.server.http import DEBUG_PATH, EXPLAIN_PATH, METRICS_PATH, SLIS_PATH, RequestHandler, Response, text
from koordsched.server.main_loop import MainLoop
from koordsched.server.ports import Port, listening
from koordsched.server.tls import ServingCertificates
from koordsched.tasks import TaskFailure, Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from koordsched.server.connections import Connections
    from koordsched.server.http import HttpRequest


log = get_logger(__name__)


def plain_port(flags: Flags) -> Port:
    """Return the plain port that the flags ask for: it answers all clients, so health, metrics and cheap reads only."""
    return Port(flags.address or Flags().address, flags.port, filter=PlainPortFilter(flags.secure_port))


class PlainPortFilter:
    """Refuses what is dear or changes something, which the secure port (0: there is none) is for."""

    def __init__(self, secure_port: int) -> None:
        where = f"the secure port, {secure_port}" if secure_port else "the secure port, which --secure-port=0 turns off"
        self._refusal = text(403, f"the plain port answers health, metrics and cheap reads only: ask {where}\n")

    async def refusal(self, request: HttpRequest) -> Response | None:
        """Return what to answer instead, None when the request may pass."""
        resets = request.method == "DELETE" and request.path in {METRICS_PATH, SLIS_PATH}
        asks_for_work = request.method == "POST" and request.path.startswith(EXPLAIN_PATH)
        return self._refusal if resets or asks_for_work or f"{request.path}/".startswith(DEBUG_PATH) else None


@asynccontextmanager
async def secure_port(flags: Flags, connector: ApiConnector) -> AsyncIterator[Port]:
    """Make the secure port that the flags ask for, its certificates and authorities followed for as long as it is open.

    StartError when a file, a kubeconfig or a name in the flags cannot be used.
    """
    delegation, following = Delegation(flags, connector), Tasks(connector.random)
    try:
        gate = await delegation.start()
        certificates = ServingCertificates(flags, connector.clock.now(), clients_show_theirs=delegation.asks_for_certificates)
        port = Port(flags.bind_address, flags.secure_port, certificates.connection, gate, flags.permit_port_sharing)
        following.keep("serving certificates", certificates.follow)
        following.keep("authority files", delegation.follow_files)
        following.keep("authorities of the cluster", delegation.follow_cluster)
        yield port
    finally:
        await following.end()
        await delegation.close()


class ServingOptions(msgspec.Struct, frozen=True):
    """What is served where. `opened` is called with each port's connections; `connector` is not shared with another thread.

    `is_busy` answers whether the main loop has a backlog. The thread calls it: it may only read, and in one step.
    """

    flags: Flags
    connector: ApiConnector
    handler: RequestHandler
    opened: Callable[[Connections], object]
    new_loop: Callable[[], asyncio.AbstractEventLoop]
    is_busy: Callable[[], bool]


class ServingThread:
    """The thread, seen from the main loop, which makes it."""

    def __init__(self, options: ServingOptions) -> None:
        self._options = options
        self._main = MainLoop()
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
        """Wait until the thread has ended, and return why, None when it was asked to end."""
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
            with asyncio.Runner(loop_factory=self._options.new_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001  # a thread must not die without a word
            failure = error
        self._main.loop.call_soon_threadsafe(self._end, failure)

    async def _serve(self) -> None:
        options = self._options
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncExitStack() as kept:
            ports: list[Port] = []
            if options.flags.secure_port:
                ports.append(await kept.enter_async_context(secure_port(options.flags, options.connector)))
            if options.flags.port:
                ports.append(plain_port(options.flags))
            pace = Pace(self._cpu_seconds, self._loop.time, options.is_busy)
            for connections in await kept.enter_async_context(listening(ports, options.handler, pace)):
                options.opened(connections)
            self._main.loop.call_soon_threadsafe(self._opened.set_result, None)
            await self._stopping.wait()

    def _cpu_seconds(self) -> float:
        """Return the CPU time of all threads but the scheduling one: what answers leave to other threads, such as profiles, counts, too."""
        return time.process_time() - self._main.cpu_seconds()

    # On the main loop

    def _end(self, failure: BaseException | None) -> None:
        if failure is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(failure)


@asynccontextmanager
async def serving(options: ServingOptions) -> AsyncIterator[ServingThread]:
    """Serve for the length of a block; StartError as with `ServingThread.start`."""
    thread = ServingThread(options)
    await thread.start()
    try:
        yield thread
    finally:
        await thread.stop()
