"""Alibaba's openb trace (cluster-trace-gpu-v2023, CSV) -> a workload.

A node's GPUs are the extended resource `nvidia.com/gpu`, its model the label `node.koordinator.sh/gpu-model`; a pod asks for its `num_gpu`
whole GPUs (a share of one counts as one) and, where `gpu_spec` lists models (`A|B`), for a node with one of them. `qos` and `pod_phase`
are not used. Numbers go into quantities as they stand, so that the API's validation judges them; only times are read here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from koordsched.api.kinds import NODE, POD
from koordsched.simulate.completion import complete_node
from koordsched.simulate.documents import InputError
from koordsched.simulate.workload import Manifest, PodArrival, Workload

GPU = "nvidia.com/gpu"
MODEL_LABEL = "node.koordinator.sh/gpu-model"

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu")
CREATED, DELETED = "creation_time", "deletion_time"

SHORTEST_RUN = 1.0
"""Seconds that a pod at least stays: the trace's clock ticks in seconds."""

Row = dict[str, str]


def load_openb(nodes: str, pods: str, scheduler_name: str) -> Workload:
    """Read the trace's two files; pods come and go at its times where it has them.

    InputError: a file cannot be read, lacks a column, or holds a time that is none.
    """
    existing = [Manifest(origin, NODE, _node(row)) for origin, row in _rows(nodes, NODE_COLUMNS)]
    rows = _rows(pods, POD_COLUMNS)
    made = _Pods(scheduler_name)
    arrivals = [PodArrival(Manifest(origin, POD, made.pod(row)), *_times(origin, row)) for origin, row in rows]
    arrivals.sort(key=lambda arrival: arrival.at)
    return Workload(existing, arrivals)


def _rows(file: str, columns: tuple[str, ...]) -> Iterator[tuple[str, Row]]:
    """Yield each line of a CSV file as a map, with where it stands."""
    try:
        text = Path(file).read_bytes().decode("utf-8-sig")
    except OSError as mistake:
        raise InputError(f"{file}: cannot be read: {mistake.strerror}") from None
    except ValueError:
        raise InputError(f"{file}: not UTF-8 text") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        missing = [column for column in columns if column not in header]
        if missing:
            raise InputError(f"{file}: line 1: no column {', '.join(missing)}; expected {','.join(columns)}")
        blank = dict.fromkeys(header, "")  # what a short line leaves out
        for cells in reader:
            if cells:
                row = dict(zip(header, cells, strict=False))
                yield f"{file}: line {reader.line_num}", row if len(row) == len(blank) else {**blank, **row}
    except csv.Error as mistake:
        raise InputError(f"{file}: line {reader.line_num}: not CSV: {mistake}") from None


def _node(row: Row) -> dict[str, Any]:
    allocatable = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    if row["gpu"] not in {"", "0"}:
        allocatable[GPU] = row["gpu"]
    labels = {MODEL_LABEL: row["model"]} if row["model"] else {}
    return complete_node({"kind": "Node", "metadata": {"name": row["sn"], "labels": labels}, "status": {"allocatable": allocatable}})


class _Pods:
    """Makes pods of rows; pods that ask for the same share their spec, which nobody writes to."""

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._specs: dict[tuple[str, ...], dict[str, Any]] = {}

    def pod(self, row: Row) -> dict[str, Any]:
        asked = (row["cpu_milli"], row["memory_mib"], row["num_gpu"], row.get("gpu_spec", ""))
        spec = self._specs.get(asked)
        if spec is None:
            spec = self._specs[asked] = _spec(row, self._scheduler_name)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": row["name"], "namespace": "default"}, "spec": spec}


def _spec(row: Row, scheduler_name: str) -> dict[str, Any]:
    requests = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    resources = {"requests": requests}
    if row["num_gpu"] not in {"", "0"}:
        requests[GPU] = row["num_gpu"]
        resources["limits"] = {GPU: row["num_gpu"]}
    spec: dict[str, Any] = {
        "schedulerName": scheduler_name,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "pause", "resources": resources}],
    }
    if row.get("gpu_spec"):
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _one_of(row["gpu_spec"].split("|"))}}
    return spec


def _one_of(models: list[str]) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": MODEL_LABEL, "operator": "In", "values": models}]}]}


def _times(origin: str, row: Row) -> tuple[float, float | None]:
    """Return when the pod comes and goes, in seconds; (0, None) when the trace has no times."""
    created = _seconds(origin, CREATED, row.get(CREATED, ""))
    deleted = _seconds(origin, DELETED, row.get(DELETED, ""))
    if created is None:
        return 0.0, None
    return created, None if deleted is None else max(deleted, created + SHORTEST_RUN)


def _seconds(origin: str, column: str, text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e11:  # noqa: PLR2004  # three thousand years; refuses nan and inf too
        raise InputError(f"{origin}: {column}: {text!r}: expected a number of seconds")
    return seconds
