"""The spans of pods, as a collector receives them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.collector import Collector, assert_nested, collecting, names
from support.traced import TracedCluster, run_traced

from koordsched.api.kinds import NODE, POD
from koordsched.api.meta import Object
from koordsched.clock import RealClock
from koordsched.cluster.port import Binding
from koordsched.framework.tracing import UNDER_WAY
from koordsched.serve import tracing as serve_tracing

GANG, MIN_AVAILABLE = "gang.scheduling.koordinator.sh/name", "gang.scheduling.koordinator.sh/min-available"
IN_THE_SCHEDULING_CYCLE = ["RunPreFilterPlugins", "RunFilterPlugins", "RunReservePluginsReserve", "RunPermitPlugins"]
IN_THE_BINDING_CYCLE = ["RunPreBindPreFlights", "RunBindPlugins", "RunPostBindPlugins"]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*serve_tracing.ENDPOINTS, *serve_tracing.PROTOCOLS, "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def every_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.scheduler.tracing.LEAST_PLUGIN_SECONDS", 0.0)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.url)
        yield found


def pod(name: str, cpu: str = "1", annotations: dict[str, str] | None = None, **container: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}, **container}]
    metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"schedulerName": "koord-scheduler", "containers": containers}}


async def submit(cluster: TracedCluster, *pods: dict[str, Any], cpu: str = "4") -> None:
    """Submit pods to a cluster of one node, and wait until the scheduler has nothing to do."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "99"}},
    }
    await cluster.create(NODE, node)
    await cluster.settle()
    for each in pods:
        await cluster.create(POD, each)
    await cluster.settle()


def schedule(*pods: dict[str, Any], cpu: str = "4") -> None:
    async def script(cluster: TracedCluster) -> None:
        await submit(cluster, *pods, cpu=cpu)

    run_traced(script)


def test_a_pods_way_is_a_trace(collector: Collector, every_plugin: None) -> None:
    uids: list[str] = []

    async def script(cluster: TracedCluster) -> None:
        await submit(cluster, pod("a"))
        found = await cluster.cluster.list(POD)
        uids.extend(each.metadata.uid for each in found.items if isinstance(each, Object))

    run_traced(script)
    (root,) = collector.roots()["a"]
    assert root.attributes == {
        "k8s.namespace.name": "default",
        "k8s.pod.name": "a",
        "k8s.pod.uid": uids[0],
        "k8s.node.name": "n1",
        "scheduler.profile": "koord-scheduler",
        "scheduler.attempt": 1,
        "scheduler.result": "scheduled",
    }
    assert names(collector.below(root)) == ["SchedulingQueue", "schedulingCycle", "bindingCycle"]
    scheduling, binding = collector.child(root, "schedulingCycle"), collector.child(root, "bindingCycle")
    assert [name for name in names(collector.below(scheduling)) if name.startswith("Run")] == IN_THE_SCHEDULING_CYCLE
    assert names(collector.below(binding)) == IN_THE_BINDING_CYCLE
    filtering = collector.child(scheduling, "RunFilterPlugins")
    assert {"NodeResourcesFit", "TaintToleration", "LoadAwareScheduling"} <= set(names(collector.below(filtering)))
    fit = collector.child(filtering, "NodeResourcesFit")
    assert fit.attributes == {"scheduler.plugin": "NodeResourcesFit", "scheduler.extension_point": "Filter", "scheduler.status": "Success"}
    assert names(collector.below(collector.child(binding, "RunBindPlugins"))) == ["DefaultBinder"]
    assert {span.resource["service.name"] for span in collector.spans} == {"koord-scheduler"}
    assert_nested(collector)


def test_a_refused_pod_says_why(collector: Collector) -> None:
    schedule(pod("big", "10"))
    (root,) = collector.roots()["big"]
    assert root.attributes["scheduler.result"] == "unschedulable"
    assert root.attributes["scheduler.reason"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert "k8s.node.name" not in root.attributes
    assert root.status != 2, "a refusal is no error"
    scheduling = collector.child(root, "schedulingCycle")
    assert names(collector.below(root)) == ["SchedulingQueue", "schedulingCycle"]
    fit = collector.child(collector.child(scheduling, "RunFilterPlugins"), "NodeResourcesFit")
    assert fit.attributes["scheduler.reason"] == "Insufficient cpu"
    preempting = collector.child(scheduling, "RunPostFilterPlugins")
    assert preempting.attributes["scheduler.status"] == "Unschedulable"
    assert "Coscheduling" in names(collector.below(preempting))
    assert_nested(collector)


def test_a_plugin_that_is_quick_and_has_nothing_to_object_has_no_span(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("koordsched.scheduler.tracing.LEAST_PLUGIN_SECONDS", 3600.0)
    schedule(pod("a"), pod("big", "10"))
    of_plugins = [span for span in collector.spans if "scheduler.extension_point" in span.attributes]
    assert {span.attributes["scheduler.status"] for span in of_plugins} == {"Unschedulable", "UnschedulableAndUnresolvable"}
    assert "NodeResourcesFit" in names(of_plugins)


def test_each_attempt_is_a_trace_of_its_own(collector: Collector) -> None:
    async def script(cluster: TracedCluster) -> None:
        await submit(cluster, pod("big", "10"))
        await cluster.sleep(5)
        node = {"kind": "Node", "metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "16", "memory": "8Gi", "pods": "10"}}}
        await cluster.create(NODE, {"apiVersion": "v1", **node})
        await cluster.sleep(30)

    run_traced(script)
    refused, *_, bound = collector.roots()["big"]
    assert (refused.attributes["scheduler.attempt"], refused.attributes["scheduler.result"]) == (1, "unschedulable")
    assert (bound.attributes["scheduler.result"], bound.attributes["k8s.node.name"]) == ("scheduled", "n2")
    assert bound.attributes["scheduler.attempt"] > 1
    assert refused.trace != bound.trace
    queued = collector.child(bound, "SchedulingQueue")
    assert queued.ended - queued.started >= 4_900_000_000, "it waited for the node, in virtual time"


def test_the_members_of_a_gang_are_one_trace(collector: Collector) -> None:
    gang = {GANG: "g", MIN_AVAILABLE: "3"}
    schedule(*(pod(name, annotations=gang) for name in ("g0", "g1", "g2")))
    roots = {name: root for name, (root,) in collector.roots().items()}
    (popped,) = [root for root in roots.values() if not root.parent]
    members = [root for root in roots.values() if root.parent]
    assert {root.parent for root in members} == {popped.id}
    assert len(members) == 2
    for root in roots.values():
        assert root.trace == popped.trace
        assert (root.attributes["scheduler.result"], root.attributes["k8s.node.name"]) == ("scheduled", "n1")
        binding = collector.child(root, "bindingCycle")
        assert names(collector.below(binding)) == ["RunPreBindPreFlights", "RunPreBindPlugins", "RunBindPlugins", "RunPostBindPlugins"]
        assert "RunPermitPlugins" in names(collector.below(collector.child(root, "schedulingCycle")))


def test_a_gang_without_room_says_why(collector: Collector) -> None:
    gang = {GANG: "g", MIN_AVAILABLE: "2"}
    schedule(*(pod(name, "3", annotations=gang) for name in ("g0", "g1")))
    ends = [root for spans in collector.roots().values() for root in spans if not root.parent]
    assert ends
    assert all(
        root.attributes["scheduler.result"] == "unschedulable" and "Insufficient cpu" in root.attributes["scheduler.reason"]
        for root in ends
    )


def test_bindings_side_by_side_keep_to_their_traces(collector: Collector) -> None:
    order = []

    async def script(cluster: TracedCluster) -> None:
        second_came, bind = asyncio.Event(), cluster.cluster.bind

        async def slow_bind(binding: Binding) -> None:
            order.append(f"begin {binding.name}")
            if binding.name == "first":
                await second_came.wait()
            else:
                await asyncio.sleep(0)
                second_came.set()
            await bind(binding)
            order.append(f"end {binding.name}")

        cluster.cluster.bind = slow_bind  # type: ignore[method-assign]
        await submit(cluster, pod("first"), pod("second"))

    run_traced(script)
    assert order.index("begin second") < order.index("end first"), "both were being bound at one time"
    for name in ("first", "second"):
        (root,) = collector.roots()[name]
        binding = collector.child(root, "bindingCycle")
        assert names(collector.below(binding)) == IN_THE_BINDING_CYCLE
    assert_nested(collector)
    assert UNDER_WAY.get() is None


def test_a_binding_that_fails_is_an_error(collector: Collector) -> None:
    async def script(cluster: TracedCluster) -> None:
        async def no_bind(binding: Binding) -> None:
            raise RuntimeError("no answer")

        cluster.cluster.bind = no_bind  # type: ignore[method-assign]
        await submit(cluster, pod("a"))

    run_traced(script)
    root, *_ = collector.roots()["a"]
    assert (root.attributes["scheduler.result"], root.status) == ("error", 2)
    assert "no answer" in root.attributes["scheduler.reason"]


def test_spans_hold_nothing_of_a_pod_but_its_name(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret-token")
    schedule(pod("a", annotations={"token": "s3cret-annotation"}, env=[{"name": "PASSWORD", "value": "s3cret-value"}], args=["s3cret-arg"]))
    assert collector.spans
    assert [body for body in collector.bodies if b"s3cret" in body] == []


@pytest.mark.parametrize(("sampler", "argument", "seen"), [("always_off", "", 0), ("traceidratio", "0", 0), ("traceidratio", "1", 5)])
def test_the_sampler_is_that_of_the_environment(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, sampler: str, argument: str, seen: int
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    schedule(*(pod(f"p{number}") for number in range(5)), cpu="64")
    assert sum(not span.parent for span in collector.spans) == seen


def test_a_ratio_is_that_of_trace_ids_so_that_other_components_decide_alike(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    schedule(*(pod(f"p{number}") for number in range(60)), cpu="64")
    traces = {span.trace for span in collector.spans}
    assert 0 < len(traces) < 60
    assert all(int(trace, 16) % 2**64 < 2**63 for trace in traces), "W3C: the last 8 bytes of the id decide"


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "TRUE"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_nothing_is_traced_unless_a_collector_is_named(environment: dict[str, str]) -> None:
    with serve_tracing.tracing_of(environment, RealClock()) as tracing:
        assert tracing is None


def test_what_cannot_be_used_costs_the_spans_and_not_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    for protocol in ("http/json", "grpc"):  # one that is not spoken here, and one whose package is not installed
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        with serve_tracing.tracing_of(environment, RealClock()) as tracing:
            assert tracing is None


def test_a_collector_that_does_not_answer_holds_the_end_only_so_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
        monkeypatch.setattr(serve_tracing, "END_SECONDS", 0.01)
        schedule(pod("a"))
        assert "the collector did not take the last spans in time" in capsys.readouterr().out
        for thread in threading.enumerate():
            if thread.name == "last spans":
                thread.join()


def test_a_scheduler_that_traces_nothing_imports_nothing_of_it() -> None:
    code = "import sys, koordsched.serve.command; print([name for name in sys.modules if name.startswith('opentelemetry')])"
    paths = ":".join(path for path in sys.path if path)
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": paths}, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
