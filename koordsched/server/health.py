"""Health checks: bodies are kube-scheduler's (framework.md §1.6), and every outcome is counted for /metrics/slis.

A passing check says `ok`, a failing one names itself, `?verbose` lists all checks, `?exclude=NAME` leaves one out and `/healthz/NAME` asks
one alone. What was asked alone is not counted, as with the reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from koordsched.metrics import Collector, Family, exposition
from koordsched.server.response import METRICS, NOT_FOUND, TEXT, Response

if TYPE_CHECKING:
    from collections.abc import Iterable

Checks = Mapping[str, Callable[[], str]]
"""By name; a check returns what is wrong, "" when nothing is."""


class Health:
    """The checks of some endpoints, by the endpoints' names."""

    def __init__(self, endpoints: Mapping[str, Checks]) -> None:
        self._endpoints = endpoints
        self._outcomes = Outcomes()

    def get(self, path: str, query: Mapping[str, list[str]]) -> Response | None:
        """Ask all checks of an endpoint, or the one that the path names; None when the path is none of an endpoint's."""
        endpoint, slash, only = path.removeprefix("/").partition("/")
        if endpoint not in self._endpoints:
            return None
        checks = self._endpoints[endpoint]
        return _ask_one(checks, only) if slash else self._ask_all(endpoint, checks, query)

    def reset(self) -> None:
        """Count outcomes from zero again."""
        self._outcomes.reset()

    def _ask_all(self, endpoint: str, checks: Checks, query: Mapping[str, list[str]]) -> Response:
        excluded = set(query.get("exclude", []))
        outcome = {check: ask() for check, ask in checks.items() if check not in excluded}
        for check, wrong in outcome.items():
            self._outcomes.add(check, endpoint, healthy=not wrong)
        lines = "".join(f"{_line(check, excluded, outcome)}\n" for check in checks)
        if unknown := sorted(excluded - checks.keys()):
            named = ", ".join(f'"{check}"' for check in unknown)
            lines += f"warn: some health checks cannot be excluded: no matches for {named}\n"
        if any(outcome.values()):
            return Response(500, TEXT, f"{lines}{endpoint} check failed\n".encode())
        return Response(200, TEXT, f"{lines}{endpoint} check passed\n".encode() if "verbose" in query else b"ok")

    def slis(self) -> Response:
        """Return the outcomes as metrics."""
        return Response(200, METRICS, exposition([self._outcomes]))


class Outcomes(Collector):
    """kubernetes_healthcheck{name,type} (the last outcome) and kubernetes_healthchecks_total{name,status,type}."""

    def __init__(self) -> None:
        super().__init__([], "kubernetes_healthcheck", "The last outcome of a health check: 1 when it passed.", ["name", "type"])
        self._last: dict[tuple[str, str], float] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def add(self, check: str, endpoint: str, *, healthy: bool) -> None:
        self._last[check, endpoint] = float(healthy)
        self._counts[check, "success" if healthy else "error", endpoint] += 1

    def reset(self) -> None:
        self._last.clear()
        self._counts.clear()

    def collect(self) -> Iterable[Family]:
        yield Family(self.name, self.help, "gauge", list(self._last.items()), self.labels)
        name, labels = "kubernetes_healthchecks_total", ["name", "status", "type"]
        yield Family(name, "Outcomes of health checks.", "counter", list(self._counts.items()), labels)


def _line(check: str, excluded: set[str], outcome: Mapping[str, str]) -> str:
    if check in excluded:
        return f"[+]{check} excluded: ok"
    return f"[-]{check} failed: {outcome[check]}" if outcome[check] else f"[+]{check} ok"


def _ask_one(checks: Checks, name: str) -> Response:
    if name not in checks:
        return NOT_FOUND
    wrong = checks[name]()
    return Response(500, TEXT, f"internal server error: {wrong}\n".encode()) if wrong else Response(200, TEXT, b"ok")
