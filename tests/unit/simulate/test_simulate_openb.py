"""The openb trace as a workload."""

from __future__ import annotations

from pathlib import Path

import pytest

from koordsched.manifests.documents import InputError
from koordsched.simulate.openb import inflated, load_openb, requested_share
from koordsched.simulate.workload import Workload, all_at_once

NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,32000,262144,0,\nnode-1,96000,393216,8,G2\n"
POD_HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"


def load(tmp_path: Path, pods: str, nodes: str = NODES) -> Workload:
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "pods.csv").write_text(pods)
    return load_openb(str(tmp_path / "nodes.csv"), str(tmp_path / "pods.csv"), "koord-scheduler")


def names(workload: Workload) -> list[str]:
    return [arrival.manifest.key for arrival in workload.arrivals]


def test_a_node_has_its_gpus_in_a_device_and_their_model_as_a_label(tmp_path: Path) -> None:
    without, with_gpus, device = [manifest.body for manifest in load(tmp_path, POD_HEADER).existing]
    assert without["status"]["allocatable"] == {"cpu": "32000m", "memory": "262144Mi", "pods": "110"}
    assert without["metadata"]["labels"] == {"kubernetes.io/hostname": "node-0"}
    shares = {"koordinator.sh/gpu-core": "800", "koordinator.sh/gpu-memory-ratio": "800"}
    assert with_gpus["status"]["allocatable"] == {"cpu": "96000m", "memory": "393216Mi", "pods": "110", **shares}
    assert with_gpus["metadata"]["labels"] == {"kubernetes.io/hostname": "node-1", "node.koordinator.sh/gpu-model": "G2"}
    assert device["metadata"] == {"name": "node-1", "labels": {"node.koordinator.sh/gpu-model": "G2"}}
    each = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    assert [(entry["minor"], entry["health"], entry["resources"]) for entry in device["spec"]["devices"]] == [
        (minor, True, each) for minor in range(8)
    ]


@pytest.mark.parametrize(
    ("gpus", "milli", "share"), [("2", "1000", "200"), ("1", "1000", "100"), ("1", "460", "46"), ("1", "455", "46"), ("1", "", "100")]
)
def test_a_pod_requests_its_share_or_gpus_and_one_of_the_models_it_allows(tmp_path: Path, gpus: str, milli: str, share: str) -> None:
    workload = load(tmp_path, POD_HEADER + f"p,12000,16384,{gpus},{milli},G2|T4,LS,Running,5,90,5\n")
    (arrival,) = workload.arrivals
    spec = arrival.manifest.body["spec"]
    shares = {"koordinator.sh/gpu-core": share, "koordinator.sh/gpu-memory-ratio": share}
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "12000m", "memory": "16384Mi", **shares}, "limits": shares}
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "node.koordinator.sh/gpu-model", "operator": "In", "values": ["G2", "T4"]}]
    assert (spec["schedulerName"], arrival.at, arrival.departs) == ("koord-scheduler", 5.0, 90.0)


def test_inflation_draws_pods_until_they_request_so_much_of_the_gpus(tmp_path: Path) -> None:
    workload = load(tmp_path, POD_HEADER + "half,1000,1,1,500,,,,5,9,\nnone,1000,1,0,0,,,,7,,\ntwo,1000,1,2,1000,,,,8,,\n")
    drawn = inflated(workload, 130, 0)
    requested = [requested_share(arrival) for arrival in drawn]
    assert sum(requested) >= 1040 > sum(requested[:-1]), "130 % of 8 GPUs"
    assert len(set(names(Workload(arrivals=drawn)))) == len(drawn)
    assert {arrival.manifest.ref.name.split("-")[0] for arrival in drawn} == {"half", "none", "two"}
    assert all(arrival.at == 0 and arrival.departs is None for arrival in drawn)
    assert names(Workload(arrivals=inflated(workload, 130, 0))) == names(Workload(arrivals=drawn))
    assert names(Workload(arrivals=inflated(workload, 130, 1))) != names(Workload(arrivals=drawn))


@pytest.mark.parametrize("pods", ["", "p,1,1,0,0,,,,,,\n"])
def test_nothing_is_inflated_without_gpus_that_are_asked_for(tmp_path: Path, pods: str) -> None:
    with pytest.raises(InputError, match="--inflate: the trace has no GPUs, or no pods that request some"):
        inflated(load(tmp_path, POD_HEADER + pods), 130, 0)


def test_a_pod_without_gpus_asks_for_none_and_runs_anywhere(tmp_path: Path) -> None:
    spec = load(tmp_path, POD_HEADER + "p,100,200,0,0,,BE,Failed,0,7,\n").arrivals[0].manifest.body["spec"]
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "100m", "memory": "200Mi"}}
    assert "affinity" not in spec


def test_pods_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    rows = "late,1,1,0,0,,,,30,40,\nearly,1,1,0,0,,,,10,20,\nalso-early,1,1,0,0,,,,10,,\n"
    workload = load(tmp_path, POD_HEADER + rows)
    assert names(workload) == ["default/early", "default/also-early", "default/late"]
    assert [arrival.departs for arrival in workload.arrivals] == [20.0, None, 40.0]
    assert workload.departs


def test_a_pod_whose_creation_is_not_stated_is_there_from_the_start_until_its_deletion(tmp_path: Path) -> None:
    workload = load(tmp_path, POD_HEADER + "later,1,1,0,0,,,,10,20,\nfirst,1,1,0,0,,,,,30,\n")
    assert names(workload) == ["default/first", "default/later"]
    assert [(arrival.at, arrival.departs) for arrival in workload.arrivals] == [(0.0, 30.0), (10.0, 20.0)]


def test_a_pod_that_is_deleted_when_it_is_created_stays_a_second(tmp_path: Path) -> None:
    assert load(tmp_path, POD_HEADER + "p,1,1,0,0,,,,10,10,\n").arrivals[0].departs == 11.0


def test_a_trace_without_times_comes_at_once_as_it_stands(tmp_path: Path) -> None:
    workload = load(tmp_path, "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1,1,0,0\na,1,1,0,0\n")
    assert names(workload) == ["default/b", "default/a"]
    assert not workload.departs


def test_all_at_once_forgets_the_times_and_shuffles_by_the_seed(tmp_path: Path) -> None:
    rows = "".join(f"p{i},1,1,0,0,,,,{i},{i + 5},\n" for i in range(20))
    arrivals = load(tmp_path, POD_HEADER + rows).arrivals

    def order(how: str, seed: int) -> list[str]:
        made = all_at_once(arrivals, how, seed)
        assert all(arrival.at == 0 and arrival.departs is None for arrival in made)
        return [arrival.manifest.ref.name for arrival in made]

    assert order("arrival", 1) == [f"p{i}" for i in range(20)]
    assert order("random", 1) == order("random", 1) != order("random", 2)
    assert sorted(order("random", 1)) == sorted(order("arrival", 1))


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ("name,cpu\n", "pods.csv: line 1: no column cpu_milli, memory_mib, num_gpu; expected name,cpu_milli,memory_mib,num_gpu"),
        (POD_HEADER + "p,1,1,0,0,,,,soon,,\n", "pods.csv: line 2: creation_time: 'soon': expected a number of seconds"),
        (POD_HEADER + "p,1,1,0,0,,,,1,nan,\n", "pods.csv: line 2: deletion_time: 'nan': expected a number of seconds"),
        (POD_HEADER + "p,1,1,two,0,,,,,,\n", "pods.csv: line 2: num_gpu: 'two': expected a whole number of at most 4 digits"),
        (POD_HEADER + "p,1,1,1,1.5,,,,,,\n", "pods.csv: line 2: gpu_milli: '1.5': expected a whole number of at most 4 digits"),
        (POD_HEADER + 'p,"1\n', "pods.csv: line 2: not CSV: unexpected end of data"),
        ("", "pods.csv: line 1: no column name, cpu_milli, memory_mib, num_gpu; expected name,cpu_milli,memory_mib,num_gpu"),
    ],
)
def test_a_bad_file_is_named_with_line_and_column(tmp_path: Path, pods: str, expected: str) -> None:
    with pytest.raises(InputError) as raised:
        load(tmp_path, pods)
    assert str(raised.value) == f"{tmp_path}/{expected}"


def test_lines_that_are_empty_or_short_or_long_are_read(tmp_path: Path) -> None:
    workload = load(tmp_path, POD_HEADER + "a,1,1\n\nb,1,1,1,0,,,,,,,more\n")
    assert names(workload) == ["default/a", "default/b"]
    assert workload.arrivals[1].manifest.origin == f"{tmp_path}/pods.csv: line 4"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nodes\.csv: cannot be read: No such file or directory"):
        load_openb(str(tmp_path / "nodes.csv"), str(tmp_path / "pods.csv"), "s")
