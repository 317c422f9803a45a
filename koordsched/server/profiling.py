"""/debug/pprof: where the time and memory of a Python process go, under the paths of Go's profiles.

CPU time by stack is sampled; tasks, threads and objects are counted by what asyncio, threading and the garbage collector list. Why this is
not a library: docs/decisions/0009-own-profiles.md.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from threading import Event
from types import CoroutineType, FrameType
from typing import TYPE_CHECKING, Any

from koordsched.server.http import HTML, Response, text
from koordsched.slices import PAUSE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.server.budget import KeptAnswers
    from koordsched.server.main_loop import MainLoop
    from koordsched.slices import Slices

PERIOD = 0.01
MICROSECONDS = 1e6
DEEPEST = 100  # frames of a stack


def sample(thread: int, seconds: float, ended: Event) -> Counter[tuple[str, ...]]:
    """Return microseconds of CPU time by stack of a thread (its ident). Blocks for so long, or until `ended` is set.

    The stack is looked at a hundred times a second and weighed with the CPU time used since, which leaves out waiting for events.
    """
    clock = time.pthread_getcpuclockid(thread)
    used = time.clock_gettime(clock)
    found: Counter[tuple[str, ...]] = Counter()
    for _ in range(max(1, round(seconds / PERIOD))):
        if ended.wait(PERIOD):
            break
        before, used = used, time.clock_gettime(clock)
        frame = sys._current_frames().get(thread)
        if frame is not None:
            found[stack_of(frame)] += round((used - before) * MICROSECONDS)
    return found


def collapsed(samples: Counter[tuple[str, ...]]) -> str:
    """Write samples as collapsed stacks, the dearest first: a line each, frames from the outermost on, then microseconds.

    speedscope and flamegraph.pl read it.
    """
    return "".join(f"{';'.join(stack)} {weight}\n" for stack, weight in samples.most_common() if weight)


def stack_of(frame: FrameType | None) -> tuple[str, ...]:
    """Return the functions of a stack, the outermost first; of a deep one the innermost ones."""
    names: list[str] = []
    while frame is not None and len(names) < DEEPEST:
        file = "/".join(frame.f_code.co_filename.rsplit("/", 2)[-2:])
        names.append(f"{frame.f_code.co_qualname} ({file}:{frame.f_lineno})")
        frame = frame.f_back
    return tuple(reversed(names))


Stack = tuple[str, ...]


MOST_TASKS = 20_000
"""How many are looked at: more say no more."""


async def tasks(work: Slices) -> str:
    """Describe the tasks of the running loop: the chain of coroutines that each is in, the innermost last."""
    stacks = []
    for task in islice(asyncio.all_tasks(), MOST_TASKS):
        stacks.append(_awaits(task.get_coro()))
        await work.pause()
    return _grouped("task", stacks)


def threads() -> str:
    """Describe the threads: the stack of each."""
    frames = sys._current_frames()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return _grouped("thread", [(names.get(ident, str(ident)), *stack_of(frame)) for ident, frame in frames.items()])


def _awaits(waiting: Any) -> Stack:
    """Follow what a coroutine awaits as far as Python shows it."""
    chain: list[str] = []
    while waiting is not None and len(chain) < DEEPEST:
        chain.append(_place(waiting))
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "ag_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return tuple(chain)


def _place(waiting: Any) -> str:
    name = getattr(waiting, "__qualname__", type(waiting).__qualname__)
    frame: FrameType | None = waiting.cr_frame if isinstance(waiting, CoroutineType) else getattr(waiting, "ag_frame", None)
    return f"{name}:{frame.f_lineno}" if frame is not None else name


def _grouped(what: str, stacks: Iterable[Stack]) -> str:
    counts = Counter(stacks)
    lines = [f"{what} profile: total {counts.total()}\n"]
    for stack, count in counts.most_common():
        lines.append(f"\n{count} @\n" + "".join(f"#\t{frame}\n" for frame in stack))
    return "".join(lines)


SHOWN = 100
A_SLICE = 2000  # objects: a millisecond
STATUS = Path("/proc/self/status")
RESIDENT = ("VmRSS", "VmHWM")


def heap() -> str:
    """Describe memory: objects that the garbage collector knows, by type; by line while Python traces allocations.

    Tracing costs half of the speed and is on only when the process was started with PYTHONTRACEMALLOC=1. Objects of the initial lists are
    frozen (`koordsched.frozen`) and not seen by the collector: what is listed came after. Takes up to seconds with millions of objects, in
    which other threads run on.
    """
    return "".join([_resident(), _by_line() if tracemalloc.is_tracing() else _by_type()])


def _resident() -> str:
    if not STATUS.exists():
        return ""
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return "".join(f"# {line}\n" for line in lines if line.startswith(RESIDENT))


def _by_type() -> str:
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for number, each in enumerate(gc.get_objects()):
        if number % A_SLICE == 0:
            time.sleep(PAUSE_SECONDS)  # other threads get the interpreter's lock at once, not after each switch interval
        name = f"{type(each).__module__}.{type(each).__qualname__}"
        counts[name] += 1
        sizes[name] += sys.getsizeof(each, 0)
    head = f"heap profile: {counts.total()} objects, {sizes.total()} bytes of their own, {gc.get_freeze_count()} frozen\n"
    return head + "".join(f"{counts[name]}: {size} {name}\n" for name, size in sizes.most_common(SHOWN))


def _by_line() -> str:
    lines = tracemalloc.take_snapshot().statistics("lineno")
    head = f"heap profile: {sum(line.count for line in lines)} allocations, {sum(line.size for line in lines)} bytes\n"
    return head + "".join(f"{line.count}: {line.size} {line.traceback}\n" for line in lines[:SHOWN])


DEFAULT_SECONDS = 30
MOST_SECONDS = 300
INDEX = "/debug/pprof/"
ABOUT = {
    "allocs": "objects that the garbage collector knows, by type",
    "goroutine": "tasks by what they wait for",
    "heap": "the same as allocs",
    "profile": "CPU time of the scheduling loop by stack, as collapsed stacks; ?seconds=30",
    "threadcreate": "threads",
}

ROWS = "".join(f"<tr><td><a href='{name}'>{name}</a></td><td>{about}</td></tr>\n" for name, about in ABOUT.items())
PAGE = Response(200, HTML, f"<html><head><title>{INDEX}</title></head><body>\n{INDEX}\n<table>\n{ROWS}</table></body></html>\n".encode())

MOVED = Response(302, HTML, f'<a href="{INDEX}">Found</a>.\n'.encode(), location=INDEX)


class Profiles:
    """The pages of one process. CPU time is measured for one client at a time; the other profiles are kept for a while.

    Profiles that Go has and Python has not (block, mutex, trace) are 404, as an unknown one is there.
    """

    def __init__(self, loop: MainLoop, kept: KeptAnswers) -> None:
        self._loop = loop
        self._kept = kept
        self._sampling = False

    async def answer(self, path: str, query: Mapping[str, list[str]]) -> Response:
        """Answer a path below /debug/pprof, which begins with a slash unless it is that itself."""
        match path:
            case "" | "/":
                return PAGE if path else MOVED
            case "/profile":
                return await self._cpu(_seconds(query))
            case "/goroutine":
                return await self._kept.answer(path, self._tasks)
            case "/threadcreate":
                return await self._kept.answer(path, _threads)
            case "/heap" | "/allocs":
                return await self._kept.answer("/heap", _heap)
        return text(404, "Unknown profile\n")

    async def _cpu(self, seconds: float) -> Response:
        if self._sampling:
            return text(500, "Could not enable CPU profiling: cpu profiling already in use\n")
        self._sampling, ended = True, threading.Event()
        try:
            return text(200, collapsed(await asyncio.to_thread(sample, self._loop.thread, seconds, ended)))
        finally:
            ended.set()  # the client may have gone
            self._sampling = False

    async def _tasks(self, work: Slices) -> Response:
        async def described() -> str:
            with work:
                return await tasks(work)

        return text(200, await self._loop.run(described))


async def _threads(work: Slices) -> Response:
    with work:
        return text(200, threads())


async def _heap(work: Slices) -> Response:
    with work:
        return text(200, await asyncio.to_thread(heap))


def _seconds(query: Mapping[str, list[str]]) -> float:
    """Read ?seconds=; what is no positive number is the default, as in Go."""
    try:
        wanted = float(query.get("seconds", [""])[-1])
    except ValueError:
        return DEFAULT_SECONDS
    return min(wanted, MOST_SECONDS) if wanted > 0 else DEFAULT_SECONDS
