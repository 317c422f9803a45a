"""The paths below /debug/pprof. Profiles that Go has and Python has not (block, mutex, trace) are 404, as an unknown one is there."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from koordsched.server.profiling.cpu import collapsed, sample
from koordsched.server.profiling.heap import heap
from koordsched.server.profiling.stacks import tasks, threads
from koordsched.server.response import HTML, Response, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.server.kept_answers import KeptAnswers
    from koordsched.server.scheduling_loop import SchedulingLoop
    from koordsched.slices import Slices

DEFAULT_SECONDS = 30
MOST_SECONDS = 300
INDEX = "/debug/pprof/"
ABOUT = {
    "allocs": "objects that the garbage collector knows, by type",
    "goroutine": "tasks by what they wait for",
    "heap": "the same as allocs",
    "profile": "CPU time of the event loop by stack, as collapsed stacks; ?seconds=30",
    "threadcreate": "threads",
}

ROWS = "".join(f"<tr><td><a href='{name}'>{name}</a></td><td>{about}</td></tr>\n" for name, about in ABOUT.items())
PAGE = Response(200, HTML, f"<html><head><title>{INDEX}</title></head><body>\n{INDEX}\n<table>\n{ROWS}</table></body></html>\n".encode())

MOVED = Response(302, HTML, f'<a href="{INDEX}">Found</a>.\n'.encode(), location=INDEX)


class Profiles:
    """Answers one process's profiles. CPU time is measured for one asker at a time; the others are kept for a while."""

    def __init__(self, loop: SchedulingLoop, kept: KeptAnswers) -> None:
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
            ended.set()  # whoever asked may have gone
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
