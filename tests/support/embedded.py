"""An embedded cluster whose scheduler answers HTTP, as the process that serves does."""

from __future__ import annotations

from koordsched.embedded.cluster import EmbeddedCluster
from koordsched.scenario.cluster import HttpAnswer
from koordsched.scheduler.scheduler import Scheduler
from koordsched.serve.endpoints import Endpoints, Response
from koordsched.server.http import HttpRequest


class AnsweringCluster(EmbeddedCluster):
    async def http(self, path: str) -> Response:
        return await Endpoints(self.scheduler).answer(HttpRequest.of("GET", path))


async def answer(scheduler: Scheduler, path: str) -> HttpAnswer:
    """Answer a scenario's request (`scenario.embedded.Http`)."""
    response = await Endpoints(scheduler).answer(HttpRequest.of("GET", path))
    return HttpAnswer(response.status, response.body)
