"""Alibaba's openb trace (cluster-trace-gpu-v2023, CSV) -> a workload.

A node's GPUs are the extended resource `nvidia.com/gpu`, its model the label `node.koordinator.sh/gpu-model`; a pod asks for its `num_gpu`
whole GPUs (a share of one counts as one) and, where `gpu_spec` lists models (`A|B`), for a node with one of them. `qos` and `pod_phase`
are not used. Numbers go into quantities as they stand, so that the API's validation judges them; only times are read here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from koordsched.api.kinds import NODE, POD
from koordsched.manifests.completion import complete_node
from koordsched.manifests.documents import InputError
from koordsched.simulate.workload import Manifest, PodArrival, Workload

GPU = "nvidia.com/gpu"
MODEL_LABEL = "node.koordinator.sh/gpu-model"

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu")
CREATED, DELETED = "creation_time", "deletion_time"

SHORTEST_RUN = 1.0
"""Seconds that a pod at least stays: the trace's clock ticks in seconds."""


def load_openb(nodes: str, pods: str, scheduler_name: str) -> Workload:
    """Read the trace's two files; pods come and go at its times where it has them.

    InputError: a file cannot be read, lacks a column, or holds a time that is none.
    """
    existing = [Manifest(origin, NODE, _node(cells)) for origin, cells in _rows(nodes, NODE_COLUMNS)]
    made = _Pods(scheduler_name)
    arrivals = [
        PodArrival(Manifest(origin, POD, made.pod(name, tuple(asked))), *_times(origin, created, deleted))
        for origin, (name, *asked, created, deleted) in _rows(pods, POD_COLUMNS, ("gpu_spec", CREATED, DELETED))
    ]
    arrivals.sort(key=lambda arrival: arrival.at)
    return Workload(existing, arrivals)


def _rows(file: str, columns: tuple[str, ...], optional: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what each line of a CSV file says in these columns, with where it stands. What it leaves out is ""."""
    try:
        with open(file, "rb") as opened:
            text = opened.read().decode("utf-8-sig")
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
        width = len(header)
        index = {column: position for position, column in enumerate(header)}
        pick = itemgetter(*(index.get(column, width) for column in (*columns, *optional)))
        blank = [""] * width
        for cells in reader:
            if cells:
                whole = cells if len(cells) == width else [*cells, *blank][:width]
                whole.append("")  # for a column that is not there
                yield f"{file}: line {reader.line_num}", pick(whole)
    except csv.Error as mistake:
        raise InputError(f"{file}: line {reader.line_num}: not CSV: {mistake}") from None


def _node(cells: tuple[str, ...]) -> dict[str, Any]:
    name, cpu, memory, gpus, model = cells
    allocatable = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    if gpus not in {"", "0"}:
        allocatable[GPU] = gpus
    labels = {MODEL_LABEL: model} if model else {}
    return complete_node({"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}})


class _Pods:
    """Makes pods of rows; pods with equal requests share their spec, which is never written to."""

    def __init__(self, scheduler_name: str) -> None:
        self._scheduler_name = scheduler_name
        self._specs: dict[tuple[str, ...], dict[str, Any]] = {}

    def pod(self, name: str, asked: tuple[str, ...]) -> dict[str, Any]:
        spec = self._specs.get(asked)
        if spec is None:
            spec = self._specs[asked] = _spec(asked, self._scheduler_name)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _spec(asked: tuple[str, ...], scheduler_name: str) -> dict[str, Any]:
    cpu, memory, gpus, models = asked
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    resources = {"requests": requests}
    if gpus not in {"", "0"}:
        requests[GPU] = gpus
        resources["limits"] = {GPU: gpus}
    spec: dict[str, Any] = {
        "schedulerName": scheduler_name,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "pause", "resources": resources}],
    }
    if models:
        expression = {"key": MODEL_LABEL, "operator": "In", "values": models.split("|")}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return spec


def _times(origin: str, came: str, left: str) -> tuple[float, float | None]:
    """Return when the pod comes and goes, in seconds; at 0 and never where the trace does not say."""
    created = _seconds(origin, CREATED, came) if came else 0.0
    deleted = _seconds(origin, DELETED, left) if left else None
    return created, None if deleted is None else max(deleted, created + SHORTEST_RUN)


def _seconds(origin: str, column: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e11:  # noqa: PLR2004  # three thousand years; refuses nan and inf too
        raise InputError(f"{origin}: {column}: {text!r}: expected a number of seconds")
    return seconds
