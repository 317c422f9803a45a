"""The themes of the side-by-side workloads are what scheduler_perf's are, and can all be bound."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from side_by_side.__main__ import parse
from side_by_side.competitors import profiles_for, usual
from side_by_side.cpus import cpu_annotations
from side_by_side.gpus import half_annotations, joint_annotations
from side_by_side.reservations import link
from side_by_side.workload import BOUND, THEMES, Workload, bound_pods, namespaces, nodes, pending_pods, prerequisites, reports

from koordsched.api.koordinator.device_annotations import device_allocations
from koordsched.api.quantity import value


def pods(theme: str, **fields: int) -> list[Any]:
    return [item.body for item in pending_pods(Workload(theme=theme, **fields))]


@pytest.mark.parametrize("theme", THEMES)
def test_a_workload_has_its_pods(theme: str) -> None:
    assert [pod["metadata"]["name"] for pod in pods(theme, nodes=4, pods=3)] == ["pod-0", "pod-1", "pod-2"]


def test_spreading_pods_select_themselves() -> None:
    for pod in pods("spread", nodes=4, pods=3):
        (constraint,) = pod["spec"]["topologySpreadConstraints"]
        assert constraint["whenUnsatisfiable"] == "DoNotSchedule"
        assert constraint["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_pods_that_repel_each_other_fill_at_most_half_of_the_nodes() -> None:
    groups = Counter(pod["metadata"]["labels"]["color"] for pod in pods("anti-affinity", nodes=1000, pods=2000))
    assert set(groups.values()) == {500}


def test_preemption_begins_with_full_nodes_of_which_three_pods_make_room_for_one() -> None:
    load = Workload(theme="preemption", nodes=3, pods=3)
    victims = [item.body for item in bound_pods(load)]
    assert Counter(pod["spec"]["nodeName"] for pod in victims) == {"node-0": 4, "node-1": 4, "node-2": 4}
    assert all(pod["metadata"]["name"].startswith(BOUND) and pod["spec"]["terminationGracePeriodSeconds"] == 0 for pod in victims)
    assert nodes(load)[0].body["status"]["allocatable"]["cpu"] == "4"
    assert victims[0]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "900m"
    (pod, *_) = pods("preemption", nodes=3, pods=3)
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "3000m"
    assert pod["spec"]["priorityClassName"] == prerequisites(load)[0].body["metadata"]["name"]
    assert prerequisites(Workload(theme="spread")) == []


def test_pods_with_cpus_of_their_own_find_as_many_as_the_nodes_say() -> None:
    load = Workload(theme="cpuset", nodes=2, pods=2)
    made = [(item.path.rpartition("/")[2], item.body) for item in prerequisites(load)]
    assert Counter(path for path, _ in made) == {
        "clusterroles": 1,
        "clusterrolebindings": 1,
        "priorityclasses": 1,
        "noderesourcetopologies": 2,
    }
    topology = made[-1][1]
    assert len(json.loads(topology["metadata"]["annotations"]["node.koordinator.sh/cpu-topology"])["detail"]) == 208
    assert nodes(load)[1].body["status"]["allocatable"]["cpu"] == "208"
    (pod, _) = pods("cpuset", nodes=2, pods=2)
    assert pod["metadata"]["labels"]["koordinator.sh/qosClass"] == "LSR"
    assert pod["spec"]["priorityClassName"] == made[2][1]["metadata"]["name"]
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "4"


def test_who_does_not_choose_cpus_writes_the_next_ones() -> None:
    written = [cpu_annotations("node-0", turn)["scheduling.koordinator.sh/resource-status"] for turn in (0, 1, 51, 52)]
    assert written == ['{"cpuset":"0-3"}', '{"cpuset":"4-7"}', '{"cpuset":"204-207"}', '{"cpuset":"0-3"}']


@pytest.mark.parametrize("theme", ["gpu", "gpu-joint"])
def test_nodes_have_what_pods_of_a_theme_of_devices_ask_for(theme: str) -> None:
    load = Workload(theme=theme, nodes=2, pods=1)
    made = [(item.path.rpartition("/")[2], item.body) for item in prerequisites(load)]
    assert Counter(path for path, _ in made) == {"clusterroles": 1, "clusterrolebindings": 1, "devices": 2}
    device, node = made[-1][1], nodes(load)[-1].body
    assert device["metadata"]["name"] == node["metadata"]["name"] == "node-1"
    assert Counter(entry["type"] for entry in device["spec"]["devices"]) == {"gpu": 8, "rdma": 4}
    ids = [entry["id"] for _, body in made[-2:] for entry in body["spec"]["devices"] if entry["type"] == "gpu"]
    assert len(set(ids)) == 16
    (pod,) = pods(theme, nodes=2, pods=1)
    asked = pod["spec"]["containers"][0]["resources"]["requests"]
    assert asked.keys() <= node["status"]["allocatable"].keys()
    total = Counter[str]()
    for entry in device["spec"]["devices"]:
        total.update({name: value(amount) for name, amount in entry["resources"].items()})
    assert total.items() <= {name: value(amount) for name, amount in node["status"]["allocatable"].items()}.items()


def test_who_does_not_choose_devices_writes_the_next_ones() -> None:
    halves = [device_allocations(half_annotations("node-1", turn)) for turn in (0, 1, 2, 15, 16)]
    assert [allocated and [device.minor for device in allocated["gpu"]] for allocated in halves] == [[0], [0], [1], [7], [0]]
    given = device_allocations(joint_annotations("node-1", 5))
    assert given is not None
    assert [(device.minor, device.id) for device in given["gpu"]] == [
        (2, "GPU-00000001-0000-4000-8000-000000000002"),
        (3, "GPU-00000001-0000-4000-8000-000000000003"),
    ]
    assert [(device.minor, device.id, [vf.bus_id for vf in device.vfs]) for device in given["rdma"]] == [
        (1, "0000:81:00.0", ["0000:81:00.2"])
    ]


def test_kube_scheduler_takes_no_part_where_pods_want_cpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse([]).competitors == ["kube-scheduler", "ours", "null"]
    assert usual("cpuset", {}) == usual("gpu", {}) == ["ours", "null"]
    with pytest.raises(SystemExit):
        parse(["--theme", "cpuset", "--competitors", "null,kube-scheduler"])
    assert "kube-scheduler cannot do --theme cpuset" in capsys.readouterr().err


def test_koordinators_scheduler_takes_part_where_it_is_there_and_its_plugins_are_asked_for() -> None:
    there = {"KOORDINATOR_ASSETS": "/somewhere"}
    assert usual("gpu", there) == ["koord-scheduler", "ours", "null"]
    assert usual("spread", there) == ["kube-scheduler", "ours", "null"]
    assert parse(["--competitors", "koord-scheduler,null"]).competitors == ["koord-scheduler", "null"]


@pytest.mark.parametrize(("theme", "sizes"), [("gang", [10, 10, 5]), ("gang-of-3", [3] * 8 + [1]), ("gang-topology", [16, 9])])
def test_pods_of_gangs_have_pod_groups_of_as_many_members(theme: str, sizes: list[int]) -> None:
    load = Workload(theme=theme, nodes=100, pods=25)
    groups = {item.name: item.body for item in prerequisites(load) if item.path.endswith("/podgroups")}
    members = Counter(pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io"] for pod in pods(theme, nodes=100, pods=25))
    assert list(members.values()) == [group["spec"]["minMember"] for group in groups.values()] == sizes
    assert members.keys() == groups.keys()


def test_gangs_of_a_network_have_domains_with_room() -> None:
    load = Workload(theme="gang-topology", nodes=80, pods=32)
    (network,) = [item.body for item in prerequisites(load) if item.path.endswith("/clusternetworktopologies")]
    keys = [layer["labelKey"][0] for layer in network["spec"]["networkTopologySpec"] if "labelKey" in layer]
    made = [item.body for item in nodes(load)]
    assert keys == ["spine", "block", "rack"]
    assert [len({node["metadata"]["labels"][key] for node in made}) for key in keys] == [1, 2, 10]
    assert profiles_for("gang-topology")["profiles"][0]["pluginConfig"][0]["args"] == {"awareNetworkTopology": True}


def test_pods_of_quotas_have_quotas_with_room_below_parents() -> None:
    load = Workload(theme="quota", nodes=4, pods=200)
    made = [item.body for item in prerequisites(load) if item.path.endswith("/elasticquotas")]
    parent_of = {quota["metadata"]["name"]: quota["metadata"]["labels"].get("quota.scheduling.koordinator.sh/parent", "") for quota in made}
    used = Counter(pod["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] for pod in pods("quota", nodes=4, pods=200))
    assert set(used.values()) == {2}
    assert len(used) == 100
    assert all(parent_of[parent_of[name]] == "" for name in used)


def test_the_charts_whole_profile_is_what_plain_pods_are_scheduled_under() -> None:
    load = Workload(theme="koordinator", nodes=3, pods=2)
    assert [pod["spec"] for pod in pods("koordinator", nodes=3, pods=2)] == [pod["spec"] for pod in pods("plain", nodes=3, pods=2)]
    assert [item.name for item in namespaces(load)] == ["koordinator-system"]
    assert Counter(item.path.rpartition("/")[2] for item in [*prerequisites(load), *reports(load)]) == {
        "clusterroles": 1,
        "clusterrolebindings": 1,
        "nodemetrics": 3,
    }
    (profile,) = profiles_for("koordinator")["profiles"]
    assert profile["schedulerName"] == "default-scheduler"
    enabled = {each["name"] for point in profile["plugins"].values() for each in point["enabled"]}
    assert {"LoadAwareScheduling", "NodeNUMAResource", "DeviceShare", "Reservation", "Coscheduling", "ElasticQuota"} <= enabled
    assert usual("koordinator", {"KOORDINATOR_ASSETS": "/somewhere"}) == ["kube-scheduler", "koord-scheduler", "ours", "null"]
    assert usual("koordinator", {}) == ["kube-scheduler", "ours", "null"]


def test_a_start_with_all_objects_differs_from_one_without_in_nothing_else() -> None:
    whole, bare = (Workload(theme=f"koordinator-{which}", nodes=10, bound=20, pods=1) for which in ("objects", "bare"))
    assert nodes(whole) == nodes(bare)
    assert bound_pods(whole) == bound_pods(bare)
    assert reports(bare) == []
    made = Counter(item.path.rpartition("/")[2] for item in [*prerequisites(whole), *reports(whole)])
    assert made - Counter(item.path.rpartition("/")[2] for item in prerequisites(bare)) == {
        "clusternetworktopologies": 1,
        "elasticquotas": 1000,
        "devices": 10,
        "reservations": 20,
        "nodemetrics": 10,
    }
    quotas = {item.name: item.body["metadata"]["labels"] for item in prerequisites(whole) if item.path.endswith("/elasticquotas")}
    assert all(pod.body["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] in quotas for pod in bound_pods(whole))
    assert all(labels.get("quota.scheduling.koordinator.sh/parent", "tree-0") in quotas for labels in quotas.values())
    on_first = {pod.name for pod in bound_pods(whole) if pod.body["spec"]["nodeName"] == "node-0"}
    assert {each["name"] for each in reports(whole)[0].body["status"]["podsMetric"]} == on_first


def test_reservations_are_available_on_all_nodes_with_room_for_all_their_owners() -> None:
    load = Workload(theme="reservation", nodes=1000, pods=5000)
    made = [item for item in prerequisites(load) if item.status]
    assert Counter(item.body["status"]["nodeName"] for item in made) == {f"node-{number}": 2 for number in range(1000)}
    assert all(item.body["status"]["allocatable"]["cpu"] == "4" and item.body["status"]["phase"] == "Available" for item in made)
    kinds = Counter(item.body["spec"]["owners"][0]["labelSelector"]["matchLabels"]["owner"] for item in made)
    asking = Counter(pod["metadata"]["labels"]["owner"] for pod in pods("reservation", nodes=1000, pods=5000))
    assert all(8 * kinds[kind] >= number for kind, number in asking.items())
    assert not any("owner" in pod["metadata"]["labels"] for pod in pods("reservation-strangers", nodes=2, pods=4))
    assert link("node-3", 5)["scheduling.koordinator.sh/reservation-allocated"].startswith('{"name":"node-3-reservation-1"')
