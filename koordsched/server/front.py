"""The face of a serving process: health from its first moment on, everything else as soon as there is a scheduler.

Until then the process is alive, and not ready: `/readyz` says what is waited for (frameworkext.md §1.1: ports open first).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.config import Flags
from koordsched.metrics import MetricRules, exposition
from koordsched.server.health import Health
from koordsched.server.process_metrics import ProcessMetrics
from koordsched.server.response import METRICS, METRICS_PATH, Response, text

if TYPE_CHECKING:
    from koordsched.server.endpoints import Endpoints
    from koordsched.server.request import Request

DEFAULT_FLAGS = Flags()
NOT_YET = text(503, "the scheduler has not started yet\n")


class Front:
    """Answers requests; who may not ask has been refused already. `metrics` are shown until there are endpoints, which get them."""

    def __init__(self, flags: Flags = DEFAULT_FLAGS) -> None:
        self._waiting_for = "not connected yet"
        self._rules = MetricRules.of(flags.disabled_metrics, flags.allow_metric_labels)
        self.metrics = ProcessMetrics(flags.gates)
        self._endpoints: Endpoints | None = None
        ping = {"ping": lambda: ""}
        self._early = Health({"healthz": ping, "livez": ping, "readyz": {"api-server": lambda: self._waiting_for}})

    def wait_for(self, what: str) -> None:
        """Say from now on that this keeps the scheduler from starting."""
        self._waiting_for = what

    def show(self, endpoints: Endpoints) -> None:
        """Leave the answers to a scheduler's endpoints from now on."""
        self._endpoints = endpoints

    async def answer(self, request: Request) -> Response:
        """Answer a request, whatever its method."""
        if self._endpoints is not None:
            return await self._endpoints.answer(request)
        health = self._early.get(request.path, request.query)
        if health is not None:
            return health
        if request.path != METRICS_PATH:
            return NOT_YET
        return Response(200, METRICS, exposition(self.metrics.collectors, self._rules))
