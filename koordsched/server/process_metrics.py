"""Metrics of the process and of its connection, beside those of what it runs (framework.md §12): process_cpu_seconds_total,
process_resident_memory_bytes and their kin, which build this is and which features are on, and what the API server was asked for. Read when
they are collected."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

from koordsched import __version__, tasks
from koordsched.clock import RealClock
from koordsched.cluster.apiserver.traffic import SECONDS
from koordsched.config.features import ALL_ALPHA, ALL_BETA, ALPHA, BETA, DEFAULT_GATES, DEPRECATED, FeatureGates
from koordsched.metrics import BucketCounts, Collector, CounterFunction, Family, Registry, text_of
from koordsched.server.heartbeat import LAG_BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koordsched.clock import Clock
    from koordsched.cluster.apiserver import Traffic
    from koordsched.metrics import MetricRules
    from koordsched.server.connections import Connections
    from koordsched.server.heartbeat import Heartbeat
    from koordsched.server.leadership import Leadership
    from koordsched.server.main_loop import MainLoop
    from koordsched.slices import Slices

WALL_CLOCK = RealClock()
BUILD = {
    "major": __version__.split(".")[0],
    "minor": __version__.split(".")[1],
    "git_version": f"v{__version__}",
    "git_commit": "",
    "git_tree_state": "",
    "build_date": "",
    "go_version": "",
    "compiler": platform.python_implementation(),
    "platform": f"{sys.platform}/{platform.machine()}",
}
"""The labels that component-base gives a build; what only a Go program has is empty."""


class ProcessMetrics:
    """The metrics of a process; those of a part are added by `watch_...` when the part exists."""

    def __init__(self, gates: FeatureGates = DEFAULT_GATES, clock: Clock = WALL_CLOCK) -> None:
        self.collectors: Registry = []
        OwnProcess(self.collectors, "process", "This process.")
        Build(self.collectors, "kubernetes_build_info", "1, and as labels which build this is.", BUILD)
        Features(self.collectors, gates)
        name = "koord_scheduler_metrics_collected_timestamp_seconds"
        CollectionTime(self.collectors, name, "When this page was made, in seconds since 1970: one may answer several scrapes.", clock)
        BackgroundTasks(self.collectors, "koord_scheduler_task", "Tasks in the background.", ["task"])
        self._ports: list[Connections] = []
        ConnectionCounts(self.collectors, self._ports)

    def watch(self, traffic: Traffic) -> None:
        """Collect what is sent over a connection, too."""
        ApiTraffic(self.collectors, traffic)
        CounterFunction(
            self.collectors,
            "koord_scheduler_unreadable_objects_total",
            "Objects in lists and events that could not be read and were left out.",
            lambda: traffic.unreadable,
            "kind",
        )
        RestClient(self.collectors, traffic)

    def watch_loop(self, heartbeat: Heartbeat) -> None:
        """Collect how late the main loop is, too."""
        LoopLag(self.collectors, heartbeat)

    def watch_leadership(self, leadership: Leadership) -> None:
        """Collect whether this process leads, too."""
        MasterStatus(self.collectors, leadership)

    def watch_connections(self, connections: Connections) -> None:
        """Collect the connections of a port, too."""
        self._ports.append(connections)


class OwnProcess(Collector):
    """What /proc says of this process; nothing on systems without it."""

    def collect(self) -> Iterable[Family]:
        from prometheus_client import ProcessCollector  # noqa: PLC0415  # see koordsched.metrics.exposition

        for metric in ProcessCollector(registry=None).collect():
            value = metric.samples[0].value
            if metric.type == "counter":
                yield Family(f"{metric.name}_total", metric.documentation, "counter", [((), value)])
            else:
                yield Family(metric.name, metric.documentation, "gauge", [((), value)])


class Build(Collector):
    """kubernetes_build_info."""

    def __init__(self, registry: Registry, name: str, help: str, labels: Mapping[str, str]) -> None:  # noqa: A002
        super().__init__(registry, name, help, list(labels))
        self._values = tuple(labels.values())

    def collect(self) -> Iterable[Family]:
        yield Family(self.name, self.help, "gauge", [(self._values, 1)], self.labels)


STAGES = {"ALPHA": ALPHA | {ALL_ALPHA}, "BETA": BETA | {ALL_BETA}, "DEPRECATED": DEPRECATED}


class Features(Collector):
    """kubernetes_feature_enabled{name,stage}; a stage is ALPHA, BETA, DEPRECATED or, when it is stable, empty."""

    def __init__(self, registry: Registry, gates: FeatureGates) -> None:
        super().__init__(registry, "kubernetes_feature_enabled", "Whether a feature gate is on.", ["name", "stage"])
        self._gates = gates

    def collect(self) -> Iterable[Family]:
        stages = {gate: stage for stage, gates in STAGES.items() for gate in gates}
        samples = [((name, stages.get(name, "")), float(enabled)) for name, enabled in sorted(self._gates.enabled.items())]
        yield Family(self.name, self.help, "gauge", samples, self.labels)


class CollectionTime(Collector):
    """The time at which a page is made, for who compares it with something else."""

    def __init__(self, registry: Registry, name: str, help: str, clock: Clock) -> None:  # noqa: A002
        super().__init__(registry, name, help)
        self._clock = clock

    def collect(self) -> Iterable[Family]:
        yield Family(self.name, self.help, "gauge", [((), self._clock.now())])


class BackgroundTasks(Collector):
    """koord_scheduler_task_{restarts,failures}_total{task}."""

    def collect(self) -> Iterable[Family]:
        for name, text, counts in (
            ("restarts", "Background tasks that failed and were started again.", tasks.restarts),
            ("failures", "Work in the background that failed and was given up.", tasks.failures),
        ):
            yield Family(f"{self.name}_{name}_total", text, "counter", [((task,), count) for task, count in counts.items()], self.labels)


class LoopLag(Collector):
    """koord_scheduler_loop_lag_seconds: by how much the beats of the main loop were late, ten a second."""

    def __init__(self, registry: Registry, heartbeat: Heartbeat) -> None:
        super().__init__(registry, "koord_scheduler_loop_lag_seconds", "How late the scheduling loop's heartbeats are.")
        self._heartbeat = heartbeat

    def collect(self) -> Iterable[Family]:
        samples = [((), BucketCounts(self._heartbeat.lags.copy(), self._heartbeat.lag_sum))]
        yield Family(self.name, self.help, "histogram", samples, bounds=LAG_BOUNDS)


class ConnectionCounts(Collector):
    """koord_scheduler_port_connections{port,stage} and koord_scheduler_port_connections_closed_total{port,reason}."""

    def __init__(self, registry: Registry, ports: Sequence[Connections]) -> None:
        super().__init__(
            registry, "koord_scheduler_port_connections", "Open connections of a port, by what they wait for.", ["port", "stage"]
        )
        self._ports = ports

    def collect(self) -> Iterable[Family]:
        stages = [((each.port, stage), count) for each in self._ports for stage, count in each.stages().items()]
        yield Family(self.name, self.help, "gauge", stages, self.labels)
        yield Family(
            "koord_scheduler_port_connections_closed_total",
            "Connections that a port has closed or refused, by the limit that they met.",
            "counter",
            [((each.port, reason), count) for each in self._ports for reason, count in each.closed.copy().items()],
            ["port", "reason"],
        )


class MasterStatus(Collector):
    """leader_election_master_status{name}: 1 while this process leads."""

    def __init__(self, registry: Registry, leadership: Leadership) -> None:
        super().__init__(registry, "leader_election_master_status", "Whether this process is the leader: 1, or a standby: 0.", ["name"])
        self._leadership = leadership

    def collect(self) -> Iterable[Family]:
        yield Family(self.name, self.help, "gauge", [((self._leadership.name,), float(self._leadership.leading))], self.labels)


class ApiTraffic(Collector):
    """koord_scheduler_api_{requests,sent_bytes,received_bytes}_total{verb,resource}."""

    def __init__(self, registry: Registry, traffic: Traffic) -> None:
        super().__init__(registry, "koord_scheduler_api", "What the API server was asked for.", ["verb", "resource"])
        self._traffic = traffic

    def collect(self) -> Iterable[Family]:
        for name, text, counts in (
            ("requests", "Requests to the API server.", self._traffic.requests),
            ("sent_bytes", "Bytes of the bodies of these requests.", self._traffic.sent),
            ("received_bytes", "Bytes of the bodies of their answers.", self._traffic.received),
        ):
            yield Family(f"{self.name}_{name}_total", text, "counter", list(counts.items()), self.labels)


class RestClient(Collector):
    """client-go's rest_client_requests_total{code,method,host} and rest_client_request_duration_seconds{verb,host}."""

    def __init__(self, registry: Registry, traffic: Traffic) -> None:
        super().__init__(registry, "rest_client", "Requests to the API server.")
        self._traffic = traffic

    def collect(self) -> Iterable[Family]:
        host = self._traffic.host
        requests = [((code, method, host), count) for (method, code), count in self._traffic.answers.items()]
        yield Family("rest_client_requests_total", "Requests, by answer.", "counter", requests, ["code", "method", "host"])
        seconds = [((verb, host), BucketCounts(tuple(each.counts), each.total)) for verb, each in self._traffic.latency.items()]
        name = "rest_client_request_duration_seconds"
        yield Family(name, "Latency of requests.", "histogram", seconds, ["verb", "host"], SECONDS)


async def metrics_page(collectors: Sequence[Collector], rules: MetricRules, loop: MainLoop, work: Slices) -> bytes:
    """Return what the rules let be seen of these collectors, in Prometheus' text format.

    Values are read on the main loop, text is made of them in the serving thread, both in slices.
    """

    async def collected() -> list[Family]:
        families: list[Family] = []
        with work:
            for collector in collectors:
                families += collector.collect()
                await work.pause()
        return families

    families = await loop.run(collected)
    pieces = []
    with work:
        for family in families:
            pieces.append(text_of([family], rules))
            await work.pause()
    return b"".join(pieces)
