"""/debug: what the cache and the queue hold and whether that is true, as JSON; profiles (`server.profiling`); what is logged.

`cache` and `queue` show at most `?limit=N` nodes and pods of each part; `compare` compares with the cluster and takes seconds when
something differs. They are there while `enableProfiling` is on, as all of /debug is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.cluster.port import ClusterError
from koordsched.config.flag_values import BadValueError, read_bool, read_decimal, read_level
from koordsched.log import set_verbosity
from koordsched.server.budget import Bounds, KeptAnswers
from koordsched.server.http import DEBUG_PATH, HTML, JSON, NOT_FOUND, Response, bad_request, text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from koordsched.scheduler.debugger import CacheDump, QueueDump
    from koordsched.scheduler.scheduler import Scheduler
    from koordsched.server.http import HttpRequest
    from koordsched.server.main_loop import MainLoop
    from koordsched.server.profiling import Profiles
    from koordsched.slices import Slices

    Query = Mapping[str, list[str]]

DEFAULT_LIMIT, HIGHEST_LIMIT = 1000, 5000
SHARE = Bounds(1 / 100)
COMPARISON = Bounds(1 / 50, least_seconds=5.0)
"""The cost of a comparison is the CPU time of the scheduling thread meanwhile: it mostly waits for lists, and to look again."""
COMPARISON_SECONDS = 300.0
SHOWN = 100  # characters of a wrong value
VERBOSITY, TOP_SCORES = "v", "s"
BOOLEANS = {"f": "filters", "d": "diagnosis", "db": "blocking"}
"""Of DebugSwitches, by the name that PUT /debug/flags/NAME has for each."""
FLAGS = sorted([VERBOSITY, TOP_SCORES, *BOOLEANS])
FLAGS_PAGE = Response(
    200,
    HTML,
    f"<html><head><title>/debug/flags/</title></head><body>/debug/flags/<br>flags:<br>{'<br>'.join(FLAGS)}<br></body></html>\n".encode(),
)


class DebugEndpoints:
    """What one scheduler answers below /debug."""

    def __init__(self, scheduler: Scheduler, loop: MainLoop) -> None:
        self._scheduler = scheduler
        self._loop = loop
        self._kept = KeptAnswers(scheduler.clock.perf, SHARE)
        self._comparison = KeptAnswers(loop.cpu_seconds, COMPARISON)
        self._profiles: Profiles | None = None

    async def answer(self, request: HttpRequest) -> Response:
        """Answer a request for a path below /debug/."""
        name = request.path.removeprefix(DEBUG_PATH)
        if not self._scheduler.config.enable_profiling:
            return NOT_FOUND
        if name == "pprof" or name.startswith("pprof/"):
            return await self._profile(name.removeprefix("pprof"), request.query)
        if name == "flags" or name.startswith("flags/"):
            flag = name.removeprefix("flags").removeprefix("/")
            return await self._set_flag(flag, request) if flag in FLAGS else FLAGS_PAGE
        if name in {"cache", "queue"}:
            return await self._dump(name, request.query)
        return await self._comparison.answer(name, self._compare) if name == "compare" else NOT_FOUND

    async def _set_flag(self, name: str, request: HttpRequest) -> Response:
        """Set a flag to the body of a PUT, in the words of component-base and Koordinator (frameworkext.md §1.5).

        A line's end behind the value does no harm. The three booleans share a text.
        """
        if request.method != "PUT":
            return text(406, "unsupported http method\n")
        wanted = request.body.decode(errors="replace").rstrip()
        if name == VERBOSITY:
            try:
                set_verbosity(read_level(wanted))
            except BadValueError as error:
                return text(400, f"{error}\n")
            return text(200, f"successfully set klog.logging.verbosity to {wanted}\n")
        called, switch = ("debugTopNScores", "top_scores") if name == TOP_SCORES else ("debugFilterFailure", BOOLEANS[name])
        try:
            value = read_decimal(wanted) if name == TOP_SCORES else read_bool(wanted)
        except BadValueError as error:
            return text(400, f"failed set {called} {wanted}: {error}\n")
        await self._loop.call(lambda: setattr(self._scheduler.explanations.switches, switch, value))
        return text(200, f"successfully set {called} to {wanted}\n")

    async def _profile(self, path: str, query: Query) -> Response:
        if self._profiles is None:
            from koordsched.server.profiling import Profiles  # noqa: PLC0415  # simulations, which have endpoints too, need none

            self._profiles = Profiles(self._loop, KeptAnswers(self._scheduler.clock.perf, SHARE))
        return await self._profiles.answer(path, query)

    async def _dump(self, name: str, query: Query) -> Response:
        given = query.get("limit", [str(DEFAULT_LIMIT)])[-1]
        limit = int(given) if given.isascii() and given.isdigit() and len(given) <= len(str(HIGHEST_LIMIT)) else -1
        if not 0 <= limit <= HIGHEST_LIMIT:
            return bad_request(f"limit must be a number from 0 to {HIGHEST_LIMIT}, not {given[:SHOWN]!r}")
        debugger = self._scheduler.debugger
        show: Callable[[int, Slices], Awaitable[CacheDump | QueueDump]] = debugger.cache if name == "cache" else debugger.queue

        async def make(work: Slices) -> Response:
            async def shown() -> CacheDump | QueueDump:
                with work:
                    return await show(limit, work)

            dump = await self._loop.run(shown)
            with work:
                return _json(dump)

        return await self._kept.answer((name, limit), make)

    async def _compare(self, work: Slices) -> Response:
        """Compare with the cluster; 503 while there is nothing to compare."""
        if not self._scheduler.synced:
            return text(503, "handlers are not fully synchronized\n")
        try:
            with work:
                comparison = await self._loop.run(self._scheduler.debugger.compare, COMPARISON_SECONDS)
        except ClusterError as error:
            return text(503, f"no fresh list to compare with, try again: {error.message}\n")
        return _json(comparison.report())


def _json(body: object) -> Response:
    return Response(200, JSON, msgspec.json.format(msgspec.json.encode(body)))
