"""Endpoints: the answers to requests, without sockets (framework.md §1.6). Paths and bodies are kube-scheduler's."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, urlsplit

import msgspec

from koordsched.server.configz import configz
from koordsched.server.debug import COMPARE, DebugEndpoints
from koordsched.server.health import Health
from koordsched.server.pod_resources import resource_metrics
from koordsched.server.response import JSON, METHOD_NOT_ALLOWED, METRICS, METRICS_PATH, NOT_FOUND, TEXT, Response, bad_request

if TYPE_CHECKING:
    from koordsched.scheduler.scheduler import Scheduler

__all__ = ["JSON", "METRICS", "TEXT", "Endpoints", "Response"]

RESOURCES_PATH = "/metrics/resources"


class Endpoints:
    """What one scheduler answers. Who ends the scheduler sets `shutting_down` first, so that it is not ready from then on."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.shutting_down = False
        self._scheduler = scheduler
        self._debug = DebugEndpoints(scheduler)
        ping = {"ping": lambda: ""}
        ready = {**ping, "shutdown": self._goes_on, "sched-handler-sync": self._handlers_synced}
        self._health = Health({"healthz": ping, "livez": ping, "readyz": ready})
        self._pages = {METRICS_PATH: self._metrics, "/metrics/slis": self._health.slis, "/configz": self._configz}

    async def answer(self, target: str) -> Response:
        """Answer a GET of a path with its query, if need be after asking the cluster."""
        url = _split(target)
        if url is not None and url.path == f"/debug/{COMPARE}":
            return await self._debug.compare()
        if url is not None and url.path == RESOURCES_PATH:
            return Response(200, METRICS, await resource_metrics(self._scheduler.pods.values()))
        return self.get(target)

    def get(self, target: str) -> Response:
        """Answer what can be answered at once: everything but /debug/compare and /metrics/resources."""
        url = _split(target)
        if url is None:
            return bad_request(f"{target!r} is not a path")
        query = parse_qs(url.query, keep_blank_values=True)
        name, _, rest = url.path.strip("/").partition("/")
        if name in self._health:
            return self._health.get(name, rest, query)
        if name == "debug":
            return self._debug.get(rest, query)
        page = self._pages.get(url.path)
        return page() if page is not None else NOT_FOUND

    def delete(self, target: str) -> Response:
        """Reset the metrics; nothing else can be deleted."""
        url = _split(target)
        if url is None or url.path != METRICS_PATH:
            return METHOD_NOT_ALLOWED
        self._scheduler.metrics.reset()
        return Response(200, TEXT, b"metrics reset\n")

    def _metrics(self) -> Response:
        return Response(200, METRICS, self._scheduler.metrics.text())

    def _configz(self) -> Response:
        return Response(200, JSON, msgspec.json.encode({"componentconfig": configz(self._scheduler.config)}))

    def _goes_on(self) -> str:
        return "process is shutting down" if self.shutting_down else ""

    def _handlers_synced(self) -> str:
        return "" if self._scheduler.synced else "handlers are not fully synchronized"


def _split(target: str) -> SplitResult | None:
    """Return the parts of a target; None when it is no URL."""
    try:
        return urlsplit(target)
    except ValueError:
        return None
