"""The dashboard and the alert rules ask for metrics, labels and values that are exported.

Each expression is parsed, and held against what a scheduler and its process export that have seen something of everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import promql_parser
import pytest
import yaml

from koordsched.api.kinds import DEVICE, ELASTIC_QUOTA, NODE, NODE_METRIC, POD, RESERVATION
from koordsched.cluster.apiserver.traffic import Traffic
from koordsched.config import default_config
from koordsched.config.flag_table import Flags
from koordsched.embedded.cluster import EmbeddedCluster, EmbeddedOptions, run_embedded
from koordsched.metrics import Family
from koordsched.plugins.deviceshare.layouts import device_manifest
from koordsched.server.heartbeat import LAG_BOUNDS, Heartbeat
from koordsched.server.leadership import Leadership
from koordsched.server.process_metrics import ProcessMetrics

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "config" / "monitoring"
SCRAPED = {"job", "pod"}
"""Labels that Prometheus gives to all that it scrapes."""
POSITIVE = (promql_parser.MatchOp.Equal, promql_parser.MatchOp.Re)
PATTERNS = (promql_parser.MatchOp.Re, promql_parser.MatchOp.NotRe)
INTERVAL = "5m"  # for $__rate_interval
AREAS = {
    "queue": "scheduler_pending_pods",
    "latency": "scheduler_scheduling_attempt_duration_seconds",
    "throughput": "scheduler_schedule_attempts_total",
    "plugin time": "scheduler_plugin_execution_duration_seconds",
    "preemption": "scheduler_preemption",
    "loop lag": "koord_scheduler_loop_lag_seconds",
    "drift": "koord_scheduler_cache_drift_total",
    "gangs": "scheduler_waiting_gang_group_number",
    "quotas": "scheduler_elastic_quota_status",
    "reservations": "scheduler_reservation",
    "GPU": "koord_scheduler_devices",
}


class Exported(NamedTuple):
    """A metric by one of its names. values: of each label those that were seen."""

    labels: frozenset[str]
    values: Mapping[str, frozenset[str]]


def named(family: Family) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the names of a metric with the labels that each adds."""
    if family.kind == "histogram":
        yield f"{family.name}_bucket", frozenset({"le"})
        yield f"{family.name}_sum", frozenset()
        yield f"{family.name}_count", frozenset()
    else:
        yield family.name, frozenset()


def body(cpu: str, **extended: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, **extended}, "limits": extended}
    return {"schedulerName": "koord-scheduler", "containers": [{"name": "main", "image": "none", "resources": resources}]}


async def see_everything(cluster: EmbeddedCluster) -> list[Family]:
    """Let a scheduler see a bit of everything, and return what it exports."""
    gpus = {"koordinator.sh/gpu-core": "800", "koordinator.sh/gpu-memory-ratio": "800", "nvidia.com/gpu": "8"}  # the Device has two
    room = {"cpu": "8", "memory": "16Gi", "pods": "110", **gpus}
    await cluster.create(NODE, {"metadata": {"name": "n"}, "status": {"allocatable": room, "capacity": room}})
    await cluster.create(DEVICE, device_manifest("n", gpus="2", nics="1", fpgas="1"))
    await cluster.create(NODE_METRIC, {"metadata": {"name": "n"}, "spec": {}})
    quota = {"min": {"cpu": "2"}, "max": {"cpu": "4"}}
    await cluster.create(ELASTIC_QUOTA, {"metadata": {"name": "team", "namespace": "default"}, "spec": quota})
    owners = [{"labelSelector": {"matchLabels": {"app": "x"}}}]
    await cluster.create(RESERVATION, {"metadata": {"name": "kept"}, "spec": {"owners": owners, "template": {"spec": body("1")}}})
    await cluster.start()
    labels = {"quota.scheduling.koordinator.sh/name": "team"}
    mistaken = {"internal.scheduling.koordinator.sh/scheduling-hint": "{"}
    for name, spec, metadata in (
        ("bound", body("1"), {"labels": labels}),
        ("refused", body("1", **{"nvidia.com/gpu": "8"}), {}),
        ("failed", body("1"), {"annotations": mistaken}),
    ):
        await cluster.create(POD, {"metadata": {"name": name, "namespace": "default", **metadata}, "spec": spec})
    await cluster.sleep(5)
    metrics = cluster.scheduler.metrics
    metrics.framework.preemption.evicted("error", 0.1)
    metrics.check_failed()
    return [family for collector in metrics.collectors for family in collector.collect()]


def of_process() -> list[Family]:
    """Return what the process exports around the scheduler."""
    metrics, traffic = ProcessMetrics(), Traffic(host="api")
    metrics.watch(traffic)
    for code in ("200", "429", "503"):
        traffic.answered("GET", code, 0.01)
    metrics.watch_loop(cast("Heartbeat", SimpleNamespace(lags=[0] * (len(LAG_BOUNDS) + 1), lag_sum=0.0)))
    metrics.watch_leadership(cast("Leadership", SimpleNamespace(name=Leadership.name, leading=True)))
    return [family for collector in metrics.collectors for family in collector.collect()]


@cache
def exported() -> Mapping[str, Exported]:
    families = run_embedded(EmbeddedOptions(config=default_config(), flags=Flags()), see_everything) + of_process()
    found = {}
    for family in families:
        values = {label: frozenset(sample[0][place] for sample in family.samples) for place, label in enumerate(family.labels)}
        for name, added in named(family):
            found[name] = Exported(frozenset(family.labels) | added, values)
    return found


def panels() -> Iterator[tuple[str, str]]:
    """Yield the dashboard's expressions with where they stand."""
    dashboard = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"].replace("$__rate_interval", INTERVAL)


def rules() -> list[dict[str, Any]]:
    rule = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text(encoding="utf-8"))
    return [rule for group in rule["spec"]["groups"] for rule in group["rules"]]


def expressions() -> list[tuple[str, str]]:
    return [*panels(), *((f"alert {rule['alert']}", rule["expr"]) for rule in rules())]


def nodes(expression: str) -> list[promql_parser.Expr]:
    """Return the parts of an expression; ValueError when it is none."""
    found: list[promql_parser.Expr] = []
    promql_parser.walk(promql_parser.parse(expression), found.append)
    return found


def selectors(expression: str) -> Iterator[promql_parser.VectorSelector]:
    for node in nodes(expression):
        if isinstance(node, promql_parser.VectorSelector):
            yield node


def wrong_with(expression: str) -> Iterator[str]:
    """Yield what the expression asks for and is not exported."""
    metrics = exported()
    labels = set(SCRAPED)
    for selector in selectors(expression):
        name = selector.name or ""
        metric = metrics.get(name)
        if metric is None:
            yield f"no metric {name}"
            continue
        labels |= metric.labels
        for matcher in selector.matchers.matchers:
            yield from wrong_with_matcher(name, metric, matcher)
    for label in grouped_by(expression):
        if label not in labels:
            yield f"no label {label} to group by"


def wrong_with_matcher(name: str, metric: Exported, matcher: promql_parser.Matcher) -> Iterator[str]:
    if matcher.name in SCRAPED or matcher.value.startswith("$"):
        if matcher.name not in metric.labels | SCRAPED:
            yield f"{name} has no label {matcher.name}"
        return
    if matcher.name not in metric.labels:
        yield f"{name} has no label {matcher.name}"
        return
    seen = metric.values[matcher.name]
    wanted = re.compile(matcher.value if matcher.op in PATTERNS else re.escape(matcher.value))
    if matcher.op in POSITIVE and not any(wanted.fullmatch(value) for value in seen):
        yield f"{name} was not seen with {matcher}, but with {sorted(seen)}"


def grouped_by(expression: str) -> Sequence[str]:
    """Return the labels in `by (...)` and `on (...)`."""
    return [label.strip() for listed in re.findall(r"\b(?:by|on) ?\(([^)]*)\)", expression) for label in listed.split(",") if label.strip()]


@pytest.mark.parametrize(("where", "expression"), [pytest.param(*each, id=f"{each[0]}-{n}") for n, each in enumerate(expressions())])
def test_what_is_asked_for_is_exported(where: str, expression: str) -> None:
    assert list(wrong_with(expression)) == []
    assert list(selectors(expression)), "it asks for nothing"


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("rate(scheduler_schedule_attempts[5m])", ["no metric scheduler_schedule_attempts"]),
        ('scheduler_pending_pods{queues="active"}', ["scheduler_pending_pods has no label queues"]),
        ("sum by (node) (scheduler_pending_pods)", ["no label node to group by"]),
        ("scheduler_loop_lag_seconds", ["no metric scheduler_loop_lag_seconds"]),
    ],
)
def test_a_mistake_is_found(expression: str, wrong: list[str]) -> None:
    assert list(wrong_with(expression)) == wrong


def test_a_value_that_is_never_exported_is_found() -> None:
    (found,) = wrong_with('scheduler_pending_pods{queue="activ"}')
    assert found.startswith('scheduler_pending_pods was not seen with queue="activ", but with [')
    with pytest.raises(ValueError, match="unclosed left parenthesis"):
        nodes("sum(rate(x[5m])")


@pytest.mark.parametrize("area", AREAS)
def test_each_area_has_a_panel_and_an_alert(area: str) -> None:
    for texts in ([expression for _, expression in panels()], [rule["expr"] for rule in rules()]):
        assert any(AREAS[area] in text for text in texts)


def test_every_alert_says_what_is_wrong_and_is_explained() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| Koord")]
    explained = {name for row in rows for name in re.findall(r"KoordScheduler\w+", row)}
    assert explained == {rule["alert"] for rule in rules()}
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}, rule["alert"]
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
            assert label in grouped_by(rule["expr"]), f"{rule['alert']} names {label}, by which it does not group"


def test_legends_name_labels_that_the_expression_keeps() -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            kept = {*grouped_by(target["expr"]), *SCRAPED}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_panels_do_not_overlap() -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in dashboard["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
