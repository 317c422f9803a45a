"""What a run comes to: rates, times and costs for each pod."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

import msgspec
from support.controlplane.plane import API_SERVER, ETCD
from support.controlplane.processes import Usage

from side_by_side.exposition import ALGORITHM, counter, histogram
from side_by_side.race import SCHEDULER, Moment, Run
from side_by_side.workload import Workload

STEADY = (0.1, 0.9)  # from this part of the pods bound to that
OWN_BYTES = ("koord_scheduler_api_sent_bytes_total", "koord_scheduler_api_received_bytes_total")
NOT_THE_COMPETITORS = ("POST pods", "GET events", "LIST events", "GET /metrics", "PATCH nodemetrics/status")  # this program's own
MILLI, MIB = 1e3, 1 << 20
NOTHING = Usage(0.0, 0, 0)


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One run, or the medians of several; nan: not known of it. Names end in their units; `_pod`: divided by the pods bound."""

    whole_pods_s: float
    steady_pods_s: float
    first_bind_s: float
    last_bind_s: float
    last_event_s: float
    algorithm_mean_ms: float
    algorithm_p99_ms: float
    scheduler_cpu_ms_pod: float
    scheduler_start_cpu_s: float
    scheduler_later_cpu_ms_pod: float
    api_server_cpu_ms_pod: float
    etcd_cpu_ms_pod: float
    peak_rss_mib: float
    requests_pod: float
    wire_bytes_pod: float
    body_bytes_pod: float
    events_pod: float
    bound_after_p50_ms: float
    bound_after_p99_ms: float
    bound_after_max_ms: float
    bench_cpu_ms_pod: float
    strangers_cores: float
    requests_by_kind_pod: dict[str, float]


def figures(run: Run, load: Workload) -> Figures:
    """Compute what a run comes to. All pods of the workload have been bound."""
    times = sorted(run.seen.values())
    pods = len(times)
    algorithm = histogram(run.metrics, ALGORITHM)
    bodies = body_bytes(run.metrics) - body_bytes(run.metrics_before)
    requests = competitors_requests(run.requests)
    waits = [MILLI * (run.seen[name] - sent) for name, sent in run.sent.items()]
    return Figures(
        whole_pods_s=pods / (times[-1] - run.started),
        steady_pods_s=steady_rate(times),
        first_bind_s=times[0] - run.started,
        last_bind_s=times[-1] - run.started,
        last_event_s=run.settled - run.started,
        algorithm_mean_ms=MILLI * algorithm.mean if algorithm else math.nan,
        algorithm_p99_ms=MILLI * algorithm.quantile(0.99) if algorithm else math.nan,
        scheduler_cpu_ms_pod=MILLI * cpu(run.before, run.after, SCHEDULER) / pods,
        scheduler_start_cpu_s=math.nan if load.rate else cpu(run.before, run.at_first_bind, SCHEDULER),
        scheduler_later_cpu_ms_pod=math.nan if load.rate else MILLI * cpu(run.at_first_bind, run.after, SCHEDULER) / pods,
        api_server_cpu_ms_pod=MILLI * cpu(run.before, run.after, API_SERVER) / pods,
        etcd_cpu_ms_pod=MILLI * cpu(run.before, run.after, ETCD) / pods,
        peak_rss_mib=run.after.usage[SCHEDULER].peak_resident_bytes / MIB,
        requests_pod=requests.total() / pods,
        wire_bytes_pod=run.wire / pods,
        body_bytes_pod=bodies / pods if bodies else math.nan,
        events_pod=run.events / pods,
        bound_after_p50_ms=percentile(waits, 0.5),
        bound_after_p99_ms=percentile(waits, 0.99),
        bound_after_max_ms=percentile(waits, 1.0),
        bench_cpu_ms_pod=MILLI * (run.after.bench_seconds - run.before.bench_seconds) / pods,
        strangers_cores=strangers_cores(run),
        requests_by_kind_pod={kind: count / pods for kind, count in requests.most_common()},
    )


def medians(several: Sequence[Figures]) -> Figures:
    """Return figure by figure the median; kinds of requests are the first run's."""
    middle = {name: median(getattr(one, name) for one in several) for name in Figures.__struct_fields__ if name != "requests_by_kind_pod"}
    return Figures(**middle, requests_by_kind_pod=several[0].requests_by_kind_pod)


def steady_rate(times: Sequence[float]) -> float:
    """Return pods a second between 10 % and 90 % of the pods; nan where these are seen at one moment. `times` rise."""
    first, last = (int(part * (len(times) - 1)) for part in STEADY)
    seconds = times[last] - times[first]
    return (last - first) / seconds if seconds else math.nan


def percentile(values: Sequence[float], part: float) -> float:
    """Return the smallest value that is not below this part of all; nan without values."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(part * len(ranked)) - 1)] if ranked else math.nan


def cpu(before: Moment, after: Moment, program: str) -> float:
    """Return the CPU seconds in between; a program that was not there before began at nothing."""
    return after.usage[program].cpu_seconds - before.usage.get(program, NOTHING).cpu_seconds


def body_bytes(metrics: str) -> int:
    """Add up what our scheduler says it has sent and received; 0 where it says nothing of the kind."""
    return sum(counter(metrics, name, str).total() for name in OWN_BYTES)


def strangers_cores(run: Run) -> float:
    """Return how many cores other programs than those of the benchmark kept busy: with more than a few hundredths, mistrust the times."""
    before, after = run.before, run.after
    machine = after.machine_seconds - before.machine_seconds
    known = sum(cpu(before, after, program) for program in after.usage) + after.bench_seconds - before.bench_seconds
    return (machine - known) / (run.settled - run.started)


def competitors_requests(requests: Mapping[str, int]) -> Counter[str]:
    """Leave out what this program itself asks for."""
    return Counter({kind: count for kind, count in requests.items() if kind not in NOT_THE_COMPETITORS})
