"""Health checks: bodies are kube-scheduler's (framework.md §1.6), and every outcome is counted for /metrics/slis.

A passing check says `ok`, a failing one names itself, `?verbose` lists all checks, `?exclude=NAME` leaves one out and `/healthz/NAME` asks
one alone. What was asked alone is not counted, as with the reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from koordsched.config import Flags
from koordsched.metrics import Collector, Family, MetricRules, exposition
from koordsched.server.http import METRICS, METRICS_PATH, NOT_FOUND, TEXT, Response, text
from koordsched.server.process_metrics import ProcessMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koordsched.server.http import HttpRequest, RequestHandler

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
        lines = ""
        for check in checks:
            if check in excluded:
                lines += f"[+]{check} excluded: ok\n"
            else:
                lines += f"[-]{check} failed: {outcome[check]}\n" if outcome[check] else f"[+]{check} ok\n"
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


def _ask_one(checks: Checks, name: str) -> Response:
    if name not in checks:
        return NOT_FOUND
    wrong = checks[name]()
    return Response(500, TEXT, f"internal server error: {wrong}\n".encode()) if wrong else Response(200, TEXT, b"ok")


DEFAULT_FLAGS = Flags()
NOT_YET = text(503, "the scheduler has not started yet\n")


class BootstrapHandler:
    """Answers from the first moment of a process on: health, and until its component has a handler of its own `metrics`.

    Until then the process is alive and not ready: `/readyz` names what is waited for (frameworkext.md §1.1: ports open first).
    """

    def __init__(self, flags: Flags = DEFAULT_FLAGS) -> None:
        self._waiting_for = "not connected yet"
        self._rules = MetricRules.of(flags.disabled_metrics, flags.allow_metric_labels)
        self.metrics = ProcessMetrics(flags.gates)
        self._handler: RequestHandler | None = None
        ping = {"ping": lambda: ""}
        self._health = Health({"healthz": ping, "livez": ping, "readyz": {"api-server": lambda: self._waiting_for}})

    def wait_for(self, what: str) -> None:
        """Let `/readyz` name this from now on as what keeps the component from starting."""
        self._waiting_for = what

    def hand_over(self, handler: RequestHandler) -> None:
        """Leave all answers to a component's handler from now on."""
        self._handler = handler

    async def answer(self, request: HttpRequest) -> Response:
        """Answer a request, whatever its method."""
        if self._handler is not None:
            return await self._handler.answer(request)
        health = self._health.get(request.path, request.query)
        if health is not None:
            return health
        if request.path != METRICS_PATH:
            return NOT_YET
        return Response(200, METRICS, exposition(self.metrics.collectors, self._rules))
