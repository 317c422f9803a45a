"""The paths below /debug/pprof. Profiles that Go has and Python has not (block, mutex, trace) are 404, as an unknown one is there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping

from koordsched.server.profiling.cpu import collapsed, sample
from koordsched.server.profiling.heap import heap
from koordsched.server.profiling.stacks import tasks, threads
from koordsched.server.response import HTML, Response, text

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


class Profiles:
    """Answers one process's profiles; CPU time is measured for one asker at a time."""

    def __init__(self) -> None:
        self._sampling = False

    async def answer(self, path: str, query: Mapping[str, list[str]]) -> Response:
        """Answer a path below /debug/pprof, which begins with a slash unless it is that itself."""
        pages: dict[str, Callable[[], Awaitable[Response]]] = {
            "": _moved,
            "/": _index,
            "/profile": lambda: self._cpu(_seconds(query)),
            "/goroutine": _tasks,
            "/threadcreate": _threads,
            "/heap": _heap,
            "/allocs": _heap,
        }
        page = pages.get(path)
        return text(404, "Unknown profile\n") if page is None else await page()

    async def _cpu(self, seconds: float) -> Response:
        if self._sampling:
            return text(500, "Could not enable CPU profiling: cpu profiling already in use\n")
        self._sampling, ended = True, threading.Event()
        try:
            return text(200, collapsed(await asyncio.to_thread(sample, threading.get_ident(), seconds, ended)))
        finally:
            ended.set()  # whoever asked may have gone
            self._sampling = False


def _seconds(query: Mapping[str, list[str]]) -> float:
    """Read ?seconds=; what is no positive number is the default, as in Go."""
    try:
        wanted = float(query.get("seconds", [""])[-1])
    except ValueError:
        return DEFAULT_SECONDS
    return min(wanted, MOST_SECONDS) if wanted > 0 else DEFAULT_SECONDS


async def _moved() -> Response:
    return Response(302, HTML, f'<a href="{INDEX}">Found</a>.\n'.encode(), location=INDEX)


async def _tasks() -> Response:
    return text(200, tasks())


async def _threads() -> Response:
    return text(200, threads())


async def _heap() -> Response:
    return text(200, await asyncio.to_thread(heap))


async def _index() -> Response:
    rows = "".join(f"<tr><td><a href='{name}'>{name}</a></td><td>{about}</td></tr>\n" for name, about in ABOUT.items())
    return Response(
        200, HTML, f"<html><head><title>{INDEX}</title></head><body>\n{INDEX}\n<table>\n{rows}</table></body></html>\n".encode()
    )
