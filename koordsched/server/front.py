"""The face of a serving process: health from its first moment on, everything else as soon as there is a scheduler.

Until then the process is alive, and not ready: `/readyz` says what is waited for (frameworkext.md §1.1: ports open first).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from msgspec.structs import replace

from koordsched.config import Flags
from koordsched.scheduler.metric_rules import MetricRules
from koordsched.server.health import Health
from koordsched.server.process_metrics import ProcessMetrics
from koordsched.server.response import METHOD_NOT_ALLOWED, METRICS, METRICS_PATH, TEXT, Response, bad_request

if TYPE_CHECKING:
    from koordsched.server.endpoints import Endpoints

DEFAULT_FLAGS = Flags()
OK = 200
NOT_YET = Response(503, TEXT, b"the scheduler has not started yet\n")


class Front:
    """Answers requests; who may not ask has been refused already. `metrics` are shown beside the scheduler's."""

    def __init__(self, flags: Flags = DEFAULT_FLAGS) -> None:
        self._waiting_for = "not connected yet"
        self.metrics = ProcessMetrics(flags.gates, MetricRules.of(flags))
        self._endpoints: Endpoints | None = None
        ping = {"ping": lambda: ""}
        self._early = Health({"healthz": ping, "livez": ping, "readyz": {**ping, "api-server": lambda: self._waiting_for}})

    def wait_for(self, what: str) -> None:
        """Say from now on that this keeps the scheduler from starting."""
        self._waiting_for = what

    def show(self, endpoints: Endpoints) -> None:
        """Leave the answers to a scheduler's endpoints from now on."""
        self._endpoints = endpoints

    async def answer(self, target: str) -> Response:
        """Answer a GET of a path with its query."""
        try:
            url = urlsplit(target)
        except ValueError as error:
            return bad_request(str(error))
        response = self._early_answer(url.path, url.query) if self._endpoints is None else await self._endpoints.answer(target)
        if url.path == METRICS_PATH and response.status == OK:
            return replace(response, body=response.body + self.metrics.text())
        return response

    def delete(self, target: str) -> Response:
        """Answer a DELETE: only a scheduler's metrics can be reset."""
        return METHOD_NOT_ALLOWED if self._endpoints is None else self._endpoints.delete(target)

    def _early_answer(self, path: str, query: str) -> Response:
        name, _, check = path.strip("/").partition("/")
        if name in self._early:
            return self._early.get(name, check, parse_qs(query, keep_blank_values=True))
        return Response(OK, METRICS, b"") if path == METRICS_PATH else NOT_YET
