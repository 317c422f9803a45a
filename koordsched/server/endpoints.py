"""Endpoints: the answers to GET requests, without sockets (framework.md §1.6).

Paths and bodies are kube-scheduler's: a passing health check says `ok`, a failing one names itself, `?verbose` lists all checks,
`?exclude=NAME` leaves one out and `/healthz/NAME` asks one alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import msgspec

from koordsched.server.configz import configz

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koordsched.scheduler.scheduler import Scheduler

TEXT = "text/plain; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
JSON = "application/json"


class Response(msgspec.Struct, frozen=True):
    status: int
    content_type: str
    body: bytes


class Endpoints:
    """What one scheduler answers."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        ping: dict[str, Callable[[], str]] = {"ping": lambda: ""}
        self._health: Mapping[str, Mapping[str, Callable[[], str]]] = {
            "healthz": ping,
            "livez": ping,
            "readyz": {"ping": lambda: "", "sched-handler-sync": self._handlers_synced},
        }

    def get(self, target: str) -> Response:
        """Answer a GET of a path with its query."""
        try:
            url = urlsplit(target)
        except ValueError as error:
            return Response(400, TEXT, f"bad request: {error}\n".encode())
        name, _, check = url.path.strip("/").partition("/")
        if name in self._health:
            return self._checks(name, check, parse_qs(url.query, keep_blank_values=True))
        if url.path == "/metrics":
            return Response(200, METRICS, self._scheduler.metrics.text())
        if url.path == "/configz":
            return Response(200, JSON, msgspec.json.encode({"componentconfig": configz(self._scheduler.config)}))
        return Response(404, TEXT, b"404 page not found\n")

    def _checks(self, name: str, only: str, query: Mapping[str, list[str]]) -> Response:
        checks = self._health[name]
        if only:
            if only not in checks:
                return Response(404, TEXT, b"404 page not found\n")
            wrong = checks[only]()
            return Response(500, TEXT, f"internal server error: {wrong}\n".encode()) if wrong else Response(200, TEXT, b"ok")
        excluded = set(query.get("exclude", []))
        outcome = {check: ask() for check, ask in checks.items() if check not in excluded}
        lines = "".join(f"[-]{check} failed: {wrong}\n" if wrong else f"[+]{check} ok\n" for check, wrong in outcome.items())
        if any(outcome.values()):
            return Response(500, TEXT, f"{lines}{name} check failed\n".encode())
        return Response(200, TEXT, f"{lines}{name} check passed\n".encode() if "verbose" in query else b"ok")

    def _handlers_synced(self) -> str:
        return "" if self._scheduler.synced else "handlers are not fully synchronized"
