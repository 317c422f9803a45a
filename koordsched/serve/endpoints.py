"""Endpoints: the answers to requests, without sockets (framework.md §1.6). Paths, codes and bodies are kube-scheduler's.

As there, a path is answered whatever the method is, except that DELETE resets metrics and PUT sets a debug flag.

They are given in the serving thread. Health checks and what never changes are answered there; what belongs to the scheduling loop is read
on it (`server.main_loop`), and what costs something is kept for a while (`server.budget`), so that asking often costs scheduling no more.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from koordsched.config.types import Config
from koordsched.config.writing import plain
from koordsched.serve.debug import DebugEndpoints
from koordsched.serve.explain import SERVICES, ExplainEndpoint
from koordsched.serve.plugin_routes import PluginRoutes
from koordsched.serve.pod_resources import resource_metrics
from koordsched.serve.scheduler_routes import scheduler_routes
from koordsched.server.budget import Bounds, KeptAnswers
from koordsched.server.health import Health
from koordsched.server.http import APIS_PATH, DEBUG_PATH, JSON, METRICS, METRICS_PATH, NOT_FOUND, RESOURCES_PATH, SLIS_PATH, TEXT, Response
from koordsched.server.main_loop import DOES_NOT_ANSWER, MainLoop, MainLoopBusyError
from koordsched.server.process_metrics import metrics_page

if TYPE_CHECKING:
    from koordsched.config import SchedulerConfiguration
    from koordsched.scheduler.scheduler import Scheduler
    from koordsched.server.health import Checks
    from koordsched.server.http import HttpRequest
    from koordsched.server.leadership import Leadership
    from koordsched.server.process_metrics import ProcessMetrics
    from koordsched.slices import Slices

API_VERSION = "kubescheduler.config.k8s.io/v1"
INITIALISMS = {
    "qps": "QPS",
    "urlPrefix": "URLPrefix",
    "enableHTTPS": "EnableHTTPS",
    "tlsConfig": "TLSConfig",
    "httpTimeout": "HTTPTimeout",
    "caFile": "CAFile",
    "caData": "CAData",
    "gcDurationSeconds": "GCDurationSeconds",
    "gcIntervalSeconds": "GCIntervalSeconds",
    "gpuShareUnsupportedModels": "GPUShareUnsupportedModels",
    "gpuSharedResourceTemplatesConfig": "GPUSharedResourceTemplatesConfig",
    "numaScoringStrategy": "NUMAScoringStrategy",
}


def configz(config: SchedulerConfiguration) -> dict[str, Any]:
    """Return the configuration in use with the reference's internal field names, Go's: /configz (framework.md §1.6, [KEEP]).

    What is empty is null, as a Go slice that was never filled is, and a whole number has no fraction.
    """
    found = _capitalised(config)
    if not isinstance(found, dict):
        raise TypeError(f"a configuration is a mapping, not {type(found).__name__}")
    return {"apiVersion": API_VERSION, **found}


def _capitalised(value: Any) -> Any:
    """Return what stands for a value; types of the API, such as a node affinity, have no internal form and keep their names."""
    if isinstance(value, Config):
        fields = msgspec.structs.fields(value)
        names = {field.name: field.encode_name for field in fields if field.name != "points"}
        return {
            INITIALISMS.get(key, key[:1].upper() + key[1:]): _capitalised(getattr(value, attribute)) for attribute, key in names.items()
        }
    if isinstance(value, dict):
        return {key: _capitalised(item) for key, item in value.items()} or None
    if isinstance(value, list | tuple):
        return [_capitalised(item) for item in value] or None
    return None if value == b"" else plain(value)


__all__ = ["JSON", "METRICS", "TEXT", "Endpoints", "ProcessContext", "Response"]

CONFIGZ_PATH = "/configz"
METRICS_RESET = Response(200, TEXT, b"metrics reset\n")
METRICS_SHARE, RESOURCES_SHARE, PLUGINS_SHARE = Bounds(1 / 30), Bounds(1 / 50), Bounds(1 / 100)
"""What each kind of answer may take of the time; at 15 ms of work /metrics is at most half a second old."""


class ProcessContext(msgspec.Struct, frozen=True):
    """What a serving process has beside its scheduler: leadership, metrics of the process, further checks of /livez by name."""

    leadership: Leadership | None = None
    process: ProcessMetrics | None = None
    liveness: Checks = {}


ALONE = ProcessContext()


class Endpoints:
    """What one scheduler answers; made on its loop.

    `shutting_down` is set before the scheduler is ended, so that it is not ready from then on.
    """

    def __init__(self, scheduler: Scheduler, context: ProcessContext = ALONE) -> None:
        self.shutting_down = False
        self._loop = MainLoop()
        self._leadership = leadership = context.leadership
        self._process = context.process
        self._scheduler = scheduler
        perf = scheduler.clock.perf
        self._pages, self._pods = KeptAnswers(perf, METRICS_SHARE), KeptAnswers(perf, RESOURCES_SHARE)
        self._shown = KeptAnswers(perf, PLUGINS_SHARE)
        self._debug = DebugEndpoints(scheduler, self._loop)
        self._routes = PluginRoutes(scheduler.profiles.values(), scheduler_routes(scheduler), SERVICES)
        self._explain = ExplainEndpoint(scheduler, self._loop)
        self._configz: Response | None = None
        ping = {"ping": lambda: ""}
        elected = {} if leadership is None else {"leaderElection": leadership.health}
        ready = {**elected, "shutdown": self._goes_on, "sched-handler-sync": self._handlers_synced}
        self._health = Health({"healthz": elected or ping, "livez": {**ping, **context.liveness}, "readyz": ready})

    async def answer(self, request: HttpRequest) -> Response:
        """Answer a request, if need be after asking the cluster."""
        health = self._health.get(request.path, request.query)
        if health is not None:
            return health
        try:
            return await self._answer(request)
        except MainLoopBusyError:
            return DOES_NOT_ANSWER

    async def _answer(self, request: HttpRequest) -> Response:
        path, deleted = request.path, request.method == "DELETE"
        if path == METRICS_PATH:
            return await (self._reset() if deleted else self._pages.answer(path, self._metrics))
        if path == SLIS_PATH:
            return self._slis(deleted)
        if path == RESOURCES_PATH:
            return await self._pods.answer((path, self._leads), self._resources)
        if path == CONFIGZ_PATH:
            return self._configuration()
        if self._explain.concerns(request):
            return await self._explain.answer(request, leading=self._leads)
        if path.startswith(APIS_PATH):
            return await self._shown.answer((request.uri, request.method == "GET", self._leads), partial(self._of_plugins, request))
        return await self._debug.answer(request) if path.startswith(DEBUG_PATH) else NOT_FOUND

    @property
    def _leads(self) -> bool:
        return self._leadership is None or self._leadership.leading

    async def _metrics(self, work: Slices) -> Response:
        metrics = self._scheduler.metrics
        collectors = [*metrics.collectors, *(() if self._process is None else self._process.collectors)]
        return Response(200, METRICS, await metrics_page(collectors, metrics.rules, self._loop, work))

    async def _reset(self) -> Response:
        await self._loop.call(self._scheduler.metrics.reset)
        self._pages.forget()
        return METRICS_RESET

    async def _resources(self, work: Slices) -> Response:
        """Return what pods request; nothing of it while another scheduler leads, which says it."""
        if not self._leads:
            return Response(200, METRICS, b"")
        pods = await self._loop.call(lambda: list(self._scheduler.pods.values()))
        with work:
            return Response(200, METRICS, await resource_metrics(pods, work))

    async def _of_plugins(self, request: HttpRequest, work: Slices) -> Response:
        def answer() -> Response:
            with work:
                return self._routes.answer(request, leading=self._leads)

        return await self._loop.call(answer)

    def _configuration(self) -> Response:
        if self._configz is None:  # it does not change
            self._configz = Response(200, JSON, msgspec.json.encode({"componentconfig": configz(self._scheduler.config)}))
        return self._configz

    def _slis(self, deleted: bool) -> Response:
        if deleted:
            self._health.reset()
            return METRICS_RESET
        return self._health.slis()

    def _goes_on(self) -> str:
        return "process is shutting down" if self.shutting_down else ""

    def _handlers_synced(self) -> str:
        waiting = self._scheduler.unsynced
        return f"handlers are not fully synchronized: {', '.join(waiting)}" if waiting else ""
