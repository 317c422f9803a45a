"""/debug: what the scheduler believes and whether that is true, as JSON.

`cache` and `queue` show at most `?limit=N` nodes and pods of each part (default 1000); `compare` compares with the cluster and takes
seconds when something differs. They are there while `enableProfiling` is on, as all of /debug is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.cluster.port import ClusterError
from koordsched.server.response import JSON, NOT_FOUND, TEXT, Response, bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koordsched.scheduler.scheduler import Scheduler

    Query = Mapping[str, list[str]]

DEFAULT_LIMIT = 1000
COMPARE = "compare"


class DebugEndpoints:
    """What one scheduler answers below /debug."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def get(self, name: str, query: Query) -> Response:
        """Show the cache or the queue."""
        if name not in {"cache", "queue"} or not self._scheduler.config.enable_profiling:
            return NOT_FOUND
        limit = query.get("limit", [str(DEFAULT_LIMIT)])[-1]
        if not (limit.isascii() and limit.isdigit()):
            return bad_request(f"limit must be a number of at least 0, not {limit!r}")
        debugger = self._scheduler.debugger
        return _json(debugger.cache(int(limit)) if name == "cache" else debugger.queue(int(limit)))

    async def compare(self) -> Response:
        """Compare with the cluster; 503 while there is nothing to compare."""
        if not self._scheduler.config.enable_profiling:
            return NOT_FOUND
        if not self._scheduler.synced:
            return Response(503, TEXT, b"handlers are not fully synchronized\n")
        try:
            comparison = await self._scheduler.debugger.compare()
        except ClusterError as error:
            return Response(503, TEXT, f"no fresh list to compare with, try again: {error.message}\n".encode())
        return _json(comparison.report())


def _json(body: object) -> Response:
    return Response(200, JSON, msgspec.json.format(msgspec.json.encode(body)))
