"""The themes of the side-by-side workloads are what scheduler_perf's are, and can all be bound."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from side_by_side.__main__ import parse
from side_by_side.cpus import cpu_annotations
from side_by_side.workload import BOUND, THEMES, Workload, bound_pods, nodes, pending_pods, prerequisites


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
    written = [cpu_annotations(turn)["scheduling.koordinator.sh/resource-status"] for turn in (0, 1, 51, 52)]
    assert written == ['{"cpuset":"0-3"}', '{"cpuset":"4-7"}', '{"cpuset":"204-207"}', '{"cpuset":"0-3"}']


def test_kube_scheduler_takes_no_part_where_pods_want_cpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse([]).competitors == ["kube-scheduler", "ours", "null"]
    assert parse(["--theme", "cpuset"]).competitors == ["ours", "null"]
    with pytest.raises(SystemExit):
        parse(["--theme", "cpuset", "--competitors", "null,kube-scheduler"])
    assert "kube-scheduler cannot do --theme cpuset" in capsys.readouterr().err
