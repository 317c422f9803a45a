"""How long the parts of the plugin take (elasticquota.md §12)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from koordsched.metrics import exponential

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koordsched.framework.handle import Handle


class QuotaLatencies:
    """How long the parts of the plugin take."""

    def __init__(self, handle: Handle) -> None:
        self._perf = handle.clock.perf
        self._process = handle.metrics.histogram(
            "scheduler_elastic_quota_process_latency",
            "Elastic quota process latency in second",
            ("operation",),
            bounds=exponential(0.00001, 2, 24),
        )
        self._hooks = handle.metrics.histogram(
            "scheduler_elastic_quota_hook_plugin_latency",
            "Elastic quota hook plugin latency in second",
            ("plugin", "operation"),
            bounds=exponential(0.000001, 2, 24),
        )
        self.status_update = handle.metrics.histogram(
            "scheduler_update_elastic_quota_status_duration_seconds",
            "The duration of updating elastic quota status in seconds",
            bounds=exponential(0.001, 2, 15),
        )
        self.pod_added = self._process.child("OnPodAdd").observe
        self.pod_updated = self._process.child("OnPodUpdate").observe
        self.pod_deleted = self._process.child("OnPodDelete").observe

    def observe(self, operation: str, seconds: float) -> None:
        self._process.observe(seconds, operation)

    @contextmanager
    def of_hook(self, key: str, operation: str) -> Iterator[None]:
        started = self._perf()
        try:
            yield
        finally:
            self._hooks.observe(self._perf() - started, key, operation)
