"""Tables of pods that come and go, in CSV and Parquet."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from koordsched.cli import main
from koordsched.manifests.documents import InputError
from koordsched.simulate.table_trace import MOST_MISTAKES, NODE_COLUMNS, POD_COLUMNS, add_tables
from koordsched.simulate.workload import PodArrival, Workload

NODES = "name,cpu,memory,pods,gpu,gpu_model,labels,spec,allocatable.example.com/x\n" + (
    'n1,16,64Gi,,4,A100,"zone=a,rack=r1","{""unschedulable"": true}",3\nn2,500m,1Gi,7,,,,,\n'
)


def load(tmp_path: Path, pods: str | bytes, nodes: str | None = None, trace: str = "csv") -> Workload:
    (tmp_path / "pods").write_bytes(pods.encode() if isinstance(pods, str) else pods)
    (tmp_path / "nodes").write_text(nodes or "")
    workload = Workload()
    add_tables(workload, trace, str(tmp_path / "nodes") if nodes else None, str(tmp_path / "pods"), "koord-scheduler")
    return workload


def pod(tmp_path: Path, header: str, row: str) -> dict[str, Any]:
    (arrival,) = load(tmp_path, f"{header}\n{row}\n").arrivals
    return arrival.manifest.body


def times(arrival: PodArrival) -> tuple[float, float | None, float | None]:
    return arrival.at, arrival.departs, arrival.runs


def mistakes(tmp_path: Path, pods: str | bytes, nodes: str | None = None) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(tmp_path, pods, nodes)
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


def parquet(columns: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def test_a_node_offers_what_its_row_says_and_its_gpus_are_in_a_device(tmp_path: Path) -> None:
    first, device, second = [manifest.body for manifest in load(tmp_path, "name\n", NODES).existing]
    shares = {"koordinator.sh/gpu-core": "400", "koordinator.sh/gpu-memory-ratio": "400"}
    assert first["status"]["allocatable"] == {"cpu": "16", "memory": "64Gi", "pods": "110", "example.com/x": "3", **shares}
    assert first["metadata"]["labels"].items() >= {"zone": "a", "rack": "r1", "node.koordinator.sh/gpu-model": "A100"}.items()
    assert first["spec"] == {"unschedulable": True}
    assert (device["metadata"]["name"], len(device["spec"]["devices"])) == ("n1", 4)
    assert second["status"]["allocatable"] == {"cpu": "500m", "memory": "1Gi", "pods": "7"}


def test_a_pod_requests_what_its_row_says(tmp_path: Path) -> None:
    spec = pod(tmp_path, "name,cpu,memory,gpu,gpu_model,request.example.com/x", "a,500m,1Gi,0.455,A100|T4,2")["spec"]
    shares = {"koordinator.sh/gpu-core": "46", "koordinator.sh/gpu-memory-ratio": "46"}
    (container,) = spec["containers"]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi", "example.com/x": "2", **shares}
    assert container["resources"]["limits"] == {"example.com/x": "2", **shares}
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "node.koordinator.sh/gpu-model", "operator": "In", "values": ["A100", "T4"]}]
    assert spec["schedulerName"] == "koord-scheduler"


def test_a_pod_has_the_metadata_that_its_row_says(tmp_path: Path) -> None:
    header = "name,namespace,qos,quota,labels,annotations,owner,gang,gang_min"
    metadata = pod(tmp_path, header, 'a,team,LSR,q,app=web,"{""k"": ""x,y""}",Job/train,g,3')["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("a", "team")
    assert metadata["labels"] == {"app": "web", "koordinator.sh/qosClass": "LSR", "quota.scheduling.koordinator.sh/name": "q"}
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "3"}
    assert metadata["annotations"] == {"k": "x,y", **gang}
    (owner,) = metadata["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"], owner["controller"]) == ("batch/v1", "Job", "train", True)


def test_a_pod_has_the_spec_that_its_row_says(tmp_path: Path) -> None:
    header = "name,priority,priority_class,node_selector,scheduler,spec"
    spec = pod(tmp_path, header, 'a,-5,high,zone=a,other,"{""tolerations"": [{""operator"": ""Exists""}]}"')["spec"]
    assert spec.items() >= {"priority": -5, "priorityClassName": "high", "nodeSelector": {"zone": "a"}, "schedulerName": "other"}.items()
    assert spec["tolerations"] == [{"operator": "Exists"}]


def test_a_gang_without_a_minimum_needs_all_its_rows(tmp_path: Path) -> None:
    bodies = [arrival.manifest.body for arrival in load(tmp_path, "name,gang,namespace\na,g,\nb,g,\nc,g,other\n").arrivals]
    found = [body["metadata"]["annotations"]["gang.scheduling.koordinator.sh/min-available"] for body in bodies]
    assert found == ["2", "2", "1"]


def test_pods_come_and_go_in_seconds_from_the_beginning(tmp_path: Path) -> None:
    workload = load(tmp_path, "name,arrival,end,duration\nlate,30,40,\nearly,1.5,,60\nbrief,2,2,\nstays,,,\n")
    found = {arrival.manifest.body["metadata"]["name"]: times(arrival) for arrival in workload.arrivals}
    assert found == {"stays": (0, None, None), "early": (1.5, None, 60), "brief": (2, 3, None), "late": (30, 40, None)}
    assert list(found) == ["stays", "early", "brief", "late"]


def test_dates_count_from_the_first_arrival_and_are_in_utc(tmp_path: Path) -> None:
    rows = "a,2026-03-01 12:00:30,2026-03-01T12:01:00Z\nb,2026-03-01T14:00:00+02:00,\n"
    workload = load(tmp_path, f"name,arrival,end\n{rows}")
    assert [times(arrival) for arrival in workload.arrivals] == [(0, None, None), (30, 60, None)]


def test_a_gzipped_table_is_read_like_the_text(tmp_path: Path) -> None:
    text = "name,cpu\na,2\n"
    assert load(tmp_path, gzip.compress(text.encode())) == load(tmp_path, text)


def test_parquet_says_the_same_as_csv(tmp_path: Path) -> None:
    stamps = [datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC)]
    columns = {
        "name": ["a", "b"],
        "arrival": pa.array(stamps, pa.timestamp("ns", "UTC")),
        "duration": pa.array([timedelta(seconds=90), None], pa.duration("s")),
        "cpu": [0.5, 2.0],
        "memory": pa.array([2**30, None], pa.int64()),
        "gpu": [None, 1],
        "labels": pa.array([[("app", "web")], None], pa.map_(pa.string(), pa.string())),
        "priority": pa.array([None, 7], pa.int32()),
    }
    text = "name,arrival,duration,cpu,memory,gpu,labels,priority\na,0,90,0.5,1073741824,,app=web,\nb,7,,2.0,,1,,7\n"
    found, expected = load(tmp_path, parquet(columns), trace="parquet"), load(tmp_path, text)
    assert [arrival.manifest.body for arrival in found.arrivals] == [arrival.manifest.body for arrival in expected.arrivals]
    assert [times(arrival) for arrival in found.arrivals] == [times(arrival) for arrival in expected.arrivals]
    assert found.arrivals[1].manifest.origin.endswith("pods: row 2")


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        ("arrival", "soon", "expected a number of seconds of at least 0, or a time such as 2026-03-01T12:00:00Z"),
        ("arrival", "-1", "expected a number of seconds of at least 0, or a time such as 2026-03-01T12:00:00Z"),
        ("duration", "nan", "expected a number"),
        ("duration", "-1", "expected a number of seconds of at least 0"),
        ("cpu", "4c", "expected a number with an optional suffix such as m, k, Ki, Mi, Gi or an exponent, not negative"),
        ("memory", "-1Gi", "expected a number with an optional suffix such as m, k, Ki, Mi, Gi or an exponent, not negative"),
        ("gpu", "1.5", "expected a share of a GPU between 0 and 1, or a whole number of GPUs"),
        ("priority", "1e12", "expected a whole number of 32 bits"),
        ("qos", "gold", "expected one of LSE, LSR, LS, BE, SYSTEM"),
        ("labels", "a", "expected key=value,key=value or a JSON object of texts"),
        ("annotations", "{3", "expected key=value,key=value or a JSON object of texts"),
        ("spec", "[]", "expected a JSON object"),
        ("owner", "Job", "expected KIND/NAME with a kind of DaemonSet, Job, ReplicaSet, StatefulSet"),
        ("gang_min", "0", "expected a whole number of at least 1"),
        ("request.example.com/x", "y", "expected a number with an optional suffix such as m, k, Ki, Mi, Gi or an exponent, not negative"),
    ],
)
def test_a_mistake_names_file_line_column_and_value(tmp_path: Path, column: str, cell: str, expected: str) -> None:
    assert mistakes(tmp_path, f"name,{column}\na,\nb,{cell}\n") == [f'pods: line 3: {column}: "{cell}": {expected}']


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name,cpu\na,1\n,1\n", 'pods: line 3: name: "": expected a value'),
        ("name\na\na\n", 'pods: line 3: name: "a": is that of the pod of {}/pods: line 2, too'),
        ("name,arrival\na,1\nb,2026-03-01\n", 'pods: line 3: arrival: "2026-03-01": expected seconds, as in the rows before'),
        ("name,duration,end\na,1,5\n", 'pods: line 2: duration: "1": expected nothing, as there is an end'),
        ("name,arrival,end\na,7,5\n", 'pods: line 2: end: "5": expected a time after the arrival'),
        ("name,gang_min\na,2\n", 'pods: line 2: gang_min: "2": expected a gang, too'),
        ('name,spec\na,"{""containers"":[]}"\n', "expected no containers: the columns say what the pod requests"),
        ('name,gpu_model,spec\na,T4,"{""affinity"":{}}"\n', "expected no affinity, as there is a gpu_model"),
        ("name,cpu\na,1,2\n", "pods: line 2: 3 cells, and the header has 2"),
        ('name\n"a\n', "pods: line 2: not CSV: unexpected end of data"),
        ("cpu\n1\n", "pods: line 1: no column name; the columns that are read are name, namespace, arrival"),
        ("name,name\na,b\n", "pods: the column name is there twice"),
    ],
)
def test_what_does_not_go_together_is_a_mistake(tmp_path: Path, text: str, expected: str) -> None:
    (line,) = mistakes(tmp_path, text)
    assert expected.replace("{}/", "") in line


def test_all_mistakes_are_said_at_once_up_to_a_number(tmp_path: Path) -> None:
    rows = "".join(f"p{number},x\n" for number in range(MOST_MISTAKES + 2))
    found = mistakes(tmp_path, f"name,cpu\n{rows}", "name,cpu,memory\nn,y,1Gi\n")
    assert found[0].startswith('nodes: line 2: cpu: "y": ')
    assert found[1].startswith('pods: line 2: cpu: "x": ')
    assert found[MOST_MISTAKES:] == ["... and 3 more mistakes"]


def test_columns_that_are_not_read_are_noted(tmp_path: Path) -> None:
    notes = load(tmp_path, "name,colour,duraton\na,red,1\n").notes
    assert [note.replace(f"{tmp_path}/", "") for note in notes] == [
        "note: pods: left out: column colour",
        "note: pods: left out: column duraton; did you mean 'duration'?",
    ]


def test_a_table_of_the_other_format_says_which_it_is(tmp_path: Path) -> None:
    assert mistakes(tmp_path, parquet({"name": ["a"]})) == ["pods: is parquet: say --trace parquet"]


def test_files_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: cannot be read: No such file or directory"):
        add_tables(Workload(), "csv", None, str(tmp_path / "nowhere"), "s")
    assert mistakes(tmp_path, b"name\n\xff\n") == ["pods: not UTF-8 text"]
    assert mistakes(tmp_path, gzip.compress(b"name\na\n")[:-9])[0].startswith("pods: cannot be read: ")
    assert mistakes(tmp_path, b"PAR1 nothing")[0].startswith("pods: not a Parquet file: ")


def test_without_pyarrow_parquet_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = parquet({"name": ["a"]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert mistakes(tmp_path, content) == ["pods: to read Parquet, install the package pyarrow: pip install 'koordsched[parquet]'"]


def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str], pods: str, *inputs: str) -> Any:
    (tmp_path / "pods.csv").write_text(pods)
    assert main(["simulate", *inputs, "--trace", "csv", "--pods", str(tmp_path / "pods.csv"), "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


MANIFESTS = "kind: Node\napiVersion: v1\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: 4, memory: 8Gi}}\n"


def test_a_duration_begins_when_the_pod_has_a_node_and_makes_room_at_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "node.yaml").write_text(MANIFESTS)
    pods = "name,arrival,duration,cpu\na,0,7200,4\nb,10,3600,4\nc,20,5,4\n"
    result = simulated(tmp_path, capsys, pods, str(tmp_path / "node.yaml"))
    assert [placed["pod"] for placed in result["placements"]] == ["default/a", "default/b", "default/c"]
    assert result["summary"]["allocation"]["cpu"] == 1.0


def test_a_preempted_pod_stays_preempted_when_its_time_to_leave_has_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "node.yaml").write_text(MANIFESTS)
    pods = "name,arrival,end,cpu,priority\na,0,100,4,1\nb,10,,4,9\n"
    result = simulated(tmp_path, capsys, pods, str(tmp_path / "node.yaml"))
    assert [placed["pod"] for placed in result["placements"]] == ["default/b"]
    assert result["pending"][0]["reason"].startswith("preempted: ")


def test_manifests_beside_a_table_describe_gangs_and_quotas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    group = "kind: PodGroup\napiVersion: scheduling.sigs.k8s.io/v1alpha1\nmetadata: {name: g}\nspec: {minMember: 1}\n"
    (tmp_path / "node.yaml").write_text(f"{MANIFESTS}---\n{group}")
    result = simulated(tmp_path, capsys, "name,cpu,gang\na,3,g\nb,3,g\n", str(tmp_path / "node.yaml"))
    (gang,) = result["summary"]["coscheduling"]["gangs"]
    assert (gang["min"], gang["placed"], gang["waiting"]) == (1, 1, 1)


def test_the_documentation_has_every_column() -> None:
    text = (Path(__file__).parents[3] / "docs/simulate.md").read_text()
    section = text.partition("## Tables of pods")[2].partition("\n## ")[0]
    pods, _, nodes = section.partition("Nodes can be")
    for known, part, other in ((POD_COLUMNS, pods, "request.RESOURCE"), (NODE_COLUMNS, nodes, "allocatable.RESOURCE")):
        found = [name for line in re.findall(r"^\| (`.*?) \|", part, re.MULTILINE) for name in re.findall(r"`([^`]+)`", line)]
        assert sorted(found) == sorted([*known, other])
