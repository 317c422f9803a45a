"""Metrics of the process and of its connection, beside those of the scheduler: process_cpu_seconds_total, process_resident_memory_bytes and
their kin (framework.md §12), and what the API server was asked for. Read when somebody scrapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koordsched.scheduler.measures import Measure, exposition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

    from koordsched.cluster.apiserver import Traffic


class ProcessMetrics:
    """Both, as far as they are there."""

    def __init__(self) -> None:
        self._shown: list[Measure] = []
        OwnProcess(self._shown, "process", "This process.")

    def watch(self, traffic: Traffic) -> None:
        """Show what is sent over a connection, too."""
        Requests(self._shown, traffic)

    def text(self) -> bytes:
        """Return them in Prometheus' text format."""
        return exposition(self._shown)


class OwnProcess(Measure):
    """What /proc says of this process; nothing on systems without it."""

    def collect(self) -> Iterable[Metric]:
        from prometheus_client import ProcessCollector  # noqa: PLC0415  # see measures' docstring

        return ProcessCollector(registry=None).collect()


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
