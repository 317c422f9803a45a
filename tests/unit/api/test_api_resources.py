from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koordsched.api.core import Node, Pod
from koordsched.api.names import is_scalar_resource_name
from koordsched.api.podinfo import PodInfo
from koordsched.api.quantity import QuantityError
from koordsched.api.resources import HostPort, PodResources, host_ports, node_allocatable, pod_resources

MI = 2**20
GI = 2**30


def made_pod(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Pod:
    return msgspec.convert({"metadata": {"name": "p", "namespace": "default"}, "spec": spec, "status": status or {}}, Pod)


def asks(name: str = "main", *, sidecar: bool = False, **requests: Any) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "resources": {"requests": requests}}
    return container | {"restartPolicy": "Always"} if sidecar else container


def resources(spec: dict[str, Any], status: dict[str, Any] | None = None, *, counted_on_node: bool = False) -> PodResources:
    return pod_resources(made_pod(spec, status), counted_on_node=counted_on_node)


def test_containers_add_up() -> None:
    found = resources({"containers": [asks(cpu="500m", memory="1Gi"), asks("b", cpu="1", memory="512Mi")]})
    assert found.requests == {"cpu": 1500, "memory": GI + 512 * MI}


def test_fractions_are_rounded_after_adding() -> None:
    found = resources({"containers": [asks(cpu="0.5m", memory="0.4"), asks("b", cpu="0.5m", memory="0.4")]})
    assert found.requests == {"cpu": 1, "memory": 1}


def test_the_largest_init_container_counts_when_it_needs_more_than_all_containers() -> None:
    """Acceptance 29: init containers 2 and 3 CPU, containers 1+1 CPU, overhead 250m need 3250m."""
    spec = {
        "initContainers": [asks("i", cpu="2"), asks("j", cpu="3")],
        "containers": [asks("a", cpu="1"), asks("b", cpu="1")],
        "overhead": {"cpu": "250m"},
    }
    assert resources(spec).requests == {"cpu": 3250}


def test_a_sidecar_runs_beside_the_containers_and_later_init_containers_but_not_earlier_ones() -> None:
    spec = {"initContainers": [asks("i", cpu="5"), asks("s", sidecar=True, cpu="1"), asks("j", cpu="3")], "containers": [asks(cpu="2")]}
    assert resources(spec).requests == {"cpu": 5000}
    spec["initContainers"][2] = asks("j", cpu="4500m")
    assert resources(spec).requests == {"cpu": 5500}
    spec["containers"] = [asks(cpu="6")]
    assert resources(spec).requests == {"cpu": 7000}


def test_pod_level_requests_replace_what_the_containers_add_up_to() -> None:
    """Acceptance 30: pod-level cpu 2 with containers that ask for 500m in total needs 2 CPU."""
    spec = {"containers": [asks(cpu="500m", memory="1Gi")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "100m"}}
    assert resources(spec).requests == {"cpu": 2100, "memory": GI}


def test_pod_level_requests_of_other_resources_are_ignored() -> None:
    spec = {
        "containers": [asks(cpu="1")],
        "resources": {"requests": {"ephemeral-storage": "1Gi", "example.com/x": 1, "hugepages-2Mi": "4Mi"}},
    }
    assert resources(spec).requests == {"cpu": 1000, "hugepages-2Mi": 4 * MI}


def test_only_scheduled_resources_count_and_zeros_are_dropped() -> None:
    requests: dict[str, Any] = {
        "cpu": "0",
        "pods": "1",
        "storage": "1Gi",
        "ephemeral-storage": "1Ki",
        "nvidia.com/gpu": "2",
        "kubernetes.io/batch-cpu": 1000,
    }
    assert resources({"containers": [asks(**requests)]}).requests == {
        "ephemeral-storage": 1024,
        "nvidia.com/gpu": 2,
        "kubernetes.io/batch-cpu": 1000,
    }


def test_a_silent_container_counts_with_defaults_at_scoring_only() -> None:
    found = resources({"containers": [asks(cpu="1"), asks("b", memory="1Gi")]})
    assert found.requests == {"cpu": 1000, "memory": GI}
    assert (found.nonzero_cpu, found.nonzero_memory) == (1100, GI + 200 * MI)
    assert (found.scoring_cpu, found.scoring_memory) == (1100, GI + 200 * MI)


def test_an_explicit_zero_stays_zero_at_scoring() -> None:
    found = resources({"containers": [asks(cpu="0", memory=0)]})
    assert (found.nonzero_cpu, found.nonzero_memory, found.scoring_cpu, found.scoring_memory) == (0, 0, 0, 0)


def test_init_containers_count_with_defaults_too() -> None:
    found = resources({"initContainers": [asks("i"), asks("s", sidecar=True)], "containers": [asks(cpu="50m", memory="50Mi")]})
    assert (found.scoring_cpu, found.scoring_memory) == (150, 250 * MI)


def test_pod_level_requests_silence_the_defaults_of_node_totals_but_not_those_of_the_pods_own_score() -> None:
    found = resources({"containers": [asks(), asks("b")], "resources": {"requests": {"cpu": "2"}}})
    assert found.requests == {"cpu": 2000}
    assert (found.nonzero_cpu, found.nonzero_memory) == (2000, 400 * MI)
    assert (found.scoring_cpu, found.scoring_memory) == (200, 400 * MI)


def test_with_pod_level_requests_a_resource_that_some_container_requests_gets_no_default() -> None:
    found = resources({"containers": [asks(memory="1Gi"), asks("b")], "resources": {"requests": {"cpu": "2"}}})
    assert found.nonzero_memory == GI
    assert found.scoring_memory == GI + 200 * MI


def running(status: dict[str, Any], **conditions: str) -> dict[str, Any]:
    listed = [{"type": kind, "status": "True", "reason": reason} for kind, reason in conditions.items()]
    return {"containerStatuses": [{"name": "main", **status}], "conditions": listed}


def test_a_running_container_counts_with_the_largest_of_asked_set_and_granted() -> None:
    spec = {"containers": [asks(cpu="1", memory="3Gi")]}
    status = running({"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}, "allocatedResources": {"cpu": "1500m", "memory": "2Gi"}})
    assert resources(spec, status, counted_on_node=True).requests == {"cpu": 2000, "memory": 3 * GI}
    assert resources(spec, status).requests == {"cpu": 1000, "memory": 3 * GI}


def test_what_an_infeasible_resize_asks_for_does_not_count() -> None:
    spec = {"containers": [asks(cpu="8")]}
    status = {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "1"}}
    assert resources(spec, running(status, PodResizePending="Infeasible"), counted_on_node=True).requests == {"cpu": 2000}
    assert resources(spec, running(status, PodResizePending="Deferred"), counted_on_node=True).requests == {"cpu": 8000}


def test_a_running_container_without_status_resources_counts_as_asked() -> None:
    spec = {"containers": [asks(cpu="1")]}
    assert resources(spec, running({"allocatedResources": {"cpu": "4"}}), counted_on_node=True).requests == {"cpu": 1000}


def test_the_status_of_an_ordinary_init_container_is_not_read() -> None:
    spec = {"containers": [asks(cpu="1")], "initContainers": [asks("i", cpu="2"), asks("s", sidecar=True, cpu="1")]}
    status = {"initContainerStatuses": [{"name": name, "resources": {"requests": {"cpu": "3"}}} for name in ("i", "s")]}
    assert resources(spec, status, counted_on_node=True).requests == {"cpu": 4000}


def test_pods_that_ask_for_the_same_share_one_object() -> None:
    one = resources({"containers": [asks(cpu="1", memory="1Gi")]})
    other = resources({"containers": [asks(memory="1024Mi", cpu="1000m")]})
    assert one is other
    assert one != resources({"containers": [asks(cpu="1", memory="1Gi"), asks("b")]})


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"containers": [asks(), asks("b", cpu="abc")]}, "spec.containers[1].resources.requests[cpu]"),
        ({"containers": [], "initContainers": [asks(memory="abc")]}, "spec.initContainers[0].resources.requests[memory]"),
        ({"containers": [], "overhead": {"cpu": "abc"}}, "spec.overhead[cpu]"),
        ({"containers": [], "resources": {"requests": {"cpu": "abc"}}}, "spec.resources.requests[cpu]"),
    ],
)
def test_a_bad_quantity_is_named_by_its_path(spec: dict[str, Any], path: str) -> None:
    with pytest.raises(QuantityError) as caught:
        PodInfo(made_pod(spec))
    assert (caught.value.path, caught.value.value) == (path, "abc")
    assert str(caught.value).startswith(f'{path}: "abc" is not a quantity')


def test_a_bad_quantity_in_the_status_of_a_running_pod_is_named_by_its_path() -> None:
    pod = made_pod({"containers": [asks(cpu="1")]}, running({"resources": {"requests": {}}, "allocatedResources": {"cpu": "abc"}}))
    with pytest.raises(QuantityError) as caught:
        PodInfo(pod, counted_on_node=True)
    assert caught.value.path == "status.containerStatuses[0].allocatedResources[cpu]"


def test_host_ports_are_those_of_containers_and_sidecars_with_defaults_each_once() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"containerPort": 90}]
    spec = {
        "containers": [{"name": "a", "ports": ports}, {"name": "b", "ports": [{"hostPort": 80, "protocol": "TCP", "hostIP": "0.0.0.0"}]}],
        "initContainers": [
            {"name": "i", "ports": [{"hostPort": 1}]},
            {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 2}]},
        ],
    }
    expected = (HostPort("TCP", "0.0.0.0", 80), HostPort("UDP", "10.0.0.1", 53), HostPort("TCP", "0.0.0.0", 2))
    assert host_ports(made_pod(spec)) == expected
    assert host_ports(made_pod({"containers": [asks()]})) == ()


def test_a_node_offers_its_allocatable_in_scheduling_units() -> None:
    allocatable = {"cpu": "3920m", "memory": "7.5Gi", "pods": 110, "nvidia.com/gpu": "8", "storage": "1Ti", "hugepages-1Gi": "0"}
    node = msgspec.convert({"status": {"allocatable": allocatable}}, Node)
    assert node_allocatable(node) == {
        "cpu": 3920,
        "memory": 7 * GI + GI // 2,
        "pods": 110,
        "nvidia.com/gpu": 8,
        "hugepages-1Gi": 0,
    }


def test_the_allocatable_of_a_node_belongs_to_whoever_asked() -> None:
    node = msgspec.convert({"status": {"allocatable": {"cpu": "4"}}}, Node)
    node_allocatable(node)["cpu"] = 0
    assert node_allocatable(node) == {"cpu": 4000}


def test_a_bad_allocatable_is_named_by_its_path() -> None:
    node = msgspec.convert({"status": {"allocatable": {"cpu": "4 cores"}}}, Node)
    with pytest.raises(QuantityError, match=r'^status\.allocatable\[cpu\]: "4 cores"'):
        node_allocatable(node)


GOLDEN = json.loads((Path(__file__).parent / "pod_resources_golden.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=range(len(GOLDEN)))
def test_pods_ask_for_what_component_helpers_compute(case: dict[str, Any]) -> None:
    """The file holds random pods and what k8s.io/component-helpers v0.35.2 (PodRequests) printed for them, incoming and running."""
    for counted_on_node, expected in ((False, case["incoming"]), (True, case["running"])):
        found = pod_resources(msgspec.convert(case["pod"], Pod), counted_on_node=counted_on_node)
        counted = {name for name in expected["requests"] if name in {"cpu", "memory", "ephemeral-storage"} or is_scalar_resource_name(name)}
        assert found.requests == {name: amount for name, amount in expected["requests"].items() if amount and name in counted}
        assert [found.nonzero_cpu, found.nonzero_memory] == expected["nonzero"]
        assert [found.scoring_cpu, found.scoring_memory] == expected["scoring"]
