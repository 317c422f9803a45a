"""What side_by_side makes of a run."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from side_by_side.figures import Figures, competitors_requests, figures, medians, percentile, steady_rate
from side_by_side.race import Moment, Run
from side_by_side.workload import Workload
from support.controlplane.processes import Usage

MIB = 1 << 20
METRICS = """\
# TYPE scheduler_scheduling_algorithm_duration_seconds histogram
scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.001"} 4
scheduler_scheduling_algorithm_duration_seconds_bucket{le="+Inf"} 4
scheduler_scheduling_algorithm_duration_seconds_sum 0.002
# TYPE koord_scheduler_api_sent_bytes counter
koord_scheduler_api_sent_bytes_total{resource="pods",verb="bind"} 100
# TYPE koord_scheduler_api_received_bytes counter
koord_scheduler_api_received_bytes_total{resource="pods",verb="watch"} 300
"""


def used(cpu_seconds: float) -> Usage:
    return Usage(cpu_seconds, 10 * MIB, 20 * MIB)


def a_run(**changed: Any) -> Run:
    """Four pods bound 2, 3, 4 and 6 s after the start."""
    facts: dict[str, Any] = {
        "started": 10.0,
        "seen": {"a": 12.0, "b": 13.0, "c": 14.0, "d": 16.0},
        "sent": {},
        "settled": 18.0,
        "before": Moment({"etcd": used(1.0), "kube-apiserver": used(5.0)}, 1.0, 100.0),
        "at_first_bind": Moment({"scheduler": used(0.5)}, 1.1, 101.0),
        "after": Moment({"etcd": used(1.2), "kube-apiserver": used(5.4), "scheduler": used(0.9)}, 1.3, 105.8),
        "wire": 4000,
        "events": 4,
        "requests": Counter({"POST pods/binding": 4, "POST events": 4, "LIST events": 9}),
        "metrics_before": "",
        "metrics": METRICS,
    }
    return Run(**{**facts, **changed})


def test_rates_and_times_count_from_the_start_of_the_competitor() -> None:
    found = figures(a_run(), Workload(nodes=2, pods=4))
    assert (found.whole_pods_s, found.first_bind_s, found.last_bind_s, found.last_event_s) == (4 / 6, 2.0, 6.0, 8.0)


def test_costs_are_divided_by_the_pods() -> None:
    found = figures(a_run(), Workload(nodes=2, pods=4))
    assert found.scheduler_cpu_ms_pod == pytest.approx(225.0)
    assert found.scheduler_start_cpu_s == pytest.approx(0.5)
    assert found.scheduler_later_cpu_ms_pod == pytest.approx(100.0)
    assert found.api_server_cpu_ms_pod == pytest.approx(100.0)
    assert found.etcd_cpu_ms_pod == pytest.approx(50.0)
    assert (found.peak_rss_mib, found.wire_bytes_pod, found.body_bytes_pod, found.events_pod) == (20.0, 1000.0, 100.0, 1.0)


def test_the_algorithm_s_time_is_what_the_scheduler_says_of_itself() -> None:
    found = figures(a_run(), Workload(nodes=2, pods=4))
    assert found.algorithm_mean_ms == pytest.approx(0.5)
    assert found.algorithm_p99_ms == pytest.approx(0.99)


def test_bytes_of_before_the_pods_arrived_do_not_count() -> None:
    assert figures(a_run(metrics_before=METRICS.replace(" 300", " 220")), Workload(nodes=2, pods=4, rate=1.0)).body_bytes_pod == 20.0


def test_who_has_no_metrics_has_no_such_figures() -> None:
    found = figures(a_run(metrics=""), Workload(nodes=2, pods=4))
    assert math.isnan(found.algorithm_mean_ms)
    assert math.isnan(found.body_bytes_pod)


def test_pods_that_arrive_are_timed_from_their_creation() -> None:
    sent = {"a": 11.0, "b": 12.5, "c": 13.75, "d": 12.0}
    found = figures(a_run(sent=sent), Workload(nodes=2, pods=4, rate=1.0))
    assert (found.bound_after_p50_ms, found.bound_after_p99_ms, found.bound_after_max_ms) == (500.0, 4000.0, 4000.0)
    assert math.isnan(figures(a_run(), Workload(nodes=2, pods=4)).bound_after_p99_ms)


def test_the_benchmark_s_own_requests_are_not_the_competitor_s() -> None:
    assert competitors_requests({"POST pods": 9, "POST pods/binding": 4, "LIST events": 9}) == {"POST pods/binding": 4}
    assert figures(a_run(), Workload(nodes=2, pods=4)).requests_pod == 2.0


def test_cpu_that_no_program_of_the_benchmark_used_was_other_programs() -> None:
    # 5.8 s in 8 s, of which etcd had 0.2 s, the API server 0.4 s, the competitor 0.9 s and the benchmark 0.3 s.
    found = figures(a_run(), Workload(nodes=2, pods=4))
    assert found.strangers_cores == pytest.approx(0.5)
    assert found.bench_cpu_ms_pod == pytest.approx(75.0)


def test_the_steady_rate_leaves_out_the_first_and_the_last_tenth() -> None:
    # Of 21 pods the 3rd is seen at 10 s and the 19th at 18 s; the first comes late and the last two later.
    times = [0.0, 9.5, *(10.0 + 0.5 * number for number in range(17)), 100.0, 200.0]
    assert steady_rate(times) == 2.0


def test_pods_seen_at_one_moment_have_no_rate() -> None:
    assert math.isnan(steady_rate([5.0, 5.0, 5.0]))


def test_a_percentile_is_one_of_the_values() -> None:
    hundred = [float(value) for value in range(100, 0, -1)]
    assert [percentile(hundred, part) for part in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert percentile([3.0], 0.5) == 3.0
    assert math.isnan(percentile([], 0.5))


def test_several_runs_come_to_the_median_of_each_figure() -> None:
    runs = [figures(a_run(settled=settled), Workload(nodes=2, pods=4)) for settled in (18.0, 30.0, 19.0)]
    middle = medians(runs)
    assert isinstance(middle, Figures)
    assert middle.last_event_s == 9.0
    assert middle.requests_by_kind_pod == {"POST pods/binding": 1.0, "POST events": 1.0}
