"""Metrics beside the scheduler's: the build, its features, and the client of the API server, by component-base's and client-go's names."""

from __future__ import annotations

from koordsched import __version__
from koordsched.cluster.apiserver.traffic import Traffic
from koordsched.config.flags import parse_flags
from koordsched.metrics import exposition
from koordsched.server.process_metrics import ProcessMetrics


def lines_of(metrics: ProcessMetrics) -> list[str]:
    return exposition(metrics.collectors).decode().splitlines()


def test_the_build_is_named() -> None:
    build = next(line for line in lines_of(ProcessMetrics()) if line.startswith("kubernetes_build_info{"))
    assert f'git_version="v{__version__}"' in build
    assert build.endswith("} 1.0")


def test_features_are_shown_with_their_stage_and_whether_they_are_on() -> None:
    gates = parse_flags(["--feature-gates=SchedulerPopFromBackoffQ=false,GangScheduling=true,GenericWorkload=true"]).gates
    lines = lines_of(ProcessMetrics(gates))
    assert 'kubernetes_feature_enabled{name="SchedulerPopFromBackoffQ",stage="BETA"} 0.0' in lines
    assert 'kubernetes_feature_enabled{name="GangScheduling",stage="ALPHA"} 1.0' in lines
    assert 'kubernetes_feature_enabled{name="SchedulerQueueingHints",stage=""} 1.0' in lines
    assert 'kubernetes_feature_enabled{name="AllAlpha",stage="ALPHA"} 0.0' in lines


def test_requests_are_shown_by_code_and_their_latency_by_verb() -> None:
    traffic, metrics = Traffic(host="api:6443"), ProcessMetrics()
    metrics.watch(traffic)
    traffic.answered("POST", "201", 0.005)
    traffic.answered("POST", "201", 0.2)
    traffic.answered("POST", "<error>", 61.0)
    traffic.answered("GET", "200", 0.001)
    lines = lines_of(metrics)
    assert 'rest_client_requests_total{code="201",host="api:6443",method="POST"} 2.0' in lines
    assert 'rest_client_requests_total{code="<error>",host="api:6443",method="POST"} 1.0' in lines
    buckets = [line for line in lines if line.startswith("rest_client_request_duration_seconds_bucket") and 'verb="POST"' in line]
    assert [float(line.split()[-1]) for line in buckets] == [1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]
    bounds = [line.split('le="')[1].split('"')[0] for line in buckets]
    assert bounds == ["0.005", "0.025", "0.1", "0.25", "0.5", "1", "2", "4", "8", "15", "30", "60", "+Inf"], "as client-go writes them"
