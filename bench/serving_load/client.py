"""`python -m serving_load.client`: the load on a scheduler's ports, until SIGTERM; then it writes one line of JSON with its outcome.

Bare sockets and no more of HTTP than a length: the load is to cost the scheduler, not the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import ssl
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from statistics import median

import msgspec
import uvloop

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HOST = "127.0.0.1"
CONNECTIONS = 5  # of each endpoint
IDLE, SLOW = 200, 20
ESTABLISHED = b"established\n"
GIVE_UP_SECONDS = 60.0
PLAIN = ("GET /healthz", "GET /livez", "GET /readyz", "GET /metrics", "GET /metrics/resources", "GET /apis/v1/__services__")
SECURE = (
    *PLAIN,
    "GET /metrics/slis",
    "GET /configz",
    "GET /debug/cache",
    "GET /debug/queue",
    "GET /debug/compare",
    "GET /debug/flags",
    "GET /debug/pprof/",
    "GET /debug/pprof/goroutine",
    "GET /debug/pprof/threadcreate",
    "GET /debug/pprof/heap",
    "GET /debug/pprof/profile?seconds=1",
)


class Outcome(msgspec.Struct):
    """What came of the load. Milliseconds by endpoint; `resident_mib` is what the scheduler said of itself, every second."""

    answers: dict[str, dict[int, int]]
    median_ms: dict[str, float]
    max_ms: dict[str, float]
    failures: dict[str, int]
    resident_mib: list[float]
    cpu_seconds: float
    seconds: float


class Load:
    """The load of one run."""

    def __init__(self, parsed: argparse.Namespace) -> None:
        self._parsed = parsed
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self.answers: dict[str, Counter[int]] = defaultdict(Counter)
        self.times: dict[str, list[float]] = defaultdict(list)
        self.failures: Counter[str] = Counter()
        self.resident: list[float] = []
        self._open: set[int] = set()

    async def run(self) -> None:
        """Load for ever, from the moment at which the ports are open."""
        while not await self._answers():  # noqa: ASYNC110  # another process does
            await asyncio.sleep(0.05)
        period = CONNECTIONS / self._parsed.rate
        works = [
            self._ask(secure, target, period, number / CONNECTIONS)
            for secure, targets in ((False, PLAIN), (True, SECURE))
            for target in targets
            if not self._parsed.without or self._parsed.without not in target
            for number in range(CONNECTIONS)
        ]
        await asyncio.gather(
            *works, *(self._hold(number) for number in range(IDLE)), *(self._dawdle() for _ in range(SLOW)), self._ask_anew(), self._weigh()
        )

    async def _answers(self) -> bool:
        with suppress(OSError):
            async with self._connection(secure=True):
                return True
        return False

    async def _ask(self, secure: bool, target: str, period: float, phase: float) -> None:
        """Ask at a fixed rate over a connection that stays; what is still unanswered when the next is due holds that up."""
        due = time.monotonic() + phase * period
        while True:
            try:
                async with self._connection(secure=secure) as streams:
                    while True:
                        await asyncio.sleep(due - time.monotonic())
                        begun = time.monotonic()
                        status, _ = await asyncio.wait_for(exchange(*streams, self._request(target, secure)), GIVE_UP_SECONDS)
                        name = f"{'secure' if secure else 'plain'} {target}"
                        self.answers[name][status] += 1
                        self.times[name].append(time.monotonic() - begun)
                        due = max(due + period, time.monotonic())
            except (OSError, EOFError, TimeoutError) as error:
                self.failures[f"{target}: {type(error).__name__}"] += 1
                await asyncio.sleep(period)

    async def _hold(self, number: int) -> None:
        """Have a TLS connection open that says nothing. Once all are open, standard output says so."""
        while True:
            with suppress(OSError):
                async with self._connection(secure=True) as (reader, _):
                    self._open.add(number)
                    if len(self._open) == IDLE:
                        self._open.add(-1)  # it is said once
                        sys.stdout.buffer.write(ESTABLISHED)
                        sys.stdout.flush()
                    await reader.read(1)
            self.failures["an idle connection was closed"] += 1
            await asyncio.sleep(1.0)

    async def _dawdle(self) -> None:
        """Send headers a byte a second."""
        while True:
            with suppress(OSError):
                async with self._connection(secure=True) as (reader, writer):
                    closed = asyncio.ensure_future(reader.read(1))
                    writer.write(b"GET /livez HTTP/1.1\r\nX-Slow: ")
                    while not closed.done():
                        writer.write(b"x")
                        await asyncio.wait([closed], timeout=1.0)
            self.failures["slow headers were closed"] += 1
            await asyncio.sleep(1.0)

    async def _ask_anew(self) -> None:
        """Ask with a handshake each, ten times a second."""
        while True:
            begun = time.monotonic()
            try:
                async with self._connection(secure=True) as streams:
                    status, _ = await asyncio.wait_for(exchange(*streams, self._request("GET /livez", secure=True)), GIVE_UP_SECONDS)
                self.answers["secure GET /livez, anew"][status] += 1
                self.times["secure GET /livez, anew"].append(time.monotonic() - begun)
            except (OSError, EOFError, TimeoutError) as error:
                self.failures[f"anew: {type(error).__name__}"] += 1
            await asyncio.sleep(0.1)

    async def _weigh(self) -> None:
        """Ask for the scheduler's memory every second."""
        while True:
            await asyncio.sleep(1.0)
            with suppress(OSError, EOFError):
                async with self._connection(secure=False) as streams:
                    _, body = await exchange(*streams, self._request("GET /metrics", secure=False))
                lines = (line for line in body.decode().splitlines() if line.startswith("process_resident_memory_bytes "))
                self.resident += [round(float(line.split()[1]) / (1 << 20), 1) for line in lines]

    def _request(self, target: str, secure: bool) -> bytes:
        token = f"Authorization: Bearer {self._parsed.token}\r\n" if secure else ""
        return f"{target} HTTP/1.1\r\nHost: {HOST}\r\n{token}\r\n".encode()

    @asynccontextmanager
    async def _connection(self, *, secure: bool) -> AsyncIterator[Streams]:
        port = self._parsed.secure if secure else self._parsed.plain
        streams = await asyncio.open_connection(HOST, port, ssl=self._tls if secure else None)
        try:
            yield streams
        finally:
            streams[1].transport.abort()


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> tuple[int, bytes]:
    """Return status and body of the answer."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
    return int(head.split(" ", 2)[1]), await reader.readexactly(length)


async def load(parsed: argparse.Namespace) -> Outcome:
    """Load until SIGTERM."""
    stop, begun = asyncio.Event(), time.monotonic()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    made = Load(parsed)
    loading = asyncio.create_task(made.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([loading, stopping], return_when=asyncio.FIRST_COMPLETED)
    if loading.done():
        loading.result()
    loading.cancel()
    return Outcome(
        answers={name: dict(counts) for name, counts in made.answers.items()},
        median_ms={name: round(1e3 * median(times), 1) for name, times in made.times.items()},
        max_ms={name: round(1e3 * max(times), 1) for name, times in made.times.items()},
        failures=dict(made.failures),
        resident_mib=made.resident,
        cpu_seconds=time.process_time(),
        seconds=time.monotonic() - begun,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--plain", "--secure"):
        parser.add_argument(name, type=int)
    parser.add_argument("--token")
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--without", default="", help="leave out endpoints whose path has this")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(load(parser.parse_args()))
    sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")


if __name__ == "__main__":
    main()
