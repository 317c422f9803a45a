"""Endpoints: the answers to requests, without sockets (framework.md §1.6). Paths, codes and bodies are kube-scheduler's.

As there, a path is answered whatever the method is, except that DELETE resets metrics and PUT sets a debug flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from koordsched.server.configz import configz
from koordsched.server.debug import DEBUG_PATH, DebugEndpoints
from koordsched.server.health import Checks, Health
from koordsched.server.plugin_routes import APIS_PATH, PluginRoutes
from koordsched.server.pod_resources import resource_metrics
from koordsched.server.response import JSON, METRICS, METRICS_PATH, NOT_FOUND, TEXT, Response

if TYPE_CHECKING:
    from koordsched.scheduler.scheduler import Scheduler
    from koordsched.server.leadership import Leadership
    from koordsched.server.request import Request

__all__ = ["JSON", "METRICS", "TEXT", "Endpoints", "Response"]

RESOURCES_PATH = "/metrics/resources"
SLIS_PATH = "/metrics/slis"
CONFIGZ_PATH = "/configz"
NO_CHECKS: Checks = {}
METRICS_RESET = Response(200, TEXT, b"metrics reset\n")


class Endpoints:
    """What one scheduler answers.

    Who ends the scheduler sets `shutting_down` first, so that it is not ready from then on; who elects it gives it `leadership`, which says
    whether it is the one that schedules. `liveness` is what /livez is to check besides.
    """

    def __init__(self, scheduler: Scheduler, leadership: Leadership | None = None, liveness: Checks = NO_CHECKS) -> None:
        self.shutting_down = False
        self._leadership = leadership
        self._scheduler = scheduler
        self._debug = DebugEndpoints(scheduler)
        self._routes = PluginRoutes(scheduler.profiles.values())
        ping = {"ping": lambda: ""}
        elected = {} if leadership is None else {"leaderElection": leadership.health}
        ready = {**elected, "shutdown": self._goes_on, "sched-handler-sync": self._handlers_synced}
        self._health = Health({"healthz": elected or ping, "livez": {**ping, **liveness}, "readyz": ready})

    async def answer(self, request: Request) -> Response:
        """Answer a request, if need be after asking the cluster."""
        path = request.path
        health = self._health.get(path, request.query)
        if health is not None:
            return health
        if path == METRICS_PATH:
            return self._metrics(request)
        if path == SLIS_PATH:
            return self._slis(request)
        if path == RESOURCES_PATH:
            return Response(200, METRICS, await self._resources())
        if path == CONFIGZ_PATH:
            return Response(200, JSON, msgspec.json.encode({"componentconfig": configz(self._scheduler.config)}))
        return await self._under_prefix(request)

    async def _under_prefix(self, request: Request) -> Response:
        if request.path.startswith(APIS_PATH):
            return self._routes.answer(request, leading=self._leads)
        return await self._debug.answer(request) if request.path.startswith(DEBUG_PATH) else NOT_FOUND

    @property
    def _leads(self) -> bool:
        return self._leadership is None or self._leadership.leading

    def _metrics(self, request: Request) -> Response:
        if request.method == "DELETE":
            self._scheduler.metrics.reset()
            return METRICS_RESET
        return Response(200, METRICS, self._scheduler.metrics.text())

    async def _resources(self) -> bytes:
        """Return what pods request; nothing of it while another scheduler leads, which says it."""
        if not self._leads:
            return b""
        return await resource_metrics(self._scheduler.pods.values())

    def _slis(self, request: Request) -> Response:
        if request.method == "DELETE":
            self._health.reset()
            return METRICS_RESET
        return self._health.slis()

    def _goes_on(self) -> str:
        return "process is shutting down" if self.shutting_down else ""

    def _handlers_synced(self) -> str:
        return "" if self._scheduler.synced else "handlers are not fully synchronized"
