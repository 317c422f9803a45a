"""The traces of a scheduler that serves a real control plane, as the collector that its environment names receives them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from support.collector import Collector, assert_nested, collecting, names
from support.controlplane.plane import ControlPlane
from support.live import PODS, create_node, create_pod, message, nodes_of_pods, reason, until
from support.served import TIMEOUT, Ended, command, ended, write_config

NAME = "koord-scheduler-traced"
CONFIGURATION = Path(__file__).parents[2] / "config" / "koord-scheduler-config.yaml"
PROFILE = yaml.safe_load(CONFIGURATION.read_text())["profiles"][0] | {"schedulerName": "default-scheduler"}
QUICKLY = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
IN_THE_SCHEDULING_CYCLE = [
    "RunPreFilterPlugins",
    "RunFilterPlugins",
    "RunPreScorePlugins",
    "RunScorePlugins",
    "RunReservePluginsReserve",
    "RunPermitPlugins",
]
IN_THE_BINDING_CYCLE = ["RunPreBindPreFlights", "RunBindPlugins", "RunPostBindPlugins"]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


def create_two_pods(plane: ControlPlane) -> None:
    """Create one pod that is bound, to one of two nodes, and then one that is refused."""
    rest = plane.rest()
    for name in ("n1", "n2"):
        create_node(rest, name, "2")
    create_pod(rest, "bound", "1")
    until(lambda: nodes_of_pods(rest)["bound"])
    create_pod(rest, "refused", "3")
    until(lambda: reason(rest, "refused") == "Unschedulable")


def schedule(plane: ControlPlane, folder: Path, variables: Mapping[str, str]) -> Ended:
    """Let a process with these variables of OpenTelemetry and no others decide about the two pods, and stop it."""
    environment = {**{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}, **variables}
    kubeconfig = plane.kubeconfig().write(folder / "kubeconfig")
    served, line = command("--config", write_config(folder, kubeconfig, profiles=[PROFILE]))
    process = plane.spawn(NAME, line, environment)
    before = len(process.output())  # the log is that of all starts
    process.wait_until(served.ready, TIMEOUT)
    create_two_pods(plane)
    return ended(process.stop(TIMEOUT), process.output()[before:])


def test_the_way_of_a_pod_that_is_bound_is_a_trace_at_the_collector(plane: ControlPlane, tmp_path: Path, collector: Collector) -> None:
    outcome = schedule(plane, tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **QUICKLY})
    assert (outcome.code, outcome.of("error"), outcome.of("warning")) == (0, [], [])
    rest = plane.rest()
    pod = rest.get(f"{PODS}/bound")
    (root,) = collector.roots()["bound"]
    assert (root.name, root.parent) == ("scheduleOne", "")
    assert root.attributes == {
        "k8s.namespace.name": "default",
        "k8s.pod.name": "bound",
        "k8s.pod.uid": pod["metadata"]["uid"],
        "k8s.node.name": pod["spec"]["nodeName"],
        "scheduler.profile": "default-scheduler",
        "scheduler.attempt": 1,
        "scheduler.result": "scheduled",
    }
    assert names(collector.below(root)) == ["SchedulingQueue", "schedulingCycle", "bindingCycle"]
    queued, scheduling, binding = collector.below(root)
    assert queued.started == root.started
    assert queued.ended <= scheduling.started <= scheduling.ended <= binding.started
    assert [name for name in names(collector.below(scheduling)) if name.startswith("Run")] == IN_THE_SCHEDULING_CYCLE
    assert names(collector.below(binding)) == IN_THE_BINDING_CYCLE
    request = collector.child(collector.child(binding, "RunBindPlugins"), "DefaultBinder")
    assert request.attributes == {"scheduler.plugin": "DefaultBinder", "scheduler.extension_point": "Bind", "scheduler.status": "Success"}
    assert_nested(collector)

    (refused,) = collector.roots()["refused"]
    assert refused.trace != root.trace
    assert refused.attributes["scheduler.result"] == "unschedulable"
    assert refused.attributes["scheduler.reason"] == message(rest, "refused")
    assert names(collector.below(refused)) == ["SchedulingQueue", "schedulingCycle"]
    assert {span.resource["service.name"] for span in collector.spans} == {"koord-scheduler"}


@pytest.mark.parametrize(
    ("variables", "traces"),
    [
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, True),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, True),
        ({"OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_TRACES_EXPORTER": "none"}, False),
    ],
    ids=["a share of none", "always off", "disabled", "no exporter"],
)
def test_the_collector_is_sent_nothing_where_no_attempt_is_traced(
    plane: ControlPlane, tmp_path: Path, collector: Collector, variables: dict[str, str], traces: bool
) -> None:
    outcome = schedule(plane, tmp_path, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **QUICKLY, **variables})
    assert (outcome.code, outcome.of("error")) == (0, [])
    assert ("attempts are traced" in outcome.of("info")) == traces
    assert collector.bodies == []
