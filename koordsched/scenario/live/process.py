"""The scheduler under test as a process of its own: written a configuration, started, waited for, asked over its secure port, ended.

Any scheduler that takes a KubeSchedulerConfiguration and a port will do: ours, kube-scheduler, the reference. It lives in a session of its
own, so that Ctrl-C at the runner leaves it running until the runner has ended it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import signal
import socket
from collections import deque
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import msgspec
from yarl import URL

from koordsched.clock import Clock
from koordsched.cluster.port import ClusterError
from koordsched.config.loading import Launch
from koordsched.config.types import API_VERSION, KIND
from koordsched.scenario.cluster import HttpAnswer

PLACEHOLDERS = ("{kubeconfig}", "{config}", "{port}")
NEEDED = ("{config}", "{port}")
READY_WITHIN = 60.0
END_WITHIN = 10.0
POLL_SECONDS = 0.1
ANSWER_WITHIN = aiohttp.ClientTimeout(total=10.0)
SHOWN_LINES, SHOWN_BYTES = 3, 8192
TAIL_LINES, TAIL_BYTES = 60, 1 << 16
NOT_FOUND, OK = 404, 200
PORTS = range(20_000, 32_768)  # below those that outgoing connections are given: one that is free now is not taken by the next of them
PORTS_HELD = 100
_held: deque[socket.socket] = deque()


class Command(msgspec.Struct, frozen=True):
    """How a scheduler is started: words with placeholders, and the kubeconfig it is to use."""

    words: tuple[str, ...]
    kubeconfig: str

    @classmethod
    def parse(cls, text: str, kubeconfig: str) -> Command:
        """Read a command line as a shell would split it; ValueError says what is wrong with it."""
        words = shlex.split(text)
        for placeholder in NEEDED:
            if not any(placeholder in word for word in words):
                raise ValueError(f"expected {placeholder} in it: each scenario has a configuration and a port of its own")
        return cls(tuple(words), kubeconfig)

    def filled(self, config: Path, port: int) -> list[str]:
        """Return the words with the placeholders replaced."""
        values = dict(zip(PLACEHOLDERS, (self.kubeconfig, str(config), str(port)), strict=True))
        words = list(self.words)
        for placeholder, value in values.items():
            words = [word.replace(placeholder, value) for word in words]
        return words


def configuration(launch: Launch, kubeconfig: str) -> dict[str, Any]:
    """Return what was configured, and no more, for this cluster and without leader election: defaults are the scheduler's own."""
    document = {"apiVersion": API_VERSION, "kind": KIND, **launch.document}
    document["clientConnection"] = {**(document.get("clientConnection") or {}), "kubeconfig": kubeconfig}
    document["leaderElection"] = {**(document.get("leaderElection") or {}), "leaderElect": False}
    return document


def free_port() -> int:
    """Return a free port on loopback, none of those that this or another process of ours was given shortly before.

    A program may not listen yet on the port that it was given. Until this process has asked for 100 others it holds the UDP port of the
    same number, which none of our programs use: so all processes that ask see that the number is taken.
    """
    while True:
        port = secrets.choice(PORTS)
        holder = socket.socket(type=socket.SOCK_DGRAM)
        try:
            holder.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            holder.close()
            continue
        _held.append(holder)
        if len(_held) > PORTS_HELD:
            _held.popleft().close()
        return port


class SchedulerProcess:
    """One scheduler that may be started again after it was killed. Between `start` and `stop` its end is a fault."""

    def __init__(self, command: Command, launch: Launch, clock: Clock) -> None:
        self._command = command
        self._launch = launch
        self._clock = clock
        self._resources = AsyncExitStack()
        self._folder = Path(self._resources.enter_context(TemporaryDirectory(prefix="koordsched-test-", ignore_cleanup_errors=True)))
        self._log = self._folder / "log"
        self._log_begin = 0  # where the log of the last start begins
        self._process: asyncio.subprocess.Process | None = None
        self._session: aiohttp.ClientSession | None = None
        self._port = 0

    async def start(self) -> None:
        """Start the scheduler; return when it says that it is ready. ClusterError: it ends, or does not become ready in time."""
        config = self._folder / "config.yaml"  # JSON is YAML
        config.write_bytes(msgspec.json.encode(configuration(self._launch, self._command.kubeconfig)))
        self._port = free_port()
        words = [*self._command.filled(config, self._port), *self._launch.args]
        with self._log.open("ab") as log:
            self._log_begin = self._log.stat().st_size
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *words, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                raise ClusterError(f"{words[0]} cannot be run: {error.strerror}") from None
        await self._until_ready()

    async def kill(self) -> None:
        """End it without warning, as kill -9 does."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """End it, and clear away its files."""
        await self._end(signal.SIGTERM)
        await self._resources.aclose()

    def check(self) -> None:
        """Raise ClusterError when the scheduler has ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            code = self._process.returncode
            ending = f"code {code}" if code >= 0 else f"signal {-code}"
            raise ClusterError(f"the scheduler ended with {ending}{self._last_words()}")

    async def get(self, path: str) -> HttpAnswer:
        """GET a path of its secure port, whose certificate is not looked at. ClusterError: no answer."""
        self.check()
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=False)
            self._session = await self._resources.enter_async_context(aiohttp.ClientSession(connector=connector, timeout=ANSWER_WITHIN))
        try:
            async with self._session.get(URL(f"https://127.0.0.1:{self._port}{path}", encoded=True)) as answer:
                return HttpAnswer(answer.status, await answer.read())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ClusterError(f"GET {path}: {error or type(error).__name__}") from None

    async def _until_ready(self) -> None:
        deadline = self._clock.now() + READY_WITHIN
        while wrong := await self._unreadiness():
            self.check()
            if self._clock.now() >= deadline:
                raise ClusterError(f"not ready after {READY_WITHIN:g}s: {wrong}{self._last_words()}")
            await asyncio.sleep(POLL_SECONDS)

    async def _unreadiness(self) -> str:
        """Return what is missing, by /readyz, or by /healthz where that is unknown."""
        try:
            answer = await self.get("/readyz")
            if answer.status == NOT_FOUND:
                answer = await self.get("/healthz")
        except ClusterError as error:
            return error.message
        return "" if answer.status == OK else f"{answer.status} {answer.body[-200:].decode(errors='replace')}"

    async def _end(self, how: signal.Signals) -> None:
        """Send the signal to the whole session, and SIGKILL to what is left of it."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), END_WITHIN)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        self._process = None  # only now: a call that is interrupted above is repeated

    def _last_words(self) -> str:
        """Return the end of its log for a message."""
        shown = [line.strip() for line in self._end_of_log(SHOWN_BYTES, self._log_begin) if line.strip()][-SHOWN_LINES:]
        return f"; its last words: {' | '.join(shown)}" if shown else "; it said nothing"

    def log_tail(self) -> list[str]:
        """Return the last lines of its log, those of earlier starts included."""
        return self._end_of_log(TAIL_BYTES)[-TAIL_LINES:] if self._log.exists() else []

    def _end_of_log(self, size: int, begin: int = 0) -> list[str]:
        with self._log.open("rb") as log:
            log.seek(max(begin, os.fstat(log.fileno()).st_size - size))
            return log.read().decode(errors="replace").splitlines()
