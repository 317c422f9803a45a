"""What Koordinator's chart v1.8.0 installs, with our program in the place of theirs: nothing but the image is another one.

Applied to a real control plane, run with the Deployment's arguments, the ConfigMap's file and the account's rights (`support.deployed`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from support.controlplane.accounts import token_of
from support.controlplane.manifests import STRICT, applied, collection, documents
from support.controlplane.plane import ControlPlane
from support.controlplane.rest import Rest
from support.cpu_recount import RESOURCE_STATUS, TOPOLOGIES
from support.deployed import Deployed, RunningPod, of_kind
from support.device_recount import CORE, DEVICE_ALLOCATED, DEVICES, RATIO, WHOLE_GPUS
from support.koordinator_chart import CHANGED, CONFIG_KEY, NAME, ChartValues, config_map, configuration, deployment, objects
from support.live import PODS, message, reason, until
from support.monitoring import DEFINITIONS, defined
from support.served import TIMEOUT

from koordsched.api.koordinator.gang_membership import POD_GROUP_LABEL
from koordsched.api.koordinator.reservation_links import RESERVATION_ALLOCATED
from koordsched.clock import RealClock, rfc3339
from koordsched.plugins.deviceshare.layouts import device_manifest
from koordsched.plugins.nodenumaresource.layouts import CpuLayout, topology_manifest
from koordsched.scenario.live.process import free_port

CONFIG = Path(__file__).parents[2] / "config"
SCHEDULING = "scheduling.koordinator.sh/v1alpha1"
SIGS = "scheduling.sigs.k8s.io/v1alpha1"
QUOTA_NAME = "quota.scheduling.koordinator.sh/name"
HINT = "internal.scheduling.koordinator.sh/scheduling-hint"
HIGH, LOW = "koord-prod", "koord-batch"
VENDOR, MODEL = "node.koordinator.sh/gpu-vendor", "node.koordinator.sh/gpu-model"
LAYOUT = CpuLayout.parse("1x2x4x2")
PER_PLUGIN = "scheduler_plugin_evaluation_total"


def create_node(rest: Rest, name: str, cpu: str, group: str, labels: Mapping[str, str] = {}, **amounts: str) -> None:
    room = {"cpu": cpu, "memory": "64Gi", "pods": "110", **amounts}
    status = {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": name, "labels": {"group": group, **labels}}
    rest.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})


def template(group: str, requests: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    """Return the spec of a pod for the nodes of a group."""
    own = {name: amount for name, amount in requests.items() if "/" in name}  # of extended resources the limits must be equal
    container = {"name": "main", "image": "none", "resources": {"requests": dict(requests), "limits": own}}
    return {"schedulerName": NAME, "containers": [container], "nodeSelector": {"group": group}, "terminationGracePeriodSeconds": 0, **spec}


def create_pod(rest: Rest, name: str, group: str, requests: Mapping[str, str], metadata: Mapping[str, Any] = {}, **spec: Any) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": template(group, requests, **spec)}
    rest.create(PODS, body)


def create_custom(rest: Rest, api: str, kind: str, plural: str, name: str, **fields: Any) -> None:
    """Create a custom resource; those of scheduling.sigs.k8s.io are in the namespace default."""
    namespace = "namespaces/default/" if api == SIGS else ""
    metadata = {"name": name, **fields.pop("metadata", {})}
    rest.create(f"/apis/{api}/{namespace}{plural}", {"apiVersion": api, "kind": kind, "metadata": metadata, **fields})


def pod(rest: Rest, name: str) -> Any:
    return rest.get_or_none(f"{PODS}/{name}") or {"metadata": {}, "spec": {}}


def node_of(rest: Rest, name: str) -> str:
    return str(pod(rest, name)["spec"].get("nodeName", ""))


def noted(rest: Rest, name: str, key: str) -> Any:
    """Return what is noted on a bound pod under the key, decoded; None before it is bound, or without it."""
    found = pod(rest, name)
    text = found["metadata"].get("annotations", {}).get(key)
    return json.loads(text) if text and found["spec"].get("nodeName") else None


class Participation(NamedTuple):
    """What shows that a plugin takes part. given: what there is before the scheduler starts; holds: what must come."""

    plugin: str
    given: Callable[[Rest], None]
    holds: Callable[[Rest], object]


def given_order(rest: Rest) -> None:
    create_node(rest, "order", "1", "order")
    create_pod(rest, "order-low", "order", {"cpu": "1"}, priorityClassName=LOW)
    create_pod(rest, "order-high", "order", {"cpu": "1"}, priorityClassName=HIGH)


def order_holds(rest: Rest) -> bool:
    """See that the high one got the room at once: the low one was never evicted for it."""
    return node_of(rest, "order-high") == "order" and pod(rest, "order-low")["spec"] != {} and not node_of(rest, "order-low")


def given_hint(rest: Rest) -> None:
    create_node(rest, "hint-large", "32", "hint")
    create_node(rest, "hint-small", "2", "hint")
    create_pod(rest, "hinted", "hint", {"cpu": "1"}, {"annotations": {HINT: '{"preferredNodeNames": ["hint-small"]}'}})


def given_gangs(rest: Rest) -> None:
    create_node(rest, "gang", "4", "gang")
    for gang, members in (("whole", 2), ("half", 1)):
        create_custom(rest, SIGS, "PodGroup", "podgroups", gang, spec={"minMember": 2})
        for number in range(members):
            create_pod(rest, f"{gang}-{number}", "gang", {"cpu": "1"}, {"labels": {POD_GROUP_LABEL: gang}})


def gangs_hold(rest: Rest) -> bool:
    whole = all(node_of(rest, f"whole-{number}") for number in range(2))
    return whole and reason(rest, "half-0") == "SchedulingGated" and not node_of(rest, "half-0")


def given_reservation(rest: Rest) -> None:
    create_node(rest, "reserved", "4", "reserved")
    spec = {
        "owners": [{"labelSelector": {"matchLabels": {"app": "owner"}}}],
        "ttl": "1h",
        "allocateOnce": True,
        "template": {"spec": template("reserved", {"cpu": "2"})},
    }
    create_custom(rest, SCHEDULING, "Reservation", "reservations", "kept", spec=spec)


def reservation_holds(rest: Rest) -> bool:
    """See the Reservation Available; then create its owner, and see it own it."""
    status = rest.get(f"/apis/{SCHEDULING}/reservations/kept").get("status", {})
    if status.get("phase") == "Available" and not pod(rest, "owner")["spec"]:
        create_pod(rest, "owner", "reserved", {"cpu": "2"}, {"labels": {"app": "owner"}})
    return (noted(rest, "owner", RESERVATION_ALLOCATED) or {}).get("name") == "kept"


def given_cpus(rest: Rest) -> None:
    create_node(rest, "cpus", str(LAYOUT.cpus), "cpus")
    rest.create(TOPOLOGIES, topology_manifest("cpus", LAYOUT, 64 << 30))
    labels = {"koordinator.sh/qosClass": "LSR"}
    create_pod(rest, "own-cpus", "cpus", {"cpu": "4", "memory": "1Gi"}, {"labels": labels}, priorityClassName=HIGH)


def given_devices(rest: Rest) -> None:
    gpus = {WHOLE_GPUS: "8", CORE: "800", RATIO: "800"}
    create_node(rest, "gpus", "64", "gpus", {}, **gpus)
    rest.create(DEVICES, device_manifest("gpus", gpus="2x2x2"))
    create_pod(rest, "gpu", "gpus", {"cpu": "1", WHOLE_GPUS: "1"})
    create_node(rest, "unshareable", "64", "unshareable", {VENDOR: "huawei", MODEL: "Ascend-310P3-300I-DUO"}, **gpus)
    rest.create(DEVICES, device_manifest("unshareable", gpus="2x2x2"))
    create_pod(rest, "share", "unshareable", {"cpu": "1", CORE: "50", RATIO: "50"})


def devices_hold(rest: Rest) -> bool:
    return len((noted(rest, "gpu", DEVICE_ALLOCATED) or {}).get("gpu", ())) == 1 and "Ascend-310P3-300I-DUO" in message(rest, "share")


def given_quota(rest: Rest) -> None:
    create_node(rest, "quota", "4", "quota")
    create_custom(rest, SIGS, "ElasticQuota", "elasticquotas", "team", spec={"min": {"cpu": "1"}, "max": {"cpu": "1"}})
    for number in range(2):
        create_pod(rest, f"team-{number}", "quota", {"cpu": "1"}, {"labels": {QUOTA_NAME: "team"}})


def quota_holds(rest: Rest) -> bool:
    bound = sum(bool(node_of(rest, f"team-{number}")) for number in range(2))
    return bound == 1 and any("quotaName: team" in message(rest, f"team-{number}") for number in range(2))


def given_load(rest: Rest) -> None:
    create_node(rest, "loaded", "4", "load")
    api, path = "slo.koordinator.sh/v1alpha1", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
    rest.create(path, {"apiVersion": api, "kind": "NodeMetric", "metadata": {"name": "loaded"}, "spec": {}})
    usage = {"nodeUsage": {"resources": {"cpu": "3600m", "memory": "1Gi"}}}
    rest.patch(f"{path}/loaded/status", {"status": {"updateTime": rfc3339(RealClock().now()), "nodeMetric": usage}})
    create_pod(rest, "late", "load", {"cpu": "100m"})


def given_preemption(rest: Rest) -> None:
    create_node(rest, "full", "1", "full")
    create_pod(rest, "victim", "full", {"cpu": "1"}, priorityClassName=LOW)


def preemption_holds(rest: Rest) -> bool:
    if node_of(rest, "victim") and not pod(rest, "preemptor")["spec"]:
        create_pod(rest, "preemptor", "full", {"cpu": "1"}, priorityClassName=HIGH)
    return node_of(rest, "preemptor") == "full" and not pod(rest, "victim")["spec"]


def given_topology(rest: Rest) -> None:
    create_node(rest, "in-block", "4", "block", {"block": "b0"})
    layers = [{"topologyLayer": "Block", "labelKey": ["block"]}, {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "Block"}]
    create_custom(rest, SCHEDULING, "ClusterNetworkTopology", "clusternetworktopologies", "default", spec={"networkTopologySpec": layers})


PREEMPTION = Participation("preemption", given_preemption, preemption_holds)
DEVICE_PART = Participation("DeviceShare", given_devices, devices_hold)
PARTS = (
    Participation("PrioritySort", given_order, order_holds),
    Participation("SchedulingHint", given_hint, lambda rest: node_of(rest, "hinted") == "hint-small"),
    Participation("Coscheduling", given_gangs, gangs_hold),
    Participation("Reservation", given_reservation, reservation_holds),
    Participation("NodeNUMAResource", given_cpus, lambda rest: (noted(rest, "own-cpus", RESOURCE_STATUS) or {}).get("cpuset")),
    DEVICE_PART,
    Participation("ElasticQuota", given_quota, quota_holds),
    Participation("LoadAwareScheduling", given_load, lambda rest: "node(s) cpu usage exceed threshold" in message(rest, "late")),
    PREEMPTION,
    Participation(
        "the network topology's manager",
        given_topology,
        lambda rest: rest.get(f"/apis/{SCHEDULING}/clusternetworktopologies/default").get("status"),
    ),
)
QUESTIONS = {"Coscheduling", "DeviceShare", "ElasticQuota", "LoadAwareScheduling", "NodeNUMAResource", "Reservation"}
"""Koordinator's plugins that are asked about nodes. DefaultPreBind writes what the others note."""


@contextmanager
def installed(plane: ControlPlane, values: ChartValues, folder: Path) -> Iterator[Deployed]:
    """Apply the chart's objects, and the PriorityClasses that it has, too."""
    rest, made = plane.rest(), objects(values)
    with applied(rest, [*documents(CONFIG / "priority-classes.yaml"), *made]):
        yield Deployed(plane, made, token_of(rest, made), folder / "pod")


def await_leader(rest: Rest, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{NAME}"
    until(lambda: ((rest.get_or_none(path) or {}).get("spec") or {}).get("holderIdentity"))


def counted(text: str, metric: str) -> dict[str, float]:
    """Add up a metric by plugin."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == metric:
                found[sample.labels["plugin"]] = found.get(sample.labels["plugin"], 0) + sample.value
    return found


def post_filters(running: RunningPod) -> list[str]:
    """Return the plugins that /configz shows at PostFilter."""
    (configuration,) = json.loads(running.get("/configz")[1]).values()
    return [plugin["Name"] for plugin in configuration["Profiles"][0]["Plugins"]["PostFilter"]["Enabled"]]


def test_what_koordinators_chart_installs_runs_with_our_program_and_every_plugin_takes_part(plane: ControlPlane, tmp_path: Path) -> None:
    rest, values = plane.rest(), ChartValues(port=free_port())  # of the default port there is one on this machine
    with installed(plane, values, tmp_path) as deployed:
        for part in PARTS:
            part.given(rest)
        running = deployed.start("drop-in")
        running.await_readiness()
        await_leader(rest, values.namespace)
        for part in PARTS:
            until(lambda: part.holds(rest))  # noqa: B023  # at once
        status, text = running.get("/metrics")
        assert status == 200
        assert {plugin for plugin, count in counted(text, PER_PLUGIN).items() if count} >= QUESTIONS
        assert post_filters(running) == ["Reservation", "Coscheduling", "ElasticQuota"]
        assert 'leader_election_master_status{name="kube-scheduler"} 1.0' in text
        outcome = running.stop()
    assert outcome.code == 0
    assert "forbidden: User" not in outcome.text
    assert "Traceback" not in outcome.text


def test_with_every_documented_value_changed_it_does_what_they_say(plane: ControlPlane, tmp_path: Path) -> None:
    """Other models may not be shared, gates are on, and DefaultPreemption evicts."""
    rest, values = plane.rest(), ChartValues(**{**CHANGED, "port": free_port()})
    with defined(rest), installed(plane, values, tmp_path) as deployed:
        given_devices(rest)
        given_preemption(rest)
        running = deployed.start("drop-in-changed")
        running.await_readiness()
        await_leader(rest, "koord")
        until(lambda: node_of(rest, "share") == "unshareable")
        until(lambda: preemption_holds(rest))
        text = running.get("/metrics")[1]
        assert 'kubernetes_feature_enabled{name="MultiQuotaTree",stage="ALPHA"} 1.0' in text
        assert post_filters(running) == ["Reservation", "Coscheduling", "ElasticQuota", "DefaultPreemption"]
        outcome = running.stop()
    assert outcome.code == 0
    assert "forbidden: User" not in outcome.text


def test_each_documented_value_makes_objects_that_the_api_server_takes(plane: ControlPlane) -> None:
    rest = plane.rest()
    with applied(rest, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("koord", "koordinator-system")]):
        for name, value in CHANGED.items():
            values = ChartValues()._replace(**{name: value})
            for made in (deployment(values), config_map(values)):
                taken = rest.create(f"{collection(made)}?{STRICT}&dryRun=All", made)
                assert taken["metadata"]["name"] == made["metadata"]["name"]


@pytest.mark.parametrize("point", ["filter", "preEnqueue"])
def test_a_plugin_that_does_not_exist_stops_the_start(plane: ControlPlane, tmp_path: Path, point: str) -> None:
    values = ChartValues(port=free_port())
    made, mistaken = objects(values), configuration(values)
    mistaken["profiles"][0]["plugins"][point]["enabled"].append({"name": "NoSuchPlugin"})
    of_kind(made, "ConfigMap")["data"][CONFIG_KEY] = yaml.safe_dump(mistaken)
    with applied(plane.rest(), made):
        running = Deployed(plane, made, token_of(plane.rest(), made), tmp_path / "pod").start("drop-in-mistaken")
        assert running.process.wait(TIMEOUT) == 1
    assert "NoSuchPlugin" in running.process.output()


def test_the_definitions_of_monitoring_are_those_that_the_manifests_need() -> None:
    assert {definition["spec"]["names"]["kind"] for definition in DEFINITIONS} == {"PodMonitor", "PrometheusRule"}
