"""Figures beside each other, with ratios to the reference schedulers and to the null binder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from rich.table import Table

from side_by_side.figures import Figures

RATIOS_TO = ("kube-scheduler", "koord-scheduler", "null")
RARE = 0.005
UNKNOWN = "-"


class Row(NamedTuple):
    title: str
    field: str
    digits: int


ROWS = (
    Row("pods/s, whole (start to last bind)", "whole_pods_s", 0),
    Row("pods/s, steady (10 % to 90 %)", "steady_pods_s", 0),
    Row("first bind, s after start", "first_bind_s", 2),
    Row("last bind, s after start", "last_bind_s", 2),
    Row("last event, s after start", "last_event_s", 2),
    Row("algorithm mean, ms", "algorithm_mean_ms", 3),
    Row("algorithm p99, ms", "algorithm_p99_ms", 2),
    Row("scheduler CPU, ms/pod", "scheduler_cpu_ms_pod", 3),
    Row("... from the first bind on, ms/pod", "scheduler_later_cpu_ms_pod", 3),
    Row("... until the first bind, s", "scheduler_start_cpu_s", 2),
    Row("kube-apiserver CPU, ms/pod", "api_server_cpu_ms_pod", 3),
    Row("etcd CPU, ms/pod", "etcd_cpu_ms_pod", 3),
    Row("peak RSS, MiB", "peak_rss_mib", 0),
    Row("API requests/pod", "requests_pod", 2),
    Row("bytes on the wire/pod", "wire_bytes_pod", 0),
    Row("bytes of bodies/pod (own count)", "body_bytes_pod", 0),
    Row("events/pod", "events_pod", 2),
    Row("created to bound p50, ms", "bound_after_p50_ms", 1),
    Row("created to bound p99, ms", "bound_after_p99_ms", 1),
    Row("created to bound max, ms", "bound_after_max_ms", 1),
    Row("the benchmark's own CPU, ms/pod", "bench_cpu_ms_pod", 3),
    Row("cores busy with other programs", "strangers_cores", 2),
)


def ratio(value: float, base: float) -> float:
    """Return value / base; nan when there is no such ratio."""
    return value / base if base else math.nan


def text(value: float, digits: int) -> str:
    return UNKNOWN if math.isnan(value) else f"{value:,.{digits}f}"


def table(title: str, results: Mapping[str, Figures]) -> Table:
    """Show the figures that are known of a competitor, then the requests by kind."""
    shown = Table(title=title, title_justify="left")
    pairs = [(name, base) for base in RATIOS_TO if base in results for name in results if name not in RATIOS_TO]
    shown.add_column("")
    for heading in (*results, *(f"{name}/{base}" for name, base in pairs)):
        shown.add_column(heading, justify="right")
    for row in ROWS:
        values = {name: getattr(figures, row.field) for name, figures in results.items()}
        if not all(map(math.isnan, values.values())):
            ratios = [text(ratio(values[name], values[base]), 2) for name, base in pairs]
            shown.add_row(row.title, *(text(value, row.digits) for value in values.values()), *ratios)
    shown.add_section()
    for kind in sorted({kind for figures in results.values() for kind, count in figures.requests_by_kind_pod.items() if count >= RARE}):
        shown.add_row(f"{kind} /pod", *(text(figures.requests_by_kind_pod.get(kind, 0.0), 2) for figures in results.values()))
    return shown
