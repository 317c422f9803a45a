"""Metrics of the process and of its connection, beside those of the scheduler (framework.md §12): process_cpu_seconds_total,
process_resident_memory_bytes and their kin, which build this is and which features are on, and what the API server was asked for. Read when
somebody scrapes."""

from __future__ import annotations

import platform
import sys
from itertools import accumulate
from typing import TYPE_CHECKING

from koordsched import __version__, tasks
from koordsched.cluster.apiserver.traffic import SECONDS
from koordsched.config.features import ALL_ALPHA, ALL_BETA, ALPHA, BETA, DEFAULT_GATES, DEPRECATED, FeatureGates
from koordsched.scheduler.measures import Counts, Measure
from koordsched.server.heartbeat import LAG_BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from koordsched.cluster.apiserver import Traffic
    from koordsched.server.connections import Connections
    from koordsched.server.heartbeat import Heartbeat
    from koordsched.server.leadership import Leadership


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
    """All of them, as far as they are there."""

    def __init__(self, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._shown: list[Measure] = []
        OwnProcess(self._shown, "process", "This process.")
        Build(self._shown, "kubernetes_build_info", "1, and as labels which build this is.", BUILD)
        Features(self._shown, gates)
        BackgroundWork(self._shown, "koord_scheduler_task", "Work in the background.", ["task"])
        self._ports: list[Connections] = []
        PortConnections(self._shown, self._ports)

    def watch(self, traffic: Traffic) -> None:
        """Show what is sent over a connection, too."""
        Requests(self._shown, traffic)
        Counts(
            self._shown,
            "koord_scheduler_unreadable_objects_total",
            "Objects in lists and events that could not be read and were left out.",
            ("kind", lambda: traffic.unreadable),
        )
        RestClient(self._shown, traffic)

    def watch_loop(self, heartbeat: Heartbeat) -> None:
        """Show how late the scheduling loop is, too."""
        LoopLag(self._shown, heartbeat)

    def watch_leadership(self, leadership: Leadership) -> None:
        """Show whether this process leads, too."""
        MasterStatus(self._shown, leadership)

    def watch_connections(self, connections: Connections) -> None:
        """Show the connections of a port, too."""
        self._ports.append(connections)

    @property
    def measures(self) -> Sequence[Measure]:
        """Return all that is measured by now."""
        return self._shown


class OwnProcess(Measure):
    """What /proc says of this process; nothing on systems without it."""

    def collect(self) -> Iterable[Metric]:
        from prometheus_client import ProcessCollector  # noqa: PLC0415  # see measures' docstring

        return ProcessCollector(registry=None).collect()


class Build(Measure):
    """kubernetes_build_info."""

    def __init__(self, shown: list[Measure], name: str, text: str, labels: Mapping[str, str]) -> None:
        super().__init__(shown, name, text, list(labels))
        self._values = list(labels.values())

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415  # see measures' docstring

        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        family.add_metric(self._values, 1)
        yield family


class Features(Measure):
    """kubernetes_feature_enabled{name,stage}; a stage is ALPHA, BETA, DEPRECATED or, when it is stable, empty."""

    def __init__(self, shown: list[Measure], gates: FeatureGates) -> None:
        super().__init__(shown, "kubernetes_feature_enabled", "Whether a feature gate is on.", ["name", "stage"])
        self._gates = gates

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        for name, enabled in sorted(self._gates.enabled.items()):
            family.add_metric([name, _stage(name)], float(enabled))
        yield family


class BackgroundWork(Measure):
    """koord_scheduler_task_{restarts,failures}_total{task}."""

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415

        for name, text, counts in (
            ("restarts", "Background tasks that failed and were started again.", tasks.restarts),
            ("failures", "Work in the background that failed and was given up.", tasks.failures),
        ):
            family = CounterMetricFamily(f"{self.name}_{name}", text, labels=self.labels)
            for task, count in counts.copy().items():
                family.add_metric([task], count)
            yield family


class LoopLag(Measure):
    """koord_scheduler_loop_lag_seconds: by how much the beats of the scheduling loop were late, ten a second."""

    def __init__(self, shown: list[Measure], heartbeat: Heartbeat) -> None:
        super().__init__(shown, "koord_scheduler_loop_lag_seconds", "How late the scheduling loop's heartbeats are.")
        self._heartbeat = heartbeat

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import HistogramMetricFamily  # noqa: PLC0415

        family = HistogramMetricFamily(self.name, self.text)
        names = [*(str(bound) for bound in LAG_BOUNDS), "+Inf"]
        family.add_metric([], list(zip(names, accumulate(self._heartbeat.lags), strict=True)), self._heartbeat.lag_sum)
        yield family


class PortConnections(Measure):
    """koord_scheduler_port_connections{port,stage} and koord_scheduler_port_connections_closed_total{port,reason}."""

    def __init__(self, shown: list[Measure], ports: Sequence[Connections]) -> None:
        super().__init__(shown, "koord_scheduler_port_connections", "Open connections of a port, by what they wait for.", ["port", "stage"])
        self._ports = ports

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        closed = CounterMetricFamily(
            "koord_scheduler_port_connections_closed_total",
            "Connections that a port has closed or refused, by the limit that they met.",
            labels=["port", "reason"],
        )
        for connections in self._ports:
            for stage, count in connections.stages().items():
                family.add_metric([connections.port, stage], count)
            for reason, count in connections.closed.copy().items():
                closed.add_metric([connections.port, reason], count)
        yield family
        yield closed


class MasterStatus(Measure):
    """leader_election_master_status{name}: 1 while this process leads."""

    def __init__(self, shown: list[Measure], leadership: Leadership) -> None:
        super().__init__(shown, "leader_election_master_status", "Whether this process is the leader: 1, or a standby: 0.", ["name"])
        self._leadership = leadership

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

        family = GaugeMetricFamily(self.name, self.text, labels=self.labels)
        family.add_metric([self._leadership.name], float(self._leadership.leading))
        yield family


def _stage(gate: str) -> str:
    stages = {"ALPHA": ALPHA | {ALL_ALPHA}, "BETA": BETA | {ALL_BETA}, "DEPRECATED": DEPRECATED}
    return next((stage for stage, gates in stages.items() if gate in gates), "")


class Requests(Measure):
    """koord_scheduler_api_{requests,sent_bytes,received_bytes}_total{verb,resource}."""

    def __init__(self, shown: list[Measure], traffic: Traffic) -> None:
        super().__init__(shown, "koord_scheduler_api", "What the API server was asked for.", ["verb", "resource"])
        self._traffic = traffic

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415  # see measures' docstring

        for name, text, counts in (
            ("requests", "Requests to the API server.", self._traffic.requests),
            ("sent_bytes", "Bytes of the bodies of these requests.", self._traffic.sent),
            ("received_bytes", "Bytes of the bodies of their answers.", self._traffic.received),
        ):
            family = CounterMetricFamily(f"{self.name}_{name}", text, labels=self.labels)
            for labels, count in counts.items():
                family.add_metric(labels, count)
            yield family


class RestClient(Measure):
    """client-go's rest_client_requests_total{code,method,host} and rest_client_request_duration_seconds{verb,host}."""

    def __init__(self, shown: list[Measure], traffic: Traffic) -> None:
        super().__init__(shown, "rest_client", "Requests to the API server.")
        self._traffic = traffic

    def collect(self) -> Iterable[Metric]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily  # noqa: PLC0415

        host = self._traffic.host
        requests = CounterMetricFamily("rest_client_requests_total", "Requests, by answer.", labels=["code", "method", "host"])
        for (method, code), count in self._traffic.answers.items():
            requests.add_metric([code, method, host], count)
        yield requests
        seconds = HistogramMetricFamily("rest_client_request_duration_seconds", "Latency of requests.", labels=["verb", "host"])
        names = [*(str(bound) for bound in SECONDS), "+Inf"]
        for verb, latency in self._traffic.latency.items():
            seconds.add_metric([verb, host], list(zip(names, accumulate(latency.counts), strict=True)), latency.total)
        yield seconds
